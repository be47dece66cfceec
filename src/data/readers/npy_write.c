/*
 * Writing .npy version 1.0: float32 matrices and int32 vectors, whole or not at all. The last step
 * of predict and folds.
 */
#include "data/files/output.h"
#include "data/readers/npy.h"

#include <inttypes.h>
#include <string.h>

enum { HEADER_BYTES = 128, PREFIX_BYTES = 10 };

/* Magic, version, length and dict, padded so that the data start at byte 128 as NumPy does. */
static void make_header(char header[HEADER_BYTES], char kind, const char *shape) {
    memset(header, ' ', HEADER_BYTES);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = HEADER_BYTES - PREFIX_BYTES;
    header[9] = 0;
    char dict[HEADER_BYTES - PREFIX_BYTES];
    char order = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? '>' : '<';
    int length =
        cst_snprintf(dict, sizeof dict, "{'descr': '%c%c4', 'fortran_order': False, 'shape': %s, }",
                     order, kind, shape);
    memcpy(header + PREFIX_BYTES, dict, (size_t)length);
    header[HEADER_BYTES - 1] = '\n';
}

static cst_status write_array(cst_context *context, const char *path, char kind, const char *shape,
                              const void *data, size_t bytes) {
    char header[HEADER_BYTES];
    make_header(header, kind, shape);
    cst_output_file *output = NULL;
    cst_status status = cst_output_open(context, &output, path);
    if (status != CST_OK)
        return status;
    status = cst_output_write(context, output, header, sizeof header);
    CST_THEN(cst_output_write(context, output, data, bytes));
    if (status == CST_OK)
        return cst_output_commit(context, output);
    cst_output_abort(context, output);
    return status;
}

cst_status cst_npy_write_f32(cst_context *context, const char *path, const float *data,
                             int64_t rows, int64_t columns) {
    char shape[64];
    size_t bytes = 0;
    if (rows < 0 || columns < 0 || !cst_size_mul((size_t)rows, (size_t)columns, &bytes) ||
        !cst_size_mul(bytes, sizeof *data, &bytes))
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: an array of %" PRId64 " x %" PRId64 " cannot be written", path, rows,
                        columns);
    if (columns == 1) /* values of a regression with one output */
        (void)cst_snprintf(shape, sizeof shape, "(%" PRId64 ",)", rows);
    else
        (void)cst_snprintf(shape, sizeof shape, "(%" PRId64 ", %" PRId64 ")", rows, columns);
    return write_array(context, path, 'f', shape, data, bytes);
}

cst_status cst_npy_write_pages_f32(cst_context *context, const char *path, const float *data,
                                   int64_t pages, int64_t rows, int64_t columns) {
    char shape[96];
    size_t bytes = 0;
    if (pages < 0 || rows < 0 || columns < 0 ||
        !cst_size_mul((size_t)rows, (size_t)columns, &bytes) ||
        !cst_size_mul(bytes, (size_t)pages, &bytes) || !cst_size_mul(bytes, sizeof *data, &bytes))
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: an array of %" PRId64 " x %" PRId64 " x %" PRId64 " cannot be written",
                        path, pages, rows, columns);
    (void)cst_snprintf(shape, sizeof shape, "(%" PRId64 ", %" PRId64 ", %" PRId64 ")", pages, rows,
                       columns);
    return write_array(context, path, 'f', shape, data, bytes);
}

cst_status cst_npy_write_i32(cst_context *context, const char *path, const int32_t *data,
                             int64_t count) {
    char shape[32];
    size_t bytes = 0;
    if (count < 0 || !cst_size_mul((size_t)count, sizeof *data, &bytes))
        return cst_fail(context, CST_ERROR_LIMIT, "%s: a vector of %" PRId64 " cannot be written",
                        path, count);
    (void)cst_snprintf(shape, sizeof shape, "(%" PRId64 ",)", count);
    return write_array(context, path, 'i', shape, data, bytes);
}
