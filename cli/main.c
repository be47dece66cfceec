/* The command-line tool: its commands, `corestack help`, and how one is chosen and run. */
#include "cli.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const cli_command HELP;

static const cli_command *const COMMANDS[] = {
    &CLI_FIT,     &CLI_PREDICT, &CLI_ADAPT, &CLI_ONLINE,  &CLI_MONITOR, &CLI_EVALUATE,
    &CLI_COMPARE, &CLI_ABLATE,  &CLI_SWEEP, &CLI_INSPECT, &CLI_SHOW,    &CLI_PROFILE,
    &CLI_BOUND,   &CLI_FOLDS,   &CLI_SOUP,  &CLI_SWA,     &CLI_SWAG,    &CLI_EXPORT,
    &CLI_REPORT,  &CLI_OPTIONS, &HELP,      NULL};

static const cli_command *find_command(const char *name) {
    for (size_t i = 0; COMMANDS[i]; i++)
        if (strcmp(COMMANDS[i]->name, name) == 0)
            return COMMANDS[i];
    return NULL;
}

/* The part of a command that goes by the word, or NULL. */
static const cli_command *find_part(const cli_command *command, const char *word) {
    for (size_t i = 0; command->parts && command->parts[i]; i++)
        if (strcmp(cli_part_word(command, command->parts[i]), word) == 0)
            return command->parts[i];
    return NULL;
}

/* Says that the command needs a part, or has none called `word` (or NULL). */
static int no_part(const cli_command *command, const char *word) {
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

static int help(cli_call *call) {
    int words = call->argument_count;
    bool all = words > 1 && strcmp(call->arguments[words - 1], "all") == 0;
    words -= all;
    if (words == 0)
        return cli_help_all(COMMANDS);
    const cli_command *command = find_command(call->arguments[0]);
    if (!command)
        return cli_fail(call, "unknown command '%s'; `corestack help` lists them",
                        call->arguments[0]);
    if (words == 1 || !command->parts)
        return cli_help_command(command, all);
    const cli_command *part = find_part(command, call->arguments[1]);
    return part ? cli_help_command(part, all) : no_part(command, call->arguments[1]);
}

static const cli_command HELP = {
    .name = "help",
    .summary = "list the commands, or show the options of one",
    .usage = "help [COMMAND [SUBCOMMAND] [all]]",
    .example = "corestack help fit",
    .run = help,
};

/* Replaces closed standard streams, whose numbers would go to the first files opened, by a failing
 * stdout or empty ones. */
static void guard_standard_streams(void) {
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
        if (fcntl(stream, F_GETFD) < 0)
            (void)open("/dev/null", stream == STDOUT_FILENO ? O_RDONLY : O_RDWR);
}

/* The least stack that every command gets by with several times over. */
#define STACK_MIN ((rlim_t)256 << 10)

/* Raises a limited stack (ulimit -s), which counts from the next growth on. */
static bool guard_stack(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= STACK_MIN)
        return true;
    static cli_call nobody; /* too large for a small stack */
    rlim_t had = limit.rlim_cur;
    limit.rlim_cur = STACK_MIN;
    if (limit.rlim_max >= STACK_MIN && setrlimit(RLIMIT_STACK, &limit) == 0)
        return true;
    (void)cli_fail(&nobody, "the stack is limited to %llu KiB: raise the limit (ulimit -s) to %llu",
                   (unsigned long long)had >> 10, (unsigned long long)STACK_MIN >> 10);
    return false;
}

/* Everything is printed and written before a lock is given back. */
static int end_command(cli_call *call, int code) {
    code = cli_end_report(call, code);
    if (call->outfile_count > 0 || call->save.folder)
        code = cli_close_outfiles(call, code);
    if (code != CLI_OK && call->save.folder)
        cli_drop_save(call);
    cst_context *context = call->context;
    cst_unlock_file(context, call->lock);
    for (int i = 0; i < call->result_count; i++)
        cst_free(context, call->results[i]);
    for (int i = 0; i < call->more_count; i++)
        cst_report_free(context, call->more[i]);
    cst_monitor_free(context, call->monitor);
    cst_adapter_free(context, call->adapter);
    cst_guard_report_free(context, call->guard);
    cst_label_report_free(context, call->shares);
    cst_options_free(context, call->options);
    cst_pool_free(context, call->pool);
    cst_model_free(context, call->model);
    return code == CLI_OK && call->no ? CLI_NO : code;
}

/* Before the command: the context with its settings, the ranks. */
static int start_command(cli_call *call, int argc, char **argv) {
    CLI_DO(cst_context_create(&call->context));
    CLI_TRY(cli_attach(call));
    return cli_share(call, argc, argv);
}

static int run(cli_call *call) {
    const cli_command *command = call->command;
    if (cli_wants_methods(call))
        return cli_list_methods(call);
    if (command->needs && call->argument_count < 1)
        return cli_fail(call, "no %s given; see `corestack %s --help`", command->needs,
                        command->name);
    CLI_TRY(cli_open_html(call));
    CLI_TRY(command->run(call));
    return cli_write_html(call);
}

/* Not inlined: its call is too large for the stack before guard_stack. */
__attribute__((noinline)) static int run_command(const cli_command *command, int argc,
                                                 char **argv) {
    cli_call call = {.command = command, .starting = true};
    int code = cli_parse(&call, argc, argv);
    if (code == CLI_OK && cli_flag(&call, "help")) {
        code = cli_help_command(command,
                                call.argument_count > 0 && strcmp(call.arguments[0], "all") == 0);
    } else if (code == CLI_OK) {
        code = start_command(&call, argc, argv);
        call.starting = false;
        if (code == CLI_OK)
            code = end_command(&call, run(&call));
        code = cli_agree(&call, code);
        if (code == CLI_OK || code == CLI_NO)
            cli_say_machine(&call);
        cli_say_ranks(&call);
    }
    cst_context_free(call.context);
    cli_release(&call);
    cli_follow_signal(&call);
    return code;
}

enum { CLI_MAX_COMMANDS = 32 };

__attribute__((noinline)) static int unknown_command(const char *name) {
    cli_call call = {0};
    const char *names[CLI_MAX_COMMANDS];
    int count = 0;
    for (size_t i = 0; COMMANDS[i] && count < CLI_MAX_COMMANDS; i++)
        names[count++] = COMMANDS[i]->name;
    if (*name == '-')
        return cli_fail(&call, "unknown option %s; `corestack help` lists the commands", name);
    const char *nearest = cli_nearest(name, names, count);
    if (nearest)
        return cli_fail(&call, "unknown command '%s'; did you mean '%s'?", name, nearest);
    return cli_fail(&call, "unknown command '%s'; `corestack help` lists them", name);
}

/* `corestack soup greedy ...`: the part is a command of its own. */
static int run_part(const cli_command *command, int argc, char **argv) {
    const char *word = argc > 0 ? argv[0] : NULL;
    const cli_command *part = word ? find_part(command, word) : NULL;
    if (part)
        return run_command(part, argc - 1, argv + 1);
    if (word && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0))
        return cli_help_command(command, argc > 1 && strcmp(argv[1], "all") == 0);
    return no_part(command, word);
}

int cli_main(int argc, char **argv, const cst_collectives *ranks) {
    guard_standard_streams();
    cli_restore_environment();
    cli_join_ranks(ranks);
    if (!guard_stack())
        return CLI_BAD_INPUT;
    /* A closed pipe and a file beyond the size limit show as failed writes. */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    const char *name = argc > 1 ? argv[1] : NULL;
    const cli_command *command = name ? find_command(name) : NULL;
    static cli_call nobody;
    int code = CLI_OK;
    if (command)
        code = (command->parts ? run_part : run_command)(command, argc - 2, argv + 2);
    else if (!name)
        code = cli_fail(&nobody, "no command given; `corestack help` lists the commands");
    else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        cli_out("corestack %s\n", cst_version());
    else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        code = cli_help_all(COMMANDS);
    else
        code = unknown_command(name);
    code = cli_finish_output(command ? command->name : NULL, code);
    cli_follow_signal(&nobody);
    return code;
}
