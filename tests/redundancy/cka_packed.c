/*
 * CKA over packed rows: single precision against double on members of every packing, samples of
 * rows against all of them, any number of threads.
 */
#include "core/la.h"
#include "failing_memory.h"
#include "method/redundancy/hsic.h"
#include "short_tests.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MEMBERS = 5, ROWS = 900, CLASSES = 200 };

typedef struct fixture {
    cst_context *context;
    float *data; /* [MEMBERS][ROWS][CLASSES] */
    const float *pointers[MEMBERS];
} fixture;

/* Sharp predictions of a true class and a few that resemble it; members share part of the noise. */
static void fill(float *data, int64_t rows, int32_t classes, int32_t members, double sharp,
                 uint32_t seed) {
    cst_rng rng;
    cst_rng_init(&rng, 4, CST_STREAM_TEST, seed);
    double *shared = calloc((size_t)classes, sizeof *shared);
    assert_non_null(shared);
    for (int64_t i = 0; i < rows; i++) {
        int64_t truth = cst_rng_below(&rng, classes);
        for (int32_t c = 0; c < classes; c++)
            shared[c] = (c == truth             ? 3
                         : c / 10 == truth / 10 ? 1
                                                : 0) +
                        0.7 * cst_rng_normal(&rng);
        for (int32_t k = 0; k < members; k++) {
            float *row = data + ((int64_t)k * rows + i) * classes;
            double total = 0;
            for (int32_t c = 0; c < classes; c++) {
                row[c] = (float)exp(sharp * (shared[c] + 0.3 * (k + 1) * cst_rng_normal(&rng)));
                total += (double)row[c];
            }
            for (int32_t c = 0; c < classes; c++)
                row[c] = (float)((double)row[c] / total);
        }
    }
    free(shared);
}

static cst_view view_of(fixture *f, int64_t rows, int32_t classes, int32_t members) {
    for (int32_t k = 0; k < members; k++)
        f->pointers[k] = f->data + (int64_t)k * rows * classes;
    return (cst_view){.rows = rows, .classes = classes, .members = members, .data = f->pointers};
}

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    *state = f;
    if (!f || cst_context_create(&f->context) != CST_OK)
        return 1;
    f->data = calloc((size_t)MEMBERS * ROWS * CLASSES, sizeof *f->data);
    cst_la_enter();
    return f->data ? 0 : 1;
}

static int teardown(void **state) {
    fixture *f = *state;
    cst_la_leave();
    cst_context_free(f->context);
    free(f->data);
    free(f);
    return 0;
}

static cst_cka_result cka(fixture *f, const cst_view *view, const cst_cka_options *options) {
    cst_cka_result result;
    if (cst_cka(f->context, view, options, &result) != CST_OK)
        fail_msg("%s", cst_last_error(f->context));
    return result;
}

static double largest_error(const cst_cka_result *a, const cst_cka_result *b) {
    double worst = 0;
    for (int32_t i = 0; i < a->members * a->members; i++)
        worst = fmax(worst, fabs(a->cka[i] - b->cka[i]));
    return worst;
}

/* How the members are packed, and single precision within `margin` of double for both statistics.
 */
static void compare(fixture *f, const cst_view *view, const cst_packing *packing, double margin) {
    cst_kernels kernels;
    cst_packed packed;
    cst_scope scope = {0};
    assert_int_equal(cst_kernels_create(f->context, &scope, view, 0, &kernels), CST_OK);
    assert_int_equal(cst_packed_plan(f->context, &kernels, &packed), CST_OK);
    for (int32_t k = 0; k < view->members; k++)
        assert_int_equal(packed.member[k].packing, packing[k]);
    cst_packed_free(f->context, &packed);
    cst_scope_free(&scope);
    for (int statistic = CST_CKA_BIASED; statistic <= CST_CKA_UNBIASED; statistic++) {
        cst_cka_options options = {.estimator = CST_CKA_EXACT,
                                   .precision = CST_CKA_DOUBLE,
                                   .statistic = (cst_cka_statistic)statistic};
        cst_cka_result exact = cka(f, view, &options);
        options.precision = CST_CKA_SINGLE;
        cst_cka_result single = cka(f, view, &options);
        assert_int_equal(single.rows, view->rows);
        double error = largest_error(&exact, &single);
        if (!(error <= margin))
            fail_msg("single precision is off by %.3g", error);
        cst_cka_result_free(f->context, &exact);
        cst_cka_result_free(f->context, &single);
    }
}

static void sharp_predictions_are_packed_sparse(void **state) {
    fixture *f = *state;
    fill(f->data, ROWS, CLASSES, MEMBERS, 6, 0);
    cst_view view = view_of(f, ROWS, CLASSES, MEMBERS);
    const cst_packing packing[MEMBERS] = {CST_PACKED_SPARSE, CST_PACKED_SPARSE, CST_PACKED_SPARSE,
                                          CST_PACKED_SPARSE, CST_PACKED_SPARSE};
    compare(f, &view, packing, 1e-3);
}

/* Few classes; a member beside 1,000; one that is constant. */
static void others_are_packed_dense(void **state) {
    fixture *f = *state;
    enum { FEW = 4 };
    fill(f->data, ROWS, FEW, MEMBERS, 1, 1);
    for (size_t i = 0; i < (size_t)ROWS * FEW; i++) {
        f->data[3 * (size_t)ROWS * FEW + i] += 1000;
        f->data[4 * (size_t)ROWS * FEW + i] = 0.25F;
    }
    cst_view view = view_of(f, ROWS, FEW, MEMBERS);
    const cst_packing packing[MEMBERS] = {CST_PACKED_DENSE, CST_PACKED_DENSE, CST_PACKED_DENSE,
                                          CST_PACKED_DENSE, CST_PACKED_NOT};
    compare(f, &view, packing, 1e-5);
}

/* More than half the rows nearly coincide and the others come in tight groups far away: single
 * precision loses the distances within a group, so tiles are taken in double. */
static void wide_members_are_not_packed(void **state) {
    fixture *f = *state;
    cst_rng rng;
    cst_rng_init(&rng, 4, CST_STREAM_TEST, 2);
    for (int32_t k = 0; k < 2; k++)
        for (int64_t i = 0; i < ROWS; i++) {
            float *row = f->data + (k * ROWS + i) * 2;
            double group = i % 10 < 8 ? 0 : 1 + (double)(i % 3);
            row[0] = (float)(group + 1e-5 * cst_rng_normal(&rng));
            row[1] = (float)(-group + 1e-5 * cst_rng_normal(&rng));
        }
    cst_view view = view_of(f, ROWS, 2, 2);
    const cst_packing packing[2] = {CST_PACKED_NOT, CST_PACKED_NOT};
    compare(f, &view, packing, 1e-4);
}

/* An entry that sparse strips may not hold, in a row that the plan has not seen. */
static void members_that_stop_fitting_are_packed_again(void **state) {
    fixture *f = *state;
    fill(f->data, ROWS, CLASSES, 2, 6, 3);
    f->data[1 * CLASSES + 7] = -0.5F; /* row 1 is no reference row: 256 of 900 */
    f->data[2 * CLASSES + 9] = 3;
    cst_view view = view_of(f, ROWS, CLASSES, 2);
    const cst_packing packing[2] = {CST_PACKED_SPARSE, CST_PACKED_SPARSE};
    compare(f, &view, packing, 1e-3);
}

static void all_rows_are_a_sample(void **state) {
    fixture *f = *state;
    fill(f->data, ROWS, CLASSES, MEMBERS, 6, 0);
    cst_view view = view_of(f, ROWS, CLASSES, MEMBERS);
    cst_cka_options options = {.estimator = CST_CKA_EXACT, .precision = CST_CKA_SINGLE};
    cst_cka_result exact = cka(f, &view, &options);
    options.estimator = CST_CKA_SAMPLE;
    options.rows = 100000;
    cst_cka_result sample = cka(f, &view, &options);
    assert_int_equal(sample.estimator, CST_CKA_SAMPLE);
    assert_int_equal(sample.rows, ROWS);
    assert_memory_equal(sample.cka, exact.cka, MEMBERS * MEMBERS * sizeof(double));
    cst_cka_result_free(f->context, &exact);
    cst_cka_result_free(f->context, &sample);
}

/* The mean error over seeds is far below that of one sample: half the rows double the weight of the
 * diagonal, which is taken into account. */
static void samples_are_about_unbiased(void **state) {
    fixture *f = *state;
    const uint64_t seeds = short_tests() ? 1 : 20;
    fill(f->data, ROWS, CLASSES, MEMBERS, 3, 0);
    cst_view view = view_of(f, ROWS, CLASSES, MEMBERS);
    for (int statistic = CST_CKA_BIASED; statistic <= CST_CKA_UNBIASED; statistic++) {
        cst_cka_options options = {.estimator = CST_CKA_EXACT,
                                   .statistic = (cst_cka_statistic)statistic};
        cst_cka_result exact = cka(f, &view, &options);
        double mean[MEMBERS * MEMBERS] = {0};
        options.estimator = CST_CKA_SAMPLE;
        options.rows = ROWS / 2;
        for (options.seed = 0; options.seed < seeds; options.seed++) {
            cst_cka_result sample = cka(f, &view, &options);
            assert_int_equal(sample.rows, ROWS / 2);
            assert_true(largest_error(&exact, &sample) < 0.08);
            for (size_t i = 0; i < MEMBERS * MEMBERS; i++)
                mean[i] += (sample.cka[i] - exact.cka[i]) / (double)seeds;
            cst_cka_result_free(f->context, &sample);
        }
        for (size_t i = 0; !short_tests() && i < MEMBERS * MEMBERS; i++)
            if (!(fabs(mean[i]) < 0.012))
                fail_msg("entry %zu is off by %.3g on average", i, mean[i]);
        cst_cka_result_free(f->context, &exact);
    }
}

/* Features from kernels in single precision against the same projection of kernels in double, for
 * sharp members and for flat ones; what single precision does
 * not suit is left in double. */
static void landmarks_in_single_precision(void **state) {
    fixture *f = *state;
    enum { LANDMARKS = 40, COUNT = 512 };
    int64_t landmarks[LANDMARKS];
    for (int64_t i = 0; i < LANDMARKS; i++)
        landmarks[i] = 7 + 22 * i;
    const double sharp[3] = {6, 1, 1};
    for (int variant = 0; variant < 3; variant++) {
        fill(f->data, ROWS, CLASSES, 1, sharp[variant], 6);
        for (size_t i = 0; variant == 2 && i < (size_t)ROWS * CLASSES; i++)
            f->data[i] += 1000;
        cst_view view = view_of(f, ROWS, CLASSES, 1);
        cst_kernels kernels;
        cst_features features;
        cst_scope scope = {0};
        assert_int_equal(cst_kernels_create(f->context, &scope, &view, 0, &kernels), CST_OK);
        assert_int_equal(
            cst_features_fit(f->context, &kernels, 0, landmarks, LANDMARKS, 0, &features), CST_OK);
        if (variant == 2) {
            assert_null(features.single);
            assert_null(features.columns);
        } else {
            assert_non_null(features.single);
            size_t entries = (size_t)(COUNT * features.rank);
            double *narrow = calloc(entries, sizeof *narrow);
            double *wide = calloc(entries, sizeof *wide);
            assert_true(narrow && wide);
            assert_int_equal(
                cst_features_rows(f->context, &kernels, 0, &features, 0, COUNT, narrow), CST_OK);
            cst_features without = features;
            without.single = NULL;
            assert_int_equal(cst_features_rows(f->context, &kernels, 0, &without, 0, COUNT, wide),
                             CST_OK);
            double error = 0;
            double size = 0;
            for (size_t x = 0; x < entries; x++) {
                error += (narrow[x] - wide[x]) * (narrow[x] - wide[x]) / COUNT;
                size += wide[x] * wide[x] / COUNT;
            }
            if (!(error > 0 && sqrt(error) < 0.01 * sqrt(size)))
                fail_msg("variant %d: %.3g beside %.3g", variant, sqrt(error), sqrt(size));
            free(narrow);
            free(wide);
        }
        cst_scope_free(&features.scope);
        cst_scope_free(&scope);
    }
}

/* Some rounds of pairs of all rows, sparse and dense: for every seed the worst error is within four
 * standard errors of it, and on average errors are within one, which is that of the worst pair, but
 * not far below. */
static void standard_errors_cover_errors(void **state) {
    fixture *f = *state;
    enum { LONG = 3000 };
    const uint64_t seeds = short_tests() ? 1 : 5;
    const struct {
        int32_t classes;
        int32_t members;
        double sharp;
    } pools[] = {{200, 4, 5}, {12, 5, 1}};
    for (size_t p = short_tests() ? 1 : 0; p < 2; p++) {
        double squares = 0;
        double expected = 0;
        free(f->data);
        f->data = calloc((size_t)LONG * 800, sizeof *f->data);
        assert_non_null(f->data);
        fill(f->data, LONG, pools[p].classes, pools[p].members, pools[p].sharp, 5);
        cst_view view = view_of(f, LONG, pools[p].classes, pools[p].members);
        for (uint64_t seed = 0; seed < seeds; seed++) {
            cst_cka_options options = {
                .estimator = CST_CKA_EXACT, .precision = CST_CKA_SINGLE, .seed = seed};
            cst_cka_result exact = cka(f, &view, &options);
            assert_int_equal(exact.partners, LONG - 1);
            assert_true(exact.standard_error == 0);
            options.estimator = CST_CKA_SAMPLE;
            cst_cka_result sample = cka(f, &view, &options);
            assert_int_equal(sample.rows, LONG / 128 * 128);
            assert_true(sample.partners < LONG / 128 * 128);
            assert_true(sample.standard_error > 0 && sample.standard_error <= 0.0026);
            double error = largest_error(&exact, &sample);
            if (!(error <= 4 * sample.standard_error))
                fail_msg("an error of %.3g, standard error %.3g", error, sample.standard_error);
            squares += error * error;
            expected += sample.standard_error * sample.standard_error;
            cst_cka_result_free(f->context, &exact);
            cst_cka_result_free(f->context, &sample);
        }
        if (!short_tests() && !(squares < 6 * expected && squares > 0.1 * expected))
            fail_msg("pool %zu: mean square %.3g, expected %.3g", p, squares / (double)seeds,
                     expected / (double)seeds);
    }
}

/* Rounds of tiles of two members, of 20 strips of a far larger pool, whose products differ by
 * `strip` with the strips and by `tile` with nothing else: where the check after four rounds is
 * next wanted. */
static int64_t next_check_after_four(fixture *f, double strip, double tile) {
    enum { STRIPS = 20, DONE = 4, CELLS = 4, ROUNDS = STRIPS / 2 + 1 };
    const bool constant[2] = {false, false};
    cst_view view = {.rows = 200000, .members = 2, .classes = 3};
    cst_kernels kernels = {.view = &view, .constant = (bool *)constant};
    cst_pairs pairs = {0};
    cst_scope scope = {0};
    double sums[CST_PAIRS_SUMS * CELLS] = {0};
    double hsic[CELLS];
    assert_int_equal(cst_pairs_create(f->context, &scope, &kernels, STRIPS * 128, 1e-4, 0, &pairs),
                     CST_OK);
    for (int64_t d = 1; d <= DONE; d++) {
        for (int64_t i = 0; i < STRIPS; i++) {
            double one[CST_PAIRS_SUMS * CELLS] = {0};
            int64_t j = (i + d) % STRIPS;
            double effect = (double)(i * 7 % STRIPS + j * 7 % STRIPS) / STRIPS - 0.95;
            one[0] = one[3] = 1;
            one[2] = 0.5 + strip * effect + tile * ((i * 13 + d * 5) % 7 < 3 ? 1 : -0.75);
            cst_pairs_tile(&pairs, i, j, one);
            for (int x = 0; x < CST_PAIRS_SUMS * CELLS; x++)
                sums[x] += one[x];
        }
        cst_pairs_round(&pairs, STRIPS, false);
    }
    double grown = 200000.0 / (STRIPS * 128);
    for (int x = 0; x < CELLS; x++)
        hsic[x] = sums[x] * grown * grown * (STRIPS * 128 - 1) / (double)pairs.partners;
    assert_true(cst_pairs_error(&pairs, sums, hsic) > 1e-4);
    int64_t next = cst_pairs_next_check(&pairs, sums, hsic, DONE, ROUNDS);
    cst_scope_free(&scope);
    return next;
}

/* More tiles of the same rows are taken where tiles differ, not where rows do. */
static void rounds_end_where_only_rows_are_left(void **state) {
    assert_true(next_check_after_four(*state, 0, 0.2) > 4);
    assert_true(next_check_after_four(*state, 0.05, 0.2) > 4);
    assert_int_equal(next_check_after_four(*state, 0.2, 0.01), 4);
}

static void results_do_not_depend_on_threads(void **state) {
    fixture *f = *state;
    fill(f->data, ROWS, CLASSES, MEMBERS, 6, 0);
    cst_view view = view_of(f, ROWS, CLASSES, MEMBERS);
    for (int32_t rows = 0; rows <= 600; rows += 600) {
        cst_cka_options options = {.estimator = CST_CKA_SAMPLE, .rows = rows};
        assert_int_equal(cst_context_set_threads(f->context, 1), CST_OK);
        cst_cka_result one = cka(f, &view, &options);
        for (int threads = short_tests() ? 3 : 2; threads <= 3; threads++) {
            assert_int_equal(cst_context_set_threads(f->context, threads), CST_OK);
            cst_cka_result more = cka(f, &view, &options);
            assert_memory_equal(one.cka, more.cka, MEMBERS * MEMBERS * sizeof(double));
            assert_true(one.standard_error == more.standard_error);
            cst_cka_result_free(f->context, &more);
        }
        cst_cka_result_free(f->context, &one);
    }
}

/* Sparse members, and one that stops fitting, which makes all tiles whole. */
static void every_allocation_may_fail(void **state) {
    fixture *f = *state;
    enum { FEW = 150 };
    for (int variant = 0; variant < 3; variant++) { /* the last: features in single precision */
        fill(f->data, FEW, CLASSES, 2, 6, 3);
        if (variant == 1)
            f->data[128 * CLASSES + 7] = 2;
        cst_view view = view_of(f, FEW, CLASSES, 2);
        cst_status status = CST_ERROR_MEMORY;
        int64_t n = 0;
        for (; status != CST_OK && n < 2000; n += short_tests() ? 5 : 1) {
            failing memory = {.left = INT64_MAX};
            cst_context *context = NULL;
            assert_int_equal(cst_context_create_with(&context, failing_realloc, &memory), CST_OK);
            assert_int_equal(cst_context_set_threads(context, 1), CST_OK);
            memory.left = n;
            cst_cka_options options = {.estimator = CST_CKA_SAMPLE, .rows = FEW - variant};
            if (variant == 2)
                options = (cst_cka_options){.estimator = CST_CKA_NYSTROM,
                                            .landmark_rule = CST_LANDMARKS_UNIFORM};
            cst_cka_result result;
            status = cst_cka(context, &view, &options, &result);
            assert_true(status == CST_OK || status == CST_ERROR_MEMORY);
            memory.left = INT64_MAX;
            cst_cka_result_free(context, &result);
            assert_int_equal(memory.live, 1);
            cst_context_free(context);
            assert_int_equal(memory.live, 0);
        }
        assert_int_equal(status, CST_OK);
        assert_true(n > 40);
    }
}

int suite_cka_packed(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sharp_predictions_are_packed_sparse, setup, teardown),
        cmocka_unit_test_setup_teardown(others_are_packed_dense, setup, teardown),
        cmocka_unit_test_setup_teardown(wide_members_are_not_packed, setup, teardown),
        cmocka_unit_test_setup_teardown(members_that_stop_fitting_are_packed_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(all_rows_are_a_sample, setup, teardown),
        cmocka_unit_test_setup_teardown(samples_are_about_unbiased, setup, teardown),
        cmocka_unit_test_setup_teardown(landmarks_in_single_precision, setup, teardown),
        cmocka_unit_test_setup_teardown(standard_errors_cover_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(rounds_end_where_only_rows_are_left, setup, teardown),
        cmocka_unit_test_setup_teardown(results_do_not_depend_on_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
