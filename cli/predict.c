/*
 * corestack predict: a model and a pool in, probabilities out.
 * After a fit. Paper: the blended prediction.
 */
#include "cli.h"

#include <corestack/files.h>
#include <corestack/report.h>
#include <stdlib.h>

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

/* What one prediction works with. */
typedef struct prediction {
    cli_target target;
    cst_model *model;
    cst_pool *pool;
    const char *split;
    float *probabilities; /* [rows][classes] */
    int64_t rows;
} prediction;

static bool as_csv(const prediction *p) {
    return !p->target.direct && cli_target_ends(&p->target, ".csv");
}

static int check_kind(cli_call *call, const prediction *p) {
    if (p->target.direct || as_csv(p) || cli_target_ends(&p->target, ".npy"))
        return CLI_OK;
    return cli_fail(call, "-o %s: predictions are written as .npy or .csv; name the file so",
                    p->target.path);
}

/* Ids and class names where the pool and the model have them. */
static int write_csv(cli_call *call, const prediction *p) {
    int32_t classes = cst_model_classes(p->model);
    bool has_ids = cst_pool_id(p->pool, p->split, 0) != NULL;
    bool named = cst_model_class_name(p->model, 0) || cst_pool_class_name(p->pool, 0);
    const char **ids = calloc((size_t)p->rows + 1, sizeof *ids);
    const char **names = calloc((size_t)classes + 1, sizeof *names);
    int code = CLI_INTERNAL;
    if (!ids || !names) {
        code = cli_check(call, CST_ERROR_MEMORY);
        goto cleanup;
    }
    for (int64_t i = 0; has_ids && i < p->rows; i++)
        ids[i] = cst_pool_id(p->pool, p->split, i);
    for (int32_t c = 0; named && c < classes; c++) {
        const char *name = cst_model_class_name(p->model, c);
        names[c] = name ? name : cst_pool_class_name(p->pool, c);
    }
    code = cli_check(call, cst_write_predictions_csv(call->context, p->target.write_to,
                                                     p->probabilities, p->rows, classes,
                                                     has_ids ? ids : NULL, named ? names : NULL));
cleanup:
    free(ids);
    free(names);
    return code;
}

/* [samples, classes], or [conditions, samples, classes] as the members' own files. */
static int write_npy(cli_call *call, const prediction *p) {
    int32_t classes = cst_model_classes(p->model);
    int32_t conditions = cst_pool_conditions(p->pool, p->split);
    cst_status status =
        conditions > 0
            ? cst_write_predictions_conditions(call->context, p->target.write_to, p->probabilities,
                                               conditions, p->rows / conditions, classes)
            : cst_write_predictions(call->context, p->target.write_to, p->probabilities, p->rows,
                                    classes);
    return cli_check(call, status);
}

static int predict(cli_call *call, prediction *p) {
    int code = cli_check(call, cst_model_load(call->context, &p->model, call->arguments[0]));
    if (code == CLI_OK)
        code = cli_open_pool(call, 1, &p->pool);
    if (code == CLI_OK && as_csv(p) && cst_pool_conditions(p->pool, p->split) > 0)
        code = cli_fail(call,
                        "-o %s: split '%s' holds several conditions, which a table cannot; write "
                        "an .npy",
                        p->target.path, p->split);
    if (code == CLI_OK)
        code = cli_check(call, cst_model_predict_pool(call->context, p->model, p->pool, p->split,
                                                      &p->probabilities, &p->rows));
    if (code == CLI_OK && as_csv(p))
        return write_csv(call, p);
    return code == CLI_OK ? write_npy(call, p) : code;
}

static int run(cli_call *call) {
    prediction p = {0};
    if (call->argument_count < 1)
        return cli_fail(call, "no model given; see `corestack predict --help`");
    p.split = cli_split(call, 1, "test");
    int code = cli_open_target(call, "the prediction", &p.target);
    if (code == CLI_OK)
        code = check_kind(call, &p);
    if (code == CLI_OK)
        code = predict(call, &p);
    if (code == CLI_OK)
        code = report(call, p.split, p.target.path, p.rows, cst_model_classes(p.model));
    code = cli_close_target(call, &p.target, code);
    cst_free(call->context, p.probabilities);
    cst_pool_free(call->context, p.pool);
    cst_model_free(call->context, p.model);
    return code;
}

static const cli_option OPTIONS[] = {
    {"output", 'o', "OUT.npy", "the file to write: probabilities [samples, classes], .npy or .csv"},
    {"split", 0, "NAME", "the split to predict (test; oof where files are listed)"},
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_PREDICT = {
    .name = "predict",
    .summary = "probabilities of a fitted stack for a split of a pool",
    .usage = "predict MODEL POOL -o OUT.npy [--split NAME] [options]\n"
             "predict MODEL a.npy b.npy ... -o OUT.npy [options]",
    .details =
        "Members are matched to the model by name; only those that it keeps are read. Rows\n"
        "come out in the order of the split. A .csv has a header, with the sample ids where\n"
        "the pool gives them.",
    .example = "corestack predict digits.cstack examples/digits/pool.json --split test -o out.npy",
    .options = OPTIONS,
    .takes_pool = true,
    .run = run,
};
