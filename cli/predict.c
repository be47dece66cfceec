/*
 * corestack predict: a model and a pool in, probabilities out.
 * After a fit. Paper: the blended prediction.
 */
#include "cli.h"

#include <corestack/files.h>
#include <corestack/report.h>

static int report(cli_call *call, const char *split, const char *path, int64_t rows,
                  int32_t classes) {
    cst_context *context = call->context;
    cst_report *document = NULL;
    cst_status status = cst_report_new(context, "predict", &document);
    if (status == CST_OK)
        status = cst_report_set_string(context, document, "model", call->arguments[0]);
    if (status == CST_OK)
        status = cst_report_set_string(context, document, "split", split);
    if (status == CST_OK)
        status = cst_report_set_string(context, document, "out", path);
    if (status == CST_OK)
        status = cst_report_set_integer(context, document, "samples", rows);
    if (status == CST_OK)
        status = cst_report_set_integer(context, document, "classes", classes);
    int code = cli_check(call, status);
    if (code == CLI_OK)
        code = cli_print_report(call, document);
    cst_report_free(context, document);
    return code;
}

static int run(cli_call *call) {
    cst_model *model = NULL;
    cst_pool *pool = NULL;
    float *probabilities = NULL;
    const char *path = NULL;
    int64_t rows = 0;
    if (call->argument_count < 1)
        return cli_fail(call, "no model given; see `corestack predict --help`");
    const char *split = cli_split(call, 1, "test");
    int code = cli_check_output(call, "the prediction", &path);
    if (code == CLI_OK)
        code = cli_check(call, cst_model_load(call->context, &model, call->arguments[0]));
    if (code == CLI_OK)
        code = cli_open_pool(call, 1, &pool);
    if (code == CLI_OK)
        code = cli_check(
            call, cst_model_predict_pool(call->context, model, pool, split, &probabilities, &rows));
    if (code == CLI_OK)
        code = cli_check(call, cst_write_predictions(call->context, path, probabilities, rows,
                                                     cst_model_classes(model)));
    if (code == CLI_OK)
        code = report(call, split, path, rows, cst_model_classes(model));
    cst_free(call->context, probabilities);
    cst_pool_free(call->context, pool);
    cst_model_free(call->context, model);
    return code;
}

static const cli_option OPTIONS[] = {
    {"output", 'o', "OUT.npy", "the file to write: float32 probabilities [samples, classes]"},
    {"split", 0, "NAME", "the split to predict (test; oof where files are listed)"},
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_PREDICT = {
    .name = "predict",
    .summary = "probabilities of a fitted stack for a split of a pool",
    .usage = "predict MODEL POOL -o OUT.npy [--split NAME] [options]\n"
             "predict MODEL a.npy b.npy ... -o OUT.npy [options]",
    .details = "Members are matched to the model by name; only those that it keeps are read. Rows\n"
               "come out in the order of the split.",
    .example = "corestack predict digits.cstack examples/digits/pool.json --split test -o out.npy",
    .options = OPTIONS,
    .takes_pool = true,
    .run = run,
};
