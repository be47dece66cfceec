/* Loops for wide registers: how a body is compiled for them, and exponentials and logarithms that
 * vectorise. docs/architecture.md#sums-over-fixed-blocks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Sets of registers that loops are compiled for, narrowest first. AVX2 comes with the conversion
 * of halves (F16C). */
typedef enum { CST_REGISTERS_BASE, CST_REGISTERS_AVX2, CST_REGISTERS_AVX512 } cst_registers;

/* The widest set that the processor has. */
cst_registers cst_wide_registers(void);

#define CST_WIDE_INLINE static inline __attribute__((always_inline))
#define CST_WIDE_BODY CST_WIDE_INLINE void

/* CST_KERNEL(name, (parameters), (arguments)) { ... } defines a function compiled for SSE2 (or
 * NEON), AVX2 and AVX-512, chosen at run time. All do the same IEEE operation per element, with no
 * fused multiply-add, and so give the same bytes. */
#if defined(__x86_64__)
#define CST_WIDE_AVX2(name, parameters, arguments)                                                 \
    __attribute__((target("avx2"))) static void name##_avx2 parameters {                           \
        name##_body arguments;                                                                     \
    }
#ifdef CST_SMALL /* the library for prediction alone: without the widest set */
#define CST_WIDE(name, parameters, arguments)                                                      \
    CST_WIDE_AVX2(name, parameters, arguments)                                                     \
    static void name parameters {                                                                  \
        if (cst_wide_registers() >= CST_REGISTERS_AVX2)                                            \
            name##_avx2 arguments;                                                                 \
        else                                                                                       \
            name##_body arguments;                                                                 \
    }
#else
#define CST_WIDE(name, parameters, arguments)                                                      \
    CST_WIDE_AVX2(name, parameters, arguments)                                                     \
    __attribute__((                                                                                \
        target("avx512f,avx512bw,avx512dq,avx512vl"))) static void name##_avx512 parameters {      \
        name##_body arguments;                                                                     \
    }                                                                                              \
    static void name parameters {                                                                  \
        cst_registers registers = cst_wide_registers();                                            \
        if (registers == CST_REGISTERS_AVX512)                                                     \
            name##_avx512 arguments;                                                               \
        else if (registers == CST_REGISTERS_AVX2)                                                  \
            name##_avx2 arguments;                                                                 \
        else                                                                                       \
            name##_body arguments;                                                                 \
    }
#endif
#else
#define CST_WIDE(name, parameters, arguments)                                                      \
    static void name parameters {                                                                  \
        name##_body arguments;                                                                     \
    }
#endif
#define CST_KERNEL(name, parameters, arguments)                                                    \
    CST_WIDE_BODY name##_body parameters;                                                          \
    CST_WIDE(name, parameters, arguments)                                                          \
    CST_WIDE_BODY name##_body parameters

/* ---- arrays ---- */

/* out[i] = exp(x[i]), log(x[i]); out may be x. Within 2 ulp of the true value for every argument,
 * denormal results and arguments included. exp is 0 below where it rounds to 0 and infinite above
 * where it overflows; log(0) = -infinity, log of a negative number and of NaN is NaN. */
void cst_exp_f64(int64_t count, const double *x, double *out);
void cst_log_f64(int64_t count, const double *x, double *out);
void cst_exp_f32(int64_t count, const float *x, float *out);
void cst_log_f32(int64_t count, const float *x, float *out);

/* z[i] += weight * x[i]. */
void cst_add_scaled_f64(const double *x, int64_t count, double weight, double *z);

/* Sums and maxima in eight lanes and a fixed order. */
CST_WIDE_INLINE double cst_lanes_total(const double *lane) {
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

CST_WIDE_INLINE double cst_lanes_sum(const double *x, int32_t count) {
    double lane[8] = {0};
    int32_t whole = count - count % 8;
    for (int32_t c = 0; c < whole; c += 8)
        for (int32_t l = 0; l < 8; l++)
            lane[l] += x[c + l];
    for (int32_t c = whole; c < count; c++)
        lane[c - whole] += x[c];
    return cst_lanes_total(lane);
}

CST_WIDE_INLINE double cst_lanes_top(const double *x, int32_t count) {
    double lane[8];
    int32_t whole = count - count % 8;
    for (int32_t l = 0; l < 8; l++)
        lane[l] = x[0];
    for (int32_t c = 0; c < whole; c += 8)
        for (int32_t l = 0; l < 8; l++)
            lane[l] = x[c + l] > lane[l] ? x[c + l] : lane[l];
    for (int32_t c = whole; c < count; c++)
        lane[0] = x[c] > lane[0] ? x[c] : lane[0];
    for (int32_t l = 1; l < 8; l++)
        lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
    return lane[0];
}

/* ---- one element, inside a CST_WIDE body ---- */

/* A number from its bits. */
CST_WIDE_INLINE double cst_f64_of(uint64_t bits) {
    double x = 0;
    memcpy(&x, &bits, sizeof x);
    return x;
}
CST_WIDE_INLINE uint64_t cst_bits_f64(double x) {
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
CST_WIDE_INLINE float cst_f32_of(uint32_t bits) {
    float x = 0;
    memcpy(&x, &bits, sizeof x);
    return x;
}
CST_WIDE_INLINE uint32_t cst_bits_f32(float x) {
    uint32_t bits = 0;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The four below have no comparisons of floating-point numbers: those might trap, for which
 * compilers would keep branches. Where x < y for unsigned integers below 2^(bits - 1), the top bit
 * of x - y is set, and 0 - (that bit) is a mask. */
CST_WIDE_INLINE uint64_t cst_least_u64(uint64_t a, uint64_t b) {
    uint64_t less = 0 - ((a - b) >> 63);
    return (a & less) | (b & ~less);
}
CST_WIDE_INLINE uint32_t cst_least_u32(uint32_t a, uint32_t b) {
    uint32_t less = 0 - ((a - b) >> 31);
    return (a & less) | (b & ~less);
}

/* x = n log 2 + r with |r| <= log(2)/2; exp(r) by a polynomial (error 2e-17), then times 2^n in two
 * steps, each with a power that is a normal number, so that one rounding makes a denormal. Adding
 * 1.5 * 2^52 rounds to the nearest integer and leaves it in the low bits. */
CST_WIDE_INLINE double cst_exp_one_f64(double x) {
    const uint64_t sign = UINT64_C(1) << 63;
    uint64_t size = cst_bits_f64(x) & ~sign;
    uint64_t nan = 0 - ((UINT64_C(0x7ff0000000000000) - size) >> 63);
    size = cst_least_u64(size, cst_bits_f64(746.0));
    x = cst_f64_of(size | (cst_bits_f64(x) & sign));
    double shifted = x * 1.4426950408889634074 + 0x1.8p52;
    double n = shifted - 0x1.8p52;
    uint64_t power = cst_bits_f64(shifted) - (cst_bits_f64(0x1.8p52) - 2048); /* n + 2048 */
    uint64_t half = (power & 4095) >> 1;
    uint64_t rest = (power & 4095) - half;
    double r = x - n * 0x1.62e42feep-1; /* the high part of log 2: the product is exact */
    r = r - n * 0x1.a39ef35793c76p-33;
    double series = 0x1.af38a9b0ec855p-26;
    series = series * r + 0x1.289185613a3d6p-22;
    series = series * r + 0x1.71de0dae63bb3p-19;
    series = series * r + 0x1.a019b90d2ae7ap-16;
    series = series * r + 0x1.a01a01a7c41d5p-13;
    series = series * r + 0x1.6c16c1788bd90p-10;
    series = series * r + 0x1.11111111109b3p-7;
    series = series * r + 0x1.5555555553d63p-5;
    series = series * r + 0x1.5555555555556p-3;
    series = series * r + 0x1.0000000000001p-1;
    series = 1.0 + (r + r * r * series);
    series = series * cst_f64_of((half - 1) << 52) * cst_f64_of((rest - 1) << 52);
    return cst_f64_of(cst_bits_f64(series) | nan);
}

/* In float32: the polynomial's error is 1e-8. */
CST_WIDE_INLINE float cst_exp_one_f32(float x) {
    const uint32_t sign = UINT32_C(1) << 31;
    uint32_t size = cst_bits_f32(x) & ~sign;
    uint32_t nan = 0 - ((UINT32_C(0x7f800000) - size) >> 31);
    size = cst_least_u32(size, cst_bits_f32(104.0F));
    x = cst_f32_of(size | (cst_bits_f32(x) & sign));
    float shifted = x * 1.44269504F + 0x1.8p23F;
    float n = shifted - 0x1.8p23F;
    uint32_t power = cst_bits_f32(shifted) - (cst_bits_f32(0x1.8p23F) - 256); /* n + 256 */
    uint32_t half = (power & 511) >> 1;
    uint32_t rest = (power & 511) - half;
    float r = x - n * 0.693359375F; /* the high part of log 2: the product is exact */
    r = r - n * -2.12194440e-4F;
    float series = 0x1.6d117cp-10F;
    series = series * r + 0x1.120be2p-7F;
    series = series * r + 0x1.555518p-5F;
    series = series * r + 0x1.5554dcp-3F;
    series = series * r + 0.5F;
    series = 1.0F + (r + r * r * series);
    series = series * cst_f32_of((half - 1) << 23) * cst_f32_of((rest - 1) << 23);
    return cst_f32_of(cst_bits_f32(series) | nan);
}

/* x = 2^e m with m in [sqrt(1/2), sqrt(2)); with f = m - 1 and s = f / (2 + f), log m = f - f^2/2 +
 * s (f^2/2 + R(s^2)), R as in FreeBSD's msun. The distance from sqrt(1/2) to 1, added to the bits,
 * carries into the exponent where the mantissa is beyond sqrt(2). A denormal argument is scaled. */
CST_WIDE_INLINE double cst_log_one_f64(double x) {
    const uint64_t to_one = UINT64_C(0x3ff0000000000000) - UINT64_C(0x3fe6a09e667f3bcd);
    const uint64_t given = cst_bits_f64(x);
    const uint64_t denormal = (given - UINT64_C(0x0010000000000000)) >> 63; /* 1 or 0 */
    uint64_t bits = cst_bits_f64(x * cst_f64_of(cst_bits_f64(1.0) + (denormal << 58)));
    uint64_t power = (bits + to_one) >> 52;
    double f = cst_f64_of(bits - (power << 52) + UINT64_C(0x3ff0000000000000)) - 1.0;
    double e = cst_f64_of((power + 4096 - (denormal << 6)) | UINT64_C(0x4330000000000000)) -
               (0x1p52 + 4096.0 + 1023.0);
    double s = f / (2.0 + f);
    double z = s * s;
    double series = 1.479819860511658591e-01;
    series = series * z + 1.531383769920937332e-01;
    series = series * z + 1.818357216161805012e-01;
    series = series * z + 2.222219843214978396e-01;
    series = series * z + 2.857142874366239149e-01;
    series = series * z + 3.999999999940941908e-01;
    series = series * z + 6.666666666666735130e-01;
    series = series * z;
    double half = 0.5 * f * f;
    double value =
        e * 0x1.62e42feep-1 - ((half - (s * (half + series) + e * 0x1.a39ef35793c76p-33)) - f);
    const uint64_t infinity = UINT64_C(0x7ff0000000000000);
    const uint64_t large = 0 - ((infinity - 1 - given) >> 63); /* infinity and NaN: themselves */
    const uint64_t twice = given << 1;
    const uint64_t zero = ((twice | (0 - twice)) >> 63) - 1;
    bits = (cst_bits_f64(value) & ~large) | (given & large);
    bits |= 0 - (given >> 63); /* negative: NaN */
    bits = (bits & ~zero) | ((infinity | UINT64_C(1) << 63) & zero);
    return cst_f64_of(bits);
}

/* The logarithm of a positive normal number given by its bits, less 32 log 2 if `denormal` is 1. */
CST_WIDE_INLINE float cst_log_of_bits_f32(uint32_t bits, uint32_t denormal) {
    const uint32_t to_one = UINT32_C(0x3f800000) - UINT32_C(0x3f3504f3);
    const uint32_t power = (bits + to_one) >> 23;
    float f = cst_f32_of(bits - (power << 23) + UINT32_C(0x3f800000)) - 1.0F;
    float e = cst_f32_of((power + 512 - (denormal << 5)) | UINT32_C(0x4b000000)) -
              (0x1p23F + 512.0F + 127.0F);
    float s = f / (2.0F + f);
    float z = s * s;
    float series = 0xf89e26.0p-26F;
    series = series * z + 0x91e9ee.0p-25F;
    series = series * z + 0xccce13.0p-25F;
    series = series * z + 0xaaaaaa.0p-24F;
    series = series * z;
    float half = 0.5F * f * f;
    return e * 6.9313812256e-01F - ((half - (s * (half + series) + e * 9.0580006145e-06F)) - f);
}

/* The logarithm of a positive, normal, finite number, in two thirds of the time. */
CST_WIDE_INLINE float cst_log_normal_f32(float x) {
    return cst_log_of_bits_f32(cst_bits_f32(x), 0);
}

CST_WIDE_INLINE float cst_log_one_f32(float x) {
    const uint32_t given = cst_bits_f32(x);
    const uint32_t denormal = (given - UINT32_C(0x00800000)) >> 31; /* 1 or 0 */
    uint32_t bits = cst_bits_f32(x * cst_f32_of(cst_bits_f32(1.0F) + (denormal << 28)));
    float value = cst_log_of_bits_f32(bits, denormal);
    const uint32_t infinity = UINT32_C(0x7f800000);
    const uint32_t large = 0 - ((infinity - 1 - given) >> 31); /* infinity and NaN: themselves */
    const uint32_t twice = given << 1;
    const uint32_t zero = ((twice | (0 - twice)) >> 31) - 1;
    bits = (cst_bits_f32(value) & ~large) | (given & large);
    bits |= 0 - (given >> 31); /* negative: NaN */
    bits = (bits & ~zero) | ((infinity | UINT32_C(1) << 31) & zero);
    return cst_f32_of(bits);
}
