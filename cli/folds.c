/* corestack folds: a fold for every row, stratified by label or target, groups kept together. */
#include "cli.h"

enum { MAX_FOLDS = 1000 };

/* Stratifies by classes or targets, with or without groups. */
static int make(cli_call *call, int32_t folds, uint64_t seed, int32_t **fold, int64_t *rows) {
    cst_context *context = call->context;
    const char *labels = cli_value(call, "labels");
    const char *grouped = cli_value(call, "groups");
    const char *order = cli_value(call, "order");
    bool time = cli_flag(call, "time") || order;
    int32_t *classes = NULL;
    double *targets = NULL;
    int64_t *groups = NULL;
    int64_t group_rows = 0;
    int32_t outputs = 0;
    int task = 0;
    CLI_TRY(cli_choice(call, "task", "classification|regression", &task));
    CLI_DO(task == 1 ? cst_read_targets(context, labels, &targets, rows, &outputs)
                     : cst_read_labels(context, labels, &classes, rows));
    cli_keep(call, targets);
    cli_keep(call, classes);
    if (grouped)
        CLI_DO(cst_read_groups(context, grouped, &groups, &group_rows));
    cli_keep(call, groups);
    if (grouped && group_rows != *rows)
        return cli_fail(call, "%s has %lld rows, %s has %lld: both must describe the same samples",
                        grouped, (long long)group_rows, labels, (long long)*rows);
    if (time && grouped)
        return cli_fail(call, "--groups is for random folds: leave it or --time out");
    if (order)
        CLI_DO(cst_read_order(context, order, &groups, &group_rows));
    if (order)
        cli_keep(call, groups);
    if (order && group_rows != *rows)
        return cli_fail(call, "%s has %lld rows, %s has %lld: both must describe the same samples",
                        order, (long long)group_rows, labels, (long long)*rows);
    CLI_TAKE(*fold, *rows);
    if (time)
        return cli_check(call, cst_folds_time(context, groups, *rows, folds, *fold));
    return cli_check(
        call, targets
                  ? cst_folds_quantile(context, targets, outputs, groups, *rows, folds, seed, *fold)
              : groups ? cst_folds_grouped(context, classes, groups, *rows, folds, seed, *fold)
                       : cst_folds_stratified(context, classes, *rows, folds, seed, *fold));
}

static int run(cli_call *call) {
    cli_outfile *outfile = cli_new_outfile(call);
    int64_t sizes[MAX_FOLDS + 1] = {0};
    int64_t folds = 5;
    uint64_t seed = 0;
    int32_t *fold = NULL;
    int64_t rows = 0;
    if (call->argument_count > 0)
        return cli_fail(call, "unexpected argument '%s'; give the labels with --labels",
                        call->arguments[0]);
    if (!cli_value(call, "labels"))
        return cli_fail(call, "--labels is required: --labels Y.npy");
    CLI_TRY(cli_integer(call, "count", 2, MAX_FOLDS, &folds));
    CLI_TRY(cli_seed(call, &seed));
    CLI_TRY(cli_open_outfile(call, "the fold vector", outfile));
    if (!cli_outfile_is_npy(outfile))
        return cli_fail(call, "-o %s: folds are written as .npy; use that extension",
                        outfile->path);
    CLI_TRY(make(call, (int32_t)folds, seed, &fold, &rows));
    CLI_DO(cst_write_folds(call->context, outfile->final, fold, rows));
    for (int64_t i = 0; i < rows; i++)
        sizes[fold[i]]++;
    bool time = cli_flag(call, "time") || cli_value(call, "order");
    CLI_TRY(cli_report(call, "folds"));
    CLI_TRY(cli_put(call, "out", outfile->path));
    CLI_TRY(cli_put_integer(call, "samples", rows));
    CLI_TRY(cli_put_integer(call, "folds", folds));
    CLI_TRY(cli_put_integer(call, "seed", (int64_t)seed));
    CLI_TRY(cli_put(call, "groups", cli_value(call, "groups")));
    return cli_check(
        call, cst_report_set_integers(call->context, call->report, "sizes", sizes, folds + time));
}

static const cli_option OPTIONS[] = {
    {"labels", 'l', "Y.npy", "class or target of every row"},
    {"task", 0, "TASK", "classification (default) or regression (labels are real numbers)"},
    {"count", 'L', "N", "number of folds (5)"},
    {"groups", 0, "G.npy", "group of every row; rows of one group stay in one fold"},
    {"time", 0, NULL,
     "folds in time: N + 1 blocks of neighbouring rows, 0 to N, of which fit scores 1 to N"},
    {"order", 0, "T.npy", "with --time: times of the rows (the order of the rows)"},
    {"output", 'o', "FOLDS.npy", "file to write: an int32 vector with values 0 to N-1"},
    {"seed", 0, "S", "seed of the shuffle (0)"},
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_FOLDS = {
    .name = "folds",
    .summary = "make a stratified fold vector",
    .usage = "folds --labels Y.npy -L N -o FOLDS.npy [--groups G.npy] [options]",
    .details = "Stratified: the rows of each class are spread evenly over the folds (counts differ "
               "by at most one). With --task regression the same is done for targets of similar "
               "size. With --groups, no group is split between folds.\n"
               "Train each member with these folds, save its predictions for the held-out rows, "
               "and pass the same file to `corestack fit --folds`.",
    .example = "corestack folds --labels examples/digits/oof_labels.npy -L 5 -o folds.npy\n"
               "corestack folds --labels targets.npy --task regression -L 10 -o folds.npy",
    .options = OPTIONS,
    .run = run,
};
