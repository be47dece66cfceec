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

#ifdef CST_CHECK_HANDLES
bool cst_is_alive(const void *handle, cst_mark mark) {
    cst_mark found = 0;
    if (handle)
        memcpy(&found, handle, sizeof found);
    return handle && found == mark;
}

cst_status cst_fail_handle(cst_context *context, const char *call, const char *what) {
    return cst_fail(context, CST_ERROR_ARGUMENT,
                    "%s: what is given as the %s was freed before this call, or is no %s", call,
                    what, what);
}
#endif
