/* Writes an .npy piece by piece, for predictions that are larger than memory. */
#include "data/readers/npy_stream.h"

#include <inttypes.h>
#include <string.h>

enum { HEADER_BYTES = 256, PREFIX_BYTES = 10, DIMS_MAX = 5 };

static const struct {
    char kind;
    int item;
} TYPES[] = {[CST_NPY_F32] = {'f', 4},
             [CST_NPY_F16] = {'f', 2},
             [CST_NPY_U8] = {'u', 1},
             [CST_NPY_U16] = {'u', 2}};

cst_status cst_npy_begin(cst_context *context, cst_output_file **out, const char *path,
                         cst_npy_type type, const int64_t *shape, int dims) {
    char header[HEADER_BYTES];
    char dict[HEADER_BYTES];
    char lengths[DIMS_MAX * 24 + 4] = "";
    char order = type == CST_NPY_U8 ? '|' : __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? '>' : '<';
    for (int i = 0; i < dims; i++) {
        size_t used = strlen(lengths);
        (void)cst_snprintf(lengths + used, sizeof lengths - used, "%s%" PRId64 "%s", i ? " " : "",
                           shape[i], i + 1 < dims || dims == 1 ? "," : "");
    }
    memset(header, ' ', sizeof header);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)(unsigned char)(HEADER_BYTES - PREFIX_BYTES);
    header[9] = 0;
    int length = cst_snprintf(dict, sizeof dict,
                              "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (%s), }", order,
                              TYPES[type].kind, TYPES[type].item, lengths);
    memcpy(header + PREFIX_BYTES, dict, (size_t)length);
    header[HEADER_BYTES - 1] = '\n';
    cst_status status = cst_output_open(context, out, path);
    CST_THEN(cst_output_write(context, *out, header, sizeof header));
    if (status != CST_OK) {
        cst_output_abort(context, *out);
        *out = NULL;
    }
    return status;
}

uint16_t cst_half_of(float value) {
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000U);
    uint32_t magnitude = bits & 0x7fffffffU;
    if (magnitude > 0x7f800000U) /* NaN */
        return sign | 0x7e00U;
    if (magnitude >= 0x477ff000U) /* rounds beyond the largest half */
        return sign | 0x7c00U;
    if (magnitude < 0x38800000U) { /* below the least normal half: a multiple of 2^-24 */
        if (magnitude < 0x33000000U)
            return sign;
        uint32_t shift = 126 - (magnitude >> 23);
        uint32_t mantissa = (magnitude & 0x7fffffU) | 0x800000U;
        uint32_t half = mantissa >> shift;
        uint32_t rest = mantissa & ((1U << shift) - 1);
        uint32_t middle = 1U << (shift - 1);
        half += rest > middle || (rest == middle && (half & 1U));
        return (uint16_t)(sign | half);
    }
    uint32_t half = (magnitude - 0x38000000U) >> 13;
    uint32_t rest = magnitude & 0x1fffU;
    half += rest > 0x1000U || (rest == 0x1000U && (half & 1U));
    return (uint16_t)(sign | half);
}

cst_status cst_npy_put_f32(cst_context *context, cst_output_file *output, cst_npy_type type,
                           const float *values, size_t count, unsigned char *scratch) {
    if (type == CST_NPY_F32)
        return cst_output_write(context, output, values, count * sizeof *values);
    for (size_t i = 0; i < count; i++) {
        uint16_t half = cst_half_of(values[i]);
        memcpy(scratch + 2 * i, &half, sizeof half);
    }
    return cst_output_write(context, output, scratch, 2 * count);
}

cst_status cst_npy_put_labels(cst_context *context, cst_output_file *output, cst_npy_type type,
                              const int32_t *labels, size_t count, unsigned char *scratch) {
    size_t item = type == CST_NPY_U8 ? 1 : 2;
    for (size_t i = 0; i < count; i++) {
        uint16_t wide = (uint16_t)labels[i];
        if (type == CST_NPY_U8)
            scratch[i] = (unsigned char)labels[i];
        else
            memcpy(scratch + 2 * i, &wide, sizeof wide);
    }
    return cst_output_write(context, output, scratch, item * count);
}
