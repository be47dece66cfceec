/*
 * The members that a fit left out of a model, and freeing a report of the guard. corestack/guard.h.
 */
#include "model/guard.h"

int cst_model_has_guard(const cst_model *model) {
    return model && cst_guard_known(model);
}

int32_t cst_model_others(const cst_model *model) {
    return model && model->novelty ? model->novelty->others : 0;
}

const char *cst_model_other_name(const cst_model *model, int32_t other) {
    return other >= 0 && other < cst_model_others(model) ? model->novelty->other_names[other]
                                                         : NULL;
}

void cst_guard_report_free(cst_context *context, cst_guard_report *report) {
    if (!report)
        return;
    for (int64_t b = 0; report->name && b < report->count; b++)
        cst_free(context, report->name[b]);
    cst_free(context, report->name);
    cst_free(context, report->batch);
    cst_free(context, report->level);
    cst_free(context, report->lambda);
    cst_free(context, report->stack);
    cst_free(context, report);
}
