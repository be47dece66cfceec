/*
 * The spectrum, its noise edge and the four penalties, against NumPy and SciPy.
 * docs/method.md#s2-and-s3-gate-and-penalties.
 */
#include "method/linear/penalty.h"
#include "data/meta_linear.h"
#include "meta_check.h"
#include "meta_rows.h"

typedef struct fixture {
    cst_moments moments;
    cst_standardised standardised;
    cst_spectrum spectrum;
} fixture;

static fixture make(cst_context *context, const double *x, const double *y, int64_t rows,
                    int32_t columns, const int32_t *folds, int32_t fold_count,
                    cst_noise_rule rule) {
    fixture f;
    f.moments = moments_of_rows(context, rows, columns, x, y, folds, fold_count);
    assert_int_equal(cst_standardise(context, &f.moments, -1, &f.standardised), CST_OK);
    assert_int_equal(cst_spectrum_compute(context, &f.standardised, rule, &f.spectrum), CST_OK);
    return f;
}

static void release(cst_context *context, fixture *f) {
    cst_spectrum_free(context, &f->spectrum);
    cst_standardised_free(context, &f->standardised);
    cst_moments_free(context, &f->moments);
}

/* expected: sigma2, edge, snr, lambda_star (NaN: none), kappa, eigenvalues above the edge */
static void check_spectrum(const cst_spectrum *s, const double *expected) {
    assert_relative(s->sigma2, expected[0], 1e-9, 0);
    assert_relative(s->mp_edge, expected[1], 1e-9, 0);
    assert_relative(s->snr, expected[2], 1e-9, 1e-9);
    if (isnan(expected[3]))
        assert_true(isnan(s->lambda_star));
    else
        assert_relative(s->lambda_star, expected[3], 1e-9, 0);
    assert_relative(s->kappa, expected[4], 1e-7, 0);
    assert_int_equal(s->above, (int)expected[5]);
}

static void spectrum_matches_numpy(void **state) {
    cst_context *context = *state;
    const double *expected[2][2] = {{spectrum_median, spectrum_bulk},
                                    {spectrum_wide_median, spectrum_wide_bulk}};
    for (int rule = 0; rule < 2; rule++) {
        fixture f = make(context, linear_x, linear_y, LINEAR_ROWS, LINEAR_COLUMNS, NULL, 0,
                         (cst_noise_rule)rule);
        check_spectrum(&f.spectrum, expected[0][rule]);
        release(context, &f);
        f = make(context, wide_x, wide_y, WIDE_ROWS, WIDE_COLUMNS, NULL, 0, (cst_noise_rule)rule);
        check_spectrum(&f.spectrum, expected[1][rule]);
        release(context, &f);
    }
}

/* G v = value v, V'V = I and V'c, recomputed. */
static void eigenvectors_are_eigenvectors(void **state) {
    cst_context *context = *state;
    fixture f =
        make(context, linear_x, linear_y, LINEAR_ROWS, LINEAR_COLUMNS, NULL, 0, CST_NOISE_MEDIAN);
    enum { K = LINEAR_COLUMNS };
    const double *v = f.spectrum.vectors;
    for (int a = 0; a < K; a++) {
        double along = 0;
        for (int i = 0; i < K; i++) {
            double product = 0;
            for (int j = 0; j < K; j++)
                product += f.standardised.gram[i * K + j] * v[j * K + a];
            assert_relative(product, f.spectrum.values[a] * v[i * K + a], 1e-12, 1);
            along += v[i * K + a] * f.standardised.cross[i];
        }
        assert_relative(along, f.spectrum.cross[a], 1e-12, 1);
        for (int b = 0; b <= a; b++) {
            double dot = 0;
            for (int i = 0; i < K; i++)
                dot += v[i * K + a] * v[i * K + b];
            assert_relative(dot, a == b, 1e-12, 1);
        }
    }
    release(context, &f);
}

/* 40 columns of pure noise lie below the Marchenko-Pastur edge; with a factor common to all
 * (pairwise correlation 1/2) one eigenvalue rises above it, and the noise that is left has variance
 * 1/2. */
static void bulk_rule_finds_the_noise(void **state) {
    cst_context *context = *state;
    enum { ROWS = 2000, COLUMNS = 40 };
    double *x = malloc(sizeof(double) * ROWS * COLUMNS);
    double *y = malloc(sizeof(double) * ROWS);
    assert_true(x && y);
    cst_rng rng;
    cst_rng_init(&rng, 21, CST_STREAM_TEST, 0);
    for (int factor = 0; factor < 2; factor++) {
        for (int i = 0; i < ROWS; i++) {
            double common = cst_rng_normal(&rng);
            for (int j = 0; j < COLUMNS; j++)
                x[i * COLUMNS + j] = cst_rng_normal(&rng) + (factor ? common : 0);
            y[i] = cst_rng_normal(&rng);
        }
        fixture f = make(context, x, y, ROWS, COLUMNS, NULL, 0, CST_NOISE_BULK);
        /* The largest noise eigenvalue fluctuates about the edge by order n^(-2/3), 1%, so one of
         * them may stand above it. */
        double edge = (1 + sqrt(0.02)) * (1 + sqrt(0.02));
        double noise = factor ? 0.5 : 1;
        assert_in_range(f.spectrum.above, factor, factor + 1);
        assert_relative(f.spectrum.sigma2, noise, 0.03, 0);
        assert_relative(f.spectrum.mp_edge, noise * edge, 0.03, 0);
        assert_relative(f.spectrum.values[COLUMNS - 1 - factor], noise * edge, 0.05, 0);
        if (factor)
            assert_relative(f.spectrum.values[COLUMNS - 1], 20.5, 0.05, 0);
        release(context, &f);
    }
    free(x);
    free(y);
}

/* Two columns of correlation r: eigenvalues 1 - r and 1 + r. Rows are those of a 2-level factorial
 * with repeats, so that r is exact: r = (6 - 2) / 8. */
static void two_columns_by_hand(void **state) {
    cst_context *context = *state;
    const double x[16] = {1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, 1, -1, -1, 1};
    const double y[8] = {1, 0, 1, 0, 1, 0, 1, 0};
    fixture f = make(context, x, y, 8, 2, NULL, 0, CST_NOISE_MEDIAN);
    assert_relative(f.spectrum.values[0], 0.5, 1e-12, 1);
    assert_relative(f.spectrum.values[1], 1.5, 1e-12, 1);
    assert_relative(f.spectrum.gamma, 0.25, 0, 1);
    assert_relative(f.spectrum.sigma2, 0.5, 1e-12, 1);
    assert_relative(f.spectrum.mp_edge, 0.5 * 2.25, 1e-12, 1);
    assert_relative(f.spectrum.snr, 3, 1e-12, 1);
    assert_relative(f.spectrum.lambda_star, 0.5, 1e-12, 1);
    assert_relative(f.spectrum.kappa, 3, 1e-12, 1);
    release(context, &f);
}

static void cross_validation_matches_refits(void **state) {
    cst_context *context = *state;
    fixture f = make(context, linear_x, linear_y, LINEAR_ROWS, LINEAR_COLUMNS, linear_folds, 4,
                     CST_NOISE_MEDIAN);
    cst_penalty_grid grid = cst_penalty_grid_default();
    double losses[61];
    double lambda = 0;
    assert_int_equal(cst_penalty_cv(context, &f.moments, &grid, &lambda, losses), CST_OK);
    assert_all_close(losses, penalty_cv_losses, 61, 1e-7, 0);
    int best = 0;
    for (int p = 1; p < 61; p++)
        if (penalty_cv_losses[p] <= penalty_cv_losses[best])
            best = p;
    assert_relative(lambda, pow(10, -8 + 10.0 * best / 60), 1e-12, 0);
    release(context, &f);
}

static void gcv_matches_the_hat_matrix(void **state) {
    cst_context *context = *state;
    fixture f =
        make(context, linear_x, linear_y, LINEAR_ROWS, LINEAR_COLUMNS, NULL, 0, CST_NOISE_MEDIAN);
    cst_penalty_grid grid = cst_penalty_grid_default();
    for (int p = 0; p < 61; p++)
        assert_relative(
            cst_penalty_gcv_score(&f.standardised, &f.spectrum, cst_penalty_grid_at(&grid, p)),
            penalty_gcv_scores[p], 1e-9, 0);
    /* SciPy's minimiser sees the score only, so it knows the place to half the digits. */
    assert_relative(cst_penalty_gcv(&f.standardised, &f.spectrum, &grid), penalty_gcv[0], 1e-5, 0);
    release(context, &f);
    f = make(context, wide_x, wide_y, WIDE_ROWS, WIDE_COLUMNS, NULL, 0, CST_NOISE_MEDIAN);
    const double lambdas[3] = {1e-3, 0.1, 2};
    for (int p = 0; p < 3; p++)
        assert_relative(cst_penalty_gcv_score(&f.standardised, &f.spectrum, lambdas[p]),
                        wide_gcv_scores[p], 1e-7, 0);
    release(context, &f);
}

static void evidence_matches_direct_maximisation(void **state) {
    cst_context *context = *state;
    fixture f =
        make(context, linear_x, linear_y, LINEAR_ROWS, LINEAR_COLUMNS, NULL, 0, CST_NOISE_MEDIAN);
    cst_penalty_grid grid = cst_penalty_grid_default();
    double lambda = cst_penalty_evidence(&f.standardised, &f.spectrum, &grid);
    assert_relative(lambda, penalty_evidence[0], 1e-5, 0);
    /* It is a maximum, and a fixed point of MacKay's equations. */
    double at = cst_penalty_log_evidence(&f.standardised, &f.spectrum, lambda);
    assert_true(at > cst_penalty_log_evidence(&f.standardised, &f.spectrum, lambda * 1.01));
    assert_true(at > cst_penalty_log_evidence(&f.standardised, &f.spectrum, lambda / 1.01));
    double effective = 0;
    double norm = 0;
    double residual = f.standardised.target_square;
    for (int i = 0; i < LINEAR_COLUMNS; i++) {
        double value = f.spectrum.values[i];
        double w = f.spectrum.cross[i] / (value + lambda);
        effective += value / (value + lambda);
        norm += w * w;
        residual += value * w * w - 2 * w * f.spectrum.cross[i];
    }
    double alpha = effective / norm;
    double beta = (LINEAR_ROWS - 1 - effective) / (LINEAR_ROWS * residual);
    assert_relative(alpha / (LINEAR_ROWS * beta), lambda, 1e-9, 0);
    release(context, &f);
}

/* One column: one eigenvalue, no SNR. The rule star falls back to GCV and says so. */
static void no_signal_falls_back_to_gcv(void **state) {
    cst_context *context = *state;
    fixture f =
        make(context, linear_x, linear_y, LINEAR_ROWS, 1, linear_folds, 4, CST_NOISE_MEDIAN);
    cst_penalty_grid grid = cst_penalty_grid_default();
    assert_true(isnan(f.spectrum.lambda_star));
    cst_penalty_options options = {.rule = CST_PENALTY_STAR, .grid = grid};
    cst_penalty penalty;
    assert_int_equal(
        cst_penalty_choose(context, &f.moments, &f.standardised, NULL, &options, &penalty), CST_OK);
    assert_true(penalty.lambda == cst_penalty_gcv(&f.standardised, &f.spectrum, &grid));
    assert_int_equal(cst_notice_count(context), 1);
    assert_non_null(strstr(cst_notice_at(context, 0), "signal-to-noise"));
    release(context, &f);
}

static void rules_agree_with_their_functions(void **state) {
    cst_context *context = *state;
    fixture f = make(context, linear_x, linear_y, LINEAR_ROWS, LINEAR_COLUMNS, linear_folds, 4,
                     CST_NOISE_MEDIAN);
    cst_penalty_grid grid = cst_penalty_grid_default();
    cst_penalties all;
    assert_int_equal(
        cst_penalties_compute(context, &f.moments, &f.standardised, &f.spectrum, &grid, &all),
        CST_OK);
    const double expected[4] = {all.star, all.cv, all.gcv, all.evidence};
    for (int rule = 0; rule < 4; rule++) {
        cst_penalty_options options = {.rule = (cst_penalty_rule)rule, .grid = grid};
        cst_penalty found;
        assert_int_equal(
            cst_penalty_choose(context, &f.moments, &f.standardised, NULL, &options, &found),
            CST_OK);
        assert_true(found.lambda == expected[rule] && found.lambda > 0);
        assert_relative(found.sigma2, spectrum_median[0], 1e-9, 0);
    }
    assert_relative(all.star, spectrum_median[3], 1e-9, 0);
    double lambda = 0;
    cst_penalty_options unknown = {.rule = (cst_penalty_rule)4, .grid = grid};
    cst_penalty penalty;
    assert_int_equal(
        cst_penalty_choose(context, &f.moments, &f.standardised, NULL, &unknown, &penalty),
        CST_ERROR_ARGUMENT);
    grid.low = 0;
    assert_int_equal(cst_penalty_cv(context, &f.moments, &grid, &lambda, NULL), CST_ERROR_ARGUMENT);
    grid = cst_penalty_grid_default();
    release(context, &f);
    f = make(context, linear_x, linear_y, LINEAR_ROWS, LINEAR_COLUMNS, NULL, 0, CST_NOISE_MEDIAN);
    assert_int_equal(cst_penalty_cv(context, &f.moments, &grid, &lambda, NULL), CST_ERROR_ARGUMENT);
    assert_int_equal(
        cst_penalties_compute(context, &f.moments, &f.standardised, &f.spectrum, &grid, &all),
        CST_OK);
    assert_true(isnan(all.cv) && isfinite(all.gcv));
    release(context, &f);
}

/* A random symmetric matrix X'X of `rows` rows: without full rank where those are fewer. */
static void fill_gram(cst_rng *rng, int64_t n, int64_t rows, double *gram) {
    memset(gram, 0, (size_t)(n * n) * sizeof *gram);
    for (int64_t r = 0; r < rows; r++) {
        double x[128];
        for (int64_t i = 0; i < n; i++)
            x[i] = cst_rng_normal(rng);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                gram[i * n + j] += x[i] * x[j] / (double)rows;
    }
}

/* Eigenvalues found without eigenvectors are those found with them, to the last bit; so is all that
 * a spectrum says. */
static void values_alone_are_the_same(void **state) {
    cst_context *context = *state;
    static double gram[128 * 128];
    static double copy[128 * 128];
    double values[128];
    double alone[128];
    static const double units[] = {1, 1e-6, 1e150, 1e-150, 0};
    cst_rng rng;
    cst_rng_init(&rng, 3, CST_STREAM_TEST, 4);
    for (int64_t n = 1; n <= 128; n += n < 40 ? 1 : 11) {
        for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
            fill_gram(&rng, n, n % 3 ? 2 * n : n / 3 + 1, gram);
            for (int64_t i = 0; i < n * n; i++)
                gram[i] *= units[u];
            memcpy(copy, gram, (size_t)(n * n) * sizeof *copy);
            assert_int_equal(cst_eigh(context, n, gram, values), CST_OK);
            assert_int_equal(cst_eigh_values(context, n, copy, alone), CST_OK);
            assert_memory_equal(values, alone, (size_t)n * sizeof *values);
        }
    }
    for (int rule = 0; rule < 2; rule++) {
        fixture f =
            make(context, wide_x, wide_y, WIDE_ROWS, WIDE_COLUMNS, NULL, 0, (cst_noise_rule)rule);
        cst_spectrum without;
        assert_int_equal(
            cst_spectrum_values(context, &f.standardised, (cst_noise_rule)rule, &without), CST_OK);
        assert_null(without.vectors);
        assert_memory_equal(without.values, f.spectrum.values,
                            (size_t)without.columns * sizeof *without.values);
        assert_true(without.snr == f.spectrum.snr && without.sigma2 == f.spectrum.sigma2);
        cst_spectrum_free(context, &without);
        release(context, &f);
    }
}

/* The members' columns of a design are those of a design that has no others, over N samples instead
 * of N classes. */
static void members_alone(void **state) {
    enum { MEMBERS = 4, CLASSES = 5 };
    cst_context *context = *state;
    double x[LINEAR_ROWS * MEMBERS];
    for (int i = 0; i < LINEAR_ROWS; i++)
        memcpy(x + i * MEMBERS, linear_x + i * LINEAR_COLUMNS, MEMBERS * sizeof *x);
    for (int rule = 0; rule < 2; rule++) {
        fixture f = make(context, linear_x, linear_y, LINEAR_ROWS, LINEAR_COLUMNS, linear_folds, 4,
                         (cst_noise_rule)rule);
        fixture part =
            make(context, x, linear_y, LINEAR_ROWS, MEMBERS, linear_folds, 4, (cst_noise_rule)rule);
        cst_spectrum_members members = {.count = MEMBERS, .classes = CLASSES};
        cst_spectrum own;
        assert_int_equal(
            cst_spectrum_of_members(context, &f.standardised, &members, (cst_noise_rule)rule, &own),
            CST_OK);
        assert_int_equal(own.columns, MEMBERS);
        assert_relative(own.gamma, (double)MEMBERS * CLASSES / LINEAR_ROWS, 1e-12, 0);
        for (int i = 0; i < MEMBERS; i++)
            assert_relative(own.values[i], part.spectrum.values[i], 1e-9, 1e-12);
        double edge = 1 + sqrt(own.gamma);
        assert_relative(own.mp_edge, own.sigma2 * edge * edge, 1e-12, 0);
        cst_penalty_options options = {.rule = CST_PENALTY_STAR,
                                       .noise = (cst_noise_rule)rule,
                                       .of = CST_SPECTRUM_OOF,
                                       .grid = cst_penalty_grid_default()};
        cst_penalty found;
        assert_int_equal(
            cst_penalty_choose(context, &f.moments, &f.standardised, &members, &options, &found),
            CST_OK);
        assert_true(found.lambda == own.lambda_star && found.snr == own.snr);
        options.rule = CST_PENALTY_GCV; /* of the design, whosever noise is reported */
        assert_int_equal(
            cst_penalty_choose(context, &f.moments, &f.standardised, &members, &options, &found),
            CST_OK);
        assert_true(found.lambda == cst_penalty_gcv(&f.standardised, &f.spectrum, &options.grid));
        assert_true(found.sigma2 == own.sigma2);
        cst_spectrum_free(context, &own);
        release(context, &part);
        release(context, &f);
    }
}

int suite_penalty(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(spectrum_matches_numpy, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(values_alone_are_the_same, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(eigenvectors_are_eigenvectors, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(bulk_rule_finds_the_noise, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(members_alone, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(two_columns_by_hand, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(cross_validation_matches_refits, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(gcv_matches_the_hat_matrix, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(evidence_matches_direct_maximisation, la_setup,
                                        la_teardown),
        cmocka_unit_test_setup_teardown(no_signal_falls_back_to_gcv, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(rules_agree_with_their_functions, la_setup, la_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
