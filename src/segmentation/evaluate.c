/*
 * Scores of a model or a member on a split of a segmentation pool, beside the simple baselines,
 * with intervals over cases. After a fit. Paper: section "Dense Prediction"; method.md section 8.
 */
#include "evaluation/rows.h"
#include "la/la.h"
#include "model/seen_rows.h"
#include "segmentation/decide.h"
#include "segmentation/document.h"
#include "segmentation/nested.h"
#include "segmentation/segmentation.h"

#include <string.h>

enum { METHODS_MAX = 6, FOLDS = 5 };

/* One row of the table. */
typedef struct method {
    const char *name;
    int32_t models;
    char detail[288];
    cst_map_scores scores;
} method;

static cst_status predict_by_model(cst_context *context, const void *fit, const cst_view *view,
                                   float *out) {
    return cst_stack_predict(context, fit, view, out);
}

/* The view's one member as it is. */
static cst_status predict_by_member(cst_context *context, const void *fit, const cst_view *view,
                                    float *out) {
    const float *rows = NULL;
    (void)fit;
    cst_status status = cst_view_rows(context, view, 0, 0, view->rows, out, &rows);
    if (status == CST_OK && rows != out)
        memcpy(out, rows, (size_t)view->rows * (size_t)view->classes * sizeof *out);
    return status;
}

static cst_status need_masks(cst_context *context, const cst_pool *pool, const cst_view *view,
                             const char *split) {
    return view->labels ? cst_cases_check_counted(context, pool, split)
                        : cst_fail(context, CST_ERROR_INPUT,
                                   "split '%s' has no masks (\"labels\") to score against", split);
}

/* Scores of all methods; the first is the document's own, the others become its baselines. */
static cst_status put_methods(cst_context *context, cst_report *report, const cst_pool *pool,
                              method *methods, int32_t count, int32_t resamples, uint64_t seed) {
    json_t *root = cst_report_root(report);
    const cst_map_scores *all[METHODS_MAX];
    cst_map_intervals *intervals = cst_alloc(context, METHODS_MAX, sizeof *intervals);
    cst_status status = intervals ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t m = 0; m < count; m++)
        all[m] = &methods[m].scores;
    if (status == CST_OK && resamples > 0)
        status = cst_map_intervals_make(context, all, count, resamples, seed, 0, intervals);
    for (int32_t m = 0; status == CST_OK && m < count; m++) {
        json_t *object = root;
        if (m == 1)
            (void)cst_report_list(report, root, "baselines");
        if (m > 0) {
            object = cst_report_add_object(report, json_object_get(root, "baselines"));
            cst_report_string(report, object, "method", methods[m].name);
            cst_report_string(report, object, "detail", methods[m].detail);
        }
        cst_map_put_scores(report, object, all[m], resamples > 0 ? &intervals[m] : NULL);
        if (methods[m].models > 0)
            cst_report_integer(report, object, "models", methods[m].models);
        if (m == 0)
            cst_map_put_classes(report, object, pool, all[m]);
    }
    if (resamples > 0) {
        cst_report_integer(report, root, "resamples", resamples);
        cst_report_integer(report, root, "seed", (int64_t)seed);
    }
    cst_free(context, intervals);
    return status;
}

/* Counted pixels are known from a tally. */
static int64_t counted(const cst_map_scores *scores) {
    cst_segmentation_scores found;
    cst_tally_scores(scores->total, scores->classes, false, &found);
    return found.pixels;
}

cst_status cst_segmentation_score_member(cst_context *context, const cst_pool *pool,
                                         const char *split, int32_t member, double boundary,
                                         int32_t resamples, uint64_t seed, cst_report **report) {
    const float *pointer = NULL;
    method only = {.name = "predictions"};
    cst_scoring scoring = {.cases = cst_pool_cases(pool, split),
                           .boundary = boundary > 0 ? boundary : CST_SEGMENTATION_BOUNDARY,
                           .predict = predict_by_member,
                           .fits = &(const void *){NULL}};
    cst_notices_clear(context);
    cst_status status =
        cst_pool_view_members(context, pool, split, &member, 1, &pointer, &scoring.view);
    CST_TRY(need_masks(context, pool, &scoring.view, split));
    CST_TRY(cst_report_create(context, CST_REPORT_EVALUATE, report));
    CST_TRY(cst_maps_score(context, &scoring, &only.scores));
    if (status == CST_OK) {
        cst_map_put_header(*report, NULL, scoring.cases, counted(&only.scores),
                           scoring.view.classes, scoring.boundary);
        status = put_methods(context, *report, pool, &only, 1, resamples, seed);
    }
    cst_map_scores_free(context, &only.scores);
    return cst_rows_finish(context, status, report);
}

cst_status cst_segmentation_evaluate_member(cst_context *context, const cst_pool *pool,
                                            const char *split, int32_t member, int32_t resamples,
                                            uint64_t seed, cst_report **report) {
    return cst_segmentation_score_member(context, pool, split, member, 0, resamples, seed, report);
}

cst_status cst_segmentation_score_labels(cst_context *context, const cst_pool *pool,
                                         const int32_t *predicted, double boundary,
                                         int32_t resamples, uint64_t seed, cst_report **report) {
    method only = {.name = "predictions"};
    cst_scoring scoring = {.cases = cst_pool_cases(pool, "oof"),
                           .view = {.rows = cst_pool_rows(pool, "oof"),
                                    .classes = cst_pool_classes(pool),
                                    .labels = cst_pool_labels(pool, "oof")},
                           .boundary = boundary > 0 ? boundary : CST_SEGMENTATION_BOUNDARY,
                           .predicted = predicted};
    cst_status status = cst_cases_check_counted(context, pool, "oof");
    CST_TRY(cst_report_create(context, CST_REPORT_EVALUATE, report));
    CST_TRY(cst_maps_score(context, &scoring, &only.scores));
    if (status == CST_OK) {
        cst_map_put_header(*report, NULL, scoring.cases, counted(&only.scores),
                           scoring.view.classes, scoring.boundary);
        status = put_methods(context, *report, pool, &only, 1, resamples, seed);
    }
    cst_map_scores_free(context, &only.scores);
    return cst_rows_finish(context, status, report);
}

/* ---- a model ---- */

/* One baseline, fitted on the sampled out-of-fold pixels. */
static cst_status run_baseline(cst_context *context, const char *name, const cst_training *source,
                               uint64_t seed, const cst_pool *pool, const cst_scoring *scoring,
                               method *out) {
    cst_method which;
    cst_method_fit fit = {0};
    cst_scoring own = *scoring;
    const void *place = &fit;
    cst_status status = cst_method_parse(context, name, seed, NULL, 0, &which);
    CST_TRY(cst_method_fit_run(context, &which, source, seed, &fit));
    CST_TRY(cst_method_prefer_miou(context, source, -1, &fit));
    if (status != CST_OK) {
        cst_method_fit_free(context, &fit);
        return status;
    }
    out->name = name;
    out->models = fit.used;
    (void)cst_snprintf(out->detail, sizeof out->detail, "%s", fit.calibrator.detail);
    for (int32_t k = 0; k < fit.members && strcmp(name, "best-single") == 0; k++)
        if (fit.uses[k])
            (void)cst_snprintf(out->detail, sizeof out->detail, "%s",
                               cst_pool_member_name(pool, k));
    own.predict = cst_predict_by_method;
    own.fits = &place;
    own.offsets = NULL;
    status = cst_maps_score(context, &own, &out->scores);
    cst_method_fit_free(context, &fit);
    return status;
}

static cst_status run_baselines(cst_context *context, cst_pool *pool, const char *split,
                                uint64_t seed, const cst_scoring *scoring, method *methods,
                                int32_t *count) {
    static const char *const wanted[] = {"best-single", "average", "greedy", "greedy+temperature"};
    cst_options *options = NULL;
    cst_segment_settings settings;
    cst_pixel_sample sample = {0};
    cst_training source = {0};
    cst_scoring own = *scoring;
    cst_status status = cst_method_options(context, "default", seed, NULL, 0, &options);
    if (status == CST_OK) {
        cst_segment_settings_read(options, &settings);
        settings.balance = 0;
        status = cst_pixel_sample_make(context, pool, "oof", &settings, &sample);
    }
    CST_TRY(cst_training_open(context, sample.pool, "oof", FOLDS, seed, &source));
    CST_TRY(cst_pool_load(context, pool, split));
    CST_TRY(cst_pool_view(context, pool, split, &own.view));
    for (size_t i = 0; status == CST_OK && i < sizeof wanted / sizeof wanted[0]; i++) {
        status = run_baseline(context, wanted[i], &source, seed, pool, &own, &methods[*count]);
        *count += status == CST_OK;
    }
    cst_training_close(context, &source);
    cst_pixel_sample_free(context, &sample);
    cst_options_free(context, options);
    return status;
}

/* The fit's masks under another name: whether the pixels that the fit sampled are there with its
 * maps, and not with those of changed images. */
static cst_status same_maps(cst_context *context, const cst_fit_rows *fit, const cst_view *view,
                            bool *same) {
    const cst_row_sketch *sketch = &fit->sketch;
    uint64_t *hashes = NULL;
    cst_status status = cst_row_hashes(context, view, &hashes);
    if (status == CST_OK) {
        int64_t found = cst_row_sketch_match(sketch, hashes, view->rows).contents_found;
        const cst_row_match match = {
            .contents = sketch->count, .contents_found = found, .single = sketch->count};
        *same = cst_seen_judge(&match, (cst_fit_repeats){sketch->repeated, sketch->rows,
                                                         sketch->repeated == 0}) == CST_SEEN_ALL;
    }
    cst_free(context, hashes);
    return status;
}

static cst_status put_seen(cst_context *context, cst_report *report, const cst_model *model,
                           const char *split, const cst_view *view) {
    cst_fit_rows fit = cst_fit_rows_of(model, view->labels, view->rows);
    bool seen = cst_fit_rows_named(&fit, split);
    cst_status status = CST_OK;
    if (!seen && fit.same_labels && fit.sketched)
        status = same_maps(context, &fit, view, &seen);
    if (status != CST_OK)
        return status;
    cst_report_flag(report, cst_report_root(report), "seen_in_fitting", seen);
    if (seen)
        cst_notice(context,
                   "the model was fitted on the pixels of split '%s': these scores are optimistic; "
                   "score a split that it has not seen, or take the nested scores that fit reports",
                   split);
    return CST_OK;
}

/* The width of the band that the model was fitted with. */
static double boundary_of(const cst_model *model) {
    static const char key[] = "segment.boundary=";
    double boundary = 0;
    for (size_t i = 0; i < model->settings; i++)
        if (strncmp(model->setting[i], key, sizeof key - 1) == 0)
            boundary = cst_strtod(model->setting[i] + sizeof key - 1, NULL);
    return boundary >= 1e-4 && boundary <= 1e4 ? boundary : CST_SEGMENTATION_BOUNDARY;
}

static cst_status score_model(cst_context *context, const cst_model *model, cst_pool *pool,
                              const char *split, bool baselines, int32_t resamples, uint64_t seed,
                              cst_report *report) {
    method *methods = cst_alloc(context, METHODS_MAX, sizeof *methods);
    const float **pointers = NULL;
    double *offsets = NULL;
    int32_t count = 1;
    const void *place = model;
    cst_scoring scoring = {
        .boundary = boundary_of(model), .predict = predict_by_model, .fits = &place};
    cst_status status = methods
                            ? cst_model_view(context, model, pool, split, &pointers, &scoring.view)
                            : CST_ERROR_MEMORY;
    CST_TRY(need_masks(context, pool, &scoring.view, split));
    CST_TRY(cst_offsets_load(context, model, &offsets));
    scoring.cases = cst_pool_cases(pool, split);
    scoring.offsets = offsets;
    CST_TRY(cst_maps_score(context, &scoring, &methods[0].scores));
    if (status == CST_OK) {
        methods[0].name = "corestack";
        methods[0].models = cst_model_members(model);
        cst_map_put_header(report, split, scoring.cases, counted(&methods[0].scores),
                           scoring.view.classes, scoring.boundary);
        cst_report_string(report, cst_report_root(report), "decision", offsets ? "miou" : "argmax");
        status = put_seen(context, report, model, split, &scoring.view);
    }
    if (status == CST_OK && baselines)
        status = run_baselines(context, pool, split, seed, &scoring, methods, &count);
    CST_TRY(put_methods(context, report, pool, methods, count, resamples, seed));
    for (int32_t m = 0; methods && m < METHODS_MAX; m++)
        cst_map_scores_free(context, &methods[m].scores);
    cst_free(context, methods);
    cst_free(context, offsets);
    cst_free(context, pointers);
    return status;
}

cst_status cst_segmentation_evaluate_model(cst_context *context, const cst_model *model,
                                           cst_pool *pool, const char *split, int baselines,
                                           int32_t resamples, uint64_t seed, cst_report **report) {
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = cst_report_create(context, CST_REPORT_EVALUATE, report);
    CST_TRY(score_model(context, model, pool, split, baselines != 0, resamples, seed, *report));
    cst_la_leave();
    return cst_rows_finish(context, status, report);
}
