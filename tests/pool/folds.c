/*
 * Folds: balance of every class and of the sizes, groups kept whole, the checks and their words.
 */
#include "data/pool/pool.h"

#include "data/folds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"

/* Largest difference between two folds' counts, over one class (or all rows for label < 0). */
static int64_t imbalance(const int32_t *labels, const int32_t *folds, int64_t rows, int32_t count,
                         int32_t label) {
    int64_t counts[64] = {0};
    for (int64_t i = 0; i < rows; i++)
        if (label < 0 || labels[i] == label)
            counts[folds[i]]++;
    int64_t least = counts[0];
    int64_t most = counts[0];
    for (int32_t f = 1; f < count; f++) {
        least = counts[f] < least ? counts[f] : least;
        most = counts[f] > most ? counts[f] : most;
    }
    return most - least;
}

static void stratified_counts_differ_by_at_most_one(void **state) {
    cst_context *context = *state;
    enum { ROWS = 997, CLASSES = 13 };
    int32_t labels[ROWS];
    int32_t folds[ROWS];
    cst_rng rng;
    cst_rng_init(&rng, 3, CST_STREAM_TEST, 0);
    for (int trial = 0; trial < 40; trial++) {
        int32_t count = 2 + trial % 11;
        for (int i = 0; i < ROWS; i++) { /* skewed: class 12 is rare */
            double u = cst_rng_uniform(&rng);
            labels[i] = (int32_t)(CLASSES * u * u * u * 0.999);
            labels[i] = CLASSES - 1 - labels[i];
        }
        assert_int_equal(cst_folds_stratified(context, labels, ROWS, count, (uint64_t)trial, folds),
                         CST_OK);
        for (int i = 0; i < ROWS; i++)
            assert_in_range(folds[i], 0, count - 1);
        for (int32_t c = -1; c < CLASSES; c++)
            assert_true(imbalance(labels, folds, ROWS, count, c) <= 1);
    }
}

/* scikit-learn's StratifiedKFold deals classes in the same way: the sorted counts of every class
 * over the folds must be its counts. */
static void stratified_counts_are_those_of_scikit_learn(void **state) {
    cst_context *context = *state;
    int32_t folds[FOLDS_ROWS];
    assert_int_equal(
        cst_folds_stratified(context, folds_labels, FOLDS_ROWS, FOLDS_COUNT, 11, folds), CST_OK);
    for (int c = 0; c < FOLDS_CLASSES; c++) {
        int seen[2][FOLDS_ROWS + 1] = {{0}};
        int counts[FOLDS_COUNT] = {0};
        for (int i = 0; i < FOLDS_ROWS; i++)
            counts[folds[i]] += folds_labels[i] == c;
        for (int f = 0; f < FOLDS_COUNT; f++) {
            seen[0][counts[f]]++;
            seen[1][folds_stratified_counts[f * FOLDS_CLASSES + c]]++;
        }
        assert_memory_equal(seen[0], seen[1], sizeof seen[0]);
    }
}

static void seeds_decide_and_nothing_else(void **state) {
    cst_context *context = *state;
    int32_t a[FOLDS_ROWS];
    int32_t b[FOLDS_ROWS];
    int32_t c[FOLDS_ROWS];
    assert_int_equal(cst_folds_stratified(context, folds_labels, FOLDS_ROWS, 5, 1, a), CST_OK);
    assert_int_equal(cst_context_set_threads(context, 3), CST_OK);
    assert_int_equal(cst_folds_stratified(context, folds_labels, FOLDS_ROWS, 5, 1, b), CST_OK);
    assert_int_equal(cst_folds_stratified(context, folds_labels, FOLDS_ROWS, 5, 2, c), CST_OK);
    assert_memory_equal(a, b, sizeof a);
    assert_true(memcmp(a, c, sizeof a) != 0);
}

static void small_classes_are_spread_and_named(void **state) {
    cst_context *context = *state;
    const int32_t labels[] = {0, 0, 0, 0, 0, 7, 7, 9};
    int32_t folds[8];
    assert_int_equal(cst_folds_stratified(context, labels, 8, 5, 0, folds), CST_OK);
    assert_true(folds[5] != folds[6]);
    assert_int_equal(cst_notice_count(context), 1);
    assert_non_null(strstr(cst_notice_at(context, 0), "2 classes (7, 9)"));
    int32_t many[20];
    int32_t spread[20];
    for (int i = 0; i < 20; i++)
        many[i] = i / 2;
    cst_notices_clear(context);
    assert_int_equal(cst_folds_stratified(context, many, 20, 3, 0, spread), CST_OK);
    assert_non_null(strstr(cst_notice_at(context, 0), "10 classes (0, 1, 2, 3, 4, ...)"));
}

static void impossible_requests_are_refused(void **state) {
    cst_context *context = *state;
    const int32_t labels[] = {0, 1, 0, -2};
    const int64_t groups[] = {5, 5, 5, 6};
    int32_t folds[4];
    assert_int_equal(cst_folds_stratified(context, labels, 3, 4, 0, folds), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "3 rows"));
    assert_int_equal(cst_folds_stratified(context, labels, 3, 1, 0, folds), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_folds_stratified(context, labels, 4, 2, 0, folds), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "row 3 is -2"));
    assert_int_equal(cst_folds_grouped(context, labels, groups, 3, 2, 0, folds), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "1 group cannot"));
}

/* Mean over the classes of the standard deviation of the folds' shares: what is minimised. */
static double unevenness(const int32_t *folds) {
    double sum = 0;
    for (int c = 0; c < FOLDS_CLASSES; c++) {
        double counts[FOLDS_COUNT] = {0};
        double total = 0;
        for (int i = 0; i < FOLDS_ROWS; i++) {
            counts[folds[i]] += folds_labels[i] == c;
            total += folds_labels[i] == c;
        }
        double variance = 0;
        for (int f = 0; f < FOLDS_COUNT; f++) {
            double off = counts[f] / total - 1.0 / FOLDS_COUNT;
            variance += off * off / FOLDS_COUNT;
        }
        sum += variance > 0 ? __builtin_sqrt(variance) : 0;
    }
    return sum / FOLDS_CLASSES;
}

static void groups_stay_whole_and_classes_even(void **state) {
    cst_context *context = *state;
    for (uint64_t seed = 0; seed < 10; seed++) {
        int32_t folds[FOLDS_ROWS];
        int32_t again[FOLDS_ROWS];
        int32_t sizes[FOLDS_COUNT] = {0};
        assert_int_equal(cst_folds_grouped(context, folds_labels, folds_groups, FOLDS_ROWS,
                                           FOLDS_COUNT, seed, folds),
                         CST_OK);
        assert_int_equal(cst_folds_grouped(context, folds_labels, folds_groups, FOLDS_ROWS,
                                           FOLDS_COUNT, seed, again),
                         CST_OK);
        assert_memory_equal(folds, again, sizeof folds);
        for (int i = 0; i < FOLDS_ROWS; i++) {
            assert_in_range(folds[i], 0, FOLDS_COUNT - 1);
            sizes[folds[i]]++;
            for (int j = 0; j < i; j++)
                if (folds_groups[i] == folds_groups[j])
                    assert_int_equal(folds[i], folds[j]);
        }
        for (int f = 0; f < FOLDS_COUNT; f++)
            assert_true(sizes[f] > 0);
        /* StratifiedGroupKFold's value on the same rows; ours ranks groups by size, it by spread */
        assert_true(unevenness(folds) < 1.25 * folds_grouped_unevenness);
    }
}

static void no_fold_stays_empty(void **state) {
    cst_context *context = *state;
    const int32_t labels[] = {0, 0, 0, 0, 0, 0, 1, 1, 2};
    const int64_t groups[] = {-3, -3, -3, -3, -3, 40, 50, 50, 60};
    int32_t folds[9];
    assert_int_equal(cst_folds_grouped(context, labels, groups, 9, 4, 0, folds), CST_OK);
    int seen[4] = {0};
    for (int i = 0; i < 9; i++)
        seen[folds[i]] = 1;
    assert_int_equal(seen[0] + seen[1] + seen[2] + seen[3], 4);
}

static void given_folds_are_checked(void **state) {
    cst_context *context = *state;
    const int32_t labels[] = {0, 0, 0, 1, 1, 2};
    const int32_t one[] = {0, 0, 0, 0, 0, 0};
    const int32_t gap[] = {0, 2, 0, 2, 0, 2};
    const int32_t huge[] = {0, INT32_MAX, 0, 1, 0, 1};
    const int32_t negative[] = {0, 1, -1, 0, 1, 0};
    const int32_t good[] = {0, 1, 2, 1, 0, 2};
    assert_int_equal(cst_folds_check(context, one, labels, 6), CST_ERROR_INPUT);
    assert_int_equal(cst_folds_check(context, gap, labels, 6), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "fold 1 of 0..2"));
    assert_int_equal(cst_folds_check(context, huge, labels, 6), CST_ERROR_INPUT);
    assert_int_equal(cst_folds_check(context, negative, labels, 6), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "row 2 is -1"));
    assert_int_equal(cst_notice_count(context), 0);
    assert_int_equal(cst_folds_check(context, good, NULL, 6), CST_OK);
    assert_int_equal(cst_notice_count(context), 0);
    assert_int_equal(cst_folds_check(context, good, labels, 6), CST_OK);
    assert_int_equal(cst_folds_count(good, 6), 3);
    assert_int_equal(cst_notice_count(context), 2);
    assert_non_null(strstr(cst_notice_at(context, 0), "class 2: all rows are in one fold"));
    assert_non_null(strstr(cst_notice_at(context, 1), "class 1: at least one of the"));
}

int suite_folds(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stratified_counts_differ_by_at_most_one, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(stratified_counts_are_those_of_scikit_learn, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(seeds_decide_and_nothing_else, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(small_classes_are_spread_and_named, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(impossible_requests_are_refused, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(groups_stay_whole_and_classes_even, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(no_fold_stays_empty, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(given_folds_are_checked, context_setup, context_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
