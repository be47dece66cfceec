/*
 * The paper's cumulative ablation: the prototype, then its stages replaced by those of CoRe-Stack+
 * one after the other. Paper: section "Component Ablation"; method.md section 7.
 */
#include "evaluation/rows.h"
#include "la/la.h"

#include <string.h>

enum { STAGES = 5, SETTINGS_PER_STAGE = 4, SETTINGS_MAX = 64 };

static const struct ablation_stage {
    const char *name;
    const char *settings[SETTINGS_PER_STAGE]; /* NULL-terminated where there are fewer */
} STAGE[STAGES] = {
    {"prototype", {NULL}},
    {"+S1 CKA", {"redundancy.measure=cka", "cka.threshold=0.85", "cka.landmark_rule=uniform"}},
    {"+S2 gate", {"gate.mode=learned"}},
    {"+S3 lambda*", {"lambda.rule=star"}},
    {"+S4 Laplace", {"blend.rule=laplace", "refit.drop=true"}},
};

/* The prototype with the settings of stages 1 to `stage` and then the caller's. */
static cst_status stage_method(cst_context *context, const cst_compare_options *options, int stage,
                               cst_method *out) {
    const char *settings[SETTINGS_MAX];
    int32_t count = 0;
    if (options->setting_count > SETTINGS_MAX - STAGES * SETTINGS_PER_STAGE)
        return cst_fail(context, CST_ERROR_LIMIT, "%d settings are too many",
                        (int)options->setting_count);
    for (int s = 0; s <= stage; s++)
        for (int i = 0; i < SETTINGS_PER_STAGE && STAGE[s].settings[i]; i++)
            settings[count++] = STAGE[s].settings[i];
    for (int32_t i = 0; i < options->setting_count; i++)
        settings[count++] = options->settings[i];
    cst_status status = cst_method_parse(context, "prototype", options->seed, settings, count, out);
    (void)cst_snprintf(out->name, sizeof out->name, "%s", STAGE[stage].name);
    return status;
}

static void put_rows(cst_report *report, const cst_entry *entries,
                     const cst_metric_intervals *intervals, const cst_metric_intervals *differences,
                     bool has_intervals) {
    json_t *list = cst_report_list(report, cst_report_root(report), "rows");
    for (int s = 0; s < STAGES; s++) {
        json_t *row = cst_report_add_object(report, list);
        int64_t count = 0;
        while (count < SETTINGS_PER_STAGE && STAGE[s].settings[count])
            count++;
        cst_report_string(report, row, "stage", STAGE[s].name);
        cst_report_strings(report, row, "settings", STAGE[s].settings, count);
        cst_rows_scores(report, row, &entries[s].scores, has_intervals ? &intervals[s] : NULL);
        if (has_intervals && s > 0)
            cst_rows_difference(report, row, &differences[s]);
        cst_rows_cost(report, row, &entries[s]);
    }
}

static cst_status run_stage(cst_context *context, const cst_scene *scene, const cst_method *method,
                            cst_entry *out) {
    cst_notice_about(context, method->name);
    cst_status status = cst_scene_run(context, scene, method, NULL, 0, out);
    cst_notice_about(context, NULL);
    return status;
}

static cst_status run(cst_context *context, cst_pool *pool, const cst_compare_options *options,
                      cst_report *report) {
    double start = cst_seconds();
    cst_scene scene;
    cst_entry entries[STAGES];
    cst_metric_intervals intervals[STAGES];
    cst_metric_intervals differences[STAGES];
    bool has_intervals = false;
    memset(entries, 0, sizeof entries);
    cst_status status = cst_scene_open(context, pool, options, false, &scene);
    for (int s = 0; status == CST_OK && s < STAGES; s++) {
        cst_method method;
        status = cst_progress(context, STAGE[s].name, s, STAGES);
        CST_TRY(stage_method(context, options, s, &method));
        CST_TRY(run_stage(context, &scene, &method, &entries[s]));
        CST_TRY(cst_rows_tell(context, options, STAGE[s].name, scene.split,
                              entries[s].probabilities, scene.samples, scene.classes));
    }
    CST_TRY(cst_scene_intervals(context, &scene, entries, STAGES, options->resamples, -1, intervals,
                                differences, &has_intervals));
    if (status == CST_OK) {
        cst_rows_header(report, &scene);
        if (has_intervals)
            cst_report_integer(report, cst_report_root(report), "resamples", options->resamples);
        put_rows(report, entries, intervals, differences, has_intervals);
        json_t *seconds = cst_report_object(report, cst_report_root(report), "seconds");
        cst_report_number(report, seconds, "read", scene.seconds_read);
        cst_report_number(report, seconds, "total", cst_seconds() - start);
    }
    for (int s = 0; s < STAGES; s++)
        cst_entry_free(context, &entries[s]);
    cst_scene_close(context, &scene);
    return status;
}

cst_status cst_classification_ablate(cst_context *context, cst_pool *pool,
                                     const cst_compare_options *given, cst_report **report) {
    cst_compare_options options = cst_rows_options(given);
    options.ood = NULL;
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = cst_report_create(context, CST_REPORT_ABLATE, report);
    CST_TRY(run(context, pool, &options, *report));
    cst_la_leave();
    return cst_rows_finish(context, status, report);
}
