/*
 * What the guard found, as callers read it, and what a model knows of the members it leaves out.
 * corestack/guard.h.
 */
#include "model/guard.h"

#include <math.h>

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

int64_t cst_guard_report_batches(const cst_guard_report *report) {
    return report ? report->count : 0;
}

int64_t cst_guard_report_fired(const cst_guard_report *report) {
    return report ? report->fired : 0;
}

cst_status cst_guard_report_batch(cst_context *context, const cst_guard_report *report,
                                  int64_t batch, cst_guard_batch *out) {
    CST_ENTER(context);
    if (!report || !out || batch < 0 || batch >= report->count)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_guard_report_batch: a report, one of its batches and an output are "
                        "required");
    *out = report->batch[batch];
    return CST_OK;
}

const char *cst_guard_report_case(const cst_guard_report *report, int64_t batch) {
    return report && report->name && batch >= 0 && batch < report->count ? report->name[batch]
                                                                         : NULL;
}

int32_t cst_guard_report_members(const cst_guard_report *report) {
    return report ? report->members : 0;
}

int32_t cst_guard_report_others(const cst_guard_report *report) {
    return report ? report->others : 0;
}

double cst_guard_report_cost(const cst_guard_report *report, int which) {
    return report && which >= 0 && which < 2 ? report->cost[which] : NAN;
}

const double *cst_guard_report_levels(const cst_guard_report *report) {
    return report ? report->level : NULL;
}

const double *cst_guard_report_lambdas(const cst_guard_report *report) {
    return report ? report->lambda : NULL;
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
