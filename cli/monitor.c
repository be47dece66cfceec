/* corestack monitor: whether unlabelled batches look like the rows of the fit. */
#include "cli.h"

#include <corestack/files.h>
#include <corestack/monitor.h>
#include <corestack/report.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { NAME_CHARS = 2 * CLI_PATH_CHARS };

/* What one run works with. */
typedef struct run_state {
    cst_model *model;
    cst_monitor *monitor;
    const char *state; /* file, or NULL */
    cli_outfile outfile;
    cst_lock *lock; /* of the state */
} run_state;

/* A file that holds one member, of several that are a batch together. */
static bool is_member_file(const char *path) {
    static const char *const ends[] = {".npy", ".npz", ".safetensors"};
    size_t length = strlen(path);
    struct stat info;
    if (cli_member(path) > 0)
        return true;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t end = strlen(ends[i]);
        if (length > end && strcasecmp(path + length - end, ends[i]) == 0)
            return true;
    }
    return false;
}

/* How many of the batches are files of members: all of them, or none. */
static int check_batches(cli_call *call, bool *files) {
    int members = 0;
    for (int i = 1; i < call->argument_count; i++)
        members += is_member_file(call->arguments[i]);
    *files = members > 0;
    if (members == 0 || members == call->argument_count - 1)
        return CLI_OK;
    return cli_fail(call, "files of members (.npy, .npz, .safetensors) are one batch and cannot be "
                          "mixed with pools; give them in another call with --state");
}

/* Each split under its own name or, of several pools (`path`), with the path before it. */
static int add_splits(cli_call *call, run_state *run, cst_pool *pool, const char *path) {
    char name[NAME_CHARS];
    const char *given = cli_value(call, "split");
    bool shown = given != NULL;
    if (!given)
        given = cli_split(call, pool, "test");
    char *splits = strdup(given);
    char *next = splits;
    int code = splits ? CLI_OK : cli_check(call, CST_ERROR_MEMORY);
    while (code == CLI_OK && next) {
        const char *split = next;
        next = strchr(next, ',');
        if (next)
            *next++ = '\0';
        if (!path)
            (void)snprintf(name, sizeof name, "%s", split);
        else
            (void)snprintf(name, sizeof name, "%s%s%s", path, shown ? " " : "", shown ? split : "");
        code = *split ? cli_check(call, cst_monitor_batch(call->context, run->monitor, pool, split,
                                                          name, NULL))
                      : cli_fail(call, "option --split: '%s' has an empty name", given);
    }
    free(splits);
    return code;
}

/* The pool of arguments first..last. */
static int add_pool(cli_call *call, run_state *run, int first, int last, bool named) {
    int count = call->argument_count;
    cst_pool *pool = NULL;
    call->argument_count = last + 1;
    int code = cli_open_pool_of(call, first, run->model, &pool);
    call->argument_count = count;
    if (code == CLI_OK)
        code = add_splits(call, run, pool, named ? call->arguments[first] : NULL);
    cst_pool_free(call->context, pool);
    return code;
}

static int add_batches(cli_call *call, run_state *run) {
    bool files = false;
    int last = call->argument_count - 1;
    int code = check_batches(call, &files);
    if (code != CLI_OK)
        return code;
    if (last < 1)
        return cli_fail(call, "no batch given: name a pool.json, a folder or a table of rows to "
                              "look at; see `corestack monitor --help`");
    if (files)
        return add_pool(call, run, 1, last, false);
    for (int i = 1; code == CLI_OK && i <= last; i++)
        code = add_pool(call, run, i, i, last > 1);
    return code;
}

/* A new monitor, or the one that the state holds. */
static int open_monitor(cli_call *call, run_state *run) {
    cst_monitor_options options = {.in_order = cli_flag(call, "in-order")};
    const char *alpha = cli_value(call, "alpha");
    bool there = false;
    char *end = NULL;
    if (alpha) {
        options.alpha = strtod(alpha, &end);
        if (end == alpha || *end || !(options.alpha > 0 && options.alpha < 1))
            return cli_fail(call, "option --alpha: '%s' is not a number between 0 and 1", alpha);
    }
    run->state = cli_value(call, "state");
    int code = CLI_OK;
    if (run->state)
        code = cli_open_state(call, &run->outfile);
    if (code == CLI_OK)
        code = cli_check(call, cst_model_load(call->context, &run->model, call->arguments[0]));
    if (code == CLI_OK && run->state)
        code = cli_lock_state(call, &run->outfile, &run->lock, &there);
    if (code != CLI_OK)
        return code;
    if (there)
        return cli_check(
            call, cst_monitor_load(call->context, &run->monitor, run->model, run->state, &options));
    return cli_check(call, cst_monitor_create(call->context, &run->monitor, run->model, &options));
}

static int print(cli_call *call, const run_state *run) {
    cst_report *report = NULL;
    cst_status status = cst_monitor_report(call->context, run->monitor, &report);
    CST_THEN(cst_report_set_string(call->context, report, "model", call->arguments[0]));
    if (run->state)
        CST_THEN(cst_report_set_string(call->context, report, "state", run->state));
    int code = cli_check(call, status);
    if (code == CLI_OK)
        code = cli_report_notices(call, report); /* also those of opening the pools */
    return cli_end_report(call, report, code);
}

static int run(cli_call *call) {
    run_state state = {0};
    if (call->argument_count < 1)
        return cli_fail(call, "no model given; see `corestack monitor --help`");
    int code = open_monitor(call, &state);
    if (code == CLI_OK)
        code = add_batches(call, &state);
    if (code == CLI_OK && state.state) {
        code = cli_check(call, cst_monitor_save(call->context, state.monitor, state.outfile.final));
    }
    if (code == CLI_OK)
        code = print(call, &state);
    if (state.state)
        code = cli_close_outfiles(call, code);
    cst_unlock_file(call->context, state.lock);
    if (code == CLI_OK && cst_monitor_alarm(state.monitor))
        code = CLI_NO;
    cst_monitor_free(call->context, state.monitor);
    cst_model_free(call->context, state.model);
    return code;
}

static const cli_option OPTIONS[] = {
    {"split", 0, "NAMES",
     "splits of each pool, in time order, with commas between (test, or the only one)"},
    {"state", 0, "FILE",
     "continue the test of the calls before, and store it here; begins a new test if there is no "
     "file"},
    {"alpha", 0, "A", "probability of a false alarm over all batches of a test (0.01)"},
    {"in-order", 0, NULL,
     "test the rows of a batch in their order, which is that of time; otherwise in a random order"},
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_MONITOR = {
    .name = "monitor",
    .summary = "test whether batches without labels look like the rows of the fit",
    .usage = "monitor MODEL BATCH... [--state FILE] [options]\n"
             "monitor MODEL POOL --split monday,tuesday [options]\n"
             "monitor MODEL a.npy b.npy ... [--state FILE] [options]",
    .details = "Exits with 1 after an alarm, 0 otherwise. Each BATCH is a pool.json, a folder or a "
               "table, in time order; each split and condition is a batch. Reports the evidence "
               "that rows are not like those of the fit, drift of each member, and the accuracy "
               "and ECE to expect without labels. With rows like those of the fit, an alarm "
               "happens with probability A at most, however many batches there are. With --state, "
               "calls hours apart are one test, and an alarm stays until the file is removed. "
               "Labels are only compared with what was expected. Classification only.",
    .example = "corestack monitor digits.cstack examples/digits/pool.json --split test\n"
               "corestack monitor digits.cstack today/ --state digits.monitor --json",
    .options = OPTIONS,
    .takes_pool = true,
    .unlabelled = 2,
    .reports_notices = true,
    .run = run,
};
