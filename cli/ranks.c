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

/* Replaces each {rank} in *text by the number. The new text lives until the call ends. */
static bool put_rank(cli_call *call, const char **text, int rank) {
    static const char mark[] = "{rank}";
    size_t marks = 0;
    if (!*text || !strstr(*text, mark))
        return true;
    for (const char *at = strstr(*text, mark); at; at = strstr(at + 1, mark))
        marks++;
    size_t room = strlen(*text) + marks * 12 + 1;
    char *out = calloc(room, 1);
    char **list = realloc(call->named, ((size_t)call->named_count + 1) * sizeof *list);
    call->named = list ? list : call->named;
    if (!out || !list) {
        free(out);
        return false;
    }
    size_t used = 0;
    for (const char *at = *text; *at;) {
        bool here = strncmp(at, mark, sizeof mark - 1) == 0;
        used += (size_t)(here ? snprintf(out + used, room - used, "%d", rank)
                              : snprintf(out + used, room - used, "%c", *at));
        at += here ? sizeof mark - 1 : 1;
    }
    list[call->named_count++] = out;
    *text = out;
    return true;
}

int cli_name_rank(cli_call *call) {
    static const char *const options[] = {"labels", "ids", "folds", "groups", "weights", "domains"};
    int rank = joined ? joined->collectives.rank : 0;
    bool done = true;
    if (!cli_flag(call, "own-rows"))
        return CLI_OK;
    const char *output = cli_value(call, "output");
    if (output && strstr(output, "{rank}"))
        return cli_fail(call,
                        "option --output: '%s': the output is written once, for all ranks; remove "
                        "{rank} from its name",
                        output);
    if (cst_context_ranks(call->context) == 1 && !call->quiet)
        cli_print_line(call, "notice: ",
                       "--own-rows: there is one rank only, so only the files of rank 0 are read; "
                       "to use N parts, start the command with mpirun -n N corestack-mpi");
    for (int i = 0; done && i < call->argument_count; i++)
        done = put_rank(call, &call->arguments[i], rank);
    for (int i = 0; done && i < call->given_count; i++)
        for (size_t o = 0; done && o < sizeof options / sizeof *options; o++)
            if (strcmp(call->given[i].option->name, options[o]) == 0)
                done = put_rank(call, &call->given[i].value, rank);
    return done ? CLI_OK : cli_check(call, CST_ERROR_MEMORY);
}

/* A table of stages: time and traffic of this rank. */
static void say_stages(const cli_call *call) {
    enum { STAGES_MAX = 32 };
    char line[160];
    cst_stage_traffic stage[STAGES_MAX];
    int count = cst_context_stage_traffic(call->context, stage, STAGES_MAX);
    (void)snprintf(line, sizeof line, "  %-36s %9s %9s %8s %12s %12s\n", "stage", "seconds",
                   "waiting", "rounds", "sent, kB", "received, kB");
    cli_say(line);
    for (int i = 0; i < count && i < STAGES_MAX; i++) {
        const cst_stage_traffic *s = &stage[i];
        (void)snprintf(line, sizeof line, "  %-36.63s %9.3f %9.3f %8llu %12.1f %12.1f\n", s->stage,
                       s->seconds, s->waiting, (unsigned long long)s->rounds, (double)s->sent / 1e3,
                       (double)s->received / 1e3);
        cli_say(line);
    }
}

void cli_say_traffic(const cli_call *call) {
    char line[160];
    uint64_t bytes = 0;
    uint64_t rounds = 0;
    if (!joined || !call->verbose || !call->context)
        return;
    cst_context_traffic(call->context, &bytes, &rounds);
    (void)snprintf(line, sizeof line, "corestack %s: %d rank%s; rank 0 sent %.3f MB in %llu rounds",
                   call->command->name, joined->collectives.size,
                   joined->collectives.size == 1 ? "" : "s", (double)bytes / 1e6,
                   (unsigned long long)rounds);
    size_t used = strlen(line);
    if (cli_flag(call, "own-rows"))
        used += (size_t)snprintf(line + used, sizeof line - used, ", fetched %.3f MB of rows",
                                 (double)cst_context_fetched(call->context) / 1e6);
    (void)snprintf(line + used, sizeof line - used, "\n");
    cli_say(line);
    say_stages(call);
}

bool cli_shares(const cli_call *call) {
    return joined && call->context && cst_context_ranks(call->context) > 1 && !call->disagreed;
}

/* Prints the failure of this rank or of another one. */
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
