/*
 * Draws bootstrap resamples: how often each row occurs, for CST_LANES resamples side by side. Under
 * the intervals of every score. docs/json.md#evaluate.
 */
#ifndef CST_METRICS_RESAMPLE_H
#define CST_METRICS_RESAMPLE_H

#include "core/base.h"

#include <string.h>

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
} cst_resample;

/* Free with cst_resample_free, also after a failure. */
cst_status cst_resample_make(cst_context *context, int64_t rows, cst_resample *out);
void cst_resample_free(cst_context *context, cst_resample *resample);

/* Resamples first, first + 1, ...: resample r of a seed draws row floor(word rows / 2^32) for each
 * of the first `rows` words of stream (seed, CST_STREAM_BOOTSTRAP, r). */
void cst_resample_draw(cst_resample *resample, uint64_t seed, uint32_t first);

/* Runs `task` for each `batch` resamples, 0.., which writes its part of drawn [columns][resamples].
 * Ranks divide the tasks among them. */
cst_status cst_resample_all(cst_context *context, int64_t resamples, int64_t batch,
                            cst_task_fn task, void *user, double *drawn, int64_t columns);

/* Every row once in every lane: the samples themselves. */
void cst_resample_once(cst_resample *resample);

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

#endif
