/*
 * Threads as ranks: an allgather between contexts of one process, for tests of what ranks exchange.
 * Paper: none.
 */
#ifndef CST_TEST_MEETING_H
#define CST_TEST_MEETING_H

#include "check.h"

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

/* A rank. */
typedef struct seat {
    meeting *at;
    int rank;
    cst_context *context;
    void (*run)(struct seat *seat, void *user);
    void *user;
    cst_status status; /* of taking the seat */
} seat;

static int meeting_gather(void *self, const void *part, size_t count, void *all,
                          const size_t *counts) {
    const seat *s = self;
    size_t done = 0;
    void *copy = malloc(count + 1);
    assert_non_null(copy);
    if (count > 0)
        memcpy(copy, part, count); /* `part` may lie in `all` */
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

/* The collectives of a seat, of which `at` and `rank` are set. */
static inline cst_collectives seat_calls(seat *s) {
    return (cst_collectives){.self = s,
                             .rank = s->rank,
                             .size = s->at->size,
                             .host = "here",
                             .allgather = meeting_gather};
}

static inline void *meeting_sit(void *user) {
    seat *s = user;
    const cst_collectives calls = seat_calls(s);
    s->status = cst_context_set_collectives(s->context, &calls);
    s->run(s, s->user);
    return NULL;
}

/* Calls `run` on every rank, with users + rank * size bytes; each has a context of `threads`
 * threads. */
static inline void meeting_hold(int ranks, int threads, void (*run)(seat *seat, void *user),
                                void *users, size_t size) {
    meeting at = {.size = ranks};
    pthread_t thread[RANKS_MAX];
    seat seats[RANKS_MAX];
    assert_int_equal(pthread_barrier_init(&at.barrier, NULL, (unsigned)ranks), 0);
    for (int r = 0; r < ranks; r++) {
        seats[r] =
            (seat){.at = &at, .rank = r, .run = run, .user = (char *)users + (size_t)r * size};
        assert_int_equal(cst_context_create(&seats[r].context), CST_OK);
        assert_int_equal(cst_context_set_threads(seats[r].context, threads), CST_OK);
        assert_int_equal(pthread_create(&thread[r], NULL, meeting_sit, &seats[r]), 0);
    }
    for (int r = 0; r < ranks; r++) {
        assert_int_equal(pthread_join(thread[r], NULL), 0);
        cst_context_free(seats[r].context);
    }
    (void)pthread_barrier_destroy(&at.barrier);
}

#endif
