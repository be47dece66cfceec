/*
 * Resamples of images and the percentile intervals of AP, AP50, AP75 and AR100 from them.
 * After the matching; for reports. method.md, section 8.
 */
#include "detection/bootstrap.h"

#include "metrics/resample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIGURES = 4 };

typedef struct job {
    const cst_ap_matches *const *matches;
    int32_t methods;
    int32_t resamples;
    uint64_t seed;
    double *drawn; /* [methods][FIGURES][resamples] */
} job;

static void pick(const cst_detection_scores *scores, double out[FIGURES]) {
    out[0] = scores->ap;
    out[1] = scores->ap50;
    out[2] = scores->ap75;
    out[3] = scores->ar100;
}

static cst_interval *figure(cst_ap_intervals *intervals, int f) {
    cst_interval *all[FIGURES] = {&intervals->ap, &intervals->ap50, &intervals->ap75,
                                  &intervals->ar100};
    return all[f];
}

/* CST_LANES resamples of every method. */
static cst_status draw_task(cst_context *context, void *user, int64_t task) {
    const job *j = user;
    int32_t first = (int32_t)task * CST_LANES;
    int32_t images = j->matches[0]->images;
    cst_resample resample;
    size_t most = 0;
    cst_status status = cst_resample_make(context, images, &resample);
    for (int32_t m = 0; m < j->methods; m++)
        most = cst_ap_scratch(j->matches[m]) > most ? cst_ap_scratch(j->matches[m]) : most;
    int32_t *times = cst_alloc(context, (size_t)images, sizeof *times);
    double *scratch = cst_alloc(context, most, sizeof *scratch);
    if (status == CST_OK && !(times && scratch))
        status = CST_ERROR_MEMORY;
    if (status == CST_OK)
        cst_resample_draw(&resample, j->seed, (uint32_t)first);
    for (int32_t lane = 0; status == CST_OK && lane < CST_LANES; lane++) {
        int32_t r = first + lane;
        if (r >= j->resamples)
            break;
        for (int32_t i = 0; i < images; i++)
            times[i] = resample.count[(size_t)i * CST_LANES + (size_t)lane];
        for (int32_t m = 0; m < j->methods; m++) {
            cst_detection_scores scores;
            double values[FIGURES];
            cst_ap_main_scores(j->matches[m], times, scratch, &scores);
            pick(&scores, values);
            for (int f = 0; f < FIGURES; f++)
                j->drawn[((size_t)m * FIGURES + (size_t)f) * (size_t)j->resamples + (size_t)r] =
                    values[f];
        }
    }
    cst_resample_free(context, &resample);
    cst_free(context, times);
    cst_free(context, scratch);
    return status;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Linear between order statistics, as NumPy's default. values: sorted, count >= 1. */
static double percentile(const double *values, int32_t count, double level) {
    double at = level * (double)(count - 1);
    int32_t below = (int32_t)at;
    if (below >= count - 1)
        return values[count - 1];
    return values[below] + (at - below) * (values[below + 1] - values[below]);
}

/* Of the resamples where the figure is defined (-1 is not); `against` NULL: of the figure itself.
 */
static cst_interval interval(const double *drawn, const double *against, int32_t resamples,
                             double value, double *scratch) {
    int32_t count = 0;
    for (int32_t r = 0; r < resamples; r++)
        if (drawn[r] >= 0 && (!against || against[r] >= 0))
            scratch[count++] = drawn[r] - (against ? against[r] : 0);
    if (count == 0)
        return (cst_interval){value, NAN, NAN};
    qsort(scratch, (size_t)count, sizeof *scratch, ascending);
    return (cst_interval){value, percentile(scratch, count, 0.025),
                          percentile(scratch, count, 0.975)};
}

/* The figures on all images, [methods][FIGURES]. */
static cst_status once(cst_context *context, const job *j, double *out) {
    for (int32_t m = 0; m < j->methods; m++) {
        cst_detection_scores scores;
        double *scratch = cst_alloc(context, cst_ap_scratch(j->matches[m]), sizeof *scratch);
        if (!scratch)
            return CST_ERROR_MEMORY;
        cst_ap_main_scores(j->matches[m], NULL, scratch, &scores);
        pick(&scores, out + (size_t)m * FIGURES);
        cst_free(context, scratch);
    }
    return CST_OK;
}

cst_status cst_ap_bootstrap(cst_context *context, const cst_ap_matches *const *matches,
                            int32_t methods, int32_t reference, int32_t resamples, uint64_t seed,
                            cst_ap_intervals *intervals, cst_ap_intervals *differences) {
    size_t n = (size_t)resamples;
    job j = {.matches = matches, .methods = methods, .resamples = resamples, .seed = seed};
    if (resamples < 1 || matches[0]->images < 1) {
        const cst_interval none = {NAN, NAN, NAN};
        for (int32_t m = 0; m < methods; m++) {
            if (intervals)
                intervals[m] = (cst_ap_intervals){0, none, none, none, none};
            if (differences)
                differences[m] = (cst_ap_intervals){0, none, none, none, none};
        }
        return CST_OK;
    }
    j.drawn = cst_alloc(context, (size_t)methods * FIGURES * n, sizeof *j.drawn);
    double *values = cst_alloc(context, (size_t)methods * FIGURES, sizeof *values);
    double *scratch = cst_alloc(context, n, sizeof *scratch);
    cst_status status =
        j.drawn && values && scratch ? cst_stage(context, "intervals") : CST_ERROR_MEMORY;
    CST_TRY(once(context, &j, values));
    CST_TRY(cst_parallel_for(context, (resamples + CST_LANES - 1) / CST_LANES, draw_task, &j));
    for (int32_t m = 0; status == CST_OK && m < methods; m++)
        for (size_t f = 0; f < FIGURES; f++) {
            size_t at = (size_t)m * FIGURES + f;
            size_t other = (size_t)reference * FIGURES + f;
            if (intervals) {
                intervals[m].resamples = resamples;
                *figure(&intervals[m], (int)f) =
                    interval(j.drawn + at * n, NULL, resamples, values[at], scratch);
            }
            if (differences) {
                differences[m].resamples = resamples;
                *figure(&differences[m], (int)f) =
                    interval(j.drawn + at * n, j.drawn + other * n, resamples,
                             values[at] - values[other], scratch);
            }
        }
    cst_free(context, j.drawn);
    cst_free(context, values);
    cst_free(context, scratch);
    return status;
}
