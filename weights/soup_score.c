/*
 * The score of what a candidate predicts: read and checked as a pool of one member, scored by the
 * metrics of every other score. Between the caller's hook and the choice of a soup.
 * docs/json.md#evaluate.
 */
#include "weights/soup_trial.h"

#include "base/seen.h"

#include <corestack/metrics.h>
#include <corestack/regression.h>

#include <string.h>

static const cst_soup_metric METRICS[] = {
    {"top1", "top-1", CST_TASK_CLASSIFICATION, true},
    {"nll", "NLL", CST_TASK_CLASSIFICATION, false},
    {"brier", "Brier", CST_TASK_CLASSIFICATION, false},
    {"ece", "ECE", CST_TASK_CLASSIFICATION, false},
    {"rmse", "RMSE", CST_TASK_REGRESSION, false},
    {"mae", "MAE", CST_TASK_REGRESSION, false},
};

const cst_soup_metric *cst_soup_metric_at(cst_task task, size_t index) {
    for (size_t i = 0; i < sizeof METRICS / sizeof *METRICS; i++)
        if (METRICS[i].task == task && index-- == 0)
            return &METRICS[i];
    return NULL;
}

const cst_soup_metric *cst_soup_metric_find(cst_task task, const char *name) {
    const cst_soup_metric *metric = NULL;
    for (size_t i = 0; (metric = cst_soup_metric_at(task, i)) != NULL; i++)
        if (strcmp(metric->name, name) == 0)
            break;
    return metric;
}

static double classification_score(const cst_metrics *scores, const char *name) {
    if (strcmp(name, "top1") == 0)
        return scores->top1;
    if (strcmp(name, "nll") == 0)
        return scores->nll;
    return strcmp(name, "brier") == 0 ? scores->brier : scores->ece;
}

/* Predictions [rows][classes] of the pool's one member: in the pool, or copied to *copy. */
static cst_status get_predictions(cst_context *context, const cst_pool *pool, float **copy,
                                  const float **out) {
    int64_t rows = cst_pool_rows(pool, "oof");
    size_t cells = 0;
    *out = cst_pool_predictions(pool, "oof", 0);
    if (*out)
        return CST_OK;
    if (!cst_size_mul((size_t)rows, (size_t)cst_pool_classes(pool), &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "predictions of %lld rows are too many",
                        (long long)rows);
    *copy = cst_alloc(context, cells, sizeof **copy);
    *out = *copy;
    return *copy ? cst_pool_read(context, pool, "oof", 0, 0, rows, *copy) : CST_ERROR_MEMORY;
}

static cst_status score_pool(cst_context *context, const cst_pool *pool,
                             const cst_soup_metric *metric, double *score) {
    int64_t rows = cst_pool_rows(pool, "oof");
    int32_t classes = cst_pool_classes(pool);
    float *copy = NULL;
    const float *predictions = NULL;
    cst_status status = get_predictions(context, pool, &copy, &predictions);
    if (status == CST_OK && metric->task == CST_TASK_REGRESSION) {
        cst_predicted_values values = {.rows = rows, .outputs = classes, .mean = predictions};
        cst_value_metrics scores = {0};
        status = cst_value_metrics_evaluate(context, &values, cst_pool_targets(pool, "oof"),
                                            &scores, NULL);
        *score = strcmp(metric->name, "rmse") == 0 ? scores.rmse : scores.mae;
    } else if (status == CST_OK) {
        cst_metrics scores = {0};
        status = cst_metrics_evaluate(context, predictions, rows, classes,
                                      cst_pool_labels(pool, "oof"), 0, &scores);
        *score = classification_score(&scores, metric->name);
    }
    cst_free(context, copy);
    return status;
}

cst_status cst_soup_score_file(cst_context *context, const cst_soup_config *config,
                               const cst_soup_metric *metric, const char *path, double *score,
                               int64_t *rows) {
    cst_pool_config reading = {.outside = 1,
                               .output_given = config->task == CST_TASK_CLASSIFICATION,
                               .output = config->output,
                               .labels = config->labels,
                               .task_given = 1,
                               .task = config->task};
    cst_pool *pool = NULL;
    cst_seen_forget(context, path); /* of the former candidate */
    cst_status status = cst_pool_open_files(context, &pool, &path, 1, &reading);
    CST_TRY(cst_pool_load(context, pool, "oof"));
    if (status == CST_OK) {
        *rows = cst_pool_rows(pool, "oof");
        status = score_pool(context, pool, metric, score);
    }
    cst_pool_free(context, pool);
    return status;
}
