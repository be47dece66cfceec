/*
 * Predictions corrected for label shift, batch by batch, where the tests allow it. After the guard.
 * corestack/label_shift.h, model/shift/label_shift.h.
 */
#include "model/guard.h"

#include "core/la.h"
#include "report/report.h"

#include <string.h>

cst_status cst_labels_check(cst_context *context, const cst_model *model) {
    if (model->task != CST_TASK_CLASSIFICATION)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "label shift is for classification, but the model's task is %s",
                        cst_task_name(model->task));
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
    if (guarded->fired)
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
    return cst_label_shift_apply(context, shift, p, guarded->rows);
}

static void tell(cst_context *context, const cst_label_report *report) {
    const char *method = cst_label_method_name(report->method);
    if (report->count == 1)
        cst_notice(context, "label shift (%s) %s: %s", method,
                   report->applied ? "applied" : "not applied",
                   cst_label_verdict_text(report->batch[0].verdict));
    else
        cst_notice(context, "label shift (%s) applied to %lld of %lld batches", method,
                   (long long)report->applied, (long long)report->count);
}

cst_status cst_model_label_shift(cst_context *context, const cst_model *model,
                                 cst_label_method method, const cst_guard_report *guard,
                                 int64_t rows, float *out, cst_label_report **report) {
    if (report)
        *report = NULL;
    CST_ENTER(context);
    if (!model || !out || rows < 1 || method < CST_LABEL_OFF || method > CST_LABEL_BBSE)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_label_shift: model, method, rows and predictions are required");
    if (method == CST_LABEL_OFF)
        return CST_OK;
    cst_status status = cst_labels_check(context, model);
    if (status == CST_OK && (!guard || guard->rows != rows))
        status =
            cst_fail(context, CST_ERROR_ARGUMENT,
                     "cst_model_label_shift: the guard's report on these %lld rows is required",
                     (long long)rows);
    cst_label_report *made = NULL;
    CST_THEN(make(context, model, method, guard, &made));
    cst_la_enter();
    for (int64_t b = 0; status == CST_OK && b < guard->count; b++)
        status = correct_batch(context, model, &guard->batch[b], made, out);
    cst_la_leave();
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

/* ---- in a report: docs/json.md, corestack/label_shift.h ---- */

static const char *const VERDICTS[] = {"applied", "few-rows", "same", "other-shift", "guarded"};

static void add_batch(cst_report *document, json_t *list, const cst_model *model,
                      const cst_label_report *report, int64_t b, bool conditions) {
    const cst_label_batch *batch = &report->batch[b];
    const cst_label_shift *shift = &report->shift[b];
    json_t *object = cst_report_add_object(document, list);
    if (conditions)
        cst_report_integer(document, object, "condition", batch->condition);
    CST_PUT(document, object, CST_I("first", batch->first), CST_I("rows", batch->rows),
            CST_B("applied", batch->verdict == CST_LABEL_APPLIED),
            CST_S("verdict", VERDICTS[batch->verdict]),
            CST_S("reason", cst_label_verdict_text(batch->verdict)),
            CST_N("change_p", batch->change_p), CST_N("fit_p", batch->fit_p));
    json_t *shares = cst_report_list(document, object, "shares");
    for (int32_t c = 0; c < report->classes; c++) {
        json_t *share = cst_report_add_object(document, shares);
        const char *name = cst_model_class_name(model, c);
        cst_report_integer(document, share, "class", c);
        if (name)
            cst_report_string(document, share, "name", name);
        CST_PUT(document, share, CST_N("fit", (double)report->fit[c]),
                CST_N("share", shift->share[c]), CST_N("low", shift->low[c]),
                CST_N("high", shift->high[c]));
    }
}

cst_status cst_report_set_label_shift(cst_context *context, cst_report *document,
                                      const cst_model *model, const cst_label_report *report) {
    CST_ENTER(context);
    if (!document || !model || !report || model->classes != report->classes)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_report_set_label_shift: a report, the model and what was found are "
                        "required");
    json_t *object = cst_report_object(document, cst_report_root(document), "label_shift");
    CST_PUT(document, object, CST_S("method", cst_label_method_name(report->method)),
            CST_I("applied", report->applied));
    json_t *list = cst_report_list(document, object, "batches");
    bool conditions = report->count > 0 && report->batch[report->count - 1].condition > 0;
    for (int64_t b = 0; b < report->count; b++)
        add_batch(document, list, model, report, b, conditions);
    return cst_report_finish(context, document);
}
