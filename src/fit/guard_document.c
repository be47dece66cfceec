/* What the guard found, in a report. After prediction. docs/json.md, corestack/guard.h. */
#include "model/guard.h"
#include "report/report.h"

#include <math.h>

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
    cst_report_integer(report, object, "first", batch->first);
    cst_report_integer(report, object, "rows", batch->rows);
    cst_report_flag(report, object, "tested", batch->tested);
    cst_report_flag(report, object, "fired", batch->fired);
    cst_report_number(report, object, "unlike", batch->tested ? batch->unlike : NAN);
    cst_report_number(report, object, "lambda", batch->tested ? batch->lambda : NAN);
    if (name)
        return; /* the rest is of batches of rows */
    cst_report_number(report, object, "z", batch->z);
    cst_report_number(report, object, "accuracy", batch->accuracy);
    cst_report_number(report, object, "flatten", batch->flatten);
    cst_report_number(report, object, "sharpen", batch->sharpen);
}

cst_status cst_report_set_guard(cst_context *context, cst_report *report, cst_guard_mode mode,
                                const cst_guard_report *found) {
    CST_ENTER(context);
    if (!report || mode < CST_GUARD_OFF || mode > CST_GUARD_AUTO)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_report_set_guard: a report and a mode are required");
    json_t *object = cst_report_object(report, cst_report_root(report), "guard");
    cst_report_string(report, object, "mode", mode_name(mode));
    cst_report_integer(report, object, "tested", found ? found->count - found->untested : 0);
    cst_report_integer(report, object, "fired", found ? found->fired : 0);
    cst_report_integer(report, object, "members", found ? found->members : 0);
    cst_report_integer(report, object, "others", found ? found->others : 0);
    cst_report_number(report, object, "others_flops", found ? found->cost[0] : NAN);
    cst_report_number(report, object, "others_latency_ms", found ? found->cost[1] : NAN);
    json_t *list = cst_report_list(report, object, "batches");
    bool conditions = found && found->count > 0 && found->batch[found->count - 1].condition > 0;
    for (int64_t b = 0; found && b < found->count; b++)
        add_batch(report, list, &found->batch[b], found->name ? found->name[b] : NULL, conditions);
    return cst_report_finish(context, report);
}
