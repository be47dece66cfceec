/*
 * Baselines in prediction space: weights and predictions against tests/oracles/mixtures.py, and the
 * choice among tagged members.
 */
#include "fit/baselines/baselines.h"

#include "core/la.h"
#include "method/linear/moments.h"

#include "data/mixtures.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "baseline_case.h"
#include "check.h"

enum { CELLS = MIX_ROWS * MIX_CLASSES };

static cst_view pool(void) {
    static const float *data[MIX_MEMBERS];
    for (int k = 0; k < MIX_MEMBERS; k++)
        data[k] = mix_pool + (size_t)k * CELLS;
    return (cst_view){.rows = MIX_ROWS,
                      .classes = MIX_CLASSES,
                      .members = MIX_MEMBERS,
                      .data = data,
                      .labels = mix_labels};
}

static cst_baseline_data data_of(const cst_view *view) {
    static int32_t folds[MIX_ROWS];
    for (int i = 0; i < MIX_ROWS; i++)
        folds[i] = i % MIX_FOLDS;
    return (cst_baseline_data){.view = view, .folds = folds, .fold_count = MIX_FOLDS, .seed = 1};
}

/* Fits, compares the weights and the first 20 rows (float32, hence at least 1e-7), and leaves the
 * fit. */
static cst_baseline_fit check(cst_context *context, const cst_baseline *baseline, cst_mix_kind mix,
                              const double *weights, const double *rows, double tolerance) {
    cst_view view = pool();
    cst_baseline_data data = data_of(&view);
    cst_baseline_fit b;
    float out[CELLS];
    assert_int_equal(cst_baseline_fit_run(context, baseline, &data, &b), CST_OK);
    assert_int_equal(b.mix, mix);
    for (int k = 0; k < MIX_MEMBERS; k++) {
        assert_close(b.weights[k], weights[k], tolerance);
        assert_true(b.uses[k] == (b.weights[k] != 0));
    }
    assert_int_equal(baseline_predict(context, &b, &view, out), CST_OK);
    for (int j = 0; rows && j < 20 * MIX_CLASSES; j++)
        assert_close((double)out[j], rows[j], tolerance + 1e-7);
    return b;
}

static void weighted_by_accuracy(void **state) {
    cst_context *context = *state;
    cst_baseline_fit b = check(context, &cst_baselines[CST_BASELINE_PERFORMANCE_WEIGHTED],
                               CST_MIX_LINEAR, mix_performance_weighted, NULL, 1e-15);
    cst_baseline_fit_free(context, &b);
    /* nobody is ever right: equal weights */
    int32_t wrong[MIX_ROWS];
    cst_view view = pool();
    for (int i = 0; i < MIX_ROWS; i++) {
        bool right[MIX_CLASSES] = {false};
        for (int k = 0; k < 2; k++) {
            const float *row = view.data[k] + (size_t)i * MIX_CLASSES;
            int top = 0;
            for (int c = 1; c < MIX_CLASSES; c++)
                top = row[c] > row[top] ? c : top;
            right[top] = true;
        }
        wrong[i] = 0;
        while (right[wrong[i]])
            wrong[i]++;
    }
    view.labels = wrong;
    view.members = 2;
    cst_baseline_data data = data_of(&view);
    assert_int_equal(
        cst_baseline_fit_run(context, &cst_baselines[CST_BASELINE_PERFORMANCE_WEIGHTED], &data, &b),
        CST_OK);
    assert_true(b.weights[0] == 0.5 && b.weights[1] == 0.5);
    cst_baseline_fit_free(context, &b);
}

static void minimum_variance(void **state) {
    cst_context *context = *state;
    cst_baseline_fit b = check(context, &cst_baselines[CST_BASELINE_MINIMUM_VARIANCE],
                               CST_MIX_LINEAR, mix_minimum_variance, NULL, 1e-6);
    /* optimality: every member in use has the same covariance with the mixture's residual, every
     * other at least as much */
    cst_view view = pool();
    double mixture[CELLS];
    double covariance[MIX_MEMBERS] = {0};
    double least = INFINITY;
    assert_int_equal(cst_mixture_rows(context, &view, b.weights, 0, mixture), CST_OK);
    for (int k = 0; k < MIX_MEMBERS; k++) {
        for (int j = 0; j < CELLS; j++) {
            double y = mix_labels[j / MIX_CLASSES] == j % MIX_CLASSES;
            covariance[k] += (y - mixture[j]) * (y - (double)view.data[k][j]) / CELLS;
        }
        least = fmin(least, covariance[k]);
    }
    for (int k = 0; k < MIX_MEMBERS; k++)
        if (b.uses[k])
            assert_close(covariance[k], least, 1e-9);
    cst_baseline_fit_free(context, &b);
}

static void linear_stacking(void **state) {
    cst_context *context = *state;
    const struct {
        const cst_baseline *baseline;
        const double *weights;
        const double *rows;
        double intercept;
    } cases[] = {
        {&cst_baselines[CST_BASELINE_RIDGE], mix_ridge, mix_ridge_rows, mix_ridge_intercept},
        {&cst_baselines[CST_BASELINE_LASSO], mix_lasso, mix_lasso_rows, mix_lasso_intercept},
        {&cst_baselines[CST_BASELINE_ELASTIC_NET], mix_elastic_net, mix_elastic_net_rows,
         mix_elastic_net_intercept},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cst_baseline_fit b = check(context, cases[i].baseline, CST_MIX_LINEAR, cases[i].weights,
                                   cases[i].rows, 1e-6);
        assert_close(b.intercept, cases[i].intercept, 1e-6);
        assert_non_null(strstr(b.detail, "lambda"));
        cst_baseline_fit_free(context, &b);
    }
}

static void log_linear(void **state) {
    cst_context *context = *state;
    cst_baseline_fit b = check(context, &cst_baselines[CST_BASELINE_LOG_LINEAR], CST_MIX_LOGLINEAR,
                               mix_log_linear, mix_log_linear_rows, 1e-6);
    assert_string_equal(b.detail, "prior precision 10 of weights");
    cst_baseline_fit_free(context, &b);
    /* one member: no prior to choose */
    cst_view view = pool();
    view.members = 1;
    cst_baseline_data data = data_of(&view);
    assert_int_equal(
        cst_baseline_fit_run(context, &cst_baselines[CST_BASELINE_LOG_LINEAR], &data, &b), CST_OK);
    assert_true(b.weights[0] > 0.5 && b.weights[0] < 2);
    cst_baseline_fit_free(context, &b);
}

static void hill_climbing(void **state) {
    cst_context *context = *state;
    cst_baseline_fit b = check(context, &cst_baselines[CST_BASELINE_HILL_CLIMBING], CST_MIX_LINEAR,
                               mix_hill_climbing, mix_hill_climbing_rows, 1e-12);
    char expected[64];
    (void)snprintf(expected, sizeof expected, "%d rounds, log loss %.6f", MIX_HILL_CLIMBING_STEPS,
                   mix_hill_climbing_loss);
    assert_string_equal(b.detail, expected);
    cst_baseline_fit_free(context, &b);
}

/* Mean log loss of (1 - w) p + w q by its definition. */
static double candidate_loss(const double *p, const float *q, double w, const int32_t *labels,
                             int rows, int classes) {
    double loss = 0;
    for (int i = 0; i < rows; i++) {
        double own = 0;
        double sum = 0;
        for (int c = 0; c < classes; c++) {
            double x = (1 - w) * p[i * classes + c] + w * (double)q[i * classes + c];
            x = fmin(fmax(x, 1e-15), 1 - 1e-15);
            sum += x;
            own = c == labels[i] ? x : own;
        }
        loss -= log(own / sum) / rows;
    }
    return loss;
}

/* Members that are sure of themselves, some of them wrong: every class is clipped somewhere. Each
 * candidate of each round by the definition. */
static void hill_climbing_among_sure_members(void **state) {
    cst_context *context = *state;
    enum { ROWS = 700, CLASSES = 3, MEMBERS = 4 };
    static float values[MEMBERS][ROWS * CLASSES];
    static double mixture[ROWS * CLASSES];
    static int32_t labels[ROWS];
    const float *data[MEMBERS];
    double weights[MEMBERS] = {0};
    int rounds = 0;
    cst_rng rng;
    cst_rng_init(&rng, 9, CST_STREAM_TEST, 0);
    for (int i = 0; i < ROWS; i++)
        labels[i] = (int32_t)cst_rng_below(&rng, CLASSES);
    for (int k = 0; k < MEMBERS; k++) {
        data[k] = values[k];
        for (int i = 0; i < ROWS; i++) {
            int32_t top =
                cst_rng_below(&rng, 20) < k + 1 ? (int32_t)cst_rng_below(&rng, CLASSES) : labels[i];
            float rest = k == 3 ? 0 : cst_rng_below(&rng, 2) ? 1e-20F : 0.02F;
            for (int c = 0; c < CLASSES; c++)
                values[k][i * CLASSES + c] = c == top ? 1 - rest * (CLASSES - 1) : rest;
        }
    }
    cst_view view = {
        .rows = ROWS, .classes = CLASSES, .members = MEMBERS, .data = data, .labels = labels};
    cst_baseline_data given = {.view = &view};
    cst_baseline_fit b;
    assert_int_equal(
        cst_baseline_fit_run(context, &cst_baselines[CST_BASELINE_HILL_CLIMBING], &given, &b),
        CST_OK);
    double single[MEMBERS];
    int start = 0;
    for (int k = 0; k < MEMBERS; k++) {
        single[k] = 0;
        for (int i = 0; i < ROWS; i++)
            single[k] -= log(fmax((double)values[k][i * CLASSES + labels[i]], 1e-15));
        start = single[k] < single[start] ? k : start;
    }
    weights[start] = 1;
    for (int j = 0; j < ROWS * CLASSES; j++)
        mixture[j] = (double)values[start][j];
    for (;; rounds++) {
        double now = candidate_loss(mixture, values[0], 0, labels, ROWS, CLASSES);
        double least = now;
        double step = 0;
        int best = 0;
        for (int k = 0; k < MEMBERS; k++) {
            for (int j = -50; j <= 50; j++) {
                double loss = candidate_loss(mixture, values[k], j / 100.0, labels, ROWS, CLASSES);
                if (loss < least) {
                    least = loss;
                    step = j / 100.0;
                    best = k;
                }
            }
        }
        if (!(least < now - 1e-5))
            break;
        for (int k = 0; k < MEMBERS; k++)
            weights[k] = (1 - step) * weights[k] + (k == best ? step : 0);
        for (int j = 0; j < ROWS * CLASSES; j++)
            mixture[j] = (1 - step) * mixture[j] + step * (double)values[best][j];
    }
    assert_true(rounds >= 3);
    for (int k = 0; k < MEMBERS; k++)
        assert_close(b.weights[k], weights[k], 1e-12);
    assert_int_equal(strtol(b.detail, NULL, 10), rounds);
    cst_baseline_fit_free(context, &b);
}

/* ---- tagged members ---- */

static cst_status fit_tagged(cst_context *context, const cst_baseline *baseline,
                             const cst_member_ensemble *tags, cst_baseline_fit *b) {
    cst_view view = pool();
    cst_baseline_data data = data_of(&view);
    data.ensembles = tags;
    return cst_baseline_fit_run(context, baseline, &data, b);
}

static void assert_weights(const cst_baseline_fit *b, const double *expected) {
    for (int k = 0; k < MIX_MEMBERS; k++)
        assert_close(b->weights[k], expected[k], 1e-15);
}

static void groups_of_tagged_members(void **state) {
    cst_context *context = *state;
    const cst_baseline *grouped[] = {&cst_baselines[CST_BASELINE_DEEP_ENSEMBLE],
                                     &cst_baselines[CST_BASELINE_SNAPSHOT]};
    const cst_ensemble_kind kinds[] = {CST_ENSEMBLE_DEEP, CST_ENSEMBLE_SNAPSHOT};
    assert_true(mix_pair_nll[0] < mix_pair_nll[1]);
    for (int i = 0; i < 2; i++) {
        cst_baseline_fit b;
        cst_member_ensemble tags[MIX_MEMBERS] = {[5] = {CST_ENSEMBLE_SOUP, "net", 1}};
        tags[0] = (cst_member_ensemble){kinds[i], "net", 1};
        assert_int_equal(fit_tagged(context, grouped[i], NULL, &b), CST_ERROR_INPUT);
        assert_int_equal(fit_tagged(context, grouped[i], tags, &b), CST_ERROR_INPUT);
        assert_non_null(strstr(cst_last_error(context), "no member is tagged"));
        /* a second one of another name is no ensemble with the first */
        tags[1] = tags[2] = (cst_member_ensemble){kinds[i], "deep", 1};
        assert_int_equal(fit_tagged(context, grouped[i], tags, &b), CST_OK);
        assert_weights(&b, (const double[]){0, 0.5, 0.5, 0, 0, 0});
        cst_baseline_fit_free(context, &b);
        tags[4] = tags[0];
        assert_int_equal(fit_tagged(context, grouped[i], tags, &b), CST_OK);
        assert_weights(&b, (const double[]){0.5, 0, 0, 0, 0.5, 0});
        assert_string_equal(b.detail, "of 'net', 2 members; 2 candidates");
        cst_baseline_fit_free(context, &b);
    }
}

static void single_tagged_members(void **state) {
    cst_context *context = *state;
    cst_baseline_fit b;
    cst_member_ensemble soups[MIX_MEMBERS] = {
        [2] = {CST_ENSEMBLE_SOUP, "net", 1}, [4] = {CST_ENSEMBLE_SOUP, "net", 1}};
    assert_true(mix_member_nll[4] < mix_member_nll[2]);
    assert_int_equal(fit_tagged(context, &cst_baselines[CST_BASELINE_SOUP], soups, &b), CST_OK);
    assert_weights(&b, (const double[]){0, 0, 0, 0, 1, 0});
    assert_string_equal(b.detail, "of 'net', 1 member; 2 candidates");
    cst_baseline_fit_free(context, &b);
    assert_int_equal(fit_tagged(context, &cst_baselines[CST_BASELINE_SWAG], soups, &b),
                     CST_ERROR_INPUT);
    /* a long name is cut between characters: 62 letters, then one of two bytes */
    char name[80];
    memset(name, 'a', 62);
    memcpy(name + 62, "\xc3\xa9\xc3\xa9", 5);
    cst_member_ensemble own[MIX_MEMBERS] = {[1] = {CST_ENSEMBLE_SWAG, name, 30}};
    assert_int_equal(fit_tagged(context, &cst_baselines[CST_BASELINE_SWAG], own, &b), CST_OK);
    name[62] = '\0';
    assert_non_null(strstr(b.detail, name));
    assert_null(strchr(b.detail, '\xc3'));
    cst_baseline_fit_free(context, &b);
}

/* Dropout passes or SWAG samples of one network, saved as one member or as several. */
static void passes_of_tagged_members(void **state) {
    cst_context *context = *state;
    const cst_baseline *sampled[] = {&cst_baselines[CST_BASELINE_MC_DROPOUT],
                                     &cst_baselines[CST_BASELINE_SWAG]};
    const cst_ensemble_kind kinds[] = {CST_ENSEMBLE_MC_DROPOUT, CST_ENSEMBLE_SWAG};
    assert_true(mix_passes_nll < mix_member_nll[5]);
    for (int i = 0; i < 2; i++) {
        cst_baseline_fit b;
        cst_member_ensemble tags[MIX_MEMBERS] = {[2] = {kinds[i], "net", 10}};
        assert_int_equal(fit_tagged(context, sampled[i], tags, &b), CST_OK);
        assert_weights(&b, (const double[]){0, 0, 1, 0, 0, 0});
        assert_string_equal(b.detail, "of 'net', 1 member; 1 candidate");
        cst_baseline_fit_free(context, &b);
        /* saved in two parts; then a worse network beside it, and another kind */
        tags[3] = (cst_member_ensemble){kinds[i], "net", 30};
        tags[5] = (cst_member_ensemble){kinds[i], "other", 30};
        tags[4] = (cst_member_ensemble){kinds[1 - i], "net", 30};
        assert_int_equal(fit_tagged(context, sampled[i], tags, &b), CST_OK);
        assert_weights(&b, (const double[]){0, 0, 0.25, 0.75, 0, 0});
        assert_string_equal(b.detail, "of 'net', 2 members; 2 candidates");
        cst_baseline_fit_free(context, &b);
        assert_int_equal(fit_tagged(context, &cst_baselines[CST_BASELINE_SOUP], tags, &b),
                         CST_ERROR_INPUT);
    }
}

int suite_mixtures(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(weighted_by_accuracy, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(minimum_variance, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(linear_stacking, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(log_linear, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(hill_climbing, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(hill_climbing_among_sure_members, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(groups_of_tagged_members, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(single_tagged_members, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(passes_of_tagged_members, la_setup, la_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
