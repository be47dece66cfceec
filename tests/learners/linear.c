/*
 * Ridge, elastic net and lasso against scikit-learn, with their optimality conditions, Hessians and
 * paths; scores. docs/method.md#s2-and-s3-gate-and-penalties and docs/method.md#s4-blend.
 */
#define _XOPEN_SOURCE 700
#include "method/linear/linear.h"
#include "data/meta_linear.h"
#include "meta_check.h"
#include "meta_rows.h"
#include "method/linear/penalty.h"

#include <time.h>

enum { K = LINEAR_COLUMNS };

static cst_standardised standardise(cst_context *context, const double *x, const double *y,
                                    int64_t rows, int32_t columns) {
    cst_moments moments;
    cst_standardised s;
    moments = moments_of_rows(context, rows, columns, x, y, NULL, 0);
    assert_int_equal(cst_standardise(context, &moments, -1, &s), CST_OK);
    cst_moments_free(context, &moments);
    return s;
}

/* The optimality conditions of |y - Xw|^2/n + lambda ((1 - r) |w|^2 + 2 r |w|_1), from the rows and
 * not from the Gram: for each standardised column x, x'(y - f)/n - lambda (1 - r) w must be
 * lambda r sign(w), or within +-lambda r where w = 0; and the residuals sum to 0. */
static void check_optimality(const cst_linear *linear, const cst_standardised *s, const double *x,
                             const double *y, int64_t rows, double tolerance) {
    double mean_residual = 0;
    double square = 0;
    double correlation[64] = {0};
    for (int64_t i = 0; i < rows; i++) {
        double residual = y[i] - linear->intercept;
        for (int32_t j = 0; j < s->columns; j++)
            residual -= linear->coefficients[j] * x[i * s->columns + j];
        mean_residual += residual / (double)rows;
        square += residual * residual / (double)rows;
        for (int32_t a = 0; a < s->kept; a++)
            correlation[a] += residual * (x[i * s->columns + s->index[a]] - s->mean[a]) /
                              (s->scale[a] * (double)rows);
    }
    assert_relative(mean_residual, 0, tolerance, 1);
    assert_relative(linear->loss, square, 1e-9, 1e-6);
    double l1 = linear->lambda * linear->l1_ratio;
    double l2 = linear->lambda * (1 - linear->l1_ratio);
    double penalty = 0;
    for (int32_t a = 0; a < s->kept; a++) {
        double w = linear->coefficients[s->index[a]] * s->scale[a];
        penalty += l2 * w * w + 2 * l1 * fabs(w);
        if (w != 0)
            assert_relative(correlation[a] - l2 * w, copysign(l1, w), tolerance, 1);
        else
            assert_true(fabs(correlation[a]) <= l1 + tolerance);
    }
    assert_relative(linear->objective, square + penalty, 1e-9, 1e-6);
}

static void fits_match_scikit_learn(void **state) {
    cst_context *context = *state;
    cst_standardised s = standardise(context, linear_x, linear_y, LINEAR_ROWS, K);
    const double *expected[3] = {linear_ridge, linear_elastic_net, linear_lasso};
    const double *determinants[3] = {linear_ridge_logdet, linear_elastic_net_logdet,
                                     linear_lasso_logdet};
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < 4; i++) {
            cst_linear linear;
            double lambda = kind == 0 ? linear_lambdas[i] : linear_l1_lambdas[i];
            assert_int_equal(
                cst_linear_fit(context, &s, (cst_linear_kind)kind, lambda, 0.5, &linear), CST_OK);
            const double *row = expected[kind] + (size_t)i * (K + 1);
            assert_all_close(linear.coefficients, row, K, 1e-7, 1e-2);
            assert_relative(linear.intercept, row[K], 1e-7, 1e-2);
            assert_relative(linear.logdet_hessian, determinants[kind][i], 1e-9, 1);
            check_optimality(&linear, &s, linear_x, linear_y, LINEAR_ROWS, 1e-10);
            assert_true(linear.kkt_residual < 1e-9);
            cst_linear_free(context, &linear);
        }
    }
    cst_standardised_free(context, &s);
}

static void elastic_net_without_l1_is_ridge(void **state) {
    cst_context *context = *state;
    cst_standardised s = standardise(context, linear_x, linear_y, LINEAR_ROWS, K);
    cst_linear ridge;
    cst_linear net;
    assert_int_equal(cst_linear_fit(context, &s, CST_LINEAR_RIDGE, 0.05, 0.5, &ridge), CST_OK);
    assert_int_equal(cst_linear_fit(context, &s, CST_LINEAR_ELASTIC_NET, 0.05, 0, &net), CST_OK);
    assert_all_close(net.coefficients, ridge.coefficients, K, 1e-8, 1e-2);
    assert_relative(net.logdet_hessian, ridge.logdet_hessian, 1e-10, 1);
    assert_relative(net.objective, ridge.objective, 1e-10, 0);
    assert_int_equal(net.active, K);
    cst_linear_free(context, &ridge);
    cst_linear_free(context, &net);
    cst_standardised_free(context, &s);
}

static void more_columns_than_rows(void **state) {
    cst_context *context = *state;
    cst_standardised s = standardise(context, wide_x, wide_y, WIDE_ROWS, WIDE_COLUMNS);
    cst_linear linear;
    assert_int_equal(cst_linear_fit(context, &s, CST_LINEAR_RIDGE, 0.2, 0, &linear), CST_OK);
    assert_all_close(linear.coefficients, wide_ridge, WIDE_COLUMNS, 1e-8, 1e-2);
    assert_relative(linear.intercept, wide_ridge[WIDE_COLUMNS], 1e-8, 1e-2);
    check_optimality(&linear, &s, wide_x, wide_y, WIDE_ROWS, 1e-10);
    cst_linear_free(context, &linear);
    assert_int_equal(cst_linear_fit(context, &s, CST_LINEAR_ELASTIC_NET, 0.2, 0.5, &linear),
                     CST_OK);
    assert_all_close(linear.coefficients, wide_elastic_net, WIDE_COLUMNS, 1e-7, 1e-2);
    check_optimality(&linear, &s, wide_x, wide_y, WIDE_ROWS, 1e-10);
    cst_linear_free(context, &linear);
    /* lasso with a tiny penalty: at most 8 coefficients can be active */
    assert_int_equal(cst_linear_fit(context, &s, CST_LINEAR_LASSO, 1e-3, 0, &linear), CST_OK);
    check_optimality(&linear, &s, wide_x, wide_y, WIDE_ROWS, 1e-8);
    assert_true(linear.active <= 8);
    cst_linear_free(context, &linear);
    /* without a penalty the ridge system is singular */
    assert_int_equal(cst_linear_fit(context, &s, CST_LINEAR_RIDGE, 0, 0, &linear),
                     CST_ERROR_NUMERIC);
    cst_linear_free(context, &linear);
    cst_standardised_free(context, &s);
}

/* Columns that are nearly or exactly the same: still optimal, determinant finite. */
static void dependent_columns(void **state) {
    cst_context *context = *state;
    enum { ROWS = 400, COLUMNS = 12 };
    static double x[ROWS * COLUMNS];
    static double y[ROWS];
    cst_rng rng;
    cst_rng_init(&rng, 31, CST_STREAM_TEST, 0);
    for (int i = 0; i < ROWS; i++) {
        double common = cst_rng_normal(&rng);
        for (int j = 0; j < COLUMNS; j++)
            x[i * COLUMNS + j] = common + 0.03 * cst_rng_normal(&rng);
        x[i * COLUMNS + 1] = x[i * COLUMNS]; /* an exact copy */
        y[i] = common + 0.3 * x[i * COLUMNS + 5] + 0.5 * cst_rng_normal(&rng);
    }
    cst_standardised s = standardise(context, x, y, ROWS, COLUMNS);
    for (int kind = 1; kind < 3; kind++) {
        for (double lambda = 1e-6; lambda < 1; lambda *= 10) {
            cst_linear linear;
            assert_int_equal(
                cst_linear_fit(context, &s, (cst_linear_kind)kind, lambda, 0.5, &linear), CST_OK);
            check_optimality(&linear, &s, x, y, ROWS, 1e-9);
            assert_true(isfinite(linear.logdet_hessian));
            cst_linear_free(context, &linear);
        }
    }
    assert_int_equal(cst_notice_count(context), 0);
    cst_standardised_free(context, &s);
}

static void lambda_max_is_where_everything_is_zero(void **state) {
    cst_context *context = *state;
    cst_standardised s = standardise(context, linear_x, linear_y, LINEAR_ROWS, K);
    cst_linear linear;
    double top = cst_linear_lambda_max(&s, 0.5);
    assert_int_equal(
        cst_linear_fit(context, &s, CST_LINEAR_ELASTIC_NET, top * 1.0000001, 0.5, &linear), CST_OK);
    assert_int_equal(linear.active, 0);
    assert_true(linear.logdet_hessian == 0);
    assert_relative(linear.intercept, s.target_mean, 1e-15, 1);
    cst_linear_free(context, &linear);
    assert_int_equal(cst_linear_fit(context, &s, CST_LINEAR_ELASTIC_NET, top * 0.999, 0.5, &linear),
                     CST_OK);
    assert_int_equal(linear.active, 1);
    cst_linear_free(context, &linear);
    cst_standardised_free(context, &s);
}

static void path_matches_refits(void **state) {
    cst_context *context = *state;
    cst_moments moments;
    double lambda = 0;
    double lambdas[9];
    double losses[9];
    moments = moments_of_rows(context, LINEAR_ROWS, K, linear_x, linear_y, linear_folds, 4);
    assert_int_equal(cst_linear_path_cv(context, &moments, CST_LINEAR_ELASTIC_NET, 0.5, 1e-3, 9,
                                        &lambda, lambdas, losses),
                     CST_OK);
    assert_all_close(lambdas, path_lambdas, 9, 1e-10, 0);
    assert_all_close(losses, path_losses, 9, 1e-6, 0);
    int best = 0;
    for (int i = 1; i < 9; i++)
        if (path_losses[i] < path_losses[best])
            best = i;
    assert_true(lambda == lambdas[best]);
    assert_int_equal(
        cst_linear_path_cv(context, &moments, CST_LINEAR_RIDGE, 0.5, 1e-3, 9, &lambda, NULL, NULL),
        CST_ERROR_ARGUMENT);
    cst_moments_free(context, &moments);
}

static void bad_penalties_are_refused(void **state) {
    cst_context *context = *state;
    cst_standardised s = standardise(context, linear_x, linear_y, LINEAR_ROWS, K);
    cst_linear linear;
    assert_int_equal(cst_linear_fit(context, &s, CST_LINEAR_RIDGE, -1, 0, &linear),
                     CST_ERROR_ARGUMENT);
    assert_int_equal(cst_linear_fit(context, &s, CST_LINEAR_LASSO, (double)NAN, 0, &linear),
                     CST_ERROR_ARGUMENT);
    assert_int_equal(cst_linear_fit(context, &s, CST_LINEAR_ELASTIC_NET, 1, 1.5, &linear),
                     CST_ERROR_ARGUMENT);
    cst_standardised_free(context, &s);
}

/* Scores are the design times the coefficients, the same alone and in a batch, in every mode. */
typedef struct meter {
    int64_t left; /* allocations that still succeed */
    int64_t live;
} meter;

static void *metered(void *user, void *pointer, size_t bytes) {
    meter *m = user;
    if (bytes == 0) {
        m->live -= pointer != NULL;
        free(pointer);
        return NULL;
    }
    if (m->left-- <= 0)
        return NULL;
    m->live += pointer == NULL;
    return realloc(pointer, bytes);
}

/* Everything from the gate to the path, stopping at the first failure. */
static cst_status everything(cst_context *context, const cst_view *view, const int32_t *folds) {
    cst_gate_options options = cst_gate_options_default();
    options.epochs = 1;
    cst_penalty_grid grid = cst_penalty_grid_default();
    cst_gate gate = {0};
    cst_moments moments = {0};
    cst_standardised s = {0};
    cst_spectrum spectrum = {0};
    cst_penalties penalties;
    cst_linear linear = {0};
    double lambda = 0;
    cst_status status = cst_gate_fit(context, view, 0, &options, &gate);
    if (status == CST_OK)
        status = cst_moments_compute(context, view, &gate, folds, 2, &moments);
    if (status == CST_OK)
        status = cst_standardise(context, &moments, -1, &s);
    if (status == CST_OK)
        status = cst_spectrum_compute(context, &s, CST_NOISE_BULK, &spectrum);
    if (status == CST_OK)
        status = cst_penalties_compute(context, &moments, &s, &spectrum, &grid, &penalties);
    if (status == CST_OK)
        status = cst_linear_path_cv(context, &moments, CST_LINEAR_LASSO, 1, 0.01, 3, &lambda, NULL,
                                    NULL);
    if (status == CST_OK)
        status = cst_linear_fit(context, &s, CST_LINEAR_LASSO, lambda, 1, &linear);
    cst_linear_free(context, &linear);
    cst_spectrum_free(context, &spectrum);
    cst_standardised_free(context, &s);
    cst_moments_free(context, &moments);
    cst_gate_free(context, &gate);
    return status;
}

/* The first, second, ... nth allocation fails until all succeed: an error each time, never a leak.
 */
static void every_allocation_may_fail(void **state) {
    (void)state;
    random_pool p = make_pool(15, 30, 3, 3, 1);
    int32_t folds[30];
    for (int i = 0; i < 30; i++)
        folds[i] = i % 2;
    cst_status status = CST_ERROR_MEMORY;
    int64_t allowed = 0;
    cst_la_enter();
    while (status != CST_OK) {
        meter m = {.left = INT64_MAX};
        cst_context *context = NULL;
        assert_int_equal(cst_context_create_with(&context, metered, &m), CST_OK);
        assert_int_equal(cst_context_set_threads(context, 1), CST_OK);
        int64_t before = m.live;
        m.left = allowed++;
        status = everything(context, &p.view, folds);
        assert_true(status == CST_OK || status == CST_ERROR_MEMORY);
        assert_true(m.live <=
                    before + (int64_t)cst_notice_count(context) + 2); /* its own messages */
        cst_context_free(context);
        assert_int_equal(m.live, 0);
    }
    cst_la_leave();
    assert_true(allowed > 50);
    free_pool(&p);
}

/* Columns that differ by a millionth: sweeps alone take for ever, active-set steps arrive. */
static void nearly_dependent_columns(void **state) {
    cst_context *context = *state;
    enum { ROWS = 400, COLUMNS = 12 };
    static double x[ROWS * COLUMNS];
    static double y[ROWS];
    cst_rng rng;
    cst_rng_init(&rng, 5, CST_STREAM_TEST, 9);
    for (int i = 0; i < ROWS; i++) {
        double base[3] = {cst_rng_normal(&rng), cst_rng_normal(&rng), cst_rng_normal(&rng)};
        for (int j = 0; j < COLUMNS; j++)
            x[i * COLUMNS + j] = base[j % 3] + 1e-6 * cst_rng_normal(&rng);
        y[i] = base[0] - 0.5 * base[1] + 1e6 * (x[i * COLUMNS] - x[i * COLUMNS + 3]) * 1e-2 +
               0.3 * cst_rng_normal(&rng);
    }
    cst_standardised s = standardise(context, x, y, ROWS, COLUMNS);
    const double lambdas[] = {1e-2, 1e-5, 1e-8};
    for (int l = 0; l < 3; l++) {
        cst_linear lasso;
        cst_notices_clear(context);
        assert_int_equal(cst_linear_fit(context, &s, CST_LINEAR_LASSO, lambdas[l], 1, &lasso),
                         CST_OK);
        assert_true(lasso.kkt_residual <= 1e-10 * cst_linear_lambda_max(&s, 1));
        assert_true(lasso.iterations < 2000);
        assert_int_equal(cst_notice_count(context), 0);
        cst_linear_free(context, &lasso);
    }
    cst_standardised_free(context, &s);
}

/* The callback is asked again a tenth of a second after the last time; a fast machine is done
 * before that. */
static void let_time_pass(void) {
    struct timespec time = {.tv_nsec = 150000000};
    (void)nanosleep(&time, NULL);
}

static int want_to_stop(void *user, const char *stage, int64_t done, int64_t total) {
    (void)stage;
    (void)done;
    (void)total;
    return ++*(int *)user > 1; /* the first is told as the stage begins */
}

/* Hundreds of columns that are close to dependent take a path of penalties long: it asks meanwhile
 * whether to go on, and so does cross-validation. */
static void paths_can_be_stopped(void **state) {
    cst_context *context = *state;
    enum { ROWS = 60, COLUMNS = 300 };
    static double x[ROWS * COLUMNS];
    static double y[ROWS];
    static int32_t folds[ROWS];
    cst_rng rng;
    int asked = 0;
    cst_rng_init(&rng, 7, CST_STREAM_TEST, 9);
    for (int i = 0; i < ROWS; i++) {
        double base = cst_rng_normal(&rng);
        for (int j = 0; j < COLUMNS; j++)
            x[i * COLUMNS + j] = base + cst_rng_normal(&rng);
        y[i] = base;
        folds[i] = i % 5;
    }
    cst_moments moments;
    moments = moments_of_rows(context, ROWS, COLUMNS, x, y, folds, 5);
    cst_penalty_grid grid = cst_penalty_grid_default();
    double lambda = 0;
    cst_context_set_progress(context, want_to_stop, &asked);
    assert_int_equal(cst_stage(context, "fit"), CST_OK);
    let_time_pass();
    assert_int_equal(
        cst_linear_path_cv(context, &moments, CST_LINEAR_LASSO, 1, 1e-6, 61, &lambda, NULL, NULL),
        CST_ERROR_CANCELLED);
    let_time_pass();
    assert_int_equal(cst_penalty_cv(context, &moments, &grid, &lambda, NULL), CST_ERROR_CANCELLED);
    assert_true(asked > 1);
    cst_context_set_progress(context, NULL, NULL);
    cst_moments_free(context, &moments);
}

/* A lasso's curvature is of the space that its columns span: columns that are there two times, in
 * any order, do not change it. */
static void copies_of_columns_add_no_dimension(void **state) {
    cst_context *context = *state;
    cst_linear once;
    cst_linear twice;
    double *x = calloc((size_t)LINEAR_ROWS * 2 * K, sizeof *x);
    assert_non_null(x);
    for (int i = 0; i < LINEAR_ROWS; i++)
        for (int j = 0; j < 2 * K; j++)
            x[i * 2 * K + j] = linear_x[i * K + (j < K ? K - 1 - j : j - K)];
    cst_standardised s = standardise(context, linear_x, linear_y, LINEAR_ROWS, K);
    cst_standardised t = standardise(context, x, linear_y, LINEAR_ROWS, 2 * K);
    for (int i = 0; i < 4; i++) {
        double lambda = linear_l1_lambdas[i];
        assert_int_equal(cst_linear_fit(context, &s, CST_LINEAR_LASSO, lambda, 1, &once), CST_OK);
        assert_int_equal(cst_linear_fit(context, &t, CST_LINEAR_LASSO, lambda, 1, &twice), CST_OK);
        assert_int_equal(twice.active, once.active);
        assert_relative(twice.logdet_hessian, once.logdet_hessian, 1e-8, 1);
        cst_linear_free(context, &once);
        cst_linear_free(context, &twice);
    }
    cst_standardised_free(context, &s);
    cst_standardised_free(context, &t);
    free(x);
}

/* Three constant members, their mean, deviation and range, and classes in turn: nothing but
 * rounding is left of the columns' products with the target, and no sweep makes that smaller. */
static void nothing_to_learn(void **state) {
    enum { CLASSES = 4, ROWS = 40 * CLASSES, COLUMNS = 6 };
    cst_context *context = *state;
    double x[ROWS][COLUMNS];
    double y[ROWS];
    cst_linear linear;
    for (int i = 0; i < ROWS; i++) {
        double mean = 0;
        double square = 0;
        y[i] = i / CLASSES % CLASSES == i % CLASSES;
        for (int k = 0; k < 3; k++) {
            x[i][k] = i % CLASSES == k ? (double)0.7F : (double)0.1F;
            mean += x[i][k] / 3;
        }
        for (int k = 0; k < 3; k++)
            square += (x[i][k] - mean) * (x[i][k] - mean) / 3;
        x[i][3] = mean;
        x[i][4] = sqrt(square);
        x[i][5] = mean * sqrt(square);
    }
    cst_standardised s = standardise(context, x[0], y, ROWS, COLUMNS);
    double top = cst_linear_lambda_max(&s, 1);
    assert_true(top < 1e-12);
    for (int kind = 1; kind < 3; kind++)
        for (int e = 0; e < 8; e++) {
            double lambda = top * pow(10, -e);
            assert_int_equal(
                cst_linear_fit(context, &s, (cst_linear_kind)kind, lambda, 0.5, &linear), CST_OK);
            assert_true(linear.iterations <= 100);
            cst_linear_free(context, &linear);
        }
    cst_standardised_free(context, &s);
}

int suite_linear(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fits_match_scikit_learn, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(elastic_net_without_l1_is_ridge, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(more_columns_than_rows, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(dependent_columns, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(nearly_dependent_columns, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(paths_can_be_stopped, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(copies_of_columns_add_no_dimension, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(nothing_to_learn, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(lambda_max_is_where_everything_is_zero, la_setup,
                                        la_teardown),
        cmocka_unit_test_setup_teardown(path_matches_refits, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(bad_penalties_are_refused, la_setup, la_teardown),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
