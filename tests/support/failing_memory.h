/*
 * An allocator whose n-th allocation fails, for tests that no allocation is left behind then.
 */
#ifndef FAILING_MEMORY_H
#define FAILING_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct failing {
    int64_t left; /* allocations until one fails */
    int64_t live;
} failing;

static void *failing_realloc(void *user, void *pointer, size_t bytes) {
    failing *f = user;
    if (bytes == 0) {
        f->live--;
        free(pointer);
        return NULL;
    }
    if (f->left-- == 0)
        return NULL;
    f->live++;
    return realloc(pointer, bytes);
}

#endif
