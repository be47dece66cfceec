/*
 * One batch under the monitor: what is measured of its rows, and the accuracy and calibration to
 * expect without labels. docs/prediction.md#monitor.
 */
#include "fit/adapt/monitor.h"

#include "stats/weighted.h"

#include <math.h>

/* Typical error of the expected accuracy, beyond the sampling error of the rows: grows with the
 * drop from the accuracy of the fit. Measured on half of the corruptions of two pools
 * (experiments/shift/monitor.py). */
static const double ERROR_CLEAN = 0.01;
static const double ERROR_SLOPE = 0.5;
static const double ERROR_MOST = 0.13;
static const double DROP_FREE = 0.02;
static const double TWO_OVER_PI = 0.63661977236758134; /* (E|z|)^2 of a normal z */

void cst_monitor_result_free(cst_context *context, cst_monitor_result *result) {
    cst_free(context, result->name);
    cst_free(context, result->drift);
    *result = (cst_monitor_result){0};
}

/* The lower of two estimates: by the stack's confidence, and by that of the members' average. */
static void expect(const cst_watch *watch, const cst_watch_rows *rows, cst_monitor_result *out) {
    double stack = cst_watch_above(&watch->stack, rows->confidence, rows->rows);
    double average = cst_watch_above(&watch->average, rows->average, rows->rows);
    double sum = 0;
    for (int64_t i = 0; i < rows->rows; i++)
        sum += (double)rows->confidence[i];
    out->confidence = sum / (double)rows->rows;
    out->accuracy = stack < average ? stack : average;
    out->ece = watch->ece + fabs(out->confidence - out->accuracy);
    out->ece = out->ece < 1 ? out->ece : 1;
    double drop = watch->accuracy - out->accuracy - DROP_FREE;
    double shift = ERROR_CLEAN + ERROR_SLOPE * (drop > 0 ? drop : 0);
    shift = shift < ERROR_MOST ? shift : ERROR_MOST;
    double spread = out->accuracy * (1 - out->accuracy);
    double fit = watch->accuracy * (1 - watch->accuracy);
    spread = spread > fit ? spread : fit;
    out->error = sqrt(TWO_OVER_PI * spread / (double)rows->rows + shift * shift);
}

/* What the labels say, where there are any. */
static cst_status observe(cst_context *context, const cst_view *view, const int32_t *labels,
                          float *stack, cst_monitor_result *out) {
    size_t classes = (size_t)view->classes;
    cst_metrics scores = {0};
    out->observed = out->observed_ece = NAN;
    if (!labels)
        return CST_OK;
    int32_t *known = cst_alloc(context, (size_t)view->rows, sizeof *known);
    if (!known)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < view->rows; i++) {
        if (labels[i] < 0 || labels[i] >= view->classes)
            continue;
        if (out->labelled < i)
            memmove(stack + (size_t)out->labelled * classes, stack + (size_t)i * classes,
                    classes * sizeof *stack);
        known[out->labelled++] = labels[i];
    }
    cst_status status = CST_OK;
    if (out->labelled > 0)
        status = cst_metrics_weighted(context, stack, out->labelled, view->classes, known, NULL, 0,
                                      &scores);
    if (status == CST_OK && out->labelled > 0) {
        out->observed = scores.top1;
        out->observed_ece = scores.ece;
    }
    cst_free(context, known);
    return status;
}

cst_status cst_monitor_measure(cst_context *context, const cst_monitor *monitor,
                               const cst_view *view, const int32_t *labels, cst_watch_rows *rows,
                               cst_monitor_result *result) {
    const cst_watch *watch = monitor->model->watch;
    float *stack = cst_alloc(context, (size_t)view->rows * (size_t)view->classes, sizeof *stack);
    cst_status status = stack ? CST_OK : CST_ERROR_MEMORY;
    result->drift = cst_alloc(context, (size_t)view->members + 1, sizeof *result->drift);
    if (!result->drift)
        status = CST_ERROR_MEMORY;
    CST_THEN(cst_stack_predict(context, monitor->model, view, stack));
    CST_THEN(cst_watch_rows_alloc(context, view, rows));
    if (status == CST_OK)
        cst_watch_stack(rows, stack, 0, view->rows, view->classes);
    CST_THEN(cst_watch_measure(context, view, watch->groups, monitor->group_of, rows));
    if (status == CST_OK) {
        result->rows = view->rows;
        result->tested = rows->whole;
        expect(watch, rows, result);
        cst_monitor_compare(watch, rows, result);
        status = observe(context, view, labels, stack, result);
    }
    cst_free(context, stack);
    return status;
}
