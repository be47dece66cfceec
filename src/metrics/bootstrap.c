/*
 * Bootstrap intervals of top-1, NLL, Brier and ECE, alone and as paired differences. After
 * prediction, beside every reported score. method.md section 8.
 *
 * LANES resamples run side by side: each draws how often every sample occurs (counts
 * [rows][LANES]), and one pass over the samples, bin after bin, then gives every method's sums for
 * all lanes. A lane's arithmetic does not depend on its neighbours, so that the result has the same
 * bytes for any number of threads and any width of vector instructions.
 */
#include <corestack/metrics.h>

#include "metrics/samples.h"

#include <Random123/philox.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 8, SCORES = 4, RESAMPLES_MAX = 10000000 };
enum { TOP1, NLL, BRIER, ECE };

/* One binary for every x86-64, with vector versions of the hot loops chosen at load time. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VECTOR_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define VECTOR_CLONES
#endif

/* One number for each lane, in a register where there is one so wide. */
typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));
typedef float lane_counts __attribute__((vector_size(LANES * sizeof(float))));

/* What a method's scores are sums of, packed for the inner loop. */
typedef struct packed {
    double nll;
    double brier;
    double gap; /* correct - confidence */
    double correct;
    int64_t row;
} packed;

/* Samples of a method in order of their bins, ascending rows within a bin. */
typedef struct binned {
    packed *samples; /* [rows] */
    int64_t *end;    /* [bins]: bin b ends before samples[end[b]] */
} binned;

typedef struct bootstrap {
    int64_t rows;
    int32_t bins;
    int32_t methods;
    int32_t resamples;
    uint64_t seed;
    binned *method; /* [methods] */
    double *scores; /* [methods][SCORES][resamples] */
} bootstrap;

/* ---- drawing ----------------------------------------------------------------------------------
 */

/* Four 32-bit words of each lane's stream at position `block`: what cst_rng_u32 gives for
 * (seed, CST_STREAM_BOOTSTRAP, resample), several streams at once. words: [4][LANES]. */
VECTOR_CLONES
static void draw_words(uint64_t seed, uint64_t block, uint32_t first_resample, uint32_t *words) {
    uint32_t x0[LANES];
    uint32_t x1[LANES];
    uint32_t x2[LANES];
    uint32_t x3[LANES];
    for (uint32_t l = 0; l < LANES; l++) {
        x0[l] = (uint32_t)block;
        x1[l] = (uint32_t)(block >> 32);
        x2[l] = (uint32_t)CST_STREAM_BOOTSTRAP;
        x3[l] = first_resample + l;
    }
    uint32_t key0 = (uint32_t)seed;
    uint32_t key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) { /* philox4x32-10 */
        for (int l = 0; l < LANES; l++) {
            uint64_t a = (uint64_t)PHILOX_M4x32_0 * x0[l];
            uint64_t b = (uint64_t)PHILOX_M4x32_1 * x2[l];
            x0[l] = (uint32_t)(b >> 32) ^ x1[l] ^ key0;
            x1[l] = (uint32_t)b;
            x2[l] = (uint32_t)(a >> 32) ^ x3[l] ^ key1;
            x3[l] = (uint32_t)a;
        }
        key0 += PHILOX_W32_0;
        key1 += PHILOX_W32_1;
    }
    memcpy(words, x0, sizeof x0);
    memcpy(words + LANES, x1, sizeof x1);
    memcpy(words + 2 * LANES, x2, sizeof x2);
    memcpy(words + 3 * LANES, x3, sizeof x3);
}

/* Row for draw `j` of a resample whose word was refused as one that would favour some rows (a
 * chance of rows / 2^32): words of a part of the stream that nothing else reads. */
static int64_t draw_again(uint64_t seed, uint32_t resample, int64_t j, int64_t rows) {
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_BOOTSTRAP, resample);
    rng.counter[0] = (uint32_t)j;
    rng.counter[1] = 0x80000000U | (uint32_t)(j >> 32);
    return cst_rng_below(&rng, rows);
}

/* counts [rows][LANES]: how often each row is drawn by each of the resamples. */
static void draw_counts(const bootstrap *job, uint32_t first_resample, float *counts) {
    uint64_t range = (uint64_t)job->rows; /* below 2^32: checked */
    uint32_t refuse = (uint32_t)((UINT64_C(1) << 32) % range);
    uint32_t words[4 * LANES];
    memset(counts, 0, (size_t)job->rows * LANES * sizeof *counts);
    for (int64_t j = 0; j < job->rows; j += 4) {
        draw_words(job->seed, (uint64_t)j / 4, first_resample, words);
        int64_t left = job->rows - j < 4 ? job->rows - j : 4;
        for (int64_t w = 0; w < left; w++) {
            for (uint32_t l = 0; l < LANES; l++) { /* Lemire's multiply and shift */
                uint64_t product = words[w * LANES + l] * range;
                size_t row = (size_t)(product >> 32);
                if ((uint32_t)product < refuse)
                    row = (size_t)draw_again(job->seed, first_resample + l, j + w, job->rows);
                counts[row * LANES + l] += 1;
            }
        }
    }
}

/* ---- sums
 * ---------------------------------------------------------------------------------------- */

/* sums [SCORES][LANES]: of correct, NLL, Brier, and of the absolute gaps of the bins. counts:
 * [rows][LANES]. */
VECTOR_CLONES
static void weigh(const binned *method, int32_t bins, const float *counts, double *sums) {
    lanes top1 = {0};
    lanes nll = {0};
    lanes brier = {0};
    lanes error = {0};
    const packed *s = method->samples;
    for (int32_t b = 0; b < bins; b++) {
        lanes gap = {0};
        for (const packed *end = method->samples + method->end[b]; s < end; s++) {
            lane_counts count;
            memcpy(&count, counts + s->row * LANES, sizeof count);
            lanes times = __builtin_convertvector(count, lanes);
            top1 += times * s->correct;
            nll += times * s->nll;
            brier += times * s->brier;
            gap += times * s->gap;
        }
        for (int l = 0; l < LANES; l++)
            error[l] += fabs(gap[l]);
    }
    memcpy(sums + TOP1 * LANES, &top1, sizeof top1);
    memcpy(sums + NLL * LANES, &nll, sizeof nll);
    memcpy(sums + BRIER * LANES, &brier, sizeof brier);
    memcpy(sums + ECE * LANES, &error, sizeof error);
}

/* Batches of lanes that one task runs, so that scratch is not made anew for each. */
enum { BATCHES = 16 };

static cst_status resample_task(cst_context *context, void *user, int64_t task) {
    const bootstrap *job = user;
    float *counts = cst_alloc(context, (size_t)job->rows * LANES, sizeof *counts);
    if (!counts)
        return CST_ERROR_MEMORY;
    int64_t resamples = job->resamples;
    int64_t first = task * BATCHES * LANES;
    for (int b = 0; b < BATCHES && first < resamples; b++, first += LANES) {
        draw_counts(job, (uint32_t)first, counts);
        for (int32_t m = 0; m < job->methods; m++) {
            double sums[SCORES * LANES];
            double *to = job->scores + (int64_t)m * SCORES * resamples + first;
            weigh(&job->method[m], job->bins, counts, sums);
            for (int s = 0; s < SCORES; s++)
                for (int l = 0; l < LANES && first + l < resamples; l++)
                    to[s * resamples + l] = sums[s * LANES + l] / (double)job->rows;
        }
    }
    cst_free(context, counts);
    return CST_OK;
}

/* ---- intervals
 * -------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Linear between order statistics, as NumPy's default. */
static double percentile(const double *sorted, int32_t count, double level) {
    double at = level * (double)(count - 1);
    int32_t below = (int32_t)at;
    if (below >= count - 1)
        return sorted[count - 1];
    return sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]);
}

static cst_interval interval_of(double value, double *scores, int32_t count) {
    qsort(scores, (size_t)count, sizeof *scores, ascending);
    return (cst_interval){value, percentile(scores, count, 0.025),
                          percentile(scores, count, 0.975)};
}

/* scores: [SCORES][resamples], sorted in place. */
static cst_metric_intervals intervals_of(const double *value, double *scores, int32_t resamples) {
    size_t n = (size_t)resamples;
    return (cst_metric_intervals){
        .resamples = resamples,
        .top1 = interval_of(value[TOP1], scores + TOP1 * n, resamples),
        .nll = interval_of(value[NLL], scores + NLL * n, resamples),
        .brier = interval_of(value[BRIER], scores + BRIER * n, resamples),
        .ece = interval_of(value[ECE], scores + ECE * n, resamples),
    };
}

/* ---- all methods
 * -------------------------------------------------------------------------------------- */

/* Sorts a method's samples into bins by counting. */
static cst_status pack(cst_context *context, const bootstrap *job, const cst_samples *samples,
                       binned *out) {
    out->samples = cst_alloc(context, (size_t)job->rows, sizeof *out->samples);
    out->end = cst_alloc(context, (size_t)job->bins, sizeof *out->end);
    if (!out->samples || !out->end)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < job->rows; i++)
        out->end[cst_bin_of(samples->confidence[i], job->bins)]++;
    int64_t start = 0;
    for (int32_t b = 0; b < job->bins; b++) {
        int64_t count = out->end[b];
        out->end[b] = start; /* moves to the end of the bin as it fills */
        start += count;
    }
    for (int64_t i = 0; i < job->rows; i++) {
        int64_t at = out->end[cst_bin_of(samples->confidence[i], job->bins)]++;
        out->samples[at] = (packed){.nll = samples->nll[i],
                                    .brier = samples->brier[i],
                                    .gap = samples->correct[i] - samples->confidence[i],
                                    .correct = samples->correct[i],
                                    .row = i};
    }
    return CST_OK;
}

static void bootstrap_free(cst_context *context, bootstrap *job) {
    for (int32_t m = 0; job->method && m < job->methods; m++) {
        cst_free(context, job->method[m].samples);
        cst_free(context, job->method[m].end);
    }
    cst_free(context, job->method);
    cst_free(context, job->scores);
}

/* The scores of every method on the samples themselves: value [methods][SCORES]. The same sums as
 * of a resample that draws each row once. */
static cst_status values(cst_context *context, const bootstrap *job, double *value) {
    double sums[SCORES * LANES];
    size_t cells = (size_t)job->rows * LANES;
    float *once = cst_alloc(context, cells, sizeof *once);
    if (!once)
        return CST_ERROR_MEMORY;
    for (size_t i = 0; i < cells; i++)
        once[i] = 1;
    for (int32_t m = 0; m < job->methods; m++) {
        weigh(&job->method[m], job->bins, once, sums);
        for (int s = 0; s < SCORES; s++)
            value[m * SCORES + s] = sums[s * LANES] / (double)job->rows;
    }
    cst_free(context, once);
    return CST_OK;
}

static cst_status run(cst_context *context, const float *const *probabilities, int32_t classes,
                      const int32_t *labels, int bins, bootstrap *job, double *value) {
    const int32_t methods = job->methods;
    cst_status status = cst_bins_check(context, bins, &job->bins);
    if (status != CST_OK)
        return status;
    if (job->resamples < 1 || job->resamples > RESAMPLES_MAX || job->methods < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%d resamples of %d methods: use 1 to %d resamples of at least one method",
                        job->resamples, job->methods, RESAMPLES_MAX);
    if (job->rows > UINT32_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "%lld rows are too many to resample",
                        (long long)job->rows);
    job->method = cst_alloc(context, (size_t)methods, sizeof *job->method);
    job->scores =
        cst_alloc(context, (size_t)methods * SCORES * (size_t)job->resamples, sizeof(double));
    if (!job->method || !job->scores)
        return CST_ERROR_MEMORY;
    for (int32_t m = 0; status == CST_OK && m < methods; m++) {
        cst_samples samples = {0};
        status = cst_samples_make(context, probabilities[m], job->rows, classes, labels, &samples);
        if (status == CST_OK)
            status = pack(context, job, &samples, &job->method[m]);
        cst_samples_free(context, &samples);
    }
    if (status == CST_OK)
        status = values(context, job, value);
    int64_t batch = (int64_t)BATCHES * LANES;
    if (status == CST_OK)
        status =
            cst_parallel_for(context, (job->resamples + batch - 1) / batch, resample_task, job);
    return status;
}

cst_status cst_bootstrap_methods(cst_context *context, const float *const *probabilities,
                                 int32_t methods, int64_t rows, int32_t classes,
                                 const int32_t *labels, int bins, int32_t resamples, uint64_t seed,
                                 cst_metric_intervals *out) {
    bootstrap job = {.rows = rows, .methods = methods, .resamples = resamples, .seed = seed};
    double *value = cst_alloc(context, methods > 0 ? (size_t)methods * SCORES : 0, sizeof *value);
    cst_status status =
        value ? run(context, probabilities, classes, labels, bins, &job, value) : CST_ERROR_MEMORY;
    for (int32_t m = 0; status == CST_OK && m < methods; m++)
        out[m] = intervals_of(value + m * SCORES,
                              job.scores + (size_t)m * SCORES * (size_t)resamples, resamples);
    bootstrap_free(context, &job);
    cst_free(context, value);
    return status;
}

cst_status cst_bootstrap_metrics(cst_context *context, const float *probabilities, int64_t rows,
                                 int32_t classes, const int32_t *labels, int bins,
                                 int32_t resamples, uint64_t seed, cst_metric_intervals *out) {
    return cst_bootstrap_methods(context, &probabilities, 1, rows, classes, labels, bins, resamples,
                                 seed, out);
}

cst_status cst_bootstrap_difference(cst_context *context, const float *a, const float *b,
                                    int64_t rows, int32_t classes, const int32_t *labels, int bins,
                                    int32_t resamples, uint64_t seed, cst_metric_intervals *out) {
    const float *pair[] = {a, b};
    double value[2 * SCORES] = {0};
    bootstrap job = {.rows = rows, .methods = 2, .resamples = resamples, .seed = seed};
    cst_status status = run(context, pair, classes, labels, bins, &job, value);
    if (status == CST_OK) {
        size_t all = (size_t)SCORES * (size_t)resamples;
        for (size_t j = 0; j < all; j++)
            job.scores[j] -= job.scores[all + j];
        for (int s = 0; s < SCORES; s++)
            value[s] -= value[SCORES + s];
        *out = intervals_of(value, job.scores, resamples);
    }
    bootstrap_free(context, &job);
    return status;
}
