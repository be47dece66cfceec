/* Views: rows and members of a split, contiguous by block, from memory or from disk, and stores of
 * members that stay on disk. Under every statistic. Paper: P_oof restricted to rows and members. */
#include "data/pool/view.h"

#include "core/ranks.h"
#include "core/retry.h"

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

/* ---- a store ---- */

/* Rows between two wanted ones that are read along rather than skipped: a read of its own costs as
 * much as converting about so many bytes of float32, or as reading those that are not converted. */
enum { GAP_BYTES = 1 << 11, GAP_GATHERED = 1 << 14, PIECE_FLOATS = 1 << 18 };

/* Blocks beyond those of this rank that are kept on either side: an eighth, within these limits. */
enum { NEAR_LEAST = 1, NEAR_MOST = 16 };

cst_status cst_store_create(cst_context *context, int32_t count, int32_t classes, cst_store **out) {
    cst_store *store = cst_alloc(context, 1, sizeof *store);
    *out = store;
    if (!store)
        return CST_ERROR_MEMORY;
    store->count = count;
    store->classes = classes;
    store->entries = cst_alloc(context, (size_t)count, sizeof *store->entries);
    store->places = cst_alloc(context, (size_t)count, sizeof *store->places);
    if (store->entries && store->places)
        return CST_OK;
    cst_store_free(context, store);
    *out = NULL;
    return CST_ERROR_MEMORY;
}

void cst_store_free(cst_context *context, cst_store *store) {
    if (!store)
        return;
    for (int32_t k = 0; store->entries && k < store->count; k++)
        cst_store_close(context, store, k);
    cst_free(context, store->entries);
    cst_free(context, store->places);
    cst_free(context, store);
}

CST_OWNED(cst_store)

cst_status cst_store_take(cst_context *context, cst_scope *scope, int32_t count, int32_t classes,
                          cst_store **out) {
    CST_TRY(cst_store_create(context, count, classes, out));
    return cst_scope_own(context, scope, cst_store_release, *out);
}

void cst_store_close(cst_context *context, cst_store *store, int32_t member) {
    cst_store_entry *entry = &store->entries[member];
    if (entry->source && entry->close)
        entry->close(context, entry->source);
    cst_free(context, entry->kept);
    *entry = (cst_store_entry){0};
}

const float *cst_store_place(const cst_store *store, int32_t member) {
    return &store->places[member];
}

cst_status cst_store_read(cst_context *context, const cst_store *store, int32_t member,
                          int64_t first, int64_t count, float *out) {
    const cst_store_entry *entry = &store->entries[member];
    const float *kept = cst_store_kept(store, member, first, count);
    if (kept)
        memcpy(out, kept, (size_t)count * (size_t)store->classes * sizeof *out);
    if (kept || count <= 0)
        return CST_OK;
    return entry->read(context, entry->source, first, count, out);
}

void cst_store_near(const cst_context *context, int64_t rows, int64_t *first, int64_t *end) {
    int64_t blocks = cst_block_count(rows);
    int64_t last = 0;
    cst_ranks_part(context, blocks, 1, first, &last);
    int64_t beyond = (last - *first) / 8;
    beyond = beyond < NEAR_LEAST ? NEAR_LEAST : beyond > NEAR_MOST ? NEAR_MOST : beyond;
    *first = (*first > beyond ? *first - beyond : 0) * CST_BLOCK_ROWS;
    last = last + beyond < blocks ? last + beyond : blocks;
    *end = last * CST_BLOCK_ROWS < rows ? last * CST_BLOCK_ROWS : rows;
}

cst_status cst_store_keep(cst_context *context, cst_store *store, int32_t member, int64_t first,
                          int64_t end) {
    cst_store_entry *entry = &store->entries[member];
    size_t cells = (size_t)(end - first) * (size_t)store->classes;
    if (end <= first)
        return CST_OK;
    float *kept = cst_alloc_counted(context, cells, sizeof *kept);
    entry->kept = kept; /* freed with the entry; no row of it is known yet */
    entry->kept_first = entry->kept_end = first;
    if (!kept)
        return CST_ERROR_MEMORY;
    CST_TRY(entry->read(context, entry->source, first, end - first, kept));
    entry->kept_end = end;
    return CST_OK;
}

/* How many of the wanted rows are worth one read: the gaps between them are small and the piece
 * does not grow beyond what scratch holds. */
static int64_t run_length(const int64_t *rows, int64_t count, int64_t gap, int64_t most) {
    int64_t n = 1;
    while (n < count && rows[n] - rows[n - 1] <= gap && rows[n] - rows[0] < most)
        n++;
    return n;
}

cst_status cst_store_gather(cst_context *context, const cst_store *store, int32_t member,
                            const int64_t *rows, int64_t count, float *out) {
    const cst_store_entry *entry = &store->entries[member];
    size_t width = (size_t)store->classes;
    int64_t gap =
        (entry->read_rows ? GAP_GATHERED : GAP_BYTES) / (int64_t)(width * sizeof(float)) + 1;
    int64_t most = PIECE_FLOATS / (int64_t)width + 1;
    float *piece = NULL;
    CST_SCOPE(scope);
    for (int64_t i = 0; i < count;) {
        const float *kept = cst_store_kept(store, member, rows[i], 1);
        if (kept) {
            memcpy(out + (size_t)i++ * width, kept, width * sizeof *out);
            continue;
        }
        int64_t n = run_length(rows + i, count - i, gap, most);
        int64_t span = rows[i + n - 1] - rows[i] + 1;
        float *to = out + (size_t)i * width;
        bool dense = span == n;
        if (entry->read_rows && span > 2 * n) {
            CST_TRY(entry->read_rows(context, entry->source, rows + i, n, to));
            i += n;
            continue;
        }
        if (!dense && !piece) {
            int64_t left = rows[count - 1] - rows[i] + 1;
            CST_TAKE(context, scope, piece, (size_t)(left < most ? left : most) * width);
        }
        CST_TRY(cst_store_read(context, store, member, rows[i], span, dense ? to : piece));
        for (int64_t j = 0; !dense && j < n; j++)
            memcpy(to + (size_t)j * width, piece + (size_t)(rows[i + j] - rows[i]) * width,
                   width * sizeof *to);
        i += n;
    }
    return CST_OK;
}

/* ---- a temporary file of float32 rows ---- */

typedef struct copy {
    int fd;
    const char *where;
    size_t row; /* bytes */
} copy;

static void close_copy(cst_context *context, void *object) {
    (void)context;
    (void)close(((copy *)object)->fd);
}

static cst_status failed(cst_context *context, const copy *c, const char *doing, ssize_t got) {
    return cst_fail(context, CST_ERROR_IO,
                    "%s: %s its temporary copy failed: %s; set TMPDIR to a folder that works or "
                    "give more memory",
                    c->where, doing, got == 0 ? "it ends too early" : strerror(errno));
}

static cst_status read_copy(cst_context *context, const void *source, int64_t first, int64_t count,
                            float *out) {
    const copy *c = source;
    size_t bytes = (size_t)count * c->row;
    for (size_t done = 0; done < bytes;) {
        ssize_t got = cst_pread(c->fd, (char *)out + done, bytes - done,
                                (off_t)((size_t)first * c->row + done));
        if (got <= 0)
            return failed(context, c, "reading", got);
        done += (size_t)got;
    }
    return CST_OK;
}

cst_status cst_store_file(cst_context *context, cst_scope *scope, const char *where, int64_t rows,
                          int32_t classes, cst_store_entry *out) {
    size_t bytes = 0;
    if (!cst_size_mul((size_t)rows, (size_t)classes, &bytes) ||
        !cst_size_mul(bytes, sizeof(float), &bytes))
        return cst_fail(context, CST_ERROR_LIMIT, "%s: too many values", where);
    CST_NEW(context, scope, copy, c, 1);
    *c = (copy){.where = where, .row = (size_t)classes * sizeof(float)};
    CST_TRY(cst_temporary_file(context, bytes, &c->fd));
    CST_TRY(cst_scope_own(context, scope, close_copy, c));
    *out = (cst_store_entry){.source = c, .read = read_copy};
    return CST_OK;
}

cst_status cst_store_write(cst_context *context, const cst_store_entry *entry, int64_t first,
                           int64_t count, const float *values) {
    const copy *c = entry->source;
    size_t bytes = (size_t)count * c->row;
    for (size_t done = 0; done < bytes;) {
        ssize_t put = pwrite(c->fd, (const char *)values + done, bytes - done,
                             (off_t)((size_t)first * c->row + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return failed(context, c, "writing", put);
        done += (size_t)put;
    }
    return CST_OK;
}

cst_status cst_store_copy(cst_context *context, cst_scope *scope, cst_store *store, int32_t member,
                          const char *where, int64_t rows) {
    cst_store_entry *entry = &store->entries[member];
    const int64_t first = entry->kept_first;
    const int64_t end = entry->kept ? entry->kept_end : first;
    cst_store_entry made;
    CST_SCOPE(own);
    CST_NEW(context, own, float, part, (CST_BLOCK_ROWS * (size_t)store->classes));
    CST_TRY(cst_store_file(context, scope, where, rows, store->classes, &made));
    for (int64_t at = 0; at < rows; at += CST_BLOCK_ROWS) {
        int64_t count = cst_block_size(rows, at / CST_BLOCK_ROWS);
        CST_TRY(cst_store_read(context, store, member, at, count, part));
        CST_TRY(cst_store_write(context, &made, at, count, part));
    }
    cst_store_close(context, store, member);
    *entry = made;
    return cst_store_keep(context, store, member, first, end);
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

int32_t cst_domain_find(char *const *names, int32_t count, const char *name) {
    char *const *found =
        count > 0 ? bsearch(&name, names, (size_t)count, sizeof *names, cst_by_text) : NULL;
    return found ? (int32_t)(found - names) : -1;
}
