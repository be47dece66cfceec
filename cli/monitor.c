/* corestack monitor: whether unlabelled batches look like the rows of the fit. */
#include "cli.h"

#include <stdio.h>
#include <sys/stat.h>

enum { NAME_CHARS = 2 * CLI_PATH_CHARS };

/* A file that holds one member, of several that are a batch together. */
static bool is_member_file(const char *path) {
    const cli_outfile named = {.path = path};
    struct stat info;
    if (cli_member(path) > 0)
        return true;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return false;
    return cli_outfile_ends(&named, ".npy") || cli_outfile_ends(&named, ".npz") ||
           cli_outfile_ends(&named, ".safetensors");
}

/* Checks that all batches are files of members, or none. */
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
static int add_splits(cli_call *call, const char *path) {
    char name[NAME_CHARS];
    const char *given = cli_split(call, "test");
    bool shown = !path || cli_value(call, "split");
    int64_t count = 1;
    const char **splits = cli_value(call, "split") ? cli_cut(call, given, ',', &count) : &given;
    for (int64_t i = 0; splits && i < count; i++) {
        if (!*splits[i])
            return cli_fail(call, "option --split: '%s' has an empty name", given);
        (void)snprintf(name, sizeof name, "%s%s%s", path ? path : "", path && shown ? " " : "",
                       shown ? splits[i] : "");
        CLI_DO(cst_monitor_batch(call->context, call->monitor, call->pool, splits[i], name, NULL));
    }
    return splits ? CLI_OK : CLI_INTERNAL;
}

/* The pool of arguments first..last. */
static int add_pool(cli_call *call, int first, int last, bool named) {
    int count = call->argument_count;
    cst_pool_free(call->context, call->pool);
    call->pool = NULL;
    call->argument_count = last + 1;
    int code = cli_open_pool(call, first);
    call->argument_count = count;
    return code == CLI_OK ? add_splits(call, named ? call->arguments[first] : NULL) : code;
}

static int add_batches(cli_call *call) {
    bool files = false;
    int last = call->argument_count - 1;
    CLI_TRY(check_batches(call, &files));
    if (last < 1)
        return cli_fail(call, "no batch given: name a pool.json, a folder or a table of rows to "
                              "look at; see `corestack monitor --help`");
    if (files)
        return add_pool(call, 1, last, false);
    for (int i = 1; i <= last; i++)
        CLI_TRY(add_pool(call, i, i, last > 1));
    return CLI_OK;
}

/* Tests the batches and goes on from the state, if one is named. */
static int run(cli_call *call) {
    cst_context *context = call->context;
    cli_outfile *state = cli_new_outfile(call);
    cst_monitor_options options = {.in_order = cli_flag(call, "in-order")};
    const char *path = cli_value(call, "state");
    bool there = false;
    CLI_TRY(cli_share_of(call, "alpha", &options.alpha));
    CLI_TRY(cli_metric(call, &options.metric));
    if (path)
        CLI_TRY(cli_open_state(call, state));
    CLI_TRY(cli_open_model(call));
    if (path)
        CLI_TRY(cli_lock_state(call, state, &there));
    CLI_DO(there ? cst_monitor_load(context, &call->monitor, call->model, path, &options)
                 : cst_monitor_create(context, &call->monitor, call->model, &options));
    CLI_TRY(add_batches(call));
    if (path)
        CLI_DO(cst_monitor_save(context, call->monitor, state->final));
    CLI_DO(cst_monitor_report(context, call->monitor, &call->report));
    CLI_TRY(cli_put(call, "model", call->arguments[0]));
    if (path)
        CLI_TRY(cli_put(call, "state", path));
    call->no = cst_monitor_alarm(call->monitor);
    return cli_put_notices(call); /* also those of opening the pools */
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
    CLI_METRIC_OPTION,
    CLI_COST_OPTION,
    CLI_HTML_OPTION,
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_MONITOR = {
    .name = "monitor",
    .summary = "test whether batches without labels look like the fit rows",
    .usage = "monitor MODEL BATCH... [--state FILE] [options]\n"
             "monitor MODEL POOL --split monday,tuesday [options]\n"
             "monitor MODEL a.npy b.npy ... [--state FILE] [options]",
    .details = "Exits with 1 after an alarm, 0 otherwise. Each BATCH is a pool.json, a folder or a "
               "table, in time order; each split and condition is a batch. Reports the evidence "
               "that rows differ from the fit rows, drift of each member, and the expected "
               "accuracy and ECE, without labels. On rows like the fit rows, an alarm happens with "
               "probability A at most, however many batches there are. With --state, "
               "calls hours apart are one test, and an alarm stays until the file is removed. "
               "Labels are only compared with what was expected. Classification only.",
    .example = "corestack monitor digits.cstack examples/digits/pool.json --split test\n"
               "corestack monitor digits.cstack today/ --state digits.monitor --json",
    .options = OPTIONS,
    .needs = "model",
    .takes_pool = true,
    .classification = true,
    .unlabelled = 2,
    .reports_notices = true,
    .run = run,
};
