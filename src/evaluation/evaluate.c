/*
 * cst_evaluate and cst_evaluate_member: scores of probabilities, with bootstrap intervals. After
 * prediction. method.md section 8.
 */
#include "evaluation/evaluate.h"
#include "metrics/weighted.h"
#include "pipeline/document.h"
#include "pool/counted.h"

#include <string.h>

static void put_interval(cst_report *report, json_t *object, const char *key,
                         const cst_interval *interval) {
    double ends[2] = {interval->low, interval->high};
    cst_report_numbers(report, object, key, ends, 2);
}

void cst_evaluation_intervals(cst_report *report, json_t *object,
                              const cst_metric_intervals *intervals) {
    put_interval(report, object, "top1_ci", &intervals->top1);
    put_interval(report, object, "ece_ci", &intervals->ece);
    put_interval(report, object, "nll_ci", &intervals->nll);
    put_interval(report, object, "brier_ci", &intervals->brier);
}

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

void cst_evaluation_resamples(cst_report *report, int32_t resamples, uint64_t seed) {
    if (resamples <= 0)
        return;
    cst_report_integer(report, cst_report_root(report), "resamples", resamples);
    cst_report_integer(report, cst_report_root(report), "seed", (int64_t)seed);
}

/* Scores of probabilities [rows][classes] as the document's own. */
static cst_status put_scores(cst_context *context, cst_report *report, const cst_view *view,
                             const float *probabilities, int32_t resamples, uint64_t seed) {
    json_t *root = cst_report_root(report);
    cst_metric_intervals intervals;
    cst_metrics scores;
    cst_status status = CST_OK;
    if (resamples > 0)
        status = cst_bootstrap_weighted(context,
                                        &(cst_bootstrap_input){.probabilities = &probabilities,
                                                               .methods = 1,
                                                               .rows = view->rows,
                                                               .classes = view->classes,
                                                               .labels = view->labels,
                                                               .weights = view->weights,
                                                               .resamples = resamples,
                                                               .seed = seed},
                                        &intervals, NULL);
    CST_TRY(cst_stage(context, "scores"));
    CST_TRY(cst_metrics_weighted(context, probabilities, view->rows, view->classes, view->labels,
                                 view->weights, 0, &scores));
    if (status != CST_OK)
        return status;
    cst_report_integer(report, root, "samples", view->rows);
    cst_report_string(report, root, "ece_definition", cst_metric_definition("ece"));
    cst_document_scores(report, root, &scores);
    if (resamples > 0)
        cst_evaluation_intervals(report, root, &intervals);
    status = cst_evaluation_reliability(context, report, probabilities, view->rows, view->classes,
                                        view->labels, view->weights);
    cst_evaluation_resamples(report, resamples, seed);
    return status;
}

cst_status cst_evaluation_finish(cst_context *context, cst_status status, cst_report **report) {
    if (status == CST_OK) {
        cst_report_notices(*report, context);
        status = cst_report_finish(context, *report);
    }
    return cst_report_settle(context, status, report);
}

/* Scores the rows of a view's one member. */
static cst_status evaluate_view(cst_context *context, const cst_view *view, int32_t resamples,
                                uint64_t seed, cst_report **report) {
    float *copy = NULL;
    size_t cells = 0;
    cst_status status = cst_report_create(context, CST_REPORT_EVALUATE, report);
    if (status == CST_OK && !cst_size_mul((size_t)view->rows, (size_t)view->classes, &cells))
        status = cst_fail(context, CST_ERROR_LIMIT, "too many predictions");
    if (status == CST_OK) {
        copy = cst_alloc(context, cells, sizeof *copy);
        status = copy ? CST_OK : CST_ERROR_MEMORY;
    }
    for (int64_t first = 0; status == CST_OK && first < view->rows; first += CST_BLOCK_ROWS) {
        int64_t count =
            view->rows - first < CST_BLOCK_ROWS ? view->rows - first : (int64_t)CST_BLOCK_ROWS;
        float *to = copy + (size_t)first * (size_t)view->classes;
        const float *rows = NULL;
        status = cst_poll(context);
        CST_TRY(cst_view_rows(context, view, 0, first, count, to, &rows));
        if (status == CST_OK && rows != to)
            memcpy(to, rows, (size_t)count * (size_t)view->classes * sizeof *to);
    }
    CST_TRY(put_scores(context, *report, view, copy, resamples, seed));
    cst_free(context, copy);
    return cst_evaluation_finish(context, status, report);
}

cst_status cst_evaluate(cst_context *context, const float *probabilities, int64_t rows,
                        int32_t classes, const int32_t *labels, int32_t resamples, uint64_t seed,
                        cst_report **report) {
    if (report)
        *report = NULL;
    CST_ENTER(context);
    CST_FITS(context, rows, classes, sizeof(*probabilities));
    CST_SEED(context, seed);
    CST_RESAMPLES(context, resamples);
    if (!probabilities || !labels || !report || rows < 1 || classes < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_evaluate: probabilities, labels and a place for the report are "
                        "needed");
    cst_notices_clear(context);
    cst_view view = {
        .rows = rows, .classes = classes, .members = 1, .data = &probabilities, .labels = labels};
    return cst_why(context, evaluate_view(context, &view, resamples, seed, report));
}

cst_status cst_classification_evaluate_member(cst_context *context, const cst_pool *pool,
                                              const char *split, int32_t member, int32_t resamples,
                                              uint64_t seed, cst_report **report) {
    cst_counted counted = {0};
    cst_notices_clear(context);
    cst_status status = cst_counted_open(context, pool, split, &member, 1, &counted);
    if (status == CST_OK && (!counted.view.labels || counted.view.rows < 1))
        status =
            cst_fail(context, CST_ERROR_INPUT, "split '%s' has no labels to score against", split);
    CST_TRY(evaluate_view(context, &counted.view, resamples, seed, report));
    cst_counted_close(context, &counted);
    return status;
}
