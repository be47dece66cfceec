/* corestack online: a split as a stream, whose labels teach the stack while it predicts. */
#include "cli.h"

#include <corestack/adapter.h>
#include <corestack/files.h>
#include <stdlib.h>

enum { PENDING_MOST = 10000000 };

typedef struct stream {
    cst_adapter *adapter;
    float *probabilities; /* [rows][classes] */
    int64_t rows;
    cst_online_options options;
    long long pending; /* rows that a new adapter keeps; 0: automatic */
    double alpha;      /* of the prediction sets; 0: automatic */
    int kept;          /* 1: only the model's members */
    cli_outfile *outfile, *state;
} stream;

/* Options, and the files to write, looked at before any work. */
static int read_options(cli_call *call, stream *s) {
    long long delay = 0;
    long long block = 0;
    CLI_TRY(cli_integer(call, "delay", 0, PENDING_MOST - 1, &delay));
    CLI_TRY(cli_integer(call, "block", 1, CLI_WHOLE_MAX, &block));
    CLI_TRY(cli_integer(call, "pending", 1, PENDING_MOST, &s->pending));
    CLI_TRY(cli_number(call, "alpha", 0.0001, 0.9999, &s->alpha));
    CLI_TRY(cli_formulas(call));
    CLI_TRY(cli_choice(call, "members", "all|kept", &s->kept));
    s->options = (cst_online_options){.delay = delay, .block = block};
    if (cli_value(call, "output"))
        CLI_TRY(cli_open_outfile(call, "the prediction", s->outfile));
    if (s->outfile->path && !cli_outfile_is_npy(s->outfile) &&
        !cli_outfile_ends(s->outfile, ".csv"))
        return cli_fail(call,
                        "-o %s: predictions are written as .npy or .csv; use one of these "
                        "extensions",
                        s->outfile->path);
    return cli_value(call, "state") ? cli_open_state(call, s->state) : CLI_OK;
}

/* A new adapter of the model's members, and of the pool's others that have the split. */
static int create(cli_call *call, stream *s) {
    int32_t count = (int32_t)cst_pool_members(call->pool);
    const char **names = calloc((size_t)count + 1, sizeof *names);
    int32_t found = 0;
    if (!names)
        return cli_check(call, CST_ERROR_MEMORY);
    for (int32_t k = 0; k < count; k++)
        if (cst_pool_member_has_split(call->pool, k, s->options.split))
            names[found++] = cst_pool_member_name(call->pool, k);
    cst_adapter_options options = {.pending = s->pending, .alpha = s->alpha};
    if (s->options.delay >= s->pending && s->options.delay > 0)
        options.pending = s->options.delay < PENDING_MOST ? s->options.delay + 1 : PENDING_MOST;
    bool all = s->kept == 0 && found > 0;
    cst_status status = cst_adapter_create(call->context, &s->adapter, call->model,
                                           all ? names : NULL, all ? found : 0, &options);
    free(names);
    return cli_check(call, status);
}

/* The state where it stopped, or a new one. */
static int open_adapter(cli_call *call, stream *s) {
    static const char *const fixed[] = {"pending", "members", "alpha"};
    bool there = false;
    if (s->state->path)
        CLI_TRY(cli_lock_state(call, s->state, &call->lock, &there));
    for (size_t i = 0; there && i < sizeof fixed / sizeof *fixed; i++)
        if (cli_value(call, fixed[i]))
            return cli_fail(call,
                            "option --%s: is fixed when a state is started, and %s is there "
                            "already; remove the option, or name another file",
                            fixed[i], s->state->path);
    return there ? cli_check(call, cst_adapter_load(call->context, &s->adapter, call->model,
                                                    s->state->path))
                 : create(call, s);
}

static int open_inputs(cli_call *call, stream *s) {
    CLI_TRY(cli_open_model(call));
    if (cst_model_task(call->model) != CST_TASK_CLASSIFICATION)
        return cli_fail(call, "online adaptation is not supported for %s",
                        cst_task_name(cst_model_task(call->model)));
    CLI_TRY(cli_open_pool(call, 1));
    s->options.split = cli_split(call, "test");
    if (s->pending > 0 && s->options.delay >= s->pending)
        return cli_fail(call,
                        "option --delay: a label that comes %lld rows late needs --pending "
                        "%lld or more",
                        (long long)s->options.delay, (long long)s->options.delay + 1);
    CLI_TRY(open_adapter(call, s));
    if (s->outfile->path && cli_outfile_ends(s->outfile, ".csv") &&
        cst_pool_conditions(call->pool, s->options.split) > 0)
        return cli_fail(call,
                        "-o %s: split '%s' has several conditions, which do not fit into a table; "
                        "write a .npy file",
                        s->outfile->path, s->options.split);
    return CLI_OK;
}

static int write_predictions(cli_call *call, const stream *s) {
    int32_t classes = (int32_t)cst_model_classes(call->model);
    const char **ids = NULL;
    const char **names = NULL;
    if (!cli_outfile_ends(s->outfile, ".csv"))
        return cli_write_array(call, s->outfile, s->probabilities,
                               (int32_t)cst_pool_conditions(call->pool, s->options.split), s->rows,
                               classes);
    int code = cli_table_names(call, s->options.split, s->rows, &ids, &names);
    if (code == CLI_OK)
        code = cli_check(call,
                         cst_write_predictions_csv(call->context, s->outfile->final,
                                                   s->probabilities, s->rows, classes, ids, names));
    free(ids);
    free(names);
    return code;
}

static int predict(cli_call *call, stream *s) {
    CLI_TRY(read_options(call, s));
    CLI_TRY(open_inputs(call, s));
    CLI_DO(cst_online(call->context, s->adapter, call->pool, &s->options,
                      s->outfile->path ? &s->probabilities : NULL, &s->rows, &call->report));
    if (s->outfile->path)
        CLI_TRY(write_predictions(call, s));
    if (s->state->path) {
        CLI_TRY(cli_check(call, cst_adapter_save(call->context, s->adapter, s->state->final)));
    }
    CLI_TRY(cli_put(call, "model", call->arguments[0]));
    if (s->outfile->path)
        CLI_TRY(cli_put(call, "out", s->outfile->path));
    if (s->state->path)
        CLI_TRY(cli_put(call, "state", s->state->path));
    return cli_put_notices(call); /* also those of opening the pool */
}

static int run(cli_call *call) {
    stream s = {.outfile = cli_new_outfile(call)};
    s.state = cli_new_outfile(call);
    if (call->argument_count < 1)
        return cli_fail(call, "no model given; see `corestack online --help`");
    int code = predict(call, &s);
    cst_free(call->context, s.probabilities);
    cst_adapter_free(call->context, s.adapter);
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
