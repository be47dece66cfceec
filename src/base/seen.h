/*
 * Which file each path led to when it was first opened, so that a call that opens a path again is
 * not given another file than before. Under every reader of files. Paper: none.
 */
#ifndef CST_SEEN_H
#define CST_SEEN_H

#include "base/base.h"

#include <sys/stat.h>

/* Whether two looks at a file, which may have had other names meanwhile, found the same bytes, as
 * far as its size and its times say. */
bool cst_seen_unchanged(const struct stat *before, const struct stat *now);

/* Remembers the file at `path`, which is open and looks like `info`. CST_ERROR_IO where this call
 * opened the path before and found another file, or this one before it was written to. Any thread.
 */
cst_status cst_seen_check(cst_context *context, const char *path, const struct stat *info);

/* Forgets the file at `path`: it is written again on purpose. */
void cst_seen_forget(cst_context *context, const char *path);

/* CST_ERROR_IO: the file at `path` was replaced or changed while it was read. */
cst_status cst_seen_refuse(cst_context *context, const char *path);

/* ---- for the context itself ---- */

typedef struct cst_seen_file cst_seen_file;

/* The files that one call has seen. */
typedef struct cst_seen {
    cst_seen_file *files; /* [room], a hash table */
    size_t count;
    size_t room;     /* a power of 2, or 0 */
    uint64_t key[2]; /* of the hashes of their paths */
} cst_seen;

void cst_seen_clear(cst_context *context, cst_seen *seen);

#endif
