/*
 * Row weights: fits and scores against NumPy and SciPy, whole weights beside repeated rows, rows of
 * weight 0 beside rows that are not there, and what is no weight.
 */
#include "stats/row_weights.h"
#include "bootstraps.h"
#include "core/la.h"
#include "data/pool/pool.h"
#include "loglinear_oracle.h"
#include "method/blend/blend.h"
#include "method/calibration/calibration.h"
#include "method/linear/moments.h"
#include "method/loglinear/loglinear.h"
#include "model/values.h"
#include "stats/resample.h"
#include "stats/samples.h"
#include "tasks/regression/regression.h"

#include <corestack/fit.h>
#include <corestack/model.h>
#include <corestack/pool.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/weights.h"

static const cst_loglinear_cv no_cv;

enum { CELLS = RW_ROWS * RW_CLASSES, MAX = 4 * RW_ROWS };

static cst_context *context;
static const float *members[RW_MEMBERS];
static const int32_t active[RW_MEMBERS] = {0, 1, 2};

/* Every row as often as its whole weight says. */
static int64_t repeats;
static float *repeated[RW_MEMBERS];
static int32_t repeated_labels[MAX];
static double times[RW_ROWS];

static int setup(void **state) {
    (void)state;
    cst_la_enter();
    for (int k = 0; k < RW_MEMBERS; k++) {
        members[k] = rw_pool + (size_t)k * CELLS;
        repeated[k] = malloc(sizeof(float) * MAX * RW_CLASSES);
        repeats = 0;
        for (int64_t i = 0; i < RW_ROWS; i++)
            for (int32_t t = 0; t < rw_times[i]; t++) {
                memcpy(repeated[k] + repeats * RW_CLASSES, members[k] + i * RW_CLASSES,
                       RW_CLASSES * sizeof(float));
                repeated_labels[repeats++] = rw_labels[i];
                times[i] = rw_times[i];
            }
    }
    return cst_context_create(&context) != CST_OK;
}

static int teardown(void **state) {
    (void)state;
    for (int k = 0; k < RW_MEMBERS; k++)
        free(repeated[k]);
    cst_context_free(context);
    cst_la_leave();
    return 0;
}

static void close_to(double value, double expected, double relative) {
    if (!(fabs(value - expected) <= relative * fmax(fabs(expected), 1e-3)))
        fail_msg("%.15g is not %.15g", value, expected);
}

static cst_view view_of(const double *weights) {
    return (cst_view){.rows = RW_ROWS,
                      .classes = RW_CLASSES,
                      .members = RW_MEMBERS,
                      .data = members,
                      .labels = rw_labels,
                      .weights = weights,
                      .weight_scale = 1};
}

static cst_view repeated_view(void) {
    return (cst_view){.rows = repeats,
                      .classes = RW_CLASSES,
                      .members = RW_MEMBERS,
                      .data = (const float *const *)repeated,
                      .labels = repeated_labels};
}

/* ---- beside NumPy ---- */

static void optimum_matches_scipy(void **state) {
    (void)state;
    cst_view view = view_of(rw_weights);
    cst_loglinear_options options = oracle_options(false, true);
    cst_logtable table;
    cst_loglinear fit;
    double mix[RW_MEMBERS];
    double logdet = 0;
    double mean = 0;
    assert_int_equal(uniform_mix(context, &view, mix), CST_OK);
    assert_int_equal(build_table(context, &view, rw_mix, &table), CST_OK);
    assert_int_equal(cst_loglinear_fit(context, &table, active, RW_MEMBERS, &options, NULL, &fit),
                     CST_OK);
    for (int k = 0; k < RW_MEMBERS; k++) {
        assert_true(mix[k] == rw_mix[k]);
        close_to(fit.weights[k], rw_optimum[k], 1e-6);
        close_to(fit.bias[k % RW_CLASSES], rw_bias[k % RW_CLASSES], 1e-6);
    }
    close_to(fit.nll, rw_nll, 1e-9);
    assert_int_equal(cst_loglinear_logdet(context, &table, active, &fit, NULL, &logdet), CST_OK);
    close_to(logdet, rw_logdet, 1e-7);
    assert_int_equal(
        cst_loglinear_loss(context, &table, active, RW_MEMBERS, fit.weights, fit.bias, &mean, NULL),
        CST_OK);
    close_to(mean * RW_ROWS, rw_nll, 1e-9);
    cst_loglinear_free(context, &fit);
    cst_logtable_free(context, &table);
}

/* Class weights, as fit.balance sets them, multiply those of the rows. */
static void class_weights_multiply(void **state) {
    (void)state;
    static const double class_weights[RW_CLASSES] = {0.5, 1, 2.5};
    double product[RW_ROWS];
    cst_view views[2] = {view_of(rw_weights), view_of(product)};
    cst_compact_options compact = cst_compact_defaults();
    cst_loglinear_options options = oracle_options(false, true);
    cst_loglinear fit[2];
    compact.class_weights = class_weights;
    for (int i = 0; i < RW_ROWS; i++)
        product[i] = rw_weights[i] * class_weights[rw_labels[i]];
    for (int v = 0; v < 2; v++) {
        cst_logtable table;
        assert_int_equal(
            cst_logtable_open(context, &views[v], NULL, 1, v == 0 ? &compact : NULL, &table),
            CST_OK);
        assert_int_equal(cst_logtable_mix(context, &table), CST_OK);
        assert_int_equal(
            cst_loglinear_fit(context, &table, active, RW_MEMBERS, &options, NULL, &fit[v]),
            CST_OK);
        cst_logtable_free(context, &table);
    }
    close_to(fit[0].nll, fit[1].nll, 1e-12);
    for (int k = 0; k < RW_MEMBERS; k++)
        close_to(fit[0].weights[k], fit[1].weights[k], 1e-9);
    cst_loglinear_free(context, &fit[0]);
    cst_loglinear_free(context, &fit[1]);
}

static void moments_match_numpy(void **state) {
    (void)state;
    cst_view view = view_of(rw_weights);
    cst_gate none = {.mode = CST_GATE_NONE, .inputs = RW_MEMBERS};
    cst_moments moments;
    cst_standardised found;
    assert_int_equal(cst_moments_compute(context, &view, &none, NULL, 1, &moments), CST_OK);
    assert_int_equal(cst_standardise(context, &moments, -1, &found), CST_OK);
    assert_int_equal(found.kept, RW_MEMBERS);
    close_to(found.rows, CELLS, 1e-12);
    for (int a = 0; a < RW_MEMBERS; a++) {
        close_to(found.mean[a], rw_mean[a], 1e-9);
        close_to(found.scale[a], rw_deviation[a], 1e-9);
        close_to(found.cross[a], rw_cross[a], 1e-9);
        for (int b = 0; b < RW_MEMBERS; b++)
            close_to(found.gram[a * RW_MEMBERS + b], rw_gram[a * RW_MEMBERS + b], 1e-9);
    }
    cst_standardised_free(context, &found);
    cst_moments_free(context, &moments);
}

static void scores_match_numpy(void **state) {
    (void)state;
    cst_metrics m;
    double temperature = 0;
    assert_int_equal(cst_metrics_weighted(context, members[0], RW_ROWS, RW_CLASSES, rw_labels,
                                          rw_weights, 0, &m),
                     CST_OK);
    double found[] = {m.top1,     m.nll,           m.brier,        m.ece,
                      m.ece_mass, m.ece_classwise, m.ece_debiased, m.corp};
    for (size_t i = 0; i < sizeof found / sizeof found[0]; i++)
        close_to(found[i], rw_scores[i], 1e-9);
    assert_int_equal(
        cst_temperature_fit(context,
                            &(cst_labelled){members[2], RW_ROWS, RW_CLASSES, rw_labels, rw_weights},
                            NULL, &temperature, NULL),
        CST_OK);
    close_to(temperature, rw_temperature, 1e-6);
}

static cst_predicted_values predicted_values(const float *const *half) {
    static const double level[] = {0.9};
    return (cst_predicted_values){.rows = RW_ROWS,
                                  .outputs = 1,
                                  .mean = rw_values,
                                  .variance = rw_variance,
                                  .levels = 1,
                                  .level = level,
                                  .half_width = half};
}

static void value_scores_match_numpy(void **state) {
    (void)state;
    const float *half[] = {rw_half};
    cst_predicted_values values = predicted_values(half);
    cst_value_metrics m;
    struct {
        cst_interval rmse, mae, median_ae, r2, nll;
    } intervals;
    assert_int_equal(cst_value_metrics_weighted(context, &values, rw_targets, rw_weights, &m, NULL),
                     CST_OK);
    double found[] = {m.rmse, m.mae, m.median_ae, m.r2, m.nll, m.coverage[0], m.width[0]};
    for (size_t i = 0; i < sizeof found / sizeof found[0]; i++)
        close_to(found[i], rw_value_scores[i], 1e-9);
    const cst_value_bootstrap_input drawn = {.predicted = &values,
                                             .methods = 1,
                                             .targets = rw_targets,
                                             .weights = rw_weights,
                                             .resamples = 200,
                                             .seed = 3};
    assert_int_equal(cst_value_bootstrap_weighted(context, &drawn, &intervals.rmse, NULL, NULL),
                     CST_OK);
    close_to(intervals.rmse.value, m.rmse, 1e-9);
    close_to(intervals.mae.value, m.mae, 1e-9);
    close_to(intervals.r2.value, m.r2, 1e-9);
    close_to(intervals.nll.value, m.nll, 1e-9);
    assert_true(intervals.rmse.low < m.rmse && m.rmse < intervals.rmse.high);
}

static void linear_pool_matches_numpy(void **state) {
    (void)state;
    const float *data[RW_MEMBERS];
    int32_t folds[RW_ROWS] = {0};
    cst_scaling scaling;
    cst_moments moments;
    cst_linear_pool pool;
    cst_gate none = {.mode = CST_GATE_NONE, .inputs = RW_MEMBERS};
    cst_linear_pool_options options = {
        .prior = CST_LINEAR_POOL_FIXED, .precision = 4, .power = 1.5};
    for (int k = 0; k < RW_MEMBERS; k++)
        data[k] = rw_values + (size_t)k * RW_ROWS;
    cst_view view = view_of(rw_weights);
    view.classes = 1;
    view.data = data;
    view.labels = NULL;
    view.targets = rw_targets;
    CST_SCOPE(scope);
    assert_int_equal(cst_scaling_take(context, scope, &view, &scaling), CST_OK);
    assert_int_equal(cst_value_moments(context, scope, &view, &scaling, &none, folds, 1, &moments),
                     CST_OK);
    assert_int_equal(cst_linear_pool_fit(context, scope, &moments, &options, &pool), CST_OK);
    for (int k = 0; k < RW_MEMBERS; k++)
        close_to(pool.weights[k], rw_linear_pool[k], 1e-8);
}

/* ---- beside repeated rows ---- */

static void fits_match_repeated_rows(void **state) {
    (void)state;
    cst_view views[2] = {view_of(times), repeated_view()};
    cst_loglinear_options options = oracle_options(false, true);
    cst_loglinear fit[2];
    cst_greedy greedy[2];
    double logdet[2];
    double risk[2][RW_MEMBERS];
    double top1[2][RW_MEMBERS];
    double stacking[2][RW_MEMBERS];
    double inverse[2][RW_MEMBERS];
    for (int v = 0; v < 2; v++) {
        cst_logtable table;
        assert_int_equal(build_table(context, &views[v], rw_mix, &table), CST_OK);
        assert_int_equal(
            cst_loglinear_fit(context, &table, active, RW_MEMBERS, &options, NULL, &fit[v]),
            CST_OK);
        assert_int_equal(cst_loglinear_logdet(context, &table, active, &fit[v], NULL, &logdet[v]),
                         CST_OK);
        cst_logtable_free(context, &table);
        assert_int_equal(cst_risk_all(context, &views[v], risk[v]), CST_OK);
        assert_int_equal(cst_risk_top1_all(context, &views[v], top1[v]), CST_OK);
        assert_int_equal(cst_blend_stacking(context, &views[v], stacking[v], NULL), CST_OK);
        assert_int_equal(cst_blend_inverse_rmse(context, &views[v], inverse[v]), CST_OK);
        assert_int_equal(
            cst_greedy_select(context, &views[v], CST_GREEDY_LOG_LOSS, 25, 0, &greedy[v]), CST_OK);
    }
    close_to(fit[0].nll, fit[1].nll, 1e-9);
    close_to(logdet[0], logdet[1], 1e-8);
    assert_int_equal(greedy[0].rounds, greedy[1].rounds);
    for (int k = 0; k < RW_MEMBERS; k++) {
        close_to(fit[0].weights[k], fit[1].weights[k], 1e-7);
        close_to(risk[0][k], risk[1][k], 1e-12);
        close_to(top1[0][k], top1[1][k], 1e-12);
        close_to(stacking[0][k], stacking[1][k], 1e-4);
        close_to(inverse[0][k], inverse[1][k], 1e-12);
        close_to(greedy[0].weights[k], greedy[1].weights[k], 1e-12);
    }
    for (int v = 0; v < 2; v++) {
        cst_loglinear_free(context, &fit[v]);
        cst_scope_free(&greedy[v].scope);
    }
}

/* With many classes: the table is a sample of them, and the last steps are on every class of every
 * row. Rows lie as they come, so that repeated ones have samples of their own. */
static void polished_fits_match_repeated_rows(void **state) {
    (void)state;
    enum { ROWS = 60, CLASSES = 90, WIDE = ROWS * CLASSES };
    float *data[2][RW_MEMBERS];
    int32_t labels[2][4 * ROWS];
    double fitted[2][RW_MEMBERS];
    double weights[ROWS];
    double logdet[2];
    int64_t rows[2] = {ROWS, 0};
    cst_rng rng;
    cst_rng_init(&rng, 3, CST_STREAM_FOLDS, 0);
    for (int k = 0; k < RW_MEMBERS; k++) {
        data[0][k] = malloc(sizeof(float) * WIDE);
        data[1][k] = malloc(sizeof(float) * WIDE * 4);
        rows[1] = 0;
        for (int64_t i = 0; i < ROWS; i++) {
            float *row = data[0][k] + i * CLASSES;
            double sum = 0;
            labels[0][i] = (int32_t)(i * 7 % CLASSES);
            weights[i] = rw_times[i];
            for (int c = 0; c < CLASSES; c++) {
                row[c] = (float)exp(2 * cst_rng_normal(&rng) + (c == labels[0][i] ? 2 + k : 0));
                sum += (double)row[c];
            }
            for (int c = 0; c < CLASSES; c++)
                row[c] = (float)((double)row[c] / sum);
            for (int32_t t = 0; t < rw_times[i]; t++) {
                memcpy(data[1][k] + rows[1] * CLASSES, row, CLASSES * sizeof *row);
                labels[1][rows[1]++] = labels[0][i];
            }
        }
    }
    for (int v = 0; v < 2; v++) {
        double mix[RW_MEMBERS];
        cst_loglinear fit;
        cst_loglinear_options options = oracle_options(false, true);
        options.polish = 1e-12;
        cst_view view = {.rows = rows[v],
                         .classes = CLASSES,
                         .members = RW_MEMBERS,
                         .data = (const float *const *)data[v],
                         .labels = labels[v],
                         .weights = v == 0 ? weights : NULL,
                         .weight_scale = 1};
        assert_int_equal(
            cst_loglinear_pool(context, &view, NULL, 1, &no_cv, &options, mix, &fit, &logdet[v]),
            CST_OK);
        memcpy(fitted[v], fit.weights, sizeof fitted[v]);
        cst_loglinear_free(context, &fit);
        for (int k = 0; k < RW_MEMBERS; k++)
            free(data[v][k]);
    }
    for (int k = 0; k < RW_MEMBERS; k++)
        close_to(fitted[0][k], fitted[1][k], 1e-4);
    close_to(logdet[0], logdet[1], 0.02); /* the curvature is the sampled table's */
}

static void scores_match_repeated_rows(void **state) {
    (void)state;
    cst_metrics m[2];
    cst_reliability_bin bins[2][CST_METRIC_BINS];
    for (int k = 0; k < RW_MEMBERS; k++) {
        assert_int_equal(cst_metrics_weighted(context, members[k], RW_ROWS, RW_CLASSES, rw_labels,
                                              times, 0, &m[0]),
                         CST_OK);
        assert_int_equal(cst_metrics_evaluate(context, repeated[k], repeats, RW_CLASSES,
                                              repeated_labels, 0, &m[1]),
                         CST_OK);
        double found[2][8];
        for (int v = 0; v < 2; v++) {
            const double all[] = {m[v].top1,     m[v].nll,           m[v].brier,        m[v].ece,
                                  m[v].ece_mass, m[v].ece_classwise, m[v].ece_debiased, m[v].corp};
            memcpy(found[v], all, sizeof all);
        }
        for (int s = 0; s < 8; s++)
            close_to(found[0][s], found[1][s], 1e-10);
        assert_int_equal(cst_reliability_weighted(context, members[k], RW_ROWS, RW_CLASSES,
                                                  rw_labels, times, 0, bins[0]),
                         CST_OK);
        assert_int_equal(cst_metrics_reliability(context, repeated[k], repeats, RW_CLASSES,
                                                 repeated_labels, 0, bins[1]),
                         CST_OK);
        for (int b = 0; b < CST_METRIC_BINS; b++)
            if (bins[1][b].count > 0) {
                close_to(bins[0][b].accuracy, bins[1][b].accuracy, 1e-12);
                close_to(bins[0][b].confidence, bins[1][b].confidence, 1e-12);
            }
    }
}

/* One resample, whose every score is that of the rows drawn, each with its weight. */
static void resamples_keep_the_weights(void **state) {
    (void)state;
    CST_SCOPE(scope);
    cst_resample drawn;
    cst_metric_intervals one;
    cst_metric_intervals whole;
    cst_metrics expected;
    double weights[RW_ROWS];
    int64_t rows = 0;
    float *p = malloc(sizeof(float) * CELLS);
    int32_t labels[RW_ROWS];
    assert_int_equal(cst_resample_make(context, scope, RW_ROWS, &drawn), CST_OK);
    cst_resample_draw(&drawn, 5, 0);
    for (int64_t i = 0; i < RW_ROWS; i++)
        for (int t = 0; t < drawn.lane[i]; t++) {
            memcpy(p + rows * RW_CLASSES, members[1] + i * RW_CLASSES, RW_CLASSES * sizeof(float));
            labels[rows] = rw_labels[i];
            weights[rows++] = rw_weights[i];
        }
    assert_int_equal(rows, RW_ROWS);
    assert_int_equal(
        cst_metrics_weighted(context, p, rows, RW_CLASSES, labels, weights, 0, &expected), CST_OK);
    cst_bootstrap_input input = {.probabilities = &members[1],
                                 .methods = 1,
                                 .rows = RW_ROWS,
                                 .classes = RW_CLASSES,
                                 .labels = rw_labels,
                                 .weights = rw_weights,
                                 .resamples = 1,
                                 .seed = 5,
                                 .scores = CST_BOOTSTRAP_ALL};
    assert_int_equal(bootstrap_weighted(context, &input, &one, NULL), CST_OK);
    const double found[] = {one.top1.low,         one.nll.low,      one.brier.low,
                            one.ece.low,          one.ece_mass.low, one.ece_classwise.low,
                            one.ece_debiased.low, one.corp.low};
    const double wanted[] = {expected.top1,         expected.nll,      expected.brier,
                             expected.ece,          expected.ece_mass, expected.ece_classwise,
                             expected.ece_debiased, expected.corp};
    for (size_t s = 0; s < sizeof found / sizeof found[0]; s++)
        close_to(found[s], wanted[s], 1e-9);
    input.resamples = 50;
    input.scores = CST_BOOTSTRAP_BASIC;
    assert_int_equal(bootstrap_weighted(context, &input, &whole, NULL), CST_OK);
    close_to(whole.top1.value, one.top1.value, 1e-12);
    assert_true(whole.nll.low < whole.nll.value && whole.nll.value < whole.nll.high);
    free(p);
}

/* ---- pools ---- */

typedef struct pool_case {
    bool values;
    const char *preset;
    int threads;
} pool_case;

/* The model file of a fit on the rows for which keep is not 0. */
static void *fit_bytes(const pool_case *c, const unsigned char *keep, const double *weights,
                       size_t *size) {
    static const char *const names[RW_MEMBERS] = {"a", "b", "c"};
    int32_t width = c->values ? 1 : RW_CLASSES;
    const float *from = c->values ? rw_values : rw_pool;
    float *data = malloc(sizeof(float) * RW_MEMBERS * CELLS);
    cst_array arrays[RW_MEMBERS];
    int32_t labels[RW_ROWS];
    double targets[RW_ROWS];
    double kept[RW_ROWS];
    int64_t rows = 0;
    for (int64_t i = 0; i < RW_ROWS; i++) {
        if (keep && !keep[i])
            continue;
        for (int k = 0; k < RW_MEMBERS; k++)
            memcpy(data + (size_t)k * CELLS + rows * width,
                   from + (size_t)k * (size_t)(RW_ROWS * width) + i * width,
                   (size_t)width * sizeof(float));
        labels[rows] = rw_labels[i];
        targets[rows] = rw_targets[i];
        kept[rows++] = weights ? weights[i] : 1;
    }
    for (int k = 0; k < RW_MEMBERS; k++)
        arrays[k] = (cst_array){.data = data + (size_t)k * CELLS,
                                .row_step = (int64_t)sizeof(float) * width,
                                .column_step = sizeof(float)};
    cst_pool_arrays a = {.task = c->values ? CST_TASK_REGRESSION : CST_TASK_CLASSIFICATION,
                         .members = RW_MEMBERS,
                         .rows = rows,
                         .classes = width,
                         .predictions = arrays,
                         .names = names,
                         .labels = c->values ? NULL : labels,
                         .targets = c->values ? targets : NULL,
                         .weights = weights ? kept : NULL};
    cst_context *own = NULL;
    cst_pool *pool = NULL;
    cst_options *options = NULL;
    cst_model *model = NULL;
    void *bytes = NULL;
    assert_int_equal(cst_context_create(&own), CST_OK);
    assert_int_equal(cst_context_set_threads(own, c->threads), CST_OK);
    assert_int_equal(cst_options_create(own, &options), CST_OK);
    assert_int_equal(cst_options_preset(own, options, c->preset), CST_OK);
    assert_int_equal(cst_pool_from_arrays(own, &pool, &a), CST_OK);
    if (weights)
        assert_memory_equal(cst_pool_weights(pool, "oof"), kept, (size_t)rows * sizeof *kept);
    else
        assert_null(cst_pool_weights(pool, "oof"));
    if (cst_fit(own, pool, "oof", options, &model, NULL) != CST_OK)
        fail_msg("%s", cst_last_error(own));
    assert_int_equal(cst_model_save_memory(own, model, &bytes, size), CST_OK);
    void *copy = malloc(*size);
    memcpy(copy, bytes, *size);
    cst_free(own, bytes);
    cst_model_free(own, model);
    cst_pool_free(own, pool);
    cst_options_free(own, options);
    cst_context_free(own);
    free(data);
    return copy;
}

static void same_bytes(const pool_case *a, const unsigned char *keep_a, const double *weights_a,
                       const pool_case *b, const unsigned char *keep_b, const double *weights_b) {
    size_t sizes[2];
    void *first = fit_bytes(a, keep_a, weights_a, &sizes[0]);
    void *second = fit_bytes(b, keep_b, weights_b, &sizes[1]);
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(first, second, sizes[0]);
    free(first);
    free(second);
}

static void weight_0_is_not_there(void **state) {
    (void)state;
    static const pool_case cases[] = {{false, "default", 1},
                                      {false, "prototype", 1},
                                      {false, "paper", 1},
                                      {true, "default", 1},
                                      {true, "prototype", 1}};
    unsigned char keep[RW_ROWS];
    double weights[RW_ROWS];
    double alike[RW_ROWS];
    double scaled[RW_ROWS];
    for (int i = 0; i < RW_ROWS; i++) {
        keep[i] = i % 7 != 3;
        weights[i] = keep[i] ? rw_weights[i] : 0;
        scaled[i] = 4 * weights[i];
        alike[i] = keep[i] ? 0.3 : 0;
    }
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        pool_case two = cases[c];
        two.threads = 2;
        same_bytes(&cases[c], NULL, weights, &cases[c], keep, rw_weights);
        same_bytes(&cases[c], NULL, alike, &cases[c], keep, NULL);
        same_bytes(&cases[c], NULL, weights, &two, NULL, scaled);
    }
}

/* One row may count more than all others together: what is left without its fold is little, and its
 * scale does not matter. */
static void one_row_may_outweigh_the_rest(void **state) {
    (void)state;
    static const pool_case cases[] = {{false, "default", 1},
                                      {false, "prototype", 1},
                                      {false, "paper", 1},
                                      {true, "default", 1},
                                      {true, "prototype", 1}};
    static const double ratios[] = {1e4, 1e5, 1e8, 1e12};
    double weights[RW_ROWS];
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (size_t r = 0; r < sizeof ratios / sizeof ratios[0]; r++) {
            for (int i = 0; i < RW_ROWS; i++)
                weights[i] = i == 0 ? ratios[r] : 1;
            size_t size = 0;
            free(fit_bytes(&cases[c], NULL, weights, &size));
        }
}

/* Weights that differ say something. */
static void weights_change_a_fit(void **state) {
    (void)state;
    static const pool_case cases[] = {
        {false, "default", 1}, {false, "paper", 1}, {true, "default", 1}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        size_t sizes[2];
        void *first = fit_bytes(&cases[c], NULL, NULL, &sizes[0]);
        void *second = fit_bytes(&cases[c], NULL, rw_weights, &sizes[1]);
        assert_true(sizes[0] != sizes[1] || memcmp(first, second, sizes[0]) != 0);
        free(first);
        free(second);
    }
}

static void bad_weights_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {"a"};
    static const struct {
        double value;
        const char *says;
    } bad[] = {{-1, "row 3 is -1"}, {NAN, "row 3 is nan"}, {INFINITY, "row 3 is inf"}};
    cst_array array = {.data = rw_pool,
                       .row_step = RW_CLASSES * (int64_t)sizeof(float),
                       .column_step = sizeof(float)};
    double weights[RW_ROWS];
    cst_pool_arrays a = {.members = 1,
                         .rows = RW_ROWS,
                         .classes = RW_CLASSES,
                         .predictions = &array,
                         .names = names,
                         .labels = rw_labels,
                         .weights = weights};
    cst_pool *pool = NULL;
    for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++) {
        memcpy(weights, rw_weights, sizeof weights);
        weights[3] = bad[b].value;
        assert_int_equal(cst_pool_from_arrays(context, &pool, &a), CST_ERROR_INPUT);
        assert_null(pool);
        assert_non_null(strstr(cst_last_error(context), bad[b].says));
    }
    memset(weights, 0, sizeof weights);
    assert_int_equal(cst_pool_from_arrays(context, &pool, &a), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "every weight is 0"));
    cst_calibrator map;
    assert_int_equal(
        cst_calibrator_fit(context, CST_CALIBRATOR_ISOTONIC,
                           &(cst_labelled){members[0], RW_ROWS, RW_CLASSES, rw_labels, rw_weights},
                           &map),
        CST_ERROR_INPUT);
}

int suite_row_weights(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimum_matches_scipy),
        cmocka_unit_test(class_weights_multiply),
        cmocka_unit_test(moments_match_numpy),
        cmocka_unit_test(scores_match_numpy),
        cmocka_unit_test(value_scores_match_numpy),
        cmocka_unit_test(linear_pool_matches_numpy),
        cmocka_unit_test(fits_match_repeated_rows),
        cmocka_unit_test(polished_fits_match_repeated_rows),
        cmocka_unit_test(scores_match_repeated_rows),
        cmocka_unit_test(resamples_keep_the_weights),
        cmocka_unit_test(weight_0_is_not_there),
        cmocka_unit_test(one_row_may_outweigh_the_rest),
        cmocka_unit_test(weights_change_a_fit),
        cmocka_unit_test(bad_weights_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
