/*
 * Signs of leaks: rows and groups that are planted on both sides, error rates against SciPy's
 * figures, and fits of permuted labels, where scores of rows that the fit has seen are a leak.
 */
#include "bounds/leakage.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "check.h"

enum { ROWS = 90, CLASSES = 2, MEMBERS = 24 };

static int setup(void **state) {
    cst_context *context = NULL;
    if (cst_context_create(&context) != CST_OK)
        return -1;
    *state = context;
    return 0;
}

typedef struct world {
    float p[MEMBERS][ROWS * CLASSES];
    const float *data[MEMBERS];
    char text[MEMBERS][8];
    const char *names[MEMBERS];
    int32_t labels[ROWS];
    cst_view view;
} world;

/* Members that know nothing, or something of the labels. */
static void make(world *w, double skill, uint32_t substream) {
    cst_rng rng;
    cst_rng_init(&rng, 31, CST_STREAM_TEST, substream);
    for (int i = 0; i < ROWS; i++)
        w->labels[i] = i % 2;
    for (int k = 0; k < MEMBERS; k++) {
        for (int i = 0; i < ROWS; i++) {
            double z = cst_rng_normal(&rng) + skill * (w->labels[i] ? 1 : -1);
            w->p[k][2 * i + 1] = (float)(1 / (1 + exp(-z)));
            w->p[k][2 * i] = 1 - w->p[k][2 * i + 1];
        }
        w->data[k] = w->p[k];
        w->text[k][0] = 'm';
        w->text[k][1] = (char)('a' + k);
        w->text[k][2] = 0;
        w->names[k] = w->text[k];
    }
    w->view = (cst_view){
        .rows = ROWS, .classes = CLASSES, .members = MEMBERS, .data = w->data, .labels = w->labels};
}

static void shared_rows_are_counted(void **state) {
    static world a;
    static world b;
    cst_shared_rows out;
    make(&a, 1, 1);
    make(&b, 1, 2);
    assert_int_equal(cst_shared_rows_of(*state, &a.view, &b.view, &out), CST_OK);
    assert_int_equal(out.shared, 0);
    assert_int_equal(out.repeated, 0);
    for (int k = 0; k < MEMBERS; k++) /* rows 3 to 6 become rows 11 to 14 of the other split */
        for (int i = 0; i < 4 * CLASSES; i++)
            b.p[k][11 * CLASSES + i] = a.p[k][3 * CLASSES + i];
    assert_int_equal(cst_shared_rows_of(*state, &a.view, &b.view, &out), CST_OK);
    assert_int_equal(out.shared, 4);
    b.labels[12] = 1 - b.labels[12];
    assert_int_equal(cst_shared_rows_of(*state, &a.view, &b.view, &out), CST_OK);
    assert_int_equal(out.shared, 3);
    for (int k = 0; k < MEMBERS; k++) /* row 0 once more, and again */
        for (int c = 0; c < CLASSES; c++)
            a.p[k][20 * CLASSES + c] = a.p[k][40 * CLASSES + c] = a.p[k][c];
    assert_int_equal(cst_shared_rows_of(*state, &a.view, &b.view, &out), CST_OK);
    assert_int_equal(out.repeated, 3);
}

static void groups_in_several_folds_are_counted(void **state) {
    int64_t groups[] = {5, -2, 5, 9, 9, 9, -2, 4};
    int32_t folds[] = {0, 1, 0, 2, 2, 2, 1, 3};
    int64_t count = -1;
    assert_int_equal(cst_split_groups(*state, groups, folds, 8, &count), CST_OK);
    assert_int_equal(count, 0);
    folds[4] = 0;
    folds[6] = 3;
    assert_int_equal(cst_split_groups(*state, groups, folds, 8, &count), CST_OK);
    assert_int_equal(count, 2);
}

/* scipy.stats.norm.sf of the pooled z. */
static void error_rates_agree_with_scipy(void **state) {
    (void)state;
    const int64_t rows[] = {100, 100};
    const int64_t lower[] = {10, 30};
    const int64_t none[] = {0, 0};
    const int64_t equal[] = {20, 20};
    assert_true(fabs(cst_lower_error_p(lower, rows) - 0.00020347600872247943) <= 1e-15);
    assert_true(fabs(cst_lower_error_p(equal, rows) - 0.5) <= 1e-15);
    assert_true(fabs(cst_lower_error_p(none, rows) - 1) <= 0);
}

static const char *const SETTINGS[] = {"corestack=0", "meta.learners=ridge", "split=oof",
                                       "keep.fraction=1", "lambda.rule=star"};

/* Nested scores of permuted labels are chance, whatever members know of the true ones; the fit's
 * own rows, which are a leak, are far above it. */
static void permuted_labels_give_chance(void **state) {
    static world w;
    for (uint32_t skill = 0; skill < 2; skill++) {
        cst_permuted out;
        make(&w, skill, 3 + skill);
        assert_int_equal(cst_permuted_fit(*state, &w.view, w.names, SETTINGS, 4, 1000, 0, &out),
                         CST_OK);
        assert_int_equal(out.samples, ROWS);
        assert_true(fabs(out.chance - 0.5) <= 1e-12);
        assert_true(out.p > 0.01);
        assert_true(out.seen_p < 0.001);
        assert_true(out.seen_top1 > out.top1);
    }
}

static void fewer_rows_may_take_part(void **state) {
    static world w;
    cst_permuted out;
    make(&w, 1, 5);
    assert_int_equal(cst_permuted_fit(*state, &w.view, w.names, NULL, 0, 60, 1, &out), CST_OK);
    assert_int_equal(out.samples, 60);
    const char *const bad[] = {"cka.threshold=much"};
    assert_int_equal(cst_permuted_fit(*state, &w.view, w.names, bad, 1, 60, 1, &out),
                     CST_ERROR_ARGUMENT);
    assert_non_null(cst_last_error(*state));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shared_rows_are_counted, setup, context_teardown),
        cmocka_unit_test_setup_teardown(groups_in_several_folds_are_counted, setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(error_rates_agree_with_scipy, setup, context_teardown),
        cmocka_unit_test_setup_teardown(permuted_labels_give_chance, setup, context_teardown),
        cmocka_unit_test_setup_teardown(fewer_rows_may_take_part, setup, context_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
