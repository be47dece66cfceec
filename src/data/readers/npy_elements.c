/* Elements of arrays as numbers: floats of every width, integers, byte order. */
#include "core/wide.h"
#include "data/readers/npy.h"

#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

int64_t cst_npy_bad_bool(const unsigned char *bytes, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (bytes[i] > 1)
            return i;
    return -1;
}

/* IEEE half to single, exact, without float arithmetic on subnormals. */
static inline float half_to_float(uint16_t half) {
    uint32_t rest = (uint32_t)(half & 0x7fff) << 13;
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t bits = rest + (112u << 23);
    float value = 0;
    if ((half & 0x7c00) == 0x7c00)
        bits = rest | 0x7f800000u;
    else if ((half & 0x7c00) == 0) {
        bits = rest | (113u << 23);
        memcpy(&value, &bits, sizeof value);
        value -= 0x1p-14f;
        memcpy(&bits, &value, sizeof bits);
    }
    bits |= sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float cst_of_half(uint16_t half) {
    return half_to_float(half);
}

#define LOAD(bits)                                                                                 \
    static inline uint##bits##_t load##bits(const unsigned char *p, bool swapped) {                \
        uint##bits##_t v = 0;                                                                      \
        memcpy(&v, p, sizeof v);                                                                   \
        return swapped ? __builtin_bswap##bits(v) : v;                                             \
    }
LOAD(16)
LOAD(32)
LOAD(64)
static inline float float_of(uint32_t bits) {
    float value = 0;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline double load_f64(const unsigned char *p, bool swapped) {
    uint64_t bits = load64(p, swapped);
    double value = 0;
    memcpy(&value, &bits, sizeof value);
    return value;
}

int64_t cst_npy_integer(const cst_npy *npy, const unsigned char *p, bool *beyond) {
    bool is_signed = npy->kind == CST_NPY_INT;
    switch (npy->item) {
    case 1:
        return is_signed ? (int64_t)(int8_t)*p : (int64_t)*p;
    case 2: {
        uint16_t v = load16(p, npy->swapped);
        return is_signed ? (int64_t)(int16_t)v : (int64_t)v;
    }
    case 4: {
        uint32_t v = load32(p, npy->swapped);
        return is_signed ? (int64_t)(int32_t)v : (int64_t)v;
    }
    default: {
        uint64_t v = load64(p, npy->swapped);
        *beyond = !is_signed && v > (uint64_t)INT64_MAX;
        return (int64_t)v;
    }
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
/* The exact conversion by the processor; all with AVX2 have it. */
__attribute__((target("avx2,f16c"))) static void halves_f16c(const unsigned char *raw, size_t count,
                                                             float *out) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m128i eight = _mm_loadu_si128((const __m128i *)(const void *)(raw + 2 * i));
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(eight));
    }
    for (; i < count; i++)
        out[i] = half_to_float(load16(raw + 2 * i, false));
}
#endif

bool cst_npy_is_f32(const cst_npy *npy) {
    return npy->kind == CST_NPY_BFLOAT || (npy->kind == CST_NPY_FLOAT && npy->item <= 4);
}

static void decode_narrow(const cst_npy *npy, const unsigned char *raw, size_t count, float *out) {
    bool swapped = npy->swapped;
    if (npy->item == 4 && !swapped)
        memcpy(out, raw, count * sizeof *out);
    else if (npy->item == 4)
        for (size_t i = 0; i < count; i++)
            out[i] = float_of(load32(raw + 4 * i, true));
    else if (npy->kind == CST_NPY_BFLOAT)
        for (size_t i = 0; i < count; i++)
            out[i] = float_of((uint32_t)load16(raw + 2 * i, swapped) << 16);
#if defined(__x86_64__) && defined(__GNUC__)
    else if (!swapped && cst_wide_registers() != CST_REGISTERS_BASE)
        halves_f16c(raw, count, out);
#endif
    else
        for (size_t i = 0; i < count; i++)
            out[i] = half_to_float(load16(raw + 2 * i, swapped));
}

void cst_npy_decode_f64(const cst_npy *npy, const unsigned char *raw, size_t count, double *out) {
    bool swapped = npy->swapped;
    if (npy->kind == CST_NPY_FLOAT && npy->item == 4)
        for (size_t i = 0; i < count; i++)
            out[i] = (double)float_of(load32(raw + 4 * i, swapped));
    else if (npy->kind == CST_NPY_BFLOAT)
        for (size_t i = 0; i < count; i++)
            out[i] = (double)float_of((uint32_t)load16(raw + 2 * i, swapped) << 16);
    else if (npy->kind == CST_NPY_FLOAT && npy->item == 2)
        for (size_t i = 0; i < count; i++)
            out[i] = (double)half_to_float(load16(raw + 2 * i, swapped));
    else if (npy->kind == CST_NPY_FLOAT)
        for (size_t i = 0; i < count; i++)
            out[i] = load_f64(raw + 8 * i, swapped);
    else if (npy->kind == CST_NPY_INT && npy->item == 4)
        for (size_t i = 0; i < count; i++)
            out[i] = (double)(int32_t)load32(raw + 4 * i, swapped);
    else
        for (size_t i = 0; i < count; i++) {
            bool beyond = false;
            int64_t value = cst_npy_integer(npy, raw + npy->item * i, &beyond);
            out[i] = beyond ? (double)(uint64_t)value : (double)value;
        }
}

void cst_npy_decode_f32(const cst_npy *npy, const unsigned char *raw, size_t count, float *out) {
    double chunk[256];
    if (cst_npy_is_f32(npy)) {
        decode_narrow(npy, raw, count, out);
        return;
    }
    for (size_t i = 0; i < count; i += 256) {
        size_t part = count - i < 256 ? count - i : 256;
        cst_npy_decode_f64(npy, raw + i * npy->item, part, chunk);
        for (size_t j = 0; j < part; j++)
            out[i + j] = (float)chunk[j];
    }
}
