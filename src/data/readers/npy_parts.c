/* Opens an array: npy, a member of an archive, a tensor, or several files as one. Parts stay open
 * as long as the process has descriptors to spare. */
#include "data/readers/npy.h"

#include "core/scope.h"
#include "data/readers/safetensors.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>

/* Opens the array `usual` (or NULL) if the archive has it, else `path`. */
static cst_status open_source(cst_context *context, cst_bytes **out, const char *path,
                              const char *usual, uint64_t zip_limit) {
    if (!usual)
        return cst_bytes_open(context, out, path, zip_limit);
    char *inner = cst_format(context, "%s#%s", path, usual);
    cst_status status = inner ? cst_bytes_open(context, out, inner, zip_limit) : CST_ERROR_MEMORY;
    cst_free(context, inner);
    return status == CST_ERROR_INPUT ? cst_bytes_open(context, out, path, zip_limit) : status;
}

cst_status cst_npy_open_usual(cst_context *context, cst_npy **out, const char *path,
                              const char *usual, uint64_t zip_limit) {
    *out = NULL;
    cst_npy *npy = cst_alloc(context, 1, sizeof *npy);
    if (!npy)
        return CST_ERROR_MEMORY;
    npy->row_axes = 1;
    cst_status status = CST_OK;
    if (cst_path_is_safetensors(path))
        status = cst_safetensors_as_npy(context, npy, path);
    else if ((status = open_source(context, &npy->source, path, usual, zip_limit)) == CST_OK)
        status = cst_npy_read_header(context, npy);
    if (status == CST_OK)
        *out = npy;
    else
        cst_npy_close(context, npy);
    return status;
}

cst_status cst_npy_open(cst_context *context, cst_npy **out, const char *path, uint64_t zip_limit) {
    return cst_npy_open_usual(context, out, path, NULL, zip_limit);
}

typedef struct part {
    cst_npy *open; /* NULL: opened to be read */
    cst_npy_kind kind;
    size_t item;
    bool swapped;
    bool plain; /* its elements are those of the whole as they are */
} part;

typedef struct joined {
    cst_npy_parts base; /* first: the array points to it */
    cst_scope scope;
    uint64_t zip_limit;
    part *list;       /* [count] */
    cst_npy *current; /* the part that was read last in order, where it does not stay open */
    int64_t current_part;
} joined;

static joined *joined_of(const cst_npy *npy) {
    return (joined *)npy->parts;
}

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

static void close_all(cst_context *context, cst_npy_parts *base) {
    joined *parts = (joined *)base;
    for (int64_t k = 0; parts->list && k < base->rows.files->count; k++)
        if (parts->list[k].open) {
            cst_npy_close(context, parts->list[k].open);
            atomic_fetch_sub(&kept_open, 1);
        }
    cst_npy_close(context, parts->current);
    cst_scope_free(&parts->scope);
    cst_free(context, parts);
}

static cst_status open_again(cst_context *context, const joined *parts, int64_t k, cst_npy **out) {
    const char *path = parts->base.rows.files->paths[k];
    const part *before = &parts->list[k];
    CST_TRY(cst_npy_open(context, out, path, parts->zip_limit));
    const cst_npy *now = *out;
    if (now->dims > 0 &&
        now->shape[0] == parts->base.rows.first[k + 1] - parts->base.rows.first[k] &&
        now->kind == before->kind && now->item == before->item && now->swapped == before->swapped)
        return CST_OK;
    cst_npy_close(context, *out);
    *out = NULL;
    return cst_fail(context, CST_ERROR_IO, "%s: was changed while it was read", path);
}

/* The part to read in order; it stays open until another one is read. */
static cst_status turn_to(cst_context *context, cst_npy *whole, int64_t k, cst_npy **out) {
    joined *parts = joined_of(whole);
    *out = parts->list[k].open;
    if (!*out && parts->current_part != k) {
        cst_npy_close(context, parts->current);
        parts->current = NULL;
        parts->current_part = -1;
        CST_TRY(open_again(context, parts, k, &parts->current));
        parts->current_part = k;
    }
    *out = *out ? *out : parts->current;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    (*out)->numbers = whole->numbers;
    (*out)->missing = whole->missing;
    return CST_OK;
}

/* The part that has row `row`, and how many of `count` rows from there are in it. */
static int64_t part_of(const joined *parts, int64_t row, int64_t *count) {
    int64_t low = 0;
    int64_t high = parts->base.rows.files->count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (parts->base.rows.first[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    int64_t left = parts->base.rows.first[low + 1] - row;
    *count = *count < left ? *count : left;
    return low;
}

static cst_status check_rows(cst_context *context, const cst_npy *whole, int64_t first,
                             int64_t count) {
    if (first >= 0 && count >= 0 && first <= whole->shape[0] && count <= whole->shape[0] - first)
        return CST_OK;
    return cst_fail(context, CST_ERROR_ARGUMENT,
                    "%s: rows %" PRId64 " to %" PRId64 " of %" PRId64 " do not exist",
                    whole->parts->rows.files->name, first, first + count - 1, whole->shape[0]);
}

/* Rows of one part as elements of the whole. */
static cst_status fetch_part(cst_context *context, const cst_npy *whole, int64_t k,
                             const cst_npy *one, int64_t first, int64_t count, unsigned char *raw) {
    CST_SCOPE(scope);
    const part *type = &joined_of(whole)->list[k];
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

static cst_status fetch(cst_context *context, const cst_npy *npy, int64_t first, int64_t count,
                        unsigned char *raw) {
    const joined *parts = joined_of(npy);
    size_t row = (size_t)cst_npy_width(npy) * npy->item;
    CST_TRY(check_rows(context, npy, first, count));
    while (count > 0) {
        int64_t some = count;
        int64_t k = part_of(parts, first, &some);
        cst_npy *again = NULL;
        CST_SCOPE(scope);
        if (!parts->list[k].open) {
            CST_TRY(open_again(context, parts, k, &again));
            CST_TRY(cst_scope_own(context, scope, cst_npy_close, again));
        }
        CST_TRY(fetch_part(context, npy, k, again ? again : parts->list[k].open,
                           first - parts->base.rows.first[k], some, raw));
        first += some;
        count -= some;
        raw += (size_t)some * row;
    }
    return CST_OK;
}

static cst_status read_rows(cst_context *context, cst_npy *npy, int64_t first, int64_t count,
                            float *out, double *wide) {
    const joined *parts = joined_of(npy);
    size_t width = (size_t)cst_npy_width(npy);
    int64_t some = 0;
    CST_TRY(check_rows(context, npy, first, count));
    for (int64_t done = 0; done < count; done += some) {
        some = count - done;
        int64_t k = part_of(parts, first + done, &some);
        int64_t at = first + done - parts->base.rows.first[k];
        cst_npy *one = NULL;
        CST_TRY(turn_to(context, npy, k, &one));
        if (wide)
            CST_TRY(cst_npy_read_rows_f64(context, one, at, some, wide + (size_t)done * width));
        else
            CST_TRY(cst_npy_read_rows_f32(context, one, at, some, out + (size_t)done * width));
    }
    return CST_OK;
}

static cst_status append_integers(cst_context *context, cst_npy *npy, int64_t *out,
                                  int64_t *count) {
    for (int64_t k = 0; k < joined_of(npy)->base.rows.files->count; k++) {
        cst_npy *one = NULL;
        int64_t *values = NULL;
        int64_t some = 0;
        CST_TRY(turn_to(context, npy, k, &one));
        CST_TRY(cst_npy_read_i64(context, one, &values, &some));
        memcpy(out + *count, values, (size_t)some * sizeof *values);
        *count += some;
        cst_free(context, values);
    }
    return CST_OK;
}

static cst_status read_integers(cst_context *context, cst_npy *npy, int64_t **out, int64_t *count) {
    *count = 0;
    *out = cst_alloc(context, (size_t)npy->shape[0], sizeof **out);
    cst_status status = *out ? append_integers(context, npy, *out, count) : CST_ERROR_MEMORY;
    if (status != CST_OK) {
        cst_free(context, *out);
        *out = NULL;
        *count = 0;
    }
    return status;
}

static cst_status append_strings(cst_context *context, cst_npy *npy, cst_strings *out) {
    for (int64_t k = 0; k < joined_of(npy)->base.rows.files->count; k++) {
        CST_SCOPE(scope);
        cst_npy *one = NULL;
        cst_strings *some = NULL;
        CST_TRY(turn_to(context, npy, k, &one));
        CST_TRY(cst_npy_read_strings(context, one, &some));
        CST_TRY(cst_scope_own(context, scope, cst_strings_free, some));
        for (int64_t i = 0; i < some->count; i++) {
            const char *text = cst_strings_at(some, i);
            CST_TRY(cst_strings_add(context, out, text, strlen(text)));
        }
    }
    return CST_OK;
}

static cst_status read_strings(cst_context *context, cst_npy *npy, cst_strings **out) {
    CST_TRY(cst_strings_create(context, out));
    cst_status status = append_strings(context, npy, *out);
    if (status != CST_OK) {
        cst_strings_free(context, *out);
        *out = NULL;
    }
    return status;
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

/* Takes `one` on success. */
static cst_status add_part(cst_context *context, cst_npy *whole, int64_t k, cst_npy *one) {
    joined *parts = joined_of(whole);
    const cst_file_parts *files = parts->base.rows.files;
    if (k == 0) {
        whole->dims = one->dims;
        memcpy(whole->shape, one->shape, sizeof whole->shape);
        whole->kind = one->kind;
        memcpy(whole->descr, one->descr, sizeof whole->descr);
    }
    CST_TRY(check_part(context, whole, files->paths[0], one, files->paths[k]));
    if (__builtin_add_overflow(parts->base.rows.first[k], one->shape[0],
                               &parts->base.rows.first[k + 1]))
        return cst_fail(context, CST_ERROR_LIMIT, "%s: too many rows", files->name);
    parts->list[k] = (part){.kind = one->kind, .item = one->item, .swapped = one->swapped};
    parts->base.streams = parts->base.streams && cst_npy_streams(one);
    if (cst_npy_rounding(one) > parts->base.rounding)
        parts->base.rounding = cst_npy_rounding(one);
    if (may_stay_open())
        parts->list[k].open = one;
    else
        cst_npy_close(context, one);
    return CST_OK;
}

/* The type of the whole: that of the parts, or one that holds each of their numbers. */
static void settle_type(cst_npy *whole) {
    joined *parts = joined_of(whole);
    int64_t count = parts->base.rows.files->count;
    const part *first = &parts->list[0];
    bool same = true;
    bool narrow = true;
    for (int64_t k = 0; k < count; k++) {
        const part *one = &parts->list[k];
        cst_npy element = {.kind = one->kind, .item = one->item};
        same = same && one->kind == first->kind && one->item == first->item &&
               one->swapped == first->swapped;
        narrow = narrow && cst_npy_is_f32(&element);
    }
    whole->kind = first->kind;
    whole->item = first->item;
    whole->swapped = first->swapped;
    if (!same && !cst_npy_is_text(whole)) {
        whole->kind = CST_NPY_FLOAT;
        whole->item = narrow ? sizeof(float) : sizeof(double);
        whole->swapped = false;
    }
    for (int64_t k = 0; k < count; k++) {
        part *one = &parts->list[k];
        one->plain =
            one->kind == whole->kind && one->item == whole->item && one->swapped == whole->swapped;
    }
}

static cst_status open_all(cst_context *context, cst_npy *whole, joined *parts) {
    const cst_file_parts *files = parts->base.rows.files;
    CST_TAKE(context, &parts->scope, parts->list, files->count);
    CST_TAKE(context, &parts->scope, parts->base.rows.first, files->count + 1);
    for (int64_t k = 0; k < files->count; k++) {
        cst_npy *one = NULL;
        CST_TRY(cst_poll_reading(context));
        CST_TRY(cst_npy_open(context, &one, files->paths[k], parts->zip_limit));
        cst_status status = add_part(context, whole, k, one);
        if (status != CST_OK) {
            cst_npy_close(context, one);
            return status;
        }
    }
    whole->shape[0] = parts->base.rows.first[files->count];
    settle_type(whole);
    return CST_OK;
}

cst_status cst_npy_open_parts(cst_context *context, cst_npy **out, const cst_file_parts *files,
                              uint64_t zip_limit) {
    *out = NULL;
    cst_npy *whole = cst_alloc(context, 1, sizeof *whole);
    joined *parts = cst_alloc(context, 1, sizeof *parts);
    if (!whole || !parts) {
        cst_free(context, whole);
        cst_free(context, parts);
        return CST_ERROR_MEMORY;
    }
    whole->row_axes = 1;
    whole->parts = &parts->base;
    *parts = (joined){.zip_limit = zip_limit, .current_part = -1};
    parts->base = (cst_npy_parts){.rows.files = files,
                                  .streams = true,
                                  .close = close_all,
                                  .fetch = fetch,
                                  .read = read_rows,
                                  .integers = read_integers,
                                  .strings = read_strings};
    cst_status status = open_all(context, whole, parts);
    if (status == CST_OK)
        *out = whole;
    else
        cst_npy_close(context, whole);
    return status;
}
