/* The twelve aggregators of the kept members' predictions for a (sample, class) pair. Paper:
 * section "Differentiable Meta-Feature Gate", equation for A_i;
 * docs/method.md#s2-and-s3-gate-and-penalties. */
#ifndef CST_LEARNERS_AGGREGATORS_H
#define CST_LEARNERS_AGGREGATORS_H

#include "core/base.h"
#include "core/wide.h"

/* Columns, in this order. Standard deviations are of the population (divided by K). Quartiles and
 * the median interpolate linearly between order statistics (NumPy's default). Logarithms are
 * natural, 0 log 0 = 0. */
enum {
    CST_AGGREGATE_MEAN = 0,
    CST_AGGREGATE_SD = 1,
    CST_AGGREGATE_MEDIAN = 2,
    CST_AGGREGATE_RANGE = 3,
    CST_AGGREGATE_Q25 = 4,
    CST_AGGREGATE_Q75 = 5,
    CST_AGGREGATE_ENTROPY = 6, /* of the mean prediction; the same for every class of a sample */
    CST_AGGREGATE_MEAN_SD = 7,
    CST_AGGREGATE_MEAN_SQUARED = 8,
    CST_AGGREGATE_RANGE_SD = 9,
    CST_AGGREGATE_SD_SQUARED = 10,
    CST_AGGREGATE_DIVERGENCE = 11, /* KL(best single member || mean); the same for every class */
    CST_AGGREGATORS = 12
};

/* Doubles of scratch for any of the functions below with `members` members. */
size_t cst_aggregate_scratch(int32_t members);

/* ---- in tiles: what the design and the prediction path use ---- */

/* (sample, class) pairs handled together, laid out column by column so that loops vectorise. */
enum { CST_TILE = 128 };

/* Entropy of the mean and KL(best || mean) of each sample: entropy [count], divergence [count]. */
void cst_aggregate_samples(const float *const *members, int32_t member_count, int32_t best,
                           int64_t count, int32_t classes, double *entropy, double *divergence,
                           double *scratch);

/* Aggregators of the pairs first..first+size-1 of the flattened [count * classes] rows, size <=
 * CST_TILE: columns [12][CST_TILE]. entropy and divergence as cst_aggregate_samples gives them, or
 * both NULL: those two columns are then left alone. */
void cst_aggregate_tile(const float *const *members, int32_t member_count, int32_t classes,
                        int64_t first, int64_t size, const double *entropy,
                        const double *divergence, double *columns, double *scratch);

/* Those two columns alone, in the tile `columns` [12][CST_TILE]. */
void cst_aggregate_broadcast(int32_t classes, int64_t first, int64_t size, const double *entropy,
                             const double *divergence, double *columns);

#endif
