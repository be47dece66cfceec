/*
 * Hashing of many members: the pairs it computes have the CKA that all pairs have, those it leaves
 * out are below the threshold, and what it says of itself is true.
 */
#include "core/la.h"
#include "method/redundancy/hsic.h"
#include "short_tests.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    ROWS = 560,
    FEWER_ROWS = 330,
    CLASSES = 6,
    MEMBERS = 60,
    FEWER = 36,
    BASES = 6,
    CONSTANT = 28
};

typedef struct fixture {
    cst_context *context;
    int32_t members; /* MEMBERS, or FEWER where tests are short */
    float *data;     /* [members][ROWS][CLASSES] */
    const float *pointers[MEMBERS];
    cst_view view;
} fixture;

/* Copies of BASES members with noise of 1 to 35 %; member CONSTANT says the same of every row. */
static void make_member(int32_t member, float *out) {
    cst_rng base;
    cst_rng own;
    cst_rng_init(&base, 1, CST_STREAM_TEST, (uint32_t)(member % BASES));
    cst_rng_init(&own, 2, CST_STREAM_TEST, (uint32_t)member);
    double share = 0.01 * exp(3.5 * cst_rng_uniform(&own));
    for (int64_t i = 0; i < ROWS; i++) {
        double total = 0;
        double value[CLASSES];
        for (int32_t c = 0; c < CLASSES; c++) {
            double x = cst_rng_normal(&base);
            value[c] = exp(2 * (x + share * cst_rng_normal(&own)));
            value[c] = member == CONSTANT ? c + 1 : value[c];
            total += value[c];
        }
        for (int32_t c = 0; c < CLASSES; c++)
            out[i * CLASSES + c] = (float)(value[c] / total);
    }
}

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    *state = f;
    if (!f || cst_context_create(&f->context) != CST_OK)
        return 1;
    size_t width = (size_t)ROWS * CLASSES;
    f->members = short_tests() ? FEWER : MEMBERS;
    f->data = malloc((size_t)f->members * width * sizeof *f->data);
    if (!f->data)
        return 1;
    for (int32_t k = 0; k < f->members; k++) {
        make_member(k, f->data + (size_t)k * width);
        f->pointers[k] = f->data + (size_t)k * width;
    }
    f->view = (cst_view){.rows = short_tests() ? FEWER_ROWS : ROWS,
                         .classes = CLASSES,
                         .members = f->members,
                         .data = f->pointers};
    cst_la_enter();
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    cst_la_leave();
    cst_context_free(f->context);
    free(f->data);
    free(f);
    return 0;
}

static void compute(fixture *f, const cst_cka_options *options, cst_cka_result *out) {
    cst_status status = cst_cka(f->context, &f->view, options, out);
    if (status != CST_OK)
        fail_msg("%s", cst_last_error(f->context));
}

/* Of the pairs that are not constant some dozens or hundreds exceed the threshold: all of them
 * with hashing as with all pairs, up to the rounding of single precision. */
static void check_against_all(fixture *f, cst_cka_options options, double least_recall) {
    size_t members = (size_t)f->members;
    cst_cka_result hashed;
    cst_cka_result all;
    options.lsh = CST_LSH_ON;
    options.precision = CST_CKA_SINGLE;
    compute(f, &options, &hashed);
    options.lsh = CST_LSH_OFF;
    compute(f, &options, &all);
    assert_null(all.estimated);
    assert_non_null(hashed.estimated);
    assert_int_equal(hashed.rows, all.rows);
    assert_int_equal(hashed.estimator, all.estimator);
    int64_t above = 0;
    int64_t found = 0;
    int64_t computed = 0;
    for (size_t a = 0; a < members; a++) {
        assert_true(hashed.cka[a * members + a] == 1);
        for (size_t b = a + 1; b < members; b++) {
            size_t at = a * members + b;
            assert_true(hashed.cka[at] == hashed.cka[b * members + a]);
            assert_true(hashed.estimated[at] == hashed.estimated[b * members + a]);
            bool constant = a == CONSTANT || b == CONSTANT;
            bool exact = !hashed.estimated[at];
            double error = fabs(hashed.cka[at] - all.cka[at]);
            assert_true(error <= (exact ? 2e-6 : 0.2));
            if (constant)
                assert_true(hashed.cka[at] == 0);
            above += all.cka[at] > options.threshold;
            found += all.cka[at] > options.threshold && exact;
            computed += exact && !constant;
        }
    }
    assert_true(above > (int64_t)members / 3);
    double recall = (double)found / (double)above;
    assert_true(recall >= least_recall);
    assert_true(fabs(hashed.recall - recall) <= 0.02);
    assert_true(hashed.checked > 0 && hashed.checked <= 64);
    assert_true(computed == hashed.computed + hashed.checked);
    assert_true(hashed.proposed >= found - hashed.checked && hashed.proposed <= hashed.computed);
    assert_true(hashed.computed < (int64_t)(members * (members - 1)) / 4);
    assert_true(hashed.sketch_error > 0 && hashed.sketch_error < 0.02);
    cst_cka_result_free(f->context, &hashed);
    cst_cka_result_free(f->context, &all);
}

static void test_default_threshold(void **state) {
    cst_cka_options options = {.estimator = CST_CKA_EXACT,
                               .threshold = short_tests() ? 0.98 : 0.995};
    check_against_all(*state, options, 0.99);
}

static void test_lower_threshold(void **state) {
    cst_cka_options options = {.estimator = CST_CKA_EXACT, .threshold = 0.9};
    if (short_tests())
        return;
    check_against_all(*state, options, 0.99);
}

static void test_unbiased(void **state) {
    cst_cka_options options = {
        .estimator = CST_CKA_EXACT, .threshold = 0.98, .statistic = CST_CKA_UNBIASED};
    if (short_tests()) /* test_sample is unbiased there */
        return;
    check_against_all(*state, options, 0.99);
}

/* The rows of the sample are those that all pairs are computed on. */
static void test_sample(void **state) {
    cst_cka_options options = {
        .estimator = CST_CKA_SAMPLE, .threshold = 0.98, .rows = 300, .seed = 4};
    if (!short_tests())
        check_against_all(*state, options, 0.95);
    options.statistic = CST_CKA_UNBIASED;
    check_against_all(*state, options, 0.95);
}

static void test_few_rows(void **state) {
    fixture f = *(fixture *)*state;
    f.view.rows = 130; /* fewer than are sketched: more than a strip, less than two */
    cst_cka_options options = {.estimator = CST_CKA_EXACT, .threshold = 0.98};
    check_against_all(&f, options, 0.99);
}

/* The landmarks of a member are the same with hashing and without. */
static void test_landmarks(void **state) {
    cst_cka_options options = {.estimator = CST_CKA_NYSTROM, .threshold = 0.98, .landmarks = 60};
    check_against_all(*state, options, 0.95);
    if (short_tests())
        return;
    options.landmark_rule = CST_LANDMARKS_UNIFORM;
    check_against_all(*state, options, 0.95);
}

/* All members in one component of many blocks: nothing is left to sketches. */
static void test_one_component(void **state) {
    fixture *f = *state;
    const float *pointers[MEMBERS];
    cst_view view = f->view;
    int32_t count = 0;
    for (int32_t k = 0; k < f->members; k++)
        if (k != CONSTANT)
            pointers[count++] = f->pointers[k];
    view.members = count;
    view.data = pointers;
    cst_cka_options options = {
        .estimator = CST_CKA_EXACT, .precision = CST_CKA_SINGLE, .threshold = 0.01};
    cst_cka_result hashed;
    cst_cka_result all;
    options.lsh = CST_LSH_ON;
    assert_int_equal(cst_cka(f->context, &view, &options, &hashed), CST_OK);
    options.lsh = CST_LSH_OFF;
    assert_int_equal(cst_cka(f->context, &view, &options, &all), CST_OK);
    size_t cells = (size_t)count * (size_t)count;
    assert_int_equal(hashed.computed, (int64_t)count * (count - 1) / 2);
    assert_int_equal(hashed.checked, 0);
    assert_true(hashed.recall == 1);
    for (size_t i = 0; i < cells; i++) {
        assert_false(hashed.estimated[i]);
        assert_true(fabs(hashed.cka[i] - all.cka[i]) <= 2e-6);
    }
    cst_cka_result_free(f->context, &hashed);
    cst_cka_result_free(f->context, &all);
}

static void test_threads(void **state) {
    fixture *f = *state;
    cst_cka_options options = {
        .estimator = CST_CKA_EXACT, .threshold = 0.98, .lsh = CST_LSH_ON, .seed = 9};
    cst_cka_result one;
    cst_cka_result three;
    assert_int_equal(cst_context_set_threads(f->context, 1), CST_OK);
    compute(f, &options, &one);
    assert_int_equal(cst_context_set_threads(f->context, 3), CST_OK);
    compute(f, &options, &three);
    size_t cells = (size_t)f->members * (size_t)f->members;
    assert_memory_equal(one.cka, three.cka, cells * sizeof *one.cka);
    assert_memory_equal(one.estimated, three.estimated, cells * sizeof *one.estimated);
    assert_true(one.recall == three.recall);
    cst_cka_result_free(f->context, &one);
    cst_cka_result_free(f->context, &three);
}

/* Sketches that are copies share every bucket; constant members alone have nothing to share. */
static void test_copies_and_constants(void **state) {
    fixture *f = *state;
    const float *pointers[4] = {f->pointers[3], f->pointers[CONSTANT], f->pointers[3],
                                f->pointers[CONSTANT]};
    cst_view view = f->view;
    view.members = 4;
    view.data = pointers;
    cst_cka_options options = {.threshold = 1, .lsh = CST_LSH_ON};
    cst_cka_result out;
    assert_int_equal(cst_cka(f->context, &view, &options, &out), CST_OK);
    assert_int_equal(out.proposed, 1);
    assert_true(fabs(out.cka[2] - 1) < 1e-6 && !out.estimated[2]);
    assert_true(out.cka[1] == 0 && out.cka[7] == 0 && !out.estimated[1]);
    cst_cka_result_free(f->context, &out);
    pointers[0] = pointers[2] = f->pointers[CONSTANT];
    assert_int_equal(cst_cka(f->context, &view, &options, &out), CST_OK);
    assert_int_equal(out.proposed, 0);
    assert_int_equal(out.checked, 0);
    assert_true(out.recall == 1 && out.cka[1] == 0);
    cst_cka_result_free(f->context, &out);
}

/* By the formula of docs/method.md#hundreds-of-members, and no more bits than there are. */
static void test_tables(void **state) {
    (void)state;
    static const double thresholds[] = {1, 0.9999, 0.995, 0.95, 0.85, 0.5, 0.1, 1e-6};
    for (size_t i = 0; i < sizeof thresholds / sizeof thresholds[0]; i++) {
        cst_lsh_tables t = cst_lsh_choose(thresholds[i]);
        assert_in_range(t.bits, 1, 32);
        assert_in_range(t.tables * t.bits, 1, CST_LSH_BITS);
        double same = 1 - acos(thresholds[i]) / acos(-1.0);
        assert_true(1 - pow(1 - pow(same, t.bits), t.tables) >= 0.995);
        assert_true(t.level < thresholds[i]);
    }
}

static void test_when(void **state) {
    (void)state;
    cst_view short_of = {.rows = 1000, .classes = 2, .members = CST_LSH_MEMBERS};
    cst_view many = {.rows = 2000, .classes = 2, .members = CST_LSH_MEMBERS};
    cst_view few = {.rows = 2000, .classes = 2, .members = CST_LSH_MEMBERS - 1};
    cst_cka_options options = {.threshold = 0.995};
    assert_true(cst_lsh_wanted(&many, &options));
    assert_false(cst_lsh_wanted(&few, &options));
    assert_false(cst_lsh_wanted(&short_of, &options));
    options.lsh = CST_LSH_ON;
    assert_true(cst_lsh_wanted(&few, &options));
    options.threshold = 0;
    assert_false(cst_lsh_wanted(&many, &options));
    options.threshold = 0.995;
    options.estimator = CST_CKA_PROBES;
    assert_false(cst_lsh_wanted(&many, &options));
    options.estimator = CST_CKA_AUTO;
    options.lsh = CST_LSH_OFF;
    assert_false(cst_lsh_wanted(&many, &options));
}

int suite_lsh(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_threshold),
        cmocka_unit_test(test_lower_threshold),
        cmocka_unit_test(test_unbiased),
        cmocka_unit_test(test_sample),
        cmocka_unit_test(test_few_rows),
        cmocka_unit_test(test_one_component),
        cmocka_unit_test(test_landmarks),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_copies_and_constants),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_when),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
