/* The guard: whether a batch of rows looks like the rows that a model was fitted on, tested without
 * labels. Where it does not, the prediction can lean on the average of all members, as far as the
 * batch differs. docs/prediction.md#guard. */
#ifndef CORESTACK_GUARD_H
#define CORESTACK_GUARD_H

#include <corestack/model.h>
#include <corestack/report.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the guard does with a batch that looks unlike the rows of the fit. With CST_GUARD_OFF and
 * CST_GUARD_WARN, the prediction of a row depends on nothing but the row. */
typedef enum cst_guard_mode {
    CST_GUARD_OFF = 0,  /* nothing: batches are not tested */
    CST_GUARD_WARN = 1, /* a notice */
    CST_GUARD_AUTO = 2  /* a notice, and the average of all members takes part */
} cst_guard_mode;

/* How rows are guarded; {CST_GUARD_WARN, 0} is the default. */
typedef struct cst_guard {
    size_t struct_size; /* sizeof(cst_guard), or 0 for the fields of version 0.1 */
    cst_guard_mode mode;
    int64_t batch; /* rows of a batch, in their order; a last one of fewer than 50 rows is joined to
                      the one before. 0: all rows, of a split with conditions those of each one.
                      Batches of fewer than 50 rows are not tested. Of a segmentation, a case is a
                      batch: 0 for pools; for arrays the pixels of a case. */
} cst_guard;

/* What the guard found in one batch. */
typedef struct cst_guard_batch {
    int64_t condition; /* of the split; 0 without conditions */
    int64_t first;     /* first row, counted over all conditions */
    int64_t rows;
    int tested;    /* 0: it has fewer than 50 rows, which does not matter for a case */
    int fired;     /* 1: it looks unlike the rows of the fit */
    double pi;     /* upper bound of the share of rows that are like those of the fit; 1: no sign of
                      others. Of a case 0 for one that is surely unlike the fit */
    double unlike; /* 1 - pi */
    double lambda; /* mean weight of the average in its rows */
    double z;      /* mean confidence of the stack against the fit's for the classes it predicts, in
                      standard errors; below -4 the batch has fired. NaN: not tested, or a
                      segmentation */
    double accuracy; /* probable accuracy of the stack, unless class shares have changed; NaN */
    double flatten;  /* temperature of the stack where the average takes part, 0.3 to 1 */
    double sharpen;  /* temperature of the average, 1 to 4 */
} cst_guard_batch;

/* What the guard found in all batches of a prediction. */
typedef struct cst_guard_report cst_guard_report;

/* Returns 1 if the model stores what the guard compares batches with: models of classification and
 * segmentation that were fitted on 200 rows or more (and of a segmentation on 8 cases or more) by a
 * version that has the guard. */
CST_API int cst_model_has_guard(const cst_model *model);

/* Returns the number of members that the fit left out of the model. For programs that size arrays
 * of them. */
CST_API int64_t cst_model_others(const cst_model *model);

/* Returns the name of a member that was left out (0..others-1); NULL beyond. Borrowed. */
CST_API const char *cst_model_other_name(const cst_model *model, int32_t other);

/* Predicts like cst_model_predict_pool, guarded. If the guard acts, members that the model leaves
 * out are loaded, where the pool has them. guard: NULL for the default. *out: [rows][classes],
 * belongs to the caller (cst_free). report: may be NULL; *report belongs to the caller
 * (cst_guard_report_free), and is NULL if nothing was tested (mode off, no reference in the model).
 */
CST_API cst_status cst_model_predict_guarded(cst_context *context, const cst_model *model,
                                             cst_pool *pool, const char *split,
                                             const cst_guard *guard, float **out, int64_t *rows,
                                             cst_guard_report **report);

/* ---- a stream, without allocation ---- */

#define CST_GUARD_WINDOW_MAX 65536

/* Lets cst_predictor_predict_guarded keep the last `window` rows, 50 to CST_GUARD_WINDOW_MAX (100
 * is good), and forgets earlier ones; 0 ends guarding and frees the memory, a few hundred bytes a
 * row. CST_ERROR_UNSUPPORTED if the model has no guard (cst_model_has_guard), as adapted models. */
CST_API cst_status cst_predictor_set_guard(cst_predictor *predictor, int64_t window);

/* Predicts like cst_predictor_predict, row after row: each is mixed as the guard does in a batch of
 * the last `window` rows up to it, so a result depends on the rows before. others: NULL,
 * or [others] of [rows][classes], NULL for those that are not there. found: NULL, or what the
 * window looks like after the last row (`first` counts all rows of the predictor): when `fired`
 * turns 1, it is time to run the other members. Rows are taken in only when all of the call are
 * right. Allocates nothing. */
CST_API cst_status cst_predictor_predict_guarded(cst_predictor *predictor,
                                                 const float *const *predictions,
                                                 const float *const *others, int64_t rows,
                                                 float *out, cst_guard_batch *found);

/* Sets the key "guard" of a report of the command "predict" to what was found; found: NULL where
 * nothing was tested. docs/json.md. */
CST_API cst_status cst_report_set_guard(cst_context *context, cst_report *report,
                                        cst_guard_mode mode, const cst_guard_report *found);

/* Frees a report; NULL is accepted. */
CST_API void cst_guard_report_free(cst_context *context, cst_guard_report *report);

#ifdef __cplusplus
}
#endif
#endif
