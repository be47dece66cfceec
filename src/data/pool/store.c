/* Members that stay on disk. Behind a view. Paper: P_oof, of any size. */
#include "data/pool/store.h"

#include "core/ranks.h"
#include "core/retry.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Rows between two wanted ones that are read along rather than skipped: a read has a cost of its
 * own. In bytes of float32. */
enum { GAP_BYTES = 1 << 15, PIECE_FLOATS = 1 << 18 };

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
    size_t width = (size_t)store->classes;
    int64_t gap = GAP_BYTES / (int64_t)(width * sizeof(float)) + 1;
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
