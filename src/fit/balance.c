/*
 * Class weights of a fit: rows of rare classes count more. Before selection and the log-linear
 * pool. Paper: "Long-Tail Recognition", which evaluates on rare classes and fits on all alike.
 */
#include "fit/balance.h"

#include <math.h>

cst_status cst_balance_check(cst_context *context, const cst_settings *settings) {
    if (settings->balance <= 0)
        return CST_OK;
    if (settings->learners != CST_META_LOGLINEAR)
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "fit.balance weights the rows of the log-linear pool and of selection, and has no "
            "effect on other meta-learners: set meta.learners=log-linear, or fit.balance=0");
    if (settings->drop)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "fit.balance and refit.drop cannot be combined: removals are judged on "
                        "unweighted rows; set refit.drop=false, or fit.balance=0");
    if (settings->domain_aware == CST_DOMAIN_AWARE_TRUE)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "fit.balance and domain.aware=true cannot be combined: biases of domains "
                        "would undo the balance; set domain.aware=false, or fit.balance=0");
    return CST_OK;
}

/* (rows / (classes n_c))^balance, scaled so that the rows' mean is 1; a class without rows has
 * none. Rows are counted by their own weights, of mean 1. */
cst_status cst_balance(cst_context *context, cst_scope *scope, const cst_view *view,
                       const cst_settings *settings, cst_settings *out) {
    double *counts;
    double *weights;
    double total = 0;
    *out = *settings;
    CST_TRY(cst_balance_check(context, settings));
    if (settings->balance <= 0)
        return CST_OK;
    CST_TAKE(context, scope, counts, view->classes);
    CST_TAKE(context, scope, weights, view->classes);
    for (int64_t i = 0; i < view->rows; i++)
        counts[cst_view_label(view, i)] += cst_view_weight(view, i);
    for (int32_t c = 0; c < view->classes; c++) {
        double share = (double)view->classes * counts[c] / (double)view->rows;
        weights[c] = counts[c] > 0 ? pow(share, -settings->balance) : 0;
        total += counts[c] * weights[c];
    }
    for (int32_t c = 0; c < view->classes; c++)
        weights[c] *= (double)view->rows / total;
    out->selection.compact.class_weights = weights;
    out->loglinear.compact.class_weights = weights;
    return CST_OK;
}
