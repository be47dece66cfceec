/* A fit of any method of comparisons, and a report. docs/baselines.md. */
#include "fit/harness.h"

#include "core/la.h"
#include "core/measurement.h"
#include "core/options.h"
#include "fit/document.h"

#include <math.h>
#include <string.h>

typedef struct method_fit {
    cst_pool *pool;
    const char *split;
    const char *method;
    const cst_options *options;
    bool nested;
    char *settings[CST_OPT_COUNT]; /* "key=value" of the options that were set */
    int32_t setting_count;
    cst_compare_options compare;
    cst_evaluation e;
    cst_entry entry;
} method_fit;

/* Options that say how any method is fitted and scored. */
static bool is_general(const char *key) {
    static const char *const all[] = {
        "seed",   "folds.",     "evaluate.",        "checks",           "segment.",
        "metric", "detect.iou", "detect.min_score", "detect.max_boxes", "detect.target_iou"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strncmp(key, all[i], strlen(all[i])) == 0)
            return true;
    return false;
}

/* The options that were set, without the seed, as settings of a comparison. */
static cst_status take_settings(cst_context *context, cst_scope *scope, method_fit *f) {
    for (int id = 0; id < CST_OPT_COUNT; id++) {
        const char *key = cst_option_at(id)->key;
        if (!cst_option_given(f->options, (cst_option_id)id) || strcmp(key, "seed") == 0)
            continue;
        char *text =
            cst_take_format(context, scope, "%s=%s", key, cst_options_get(f->options, key));
        if (!text)
            return CST_ERROR_MEMORY;
        f->settings[f->setting_count++] = text;
    }
    return CST_OK;
}

/* A baseline has no stages that an option could change. */
static cst_status check_settings(cst_context *context, const method_fit *f) {
    const char *preset = cst_options_preset_name(f->options);
    if (strcmp(preset, f->entry.preset ? f->entry.preset : "default") != 0 &&
        strcmp(preset, "default") != 0)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "the options are those of preset '%s', which has no effect on method '%s'; "
                        "give one of them",
                        preset, f->method);
    for (int32_t i = 0; !f->entry.preset && i < f->setting_count; i++)
        if (!is_general(f->settings[i]))
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "option %.*s has no effect on method '%s', which is not a preset of "
                            "the stack; remove the option",
                            (int)strcspn(f->settings[i], "="), f->settings[i], f->method);
    return CST_OK;
}

static void put_members(cst_report *report, const method_fit *f) {
    json_t *root = cst_report_root(report);
    const cst_model *model = f->entry.made.model;
    CST_PUT(report, root, CST_I("models_in", f->e.members), CST_I("models_kept", model->members));
    json_t *kept = cst_report_list(report, root, "kept");
    for (int32_t j = 0; j < model->members; j++)
        cst_report_add_string(report, kept, model->member_names[j]);
    static const char *const mixes[] = {"linear", "log-linear", NULL};
    cst_report_string(report, root, "mix", mixes[f->entry.mix]);
    json_t *weights = cst_report_object(report, root, "weights");
    for (int32_t j = 0; f->entry.weights && j < model->members; j++)
        cst_report_number(report, weights, model->member_names[j],
                          f->entry.weights[f->entry.made.kept[j]]);
}

static cst_status put_scores(cst_context *context, cst_report *report, const method_fit *f) {
    static const cst_intervals none;
    json_t *oof = cst_report_object(report, cst_report_root(report), "oof");
    if (f->nested)
        CST_TRY(cst_put_scores(context, report, oof, &f->e, &f->entry, &none, 0));
    cst_document_nested(report, oof, f->nested);
    return CST_OK;
}

static cst_status write_report(cst_context *context, const method_fit *f, double start,
                               cst_report **out) {
    CST_TRY(cst_report_begin(context, CST_REPORT_FIT, out));
    cst_report *report = *out;
    json_t *root = cst_report_root(report);
    const cst_training *source = f->e.source;
    CST_PUT(report, root, CST_S("model", NULL), CST_S("task", cst_task_name(f->e.ops->task)),
            CST_S("method", f->entry.name), CST_S("definition", f->entry.definition),
            CST_S("detail", f->entry.detail), CST_S("split", f->split),
            CST_I("seed", (int64_t)f->compare.seed));
    cst_put_size(report, &f->e);
    cst_put_metric(report, f->e.metric);
    json_t *folds = cst_report_object(report, root, "folds");
    CST_PUT(report, folds, CST_I("count", source->fold_count - cst_training_first(source)),
            CST_S("source", cst_training_folds_source(source)));
    cst_report_string(report, root, "pool_hash",
                      cst_model_value(f->entry.made.model, "split.pool"));
    put_members(report, f);
    (void)cst_document_domains(report, f->entry.made.model->domains);
    CST_TRY(put_scores(context, report, f));
    cst_put_decision(report, f->e.metric, f->entry.made.model, NAN);
    CST_PUT(report, root, CST_N("kappa_gram", f->entry.kappa_gram),
            CST_N("kappa_cka", f->entry.kappa_cka), CST_N("flops_rel", f->entry.flops_rel));
    json_t *seconds = cst_report_object(report, root, "seconds");
    CST_PUT(report, seconds, CST_N("read", f->e.seconds_read), CST_N("fit", f->entry.seconds),
            CST_N("total", cst_seconds() - start));
    cst_report_integer(report, root, "peak_rss_bytes", cst_peak_resident());
    cst_findings_put(report, f->e.pool, &f->e.findings, false);
    return CST_OK;
}

static cst_status run(cst_context *context, cst_scope *scope, const cst_task_ops *ops,
                      method_fit *f, cst_report **report) {
    double start = cst_seconds();
    CST_TRY(take_settings(context, scope, f));
    f->compare =
        (cst_compare_options){.split = f->split,
                              .settings = (const char *const *)f->settings,
                              .setting_count = f->setting_count,
                              .seed = (uint64_t)cst_option_integer(f->options, CST_OPT_SEED)};
    f->e.fitted = f->split;
    CST_TRY(cst_evaluation_open(context, ops, f->pool, &f->compare, false, &f->e));
    f->e.unscored = !f->nested;
    CST_TRY(cst_entry_make(context, &f->e, f->method, f->compare.settings, f->setting_count,
                           &f->entry));
    CST_TRY(check_settings(context, f));
    cst_status status = cst_entry_check(context, &f->e, &f->entry);
    if (status != CST_OK)
        return cst_fail_row(context, status, f->method, NULL, NULL);
    f->entry.keep = true;
    CST_TRY(cst_entry_run(context, &f->e, NULL, &f->entry));
    CST_TRY(ops->label(context, &f->e, f->options, &f->entry));
    if (report)
        CST_TRY(write_report(context, f, start, report));
    return cst_progress_end(context, "fit");
}

cst_status cst_run_fit_method(cst_context *context, const cst_task_ops *ops, cst_pool *pool,
                              const char *split, const char *method, const cst_options *options,
                              cst_model **model, cst_report **report) {
    method_fit f = {.pool = pool,
                    .split = split,
                    .method = method,
                    .options = options,
                    .nested = report && cst_option_flag(options, CST_OPT_EVALUATE_NESTED)};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_evaluation, &f.e);
    CST_OWN(context, scope, cst_entry, &f.entry);
    cst_notices_clear(context);
    CST_LA();
    cst_status status = run(context, scope, ops, &f, report);
    if (report)
        status = cst_finish_report(context, status, report);
    if (status == CST_OK && model) {
        *model = f.entry.made.model;
        f.entry.made.model = NULL;
    }
    return status;
}
