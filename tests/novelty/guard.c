/*
 * Levels of rows and the test of a batch: against NumPy bit for bit, and references, rows and
 * batches that hold little.
 */
#include "model/shift/novelty.h"

#include "check.h"
#include "data/guard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static cst_scope scope; /* of what a test makes */

enum { K = GUARD_MEMBERS, C = GUARD_CLASSES, N = GUARD_REFERENCE, B = GUARD_BATCH };

/* ---- rows made from integers, as in tests/oracles/guard.py ---- */

static uint32_t mixed(uint32_t i, uint32_t k, uint32_t c) {
    uint32_t h = i * 0x9E3779B1u ^ k * 0x85EBCA77u ^ c * 0xC2B2AE3Du;
    h = (h ^ (h >> 15)) * 0x2C1B3C6Du;
    h = (h ^ (h >> 12)) * 0x297A2D39u;
    return h ^ (h >> 15);
}

typedef struct sample {
    float *member[K]; /* [rows][C] */
    cst_view view;
} sample;

static sample draw(int first, int rows, uint32_t noise) {
    sample s;
    for (uint32_t k = 0; k < K; k++) {
        s.member[k] = malloc((size_t)rows * C * sizeof(float));
        for (int r = 0; r < rows; r++) {
            uint32_t i = (uint32_t)(first + r);
            uint32_t y = mixed(i, 99, 7) % 13;
            double v[C];
            double sum = 0;
            y = y < 9 ? y % 3 : y - 2;
            for (uint32_t c = 0; c < C; c++) {
                v[c] = 1.0 + mixed(i, 50, c) % 60 + mixed(i, k, c) % noise + (c == y ? 400 : 0);
                sum += v[c];
            }
            for (int c = 0; c < C; c++)
                s.member[k][r * C + c] = (float)(v[c] / sum);
        }
    }
    s.view = (cst_view){.rows = rows, .classes = C, .members = K};
    return s;
}

static cst_view view_of(const sample *s) {
    cst_view view = s->view;
    view.data = (const float *const *)s->member;
    return view;
}

static void discard(sample *s) {
    for (int k = 0; k < K; k++)
        free(s->member[k]);
}

static cst_novelty *reference(cst_context *context) {
    static int32_t fold[N];
    sample s = draw(0, N, 40);
    cst_view view = view_of(&s);
    cst_novelty *made = NULL;
    for (int i = 0; i < N; i++)
        fold[i] = (int32_t)(mixed((uint32_t)i, 3, 3) % GUARD_FOLDS);
    assert_int_equal(cst_novelty_fit(context, &scope, &view, fold, GUARD_FOLDS, &made), CST_OK);
    assert_non_null(made);
    discard(&s);
    return made;
}

/* ---- against NumPy ---- */

static void check_batch(cst_context *context, const cst_novelty *novelty, int first, uint32_t noise,
                        const double *level, double pi, const double *lambda) {
    sample s = draw(first, B, noise);
    cst_view view = view_of(&s);
    double u[B];
    double ratio[B];
    double weight[B];
    cst_novelty_found found;
    assert_int_equal(cst_novelty_levels(context, novelty, &view, u), CST_OK);
    assert_memory_equal(u, level, sizeof u);
    assert_int_equal(cst_novelty_batch(context, u, B, ratio, weight, &found), CST_OK);
    assert_true(found.judged);
    assert_true(found.pi == pi);
    assert_true(found.unlike == 1 - pi);
    assert_int_equal(found.fired, pi < 1);
    for (int i = 0; i < B; i++) {
        assert_close(weight[i], lambda[i], 1e-12);
        assert_close(weight[i], ratio[i] > pi ? 1 - pi / ratio[i] : 0, 1e-12);
    }
    float work[2 * C];
    for (int i = 0; i < B; i++) {
        const float *rows[K];
        for (int k = 0; k < K; k++)
            rows[k] = s.member[k] + i * C;
        assert_true(cst_novelty_row(novelty, rows, work) == level[i]);
    }
    discard(&s);
}

static void levels_and_pi_are_those_of_numpy(void **state) {
    cst_novelty *novelty = reference(*state);
    assert_int_equal(novelty->tables, 4); /* classes 0 to 2, and the others */
    check_batch(*state, novelty, 5000, 40, GUARD_CLEAN_LEVEL, GUARD_CLEAN_PI[0],
                GUARD_CLEAN_LAMBDA);
    check_batch(*state, novelty, 9000, 260, GUARD_SHIFTED_LEVEL, GUARD_SHIFTED_PI[0],
                GUARD_SHIFTED_LAMBDA);
    cst_scope_free(&scope);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void a_window_is_tested_as_a_batch(void **state) {
    double sorted[B];
    int64_t hull[B + 1];
    double lambda[B];
    cst_novelty_found batch;
    cst_novelty_found window;
    memcpy(sorted, GUARD_SHIFTED_LEVEL, sizeof sorted);
    qsort(sorted, B, sizeof *sorted, ascending);
    assert_int_equal(cst_novelty_batch(*state, GUARD_SHIFTED_LEVEL, B, NULL, lambda, &batch),
                     CST_OK);
    for (int i = 0; i < B; i++) {
        double one =
            cst_novelty_sorted(sorted, B, batch.above, GUARD_SHIFTED_LEVEL[i], hull, &window);
        assert_true(one == lambda[i]);
        assert_true(window.pi == batch.pi);
        assert_int_equal(window.fired, batch.fired);
        assert_close(window.lambda, batch.lambda, 1e-12);
    }
}

/* ---- little to go by ---- */

static void absent_members_do_not_look_unlike(void **state) {
    cst_novelty *novelty = reference(*state);
    sample s = draw(20000, 400, 40);
    cst_view view = view_of(&s);
    const float *some[K] = {s.member[0], NULL, s.member[2], s.member[3]};
    double *u = malloc(400 * sizeof *u);
    double *lambda = malloc(400 * sizeof *lambda);
    cst_novelty_found found;
    view.data = some;
    assert_int_equal(cst_novelty_levels(*state, novelty, &view, u), CST_OK);
    assert_int_equal(cst_novelty_batch(*state, u, 400, NULL, lambda, &found), CST_OK);
    assert_false(found.fired);
    const float *none[K] = {NULL, NULL, NULL, NULL};
    view.data = none;
    assert_int_equal(cst_novelty_levels(*state, novelty, &view, u), CST_OK);
    for (int i = 0; i < 400; i++)
        assert_true(u[i] == 1);
    free(u);
    free(lambda);
    discard(&s);
    cst_scope_free(&scope);
}

/* One member, twins, and members that always say the same. */
static void degenerate_members_have_a_reference(void **state) {
    static int32_t fold[N];
    static float same[N * C];
    sample s = draw(0, N, 40);
    cst_view view = view_of(&s);
    double *u = malloc(N * sizeof *u);
    for (int i = 0; i < N; i++) {
        fold[i] = i % 2;
        for (int c = 0; c < C; c++)
            same[i * C + c] = c == 3 ? 1.0F : 0.0F;
    }
    const float *cases[3][K] = {{s.member[0]},
                                {s.member[0], s.member[0], s.member[0], s.member[0]},
                                {same, same, same, same}};
    for (int one = 0; one < 3; one++) {
        cst_novelty *made = NULL;
        view.data = cases[one];
        view.members = one == 0 ? 1 : K;
        assert_int_equal(cst_novelty_fit(*state, &scope, &view, fold, 2, &made), CST_OK);
        assert_int_equal(cst_novelty_levels(*state, made, &view, u), CST_OK);
        int above = 0;
        for (int i = 0; i < N; i++) {
            assert_true(u[i] > 0 && u[i] <= 1);
            above += u[i] > 0.5;
        }
        assert_true(above > 0.4 * N); /* their own rows are like them */
        cst_scope_free(&scope);
    }
    free(u);
    discard(&s);
}

static void few_rows_have_no_reference(void **state) {
    int32_t fold[20] = {0};
    sample s = draw(0, 20, 40);
    cst_view view = view_of(&s);
    cst_novelty *made = (cst_novelty *)fold;
    assert_int_equal(cst_novelty_fit(*state, &scope, &view, fold, 1, &made), CST_OK);
    assert_null(made);
    discard(&s);
}

static void small_batches_are_not_judged(void **state) {
    double u[50];
    double lambda[50];
    cst_novelty_found found;
    for (int i = 0; i < 50; i++)
        u[i] = 0.001;
    for (int rows = 0; rows <= 49; rows += 49) {
        assert_int_equal(cst_novelty_batch(*state, u, rows, NULL, lambda, &found), CST_OK);
        assert_false(found.judged || found.fired);
        assert_true(found.pi == 1);
    }
    assert_int_equal(cst_novelty_batch(*state, u, 50, NULL, lambda, &found), CST_OK);
    assert_true(found.judged && found.fired);
    assert_true(lambda[0] > 0.99);
}

static void wrong_levels_are_refused(void **state) {
    const double wrong[] = {0, -0.5, 1.5, NAN, INFINITY};
    double lambda[1];
    cst_novelty_found found;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(cst_novelty_batch(*state, &wrong[i], 1, NULL, lambda, &found),
                         CST_ERROR_ARGUMENT);
}

/* Numbers that no pool lets through: levels stay levels. */
static void numbers_that_are_no_probabilities_give_levels(void **state) {
    cst_novelty *novelty = reference(*state);
    float work[2 * C];
    float row[C];
    const float *rows[K] = {row, row, row, row};
    const float values[] = {NAN, INFINITY, -1e30F, 0, 1e-45F};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        for (int c = 0; c < C; c++)
            row[c] = values[v];
        double u = cst_novelty_row(novelty, rows, work);
        assert_true(u > 0 && u <= 1);
    }
    cst_scope_free(&scope);
}

int suite_guard(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_and_pi_are_those_of_numpy),
        cmocka_unit_test(a_window_is_tested_as_a_batch),
        cmocka_unit_test(absent_members_do_not_look_unlike),
        cmocka_unit_test(degenerate_members_have_a_reference),
        cmocka_unit_test(few_rows_have_no_reference),
        cmocka_unit_test(small_batches_are_not_judged),
        cmocka_unit_test(wrong_levels_are_refused),
        cmocka_unit_test(numbers_that_are_no_probabilities_give_levels),
    };
    return cmocka_run_group_tests(tests, la_setup, la_teardown);
}
