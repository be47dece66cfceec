/*
 * Arrays in several files as one. Parts stay open as long as the process has descriptors to spare;
 * others are opened when they are read. Paper: the files that hold P_oof and y.
 */
#include "data/readers/npy_parts.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>

/* The header of a part. */
typedef struct part {
    cst_npy *open; /* NULL: opened to be read */
    cst_npy_kind kind;
    size_t item;
    bool swapped;
    bool plain; /* its elements are those of the whole as they are */
} part;

typedef struct joined {
    cst_npy_parts base; /* first: the array points to it */
    uint64_t zip_limit;
    part *list;       /* [count] */
    cst_npy *current; /* the part that was read last in order, where it does not stay open */
    int64_t current_part;
} joined;

static joined *joined_of(const cst_npy *npy) {
    return (joined *)npy->parts;
}

/* Parts that stay open, in the whole process: there are only so many descriptors. */
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
    for (int64_t k = 0; parts->list && k < parts->base.rows.files->count; k++)
        if (parts->list[k].open) {
            cst_npy_close(context, parts->list[k].open);
            atomic_fetch_sub(&kept_open, 1);
        }
    cst_npy_close(context, parts->current);
    cst_free(context, parts->list);
    cst_free(context, parts->base.rows.first);
    cst_free(context, parts);
}

/* ---- reading ---- */

/* Opens a part again and checks that it is unchanged. */
static cst_status open_again(cst_context *context, const joined *parts, int64_t k, cst_npy **out) {
    const char *path = parts->base.rows.files->paths[k];
    const part *before = &parts->list[k];
    cst_status status = cst_npy_open(context, out, path, parts->zip_limit);
    if (status != CST_OK)
        return status;
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
    cst_status status = CST_OK;
    *out = parts->list[k].open;
    if (!*out && parts->current_part != k) {
        cst_npy_close(context, parts->current);
        parts->current = NULL;
        parts->current_part = -1;
        status = open_again(context, parts, k, &parts->current);
        parts->current_part = status == CST_OK ? k : -1;
    }
    if (!*out)
        *out = parts->current;
    if (status == CST_OK && *out) {
        (*out)->numbers = whole->numbers;
        (*out)->missing = whole->missing;
    }
    return status;
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
    const part *type = &joined_of(whole)->list[k];
    if (type->plain)
        return cst_npy_fetch(context, one, first, count, raw);
    size_t elements = (size_t)count * (size_t)cst_npy_width(one);
    unsigned char *own = cst_alloc(context, elements, type->item);
    cst_status status = own ? cst_npy_fetch(context, one, first, count, own) : CST_ERROR_MEMORY;
    if (status == CST_OK && whole->item == sizeof(float))
        cst_npy_decode_f32(one, own, elements, (float *)(void *)raw);
    else if (status == CST_OK)
        cst_npy_decode_f64(one, own, elements, (double *)(void *)raw);
    cst_free(context, own);
    return status;
}

static cst_status fetch(cst_context *context, const cst_npy *npy, int64_t first, int64_t count,
                        unsigned char *raw) {
    const joined *parts = joined_of(npy);
    size_t row = (size_t)cst_npy_width(npy) * npy->item;
    cst_status status = check_rows(context, npy, first, count);
    while (status == CST_OK && count > 0) {
        int64_t some = count;
        int64_t k = part_of(parts, first, &some);
        cst_npy *again = NULL;
        if (!parts->list[k].open)
            status = open_again(context, parts, k, &again);
        if (status == CST_OK)
            status = fetch_part(context, npy, k, again ? again : parts->list[k].open,
                                first - parts->base.rows.first[k], some, raw);
        cst_npy_close(context, again);
        first += some;
        count -= some;
        raw += (size_t)some * row;
    }
    return status;
}

static cst_status read_rows(cst_context *context, cst_npy *npy, int64_t first, int64_t count,
                            float *out, double *wide) {
    const joined *parts = joined_of(npy);
    size_t width = (size_t)cst_npy_width(npy);
    cst_status status = check_rows(context, npy, first, count);
    for (int64_t done = 0; status == CST_OK && done < count;) {
        int64_t some = count - done;
        int64_t k = part_of(parts, first + done, &some);
        int64_t at = first + done - parts->base.rows.first[k];
        cst_npy *one = NULL;
        status = turn_to(context, npy, k, &one);
        if (status == CST_OK)
            status =
                wide ? cst_npy_read_rows_f64(context, one, at, some, wide + (size_t)done * width)
                     : cst_npy_read_rows_f32(context, one, at, some, out + (size_t)done * width);
        done += some;
    }
    return status;
}

static cst_status read_integers(cst_context *context, cst_npy *npy, int64_t **out, int64_t *count) {
    const joined *parts = joined_of(npy);
    *count = 0;
    *out = cst_alloc(context, (size_t)npy->shape[0], sizeof **out);
    cst_status status = *out ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t k = 0; status == CST_OK && k < parts->base.rows.files->count; k++) {
        cst_npy *one = NULL;
        int64_t *values = NULL;
        int64_t some = 0;
        status = turn_to(context, npy, k, &one);
        CST_THEN(cst_npy_read_i64(context, one, &values, &some));
        if (status == CST_OK)
            memcpy(*out + *count, values, (size_t)some * sizeof *values);
        *count += some;
        cst_free(context, values);
    }
    if (status != CST_OK) {
        cst_free(context, *out);
        *out = NULL;
        *count = 0;
    }
    return status;
}

static cst_status read_strings(cst_context *context, cst_npy *npy, cst_strings **out) {
    const joined *parts = joined_of(npy);
    cst_status status = cst_strings_create(context, out);
    for (int64_t k = 0; status == CST_OK && k < parts->base.rows.files->count; k++) {
        cst_npy *one = NULL;
        cst_strings *some = NULL;
        status = turn_to(context, npy, k, &one);
        CST_THEN(cst_npy_read_strings(context, one, &some));
        for (int64_t i = 0; status == CST_OK && i < some->count; i++) {
            const char *text = cst_strings_at(some, i);
            status = cst_strings_add(context, *out, text, strlen(text));
        }
        cst_strings_free(context, some);
    }
    if (status != CST_OK) {
        cst_strings_free(context, *out);
        *out = NULL;
    }
    return status;
}

/* ---- opening ---- */

/* Checks a part against the first one. */
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
    cst_status status = check_part(context, whole, files->paths[0], one, files->paths[k]);
    if (status != CST_OK)
        return status;
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
    parts->list = cst_alloc(context, (size_t)files->count, sizeof *parts->list);
    parts->base.rows.first =
        cst_alloc(context, (size_t)files->count + 1, sizeof *parts->base.rows.first);
    cst_status status = parts->list && parts->base.rows.first ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t k = 0; status == CST_OK && k < files->count; k++) {
        cst_npy *one = NULL;
        status = cst_poll_reading(context);
        CST_THEN(cst_npy_open(context, &one, files->paths[k], zip_limit));
        if (status != CST_OK)
            break;
        status = add_part(context, whole, k, one);
        if (status != CST_OK)
            cst_npy_close(context, one);
    }
    if (status != CST_OK) {
        cst_npy_close(context, whole);
        return status;
    }
    whole->shape[0] = parts->base.rows.first[files->count];
    settle_type(whole);
    *out = whole;
    return CST_OK;
}
