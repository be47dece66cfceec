/* corestack online: a split as a stream, whose labels teach the stack while it predicts. */
#include "cli.h"

enum { PENDING_MOST = 10000000 };

typedef struct stream {
    cst_online_options options;
    cst_adapter_options adapter;
    int kept; /* 1: only the model's members */
    cli_outfile *outfile, *state;
} stream;

/* Options, and the files to write, looked at before any work. */
static int read_options(cli_call *call, stream *s) {
    CLI_TRY(cli_integer(call, "delay", 0, PENDING_MOST - 1, &s->options.delay));
    CLI_TRY(cli_integer(call, "block", 1, CLI_WHOLE_MAX, &s->options.block));
    CLI_TRY(cli_integer(call, "pending", 1, PENDING_MOST, &s->adapter.pending));
    CLI_TRY(cli_number(call, "alpha", 0.0001, 0.9999, &s->adapter.alpha));
    CLI_TRY(cli_formulas(call));
    CLI_TRY(cli_choice(call, "members", "all|kept", &s->kept));
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
static int create(cli_call *call, const stream *s) {
    int32_t count = (int32_t)cst_pool_members(call->pool);
    cst_adapter_options options = s->adapter;
    const char **names = NULL;
    int32_t found = 0;
    CLI_TAKE(names, count);
    for (int32_t k = 0; s->kept == 0 && k < count; k++)
        if (cst_pool_member_has_split(call->pool, k, s->options.split))
            names[found++] = cst_pool_member_name(call->pool, k);
    if (s->options.delay >= options.pending && s->options.delay > 0)
        options.pending = s->options.delay < PENDING_MOST ? s->options.delay + 1 : PENDING_MOST;
    return cli_check(call, cst_adapter_create(call->context, &call->adapter, call->model,
                                              found > 0 ? names : NULL, found, &options));
}

/* The state where it stopped, or a new one. */
static int open_adapter(cli_call *call, const stream *s) {
    static const char *const fixed[] = {"pending", "members", "alpha"};
    bool there = false;
    if (s->state->path)
        CLI_TRY(cli_lock_state(call, s->state, &there));
    for (size_t i = 0; there && i < sizeof fixed / sizeof *fixed; i++)
        if (cli_value(call, fixed[i]))
            return cli_fail(call,
                            "option --%s: is fixed when a state is started, and %s is there "
                            "already; remove the option, or name another file",
                            fixed[i], s->state->path);
    return there ? cli_check(call, cst_adapter_load(call->context, &call->adapter, call->model,
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
    if (s->adapter.pending > 0 && s->options.delay >= s->adapter.pending)
        return cli_fail(call,
                        "option --delay: a label that comes %lld rows late needs --pending "
                        "%lld or more",
                        (long long)s->options.delay, (long long)s->options.delay + 1);
    CLI_TRY(open_adapter(call, s));
    return s->outfile->path ? cli_check_table(call, s->outfile, s->options.split) : CLI_OK;
}

static int run(cli_call *call) {
    stream s = {.outfile = cli_new_outfile(call)};
    float *probabilities = NULL;
    int64_t rows = 0;
    s.state = cli_new_outfile(call);
    CLI_TRY(read_options(call, &s));
    CLI_TRY(open_inputs(call, &s));
    CLI_DO(cst_online(call->context, call->adapter, call->pool, &s.options,
                      s.outfile->path ? &probabilities : NULL, &rows, &call->report));
    cli_keep(call, probabilities);
    if (s.outfile->path)
        CLI_TRY(cli_write_rows(call, s.outfile, s.options.split, probabilities, rows));
    if (s.state->path)
        CLI_DO(cst_adapter_save(call->context, call->adapter, s.state->final));
    CLI_TRY(cli_put(call, "model", call->arguments[0]));
    if (s.outfile->path)
        CLI_TRY(cli_put(call, "out", s.outfile->path));
    if (s.state->path)
        CLI_TRY(cli_put(call, "state", s.state->path));
    return cli_put_notices(call); /* also those of opening the pool */
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
        "Takes the rows of a split in their order. Each row is predicted using the labels seen so "
        "far. A label may be missing: -1 in an array, an empty cell in a table. The prediction is "
        "a mixture, weighted by past loss, of the stack, refitted copies of it that forget old "
        "rows, averages, and single members; where nothing changes it remains close to the stack. "
        "With "
        "--state a stream in several files gives the same result as in one.\n"
        "Reports the loss next to the stack, the average of all members, the best member, and the "
        "best of these in each block. For classification.",
    .example = "corestack online digits.cstack examples/digits/pool.json --split test\n"
               "corestack online stack.cstack monday.csv --state service.state -o monday.out.csv\n"
               "corestack online stack.cstack pool.json --delay 500 --json",
    .options = OPTIONS,
    .needs = "model",
    .takes_pool = true,
    .classification = true,
    .unlabelled = 1,
    .reports_notices = true,
    .run = run,
};
