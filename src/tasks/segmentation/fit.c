/* Fit and inspection of a segmentation pool by sampled pixels. docs/segmentation.md#sampling. */
#include "tasks/segmentation/segmentation.h"

#include "core/la.h"
#include "fit/family.h"
#include "fit/label.h"
#include "model/fit_rows.h"

#include <string.h>

static cst_status inner_options(cst_context *context, const cst_options *options,
                                const cst_settings *settings, cst_options *out) {
    CST_TRY(cst_options_preset(context, out, cst_options_preset_name(options)));
    for (int64_t i = 0; i < cst_option_count(); i++) {
        const char *key = cst_option_at(i)->key;
        CST_TRY(cst_options_set(context, out, key, cst_options_get(options, key)));
    }
    CST_TRY(cst_options_set(context, out, "evaluate.nested", "false"));
    return settings->learners == CST_META_LOGLINEAR
               ? cst_options_set(context, out, "meta.learners", "log-linear")
           : settings->learners == CST_META_POOLS
               ? cst_options_set(context, out, "meta.learners", "log-linear,class-wise")
               : CST_OK;
}

static cst_status add_cases(cst_context *context, cst_pool *pool, const char *split,
                            cst_model *model) {
    CST_SCOPE(scope);
    cst_view view = {0};
    if (!model->reference.novelty)
        return CST_OK;
    CST_LA();
    CST_TRY(cst_model_view(context, scope, model, pool, split, &view));
    return cst_cases_reference(context, &model->scope, model->reference.novelty, &view,
                               cst_pool_cases(pool, split), &model->reference.cases);
}

cst_status cst_map_relabel(cst_context *context, cst_pool *pool, const char *split,
                           const cst_options *options, cst_model *model) {
    char *noted[CST_FITTED_ON_SETTINGS] = {NULL};
    char text[32];
    uint64_t hash = 0;
    cst_view view = {0};
    model->task = CST_TASK_SEGMENTATION;
    /* What was counted of single pixels is of no use for images. */
    model->reference = (cst_reference){.novelty = model->reference.novelty};
    size_t count = 0;
    CST_SCOPE(scope);
    CST_TRY(cst_pool_view(context, pool, split, &view));
    CST_TRY(cst_pool_hash(context, cst_pool_whole(pool), split, &hash));
    cst_hash_text(hash, text);
    CST_TRY(cst_fit_relabel(context, model, "split.pool", text));
    (void)cst_snprintf(text, sizeof text, "%lld", (long long)view.rows);
    CST_TRY(cst_fit_relabel(context, model, "split.samples", text));
    CST_TRY(cst_fitted_on_note(context, scope, CST_FITTED_KEY, split, view.labels, view.rows, NULL,
                               noted, &count));
    for (size_t i = 0; i < count; i++) {
        char *equals = strchr(noted[i], '=');
        *equals = '\0';
        CST_TRY(cst_fit_relabel(context, model, noted[i], equals + 1));
    }
    static const char *const changed[] = {"evaluate.nested", "meta.learners"}; /* inner_options */
    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++)
        CST_TRY(cst_fit_relabel(context, model, changed[i], cst_options_get(options, changed[i])));
    return add_cases(context, pool, split, model);
}

typedef struct fitting {
    cst_pool *pool;
    const char *split;
    const cst_options *options;
    cst_settings settings;
    cst_segment_settings segment;
    cst_pixel_sample sample;
    cst_view view;
    const cst_cases *cases;
    cst_findings findings;
    cst_offset_gain gain;
} fitting;

static void put_nested(cst_report *report, const cst_map_scores *scores) {
    json_t *oof = cst_report_object(report, cst_report_root(report), "oof");
    cst_segmentation_scores found;
    cst_tally_scores(scores->total, scores->classes, true, &found);
    cst_report_number(report, oof, "top1", found.pixel_accuracy);
    cst_map_put_scores(report, oof, scores);
    cst_report_flag(report, oof, "nested", true);
}

/* A fit without each fold of cases: offsets for the model, and scores for a report. */
static cst_status run_nested(cst_context *context, fitting *f, const cst_training *source,
                             cst_model *model, cst_report *report) {
    CST_SCOPE(scope);
    cst_fold_fits fits;
    cst_map_scores scores;
    double *offsets = NULL;
    cst_method method = {.preset = cst_options_preset_name(f->options), .settings = f->settings};
    cst_nesting nesting = {&method, source, &f->sample, &f->segment, f->cases, f->view.labels};
    CST_TRY(cst_fold_fits_make(context, scope, &nesting, &fits));
    if (f->segment.decide) {
        CST_TRY(
            cst_fold_offsets(context, scope, &nesting, &fits, report != NULL, &offsets, &f->gain));
        if (f->gain.used)
            CST_TRY(cst_offsets_store(
                context, offsets + (size_t)fits.count * (size_t)f->view.classes, model));
    }
    if (!report)
        return CST_OK;
    const cst_scoring scoring = {.cases = f->cases,
                                 .view = f->view,
                                 .boundary = f->segment.boundary,
                                 .predict = cst_predict_by_method,
                                 .fits = fits.places,
                                 .fit_of = fits.fit_of,
                                 .offsets = offsets,
                                 .offsets_by_fit = true};
    CST_TRY(cst_maps_score(context, scope, &scoring, &scores));
    put_nested(report, &scores);
    return CST_OK;
}

static void put_facts(cst_report *report, const fitting *f, const cst_model *model,
                      double seconds_nested, double seconds) {
    json_t *root = cst_report_root(report);
    cst_report_string(report, root, "pool_hash", cst_model_value(model, "split.pool"));
    cst_map_put_header(report, f->split, f->cases, f->sample.counted, f->view.classes,
                       f->segment.boundary);
    json_t *sample = cst_report_object(report, root, "sample");
    CST_PUT(report, sample, CST_I("pixels", f->sample.rows), CST_N("balance", f->segment.balance));
    cst_report_string(report, root, "decision", f->gain.used ? "miou" : "argmax");
    if (f->segment.decide) {
        json_t *offsets = cst_report_object(report, root, "offsets");
        CST_PUT(report, offsets, CST_B("used", f->gain.used), CST_N("change", f->gain.change),
                CST_N("se", f->gain.se));
    }
    cst_report_numbers(report, sample, "prior", f->sample.prior, f->view.classes);
    cst_report_numbers(report, sample, "share", f->sample.share, f->view.classes);
    json_t *times = json_object_get(root, "seconds");
    CST_PUT(report, times, CST_N("read", f->sample.seconds), CST_N("nested", seconds_nested),
            CST_N("total", seconds));
}

CST_OWNED(cst_options)

static cst_status fit_sample(cst_context *context, fitting *f, cst_model **model,
                             cst_report **report) {
    CST_SCOPE(scope);
    cst_options *inner = NULL;
    const cst_training_hints hints = {.split = f->split, .findings = &f->findings};
    CST_TRY(cst_options_create(context, &inner));
    CST_OWN(context, scope, cst_options, inner);
    CST_TRY(inner_options(context, f->options, &f->settings, inner));
    CST_TRY(cst_fit_family(context, &cst_classification_family, f->sample.pool, "oof", inner,
                           &hints, model, report));
    CST_TRY(cst_prior_correct(context, f->sample.prior, f->sample.share, &f->segment, *model));
    return cst_map_relabel(context, f->pool, f->split, f->options, *model);
}

static cst_status take_sample(cst_context *context, cst_scope *scope, fitting *f) {
    CST_TRY(cst_pixel_sample_make(context, scope, f->pool, f->split, &f->segment, &f->sample));
    CST_TRY(cst_pool_view(context, f->pool, f->split, &f->view));
    f->cases = cst_pool_cases(f->pool, f->split);
    return CST_OK;
}

/* Checks the data; members whose maps are broken take no part. */
static cst_status check(cst_context *context, cst_scope *scope, fitting *f) {
    const cst_pool *whole = f->pool;
    cst_training source = {0};
    CST_SCOPE(own);
    CST_LA();
    cst_mute(context, true); /* the fit opens it too */
    cst_status status = cst_training_open(context, f->sample.pool, "oof", &f->settings.folds,
                                          f->segment.seed, &source);
    cst_mute(context, false);
    CST_OWN(context, own, cst_training, &source);
    CST_TRY(status);
    CST_TRY(cst_map_check(context, scope, &f->pool, f->split, &f->sample, &source, &f->findings));
    return f->pool == whole ? CST_OK : take_sample(context, scope, f);
}

static cst_status run(cst_context *context, cst_scope *scope, fitting *f, cst_model **model,
                      cst_report **report) {
    double start = cst_seconds();
    CST_TRY(cst_training_no_time(context, f->options, "segmentation"));
    cst_settings_read(f->options, &f->settings);
    cst_segment_settings_read(f->options, &f->segment);
    /* On pixels the blend gains nothing: docs/segmentation.md. */
    cst_settings_pools_only(&f->settings, f->segment.balance > 0);
    CST_TRY(take_sample(context, scope, f));
    if (f->settings.checks)
        CST_TRY(check(context, scope, f));
    double end = cst_part_begin(context, 0.3);
    CST_TRY(fit_sample(context, f, model, report));
    cst_part_end(context, end);
    double before = cst_seconds();
    bool scored = report && f->settings.nested;
    if (scored || f->segment.decide) {
        cst_training source = {0};
        cst_mute(context, true); /* the fit of all has said it already */
        cst_la_enter();
        cst_status status = cst_stage(context, "nested evaluation");
        CST_THEN(cst_training_open(context, f->sample.pool, "oof", &f->settings.folds,
                                   f->segment.seed, &source));
        CST_THEN(run_nested(context, f, &source, *model, scored ? *report : NULL));
        cst_training_close(context, &source);
        cst_la_leave();
        cst_mute(context, false);
        CST_TRY(status);
    }
    if (!report)
        return CST_OK;
    double now = cst_seconds();
    put_facts(*report, f, *model, now - before, now - start);
    return cst_report_finish(context, *report);
}

cst_status cst_segmentation_fit(cst_context *context, cst_pool *pool, const char *split,
                                const cst_options *options, cst_model **model,
                                cst_report **report) {
    CST_SCOPE(scope);
    cst_model *fitted = NULL;
    fitting f = {.pool = pool, .split = split, .options = options};
    cst_notices_clear(context);
    CST_OWN(context, scope, cst_findings, &f.findings);
    cst_status status = run(context, scope, &f, &fitted, report);
    CST_THEN(cst_progress_end(context, "fit"));
    if (status == CST_OK && model) {
        *model = fitted;
        fitted = NULL;
    }
    cst_model_free(context, fitted);
    return status;
}

cst_status cst_segmentation_inspect(cst_context *context, cst_pool *pool, const char *split,
                                    const cst_options *options, cst_report **report) {
    CST_SCOPE(scope);
    cst_pixel_sample sample;
    cst_map_orders orders;
    cst_view view = {0};
    cst_segment_settings segment;
    cst_segment_settings_read(options, &segment);
    segment.balance = 0;
    CST_TRY(cst_pixel_sample_make(context, scope, pool, split, &segment, &sample));
    CST_TRY(cst_pool_view(context, pool, split, &view));
    CST_TRY(cst_map_orders_make(context, scope, split, cst_pool_cases(pool, split), view.labels,
                                view.classes, &sample, &orders));
    CST_TRY(cst_inspect_family(context, &cst_classification_family, sample.pool, "oof", options,
                               &orders.hints, report));
    cst_map_put_header(*report, split, cst_pool_cases(pool, split), sample.counted,
                       (int32_t)cst_pool_classes(pool), segment.boundary);
    json_t *object = cst_report_object(*report, cst_report_root(*report), "sample");
    cst_report_integer(*report, object, "pixels", sample.rows);
    return cst_report_finish(context, *report);
}
