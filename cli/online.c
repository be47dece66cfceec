/*
 * corestack online: a split as a stream, whose labels teach the stack while it predicts.
 * After a fit. Paper: the online adaptation of its future work.
 */
#include "cli.h"

#include <corestack/adapter.h>
#include <corestack/files.h>
#include <corestack/report.h>
#include <stdlib.h>
#include <string.h>

enum { PENDING_MOST = 10000000 };

typedef struct stream {
    cst_model *model;
    cst_pool *pool;
    cst_adapter *adapter;
    cst_report *report;
    float *probabilities; /* [rows][classes] */
    int64_t rows;
    cst_online_options options;
    long long pending; /* rows that a new adapter keeps; 0: automatic */
    double alpha;      /* of the prediction sets; 0: automatic */
    bool kept;         /* only the model's members */
    cli_outfile outfile;
    cli_outfile state;
    cst_lock *lock; /* of the state */
} stream;

static int read_options(cli_call *call, stream *s) {
    long long delay = 0;
    long long block = 0;
    const char *members = cli_value(call, "members");
    int code = cli_integer(call, "delay", 0, PENDING_MOST - 1, &delay);
    if (code == CLI_OK)
        code = cli_integer(call, "block", 1, CLI_WHOLE_MAX, &block);
    if (code == CLI_OK)
        code = cli_integer(call, "pending", 1, PENDING_MOST, &s->pending);
    if (code == CLI_OK)
        code = cli_number(call, "alpha", 0.0001, 0.9999, &s->alpha);
    if (code == CLI_OK)
        code = cli_formulas(call);
    if (code == CLI_OK && members && strcmp(members, "all") != 0 && strcmp(members, "kept") != 0)
        return cli_fail(call, "option --members: '%s' is not all or kept", members);
    s->kept = members && strcmp(members, "kept") == 0;
    s->options = (cst_online_options){.delay = delay, .block = block};
    return code;
}

/* The files to write, looked at before any work. */
static int open_outputs(cli_call *call, stream *s) {
    int code = CLI_OK;
    if (cli_value(call, "output"))
        code = cli_open_outfile(call, "the prediction", &s->outfile);
    if (code == CLI_OK && s->outfile.path && !cli_outfile_is_npy(&s->outfile) &&
        !cli_outfile_ends(&s->outfile, ".csv"))
        return cli_fail(call,
                        "-o %s: predictions are written as .npy or .csv; use one of these "
                        "extensions",
                        s->outfile.path);
    if (code == CLI_OK && cli_value(call, "state"))
        code = cli_open_state(call, &s->state);
    return code;
}

/* A new adapter of the model's members, and of the pool's others that have the split. */
static int create(cli_call *call, stream *s) {
    int32_t count = cst_pool_members(s->pool);
    const char **names = calloc((size_t)count + 1, sizeof *names);
    int32_t found = 0;
    if (!names)
        return cli_check(call, CST_ERROR_MEMORY);
    for (int32_t k = 0; k < count; k++)
        if (cst_pool_member_has_split(s->pool, k, s->options.split))
            names[found++] = cst_pool_member_name(s->pool, k);
    cst_adapter_options options = {.pending = s->pending, .alpha = s->alpha};
    if (s->options.delay >= s->pending && s->options.delay > 0)
        options.pending = s->options.delay < PENDING_MOST ? s->options.delay + 1 : PENDING_MOST;
    bool all = !s->kept && found > 0;
    cst_status status = cst_adapter_create(call->context, &s->adapter, s->model, all ? names : NULL,
                                           all ? found : 0, &options);
    free(names);
    return cli_check(call, status);
}

/* The state where it stopped, or a new one. */
static int open_adapter(cli_call *call, stream *s) {
    bool there = false;
    int code = s->state.path ? cli_lock_state(call, &s->state, &s->lock, &there) : CLI_OK;
    if (code != CLI_OK || !there)
        return code == CLI_OK ? create(call, s) : code;
    static const char *const fixed[] = {"pending", "members", "alpha"};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (cli_value(call, fixed[i]))
            return cli_fail(call,
                            "option --%s: is fixed when a state is started, and %s is there "
                            "already; remove the option, or name another file",
                            fixed[i], s->state.path);
    return cli_check(call, cst_adapter_load(call->context, &s->adapter, s->model, s->state.path));
}

static int open_inputs(cli_call *call, stream *s) {
    int code = cli_check(call, cst_model_load(call->context, &s->model, call->arguments[0]));
    if (code == CLI_OK && cst_model_task(s->model) != CST_TASK_CLASSIFICATION)
        return cli_fail(call, "online adaptation is not supported for %s",
                        cst_task_name(cst_model_task(s->model)));
    if (code == CLI_OK)
        code = cli_open_pool_of(call, 1, s->model, &s->pool);
    s->options.split = cli_split(call, s->pool, "test");
    if (code == CLI_OK && s->pending > 0 && s->options.delay >= s->pending)
        return cli_fail(call,
                        "option --delay: a label that comes %lld rows late needs --pending "
                        "%lld or more",
                        (long long)s->options.delay, (long long)s->options.delay + 1);
    return code == CLI_OK ? open_adapter(call, s) : code;
}

static int write_table(cli_call *call, const stream *s) {
    int32_t classes = cst_model_classes(s->model);
    bool has_ids = cst_pool_id(s->pool, s->options.split, 0) != NULL;
    const char **ids = calloc((size_t)s->rows + 1, sizeof *ids);
    const char **names = calloc((size_t)classes + 1, sizeof *names);
    int code = ids && names ? CLI_OK : cli_check(call, CST_ERROR_MEMORY);
    for (int64_t i = 0; ids && names && has_ids && i < s->rows; i++)
        ids[i] = cst_pool_id(s->pool, s->options.split, i);
    bool named = cst_model_class_name(s->model, 0) || cst_pool_class_name(s->pool, 0);
    for (int32_t c = 0; ids && names && named && c < classes; c++) {
        const char *name = cst_model_class_name(s->model, c);
        names[c] = name ? name : cst_pool_class_name(s->pool, c);
    }
    if (code == CLI_OK)
        code = cli_check(call, cst_write_predictions_csv(
                                   call->context, s->outfile.final, s->probabilities, s->rows,
                                   classes, has_ids ? ids : NULL, named ? names : NULL));
    free(ids);
    free(names);
    return code;
}

static int write_predictions(cli_call *call, const stream *s) {
    int32_t conditions = cst_pool_conditions(s->pool, s->options.split);
    int32_t classes = cst_model_classes(s->model);
    if (!s->outfile.path)
        return CLI_OK;
    if (cli_outfile_ends(&s->outfile, ".csv"))
        return write_table(call, s);
    return cli_check(call, conditions > 0
                               ? cst_write_predictions_conditions(call->context, s->outfile.final,
                                                                  s->probabilities, conditions,
                                                                  s->rows / conditions, classes)
                               : cst_write_predictions(call->context, s->outfile.final,
                                                       s->probabilities, s->rows, classes));
}

static int write_state(cli_call *call, const stream *s) {
    if (!s->state.path)
        return CLI_OK;
    return cli_check(call, cst_adapter_save(call->context, s->adapter, s->state.final));
}

static int run(cli_call *call) {
    stream s = {0};
    if (call->argument_count < 1)
        return cli_fail(call, "no model given; see `corestack online --help`");
    int code = read_options(call, &s);
    if (code == CLI_OK)
        code = open_outputs(call, &s);
    if (code == CLI_OK)
        code = open_inputs(call, &s);
    if (code == CLI_OK && s.outfile.path && cli_outfile_ends(&s.outfile, ".csv") &&
        cst_pool_conditions(s.pool, s.options.split) > 0)
        code = cli_fail(call,
                        "-o %s: split '%s' has several conditions, which do not fit into a table; "
                        "write a .npy file",
                        s.outfile.path, s.options.split);
    if (code == CLI_OK)
        code = cli_check(call,
                         cst_online(call->context, s.adapter, s.pool, &s.options,
                                    s.outfile.path ? &s.probabilities : NULL, &s.rows, &s.report));
    if (code == CLI_OK)
        code = write_predictions(call, &s);
    if (code == CLI_OK)
        code = write_state(call, &s);
    if (code == CLI_OK)
        code = cli_check(
            call, cst_report_set_string(call->context, s.report, "model", call->arguments[0]));
    if (code == CLI_OK && s.outfile.path)
        code =
            cli_check(call, cst_report_set_string(call->context, s.report, "out", s.outfile.path));
    if (code == CLI_OK && s.state.path)
        code =
            cli_check(call, cst_report_set_string(call->context, s.report, "state", s.state.path));
    if (code == CLI_OK)
        code = cli_report_notices(call, s.report); /* also those of opening the pool */
    code = cli_end_report(call, s.report, code);
    code = cli_close_outfiles(call, code);
    cst_unlock_file(call->context, s.lock);
    cst_free(call->context, s.probabilities);
    cst_adapter_free(call->context, s.adapter);
    cst_pool_free(call->context, s.pool);
    cst_model_free(call->context, s.model);
    return code;
}

static const cli_option OPTIONS[] = {
    {"split", 0, "NAME", "split whose rows are the stream (test, or the only one)"},
    {"output", 'o', "OUT.npy", "write the predictions, .npy or .csv"},
    {"formulas", 0, "HOW",
     "with .csv: ids such as -abc or =x, which a spreadsheet would compute, are written with an "
     "apostrophe in front (mark; default) or as they are (keep)"},
    {"state", 0, "FILE",
     "go on from this file if it is there, and write to it what was learned, for the next run"},
    {"delay", 0, "N", "a row's label is known N rows later (0: before the next row)"},
    {"pending", 0, "N",
     "the last N rows can still get their label (10,000, or what fits into 8 MiB)"},
    {"members", 0, "all|kept",
     "learn from every member of the pool (all), or from those of the model alone (kept)"},
    {"alpha", 0, "A",
     "share of the labels that may be outside the prediction sets of the report (0.1)"},
    {"block", 0, "N", "rows from one point of the report's series to the next (100)"},
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_ONLINE = {
    .name = "online",
    .summary = "predict a stream of rows and learn from the labels that come",
    .usage = "online MODEL POOL [--split NAME] [--state FILE] [-o OUT.npy] [options]\n"
             "online MODEL stream.csv [--state FILE] [-o OUT.csv] [options]",
    .details =
        "Takes the rows of a split in their order: each is predicted with what the labels before "
        "it have taught. A label may be missing: -1 in an array, an empty cell in a table. The "
        "prediction mixes the stack, its weights refitted by Newton steps that forget old rows, "
        "averages and single members, by their losses so far; where nothing changes it stays with "
        "the stack. With --state a stream in several files gives the same bytes as in one.\n"
        "Reports the loss next to the stack, the average of all members, the best member, and the "
        "best of these in each block. For classification.",
    .example = "corestack online digits.cstack examples/digits/pool.json --split test\n"
               "corestack online stack.cstack monday.csv --state service.state -o monday.out.csv\n"
               "corestack online stack.cstack pool.json --delay 500 --json",
    .options = OPTIONS,
    .takes_pool = true,
    .unlabelled = 1,
    .reports_notices = true,
    .run = run,
};
