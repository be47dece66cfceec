/*
 * The stack of a regression against NumPy, SciPy and scikit-learn: linear pool, baselines,
 * variance, the prototype preset; optimality, coverage, models on disk, any number of threads.
 */
#include <corestack/more.h>

#include "core/la.h"
#include "data/regression.h"
#include "fit/method.h"
#include "pool_from_values.h"
#include "stats/row_weights.h"
#include "tasks/regression/regression.h"
#include "temporary.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const cst_costs NO_COSTS;

static const char *const names[] = {"a", "b", "c", "d", "e", "f"};

typedef struct fixture {
    cst_context *context;
    const float *data[POOL_MEMBERS];
    cst_view view;
    cst_scaling scaling;
    cst_moments moments[POOL_OUTPUTS];
    cst_scope scope;
} fixture;

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    cst_gate none = {.mode = CST_GATE_NONE, .inputs = POOL_MEMBERS};
    *state = f;
    for (int k = 0; k < POOL_MEMBERS; k++)
        f->data[k] = pool_member + k * POOL_ROWS * POOL_OUTPUTS;
    f->view = (cst_view){.rows = POOL_ROWS,
                         .classes = POOL_OUTPUTS,
                         .members = POOL_MEMBERS,
                         .data = f->data,
                         .targets = pool_target};
    return cst_context_create(&f->context) != CST_OK ||
           cst_scaling_take(f->context, &f->scope, &f->view, &f->scaling) != CST_OK ||
           cst_value_moments(f->context, &f->scope, &f->view, &f->scaling, &none, pool_folds,
                             POOL_FOLDS, f->moments) != CST_OK;
}

static int teardown(void **state) {
    fixture *f = *state;
    cst_scope_free(&f->scope);
    cst_context_free(f->context);
    free(f);
    return 0;
}

static void assert_near(double got, double expected, double tolerance) {
    if (!(fabs(got - expected) <= tolerance))
        fail_msg("got %.17g, expected %.17g within %g", got, expected, tolerance);
}

/* ---- the linear pool ---- */

static void the_pool_is_ridge_regression_on_the_difference_to_its_center(void **state) {
    fixture *f = *state;
    const double powers[2] = {0, 4};
    for (int p = 0; p < 2; p++)
        for (int l = 0; l < 4; l++) {
            cst_covariances c;
            double weights[POOL_MEMBERS];
            const double *expected = fixed_fit + (p * 4 + l) * (POOL_MEMBERS + 1);
            assert_int_equal(
                cst_covariances_make(f->context, &f->scope, &f->moments[0], -1, powers[p], &c),
                CST_OK);
            assert_int_equal(cst_linear_pool_solve(f->context, &c, fixed_lambda[l], false, weights),
                             CST_OK);
            double intercept = c.target_mean;
            for (int k = 0; k < POOL_MEMBERS; k++) {
                assert_near(weights[k], expected[k], 1e-8);
                intercept -= weights[k] * c.mean[k];
            }
            assert_near(intercept, expected[POOL_MEMBERS], 1e-8);
        }
}

static void lambda_is_that_of_the_evidence_or_of_held_out_error(void **state) {
    fixture *f = *state;
    for (int d = 0; d < POOL_OUTPUTS; d++) {
        cst_linear_pool pool;
        cst_linear_pool_options options = {.prior = CST_LINEAR_POOL_EVIDENCE, .power = 4};
        assert_int_equal(
            cst_linear_pool_fit(f->context, &f->scope, &f->moments[d], &options, &pool), CST_OK);
        assert_near(log(pool.lambda), log(pool_evidence[d]), 1e-4);
        options = (cst_linear_pool_options){.prior = CST_LINEAR_POOL_CV};
        assert_int_equal(
            cst_linear_pool_fit(f->context, &f->scope, &f->moments[d], &options, &pool), CST_OK);
        assert_near(log(pool.lambda), log(pool_cv[d]), 1e-9);
    }
}

/* Gradient 0 where a weight is positive, not negative where it is 0. */
static void weights_at_or_above_0_are_optimal(void **state) {
    fixture *f = *state;
    cst_covariances c;
    double w[POOL_MEMBERS];
    int held = 0;
    assert_int_equal(cst_covariances_make(f->context, &f->scope, &f->moments[1], -1, 4, &c),
                     CST_OK);
    assert_int_equal(cst_linear_pool_solve(f->context, &c, 1e-4, true, w), CST_OK);
    for (int i = 0; i < POOL_MEMBERS; i++) {
        double gradient = 1e-4 * (w[i] - c.center[i]) - c.cross[i];
        for (int j = 0; j < POOL_MEMBERS; j++)
            gradient += c.gram[i * POOL_MEMBERS + j] * w[j];
        assert_true(w[i] >= 0);
        held += w[i] == 0;
        assert_true(w[i] > 0 ? fabs(gradient) < 1e-10 : gradient > -1e-10);
    }
    assert_true(held > 0);
}

/* ---- baselines ---- */

static void expect_baseline(fixture *f, const char *name, const double *expected, bool intercept,
                            double tolerance) {
    double weights[POOL_MEMBERS];
    double b = 0;
    const cst_value_baseline *baseline = cst_value_baseline_find(name);
    assert_non_null(baseline);
    assert_int_equal(
        cst_value_baseline_fit(f->context, baseline, NULL, &f->moments[0], weights, &b, NULL),
        CST_OK);
    for (int k = 0; k < POOL_MEMBERS; k++)
        assert_near(weights[k], expected[k], tolerance);
    assert_near(b, intercept ? expected[POOL_MEMBERS] : 0, tolerance);
}

static void baselines_agree_with_scikit_learn(void **state) {
    fixture *f = *state;
    expect_baseline(f, "ridge", base_ridge, true, 1e-8);
    expect_baseline(f, "lasso", base_lasso, true, 1e-6);
    expect_baseline(f, "elastic-net", base_elastic_net, true, 1e-6);
    expect_baseline(f, "greedy", base_greedy, false, 1e-12);
    expect_baseline(f, "minimum-variance", base_minimum_variance, false, 1e-4);
    expect_baseline(f, "performance-weighted", base_performance, false, 1e-9);
}

static void tagged_baselines_need_a_group(void **state) {
    fixture *f = *state;
    const cst_value_baseline *deep = cst_value_baseline_find("deep-ensemble");
    cst_member_ensemble tags[POOL_MEMBERS] = {[1] = {CST_ENSEMBLE_DEEP, "net", 1}};
    double weights[POOL_MEMBERS];
    double b = 1;
    cst_ensemble_choice choice = {1, 1, 1};
    assert_non_null(deep);
    assert_null(cst_value_baseline_find("log-linear"));
    assert_false(cst_ensemble_applies(cst_ensemble_rule_of(deep->kind), NULL, POOL_MEMBERS));
    assert_false(cst_ensemble_applies(cst_ensemble_rule_of(deep->kind), tags, POOL_MEMBERS));
    assert_int_equal(
        cst_value_baseline_fit(f->context, deep, tags, &f->moments[0], weights, &b, &choice),
        CST_ERROR_INPUT);
    assert_int_equal(choice.size, 0);
    assert_int_equal(
        cst_value_baseline_fit(f->context, deep, NULL, &f->moments[0], weights, &b, &choice),
        CST_ERROR_INPUT);
    assert_int_equal(choice.size, 0);
    tags[POOL_MEMBERS - 1] = tags[1];
    assert_true(cst_ensemble_applies(cst_ensemble_rule_of(deep->kind), tags, POOL_MEMBERS));
    assert_int_equal(
        cst_value_baseline_fit(f->context, deep, tags, &f->moments[0], weights, &b, &choice),
        CST_OK);
    assert_int_equal(choice.first, 1);
    assert_int_equal(choice.size, 2);
    assert_int_equal(choice.groups, 1);
    for (int k = 0; k < POOL_MEMBERS; k++)
        assert_near(weights[k], k == 1 || k == POOL_MEMBERS - 1 ? 0.5 : 0, 1e-15);
    assert_near(b, 0, 0);
}

/* ---- the stack ---- */

static void fit_stack(fixture *f, const char *preset, const char *const *settings,
                      cst_model **model, cst_report **report) {
    cst_options *options = NULL;
    cst_pool *pool = NULL;
    assert_int_equal(cst_options_create(f->context, &options), CST_OK);
    assert_int_equal(cst_options_preset(f->context, options, preset), CST_OK);
    for (int i = 0; settings && settings[i]; i += 2)
        assert_int_equal(cst_options_set(f->context, options, settings[i], settings[i + 1]),
                         CST_OK);
    assert_int_equal(pool_from_values(f->context, &pool, "oof", f->data, names, POOL_MEMBERS,
                                      POOL_ROWS, POOL_OUTPUTS, pool_target),
                     CST_OK);
    assert_int_equal(cst_fit(f->context, pool, "oof", options, model, report), CST_OK);
    cst_pool_free(f->context, pool);
    cst_options_free(f->context, options);
}

static void stages_with(fixture *f, const char *preset, const char *const *settings,
                        cst_stages *out) {
    cst_settings chosen;
    int32_t count = 0;
    while (settings && settings[count])
        count++;
    assert_int_equal(cst_method_settings(f->context, preset, 0, settings, count, NULL, &chosen),
                     CST_OK);
    const cst_run run =
        cst_run_of(&cst_regression_family, &f->view, pool_folds, POOL_FOLDS, &chosen, &NO_COSTS);
    assert_int_equal(cst_stages_run(f->context, &run, out), CST_OK);
}

/* Mean, and variance with noise from cross-fitted residuals, in closed form. */
static void variance_is_noise_and_what_the_weights_are_not_sure_of(void **state) {
    fixture *f = *state;
    enum { CELLS = POOL_ROWS * POOL_OUTPUTS };
    float mean[CELLS];
    float variance[CELLS];
    cst_stages stages;
    const char *const settings[] = {"redundancy.measure=none",  "keep.fraction=0",
                                    "select.direction=none",    "variance.rule=constant",
                                    "meta.learners=log-linear", NULL};
    stages_with(f, "default", settings, &stages);
    assert_int_equal(
        cst_model_predict_values(f->context, stages.fit.model, f->data, POOL_ROWS, mean, variance),
        CST_OK);
    for (int i = 0; i < CELLS; i++) {
        double scale = f->scaling.scale[i % POOL_OUTPUTS];
        assert_near((double)mean[i], stack_mean[i], 1e-4 * scale);
        assert_near((double)variance[i], stack_variance[i], 1e-3 * stack_variance[i]);
    }
    cst_stages_free(f->context, &stages);
}

/* A sum of equal targets rounds; their mean is the target all the same, and what is left to fit is
 * 0 to the last bit, whoever the members are and in whatever order. */
static void equal_targets_leave_nothing_to_fit(void **state) {
    static const char *const presets[] = {"default", "paper", "prototype"};
    static double targets[POOL_ROWS * POOL_OUTPUTS];
    static float mean[POOL_ROWS * POOL_OUTPUTS];
    const fixture *own = *state;
    fixture f = *own;
    f.view.targets = targets;
    for (int step = 1; step <= 40; step++) {
        double target = 0.1 * step - 2.05;
        for (int i = 0; i < POOL_ROWS * POOL_OUTPUTS; i++)
            targets[i] = target;
        CST_SCOPE(scope);
        assert_int_equal(cst_scaling_take(f.context, scope, &f.view, &f.scaling), CST_OK);
        for (int d = 0; d < POOL_OUTPUTS; d++)
            assert_true(f.scaling.location[d] == target && f.scaling.scale[d] == 1);
    }
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        cst_stages stages;
        const float *kept[POOL_MEMBERS];
        stages_with(&f, presets[i], NULL, &stages);
        for (int32_t j = 0; j < stages.kept_count; j++)
            kept[j] = f.data[stages.kept[j]];
        assert_int_equal(cst_model_predict(f.context, stages.fit.model, kept, POOL_ROWS, mean),
                         CST_OK);
        for (int j = 0; j < POOL_ROWS * POOL_OUTPUTS; j++)
            assert_true(mean[j] == (float)targets[j]);
        const cst_learner *ridge = &stages.fit.model->learner[0];
        for (int32_t j = 0; strcmp(presets[i], "default") != 0 && j < stages.kept_count; j++)
            assert_true(ridge->weights[j] == 0);
        cst_stages_free(f.context, &stages);
    }
}

static void the_prototype_agrees_with_numpy(void **state) {
    fixture *f = *state;
    enum { CELLS = POOL_ROWS * POOL_OUTPUTS };
    float mean[CELLS];
    const float *kept[POOL_MEMBERS];
    cst_stages stages;
    stages_with(f, "prototype", NULL, &stages);
    assert_int_equal(stages.kept_count, PROTOTYPE_KEPT);
    for (int j = 0; j < PROTOTYPE_KEPT; j++) {
        assert_int_equal(stages.kept[j], prototype_kept[j]);
        kept[j] = f->data[prototype_kept[j]];
    }
    for (int i = 0; i < 3 * POOL_OUTPUTS; i++)
        assert_near(stages.fit.values->blend[i], prototype_blend[i], 1e-4);
    assert_int_equal(cst_model_predict(f->context, stages.fit.model, kept, POOL_ROWS, mean),
                     CST_OK);
    for (int i = 0; i < CELLS; i++)
        assert_near((double)mean[i], prototype_mean[i], 2e-3 * f->scaling.scale[i % POOL_OUTPUTS]);
    cst_stages_free(f->context, &stages);
}

/* Where one member's values all rise by 1, so do the predictions by its weight, on average. */
static void weights_are_what_a_member_adds(void **state) {
    fixture *f = *state;
    enum { CELLS = POOL_ROWS * POOL_OUTPUTS };
    static float raised[CELLS];
    float mean[2][CELLS];
    const float *kept[2][POOL_MEMBERS];
    cst_model *model = NULL;
    fit_stack(f, "default", (const char *const[]){"evaluate.nested", "false", NULL}, &model, NULL);
    int members = (int)cst_model_members(model);
    for (int k = 0; k < members; k++)
        for (int j = 0; j < POOL_MEMBERS; j++)
            if (strcmp(names[j], cst_model_member_name(model, k)) == 0)
                kept[0][k] = kept[1][k] = f->data[j];
    for (int k = 0; k < members; k++) {
        double change = 0;
        for (int i = 0; i < CELLS; i++)
            raised[i] = kept[0][k][i] + 1;
        kept[1][k] = raised;
        for (int t = 0; t < 2; t++)
            assert_int_equal(cst_model_predict(f->context, model, kept[t], POOL_ROWS, mean[t]),
                             CST_OK);
        for (int i = 0; i < CELLS; i++)
            change += ((double)mean[1][i] - (double)mean[0][i]) / CELLS;
        assert_near(cst_model_member_weight(model, k), change, 1e-4);
        kept[1][k] = kept[0][k];
    }
    cst_model_free(f->context, model);
    fit_stack(f, "paper", (const char *const[]){"evaluate.nested", "false", NULL}, &model, NULL);
    assert_true(isnan(cst_model_member_weight(model, 0)));
    cst_model_free(f->context, model);
}

/* ---- models ---- */

static void models_are_the_same_from_disk_and_for_any_number_of_threads(void **state) {
    fixture *f = *state;
    enum { CELLS = POOL_ROWS * POOL_OUTPUTS };
    static const char *const presets[] = {"default", "prototype", "paper"};
    for (int p = 0; p < 3; p++) {
        char path[2][TEMPORARY_CHARS];
        unsigned char *bytes[2];
        long size[2];
        float mean[2][CELLS];
        cst_model *model = NULL;
        for (int t = 0; t < 2; t++) {
            const float *kept[POOL_MEMBERS];
            cst_predictor *predictor = NULL;
            assert_int_equal(cst_context_set_threads(f->context, t ? 3 : 1), CST_OK);
            fit_stack(f, presets[p], NULL, &model, NULL);
            temporary_path(path[t], sizeof path[t], "regression");
            int fd = mkstemp(path[t]);
            assert_true(fd >= 0 && close(fd) == 0);
            assert_int_equal(cst_model_save(f->context, model, path[t]), CST_OK);
            cst_model_free(f->context, model);
            assert_int_equal(cst_model_load(f->context, &model, path[t]), CST_OK);
            assert_int_equal(cst_model_task(model), CST_TASK_REGRESSION);
            for (int j = 0; j < cst_model_members(model); j++)
                kept[j] = f->data[cst_model_member_name(model, j)[0] - 'a'];
            assert_int_equal(cst_model_predict(f->context, model, kept, POOL_ROWS, mean[t]),
                             CST_OK);
            float one[CELLS];
            assert_int_equal(cst_predictor_create(f->context, &predictor, model), CST_OK);
            assert_int_equal(cst_predictor_predict(predictor, kept, POOL_ROWS, one), CST_OK);
            assert_memory_equal(one, mean[t], sizeof one);
            cst_predictor_free(f->context, predictor);
            cst_model_free(f->context, model);
            FILE *file = fopen(path[t], "rb");
            assert_non_null(file);
            assert_int_equal(fseek(file, 0, SEEK_END), 0);
            size[t] = ftell(file);
            rewind(file);
            bytes[t] = malloc((size_t)size[t]);
            assert_int_equal(fread(bytes[t], 1, (size_t)size[t], file), size[t]);
            (void)fclose(file);
            (void)remove(path[t]);
        }
        assert_int_equal(size[0], size[1]);
        assert_memory_equal(bytes[0], bytes[1], (size_t)size[0]);
        free(bytes[0]);
        free(bytes[1]);
    }
}

/* ---- coverage ---- */

/* Simulated members whose noise grows with their disagreement; intervals must hold their share of
 * new targets within four standard errors of a binomial count. */
static void intervals_hold_their_share_of_new_targets(void **state) {
    fixture *f = *state;
    enum { ROWS = 3000, MEMBERS = 4 };
    static float data[2][MEMBERS][ROWS];
    static double target[2][ROWS];
    cst_rng rng;
    cst_rng_init(&rng, 11, CST_STREAM_TEST, 0);
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < ROWS; i++) {
            double truth = 5 * cst_rng_normal(&rng);
            double spread = 0.3 + cst_rng_uniform(&rng);
            target[s][i] = truth + spread * cst_rng_normal(&rng);
            for (int k = 0; k < MEMBERS; k++)
                data[s][k][i] = (float)(truth + spread * cst_rng_normal(&rng));
        }
    const float *members[2][MEMBERS];
    for (int s = 0; s < 2; s++)
        for (int k = 0; k < MEMBERS; k++)
            members[s][k] = data[s][k];
    static const char *const rules[] = {"conformal", "gaussian"};
    for (int r = 0; r < 2; r++) {
        cst_pool *pool = NULL;
        cst_model *model = NULL;
        cst_options *options = NULL;
        static float mean[ROWS], variance[ROWS], lower[ROWS], upper[ROWS];
        assert_int_equal(pool_from_values(f->context, &pool, "oof", members[0], names, MEMBERS,
                                          ROWS, 1, target[0]),
                         CST_OK);
        assert_int_equal(cst_options_create(f->context, &options), CST_OK);
        assert_int_equal(cst_options_set(f->context, options, "interval.rule", rules[r]), CST_OK);
        assert_int_equal(cst_options_set(f->context, options, "keep.fraction", "0"), CST_OK);
        assert_int_equal(cst_options_set(f->context, options, "select.direction", "none"), CST_OK);
        assert_int_equal(cst_fit(f->context, pool, "oof", options, &model, NULL), CST_OK);
        assert_int_equal(cst_model_members(model), MEMBERS);
        assert_int_equal(
            cst_model_predict_values(f->context, model, members[1], ROWS, mean, variance), CST_OK);
        const double levels[] = {0.5, 0.8, 0.9, 0.95};
        for (int l = 0; r == 0 && l < 4; l++) {
            int inside = 0;
            assert_int_equal(cst_model_intervals(f->context, model, levels[l], mean, variance, ROWS,
                                                 lower, upper),
                             CST_OK);
            for (int i = 0; i < ROWS; i++)
                inside += target[1][i] >= (double)lower[i] && target[1][i] <= (double)upper[i];
            /* both the calibration rows and the new ones are samples */
            double se = sqrt(2 * levels[l] * (1 - levels[l]) / ROWS);
            assert_near((double)inside / ROWS, levels[l], 4 * se);
        }
        if (r == 1) { /* the normal quantile itself */
            assert_int_equal(
                cst_model_intervals(f->context, model, 0.95, mean, variance, 1, lower, upper),
                CST_OK);
            assert_near((double)(upper[0] - mean[0]), 1.959963985 * sqrt((double)variance[0]),
                        1e-4);
        }
        float least = variance[0];
        float most = variance[0];
        for (int i = 1; i < ROWS; i++) {
            least = fminf(least, variance[i]);
            most = fmaxf(most, variance[i]);
        }
        assert_true(most > 2 * least); /* it saw the disagreement */
        cst_model_free(f->context, model);
        cst_options_free(f->context, options);
        cst_pool_free(f->context, pool);
    }
}

/* ---- what no float32 holds ---- */

enum { FAR_ROWS = 3 };

/* Members in the model's order, all at 1 but for row 2, output 1, where they are `far`. */
static void far_members(const double *far, int members, float data[][FAR_ROWS * POOL_OUTPUTS],
                        const float **out) {
    for (int k = 0; k < members; k++) {
        for (int e = 0; e < FAR_ROWS * POOL_OUTPUTS; e++)
            data[k][e] = 1;
        data[k][2 * POOL_OUTPUTS + 1] = (float)far[k];
        out[k] = data[k];
    }
}

static void expect_named(fixture *f, cst_status status, const char *what) {
    assert_int_equal(status, CST_ERROR_INPUT);
    const char *text = cst_last_error(f->context);
    if (!strstr(text, "row 2, output 1") || !strstr(text, what) || strchr(text, '\n'))
        fail_msg("%s", text);
}

/* Variances and ends of intervals that float32 does not hold are refused with their row. */
static void results_beyond_float32_are_refused(void **state) {
    fixture *f = *state;
    enum { CELLS = FAR_ROWS * POOL_OUTPUTS };
    static const char *const presets[] = {"default", "prototype", "paper"};
    static float data[POOL_MEMBERS][CELLS];
    for (int p = 0; p < 3; p++) {
        float mean[CELLS], variance[CELLS], lower[CELLS], upper[CELLS];
        const float *rows[POOL_MEMBERS];
        double far[POOL_MEMBERS];
        cst_model *model = NULL;
        fit_stack(f, presets[p], NULL, &model, NULL);
        int members = (int)cst_model_members(model);
        for (int k = 0; k < members; k++)
            far[k] = 3e25;
        far_members(far, members, data, rows);
        assert_int_equal(cst_model_predict(f->context, model, rows, FAR_ROWS, mean), CST_OK);
        expect_named(f, cst_model_predict_values(f->context, model, rows, FAR_ROWS, mean, variance),
                     "the variance is");
        for (int e = 0; e < CELLS; e++)
            mean[e] = variance[e] = 1;
        variance[2 * POOL_OUTPUTS + 1] = 3e38F;
        assert_int_equal(
            cst_model_intervals(f->context, model, 0.9, mean, variance, FAR_ROWS, lower, upper),
            CST_OK);
        variance[2 * POOL_OUTPUTS + 1] = -1;
        expect_named(
            f, cst_model_intervals(f->context, model, 0.9, mean, variance, FAR_ROWS, lower, upper),
            "interval");
        variance[2 * POOL_OUTPUTS + 1] = INFINITY;
        expect_named(
            f, cst_model_intervals(f->context, model, 0.9, mean, variance, FAR_ROWS, lower, upper),
            "interval");
        const int64_t sizes[] = {(int64_t)1 << 54, (int64_t)1 << 56, (int64_t)1 << 59};
        for (int s = 0; s < 3; s++) {
            assert_int_equal(
                cst_model_predict_values(f->context, model, rows, sizes[s], mean, variance),
                CST_ERROR_LIMIT);
            assert_int_equal(
                cst_model_intervals(f->context, model, 0.9, mean, variance, sizes[s], lower, upper),
                CST_ERROR_LIMIT);
        }
        cst_model_free(f->context, model);
    }
}

/* Weights beyond 1 take the sum of members of both signs out of float32. */
static void means_beyond_float32_are_refused_by_every_call(void **state) {
    fixture *f = *state;
    enum { ROWS = 60, MEMBERS = 3 };
    static float data[MEMBERS][ROWS];
    static float far[MEMBERS][ROWS];
    static double target[ROWS];
    static const char *const keep_all[] = {
        "keep.fraction", "0", "select.direction", "none", "redundancy.measure", "none", NULL};
    const float *members[MEMBERS];
    const float *given[MEMBERS];
    cst_options *options = NULL;
    cst_pool *pool = NULL;
    cst_pool *far_pool = NULL;
    cst_model *model = NULL;
    cst_predictor *predictor = NULL;
    float out[ROWS];
    float *made = NULL;
    float *more = NULL;
    int64_t rows = 0;
    cst_rng rng;
    cst_rng_init(&rng, 5, CST_STREAM_TEST, 1);
    for (int i = 0; i < ROWS; i++) { /* y = 2 a + 2 c - 3 b: weights far beyond 1 */
        double a = cst_rng_normal(&rng), b = cst_rng_normal(&rng), c = cst_rng_normal(&rng);
        data[0][i] = (float)a;
        data[1][i] = (float)b;
        data[2][i] = (float)c;
        target[i] = 2 * a - 3 * b + 2 * c;
        for (int k = 0; k < MEMBERS; k++)
            far[k][i] = data[k][i];
    }
    for (int k = 0; k < MEMBERS; k++) {
        far[k][7] = k == 1 ? -3.4e38F : 3.4e38F;
        members[k] = data[k];
        given[k] = far[k];
    }
    assert_int_equal(cst_options_create(f->context, &options), CST_OK);
    for (int i = 0; keep_all[i]; i += 2)
        assert_int_equal(cst_options_set(f->context, options, keep_all[i], keep_all[i + 1]),
                         CST_OK);
    assert_int_equal(
        pool_from_values(f->context, &pool, "oof", members, names, MEMBERS, ROWS, 1, target),
        CST_OK);
    assert_int_equal(cst_fit(f->context, pool, "oof", options, &model, NULL), CST_OK);
    assert_int_equal(cst_model_members(model), MEMBERS);
    assert_int_equal(cst_predictor_create(f->context, &predictor, model), CST_OK);
    assert_int_equal(
        pool_from_values(f->context, &far_pool, "oof", given, names, MEMBERS, ROWS, 1, target),
        CST_OK);
    const cst_status status[] = {
        cst_model_predict(f->context, model, given, ROWS, out),
        cst_model_predict_pool(f->context, model, far_pool, "oof", &made, &rows),
        cst_model_predict_values_pool(f->context, model, far_pool, "oof", &made, &more, &rows),
    };
    for (int i = 0; i < 3; i++)
        assert_int_equal(status[i], CST_ERROR_INPUT);
    assert_null(made);
    assert_null(more);
    assert_non_null(strstr(cst_last_error(f->context), "row 7, output 0"));
    assert_int_equal(cst_predictor_predict(predictor, given, ROWS, out), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_predictor_error(predictor), "row 7, output 0: the prediction is"));
    cst_predictor_free(f->context, predictor);
    cst_model_free(f->context, model);
    cst_pool_free(f->context, pool);
    cst_pool_free(f->context, far_pool);
    cst_options_free(f->context, options);
}

/* ---- scores of members ---- */

/* Of the rows with these numbers, by the function that scores a stack. */
static cst_value_metrics scores_of(fixture *f, int member, const int *rows, int count,
                                   const double *weights) {
    cst_value_metrics out;
    float mean[POOL_ROWS * POOL_OUTPUTS];
    double targets[POOL_ROWS * POOL_OUTPUTS];
    double some[POOL_ROWS];
    for (int i = 0; i < count; i++) {
        some[i] = weights ? weights[rows[i]] : 1;
        for (int d = 0; d < POOL_OUTPUTS; d++) {
            mean[i * POOL_OUTPUTS + d] = f->data[member][rows[i] * POOL_OUTPUTS + d];
            targets[i * POOL_OUTPUTS + d] = f->view.targets[rows[i] * POOL_OUTPUTS + d];
        }
    }
    cst_predicted_values p = {.rows = count, .outputs = POOL_OUTPUTS, .mean = mean};
    assert_int_equal(
        cst_value_metrics_weighted(f->context, &p, targets, weights ? some : NULL, &out, NULL),
        CST_OK);
    return out;
}

static void members_are_scored_on_the_rows_that_they_predicted(void **state) {
    fixture *f = *state;
    uint8_t half[POOL_ROWS];
    uint8_t none[POOL_ROWS] = {0};
    uint8_t *present[POOL_MEMBERS] = {NULL, half, none};
    double weights[POOL_ROWS];
    int all[POOL_ROWS];
    int some[POOL_ROWS];
    int count = 0;
    for (int i = 0; i < POOL_ROWS; i++) {
        half[i] = i % 3 != 1;
        weights[i] = i % 5;
        all[i] = i;
        if (half[i])
            some[count++] = i;
    }
    const cst_presence presence = {POOL_MEMBERS, f->data, present};
    for (int weighted = 0; weighted < 2; weighted++) {
        cst_view view = f->view;
        cst_value_metrics got[POOL_MEMBERS];
        view.presence = &presence;
        view.weights = weighted ? weights : NULL;
        view.weight_scale = 1;
        assert_int_equal(cst_value_member_metrics(f->context, &view, got), CST_OK);
        for (int k = 0; k < POOL_MEMBERS; k++) {
            cst_value_metrics expected =
                scores_of(f, k, k == 1 ? some : all, k == 1 ? count : POOL_ROWS, view.weights);
            assert_int_equal(got[k].samples, expected.samples);
            assert_near(got[k].rmse, expected.rmse, 1e-12);
            assert_near(got[k].mae, expected.mae, 1e-12);
            assert_near(got[k].r2, expected.r2, 1e-12);
        }
    }
}

/* ---- errors ---- */

static void methods_for_classification_are_refused(void **state) {
    fixture *f = *state;
    static const char *const refused[] = {"log-linear", "average+temperature", "nonsense"};
    cst_pool *pool = NULL;
    assert_int_equal(pool_from_values(f->context, &pool, "oof", f->data, names, POOL_MEMBERS,
                                      POOL_ROWS, POOL_OUTPUTS, pool_target),
                     CST_OK);
    for (int i = 0; i < 3; i++) {
        cst_report *report = NULL;
        const cst_compare_options options = {.methods = &refused[i], .method_count = 1};
        assert_int_equal(cst_compare(f->context, pool, &options, &report),
                         i < 2 ? CST_ERROR_UNSUPPORTED : CST_ERROR_ARGUMENT);
        assert_true(i == 2 || strstr(cst_last_error(f->context), "for classification"));
    }
    cst_pool_free(f->context, pool);
}

int suite_regression(void) {
    cst_la_enter();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pool_is_ridge_regression_on_the_difference_to_its_center),
        cmocka_unit_test(lambda_is_that_of_the_evidence_or_of_held_out_error),
        cmocka_unit_test(weights_at_or_above_0_are_optimal),
        cmocka_unit_test(baselines_agree_with_scikit_learn),
        cmocka_unit_test(tagged_baselines_need_a_group),
        cmocka_unit_test(variance_is_noise_and_what_the_weights_are_not_sure_of),
        cmocka_unit_test(equal_targets_leave_nothing_to_fit),
        cmocka_unit_test(weights_are_what_a_member_adds),
        cmocka_unit_test(the_prototype_agrees_with_numpy),
        cmocka_unit_test(models_are_the_same_from_disk_and_for_any_number_of_threads),
        cmocka_unit_test(intervals_hold_their_share_of_new_targets),
        cmocka_unit_test(results_beyond_float32_are_refused),
        cmocka_unit_test(means_beyond_float32_are_refused_by_every_call),
        cmocka_unit_test(members_are_scored_on_the_rows_that_they_predicted),
        cmocka_unit_test(methods_for_classification_are_refused),
    };
    int failed = cmocka_run_group_tests(tests, setup, teardown);
    cst_la_leave();
    return failed;
}
