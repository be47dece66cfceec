/*
 * Ranks: sums, arrays and failures, with threads as ranks.
 */
#include "core/ranks.h"
#include "core/context.h"
#include "meeting.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BLOCKS = 101, WIDTH = 5 };

typedef struct work {
    seat *seat;
    void (*run)(struct work *w);
    cst_context *context;
    double total[WIDTH];
    float rows[BLOCKS * 3];
    cst_status status;
    char message[256];
    uint64_t rounds;
    int fails; /* the rank that fails in its tasks; -1: none */
    int64_t ran;
} work;

static cst_status add_term(cst_context *context, void *user, int64_t block, double *sum) {
    work *w = user;
    (void)__atomic_fetch_add(&w->ran, 1, __ATOMIC_RELAXED);
    if (w->fails == w->seat->rank && block % 7 == 3)
        return cst_fail(context, CST_ERROR_INPUT, "block %d is bad", (int)block);
    for (int j = 0; j < WIDTH; j++)
        sum[j] += sin((double)(block * WIDTH + j)) * 1e3;
    return CST_OK;
}

static cst_status fill_rows(cst_context *context, void *user, int64_t task) {
    work *w = user;
    (void)context;
    for (int64_t i = task * 3; i < task * 3 + 3; i++)
        w->rows[i] = (float)i;
    return CST_OK;
}

static void sums_and_rows(work *w) {
    const cst_share filled = cst_share_tasks(w->rows, BLOCKS, 3 * sizeof(float));
    w->status = cst_reduce_blocks(w->context, BLOCKS, WIDTH, add_term, w, w->total);
    if (w->status == CST_OK)
        w->status = cst_parallel_fill(w->context, BLOCKS, fill_rows, w, &filled, 1);
}

static void a_failure(work *w) {
    w->status = cst_reduce_blocks(w->context, BLOCKS, WIDTH, add_term, w, w->total);
    if (w->status != CST_OK)
        w->status = cst_context_agree(w->context, w->status, NULL);
}

/* The last rank fails before the others' sum, and says so. */
static void alone_before(work *w) {
    bool last = w->seat->rank == w->seat->at->size - 1;
    if (last)
        w->status = cst_context_agree(w->context, CST_ERROR_IO, "the disk is full");
    else
        a_failure(w);
}

static void other_options(work *w) {
    w->status = cst_context_same(w->context, "options", w->seat->rank == 1 ? "b" : "a");
}

static cst_status add_nothing(cst_context *context, void *user, int64_t block, double *sum) {
    (void)context;
    (void)user;
    (void)block;
    (void)sum;
    return CST_OK;
}

static void other_sums(work *w) {
    int width = w->seat->rank == 1 ? 2 : 3;
    w->status = cst_reduce_blocks(w->context, BLOCKS, (size_t)width, add_nothing, w, w->total);
}

static void sit(seat *rank, void *user) {
    work *w = user;
    w->seat = rank;
    w->context = rank->context;
    w->status = rank->status;
    if (w->status == CST_OK)
        w->run(w);
    w->rounds = w->context->ranks.exchanges;
    (void)snprintf(w->message, sizeof w->message, "%s", cst_last_error(w->context));
}

static void meet(int size, void (*run)(work *w), int threads, int fails, work *w) {
    for (int r = 0; r < size; r++)
        w[r] = (work){.run = run, .fails = fails};
    meeting_hold(size, threads, sit, w, sizeof *w);
}

static void the_same_bytes_on_any_number_of_ranks(void **state) {
    static work one[RANKS_MAX];
    static work w[RANKS_MAX];
    (void)state;
    uint64_t rounds = 0;
    meet(1, sums_and_rows, 1, -1, one);
    assert_int_equal(one[0].status, CST_OK);
    for (int j = 0; j < WIDTH; j++) {
        double sum = 0;
        for (int b = 0; b < BLOCKS; b++)
            sum += sin((double)(b * WIDTH + j)) * 1e3;
        assert_true(fabs(sum - one[0].total[j]) < 1e-9);
    }
    for (int size = 2; size <= RANKS_MAX; size++)
        for (int threads = 1; threads <= 3; threads += 2) {
            int64_t ran = 0;
            meet(size, sums_and_rows, threads, -1, w);
            for (int r = 0; r < size; r++) {
                assert_int_equal(w[r].status, CST_OK);
                assert_memory_equal(w[r].total, one[0].total, sizeof one[0].total);
                assert_memory_equal(w[r].rows, one[0].rows, sizeof one[0].rows);
                assert_true(w[r].ran < BLOCKS);
                rounds = rounds ? rounds : w[r].rounds;
                assert_true(w[r].rounds > 0 &&
                            w[r].rounds == rounds); /* whatever the number of ranks */
                ran += w[r].ran;
            }
            assert_int_equal(ran, BLOCKS); /* each block once, by one rank */
        }
}

static void every_rank_learns_of_a_failure(void **state) {
    static work w[RANKS_MAX];
    (void)state;
    for (int fails = 0; fails < 3; fails++) {
        char expected[64];
        meet(3, a_failure, 1, fails, w);
        (void)snprintf(expected, sizeof expected, "rank %d on here: block ", fails);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(w[r].status, CST_ERROR_INPUT);
            assert_memory_equal(w[r].message, expected, strlen(expected));
        }
    }
    meet(4, alone_before, 1, -1, w);
    for (int r = 0; r < 4; r++) {
        assert_int_equal(w[r].status, CST_ERROR_IO);
        assert_string_equal(w[r].message, "rank 3 on here: the disk is full");
    }
}

static void ranks_that_differ_are_told(void **state) {
    static work w[RANKS_MAX];
    (void)state;
    meet(3, other_options, 1, -1, w);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(w[r].status, CST_ERROR_ARGUMENT);
        assert_non_null(
            strstr(w[r].message, "rank 1 on here differs from rank 0 in options: 'b' and 'a'"));
    }
    meet(3, other_sums, 1, -1, w);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(w[r].status, CST_ERROR_ARGUMENT);
        assert_non_null(strstr(w[r].message, "ranks 0 and 1 are not at the same place"));
    }
}

static void parts_cover_all_tasks(void **state) {
    cst_context *context = NULL;
    (void)state;
    assert_int_equal(cst_context_create(&context), CST_OK);
    for (int size = 1; size <= 9; size++)
        for (int64_t count = 0; count < 70; count += 3)
            for (int64_t grain = 1; grain <= 8; grain *= 2) {
                int64_t end = 0;
                for (int rank = 0; rank < size; rank++) {
                    int64_t first = 0;
                    int64_t last = 0;
                    context->ranks.calls = (cst_collectives){.rank = rank, .size = size};
                    cst_ranks_part(context, count, grain, &first, &last);
                    assert_int_equal(first, end);
                    assert_true(last >= first && (first % grain == 0 || first == count));
                    end = last;
                }
                assert_int_equal(end, count);
            }
    context->ranks.calls = (cst_collectives){0};
    cst_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bytes_on_any_number_of_ranks),
        cmocka_unit_test(every_rank_learns_of_a_failure),
        cmocka_unit_test(ranks_that_differ_are_told),
        cmocka_unit_test(parts_cover_all_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
