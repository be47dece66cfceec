/* The guard: whether a batch of rows looks like the rows that a model was fitted on, tested without
 * labels. Where it does not, the prediction can be mixed with the average of all members, as far as
 * the batch differs. docs/prediction.md#guard. */
#ifndef CORESTACK_GUARD_H
#define CORESTACK_GUARD_H

#include <corestack/model.h>
#include <corestack/report.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the guard does with a batch that looks unlike the fit rows. With CST_GUARD_OFF and
 * CST_GUARD_WARN, the prediction of a row depends on nothing but the row. */
typedef enum cst_guard_mode {
    CST_GUARD_OFF = 0,  /* nothing: batches are not tested */
    CST_GUARD_WARN = 1, /* a notice */
    CST_GUARD_AUTO = 2  /* a notice, and the average of all members is mixed in */
} cst_guard_mode;

/* How rows are guarded; {CST_GUARD_WARN, 0} is the default. */
typedef struct cst_guard {
    size_t struct_size; /* sizeof(cst_guard), or 0 for the fields of version 0.1 */
    cst_guard_mode mode;
    int64_t batch; /* rows of a batch, in their order; a last one of fewer than 50 rows is joined to
                      the one before. 0: all rows, of a split with conditions those of each one.
                      Batches of fewer than 50 rows are not tested. For segmentation, a case is a
                      batch: 0 for pools; for arrays the pixels of a case. */
} cst_guard;

/* What the guard found in all batches of a prediction. */
typedef struct cst_guard_report cst_guard_report;

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
