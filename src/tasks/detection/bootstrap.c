/*
 * Resamples of images and the percentile intervals of AP, AP50, AP75 and AR100 from them.
 * After the matching; for reports. docs/detection.md#scores.
 */
#include "tasks/detection/bootstrap.h"

#include "stats/percentile.h"
#include "stats/resample.h"

#include <math.h>
#include <string.h>

enum { FIGURES = 4 };

typedef struct job {
    const cst_ap_matches *const *matches;
    uint64_t seed;
    const cst_draws *draws;
} job;

static void pick(const cst_detection_scores *scores, double out[FIGURES]) {
    out[0] = scores->ap;
    out[1] = scores->ap50;
    out[2] = scores->ap75;
    out[3] = scores->ar100;
}

/* CST_LANES resamples of every method. */
static cst_status draw_task(cst_context *context, void *user, int64_t task) {
    const job *j = user;
    int32_t first = (int32_t)task * CST_LANES;
    int32_t images = j->matches[0]->images;
    cst_resample resample;
    size_t most = 0;
    cst_status status = cst_resample_make(context, images, &resample);
    for (int32_t m = 0; m < j->draws->methods; m++)
        most = cst_ap_scratch(j->matches[m]) > most ? cst_ap_scratch(j->matches[m]) : most;
    int32_t *times = cst_alloc(context, (size_t)images, sizeof *times);
    double *scratch = cst_alloc(context, most, sizeof *scratch);
    if (status == CST_OK && !(times && scratch))
        status = CST_ERROR_MEMORY;
    if (status == CST_OK)
        cst_resample_draw(&resample, j->seed, (uint32_t)first);
    for (int32_t lane = 0; status == CST_OK && lane < CST_LANES; lane++) {
        int32_t r = first + lane;
        if (r >= j->draws->resamples)
            break;
        for (int32_t i = 0; i < images; i++)
            times[i] = resample.count[(size_t)i * CST_LANES + (size_t)lane];
        for (int32_t m = 0; m < j->draws->methods; m++) {
            cst_detection_scores scores;
            double values[FIGURES];
            cst_ap_main_scores(j->matches[m], times, scratch, &scores);
            pick(&scores, values);
            for (int f = 0; f < FIGURES; f++)
                cst_draws_of(j->draws, m, f)[r] = values[f] < 0 ? NAN : values[f];
        }
    }
    cst_resample_free(context, &resample);
    cst_free(context, times);
    cst_free(context, scratch);
    return status;
}

/* The figures on all images, [methods][FIGURES]. */
static cst_status once(cst_context *context, const job *j, double *out) {
    for (int32_t m = 0; m < j->draws->methods; m++) {
        cst_detection_scores scores;
        double *scratch = cst_alloc(context, cst_ap_scratch(j->matches[m]), sizeof *scratch);
        if (!scratch)
            return CST_ERROR_MEMORY;
        cst_ap_main_scores(j->matches[m], NULL, scratch, &scores);
        double *own = out + (size_t)m * FIGURES;
        pick(&scores, own);
        for (int f = 0; f < FIGURES; f++) /* -1: nothing to find */
            own[f] = own[f] < 0 ? NAN : own[f];
        cst_free(context, scratch);
    }
    return CST_OK;
}

cst_status cst_ap_bootstrap(cst_context *context, const cst_ap_matches *const *matches,
                            int32_t methods, int32_t reference, int32_t resamples, uint64_t seed,
                            cst_intervals *out) {
    /* Where AP, AP50, AP75 and AR100 stand among the scores. */
    static const int place[FIGURES] = {0, 1, 2, 8};
    enum { SCORES = 12 };
    cst_draws draws;
    job j = {.matches = matches, .seed = seed, .draws = &draws};
    if (resamples < 1 || matches[0]->images < 1)
        return CST_OK;
    size_t cells = (size_t)methods * FIGURES;
    cst_interval *found = cst_alloc(context, 2 * cells, sizeof *found);
    double *p = cst_alloc(context, cells, sizeof *p);
    cst_status status = cst_draws_make(context, methods, FIGURES, resamples, &draws);
    if (status == CST_OK)
        status = found && p ? cst_stage(context, "intervals") : CST_ERROR_MEMORY;
    CST_THEN(once(context, &j, draws.value));
    CST_THEN(cst_resample_all(context, resamples, CST_LANES, draw_task, &j, draws.drawn,
                              (int64_t)methods * FIGURES));
    CST_THEN(cst_draws_summarise(context, &draws, reference, found, found + cells, p));
    for (size_t i = 0; status == CST_OK && i < cells; i++) {
        size_t at = i / FIGURES * SCORES + (size_t)place[i % FIGURES];
        out->interval[at] = found[i];
        out->difference[at] = found[cells + i];
        out->p[at] = p[i];
    }
    out->done = status == CST_OK;
    cst_draws_free(context, &draws);
    cst_free(context, found);
    cst_free(context, p);
    return status;
}
