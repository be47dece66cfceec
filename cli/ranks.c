/* The ranks of corestack-mpi: all run the same command; rank 0 alone writes files and prints. */
#include "cli.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const cst_collectives *joined;

bool cli_writes(void) {
    return !joined || joined->rank == 0;
}

void cli_join_ranks(const cst_collectives *ranks) {
    joined = ranks;
    if (cli_writes())
        return;
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) {
        (void)dup2(nowhere, STDOUT_FILENO);
        (void)dup2(nowhere, STDERR_FILENO);
        (void)close(nowhere);
    }
}

int cli_share(cli_call *call, int argc, char **argv) {
    size_t bytes = strlen(call->command->name) + 2;
    if (!joined)
        return CLI_OK;
    for (int i = 0; i < argc; i++)
        bytes += strlen(argv[i]) + 1;
    char *words = NULL;
    CLI_TAKE(words, bytes);
    size_t used = (size_t)snprintf(words, bytes, "%s", call->command->name);
    for (int i = 0; i < argc; i++)
        used += (size_t)snprintf(words + used, bytes - used, " %s", argv[i]);
    CLI_DO(cst_context_set_collectives(call->context, joined));
    return cli_check(call, cst_context_same(call->context, "its command line", words));
}

void cli_say_ranks(const cli_call *call) {
    char line[80];
    if (!joined || !call->verbose || !call->context)
        return;
    (void)snprintf(line, sizeof line, "corestack %s: %d rank%s\n", call->command->name,
                   joined->size, joined->size == 1 ? "" : "s");
    cli_say(line);
}

bool cli_shares(const cli_call *call) {
    return joined && call->context && cst_context_ranks(call->context) > 1 && !call->disagreed;
}

static void say_agreed(cli_call *call) {
    const char *message = cst_last_error(call->context);
    cli_print_line(call, "", *message ? message : call->failure);
    call->unsaid = false;
}

int cli_agree(cli_call *call, int code) {
    if (!joined || call->disagreed || !call->context)
        return code;
    cst_status status = code == CLI_OK ? CST_OK : call->status ? call->status : CST_ERROR_ARGUMENT;
    if (call->cancelled)
        status = CST_ERROR_CANCELLED;
    status = cst_context_agree(call->context, status, *call->failure ? call->failure : NULL);
    call->disagreed = status != CST_OK;
    if (call->unsaid)
        say_agreed(call);
    return status != CST_OK && !call->said ? cli_check(call, status) : code;
}
