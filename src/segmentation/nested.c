/*
 * One fit for each fold of cases. Under every out-of-fold score of a segmentation. method.md
 * section 6.
 */
#include "segmentation/nested.h"

#include "segmentation/decide.h"

#include <string.h>

cst_status cst_predict_by_method(cst_context *context, const void *fit, const cst_view *view,
                                 float *out) {
    return cst_method_fit_predict(context, fit, view, out);
}

bool cst_method_takes_balance(const cst_method *method) {
    return method->preset && method->settings.learners == 1U << CST_LEARNER_LOGLINEAR &&
           method->calibrator == CST_CALIBRATOR_NONE;
}

cst_status cst_method_prior_correct(cst_context *context, const cst_pixel_sample *sample,
                                    const cst_segment_settings *settings, cst_method_fit *fit) {
    return cst_method_takes_balance(&fit->method)
               ? cst_prior_correct(context, sample, settings, fit->stages.fit.model)
               : CST_OK;
}

typedef struct fold_job {
    const cst_method *method;
    const cst_training *source;
    const cst_pixel_sample *sample;
    const cst_segment_settings *settings;
    cst_fold_fits *out;
} fold_job;

static cst_status fit_fold(cst_context *worker, void *user, int64_t task) {
    const fold_job *job = user;
    cst_method_fit *fit = &job->out->fits[task];
    cst_status status = cst_method_fit_without(worker, job->method, job->source, (int32_t)task,
                                               job->settings->seed, fit);
    if (status == CST_OK)
        status = cst_method_prefer_miou(worker, job->source, (int32_t)task, fit);
    return status == CST_OK ? cst_method_prior_correct(worker, job->sample, job->settings, fit)
                            : status;
}

/* The fold of each case, from its sampled pixels; a case without any has nothing that was fitted on
 * and takes the first. */
static void place_cases(const cst_training *source, const cst_pixel_sample *sample,
                        const cst_cases *cases, int32_t *fit_of) {
    int64_t at = 0;
    for (int64_t i = 0; i < sample->rows; i++) {
        while (sample->index[i] >= cases->first[at + 1])
            at++;
        fit_of[at] = source->folds[i];
    }
}

cst_status cst_fold_fits_make(cst_context *context, const cst_method *method,
                              const cst_training *source, const cst_pixel_sample *sample,
                              const cst_segment_settings *settings, const cst_cases *cases,
                              cst_fold_fits *out) {
    cst_training shared = *source;
    cst_compact *table = NULL;
    size_t folds = (size_t)source->fold_count;
    *out = (cst_fold_fits){.count = source->fold_count};
    out->fits = cst_alloc(context, folds, sizeof *out->fits);
    out->places = cst_alloc(context, folds, sizeof *out->places);
    out->fit_of = cst_alloc(context, (size_t)cases->count, sizeof *out->fit_of);
    cst_status status = out->fits && out->places && out->fit_of ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK && !method->baseline)
        status = cst_stages_table(context, &source->view, source->folds, source->fold_count,
                                  &method->settings, &table);
    shared.view.compact = table ? table : source->view.compact;
    fold_job job = {method, &shared, sample, settings, out};
    if (status == CST_OK)
        status = cst_parallel_for(context, out->count, fit_fold, &job);
    cst_logtable_unshare(context, table);
    for (size_t f = 0; status == CST_OK && f < folds; f++)
        out->places[f] = &out->fits[f];
    if (status == CST_OK)
        place_cases(source, sample, cases, out->fit_of);
    return status;
}

void cst_fold_fits_free(cst_context *context, cst_fold_fits *fits) {
    for (int32_t f = 0; fits->fits && f < fits->count; f++)
        cst_method_fit_free(context, &fits->fits[f]);
    cst_free(context, fits->fits);
    cst_free(context, fits->places);
    cst_free(context, fits->fit_of);
    *fits = (cst_fold_fits){0};
}

/* Probabilities [rows][classes] of the sampled pixels by the fits without their fold. */
static cst_status predict_sample(cst_context *context, const cst_fold_fits *fits,
                                 const cst_training *source, float *out) {
    size_t rows = (size_t)source->view.rows;
    size_t classes = (size_t)source->view.classes;
    int64_t *index = cst_alloc(context, rows, sizeof *index);
    float *part = cst_alloc(context, rows, classes * sizeof *part);
    cst_status status = index && part ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t f = 0; status == CST_OK && f < fits->count; f++) {
        cst_view inside;
        cst_view held;
        const float *from = part;
        cst_view_split(&source->view, source->folds, f, index, &inside, &held);
        status = cst_method_fit_predict(context, &fits->fits[f], &held, part);
        for (size_t i = 0; status == CST_OK && i < rows; i++) {
            if (source->folds[i] != f)
                continue;
            memcpy(out + i * classes, from, classes * sizeof *from);
            from += classes;
        }
    }
    cst_free(context, part);
    cst_free(context, index);
    return status;
}

/* The rows that are not in fold `fold` (-1: all), put together. Returns their number. */
static int64_t take_rows(const cst_training *source, const float *held, int32_t fold, float *rows,
                         int32_t *labels) {
    size_t classes = (size_t)source->view.classes;
    int64_t count = 0;
    for (int64_t i = 0; i < source->view.rows; i++) {
        if (source->folds[i] == fold)
            continue;
        memcpy(rows + (size_t)count * classes, held + (size_t)i * classes, classes * sizeof *rows);
        labels[count++] = source->view.labels[i];
    }
    return count;
}

cst_status cst_fold_offsets(cst_context *context, const cst_fold_fits *fits,
                            const cst_training *source, const cst_pixel_sample *sample,
                            double **out) {
    size_t rows = (size_t)source->view.rows;
    size_t classes = (size_t)source->view.classes;
    float *held = cst_alloc(context, rows, classes * sizeof *held);
    float *part = cst_alloc(context, rows, classes * sizeof *part);
    int32_t *labels = cst_alloc(context, rows, sizeof *labels);
    double *offsets = cst_alloc(context, (size_t)fits->count + 1, classes * sizeof *offsets);
    cst_status status = held && part && labels && offsets
                            ? predict_sample(context, fits, source, held)
                            : CST_ERROR_MEMORY;
    for (int32_t fold = 0; status == CST_OK && fold <= fits->count; fold++) {
        int64_t count = take_rows(source, held, fold < fits->count ? fold : -1, part, labels);
        status = cst_offsets_choose(context, part, labels, count, (int32_t)classes, sample->prior,
                                    sample->share, offsets + (size_t)fold * classes);
    }
    cst_free(context, held);
    cst_free(context, part);
    cst_free(context, labels);
    if (status != CST_OK) {
        cst_free(context, offsets);
        offsets = NULL;
    }
    *out = offsets;
    return status;
}
