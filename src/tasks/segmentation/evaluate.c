/*
 * Scores of a model, of a member or of label maps on a split of a segmentation pool, with intervals
 * over cases. After a fit. Paper: section "Dense Prediction".
 */
#include "model/fit_rows.h"
#include "tasks/segmentation/decide.h"
#include "tasks/segmentation/document.h"
#include "tasks/segmentation/orders.h"
#include "tasks/segmentation/segmentation.h"
#include "tasks/segmentation/state.h"

#include <string.h>

enum { FOLDS = 5 };

typedef cst_map_state state;

static state *state_of(const cst_evaluation *e) {
    return e->data;
}

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

/* Evenly spread pixels whose label is a class, ascending: index [*count]. */
static cst_status spread_pixels(cst_context *context, const cst_view *view, int64_t **index,
                                int64_t *count) {
    enum { PIXELS = 20000 };
    int64_t known = 0;
    int64_t seen = 0;
    for (int64_t i = 0; i < view->rows; i++)
        known += view->labels[i] >= 0 && view->labels[i] < view->classes;
    int64_t most = known < PIXELS ? known : PIXELS;
    *count = 0;
    *index = cst_alloc(context, (size_t)most, sizeof **index);
    if (!*index)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < view->rows && *count < most; i++)
        if (view->labels[i] >= 0 && view->labels[i] < view->classes &&
            seen++ == (int64_t)((double)*count * (double)known / (double)most))
            (*index)[(*count)++] = i;
    return CST_OK;
}

/* Whether maps and masks go together, with the masks turned too. members: [members of the view]. */
static cst_status check_maps(cst_context *context, const cst_pool *pool, const char *split,
                             const cst_view *maps, const cst_cases *cases, const int32_t *members) {
    cst_pixel_sample sample = {0};
    cst_map_orders orders = {0};
    cst_view view = *maps;
    if (!maps->labels || maps->index)
        return CST_OK;
    cst_status status = spread_pixels(context, maps, &sample.index, &sample.rows);
    CST_THEN(
        cst_map_orders_make(context, split, cases, maps->labels, maps->classes, &sample, &orders));
    /* Orders are of the sample's rows, and so is the view. */
    view.index = sample.index;
    view.rows = sample.rows;
    CST_THEN(cst_check_scored(context, &(cst_check_source){.pool = pool,
                                                           .split = split,
                                                           .view = &view,
                                                           .members = members,
                                                           .orders = orders.list,
                                                           .order_count = CST_MAP_ORDERS}));
    cst_map_orders_free(context, &orders);
    cst_free(context, sample.index);
    return status;
}

cst_status cst_map_put_own(cst_context *context, cst_report *report, const cst_evaluation *e,
                           const cst_entry *entry) {
    const state *s = state_of(e);
    (void)context;
    if (s->pointers) /* a model's */
        cst_report_string(report, cst_report_root(report), "decision",
                          s->offsets ? "miou" : "argmax");
    cst_map_put_definitions(report);
    cst_map_put_classes(report, cst_report_root(report), e->pool, entry->result);
    return CST_OK;
}

/* ---- a member, label maps ---- */

/* Scores what `scoring` says as the document's own; its view is that of the split. */
static cst_status score_alone(cst_context *context, const cst_task_ops *ops, const cst_pool *pool,
                              const char *split, cst_scoring *scoring, int32_t resamples,
                              uint64_t seed, cst_report **report) {
    const cst_compare_options options = {.resamples = resamples, .seed = seed};
    state s = {.view = scoring->view,
               .settings = {.boundary = scoring->boundary > 0 ? scoring->boundary
                                                              : CST_SEGMENTATION_BOUNDARY}};
    cst_map_scores scores = {0};
    cst_entry entry = {.result = &scores};
    cst_evaluation e = {.ops = ops,
                        .pool = (cst_pool *)(uintptr_t)pool, /* only looked at */
                        .options = &options,
                        .split = split,
                        .brief = true,
                        .data = &s};
    cst_status status = cst_map_state_rows(context, pool, split, &s);
    scoring->cases = s.cases;
    scoring->boundary = s.settings.boundary;
    CST_THEN(cst_report_create(context, CST_REPORT_EVALUATE, report));
    CST_THEN(cst_maps_score(context, scoring, &scores));
    if (status == CST_OK) {
        cst_map_score_values(&scores, entry.scores);
        cst_report_string(*report, cst_report_root(*report), "task", "segmentation");
        status = cst_put_evaluation(context, *report, &e, &entry, 1);
    }
    cst_map_scores_free(context, &scores);
    return cst_finish_report(context, status, report);
}

cst_status cst_segmentation_score_member(cst_context *context, const cst_task_ops *ops,
                                         const cst_pool *pool, const char *split, int32_t member,
                                         double boundary, int32_t resamples, uint64_t seed,
                                         cst_report **report) {
    const float *pointer = NULL;
    cst_scoring scoring = {
        .boundary = boundary, .predict = predict_by_member, .fits = &(const void *){NULL}};
    cst_notices_clear(context);
    cst_status status =
        cst_pool_view_members(context, pool, split, &member, 1, &pointer, &scoring.view);
    CST_THEN(check_maps(context, pool, split, &scoring.view, cst_pool_cases(pool, split), &member));
    CST_THEN(score_alone(context, ops, pool, split, &scoring, resamples, seed, report));
    return status;
}

cst_status cst_segmentation_evaluate_member(cst_context *context, const cst_task_ops *ops,
                                            const cst_pool *pool, const char *split, int32_t member,
                                            int32_t resamples, uint64_t seed, cst_report **report) {
    return cst_segmentation_score_member(context, ops, pool, split, member, 0, resamples, seed,
                                         report);
}

cst_status cst_segmentation_score_labels(cst_context *context, const cst_task_ops *ops,
                                         const cst_pool *pool, const int32_t *predicted,
                                         double boundary, int32_t resamples, uint64_t seed,
                                         cst_report **report) {
    cst_scoring scoring = {.view = {.rows = cst_pool_rows(pool, "oof"),
                                    .classes = cst_pool_classes(pool),
                                    .labels = cst_pool_labels(pool, "oof")},
                           .boundary = boundary,
                           .predicted = predicted};
    return score_alone(context, ops, pool, "oof", &scoring, resamples, seed, report);
}

/* ---- a model ---- */

/* The width of the band that the model was fitted with. */
static double boundary_of(const cst_model *model) {
    static const char key[] = "segment.boundary=";
    double boundary = 0;
    for (size_t i = 0; i < model->settings; i++)
        if (strncmp(model->setting[i], key, sizeof key - 1) == 0)
            boundary = cst_strtod(model->setting[i] + sizeof key - 1, NULL);
    return boundary >= 1e-4 && boundary <= 1e4 ? boundary : CST_SEGMENTATION_BOUNDARY;
}

cst_status cst_map_open_model(cst_context *context, cst_evaluation *e, const cst_model *model) {
    state *s = cst_alloc(context, 1, sizeof *s);
    if (!s)
        return CST_ERROR_MEMORY;
    e->data = s;
    s->settings.boundary = boundary_of(model);
    cst_status status = cst_model_view(context, model, e->pool, e->split, &s->pointers, &s->view);
    CST_THEN(cst_model_view_tell(context, model, e->split, &s->view));
    CST_THEN(cst_map_state_rows(context, e->pool, e->split, s));
    CST_THEN(cst_offsets_load(context, model, &s->offsets));
    return status;
}

cst_status cst_map_run_model(cst_context *context, const cst_evaluation *e, const cst_model *model,
                             cst_entry *entry) {
    const state *s = state_of(e);
    const void *place = model;
    cst_scoring scoring = {.cases = s->cases,
                           .view = s->view,
                           .boundary = s->settings.boundary,
                           .predict = predict_by_model,
                           .fits = &place,
                           .offsets = s->offsets};
    cst_map_scores *scores = cst_alloc(context, 1, sizeof *scores);
    if (!scores)
        return CST_ERROR_MEMORY;
    entry->result = scores;
    int32_t *members = cst_alloc(context, (size_t)s->view.members, sizeof *members);
    cst_status status = members ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t k = 0; members && k < s->view.members; k++)
        members[k] = cst_pool_member_index(e->pool, cst_model_member_name(model, k));
    CST_THEN(check_maps(context, e->pool, e->split, &s->view, s->cases, members));
    cst_free(context, members);
    CST_THEN(cst_maps_score(context, &scoring, scores));
    if (status == CST_OK)
        cst_map_score_values(scores, entry->scores);
    return status;
}

/* Every member of the rows, and pixels of split "oof" to fit on. */
cst_status cst_map_open_baselines(cst_context *context, cst_evaluation *e) {
    state *s = state_of(e);
    cst_options *options = NULL;
    cst_segment_settings settings;
    e->source = &s->plain.source;
    cst_status status = cst_method_options(context, "default", e->options->seed, NULL, 0, &options);
    if (status != CST_OK)
        return status;
    cst_segment_settings_read(options, &settings);
    cst_options_free(context, options);
    status = cst_sampled_open(context, e, &settings, 0, FOLDS, &s->plain);
    CST_THEN(cst_pool_load(context, e->pool, e->split));
    CST_THEN(cst_pool_view(context, e->pool, e->split, &s->view));
    return status;
}

/* The fit's masks under another name: whether the pixels that the fit sampled are there with its
 * maps, and not with those of changed images. */
static cst_status same_maps(cst_context *context, const cst_fit_rows *fit, const cst_view *view,
                            bool *same) {
    const cst_row_sketch *sketch = &fit->sketch;
    uint64_t *hashes;
    CST_SCOPE(scope);
    CST_TRY(cst_row_hashes(context, scope, view, &hashes));
    int64_t found = cst_row_sketch_match(sketch, hashes, view->rows).contents_found;
    const cst_row_match match = {
        .contents = sketch->count, .contents_found = found, .single = sketch->count};
    *same = cst_seen_judge(&match, (cst_fit_repeats){sketch->repeated, sketch->rows,
                                                     sketch->repeated == 0}) == CST_SEEN_ALL;
    return CST_OK;
}

cst_status cst_map_seen(cst_context *context, const cst_evaluation *e, const cst_model *model,
                        const cst_entry *entry, bool *seen) {
    const state *s = state_of(e);
    const float **pointers = NULL;
    cst_view view = s->view;
    (void)entry;
    cst_fit_rows fit = cst_fit_rows_of(model, view.labels, view.rows);
    *seen = cst_fit_rows_named(&fit, e->split);
    cst_status status = CST_OK;
    if (!*seen && fit.same_labels && fit.sketched) {
        status = cst_model_view(context, model, e->pool, e->split, &pointers, &view);
        CST_THEN(same_maps(context, &fit, &view, seen));
    }
    if (status == CST_OK && *seen)
        cst_notice_seen(context, e->split);
    cst_free(context, pointers);
    return status;
}
