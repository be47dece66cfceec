/*
 * Views: rows and members of a split, contiguous by block, from memory or from disk. Under every
 * statistic. Paper: P_oof restricted to rows and members.
 */
#include "data/pool/view.h"

#include "data/pool/store.h"

#include <string.h>

/* Whether the rows index[0..count-1] of the split follow one another. */
static bool follow(const int64_t *index, int64_t count) {
    if (count < 1 || index[count - 1] - index[0] != count - 1)
        return false;
    for (int64_t i = 1; i < count; i++)
        if (index[i] != index[0] + i)
            return false;
    return true;
}

cst_status cst_view_rows(cst_context *context, const cst_view *view, int32_t member, int64_t first,
                         int64_t count, float *scratch, const float **rows) {
    const float *data = view->data[member];
    size_t width = (size_t)view->classes;
    const int64_t *index = view->index ? view->index + first : NULL;
    bool together = !index || follow(index, count);
    int64_t from = index && count > 0 ? index[0] : first;
    int32_t place = cst_store_find(view->store, data);
    *rows = scratch;
    const float *kept =
        place >= 0 && together ? cst_store_kept(view->store, place, from, count) : NULL;
    if (kept) {
        *rows = kept;
        return CST_OK;
    }
    if (place >= 0)
        return together ? cst_store_read(context, view->store, place, from, count, scratch)
                        : cst_store_gather(context, view->store, place, index, count, scratch);
    if (together) {
        *rows = data + (size_t)from * width;
        return CST_OK;
    }
    for (int64_t i = 0; i < count; i++)
        memcpy(scratch + (size_t)i * width, data + (size_t)index[i] * width,
               width * sizeof *scratch);
    return CST_OK;
}

cst_status cst_rows_open(cst_context *context, cst_scope *scope, const cst_view *view,
                         int64_t block, cst_rows *rows) {
    *rows = (cst_rows){
        .view = view, .first = cst_block_first(block), .count = cst_block_size(view->rows, block)};
    if (cst_view_copies(view))
        CST_TAKE(context, scope, rows->scratch, (size_t)rows->count * (size_t)view->classes);
    return CST_OK;
}

cst_status cst_rows_read(cst_context *context, cst_rows *rows, int32_t member) {
    return cst_view_rows(context, rows->view, member, rows->first, rows->count, rows->scratch,
                         &rows->data);
}

cst_status cst_view_gather(cst_context *context, const cst_view *view, int32_t member,
                           const int64_t *positions, int64_t count, float *out) {
    const float *data = view->data[member];
    size_t width = (size_t)view->classes;
    int32_t place = cst_store_find(view->store, data);
    if (place < 0) {
        for (int64_t i = 0; i < count; i++) {
            size_t row = (size_t)(view->index ? view->index[positions[i]] : positions[i]);
            memcpy(out + (size_t)i * width, data + row * width, width * sizeof *out);
        }
        return CST_OK;
    }
    if (!view->index)
        return cst_store_gather(context, view->store, place, positions, count, out);
    for (int64_t at = 0; at < count; at += CST_BLOCK_ROWS) {
        int64_t rows[CST_BLOCK_ROWS];
        int64_t part = count - at < CST_BLOCK_ROWS ? count - at : CST_BLOCK_ROWS;
        for (int64_t i = 0; i < part; i++)
            rows[i] = view->index[positions[at + i]];
        CST_TRY(
            cst_store_gather(context, view->store, place, rows, part, out + (size_t)at * width));
    }
    return CST_OK;
}

const uint8_t *cst_view_present(const cst_view *view, int32_t member) {
    const cst_presence *presence = view->presence;
    for (int32_t k = 0; presence && k < presence->count; k++)
        if (presence->data[k] && presence->data[k] == view->data[member])
            return presence->present[k];
    return NULL;
}

cst_view cst_view_predicted(const cst_view *view, int32_t member, int64_t *index,
                            const float **pointer) {
    const uint8_t *present = cst_view_present(view, member);
    cst_view part = cst_view_members(view, &member, 1, pointer);
    int64_t rows = 0;
    for (int64_t i = 0; present && i < view->rows; i++)
        if (cst_view_is_there(view, present, i))
            index[rows++] = view->index ? view->index[i] : i;
    if (rows > 0 && rows < view->rows) {
        part.rows = rows;
        part.index = index;
    }
    return part;
}

void cst_view_any_there(const cst_view *view, uint8_t *there) {
    memset(there, 0, (size_t)view->rows);
    for (int32_t k = 0; k < view->members; k++) {
        const uint8_t *present = cst_view_present(view, k);
        for (int64_t i = 0; view->data[k] && i < view->rows; i++)
            there[i] = there[i] || cst_view_is_there(view, present, i);
    }
}

double cst_view_present_sum(const cst_view *view, int32_t member) {
    const uint8_t *present = cst_view_present(view, member);
    double sum = 0;
    if (!present)
        return cst_view_weight_sum(view);
    for (int64_t i = 0; i < view->rows; i++)
        sum += cst_view_is_there(view, present, i) ? cst_view_weight(view, i) : 0;
    return sum;
}

double cst_view_weight_sum(const cst_view *view) {
    double sum = 0;
    if (!view->weights)
        return (double)view->rows;
    for (int64_t i = 0; i < view->rows; i++)
        sum += cst_view_weight(view, i);
    return sum;
}

double cst_view_effective_rows(const cst_view *view) {
    double sum = 0;
    double squares = 0;
    if (!view->weights)
        return (double)view->rows;
    for (int64_t i = 0; i < view->rows; i++) {
        double weight = cst_view_weight(view, i);
        sum += weight;
        squares += weight * weight;
    }
    return sum * sum / squares;
}

cst_view cst_view_even(const cst_view *view) {
    cst_view even = *view;
    if (even.weights && even.rows > 0)
        even.weight_scale *= (double)even.rows / cst_view_weight_sum(view);
    return even;
}

cst_view cst_view_members(const cst_view *view, const int32_t *members, int32_t count,
                          const float **pointers) {
    cst_view part = *view;
    for (int32_t k = 0; k < count; k++)
        pointers[k] = view->data[members[k]];
    part.members = count;
    part.data = pointers;
    return part;
}

void cst_view_split(const cst_view *view, const int32_t *folds, int32_t fold, int64_t *index,
                    cst_view *in, cst_view *out) {
    int64_t inside = 0;
    for (int64_t i = 0; i < view->rows; i++)
        inside += folds[i] != fold;
    int64_t *kept = index;
    int64_t *held = index + inside;
    for (int64_t i = 0; i < view->rows; i++) {
        int64_t row = view->index ? view->index[i] : i;
        if (folds[i] != fold)
            *kept++ = row;
        else
            *held++ = row;
    }
    *in = *view;
    in->rows = inside;
    in->index = index;
    *out = *view;
    out->rows = view->rows - inside;
    out->index = index + inside;
}

cst_status cst_view_copy(cst_context *context, const cst_view *view, int32_t member, float *out) {
    size_t width = (size_t)view->classes;
    for (int64_t first = 0; first < view->rows; first += CST_BLOCK_ROWS) {
        int64_t count = cst_block_size(view->rows, first / CST_BLOCK_ROWS);
        const float *rows = NULL;
        float *to = out + (size_t)first * width;
        CST_TRY(cst_poll(context));
        CST_TRY(cst_view_rows(context, view, member, first, count, to, &rows));
        if (rows != to)
            memcpy(to, rows, (size_t)count * width * sizeof *to);
    }
    return CST_OK;
}

/* ---- a store of rows of a view ---- */

/* What one member is read from. */
typedef struct around {
    const cst_view *view; /* with an index */
    int32_t member;
} around;

static cst_status read_around(cst_context *context, const void *source, int64_t first,
                              int64_t count, float *out) {
    const around *from = source;
    const float *rows = NULL;
    CST_TRY(cst_view_rows(context, from->view, from->member, first, count, out, &rows));
    if (rows != out)
        memcpy(out, rows, (size_t)count * (size_t)from->view->classes * sizeof *out);
    return CST_OK;
}

cst_status cst_store_take_around(cst_context *context, cst_scope *scope, cst_store *store,
                                 const cst_view *below, int32_t member) {
    CST_NEW(context, scope, around, source, 1);
    *source = (around){.view = below, .member = member};
    store->entries[member] = (cst_store_entry){.source = source, .read = read_around};
    return CST_OK;
}
