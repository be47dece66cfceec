/*
 * The `mlp` baseline: training against PyTorch, what a fit
 * promises, edge cases, 1 to 4 threads.
 */
#include "fit/baselines/mlp.h"
#include "fit/baselines/baselines.h"

#include "core/la.h"

#include "data/baselines.h"
#include "data/mlp.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "baseline_case.h"
#include "check.h"

enum { CELLS = MLP_ROWS * MLP_CLASSES, POOL_CELLS = POOL_ROWS * POOL_CLASSES };

static cst_view fixture(void) {
    static const float *data[MLP_MEMBERS];
    for (int k = 0; k < MLP_MEMBERS; k++)
        data[k] = mlp_probabilities + (size_t)k * CELLS;
    return (cst_view){.rows = MLP_ROWS,
                      .classes = MLP_CLASSES,
                      .members = MLP_MEMBERS,
                      .data = data,
                      .labels = mlp_labels};
}

/* The fixture's network at its start; the arrays are the caller's. */
static cst_network fixture_net(double *mean, double *scale, double *theta) {
    memcpy(mean, mlp_mean, sizeof mlp_mean);
    memcpy(scale, mlp_scale, sizeof mlp_scale);
    memcpy(theta, mlp_start, sizeof mlp_start);
    assert_int_equal(cst_network_size(MLP_MEMBERS, MLP_CLASSES, MLP_HIDDEN), MLP_SIZE);
    return (cst_network){MLP_MEMBERS, MLP_CLASSES, MLP_HIDDEN, mean, scale, theta};
}

static void training_is_that_of_pytorch(void **state) {
    cst_context *context = *state;
    double mean[MLP_MEMBERS * MLP_CLASSES];
    double scale[MLP_MEMBERS * MLP_CLASSES];
    double theta[MLP_SIZE];
    int64_t train[MLP_ROWS];
    int64_t held[MLP_ROWS];
    int32_t best = 0;
    double loss = 0;
    cst_view view = fixture();
    cst_network net = fixture_net(mean, scale, theta);
    for (int i = 0; i < MLP_ROWS; i++)
        train[i] = held[i] = i;
    cst_mlp_rows rows = {train, MLP_ROWS, held, MLP_ROWS};
    cst_mlp_options options = {.hidden = MLP_HIDDEN,
                               .epochs = MLP_EPOCHS,
                               .patience = MLP_EPOCHS,
                               .batch_rows = MLP_ROWS,
                               .rate = mlp_rate,
                               .decay = mlp_decay,
                               .work = 1e9,
                               .seed = 3};
    assert_int_equal(cst_mlp_train(context, &net, &view, &rows, &options, &best, &loss), CST_OK);
    assert_int_equal(best, MLP_BEST);
    assert_close(loss, mlp_best_loss, 1e-6 * mlp_best_loss);
    for (int j = 0; j < MLP_SIZE; j++)
        assert_close(theta[j], mlp_best[j], 1e-6);
    double *scratch = malloc(cst_network_scratch(&net) * sizeof *scratch);
    assert_non_null(scratch);
    for (int i = 0; i < MLP_ROWS; i++) {
        double row[MLP_CLASSES];
        cst_network_row(&net, view.data, i, scratch, row);
        for (int c = 0; c < MLP_CLASSES; c++)
            assert_close(row[c], mlp_best_probabilities[i * MLP_CLASSES + c], 1e-6);
    }
    free(scratch);
    /* Minibatches with dropout, from the same start, learn as well: the loss without dropout comes
     * within a tenth of what PyTorch reaches. */
    net = fixture_net(mean, scale, theta);
    options.batch_rows = 16;
    options.dropout = 0.1;
    options.decay = 0;
    assert_int_equal(cst_mlp_train(context, &net, &view, &rows, &options, &best, &loss), CST_OK);
    assert_true(loss < 1.1 * mlp_best_loss);
}

/* No epochs, no patience: what it began with is what is kept. A limit on work ends an epoch early.
 */
static void training_keeps_the_best_epoch(void **state) {
    cst_context *context = *state;
    double mean[MLP_MEMBERS * MLP_CLASSES];
    double scale[MLP_MEMBERS * MLP_CLASSES];
    double theta[MLP_SIZE];
    int64_t train[MLP_ROWS];
    int64_t held[1] = {0};
    int32_t best = -1;
    double loss = 0;
    cst_view view = fixture();
    cst_network net = fixture_net(mean, scale, theta);
    for (int i = 0; i < MLP_ROWS; i++)
        train[i] = i;
    cst_mlp_rows rows = {train, MLP_ROWS, held, 1};
    cst_mlp_options options = cst_mlp_defaults(MLP_ROWS);
    options.rate = 1e6; /* every step makes it worse */
    options.epochs = 20;
    options.patience = 2;
    assert_int_equal(cst_mlp_train(context, &net, &view, &rows, &options, &best, &loss), CST_OK);
    assert_int_equal(best, 0);
    assert_memory_equal(theta, mlp_start, sizeof mlp_start);
    /* One step of one minibatch: no parameter moves by more than the rate. */
    options = cst_mlp_defaults(MLP_ROWS);
    options.work = 1;
    options.epochs = 1;
    options.decay = 0;
    rows.held = train;
    rows.held_count = MLP_ROWS;
    options.rate = 1e-4;
    options.dropout = 0;
    assert_int_equal(cst_mlp_train(context, &net, &view, &rows, &options, &best, &loss), CST_OK);
    assert_int_equal(best, 1);
    double most = 0;
    for (int j = 0; j < MLP_SIZE; j++)
        most = fmax(most, fabs(theta[j] - mlp_start[j]));
    assert_close(most, 1e-4, 1e-6);
}

/* Rows of the pool over and over, in an index: several blocks and minibatches. */
static cst_view repeated(int64_t *index, int64_t rows) {
    static const float *data[POOL_MEMBERS];
    for (int k = 0; k < POOL_MEMBERS; k++)
        data[k] = pool_probabilities + (size_t)k * POOL_CELLS;
    for (int64_t i = 0; i < rows; i++)
        index[i] = (i * 37) % POOL_ROWS;
    return (cst_view){.rows = rows,
                      .classes = POOL_CLASSES,
                      .members = POOL_MEMBERS,
                      .data = data,
                      .labels = pool_labels,
                      .index = index};
}

static double mean_nll(const cst_view *view, const float *p) {
    double sum = 0;
    for (int64_t i = 0; i < view->rows; i++)
        sum -= log((double)p[i * view->classes + cst_view_label(view, i)]);
    return sum / (double)view->rows;
}

static void fit_is_reproducible(void **state) {
    cst_context *context = *state;
    enum { ROWS = 700 };
    static int64_t index[ROWS];
    static float first[ROWS * POOL_CLASSES];
    static float out[ROWS * POOL_CLASSES];
    cst_view view = repeated(index, ROWS);
    cst_baseline_data data = {.view = &view, .seed = 9};
    cst_baseline_fit fit;
    for (int threads = 1; threads <= 4; threads++) {
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        assert_int_equal(
            cst_baseline_fit_run(context, &cst_baselines[CST_BASELINE_MLP], &data, &fit), CST_OK);
        assert_int_equal(fit.mix, CST_MIX_OTHER);
        assert_non_null(strstr(fit.detail, "held-out"));
        for (int k = 0; k < POOL_MEMBERS; k++)
            assert_true(fit.uses[k] && fit.weights[k] == 0);
        float *to = threads == 1 ? first : out;
        assert_int_equal(baseline_predict(context, &fit, &view, to), CST_OK);
        if (threads > 1)
            assert_memory_equal(first, out, sizeof first);
        cst_baseline_fit_free(context, &fit);
    }
    for (int i = 0; i < ROWS; i++) {
        double sum = 0;
        for (int c = 0; c < POOL_CLASSES; c++)
            sum += (double)first[i * POOL_CLASSES + c];
        assert_close(sum, 1, 1e-6);
    }
    assert_true(mean_nll(&view, first) < 1.1); /* chance is log 4 = 1.386 */
    data.seed = 10;
    assert_int_equal(cst_baseline_fit_run(context, &cst_baselines[CST_BASELINE_MLP], &data, &fit),
                     CST_OK);
    assert_int_equal(baseline_predict(context, &fit, &view, out), CST_OK);
    assert_memory_not_equal(first, out, sizeof first);
    cst_baseline_fit_free(context, &fit);
}

/* A network large enough for its minibatches to be spread over threads. */
static void wide_training_is_reproducible(void **state) {
    cst_context *context = *state;
    enum { ROWS = 80, WIDE = 40, MANY = 140, HIDDEN = 64 };
    static float p[2][ROWS * WIDE];
    static const float *data[MANY];
    int32_t labels[ROWS];
    size_t size = cst_network_size(MANY, WIDE, HIDDEN);
    size_t inputs = (size_t)MANY * WIDE;
    double *mean = calloc(inputs, sizeof *mean);
    double *scale = malloc(inputs * sizeof *scale);
    double *theta = malloc(size * sizeof *theta);
    double *first = malloc(size * sizeof *first);
    assert_true(mean && scale && theta && first);
    cst_rng rng;
    cst_rng_init(&rng, 1, CST_STREAM_TEST, 0);
    for (int i = 0; i < ROWS; i++)
        labels[i] = (int32_t)cst_rng_below(&rng, WIDE);
    for (int j = 0; j < 2 * ROWS * WIDE; j++)
        p[j / (ROWS * WIDE)][j % (ROWS * WIDE)] = (float)cst_rng_uniform(&rng);
    for (int k = 0; k < MANY; k++)
        data[k] = p[k % 2];
    for (size_t j = 0; j < inputs; j++) {
        mean[j] = -1; /* of the logarithm of a uniform number, and its deviation */
        scale[j] = 1;
    }
    cst_view view = {
        .rows = ROWS, .classes = WIDE, .members = MANY, .data = data, .labels = labels};
    cst_network net = {MANY, WIDE, HIDDEN, mean, scale, theta};
    cst_mlp_options options = cst_mlp_defaults(ROWS);
    options.epochs = 3;
    assert_true(options.batch_rows * (int64_t)size >= 20000000);
    for (int threads = 1; threads <= 4; threads++) {
        int64_t train[ROWS];
        int64_t held[ROWS];
        int32_t best = 0;
        double loss = 0;
        for (int64_t i = 0; i < ROWS; i++)
            train[i] = held[i] = i;
        cst_mlp_rows rows = {train, ROWS, held, ROWS};
        cst_rng_init(&rng, 2, CST_STREAM_TEST, 0);
        for (size_t j = 0; j < size; j++)
            theta[j] = 0.02 * cst_rng_normal(&rng);
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        assert_int_equal(cst_mlp_train(context, &net, &view, &rows, &options, &best, &loss),
                         CST_OK);
        assert_true(best > 0);
        if (threads == 1)
            memcpy(first, theta, size * sizeof *theta);
        assert_memory_equal(first, theta, size * sizeof *theta);
    }
    free(mean);
    free(scale);
    free(theta);
    free(first);
}

/* One to eleven rows, labels of one class only, members that never change: finite probabilities. */
static void few_rows(void **state) {
    cst_context *context = *state;
    static const float flat[12 * 3] = {0};
    const float *members[] = {flat, flat};
    int32_t labels[12] = {0};
    float out[12 * 3];
    cst_view view = {.rows = 1, .classes = 3, .members = 2, .data = members, .labels = labels};
    cst_baseline_data data = {.view = &view, .seed = 1};
    for (; view.rows <= 11; view.rows++) {
        cst_baseline_fit fit;
        labels[10] = 2;
        assert_int_equal(
            cst_baseline_fit_run(context, &cst_baselines[CST_BASELINE_MLP], &data, &fit), CST_OK);
        assert_int_equal(baseline_predict(context, &fit, &view, out), CST_OK);
        for (int64_t j = 0; j < view.rows * 3; j++)
            assert_true(out[j] > 0 && out[j] < 1);
        assert_true(out[0] > 1.0F / 3);
        cst_baseline_fit_free(context, &fit);
    }
}

static void sizes_are_checked(void **state) {
    (void)state;
    assert_int_equal(cst_network_size(16, 10, 64), 160 * 64 + 64 + 64 * 64 + 64 + 640 + 10);
    assert_int_equal(cst_network_size(INT32_MAX, INT32_MAX, INT32_MAX), 0);
}

int suite_mlp(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(training_is_that_of_pytorch, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(training_keeps_the_best_epoch, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(fit_is_reproducible, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(wide_training_is_reproducible, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(few_rows, la_setup, la_teardown),
        cmocka_unit_test(sizes_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
