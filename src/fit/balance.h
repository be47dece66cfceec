/*
 * Class weights of a fit: rows of rare classes count more. Before selection and the log-linear
 * pool. Paper: "Long-Tail Recognition", which evaluates on rare classes and fits on all alike.
 */
#ifndef CST_PIPELINE_BALANCE_H
#define CST_PIPELINE_BALANCE_H

#include "data/pool/view.h"
#include "fit/settings.h"

/* CST_ERROR_ARGUMENT where a balance is set beside what does not take it. */
cst_status cst_balance_check(cst_context *context, const cst_settings *settings);

/* The settings for the rows of a view: with a balance, losses of selection and log-linear pool have
 * class weights from these rows, which live as long as the scope. */
cst_status cst_balance(cst_context *context, cst_scope *scope, const cst_view *view,
                       const cst_settings *settings, cst_settings *out);

#endif
