/* The report of a monitor. Keys: docs/json.md. After its batches. */
#include "fit/adapt/monitor.h"

#include <math.h>

static void put_drift(cst_report *report, json_t *object, const char *key, const cst_drift *drift) {
    if (isnan(drift->value))
        return;
    json_t *to = cst_report_object(report, object, key);
    cst_report_number(report, to, "value", drift->value);
    cst_report_number(report, to, "fit", drift->fit);
    if (!isnan(drift->se))
        cst_report_number(report, to, "se", drift->se);
    cst_report_number(report, to, "p", drift->p);
    cst_report_flag(report, to, "flag", drift->flag);
}

/* A class by its name, or by its number. */
static void put_class(cst_report *report, json_t *object, const cst_model *model, int32_t class) {
    const char *name = cst_model_class_name(model, class);
    char number[16];
    (void)cst_snprintf(number, sizeof number, "%d", (int)class);
    cst_report_string(report, object, "class", class < 0 ? NULL : name ? name : number);
}

static void put_member(cst_report *report, json_t *list, const cst_model *model, int32_t k,
                       const cst_member_drift *drift) {
    json_t *row = cst_report_add_object(report, list);
    cst_report_string(report, row, "name",
                      k < model->members ? cst_model_member_name(model, k) : NULL);
    put_drift(report, row, "entropy", &drift->entropy);
    put_drift(report, row, "disagreement", &drift->apart);
    put_drift(report, row, "missing", &drift->missing);
    put_drift(report, row, "classes", &drift->shares);
    if (!isnan(drift->shares.value)) {
        json_t *most = cst_report_object(report, row, "largest_change");
        put_class(report, most, model, drift->most);
        cst_report_number(report, most, "share", drift->most_share);
        cst_report_number(report, most, "fit", drift->most_fit);
    }
}

static void put_batch(cst_report *report, json_t *list, const cst_monitor *monitor,
                      const cst_monitor_result *batch) {
    json_t *row = cst_report_add_object(report, list);
    cst_report_string(report, row, "batch", batch->name);
    cst_report_integer(report, row, "samples", batch->rows);
    cst_report_integer(report, row, "tested", batch->tested);
    cst_report_number(report, row, "evidence", batch->evidence);
    cst_report_number(report, row, "evidence_alone", batch->own);
    cst_report_flag(report, row, "alarm", batch->alarm);
    cst_report_number(report, row, "confidence", batch->confidence);
    json_t *expected = cst_report_object(report, row, "expected");
    cst_report_number(report, expected, "top1", batch->accuracy);
    cst_report_number(report, expected, "ece", batch->ece);
    cst_report_number(report, expected, "error", batch->error);
    if (batch->labelled > 0) {
        json_t *observed = cst_report_object(report, row, "observed");
        cst_report_integer(report, observed, "labelled", batch->labelled);
        cst_report_number(report, observed, "top1", batch->observed);
        cst_report_number(report, observed, "ece", batch->observed_ece);
    }
    cst_report_integer(report, row, "flags", batch->flags);
    json_t *members = cst_report_list(report, row, "members");
    for (int32_t k = 0; k < monitor->model->members; k++)
        put_member(report, members, monitor->model, k, &batch->drift[k]);
    json_t *stack = cst_report_list(report, row, "stack");
    put_member(report, stack, monitor->model, monitor->model->members,
               &batch->drift[monitor->model->members]);
}

static void fill(const cst_monitor *monitor, cst_report *report) {
    const cst_watch *watch = monitor->model->reference.watch;
    json_t *root = cst_report_root(report);
    cst_report_flag(report, root, "alarm", monitor->alarm);
    cst_report_number(report, root, "alpha", monitor->alpha);
    cst_report_number(report, root, "evidence", cst_evidence_value(&monitor->evidence));
    cst_report_number(report, root, "evidence_peak", monitor->evidence.peak);
    cst_report_number(report, root, "evidence_alarm", 1 / monitor->alpha);
    cst_report_integer(report, root, "rows", monitor->evidence.rows);
    cst_report_integer(report, root, "batches_seen", monitor->batches);
    if (monitor->alarm) {
        json_t *first = cst_report_object(report, root, "first_alarm");
        cst_report_integer(report, first, "number", monitor->alarm_batch);
        cst_report_string(report, first, "batch", monitor->alarm_name);
    }
    json_t *fit = cst_report_object(report, root, "fit");
    cst_report_integer(report, fit, "samples", watch->rows);
    cst_report_number(report, fit, "top1", watch->accuracy);
    cst_report_number(report, fit, "ece", watch->ece);
    cst_report_number(report, fit, "confidence", watch->confidence);
    json_t *list = cst_report_list(report, root, "batches");
    for (const cst_monitor_call *call = monitor->first; call; call = call->next)
        for (int32_t i = 0; i < call->count; i++)
            put_batch(report, list, monitor, &call->result[i]);
    json_t *notices = cst_report_list(report, root, "notices");
    for (const cst_monitor_call *call = monitor->first; call; call = call->next)
        for (size_t i = 0; i < call->notices; i++)
            cst_report_add_string(report, notices, call->notice[i]);
}

cst_status cst_monitor_report(cst_context *context, const cst_monitor *monitor,
                              cst_report **report) {
    if (report)
        *report = NULL;
    CST_ENTER(context);
    if (!monitor || !report)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_monitor_report: monitor and report are required");
    cst_status status = cst_report_create(context, CST_REPORT_MONITOR, report);
    if (status == CST_OK)
        fill(monitor, *report);
    CST_THEN(cst_report_finish(context, *report));
    return cst_why(context, cst_report_settle(context, status, report));
}
