/* Tables of strings (sample ids, class names, groups) and the join of two id lists.
 * docs/method.md#s0-rows-folds-ids. */
#pragma once

#include "core/scope.h"

/* Strings one after another in `bytes`, each closed by a NUL; string i starts at offsets[i]. */
typedef struct cst_strings {
    int64_t count;
    int64_t capacity; /* of offsets */
    size_t used;      /* bytes in use */
    size_t room;      /* bytes allocated */
    char *bytes;
    size_t *offsets;
    bool rounded; /* some were floats too large to keep every digit */
} cst_strings;

cst_status cst_strings_add(cst_context *context, cst_strings *strings, const char *text,
                           size_t length);
cst_status cst_strings_put(cst_context *context, cst_strings *strings, const char *text);
/* A new table, or a copy, owned by the scope. */
cst_status cst_strings_take(cst_context *context, cst_scope *scope, cst_strings **out);
cst_status cst_strings_copy(cst_context *context, cst_scope *scope, const cst_strings *strings,
                            cst_strings **out);
cst_status cst_strings_add_int(cst_context *context, cst_strings *strings, int64_t value);
static inline const char *cst_strings_at(const cst_strings *strings, int64_t i) {
    return strings->bytes + strings->offsets[i];
}

/* Room for one more element of a list [count] that is made by it: a copy of twice the length where
 * it is full. NULL on failure. */
void *cst_take_more(cst_context *context, cst_scope *scope, void *list, int64_t count, size_t size);

/* Where each string of a table stands. The table must outlive the index. */
typedef struct cst_id_index cst_id_index;

/* where: the file, for messages. A duplicate string is an error that names both rows. */
cst_status cst_id_index_take(cst_context *context, cst_scope *scope, cst_id_index **out,
                             const cst_strings *ids, const char *where);
/* The same of other strings than ids. twice: the first two rows that are equal, which are no error,
 * else twice[0] < 0. */
cst_status cst_id_index_build(cst_context *context, cst_scope *scope, cst_id_index **out,
                              const cst_strings *strings, const char *where, int64_t twice[2]);
/* The row of `text`, or -1. */
int64_t cst_id_index_find(const cst_id_index *index, const char *text);

/* Joins `ids` (from `where`): places[i] is the reference row of ids[i]. Both must hold the same ids
 * once each (partial: some may be missing), else the error names the first. */
cst_status cst_id_join(cst_context *context, const cst_id_index *reference, const cst_strings *ids,
                       const char *where, bool partial, int64_t *places);

/* out[i]: the number of string i by first appearance, from 0. */
cst_status cst_strings_number(cst_context *context, const cst_strings *strings, int64_t *out);

/* Text for a one-line message: no control characters, truncated. Returns `buffer`. */
enum { CST_QUOTE_CHARS = 96 };
const char *cst_quote(char buffer[CST_QUOTE_CHARS], const char *text);
