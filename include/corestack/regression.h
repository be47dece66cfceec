/* Regression: scores of predicted values, their variances and intervals against targets, and
 * prediction with variance by a fitted model.
 * docs/method.md#s2-and-s3-gate-and-penalties and docs/regression.md#scores. */
#ifndef CORESTACK_REGRESSION_H
#define CORESTACK_REGRESSION_H

#include <corestack/context.h>
#include <corestack/model.h>
#include <corestack/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Most levels at which the coverage of intervals is measured at a time. */
#define CST_LEVELS_MAX 8

/* What is predicted of `rows` samples with `outputs` values each, and how surely. Arrays are [rows]
 * [outputs], C order, borrowed. */
typedef struct cst_predicted_values {
    size_t struct_size; /* sizeof(cst_predicted_values), or 0 for the fields of version 0.1 */
    int64_t rows;
    int64_t outputs;
    const float *mean;
    const float *variance;          /* positive; NULL where there is none: no nll */
    int64_t levels;                 /* of intervals, 0 to CST_LEVELS_MAX */
    const double *level;            /* [levels], each in (0, 1) */
    const float *const *half_width; /* [levels], each as mean, 0 to INFINITY: the interval is mean -
                                       and + half_width, both ends included */
} cst_predicted_values;

/* cst_metric_definition has each in words. */
typedef struct cst_value_metrics {
    int64_t samples;
    double rmse;      /* root of the mean squared error */
    double mae;       /* mean absolute error */
    double median_ae; /* median absolute error */
    double r2;        /* 1 - squared error / squared deviation of the targets from their mean */
    double nll;       /* mean Gaussian NLL, nats; NaN without variances */
    int64_t levels;
    double level[CST_LEVELS_MAX];
    double coverage[CST_LEVELS_MAX]; /* share of the targets inside their interval */
    double width[CST_LEVELS_MAX];    /* mean width, in units of the target */
} cst_value_metrics;

/* Scores predicted values against targets [rows][outputs]. average: receives the mean of each score
 * over the outputs ("uniform_average" of scikit-learn). each: [outputs], receives the scores per
 * output, or NULL. For a constant target, r2 is 1 for exact predictions and 0 otherwise.
 * CST_ERROR_INPUT, with row and output, for other numbers that are not finite, a variance that is
 * not positive or a negative half-width. */
CST_API cst_status cst_value_metrics_evaluate(cst_context *context,
                                              const cst_predicted_values *predicted,
                                              const double *targets, cst_value_metrics *average,
                                              cst_value_metrics *each);

/* ---- prediction ---- */

/* Predicts with a regression model like cst_model_predict, with the variance of each value: noise
 * plus parameter uncertainty. mean, variance: [rows][outputs], provided by the caller.
 * CST_ERROR_INPUT for a model of another task and, with row and output, for a variance that is too
 * large for float32. For programs that hold the members' values in memory. */
CST_API cst_status cst_model_predict_values(cst_context *context, const cst_model *model,
                                            const float *const *predictions, int64_t rows,
                                            float *mean, float *variance);

/* Predicts a split of a pool like cst_model_predict_pool, with variances. *mean, *variance:
 * [rows][outputs], belong to the caller (cst_free). */
CST_API cst_status cst_model_predict_values_pool(cst_context *context, const cst_model *model,
                                                 cst_pool *pool, const char *split, float **mean,
                                                 float **variance, int64_t *rows);

/* Predicts a split of a pool, each value as the metric of the fit is best with it (option
 * "metric"): a quantile, or the mean behind a transform; else as it is. *values: [rows][outputs],
 * belong to the caller (cst_free). */
CST_API cst_status cst_model_decide_values_pool(cst_context *context, const cst_model *model,
                                                cst_pool *pool, const char *split, float **values,
                                                int64_t *rows);

/* Computes prediction intervals that contain a share `level` (in (0, 1)) of new targets, from the
 * results of the two functions above. The rule is that of the fit (option interval.rule): quantiles
 * of cross-fitted residuals stored in the model (conformal prediction: Lei et al. 2018;
 * cross-fitting: Barber et al. 2021), or the normal distribution. lower, upper: [rows][outputs].
 * CST_ERROR_INPUT, with row and output, for ends that are not finite; and for a level whose
 * quantile n residuals do not have, (n + 1) level > n, with the rows that it needs. */
CST_API cst_status cst_model_intervals(cst_context *context, const cst_model *model, double level,
                                       const float *mean, const float *variance, int64_t rows,
                                       float *lower, float *upper);

#ifdef __cplusplus
}
#endif
#endif
