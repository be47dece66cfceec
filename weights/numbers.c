/* Reading, checking and rounding the numbers of checkpoints. */
#include "weights/numbers.h"

#include "data/readers/npy_write.h"

#include <math.h>
#include <string.h>

cst_status cst_weights_read(cst_context *context, const cst_safetensors *file, int64_t tensor,
                            int64_t first, int64_t count, unsigned char *raw, double *out) {
    cst_npy element;
    if (!cst_dtype_element(cst_safetensors_dtype(file, tensor), &element))
        return cst_fail(context, CST_ERROR_INTERNAL, "a tensor that cannot be averaged is read");
    int64_t item = (int64_t)element.item;
    cst_status status =
        cst_safetensors_read(context, file, tensor, first * item, count * item, raw);
    if (status == CST_OK)
        cst_npy_decode_f64(&element, raw, (size_t)count, out);
    return status;
}

/* The least magnitude that a dtype rounds to infinity. */
static double beyond(cst_dtype dtype) {
    switch (dtype) {
    case CST_DTYPE_F16:
        return 65520;
    case CST_DTYPE_BF16:
        return 0x1.ffp127;
    case CST_DTYPE_F32:
        return 0x1.ffffffp127;
    default:
        return INFINITY;
    }
}

int64_t cst_weights_bad(const double *values, int64_t count, cst_dtype dtype) {
    double limit = beyond(dtype);
    int64_t good = 0; /* a loop without an exit can be vectorised */
    for (int64_t i = 0; i < count; i++)
        good += fabs(values[i]) < limit;
    for (int64_t i = 0; good < count && i < count; i++)
        if (!(fabs(values[i]) < limit))
            return i;
    return -1;
}

cst_status cst_weights_blame(cst_context *context, const cst_checkpoints *checkpoints,
                             int64_t place, int64_t first, int64_t count, unsigned char *raw,
                             double *values) {
    char quoted[CST_QUOTE_CHARS];
    for (int32_t k = 0; k < checkpoints->count; k++) {
        cst_status status = cst_weights_read(context, checkpoints->files[k],
                                             cst_checkpoints_tensor(checkpoints, k, place), first,
                                             count, raw, values);
        if (status != CST_OK)
            return status;
        int64_t at = cst_weights_bad(values, count, CST_DTYPE_F64);
        if (at >= 0)
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s: tensor '%s': element %lld is %s; a network that diverged cannot "
                            "be averaged, so leave the file out",
                            cst_checkpoints_path(checkpoints, k),
                            cst_quote(quoted, cst_checkpoints_name(checkpoints, place)),
                            (long long)(first + at),
                            isnan(values[at]) ? "not a number" : "infinite");
    }
    return CST_OK;
}

/* Rounds to odd: rounding the result further, to fewer bits, gives what rounding the double would.
 * What is cut off is kept as an odd last bit. */
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

static uint16_t bfloat_of(double value) {
    float narrow = round_to_odd(value);
    uint32_t bits = 0;
    memcpy(&bits, &narrow, sizeof bits);
    if ((bits & 0x7fffffffU) > 0x7f800000U) /* NaN */
        return (uint16_t)(bits >> 16 | 0x40U);
    return (uint16_t)((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

static void put(unsigned char *to, uint64_t bits, int bytes) {
    for (int b = 0; b < bytes; b++)
        to[b] = (unsigned char)(bits >> (8 * b));
}

static void put_f32(unsigned char *to, float value) {
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    put(to, bits, 4);
}

static void put_f64(unsigned char *to, double value) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    put(to, bits, 8);
}

void cst_weights_store(cst_dtype dtype, const double *values, int64_t count, unsigned char *raw) {
    for (int64_t i = 0; i < count && dtype == CST_DTYPE_F16; i++)
        put(raw + 2 * i, cst_half_of(round_to_odd(values[i])), 2);
    for (int64_t i = 0; i < count && dtype == CST_DTYPE_BF16; i++)
        put(raw + 2 * i, bfloat_of(values[i]), 2);
    for (int64_t i = 0; i < count && dtype == CST_DTYPE_F32; i++)
        put_f32(raw + 4 * i, (float)values[i]);
    for (int64_t i = 0; i < count && dtype == CST_DTYPE_F64; i++)
        put_f64(raw + 8 * i, values[i]);
}
