/*
 * Baselines on views: what the public functions of corestack/baselines.h do, for use inside folds.
 * Beside the stack, after stage S0. method.md section 8.
 */
#ifndef CST_BASELINES_H
#define CST_BASELINES_H

#include "base/base.h"
#include "pool/view.h"

#include <corestack/baselines.h>

/* As cst_baseline_fit and cst_baseline_predict. The view must have labels to be fitted on. */
cst_status cst_baseline_fit_view(cst_context *context, const cst_view *view, cst_baseline_kind kind,
                                 bool temperature, cst_baseline *out);
cst_status cst_baseline_predict_view(cst_context *context, const cst_baseline *baseline,
                                     const cst_view *view, float *out);

/* The weights [members] of each kind. */
cst_status cst_baseline_best_single(cst_context *context, const cst_view *view, bool by_top1,
                                    double *weights);
cst_status cst_baseline_average(cst_context *context, const cst_view *view, double *weights);
cst_status cst_baseline_greedy(cst_context *context, const cst_view *view, double *weights);

/* Bounds of a fitted temperature; a fit that ends at one of them leaves a notice. */
#define CST_TEMPERATURE_LOW 0.01
#define CST_TEMPERATURE_HIGH 100.0

/* The temperature that gives the mixture with the given weights [members] the least mean NLL on the
 * view. *nll: the loss there; may be NULL. */
cst_status cst_temperature_fit(cst_context *context, const cst_view *view, const double *weights,
                               double *temperature, double *nll);

/* softmax(log(max(p, 1e-15)) / temperature) in place; probabilities: [count][classes]. */
void cst_temperature_rows(double temperature, int64_t count, int32_t classes,
                          double *probabilities);

#endif
