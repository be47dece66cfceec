/* Opens an array: npy, a member of an archive, a tensor, or several files as one. Parts stay open
 * as long as the process has descriptors to spare. */
#include "data/readers/npy.h"

#include "core/scope.h"
#include "data/readers/safetensors.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>

static void close_array(cst_context *context, void *closed) {
    cst_npy *npy = closed;
    cst_bytes_close(context, npy->source);
    cst_free(context, npy->raw);
}

static cst_status make(cst_context *context, cst_scope *scope, cst_npy **out) {
    CST_TAKE(context, scope, *out, 1);
    (*out)->row_axes = 1;
    return cst_scope_own(context, scope, close_array, *out);
}

cst_status cst_npy_open_usual(cst_context *context, cst_scope *scope, cst_npy **out,
                              const char *path, const char *usual, uint64_t zip_limit) {
    cst_status status = CST_ERROR_INPUT;
    cst_npy *npy;
    CST_SCOPE(own);
    *out = NULL;
    CST_TRY(make(context, scope, &npy));
    if (cst_path_is_safetensors(path)) {
        CST_TRY(cst_safetensors_as_npy(context, npy, path));
        *out = npy;
        return CST_OK;
    }
    if (usual) {
        const char *inner = cst_take_format(context, own, "%s#%s", path, usual);
        status = inner ? cst_bytes_open(context, &npy->source, inner, zip_limit) : CST_ERROR_MEMORY;
    }
    if (status == CST_ERROR_INPUT)
        status = cst_bytes_open(context, &npy->source, path, zip_limit);
    CST_TRY(status);
    CST_TRY(cst_npy_read_header(context, npy));
    *out = npy;
    return CST_OK;
}

cst_status cst_npy_open(cst_context *context, cst_scope *scope, cst_npy **out, const char *path,
                        uint64_t zip_limit) {
    return cst_npy_open_usual(context, scope, out, path, NULL, zip_limit);
}

/* ---- parts ---- */

typedef struct cst_npy_part {
    cst_npy *open; /* NULL: opened to be read */
    cst_npy_kind kind;
    size_t item;
    bool swapped;
    bool plain; /* its elements are those of the whole as they are */
} part;

/* Open parts of the process: descriptors are few. */
static atomic_long kept_open;

static bool may_stay_open(void) {
    struct rlimit limit;
    long room = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 1 << 20
                    ? (long)limit.rlim_cur / 4
                    : 1 << 18;
    if (atomic_fetch_add(&kept_open, 1) < room)
        return true;
    atomic_fetch_sub(&kept_open, 1);
    return false;
}

static void close_parts(cst_context *context, void *closed) {
    cst_npy_parts *parts = closed;
    (void)context;
    atomic_fetch_sub(&kept_open, parts->kept);
    cst_scope_free(&parts->turn);
    cst_scope_free(&parts->scope);
}

static cst_status open_again(cst_context *context, cst_scope *scope, const cst_npy_parts *parts,
                             int64_t k, cst_npy **out) {
    const char *path = parts->rows.files->paths[k];
    const part *before = &parts->list[k];
    CST_TRY(cst_npy_open(context, scope, out, path, parts->zip_limit));
    const cst_npy *now = *out;
    if (now->dims > 0 && now->shape[0] == parts->rows.first[k + 1] - parts->rows.first[k] &&
        now->kind == before->kind && now->item == before->item && now->swapped == before->swapped)
        return CST_OK;
    return cst_fail(context, CST_ERROR_IO, "%s: was changed while it was read", path);
}

/* The part to read in order; it stays open until another one is read. */
static cst_status turn_to(cst_context *context, cst_npy *whole, int64_t k, cst_npy **out) {
    cst_npy_parts *parts = whole->parts;
    *out = parts->list[k].open;
    if (!*out && parts->current_part != k) {
        cst_scope_free(&parts->turn);
        parts->current_part = -1;
        CST_TRY(open_again(context, &parts->turn, parts, k, &parts->current));
        parts->current_part = k;
    }
    *out = *out ? *out : parts->current;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    (*out)->numbers = whole->numbers;
    (*out)->missing = whole->missing;
    return CST_OK;
}

/* The part that has row `row`, and how many of `count` rows from there are in it. */
static int64_t part_of(const cst_npy_parts *parts, int64_t row, int64_t *count) {
    int64_t k = cst_row_parts_index(&parts->rows, row);
    int64_t left = parts->rows.first[k + 1] - row;
    *count = *count < left ? *count : left;
    return k;
}

/* Rows of one part as elements of the whole. */
static cst_status fetch_part(cst_context *context, const cst_npy *whole, int64_t k,
                             const cst_npy *one, int64_t first, int64_t count, unsigned char *raw) {
    CST_SCOPE(scope);
    const part *type = &whole->parts->list[k];
    if (type->plain)
        return cst_npy_fetch(context, one, first, count, raw);
    size_t elements = (size_t)count * (size_t)cst_npy_width(one);
    CST_NEW(context, scope, unsigned char, own, elements * type->item);
    CST_TRY(cst_npy_fetch(context, one, first, count, own));
    if (whole->item == sizeof(float))
        cst_npy_decode_f32(one, own, elements, (float *)(void *)raw);
    else
        cst_npy_decode_f64(one, own, elements, (double *)(void *)raw);
    return CST_OK;
}

cst_status cst_npy_parts_fetch(cst_context *context, const cst_npy *npy, int64_t first,
                               int64_t count, unsigned char *raw) {
    const cst_npy_parts *parts = npy->parts;
    int64_t some = 0;
    CST_TRY(cst_npy_check_rows(context, npy, first, count));
    for (const int64_t end = first + count; first < end; first += some) {
        some = end - first;
        int64_t k = part_of(parts, first, &some);
        cst_npy *one = parts->list[k].open;
        CST_SCOPE(scope);
        if (!one)
            CST_TRY(open_again(context, scope, parts, k, &one));
        CST_TRY(fetch_part(context, npy, k, one, first - parts->rows.first[k], some, raw));
        raw += (size_t)some * (size_t)cst_npy_width(npy) * npy->item;
    }
    return CST_OK;
}

cst_status cst_npy_parts_read(cst_context *context, cst_npy *npy, int64_t first, int64_t count,
                              float *out, double *wide) {
    size_t width = (size_t)cst_npy_width(npy);
    int64_t some = 0;
    CST_TRY(cst_npy_check_rows(context, npy, first, count));
    for (int64_t done = 0; done < count; done += some) {
        some = count - done;
        int64_t k = part_of(npy->parts, first + done, &some);
        int64_t at = first + done - npy->parts->rows.first[k];
        cst_npy *one = NULL;
        CST_TRY(turn_to(context, npy, k, &one));
        if (wide)
            CST_TRY(cst_npy_read_rows_f64(context, one, at, some, wide + (size_t)done * width));
        else
            CST_TRY(cst_npy_read_rows_f32(context, one, at, some, out + (size_t)done * width));
    }
    return CST_OK;
}

cst_status cst_npy_parts_vector(cst_context *context, cst_npy *npy, int64_t *integers,
                                cst_strings *texts) {
    for (int64_t k = 0; k < npy->parts->rows.files->count; k++) {
        cst_npy *one = NULL;
        int64_t *values = NULL;
        int64_t some = 0;
        CST_SCOPE(scope);
        CST_TRY(turn_to(context, npy, k, &one));
        if (texts) {
            CST_TRY(cst_npy_read_strings(context, one, texts));
            continue;
        }
        CST_TRY(cst_npy_read_i64(context, scope, one, &values, &some));
        memcpy(integers + npy->parts->rows.first[k], values, (size_t)some * sizeof *values);
    }
    return CST_OK;
}

static cst_status check_part(cst_context *context, const cst_npy *whole, const char *first,
                             const cst_npy *one, const char *path) {
    char shapes[2][CST_NPY_SHAPE_CHARS];
    (void)cst_npy_shape_text(one, shapes[0]);
    bool same = one->dims == whole->dims;
    if (one->dims == 0)
        return cst_fail(context, CST_ERROR_INPUT, "%s: has shape %s; a part must have rows", path,
                        shapes[0]);
    if (one->shape[0] == 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: has shape %s, no rows; remove it from the parts", path, shapes[0]);
    for (int d = 1; same && d < one->dims; d++)
        same = one->shape[d] == whole->shape[d];
    if (!same)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: shape %s does not match shape %s of %s: parts may differ only in the "
                        "number of rows",
                        path, shapes[0], cst_npy_shape_text(whole, shapes[1]), first);
    if (cst_npy_is_text(one) != cst_npy_is_text(whole))
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: contains %s, but %s contains %s; parts must be of one kind", path,
                        cst_npy_is_text(one) ? "strings" : "numbers", first,
                        cst_npy_is_text(one) ? "numbers" : "strings");
    return CST_OK;
}

static cst_status add_part(cst_context *context, cst_npy *whole, int64_t k) {
    cst_npy_parts *parts = whole->parts;
    const cst_file_parts *files = parts->rows.files;
    bool keep = may_stay_open();
    cst_npy *one;
    CST_SCOPE(own);
    parts->kept += keep;
    CST_TRY(cst_poll_reading(context));
    CST_TRY(
        cst_npy_open(context, keep ? &parts->scope : own, &one, files->paths[k], parts->zip_limit));
    if (k == 0) {
        whole->dims = one->dims;
        memcpy(whole->shape, one->shape, sizeof whole->shape);
        whole->kind = one->kind;
        memcpy(whole->descr, one->descr, sizeof whole->descr);
    }
    CST_TRY(check_part(context, whole, files->paths[0], one, files->paths[k]));
    if (__builtin_add_overflow(parts->rows.first[k], one->shape[0], &parts->rows.first[k + 1]))
        return cst_fail(context, CST_ERROR_LIMIT, "%s: too many rows", files->name);
    parts->list[k] = (part){keep ? one : NULL, one->kind, one->item, one->swapped, false};
    parts->streams = parts->streams && cst_npy_streams(one);
    if (cst_npy_rounding(one) > parts->rounding)
        parts->rounding = cst_npy_rounding(one);
    return CST_OK;
}

/* The type of the whole: that of the parts, or one that holds each of their numbers. */
static void settle_type(cst_npy *whole) {
    int64_t count = whole->parts->rows.files->count;
    part *list = whole->parts->list;
    bool same = true;
    bool narrow = true;
    for (int64_t k = 0; k < count; k++) {
        cst_npy element = {.kind = list[k].kind, .item = list[k].item};
        same = same && list[k].kind == list->kind && list[k].item == list->item &&
               list[k].swapped == list->swapped;
        narrow = narrow && cst_npy_is_f32(&element);
    }
    whole->kind = list->kind;
    whole->item = list->item;
    whole->swapped = list->swapped;
    if (!same && !cst_npy_is_text(whole)) {
        whole->kind = CST_NPY_FLOAT;
        whole->item = narrow ? sizeof(float) : sizeof(double);
        whole->swapped = false;
    }
    for (int64_t k = 0; k < count; k++)
        list[k].plain = list[k].kind == whole->kind && list[k].item == whole->item &&
                        list[k].swapped == whole->swapped;
}

cst_status cst_npy_open_parts(cst_context *context, cst_scope *scope, cst_npy **out,
                              const cst_file_parts *files, uint64_t zip_limit) {
    cst_npy *whole;
    *out = NULL;
    CST_TRY(make(context, scope, &whole));
    CST_NEW(context, scope, cst_npy_parts, parts, 1);
    CST_TRY(cst_scope_own(context, scope, close_parts, parts));
    *parts = (cst_npy_parts){
        .rows.files = files, .streams = true, .zip_limit = zip_limit, .current_part = -1};
    whole->parts = parts;
    CST_TAKE(context, &parts->scope, parts->list, files->count);
    CST_TAKE(context, &parts->scope, parts->rows.first, files->count + 1);
    for (int64_t k = 0; k < files->count; k++)
        CST_TRY(add_part(context, whole, k));
    whole->shape[0] = parts->rows.first[files->count];
    settle_type(whole);
    *out = whole;
    return CST_OK;
}
