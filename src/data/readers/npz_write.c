/* Writes lists of classes as an npz: arrays that are stored, not deflated, so that they are read in
 * place. docs/topk.md#prediction. */
#include "data/readers/npy.h"

#include <corestack/topk.h>

#include <string.h>
#include <zlib.h>

enum { ARRAYS = 3, VERSION = 45, LOCAL = 30, CENTRAL = 46, LOCAL_64 = 20, CENTRAL_64 = 28 };

typedef struct array {
    const char *name;
    char header[CST_NPY_HEADER];
    const void *data;
    size_t bytes;    /* of the data */
    uint64_t offset; /* of the local header */
} array;

/* `bytes` bytes, the low one first. */
static char *put(char *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        *to++ = (char)(unsigned char)(value >> (8 * i));
    return to;
}

/* What both headers of an array have between the version and the length of the name. */
static char *put_facts(char *to, const array *a) {
    uLong sum = crc32_z(0, (const unsigned char *)a->header, sizeof a->header);
    sum = crc32_z(sum, a->data, a->bytes);
    to = put(to, 0, 4);          /* no flags, stored */
    to = put(to, 0x00210000, 4); /* 1 January 1980 */
    to = put(to, sum, 4);
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

static cst_status put_array(cst_context *context, cst_output_file *output, const array *a) {
    char head[LOCAL + 16 + LOCAL_64];
    char *to = put(put(head, 0x04034b50, 4), VERSION, 2);
    to = put(put_facts(to, a), LOCAL_64, 2);
    memcpy(to, a->name, strlen(a->name));
    to = put_sizes(to + strlen(a->name), a, false);
    CST_TRY(cst_output_write(context, output, head, (size_t)(to - head)));
    CST_TRY(cst_output_write(context, output, a->header, sizeof a->header));
    return cst_output_write(context, output, a->data, a->bytes);
}

/* The directory at `offset`, with its ends of 64 and 32 bits. */
static cst_status put_directory(cst_context *context, cst_output_file *output, const array *arrays,
                                uint64_t offset) {
    char all[ARRAYS * (CENTRAL + 16 + CENTRAL_64) + 128];
    char *to = all;
    for (int i = 0; i < ARRAYS; i++) {
        const array *a = &arrays[i];
        to = put(put(put(to, 0x02014b50, 4), VERSION, 2), VERSION, 2);
        to = put(put_facts(to, a), CENTRAL_64, 2);
        to = put(put(put(to, 0, 8), 0, 2), 0xffffffff, 4); /* no comment, disk, attributes */
        memcpy(to, a->name, strlen(a->name));
        to = put_sizes(to + strlen(a->name), a, true);
    }
    uint64_t size = (uint64_t)(to - all);
    to = put(put(put(put(to, 0x06064b50, 4), 44, 8), VERSION, 2), VERSION, 2);
    to = put(put(put(to, 0, 8), ARRAYS, 8), ARRAYS, 8);
    to = put(put(to, size, 8), offset, 8);
    to = put(put(put(put(to, 0x07064b50, 4), 0, 4), offset + size, 8), 1, 4);
    to = put(put(put(put(to, 0x06054b50, 4), 0, 4), ARRAYS, 2), ARRAYS, 2);
    to = put(put(put(to, size, 4), 0xffffffff, 4), 0, 2);
    return cst_output_write(context, output, all, (size_t)(to - all));
}

cst_status cst_write_topk(cst_context *context, const char *path, const cst_topk *topk) {
    CST_ENTER(context);
    if (!path || !topk || topk->rows < 0 || topk->top < 1 || !topk->indices || !topk->logprobs ||
        !topk->rest || !cst_size_fits(topk->rows, topk->top, sizeof *topk->indices))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_write_topk: path, arrays and their shape are required");
    const int64_t shape[] = {topk->rows, topk->top};
    size_t rows = (size_t)topk->rows;
    size_t cells = rows * (size_t)topk->top;
    array arrays[ARRAYS] = {
        {.name = "indices.npy", .data = topk->indices, .bytes = cells * sizeof *topk->indices},
        {.name = "logprobs.npy", .data = topk->logprobs, .bytes = cells * sizeof *topk->logprobs},
        {.name = "rest.npy", .data = topk->rest, .bytes = rows * sizeof *topk->rest}};
    cst_output_file *output = NULL;
    uint64_t offset = 0;
    cst_status status = cst_output_open(context, &output, path);
    for (int i = 0; status == CST_OK && i < ARRAYS; i++) {
        array *a = &arrays[i];
        cst_npy_header(a->header, sizeof a->header, i == 0 ? CST_NPY_I32 : CST_NPY_F32, shape,
                       i == 2 ? 1 : 2);
        a->offset = offset;
        status = put_array(context, output, a);
        offset += LOCAL + strlen(a->name) + LOCAL_64 + sizeof a->header + a->bytes;
    }
    CST_THEN(put_directory(context, output, arrays, offset));
    return cst_why(context, cst_output_end(context, output, status));
}
