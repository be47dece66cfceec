/*
 * Numbers as the bytes of a tensor: rounded to the tensor's type once, ties to even. Between what
 * was computed and the writer of safetensors files. Paper: none.
 */
#include "io/npy_stream.h"
#include "weights/safetensors_write.h"

#include <math.h>
#include <string.h>

/* A double rounded to a float such that rounding that further, to fewer bits, gives what rounding
 * the double would: what is cut off is kept as an odd last bit. */
static float round_to_odd(double value) {
    float near = (float)value;
    uint32_t bits = 0;
    if (isnan(value) || (double)near == value)
        return near;
    memcpy(&bits, &near, sizeof bits);
    if (fabs((double)near) > fabs(value))
        bits--; /* towards zero */
    bits |= 1;
    memcpy(&near, &bits, sizeof near);
    return near;
}

uint16_t cst_half_of_f64(double value) {
    return cst_half_of(round_to_odd(value));
}

static inline uint16_t bfloat_of(float value) {
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffU) > 0x7f800000U) /* NaN */
        return (uint16_t)(bits >> 16 | 0x40U);
    return (uint16_t)((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

uint16_t cst_bfloat_of_f64(double value) {
    return bfloat_of(round_to_odd(value));
}

static void put_le(unsigned char *to, uint64_t bits, int bytes) {
    for (int b = 0; b < bytes; b++)
        to[b] = (unsigned char)(bits >> (8 * b));
}

static void put_f32(unsigned char *to, float value) {
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    put_le(to, bits, 4);
}

static void put_f64(unsigned char *to, double value) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    put_le(to, bits, 8);
}

/* Floats as little-endian bytes of a dtype. */
void cst_dtype_store_f32(cst_dtype dtype, const float *values, int64_t count, unsigned char *raw) {
    for (int64_t i = 0; i < count && dtype == CST_DTYPE_F16; i++)
        put_le(raw + 2 * i, cst_half_of(values[i]), 2);
    for (int64_t i = 0; i < count && dtype == CST_DTYPE_BF16; i++)
        put_le(raw + 2 * i, bfloat_of(values[i]), 2);
    for (int64_t i = 0; i < count && dtype == CST_DTYPE_F32; i++)
        put_f32(raw + 4 * i, values[i]);
    for (int64_t i = 0; i < count && dtype == CST_DTYPE_F64; i++)
        put_f64(raw + 8 * i, (double)values[i]);
}

void cst_dtype_store_f64(cst_dtype dtype, const double *values, int64_t count, unsigned char *raw) {
    for (int64_t i = 0; i < count && dtype == CST_DTYPE_F16; i++)
        put_le(raw + 2 * i, cst_half_of_f64(values[i]), 2);
    for (int64_t i = 0; i < count && dtype == CST_DTYPE_BF16; i++)
        put_le(raw + 2 * i, cst_bfloat_of_f64(values[i]), 2);
    for (int64_t i = 0; i < count && dtype == CST_DTYPE_F32; i++)
        put_f32(raw + 4 * i, (float)values[i]);
    for (int64_t i = 0; i < count && dtype == CST_DTYPE_F64; i++)
        put_f64(raw + 8 * i, values[i]);
}
