/*
 * Rows to fit on and rows to score on, and one method's run on them. A split other than the
 * out-of-fold rows is read by predictions only. method.md section 6.
 */
#include "evaluation/scene.h"

#include "metrics/weighted.h"

#include <math.h>
#include <string.h>

/* ---- opening ---- */

/* Options that concern the folds, from a method that takes settings. */
static cst_status fold_options(cst_context *context, const cst_compare_options *options,
                               cst_settings *out) {
    cst_method method;
    cst_status status = cst_method_parse(context, "default", options->seed, options->settings,
                                         options->setting_count, &method);
    *out = method.settings;
    return status;
}

/* Names and loads what is to be predicted. */
static cst_status open_targets(cst_context *context, const cst_compare_options *options, bool shift,
                               cst_scene *out) {
    if (!shift && !out->nested && !cst_pool_has_split(out->pool, out->split))
        return cst_fail(context, CST_ERROR_MISMATCH, "the pool has no split '%s'", out->split);
    cst_status status =
        cst_targets_make(context, out->pool, out->split, shift ? options->clean : "",
                         shift ? options->ood : NULL, &out->targets);
    for (int32_t t = 0; status == CST_OK && t < out->targets.count; t++) {
        cst_target *target = &out->targets.list[t];
        if (t > 0 || !out->nested) {
            status = cst_target_load(context, out->pool, target);
            continue;
        }
        target->view = out->source.view;
        target->labels = out->source.view.labels;
        target->groups = out->source.view.groups;
        target->weights = out->source.view.weights;
        target->samples = out->source.view.rows;
    }
    CST_TRY(cst_targets_check_weights(context, out->pool, &out->targets));
    if (status == CST_OK) {
        out->conditions = out->targets.list[0].conditions;
        out->labels = out->targets.list[0].labels;
        out->weights = out->targets.list[0].weights;
        out->samples = out->targets.list[0].samples;
    }
    return status;
}

cst_status cst_scene_open(cst_context *context, cst_pool *pool, const cst_compare_options *options,
                          bool shift, cst_scene *out) {
    double start = cst_seconds();
    cst_settings settings;
    *out = (cst_scene){.pool = pool,
                       .split = options->split ? options->split : "oof",
                       .ood = shift ? options->ood : NULL,
                       .seed = options->seed};
    out->nested = strcmp(out->split, "oof") == 0;
    cst_status status = fold_options(context, options, &settings);
    CST_TRY(cst_training_open(context, pool, "oof", settings.folds, options->seed, &out->source));
    if (status != CST_OK)
        return status;
    size_t members = (size_t)out->source.view.members;
    out->classes = out->source.view.classes;
    out->pearson = cst_alloc(context, members * members, sizeof *out->pearson);
    status =
        out->pearson ? cst_pearson(context, &out->source.view, out->pearson) : CST_ERROR_MEMORY;
    CST_TRY(open_targets(context, options, shift, out));
    out->seconds_read = cst_seconds() - start;
    if (status != CST_OK)
        cst_scene_close(context, out);
    return status;
}

void cst_scene_close(cst_context *context, cst_scene *scene) {
    cst_training_close(context, &scene->source);
    cst_targets_free(context, &scene->targets);
    cst_free(context, scene->pearson);
    *scene = (cst_scene){0};
}

/* ---- one method ---- */

/* The training rows with some members only. Storage in `store`, freed with release_part. */
typedef struct part {
    cst_training source;
    cst_view *views;        /* [targets] */
    const float **pointers; /* [1 + targets][count] */
    double *costs;          /* [2][count] */
    cst_member_ensemble *ensembles;
    int32_t *everyone; /* [members]: where no choice is given */
    const int32_t *members;
    int32_t count;
} part;

static void release_part(cst_context *context, part *p) {
    cst_free(context, p->views);
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
    size_t targets = (size_t)scene->targets.count;
    out->views = cst_alloc(context, targets, sizeof *out->views);
    out->pointers = cst_alloc(context, (1 + targets) * (size_t)count, sizeof *out->pointers);
    out->costs = cst_alloc(context, 2 * (size_t)count, sizeof *out->costs);
    out->ensembles = cst_alloc(context, (size_t)count, sizeof *out->ensembles);
    if (!members || !out->views || !out->pointers || !out->costs || !out->ensembles)
        return CST_ERROR_MEMORY;
    out->source.view = cst_view_members(&scene->source.view, members, count, out->pointers);
    for (size_t t = 0; t < targets; t++)
        out->views[t] = cst_view_members(&scene->targets.list[t].view, members, count,
                                         out->pointers + (1 + t) * (size_t)count);
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
    size_t targets = (size_t)scene->targets.count;
    out->predicted = cst_alloc(context, targets, sizeof *out->predicted);
    if (!out->predicted)
        return CST_ERROR_MEMORY;
    out->targets = scene->targets.count;
    cst_status status = CST_OK;
    for (size_t t = 0; status == CST_OK && t < targets; t++) {
        float *to = cst_alloc(context, (size_t)p->views[t].rows * classes, sizeof *to);
        out->predicted[t] = to;
        if (!to)
            return CST_ERROR_MEMORY;
        status = t == 0 && scene->nested
                     ? cst_method_nested(context, &fit->method, &p->source, scene->seed, to)
                     : cst_method_fit_predict(context, fit, &p->views[t], to);
    }
    out->probabilities = out->predicted[0];
    return status;
}

/* Members, costs and weights in the pool's positions. */
static cst_status describe(cst_context *context, const cst_scene *scene, const part *p,
                           const cst_method_fit *fit, cst_entry *out) {
    int32_t all = scene->source.view.members;
    int32_t *used = cst_alloc(context, (size_t)all, sizeof *used);
    out->uses = cst_alloc(context, (size_t)all, sizeof *out->uses);
    out->weights = fit->weights ? cst_alloc(context, (size_t)all, sizeof *out->weights) : NULL;
    if (!used || !out->uses || (fit->weights && !out->weights)) {
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
        out->uses[k] = true;
        used[out->models++] = k;
        mine += scene->source.flops[k];
    }
    out->flops_rel = total > 0 ? mine / total : NAN;
    out->mix = fit->mix;
    out->seconds = fit->seconds;
    const char *own = fit->method.baseline ? fit->baseline.detail : "";
    const char *name = out->models == 1 ? cst_pool_member_name(scene->pool, used[0]) : "";
    (void)cst_snprintf(out->detail, sizeof out->detail, "%.100s%s%s%s%.60s", *own ? own : name,
                       (*own || *name) && fit->calibrator.detail[0] ? ", " : "", "", "",
                       fit->calibrator.detail);
    cst_status status =
        cst_gram_kappa(context, scene->pearson, all, used, out->models, &out->kappa);
    cst_free(context, used);
    return status;
}

/* Means over the conditions of one split, or over several splits. */
static cst_status score(cst_context *context, const cst_scene *scene, cst_entry *out) {
    bool splits = scene->targets.scored > 1;
    int32_t times = splits ? scene->targets.scored : scene->conditions > 0 ? scene->conditions : 1;
    size_t cells = (size_t)scene->samples * (size_t)scene->classes;
    cst_metrics sum = {.samples = scene->samples};
    for (int32_t t = 0; t < times; t++) {
        const cst_target *target = &scene->targets.list[splits ? t : 0];
        const float *from = splits ? out->predicted[t] : out->probabilities + (size_t)t * cells;
        cst_metrics one;
        cst_status status = cst_metrics_weighted(context, from, target->samples, scene->classes,
                                                 target->labels, target->weights, 0, &one);
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
    CST_TRY(cst_method_fit_run(context, method, &p.source, scene->seed, &fit));
    CST_TRY(predict(context, scene, &p, &fit, out));
    CST_TRY(describe(context, scene, &p, &fit, out));
    CST_TRY(score(context, scene, out));
    cst_method_fit_free(context, &fit);
    release_part(context, &p);
    if (status != CST_OK)
        cst_entry_free(context, out);
    return status;
}

void cst_entry_free(cst_context *context, cst_entry *entry) {
    for (int32_t t = 0; entry->predicted && t < entry->targets; t++)
        cst_free(context, entry->predicted[t]);
    cst_free(context, entry->predicted);
    cst_free(context, entry->weights);
    cst_free(context, entry->uses);
    *entry = (cst_entry){0};
}

/* ---- intervals ---- */

cst_status cst_scene_intervals(cst_context *context, const cst_scene *scene,
                               const cst_entry *entries, int32_t count, int32_t resamples,
                               int32_t reference, cst_metric_intervals *intervals,
                               cst_metric_intervals *differences, bool *done) {
    *done = false;
    if (resamples <= 0 || scene->conditions > 0 || scene->targets.scored > 1)
        return CST_OK;
    const float **all = cst_alloc(context, (size_t)count, sizeof *all);
    if (!all)
        return CST_ERROR_MEMORY;
    for (int32_t m = 0; m < count; m++)
        all[m] = entries[m].probabilities;
    cst_bootstrap_input input = {.probabilities = all,
                                 .methods = count,
                                 .rows = scene->samples,
                                 .classes = scene->classes,
                                 .labels = scene->labels,
                                 .weights = scene->weights,
                                 .resamples = resamples,
                                 .seed = scene->seed,
                                 .scores = CST_BOOTSTRAP_ALL,
                                 .reference = reference < 0 ? 0 : reference};
    cst_status status = cst_bootstrap_weighted(context, &input, intervals, differences);
    for (int32_t m = 1; status == CST_OK && reference < 0 && m < count; m++) {
        cst_metric_intervals pair[2];
        const float *two[2] = {entries[m].probabilities, entries[m - 1].probabilities};
        input.probabilities = two;
        input.methods = 2;
        input.reference = 1;
        status = cst_bootstrap_weighted(context, &input, NULL, pair);
        differences[m] = pair[0];
    }
    cst_free(context, all);
    *done = status == CST_OK;
    return status;
}
