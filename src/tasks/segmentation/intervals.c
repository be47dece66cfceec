/* Bootstrap over cases. After scoring. docs/segmentation.md#scores. */
#include "tasks/segmentation/intervals.h"

#include "stats/percentile.h"
#include "stats/resample.h"

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

static double map_score_value(const cst_segmentation_scores *scores, int field) {
    double value = 0;
    memcpy(&value, (const char *)scores + FIELDS[field].at, sizeof value);
    return value;
}

typedef struct bootstrap {
    const cst_map_scores *const *methods;
    uint64_t seed;
    const cst_draws *draws;
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
    for (int32_t m = 0; m < b->draws->methods; m++) {
        cst_segmentation_scores scores;
        memset(sum, 0, width * sizeof *sum);
        for (int64_t n = 0; n < cases; n++)
            for (size_t i = 0; times[n] > 0 && i < width; i++)
                sum[i] += times[n] * b->methods[m]->tallies[(size_t)n * width + i];
        cst_tally_scores(sum, b->methods[m]->classes, b->methods[m]->probabilities, &scores);
        for (int f = 0; f < CST_MAP_SCORES; f++)
            cst_draws_of(b->draws, m, f)[task] = map_score_value(&scores, f);
    }
    cst_free(worker, times);
    cst_free(worker, sum);
    return CST_OK;
}

void cst_map_score_values(const cst_map_scores *scores, double *out) {
    cst_segmentation_scores found;
    cst_tally_scores(scores->total, scores->classes, scores->probabilities, &found);
    for (int f = 0; f < CST_MAP_SCORES; f++)
        out[f] = map_score_value(&found, f);
}

cst_status cst_map_bootstrap(cst_context *context, const cst_map_scores *const *methods,
                             int32_t count, int32_t reference, int32_t resamples, uint64_t seed,
                             cst_intervals *out) {
    cst_draws draws;
    bootstrap b = {methods, seed, &draws};
    cst_status status = cst_draws_make(context, count, CST_MAP_SCORES, resamples, &draws);
    CST_THEN(cst_stage(context, "intervals"));
    CST_THEN(cst_resample_all(context, resamples, 1, draw_resample, &b, draws.drawn,
                              (int64_t)count * CST_MAP_SCORES));
    for (int32_t m = 0; status == CST_OK && m < count; m++)
        cst_map_score_values(methods[m], draws.value + (size_t)m * CST_MAP_SCORES);
    CST_THEN(
        cst_draws_summarise(context, &draws, reference, out->interval, out->difference, out->p));
    out->done = status == CST_OK;
    cst_draws_free(context, &draws);
    return status;
}
