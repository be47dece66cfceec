/*
 * What a call made of a file that it may open again: the members of an archive, the header of a
 * file of tensors. A pool that takes thousands of arrays from one file reads that once. Under the
 * readers of such files. Paper: none.
 */
#ifndef CST_KEPT_H
#define CST_KEPT_H

#include "base/base.h"

#include <sys/stat.h>

typedef void (*cst_kept_free_fn)(cst_context *context, void *value);

/* What was kept of the file that looks like `info`; NULL where nothing was. It stays as it is until
 * the call ends. `release` says what kind of thing it is. Any thread. */
const void *cst_kept_find(cst_context *context, const struct stat *info, cst_kept_free_fn release);

/* Keeps `value`, which takes `bytes` and does not change any more; false where there is no room
 * within the memory budget: it stays the caller's then. Any thread. */
bool cst_kept_add(cst_context *context, const struct stat *info, void *value, size_t bytes,
                  cst_kept_free_fn release);

/* ---- for the context itself ---- */

/* Of one call. */
typedef struct cst_kept {
    struct cst_kept_value *first;
    size_t bytes;
} cst_kept;

void cst_kept_clear(cst_context *context, cst_kept *kept);

#endif
