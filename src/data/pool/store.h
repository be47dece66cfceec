/*
 * A store: members whose predictions stay on disk and are read a block at a time. Behind a view,
 * where a pool is larger than its share of the memory budget. Paper: P_oof, of any size.
 */
#ifndef CST_STORE_H
#define CST_STORE_H

#include "core/base.h"
#include "data/pool/view.h"

/* Reads rows first..first+count-1 of what `source` is into out [count][classes], from any number of
 * threads at once. */
typedef cst_status (*cst_store_read_fn)(cst_context *context, const void *source, int64_t first,
                                        int64_t count, float *out);
typedef void (*cst_store_close_fn)(cst_context *context, void *source);

typedef struct cst_store_entry {
    void *source; /* NULL: this member is in memory */
    cst_store_read_fn read;
    cst_store_close_fn close; /* NULL: a scope frees the source */
    float *kept;              /* rows kept_first..kept_end-1, which need not be read; or NULL */
    int64_t kept_first;
    int64_t kept_end;
} cst_store_entry;

struct cst_store {
    int32_t count;
    int32_t classes;
    cst_store_entry *entries; /* [count] */
    float *places;            /* [count]: only their addresses matter */
};

cst_status cst_store_create(cst_context *context, int32_t count, int32_t classes, cst_store **out);
/* Closes what is in it; NULL is accepted. */
void cst_store_free(cst_context *context, cst_store *store);
/* A store of the scope's. */
cst_status cst_store_take(cst_context *context, cst_scope *scope, int32_t count, int32_t classes,
                          cst_store **out);

/* Closes one member's entry, if there is one. */
void cst_store_close(cst_context *context, cst_store *store, int32_t member);

/* Reads a member through `below`, a view that must outlive the store: its rows become 0, 1, ... */
cst_status cst_store_take_around(cst_context *context, cst_scope *scope, cst_store *store,
                                 const cst_view *below, int32_t member);

/* An entry that reads a temporary file of the scope's, to be filled by cst_store_write: any rows in
 * any order, each once. where: for messages. */
cst_status cst_store_file(cst_context *context, cst_scope *scope, const char *where, int64_t rows,
                          int32_t classes, cst_store_entry *out);
cst_status cst_store_write(cst_context *context, const cst_store_entry *entry, int64_t first,
                           int64_t count, const float *values);

/* What stands in cst_view.data for the member. */
const float *cst_store_place(const cst_store *store, int32_t member);

/* The member whose place this is, or -1; `store` may be NULL. */
static inline int32_t cst_store_find(const cst_store *store, const float *data) {
    if (!store || (uintptr_t)data < (uintptr_t)store->places ||
        (uintptr_t)data >= (uintptr_t)(store->places + store->count))
        return -1;
    return (int32_t)(data - store->places);
}

/* The rows of a view of `rows` rows that this rank works on, and some beyond, because parts of the
 * rows, such as folds, are divided at slightly different places. All rows if no work is shared. */
void cst_store_near(const cst_context *context, int64_t rows, int64_t *first, int64_t *end);

/* Keeps rows first..end-1 of a member in memory. */
cst_status cst_store_keep(cst_context *context, cst_store *store, int32_t member, int64_t first,
                          int64_t end);
/* Replaces a row, if it is kept in memory. */
static inline void cst_store_put(const cst_store *store, int32_t member, int64_t row,
                                 const float *values) {
    const cst_store_entry *entry = &store->entries[member];
    if (entry->kept && row >= entry->kept_first && row < entry->kept_end)
        for (int32_t c = 0; c < store->classes; c++)
            entry->kept[(row - entry->kept_first) * store->classes + c] = values[c];
}
/* Such rows where they are, or NULL where some must be read. */
static inline const float *cst_store_kept(const cst_store *store, int32_t member, int64_t first,
                                          int64_t count) {
    const cst_store_entry *entry = &store->entries[member];
    bool kept = entry->kept && first >= entry->kept_first && first + count <= entry->kept_end;
    return kept ? entry->kept + (first - entry->kept_first) * store->classes : NULL;
}

cst_status cst_store_read(cst_context *context, const cst_store *store, int32_t member,
                          int64_t first, int64_t count, float *out);
/* Rows at the given positions (ascending), [count][classes]; those near each other are read in one
 * piece. */
cst_status cst_store_gather(cst_context *context, const cst_store *store, int32_t member,
                            const int64_t *rows, int64_t count, float *out);

#endif
