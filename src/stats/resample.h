/* The bootstrap: resamples, figures of each, percentile intervals. docs/json.md#evaluate. */
#pragma once

#include "core/scope.h"

#include <string.h>

/* ---- percentiles ---- */

typedef struct cst_interval {
    double value, low, high;
} cst_interval;

/* Percentile at `level` in [0, 1] of values [count] (reordered), linear as NumPy's default. */
double cst_percentile(double *values, int32_t count, double level);

/* The 95% interval of draws [count], which are put in another order, around a value. */
cst_interval cst_interval_of(double *draws, int32_t count, double value);

/* ---- draws ---- */

/* Resamples side by side. A lane's arithmetic does not depend on its neighbours. */
#define CST_LANES 16

/* One binary for every x86-64, with vector versions of the hot loops chosen at load time. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CST_VECTOR_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define CST_VECTOR_CLONES
#endif

/* Half of the lanes, in a register where there is one so wide. */
#define CST_HALF (CST_LANES / 2)
typedef double cst_half_lanes __attribute__((vector_size(CST_HALF * sizeof(double))));
typedef uint64_t cst_half_whole __attribute__((vector_size(CST_HALF * sizeof(uint64_t))));

/* Counts are bytes: that a row of N is drawn more than 255 times has a chance below N / 256!. */
typedef struct cst_resample {
    int64_t rows;         /* below 2^32 */
    int64_t padded;       /* rows, rounded up to whole multiples of CST_LANES */
    unsigned char *lane;  /* [CST_LANES][padded]: lane after lane */
    unsigned char *count; /* [padded][CST_LANES]: the same, row after row */
    bool every_word;      /* no word is refused, though some rows may then be favoured */
} cst_resample;

cst_status cst_resample_make(cst_context *context, cst_scope *scope, int64_t rows,
                             cst_resample *out);

/* Resamples first, first + 1, ...: resample r of a seed draws row floor(word rows / 2^32) for each
 * of the first `rows` words of stream (seed, CST_STREAM_BOOTSTRAP, r). */
void cst_resample_draw(cst_resample *resample, uint64_t seed, uint32_t first);

/* ---- the bootstrap ---- */

typedef struct cst_bootstrap cst_bootstrap;

/* Figures of the first `lanes` lanes: score s of method m on lane l to
 * out[(m * scores + s) * stride + l]; NaN where it is not defined. drawn: [kinds of samples].
 * scratch: the task's, zeroed at first. */
typedef void (*cst_figures_fn)(const cst_bootstrap *b, const cst_resample *drawn, void *scratch,
                               int64_t lanes, int64_t stride, double *out);

/* Samples to draw from, and the figures to compute. */
struct cst_bootstrap {
    int64_t samples[2]; /* drawn with replacement; a second kind, drawn by itself, or 0: none */
    uint64_t seed[2];
    int32_t resamples, methods, scores;
    uint32_t skipped; /* bit s: score s is not computed by `figures`, and NaN unless by `more` */
    bool every_word;
    size_t scratch; /* bytes */
    cst_figures_fn figures;
    const void *user;
    /* Further scores of value and drawn, or NULL. */
    cst_status (*more)(cst_context *context, const cst_bootstrap *b, double *value, double *drawn);
};

/* value [methods][scores]: on the samples. drawn [methods][scores][resamples]: on each resample. */
cst_status cst_bootstrap_draw(cst_context *context, const cst_bootstrap *b, double *value,
                              double *drawn);

/* [methods][scores], each array or NULL: interval, interval of the difference to `reference`, and p
 * (twice the smaller share of differences beyond 0, at least 2 / resamples). NaN without a defined
 * resample. Efron and Tibshirani (1993), chapters 13 and 16. */
cst_status cst_bootstrap_intervals(cst_context *context, const cst_bootstrap *b, int32_t reference,
                                   cst_interval *interval, cst_interval *difference, double *p);

/* Half `half` of the counts of one row as whole numbers, and as doubles: the bits of 2^52 + count,
 * less 2^52, which is exact and what compilers turn into the fewest vector instructions. */
__attribute__((always_inline)) static inline void
cst_lane_counts(const unsigned char *count, int half, cst_half_whole *whole, cst_half_lanes *out) {
    uint64_t wide[CST_HALF];
    for (int l = 0; l < CST_HALF; l++)
        wide[l] = count[half * CST_HALF + l];
    memcpy(whole, wide, sizeof *whole);
    cst_half_whole biased = *whole | UINT64_C(0x4330000000000000);
    memcpy(out, &biased, sizeof *out);
    *out -= 0x1p52;
}

/* ---- ratios, in ratios.c ---- */

/* Sum of numerator over sum of denominator. A sample is what is drawn: of an image under several
 * conditions, numerator holds the sum over them, so that they are drawn together. */
typedef struct cst_ratio {
    const double *numerator;   /* [rows] */
    const double *denominator; /* [rows]; NULL: 1 each */
    const int32_t *groups;     /* [rows], 0..group_count-1: the mean of the groups' own ratios, over
                                  those with a denominator other than 0; NULL: of all rows */
    int32_t group_count;
} cst_ratio;

/* value [count]: of the samples themselves. drawn [count][resamples] (NULL with 0 resamples): of
 * the resamples of a seed, which are those of cst_bootstrap_metrics. 0/0 is NaN. */
cst_status cst_ratios_bootstrap(cst_context *context, const cst_ratio *ratios, int32_t count,
                                int64_t rows, int32_t resamples, uint64_t seed, double *value,
                                double *drawn);
