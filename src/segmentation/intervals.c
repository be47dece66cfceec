/*
 * Bootstrap over cases. After scoring. method.md section 8.
 */
#include "segmentation/intervals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct field {
    const char *name;
    size_t at;
} FIELDS[CST_MAP_SCORES] = {
    {"miou", offsetof(cst_segmentation_scores, miou)},
    {"pixel_accuracy", offsetof(cst_segmentation_scores, pixel_accuracy)},
    {"mean_accuracy", offsetof(cst_segmentation_scores, mean_accuracy)},
    {"dice", offsetof(cst_segmentation_scores, dice)},
    {"fwiou", offsetof(cst_segmentation_scores, fwiou)},
    {"boundary_error", offsetof(cst_segmentation_scores, boundary_error)},
    {"boundary_iou", offsetof(cst_segmentation_scores, boundary_iou)},
    {"ece", offsetof(cst_segmentation_scores, ece)},
    {"nll", offsetof(cst_segmentation_scores, nll)},
    {"brier", offsetof(cst_segmentation_scores, brier)},
};

const char *cst_map_score_name(int field) {
    return FIELDS[field].name;
}

double cst_map_score_value(const cst_segmentation_scores *scores, int field) {
    double value = 0;
    memcpy(&value, (const char *)scores + FIELDS[field].at, sizeof value);
    return value;
}

typedef struct bootstrap {
    const cst_map_scores *const *methods;
    int32_t count;
    int32_t resamples;
    uint64_t seed;
    double *values; /* [count][CST_MAP_SCORES][resamples] */
} bootstrap;

/* The scores of every method on one resample of the cases. */
static cst_status draw_resample(cst_context *worker, void *user, int64_t task) {
    const bootstrap *b = user;
    int64_t cases = b->methods[0]->cases;
    size_t width = b->methods[0]->width;
    double *times = cst_alloc(worker, (size_t)cases, sizeof *times);
    double *sum = cst_alloc(worker, width, sizeof *sum);
    cst_rng rng;
    if (!times || !sum) {
        cst_free(worker, times);
        cst_free(worker, sum);
        return CST_ERROR_MEMORY;
    }
    cst_rng_init(&rng, b->seed, CST_STREAM_BOOTSTRAP, (uint32_t)task);
    for (int64_t n = 0; n < cases; n++)
        times[((uint64_t)cst_rng_u32(&rng) * (uint64_t)cases) >> 32] += 1;
    for (int32_t m = 0; m < b->count; m++) {
        cst_segmentation_scores scores;
        memset(sum, 0, width * sizeof *sum);
        for (int64_t n = 0; n < cases; n++)
            for (size_t i = 0; times[n] > 0 && i < width; i++)
                sum[i] += times[n] * b->methods[m]->tallies[(size_t)n * width + i];
        cst_tally_scores(sum, b->methods[m]->classes, b->methods[m]->probabilities, &scores);
        for (int f = 0; f < CST_MAP_SCORES; f++)
            b->values[((size_t)m * CST_MAP_SCORES + (size_t)f) * (size_t)b->resamples +
                      (size_t)task] = cst_map_score_value(&scores, f);
    }
    cst_free(worker, times);
    cst_free(worker, sum);
    return CST_OK;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Percentiles 2.5 and 97.5, linear between order statistics, of the values that exist. */
static cst_interval interval_of(double value, double *values, int32_t count) {
    int32_t n = 0;
    for (int32_t r = 0; r < count; r++)
        if (!isnan(values[r]))
            values[n++] = values[r];
    cst_interval out = {value, NAN, NAN};
    if (n == 0)
        return out;
    qsort(values, (size_t)n, sizeof *values, ascending);
    double *ends[] = {&out.low, &out.high};
    for (int e = 0; e < 2; e++) {
        double at = (e == 0 ? 0.025 : 0.975) * (n - 1);
        int32_t below = (int32_t)at;
        int32_t above = below + 1 < n ? below + 1 : below;
        *ends[e] = values[below] + (at - below) * (values[above] - values[below]);
    }
    return out;
}

/* Twice the smaller share of differences at or beyond 0 on either side. */
static double p_value(const double *differences, int32_t count) {
    int32_t low = 0;
    int32_t high = 0;
    int32_t n = 0;
    for (int32_t r = 0; r < count; r++) {
        n += !isnan(differences[r]);
        low += differences[r] <= 0;
        high += differences[r] >= 0;
    }
    if (n == 0)
        return NAN;
    double share = 2.0 * (low < high ? low : high) / n;
    return fmin(1, fmax(share, 2.0 / n));
}

/* Intervals of score `task` of every method. */
typedef struct summary {
    const bootstrap *b;
    const cst_segmentation_scores *scores; /* [count] */
    int32_t reference;
    cst_map_intervals *out;
} summary;

static cst_status summarise(cst_context *worker, void *user, int64_t task) {
    const summary *s = user;
    const bootstrap *b = s->b;
    size_t resamples = (size_t)b->resamples;
    double *part = cst_alloc(worker, resamples, sizeof *part);
    if (!part)
        return CST_ERROR_MEMORY;
    const double *base =
        b->values + ((size_t)s->reference * CST_MAP_SCORES + (size_t)task) * resamples;
    double base_value = cst_map_score_value(&s->scores[s->reference], (int)task);
    for (int32_t m = 0; m < b->count; m++) {
        const double *own = b->values + ((size_t)m * CST_MAP_SCORES + (size_t)task) * resamples;
        double value = cst_map_score_value(&s->scores[m], (int)task);
        memcpy(part, own, resamples * sizeof *part);
        s->out[m].score[task] = interval_of(value, part, b->resamples);
        for (size_t r = 0; r < resamples; r++)
            part[r] = own[r] - base[r];
        s->out[m].p[task] = m == s->reference ? NAN : p_value(part, b->resamples);
        s->out[m].difference[task] = interval_of(value - base_value, part, b->resamples);
    }
    cst_free(worker, part);
    return CST_OK;
}

cst_status cst_map_intervals_make(cst_context *context, const cst_map_scores *const *methods,
                                  int32_t count, int32_t resamples, uint64_t seed,
                                  int32_t reference, cst_map_intervals *out) {
    bootstrap b = {.methods = methods, .count = count, .resamples = resamples, .seed = seed};
    b.values =
        cst_alloc(context, (size_t)count * CST_MAP_SCORES, (size_t)resamples * sizeof *b.values);
    cst_segmentation_scores *scores = cst_alloc(context, (size_t)count, sizeof *scores);
    cst_status status = b.values && scores ? cst_stage(context, "intervals") : CST_ERROR_MEMORY;
    CST_TRY(cst_parallel_for(context, resamples, draw_resample, &b));
    for (int32_t m = 0; status == CST_OK && m < count; m++)
        cst_tally_scores(methods[m]->total, methods[m]->classes, methods[m]->probabilities,
                         &scores[m]);
    summary s = {&b, scores, reference, out};
    CST_TRY(cst_parallel_for(context, CST_MAP_SCORES, summarise, &s));
    cst_free(context, scores);
    cst_free(context, b.values);
    return status;
}
