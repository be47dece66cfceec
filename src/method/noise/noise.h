/* Labels that are probably wrong, by what the log-linear pool of all members predicts. Not in the
 * paper; docs/method.md#wrong-labels. */
#pragma once

#include "core/scope.h"
#include "data/pool/view.h"

/* In the order of the option's choices. */
typedef enum cst_label_rule {
    CST_LABELS_AUTO = 0, /* a model of the errors, where it clearly predicts the labels better */
    CST_LABELS_OFF = 1,
    CST_LABELS_HUMAN = 2 /* confident learning, always */
} cst_label_rule;

typedef struct cst_noise_options {
    cst_label_rule rule;
    double most; /* with CST_LABELS_HUMAN: at most this share of the rows is wrong; 0: no limit */
} cst_noise_options;

typedef struct cst_noise {
    cst_label_rule rule;
    bool alarm;
    double rate;       /* estimated share of wrong labels */
    double nll_plain;  /* held-out mean NLL of the labels as given, by the pool; NaN: not judged */
    double nll_errors; /* the same with the model of the errors */
    double z;          /* paired, of the difference */
    int64_t count;     /* of suspects */
    int64_t *suspects; /* [count] rows of the view, the least probable label first */
    double *own;       /* [count]: probability that the given label is right */
    int32_t *likely;   /* [count] */
    uint8_t *wrong;    /* [rows]: 1 for suspects; NULL without an alarm */
    cst_scope scope;   /* of the arrays */
} cst_noise;

/* Judges the labels of a view by cross-validation on folds [rows]. A class or fold keeps its rows
 * where none would be left. Free with cst_noise_free, also after a failure. */
cst_status cst_noise_find(cst_context *context, const cst_view *view, const int32_t *folds,
                          int32_t fold_count, const cst_noise_options *options, cst_noise *out);
void cst_noise_free(cst_context *context, cst_noise *noise);
