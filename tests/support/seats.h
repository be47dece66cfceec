/*
 * Threads as ranks: each has a context of its own, and collectives that meet at a barrier.
 */
#ifndef CST_TEST_SEATS_H
#define CST_TEST_SEATS_H

#include <corestack/collectives.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 7 };

/* What threads that are ranks share: each puts its part where the others find it. */
typedef struct meeting {
    pthread_barrier_t barrier;
    int size;
    const void *part[RANKS_MAX];
} meeting;

typedef struct seat {
    meeting *at;
    int rank;
} seat;

static int seat_gather(void *self, const void *part, size_t count, void *all,
                       const size_t *counts) {
    const seat *s = self;
    size_t done = 0;
    void *copy = malloc(count + 1); /* `part` may lie in `all` */
    if (!copy)
        abort();
    if (count > 0)
        memcpy(copy, part, count);
    s->at->part[s->rank] = copy;
    (void)pthread_barrier_wait(&s->at->barrier);
    for (int r = 0; r < s->at->size; r++) {
        memcpy((unsigned char *)all + done, s->at->part[r], counts[r]);
        done += counts[r];
    }
    (void)pthread_barrier_wait(&s->at->barrier);
    free(copy);
    return 0;
}

/* The collectives of a seat. */
static inline cst_collectives seat_calls(seat *s) {
    return (cst_collectives){
        .self = s, .rank = s->rank, .size = s->at->size, .host = "here", .allgather = seat_gather};
}

#endif
