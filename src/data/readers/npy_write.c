/* Writes .npy version 1.0, whole or not at all, from memory or piece by piece. */
#include "data/readers/npy.h"

#include <inttypes.h>
#include <string.h>

/* Bytes before the data: 128, as NumPy has them, or 256 of what is written in pieces. */
enum { HEADER_BYTES = CST_NPY_HEADER, STREAM_HEADER_BYTES = 256, PREFIX_BYTES = 10, DIMS_MAX = 5 };

static const struct {
    char kind;
    int item;
} TYPES[] = {[CST_NPY_F32] = {'f', 4},
             [CST_NPY_F16] = {'f', 2},
             [CST_NPY_U8] = {'u', 1},
             [CST_NPY_U16] = {'u', 2},
             [CST_NPY_I32] = {'i', 4}};

void cst_npy_header(char *header, size_t bytes, cst_npy_type type, const int64_t *shape, int dims) {
    char dict[STREAM_HEADER_BYTES];
    char lengths[DIMS_MAX * 24 + 4] = "";
    char order = type == CST_NPY_U8 ? '|' : __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? '>' : '<';
    for (int i = 0; i < dims; i++) {
        size_t used = strlen(lengths);
        (void)cst_snprintf(lengths + used, sizeof lengths - used, "%s%" PRId64 "%s", i ? " " : "",
                           shape[i], i + 1 < dims || dims == 1 ? "," : "");
    }
    memset(header, ' ', bytes);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)(unsigned char)(bytes - PREFIX_BYTES);
    header[9] = 0;
    int length = cst_snprintf(dict, sizeof dict,
                              "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (%s), }", order,
                              TYPES[type].kind, TYPES[type].item, lengths);
    memcpy(header + PREFIX_BYTES, dict, (size_t)length);
    header[bytes - 1] = '\n';
}

static cst_status put_header(cst_context *context, cst_output_file *output, size_t bytes,
                             cst_npy_type type, const int64_t *shape, int dims) {
    char header[STREAM_HEADER_BYTES];
    cst_npy_header(header, bytes, type, shape, dims);
    return cst_output_write(context, output, header, bytes);
}

static cst_status write_array(cst_context *context, const char *path, cst_npy_type type,
                              const int64_t *shape, int dims, const void *data) {
    size_t bytes = (size_t)TYPES[type].item;
    char text[80] = "";
    bool fits = true;
    for (int i = 0; i < dims; i++) {
        size_t used = strlen(text);
        fits = fits && shape[i] >= 0 && cst_size_mul(bytes, (size_t)shape[i], &bytes);
        (void)cst_snprintf(text + used, sizeof text - used, "%s%" PRId64, i ? " x " : "", shape[i]);
    }
    if (!fits)
        return cst_fail(context, CST_ERROR_LIMIT, "%s: %s of %s cannot be written", path,
                        dims == 1 ? "a vector" : "an array", text);
    cst_output_file *output = NULL;
    CST_TRY(cst_output_open(context, &output, path));
    /* a single column is a vector: values of a regression with one output */
    dims = dims == 2 && shape[1] == 1 ? 1 : dims;
    cst_status status = put_header(context, output, HEADER_BYTES, type, shape, dims);
    CST_THEN(cst_output_write(context, output, data, bytes));
    return cst_output_end(context, output, status);
}

cst_status cst_npy_write_f32(cst_context *context, const char *path, const float *data,
                             int64_t rows, int64_t columns) {
    return write_array(context, path, CST_NPY_F32, (int64_t[]){rows, columns}, 2, data);
}

cst_status cst_npy_write_pages_f32(cst_context *context, const char *path, const float *data,
                                   int64_t pages, int64_t rows, int64_t columns) {
    return write_array(context, path, CST_NPY_F32, (int64_t[]){pages, rows, columns}, 3, data);
}

cst_status cst_npy_write_i32(cst_context *context, const char *path, const int32_t *data,
                             int64_t count) {
    return write_array(context, path, CST_NPY_I32, &count, 1, data);
}

cst_status cst_npy_begin(cst_context *context, cst_output_file **out, const char *path,
                         cst_npy_type type, const int64_t *shape, int dims) {
    CST_TRY(cst_output_open(context, out, path));
    cst_status status = put_header(context, *out, STREAM_HEADER_BYTES, type, shape, dims);
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
