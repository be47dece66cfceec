/*
 * Guards at the door of public calls. Under every public function; the part that knows what a
 * context holds is in context.c. Paper: none.
 */
#include "base/guard.h"

#include "base/base.h"

#include <string.h>

/* A thread is known by the address of its own copy; nothing is kept in it. */
static _Thread_local char self;

bool cst_owner_take(cst_owner *owner) {
    uintptr_t me = (uintptr_t)&self;
    uintptr_t nobody = 0;
    if (__atomic_load_n(&owner->thread, __ATOMIC_RELAXED) != me &&
        !__atomic_compare_exchange_n(&owner->thread, &nobody, me, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return false;
    owner->depth++;
    return true;
}

void cst_owner_give(cst_owner *owner) {
    if (--owner->depth == 0)
        __atomic_store_n(&owner->thread, 0, __ATOMIC_RELEASE);
}

bool cst_size_fits(int64_t rows, int64_t columns, size_t bytes) {
    uint64_t cells = 0;
    if (rows <= 0 || columns <= 0)
        return true;
    return !__builtin_mul_overflow((uint64_t)rows, (uint64_t)columns, &cells) &&
           cells < CST_ARRAY_BYTES / bytes;
}

cst_status cst_fail_size(cst_context *context, const char *call, int64_t rows, int64_t columns) {
    return cst_fail(context, CST_ERROR_LIMIT,
                    "%s: an array of %lld x %lld numbers does not fit into memory; check the sizes",
                    call, (long long)rows, (long long)columns);
}

cst_status cst_fail_seed(cst_context *context, const char *call, uint64_t seed) {
    return cst_fail(context, CST_ERROR_ARGUMENT,
                    "%s: the seed must be 0 to %llu, the largest integer that JSON documents hold "
                    "exactly, got %llu",
                    call, (unsigned long long)CST_SEED_MAX, (unsigned long long)seed);
}

cst_status cst_fail_resamples(cst_context *context, const char *call, int32_t resamples) {
    return cst_fail(context, CST_ERROR_ARGUMENT, "%s: resamples must be 0 to %d, got %d", call,
                    CST_RESAMPLES_MAX, (int)resamples);
}

cst_status cst_check_texts(cst_context *context, const char *call, const char *list,
                           const char *const *texts, int32_t count) {
    for (int32_t i = 0; i < count; i++)
        if (!texts || !texts[i])
            return cst_fail(context, CST_ERROR_ARGUMENT, "%s: string %d of the %d of `%s` is NULL",
                            call, (int)i, (int)count, list);
    return CST_OK;
}

#ifdef CST_CHECK_HANDLES
bool cst_is_alive(const void *handle, cst_mark mark) {
    cst_mark found = 0;
    if (handle)
        memcpy(&found, handle, sizeof found);
    return handle && found == mark;
}

cst_status cst_fail_handle(cst_context *context, const char *call, const char *what) {
    return cst_fail(context, CST_ERROR_ARGUMENT,
                    "%s: the %s was freed before this call, or is not a %s", call, what, what);
}
#endif
