/* Large arrays under a memory budget: beyond three eighths of it they live in unlinked temporary
 * files that are mapped, and leave memory when the process grows beyond its budget. Only cst_alloc
 * needs to know. docs/architecture.md#memory. */
#ifndef CST_LARGE_H
#define CST_LARGE_H

#include "core/base.h"

#include <pthread.h>

/* Arrays from this size on, or from a 32nd of the budget on where that is less, are counted, and
 * mapped where the budget is used up. */
#define CST_LARGE_BYTES ((size_t)16 << 20)

typedef struct cst_mapping cst_mapping;

/* Part of the root context. */
typedef struct cst_large {
    pthread_mutex_t lock;
    size_t least;      /* CST_LARGE_BYTES; tests take smaller arrays for large ones */
    size_t held;       /* bytes of large arrays in memory proper */
    cst_mapping *maps; /* those in files */
    size_t mapped;     /* their bytes */
    int64_t next_look; /* when the resident size is read again, microseconds; atomic */
    int64_t given;     /* when freed memory was last given back */
} cst_large;

void cst_large_init(cst_large *large);
void cst_large_destroy(cst_large *large);

/* Counts `bytes` (of a large array) into memory if the sum stays at or below `limit`. */
bool cst_large_hold(cst_large *large, size_t bytes, size_t limit);
void cst_large_release(cst_large *large, size_t bytes);

/* `bytes` zero bytes of a new unlinked file in $TMPDIR or /tmp, all of them reserved on disk. NULL
 * with the error recorded on failure. */
void *cst_large_map(cst_context *context, cst_large *large, size_t bytes);
void cst_large_unmap(cst_large *large, void *pointer);

/* Takes mapped arrays out of memory if the process holds more than three quarters of `limit`, and
 * has the C library give back what was freed if that is not enough. Looks the more often the less
 * of the budget is left. */
void cst_large_trim(cst_large *large, size_t limit);

/* Opens an unlinked temporary file of `bytes` reserved bytes, for reading and writing. */
cst_status cst_temporary_file(cst_context *context, size_t bytes, int *fd);

#endif
