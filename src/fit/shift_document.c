/* What the guard and label shift found, in a report. After prediction. docs/json.md. */
#include "fit/document.h"

#include <math.h>

/* ---- the guard ---- */

static const char *mode_name(cst_guard_mode mode) {
    static const char *const names[] = {"off", "warn", "auto"};
    return names[mode];
}

static void add_batch(cst_report *report, json_t *list, const cst_guard_batch *batch,
                      const char *name, bool conditions) {
    json_t *object = cst_report_add_object(report, list);
    if (name)
        cst_report_string(report, object, "case", name);
    if (conditions)
        cst_report_integer(report, object, "condition", batch->condition);
    CST_PUT(report, object, CST_I("first", batch->first), CST_I("rows", batch->rows),
            CST_B("tested", batch->tested), CST_B("fired", batch->fired),
            CST_N("unlike", batch->tested ? batch->unlike : NAN),
            CST_N("lambda", batch->tested ? batch->lambda : NAN));
    if (name)
        return; /* the rest is of batches of rows */
    CST_PUT(report, object, CST_N("z", batch->z), CST_N("accuracy", batch->accuracy),
            CST_N("flatten", batch->flatten), CST_N("sharpen", batch->sharpen));
}

cst_status cst_report_set_guard(cst_context *context, cst_report *report, cst_guard_mode mode,
                                const cst_guard_report *found) {
    CST_ENTER(context);
    if (!report || mode < CST_GUARD_OFF || mode > CST_GUARD_AUTO)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_report_set_guard: a report and a mode are required");
    json_t *object = cst_report_object(report, cst_report_root(report), "guard");
    CST_PUT(report, object, CST_S("mode", mode_name(mode)),
            CST_I("tested", found ? found->count - found->untested : 0),
            CST_I("fired", found ? found->fired : 0), CST_I("members", found ? found->members : 0),
            CST_I("others", found ? found->others : 0),
            CST_N("others_flops", found ? found->cost[0] : NAN),
            CST_N("others_latency_ms", found ? found->cost[1] : NAN));
    json_t *list = cst_report_list(report, object, "batches");
    bool conditions = found && found->count > 0 && found->batch[found->count - 1].condition > 0;
    for (int64_t b = 0; found && b < found->count; b++)
        add_batch(report, list, &found->batch[b], found->name ? found->name[b] : NULL, conditions);
    return cst_report_finish(context, report);
}

/* ---- label shift ---- */

static const char *const VERDICTS[] = {"applied",     "few-rows", "same",
                                       "other-shift", "guarded",  "like-fit"};

void cst_document_share(cst_report *report, json_t *list, const cst_model *model, int32_t class,
                        double fit, const cst_label_shift *shift) {
    json_t *share = cst_report_add_object(report, list);
    const char *name = cst_model_class_name(model, class);
    cst_report_integer(report, share, "class", class);
    if (name)
        cst_report_string(report, share, "name", name);
    CST_PUT(report, share, CST_N("fit", fit), CST_N("share", shift->share[class]),
            CST_N("low", shift->low[class]), CST_N("high", shift->high[class]));
}

static void add_label_batch(cst_report *document, json_t *list, const cst_model *model,
                            const cst_label_report *report, int64_t b, bool conditions) {
    const cst_label_batch *batch = &report->batch[b];
    const cst_label_shift *shift = &report->shift[b];
    json_t *object = cst_report_add_object(document, list);
    if (conditions)
        cst_report_integer(document, object, "condition", batch->condition);
    CST_PUT(document, object, CST_I("first", batch->first), CST_I("rows", batch->rows),
            CST_B("applied", batch->verdict == CST_LABEL_APPLIED),
            CST_S("verdict", VERDICTS[batch->verdict]),
            CST_S("reason", cst_label_verdict_text(batch->verdict, report->method)),
            CST_N("change_p", batch->change_p), CST_N("fit_p", batch->fit_p));
    json_t *shares = cst_report_list(document, object, "shares");
    for (int32_t c = 0; c < report->classes; c++)
        cst_document_share(document, shares, model, c, (double)report->fit[c], shift);
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
        add_label_batch(document, list, model, report, b, conditions);
    return cst_report_finish(context, document);
}
