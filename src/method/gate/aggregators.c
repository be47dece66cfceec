/* The twelve aggregators, in tiles of (sample, class) pairs laid out column by column. */
#include "method/gate/gate.h"

#include <math.h>
#include <string.h>

/* One tile of doubles for columns [12], one of floats per member. */
size_t cst_aggregate_scratch(int32_t members) {
    size_t floats = (size_t)(members > 2 ? members : 2) * CST_TILE;
    return (size_t)CST_AGGREGATORS * CST_TILE + floats / 2;
}

/* ---- elementwise kernels ---- */

/* Natural logarithm of a positive normal double, within 2 ulp; some finite number for 0. Written
 * out, without branches, so that it vectorises and gives the same bytes on every machine. x = 2^e m
 * with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1)/(m + 1)). */
static inline __attribute__((always_inline)) double log_finite(double x) {
    const uint64_t root_half = UINT64_C(0x3fe6a09e667f3bcd); /* sqrt(1/2) as bits */
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof bits);
    bits += UINT64_C(0x3ff0000000000000) - root_half;
    uint64_t exponent_bits = (bits >> 52) | UINT64_C(0x4330000000000000); /* 2^52 + e + 1023 */
    uint64_t mantissa_bits = (bits & UINT64_C(0x000fffffffffffff)) + root_half;
    double exponent = 0;
    double mantissa = 0;
    memcpy(&exponent, &exponent_bits, sizeof exponent);
    memcpy(&mantissa, &mantissa_bits, sizeof mantissa);
    exponent -= 0x1p52 + 1023.0;
    double s = (mantissa - 1.0) / (mantissa + 1.0);
    double z = s * s;
    double series = 1.0 / 21;
    series = series * z + 1.0 / 19;
    series = series * z + 1.0 / 17;
    series = series * z + 1.0 / 15;
    series = series * z + 1.0 / 13;
    series = series * z + 1.0 / 11;
    series = series * z + 1.0 / 9;
    series = series * z + 1.0 / 7;
    series = series * z + 1.0 / 5;
    series = series * z + 1.0 / 3;
    double log_mantissa = 2.0 * s + 2.0 * s * z * series;
    return exponent * 0.693147180559945309417 + log_mantissa;
}

/* terms[0..size) = -mean log mean, terms[CST_TILE..) = best (log best - log mean). A probability is
 * a float32, so a mean that is not 0 is a normal double. */
CST_KERNEL(sample_terms,
           (const float *const *members, int32_t count, int32_t best, int64_t first, int64_t size,
            double *restrict terms),
           (members, count, best, first, size, terms)) {
    double *restrict mean = terms;
    double *restrict divergence = terms + CST_TILE;
    for (int64_t e = 0; e < size; e++)
        mean[e] = 0;
    for (int32_t k = 0; k < count; k++) {
        const float *restrict x = members[k] + first;
        for (int64_t e = 0; e < size; e++)
            mean[e] += (double)x[e];
    }
    const float *restrict p = members[best] + first;
    double models = (double)count;
    for (int64_t e = 0; e < size; e++) {
        double m = mean[e] / models;
        double q = (double)p[e];
        double log_mean = log_finite(m);
        mean[e] = -m * log_mean;
        divergence[e] = q * (log_finite(q) - log_mean);
    }
}

/* Mean, population standard deviation (two passes) and the products. */
CST_KERNEL(centre,
           (const float *const *members, int32_t count, int64_t first, int64_t size,
            double *restrict columns),
           (members, count, first, size, columns)) {
    double *restrict mean = columns + CST_AGGREGATE_MEAN * CST_TILE;
    double *restrict sd = columns + CST_AGGREGATE_SD * CST_TILE;
    double *restrict mean_sd = columns + CST_AGGREGATE_MEAN_SD * CST_TILE;
    double *restrict mean_squared = columns + CST_AGGREGATE_MEAN_SQUARED * CST_TILE;
    double *restrict sd_squared = columns + CST_AGGREGATE_SD_SQUARED * CST_TILE;
    double models = (double)count;
    for (int64_t e = 0; e < size; e++) {
        mean[e] = 0;
        sd_squared[e] = 0;
    }
    for (int32_t k = 0; k < count; k++) {
        const float *restrict x = members[k] + first;
        for (int64_t e = 0; e < size; e++)
            mean[e] += (double)x[e];
    }
    for (int64_t e = 0; e < size; e++)
        mean[e] /= models;
    for (int32_t k = 0; k < count; k++) {
        const float *restrict x = members[k] + first;
        for (int64_t e = 0; e < size; e++) {
            double d = (double)x[e] - mean[e];
            sd_squared[e] += d * d;
        }
    }
    for (int64_t e = 0; e < size; e++)
        sd_squared[e] /= models;
    /* On its own: the C library's square root sets errno, which keeps a loop from vectorising. */
    for (int64_t e = 0; e < size; e++)
        sd[e] = sqrt(sd_squared[e]);
    for (int64_t e = 0; e < size; e++) {
        mean_sd[e] = mean[e] * sd[e];
        mean_squared[e] = mean[e] * mean[e];
    }
}

/* Sorts each of `size` columns of values [count][CST_TILE] ascending: Batcher's merge exchange
 * (Knuth, volume 3, algorithm 5.2.2M), a fixed network, so the loop over pairs vectorises. */
CST_KERNEL(sort_tile, (int32_t count, int64_t size, float *values), (count, size, values)) {
    int32_t top = 1;
    while (2 * top < count)
        top *= 2;
    for (int32_t p = top; p > 0; p /= 2) {
        int32_t q = top;
        int32_t r = 0;
        int32_t d = p;
        for (;;) {
            for (int32_t i = 0; i < count - d; i++) {
                if ((i & p) != r)
                    continue;
                float *restrict a = values + (size_t)i * CST_TILE;
                float *restrict b = values + (size_t)(i + d) * CST_TILE;
                for (int64_t e = 0; e < size; e++) {
                    float low = b[e] < a[e] ? b[e] : a[e];
                    float high = b[e] < a[e] ? a[e] : b[e];
                    a[e] = low;
                    b[e] = high;
                }
            }
            if (q == p)
                break;
            d = q - p;
            q /= 2;
            r = p;
        }
    }
}

/* One quantile of sorted values [count][CST_TILE], interpolated the way NumPy does. */
CST_KERNEL(quantile,
           (const float *values, int32_t count, double level, int64_t size, double *restrict out),
           (values, count, level, size, out)) {
    double position = level * (double)(count - 1);
    int32_t below = (int32_t)position;
    int32_t above = below + 1 < count ? below + 1 : below;
    double part = position - (double)below;
    const float *restrict low = values + (size_t)below * CST_TILE;
    const float *restrict high = values + (size_t)above * CST_TILE;
    for (int64_t e = 0; e < size; e++)
        out[e] = (double)low[e] + part * ((double)high[e] - (double)low[e]);
}

/* ---- the tile, the samples and all rows ---- */

void cst_aggregate_samples(const float *const *members, int32_t member_count, int32_t best,
                           int64_t count, int32_t classes, double *entropy, double *divergence,
                           double *scratch) {
    for (int64_t i = 0; i < count; i++) {
        entropy[i] = 0;
        divergence[i] = 0;
    }
    if (classes < 2)
        return;
    double *terms = scratch;
    int64_t pairs = count * (int64_t)classes;
    int64_t sample = 0;
    int32_t class_index = 0;
    for (int64_t first = 0; first < pairs; first += CST_TILE) {
        int64_t size = pairs - first < CST_TILE ? pairs - first : CST_TILE;
        sample_terms(members, member_count, best, first, size, terms);
        for (int64_t e = 0; e < size;) {
            /* The part of one sample that lies in this tile, in class order. */
            int64_t left = classes - class_index;
            int64_t end = e + (left < size - e ? left : size - e);
            class_index += (int32_t)(end - e);
            double h = entropy[sample];
            double d = divergence[sample];
            for (; e < end; e++) {
                h += terms[e];
                d += terms[CST_TILE + e];
            }
            entropy[sample] = h;
            divergence[sample] = d;
            if (class_index == classes) {
                class_index = 0;
                sample++;
            }
        }
    }
}

void cst_aggregate_broadcast(int32_t classes, int64_t first, int64_t size, const double *entropy,
                             const double *divergence, double *columns) {
    double *broadcast_entropy = columns + CST_AGGREGATE_ENTROPY * CST_TILE;
    double *broadcast_divergence = columns + CST_AGGREGATE_DIVERGENCE * CST_TILE;
    int64_t sample = first / classes;
    int64_t left = (sample + 1) * classes - first;
    for (int64_t e = 0; e < size; sample++) {
        int64_t end = e + (left < size - e ? left : size - e);
        for (; e < end; e++) {
            broadcast_entropy[e] = entropy[sample];
            broadcast_divergence[e] = divergence[sample];
        }
        left = classes;
    }
}

void cst_aggregate_tile(const float *const *members, int32_t member_count, int32_t classes,
                        int64_t first, int64_t size, const double *entropy,
                        const double *divergence, double *columns, double *scratch) {
    float *sorted = (float *)scratch;
    for (int32_t k = 0; k < member_count; k++)
        memcpy(sorted + (size_t)k * CST_TILE, members[k] + first, (size_t)size * sizeof *sorted);
    centre(members, member_count, first, size, columns);
    sort_tile(member_count, size, sorted);
    quantile(sorted, member_count, 0.5, size, columns + CST_AGGREGATE_MEDIAN * CST_TILE);
    quantile(sorted, member_count, 0.25, size, columns + CST_AGGREGATE_Q25 * CST_TILE);
    quantile(sorted, member_count, 0.75, size, columns + CST_AGGREGATE_Q75 * CST_TILE);
    const double *sd = columns + CST_AGGREGATE_SD * CST_TILE;
    double *range = columns + CST_AGGREGATE_RANGE * CST_TILE;
    double *range_sd = columns + CST_AGGREGATE_RANGE_SD * CST_TILE;
    const float *high = sorted + (size_t)(member_count - 1) * CST_TILE;
    for (int64_t e = 0; e < size; e++) {
        range[e] = (double)high[e] - (double)sorted[e];
        range_sd[e] = range[e] * sd[e];
    }
    if (entropy && divergence)
        cst_aggregate_broadcast(classes, first, size, entropy, divergence, columns);
}
