/*
 * The C allocator with a fault: malloc_fault.h.
 */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "malloc_fault.h"

#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

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

/* A library whose allocations do not fail. */
typedef struct span {
    uintptr_t from;
    uintptr_t to;
} span;

enum { SPANS_MAX = 8 };

static span spared[SPANS_MAX];
static int spared_count = -1;
static int armed;
static bool fail_all;
static int64_t first_to_fail;
static int64_t seen;
static int64_t refused;

static int look_at(struct dl_phdr_info *info, size_t size, void *user) {
    (void)size;
    (void)user;
    if (!strstr(info->dlpi_name, "libgomp") && !strstr(info->dlpi_name, "libomp"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum && spared_count < SPANS_MAX; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            spared[spared_count++] = (span){from, from + info->dlpi_phdr[i].p_memsz};
        }
    return 0;
}

void malloc_fault_arm(int64_t after, bool all) {
    if (spared_count < 0) {
        spared_count = 0;
        (void)dl_iterate_phdr(look_at, NULL);
    }
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

/* Whether the allocation asked for at `caller` is to fail. */
static bool fails(const void *caller) {
    if (!__atomic_load_n(&armed, __ATOMIC_ACQUIRE))
        return false;
    for (int i = 0; i < spared_count; i++)
        if ((uintptr_t)caller >= spared[i].from && (uintptr_t)caller < spared[i].to)
            return false;
    int64_t number = __atomic_fetch_add(&seen, 1, __ATOMIC_RELAXED);
    if (number != first_to_fail && !(fail_all && number > first_to_fail))
        return false;
    (void)__atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes) {
    return fails(__builtin_return_address(0)) ? NULL : REAL(malloc)(bytes);
}

void *calloc(size_t count, size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : REAL(calloc)(count, size);
}

void *realloc(void *pointer, size_t bytes) {
    /* realloc(p, 0) frees. */
    return bytes > 0 && fails(__builtin_return_address(0)) ? NULL : REAL(realloc)(pointer, bytes);
}
