/* Corrections for label shift inside the library. After the guard. corestack/label_shift.h. */
#ifndef CST_MODEL_LABELS_H
#define CST_MODEL_LABELS_H

#include "model/guard.h"

struct cst_label_report {
    cst_scope scope;
    cst_label_method method;
    int32_t classes;
    int64_t count; /* batches */
    int64_t applied;
    cst_label_batch *batch; /* [count] */
    cst_label_shift *shift; /* [count] */
    float *fit;             /* [classes]: shares in the fit */
};

/* CST_ERROR_UNSUPPORTED where class shares cannot be estimated with the model. */
cst_status cst_labels_check(cst_context *context, const cst_model *model);

#endif
