/*
 * cst_evaluate and cst_evaluate_member: scores of probabilities, with bootstrap intervals. After
 * prediction. docs/json.md#evaluate.
 */
#include "tasks/classification/evaluate.h"

#include "data/checks/checks.h"
#include "data/pool/subset.h"
#include "stats/weighted.h"
#include "tasks/classification/classification.h"
#include "tasks/classification/state.h"

cst_status cst_evaluation_reliability(cst_context *context, cst_report *report,
                                      const float *probabilities, int64_t rows, int32_t classes,
                                      const int32_t *labels, const double *weights) {
    cst_reliability_bin bins[CST_METRIC_BINS];
    cst_status status =
        cst_reliability_weighted(context, probabilities, rows, classes, labels, weights, 0, bins);
    if (status != CST_OK)
        return status;
    json_t *list = cst_report_list(report, cst_report_root(report), "reliability");
    for (int32_t b = 0; b < CST_METRIC_BINS; b++) {
        json_t *object = cst_report_add_object(report, list);
        cst_report_number(report, object, "lower", bins[b].lower);
        cst_report_number(report, object, "upper", bins[b].upper);
        cst_report_number(report, object, "confidence", bins[b].confidence);
        cst_report_number(report, object, "accuracy", bins[b].accuracy);
        cst_report_integer(report, object, "count", bins[b].count);
    }
    return CST_OK;
}

/* The rows of a view's one member, [rows][classes]; *out is the caller's, also after a failure. */
static cst_status read_rows(cst_context *context, const cst_view *view, float **out) {
    size_t cells = 0;
    if (!cst_size_mul((size_t)view->rows, (size_t)view->classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "too many predictions");
    *out = cst_alloc(context, cells, sizeof **out);
    return *out ? cst_view_copy(context, view, 0, *out) : CST_ERROR_MEMORY;
}

/* The document of the rows of a view's one member, with labels. */
static cst_status evaluate_view(cst_context *context, const cst_task_ops *ops, const cst_view *view,
                                int32_t resamples, uint64_t seed, cst_report **report) {
    float *rows = NULL;
    const cst_compare_options options = {.resamples = resamples, .seed = seed};
    cst_target target = {
        .view = *view, .labels = view->labels, .weights = view->weights, .samples = view->rows};
    cst_class_state state = {.classes = view->classes,
                             .targets = {.list = &target, .count = 1, .scored = 1}};
    const cst_evaluation e = {.ops = ops, .options = &options, .brief = true, .data = &state};
    cst_status status = cst_report_create(context, CST_REPORT_EVALUATE, report);
    CST_THEN(read_rows(context, view, &rows));
    cst_class_predictions predictions = {.rows = &rows, .targets = 1};
    cst_entry entry = {.result = &predictions};
    CST_THEN(cst_class_score(context, &state, &predictions, entry.scores));
    CST_THEN(cst_put_evaluation(context, *report, &e, &entry, 1));
    cst_free(context, predictions.parts);
    cst_free(context, rows);
    return cst_finish_report(context, status, report);
}

cst_status cst_classification_evaluate_member(cst_context *context, const cst_task_ops *ops,
                                              const cst_pool *pool, const char *split,
                                              int32_t member, int32_t resamples, uint64_t seed,
                                              cst_report **report) {
    cst_counted counted = {0};
    cst_notices_clear(context);
    cst_status status = cst_counted_open(context, pool, split, &member, 1, &counted);
    if (status == CST_OK && (!counted.view.labels || counted.view.rows < 1))
        status =
            cst_fail(context, CST_ERROR_INPUT, "split '%s' has no labels to score against", split);
    if (status == CST_OK && cst_pool_conditions(pool, split) == 0)
        status = cst_check_scored(context, &(cst_check_source){.pool = pool,
                                                               .split = split,
                                                               .view = &counted.view,
                                                               .members = &member,
                                                               .rows = counted.rows});
    CST_THEN(evaluate_view(context, ops, &counted.view, resamples, seed, report));
    cst_counted_close(context, &counted);
    return status;
}
