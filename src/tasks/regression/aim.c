/* What values become for a metric that another value than the mean is best for. A quantile of the
 * pinball loss, or the mean behind a transform. docs/metrics.md#values-for-a-metric. */
#include "model/transform.h"
#include "stats/row_weights.h"
#include "tasks/regression/regression.h"

#include <math.h>
#include <string.h>

enum { COLUMNS = CST_AIM_COLUMNS };

/* What a quantile may be: the value and some deviations, or a line of the value. */
enum { DEVIATIONS = 0, LINE = 1, CANDIDATES = 2 };

typedef struct aim_job {
    cst_metric_choice metric;
    cst_metric_aim kind;
    double level; /* of a quantile */
    const cst_metric_rows *rows;
    const int32_t *folds;
    double *t; /* [outputs][rows]: values, in units of the scaling after the transform */
    double *s; /* [outputs][rows]: their standard deviations */
    double *y; /* [outputs][rows]: targets */
    double *w; /* [outputs][rows]: what a unit of error costs */
    const cst_model *model;
    /* of a fit: */
    int32_t output;
    int32_t without; /* fold; -1: none */
    int candidate;
    double solution[2];
    double least; /* residuals below count as so much */
} aim_job;

/* ---- rows ---- */

/* How many times its absolute error a row costs. */
static double cost_of(cst_metric_choice metric, double y, double f) {
    static const double least = 2.220446049250313e-16; /* as scikit-learn's */
    if (metric.metric->compute == cst_metric_mape)
        return 1 / fmax(fabs(y), least);
    if (metric.metric->compute == cst_metric_smape)
        return fabs(y) + fabs(f) > 0 ? 2 / (fabs(y) + fabs(f)) : 0;
    return 1;
}

/* In units of the scaling: a step of the transformed value moves the value by the slope. */
static void read_rows(aim_job *job, const float *variance) {
    const cst_metric_rows *rows = job->rows;
    const cst_scaling *scaling = &job->model->values->scaling;
    cst_transform_kind kind =
        job->model->transform ? job->model->transform->kind : CST_TRANSFORM_NONE;
    for (int64_t e = 0; e < rows->rows * rows->columns; e++) {
        int64_t i = e / rows->columns;
        int64_t d = e % rows->columns;
        int64_t to = d * rows->rows + i;
        double f = cst_transform_within(kind, (double)rows->values[e]);
        double scale = scaling->scale[d];
        job->t[to] = (cst_transform_of(kind, f) - scaling->location[d]) / scale;
        job->s[to] = sqrt((double)variance[e]) / scale;
        job->y[to] = (cst_transform_of(kind, rows->targets[e]) - scaling->location[d]) / scale;
        job->w[to] = (rows->weights ? rows->weights[i] : 1) *
                     cost_of(job->metric, rows->targets[e], f) * cst_transform_slope(kind, f);
    }
}

/* ---- a quantile ---- */

enum { GRAM = 0, RIGHT = 3, SIZE = 5, WEIGHT = 6, SUMS = 7, STEPS = 60 };

/* Sums of a weighted least squares fit that has the slopes of the pinball loss. */
static cst_status slopes_block(cst_context *context, void *user, int64_t block, double *sum) {
    (void)context;
    const aim_job *job = user;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(job->rows->rows, block);
    for (int64_t i = first; i < end; i++) {
        int64_t at = job->output * job->rows->rows + i;
        bool line = job->candidate == LINE;
        const double x[2] = {line ? 1 : job->s[at], line ? job->t[at] : 0};
        double y = job->y[at] - (line ? 0 : job->t[at]);
        double off = y - job->solution[0] * x[0] - job->solution[1] * x[1];
        double weight = job->folds[i] == job->without ? 0 : job->w[at];
        sum[SIZE] += weight * fabs(off);
        sum[WEIGHT] += weight;
        weight *= (off >= 0 ? job->level : 1 - job->level) / fmax(fabs(off), job->least);
        sum[GRAM] += weight * x[0] * x[0];
        sum[GRAM + 1] += weight * x[0] * x[1];
        sum[GRAM + 2] += weight * x[1] * x[1];
        sum[RIGHT] += weight * x[0] * y;
        sum[RIGHT + 1] += weight * x[1] * y;
    }
    return CST_OK;
}

/* The least pinball loss, by steps of least squares whose weights sharpen. */
static cst_status fit_quantile(cst_context *context, aim_job *job, double *out) {
    double sum[SUMS];
    int64_t blocks = cst_block_count(job->rows->rows);
    double size = 0;
    double *found = job->solution;
    found[0] = 0;
    found[1] = job->candidate == LINE;
    for (int step = 0; step < STEPS; step++) {
        job->least = step > 0 ? size * fmax(pow(0.7, step), 1e-6) : 1;
        CST_TRY(cst_reduce_blocks(context, blocks, SUMS, slopes_block, job, sum));
        size = step > 0 ? size : sum[SIZE] / sum[WEIGHT];
        double ridge = 1e-12 * (sum[GRAM] + sum[GRAM + 2]);
        double a = sum[GRAM] + ridge;
        double c = sum[GRAM + 2] + ridge;
        double det = a * c - sum[GRAM + 1] * sum[GRAM + 1];
        if (!(size > 0 && det > 0)) /* no rows, or no residuals */
            break;
        if (step == 0)
            continue;
        found[0] = (c * sum[RIGHT] - sum[GRAM + 1] * sum[RIGHT + 1]) / det;
        found[1] = (a * sum[RIGHT + 1] - sum[GRAM + 1] * sum[RIGHT]) / det;
    }
    bool line = job->candidate == LINE;
    out[0] = line ? found[0] : 0;
    out[1] = line ? found[1] : 1;
    out[2] = line ? 0 : found[0];
    return CST_OK;
}

/* ---- the mean behind a transform ---- */

typedef struct residual {
    double value, weight;
    int64_t row;
} residual;

CST_BY(by_value, residual, CST_UP(value), CST_UP(row), 0)

/* Means of groups of standardised residuals with the same weight each (Duan 1983, in groups). */
static cst_status group(cst_context *context, const aim_job *job, double *out) {
    int64_t n = job->rows->rows;
    double total = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, residual, all, n);
    for (int64_t i = 0; i < n; i++) {
        size_t at = (size_t)job->output * (size_t)n + (size_t)i;
        double weight = job->rows->weights ? job->rows->weights[i] : 1;
        all[i] = (residual){(job->y[at] - job->t[at]) / job->s[at],
                            job->folds[i] == job->without ? 0 : weight, i};
        total += all[i].weight;
    }
    CST_TRY(cst_sort(context, all, (size_t)n, sizeof *all, by_value));
    double each = total / CST_AIM_RESIDUALS;
    double left = each;
    int32_t g = 0;
    for (int64_t i = 0; each > 0 && i < n && g < CST_AIM_RESIDUALS;) {
        bool last = g == CST_AIM_RESIDUALS - 1;
        double part = last ? all[i].weight : fmin(all[i].weight, left);
        out[g] += part * all[i].value / each;
        left -= part;
        all[i].weight -= part;
        if (all[i].weight > 0) {
            g++;
            left = each;
        } else {
            i++;
        }
    }
    return CST_OK;
}

/* ---- fits ---- */

static cst_status fit(cst_context *context, aim_job *job, int candidate, int32_t without,
                      cst_aim *aim) {
    size_t numbers = (size_t)job->rows->columns * (size_t)(COLUMNS + aim->residuals);
    memset(aim->numbers, 0, numbers * sizeof *aim->numbers);
    job->without = without;
    job->candidate = candidate;
    for (job->output = 0; job->output < job->rows->columns; job->output++) {
        double *own = aim->numbers + job->output * (COLUMNS + aim->residuals);
        own[1] = 1;
        CST_TRY(job->kind == CST_METRIC_QUANTILE ? fit_quantile(context, job, own)
                                                 : group(context, job, own + COLUMNS));
    }
    return CST_OK;
}

void cst_value_aim_apply(const cst_model *model, const cst_aim *aim, const float *values,
                         const float *variance, int64_t rows, float *out) {
    for (int64_t e = 0; e < rows * model->classes; e++)
        out[e] = (float)cst_aim_of(model, aim, (int32_t)(e % model->classes), (double)values[e],
                                   (double)variance[e]);
}

/* Rows of every fold by what is found on the others. */
static cst_status cross(cst_context *context, aim_job *job, int candidate, const float *variance,
                        int32_t fold_count, cst_aim *aim, float *out) {
    const cst_metric_rows *rows = job->rows;
    for (int32_t f = 0; f < fold_count; f++) {
        CST_TRY(fit(context, job, candidate, f, aim));
        for (int64_t i = 0; i < rows->rows; i++)
            if (job->folds[i] == f)
                cst_value_aim_apply(job->model, aim, rows->values + i * rows->columns,
                                    variance + i * rows->columns, 1, out + i * rows->columns);
    }
    return CST_OK;
}

/* The metric of values, higher being better; NaN where it is not defined for them. */
static cst_status judge(cst_context *context, const aim_job *job, const float *values,
                        double *out) {
    cst_metric_rows rows = *job->rows;
    rows.values = values;
    cst_status status = cst_metric_of(context, job->metric, &rows, out);
    *out *= job->metric.metric->shown.higher_is_better ? 1 : -1;
    if (status != CST_ERROR_INPUT)
        return status;
    *out = NAN;
    return CST_OK;
}

cst_status cst_value_aim(cst_context *context, cst_metric_choice metric,
                         const cst_metric_rows *rows, const float *variance, const int32_t *folds,
                         int32_t fold_count, cst_model *model, float *aimed, double *gain) {
    size_t cells = (size_t)rows->rows * (size_t)rows->columns;
    aim_job job = {.metric = metric, .rows = rows, .folds = folds, .model = model};
    double before = 0;
    int best = -1;
    job.kind = cst_metric_aim_of(metric, model->transform != NULL, &job.level);
    cst_aim aim = {.residuals = job.kind == CST_METRIC_MEAN ? CST_AIM_RESIDUALS : 0};
    size_t numbers = (size_t)rows->columns * (size_t)(COLUMNS + aim.residuals);
    *gain = NAN;
    memcpy(aimed, rows->values, cells * sizeof *aimed);
    if (job.kind == CST_METRIC_AS_IT_IS || rows->rows < 1)
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, trial, cells);
    CST_TAKE(context, scope, aim.numbers, numbers);
    CST_TAKE(context, scope, job.t, cells);
    CST_TAKE(context, scope, job.s, cells);
    CST_TAKE(context, scope, job.y, cells);
    CST_TAKE(context, scope, job.w, cells);
    read_rows(&job, variance);
    CST_TRY(judge(context, &job, rows->values, &before));
    *gain = 0;
    for (int c = 0; c < (job.kind == CST_METRIC_QUANTILE ? CANDIDATES : 1); c++) {
        double value = 0;
        CST_TRY(cross(context, &job, c, variance, fold_count, &aim, trial));
        CST_TRY(judge(context, &job, trial, &value));
        if (!(value - before > *gain))
            continue;
        *gain = value - before;
        best = c;
        memcpy(aimed, trial, cells * sizeof *aimed);
    }
    if (best < 0)
        return CST_OK;
    CST_TAKE(context, &model->scope, model->aim, 1);
    model->aim->residuals = aim.residuals;
    CST_TAKE(context, &model->scope, model->aim->numbers, numbers);
    return fit(context, &job, best, -1, model->aim);
}

/* ---- scores ---- */

/* The score of the metric, where it is one of the task's own. */
static double *own_score(cst_metric_choice metric, cst_value_metrics *scores) {
    const char *key = metric.metric ? metric.metric->shown.key : "";
    return strcmp(key, "rmse") == 0        ? &scores->rmse
           : strcmp(key, "mae") == 0       ? &scores->mae
           : strcmp(key, "median_ae") == 0 ? &scores->median_ae
           : strcmp(key, "r2") == 0        ? &scores->r2
                                           : NULL;
}

cst_status cst_value_scores(cst_context *context, cst_metric_choice metric,
                            const cst_predicted_values *values, const float *aimed,
                            const cst_view *rows, cst_value_metrics *average,
                            cst_value_metrics *each) {
    const cst_predicted_values moved = {
        .rows = values->rows, .outputs = values->outputs, .mean = aimed};
    cst_value_metrics all;
    CST_TRY(
        cst_value_metrics_weighted(context, values, rows->targets, rows->weights, average, each));
    if (!aimed || !own_score(metric, average))
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_value_metrics, outputs, values->outputs);
    CST_TRY(
        cst_value_metrics_weighted(context, &moved, rows->targets, rows->weights, &all, outputs));
    *own_score(metric, average) = *own_score(metric, &all);
    for (int64_t d = 0; each && d < values->outputs; d++)
        *own_score(metric, &each[d]) = *own_score(metric, &outputs[d]);
    return CST_OK;
}
