/*
 * corestack folds: a fold for every row, stratified by label or target, groups kept together.
 * Before the members are trained. Paper: the L-fold partition behind the out-of-fold matrix.
 */
#include "cli.h"

#include <corestack/files.h>
#include <corestack/folds.h>
#include <corestack/report.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FOLDS = 1000 };

typedef struct folds_request {
    cli_outfile outfile;
    int32_t folds;
    uint64_t seed;
    int32_t *labels; /* or */
    double *targets; /* [rows][outputs] of a regression */
    int32_t outputs;
    int64_t *groups; /* NULL: every row on its own */
    int64_t rows;
} folds_request;

static int read_input(cli_call *call, folds_request *request) {
    const char *groups = cli_value(call, "groups");
    const char *labels = cli_value(call, "labels");
    int64_t rows = 0;
    const char *task = cli_value(call, "task");
    if (task && strcmp(task, "classification") != 0 && strcmp(task, "regression") != 0)
        return cli_fail(call, "option --task: '%s' is not classification or regression", task);
    cst_status status =
        task && strcmp(task, "regression") == 0
            ? cst_read_targets(call->context, labels, &request->targets, &request->rows,
                               &request->outputs)
            : cst_read_labels(call->context, labels, &request->labels, &request->rows);
    int code = cli_check(call, status);
    if (code != CLI_OK || !groups)
        return code;
    code = cli_check(call, cst_read_groups(call->context, groups, &request->groups, &rows));
    if (code == CLI_OK && rows != request->rows)
        code = cli_fail(call, "%s has %lld rows, %s has %lld: both must describe the same samples",
                        groups, (long long)rows, labels, (long long)request->rows);
    return code;
}

static int report(cli_call *call, const folds_request *request, const int32_t *fold) {
    cst_context *context = call->context;
    cst_report *document = NULL;
    int64_t sizes[MAX_FOLDS] = {0};
    for (int64_t i = 0; i < request->rows; i++)
        sizes[fold[i]]++;
    cst_status status = cst_report_new(context, "folds", &document);
    CST_THEN(cst_report_set_string(context, document, "out", request->outfile.path));
    CST_THEN(cst_report_set_integer(context, document, "samples", request->rows));
    CST_THEN(cst_report_set_integer(context, document, "folds", request->folds));
    CST_THEN(cst_report_set_integer(context, document, "seed", (int64_t)request->seed));
    CST_THEN(cst_report_set_string(context, document, "groups", cli_value(call, "groups")));
    CST_THEN(cst_report_set_integers(context, document, "sizes", sizes, request->folds));
    return cli_end_report(call, document, cli_check(call, status));
}

static int make(cli_call *call, folds_request *request) {
    cst_context *context = call->context;
    int code = read_input(call, request);
    if (code != CLI_OK)
        return code;
    int32_t *fold = calloc((size_t)request->rows + 1, sizeof *fold);
    if (!fold)
        return cli_check(call, CST_ERROR_MEMORY);
    cst_status status =
        request->targets
            ? cst_folds_quantile(context, request->targets, request->outputs, request->groups,
                                 request->rows, request->folds, request->seed, fold)
        : request->groups ? cst_folds_grouped(context, request->labels, request->groups,
                                              request->rows, request->folds, request->seed, fold)
                          : cst_folds_stratified(context, request->labels, request->rows,
                                                 request->folds, request->seed, fold);
    CST_THEN(cst_write_folds(context, request->outfile.final, fold, request->rows));
    code = cli_check(call, status);
    if (code == CLI_OK)
        code = report(call, request, fold);
    free(fold);
    return code;
}

static int run(cli_call *call) {
    long long folds = 5;
    long long seed = 0;
    folds_request request = {0};
    if (call->argument_count > 0)
        return cli_fail(call, "unexpected argument '%s'; give the labels with --labels",
                        call->arguments[0]);
    if (!cli_value(call, "labels"))
        return cli_fail(call, "--labels is required: --labels Y.npy");
    int code = cli_integer(call, "count", 2, MAX_FOLDS, &folds);
    if (code == CLI_OK)
        code = cli_integer(call, "seed", 0, CLI_WHOLE_MAX, &seed);
    if (code == CLI_OK)
        code = cli_open_outfile(call, "the fold vector", &request.outfile);
    if (code == CLI_OK && !cli_outfile_is_npy(&request.outfile))
        code = cli_fail(call, "-o %s: folds are written as .npy; use that extension",
                        request.outfile.path);
    request.folds = (int32_t)folds;
    request.seed = (uint64_t)seed;
    if (code == CLI_OK)
        code = make(call, &request);
    code = cli_close_outfiles(call, code);
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
