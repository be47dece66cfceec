/* Methods that the caller added to the context: cst_context_add_method. docs/baselines.md. */
#pragma once

#include "fit/training.h"

#include <corestack/compare.h>

/* The method that a name stands for, with or without "+CALIBRATOR"; NULL: none. */
const cst_method_ops *cst_added_find(const cst_context *context, const char *name);
/* In the order in which they were added; NULL past the end. */
const cst_method_ops *cst_added_at(const cst_context *context, size_t index);

/* Adds a copy of one whose name is free. */
cst_status cst_added_keep(cst_context *context, const cst_method_ops *ops);

/* A fit of one. Starts as zeros. Free with cst_added_fit_free, also after a failure. */
typedef struct cst_added_fit {
    const cst_method_ops *ops;
    void *fitted;
} cst_added_fit;

cst_status cst_added_fit_run(cst_context *context, const cst_method_ops *ops, const cst_view *view,
                             uint64_t seed, cst_added_fit *out);
/* Predictions [view->rows][view->classes], checked. */
cst_status cst_added_predict(cst_context *context, const cst_added_fit *fit, const cst_view *view,
                             float *out);
/* Those of the rows of a training by fits without each row's fold. */
cst_status cst_added_nested(cst_context *context, const cst_method_ops *ops,
                            const cst_training *source, uint64_t seed, float *out);
void cst_added_fit_free(cst_context *context, cst_added_fit *fit);

/* CST_ERROR_UNSUPPORTED: no model can hold it. */
cst_status cst_added_refuse_model(cst_context *context, const cst_method_ops *ops);
