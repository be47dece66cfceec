/*
 * The log-linear pool with non-negative weights and with class weights: optima against SciPy, the
 * conditions of optimality on a sample of classes and of rows after its polish, class weights
 * against doubled rows, the bounded quadratic against all of its faces, paths of selection, and
 * what the options do to a fit.
 */
#include "core/la.h"
#include "fit/family.h"
#include "loglinear_oracle.h"
#include "method/linear/box_quadratic.h"
#include "method/loglinear/loglinear.h"
#include "method/select/within.h"
#include "short_tests.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "data/loglinear_shift.h"

static const cst_loglinear_cv no_cv;
static const cst_loglinear_cv prior_cv = {.prior = true};

enum { ROWS = 1500, CLASSES = 90, MEMBERS = 5, FOLDS = 3 };

typedef struct fixture {
    cst_context *context;
    const float *small_data[SHIFT_MEMBERS];
    cst_view small;
    float pool[MEMBERS][ROWS * CLASSES];
    const float *data[MEMBERS];
    int32_t labels[ROWS];
    int32_t folds[ROWS];
    double class_weights[CLASSES];
    cst_view wide;
} fixture;

static fixture shared;

/* Members that share an error, which the fourth shows more of than of the label: of no use without
 * a negative weight. */
static void make_pool(fixture *f) {
    static const double signal[MEMBERS] = {4, 3, 3.5, 0.3, 2};
    static const double mixed[MEMBERS] = {1, 0.8, 0.1, 1.5, 0.5};
    cst_rng rng;
    cst_rng_init(&rng, 23, CST_STREAM_TEST, 0);
    for (int i = 0; i < ROWS; i++) {
        double error[CLASSES];
        double u = cst_rng_uniform(&rng);
        f->labels[i] = (int32_t)(u * u * CLASSES); /* the first classes have the most rows */
        f->folds[i] = i % FOLDS;
        for (int c = 0; c < CLASSES; c++)
            error[c] = cst_rng_normal(&rng);
        for (int k = 0; k < MEMBERS; k++) {
            double sum = 0;
            double score[CLASSES];
            for (int c = 0; c < CLASSES; c++)
                sum += score[c] = exp(signal[k] * (c == f->labels[i]) + mixed[k] * error[c] +
                                      0.7 * cst_rng_normal(&rng));
            for (int c = 0; c < CLASSES; c++)
                f->pool[k][i * CLASSES + c] = (float)(score[c] / sum);
        }
    }
}

static int setup(void **state) {
    fixture *f = &shared;
    memset(f, 0, sizeof *f);
    cst_la_enter();
    if (cst_context_create(&f->context) != CST_OK)
        return 1;
    for (int32_t k = 0; k < SHIFT_MEMBERS; k++)
        f->small_data[k] = shift_pool + (size_t)k * SHIFT_ROWS * SHIFT_CLASSES;
    f->small = (cst_view){.rows = SHIFT_ROWS,
                          .classes = SHIFT_CLASSES,
                          .members = SHIFT_MEMBERS,
                          .data = f->small_data,
                          .labels = shift_labels};
    make_pool(f);
    for (int32_t k = 0; k < MEMBERS; k++)
        f->data[k] = f->pool[k];
    for (int c = 0; c < CLASSES; c++)
        f->class_weights[c] = 0.5 + (double)c / CLASSES;
    f->wide = (cst_view){
        .rows = ROWS, .classes = CLASSES, .members = MEMBERS, .data = f->data, .labels = f->labels};
    *state = f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    cst_context_free(f->context);
    cst_la_leave();
    return 0;
}

/* ---- against SciPy ---- */

static const int32_t EVERYONE[SHIFT_MEMBERS] = {0, 1, 2, 3, 4, 5};

static void open_small(fixture *f, const double *class_weights, cst_logtable *table) {
    double mix[SHIFT_MEMBERS];
    for (int k = 0; k < SHIFT_MEMBERS; k++)
        mix[k] = 1e-3;
    assert_int_equal(build_table(f->context, &f->small, mix, table), CST_OK);
    table->class_weights = class_weights;
}

static void optima_match_scipy(void **state) {
    static const struct {
        bool bounded, weighted, bias;
        const double *weights, *biases, *nll;
    } cases[] = {
        {false, true, false, shift_010_weights, shift_010_bias, &shift_010_nll},
        {false, true, true, shift_011_weights, shift_011_bias, &shift_011_nll},
        {true, false, false, shift_100_weights, shift_100_bias, &shift_100_nll},
        {true, false, true, shift_101_weights, shift_101_bias, &shift_101_nll},
        {true, true, false, shift_110_weights, shift_110_bias, &shift_110_nll},
        {true, true, true, shift_111_weights, shift_111_bias, &shift_111_nll},
    };
    fixture *f = *state;
    for (size_t t = 0; t < sizeof cases / sizeof cases[0]; t++) {
        cst_logtable table;
        cst_loglinear fit;
        cst_loglinear_options options = oracle_options(cases[t].bounded, cases[t].bias);
        double mean = 0;
        open_small(f, cases[t].weighted ? shift_balance : NULL, &table);
        assert_int_equal(
            cst_loglinear_fit(f->context, &table, EVERYONE, SHIFT_MEMBERS, &options, NULL, &fit),
            CST_OK);
        for (int k = 0; k < SHIFT_MEMBERS; k++) {
            assert_true(fabs(fit.weights[k] - cases[t].weights[k]) < 1e-6);
            assert_true((fit.weights[k] == 0) == (cases[t].weights[k] == 0));
        }
        for (int c = 0; c < SHIFT_CLASSES; c++)
            assert_true(fabs(fit.bias[c] - cases[t].biases[c]) < 1e-6);
        assert_true(fabs(fit.nll - *cases[t].nll) < 1e-6);
        assert_int_equal(cst_loglinear_loss(f->context, &table, EVERYONE, SHIFT_MEMBERS,
                                            fit.weights, fit.bias, &mean, NULL),
                         CST_OK);
        assert_true(fabs(mean * SHIFT_ROWS - *cases[t].nll) < 1e-6);
        cst_loglinear_free(f->context, &fit);
        cst_logtable_free(f->context, &table);
    }
}

/* The evidence is of the weights that are not at their bound; it ends, and leaves the bound. */
static void evidence_keeps_the_bound(void **state) {
    fixture *f = *state;
    cst_logtable table;
    cst_loglinear fit;
    cst_loglinear_options options = oracle_options(true, true);
    options.evidence = true;
    open_small(f, NULL, &table);
    assert_int_equal(
        cst_loglinear_fit(f->context, &table, EVERYONE, SHIFT_MEMBERS, &options, NULL, &fit),
        CST_OK);
    for (int k = 0; k < SHIFT_MEMBERS; k++)
        assert_true(fit.weights[k] >= 0);
    assert_true(fit.weights[5] == 0 && fit.weights[2] > 0);
    assert_true(fit.prior_weights > 0 && isfinite(fit.prior_weights));
    cst_loglinear_free(f->context, &fit);
    cst_logtable_free(f->context, &table);
}

/* ---- a sample of classes and rows ---- */

/* Largest violation of the conditions of optimality, over every class of every row, written out
 * once more: slopes of free parameters, and slopes below zero of weights at their bound. */
static double violation(const fixture *f, const cst_loglinear *fit, const double *mix,
                        const cst_loglinear_options *options) {
    double gradient[MEMBERS + CLASSES] = {0};
    for (int i = 0; i < ROWS; i++) {
        double z[CLASSES];
        double logs[MEMBERS][CLASSES];
        double sum = 0;
        double weight =
            options->compact.class_weights ? options->compact.class_weights[f->labels[i]] : 1;
        for (int c = 0; c < CLASSES; c++) {
            z[c] = fit->bias[c];
            for (int k = 0; k < MEMBERS; k++) {
                double p = (double)f->pool[k][i * CLASSES + c];
                logs[k][c] = log((1 - mix[k]) * p + mix[k] / CLASSES);
                z[c] += fit->weights[k] * logs[k][c];
            }
            sum += exp(z[c]);
        }
        for (int c = 0; c < CLASSES; c++) {
            double residual = weight * (exp(z[c]) / sum - (c == f->labels[i]));
            gradient[MEMBERS + c] += residual;
            for (int k = 0; k < MEMBERS; k++)
                gradient[k] += residual * logs[k][c];
        }
    }
    double common = 0;
    double most = 0;
    for (int k = 0; k < MEMBERS; k++)
        common += (fit->weights[k] - 1.0 / MEMBERS) / MEMBERS;
    for (int k = 0; k < MEMBERS; k++) {
        double slope = gradient[k] +
                       fit->prior_weights * (fit->weights[k] - 1.0 / MEMBERS - common) +
                       options->prior_scale * common;
        assert_true(fit->weights[k] >= 0);
        most = fmax(most, fit->weights[k] > 0 ? fabs(slope) : -slope);
    }
    for (int c = 0; c < CLASSES; c++)
        most = fmax(most, fabs(gradient[MEMBERS + c] + fit->prior_bias * fit->bias[c]));
    return most;
}

static void polished_fits_are_optimal(void **state) {
    fixture *f = *state;
    for (int t = 0; t < 4; t++) {
        bool weighted = t % 2;
        double cut = t < 2 ? 0 : 1e-2;
        double mix[MEMBERS];
        cst_loglinear fit;
        cst_loglinear_options options = cst_loglinear_defaults();
        options.nonnegative = true;
        options.evidence = false;
        options.polish = 1e-9;
        options.compact.cut = cut;
        options.compact.max_rows = t < 2 ? 0 : 800;
        options.compact.class_weights = weighted ? f->class_weights : NULL;
        assert_int_equal(cst_loglinear_pool(f->context, &f->wide, f->folds, FOLDS, &no_cv, &options,
                                            mix, &fit, NULL),
                         CST_OK);
        assert_true(fit.weights[3] == 0); /* or the bound was never met */
        assert_true(fit.weights[0] > 0.1);
        double most = violation(f, &fit, mix, &options);
        if (most > (cut > 0 ? 0.05 : 1e-3))
            fail_msg("case %d: a slope of %g is left", t, most);
        cst_loglinear_free(f->context, &fit);
    }
}

/* The prior chosen by held-out loss, with the bound and with class weights. */
static void prior_is_chosen_under_the_bound(void **state) {
    fixture *f = *state;
    double mix[MEMBERS];
    cst_loglinear fit;
    cst_loglinear_options options = cst_loglinear_defaults();
    options.nonnegative = true;
    options.compact.class_weights = f->class_weights;
    assert_int_equal(cst_loglinear_pool(f->context, &f->wide, f->folds, FOLDS, &prior_cv, &options,
                                        mix, &fit, NULL),
                     CST_OK);
    for (int k = 0; k < MEMBERS; k++)
        assert_true(fit.weights[k] >= 0);
    cst_loglinear_free(f->context, &fit);
}

/* ---- class weights ---- */

/* Weight 2 of a class is every row of it twice. */
static void class_weights_are_repeated_rows(void **state) {
    fixture *f = *state;
    static const double weights[SHIFT_CLASSES] = {1, 2, 1, 2};
    static int64_t index[2 * SHIFT_ROWS];
    cst_loglinear fits[2];
    cst_loglinear_options options = oracle_options(false, true);
    cst_view doubled = f->small;
    doubled.index = index;
    doubled.rows = 0;
    for (int i = 0; i < SHIFT_ROWS; i++)
        for (int r = 0; r < (int)weights[shift_labels[i]]; r++)
            index[doubled.rows++] = i;
    for (int t = 0; t < 2; t++) {
        cst_logtable table;
        double mix[SHIFT_MEMBERS] = {1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3};
        assert_int_equal(build_table(f->context, t ? &doubled : &f->small, mix, &table), CST_OK);
        table.class_weights = t ? NULL : weights;
        assert_int_equal(cst_loglinear_fit(f->context, &table, EVERYONE, SHIFT_MEMBERS, &options,
                                           NULL, &fits[t]),
                         CST_OK);
        cst_logtable_free(f->context, &table);
    }
    assert_true(fabs(fits[0].nll - fits[1].nll) < 1e-8);
    for (int k = 0; k < SHIFT_MEMBERS; k++)
        assert_true(fabs(fits[0].weights[k] - fits[1].weights[k]) < 1e-8);
    for (int c = 0; c < SHIFT_CLASSES; c++)
        assert_true(fabs(fits[0].bias[c] - fits[1].bias[c]) < 1e-8);
    cst_loglinear_free(f->context, &fits[0]);
    cst_loglinear_free(f->context, &fits[1]);
}

/* The same of the mixing with the uniform distribution. */
static void mixing_counts_class_weights(void **state) {
    fixture *f = *state;
    static double weights[CLASSES];
    static int64_t index[ROWS];
    int64_t kept = 0;
    cst_logtable tables[2];
    for (int c = 0; c < CLASSES; c++)
        weights[c] = c < 3;
    for (int i = 0; i < ROWS; i++)
        if (f->labels[i] < 3)
            index[kept++] = i;
    cst_view part = f->wide;
    part.index = index;
    part.rows = kept;
    for (int t = 0; t < 2; t++) {
        cst_compact_options options = {.cut = 1e-2, .class_weights = t ? NULL : weights};
        assert_int_equal(
            cst_logtable_open(f->context, t ? &part : &f->wide, NULL, 1, &options, &tables[t]),
            CST_OK);
        assert_int_equal(cst_logtable_mix(f->context, &tables[t]), CST_OK);
    }
    for (int k = 0; k < MEMBERS; k++)
        assert_true(tables[0].mix[k] == tables[1].mix[k]);
    cst_logtable_free(f->context, &tables[0]);
    cst_logtable_free(f->context, &tables[1]);
}

/* ---- the bounded quadratic ---- */

enum { SIZE = 7 };

static double quadratic(const double *curvature, const double *centre, const double *x) {
    double value = 0;
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++)
            value += 0.5 * (x[i] - centre[i]) * curvature[i * SIZE + j] * (x[j] - centre[j]);
    return value;
}

/* x >= 0, slopes 0 inside and not negative at the bound: in a convex problem that is the optimum.
 */
static void bounded_quadratic_is_optimal(void **state) {
    fixture *f = *state;
    cst_rng rng;
    cst_rng_init(&rng, 41, CST_STREAM_TEST, 0);
    int stopped = 0;
    for (int t = 0; t < 200; t++) {
        double root[SIZE][SIZE];
        double curvature[SIZE * SIZE] = {0};
        double centre[SIZE];
        double x[SIZE];
        for (int i = 0; i < SIZE; i++) {
            centre[i] = cst_rng_normal(&rng);
            for (int j = 0; j < SIZE; j++)
                root[i][j] = cst_rng_normal(&rng) + (t % 2) * 3 * cst_rng_normal(&rng);
        }
        for (int i = 0; i < SIZE; i++)
            for (int j = 0; j < SIZE; j++)
                for (int l = 0; l < SIZE; l++)
                    curvature[i * SIZE + j] += root[i][l] * root[j][l] + 0.01 * (i == j);
        assert_int_equal(cst_bounded_quadratic(f->context, SIZE, curvature, centre, x), CST_OK);
        for (int i = 0; i < SIZE; i++) {
            double slope = 0;
            for (int j = 0; j < SIZE; j++)
                slope += curvature[i * SIZE + j] * (x[j] - centre[j]);
            assert_true(x[i] >= 0);
            assert_true(x[i] > 0 ? fabs(slope) < 1e-8 : slope > -1e-8);
            stopped += x[i] <= 0;
        }
        double zero[SIZE] = {0};
        assert_true(quadratic(curvature, centre, x) <= quadratic(curvature, centre, zero) + 1e-12);
    }
    assert_true(stopped > 200 && stopped < 200 * SIZE);
}

/* ---- selection ---- */

static void paths_keep_the_bound(void **state) {
    fixture *f = *state;
    cst_logtable table;
    open_small(f, shift_balance, &table);
    for (int direction = 0; direction < 2; direction++) {
        cst_path path;
        cst_select_options options = {.prior = 10, .nonnegative = true};
        assert_int_equal(direction ? cst_path_forward(f->context, &table, &options, &path)
                                   : cst_path_backward(f->context, &table, &options, NULL, &path),
                         CST_OK);
        for (int s = 0; s < SHIFT_MEMBERS; s++)
            for (int j = 0; j <= s; j++)
                assert_true(path.weights[s][j] >= 0);
        for (int j = 0; j < 4; j++) /* those without a vote are the last to be there */
            assert_true(path.set[3][j] != 3 && path.set[3][j] != 5);
        cst_path_free(f->context, &path);
    }
    cst_logtable_free(f->context, &table);
}

/* ---- options ---- */

static cst_status run_with(fixture *f, const char *preset, const char *key, const char *value,
                           float *out) {
    cst_options *options = NULL;
    cst_settings settings;
    static int32_t folds[SHIFT_ROWS];
    for (int i = 0; i < SHIFT_ROWS; i++)
        folds[i] = i % FOLDS;
    assert_int_equal(cst_options_create(f->context, &options), CST_OK);
    assert_int_equal(cst_options_preset(f->context, options, preset), CST_OK);
    assert_int_equal(cst_options_set(f->context, options, key, value), CST_OK);
    cst_settings_read(options, &settings);
    cst_options_free(f->context, options);
    const cst_costs none = {0};
    const cst_run run =
        cst_run_of(&cst_classification_family, &f->small, folds, FOLDS, &settings, &none);
    const cst_fold_result held = {out, SHIFT_CLASSES};
    return cst_stages_nested(f->context, &run, NULL, &held, 1);
}

/* Held-out rows of the two rarest classes are found more often with balance. */
static void balance_raises_the_tail(void **state) {
    fixture *f = *state;
    static float out[2][SHIFT_ROWS * SHIFT_CLASSES];
    double mass[2][2] = {{0}};
    for (int t = 0; t < 2; t++) {
        assert_int_equal(run_with(f, "default", "fit.balance", t ? "1" : "0", out[t]), CST_OK);
        for (int i = 0; i < SHIFT_ROWS; i++)
            for (int c = 0; c < SHIFT_CLASSES; c++)
                mass[t][c >= 2] += (double)out[t][i * SHIFT_CLASSES + c];
    }
    assert_true(mass[1][1] > mass[0][1] + 0.2);
}

static void balance_is_refused_where_it_has_no_meaning(void **state) {
    fixture *f = *state;
    static float out[SHIFT_ROWS * SHIFT_CLASSES];
    assert_int_equal(run_with(f, "paper", "fit.balance", "0.5", out), CST_ERROR_ARGUMENT);
    assert_non_null(strstr(cst_last_error(f->context), "meta.learners=log-linear"));
    if (!short_tests())
        assert_int_equal(run_with(f, "paper", "fit.balance", "0", out), CST_OK);
}

int suite_loglinear_shift(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optima_match_scipy),
        cmocka_unit_test(evidence_keeps_the_bound),
        cmocka_unit_test(polished_fits_are_optimal),
        cmocka_unit_test(prior_is_chosen_under_the_bound),
        cmocka_unit_test(class_weights_are_repeated_rows),
        cmocka_unit_test(mixing_counts_class_weights),
        cmocka_unit_test(bounded_quadratic_is_optimal),
        cmocka_unit_test(paths_keep_the_bound),
        cmocka_unit_test(balance_raises_the_tail),
        cmocka_unit_test(balance_is_refused_where_it_has_no_meaning),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
