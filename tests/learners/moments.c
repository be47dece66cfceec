/*
 * The meta-design and its moments: the prototype's design against NumPy, sums per fold, constant
 * columns, threads. docs/method.md#s2-and-s3-gate-and-penalties.
 */
#include "data/meta_design.h"
#include "meta_check.h"
#include "meta_rows.h"
#include "method/linear/linear.h"

enum { PAIRS = DESIGN_ROWS * DESIGN_CLASSES, D = DESIGN_MEMBERS + 6 };

static cst_view fixture(const float **members) {
    for (int32_t k = 0; k < DESIGN_MEMBERS; k++)
        members[k] = design_members + k * PAIRS;
    return (cst_view){.rows = DESIGN_ROWS,
                      .classes = DESIGN_CLASSES,
                      .members = DESIGN_MEMBERS,
                      .data = members,
                      .labels = design_labels};
}

static cst_gate prototype(void) {
    return (cst_gate){.mode = CST_GATE_PROTOTYPE, .inputs = DESIGN_MEMBERS};
}

static void prototype_design_matches_numpy(void **state) {
    cst_context *context = *state;
    const float *members[DESIGN_MEMBERS];
    (void)fixture(members);
    cst_gate gate = prototype();
    assert_int_equal(cst_design_columns(&gate), D);
    double *rows = cst_alloc(context, (size_t)PAIRS * D, sizeof *rows);
    design_rows(&gate, members, DESIGN_ROWS, DESIGN_CLASSES, rows);
    assert_all_close(rows, design_prototype, (size_t)PAIRS * D, 1e-13, 1e-3);
    cst_free(context, rows);
}

/* A design whose gate is learned is the members and the product of gate and aggregators. */
static void learned_design_is_gate_times_aggregators(void **state) {
    cst_context *context = *state;
    random_pool p = make_pool(3, 60, 9, 5, 2);
    cst_gate_options options = cst_gate_options_default();
    options.epochs = 2;
    cst_gate gate;
    assert_int_equal(cst_gate_fit(context, &p.view, 3, &options, &gate), CST_OK);
    size_t pairs = 540;
    size_t d = (size_t)cst_design_columns(&gate);
    assert_int_equal(d, 17);
    double *rows = cst_alloc(context, pairs * d, sizeof *rows);
    double *g = cst_alloc(context, pairs * CST_AGGREGATORS, sizeof *g);
    double *a = cst_alloc(context, pairs * CST_AGGREGATORS, sizeof *a);
    design_rows(&gate, p.members, 60, 9, rows);
    aggregate_rows(p.members, 5, 3, 60, 9, a);
    gate_rows(&gate, p.members, (int64_t)pairs, g);
    for (size_t i = 0; i < pairs; i++) {
        for (size_t k = 0; k < 5; k++)
            assert_true(rows[i * d + k] == (double)p.members[k][i]);
        for (size_t j = 0; j < CST_AGGREGATORS; j++)
            assert_true(rows[i * d + 5 + j] ==
                        g[i * CST_AGGREGATORS + j] * a[i * CST_AGGREGATORS + j]);
    }
    /* All rows were drawn, so that the training saw what passes here. */
    for (size_t j = 0; j < CST_AGGREGATORS; j++) {
        double passed = 0;
        double whole = 0;
        for (size_t i = 0; i < pairs; i++) {
            passed += rows[i * d + 5 + j];
            whole += a[i * CST_AGGREGATORS + j];
        }
        assert_relative(gate.passed[j], passed / whole, 1e-5, 0);
    }
    cst_free(context, rows);
    cst_free(context, g);
    cst_free(context, a);
    cst_gate_free(context, &gate);
    free_pool(&p);
}

/* Every centred second moment against a direct two-pass sum over the rows of the fixture. */
static void moments_match_direct_sums(void **state) {
    cst_context *context = *state;
    const float *members[DESIGN_MEMBERS];
    cst_view view = fixture(members);
    cst_gate gate = prototype();
    cst_moments moments;
    cst_standardised s;
    assert_int_equal(cst_moments_compute(context, &view, &gate, design_folds, 3, &moments), CST_OK);
    for (int32_t without = -1; without < 3; without++) {
        assert_int_equal(cst_standardise(context, &moments, without, &s), CST_OK);
        assert_int_equal(s.kept, D);
        double n = 0;
        double mean[D] = {0};
        double square[D] = {0};
        double cross[D] = {0};
        double target = 0;
        for (int i = 0; i < PAIRS; i++) {
            if (design_folds[i / DESIGN_CLASSES] == without)
                continue;
            n++;
            target += design_labels[i / DESIGN_CLASSES] == i % DESIGN_CLASSES;
            for (int j = 0; j < D; j++)
                mean[j] += design_prototype[i * D + j];
        }
        target /= n;
        for (int j = 0; j < D; j++)
            mean[j] /= n;
        for (int i = 0; i < PAIRS; i++) {
            if (design_folds[i / DESIGN_CLASSES] == without)
                continue;
            double y = design_labels[i / DESIGN_CLASSES] == i % DESIGN_CLASSES ? 1.0 : 0.0;
            for (int j = 0; j < D; j++) {
                double x = design_prototype[i * D + j] - mean[j];
                square[j] += x * x / n;
                cross[j] += x * (y - target) / n;
            }
        }
        assert_relative(s.rows, n, 0, 1);
        assert_relative(s.target_mean, target, 1e-13, 1);
        assert_relative(s.target_square, target * (1 - target), 1e-12, 1);
        for (int j = 0; j < D; j++) {
            assert_relative(s.mean[j], mean[j], 1e-12, 1e-3);
            assert_relative(s.scale[j], sqrt(square[j]), 1e-10, 0);
            assert_relative(s.cross[j], cross[j] / sqrt(square[j]), 1e-10, 1e-3);
            assert_true(s.gram[j * D + j] == 1);
        }
        cst_standardised_free(context, &s);
    }
    cst_moments_free(context, &moments);
}

static void ridge_on_the_design_matches_scikit_learn(void **state) {
    cst_context *context = *state;
    const float *members[DESIGN_MEMBERS];
    cst_view view = fixture(members);
    cst_gate gate = prototype();
    cst_moments moments;
    cst_standardised s;
    cst_linear linear;
    assert_int_equal(cst_moments_compute(context, &view, &gate, design_folds, 3, &moments), CST_OK);
    assert_int_equal(cst_standardise(context, &moments, -1, &s), CST_OK);
    assert_int_equal(cst_linear_fit(context, &s, CST_LINEAR_RIDGE, 0.01, 0, &linear), CST_OK);
    assert_all_close(linear.coefficients, design_ridge, D, 1e-9, 1e-2);
    assert_relative(linear.intercept, design_ridge[D], 1e-9, 1e-2);
    double scores[PAIRS];
    linear_scores(&gate, &linear, members, DESIGN_ROWS, DESIGN_CLASSES, scores);
    assert_all_close(scores, design_scores, PAIRS, 1e-9, 1e-2);
    cst_linear_free(context, &linear);
    cst_standardised_free(context, &s);
    assert_int_equal(cst_standardise(context, &moments, 1, &s), CST_OK);
    assert_int_equal(cst_linear_fit(context, &s, CST_LINEAR_RIDGE, 0.01, 0, &linear), CST_OK);
    assert_all_close(linear.coefficients, design_ridge_without_1, D, 1e-9, 1e-2);
    double rows = 0;
    double loss = cst_moments_loss(&moments, 1, linear.coefficients, linear.intercept, &rows);
    assert_relative(loss, design_loss_on_1[0], 1e-10, 0);
    int64_t held = 0;
    for (int i = 0; i < DESIGN_ROWS; i++)
        held += design_folds[i] == 1;
    assert_true(rows == (double)(held * DESIGN_CLASSES));
    cst_linear_free(context, &linear);
    cst_standardised_free(context, &s);
    cst_moments_free(context, &moments);
}

static void bytes_do_not_depend_on_threads(void **state) {
    cst_context *context = *state;
    random_pool p = make_pool(2, 2300, 4, 3, 1);
    int32_t folds[2300];
    for (int i = 0; i < 2300; i++)
        folds[i] = i * 7 % 5;
    cst_gate gate = {.mode = CST_GATE_PROTOTYPE, .inputs = 3};
    cst_moments first = {0};
    for (int threads = 1; threads <= 4; threads *= 2) {
        cst_moments moments;
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        assert_int_equal(cst_moments_compute(context, &p.view, &gate, folds, 5, &moments), CST_OK);
        if (threads == 1) {
            first = moments;
            continue;
        }
        assert_memory_equal(first.sums, moments.sums, 5 * 11 * 11 * sizeof(double));
        cst_moments_free(context, &moments);
    }
    cst_moments_free(context, &first);
    free_pool(&p);
}

/* The sums over a fold's complement are those of a view of its rows. */
static void a_fold_left_out_is_a_smaller_view(void **state) {
    cst_context *context = *state;
    random_pool p = make_pool(2, 700, 3, 3, 1);
    int32_t folds[700];
    int64_t index[700];
    for (int i = 0; i < 700; i++)
        folds[i] = i * 3 % 4;
    cst_view in;
    cst_view out;
    cst_view_split(&p.view, folds, 2, index, &in, &out);
    cst_gate gate = {.mode = CST_GATE_PROTOTYPE, .inputs = 3};
    cst_moments all;
    cst_moments part;
    cst_standardised a;
    cst_standardised b;
    assert_int_equal(cst_moments_compute(context, &p.view, &gate, folds, 4, &all), CST_OK);
    assert_int_equal(cst_moments_compute(context, &in, &gate, NULL, 0, &part), CST_OK);
    assert_int_equal(cst_standardise(context, &all, 2, &a), CST_OK);
    assert_int_equal(cst_standardise(context, &part, -1, &b), CST_OK);
    assert_int_equal(a.kept, 9);
    assert_true(a.rows == b.rows && a.rows == 525 * 3);
    assert_all_close(a.gram, b.gram, 81, 1e-11, 1);
    assert_all_close(a.cross, b.cross, 9, 1e-11, 1);
    cst_standardised_free(context, &a);
    cst_standardised_free(context, &b);
    cst_moments_free(context, &all);
    cst_moments_free(context, &part);
    free_pool(&p);
}

/* Several gates on the same rows in one pass, each leaving out other rows, give what each gives
 * alone on a view of its rows. Slabs of several and of one row, folds in any order. */
static void designs_of_one_pass_are_as_alone(void **state) {
    cst_context *context = *state;
    static const int32_t shapes[][2] = {{700, 7}, {160, 900}}; /* rows, classes */
    enum { GATES = 4, MAX = 700, K = 4 };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        int32_t count = shapes[s][0];
        random_pool p = make_pool(5, count, shapes[s][1], K, 1);
        cst_gate gates[GATES];
        cst_moments together[GATES];
        cst_moments_job jobs[GATES];
        int32_t folds[GATES][MAX];
        for (int g = 0; g < GATES; g++) {
            cst_gate_options options = cst_gate_options_default();
            options.mode = g == GATES - 1 ? CST_GATE_PROTOTYPE : CST_GATE_LEARNED;
            options.epochs = 2;
            options.seed = (uint64_t)g;
            options.hidden = 4 + g;
            assert_int_equal(cst_gate_fit(context, &p.view, g % 2, &options, &gates[g]), CST_OK);
            for (int32_t i = 0; i < count; i++)
                folds[g][i] = (i * 5 + i / 9) % GATES == g ? -1 : i % 3;
            jobs[g] = (cst_moments_job){
                .gate = &gates[g], .folds = folds[g], .fold_count = 3, .out = &together[g]};
        }
        assert_int_equal(cst_moments_compute_all(context, &p.view, jobs, GATES), CST_OK);
        for (int g = 0; g < GATES; g++) {
            int64_t index[MAX];
            int32_t own[MAX];
            cst_view in = p.view;
            in.rows = 0;
            in.index = index;
            for (int32_t i = 0; i < count; i++)
                if (folds[g][i] >= 0) {
                    own[in.rows] = folds[g][i];
                    index[in.rows++] = i;
                }
            assert_true(in.rows > 0 && in.rows < count);
            cst_moments alone;
            assert_int_equal(cst_moments_compute(context, &in, &gates[g], own, 3, &alone), CST_OK);
            for (int without = -1; without < 3; without++) {
                cst_standardised a;
                cst_standardised b;
                assert_int_equal(cst_standardise(context, &together[g], without, &a), CST_OK);
                assert_int_equal(cst_standardise(context, &alone, without, &b), CST_OK);
                size_t kept = (size_t)a.kept;
                assert_int_equal(a.kept, b.kept);
                assert_true(a.rows == b.rows && kept > K);
                assert_all_close(a.gram, b.gram, kept * kept, 1e-11, 1);
                assert_all_close(a.cross, b.cross, kept, 1e-11, 1);
                assert_all_close(a.mean, b.mean, kept, 1e-12, 1);
                assert_all_close(a.scale, b.scale, kept, 1e-11, 1);
                cst_standardised_free(context, &a);
                cst_standardised_free(context, &b);
            }
            cst_moments_free(context, &alone);
        }
        for (int g = 0; g < GATES; g++) {
            cst_moments_free(context, &together[g]);
            cst_gate_free(context, &gates[g]);
        }
        free_pool(&p);
    }
}

/* A far-off mean does not spoil the variance: x = 1e6 + small. */
static void a_large_mean_is_harmless(void **state) {
    cst_context *context = *state;
    enum { ROWS = 3000 };
    static double x[ROWS * 2];
    static double y[ROWS];
    for (int i = 0; i < ROWS; i++) {
        x[2 * i] = 1e6 + (i % 7) * 0.125;
        x[2 * i + 1] = i % 5;
        y[i] = i % 3;
    }
    cst_moments moments;
    cst_standardised s;
    moments = moments_of_rows(context, ROWS, 2, x, y, NULL, 0);
    assert_int_equal(cst_standardise(context, &moments, -1, &s), CST_OK);
    double mean = 0;
    double square = 0;
    for (int i = 0; i < ROWS; i++)
        mean += (i % 7) * 0.125 / ROWS;
    for (int i = 0; i < ROWS; i++)
        square += ((i % 7) * 0.125 - mean) * ((i % 7) * 0.125 - mean) / ROWS;
    assert_relative(s.scale[0], sqrt(square), 1e-9, 0);
    cst_standardised_free(context, &s);
    cst_moments_free(context, &moments);
}

static void constant_columns_are_dropped(void **state) {
    cst_context *context = *state;
    random_pool p = make_pool(2, 50, 3, 3, 1);
    for (int i = 0; i < 150; i++)
        p.values[150 + i] = 1.0F / 3.0F; /* member 1 says nothing */
    cst_gate gate = {.mode = CST_GATE_NONE, .inputs = 3};
    cst_moments moments;
    cst_standardised s;
    assert_int_equal(cst_moments_compute(context, &p.view, &gate, NULL, 0, &moments), CST_OK);
    assert_int_equal(cst_standardise(context, &moments, -1, &s), CST_OK);
    assert_int_equal(s.kept, 2);
    assert_int_equal(s.index[0], 0);
    assert_int_equal(s.index[1], 2);
    cst_linear linear;
    assert_int_equal(cst_linear_fit(context, &s, CST_LINEAR_RIDGE, 0.1, 0, &linear), CST_OK);
    assert_true(linear.coefficients[1] == 0);
    assert_true(linear.coefficients[0] != 0);
    cst_linear_free(context, &linear);
    cst_standardised_free(context, &s);
    cst_moments_free(context, &moments);
    /* One member: sd and range are 0, mean and median equal to it. */
    cst_view one = p.view;
    one.members = 1;
    gate = (cst_gate){.mode = CST_GATE_PROTOTYPE, .inputs = 1};
    cst_notices_clear(context);
    assert_int_equal(cst_moments_compute(context, &one, &gate, NULL, 0, &moments), CST_OK);
    assert_int_equal(cst_standardise(context, &moments, -1, &s), CST_OK);
    assert_int_equal(s.kept, 3);
    cst_standardised_free(context, &s);
    cst_moments_free(context, &moments);
    free_pool(&p);
}

static void bad_input_is_refused(void **state) {
    cst_context *context = *state;
    random_pool p = make_pool(2, 10, 3, 3, 1);
    cst_gate gate = {.mode = CST_GATE_NONE, .inputs = 2};
    cst_moments moments;
    cst_standardised s;
    assert_int_equal(cst_moments_compute(context, &p.view, &gate, NULL, 0, &moments),
                     CST_ERROR_MISMATCH);
    gate.inputs = 3;
    int32_t folds[10] = {0, 1, 2, 0, 1, 2, 0, 3, 0, 0};
    assert_int_equal(cst_moments_compute(context, &p.view, &gate, folds, 3, &moments),
                     CST_ERROR_ARGUMENT);
    assert_non_null(strstr(cst_last_error(context), "fold 3 of row 7"));
    memset(folds, 0, sizeof folds);
    assert_int_equal(cst_moments_compute(context, &p.view, &gate, folds, 3, &moments), CST_OK);
    assert_int_equal(cst_standardise(context, &moments, 0, &s), CST_ERROR_INPUT);
    cst_moments_free(context, &moments);
    memset(p.values, 0, 90 * sizeof *p.values);
    assert_int_equal(cst_moments_compute(context, &p.view, &gate, NULL, 0, &moments), CST_OK);
    assert_int_equal(cst_standardise(context, &moments, -1, &s), CST_ERROR_INPUT);
    cst_moments_free(context, &moments);
    cst_view unlabelled = p.view;
    unlabelled.labels = NULL;
    assert_int_equal(cst_moments_compute(context, &unlabelled, &gate, NULL, 0, &moments),
                     CST_ERROR_INPUT);
    free_pool(&p);
}

int suite_moments(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(prototype_design_matches_numpy, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(learned_design_is_gate_times_aggregators, la_setup,
                                        la_teardown),
        cmocka_unit_test_setup_teardown(moments_match_direct_sums, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(ridge_on_the_design_matches_scikit_learn, la_setup,
                                        la_teardown),
        cmocka_unit_test_setup_teardown(bytes_do_not_depend_on_threads, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(a_fold_left_out_is_a_smaller_view, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(designs_of_one_pass_are_as_alone, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(a_large_mean_is_harmless, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(constant_columns_are_dropped, la_setup, la_teardown),
        cmocka_unit_test_setup_teardown(bad_input_is_refused, la_setup, la_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
