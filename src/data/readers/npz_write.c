/* Writes lists of classes as an npz, some rows at a time: arrays that are stored, not deflated, so
 * that they are read in place. docs/topk.md#prediction. */
#include "data/readers/npz_write.h"

#include "data/readers/npy.h"

#include <string.h>
#include <zlib.h>

enum { ARRAYS = 3, VERSION = 45, LOCAL = 30, CENTRAL = 46, LOCAL_64 = 20, CENTRAL_64 = 28 };

typedef struct array {
    const char *name;
    char header[CST_NPY_HEADER];
    size_t width;    /* bytes of a row */
    uint64_t bytes;  /* of the data */
    uint64_t offset; /* of the local header */
    uLong sum;       /* CRC of the header and of the rows so far */
} array;

struct cst_topk_file {
    cst_output_file *output;
    array arrays[ARRAYS];
    uint64_t end; /* of the arrays */
};

/* `bytes` bytes, the low one first. */
static char *put(char *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        *to++ = (char)(unsigned char)(value >> (8 * i));
    return to;
}

/* What both headers of an array have between the version and the length of the name. */
static char *put_facts(char *to, const array *a) {
    to = put(to, 0, 4);          /* no flags, stored */
    to = put(to, 0x00210000, 4); /* 1 January 1980 */
    to = put(to, a->sum, 4);
    to = put(to, 0xffffffff, 4); /* sizes of 64 bits follow */
    to = put(to, 0xffffffff, 4);
    return put(to, strlen(a->name), 2);
}

/* The sizes, and (central) where the local header is. */
static char *put_sizes(char *to, const array *a, bool central) {
    uint64_t size = sizeof a->header + a->bytes;
    to = put(put(to, 1, 2), (central ? CENTRAL_64 : LOCAL_64) - 4, 2);
    to = put(put(to, size, 8), size, 8);
    return central ? put(to, a->offset, 8) : to;
}

/* Bytes before the rows of an array. */
static size_t head_bytes(const array *a) {
    return LOCAL + strlen(a->name) + LOCAL_64 + sizeof a->header;
}

static cst_status put_head(cst_context *context, cst_output_file *output, const array *a) {
    char head[LOCAL + 16 + LOCAL_64 + CST_NPY_HEADER];
    char *to = put(put(head, 0x04034b50, 4), VERSION, 2);
    to = put(put_facts(to, a), LOCAL_64, 2);
    memcpy(to, a->name, strlen(a->name));
    to = put_sizes(to + strlen(a->name), a, false);
    memcpy(to, a->header, sizeof a->header);
    return cst_output_write_at(context, output, a->offset, head, head_bytes(a));
}

/* The directory after the arrays, with its ends of 64 and 32 bits. */
static cst_status put_directory(cst_context *context, const cst_topk_file *file) {
    char all[ARRAYS * (CENTRAL + 16 + CENTRAL_64) + 128];
    char *to = all;
    for (int i = 0; i < ARRAYS; i++) {
        const array *a = &file->arrays[i];
        to = put(put(put(to, 0x02014b50, 4), VERSION, 2), VERSION, 2);
        to = put(put_facts(to, a), CENTRAL_64, 2);
        to = put(put(put(to, 0, 8), 0, 2), 0xffffffff, 4); /* no comment, disk, attributes */
        memcpy(to, a->name, strlen(a->name));
        to = put_sizes(to + strlen(a->name), a, true);
    }
    uint64_t size = (uint64_t)(to - all);
    to = put(put(put(put(to, 0x06064b50, 4), 44, 8), VERSION, 2), VERSION, 2);
    to = put(put(put(to, 0, 8), ARRAYS, 8), ARRAYS, 8);
    to = put(put(to, size, 8), file->end, 8);
    to = put(put(put(put(to, 0x07064b50, 4), 0, 4), file->end + size, 8), 1, 4);
    to = put(put(put(put(to, 0x06054b50, 4), 0, 4), ARRAYS, 2), ARRAYS, 2);
    to = put(put(put(to, size, 4), 0xffffffff, 4), 0, 2);
    return cst_output_write_at(context, file->output, file->end, all, (size_t)(to - all));
}

cst_status cst_topk_file_open(cst_context *context, cst_scope *scope, const char *path,
                              int64_t rows, int64_t top, cst_topk_file **out) {
    static const char *const names[] = {"indices.npy", "logprobs.npy", "rest.npy"};
    const int64_t shape[] = {rows, top};
    CST_NEW(context, scope, cst_topk_file, file, 1);
    for (int i = 0; i < ARRAYS; i++) {
        array *a = &file->arrays[i];
        a->name = names[i];
        a->width = (i == 2 ? 1 : (size_t)top) * sizeof(float);
        a->bytes = (uint64_t)rows * a->width;
        a->offset = file->end;
        cst_npy_header(a->header, sizeof a->header, i == 0 ? CST_NPY_I32 : CST_NPY_F32, shape,
                       i == 2 ? 1 : 2);
        a->sum = crc32_z(0, (const unsigned char *)a->header, sizeof a->header);
        file->end += head_bytes(a) + a->bytes;
    }
    CST_TRY(cst_output_open(context, &file->output, path));
    *out = file;
    if (cst_output_is_file(file->output))
        return CST_OK;
    return cst_topk_file_end(context, file,
                             cst_fail(context, CST_ERROR_ARGUMENT,
                                      "%s: lists of the likeliest classes are written to a file, "
                                      "not to a pipe or a device: name a file",
                                      path));
}

cst_status cst_topk_file_put(cst_context *context, cst_topk_file *file, int64_t first,
                             const cst_topk *some) {
    const void *const data[] = {some->indices, some->logprobs, some->rest};
    for (int i = 0; i < ARRAYS; i++) {
        array *a = &file->arrays[i];
        size_t bytes = (size_t)some->rows * a->width;
        a->sum = crc32_z(a->sum, data[i], bytes);
        CST_TRY(cst_output_write_at(context, file->output,
                                    a->offset + head_bytes(a) + (uint64_t)first * a->width, data[i],
                                    bytes));
    }
    return CST_OK;
}

cst_status cst_topk_file_end(cst_context *context, cst_topk_file *file, cst_status status) {
    for (int i = 0; status == CST_OK && i < ARRAYS; i++)
        status = put_head(context, file->output, &file->arrays[i]);
    CST_THEN(put_directory(context, file));
    return cst_output_end(context, file->output, status);
}
