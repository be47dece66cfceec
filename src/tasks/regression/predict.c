/* Predicted values with their variances and intervals, from arrays or a pool. The last stage of a
 * regression. docs/regression.md. */
#include "tasks/regression/regression.h"

#include "model/transform.h"

#include <corestack/regression.h>

#include <float.h>
#include <math.h>

static cst_status need_values(cst_context *context, const cst_model *model) {
    if (cst_model_task(model) != CST_TASK_REGRESSION)
        return cst_fail(context, CST_ERROR_INPUT,
                        "the model was fitted for %s; variances are for regression",
                        cst_task_text(cst_model_task(model)));
    if (!model->values)
        return cst_fail(context, CST_ERROR_INPUT,
                        "the model has no variances; fit it again with this version");
    return CST_OK;
}

/* Variances of the result from those of transformed values, by the delta method. */
static cst_status put_back(cst_context *context, const cst_model *model, const float *mean,
                           int64_t rows, float *variance) {
    for (int64_t e = 0; model->transform && e < rows * model->classes; e++) {
        cst_transform_kind kind = model->transform->kind;
        double slope = cst_transform_slope(kind, cst_transform_within(kind, (double)mean[e]));
        double moved = (double)variance[e] * slope * slope;
        variance[e] = moved < (double)FLT_MIN ? FLT_MIN : (float)moved;
        if (!isfinite(variance[e]))
            return cst_fail(context, CST_ERROR_INPUT,
                            "row %lld, output %d: the variance is %g, too large for float32; are "
                            "the members' predictions correct?",
                            (long long)(e / model->classes), (int)(e % model->classes), moved);
    }
    return CST_OK;
}

cst_status cst_model_predict_values(cst_context *context, const cst_model *model,
                                    const float *const *predictions, int64_t rows, float *mean,
                                    float *variance) {
    CST_ENTER(context);
    if (!model || (rows > 0 && !variance))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_predict_values: model, means and variances are required");
    cst_status status = need_values(context, model);
    if (status == CST_OK) /* checks its arguments and the values */
        status = cst_model_predict(context, model, predictions, rows, mean);
    cst_view view = {
        .rows = rows, .classes = model->classes, .members = model->members, .data = predictions};
    CST_THEN(cst_stack_variance(context, model, &view, variance));
    CST_THEN(put_back(context, model, mean, rows, variance));
    return cst_why(context, status);
}

static cst_status aim(cst_context *context, const cst_model *model, int64_t rows,
                      const float *variance, float *values) {
    cst_value_aim_apply(model, model->aim, values, variance, rows, values);
    for (int64_t e = 0; e < rows * model->classes; e++)
        if (!isfinite(values[e]))
            return cst_fail(context, CST_ERROR_INPUT,
                            "row %lld, output %d: the value for the metric of the fit is too large "
                            "for float32; are the members' predictions correct?",
                            (long long)(e / model->classes), (int)(e % model->classes));
    if (!model->aim)
        cst_notice(context,
                   "the model has no other values for its metric: these are its predictions");
    return CST_OK;
}

static cst_status predict_pool(cst_context *context, const cst_model *model, cst_pool *pool,
                               const char *split, bool aimed, float **mean, float **variance,
                               int64_t *rows) {
    cst_view view = {0};
    size_t cells = 0;
    CST_SCOPE(scope);
    CST_TRY(need_values(context, model));
    CST_TRY(cst_model_view(context, scope, model, pool, split, &view));
    if (!cst_size_mul((size_t)view.rows, (size_t)view.classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "too many values");
    *mean = cst_alloc(context, cells, sizeof **mean);
    *variance = cst_alloc(context, cells, sizeof **variance);
    if (!*mean || !*variance)
        return CST_ERROR_MEMORY;
    CST_TRY(cst_stack_predict_reported(context, model, &view, *mean));
    CST_TRY(cst_stack_variance(context, model, &view, *variance));
    CST_TRY(aimed ? aim(context, model, view.rows, *variance, *mean)
                  : put_back(context, model, *mean, view.rows, *variance));
    *rows = view.rows;
    return cst_model_view_tell(context, model, split, &view);
}

/* The call for a pool; what it gives is freed where it fails. */
static cst_status predict_split(cst_context *context, const cst_model *model, cst_pool *pool,
                                const char *split, bool aimed, float **mean, float **variance,
                                int64_t *rows) {
    *rows = 0;
    cst_status status = predict_pool(context, model, pool, split, aimed, mean, variance, rows);
    if (status != CST_OK) {
        cst_free(context, *mean);
        cst_free(context, *variance);
        *mean = *variance = NULL;
        *rows = 0;
    }
    return cst_why(context, status);
}

cst_status cst_model_predict_values_pool(cst_context *context, const cst_model *model,
                                         cst_pool *pool, const char *split, float **mean,
                                         float **variance, int64_t *rows) {
    CST_CLEAR(mean);
    CST_CLEAR(variance);
    CST_ENTER(context);
    if (!model || !pool || !split || !mean || !variance || !rows)
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "cst_model_predict_values_pool: model, pool, split and outputs are required");
    return predict_split(context, model, pool, split, false, mean, variance, rows);
}

cst_status cst_model_decide_values_pool(cst_context *context, const cst_model *model,
                                        cst_pool *pool, const char *split, float **values,
                                        int64_t *rows) {
    float *variance = NULL;
    CST_CLEAR(values);
    CST_ENTER(context);
    if (!model || !pool || !split || !values || !rows)
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "cst_model_decide_values_pool: model, pool, split and outputs are required");
    cst_status status = predict_split(context, model, pool, split, true, values, &variance, rows);
    cst_free(context, variance);
    return status;
}

/* A quantile of more residuals than the fit had is infinite, and one beyond the table a guess. */
static cst_status check_level(cst_context *context, const cst_model *model, double level) {
    const cst_values *values = model->values;
    double most = cst_value_level(CST_VALUE_LEVELS - 1);
    if (isinf(cst_values_factor(values, 0, level))) {
        double rows = round(1 / values->offset[0]);
        return cst_fail(context, CST_ERROR_INPUT,
                        "intervals at level %g need a fit on at least %.0f rows, but the model was "
                        "fitted on %.0f, which is enough for levels up to %.4g; use such a level, "
                        "more rows, or normal intervals (fit with interval.rule=gaussian)",
                        level, cst_values_needed(level), rows,
                        floor(1e4 * rows / (rows + 1)) / 1e4);
    }
    if (values->conformal && level > most)
        cst_notice(context,
                   "intervals at level %g: a model keeps the quantiles of its residuals up to %g; "
                   "beyond, they grow as those of the normal distribution",
                   level, most);
    return CST_OK;
}

/* The end of an interval `half` standard deviations above the mean, or (negative) below it. */
static float end_of(const cst_model *model, size_t output, float mean, float variance,
                    double half) {
    int32_t range = model->range ? model->range[output] : 0;
    double end = (double)mean + half * sqrt((double)variance);
    if (model->transform) {
        cst_transform_kind kind = model->transform->kind;
        double inside = cst_transform_within(kind, (double)mean);
        double deviation = sqrt((double)variance) / cst_transform_slope(kind, inside);
        end = cst_transform_inverse(kind, cst_transform_of(kind, inside) + half * deviation);
    }
    return (float)cst_range_keep(range, end);
}

cst_status cst_model_intervals(cst_context *context, const cst_model *model, double level,
                               const float *mean, const float *variance, int64_t rows, float *lower,
                               float *upper) {
    CST_ENTER(context);
    if (!model || rows < 0 || (rows > 0 && (!mean || !variance || !lower || !upper)))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_intervals: model, means, variances and both ends are required");
    if (!(level > 0 && level < 1))
        return cst_fail(context, CST_ERROR_ARGUMENT, "level %g of an interval is not in (0, 1)",
                        level);
    CST_FITS(context, rows, model->classes, sizeof *mean);
    cst_status status = need_values(context, model);
    CST_THEN(check_level(context, model, level));
    size_t width = (size_t)model->classes;
    for (size_t d = 0; status == CST_OK && d < width; d++) {
        double factor = cst_values_factor(model->values, (int32_t)d, level);
        for (size_t i = 0; status == CST_OK && i < (size_t)rows; i++) {
            size_t at = i * width + d;
            lower[at] = end_of(model, d, mean[at], variance[at], -factor);
            upper[at] = end_of(model, d, mean[at], variance[at], factor);
            if (!isfinite(lower[at]) || !isfinite(upper[at]))
                status = cst_fail(context, CST_ERROR_INPUT,
                                  "row %zu, output %zu: the interval of a mean of %g and a "
                                  "variance of %g is too large for float32",
                                  i, d, (double)mean[at], (double)variance[at]);
        }
    }
    return cst_why(context, status);
}
