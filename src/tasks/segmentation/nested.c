/*
 * One fit for each fold of cases. Under every out-of-fold score of a segmentation.
 * docs/method.md#what-is-reported-as-out-of-fold.
 */
#include "tasks/segmentation/nested.h"

#include "fit/nested.h"

#include <stdlib.h>

cst_status cst_predict_by_method(cst_context *context, const void *fit, const cst_view *view,
                                 float *out) {
    return cst_method_fit_predict(context, fit, view, out);
}

bool cst_method_takes_balance(const cst_method *method) {
    return method->preset && method->settings.learners == CST_META_LOGLINEAR &&
           method->calibrator == CST_CALIBRATOR_NONE;
}

cst_status cst_method_prior_correct(cst_context *context, const double *prior, const double *share,
                                    const cst_segment_settings *settings, cst_method_fit *fit) {
    return cst_method_takes_balance(&fit->method)
               ? cst_prior_correct(context, prior, share, settings, fit->stages.fit.model)
               : CST_OK;
}

/* ---- where a case belongs ---- */

/* A group and the fold that its sampled pixels are in. */
typedef struct group_fold {
    int64_t group;
    int32_t fold;
} group_fold;

static int by_group(const void *a, const void *b) {
    int64_t first = ((const group_fold *)a)->group;
    int64_t second = ((const group_fold *)b)->group;
    return (first > second) - (first < second);
}

/* Cases without a sampled pixel take the fold of their group, where that has any. */
static cst_status place_by_group(cst_context *context, const cst_cases *cases, int32_t *fit_of) {
    group_fold *known = cst_alloc(context, (size_t)cases->count, sizeof *known);
    size_t count = 0;
    if (!known)
        return CST_ERROR_MEMORY;
    for (int64_t n = 0; n < cases->count; n++)
        if (fit_of[n] >= 0)
            known[count++] = (group_fold){cases->groups[n], fit_of[n]};
    if (count > 0)
        qsort(known, count, sizeof *known, by_group);
    for (int64_t n = 0; count > 0 && n < cases->count; n++) {
        group_fold wanted = {.group = cases->groups[n]};
        const group_fold *found =
            fit_of[n] < 0 ? bsearch(&wanted, known, count, sizeof *known, by_group) : NULL;
        fit_of[n] = found ? found->fold : fit_of[n];
    }
    cst_free(context, known);
    return CST_OK;
}

/* The fold of each case: the pool's, else that of its sampled pixels, else that of its group. Of
 * any other case nothing was fitted on, so that every fit is one without it. */
static cst_status place_cases(cst_context *context, const cst_nesting *nesting, int32_t *fit_of) {
    const cst_cases *cases = nesting->cases;
    const cst_training *source = nesting->source;
    cst_status status = CST_OK;
    for (int64_t n = 0; n < cases->count; n++)
        fit_of[n] = cases->folds && cases->folds[n] < source->fold_count ? cases->folds[n] : -1;
    int64_t at = 0;
    for (int64_t i = 0; !cases->folds && i < nesting->sample->rows; i++) {
        while (nesting->sample->index[i] >= cases->first[at + 1])
            at++;
        fit_of[at] = source->folds[i];
    }
    if (!cases->folds && cases->groups)
        status = place_by_group(context, cases, fit_of);
    for (int64_t n = 0; n < cases->count; n++)
        fit_of[n] = fit_of[n] < 0 ? 0 : fit_of[n];
    return status;
}

/* ---- shares of the classes ---- */

/* Pixels of each class by fold, of all that count and of the sampled ones. */
static void count_classes(const cst_nesting *nesting, cst_fold_fits *out) {
    const cst_cases *cases = nesting->cases;
    size_t classes = (size_t)nesting->source->view.classes;
    for (int64_t n = 0; n < cases->count; n++)
        for (int64_t i = cases->first[n]; i < cases->first[n + 1]; i++)
            if (nesting->labels[i] >= 0)
                out->pixels[(size_t)out->fit_of[n] * classes + (size_t)nesting->labels[i]] += 1;
    for (int64_t i = 0; i < nesting->sample->rows; i++)
        out->sampled[(size_t)nesting->source->folds[i] * classes +
                     (size_t)nesting->source->view.labels[i]] += 1;
}

void cst_fold_shares(const cst_fold_fits *fits, int32_t classes, int32_t blocks, int32_t a,
                     int32_t b, double *prior, double *share) {
    double total = 0;
    double rows = 0;
    for (int32_t c = 0; c < classes; c++) {
        prior[c] = 0;
        share[c] = 0;
        for (int32_t f = 0; f < fits->count; f++) {
            if (f % blocks == a || f % blocks == b)
                continue;
            prior[c] += fits->pixels[(size_t)f * (size_t)classes + (size_t)c];
            share[c] += fits->sampled[(size_t)f * (size_t)classes + (size_t)c];
        }
        total += prior[c];
        rows += share[c];
    }
    for (int32_t c = 0; c < classes; c++) {
        prior[c] = total > 0 ? prior[c] / total : 0;
        share[c] = rows > 0 ? share[c] / rows : 0;
    }
}

/* ---- fits ---- */

typedef struct fold_job {
    const cst_nesting *nesting;
    const cst_training *source; /* with the table that all fits share */
    cst_fold_fits *out;
} fold_job;

static cst_status fit_fold(cst_context *worker, void *user, const cst_fold_rows *rows) {
    const fold_job *job = user;
    int32_t fold = rows->fold;
    cst_method_fit *fit = &job->out->fits[fold];
    const cst_segment_settings *settings = job->nesting->settings;
    int32_t classes = job->source->view.classes;
    double *prior = cst_alloc(worker, 2 * (size_t)classes, sizeof *prior);
    if (!prior)
        return CST_ERROR_MEMORY;
    cst_status status =
        cst_method_fit_run(worker, job->nesting->method, &rows->inside, settings->seed, fit);
    CST_THEN(cst_method_prefer_miou(worker, job->source, fold, fit));
    cst_fold_shares(job->out, classes, job->out->count, fold, fold, prior, prior + classes);
    CST_THEN(cst_method_prior_correct(worker, prior, prior + classes, settings, fit));
    cst_free(worker, prior);
    return status;
}

cst_status cst_fold_fits_make(cst_context *context, const cst_nesting *nesting,
                              cst_fold_fits *out) {
    const cst_training *source = nesting->source;
    cst_training shared = *source;
    cst_compact *table = NULL;
    size_t folds = (size_t)source->fold_count;
    size_t classes = (size_t)source->view.classes;
    *out = (cst_fold_fits){.count = source->fold_count};
    out->fits = cst_alloc(context, folds, sizeof *out->fits);
    out->places = cst_alloc(context, folds, sizeof *out->places);
    out->fit_of = cst_alloc(context, (size_t)nesting->cases->count, sizeof *out->fit_of);
    out->pixels = cst_alloc(context, folds, classes * sizeof *out->pixels);
    out->sampled = cst_alloc(context, folds, classes * sizeof *out->sampled);
    bool all = out->fits && out->places && out->fit_of && out->pixels && out->sampled;
    cst_status status = all ? place_cases(context, nesting, out->fit_of) : CST_ERROR_MEMORY;
    if (status == CST_OK)
        count_classes(nesting, out);
    if (status == CST_OK && !nesting->method->baseline)
        status = cst_stages_table(context, &source->view, source->folds, source->fold_count,
                                  &nesting->method->settings, &table);
    cst_compact_attach(&shared.view, table);
    fold_job job = {nesting, &shared, out};
    CST_THEN(cst_nested_run(context, &shared, nesting->settings->seed, fit_fold, &job, NULL, 0));
    cst_logtable_unshare(context, table);
    for (size_t f = 0; status == CST_OK && f < folds; f++)
        out->places[f] = &out->fits[f];
    return status;
}

void cst_fold_fits_free(cst_context *context, cst_fold_fits *fits) {
    for (int32_t f = 0; fits->fits && f < fits->count; f++)
        cst_method_fit_free(context, &fits->fits[f]);
    cst_free(context, fits->fits);
    cst_free(context, fits->places);
    cst_free(context, fits->fit_of);
    cst_free(context, fits->pixels);
    cst_free(context, fits->sampled);
    *fits = (cst_fold_fits){0};
}
