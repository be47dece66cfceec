/*
 * corestack help: what the tool and each of its commands take.
 * Paper: none.
 */
#include "cli.h"

#include <stdio.h>
#include <string.h>

const cli_option CLI_COMMON_OPTIONS[] = {
    {"json", 'j', NULL, "one JSON document on standard output"},
    {"threads", 't', "N", "threads to use (0: one for each core); results do not depend on it"},
    {"memory", 0, "SIZE",
     "memory to stay within, as 2GiB or 500MB (a quarter of the machine's); results do not depend "
     "on it"},
    {"color", 0, "WHEN", "auto, always or never; NO_COLOR is obeyed"},
    {"quiet", 'q', NULL, "no progress and no notices"},
    {"verbose", 'v', NULL, "say what is being done"},
    {"help", 'h', NULL, "this text"},
    {NULL, 0, NULL, NULL},
};

const cli_option CLI_POOL_OPTIONS[] = {
    {"labels", 'l', "Y.npy", "labels, where the pool is a list of files or a folder without them"},
    {"ids", 0, "IDS.npy", "sample ids of the rows"},
    {"folds", 0, "F.npy", "fold of every row (otherwise made from the seed)"},
    {"groups", 0, "G.npy", "group of every row; groups never cross folds"},
    {"weights", 0, "W.npy", "weight of every row in losses and scores; 0 leaves a row out"},
    {"values", 0, "KIND", "what the numbers are: probability (default) or logit"},
    {"task", 0, "TASK",
     "classification (default), regression, segmentation or detection, if there is no manifest"},
    {"ignore", 0, "LABEL", "segmentation: label of pixels that do not count (255)"},
    {"layout", 0, "ORDER", "segmentation: channels-last or channels-first, where both could be"},
    {"classes", 0, "C", "number of classes, where the files alone cannot say it"},
    {"allow-outside", 0, NULL, "let a manifest or folder lead to files outside it"},
    {NULL, 0, NULL, NULL},
};

const cli_command *const CLI_COMMANDS[] = {&CLI_FIT,     &CLI_PREDICT, &CLI_EVALUATE, &CLI_COMPARE,
                                           &CLI_ABLATE,  &CLI_SWEEP,   &CLI_INSPECT,  &CLI_BOUND,
                                           &CLI_FOLDS,   &CLI_SOUP,    &CLI_SWA,      &CLI_SWAG,
                                           &CLI_OPTIONS, &CLI_HELP,    NULL};

const cli_command *cli_find_command(const char *name) {
    for (size_t i = 0; CLI_COMMANDS[i]; i++)
        if (strcmp(CLI_COMMANDS[i]->name, name) == 0)
            return CLI_COMMANDS[i];
    return NULL;
}

/* What follows the command's name in the name of its part. */
static const char *part_word(const cli_command *command, const cli_command *part) {
    return part->name + strlen(command->name) + 1;
}

const cli_command *cli_find_part(const cli_command *command, const char *word) {
    for (size_t i = 0; command->parts && command->parts[i]; i++)
        if (strcmp(part_word(command, command->parts[i]), word) == 0)
            return command->parts[i];
    return NULL;
}

int cli_no_part(const cli_command *command, const char *word) {
    cli_call call = {.command = command};
    const char *words[8] = {NULL};
    int count = 0;
    for (size_t i = 0; command->parts[i] && count < 8; i++)
        words[count++] = part_word(command, command->parts[i]);
    const char *nearest = word && *word != '-' ? cli_nearest(word, words, count) : NULL;
    if (nearest)
        return cli_fail(&call, "there is no '%s %s'; did you mean '%s'?", command->name, word,
                        nearest);
    return cli_fail(&call, "say which one first: %s%s%s%s%s; see `corestack %s --help`", words[0],
                    count > 1 ? (count > 2 ? ", " : " or ") : "", count > 1 ? words[1] : "",
                    count > 2 ? " or " : "", count > 2 ? words[2] : "", command->name);
}

int cli_help_all(void) {
    cli_out("corestack %s: many models' saved predictions into one small, calibrated ensemble\n\n",
            cst_version());
    cli_out("Usage: corestack COMMAND [arguments] [options]\n\nCommands:\n");
    for (size_t i = 0; CLI_COMMANDS[i]; i++)
        cli_out("  %-10s %s\n", CLI_COMMANDS[i]->name, CLI_COMMANDS[i]->summary);
    cli_out("\nA POOL is a pool.json, a folder of prediction files, or --labels y.npy a.npy b.npy "
            "...\n"
            "`corestack COMMAND --help` says what a command takes, with an example.\n\n"
            "Results go to standard output, everything else to standard error. Exit status: 0 "
            "success,\n"
            "1 the answer is \"no\", 2 bad usage or bad input, 3 internal error.\n\n"
            "Start with:\n"
            "  corestack fit examples/digits/pool.json -o digits.cstack\n");
    return CLI_OK;
}

static void print_options(const char *heading, const cli_option *options) {
    if (!options || !options->name)
        return;
    cli_out("\n%s:\n", heading);
    for (const cli_option *option = options; option->name; option++) {
        char names[64];
        (void)snprintf(names, sizeof names, "--%s%s%s", option->name, option->value ? " " : "",
                       option->value ? option->value : "");
        if (option->letter)
            cli_out("  -%c, %-20s %s\n", option->letter, names, option->help);
        else
            cli_out("      %-20s %s\n", names, option->help);
    }
}

/* Text of several lines, each after `prefix`. */
static void print_lines(const char *prefix, const char *lines) {
    while (*lines) {
        size_t length = strcspn(lines, "\n");
        cli_out("%s%.*s\n", prefix, (int)length, lines);
        lines += length;
        lines += *lines == '\n';
    }
}

int cli_help_command(const cli_command *command) {
    cli_out("corestack %s: %s\n\nUsage:\n", command->name, command->summary);
    print_lines("  corestack ", command->usage);
    if (command->details) {
        cli_out("\n");
        print_lines("", command->details);
    }
    for (size_t i = 0; command->parts && command->parts[i]; i++)
        cli_out("%s  %-10s %s\n", i == 0 ? "\n" : "", part_word(command, command->parts[i]),
                command->parts[i]->summary);
    print_options("Options", command->options);
    if (command->takes_pool)
        print_options("The pool: a pool.json, a folder, or a list of prediction files",
                      CLI_POOL_OPTIONS);
    print_options("Always", CLI_COMMON_OPTIONS);
    if (command->lists_options) {
        cli_out("\nOptions for --set KEY=VALUE (`corestack options` says more):\n");
        for (size_t i = 0; cst_option_at(i); i++)
            cli_out("  %-26s %-14s %s\n", cst_option_at(i)->key, cst_option_at(i)->initial,
                    cst_option_at(i)->help);
    }
    cli_out("\nExample:\n");
    print_lines("  ", command->example);
    return CLI_OK;
}

static int run(cli_call *call) {
    if (call->argument_count == 0)
        return cli_help_all();
    const cli_command *command = cli_find_command(call->arguments[0]);
    if (!command)
        return cli_fail(call, "there is no command '%s'; `corestack help` lists them",
                        call->arguments[0]);
    if (call->argument_count == 1 || !command->parts)
        return cli_help_command(command);
    const cli_command *part = cli_find_part(command, call->arguments[1]);
    return part ? cli_help_command(part) : cli_no_part(command, call->arguments[1]);
}

const cli_command CLI_HELP = {
    .name = "help",
    .summary = "this list, or what a command takes",
    .usage = "help [COMMAND [PART]]",
    .example = "corestack help fit",
    .run = run,
};
