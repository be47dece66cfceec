/*
 * The C allocator with a fault: malloc_fault.h.
 */
#include "malloc_fault.h"

#include <errno.h>
#include <stddef.h>

/* Where allocations go: AddressSanitizer's functions, or libc's. */
#if defined(__SANITIZE_ADDRESS__)
#define REAL(name) __interceptor_##name
#else
#define REAL(name) __libc_##name
#endif
void *REAL(malloc)(size_t bytes);
void *REAL(calloc)(size_t count, size_t size);
void *REAL(realloc)(void *pointer, size_t bytes);
void *malloc(size_t bytes);
void *calloc(size_t count, size_t size);
void *realloc(void *pointer, size_t bytes);

static int armed;
static bool fail_all;
static int64_t first_to_fail;
static int64_t seen;
static int64_t refused;

void malloc_fault_arm(int64_t after, bool all) {
    first_to_fail = after;
    fail_all = all;
    seen = 0;
    refused = 0;
    __atomic_store_n(&armed, 1, __ATOMIC_RELEASE);
}

int64_t malloc_fault_disarm(int64_t *failed) {
    __atomic_store_n(&armed, 0, __ATOMIC_RELEASE);
    if (failed)
        *failed = refused;
    return seen;
}

/* Whether this allocation is to fail. */
static bool fails(void) {
    if (!__atomic_load_n(&armed, __ATOMIC_ACQUIRE))
        return false;
    int64_t number = __atomic_fetch_add(&seen, 1, __ATOMIC_RELAXED);
    if (number != first_to_fail && !(fail_all && number > first_to_fail))
        return false;
    (void)__atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes) {
    return fails() ? NULL : REAL(malloc)(bytes);
}

void *calloc(size_t count, size_t size) {
    return fails() ? NULL : REAL(calloc)(count, size);
}

void *realloc(void *pointer, size_t bytes) {
    /* realloc(p, 0) frees. */
    return bytes > 0 && fails() ? NULL : REAL(realloc)(pointer, bytes);
}
