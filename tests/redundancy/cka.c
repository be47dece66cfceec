/*
 * CKA: exact, Nystrom and probes against NumPy with N x N matrices, and what must hold on any data:
 * copies, independence, constant members, few rows, views with an index, any number of threads.
 */
#include "core/la.h"
#include "failing_memory.h"
#include "method/redundancy/hsic.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/redundancy.h"
#include "short_tests.h"

enum { POOL_ROWS = 1500, POOL_CLASSES = 5, POOL_MEMBERS = 6 };

typedef struct fixture {
    cst_context *context;
    float *reference;         /* [REF_MEMBERS][REF_ROWS][REF_CLASSES] */
    float *pool;              /* [POOL_MEMBERS][POOL_ROWS][POOL_CLASSES] */
    const float *pointers[8]; /* of the view handed out last */
} fixture;

/* Member 0; 1 a copy of it; 2 and 3 it with noise; 4 independent; 5 constant. */
static void make_pool(float *pool) {
    cst_rng rng;
    cst_rng_init(&rng, 5, CST_STREAM_TEST, 0);
    size_t width = (size_t)POOL_ROWS * POOL_CLASSES;
    for (size_t i = 0; i < POOL_ROWS; i++) {
        for (size_t k = 0; k < POOL_MEMBERS; k++) {
            float *row = pool + k * width + i * POOL_CLASSES;
            double total = 0;
            for (size_t c = 0; c < POOL_CLASSES; c++) {
                double noise = cst_rng_normal(&rng);
                double z =
                    k == 2 || k == 3 ? log((double)pool[i * POOL_CLASSES + c]) + noise : 2 * noise;
                row[c] = (float)exp(k == 5 ? (double)c : z);
                total += (double)row[c];
            }
            for (size_t c = 0; c < POOL_CLASSES; c++)
                row[c] = (float)((double)row[c] / total);
            if (k == 1)
                memcpy(row, pool + i * POOL_CLASSES, POOL_CLASSES * sizeof *row);
        }
    }
}

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    *state = f;
    if (!f || cst_context_create(&f->context) != CST_OK)
        return 1;
    size_t count = (size_t)REF_MEMBERS * REF_ROWS * REF_CLASSES;
    f->reference = malloc(count * sizeof *f->reference);
    f->pool = calloc((size_t)POOL_MEMBERS * POOL_ROWS * POOL_CLASSES, sizeof *f->pool);
    if (!f->reference || !f->pool)
        return 1;
    for (size_t i = 0; i < count; i++)
        f->reference[i] = (float)ref_predictions[i] / 4096;
    make_pool(f->pool);
    cst_la_enter();
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    cst_la_leave();
    cst_context_free(f->context);
    free(f->reference);
    free(f->pool);
    free(f);
    return 0;
}

static cst_view reference_view(fixture *f, int64_t rows) {
    for (size_t k = 0; k < REF_MEMBERS; k++)
        f->pointers[k] = f->reference + k * REF_ROWS * REF_CLASSES;
    return (cst_view){
        .rows = rows, .classes = REF_CLASSES, .members = REF_MEMBERS, .data = f->pointers};
}

static cst_view pool_view(fixture *f) {
    for (size_t k = 0; k < POOL_MEMBERS; k++)
        f->pointers[k] = f->pool + k * POOL_ROWS * POOL_CLASSES;
    return (cst_view){
        .rows = POOL_ROWS, .classes = POOL_CLASSES, .members = POOL_MEMBERS, .data = f->pointers};
}

/* 1e-6 relative, with a floor where an unbiased value is zero but for cancellation. */
static void assert_close(const double *got, const double *want, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= 1e-6 * fabs(want[i]) + 1e-12))
            fail_msg("entry %zu is %.12g, should be %.12g", i, got[i], want[i]);
}

static cst_cka_result cka(fixture *f, const cst_view *view, const cst_cka_options *options) {
    cst_cka_result result;
    cst_status status = cst_cka(f->context, view, options, &result);
    if (status != CST_OK)
        fail_msg("%s", cst_last_error(f->context));
    return result;
}

static void exact_equals_numpy(void **state) {
    fixture *f = *state;
    cst_view view = reference_view(f, REF_ROWS);
    cst_cka_options options = {.estimator = CST_CKA_EXACT};
    cst_cka_result result = cka(f, &view, &options);
    assert_close(result.sigma, ref_sigma, REF_MEMBERS);
    assert_close(result.cka, ref_biased, (size_t)REF_MEMBERS * REF_MEMBERS);
    cst_cka_result_free(f->context, &result);
    options.statistic = CST_CKA_UNBIASED;
    result = cka(f, &view, &options);
    assert_close(result.cka, ref_unbiased, (size_t)REF_MEMBERS * REF_MEMBERS);
    cst_cka_result_free(f->context, &result);
}

static void few_rows_equal_numpy(void **state) {
    fixture *f = *state;
    const double *biased[] = {ref_biased_2, ref_biased_3, ref_biased_4};
    for (int64_t rows = 2; rows <= 4; rows++) {
        cst_view view = reference_view(f, rows);
        for (int estimator = CST_CKA_EXACT; estimator <= CST_CKA_NYSTROM; estimator++) {
            cst_cka_options options = {.estimator = (cst_cka_estimator)estimator,
                                       .landmarks = (int32_t)rows};
            cst_cka_result result = cka(f, &view, &options);
            for (size_t i = 0; i < (size_t)REF_MEMBERS * REF_MEMBERS; i++)
                assert_true(fabs(result.cka[i] - biased[rows - 2][i]) <
                            (estimator == CST_CKA_EXACT ? 1e-9 : 2.1e-3));
            cst_cka_result_free(f->context, &result);
        }
    }
    cst_view view = reference_view(f, 4);
    cst_cka_options options = {.statistic = CST_CKA_UNBIASED};
    cst_cka_result result = cka(f, &view, &options);
    assert_close(result.cka, ref_unbiased_4, (size_t)REF_MEMBERS * REF_MEMBERS);
    cst_cka_result_free(f->context, &result);
    view.rows = 3;
    assert_int_equal(cst_cka(f->context, &view, &options, &result), CST_ERROR_ARGUMENT);
    assert_non_null(strstr(cst_last_error(f->context), "at least 4 rows"));
    assert_null(result.cka);
    options.statistic = CST_CKA_BIASED;
    view.rows = 1;
    assert_int_equal(cst_cka(f->context, &view, &options, &result), CST_ERROR_ARGUMENT);
}

/* ---- Nystrom ---- */

/* Ratios of HSIC from features on given landmarks. */
static void aligned(fixture *f, const cst_view *view, const int64_t *landmarks, int64_t count,
                    cst_cka_statistic statistic, double *out, double *residual) {
    cst_kernels kernels;
    cst_scope scope = {0};
    cst_features features[8] = {0};
    size_t k = (size_t)view->members;
    double hsic[64];
    assert_int_equal(cst_kernels_create(f->context, &scope, view, 0, &kernels), CST_OK);
    for (size_t a = 0; a < k; a++) {
        assert_int_equal(
            cst_features_fit(f->context, &kernels, (int32_t)a, landmarks, count, 0, &features[a]),
            CST_OK);
        residual[a] = features[a].residual;
    }
    assert_int_equal(cst_hsic_features(f->context, &kernels, features, statistic, hsic), CST_OK);
    for (size_t a = 0; a < k; a++)
        for (size_t b = 0; b < k; b++)
            out[a * k + b] = hsic[a * k + b] / sqrt(hsic[a * k + a] * hsic[b * k + b]);
    for (size_t a = 0; a < k; a++)
        cst_scope_free(&features[a].scope);
    cst_scope_free(&scope);
}

static void nystrom_equals_numpy(void **state) {
    fixture *f = *state;
    cst_view view = reference_view(f, REF_ROWS);
    double got[REF_MEMBERS * REF_MEMBERS];
    double residual[REF_MEMBERS];
    aligned(f, &view, ref_landmarks, REF_LANDMARKS, CST_CKA_BIASED, got, residual);
    assert_close(got, ref_nystrom_biased, sizeof got / sizeof *got);
    for (size_t k = 0; k < REF_MEMBERS; k++)
        assert_true(fabs(residual[k] - ref_residual[k]) < 1e-6 * ref_residual[k] + 1e-10);
    aligned(f, &view, ref_landmarks, REF_LANDMARKS, CST_CKA_UNBIASED, got, residual);
    for (size_t i = 0; i < sizeof got / sizeof *got; i++)
        assert_true(fabs(got[i] - ref_nystrom_unbiased[i]) <=
                    1e-6 * fabs(ref_nystrom_unbiased[i]) + 1e-9);
}

/* With every row a landmark nothing is left out. */
static void all_rows_as_landmarks_are_exact(void **state) {
    fixture *f = *state;
    cst_view view = reference_view(f, 150);
    int64_t all[150];
    for (int64_t i = 0; i < 150; i++)
        all[i] = i;
    double got[REF_MEMBERS * REF_MEMBERS];
    double residual[REF_MEMBERS];
    for (int statistic = CST_CKA_BIASED; statistic <= CST_CKA_UNBIASED; statistic++) {
        aligned(f, &view, all, 150, (cst_cka_statistic)statistic, got, residual);
        cst_cka_options options = {.estimator = CST_CKA_EXACT,
                                   .statistic = (cst_cka_statistic)statistic};
        cst_cka_result exact = cka(f, &view, &options);
        for (size_t i = 0; i < sizeof got / sizeof *got; i++)
            assert_true(fabs(got[i] - exact.cka[i]) < 1e-8);
        for (size_t k = 0; k < REF_MEMBERS; k++)
            assert_true(residual[k] < 1e-8);
        cst_cka_result_free(f->context, &exact);
    }
}

/* The features that the rows get are the ones whose Gram was diagonalised: centred, orthogonal,
 * with the spectrum as squared lengths. */
static void features_are_centred_and_orthogonal(void **state) {
    fixture *f = *state;
    cst_view view = reference_view(f, REF_ROWS);
    cst_kernels kernels;
    cst_scope scope = {0};
    cst_features features;
    assert_int_equal(cst_kernels_create(f->context, &scope, &view, 0, &kernels), CST_OK);
    assert_int_equal(
        cst_features_fit(f->context, &kernels, 3, ref_landmarks, REF_LANDMARKS, 1e-3, &features),
        CST_OK);
    int64_t r = features.rank;
    assert_true(r > 2 && r < REF_LANDMARKS);
    double *z = calloc((size_t)(REF_ROWS * r), sizeof *z);
    assert_non_null(z);
    assert_int_equal(cst_features_rows(f->context, &kernels, 3, &features, 0, REF_ROWS, z), CST_OK);
    for (int64_t a = 0; a < r; a++) {
        double sum = 0;
        for (int64_t i = 0; i < REF_ROWS; i++)
            sum += z[i * r + a];
        assert_true(fabs(sum) < 1e-8);
        for (int64_t b = 0; b < r; b++) {
            double product = 0;
            for (int64_t i = 0; i < REF_ROWS; i++)
                product += z[i * r + a] * z[i * r + b];
            assert_true(fabs(product - (a == b ? features.spectrum[a] : 0)) <
                        1e-9 * features.spectrum[0]);
        }
        assert_true(a == 0 || features.spectrum[a] <= features.spectrum[a - 1]);
    }
    free(z);
    cst_scope_free(&features.scope);
    cst_scope_free(&scope);
}

static void residual_landmarks_are_close_to_exact(void **state) {
    fixture *f = *state;
    cst_view view = pool_view(f);
    for (int statistic = short_tests() ? CST_CKA_UNBIASED : CST_CKA_BIASED;
         statistic <= CST_CKA_UNBIASED; statistic++) {
        cst_cka_options options = {.estimator = CST_CKA_EXACT,
                                   .statistic = (cst_cka_statistic)statistic};
        cst_cka_result exact = cka(f, &view, &options);
        options.estimator = CST_CKA_NYSTROM;
        cst_cka_result low = cka(f, &view, &options);
        for (size_t i = 0; i < (size_t)POOL_MEMBERS * POOL_MEMBERS; i++)
            assert_true(fabs(low.cka[i] - exact.cka[i]) < 2e-3);
        for (size_t k = 0; k < 5; k++) {
            assert_true(low.landmarks[k] >= 39); /* sqrt(1500) */
            assert_true(low.rank[k] > 0 && low.rank[k] <= low.landmarks[k]);
            assert_true(low.residual[k] > 0 && low.residual[k] < 0.01);
        }
        /* Random signs: a wider margin, from their own standard error. */
        options.estimator = CST_CKA_PROBES;
        options.probes = 2000;
        cst_cka_result probed = cka(f, &view, &options);
        assert_int_equal(probed.probes, 2000);
        for (size_t i = 0; i < (size_t)POOL_MEMBERS * POOL_MEMBERS; i++)
            assert_true(fabs(probed.cka[i] - exact.cka[i]) < 0.02);
        cst_cka_result_free(f->context, &exact);
        cst_cka_result_free(f->context, &low);
        cst_cka_result_free(f->context, &probed);
    }
}

/* Randomly pivoted Cholesky must miss less of the trace than uniform landmarks where a few rows lie
 * far from the rest; its landmarks must differ from one another. */
static void residual_landmarks_find_rare_rows(void **state) {
    fixture *f = *state;
    enum { ROWS = 2000, WANTED = 45 };
    float *rows = calloc((size_t)ROWS * 2, sizeof *rows);
    assert_non_null(rows);
    for (size_t i = 0; i < ROWS; i++) {
        bool rare = i % 200 == 7;
        rows[2 * i] = rare ? 100 + (float)i : (float)(i % 97) / 97;
        rows[2 * i + 1] = rare ? -(float)i : (float)(i % 89) / 89;
    }
    const float *data[] = {rows};
    cst_view view = {.rows = ROWS, .classes = 2, .members = 1, .data = data};
    cst_cka_options options = {.estimator = CST_CKA_NYSTROM, .landmarks = WANTED};
    cst_cka_result residual = cka(f, &view, &options);
    options.landmark_rule = CST_LANDMARKS_UNIFORM;
    cst_cka_result uniform = cka(f, &view, &options);
    assert_true(uniform.residual[0] > 0.002); /* 10 rare rows, most of them missed */
    assert_true(residual.residual[0] < 1e-4);
    cst_cka_result_free(f->context, &residual);
    cst_cka_result_free(f->context, &uniform);

    cst_kernels kernels;
    cst_scope scope = {0};
    int64_t landmarks[WANTED];
    int64_t count = 0;
    bool converged = false;
    assert_int_equal(cst_kernels_create(f->context, &scope, &view, 0, &kernels), CST_OK);
    assert_int_equal(cst_landmarks_residual(f->context, &kernels, 0, WANTED, WANTED, 3, landmarks,
                                            &count, &converged),
                     CST_OK);
    assert_int_equal(count, WANTED);
    int rare = 0;
    for (int64_t i = 0; i < count; i++) {
        rare += landmarks[i] % 200 == 7;
        for (int64_t j = 0; j < i; j++)
            assert_true(landmarks[i] != landmarks[j]);
    }
    assert_int_equal(rare, 10);
    cst_scope_free(&scope);
    free(rows);
}

/* A kernel of rank 3 needs three landmarks and no more, whatever the floor says. */
static void used_up_kernels_stop_early(void **state) {
    fixture *f = *state;
    enum { ROWS = 400 };
    float rows[ROWS * 2];
    for (size_t i = 0; i < ROWS; i++) {
        rows[2 * i] = (float)(i % 3);
        rows[2 * i + 1] = i % 3 == 2 ? 1 : 0;
    }
    const float *data[] = {rows, rows};
    cst_view view = {.rows = ROWS, .classes = 2, .members = 2, .data = data};
    cst_cka_options options = {.estimator = CST_CKA_NYSTROM};
    cst_cka_result result = cka(f, &view, &options);
    assert_int_equal(result.landmarks[0], 3);
    assert_int_equal(result.rank[0], 2);
    assert_true(result.residual[0] < 1e-12);
    assert_true(fabs(result.cka[1] - 1) < 1e-12);
    cst_cka_result_free(f->context, &result);
}

/* Capped below what the kernel needs: the result says so. */
static void missed_trace_is_noticed(void **state) {
    fixture *f = *state;
    cst_view view = pool_view(f);
    cst_cka_options options = {.estimator = CST_CKA_NYSTROM, .landmarks = 3};
    cst_notices_clear(f->context);
    cst_cka_result result = cka(f, &view, &options);
    assert_int_equal(cst_notice_count(f->context), 1);
    assert_non_null(strstr(cst_notice_at(f->context, 0), "5 of 6 members"));
    assert_true(result.residual[0] > 0.01);
    cst_cka_result_free(f->context, &result);
}

/* ---- what holds on any data ---- */

static void copies_independent_and_constant_members(void **state) {
    fixture *f = *state;
    cst_view view = pool_view(f);
    size_t k = POOL_MEMBERS;
    for (int estimator = CST_CKA_EXACT; estimator <= CST_CKA_PROBES; estimator++) {
        for (int statistic = CST_CKA_BIASED; statistic <= CST_CKA_UNBIASED; statistic++) {
            cst_cka_options options = {.estimator = (cst_cka_estimator)estimator,
                                       .statistic = (cst_cka_statistic)statistic};
            cst_cka_result result = cka(f, &view, &options);
            assert_int_equal(result.estimator, estimator);
            assert_true(fabs(result.cka[0 * k + 1] - 1) < 1e-12);
            assert_true(result.cka[0 * k + 2] > 0.3 && result.cka[0 * k + 2] < 0.95);
            double margin = estimator == CST_CKA_PROBES ? 0.02 : 0.005;
            if (statistic == CST_CKA_UNBIASED)
                assert_true(fabs(result.cka[0 * k + 4]) < margin);
            for (size_t a = 0; a < k; a++) {
                assert_true(result.constant[a] == (a == 5));
                assert_true(result.cka[a * k + a] == 1);
                assert_true(a == 5 || result.cka[a * k + 5] == 0);
                for (size_t b = 0; b < k; b++)
                    assert_true(result.cka[a * k + b] == result.cka[b * k + a]);
            }
            assert_true(result.sigma[5] == 0 && result.sigma[4] > 0);
            cst_cka_result_free(f->context, &result);
        }
    }
}

static void results_do_not_depend_on_threads(void **state) {
    fixture *f = *state;
    cst_view view = pool_view(f);
    size_t bytes = (size_t)POOL_MEMBERS * POOL_MEMBERS * sizeof(double);
    for (int estimator = CST_CKA_EXACT; estimator <= CST_CKA_PROBES; estimator++) {
        for (int variant = short_tests() ? 3 : 0; variant < 4; variant++) {
            cst_cka_options options = {.estimator = (cst_cka_estimator)estimator,
                                       .statistic = variant & 1 ? CST_CKA_UNBIASED : CST_CKA_BIASED,
                                       .landmark_rule = variant & 2 ? CST_LANDMARKS_UNIFORM
                                                                    : CST_LANDMARKS_RESIDUAL,
                                       .seed = 9};
            assert_int_equal(cst_context_set_threads(f->context, 1), CST_OK);
            cst_cka_result first = cka(f, &view, &options);
            for (int threads = short_tests() ? 4 : 2; threads <= 4; threads += 2) {
                assert_int_equal(cst_context_set_threads(f->context, threads), CST_OK);
                cst_cka_result again = cka(f, &view, &options);
                assert_memory_equal(first.cka, again.cka, bytes);
                assert_memory_equal(first.residual, again.residual, POOL_MEMBERS * sizeof(double));
                cst_cka_result_free(f->context, &again);
            }
            cst_cka_result_free(f->context, &first);
        }
    }
}

/* A view with an index is the pool of those rows. */
static void views_with_an_index(void **state) {
    fixture *f = *state;
    enum { ROWS = 700 };
    cst_view all = pool_view(f);
    int64_t index[ROWS];
    size_t width = (size_t)ROWS * POOL_CLASSES;
    float *rows = calloc(width * POOL_MEMBERS, sizeof *rows);
    assert_non_null(rows);
    const float *data[POOL_MEMBERS];
    for (size_t i = 0; i < ROWS; i++)
        index[i] = (int64_t)((i * 37) % POOL_ROWS);
    for (size_t k = 0; k < POOL_MEMBERS; k++) {
        data[k] = rows + k * width;
        for (size_t i = 0; i < ROWS; i++)
            memcpy(rows + k * width + i * POOL_CLASSES,
                   all.data[k] + (size_t)index[i] * POOL_CLASSES, POOL_CLASSES * sizeof *rows);
    }
    cst_view indexed = all;
    indexed.rows = ROWS;
    indexed.index = index;
    cst_view copied = all;
    copied.rows = ROWS;
    copied.data = data;
    for (int estimator = CST_CKA_EXACT; estimator <= CST_CKA_PROBES; estimator++) {
        cst_cka_options options = {.estimator = (cst_cka_estimator)estimator};
        cst_cka_result a = cka(f, &indexed, &options);
        cst_cka_result b = cka(f, &copied, &options);
        assert_memory_equal(a.cka, b.cka, (size_t)POOL_MEMBERS * POOL_MEMBERS * sizeof(double));
        cst_cka_result_free(f->context, &a);
        cst_cka_result_free(f->context, &b);
    }
    free(rows);
}

/* Median 0: the mean of the sampled pairs. All of the sample equal: the spread of all rows. */
static void bandwidths_of_degenerate_members(void **state) {
    fixture *f = *state;
    enum { ROWS = 2001 };
    float *few = calloc(ROWS, sizeof *few);
    float *one = calloc(ROWS, sizeof *one);
    assert_true(few && one);
    for (size_t i = 0; i < 100; i++)
        few[i * 20] = 1; /* 100 of 2,001 rows differ: most pairs are equal */
    cst_view view = {.rows = 500, .classes = 1, .members = 1};
    const float *data[] = {few};
    view.data = data;
    cst_kernels kernels;
    cst_scope scope = {0};
    assert_int_equal(cst_kernels_create(f->context, &scope, &view, 0, &kernels), CST_OK);
    /* 500 rows, all sampled: 25 ones and 475 zeros; the mean of 500*499/2 distances. */
    assert_true(fabs(kernels.sigma[0] - 25.0 * 475 / (500 * 499 / 2)) < 1e-12);
    cst_scope_free(&scope);
    /* One row differs and the sample of 1,000 misses it, for some seed. */
    view.rows = ROWS;
    data[0] = one;
    one[777] = 1;
    bool missed = false;
    for (uint64_t seed = 0; seed < 20 && !missed; seed++) {
        assert_int_equal(cst_kernels_create(f->context, &scope, &view, seed, &kernels), CST_OK);
        assert_false(kernels.constant[0]);
        double expected = sqrt(2.0 / ROWS); /* root mean square distance of all pairs */
        missed = fabs(kernels.sigma[0] - expected) < 1e-12;
        cst_scope_free(&scope);
    }
    assert_true(missed);
    one[777] = NAN;
    view.rows = 900;
    cst_cka_options options = {0};
    cst_cka_result result;
    assert_int_equal(cst_cka(f->context, &view, &options, &result), CST_ERROR_INPUT);
    free(few);
    free(one);
}

/* Shifting and scaling predictions changes neither kernel nor CKA: distances must not drown in the
 * size of the rows. */
static void small_spread_on_a_large_offset(void **state) {
    fixture *f = *state;
    cst_view view = reference_view(f, REF_ROWS);
    size_t count = (size_t)REF_ROWS * REF_CLASSES;
    float *moved = calloc(count * 2, sizeof *moved);
    assert_non_null(moved);
    for (size_t i = 0; i < count; i++) {
        moved[i] = 1 + view.data[0][i] / 1024; /* a multiple of 2^-22: nothing is rounded */
        moved[count + i] = 1 + view.data[1][i] / 1024;
    }
    const float *data[] = {moved, moved + count};
    cst_view other = {.rows = REF_ROWS, .classes = REF_CLASSES, .members = 2, .data = data};
    cst_cka_options options = {.estimator = CST_CKA_EXACT};
    cst_cka_result result = cka(f, &other, &options);
    assert_true(fabs(result.sigma[0] - ref_sigma[0] / 1024) < 1e-9 * ref_sigma[0] / 1024);
    assert_true(fabs(result.cka[1] - ref_biased[1]) < 1e-9);
    cst_cka_result_free(f->context, &result);
    free(moved);
}

static void auto_chooses_by_cost(void **state) {
    fixture *f = *state;
    cst_view view = pool_view(f);
    cst_cka_options options = {0};
    cst_cka_result result = cka(f, &view, &options);
    assert_int_equal(result.estimator, CST_CKA_EXACT);
    cst_cka_result_free(f->context, &result);
    /* The same rows again and again: CKA is nearly the same, exact is no longer cheap. */
    enum { ROWS = 12000 };
    int64_t *index = calloc(ROWS, sizeof *index);
    assert_non_null(index);
    for (int64_t i = 0; i < ROWS; i++)
        index[i] = i % POOL_ROWS;
    view.rows = ROWS;
    view.index = index;
    result = cka(f, &view, &options);
    assert_int_equal(result.estimator, CST_CKA_NYSTROM);
    assert_true(fabs(result.cka[1] - 1) < 1e-12);
    cst_cka_result_free(f->context, &result);
    free(index);
    options.landmarks = -1;
    assert_int_equal(cst_cka(f->context, &view, &options, &result), CST_ERROR_ARGUMENT);
}

/* ---- allocation ---- */

static void every_allocation_may_fail(void **state) {
    fixture *f = *state;
    cst_view view = reference_view(f, 40);
    for (int estimator = CST_CKA_EXACT; estimator <= CST_CKA_PROBES; estimator++) {
        cst_status status = CST_ERROR_MEMORY;
        int64_t n = 0;
        for (; status != CST_OK && n < 2000; n++) {
            failing memory = {.left = INT64_MAX};
            cst_context *context = NULL;
            assert_int_equal(cst_context_create_with(&context, failing_realloc, &memory), CST_OK);
            assert_int_equal(cst_context_set_threads(context, 1), CST_OK);
            memory.left = n;
            cst_cka_options options = {.estimator = (cst_cka_estimator)estimator,
                                       .statistic = CST_CKA_UNBIASED,
                                       .landmark_rule =
                                           n % 2 ? CST_LANDMARKS_UNIFORM : CST_LANDMARKS_RESIDUAL,
                                       .probes = 8};
            cst_cka_result result;
            status = cst_cka(context, &view, &options, &result);
            assert_true(status == CST_OK || status == CST_ERROR_MEMORY);
            memory.left = INT64_MAX;
            cst_cka_result_free(context, &result);
            assert_int_equal(memory.live, 1 + (int64_t)(cst_notice_count(context) > 0 ? 2 : 0));
            cst_context_free(context);
            assert_int_equal(memory.live, 0);
        }
        assert_int_equal(status, CST_OK);
        assert_true(n > 20);
    }
}

int suite_cka(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(exact_equals_numpy, setup, teardown),
        cmocka_unit_test_setup_teardown(few_rows_equal_numpy, setup, teardown),
        cmocka_unit_test_setup_teardown(nystrom_equals_numpy, setup, teardown),
        cmocka_unit_test_setup_teardown(all_rows_as_landmarks_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(features_are_centred_and_orthogonal, setup, teardown),
        cmocka_unit_test_setup_teardown(residual_landmarks_are_close_to_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(residual_landmarks_find_rare_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(used_up_kernels_stop_early, setup, teardown),
        cmocka_unit_test_setup_teardown(missed_trace_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_independent_and_constant_members, setup, teardown),
        cmocka_unit_test_setup_teardown(results_do_not_depend_on_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(views_with_an_index, setup, teardown),
        cmocka_unit_test_setup_teardown(bandwidths_of_degenerate_members, setup, teardown),
        cmocka_unit_test_setup_teardown(small_spread_on_a_large_offset, setup, teardown),
        cmocka_unit_test_setup_teardown(auto_chooses_by_cost, setup, teardown),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
