/* Predictions corrected for label shift, batch by batch, where the tests allow it.
 * model/shift/label_shift.h. */
#include "model/guard.h"

#include "core/la.h"

#include <string.h>

cst_status cst_labels_check(cst_context *context, const cst_model *model) {
    if (model->task != CST_TASK_CLASSIFICATION)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "label shift is for classification, but the model's task is %s",
                        cst_task_text(model->task));
    if (model->adapted)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "label shift is not supported for adapted models: what the model stores "
                        "of its predictions is from before; use the model it was adapted from");
    if (!model->reference.confusion || !model->reference.novelty)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "label shift: the model stores nothing of the rows it was fitted on (an "
                        "older file, a fit on fewer than 200 rows, or a model without some of its "
                        "members); fit it again");
    return CST_OK;
}

static cst_status make(cst_context *context, const cst_model *model, cst_label_method method,
                       const cst_guard_report *guard, cst_label_report **out) {
    cst_label_report *made = cst_alloc(context, 1, sizeof *made);
    *out = made;
    if (!made)
        return CST_ERROR_MEMORY;
    made->method = method;
    made->classes = model->classes;
    CST_TAKE(context, &made->scope, made->batch, guard->count);
    CST_TAKE(context, &made->scope, made->shift, guard->count);
    CST_TAKE(context, &made->scope, made->fit, model->classes);
    memcpy(made->fit, model->reference.confusion->share,
           (size_t)model->classes * sizeof *made->fit);
    return CST_OK;
}

static cst_status correct_batch(cst_context *context, const cst_model *model,
                                const cst_guard_batch *guarded, cst_label_report *report,
                                float *out) {
    float *p = out + guarded->first * model->classes;
    int64_t b = report->count;
    cst_label_shift *shift = &report->shift[b];
    CST_TRY(cst_label_shift_estimate(context, &report->scope, model->reference.confusion,
                                     report->method, p, guarded->rows, shift));
    report->count++;
    if (report->method == CST_LABEL_FIXED)
        shift->verdict = !guarded->tested  ? CST_LABEL_FEW_ROWS
                         : !guarded->fired ? CST_LABEL_LIKE_FIT
                                           : CST_LABEL_APPLIED;
    else if (guarded->fired)
        shift->verdict = CST_LABEL_GUARDED;
    report->batch[b] = (cst_label_batch){.condition = guarded->condition,
                                         .first = guarded->first,
                                         .rows = guarded->rows,
                                         .verdict = shift->verdict,
                                         .change_p = shift->change_p,
                                         .fit_p = shift->fit_p};
    if (shift->verdict != CST_LABEL_APPLIED)
        return CST_OK;
    report->applied++;
    if (report->method == CST_LABEL_FIXED)
        CST_TRY(cst_label_shift_keep(context, model->reference.confusion, p, shift));
    return cst_label_shift_apply(context, shift, p, guarded->rows);
}

static void tell(cst_context *context, const cst_label_report *report) {
    const char *method = cst_label_method_name(report->method);
    if (report->count == 1)
        cst_notice(context, "label shift (%s) %s: %s", method,
                   report->applied ? "applied" : "not applied",
                   cst_label_verdict_text(report->batch[0].verdict, report->method));
    else
        cst_notice(context, "label shift (%s) applied to %lld of %lld batches", method,
                   (long long)report->applied, (long long)report->count);
}

static bool is_balanced(const cst_model *model) {
    const char *balance = cst_model_value(model, "fit.balance");
    return balance && cst_strtod(balance, NULL) > 0;
}

cst_status cst_model_label_shift(cst_context *context, const cst_model *model,
                                 cst_label_method method, const cst_guard_report *guard,
                                 int64_t rows, float *out, cst_label_report **report) {
    CST_CLEAR(report);
    CST_ENTER(context);
    if (!model || !out || rows < 1 || method < CST_LABEL_OFF || method > CST_LABEL_FIXED)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_label_shift: model, method, rows and predictions are required");
    if (method == CST_LABEL_OFF)
        return CST_OK;
    if (method == CST_LABEL_FIXED && is_balanced(model))
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "label shift (fixed): the model was fitted with fit.balance, so that its "
                        "predictions do not have the class shares of the fit; leave "
                        "--label-shift out, or fit without fit.balance");
    cst_status status = cst_labels_check(context, model);
    if (status == CST_OK && (!guard || guard->rows != rows))
        status =
            cst_fail(context, CST_ERROR_ARGUMENT,
                     "cst_model_label_shift: the guard's report on these %lld rows is required",
                     (long long)rows);
    cst_label_report *made = NULL;
    CST_THEN(make(context, model, method, guard, &made));
    CST_LA();
    for (int64_t b = 0; status == CST_OK && b < guard->count; b++)
        status = correct_batch(context, model, &guard->batch[b], made, out);
    if (status == CST_OK)
        tell(context, made);
    if (status == CST_OK && report)
        *report = made;
    else
        cst_label_report_free(context, made);
    return cst_why(context, status);
}

void cst_label_report_free(cst_context *context, cst_label_report *report) {
    if (!report)
        return;
    cst_scope_free(&report->scope);
    cst_free(context, report);
}
