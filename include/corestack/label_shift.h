/* Predictions corrected without labels: for class shares that have changed, in batches in which
 * tests find that nothing else has; or, where the class shares are known to be those of the fit, in
 * batches that are otherwise unlike it. docs/prediction.md#label-shift. */
#ifndef CORESTACK_LABEL_SHIFT_H
#define CORESTACK_LABEL_SHIFT_H

#include <corestack/guard.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How class shares are estimated. */
typedef enum cst_label_method {
    CST_LABEL_OFF = 0,
    CST_LABEL_EM = 1,   /* EM on the stack's probabilities (Saerens et al. 2002) */
    CST_LABEL_BBSE = 2, /* from predicted classes and the confusion of the fit (Lipton et al. 2018)
                         */
    CST_LABEL_FIXED = 3 /* as those of the fit, which gives a bias of each class */
} cst_label_method;

/* What is done with a batch, and why. */
typedef enum cst_label_verdict {
    CST_LABEL_APPLIED = 0,     /* corrected */
    CST_LABEL_FEW_ROWS = 1,    /* not: it has fewer than 50 rows */
    CST_LABEL_SAME = 2,        /* not: chance explains the difference of the shares (level 0.01) */
    CST_LABEL_OTHER_SHIFT = 3, /* not: no class shares explain its confidences (level 0.05) */
    CST_LABEL_GUARDED = 4,     /* not: the guard finds rows unlike the fit rows */
    CST_LABEL_LIKE_FIT = 5     /* not, with fixed shares: the guard finds no such rows */
} cst_label_verdict;

/* What was found in one batch. */
typedef struct cst_label_batch {
    int64_t condition; /* of the split; 0 without conditions */
    int64_t first;     /* first row, counted over all conditions */
    int64_t rows;
    cst_label_verdict verdict;
    double change_p; /* of the test that the class shares are those of the fit */
    double fit_p;    /* of the test that class shares alone explain the confidences; both NaN with
                        CST_LABEL_FIXED */
} cst_label_batch;

/* What was found in all batches of a prediction. */
typedef struct cst_label_report cst_label_report;

/* Corrects the predictions out [rows][classes], for classification, in place: in batches to which
 * that applies, probabilities are multiplied by the estimated class shares over those of the fit
 * and divided by their sum; others are unchanged. With CST_LABEL_FIXED, which corrects the
 * batches in which the guard fired, the factors of the classes bring the mean prediction to the
 * class shares of the fit rows (a Gaussian prior keeps their logarithms near 0). guard: the report
 * of cst_model_predict_guarded on these rows, whose batches are taken; the other methods leave
 * batches alone in which it fired. report: may be NULL; *report belongs to the caller
 * (cst_label_report_free). CST_ERROR_UNSUPPORTED for other tasks, adapted models, models that store
 * nothing for it (older files, fits on fewer than 200 rows), BBSE with more than 2,048 classes or
 * a singular confusion, and FIXED after a fit with fit.balance. */
CST_API cst_status cst_model_label_shift(cst_context *context, const cst_model *model,
                                         cst_label_method method, const cst_guard_report *guard,
                                         int64_t rows, float *out, cst_label_report **report);

/* Sets the key "label_shift" of a report of the command "predict" to what was found.
 * docs/json.md. */
CST_API cst_status cst_report_set_label_shift(cst_context *context, cst_report *document,
                                              const cst_model *model,
                                              const cst_label_report *report);

/* Frees a report; NULL is accepted. */
CST_API void cst_label_report_free(cst_context *context, cst_label_report *report);

#ifdef __cplusplus
}
#endif
#endif
