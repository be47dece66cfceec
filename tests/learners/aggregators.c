/*
 * Aggregators against NumPy, their independence of batching, and the maps from scores to
 * probabilities. docs/method.md#s2-and-s3-gate-and-penalties and docs/method.md#s4-blend.
 */
#include "data/meta_aggregators.h"
#include "meta_check.h"
#include "meta_rows.h"
#include "method/calibration/calibration.h"
#include "method/gate/gate.h"

static double *aggregate(cst_context *context, const float *values, int32_t members, int32_t best,
                         int64_t count, int32_t classes) {
    const float *pointers[64];
    for (int32_t k = 0; k < members; k++)
        pointers[k] = values + (size_t)k * (size_t)count * (size_t)classes;
    double *out =
        cst_alloc(context, (size_t)count * (size_t)classes * CST_AGGREGATORS, sizeof *out);
    assert_non_null(out);
    aggregate_rows(pointers, members, best, count, classes, out);
    return out;
}

static void check(cst_context *context, const float *values, int32_t members, int64_t count,
                  int32_t classes, const double *expected) {
    double *out = aggregate(context, values, members, members / 2, count, classes);
    size_t cells = (size_t)count * (size_t)classes * CST_AGGREGATORS;
    assert_all_close(out, expected, cells, 1e-12, 1e-3);
    cst_free(context, out);
}

static void match_numpy(void **state) {
    cst_context *context = *state;
    check(context, aggregators_one_members, 1, 2, 3, aggregators_one_expected);
    check(context, aggregators_two_members, 2, 3, 2, aggregators_two_expected);
    check(context, aggregators_five_members, 5, 3, 4, aggregators_five_expected);
    check(context, aggregators_many_members, 37, 2, 3, aggregators_many_expected);
}

static void match_numpy_across_tiles(void **state) {
    cst_context *context = *state;
    double *out = aggregate(context, aggregators_wide_members, 3, 1, 2, 150);
    size_t rows = sizeof aggregators_wide_rows / sizeof *aggregators_wide_rows;
    for (size_t i = 0; i < rows; i++)
        assert_all_close(out + aggregators_wide_rows[i] * CST_AGGREGATORS,
                         aggregators_wide_expected + i * CST_AGGREGATORS, CST_AGGREGATORS, 1e-12,
                         1e-3);
    cst_free(context, out);
}

static void order_statistics_of_every_size(void **state) {
    cst_context *context = *state;
    for (int32_t members = 1; members <= 64; members++) {
        random_pool p = make_pool((uint64_t)members, 1, 2, members, 1);
        double *out = aggregate(context, p.values, members, 0, 1, 2);
        float sorted[64];
        for (int32_t k = 0; k < members; k++) { /* insertion */
            int32_t at = k;
            for (; at > 0 && sorted[at - 1] > p.members[k][0]; at--)
                sorted[at] = sorted[at - 1];
            sorted[at] = p.members[k][0];
        }
        double range = (double)sorted[members - 1] - (double)sorted[0];
        double median = 0.5 * ((double)sorted[(members - 1) / 2] + (double)sorted[members / 2]);
        assert_relative(out[CST_AGGREGATE_RANGE], range, 1e-15, 1e-3);
        assert_relative(out[CST_AGGREGATE_MEDIAN], median, 1e-15, 1e-3);
        cst_free(context, out);
        free_pool(&p);
    }
}

static void one_sample_is_the_same_alone_and_among_others(void **state) {
    cst_context *context = *state;
    random_pool p = make_pool(5, 40, 7, 6, 3);
    double *all = aggregate(context, p.values, 6, 2, 40, 7);
    for (int64_t i = 0; i < 40; i++) {
        const float *members[6];
        double out[7 * CST_AGGREGATORS];
        for (int32_t k = 0; k < 6; k++)
            members[k] = p.members[k] + i * 7;
        aggregate_rows(members, 6, 2, 1, 7, out);
        assert_memory_equal(out, all + i * 7 * CST_AGGREGATORS, sizeof out);
    }
    cst_free(context, all);
    free_pool(&p);
}

static void regression_has_no_entropy(void **state) {
    cst_context *context = *state;
    const float values[6] = {-3.0F, 2.0F, 4.0F, -1.0F, 5.0F, 6.0F}; /* 3 members, 2 rows */
    double *out = aggregate(context, values, 3, 0, 2, 1);
    assert_true(out[CST_AGGREGATE_ENTROPY] == 0);
    assert_true(out[CST_AGGREGATE_DIVERGENCE] == 0);
    assert_relative(out[CST_AGGREGATE_MEAN], (-3 + 4 + 5) / 3.0, 1e-15, 1);
    assert_relative(out[CST_AGGREGATE_MEDIAN], 4, 1e-15, 1);
    assert_relative(out[CST_AGGREGATORS + CST_AGGREGATE_RANGE], 7, 1e-15, 1);
    cst_free(context, out);
}

/* The projection p of x is optimal when p >= 0, sum p = 1, and x - p equals one t where p > 0 and
 * is at most t where p = 0. */
static void expect_optimal(int32_t classes, const double *x) {
    double p[40];
    double sum = 0;
    double multiplier = -HUGE_VAL;
    memcpy(p, x, (size_t)classes * sizeof *p);
    cst_simplex_project(classes, p);
    for (int32_t c = 0; c < classes; c++) {
        assert_true(p[c] >= 0);
        sum += p[c];
        if (p[c] > 0)
            multiplier = fmax(multiplier, x[c] - p[c]);
    }
    assert_relative(sum, 1, 1e-12, 1);
    for (int32_t c = 0; c < classes; c++) {
        if (p[c] > 0)
            assert_relative(x[c] - p[c], multiplier, 1e-12, 1);
        else
            assert_true(x[c] <= multiplier + 1e-12);
    }
}

static void simplex_projection_is_optimal(void **state) {
    (void)state;
    cst_rng rng;
    cst_rng_init(&rng, 8, CST_STREAM_TEST, 0);
    for (int32_t trial = 0; trial < 500; trial++) {
        double x[40];
        int32_t classes = 2 + trial % 39;
        for (int32_t c = 0; c < classes; c++)
            x[c] = (trial % 3 + 0.05) * cst_rng_normal(&rng);
        expect_optimal(classes, x);
    }
}

/* Scores that lie on the threshold but for rounding, which puts them above and below in turns. */
static void simplex_projection_of_tenths_is_optimal(void **state) {
    (void)state;
    for (int32_t number = 0; number < 21 * 21 * 21 * 21; number++) {
        double x[4];
        for (int32_t c = 0, rest = number; c < 4; c++, rest /= 21)
            x[c] = (rest % 21 - 10) / 10.0;
        expect_optimal(3, x);
        expect_optimal(4, x);
    }
}

/* Where 1 is lost beside the scores, and where rounding would bring dropped classes back for ever.
 */
static void simplex_projection_of_huge_scores_is_optimal(void **state) {
    (void)state;
    cst_rng rng;
    cst_rng_init(&rng, 9, CST_STREAM_TEST, 0);
    for (int32_t trial = 0; trial < 100000; trial++) {
        double x[8];
        double p[8];
        int32_t classes = 2 + trial % 7;
        double size = pow(10, 6 + trial % 302);
        double largest = -HUGE_VAL;
        for (int32_t c = 0; c < classes; c++) { /* some equal, some next to each other */
            uint32_t drawn = cst_rng_u32(&rng);
            x[c] = c > 0 && drawn % 2 == 0 ? nextafter(x[c - 1], HUGE_VAL)
                                           : size * ((double)(drawn % 7) - 4);
            p[c] = x[c];
            largest = fmax(largest, x[c]);
        }
        cst_simplex_project(classes, p);
        double sum = 0;
        for (int32_t c = 0; c < classes; c++) {
            assert_true(p[c] >= 0);
            assert_true(p[c] == 0 || largest - x[c] < 1);
            sum += p[c];
        }
        assert_relative(sum, 1, 1e-9, 1);
    }
    double endless[3] = {HUGE_VAL, -HUGE_VAL, (double)NAN};
    double lowest[3] = {-1e308, -1e308, -1e308};
    cst_simplex_project(3, endless);
    cst_simplex_project(3, lowest);
    for (int32_t c = 0; c < 3; c++) {
        assert_relative(endless[c], 1 / 3.0, 1e-15, 1);
        assert_relative(lowest[c], 1 / 3.0, 1e-15, 1);
    }
}

static void probabilities_are_floored_and_sum_to_one(void **state) {
    (void)state;
    double clip[6] = {0.5, -0.25, 1.5, 0.2, 0.3, 0.5};
    cst_probability_rows(CST_PROBABILITY_CLIP, 2, 3, clip);
    double total = 0.5 + 1e-6 + 1;
    assert_relative(clip[0], 0.5 / total, 1e-15, 1);
    assert_relative(clip[1], 1e-6 / total, 1e-12, 0);
    assert_relative(clip[2], 1 / total, 1e-15, 1);
    assert_relative(clip[4], 0.3, 1e-15, 1);
    double simplex[3] = {0.5, -0.25, 1.5}; /* projects to (0, 0, 1) */
    cst_probability_rows(CST_PROBABILITY_SIMPLEX, 1, 3, simplex);
    assert_relative(simplex[0], 1e-6 / (1 + 2e-6), 1e-12, 0);
    assert_relative(simplex[2], 1 / (1 + 2e-6), 1e-12, 0);
    double value = -7;
    cst_probability_rows(CST_PROBABILITY_CLIP, 1, 1, &value);
    assert_true(value == -7);
}

int suite_aggregators(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(match_numpy, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(match_numpy_across_tiles, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(order_statistics_of_every_size, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(one_sample_is_the_same_alone_and_among_others, la_setup,
                                        la_teardown),
        cmocka_unit_test_setup_teardown(regression_has_no_entropy, la_setup, la_teardown),
        cmocka_unit_test(simplex_projection_is_optimal),
        cmocka_unit_test(simplex_projection_of_tenths_is_optimal),
        cmocka_unit_test(simplex_projection_of_huge_scores_is_optimal),
        cmocka_unit_test(probabilities_are_floored_and_sum_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
