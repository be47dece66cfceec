/*
 * Two tasks of a parallel loop write to one place without a lock. Built under ThreadSanitizer only,
 * where the test passes when the race is reported: it shows that a clean run means something.
 */
#include "core/base.h"

static int ready; /* tasks that have started */
static double place;

static cst_status race(cst_context *worker, void *user, int64_t task) {
    (void)worker;
    (void)user;
    /* Waits for the other task, for a second at most, so that one thread cannot take both. Relaxed:
     * orders nothing, so that the race stays one. */
    (void)__atomic_add_fetch(&ready, 1, __ATOMIC_RELAXED);
    double start = cst_seconds();
    while (__atomic_load_n(&ready, __ATOMIC_RELAXED) < 2 && cst_seconds() - start < 1) {
    }
    for (int i = 0; i < 1000; i++)
        place += (double)task;
    return CST_OK;
}

int main(void) {
    cst_context *context = NULL;
    if (cst_context_create(&context) != CST_OK)
        return 1;
    (void)cst_context_set_threads(context, 2);
    for (int round = 0; round < 3; round++) {
        ready = 0;
        (void)cst_parallel_for(context, 2, race, NULL);
    }
    cst_context_free(context);
    return 0;
}
