/*
 * Log-linear pool: optimum, loss and curvature against SciPy; optimality recomputed; same bytes for
 * any number of threads; separable and degenerate data.
 */
#include "method/loglinear/loglinear.h"
#include "core/la.h"
#include "loglinear_oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"
#include "data/loglinear.h"

typedef struct fixture {
    cst_context *context;
    const float *data[LL_MEMBERS];
    cst_view view;
    cst_logtable table;
    int32_t active[LL_MEMBERS];
} fixture;

static fixture shared;

static int setup(void **state) {
    fixture *f = &shared;
    memset(f, 0, sizeof *f);
    cst_la_enter();
    if (cst_context_create(&f->context) != CST_OK)
        return 1;
    for (int32_t k = 0; k < LL_MEMBERS; k++) {
        f->data[k] = ll_pool + (size_t)k * LL_ROWS * LL_CLASSES;
        f->active[k] = k;
    }
    f->view = (cst_view){.rows = LL_ROWS,
                         .classes = LL_CLASSES,
                         .members = LL_MEMBERS,
                         .data = f->data,
                         .labels = ll_labels};
    *state = f;
    return build_table(f->context, &f->view, ll_mix, &f->table) != CST_OK;
}

static int teardown(void **state) {
    fixture *f = *state;
    cst_logtable_free(f->context, &f->table);
    cst_context_free(f->context);
    cst_la_leave();
    return 0;
}

static void uniform_mix_matches_numpy(void **state) {
    fixture *f = *state;
    double mix[LL_MEMBERS];
    assert_int_equal(uniform_mix(f->context, &f->view, mix), CST_OK);
    for (int k = 0; k < LL_MEMBERS; k++)
        assert_true(mix[k] == ll_mix[k]);
}

static void check_optimum(fixture *f, bool bias, const double *weights, const double *biases,
                          double nll, double logdet) {
    cst_loglinear_options options = oracle_options(false, bias);
    cst_loglinear fit;
    double value = 0;
    double mean = 0;
    assert_int_equal(
        cst_loglinear_fit(f->context, &f->table, f->active, LL_MEMBERS, &options, NULL, &fit),
        CST_OK);
    for (int k = 0; k < LL_MEMBERS; k++)
        assert_relative(fit.weights[k], weights[k], 1e-6, 1e-3);
    for (int c = 0; c < LL_CLASSES; c++)
        assert_relative(fit.bias[c], biases[c], 1e-6, 1e-3);
    assert_relative(fit.nll, nll, 1e-8, 1e-3);
    assert_int_equal(cst_loglinear_logdet(f->context, &f->table, f->active, &fit, NULL, &value),
                     CST_OK);
    assert_relative(value, logdet, 1e-6, 1e-3);
    assert_int_equal(cst_loglinear_loss(f->context, &f->table, f->active, LL_MEMBERS, fit.weights,
                                        fit.bias, &mean, NULL),
                     CST_OK);
    assert_relative(mean * LL_ROWS, nll, 1e-8, 1e-3);
    cst_loglinear_free(f->context, &fit);
}

static void optimum_matches_scipy(void **state) {
    check_optimum(*state, false, ll_plain_weights, ll_plain_bias, ll_plain_nll, ll_plain_logdet);
    check_optimum(*state, true, ll_biased_weights, ll_biased_bias, ll_biased_nll, ll_biased_logdet);
}

/* Penalised loss written out once more, for central differences. */
static double objective(const fixture *f, const double *w, const double *b) {
    double total = 0;
    for (int64_t i = 0; i < LL_ROWS; i++) {
        double p[LL_CLASSES];
        float logs[LL_CLASSES * LL_MEMBERS];
        for (int c = 0; c < LL_CLASSES; c++)
            for (int k = 0; k < LL_MEMBERS; k++)
                logs[c * LL_MEMBERS + k] =
                    cst_mixed_log(f->data[k][i * LL_CLASSES + c], ll_mix[k], LL_CLASSES);
        cst_loglinear_row(logs, LL_CLASSES, LL_MEMBERS, f->active, LL_MEMBERS, w, b, p);
        total -= log(p[ll_labels[i]]);
    }
    double common = 0;
    for (int k = 0; k < LL_MEMBERS; k++)
        common += (w[k] - 1.0 / LL_MEMBERS) / LL_MEMBERS;
    for (int k = 0; k < LL_MEMBERS; k++)
        total += 3.5 * pow(w[k] - 1.0 / LL_MEMBERS - common, 2);
    total += LL_MEMBERS * common * common;
    for (int c = 0; c < LL_CLASSES; c++)
        total += 2.5 * b[c] * b[c];
    return total;
}

static void gradient_vanishes_at_the_result(void **state) {
    fixture *f = *state;
    cst_loglinear_options options = oracle_options(false, true);
    cst_loglinear fit;
    assert_int_equal(
        cst_loglinear_fit(f->context, &f->table, f->active, LL_MEMBERS, &options, NULL, &fit),
        CST_OK);
    double *coordinates[2] = {fit.weights, fit.bias};
    int sizes[2] = {LL_MEMBERS, LL_CLASSES};
    for (int g = 0; g < 2; g++) {
        for (int j = 0; j < sizes[g]; j++) {
            double keep = coordinates[g][j];
            coordinates[g][j] = keep + 1e-4;
            double up = objective(f, fit.weights, fit.bias);
            coordinates[g][j] = keep - 1e-4;
            double down = objective(f, fit.weights, fit.bias);
            coordinates[g][j] = keep;
            assert_true(fabs(up - down) / 2e-4 < 1e-5);
            assert_true(up > objective(f, fit.weights, fit.bias));
        }
    }
    cst_loglinear_free(f->context, &fit);
}

static void same_bytes_for_any_threads(void **state) {
    fixture *f = *state;
    cst_loglinear first;
    cst_loglinear_options options = cst_loglinear_defaults();
    assert_int_equal(cst_context_set_threads(f->context, 1), CST_OK);
    assert_int_equal(
        cst_loglinear_fit(f->context, &f->table, f->active, LL_MEMBERS, &options, NULL, &first),
        CST_OK);
    for (int threads = 2; threads <= 4; threads++) {
        cst_loglinear again;
        assert_int_equal(cst_context_set_threads(f->context, threads), CST_OK);
        assert_int_equal(
            cst_loglinear_fit(f->context, &f->table, f->active, LL_MEMBERS, &options, NULL, &again),
            CST_OK);
        assert_memory_equal(first.weights, again.weights, sizeof(double) * LL_MEMBERS);
        assert_memory_equal(first.bias, again.bias, sizeof(double) * LL_CLASSES);
        cst_loglinear_free(f->context, &again);
    }
    cst_loglinear_free(f->context, &first);
}

/* The evidence's fixed point: alpha |deviation|^2 equals the number of well-determined parameters.
 */
static void evidence_is_a_fixed_point(void **state) {
    fixture *f = *state;
    cst_loglinear_options options = cst_loglinear_defaults();
    cst_loglinear fit;
    cst_loglinear again;
    assert_int_equal(
        cst_loglinear_fit(f->context, &f->table, f->active, LL_MEMBERS, &options, NULL, &fit),
        CST_OK);
    assert_true(fit.prior_weights != options.prior_weights);
    options.prior_weights = fit.prior_weights;
    options.prior_bias = fit.prior_bias;
    assert_int_equal(
        cst_loglinear_fit(f->context, &f->table, f->active, LL_MEMBERS, &options, NULL, &again),
        CST_OK);
    assert_relative(again.prior_weights, fit.prior_weights, 0.03, 1e-3);
    assert_relative(again.prior_bias, fit.prior_bias, 0.03, 1e-3);
    cst_loglinear_free(f->context, &fit);
    cst_loglinear_free(f->context, &again);
}

/* One perfect member: without a prior the weights would run away; with it they stay finite and the
 * loss is small. */
static void separable_data_stay_finite(void **state) {
    fixture *f = *state;
    static float perfect[LL_ROWS * LL_CLASSES];
    const float *data[2] = {perfect, ll_pool};
    for (int64_t i = 0; i < LL_ROWS; i++)
        perfect[i * LL_CLASSES + ll_labels[i]] = 1;
    cst_view view = f->view;
    view.members = 2;
    view.data = data;
    double mix[2];
    cst_logtable table;
    cst_loglinear fit;
    cst_loglinear_options options = cst_loglinear_defaults();
    assert_int_equal(uniform_mix(f->context, &view, mix), CST_OK);
    assert_true(mix[0] == 1e-6);
    assert_int_equal(build_table(f->context, &view, mix, &table), CST_OK);
    assert_int_equal(cst_loglinear_fit(f->context, &table, f->active, 2, &options, NULL, &fit),
                     CST_OK);
    assert_true(isfinite(fit.weights[0]) && isfinite(fit.weights[1]));
    assert_true(fit.nll / LL_ROWS < 0.01);
    cst_loglinear_free(f->context, &fit);
    cst_logtable_free(f->context, &table);
}

/* The choice, checked against held-out losses computed here candidate by candidate. */
static void prior_by_cv_is_the_best_or_a_default(void **state) {
    static const double grid[] = {1, 3, 10, 30, 100};
    fixture *f = *state;
    int32_t folds[LL_ROWS];
    for (int i = 0; i < LL_ROWS; i++)
        folds[i] = i % 5;
    cst_loglinear_options chosen[2];
    for (int t = 0; t < 2; t++) {
        chosen[t] = cst_loglinear_defaults();
        assert_int_equal(cst_context_set_threads(f->context, 1 + 2 * t), CST_OK);
        cst_loglinear_cv cv = {.prior = true};
        assert_int_equal(
            cst_loglinear_cv_run(f->context, &f->table, folds, 5, &cv, &chosen[t], NULL), CST_OK);
    }
    assert_int_equal(chosen[0].evidence, chosen[1].evidence);
    assert_true(chosen[0].prior_weights == chosen[1].prior_weights);
    assert_true(chosen[0].prior_scale == chosen[1].prior_scale);
    assert_true(chosen[0].prior_bias == chosen[1].prior_bias);
    double loss[6] = {0};
    for (int32_t fold = 0; fold < 5; fold++) {
        int64_t index[LL_ROWS];
        double mix[LL_MEMBERS];
        cst_view in;
        cst_view out;
        cst_logtable table;
        cst_logtable held;
        cst_view_split(&f->view, folds, fold, index, &in, &out);
        assert_int_equal(uniform_mix(f->context, &in, mix), CST_OK);
        assert_int_equal(build_table(f->context, &in, mix, &table), CST_OK);
        assert_int_equal(build_table(f->context, &out, mix, &held), CST_OK);
        for (int g = 0; g < 6; g++) {
            cst_loglinear_options options = cst_loglinear_defaults();
            cst_loglinear fit;
            double mean = 0;
            options.evidence = g == 5;
            options.prior_weights = g == 5 ? options.prior_weights : grid[g];
            assert_int_equal(
                cst_loglinear_fit(f->context, &table, f->active, LL_MEMBERS, &options, NULL, &fit),
                CST_OK);
            assert_int_equal(cst_loglinear_loss(f->context, &held, f->active, LL_MEMBERS,
                                                fit.weights, fit.bias, &mean, NULL),
                             CST_OK);
            loss[g] += mean / 5;
            cst_loglinear_free(f->context, &fit);
        }
        cst_logtable_free(f->context, &table);
        cst_logtable_free(f->context, &held);
    }
    int taken = 5;
    for (int g = 0; g < 5 && !chosen[0].evidence; g++)
        taken = grid[g] == chosen[0].prior_weights ? g : taken;
    double start = fmin(loss[2], loss[5]);
    assert_true(loss[taken] <= start + 1e-6);
    if (taken != 2 && taken != 5)
        assert_true(loss[taken] < start);
}

int suite_loglinear(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_mix_matches_numpy),
        cmocka_unit_test(optimum_matches_scipy),
        cmocka_unit_test(gradient_vanishes_at_the_result),
        cmocka_unit_test(same_bytes_for_any_threads),
        cmocka_unit_test(evidence_is_a_fixed_point),
        cmocka_unit_test(separable_data_stay_finite),
        cmocka_unit_test(prior_by_cv_is_the_best_or_a_default),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
