/*
 * The gate: gradient against PyTorch and finite differences, training, reproducibility, limits.
 * docs/method.md#s2-and-s3-gate-and-penalties.
 */
#include "data/meta_gate.h"
#include "meta_check.h"
#include "meta_rows.h"
#include "method/linear/linear.h"

static cst_gate_problem fixture(void) {
    return (cst_gate_problem){.rows = GATE_ROWS,
                              .inputs = GATE_INPUTS,
                              .hidden = GATE_HIDDEN,
                              .l2 = gate_l2[0],
                              .input = (double *)gate_input,
                              .aggregate = (double *)gate_aggregate,
                              .target = (double *)gate_target,
                              .weight = (double *)gate_weight};
}

static void gradient_matches_pytorch(void **state) {
    cst_context *context = *state;
    cst_gate_problem p = fixture();
    size_t count = cst_gate_layout_of(GATE_INPUTS, GATE_HIDDEN).count;
    assert_int_equal(count, sizeof gate_theta / sizeof *gate_theta);
    double *gradient = cst_alloc(context, count, sizeof *gradient);
    double loss = 0;
    assert_int_equal(cst_gate_gradient(context, &p, NULL, p.rows, gate_theta, gradient, &loss),
                     CST_OK);
    assert_relative(loss, gate_loss[0], 1e-12, 0);
    assert_all_close(gradient, gate_gradient, count, 1e-9, 1e-3);
    double only = 0;
    assert_int_equal(cst_gate_gradient(context, &p, NULL, p.rows, gate_theta, NULL, &only), CST_OK);
    assert_true(only == loss);
    cst_free(context, gradient);
}

/* Central differences on 300 random rows (three chunks, taken in a shuffled order). */
static void gradient_matches_finite_differences(void **state) {
    cst_context *context = *state;
    enum { ROWS = 300, INPUTS = 3, HIDDEN = 4 };
    static double x[ROWS * INPUTS];
    static double a[ROWS * CST_AGGREGATORS];
    static double y[ROWS];
    static double w[ROWS];
    int64_t order[ROWS];
    cst_rng rng;
    cst_rng_init(&rng, 3, CST_STREAM_TEST, 0);
    for (int i = 0; i < ROWS * INPUTS; i++)
        x[i] = cst_rng_normal(&rng);
    for (int i = 0; i < ROWS * CST_AGGREGATORS; i++)
        a[i] = cst_rng_normal(&rng);
    for (int i = 0; i < ROWS; i++) {
        y[i] = cst_rng_normal(&rng);
        w[i] = 0.5 + cst_rng_uniform(&rng);
        order[i] = i;
    }
    cst_rng_shuffle(&rng, order, ROWS);
    cst_gate_problem p = {ROWS, INPUTS, HIDDEN, 0.01, x, a, y, w};
    size_t count = cst_gate_layout_of(INPUTS, HIDDEN).count;
    double *theta = cst_alloc(context, count, sizeof *theta);
    double *gradient = cst_alloc(context, count, sizeof *gradient);
    for (size_t j = 0; j < count; j++)
        theta[j] = 0.5 * cst_rng_normal(&rng);
    double loss = 0;
    assert_int_equal(cst_gate_gradient(context, &p, order, 280, theta, gradient, &loss), CST_OK);
    for (size_t j = 0; j < count; j++) {
        const double step = 1e-6;
        double keep = theta[j];
        double above = 0;
        double below = 0;
        theta[j] = keep + step;
        (void)cst_gate_gradient(context, &p, order, 280, theta, NULL, &above);
        theta[j] = keep - step;
        (void)cst_gate_gradient(context, &p, order, 280, theta, NULL, &below);
        theta[j] = keep;
        assert_relative(gradient[j], (above - below) / (2 * step), 1e-6, 0.1);
    }
    cst_free(context, theta);
    cst_free(context, gradient);
}

/* A hand-made gate in float32 against PyTorch's values in float64. */
static void values_match_pytorch(void **state) {
    (void)state;
    enum { K = GATE_INPUTS, H = GATE_HIDDEN };
    float weights[H * K + H + CST_AGGREGATORS * H + CST_AGGREGATORS];
    for (size_t j = 0; j < sizeof weights / sizeof *weights; j++)
        weights[j] = (float)gate_theta[j];
    cst_gate gate = {.mode = CST_GATE_LEARNED,
                     .inputs = K,
                     .hidden = H,
                     .w1 = weights,
                     .b1 = weights + H * K,
                     .w2 = weights + H * K + H,
                     .b2 = weights + H * K + H + CST_AGGREGATORS * H};
    float columns[K][GATE_ROWS];
    const float *members[K];
    for (int k = 0; k < K; k++) {
        members[k] = columns[k];
        for (int i = 0; i < GATE_ROWS; i++)
            columns[k][i] = (float)gate_input[i * K + k];
    }
    double out[GATE_ROWS * CST_AGGREGATORS];
    gate_rows(&gate, members, GATE_ROWS, out);
    /* float32 arithmetic on inputs of size 1 to 3 */
    assert_all_close(out, gate_values, GATE_ROWS * CST_AGGREGATORS, 3e-6, 0.1);
    gate.b2[0] = 1000.0F;
    gate.b2[1] = -1000.0F;
    gate.b2[2] = NAN; /* as the difference of two infinities, which values of a regression can be */
    gate_rows(&gate, members, GATE_ROWS, out);
    assert_relative(out[0], 1, 1e-12, 1);
    assert_true(out[1] >= 0 && out[1] < 1e-12);
    assert_true(out[2] >= 0 && out[2] <= 1);
}

static void fixed_modes_have_their_columns(void **state) {
    cst_context *context = *state;
    random_pool p = make_pool(1, 5, 3, 4, 2);
    cst_gate_options options = cst_gate_options_default();
    cst_gate gate;
    options.mode = CST_GATE_PROTOTYPE;
    assert_int_equal(cst_gate_fit(context, &p.view, 1, &options, &gate), CST_OK);
    assert_int_equal(cst_design_columns(&gate), 10);
    cst_gate_free(context, &gate);
    options.mode = CST_GATE_NONE;
    assert_int_equal(cst_gate_fit(context, &p.view, 1, &options, &gate), CST_OK);
    assert_int_equal(cst_design_columns(&gate), 4);
    cst_gate_free(context, &gate);
    free_pool(&p);
}

/* Two members, a and b: the class is b > 1/2, but b < 0.3 where a > 0.7. No fixed linear mix of
 * members and aggregators says that; a gate can turn columns off by a. */
static random_pool make_gated_pool(uint32_t substream) {
    random_pool p = make_pool(1, 6000, 2, 2, 1);
    cst_rng rng;
    cst_rng_init(&rng, 77, CST_STREAM_TEST, substream);
    for (int64_t i = 0; i < p.view.rows; i++) {
        double a = cst_rng_uniform(&rng);
        double b = cst_rng_uniform(&rng);
        p.labels[i] = a > 0.7 ? b < 0.3 : b > 0.5;
        float *first = p.values + 2 * i;
        float *second = p.values + 2 * p.view.rows + 2 * i;
        first[1] = (float)a;
        first[0] = 1.0F - first[1];
        second[1] = (float)b;
        second[0] = 1.0F - second[1];
    }
    return p;
}

/* Mean squared error on `test` of a ridge fitted on `train` with the given gate. */
static double ridge_error(cst_context *context, const random_pool *train, const random_pool *test,
                          const cst_gate *gate) {
    cst_moments moments;
    cst_standardised s;
    cst_linear linear;
    assert_int_equal(cst_moments_compute(context, &train->view, gate, NULL, 0, &moments), CST_OK);
    assert_int_equal(cst_standardise(context, &moments, -1, &s), CST_OK);
    assert_int_equal(cst_linear_fit(context, &s, CST_LINEAR_RIDGE, 1e-5, 0, &linear), CST_OK);
    int64_t rows = test->view.rows;
    double *scores = cst_alloc(context, (size_t)rows * 2, sizeof *scores);
    linear_scores(gate, &linear, test->members, rows, 2, scores);
    double error = 0;
    for (int64_t i = 0; i < 2 * rows; i++) {
        double off = scores[i] - (test->labels[i / 2] == i % 2 ? 1.0 : 0.0);
        error += off * off / (double)(2 * rows);
    }
    cst_free(context, scores);
    cst_linear_free(context, &linear);
    cst_standardised_free(context, &s);
    cst_moments_free(context, &moments);
    return error;
}

static void a_learned_gate_beats_none_on_new_data(void **state) {
    cst_context *context = *state;
    random_pool train = make_gated_pool(1);
    random_pool test = make_gated_pool(2);
    cst_gate gate;
    assert_int_equal(cst_gate_fit(context, &train.view, 0, NULL, &gate), CST_OK);
    assert_true(gate.best_epoch > 0 && gate.best_epoch <= gate.epochs);
    assert_true(gate.loss_best < 0.8 * gate.loss_start);
    assert_int_equal(gate.train_rows, 9600); /* 12,000 rows less a fifth of the samples */
    cst_gate none = {.mode = CST_GATE_NONE, .inputs = 2};
    cst_gate prototype = {.mode = CST_GATE_PROTOTYPE, .inputs = 2};
    double learned_error = ridge_error(context, &train, &test, &gate);
    assert_true(learned_error < 0.7 * ridge_error(context, &train, &test, &none));
    assert_true(learned_error < 0.9 * ridge_error(context, &train, &test, &prototype));
    double *out = cst_alloc(context, 2000 * CST_AGGREGATORS, sizeof *out);
    gate_rows(&gate, train.members, 2000, out);
    for (size_t i = 0; i < 2000 * CST_AGGREGATORS; i++)
        assert_true(out[i] >= 0 && out[i] <= 1);
    cst_free(context, out);
    cst_gate_free(context, &gate);
    free_pool(&train);
    free_pool(&test);
}

static void assert_same_gate(const cst_gate *a, const cst_gate *b) {
    size_t k = (size_t)a->inputs;
    size_t h = (size_t)a->hidden;
    assert_int_equal(a->epochs, b->epochs);
    assert_memory_equal(&a->loss_best, &b->loss_best, sizeof a->loss_best);
    assert_memory_equal(a->w1, b->w1, k * h * sizeof(float));
    assert_memory_equal(a->b1, b->b1, h * sizeof(float));
    assert_memory_equal(a->w2, b->w2, CST_AGGREGATORS * h * sizeof(float));
    assert_memory_equal(a->b2, b->b2, CST_AGGREGATORS * sizeof(float));
}

static void bytes_do_not_depend_on_threads(void **state) {
    cst_context *context = *state;
    const int32_t classes[2] = {3, 60}; /* all rows, and a sample of them */
    for (int c = 0; c < 2; c++) {
        random_pool p = make_pool(9, 500, classes[c], 4, 2);
        cst_gate_options options = cst_gate_options_default();
        options.epochs = 4;
        options.seed = 11;
        options.max_rows = 3000;
        cst_gate first = {0};
        for (int threads = 1; threads <= 4; threads *= 2) {
            cst_gate gate;
            assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
            assert_int_equal(cst_gate_fit(context, &p.view, 0, &options, &gate), CST_OK);
            if (threads == 1) {
                first = gate;
                continue;
            }
            assert_same_gate(&first, &gate);
            cst_gate_free(context, &gate);
        }
        cst_gate other;
        options.seed = 12;
        assert_int_equal(cst_gate_fit(context, &p.view, 0, &options, &other), CST_OK);
        assert_memory_not_equal(first.w1, other.w1, 4 * 32 * sizeof(float));
        cst_gate_free(context, &other);
        cst_gate_free(context, &first);
        free_pool(&p);
    }
}

/* A view with an index gives the gate of the same rows copied together. */
static void a_view_is_its_rows(void **state) {
    cst_context *context = *state;
    random_pool p = make_pool(4, 200, 5, 3, 2);
    int64_t index[100];
    random_pool q = make_pool(4, 100, 5, 3, 2);
    for (int64_t i = 0; i < 100; i++) {
        index[i] = 2 * i + 1;
        q.labels[i] = p.labels[index[i]];
        for (int32_t k = 0; k < 3; k++)
            memcpy(q.values + (k * 100 + i) * 5, p.members[k] + index[i] * 5, 5 * sizeof(float));
    }
    cst_view part = p.view;
    part.rows = 100;
    part.index = index;
    cst_gate_options options = cst_gate_options_default();
    options.epochs = 2;
    cst_gate a;
    cst_gate b;
    assert_int_equal(cst_gate_fit(context, &part, 2, &options, &a), CST_OK);
    assert_int_equal(cst_gate_fit(context, &q.view, 2, &options, &b), CST_OK);
    assert_same_gate(&a, &b);
    cst_gate_free(context, &a);
    cst_gate_free(context, &b);
    free_pool(&p);
    free_pool(&q);
}

/* With many classes the weighted sample stands for all rows: training on it beats the best constant
 * gate's start or equals it, the rows are within the cap, and the gate is usable. */
static void many_classes_are_sampled(void **state) {
    cst_context *context = *state;
    random_pool p = make_pool(6, 800, 200, 4, 3);
    cst_gate_options options = cst_gate_options_default();
    options.max_rows = 4000;
    options.epochs = 10;
    cst_gate gate;
    assert_int_equal(cst_gate_fit(context, &p.view, 0, &options, &gate), CST_OK);
    assert_true(gate.train_rows > 2000 && gate.train_rows < 4000);
    assert_true(gate.loss_best <= gate.loss_start);
    for (int32_t j = 0; j < gate.hidden * gate.inputs; j++)
        assert_true(isfinite(gate.w1[j]));
    cst_gate_free(context, &gate);
    free_pool(&p);
}

static void too_many_parameters_are_refused(void **state) {
    cst_context *context = *state;
    random_pool p = make_pool(1, 20, 2, 3, 1);
    cst_gate_options options = cst_gate_options_default();
    cst_gate gate;
    /* 3h + h + 12h + 12 <= 15,000 up to h = 936 */
    assert_int_equal(cst_gate_parameter_count(3, 936), 14988);
    options.epochs = 0;
    options.hidden = 936;
    assert_int_equal(cst_gate_fit(context, &p.view, 0, &options, &gate), CST_OK);
    cst_gate_free(context, &gate);
    options.hidden = 937;
    assert_int_equal(cst_gate_fit(context, &p.view, 0, &options, &gate), CST_ERROR_LIMIT);
    assert_non_null(strstr(cst_last_error(context), "15004 parameters"));
    assert_null(gate.w1);
    free_pool(&p);
}

static void bad_input_is_refused(void **state) {
    cst_context *context = *state;
    random_pool p = make_pool(1, 20, 2, 3, 1);
    cst_gate_options options = cst_gate_options_default();
    cst_gate gate;
    assert_int_equal(cst_gate_fit(context, &p.view, 3, NULL, &gate), CST_ERROR_ARGUMENT);
    cst_view unlabelled = p.view;
    unlabelled.labels = NULL;
    assert_int_equal(cst_gate_fit(context, &unlabelled, 0, NULL, &gate), CST_ERROR_INPUT);
    options.validation_fraction = 1;
    assert_int_equal(cst_gate_fit(context, &p.view, 0, &options, &gate), CST_ERROR_ARGUMENT);
    cst_view single = p.view;
    single.rows = 1;
    assert_int_equal(cst_gate_fit(context, &single, 0, NULL, &gate), CST_ERROR_INPUT);
    cst_gate_free(context, NULL);
    free_pool(&p);
}

static int stop(void *user, const char *stage, int64_t done, int64_t total) {
    (void)total;
    assert_string_equal(stage, "gate");
    *(int64_t *)user = done;
    return done == 3;
}

static void training_can_be_stopped(void **state) {
    cst_context *context = *state;
    random_pool p = make_pool(1, 100, 3, 3, 1);
    cst_gate_options options = cst_gate_options_default();
    options.patience = 60;
    int64_t done = 0;
    cst_context_set_progress(context, stop, &done);
    cst_gate gate;
    assert_int_equal(cst_gate_fit(context, &p.view, 0, &options, &gate), CST_ERROR_CANCELLED);
    assert_int_equal(done, 3);
    assert_null(gate.w1);
    free_pool(&p);
}

int suite_gate(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gradient_matches_pytorch, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(gradient_matches_finite_differences, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(values_match_pytorch, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(fixed_modes_have_their_columns, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(a_learned_gate_beats_none_on_new_data, la_setup,
                                        la_teardown),
        cmocka_unit_test_setup_teardown(bytes_do_not_depend_on_threads, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(a_view_is_its_rows, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(many_classes_are_sampled, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(too_many_parameters_are_refused, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(bad_input_is_refused, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(training_can_be_stopped, la_setup, la_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
