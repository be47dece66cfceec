/* Parts: several files, listed or in a folder, whose rows are read as those of one file. */
#pragma once

#include "core/scope.h"

enum { CST_PARTS_MAX = 1 << 20 };

/* Two parts or more. */
typedef struct cst_file_parts {
    char *name; /* of all of them, for messages and look-ups */
    int64_t count;
    char **paths; /* [count], in the order of their rows */
} cst_file_parts;

typedef struct cst_row_source {
    const char *path;            /* the file, or the name of the parts */
    const cst_file_parts *parts; /* NULL: one file */
    uint64_t zip_limit;          /* as of cst_bytes_open */
    struct cst_shared_table
        *shared; /* of a column of a table that several are read from; or NULL */
} cst_row_source;

static inline cst_row_source cst_one_file(const char *path, uint64_t zip_limit) {
    return (cst_row_source){.path = path, .zip_limit = zip_limit};
}

static inline const char *cst_source_first(const cst_row_source *source) {
    return source->parts ? source->parts->paths[0] : source->path;
}

/* Length of a name without one of the endings (NULL-terminated, any case); 0 without one. */
size_t cst_stem_length(const char *name, const char *const *endings);
/* Paths, of the scope, of the files of a folder with one of the endings (NULL: all, at most
 * CST_PARTS_MAX), not hidden, in that order. */
cst_status cst_folder_list(cst_context *context, cst_scope *scope, const char *folder,
                           const char *const *endings, int (*order)(const void *, const void *),
                           cst_file_parts *out);
/* The same, all of one readable ending, in natural order: "part-9" before "part-10". */
cst_status cst_file_parts_list(cst_context *context, cst_scope *scope, const char *folder,
                               cst_file_parts *out);
/* Checks that no part is listed twice. where: the list, for messages. */
cst_status cst_file_parts_check(cst_context *context, const char *where,
                                const cst_file_parts *parts);
/* Checks that no two parts are one file by two names: a link, or another way to it. */
cst_status cst_file_parts_distinct(cst_context *context, const cst_file_parts *parts);

/* Where the rows of parts begin. */
typedef struct cst_row_parts {
    const cst_file_parts *files;
    int64_t *first; /* [count + 1] */
} cst_row_parts;

int64_t cst_row_parts_index(const cst_row_parts *parts, int64_t row);
/* Returns the part with row *row, which becomes the row in it; `path` without parts. */
const char *cst_row_parts_find(const cst_row_parts *parts, const char *path, int64_t *row);
