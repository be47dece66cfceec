/* The metric of an evaluation: one more score of every entry, after those of the task's table. */
#include "fit/family.h"
#include "fit/harness.h"

#include <math.h>
#include <string.h>

/* A resample costs a pass over the rows of every method: the fewest, and the numbers that they may
 * read in all. */
static const double FEWEST = 200;
static const double NUMBERS = 4e9;
static const double SMOOTH_NUMBERS = 2e6; /* what smoothing takes besides */

/* Tasks without metrics of their own name one of their scores. */
static cst_status find_score(cst_context *context, cst_evaluation *e, const char *text) {
    char list[256] = "";
    int32_t count = 0;
    const cst_score_spec *scores = cst_task_scores(e->ops->task, &count);
    for (int32_t s = 0; s < count; s++) {
        size_t used = strlen(list);
        if (cst_metric_named(scores[s].key, text, strlen(text))) {
            e->named = scores[s].key;
            return CST_OK;
        }
        (void)cst_snprintf(list + used, sizeof list - used, "%s%s", s ? ", " : "", scores[s].key);
    }
    if (strncmp(text, "cost=", 5) == 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "a cost matrix is for classification, and the task is %s: leave "
                        "--cost-matrix out",
                        cst_task_name(e->ops->task));
    return cst_fail(context, CST_ERROR_ARGUMENT, "unknown metric '%.60s' for %s; choose one of: %s",
                    text, cst_task_name(e->ops->task), list);
}

static void add_metric(cst_evaluation *e) {
    int32_t count = 0;
    const cst_score_spec *scores = cst_task_scores(e->ops->task, &count);
    e->added = cst_metric_is_more(e->metric.metric);
    memcpy(e->specs, scores, (size_t)count * sizeof *scores);
    e->specs[count] = e->metric.metric->shown;
}

cst_status cst_evaluation_metric(cst_context *context, cst_evaluation *e, const char *text) {
    if (!text || !*text)
        return CST_OK;
    if (!e->ops->scored)
        return find_score(context, e, text);
    CST_TRY(cst_metric_parse(context, &e->scope, e->ops->task, text, &e->metric));
    add_metric(e);
    return CST_OK;
}

cst_status cst_model_metric(cst_context *context, cst_scope *scope, const cst_model *model,
                            const char *text, cst_metric_choice *out) {
    const cst_decision *decision = model->decision;
    const char *own = text ? text : cst_model_value(model, "metric");
    *out = (cst_metric_choice){0};
    if (!text && decision && decision->costs)
        *out = (cst_metric_choice){.metric = cst_metric_of_key(CST_TASK_CLASSIFICATION, "cost"),
                                   .costs = decision->costs,
                                   .cost_classes = decision->classes};
    else if (own && (text || cst_metric_known(context, model->task, own)))
        return cst_metric_parse(context, scope, model->task, own, out);
    return CST_OK; /* without one, too, where the fit's was one of the caller's own */
}

cst_status cst_evaluation_metric_of(cst_context *context, cst_evaluation *e, const cst_model *model,
                                    const char *text) {
    if (!e->ops->scored)
        return cst_evaluation_metric(context, e, text ? text : cst_model_value(model, "metric"));
    CST_TRY(cst_model_metric(context, &e->scope, model, text, &e->metric));
    if (e->metric.metric)
        add_metric(e);
    return CST_OK;
}

cst_status cst_model_score(cst_context *context, const cst_model *model, cst_metric_choice metric,
                           const char *name, const cst_metric_rows *given, double *out) {
    cst_metric_rows rows = *given;
    CST_SCOPE(scope);
    *out = NAN;
    if (model->decision && cst_metric_decides(metric)) {
        CST_NEW(context, scope, int32_t, decided, rows.rows);
        cst_decision_apply(model->decision, rows.values, rows.rows, rows.columns, decided);
        rows.decided = decided;
    }
    cst_status status = cst_metric_of(context, metric, &rows, out);
    if (status != CST_ERROR_INPUT)
        return status;
    cst_notice(context, "%s: %s", name, cst_last_error(context));
    return CST_OK;
}

const cst_score_spec *cst_evaluation_scores(const cst_evaluation *e, int32_t *count) {
    const cst_score_spec *scores = cst_task_scores(e->ops->task, count);
    *count += e->added;
    return e->added ? e->specs : scores;
}

cst_status cst_entry_metric(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    int32_t count = 0;
    int32_t times = 0;
    double sum = 0;
    cst_metric_rows rows;
    (void)cst_task_scores(e->ops->task, &count);
    if (!e->added || e->unscored)
        return CST_OK;
    for (; e->ops->scored(e, entry->result, times, &rows); times++) {
        double one = NAN;
        cst_status status = cst_metric_of(context, e->metric, &rows, &one);
        if (status == CST_ERROR_INPUT)
            cst_notice(context, "%s%s%s", entry->name, *entry->name ? ": " : "",
                       cst_last_error(context));
        else
            CST_TRY(status);
        sum += one;
    }
    entry->scores[count] = sum / times;
    return CST_OK;
}

/* ---- intervals ---- */

typedef struct metric_job {
    cst_metric_choice choice;
    cst_metric_rows *rows; /* [methods]; without values where the metric is not defined */
} metric_job;

static void figures(const cst_bootstrap *b, const cst_resample *drawn, void *scratch, int64_t lanes,
                    int64_t stride, double *out) {
    const metric_job *job = b->user;
    double *weights = scratch;
    for (int32_t m = 0; m < b->methods; m++) {
        const cst_metric_rows *rows = &job->rows[m];
        for (int64_t l = 0; l < lanes; l++) {
            const unsigned char *times = drawn->lane + l * drawn->padded;
            for (int64_t i = 0; rows->values && i < rows->rows; i++)
                weights[i] = rows->weights[i] * times[i];
            out[m * stride + l] = rows->values ? cst_metric_compute(job->choice, rows, weights,
                                                                    weights + b->samples[0])
                                               : NAN;
        }
    }
}

/* rows: [count], made or without values. */
static cst_status draw(cst_context *context, cst_metric_choice metric, cst_metric_rows *rows,
                       int32_t count, int32_t reference, int32_t resamples, uint64_t seed,
                       cst_interval *interval, cst_interval *difference, double *p) {
    metric_job job = {metric, rows};
    double each = (double)rows[0].rows * rows[0].columns;
    each += metric.metric->compute == cst_metric_smooth_ece ? SMOOTH_NUMBERS : 0;
    double most = NUMBERS / (count * each);
    most = fmax(FEWEST, floor(most));
    cst_bootstrap b = {.samples = {rows[0].rows, 0},
                       .seed = {seed, 0},
                       .resamples = resamples > most ? (int32_t)most : resamples,
                       .methods = count,
                       .scores = 1,
                       .scratch =
                           ((size_t)rows[0].rows + cst_metric_scratch(&rows[0])) * sizeof(double),
                       .figures = figures,
                       .user = &job};
    return cst_bootstrap_intervals(context, &b, reference, interval, difference, p);
}

cst_status cst_entries_metric_intervals(cst_context *context, const cst_evaluation *e,
                                        const void *const *results, int32_t count,
                                        int32_t reference, int32_t resamples,
                                        cst_interval *interval, cst_interval *difference,
                                        double *p) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_metric_rows, rows, count);
    if (e->metric.metric->own)
        return CST_OK;
    for (int32_t m = 0; m < count; m++) {
        cst_metric_rows given;
        if (!e->ops->scored(e, results[m], 0, &given))
            return CST_OK;
        cst_status status = cst_metric_rows_make(context, scope, e->metric, &given, &rows[m]);
        if (status != CST_ERROR_INPUT)
            CST_TRY(status);
        if (status != CST_OK)
            rows[m].values = NULL;
    }
    return draw(context, e->metric, rows, count, reference, resamples, e->options->seed, interval,
                difference, p);
}

/* ---- a fit ---- */

enum { FIT_RESAMPLES = 1000 };

cst_status cst_metric_interval(cst_context *context, cst_metric_choice metric,
                               const cst_metric_rows *given, uint64_t seed, cst_interval *out) {
    cst_metric_rows rows;
    CST_SCOPE(scope);
    *out = (cst_interval){NAN, NAN, NAN};
    if (!metric.metric->compute && !metric.metric->counts)
        return cst_metric_of(context, metric, given, &out->value);
    cst_status status = cst_metric_rows_make(context, scope, metric, given, &rows);
    if (status == CST_ERROR_INPUT) {
        cst_notice(context, "%s", cst_last_error(context));
        return CST_OK;
    }
    CST_TRY(status);
    return draw(context, metric, &rows, 1, 0, FIT_RESAMPLES, seed, out, NULL, NULL);
}

cst_status cst_nested_rows(cst_context *context, cst_scope *scope, const cst_training *source,
                           const float *held, cst_metric_rows *out, const int32_t **folds) {
    const cst_view *view = &source->view;
    *folds = source->folds;
    *out = (cst_metric_rows){.values = held,
                             .rows = view->rows,
                             .columns = view->classes,
                             .labels = view->labels,
                             .targets = view->targets,
                             .weights = view->weights};
    if (!source->time)
        return CST_OK;
    CST_NEW(context, scope, int32_t, labels, view->rows);
    CST_NEW(context, scope, double, weights, view->rows);
    CST_NEW(context, scope, int32_t, later, view->rows);
    size_t width = view->targets ? (size_t)view->classes : 0;
    CST_NEW(context, scope, double, targets, ((size_t)view->rows * width));
    int64_t to = 0;
    for (int64_t i = 0; i < view->rows; i++) {
        if (source->folds[i] == 0)
            continue;
        if (view->labels)
            labels[to] = cst_view_label(view, i);
        if (view->targets)
            memcpy(targets + (size_t)to * width, cst_view_target(view, i), width * sizeof *targets);
        weights[to] = cst_view_weight(view, i);
        later[to++] = source->folds[i];
    }
    out->rows = to;
    out->labels = view->labels ? labels : NULL;
    out->targets = view->targets ? targets : NULL;
    out->weights = view->weights ? weights : NULL;
    *folds = later;
    return CST_OK;
}

cst_status cst_model_decisions(cst_context *context, cst_metric_choice metric,
                               const cst_metric_rows *rows, const int32_t *folds,
                               int32_t fold_count, int32_t *decided, cst_model *model,
                               double *gain) {
    size_t classes = (size_t)rows->columns;
    size_t numbers = metric.costs ? classes * classes : classes;
    cst_scope *scope = &model->scope;
    CST_NEW(context, scope, cst_decision, decision, 1);
    CST_NEW(context, scope, double, found, numbers);
    decision->classes = rows->columns;
    *gain = NAN;
    if (metric.costs && metric.cost_classes == rows->columns) {
        memcpy(found, metric.costs, numbers * sizeof *found);
        decision->costs = found;
        cst_decision_apply(decision, rows->values, rows->rows, rows->columns, decided);
    } else {
        CST_TRY(cst_decision_cross(context, metric, rows, folds, fold_count, decided, found, gain));
        decision->offsets = found;
    }
    model->decision = metric.costs || *gain > 0 ? decision : NULL;
    return CST_OK;
}

cst_status cst_fit_members_metric(cst_context *context, cst_fit_job *job) {
    const cst_view *view = &job->source.view;
    if (!job->facts.metric.metric)
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, job->scope, double, all, view->members);
    CST_NEW(context, scope, float, values, ((size_t)view->rows * (size_t)view->classes));
    const cst_metric_rows rows = {.values = values,
                                  .rows = view->rows,
                                  .columns = view->classes,
                                  .labels = view->labels,
                                  .targets = view->targets,
                                  .weights = view->weights};
    for (int32_t k = 0; k < view->members; k++) {
        all[k] = NAN;
        if (view->presence) /* rows that it did not predict are filled in */
            continue;
        CST_TRY(cst_view_copy(context, view, k, values));
        cst_status status = cst_metric_of(context, job->facts.metric, &rows, &all[k]);
        if (status != CST_ERROR_INPUT)
            CST_TRY(status);
    }
    job->facts.of_members = all;
    return CST_OK;
}

/* ---- the paired test ---- */

/* Covariances of the placements of two predictions, over rows of one class: xx, xy, yy, divided by
 * the number of rows. */
static void covariance(const int32_t *labels, int64_t rows, int32_t class, const double *x,
                       const double *y, double out[3]) {
    double n = 0;
    double mean[2] = {0, 0};
    double sum[3] = {0, 0, 0};
    for (int64_t i = 0; i < rows; i++) {
        if ((labels[i] == 1) != class)
            continue;
        n++;
        mean[0] += x[i];
        mean[1] += y[i];
    }
    for (int64_t i = 0; i < rows; i++) {
        double dx = x[i] - mean[0] / n;
        double dy = y[i] - mean[1] / n;
        if ((labels[i] == 1) != class)
            continue;
        sum[0] += dx * dx;
        sum[1] += dx * dy;
        sum[2] += dy * dy;
    }
    for (int k = 0; k < 3; k++)
        out[k] += n > 1 ? sum[k] / (n - 1) / n : NAN;
}

cst_status cst_metric_test(cst_context *context, const cst_evaluation *e, const void *first,
                           const void *second, cst_pair_test *out) {
    cst_metric_rows rows[2];
    double area[2];
    double *places[2];
    double cov[3] = {0, 0, 0};
    CST_SCOPE(scope);
    bool there = e->ops->scored(e, first, 0, &rows[0]) && e->ops->scored(e, second, 0, &rows[1]);
    if (e->metric.metric->compute != cst_metric_auc_mean || !there || rows[0].columns != 2 ||
        rows[0].weights)
        return CST_OK;
    for (int k = 0; k < 2; k++) {
        const cst_metric_rows given = rows[k];
        CST_TRY(cst_metric_rows_make(context, scope, e->metric, &given, &rows[k]));
        CST_TAKE(context, scope, places[k], given.rows);
        area[k] = cst_metric_auc(&rows[k], rows[k].weights, 1, places[k]);
    }
    for (int class = 0; class < 2; class ++)
        covariance(rows[0].labels, rows[0].rows, class, places[0], places[1], cov);
    double variance = cov[0] - 2 * cov[1] + cov[2];
    if (isnan(area[0]) || isnan(variance))
        return CST_OK;
    double z = (area[0] - area[1]) / sqrt(variance);
    bool equal = !(variance > 0);
    out->test = "DeLong";
    out->difference = area[0] - area[1];
    out->p = equal ? 1 : cst_student_t_two_sided(z, INFINITY);
    return CST_OK;
}
