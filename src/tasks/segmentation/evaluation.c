/* The table of segmentation. Paper: section "Dense Prediction"; docs/segmentation.md. */
#include "data/readers/cases.h"
#include "fit/harness.h"
#include "fit/label.h"
#include "fit/profile.h"
#include "model/fit_rows.h"
#include "tasks/segmentation/segmentation.h"

#include <inttypes.h>
#include <string.h>

enum { FOLDS = 5 }; /* of baselines beside a model */
enum { PIECE_VALUES = 1 << 17 };

/* Default methods of a comparison. */
static const char *const DEFAULT_METHODS[] = {"best-single", "average",   "performance-weighted",
                                              "ridge",       "greedy",    "log-linear",
                                              "class-wise",  "prototype", "paper",
                                              "default",     NULL};

typedef struct map_method {
    cst_method rows;
    bool decide;     /* label maps take offsets; baselines have the largest probability */
    double *offsets; /* [classes] of the fit on all rows, where a model is wanted; else NULL */
} map_method;

typedef struct sampled {
    cst_segment_settings settings;
    cst_pixel_sample sample;
    cst_training source;
} sampled;

/* An evaluation's data. That of some members borrows samples and rows of the whole. */
typedef struct state {
    cst_segment_settings settings;
    sampled plain;    /* classes as they occur */
    sampled balanced; /* as segment.balance says; empty if that is 0 */
    const cst_cases *fitted_cases;
    const cst_cases *cases;
    cst_view view;
    bool of_model;   /* the view */
    int64_t pixels;  /* that count */
    double *offsets; /* of the model that is evaluated; or NULL */
} state;

static state *state_of(const cst_evaluation *e) {
    return e->data;
}

/* ---- opening ---- */

static void release(cst_context *context, void *data) {
    state *s = data;
    cst_training_close(context, &s->plain.source);
    cst_training_close(context, &s->balanced.source);
}

/* Samples pixels of the split that is fitted on and makes folds of them. */
static cst_status open_sampled(cst_context *context, cst_evaluation *e,
                               const cst_segment_settings *settings, double balance, int32_t folds,
                               sampled *out) {
    out->settings = *settings;
    out->settings.balance = balance;
    CST_TRY(cst_pixel_sample_make(context, &e->scope, e->pool, cst_evaluation_fitted(e),
                                  &out->settings, &out->sample));
    return cst_training_open(context, out->sample.pool, "oof", &(cst_fold_plan){.count = folds},
                             e->options->seed, &out->source);
}

/* Cases and counted pixels of a split whose view is there. */
static cst_status count_rows(cst_context *context, const cst_pool *pool, const char *split,
                             state *s) {
    s->cases = cst_pool_cases(pool, split);
    s->pixels = 0;
    if (!s->view.labels)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s' has no masks (\"labels\") to score against", split);
    for (int64_t i = 0; i < s->view.rows; i++) {
        CST_TRY(cst_poll_item(context, i));
        s->pixels += s->view.labels[i] >= 0;
    }
    return cst_cases_check_counted(context, pool, split);
}

/* Settings of preset default with those of the evaluation. */
static cst_status read_settings(cst_context *context, const char *preset, const cst_evaluation *e,
                                const char *const *settings, int32_t count,
                                cst_segment_settings *out, bool *checks) {
    cst_options *read = NULL;
    CST_TRY(cst_method_options(context, preset, e->options->seed, settings, count, &read));
    cst_segment_settings_read(read, out);
    *checks = cst_option_flag(read, CST_OPT_CHECKS);
    cst_status status = cst_training_no_time(context, read, "segmentation");
    cst_options_free(context, read);
    return status;
}

/* Checks the sampled pixels; members whose maps are broken take no part. */
static cst_status check_data(cst_context *context, cst_evaluation *e, int32_t folds,
                             cst_findings *findings) {
    state *s = e->data;
    const cst_pool *whole = e->pool;
    CST_TRY(cst_map_check(context, &e->scope, &e->pool, cst_evaluation_fitted(e), &s->plain.sample,
                          &s->plain.source, findings));
    if (e->pool == whole)
        return CST_OK;
    e->members = (int32_t)cst_pool_members(e->pool);
    cst_training_close(context, &s->plain.source);
    return open_sampled(context, e, &s->plain.settings, 0, folds, &s->plain);
}

/* Pixels to fit on of every member that takes part, and all rows to score. */
static cst_status open_fitted(cst_context *context, cst_evaluation *e, const char *const *given,
                              int32_t count, int32_t folds, cst_segment_settings *settings) {
    bool checks = false;
    state *s = e->data;
    CST_TRY(read_settings(context, "default", e, given, count, settings, &checks));
    folds = folds > 0 ? folds : settings->folds;
    CST_TRY(open_sampled(context, e, settings, 0, folds, &s->plain));
    CST_TRY(cst_pool_load(context, e->pool, e->split));
    if (checks)
        CST_TRY(check_data(context, e, folds, e->checked || e->brief ? NULL : &e->findings));
    s->fitted_cases = cst_pool_cases(e->pool, cst_evaluation_fitted(e));
    return cst_pool_view(context, e->pool, e->split, &s->view);
}

static cst_status open_methods(cst_context *context, cst_evaluation *e) {
    const cst_compare_options *options = e->options;
    state *s = e->data;
    CST_TRY(open_fitted(context, e, options->settings, (int32_t)options->setting_count, 0,
                        &s->settings));
    if (s->settings.balance > 0)
        CST_TRY(open_sampled(context, e, &s->settings, s->settings.balance, s->settings.folds,
                             &s->balanced));
    CST_TRY(count_rows(context, e->pool, e->split, s));
    e->checked = true;
    return CST_OK;
}

static double boundary_of(const cst_model *model) {
    static const char key[] = "segment.boundary=";
    double boundary = 0;
    for (size_t i = 0; i < model->settings; i++)
        if (strncmp(model->setting[i], key, sizeof key - 1) == 0)
            boundary = cst_strtod(model->setting[i] + sizeof key - 1, NULL);
    return boundary >= 1e-4 && boundary <= 1e4 ? boundary : CST_SEGMENTATION_BOUNDARY;
}

static cst_status open_model(cst_context *context, cst_evaluation *e, const cst_model *model) {
    state *s = e->data;
    s->settings.boundary = boundary_of(model);
    CST_TRY(cst_model_view(context, &e->scope, model, e->pool, e->split, &s->view));
    s->of_model = true;
    CST_TRY(cst_model_view_tell(context, model, e->split, &s->view));
    CST_TRY(count_rows(context, e->pool, e->split, s));
    return cst_offsets_load(context, &e->scope, model, &s->offsets);
}

static cst_status open(cst_context *context, cst_evaluation *e, const cst_model *model) {
    if (model)
        return open_model(context, e, model);
    cst_segment_settings baselines;
    CST_TRY(e->brief ? open_fitted(context, e, NULL, 0, FOLDS, &baselines)
                     : open_methods(context, e));
    e->source = &state_of(e)->plain.source;
    return CST_OK;
}

static cst_status subset(cst_context *context, const cst_evaluation *e, cst_evaluation *out) {
    const state *whole = e->data;
    state *s = out->data;
    *s = *whole;
    out->source = &s->plain.source;
    CST_TRY(cst_training_part(context, &out->scope, &whole->plain.source, out->positions,
                              out->members, &s->plain.source));
    if (s->settings.balance > 0)
        CST_TRY(cst_training_part(context, &out->scope, &whole->balanced.source, out->positions,
                                  out->members, &s->balanced.source));
    CST_NEW(context, &out->scope, const float *, pointers, out->members);
    s->view = cst_view_members(&whole->view, out->positions, out->members, pointers);
    return CST_OK;
}

/* ---- methods ---- */

static cst_status parse(cst_context *context, const cst_evaluation *e, const char *const *settings,
                        int32_t count, cst_entry *entry) {
    map_method *method = entry->method;
    cst_segment_settings found;
    bool checks = false;
    CST_TRY(
        cst_method_parse(context, entry->name, e->options->seed, settings, count, &method->rows));
    cst_entry_take_method(&method->rows, entry);
    if (strcmp(entry->name, "best-single") == 0)
        entry->definition = CST_BEST_SINGLE_MIOU;
    if (!entry->preset)
        return CST_OK;
    CST_TRY(read_settings(context, entry->preset, e, settings, count, &found, &checks));
    method->decide = found.decide;
    cst_settings_pools_only(&method->rows.settings, found.balance > 0);
    cst_entry_take_method(&method->rows, entry);
    return CST_OK;
}

/* ---- one method ---- */

/* Fits without each fold give scores and offsets; those of the whole fit are kept for a model. */
static cst_status score(cst_context *context, const cst_evaluation *e, const sampled *g,
                        const cst_method_fit *fit, cst_entry *entry) {
    const state *s = e->data;
    map_method *method = entry->method;
    CST_SCOPE(scope);
    cst_fold_fits fits = {0};
    double *offsets = NULL;
    cst_offset_gain gain = {0};
    const void *place = fit;
    size_t classes = (size_t)s->view.classes;
    bool nested = e->nested && !e->unscored;
    cst_nesting nesting = {&fit->method,    &g->source,
                           &g->sample,      &g->settings,
                           s->fitted_cases, cst_pool_labels(e->pool, cst_evaluation_fitted(e))};
    if (nested || method->decide)
        CST_TRY(cst_fold_fits_make(context, scope, &nesting, &fits));
    if (method->decide)
        CST_TRY(cst_fold_offsets(context, scope, &nesting, &fits, nested, &offsets, &gain));
    method->decide = gain.used;
    const double *whole = offsets ? offsets + (size_t)fits.count * classes : NULL;
    if (gain.used && entry->keep && whole) {
        CST_TAKE(context, &entry->scope, method->offsets, classes);
        memcpy(method->offsets, whole, classes * sizeof *whole);
    }
    cst_scoring scoring = {.cases = s->cases,
                           .view = s->view,
                           .boundary = s->settings.boundary,
                           .predict = cst_predict_by_method,
                           .fits = e->nested ? fits.places : &place,
                           .fit_of = e->nested ? fits.fit_of : NULL,
                           .offsets = e->nested ? offsets : whole,
                           .offsets_by_fit = e->nested};
    return e->unscored ? CST_OK : cst_maps_score(context, &entry->scope, &scoring, entry->result);
}

CST_OWNED(cst_method_fit)

static cst_status run_method(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    const state *s = e->data;
    const map_method *method = entry->method;
    const sampled *g = s->settings.balance > 0 && cst_method_takes_balance(&method->rows)
                           ? &s->balanced
                           : &s->plain;
    cst_method_fit fit = {0};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_method_fit, &fit);
    CST_TRY(cst_method_fit_run(context, &method->rows, &g->source, e->options->seed, &fit));
    CST_TRY(cst_method_prefer_miou(context, &g->source, -1, &fit));
    CST_TRY(
        cst_method_prior_correct(context, g->sample.prior, g->sample.share, &g->settings, &fit));
    CST_TRY(score(context, e, g, &fit, entry));
    CST_TRY(cst_entry_take_fit(context, &fit, entry));
    return entry->keep ? cst_method_fit_model(context, &fit, &entry->made) : CST_OK;
}

static cst_status label(cst_context *context, const cst_evaluation *e, const cst_options *options,
                        cst_entry *entry) {
    const state *s = e->data;
    const map_method *method = entry->method;
    cst_model *model = entry->made.model;
    CST_TRY(cst_fit_label_rows(context, s->plain.sample.pool, "oof", e->source, options,
                               entry->name, entry->made.kept, model));
    CST_TRY(cst_map_relabel(context, e->pool, cst_evaluation_fitted(e), options, model));
    return method->offsets ? cst_offsets_store(context, method->offsets, model) : CST_OK;
}

/* ---- a model ---- */

static cst_status predict_by_model(cst_context *context, const void *fit, const cst_view *view,
                                   float *out) {
    return cst_stack_predict(context, fit, view, out);
}

/* The view's one member as it is. */
static cst_status predict_by_member(cst_context *context, const void *fit, const cst_view *view,
                                    float *out) {
    (void)fit;
    return cst_view_copy(context, view, 0, out);
}

static cst_status spread_pixels(cst_context *context, cst_scope *scope, const cst_view *view,
                                cst_pixel_sample *out) {
    enum { PIXELS = 20000 };
    int64_t known = 0;
    int64_t seen = 0;
    for (int64_t i = 0; i < view->rows; i++)
        known += view->labels[i] >= 0 && view->labels[i] < view->classes;
    int64_t most = known < PIXELS ? known : PIXELS;
    CST_TAKE(context, scope, out->index, most);
    for (int64_t i = 0; i < view->rows && out->rows < most; i++)
        if (view->labels[i] >= 0 && view->labels[i] < view->classes &&
            seen++ == (int64_t)((double)out->rows * (double)known / (double)most))
            out->index[out->rows++] = i;
    return CST_OK;
}

/* Whether maps and masks go together, with the masks turned too. members: [members of the view]. */
static cst_status check_maps(cst_context *context, const cst_pool *pool, const char *split,
                             const cst_view *maps, const cst_cases *cases, const int32_t *members,
                             bool guessed) {
    CST_SCOPE(scope);
    cst_pixel_sample sample = {0};
    cst_map_orders orders;
    cst_view view = *maps;
    if (!maps->labels || maps->index)
        return CST_OK;
    CST_TRY(spread_pixels(context, scope, maps, &sample));
    CST_TRY(cst_map_orders_make(context, scope, split, cases, maps->labels, maps->classes, &sample,
                                &orders));
    /* Orders are of the sample's rows, and so is the view. */
    view.index = sample.index;
    view.rows = sample.rows;
    return cst_check_scored(context, &(cst_check_source){.pool = pool,
                                                         .split = split,
                                                         .view = &view,
                                                         .members = members,
                                                         .guessed = guessed,
                                                         .orders = orders.list,
                                                         .order_count = CST_MAP_ORDERS});
}

/* Labels of rows 0..count-1: the class with the largest sum over the members. */
static cst_status guess_labels(cst_context *context, const cst_view *view, int64_t count,
                               int32_t *labels) {
    int64_t piece = cst_piece_rows(PIECE_VALUES, view->classes);
    size_t values = (size_t)piece * (size_t)view->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, index, piece);
    CST_NEW(context, scope, float, own, values);
    CST_NEW(context, scope, float, sum, values);
    for (int64_t first = 0; first < count; first += piece) {
        cst_view part =
            cst_view_range(view, first, count - first < piece ? count - first : piece, index);
        memset(sum, 0, values * sizeof *sum);
        for (int32_t k = 0; k < view->members; k++) {
            CST_TRY(cst_view_copy(context, &part, k, own));
            for (int64_t j = 0; j < part.rows * view->classes; j++)
                sum[j] += own[j];
        }
        cst_label_rows(sum, part.rows, view->classes, labels + first);
    }
    return CST_OK;
}

static cst_status find_members(cst_context *context, cst_scope *scope, const cst_model *model,
                               const cst_pool *pool, int32_t count, int32_t **out) {
    CST_TAKE(context, scope, *out, count);
    for (int32_t k = 0; k < count; k++)
        (*out)[k] = cst_pool_member_index(pool, cst_model_input_name(model, k));
    return CST_OK;
}

cst_status cst_maps_check_guessed(cst_context *context, const cst_model *model,
                                  const cst_pool *pool, const char *split, const cst_view *view) {
    enum { CASES = 4, MEMBERS = 3 }; /* looked at, and at least needed for a majority */
    const cst_cases *cases = cst_pool_cases(pool, split);
    int32_t *members;
    cst_view maps = *view;
    int64_t count = cases->first[cases->count < CASES ? cases->count : CASES];
    if (view->members < MEMBERS || view->presence || view->index)
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, labels, view->rows);
    for (int64_t i = count; i < view->rows; i++)
        labels[i] = -1;
    CST_TRY(guess_labels(context, view, count, labels));
    maps.labels = labels;
    CST_TRY(find_members(context, scope, model, pool, view->members, &members));
    return check_maps(context, pool, split, &maps, cases, members, true);
}

static cst_status run_model(cst_context *context, const cst_evaluation *e, const cst_model *model,
                            cst_entry *entry) {
    const state *s = e->data;
    const void *place = model;
    cst_scoring scoring = {.cases = s->cases,
                           .view = s->view,
                           .boundary = s->settings.boundary,
                           .predict = predict_by_model,
                           .fits = &place,
                           .offsets = s->offsets};
    CST_SCOPE(scope);
    int32_t *members;
    CST_TRY(find_members(context, scope, model, e->pool, s->view.members, &members));
    CST_TRY(check_maps(context, e->pool, e->split, &s->view, s->cases, members, false));
    return cst_maps_score(context, &entry->scope, &scoring, entry->result);
}

static cst_status run(cst_context *context, const cst_evaluation *e, const cst_model *model,
                      cst_entry *entry) {
    CST_TRY(model ? run_model(context, e, model, entry) : run_method(context, e, entry));
    if (!e->unscored)
        cst_map_score_values(entry->result, entry->scores);
    return CST_OK;
}

/* The fit's masks under another name, with its maps and not those of changed images. */
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

static cst_status seen(cst_context *context, const cst_evaluation *e, const cst_model *model,
                       bool *out) {
    CST_SCOPE(scope);
    cst_view view = state_of(e)->view;
    cst_fit_rows fit = cst_fit_rows_of(model, view.labels, view.rows);
    *out = cst_fit_rows_named(&fit, e->split);
    if (!*out && fit.same_labels && fit.sketched) {
        CST_TRY(cst_model_view(context, scope, model, e->pool, e->split, &view));
        CST_TRY(same_maps(context, &fit, &view, out));
    }
    if (*out)
        cst_notice_seen(context, e->split);
    return CST_OK;
}

/* ---- a member, files ---- */

/* Scores what `scoring` says; its view is that of the split. boundary: 0 for the default. */
static cst_status score_alone(cst_context *context, cst_evaluation *e, double boundary,
                              cst_scoring *scoring, cst_entry *entry) {
    state *s = e->data;
    s->view = scoring->view;
    s->settings.boundary = boundary > 0 ? boundary : CST_SEGMENTATION_BOUNDARY;
    CST_TRY(count_rows(context, e->pool, e->split, s));
    scoring->cases = s->cases;
    scoring->boundary = s->settings.boundary;
    CST_TRY(cst_maps_score(context, &entry->scope, scoring, entry->result));
    cst_map_score_values(entry->result, entry->scores);
    return CST_OK;
}

static cst_status score_member(cst_context *context, cst_evaluation *e, const int32_t *member,
                               double boundary, cst_entry *entry) {
    cst_scoring scoring = {.predict = predict_by_member, .fits = &(const void *){NULL}};
    CST_NEW(context, &e->scope, const float *, pointer, 1);
    CST_TRY(cst_pool_view_members(context, e->pool, e->split, member, 1, pointer, &scoring.view));
    CST_TRY(check_maps(context, e->pool, e->split, &scoring.view, cst_pool_cases(e->pool, e->split),
                       member, false));
    return score_alone(context, e, boundary, &scoring, entry);
}

static cst_status member(cst_context *context, cst_evaluation *e, cst_entry *entry,
                         const void *member) {
    return score_member(context, e, member, 0, entry);
}

/* Predicted maps in a file or folder, and how to read them and the masks. */
typedef struct map_file {
    const char *path;
    cst_pool_config config;
    double boundary;
} map_file;

static const char *const MAPS[] = {".png", ".npy", ".npz", NULL};

/* Whether the file, or the folder's first, holds labels: a PNG or whole numbers. */
static cst_status find_kind(cst_context *context, const char *path, uint64_t zip_limit,
                            bool *labels) {
    const char *first = path;
    bool folder = cst_is_folder(path);
    cst_npy *npy;
    CST_SCOPE(scope);
    *labels = false;
    if (folder) {
        cst_case_files files;
        CST_TRY(cst_case_files_list(context, scope, path, MAPS, &files));
        first = files.paths[0];
    }
    if (cst_is_png(first)) {
        *labels = true;
        return CST_OK;
    }
    cst_status status = cst_npy_open(context, scope, &npy, first, zip_limit);
    if (status != CST_OK) /* an archive of several arrays: the reader of maps says what is wrong */
        return folder ? CST_OK : status;
    *labels = npy->kind == CST_NPY_INT || npy->kind == CST_NPY_UINT;
    return CST_OK;
}

CST_OWNED(cst_pool)

/* A pool of one split "oof" with masks and no members, of which only the sizes are looked at. */
static cst_status open_masks(cst_context *context, cst_scope *scope, const char *path,
                             const cst_pool_config *config, bool predicted, cst_pool **out) {
    cst_manifest *manifest = NULL;
    int32_t split = 0;
    cst_status status = cst_manifest_create(context, &manifest, path);
    CST_THEN(cst_manifest_add_split(context, manifest, "oof", &split));
    if (status == CST_OK) {
        manifest->splits[split].labels = cst_take_text(context, &manifest->scope, path);
        status = manifest->splits[split].labels ? CST_OK : CST_ERROR_MEMORY;
    }
    if (status != CST_OK) {
        cst_manifest_free(context, manifest);
        return status;
    }
    manifest->task = CST_TASK_SEGMENTATION;
    CST_TRY(cst_pool_create(context, out, manifest, config));
    CST_OWN(context, scope, cst_pool, *out);
    if (predicted) {
        (*out)->ignore = CST_NOTHING_IGNORED;
        manifest->ignored_also = 0;
    }
    if ((*out)->classes < 2)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s: scoring label maps needs the number of classes (--classes)", path);
    return cst_masks_survey(context, *out, split);
}

/* Predicted maps must be of the cases of the masks. */
static cst_status check_cases(cst_context *context, const cst_cases *masks, const cst_cases *maps) {
    if (masks->count != maps->count)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: has %" PRId64 " cases, but %s has %" PRId64, maps->where, maps->count,
                        masks->where, masks->count);
    for (int64_t n = 0; n < masks->count; n++) {
        char name[CST_CASE_CHARS];
        if (masks->names && maps->names &&
            strcmp(cst_strings_at(masks->names, n), cst_strings_at(maps->names, n)) != 0)
            return cst_fail(context, CST_ERROR_MISMATCH, "%s: has no map for case '%s' of %s",
                            maps->where, cst_strings_at(masks->names, n), masks->where);
        if (memcmp(masks->shape[n], maps->shape[n], sizeof masks->shape[n]) != 0)
            return cst_fail(context, CST_ERROR_MISMATCH,
                            "%s: case %s is %" PRId64 " x %" PRId64 " pixels, but %" PRId64
                            " x %" PRId64 " in %s; maps and masks must have the same size",
                            maps->where, cst_case_name(masks, n, name), maps->shape[n][1],
                            maps->shape[n][2], masks->shape[n][1], masks->shape[n][2],
                            masks->where);
    }
    return CST_OK;
}

/* Label maps against the masks. */
static cst_status score_labels(cst_context *context, cst_evaluation *e, const map_file *file,
                               cst_entry *entry) {
    cst_pool *maps = NULL;
    CST_TRY(open_masks(context, &e->scope, file->config.labels, &file->config, false, &e->pool));
    CST_TRY(open_masks(context, &e->scope, file->path, &file->config, true, &maps));
    CST_TRY(check_cases(context, cst_pool_cases(e->pool, "oof"), cst_pool_cases(maps, "oof")));
    CST_TRY(cst_pool_describe(context, e->pool, 0, NULL, 0));
    CST_TRY(cst_pool_describe(context, maps, 0, NULL, 0));
    cst_scoring scoring = {.view = {.rows = cst_pool_rows(e->pool, "oof"),
                                    .classes = (int32_t)cst_pool_classes(e->pool),
                                    .labels = cst_pool_labels(e->pool, "oof")},
                           .predicted = cst_pool_labels(maps, "oof")};
    return score_alone(context, e, file->boundary, &scoring, entry);
}

/* Label maps of the user's own. */
static cst_status own_labels(cst_context *context, cst_scope *scope, const cst_evaluation *e,
                             const cst_own_predictions *given, cst_scoring *scoring) {
    const state *s = e->data;
    cst_pool *maps = NULL;
    const cst_pool_config config = {.classes = s->view.classes, .zip_limit = e->pool->zip_limit};
    CST_TRY(open_masks(context, scope, given->path, &config, true, &maps));
    CST_TRY(check_cases(context, s->cases, cst_pool_cases(maps, "oof")));
    CST_TRY(cst_pool_describe(context, maps, 0, NULL, 0));
    scoring->view =
        (cst_view){.rows = s->view.rows, .classes = s->view.classes, .labels = s->view.labels};
    scoring->predicted = cst_pool_labels(maps, "oof");
    return CST_OK;
}

/* Probability maps of the user's own, matched with the cases scored as those of a member. */
static cst_status own_maps(cst_context *context, cst_scope *scope, const cst_evaluation *e,
                           const cst_own_predictions *given, cst_scoring *scoring) {
    const state *s = e->data;
    cst_pool *maps = NULL;
    const cst_pool_config config = {.task_given = 1,
                                    .task = CST_TASK_SEGMENTATION,
                                    .classes = s->view.classes,
                                    .layout = e->pool->layout,
                                    .output_given = 1,
                                    .output = e->brief && e->pool->logits ? CST_OUTPUT_LOGIT
                                                                          : CST_OUTPUT_PROBABILITY,
                                    .zip_limit = e->pool->zip_limit};
    CST_TRY(cst_pool_open_files(context, &maps, &given->path, 1, &config));
    CST_OWN(context, scope, cst_pool, maps);
    CST_TAKE(context, scope, maps->splits[0].cases, 1);
    *maps->splits[0].cases = *s->cases;
    CST_TRY(cst_pool_set_rows(context, &maps->splits[0], s->view.rows, s->cases->where));
    CST_TRY(cst_pool_load(context, maps, "oof"));
    CST_TRY(cst_pool_view(context, maps, "oof", &scoring->view));
    scoring->view.labels = s->view.labels;
    return check_maps(context, maps, given->name, &scoring->view, s->cases, NULL, false);
}

static cst_status own(cst_context *context, const cst_evaluation *e,
                      const cst_own_predictions *given, cst_entry *entry) {
    const state *s = e->data;
    bool labels = false;
    cst_scoring scoring = {.cases = s->cases,
                           .boundary = s->settings.boundary,
                           .predict = predict_by_member,
                           .fits = &(const void *){NULL}};
    CST_SCOPE(scope);
    if (!given->path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "'%.80s': maps of your own come from a file or folder, not from an array",
                        given->name);
    CST_TRY(find_kind(context, given->path, e->pool->zip_limit, &labels));
    CST_TRY((labels ? own_labels : own_maps)(context, scope, e, given, &scoring));
    CST_TRY(cst_maps_score(context, &entry->scope, &scoring, entry->result));
    cst_map_score_values(entry->result, entry->scores);
    return CST_OK;
}

static cst_status score_file(cst_context *context, cst_evaluation *e, cst_entry *entry,
                             const void *user) {
    const map_file *file = user;
    const int32_t first = 0;
    bool labels = false;
    cst_pool *pool = NULL;
    CST_TRY(find_kind(context, file->path, file->config.zip_limit, &labels));
    if (labels)
        return score_labels(context, e, file, entry);
    CST_TRY(cst_pool_open_files(context, &pool, &file->path, 1, &file->config));
    CST_OWN(context, &e->scope, cst_pool, pool);
    CST_TRY(cst_pool_load(context, pool, "oof"));
    cst_notices_clear(context);
    e->pool = pool;
    return score_member(context, e, &first, file->boundary, entry);
}

cst_status cst_segmentation_evaluate_file(cst_context *context, const char *path,
                                          const cst_pool_config *config_given, const char *against,
                                          double boundary, int64_t resamples_given, uint64_t seed,
                                          cst_report **report) {
    char name[CST_METHOD_NAME_CHARS];
    CST_CLEAR(report);
    CST_ENTER(context);
    CST_STRUCT(context, cst_pool_config, config, config_given);
    CST_COUNT(context, resamples, resamples_given);
    CST_SEED(context, seed);
    CST_RESAMPLES(context, resamples);
    if (!path || !config || !config->labels || !report || !(boundary >= 0) || boundary > 1e4)
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "cst_segmentation_evaluate_file: maps, masks, boundary width and report are required");
    map_file file = {path, *config, boundary};
    file.config.task_given = 1;
    file.config.task = CST_TASK_SEGMENTATION;
    const cst_own_predictions other = cst_own_file(against, name);
    return cst_why(context, cst_run_alone(context, &cst_segmentation_ops, NULL, "oof",
                                          against ? &other : NULL, NULL, resamples, seed,
                                          score_file, &file, report));
}

/* ---- documents ---- */

static void put_size(cst_report *report, const cst_evaluation *e) {
    const state *s = e->data;
    cst_map_put_size(report, s->cases, s->pixels, s->view.classes, s->settings.boundary);
    if (e->brief)
        return;
    json_t *sample = cst_report_object(report, cst_report_root(report), "sample");
    CST_PUT(report, sample, CST_I("pixels", s->plain.sample.rows),
            CST_N("balance", s->settings.balance));
}

static void put_row(const cst_description *d) {
    const cst_map_scores *scores = d->entries->result;
    const map_method *method = d->entries->method;
    cst_map_put_present(d->report, d->object, scores);
    if (d->e->brief)
        return;
    CST_PUT(d->report, d->object, CST_S("decision", method && method->decide ? "miou" : "argmax"),
            CST_N("seconds_scored", scores->seconds));
}

static void put_own(const cst_description *d) {
    const state *s = d->e->data;
    if (s->of_model)
        cst_report_string(d->report, d->object, "decision", s->offsets ? "miou" : "argmax");
    cst_map_put_definitions(d->report);
    cst_map_put_classes(d->report, d->object, d->e->pool, d->entries->result);
}

static cst_status describe(cst_context *context, cst_part part, const cst_description *d) {
    (void)context;
    if (part == CST_PART_SIZE)
        put_size(d->report, d->e);
    else if (part == CST_PART_ROW)
        put_row(d);
    else if (part == CST_PART_OWN)
        put_own(d);
    return CST_OK;
}

static const char *const BASELINES[] = {"best-single", "average", "greedy", "greedy+temperature",
                                        NULL};

const cst_task_ops cst_segmentation_ops = {
    .task = CST_TASK_SEGMENTATION,
    .unit = "cases",
    .default_methods = DEFAULT_METHODS,
    .tested = {"miou", "nll"},
    .baselines = BASELINES,
    .state_bytes = sizeof(state),
    .method_bytes = sizeof(map_method),
    .result_bytes = sizeof(cst_map_scores),
    .release = release,
    .fit = cst_segmentation_fit,
    .inspect = cst_segmentation_inspect,
    .member = member,
    .method_name = cst_method_name,
    .definition = cst_segmentation_definition,
    .open = open,
    .subset = subset,
    .parse = parse,
    .run = run,
    .own = own,
    .label = label,
    .hash = cst_hash_rows,
    .seen = seen,
    .bootstrap = cst_map_bootstrap,
    .describe = describe,
    .profile = &cst_profile_maps,
};
