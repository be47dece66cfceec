/* Cascades: members run one after another, and a row stops where those that ran are sure enough
 * that the stack would decide alike. For models that were fitted with `cascade`. docs/cascades.md.
 */
#ifndef CORESTACK_CASCADE_H
#define CORESTACK_CASCADE_H

#include <corestack/guard.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns 1 if the model has a cascade. For programs that run one where there is one. */
CST_API int cst_model_has_cascade(const cst_model *model);

/* Replaces predictions out [rows][classes] of a split by those of the model's cascade, for rows
 * that stop before all members have run. guard: the report of cst_model_predict_guarded on these
 * rows, whose batches that fired run all members; or NULL. ran: [rows], members that ran for each.
 * CST_ERROR_UNSUPPORTED for models without a cascade. */
CST_API cst_status cst_model_cascade(cst_context *context, const cst_model *model, cst_pool *pool,
                                     const char *split, const cst_guard_report *guard, int64_t rows,
                                     float *out, int32_t *ran);

/* Sets the key "cascade" of a report of the command "predict". ran: as of cst_model_cascade.
 * docs/json.md. */
CST_API cst_status cst_report_set_cascade(cst_context *context, cst_report *report,
                                          const cst_model *model, const int32_t *ran, int64_t rows);

/* ---- for a service: rows in flight, without allocation ---- */

typedef struct cst_cascade cst_cascade;

/* Makes room for `rows` rows in flight. *out belongs to the caller (cst_cascade_free), before the
 * predictor is freed, which it uses. CST_ERROR_UNSUPPORTED for models without a cascade. */
CST_API cst_status cst_cascade_create(cst_context *context, cst_cascade **out,
                                      cst_predictor *predictor, int64_t rows);

/* Begins a row in place `row` (0..rows-1) and forgets the one before. whole: 1 to run all members
 * whatever they say; such rows are what the predictor's guard is fed with
 * (cst_predictor_set_guard), so with a guard make one row in ten whole. While the guard sees a
 * shift, every row is whole. */
CST_API cst_status cst_cascade_start(cst_cascade *cascade, int64_t row, int whole);

/* Returns the member that a row waits for, a position in the model; -1 if it has its answer, or was
 * not begun. */
CST_API int32_t cst_cascade_next(const cst_cascade *cascade, int64_t row);

/* Lists the rows that wait for a member, to run it on them together: rows has room for all in
 * flight. Returns their number. */
CST_API int64_t cst_cascade_waiting(const cst_cascade *cascade, int32_t member, int64_t *rows);

/* Takes the probabilities [classes] of the member that the row waits for. CST_ERROR_INPUT if they
 * are none (cst_predictor_error says why); the row then still waits. */
CST_API cst_status cst_cascade_give(cst_cascade *cascade, int64_t row, const float *probabilities);

/* Copies the answer of a row, or, before that, the best so far: the pool of the last stage whose
 * members have all run, which is calibrated for them. Returns how many members it is of; 0: none
 * has run, and classes are equally likely; -1: there is no such row. out: [classes]. */
CST_API int32_t cst_cascade_answer(const cst_cascade *cascade, int64_t row, float *out);

/* Frees a cascade; NULL is accepted. */
CST_API void cst_cascade_free(cst_context *context, cst_cascade *cascade);

#ifdef __cplusplus
}
#endif
#endif
