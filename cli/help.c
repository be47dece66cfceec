/*
 * corestack help: what the tool and each of its commands take.
 * Paper: none.
 */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

const cli_option CLI_COMMON_OPTIONS[] = {
    {"json", 'j', NULL, "print one JSON document to standard output"},
    {"threads", 't', "N", "number of threads (0 = one per core); results do not depend on it"},
    {"memory", 0, "SIZE",
     "memory limit, e.g. 2GiB or 500MB (a quarter of the machine's memory); results do not depend "
     "on it"},
    {"color", 0, "WHEN", "auto, always or never; NO_COLOR is respected"},
    {"quiet", 'q', NULL, "show neither progress nor notices"},
    {"verbose", 'v', NULL, "show what is being done"},
    {"help", 'h', NULL, "show this help"},
    {NULL, 0, NULL, NULL},
};

const cli_option CLI_POOL_OPTIONS[] = {
    {"labels", 'l', "Y.npy", "labels, if the pool is a list of files or a folder without labels"},
    {"ids", 0, "IDS.npy", "sample ids of the rows"},
    {"folds", 0, "F.npy", "fold of every row (made from the seed if not given)"},
    {"groups", 0, "G.npy", "group of every row; no group is split between folds"},
    {"weights", 0, "W.npy", "weight of every row in losses and scores; 0 leaves a row out"},
    {"values", 0, "KIND", "what the predictions are: probability (default) or logit"},
    {"task", 0, "TASK",
     "task of a pool without a manifest: classification (default), regression, segmentation or "
     "detection"},
    {"ignore", 0, "LABEL", "segmentation: label of pixels to ignore (255)"},
    {"layout", 0, "ORDER",
     "segmentation: channels-last or channels-first, if the shape allows both"},
    {"classes", 0, "C", "number of classes, if the files do not determine it"},
    {"allow-outside", 0, NULL, "allow a manifest or folder to refer to files outside it"},
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
        return cli_fail(&call, "'%s' has no subcommand '%s'; did you mean '%s'?", command->name,
                        word, nearest);
    return cli_fail(&call, "name a subcommand: %s%s%s%s%s; see `corestack %s --help`", words[0],
                    count > 1 ? (count > 2 ? ", " : " or ") : "", count > 1 ? words[1] : "",
                    count > 2 ? " or " : "", count > 2 ? words[2] : "", command->name);
}

/* ---- wrapping ---- */

enum { WIDTH_MAX = 100, WIDTH_MIN = 40, HELP_COLUMN = 31 };

/* Columns to fill: 100, or those of the terminal if it is narrower. */
static int page_width(void) {
    const char *set = getenv("COLUMNS");
    struct winsize size = {0};
    long width = 0;
    if (!isatty(STDOUT_FILENO))
        return WIDTH_MAX;
    if (set)
        width = strtol(set, NULL, 10);
    if (width <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        width = size.ws_col;
    if (width <= 0 || width > WIDTH_MAX)
        return WIDTH_MAX;
    return width < WIDTH_MIN ? WIDTH_MIN : (int)width;
}

/* Length of the next word. A quoted command, as `corestack options`, counts as one word. */
static size_t word_length(const char *text) {
    size_t length = 0;
    bool quoted = false;
    while (text[length] && text[length] != '\n' && (quoted || text[length] != ' ')) {
        quoted ^= text[length] == '`';
        length++;
    }
    return length;
}

void cli_out_wrapped(int column, int indent, const char *text) {
    int width = page_width();
    bool fresh = true; /* nothing but the margin is on the line */
    while (*text) {
        size_t length = word_length(text);
        bool fits = column + !fresh + (int)length <= width;
        if (length > 0 && !fits && !fresh) {
            cli_out("\n%*s", indent, "");
            column = indent;
            fresh = true;
        }
        if (length > 0) {
            cli_out("%s%.*s", fresh ? "" : " ", (int)length, text);
            column += !fresh + (int)length;
            fresh = false;
        }
        text += length;
        if (*text == '\n') {
            cli_out("\n%*s", indent, "");
            column = indent;
            fresh = true;
        }
        text += *text != '\0';
    }
    cli_out("\n");
}

void cli_out_entry(int margin, const char *name, int column, const char *help) {
    int used = margin + (int)strlen(name);
    bool below = used + 1 > column;
    if (column > page_width() / 2) {
        column = margin + 4;
        below = true;
    }
    cli_out("%*s%s", margin, "", name);
    cli_out(below ? "\n%*s" : "%*s", below ? column : column - used, "");
    cli_out_wrapped(column, column, help);
}

/* Each line after `margin` columns: wrapped, with the rest of a long line further in. */
static void print_lines(int margin, const char *prefix, const char *lines) {
    char line[512];
    while (*lines) {
        size_t length = strcspn(lines, "\n");
        (void)snprintf(line, sizeof line, "%s%.*s", prefix, (int)length, lines);
        cli_out("%*s", margin, "");
        cli_out_wrapped(margin, margin + 4, line);
        lines += length;
        lines += *lines == '\n';
    }
}

/* ---- pages ---- */

/* The options of --set that most users change, in the order of the help. */
static const char *const COMMON_KEYS[] = {
    "keep.max",         "keep.fraction", "keep.max_flops", "cka.threshold", "select.rule",
    "select.tolerance", "meta.learners", "fit.balance",    "folds.count",   "evaluate.nested",
};

int cli_help_all(void) {
    char line[160];
    (void)snprintf(line, sizeof line, "corestack %s: %s", cst_version(),
                   "turn the saved predictions of many models into one small, calibrated ensemble");
    cli_out_wrapped(0, 0, line);
    cli_out("\nUsage: corestack COMMAND [arguments] [options]\n\nCommands:\n");
    for (size_t i = 0; CLI_COMMANDS[i]; i++)
        cli_out_entry(2, CLI_COMMANDS[i]->name, 13, CLI_COMMANDS[i]->summary);
    cli_out("\n");
    cli_out_wrapped(0, 0,
                    "POOL is a pool.json, a folder of prediction files, or --labels y.npy a.npy "
                    "b.npy ...\n"
                    "`corestack COMMAND --help` shows the options of a command, with an example.");
    cli_out("\n");
    cli_out_wrapped(0, 0,
                    "Results go to standard output, everything else to standard error. Exit "
                    "status: 0 = success, 1 = the answer is \"no\", 2 = wrong usage or invalid "
                    "input, 3 = internal error.");
    cli_out("\nTo get started:\n  corestack fit examples/digits/pool.json -o digits.cstack\n");
    return CLI_OK;
}

static void print_options(const char *heading, const cli_option *options) {
    if (!options || !options->name)
        return;
    cli_out("\n");
    cli_out_wrapped(0, 0, heading);
    for (const cli_option *option = options; option->name; option++) {
        char names[64];
        char letter[8] = "";
        if (option->letter)
            (void)snprintf(letter, sizeof letter, "-%c, ", option->letter);
        (void)snprintf(names, sizeof names, "%s--%s%s%s", letter, option->name,
                       option->value ? " " : "", option->value ? option->value : "");
        cli_out_entry(option->letter ? 2 : 6, names, HELP_COLUMN, option->help);
    }
}

static const cst_option_spec *find_key(const char *key) {
    for (size_t i = 0; cst_option_at(i); i++)
        if (strcmp(cst_option_at(i)->key, key) == 0)
            return cst_option_at(i);
    return NULL;
}

/* The common options of the method, and where all of them are listed. */
static void print_method_options(void) {
    char text[512];
    cli_out("\nOften changed with --set KEY=VALUE:\n");
    for (size_t i = 0; i < sizeof COMMON_KEYS / sizeof COMMON_KEYS[0]; i++) {
        const cst_option_spec *spec = find_key(COMMON_KEYS[i]);
        if (!spec)
            continue;
        (void)snprintf(text, sizeof text, "%s Default: %s.", spec->help, spec->initial);
        cli_out_entry(2, spec->key, HELP_COLUMN, text);
    }
    cli_out("`corestack options` lists all %zu options.\n", cst_option_count());
}

int cli_help_command(const cli_command *command) {
    char title[160];
    (void)snprintf(title, sizeof title, "corestack %s: %s", command->name, command->summary);
    cli_out_wrapped(0, 0, title);
    cli_out("\nUsage:\n");
    print_lines(2, "corestack ", command->usage);
    if (command->details) {
        cli_out("\n");
        cli_out_wrapped(0, 0, command->details);
    }
    for (size_t i = 0; command->parts && command->parts[i]; i++) {
        if (i == 0)
            cli_out("\nSubcommands:\n");
        cli_out_entry(2, part_word(command, command->parts[i]), 13, command->parts[i]->summary);
    }
    print_options("Options (defaults in parentheses):", command->options);
    if (command->takes_pool)
        print_options(
            "Pool options (POOL is a pool.json, a folder, or a list of prediction files):",
            CLI_POOL_OPTIONS);
    print_options("General options:", CLI_COMMON_OPTIONS);
    if (command->lists_options)
        print_method_options();
    cli_out("\nExample:\n");
    for (const char *at = command->example; *at; at += strcspn(at, "\n"), at += *at == '\n')
        cli_out("  %.*s\n", (int)strcspn(at, "\n"), at);
    return CLI_OK;
}

static int run(cli_call *call) {
    if (call->argument_count == 0)
        return cli_help_all();
    const cli_command *command = cli_find_command(call->arguments[0]);
    if (!command)
        return cli_fail(call, "unknown command '%s'; `corestack help` lists them",
                        call->arguments[0]);
    if (call->argument_count == 1 || !command->parts)
        return cli_help_command(command);
    const cli_command *part = cli_find_part(command, call->arguments[1]);
    return part ? cli_help_command(part) : cli_no_part(command, call->arguments[1]);
}

const cli_command CLI_HELP = {
    .name = "help",
    .summary = "list the commands, or show the options of one",
    .usage = "help [COMMAND [SUBCOMMAND]]",
    .example = "corestack help fit",
    .run = run,
};
