/*
 * Rows to fit on and rows to score on, and one method's run on them. A split other than the
 * out-of-fold rows is read by predictions only. method.md section 6.
 */
#include "protocol/scene.h"

#include "pool/pool.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- opening ----------------------------------------------------------------------------------
 */

/* Options that concern the folds, from a method that takes settings. */
static cst_status fold_options(cst_context *context, const cst_compare_options *options,
                               cst_settings *out) {
    cst_method method;
    cst_status status = cst_method_parse(context, "default", options->seed, options->settings,
                                         options->setting_count, &method);
    *out = method.settings;
    return status;
}

static cst_status open_split(cst_context *context, const char *split, cst_scene *out) {
    cst_status status = cst_pool_load(context, out->pool, split);
    if (status == CST_OK)
        status = cst_pool_view(context, out->pool, split, &out->rows);
    if (status != CST_OK)
        return status;
    out->conditions = cst_pool_conditions(out->pool, split);
    out->labels = cst_pool_labels(out->pool, split);
    out->samples = cst_pool_rows(out->pool, split);
    if (!out->labels)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s' has no labels to score against; name it as the "
                        "out-of-distribution split beside one with labels",
                        split);
    return CST_OK;
}

static cst_status open_ood(cst_context *context, cst_scene *out) {
    if (out->conditions > 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "split '%s' holds several conditions; tell split '%s' from one without",
                        out->split, out->ood);
    cst_status status = cst_pool_load(context, out->pool, out->ood);
    return status == CST_OK ? cst_pool_view(context, out->pool, out->ood, &out->ood_rows) : status;
}

cst_status cst_scene_open(cst_context *context, cst_pool *pool, const cst_compare_options *options,
                          cst_scene *out) {
    double start = cst_seconds();
    cst_settings settings;
    *out = (cst_scene){.pool = pool,
                       .split = options->split ? options->split : "oof",
                       .ood = options->ood,
                       .seed = options->seed};
    out->nested = strcmp(out->split, "oof") == 0;
    cst_status status = fold_options(context, options, &settings);
    if (status == CST_OK)
        status =
            cst_training_open(context, pool, "oof", settings.folds, options->seed, &out->source);
    if (status != CST_OK)
        return status;
    size_t members = (size_t)out->source.view.members;
    out->classes = out->source.view.classes;
    out->pearson = cst_alloc(context, members * members, sizeof *out->pearson);
    status =
        out->pearson ? cst_pearson(context, &out->source.view, out->pearson) : CST_ERROR_MEMORY;
    if (status == CST_OK && out->nested) {
        out->rows = out->source.view;
        out->labels = out->source.view.labels;
        out->samples = out->source.view.rows;
    } else if (status == CST_OK) {
        status = open_split(context, out->split, out);
    }
    if (status == CST_OK && out->ood)
        status = open_ood(context, out);
    out->seconds_read = cst_seconds() - start;
    if (status != CST_OK)
        cst_scene_close(context, out);
    return status;
}

void cst_scene_close(cst_context *context, cst_scene *scene) {
    cst_training_close(context, &scene->source);
    cst_free(context, scene->pearson);
    *scene = (cst_scene){0};
}

/* ---- one method -------------------------------------------------------------------------------
 */

/* The training rows with some members only. Storage in `store`, freed with release_part. */
typedef struct part {
    cst_training source;
    cst_view rows;
    cst_view ood_rows;
    const float **pointers; /* [3][count] */
    double *costs;          /* [2][count] */
    cst_member_ensemble *ensembles;
    int32_t *everyone; /* [members]: where no choice is given */
    const int32_t *members;
    int32_t count;
} part;

static void release_part(cst_context *context, part *p) {
    cst_free(context, p->pointers);
    cst_free(context, p->costs);
    cst_free(context, p->ensembles);
    cst_free(context, p->everyone);
    *p = (part){0};
}

static cst_status make_part(cst_context *context, const cst_scene *scene, const int32_t *members,
                            int32_t count, part *out) {
    *out = (part){.source = scene->source, .members = members, .count = count};
    int32_t all = scene->source.view.members;
    if (!members) {
        out->count = count = all;
        out->everyone = cst_alloc(context, (size_t)all, sizeof *out->everyone);
        for (int32_t k = 0; out->everyone && k < all; k++)
            out->everyone[k] = k;
        out->members = members = out->everyone;
    }
    out->pointers = cst_alloc(context, 3 * (size_t)count, sizeof *out->pointers);
    out->costs = cst_alloc(context, 2 * (size_t)count, sizeof *out->costs);
    out->ensembles = cst_alloc(context, (size_t)count, sizeof *out->ensembles);
    if (!members || !out->pointers || !out->costs || !out->ensembles)
        return CST_ERROR_MEMORY;
    out->source.view = cst_view_members(&scene->source.view, members, count, out->pointers);
    out->rows = cst_view_members(&scene->rows, members, count, out->pointers + count);
    if (scene->ood)
        out->ood_rows =
            cst_view_members(&scene->ood_rows, members, count, out->pointers + 2 * (size_t)count);
    out->source.flops = out->costs;
    out->source.latency = out->costs + count;
    out->source.ensembles = out->ensembles;
    for (int32_t j = 0; j < count; j++) {
        out->source.flops[j] = scene->source.flops[members[j]];
        out->source.latency[j] = scene->source.latency[members[j]];
        out->ensembles[j] = scene->source.ensembles[members[j]];
    }
    return CST_OK;
}

static cst_status predict(cst_context *context, const cst_scene *scene, const part *p,
                          const cst_method_fit *fit, cst_entry *out) {
    size_t classes = (size_t)scene->classes;
    out->probabilities =
        cst_alloc(context, (size_t)scene->rows.rows * classes, sizeof *out->probabilities);
    if (!out->probabilities)
        return CST_ERROR_MEMORY;
    cst_status status =
        scene->nested
            ? cst_method_nested(context, &fit->method, &p->source, scene->seed, out->probabilities)
            : cst_method_fit_predict(context, fit, &p->rows, out->probabilities);
    if (status != CST_OK || !scene->ood)
        return status;
    out->ood = cst_alloc(context, (size_t)scene->ood_rows.rows * classes, sizeof *out->ood);
    return out->ood ? cst_method_fit_predict(context, fit, &p->ood_rows, out->ood)
                    : CST_ERROR_MEMORY;
}

/* Members, costs and weights in the pool's positions. */
static cst_status describe(cst_context *context, const cst_scene *scene, const part *p,
                           const cst_method_fit *fit, cst_entry *out) {
    int32_t all = scene->source.view.members;
    int32_t *used = cst_alloc(context, (size_t)all, sizeof *used);
    out->weights = fit->weights ? cst_alloc(context, (size_t)all, sizeof *out->weights) : NULL;
    if (!used || (fit->weights && !out->weights)) {
        cst_free(context, used);
        return CST_ERROR_MEMORY;
    }
    double total = 0;
    double mine = 0;
    for (int32_t k = 0; k < all; k++)
        total += scene->source.flops[k];
    for (int32_t j = 0; j < p->count; j++) {
        int32_t k = p->members[j];
        if (out->weights)
            out->weights[k] = fit->weights[j];
        if (!fit->uses[j])
            continue;
        used[out->models++] = k;
        mine += scene->source.flops[k];
    }
    out->flops_rel = total > 0 ? mine / total : NAN;
    out->mix = fit->mix;
    out->seconds = fit->seconds;
    const char *own = fit->method.baseline ? fit->baseline.detail : "";
    const char *name = out->models == 1 ? cst_pool_member_name(scene->pool, used[0]) : "";
    (void)snprintf(out->detail, sizeof out->detail, "%.100s%s%s%s%.60s", *own ? own : name,
                   (*own || *name) && fit->calibrator.detail[0] ? ", " : "", "", "",
                   fit->calibrator.detail);
    cst_status status =
        cst_gram_kappa(context, scene->pearson, all, used, out->models, &out->kappa);
    cst_free(context, used);
    return status;
}

static cst_status score(cst_context *context, const cst_scene *scene, cst_entry *out) {
    int32_t times = scene->conditions > 0 ? scene->conditions : 1;
    size_t cells = (size_t)scene->samples * (size_t)scene->classes;
    cst_metrics sum = {.samples = scene->samples};
    for (int32_t t = 0; t < times; t++) {
        cst_metrics one;
        cst_status status =
            cst_metrics_evaluate(context, out->probabilities + (size_t)t * cells, scene->samples,
                                 scene->classes, scene->labels, 0, &one);
        if (status != CST_OK)
            return status;
        sum.bins = one.bins;
        sum.top1 += one.top1 / times;
        sum.nll += one.nll / times;
        sum.brier += one.brier / times;
        sum.ece += one.ece / times;
        sum.ece_mass += one.ece_mass / times;
        sum.ece_classwise += one.ece_classwise / times;
        sum.ece_debiased += one.ece_debiased / times;
        sum.corp += one.corp / times;
    }
    out->scores = sum;
    return CST_OK;
}

cst_status cst_scene_run(cst_context *context, const cst_scene *scene, const cst_method *method,
                         const int32_t *members, int32_t count, cst_entry *out) {
    part p;
    cst_method_fit fit = {0};
    *out = (cst_entry){.method = *method};
    cst_status status = make_part(context, scene, members, count, &p);
    if (status == CST_OK && method->preset)
        status =
            cst_training_check_costs(context, scene->pool, &scene->source,
                                     method->settings.keep_flops, method->settings.keep_latency);
    out->applies = status == CST_OK && cst_method_applies(method, &p.source);
    if (status != CST_OK || !out->applies) {
        release_part(context, &p);
        return status;
    }
    if (status == CST_OK)
        status = cst_method_fit_run(context, method, &p.source, scene->seed, &fit);
    if (status == CST_OK)
        status = predict(context, scene, &p, &fit, out);
    if (status == CST_OK)
        status = describe(context, scene, &p, &fit, out);
    if (status == CST_OK)
        status = score(context, scene, out);
    cst_method_fit_free(context, &fit);
    release_part(context, &p);
    if (status != CST_OK)
        cst_entry_free(context, out);
    return status;
}

void cst_entry_free(cst_context *context, cst_entry *entry) {
    cst_free(context, entry->probabilities);
    cst_free(context, entry->ood);
    cst_free(context, entry->weights);
    *entry = (cst_entry){0};
}

/* ---- intervals --------------------------------------------------------------------------------
 */

cst_status cst_scene_intervals(cst_context *context, const cst_scene *scene,
                               const cst_entry *entries, int32_t count, int32_t resamples,
                               int32_t reference, cst_metric_intervals *intervals,
                               cst_metric_intervals *differences, bool *done) {
    *done = false;
    if (resamples <= 0)
        return CST_OK;
    if (scene->conditions > 0) {
        cst_notice(context, "split '%s' holds %d conditions: intervals are not computed for those",
                   scene->split, (int)scene->conditions);
        return CST_OK;
    }
    const float **all = cst_alloc(context, (size_t)count, sizeof *all);
    if (!all)
        return CST_ERROR_MEMORY;
    for (int32_t m = 0; m < count; m++)
        all[m] = entries[m].probabilities;
    cst_status status = cst_bootstrap_compare(
        context, all, count, scene->samples, scene->classes, scene->labels, 0, resamples,
        scene->seed, CST_BOOTSTRAP_ALL, reference < 0 ? 0 : reference, intervals, differences);
    for (int32_t m = 1; status == CST_OK && reference < 0 && m < count; m++) {
        cst_metric_intervals pair[2];
        const float *two[2] = {entries[m].probabilities, entries[m - 1].probabilities};
        status =
            cst_bootstrap_compare(context, two, 2, scene->samples, scene->classes, scene->labels, 0,
                                  resamples, scene->seed, CST_BOOTSTRAP_ALL, 1, NULL, pair);
        differences[m] = pair[0];
    }
    cst_free(context, all);
    *done = status == CST_OK;
    return status;
}
