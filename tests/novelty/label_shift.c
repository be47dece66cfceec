/*
 * Class shares of a batch: against NumPy and SciPy, the tests' levels and the intervals by
 * simulation, and batches and references that hold little.
 */
#include "model/shift/label_shift.h"

#include "check.h"
#include "data/label_shift.h"

#include <stdlib.h>
#include <string.h>

static cst_scope scope; /* of what a test makes */

enum { C = LS_CLASSES };

/* The reference of rows p of the stack. */
static cst_confusion *made_of(cst_context *context, const float *p, const int32_t *labels,
                              int64_t rows, int32_t classes, const double *share) {
    cst_confusion *made = NULL;
    cst_confusion_row *counted = calloc((size_t)rows, sizeof *counted);
    for (int64_t i = 0; i < rows; i++)
        counted[i] = cst_confusion_row_of(p + i * classes, classes, labels[i]);
    assert_int_equal(cst_confusion_fit(context, &scope, counted, rows, classes, share, &made),
                     CST_OK);
    free(counted);
    return made;
}

static cst_confusion *fixture(cst_context *context) {
    cst_confusion *made = made_of(context, LS_P, LS_LABELS, LS_REFERENCE, C, LS_SHARE);
    assert_non_null(made);
    return made;
}

static const float *batch_of(int b) {
    return LS_BATCH_P + (size_t)b * LS_BATCH * C;
}

static void confusion_agrees_with_numpy(void **state) {
    cst_confusion *made = fixture(*state);
    double matrix[C * C];
    cst_confusion_matrix(made, matrix);
    for (int j = 0; j < C; j++) {
        int64_t rows = cst_confusion_rows(made, j);
        for (int b = 0; b < CST_CONFUSION_BINS; b++)
            assert_int_equal(made->bin[j * CST_CONFUSION_BINS + b],
                             LS_BINS[j * CST_CONFUSION_BINS + b]);
        for (int i = 0; i < C; i++)
            assert_close(matrix[i * C + j] * (double)rows, LS_COUNTS[j * C + i], 1e-9);
    }
    for (int b = 0; b < CST_CONFUSION_BINS - 1; b++)
        assert_true(made->edge[b] == LS_EDGES[b]);
    cst_scope_free(&scope);
}

static void estimates_agree_with_numpy(void **state) {
    cst_confusion *made = fixture(*state);
    for (int b = 0; b < LS_BATCHES; b++)
        for (int method = CST_LABEL_EM; method <= CST_LABEL_BBSE; method++) {
            bool em = method == CST_LABEL_EM;
            cst_label_shift found;
            assert_int_equal(cst_label_shift_estimate(*state, &scope, made,
                                                      (cst_label_method)method, batch_of(b),
                                                      LS_BATCH, &found),
                             CST_OK);
            const double *tests = LS_TESTS + 4 * b + (em ? 0 : 2);
            assert_close(found.change_p, tests[0], 1e-5);
            assert_close(found.fit_p, tests[1], 1e-4);
            for (int c = 0; c < C; c++) {
                double share = em ? LS_EM[b * C + c] : LS_BBSE[b * C + c];
                double half = 1.959963984540054 *
                              (em ? LS_EM_ERROR[b * C + c] : sqrt(LS_BBSE_VARIANCE[b * C + c]));
                assert_close(found.share[c], fmin(fmax(share, 0), 1), 1e-6);
                assert_close(found.low[c], fmax(share - half, 0), 1e-5);
                assert_close(found.high[c], fmin(share + half, 1), 1e-5);
            }
            assert_int_equal(found.verdict, b == 0   ? CST_LABEL_SAME
                                            : b == 1 ? CST_LABEL_APPLIED
                                            : em     ? CST_LABEL_OTHER_SHIFT
                                                     : CST_LABEL_SAME);
            float shifted[5 * C];
            memcpy(shifted, batch_of(b), sizeof shifted);
            assert_int_equal(cst_label_shift_apply(*state, &found, shifted, 5), CST_OK);
            for (int i = 0; em && i < 5 * C; i++)
                assert_close(shifted[i], LS_SHIFTED[b * 5 * C + i], 1e-6);
        }
    cst_scope_free(&scope);
}

/* ---- worlds whose shares are known ---- */

typedef struct world {
    float *p;
    int32_t *labels;
} world;

/* Rows of a model that is right about the probabilities for even shares. */
static void draw(cst_rng *rng, const double *share, double sharpness, int64_t rows, world *out) {
    for (int64_t i = 0; i < rows; i++) {
        double u = cst_rng_uniform(rng);
        double z[C];
        double sum = 0;
        int label = 0;
        while (label + 1 < C && u >= share[label])
            u -= share[label++];
        for (int c = 0; c < C; c++) {
            z[c] = cst_rng_normal(rng) * sharpness + (c == label ? sharpness * sharpness : 0);
            sum += exp(z[c]);
        }
        for (int c = 0; c < C; c++)
            out->p[i * C + c] = (float)(exp(z[c]) / sum);
        out->labels[i] = label;
    }
}

/* The change test's level for even shares, the fit test's for others, coverage of intervals. */
static void simulated_worlds(void **state) {
    enum { WORLDS = 150, REFERENCE = 1000, ROWS = 120 };
    static const double even[C] = {0.25, 0.25, 0.25, 0.25};
    static const double other[C] = {0.7, 0.15, 0.1, 0.05};
    world reference = {calloc(REFERENCE * C, sizeof(float)), calloc(REFERENCE, sizeof(int32_t))};
    world batch = {calloc(ROWS * C, sizeof(float)), calloc(ROWS, sizeof(int32_t))};
    cst_rng rng;
    cst_rng_init(&rng, 8, CST_STREAM_TEST, 0);
    for (int method = CST_LABEL_EM; method <= CST_LABEL_BBSE; method++) {
        int changed = 0;
        int unexplained = 0;
        int found_change = 0;
        int covered = 0;
        for (int w = 0; w < WORLDS; w++) {
            cst_confusion *made = NULL;
            cst_label_shift shift;
            draw(&rng, even, 1.5, REFERENCE, &reference);
            made = made_of(*state, reference.p, reference.labels, REFERENCE, C, even);
            draw(&rng, even, 1.5, ROWS, &batch);
            assert_int_equal(cst_label_shift_estimate(*state, &scope, made,
                                                      (cst_label_method)method, batch.p, ROWS,
                                                      &shift),
                             CST_OK);
            changed += shift.change_p <= CST_LABEL_CHANGE_LEVEL;
            draw(&rng, other, 1.5, ROWS, &batch);
            assert_int_equal(cst_label_shift_estimate(*state, &scope, made,
                                                      (cst_label_method)method, batch.p, ROWS,
                                                      &shift),
                             CST_OK);
            found_change += shift.change_p <= CST_LABEL_CHANGE_LEVEL;
            unexplained += shift.fit_p <= CST_LABEL_FIT_LEVEL;
            for (int c = 0; c < C; c++)
                covered += shift.low[c] <= other[c] && other[c] <= shift.high[c];
            cst_scope_free(&scope);
        }
        assert_true(changed <= 6);      /* 1% of 150: more than 6 by chance 1 in 1,000 */
        assert_true(unexplained <= 18); /* 5%: more than 18 by chance 1 in 10,000 */
        assert_true(found_change > WORLDS * 8 / 10);
        assert_in_range(covered, WORLDS * C * 88 / 100, WORLDS * C * 99 / 100);
    }
    free(reference.p);
    free(reference.labels);
    free(batch.p);
    free(batch.labels);
}

/* ---- little to go by ---- */

static void few_rows_are_not_judged(void **state) {
    cst_confusion *made = fixture(*state);
    for (int64_t rows = 1; rows < CST_LABEL_ROWS_MIN; rows += 16)
        for (int method = CST_LABEL_EM; method <= CST_LABEL_BBSE; method++) {
            cst_label_shift found;
            assert_int_equal(cst_label_shift_estimate(*state, &scope, made,
                                                      (cst_label_method)method, batch_of(1), rows,
                                                      &found),
                             CST_OK);
            assert_int_equal(found.verdict, CST_LABEL_FEW_ROWS);
            for (int c = 0; c < C; c++)
                assert_true(found.share[c] >= 0 && found.share[c] <= 1 && found.ratio[c] >= 0);
        }
    cst_scope_free(&scope);
}

/* Every row of one class, and sure of it; or every row the same. */
static void one_class_and_constant_rows(void **state) {
    enum { ROWS = 80 };
    cst_confusion *made = fixture(*state);
    float p[ROWS * C];
    for (int kind = 0; kind < 3; kind++)
        for (int method = CST_LABEL_EM; method <= CST_LABEL_BBSE; method++) {
            cst_label_shift found;
            for (int i = 0; i < ROWS * C; i++)
                p[i] = kind == 0 ? (float)(i % C == 2) : kind == 1 ? 0.25F : i % C ? 0.2F : 0.4F;
            assert_int_equal(cst_label_shift_estimate(*state, &scope, made,
                                                      (cst_label_method)method, p, ROWS, &found),
                             CST_OK);
            double sum = 0;
            for (int c = 0; c < C; c++) {
                assert_true(isfinite(found.share[c]) && isfinite(found.ratio[c]));
                sum += found.ratio[c] * (double)made->share[c];
            }
            assert_close(sum, 1, 1e-6);
            if (kind == 0 && method == CST_LABEL_EM)
                assert_true(found.share[2] > 0.95);
            assert_int_equal(cst_label_shift_apply(*state, &found, p, ROWS), CST_OK);
            for (int i = 0; i < ROWS; i++)
                assert_close((double)p[i * C] + (double)p[i * C + 1] + (double)p[i * C + 2] +
                                 (double)p[i * C + 3],
                             1, 1e-6);
        }
    cst_scope_free(&scope);
}

/* A class that is never predicted, two that are not told apart, a class without rows. */
static void singular_confusions(void **state) {
    enum { ROWS = 300 };
    float p[ROWS * 3];
    int32_t labels[ROWS];
    double share[3] = {0, 0, 0};
    for (int kind = 0; kind < 3; kind++) {
        cst_confusion *made = NULL;
        double got[3];
        memset(share, 0, sizeof share);
        for (int i = 0; i < ROWS; i++) {
            int told = i / 3 % 10 == 0 ? 0 : i % 2; /* class 2 is never predicted */
            labels[i] = kind == 2 ? i % 2 : i % 3;
            if (kind == 1) /* classes 1 and 2 get the same predictions */
                told = labels[i] == 0 ? 0 : i / 3 % 2 + 1;
            if (kind == 2)
                told = i / 2 % 10 == 0 ? 1 - labels[i] : labels[i];
            for (int c = 0; c < 3; c++)
                p[i * 3 + c] = c == told ? 0.8F : 0.1F;
            share[labels[i]] += 1.0 / ROWS;
        }
        made = made_of(*state, p, labels, ROWS, 3, share);
        cst_status status = cst_label_bbse(*state, made, p, ROWS, -1, got, NULL);
        assert_int_equal(status, kind == 2 ? CST_OK : CST_ERROR_UNSUPPORTED);
        if (kind == 0)
            assert_non_null(strstr(cst_last_error(*state), "predicts class 2 for no row"));
        if (kind == 1)
            assert_non_null(strstr(cst_last_error(*state), "does not tell some classes apart"));
        for (int c = 0; kind == 2 && c < 3; c++)
            assert_close(got[c], share[c], 1e-9);
        cst_label_shift found;
        assert_int_equal(
            cst_label_shift_estimate(*state, &scope, made, CST_LABEL_EM, p, ROWS, &found), CST_OK);
        for (int c = 0; c < 3; c++)
            assert_true(isfinite(found.share[c]));
        cst_scope_free(&scope);
    }
}

static void few_rows_of_a_fit_give_no_reference(void **state) {
    cst_confusion *made = made_of(*state, LS_P, LS_LABELS, CST_CONFUSION_ROWS_MIN - 1, C, LS_SHARE);
    assert_null(made);
}

/* With many classes only the most frequent predictions are kept, and columns still sum to 1. */
static void many_classes_are_bounded(void **state) {
    enum { CLASSES = 1000, ROWS = 6000 };
    float *p = calloc((size_t)ROWS * CLASSES, sizeof *p);
    int32_t *labels = calloc(ROWS, sizeof *labels);
    double *share = calloc(CLASSES, sizeof *share);
    double *matrix = calloc((size_t)CLASSES * CLASSES, sizeof *matrix);
    cst_confusion *made = NULL;
    for (int i = 0; i < ROWS; i++) {
        labels[i] = i % 2 ? 0 : i / 2 % CLASSES;
        share[labels[i]] += 1.0 / ROWS;
        p[(size_t)i * CLASSES + (size_t)(labels[i] + (i % 2 ? i % 63 : 0)) % CLASSES] = 1;
    }
    made = made_of(*state, p, labels, ROWS, CLASSES, share);
    assert_int_equal(made->first[1], CST_CONFUSION_ENTRIES / CLASSES);
    cst_confusion_matrix(made, matrix);
    for (int j = 0; j < CLASSES; j++) {
        double sum = 0;
        for (int i = 0; i < CLASSES; i++)
            sum += matrix[(size_t)i * CLASSES + (size_t)j];
        assert_close(sum, 1, 1e-9);
    }
    cst_scope_free(&scope);
    free(p);
    free(labels);
    free(share);
    free(matrix);
}

int suite_label_shift(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(confusion_agrees_with_numpy),
        cmocka_unit_test(estimates_agree_with_numpy),
        cmocka_unit_test(simulated_worlds),
        cmocka_unit_test(few_rows_are_not_judged),
        cmocka_unit_test(one_class_and_constant_rows),
        cmocka_unit_test(singular_confusions),
        cmocka_unit_test(few_rows_of_a_fit_give_no_reference),
        cmocka_unit_test(many_classes_are_bounded),
    };
    return cmocka_run_group_tests(tests, la_setup, la_teardown);
}
