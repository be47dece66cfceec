/* "cascade" of the documents of fit, show and predict. docs/json.md. */
#include "fit/document.h"
#include "model/cascade.h"

#include <math.h>

static void put_head(cst_report *report, json_t *object, const cst_cascade_plan *plan,
                     double share) {
    static const char *const costs[] = {"flops", "latency_ms", "params", "members"};
    CST_PUT(report, object, CST_N("cost", share), CST_S("cost_of", costs[plan->cost_of]));
}

/* One of "stages"; the last is the stack. */
static json_t *put_stage(cst_report *report, json_t *list, const cst_model *model, int32_t stage) {
    const cst_cascade_plan *plan = model->cascade;
    int32_t ran = cst_cascade_ran(plan, stage);
    json_t *object = cst_report_add_object(report, list);
    CST_PUT(report, object, CST_S("member", model->member_names[plan->order[ran - 1]]),
            CST_I("members", ran), CST_N("cost", cst_cascade_cost(plan, ran)));
    return object;
}

void cst_document_cascade(cst_report *report, const cst_model *model) {
    static const char *const risks[] = {"disagreement", "error"};
    const cst_cascade_plan *plan = model->cascade;
    double left = 1;
    if (!plan)
        return;
    bool stops = plan->share < 1;
    json_t *object = cst_report_object(report, cst_report_root(report), "cascade");
    CST_PUT(report, object, CST_B("stops", stops), CST_S("risk", risks[plan->risk]),
            CST_N("alpha", plan->alpha), CST_N("confidence", plan->confidence),
            CST_I("tested", plan->tested), CST_I("failed", plan->failed),
            CST_N("bound", plan->bound < 1 ? plan->bound : NAN));
    put_head(report, object, plan, plan->share);
    cst_report_number(report, object, "nll_change", plan->excess);
    json_t *order = cst_report_list(report, object, "order");
    for (int32_t j = 0; j < plan->members; j++)
        cst_report_add_string(report, order, model->member_names[plan->order[j]]);
    json_t *stages = cst_report_list(report, object, "stages");
    for (int32_t s = 0; s <= plan->stages; s++) {
        bool last = s == plan->stages;
        json_t *stage = put_stage(report, stages, model, s);
        bool never = last || plan->threshold[s] > 1;
        CST_PUT(report, stage, CST_N("threshold", never ? NAN : plan->threshold[s]),
                CST_N("stopped", last ? fmax(left, 0) : plan->stopped[s]));
        left -= last ? 0 : plan->stopped[s];
    }
}

cst_status cst_report_set_cascade(cst_context *context, cst_report *report, const cst_model *model,
                                  const int32_t *ran, int64_t rows) {
    CST_ENTER(context);
    if (!report || !model || !ran || rows < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_report_set_cascade: a report, a model and its rows are required");
    CST_TRY(cst_cascade_check(context, model));
    const cst_cascade_plan *plan = model->cascade;
    double share = 0;
    int64_t whole = 0;
    for (int64_t i = 0; i < rows; i++)
        whole += ran[i] > 0;
    json_t *object = cst_report_object(report, cst_report_root(report), "cascade");
    json_t *stages = cst_report_list(report, object, "stages");
    for (int32_t s = 0; s <= plan->stages; s++) {
        int64_t count = 0;
        for (int64_t i = 0; i < rows; i++)
            count += ran[i] == cst_cascade_ran(plan, s);
        json_t *stage = put_stage(report, stages, model, s);
        double part = (double)count / (double)whole; /* NaN where every row lacks a member */
        CST_PUT(report, stage, CST_I("rows", count), CST_N("share", part));
        share += cst_cascade_cost(plan, cst_cascade_ran(plan, s)) * part;
    }
    put_head(report, object, plan, share);
    if (whole < rows)
        cst_report_integer(report, object, "incomplete", rows - whole);
    return cst_report_finish(context, report);
}
