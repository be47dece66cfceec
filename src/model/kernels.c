/* Logarithm, softmax and sums of prediction, written so that compilers vectorise them: no calls, no
 * branches, sums in eight fixed lanes. */
#include "model/kernels.h"

#include "method/gate/gate.h"

#include <string.h>

enum { LANES = 8 };

/* Natural logarithm of a positive normal double, within 1e-12 relative, far below the float it is
 * rounded to. x = 2^e m, m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1)/(m + 1)). 1 -
 * sqrt(1/2), added to the bits, carries into the exponent where the mantissa is beyond sqrt(2). */
static inline __attribute__((always_inline)) double log_normal(double x) {
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof bits);
    uint64_t power = (bits + UINT64_C(0x00095f619980c433)) >> 52;
    uint64_t mantissa_bits = bits - (power << 52) + UINT64_C(0x3ff0000000000000);
    uint64_t power_bits = power | UINT64_C(0x4330000000000000); /* 2^52 + power */
    double mantissa = 0;
    double exponent = 0;
    memcpy(&mantissa, &mantissa_bits, sizeof mantissa);
    memcpy(&exponent, &power_bits, sizeof exponent);
    exponent -= 0x1p52 + 1023.0;
    double s = (mantissa - 1.0) / (mantissa + 1.0);
    double z = s * s; /* at most 0.0295 */
    double series = 2.0 / 15;
    series = series * z + 2.0 / 13;
    series = series * z + 2.0 / 11;
    series = series * z + 2.0 / 9;
    series = series * z + 2.0 / 7;
    series = series * z + 2.0 / 5;
    series = series * z + 2.0 / 3;
    return exponent * 0.693147180559945309417 + (2.0 * s + s * z * series);
}

CST_KERNEL(add_mixed_logs,
           (const float *restrict p, int64_t count, double keep, double floor, double weight,
            double *restrict z),
           (p, count, keep, floor, weight, z)) {
    for (int64_t e = 0; e < count; e++)
        z[e] += weight * (double)(float)log_normal(keep * (double)p[e] + floor);
}

void cst_add_mixed_logs(const float *p, int64_t count, double mix, int32_t classes, double weight,
                        double *z) {
    add_mixed_logs(p, count, 1 - mix, mix / (double)classes, weight, z);
}

/* exp(x) for -700 <= x <= 0, within 1e-13 relative. x = n log 2 +
 * r with |r| <= log(2)/2, and exp(r) by its series. Adding 1.5 * 2^52 rounds to the nearest
 * integer and leaves it in the low bits. */
static inline __attribute__((always_inline)) double exp_negative(double x) {
    double shifted = x * 1.4426950408889634074 + 0x1.8p52;
    double n = shifted - 0x1.8p52;
    uint64_t bits = 0;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52; /* n + 1023 is the exponent; what is above it falls out */
    double power = 0;
    memcpy(&power, &bits, sizeof power);
    double r = x - n * 0x1.62e42feep-1; /* the high part of log 2: the product is exact */
    r = r - n * 0x1.a39ef35793c76p-33;
    double series = 1.0 / 479001600;
    series = series * r + 1.0 / 39916800;
    series = series * r + 1.0 / 3628800;
    series = series * r + 1.0 / 362880;
    series = series * r + 1.0 / 40320;
    series = series * r + 1.0 / 5040;
    series = series * r + 1.0 / 720;
    series = series * r + 1.0 / 120;
    series = series * r + 1.0 / 24;
    series = series * r + 1.0 / 6;
    series = series * r + 0.5;
    series = series * r + 1.0;
    series = series * r + 1.0;
    return series * power;
}

CST_KERNEL(softmax, (int32_t classes, double *scores), (classes, scores)) {
    double top = cst_lanes_top(scores, classes);
    /* Values below e^-700 count as that. A loop of its own: with the exponential in it, compilers
     * keep a branch here and give up on vectors. */
    for (int32_t c = 0; c < classes; c++) {
        double below = scores[c] - top;
        scores[c] = below > -700.0 ? below : -700.0;
    }
    for (int32_t c = 0; c < classes; c++)
        scores[c] = exp_negative(scores[c]);
    double scale = 1.0 / cst_lanes_sum(scores, classes);
    for (int32_t c = 0; c < classes; c++)
        scores[c] *= scale;
}

void cst_softmax(int32_t classes, double *scores) {
    softmax(classes, scores);
}

CST_KERNEL(add_scaled_f32,
           (const float *restrict x, int64_t count, double weight, double *restrict z),
           (x, count, weight, z)) {
    for (int64_t e = 0; e < count; e++)
        z[e] += weight * (double)x[e];
}

void cst_add_scaled_f32(const float *x, int64_t count, double weight, double *z) {
    add_scaled_f32(x, count, weight, z);
}

/* Four columns at a time, so that z is read and written a quarter as often. */
CST_KERNEL(add_columns,
           (const double *columns, int64_t stride, int32_t count, int64_t size,
            const double *weights, double *restrict z),
           (columns, stride, count, size, weights, z)) {
    int32_t j = 0;
    for (; j + 4 <= count; j += 4) {
        const double *restrict a = columns + j * stride;
        const double *restrict b = a + stride;
        const double *restrict c = b + stride;
        const double *restrict d = c + stride;
        double u = weights[j];
        double v = weights[j + 1];
        double w = weights[j + 2];
        double x = weights[j + 3];
        for (int64_t e = 0; e < size; e++)
            z[e] += (u * a[e] + v * b[e]) + (w * c[e] + x * d[e]);
    }
    for (; j < count; j++) {
        const double *restrict a = columns + j * stride;
        double u = weights[j];
        for (int64_t e = 0; e < size; e++)
            z[e] += u * a[e];
    }
}

void cst_add_columns(const double *columns, int64_t stride, int32_t count, int64_t size,
                     const double *weights, double *z) {
    add_columns(columns, stride, count, size, weights, z);
}

CST_KERNEL(check_row, (const float *row, int32_t classes, cst_row_check *found),
           (row, classes, found)) {
    const float low = (float)-CST_ROW_MARGIN;
    const float high = (float)(1 + CST_ROW_MARGIN);
    int32_t whole = classes - classes % LANES;
    double lane[LANES] = {0};
    int32_t outside = 0;
    int32_t beyond = 0;
    for (int32_t c = 0; c < classes; c++) {
        outside |= !(row[c] >= low) | !(row[c] <= high);
        beyond |= !(row[c] >= 0.0F) | !(row[c] <= 1.0F);
    }
    for (int32_t c = 0; c < whole; c += LANES)
        for (int32_t l = 0; l < LANES; l++)
            lane[l] += (double)row[c + l];
    for (int32_t c = whole; c < classes; c++)
        lane[c - whole] += (double)row[c];
    found->sum = cst_lanes_total(lane);
    found->outside = outside != 0;
    found->beyond = beyond != 0;
}

cst_row_check cst_check_row(const float *row, int32_t classes) {
    cst_row_check found;
    check_row(row, classes, &found);
    return found;
}
