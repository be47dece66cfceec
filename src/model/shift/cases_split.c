/*
 * The cases of a split that a stack was fitted on, measured in folds. After the fit of a
 * segmentation. model/shift/cases.h.
 */
#include "model/shift/cases.h"

#include <stdlib.h>

enum { FOLDS = 5, CASES_MOST = 4096 };

/* ---- measuring ---- */

typedef struct measure_job {
    const cst_novelty *novelty;
    const cst_view *view;
    const cst_cases *cases;
    int64_t count; /* of the cases, evenly spaced */
    double *numbers;
} measure_job;

static int64_t case_of(const measure_job *job, int64_t task) {
    return job->cases->count / job->count * task +
           job->cases->count % job->count * task / job->count;
}

static cst_status measure_case(cst_context *worker, void *user, int64_t task) {
    const measure_job *job = user;
    int64_t first = job->cases->first[case_of(job, task)];
    int64_t end = job->cases->first[case_of(job, task) + 1];
    return cst_case_measure(worker, job->novelty, job->view, first, end - first,
                            job->numbers + task * cst_case_numbers(job->novelty));
}

/* *out: [job->count][numbers], the caller's. */
static cst_status measure(cst_context *context, measure_job *job, double **out) {
    size_t cells = 0;
    *out = NULL;
    if (cst_size_mul((size_t)job->count, (size_t)cst_case_numbers(job->novelty), &cells))
        *out = cst_alloc(context, cells, sizeof **out);
    job->numbers = *out;
    return *out ? cst_parallel_for(context, job->count, measure_case, job) : CST_ERROR_MEMORY;
}

/* ---- the reference ---- */

static int ascending(const void *a, const void *b) {
    int64_t first = *(const int64_t *)a;
    int64_t second = *(const int64_t *)b;
    return (first > second) - (first < second);
}

/* The cases' own folds; else blocks of cases in their order, or of groups in theirs. */
static cst_status make_folds(cst_context *context, const measure_job *job, int32_t *folds,
                             int32_t *fold_count) {
    const cst_cases *cases = job->cases;
    int64_t *group = cst_alloc(context, (size_t)job->count, sizeof *group);
    if (!group)
        return CST_ERROR_MEMORY;
    int64_t different = 0;
    for (int64_t i = 0; i < job->count; i++)
        group[i] = cases->groups ? cases->groups[case_of(job, i)] : i;
    qsort(group, (size_t)job->count, sizeof *group, ascending);
    for (int64_t i = 0; i < job->count; i++)
        if (i == 0 || group[i] != group[different - 1])
            group[different++] = group[i];
    int64_t most = different < FOLDS ? different : FOLDS;
    *fold_count = (int32_t)most;
    for (int64_t i = 0; i < job->count; i++) {
        int64_t n = case_of(job, i);
        int64_t own = cases->groups ? cases->groups[n] : i;
        const int64_t *at = bsearch(&own, group, (size_t)different, sizeof *group, ascending);
        folds[i] = (int32_t)((at - group) * most / different);
        if (cases->folds) {
            folds[i] = cases->folds[n];
            *fold_count = folds[i] + 1 > *fold_count ? folds[i] + 1 : *fold_count;
        }
    }
    cst_free(context, group);
    return CST_OK;
}

cst_status cst_cases_reference(cst_context *context, const cst_novelty *novelty,
                               const cst_view *kept, const cst_cases *cases,
                               cst_novelty_cases **out) {
    double *numbers = NULL;
    int32_t *folds = NULL;
    int32_t fold_count = 0;
    *out = NULL;
    if (cases->count < CST_CASES_MIN)
        return CST_OK;
    measure_job job = {.novelty = novelty,
                       .view = kept,
                       .cases = cases,
                       .count = cases->count < CASES_MOST ? cases->count : CASES_MOST};
    cst_status status = measure(context, &job, &numbers);
    if (status == CST_OK && !(folds = cst_alloc(context, (size_t)job.count, sizeof *folds)))
        status = CST_ERROR_MEMORY;
    CST_THEN(make_folds(context, &job, folds, &fold_count));
    CST_THEN(cst_novelty_cases_fit(context, novelty, numbers, (int32_t)job.count, folds, fold_count,
                                   out));
    cst_free(context, numbers);
    cst_free(context, folds);
    return status;
}
