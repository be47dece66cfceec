/*
 * Cases compared with the cases of a fit: distances of what is measured of them, whose logarithms
 * are close to normally distributed. model/shift/cases.h.
 */
#include "model/shift/cases.h"

#include "model/shift/parts.h"

#include "stats/statistics.h"
#include <math.h>
#include <stdlib.h>

static const double SPREAD_FLOOR = 1e-4;   /* added to J before its logarithm is taken */
static const double SHARE_FLOOR = 5e-3;    /* added to the share of a class */
static const double SCALE_FLOOR = 5e-2;    /* added to a standard deviation */
static const double SPREAD_MIN = 1e-6;     /* of logarithms of distances */
static const double DISTANCE_FLOOR = 1e-9; /* of squared distances */

int32_t cst_case_part_size(const cst_novelty *novelty, int part) {
    return part == 0 ? 1 + novelty->size : novelty->classes;
}

int32_t cst_case_numbers(const cst_novelty *novelty) {
    return cst_case_part_size(novelty, 0) + cst_case_part_size(novelty, 1);
}

/* ---- one case ---- */

/* One of each of as many equal parts, at random: a fixed step could follow the columns of an image.
 */
static int64_t choose_pixels(int64_t first, int64_t rows, int64_t *chosen) {
    int64_t count = rows < CST_CASE_PIXELS ? rows : CST_CASE_PIXELS;
    cst_rng rng;
    cst_rng_init(&rng, 0, CST_STREAM_NOVELTY, 1);
    for (int64_t i = 0; i < count; i++) {
        int64_t from = rows / count * i + rows % count * i / count;
        int64_t to = rows / count * (i + 1) + rows % count * (i + 1) / count;
        chosen[i] = first + from + (to - from > 1 ? cst_rng_below(&rng, to - from) : 0);
    }
    return count;
}

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
    cst_novelty_rows measured = {0};
    cst_view view = *kept;
    view.rows = choose_pixels(first, rows, index);
    view.index = index;
    cst_status status = cst_novelty_rows_alloc(worker, view.rows, novelty->size, &measured);
    CST_THEN(
        cst_novelty_measure(worker, &view, novelty->place, novelty->size, 0, view.rows, &measured));
    if (status == CST_OK)
        sum_up(novelty, &measured, view.rows, out);
    cst_novelty_rows_free(worker, &measured);
    return status;
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
static cst_status fit_part(cst_context *context, const double *numbers, int32_t width,
                           int32_t cases, const int32_t *folds, int32_t fold_count,
                           cst_case_part *part) {
    double *distance = cst_alloc(context, (size_t)cases, sizeof *distance);
    part->mean = cst_alloc(context, (size_t)part->size, sizeof *part->mean);
    part->scale = cst_alloc(context, (size_t)part->size, sizeof *part->scale);
    cst_status status = distance && part->mean && part->scale ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t fold = 0; status == CST_OK && fold < fold_count; fold++) {
        moments(numbers, width, cases, folds, fold, part);
        for (int32_t n = 0; n < cases; n++)
            if (folds[n] == fold)
                distance[n] = distance_of(part, numbers + (size_t)n * (size_t)width);
    }
    if (status == CST_OK) {
        describe(distance, cases, part);
        moments(numbers, width, cases, folds, -1, part);
    }
    cst_free(context, distance);
    return status;
}

cst_status cst_novelty_cases_fit(cst_context *context, const cst_novelty *novelty,
                                 const double *numbers, int32_t cases, const int32_t *folds,
                                 int32_t fold_count, cst_novelty_cases **out) {
    *out = NULL;
    int32_t width = cst_case_numbers(novelty);
    for (size_t i = 0; i < (size_t)cases * (size_t)width; i++)
        if (!isfinite(numbers[i]))
            return CST_OK;
    if (cases < CST_CASES_MIN || fold_count < 2)
        return CST_OK;
    cst_novelty_cases *made = cst_alloc(context, 1, sizeof *made);
    if (!made)
        return CST_ERROR_MEMORY;
    *made = (cst_novelty_cases){.cases = cases};
    cst_status status = CST_OK;
    bool varies = true;
    for (int p = 0; status == CST_OK && p < CST_CASE_PARTS; p++) {
        made->part[p].size = cst_case_part_size(novelty, p);
        status = fit_part(context, numbers + (p == 0 ? 0 : cst_case_part_size(novelty, 0)), width,
                          cases, folds, fold_count, &made->part[p]);
        varies = varies && made->part[p].spread > SPREAD_MIN;
    }
    if (status == CST_OK && varies) {
        *out = made;
        made = NULL;
    }
    cst_novelty_cases_free(context, made);
    return status;
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

void cst_novelty_cases_free(cst_context *context, cst_novelty_cases *reference) {
    if (!reference)
        return;
    for (int p = 0; p < CST_CASE_PARTS; p++) {
        cst_free(context, reference->part[p].mean);
        cst_free(context, reference->part[p].scale);
    }
    cst_free(context, reference);
}
