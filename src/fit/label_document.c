/* Label shift in a report. docs/json.md, corestack/label_shift.h. */
#include "model/labels.h"
#include "report/report.h"

static const char *const VERDICTS[] = {"applied", "few-rows", "same", "other-shift", "guarded"};

static void add_batch(cst_report *document, json_t *list, const cst_model *model,
                      const cst_label_report *report, int64_t b, bool conditions) {
    const cst_label_batch *batch = &report->batch[b];
    const cst_label_shift *shift = &report->shift[b];
    json_t *object = cst_report_add_object(document, list);
    if (conditions)
        cst_report_integer(document, object, "condition", batch->condition);
    cst_report_integer(document, object, "first", batch->first);
    cst_report_integer(document, object, "rows", batch->rows);
    cst_report_flag(document, object, "applied", batch->verdict == CST_LABEL_APPLIED);
    cst_report_string(document, object, "verdict", VERDICTS[batch->verdict]);
    cst_report_string(document, object, "reason", cst_label_verdict_text(batch->verdict));
    cst_report_number(document, object, "change_p", batch->change_p);
    cst_report_number(document, object, "fit_p", batch->fit_p);
    json_t *shares = cst_report_list(document, object, "shares");
    for (int32_t c = 0; c < report->classes; c++) {
        json_t *share = cst_report_add_object(document, shares);
        const char *name = cst_model_class_name(model, c);
        cst_report_integer(document, share, "class", c);
        if (name)
            cst_report_string(document, share, "name", name);
        cst_report_number(document, share, "fit", (double)report->fit[c]);
        cst_report_number(document, share, "share", shift->share[c]);
        cst_report_number(document, share, "low", shift->low[c]);
        cst_report_number(document, share, "high", shift->high[c]);
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
    cst_report_string(document, object, "method", cst_label_method_name(report->method));
    cst_report_integer(document, object, "applied", report->applied);
    json_t *list = cst_report_list(document, object, "batches");
    bool conditions = report->count > 0 && report->batch[report->count - 1].condition > 0;
    for (int64_t b = 0; b < report->count; b++)
        add_batch(document, list, model, report, b, conditions);
    return cst_report_finish(context, document);
}
