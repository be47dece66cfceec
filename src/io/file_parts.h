/*
 * Files whose rows follow one another, as if they were one file: the parts that a manifest lists,
 * or those in a folder. Between the manifest and the readers of rows. Paper: none.
 */
#ifndef CST_IO_FILE_PARTS_H
#define CST_IO_FILE_PARTS_H

#include "base/base.h"

enum { CST_PARTS_MAX = 1 << 20 };

/* Two parts or more. */
typedef struct cst_file_parts {
    char *name; /* of all of them, for messages and to find them by */
    int64_t count;
    char **paths; /* [count], in the order of their rows */
} cst_file_parts;

/* What rows are read from. */
typedef struct cst_row_source {
    const char *path;            /* the file, or the name of the parts */
    const cst_file_parts *parts; /* NULL: one file */
    uint64_t zip_limit;          /* as of cst_bytes_open */
} cst_row_source;

/* The file that comes first. */
static inline const char *cst_source_first(const cst_row_source *source) {
    return source->parts ? source->parts->paths[0] : source->path;
}

/* The parts in a folder, by name, numbers as numbers; hidden files are passed over. All must have
 * one ending, that of a format that can be read. Cleared with cst_file_parts_clear, also after a
 * failure. */
cst_status cst_file_parts_list(cst_context *context, const char *folder, cst_file_parts *out);
/* No part may be there twice. where: who lists them, for messages. */
cst_status cst_file_parts_check(cst_context *context, const char *where,
                                const cst_file_parts *parts);
void cst_file_parts_clear(cst_context *context, cst_file_parts *parts);

/* Order of names, in which numbers are compared as numbers: "part-9" before "part-10". */
int cst_natural_order(const char *a, const char *b);

/* Where the rows of parts begin. */
typedef struct cst_row_parts {
    const cst_file_parts *files;
    int64_t *first; /* [count + 1] */
} cst_row_parts;

/* The part that has row *row, which becomes the row in it; `path`, and the row as it is, where
 * there are no parts (NULL). */
const char *cst_row_parts_find(const cst_row_parts *parts, const char *path, int64_t *row);

#endif
