/*
 * The rows of all ranks as the entry of a store: rows of this rank are read from its files, other
 * rows are fetched. Under views of pools with own rows. Paper: P_oof, on the disks of several
 * machines.
 */
#include "base/ranks.h"
#include "comm/rows.h"
#include "pool/own.h"
#include "pool/stream.h"

#include <string.h>

/* The rows of one member. */
typedef struct own_source {
    const cst_own_split *own;
    int32_t member;
} own_source;

static int64_t rows_of(const cst_own_split *own, int rank) {
    return own->bounds[rank + 1] - own->bounds[rank];
}

/* The rank that has a row of one condition. */
static int owner_of(const cst_own_split *own, int64_t row) {
    int first = 0;
    int end = own->ranks;
    while (end - first > 1) {
        int middle = first + (end - first) / 2;
        if (own->bounds[middle] <= row)
            first = middle;
        else
            end = middle;
    }
    return first;
}

bool cst_own_has(const cst_own_split *own, int64_t row) {
    row %= own->bounds[own->ranks];
    return row >= own->bounds[own->rank] && row < own->bounds[own->rank + 1];
}

static cst_status read_rows(cst_context *context, const void *source, int64_t first, int64_t count,
                            float *out) {
    const own_source *s = source;
    const cst_own_split *own = s->own;
    size_t width = (size_t)own->local->store->classes;
    int64_t all = own->bounds[own->ranks];
    cst_status status = CST_OK;
    while (status == CST_OK && count > 0) {
        int64_t condition = first / all;
        int64_t row = first % all;
        int rank = owner_of(own, row);
        int64_t part = own->bounds[rank + 1] - row;
        int64_t there = condition * rows_of(own, rank) + row - own->bounds[rank];
        part = part < count ? part : count;
        status = rank == own->rank
                     ? cst_store_read(context, own->local->store, s->member, there, part, out)
                     : cst_rows_fetch(context, own->rows, rank, s->member, there, part, out);
        first += part;
        count -= part;
        out += (size_t)part * width;
    }
    return status;
}

static void close_rows(cst_context *context, void *source) {
    cst_free(context, source);
}

cst_status cst_own_entry(cst_context *context, const cst_own_split *own, int32_t member,
                         cst_store_entry *out) {
    own_source *s = cst_alloc(context, 1, sizeof *s);
    if (!s)
        return CST_ERROR_MEMORY;
    *s = (own_source){own, member};
    *out = (cst_store_entry){.source = s, .read = read_rows, .close = close_rows};
    return CST_OK;
}

cst_status cst_own_serve(cst_context *context, const void *user, int32_t member, int64_t first,
                         int64_t count, float *out) {
    const cst_own_split *own = user;
    if (!own->local->store->entries[member].source)
        return cst_fail(context, CST_ERROR_INTERNAL, "member %d is not loaded there", (int)member);
    return cst_store_read(context, own->local->store, member, first, count, out);
}

cst_status cst_own_write(cst_context *context, const cst_own_split *own, int32_t member,
                         int64_t row, const float *values) {
    int64_t all = own->bounds[own->ranks];
    int64_t there = row / all * rows_of(own, own->rank) + row % all - own->bounds[own->rank];
    return cst_stream_write(context, &own->local->store->entries[member], there, 1, values);
}

cst_status cst_own_fill(cst_context *context, cst_status status, const cst_own_split *own,
                        void *base, size_t width) {
    size_t step = (size_t)own->bounds[own->ranks] * width;
    if (status == CST_OK && !cst_ranks_share(context))
        status = cst_fail(context, CST_ERROR_INTERNAL, "rows of all ranks in a task of one");
    for (int32_t c = 0; c < own->conditions; c++)
        status = cst_ranks_fill_parts(context, status, (unsigned char *)base + (size_t)c * step,
                                      width, own->bounds);
    return status;
}
