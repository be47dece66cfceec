/* The table of commands, finding one by its name, and corestack help. First step of every run. */
#include "cli.h"

#include <string.h>

const cli_command *const CLI_COMMANDS[] = {&CLI_FIT,     &CLI_PREDICT,  &CLI_ADAPT,   &CLI_ONLINE,
                                           &CLI_MONITOR, &CLI_EVALUATE, &CLI_COMPARE, &CLI_ABLATE,
                                           &CLI_SWEEP,   &CLI_INSPECT,  &CLI_SHOW,    &CLI_PROFILE,
                                           &CLI_BOUND,   &CLI_FOLDS,    &CLI_SOUP,    &CLI_SWA,
                                           &CLI_SWAG,    &CLI_OPTIONS,  &CLI_HELP,    NULL};

const cli_command *cli_find_command(const char *name) {
    for (size_t i = 0; CLI_COMMANDS[i]; i++)
        if (strcmp(CLI_COMMANDS[i]->name, name) == 0)
            return CLI_COMMANDS[i];
    return NULL;
}

const cli_command *cli_find_part(const cli_command *command, const char *word) {
    for (size_t i = 0; command->parts && command->parts[i]; i++)
        if (strcmp(cli_part_word(command, command->parts[i]), word) == 0)
            return command->parts[i];
    return NULL;
}

int cli_no_part(const cli_command *command, const char *word) {
    cli_call call = {.command = command};
    const char *words[8] = {NULL};
    int count = 0;
    for (size_t i = 0; command->parts[i] && count < 8; i++)
        words[count++] = cli_part_word(command, command->parts[i]);
    const char *nearest = word && *word != '-' ? cli_nearest(word, words, count) : NULL;
    if (nearest)
        return cli_fail(&call, "'%s' has no subcommand '%s'; did you mean '%s'?", command->name,
                        word, nearest);
    return cli_fail(&call, "name a subcommand: %s%s%s%s%s; see `corestack %s --help`", words[0],
                    count > 1 ? (count > 2 ? ", " : " or ") : "", count > 1 ? words[1] : "",
                    count > 2 ? " or " : "", count > 2 ? words[2] : "", command->name);
}

static int run(cli_call *call) {
    if (call->argument_count == 0)
        return cli_help_all(CLI_COMMANDS);
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
