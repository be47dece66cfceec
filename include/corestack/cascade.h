/* Cascades: members run one after another, and a row stops where those that ran are sure enough
 * that the stack would decide alike. For models that were fitted with `cascade`; services find
 * cst_cascade in predict.h. docs/cascades.md. */
#ifndef CORESTACK_CASCADE_H
#define CORESTACK_CASCADE_H

#include <corestack/guard.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Replaces predictions out [rows][classes] of a split by those of the model's cascade, for rows
 * that stop before all members have run. guard: the report of cst_model_predict_guarded on these
 * rows, whose batches that fired run all members; or NULL. ran: [rows], members that ran for each;
 * 0 for a row that lacks one, whose prediction stays.
 * CST_ERROR_UNSUPPORTED for models without a cascade. */
CST_API cst_status cst_model_cascade(cst_context *context, const cst_model *model, cst_pool *pool,
                                     const char *split, const cst_guard_report *guard, int64_t rows,
                                     float *out, int32_t *ran);

/* Sets the key "cascade" of a report of the command "predict". ran: as of cst_model_cascade.
 * docs/json.md. */
CST_API cst_status cst_report_set_cascade(cst_context *context, cst_report *report,
                                          const cst_model *model, const int32_t *ran, int64_t rows);

#ifdef __cplusplus
}
#endif
#endif
