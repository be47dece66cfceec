/*
 * The leaderboard of a segmentation: every method fitted on the same pixels and scored on all of
 * them, intervals, differences and tests over cases. Paper: sections "Dense Prediction" and
 * "Experimental Setup"; method.md sections 6 and 8.
 */
#include "evaluation/rows.h"
#include "la/la.h"
#include "segmentation/document.h"
#include "segmentation/nested.h"
#include "segmentation/segmentation.h"

#include <corestack/statistics.h>
#include <math.h>
#include <string.h>

/* What is compared where nothing is asked for. */
static const char *const USUAL[] = {"best-single", "average", "performance-weighted",
                                    "ridge",       "greedy",  "log-linear",
                                    "prototype",   "paper",   "default"};

enum { USUAL_COUNT = sizeof USUAL / sizeof USUAL[0], METHODS_MAX = 64 };

/* One row of the table. */
typedef struct entry {
    cst_method method;
    bool asked;  /* by name, and not as one of all */
    bool decide; /* label maps take offsets */
    int32_t models;
    double *weights; /* [members], or NULL */
    cst_mix_kind mix;
    double flops_rel;
    double seconds; /* of the fit on all sampled pixels */
    char detail[192];
    cst_map_scores scores;
} entry;

/* Sampled pixels ready to be fitted on. */
typedef struct ground {
    cst_segment_settings settings;
    cst_pixel_sample sample;
    cst_training source;
} ground;

typedef struct comparison {
    cst_pool *pool;
    const char *split;
    bool nested;
    uint64_t seed;
    cst_segment_settings settings;
    ground plain;    /* classes as they occur */
    ground balanced; /* as segment.balance says; empty where that is 0 */
    const cst_cases *fitted_cases;
    const cst_cases *cases;
    cst_view view;
    entry *entries;
    int32_t count;
    int32_t reference;
    cst_map_intervals *intervals; /* NULL without resamples */
} comparison;

/* ---- which methods ---- */

/* Whether the label maps of a preset take offsets: baselines have the largest probability. */
static cst_status read_decision(cst_context *context, const cst_compare_options *options,
                                entry *out) {
    cst_options *read = NULL;
    cst_segment_settings settings;
    cst_status status = cst_method_options(context, out->method.preset, options->seed,
                                           options->settings, options->setting_count, &read);
    if (status != CST_OK)
        return status;
    cst_segment_settings_read(read, &settings);
    out->decide = settings.decide;
    cst_options_free(context, read);
    return CST_OK;
}

static cst_status add_method(cst_context *context, comparison *c,
                             const cst_compare_options *options, const char *name, bool asked) {
    cst_method method;
    cst_status status = cst_method_parse(context, name, options->seed, options->settings,
                                         options->setting_count, &method);
    if (status != CST_OK)
        return status;
    for (int32_t m = 0; m < c->count; m++)
        if (strcmp(c->entries[m].method.name, name) == 0) {
            c->entries[m].asked = c->entries[m].asked || asked;
            return CST_OK;
        }
    if (!cst_method_applies(&method, &c->plain.source))
        return asked ? cst_fail(context, CST_ERROR_INPUT,
                                "%s needs members that the manifest tags for it (key 'ensemble'), "
                                "of deep ensembles and snapshots two; this pool has too few",
                                name)
                     : CST_OK;
    if (c->count == METHODS_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "more than %d methods", METHODS_MAX);
    entry *added = &c->entries[c->count++];
    added->method = method;
    added->asked = asked;
    return method.preset ? read_decision(context, options, added) : CST_OK;
}

static cst_status list_methods(cst_context *context, comparison *c,
                               const cst_compare_options *options) {
    cst_status status = CST_OK;
    const char *reference = options->reference ? options->reference : "default";
    c->entries = cst_alloc(context, METHODS_MAX, sizeof *c->entries);
    if (!c->entries)
        return CST_ERROR_MEMORY;
    for (size_t i = 0; status == CST_OK && options->method_count < 1 && i < USUAL_COUNT; i++)
        status = add_method(context, c, options, USUAL[i], false);
    for (int32_t m = 0; status == CST_OK && m < options->method_count; m++) {
        bool all = strcmp(options->methods[m], "all") == 0;
        if (!all)
            status = add_method(context, c, options, options->methods[m], true);
        for (size_t i = 0; status == CST_OK && all && cst_method_name(i); i++)
            status = add_method(context, c, options, cst_method_name(i), false);
    }
    c->reference = -1;
    for (int32_t m = 0; status == CST_OK && m < c->count; m++)
        if (strcmp(c->entries[m].method.name, reference) == 0)
            c->reference = m;
    if (status == CST_OK && c->reference < 0 && options->reference)
        status = cst_fail(context, CST_ERROR_ARGUMENT,
                          "the reference '%.60s' is not among the methods compared", reference);
    c->reference = c->reference < 0 ? 0 : c->reference;
    return status;
}

/* ---- pixels ---- */

static cst_status open_ground(cst_context *context, const comparison *c, double balance,
                              int32_t folds, ground *out) {
    out->settings = c->settings;
    out->settings.balance = balance;
    cst_status status =
        cst_pixel_sample_make(context, c->pool, "oof", &out->settings, &out->sample);
    return status == CST_OK
               ? cst_training_open(context, out->sample.pool, "oof", folds, c->seed, &out->source)
               : status;
}

static void close_ground(cst_context *context, ground *g) {
    cst_training_close(context, &g->source);
    cst_pixel_sample_free(context, &g->sample);
}

static cst_status open_pixels(cst_context *context, comparison *c,
                              const cst_compare_options *options) {
    cst_options *read = NULL;
    int32_t folds = 0;
    cst_status status = cst_method_options(context, "default", c->seed, options->settings,
                                           options->setting_count, &read);
    if (status != CST_OK)
        return status;
    cst_segment_settings_read(read, &c->settings);
    folds = (int32_t)cst_option_integer(read, CST_OPT_FOLDS_COUNT);
    cst_options_free(context, read);
    status = open_ground(context, c, 0, folds, &c->plain);
    if (status == CST_OK && c->settings.balance > 0)
        status = open_ground(context, c, c->settings.balance, folds, &c->balanced);
    CST_TRY(cst_pool_load(context, c->pool, c->split));
    CST_TRY(cst_pool_view(context, c->pool, c->split, &c->view));
    c->fitted_cases = cst_pool_cases(c->pool, "oof");
    c->cases = cst_pool_cases(c->pool, c->split);
    if (status == CST_OK && !c->view.labels)
        status = cst_fail(context, CST_ERROR_INPUT,
                          "split '%s' has no masks (\"labels\") to score against", c->split);
    CST_TRY(cst_cases_check_counted(context, c->pool, c->split));
    return status;
}

/* ---- running ---- */

static cst_status score(cst_context *context, const comparison *c, const ground *g,
                        const cst_method_fit *fit, entry *out) {
    cst_fold_fits fits = {0};
    double *offsets = NULL;
    const void *place = fit;
    cst_scoring scoring = {.cases = c->cases,
                           .view = c->view,
                           .boundary = c->settings.boundary,
                           .predict = cst_predict_by_method,
                           .fits = &place};
    cst_status status = CST_OK;
    cst_nesting nesting = {&fit->method, &g->source,      &g->sample,
                           &g->settings, c->fitted_cases, cst_pool_labels(c->pool, "oof")};
    if (c->nested || out->decide)
        status = cst_fold_fits_make(context, &nesting, &fits);
    if (status == CST_OK && out->decide)
        status = cst_fold_offsets(context, &nesting, &fits, c->nested, &offsets);
    scoring.offsets = offsets;
    if (c->nested) {
        scoring.fits = fits.places;
        scoring.fit_of = fits.fit_of;
        scoring.offsets_by_fit = true;
    } else if (offsets)
        scoring.offsets = offsets + (size_t)fits.count * (size_t)c->view.classes;
    CST_TRY(cst_maps_score(context, &scoring, &out->scores));
    cst_fold_fits_free(context, &fits);
    cst_free(context, offsets);
    return status;
}

static cst_status describe(cst_context *context, const comparison *c, const ground *g,
                           const cst_method_fit *fit, entry *out) {
    double total = 0;
    double mine = 0;
    const char *only = "";
    for (int32_t k = 0; k < fit->members; k++) {
        total += g->source.flops[k];
        mine += fit->uses[k] ? g->source.flops[k] : 0;
        only = fit->uses[k] && fit->used == 1 ? cst_pool_member_name(c->pool, k) : only;
    }
    const char *own = fit->method.baseline ? fit->baseline.detail : "";
    own = *own ? own : only;
    (void)cst_snprintf(out->detail, sizeof out->detail, "%.100s%s%.60s", own,
                       *own && fit->calibrator.detail[0] ? ", " : "", fit->calibrator.detail);
    out->models = fit->used;
    out->mix = fit->mix;
    out->seconds = fit->seconds;
    out->flops_rel = total > 0 ? mine / total : NAN;
    if (!fit->weights)
        return CST_OK;
    out->weights = cst_alloc(context, (size_t)fit->members, sizeof *out->weights);
    if (!out->weights)
        return CST_ERROR_MEMORY;
    memcpy(out->weights, fit->weights, (size_t)fit->members * sizeof *out->weights);
    return CST_OK;
}

static cst_status run_method(cst_context *context, const comparison *c, entry *out) {
    const ground *g = c->settings.balance > 0 && cst_method_takes_balance(&out->method)
                          ? &c->balanced
                          : &c->plain;
    cst_method_fit fit = {0};
    cst_status status = cst_method_fit_run(context, &out->method, &g->source, c->seed, &fit);
    CST_TRY(cst_method_prefer_miou(context, &g->source, -1, &fit));
    CST_TRY(
        cst_method_prior_correct(context, g->sample.prior, g->sample.share, &g->settings, &fit));
    CST_TRY(describe(context, c, g, &fit, out));
    CST_TRY(score(context, c, g, &fit, out));
    cst_method_fit_free(context, &fit);
    return status;
}

static void free_entry(cst_context *context, entry *e) {
    cst_free(context, e->weights);
    cst_map_scores_free(context, &e->scores);
}

/* A method that cannot be fitted on these pixels: an error that names it where it was asked for,
 * else it is left out with a notice. */
static cst_status give_up(cst_context *context, comparison *c, int32_t m, cst_status status) {
    if (status != CST_ERROR_INPUT && status != CST_ERROR_NUMERIC)
        return status;
    entry *e = &c->entries[m];
    char why[256];
    (void)cst_snprintf(why, sizeof why, "%s", cst_last_error(context));
    if (e->asked || c->count == 1)
        return cst_fail(context, status, "method %s: %s", e->method.name, why);
    cst_notice(context, "%s is left out: %s", e->method.name, why);
    free_entry(context, e);
    memmove(e, e + 1, (size_t)(c->count - m - 1) * sizeof *e);
    c->entries[--c->count] = (entry){0};
    if (c->reference == m)
        c->reference = 0;
    else if (c->reference > m)
        c->reference--;
    return CST_OK;
}

static cst_status run_methods(cst_context *context, comparison *c, int32_t resamples) {
    cst_status status = CST_OK;
    for (int32_t m = 0; status == CST_OK && m < c->count;) {
        const char *name = c->entries[m].method.name;
        status = cst_progress(context, name, m, c->count);
        if (status != CST_OK)
            break;
        cst_notice_about(context, name);
        status = run_method(context, c, &c->entries[m]);
        cst_notice_about(context, NULL);
        if (status == CST_OK)
            m++;
        else
            status = give_up(context, c, m, status);
    }
    if (status != CST_OK || resamples <= 0)
        return status;
    const cst_map_scores **all = cst_alloc(context, (size_t)c->count, sizeof *all);
    c->intervals = cst_alloc(context, (size_t)c->count, sizeof *c->intervals);
    status = all && c->intervals ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t m = 0; status == CST_OK && m < c->count; m++)
        all[m] = &c->entries[m].scores;
    CST_TRY(cst_map_intervals_make(context, all, c->count, resamples, c->seed, c->reference,
                                   c->intervals));
    cst_free(context, (void *)all);
    return status;
}

/* ---- document ---- */

static void put_rows(cst_report *report, const comparison *c) {
    static const char *const mixes[] = {"linear", "log-linear", NULL};
    json_t *list = cst_report_list(report, cst_report_root(report), "rows");
    for (int32_t m = 0; m < c->count; m++) {
        const entry *e = &c->entries[m];
        json_t *row = cst_report_add_object(report, list);
        cst_report_string(report, row, "method", e->method.name);
        bool single = strcmp(e->method.name, "best-single") == 0;
        cst_report_string(report, row, "definition",
                          single ? CST_BEST_SINGLE_MIOU : cst_method_definition(&e->method));
        cst_report_string(report, row, "detail", e->detail);
        cst_report_string(report, row, "decision", e->decide ? "miou" : "argmax");
        cst_map_put_scores(report, row, &e->scores, c->intervals ? &c->intervals[m] : NULL);
        if (c->intervals && m != c->reference)
            cst_map_put_difference(report, row, &c->intervals[m]);
        cst_report_string(report, row, "mix", mixes[e->mix]);
        if (e->weights)
            cst_report_numbers(report, row, "weights", e->weights, cst_pool_members(c->pool));
        else
            cst_report_value(report, row, "weights", json_null());
        cst_report_integer(report, row, "models", e->models);
        cst_report_number(report, row, "flops_rel", e->flops_rel);
        cst_report_number(report, row, "seconds", e->seconds);
        cst_report_number(report, row, "seconds_scored", e->scores.seconds);
    }
}

/* Against the reference, over cases: the bootstrap's p of the difference in mIoU and in NLL. */
static cst_status put_tests(cst_context *context, cst_report *report, const comparison *c) {
    static const char *const wanted[] = {"miou", "nll"};
    if (!c->intervals || c->count < 2)
        return CST_OK;
    double *p = cst_alloc(context, 2 * (size_t)c->count, sizeof *p);
    if (!p)
        return CST_ERROR_MEMORY;
    cst_status status = CST_OK;
    json_t *list = cst_report_list(report, cst_report_root(report), "tests");
    for (int f = 0; status == CST_OK && f < CST_MAP_SCORES; f++) {
        int which = strcmp(cst_map_score_name(f), wanted[0]) == 0   ? 0
                    : strcmp(cst_map_score_name(f), wanted[1]) == 0 ? 1
                                                                    : -1;
        int32_t used = 0;
        if (which < 0)
            continue;
        for (int32_t m = 0; m < c->count; m++)
            if (m != c->reference)
                p[used++] = c->intervals[m].p[f];
        status = cst_bonferroni(context, p, used, p + c->count);
        used = 0;
        for (int32_t m = 0; status == CST_OK && m < c->count; m++) {
            if (m == c->reference)
                continue;
            json_t *t = cst_report_add_object(report, list);
            cst_report_string(report, t, "a", c->entries[c->reference].method.name);
            cst_report_string(report, t, "b", c->entries[m].method.name);
            cst_report_string(report, t, "metric", wanted[which]);
            cst_report_string(report, t, "test", "paired bootstrap over cases");
            cst_report_number(report, t, "difference", c->intervals[m].difference[f].value);
            cst_report_number(report, t, "p", c->intervals[m].p[f]);
            cst_report_number(report, t, "p_adjusted", p[c->count + used++]);
        }
    }
    cst_report_string(report, cst_report_root(report), "adjustment",
                      "Bonferroni over the methods compared with the reference, for each metric");
    cst_free(context, p);
    return status;
}

static cst_status put_document(cst_context *context, cst_report *report, const comparison *c,
                               int32_t resamples) {
    json_t *root = cst_report_root(report);
    cst_segmentation_scores found;
    cst_tally_scores(c->entries[0].scores.total, c->view.classes, false, &found);
    cst_map_put_header(report, c->split, c->cases, found.pixels, c->view.classes,
                       c->settings.boundary);
    cst_report_string(report, root, "scored", c->nested ? "nested" : "held-out");
    cst_report_integer(report, root, "models_in", cst_pool_members(c->pool));
    cst_report_integer(report, root, "seed", (int64_t)c->seed);
    json_t *sample = cst_report_object(report, root, "sample");
    cst_report_integer(report, sample, "pixels", c->plain.sample.rows);
    cst_report_number(report, sample, "balance", c->settings.balance);
    json_t *members = cst_report_list(report, root, "members");
    for (int32_t k = 0; k < cst_pool_members(c->pool); k++)
        cst_report_add_string(report, members, cst_pool_member_name(c->pool, k));
    cst_report_string(report, root, "reference", c->entries[c->reference].method.name);
    if (resamples > 0)
        cst_report_integer(report, root, "resamples", resamples);
    put_rows(report, c);
    return put_tests(context, report, c);
}

cst_status cst_segmentation_compare(cst_context *context, cst_pool *pool,
                                    const cst_compare_options *given, cst_report **report) {
    cst_compare_options options = cst_rows_options(given);
    comparison c = {
        .pool = pool, .split = options.split ? options.split : "oof", .seed = options.seed};
    c.nested = strcmp(c.split, "oof") == 0;
    if (options.ood)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "out-of-distribution scores are not there for pools of task segmentation");
    if (options.predicted)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "a comparison of segmentations does not keep the maps of every method; "
                        "fit, then predict");
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = cst_report_create(context, CST_REPORT_COMPARE, report);
    CST_TRY(open_pixels(context, &c, &options));
    CST_TRY(list_methods(context, &c, &options));
    CST_TRY(run_methods(context, &c, options.resamples));
    CST_TRY(put_document(context, *report, &c, options.resamples));
    for (int32_t m = 0; m < c.count; m++)
        free_entry(context, &c.entries[m]);
    cst_free(context, c.entries);
    cst_free(context, c.intervals);
    close_ground(context, &c.plain);
    close_ground(context, &c.balanced);
    cst_la_leave();
    return cst_rows_finish(context, status, report);
}
