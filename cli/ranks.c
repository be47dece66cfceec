/*
 * Several ranks that run one command (corestack-mpi): every one of them does all that the command
 * does, rank 0 writes and speaks. Under every command. Paper: none.
 */
#include "cli.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const cli_ranks *joined;

bool cli_writes(void) {
    return !joined || joined->collectives.rank == 0;
}

bool cli_silenced(void) {
    return joined && joined->silenced && joined->silenced();
}

void cli_join_ranks(const cli_ranks *ranks) {
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
    char *words = calloc(bytes, 1);
    if (!words)
        return CLI_INTERNAL;
    size_t used = (size_t)snprintf(words, bytes, "%s", call->command->name);
    for (int i = 0; i < argc; i++)
        used += (size_t)snprintf(words + used, bytes - used, " %s", argv[i]);
    int code = cli_check(call, cst_context_set_collectives(call->context, &joined->collectives));
    if (code == CLI_OK)
        code = cli_check(call, cst_context_same(call->context, "its command line", words));
    free(words);
    return code;
}

void cli_say_traffic(const cli_call *call) {
    char line[160];
    uint64_t bytes = 0;
    uint64_t rounds = 0;
    if (!joined || !call->verbose || !call->context)
        return;
    cst_context_traffic(call->context, &bytes, &rounds);
    (void)snprintf(line, sizeof line,
                   "corestack %s: %d ranks; rank 0 sent %.3f MB in %llu rounds\n",
                   call->command->name, joined->collectives.size, (double)bytes / 1e6,
                   (unsigned long long)rounds);
    cli_say(line);
}

bool cli_shares(const cli_call *call) {
    return joined && call->context && cst_context_ranks(call->context) > 1 && !call->disagreed;
}

/* Says what this rank, or another one, failed by. */
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
