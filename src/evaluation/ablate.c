/*
 * The paper's cumulative ablation: the prototype, then its stages replaced by those of CoRe-Stack+
 * one after the other. Paper: section "Component Ablation".
 */
#include "evaluation/harness.h"
#include "la/la.h"

#include <string.h>

enum { STAGES = 5, SETTINGS_PER_STAGE = 4, SETTINGS_MAX = 64 };

static const struct ablation_stage {
    const char *name;
    const char *settings[SETTINGS_PER_STAGE]; /* NULL-terminated where there are fewer */
} STAGE[STAGES] = {
    {"prototype", {NULL}},
    {"+S1 CKA",
     {"redundancy.measure=cka", "cka.threshold=0.85", "cka.estimator=nystrom",
      "cka.landmark_rule=uniform"}},
    {"+S2 gate", {"gate.mode=learned"}},
    {"+S3 lambda*", {"lambda.rule=star"}},
    {"+S4 Laplace", {"blend.rule=laplace"}},
};

/* The prototype with the settings of stages 1 to `stage` and then the caller's. */
static cst_status make_stage(cst_context *context, const cst_evaluation *e, int stage,
                             cst_entry *out) {
    const cst_compare_options *options = e->options;
    const char *settings[SETTINGS_MAX];
    int32_t count = 0;
    if (options->setting_count > SETTINGS_MAX - STAGES * SETTINGS_PER_STAGE)
        return cst_fail(context, CST_ERROR_LIMIT, "too many settings (%d)",
                        (int)options->setting_count);
    for (int s = 0; s <= stage; s++)
        for (int i = 0; i < SETTINGS_PER_STAGE && STAGE[s].settings[i]; i++)
            settings[count++] = STAGE[s].settings[i];
    for (int32_t i = 0; i < options->setting_count; i++)
        settings[count++] = options->settings[i];
    cst_status status = cst_entry_make(context, e, "prototype", settings, count, out);
    CST_TRY(cst_entry_check(context, e, out));
    (void)cst_snprintf(out->name, sizeof out->name, "%s", STAGE[stage].name);
    return status;
}

static cst_status put_rows(cst_context *context, cst_report *report, const cst_evaluation *e,
                           const cst_entry *entries, const cst_intervals *intervals) {
    json_t *list = cst_report_list(report, cst_report_root(report), "rows");
    cst_status status = CST_OK;
    for (int s = 0; status == CST_OK && s < STAGES; s++) {
        json_t *row = cst_report_add_object(report, list);
        int64_t count = 0;
        while (count < SETTINGS_PER_STAGE && STAGE[s].settings[count])
            count++;
        cst_report_string(report, row, "stage", STAGE[s].name);
        cst_report_strings(report, row, "settings", STAGE[s].settings, count);
        status = cst_put_scores(context, report, row, e, &entries[s], intervals, s);
        if (s > 0)
            cst_put_difference(report, row, e, intervals, s);
        cst_put_cost(report, row, &entries[s]);
    }
    return status;
}

static cst_status run(cst_context *context, const cst_evaluation *e, cst_report *report) {
    double start = cst_seconds();
    cst_entry entries[STAGES];
    cst_intervals intervals = {0};
    memset(entries, 0, sizeof entries);
    cst_status status = CST_OK;
    for (int s = 0; status == CST_OK && s < STAGES; s++) {
        status = cst_progress(context, STAGE[s].name, s, STAGES);
        CST_TRY(make_stage(context, e, s, &entries[s]));
        CST_TRY(cst_entry_run(context, e, NULL, &entries[s]));
        if (status != CST_OK)
            status = cst_fail_row(context, status, STAGE[s].name, NULL, NULL);
        if (e->ops->tell)
            CST_TRY(e->ops->tell(context, e, &entries[s]));
    }
    CST_TRY(cst_intervals_make(context, e, entries, STAGES, -1, e->options->resamples, &intervals));
    if (status == CST_OK) {
        json_t *root = cst_report_root(report);
        cst_put_header(report, e);
        if (intervals.done)
            cst_report_integer(report, root, "resamples", e->options->resamples);
        status = put_rows(context, report, e, entries, &intervals);
        json_t *seconds = cst_report_object(report, root, "seconds");
        cst_report_number(report, seconds, "read", e->seconds_read);
        cst_report_number(report, seconds, "total", cst_seconds() - start + e->seconds_read);
    }
    for (int s = 0; s < STAGES; s++)
        cst_entry_free(context, e, &entries[s]);
    cst_intervals_free(context, &intervals);
    return status;
}

cst_status cst_run_ablate(cst_context *context, const cst_task_ops *ops, cst_pool *pool,
                          const cst_compare_options *given, cst_report **report) {
    cst_compare_options options = cst_options_or_default(given);
    cst_evaluation e = {0};
    options.ood = NULL;
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = cst_report_create(context, CST_REPORT_ABLATE, report);
    CST_TRY(cst_evaluation_open(context, ops, pool, &options, false, &e));
    CST_TRY(run(context, &e, *report));
    cst_evaluation_close(context, &e);
    cst_la_leave();
    return cst_finish_report(context, status, report);
}
