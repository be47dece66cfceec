/* corestack folds: a fold for every row, stratified by label or target, groups kept together. */
#include "cli.h"

#include <corestack/files.h>
#include <corestack/folds.h>
#include <corestack/report.h>
#include <stdlib.h>

enum { MAX_FOLDS = 1000 };

typedef struct folds_request {
    const cli_outfile *outfile;
    int32_t folds;
    uint64_t seed;
    int32_t *labels; /* or */
    double *targets; /* [rows][outputs] of a regression */
    int32_t outputs;
    int64_t *groups; /* NULL: every row on its own */
    int64_t rows;
    int32_t *fold; /* [rows] */
} folds_request;

static int read_input(cli_call *call, folds_request *request) {
    const char *groups = cli_value(call, "groups");
    const char *labels = cli_value(call, "labels");
    int64_t rows = 0;
    int task = 0;
    CLI_TRY(cli_choice(call, "task", "classification|regression", &task));
    CLI_DO(task == 1 ? cst_read_targets(call->context, labels, &request->targets, &request->rows,
                                        &request->outputs)
                     : cst_read_labels(call->context, labels, &request->labels, &request->rows));
    if (groups)
        CLI_DO(cst_read_groups(call->context, groups, &request->groups, &rows));
    if (groups && rows != request->rows)
        return cli_fail(call, "%s has %lld rows, %s has %lld: both must describe the same samples",
                        groups, (long long)rows, labels, (long long)request->rows);
    return CLI_OK;
}

static int report(cli_call *call, const folds_request *request) {
    int64_t sizes[MAX_FOLDS] = {0};
    for (int64_t i = 0; i < request->rows; i++)
        sizes[request->fold[i]]++;
    CLI_TRY(cli_report(call, "folds"));
    CLI_TRY(cli_put(call, "out", request->outfile->path));
    CLI_TRY(cli_put_integer(call, "samples", request->rows));
    CLI_TRY(cli_put_integer(call, "folds", request->folds));
    CLI_TRY(cli_put_integer(call, "seed", (int64_t)request->seed));
    CLI_TRY(cli_put(call, "groups", cli_value(call, "groups")));
    return cli_check(
        call, cst_report_set_integers(call->context, call->report, "sizes", sizes, request->folds));
}

static int make(cli_call *call, folds_request *r) {
    cst_context *context = call->context;
    CLI_TRY(read_input(call, r));
    r->fold = calloc((size_t)r->rows + 1, sizeof *r->fold);
    if (!r->fold)
        return cli_check(call, CST_ERROR_MEMORY);
    cst_status status =
        r->targets ? cst_folds_quantile(context, r->targets, r->outputs, r->groups, r->rows,
                                        r->folds, r->seed, r->fold)
        : r->groups
            ? cst_folds_grouped(context, r->labels, r->groups, r->rows, r->folds, r->seed, r->fold)
            : cst_folds_stratified(context, r->labels, r->rows, r->folds, r->seed, r->fold);
    CLI_DO(status);
    CLI_TRY(cli_check(call, cst_write_folds(context, r->outfile->final, r->fold, r->rows)));
    return report(call, r);
}

static int run(cli_call *call) {
    long long folds = 5;
    long long seed = 0;
    cli_outfile *outfile = cli_new_outfile(call);
    folds_request request = {.outfile = outfile};
    if (call->argument_count > 0)
        return cli_fail(call, "unexpected argument '%s'; give the labels with --labels",
                        call->arguments[0]);
    if (!cli_value(call, "labels"))
        return cli_fail(call, "--labels is required: --labels Y.npy");
    CLI_TRY(cli_integer(call, "count", 2, MAX_FOLDS, &folds));
    CLI_TRY(cli_integer(call, "seed", 0, CLI_WHOLE_MAX, &seed));
    CLI_TRY(cli_open_outfile(call, "the fold vector", outfile));
    if (!cli_outfile_is_npy(outfile))
        return cli_fail(call, "-o %s: folds are written as .npy; use that extension",
                        outfile->path);
    request.folds = (int32_t)folds;
    request.seed = (uint64_t)seed;
    int code = make(call, &request);
    free(request.fold);
    cst_free(call->context, request.labels);
    cst_free(call->context, request.targets);
    cst_free(call->context, request.groups);
    return code;
}

static const cli_option OPTIONS[] = {
    {"labels", 'l', "Y.npy", "class or target of every row"},
    {"task", 0, "TASK", "classification (default) or regression (labels are real numbers)"},
    {"count", 'L', "N", "number of folds (5)"},
    {"groups", 0, "G.npy", "group of every row; rows of one group stay in one fold"},
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
