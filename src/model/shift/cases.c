/* Cases compared with the cases of a fit: distances of their measures, whose logarithms are close
 * to normally distributed. */
#include "model/shift/cases.h"

#include "data/pool/spatial.h"
#include "model/shift/parts.h"
#include "stats/statistics.h"

#include <math.h>
#include <stdlib.h>

enum { FOLDS = 5, CASES_MOST = 4096 };

static const double SPREAD_FLOOR = 1e-4;   /* added to J before its logarithm is taken */
static const double SHARE_FLOOR = 5e-3;    /* added to the share of a class */
static const double SCALE_FLOOR = 5e-2;    /* added to a standard deviation */
static const double SPREAD_MIN = 1e-6;     /* of logarithms of distances */
static const double DISTANCE_FLOOR = 1e-9; /* of squared distances */

int32_t cst_case_numbers(const cst_novelty *novelty) {
    return cst_case_part_size(novelty, 0) + cst_case_part_size(novelty, 1);
}

/* ---- one case ---- */

/* The numbers of a case from what was measured of its pixels. */
static void sum_up(const cst_novelty *novelty, const cst_novelty_rows *rows, int64_t count,
                   double *out) {
    double *logs = out + 1;
    double *share = logs + novelty->size;
    uint32_t there = UINT32_MAX;
    int64_t known = 0;
    memset(out, 0, (size_t)cst_case_numbers(novelty) * sizeof *out);
    for (int64_t i = 0; i < count; i++) {
        there &= rows->there[i];
        if (rows->class[i] < 0)
            continue;
        known++;
        out[0] += (double)rows->spread[i];
        share[rows->class[i]]++;
        for (int32_t j = 0; j < novelty->size; j++)
            logs[j] += (double)rows->logs[i * novelty->size + j];
    }
    double each = known > 0 ? 1 / (double)known : NAN;
    there &= UINT32_MAX >> (CST_NOVELTY_MEMBERS_MAX - novelty->size);
    bool alone = novelty->size > 1 && (there & (there - 1)) == 0; /* one member, or none */
    out[0] = alone ? NAN : log(out[0] * each + SPREAD_FLOOR);
    for (int32_t j = 0; j < novelty->size; j++)
        logs[j] = there >> j & 1 ? logs[j] * each : NAN;
    for (int32_t c = 0; c < novelty->classes; c++)
        share[c] = log(share[c] * each + SHARE_FLOOR);
}

cst_status cst_case_measure(cst_context *worker, const cst_novelty *novelty, const cst_view *kept,
                            int64_t first, int64_t rows, double *out) {
    int64_t index[CST_CASE_PIXELS];
    cst_view view = *kept;
    view.rows = rows < CST_CASE_PIXELS ? rows : CST_CASE_PIXELS;
    view.index = index;
    cst_choose_rows(rows, view.rows, 1, index);
    for (int64_t i = 0; i < view.rows; i++)
        index[i] += first;
    CST_SCOPE(scope);
    cst_novelty_rows measured;
    CST_TRY(cst_novelty_rows_take(worker, scope, view.rows, novelty->size, &measured));
    CST_TRY(
        cst_novelty_measure(worker, &view, novelty->place, novelty->size, 0, view.rows, &measured));
    sum_up(novelty, &measured, view.rows, out);
    return CST_OK;
}

/* ---- the reference ---- */

/* Logarithm of the mean squared distance in units of the scales, over what is known; NaN where
 * nothing is. */
static double distance_of(const cst_case_part *part, const double *numbers) {
    double sum = 0;
    int32_t known = 0;
    for (int32_t j = 0; j < part->size; j++) {
        double z = (numbers[j] - part->mean[j]) / part->scale[j];
        if (isnan(z))
            continue;
        sum += z * z;
        known++;
    }
    return known > 0 ? log(sum / known + DISTANCE_FLOOR) / 2 : NAN;
}

/* Means and scales of the cases outside `fold`; of all for fold -1. numbers: of the first case. */
static void moments(const double *numbers, int32_t width, int32_t cases, const int32_t *folds,
                    int32_t fold, cst_case_part *part) {
    for (int32_t j = 0; j < part->size; j++) {
        double sum = 0;
        double squares = 0;
        int32_t count = 0;
        for (int32_t n = 0; n < cases; n++) {
            sum += folds[n] == fold ? 0 : numbers[(size_t)n * (size_t)width + (size_t)j];
            count += folds[n] != fold;
        }
        double mean = count > 0 ? sum / count : 0;
        for (int32_t n = 0; n < cases; n++) {
            double gap = numbers[(size_t)n * (size_t)width + (size_t)j] - mean;
            squares += folds[n] == fold ? 0 : gap * gap;
        }
        part->mean[j] = mean;
        part->scale[j] = sqrt(squares / (count > 1 ? count - 1 : 1)) + SCALE_FLOOR;
    }
}

static int descending(const void *a, const void *b) {
    double first = *(const double *)a;
    double second = *(const double *)b;
    return (first < second) - (first > second);
}

/* The distribution of the distances [cases], which are sorted. */
static void describe(double *distance, int32_t cases, cst_case_part *part) {
    double sum = 0;
    double squares = 0;
    qsort(distance, (size_t)cases, sizeof *distance, descending);
    for (int32_t n = 0; n < cases; n++)
        sum += distance[n];
    part->center = sum / cases;
    for (int32_t n = 0; n < cases; n++)
        squares += (distance[n] - part->center) * (distance[n] - part->center);
    part->spread = sqrt(squares / (cases - 1));
    part->limit = distance[(cases + 99) / 100 - 1];
}

/* numbers: of this part, of the first case. */
static cst_status fit_part(cst_context *context, cst_scope *made, const double *numbers,
                           int32_t width, int32_t cases, const int32_t *folds, int32_t fold_count,
                           cst_case_part *part) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, distance, cases);
    CST_TAKE(context, made, part->mean, part->size);
    CST_TAKE(context, made, part->scale, part->size);
    for (int32_t fold = 0; fold < fold_count; fold++) {
        moments(numbers, width, cases, folds, fold, part);
        for (int32_t n = 0; n < cases; n++)
            if (folds[n] == fold)
                distance[n] = distance_of(part, numbers + (size_t)n * (size_t)width);
    }
    describe(distance, cases, part);
    moments(numbers, width, cases, folds, -1, part);
    return CST_OK;
}

cst_status cst_novelty_cases_fit(cst_context *context, cst_scope *scope, const cst_novelty *novelty,
                                 const double *numbers, int32_t cases, const int32_t *folds,
                                 int32_t fold_count, cst_novelty_cases **out) {
    *out = NULL;
    int32_t width = cst_case_numbers(novelty);
    for (size_t i = 0; i < (size_t)cases * (size_t)width; i++)
        if (!isfinite(numbers[i]))
            return CST_OK;
    if (cases < CST_CASES_MIN || fold_count < 2)
        return CST_OK;
    CST_NEW(context, scope, cst_novelty_cases, made, 1);
    made->cases = cases;
    bool varies = true;
    for (int p = 0; p < CST_CASE_PARTS; p++) {
        cst_case_part *part = &made->part[p];
        part->size = cst_case_part_size(novelty, p);
        CST_TRY(fit_part(context, scope, numbers, width, cases, folds, fold_count, part));
        varies = varies && part->spread > SPREAD_MIN;
        numbers += part->size;
    }
    *out = varies ? made : NULL;
    return CST_OK;
}

/* ---- the test ---- */

static double part_level(const cst_novelty_cases *reference, const cst_case_part *part,
                         const double *numbers) {
    double distance = distance_of(part, numbers);
    double cases = reference->cases;
    if (isnan(distance) || distance <= part->limit)
        return 1;
    double t = (distance - part->center) / (part->spread * sqrt(1 + 1 / cases));
    double tail = cst_student_t_two_sided(t, cases - 1) / 2;
    return t > 0 ? tail : 1 - tail;
}

double cst_case_level(const cst_novelty_cases *reference, const double *numbers) {
    double least = 1;
    for (int p = 0; p < CST_CASE_PARTS; p++) {
        const cst_case_part *part = &reference->part[p];
        double level = CST_CASE_PARTS * part_level(reference, part, numbers);
        least = level < least ? level : least;
        numbers += part->size;
    }
    return least;
}

void cst_cases_lambda(const double *level, int64_t cases, double *lambda) {
    int64_t far = 0;
    for (int64_t n = 0; n < cases; n++) {
        double own = 1 - level[n] / CST_CASE_ALARMS;
        lambda[n] = own > 0 ? CST_CASE_LAMBDA_MAX * own : 0;
        far += level[n] < 1;
    }
    double share = cases > 0 ? (double)far / (double)cases : 0;
    if (cases < CST_CASES_TOGETHER || share < CST_CASES_UNLIKE)
        return;
    for (int64_t n = 0; n < cases; n++)
        lambda[n] = CST_CASE_LAMBDA_MAX * (level[n] < 1 ? 1 : share);
}

/* ---- the cases of a split ---- */

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

/* The cases' own folds; else blocks of cases in their order, or of groups in theirs. */
static cst_status make_folds(cst_context *context, const measure_job *job, int32_t *folds,
                             int32_t *fold_count) {
    const cst_cases *cases = job->cases;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, group, job->count);
    int64_t different = 0;
    for (int64_t i = 0; i < job->count; i++)
        group[i] = cases->groups ? cases->groups[case_of(job, i)] : i;
    qsort(group, (size_t)job->count, sizeof *group, cst_by_i64);
    for (int64_t i = 0; i < job->count; i++)
        if (i == 0 || group[i] != group[different - 1])
            group[different++] = group[i];
    int64_t most = different < FOLDS ? different : FOLDS;
    *fold_count = (int32_t)most;
    for (int64_t i = 0; i < job->count; i++) {
        int64_t n = case_of(job, i);
        int64_t own = cases->groups ? cases->groups[n] : i;
        const int64_t *at = bsearch(&own, group, (size_t)different, sizeof *group, cst_by_i64);
        folds[i] = (int32_t)((at - group) * most / different);
        if (cases->folds) {
            folds[i] = cases->folds[n];
            *fold_count = folds[i] + 1 > *fold_count ? folds[i] + 1 : *fold_count;
        }
    }
    return CST_OK;
}

cst_status cst_cases_reference(cst_context *context, cst_scope *made, const cst_novelty *novelty,
                               const cst_view *kept, const cst_cases *cases,
                               cst_novelty_cases **out) {
    int32_t fold_count = 0;
    *out = NULL;
    if (cases->count < CST_CASES_MIN)
        return CST_OK;
    measure_job job = {.novelty = novelty,
                       .view = kept,
                       .cases = cases,
                       .count = cases->count < CASES_MOST ? cases->count : CASES_MOST};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, job.numbers, job.count * cst_case_numbers(novelty));
    CST_NEW(context, scope, int32_t, folds, job.count);
    CST_TRY(cst_parallel_for(context, job.count, measure_case, &job));
    CST_TRY(make_folds(context, &job, folds, &fold_count));
    return cst_novelty_cases_fit(context, made, novelty, job.numbers, (int32_t)job.count, folds,
                                 fold_count, out);
}
