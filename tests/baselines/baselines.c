/*
 * Baselines: each against an independent computation, prediction, and 1 to 4 threads.
 */
#include "fit/baselines/baselines.h"

#include "bootstraps.h"
#include "core/la.h"
#include "data/pool/pool.h"
#include "method/blend/blend.h"
#include "short_tests.h"

#include <corestack/metrics.h>

#include "data/baselines.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "baseline_case.h"
#include "check.h"

enum { CELLS = POOL_ROWS * POOL_CLASSES };

static cst_view pool(void) {
    static const float *data[POOL_MEMBERS];
    for (int k = 0; k < POOL_MEMBERS; k++)
        data[k] = pool_probabilities + (size_t)k * CELLS;
    return (cst_view){.rows = POOL_ROWS,
                      .classes = POOL_CLASSES,
                      .members = POOL_MEMBERS,
                      .data = data,
                      .labels = pool_labels};
}

/* Five folds in turn. */
static cst_baseline_data data_of(const cst_view *view) {
    static int32_t folds[POOL_ROWS];
    for (int i = 0; i < POOL_ROWS; i++)
        folds[i] = i % 5;
    return (cst_baseline_data){.view = view, .folds = folds, .fold_count = 5, .seed = 1};
}

static void best_single(void **state) {
    cst_context *context = *state;
    cst_view view = pool();
    cst_baseline_data data = data_of(&view);
    cst_baseline_fit b;
    float out[CELLS];
    assert_int_equal(
        cst_baseline_fit_run(context, &cst_baselines[CST_BASELINE_BEST_SINGLE], &data, &b), CST_OK);
    for (int k = 0; k < POOL_MEMBERS; k++) {
        assert_true(b.uses[k] == (k == POOL_MIN_NLL));
        assert_true(b.weights[k] == (k == POOL_MIN_NLL ? 1 : 0));
    }
    assert_int_equal(baseline_predict(context, &b, &view, out), CST_OK);
    assert_memory_equal(out, view.data[POOL_MIN_NLL], sizeof out);
    cst_baseline_fit_free(context, &b);
}

static void average(void **state) {
    cst_context *context = *state;
    cst_view view = pool();
    cst_baseline_data data = data_of(&view);
    cst_baseline_fit b;
    float out[CELLS];
    assert_int_equal(cst_baseline_fit_run(context, &cst_baselines[CST_BASELINE_AVERAGE], &data, &b),
                     CST_OK);
    assert_int_equal(baseline_predict(context, &b, &view, out), CST_OK);
    for (int j = 0; j < CELLS; j++) {
        double mean = 0;
        for (int k = 0; k < POOL_MEMBERS; k++)
            mean += (double)view.data[k][j] / POOL_MEMBERS;
        assert_close((double)out[j], mean, 1e-7);
    }
    cst_baseline_fit_free(context, &b);
}

static void greedy_is_greedy_selection(void **state) {
    cst_context *context = *state;
    cst_view view = pool();
    cst_baseline_data data = data_of(&view);
    cst_baseline_fit b;
    cst_greedy g;
    assert_int_equal(cst_baseline_fit_run(context, &cst_baselines[CST_BASELINE_GREEDY], &data, &b),
                     CST_OK);
    assert_int_equal(cst_greedy_select(context, &view, CST_GREEDY_LOG_LOSS, 25, 0, &g), CST_OK);
    assert_memory_equal(b.weights, g.weights, POOL_MEMBERS * sizeof *b.weights);
    assert_true(g.rounds > 1);
    for (int k = 0; k < POOL_MEMBERS; k++)
        assert_true(b.uses[k] == (g.weights[k] > 0));
    cst_scope_free(&g.scope);
    cst_baseline_fit_free(context, &b);
}

/* Two members of each kind that is averaged over a group, else one: every method applies to the
 * pool under one of these. */
static const cst_member_ensemble *tags_for(const cst_baseline *baseline) {
    static cst_member_ensemble tags[POOL_MEMBERS];
    static const char *const names[] = {"deep-ensemble", "snapshot", "mc-dropout", "swag", "soup"};
    for (int i = 0; i < 5; i++)
        if (strcmp(baseline->name, names[i]) == 0)
            for (int k = 0; k < POOL_MEMBERS; k++)
                tags[k] = (cst_member_ensemble){(cst_ensemble_kind)(i + 1), k < 2 ? "a" : "b", 1};
    return tags;
}

/* Every method: probabilities that sum to 1, the same bytes for 1 to 4 threads and for the same
 * rows in a view with an index. */
static void every_method_predicts_distributions(void **state) {
    cst_context *context = *state;
    enum { TIMES = 8 };
    static int64_t index[POOL_ROWS * TIMES]; /* the pool's rows over and over: several blocks */
    static int32_t folds[POOL_ROWS * TIMES];
    float *out = malloc(TIMES * CELLS * sizeof *out);
    float *first = malloc(TIMES * CELLS * sizeof *first);
    assert_true(out && first);
    for (int i = 0; i < POOL_ROWS * TIMES; i++) {
        index[i] = i % POOL_ROWS;
        folds[i] = i % 5;
    }
    cst_view all = pool();
    all.rows = POOL_ROWS * TIMES;
    all.index = index;
    cst_baseline_data data = {.view = &all, .folds = folds, .fold_count = 5, .seed = 1};
    for (size_t m = 0; m < cst_baseline_count(); m++) {
        const cst_baseline *baseline = cst_baseline_at(m);
        assert_ptr_equal(cst_baseline_find(baseline->name), baseline);
        assert_non_null(baseline->definition);
        for (int threads = 1; threads <= 4; threads += short_tests() ? 3 : 1) {
            cst_baseline_fit b;
            data.ensembles = tags_for(baseline);
            assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
            assert_int_equal(cst_baseline_fit_run(context, baseline, &data, &b), CST_OK);
            assert_int_equal(baseline_predict(context, &b, &all, out), CST_OK);
            if (threads == 1)
                memcpy(first, out, TIMES * CELLS * sizeof *out);
            assert_memory_equal(first, out, TIMES * CELLS * sizeof *out);
            for (int i = 0; i < POOL_ROWS * TIMES; i++) {
                double sum = 0;
                for (int c = 0; c < POOL_CLASSES; c++) {
                    double p = (double)out[i * POOL_CLASSES + c];
                    assert_true(p >= 0 && p <= 1);
                    sum += p;
                }
                assert_close(sum, 1, 1e-5);
            }
            cst_baseline_fit_free(context, &b);
        }
    }
    assert_null(cst_baseline_find("nothing"));
    assert_null(cst_baseline_at(cst_baseline_count()));
    free(out);
    free(first);
}

/* Fails the allocation number `left` counts down to; counts what is held. */
typedef struct meter {
    int64_t left;
    int64_t held;
} meter;

static void *metered(void *user, void *pointer, size_t bytes) {
    meter *m = user;
    if (bytes == 0) {
        m->held -= pointer != NULL;
        free(pointer);
        return NULL;
    }
    if (m->left-- <= 0)
        return NULL;
    m->held += pointer == NULL;
    return realloc(pointer, bytes);
}

/* Fit and prediction of one method on few rows; of everything else for NULL. */
static cst_status run(cst_context *context, const cst_baseline *baseline) {
    cst_view view = pool();
    cst_metrics metrics;
    cst_metric_intervals intervals;
    int32_t folds[POOL_ROWS];
    int64_t groups[POOL_ROWS];
    double weights[POOL_MEMBERS];
    float out[CELLS];
    cst_status status = CST_OK;
    if (baseline) {
        cst_baseline_fit b;
        cst_baseline_data data = data_of(&view);
        view.rows = 30;
        data.fold_count = 2;
        int32_t two[POOL_ROWS];
        for (int i = 0; i < POOL_ROWS; i++)
            two[i] = i % 2;
        data.folds = two;
        data.ensembles = tags_for(baseline);
        status = cst_baseline_fit_run(context, baseline, &data, &b);
        if (status == CST_OK)
            status = baseline_predict(context, &b, &view, out);
        cst_baseline_fit_free(context, &b);
        return status;
    }
    for (int i = 0; i < POOL_ROWS; i++)
        groups[i] = i / 3;
    for (int rule = CST_BLEND_INVERSE_RMSE; status == CST_OK && rule <= CST_BLEND_STACKING;
         rule++) {
        cst_blend_options options = {.rule = (cst_blend_rule)rule};
        status = cst_blend_weights(context, &view, NULL, NULL, &options, weights);
    }
    if (status == CST_OK)
        status = cst_folds_stratified(context, pool_labels, POOL_ROWS, 5, 0, folds);
    if (status == CST_OK)
        status = cst_folds_check(context, folds, pool_labels, POOL_ROWS);
    if (status == CST_OK)
        status = cst_folds_grouped(context, pool_labels, groups, POOL_ROWS, 5, 0, folds);
    if (status == CST_OK)
        status = cst_metrics_evaluate(context, view.data[0], POOL_ROWS, POOL_CLASSES, pool_labels,
                                      15, &metrics);
    if (status == CST_OK)
        status = bootstrap_difference(context, view.data[0], view.data[1], POOL_ROWS, POOL_CLASSES,
                                      pool_labels, 15, 9, 0, &intervals);
    return status;
}

/* The 1st, 2nd, ... allocation fails until all succeed: every failure is reported, none leaks. */
static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    cst_la_enter();
    for (size_t m = 0; m <= cst_baseline_count(); m++) { /* the last is NULL: the rest */
        cst_status status = CST_ERROR_MEMORY;
        int64_t allowed = 1;
        for (; status != CST_OK; allowed++) {
            meter limit = {.left = allowed};
            cst_context *context = NULL;
            assert_int_equal(cst_context_create_with(&context, metered, &limit), CST_OK);
            assert_int_equal(cst_context_set_threads(context, 1), CST_OK);
            status = run(context, cst_baseline_at(m));
            assert_true(status == CST_OK || status == CST_ERROR_MEMORY);
            assert_true(status == CST_OK || strstr(cst_last_error(context), "out of memory"));
            cst_context_free(context);
            assert_int_equal(limit.held, 0);
        }
        assert_true(allowed > 3);
    }
    cst_la_leave();
}

int suite_baselines(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(best_single, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(average, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(greedy_is_greedy_selection, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(every_method_predicts_distributions, la_setup, la_teardown),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
