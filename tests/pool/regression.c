/*
 * Pools of regressions: values and targets as they are in npy and CSV files, joined by id and by
 * the names of outputs; folds by the targets' ranks; everything that is refused.
 */
#include "io_files.h"

#include "data/pool/pool.h"
#include "pool_from_values.h"

#include <corestack/more.h>

#include <math.h>

enum { ROWS = 4, OUTPUTS = 2 };

static const float values[ROWS * OUTPUTS] = {1.5F, -2000, 0.25F, 17, -3, 0, 1e-20F, 5e20F};
static const double truth[ROWS * OUTPUTS] = {0.1, 1e300, -7, 3, 2, 1, 0, -1e-9};

static void put_f64(fixture *f, const char *name, const double *data, int rows, int columns) {
    char dict[128];
    (void)snprintf(dict, sizeof dict, "{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d)}",
                   rows, columns);
    put_npy(f, name, dict, data, (size_t)rows * (size_t)columns * sizeof *data);
}

static void put_pool(fixture *f, const char *head, const char *labels) {
    char text[1024];
    (void)snprintf(
        text, sizeof text,
        "{\"corestack_pool\": 1, \"task\": \"regression\", %s \"splits\": {\"oof\": {\"targets\": "
        "\"%s\"}}, \"models\": [{\"name\": \"a\", \"predictions\": {\"oof\": \"a.npy\"}}]}",
        head, labels);
    put_text(f, "pool.json", text);
    put_f32(f, "a.npy", values, ROWS, OUTPUTS);
    put_f64(f, "y.npy", truth, ROWS, OUTPUTS);
}

static cst_status load(fixture *f, cst_pool **pool) {
    *pool = NULL;
    cst_status status = cst_pool_open(f->context, pool, at(f, "pool.json"), NULL);
    return status == CST_OK ? cst_pool_load(f->context, *pool, "oof") : status;
}

static void expect_load_error(fixture *f, cst_status code, const char *a, const char *b) {
    cst_pool *pool = NULL;
    expect_error(f, load(f, &pool), code, a, b, NULL);
    cst_pool_free(f->context, pool);
}

static void values_pass_unchanged(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    cst_view view;
    put_pool(f, "", "y.npy");
    assert_int_equal(load(f, &pool), CST_OK);
    assert_int_equal(cst_pool_task(pool), CST_TASK_REGRESSION);
    assert_int_equal(cst_pool_classes(pool), OUTPUTS);
    assert_memory_equal(cst_pool_predictions(pool, "oof", 0), values, sizeof values);
    assert_memory_equal(cst_pool_targets(pool, "oof"), truth, sizeof truth);
    assert_null(cst_pool_labels(pool, "oof"));
    assert_int_equal(cst_pool_view(f->context, pool, "oof", &view), CST_OK);
    assert_true(cst_view_target(&view, 1)[1] == 3);
    cst_pool_free(f->context, pool);
}

/* One output: [rows] and [rows, 1] are the same, and integers do as well. */
static void one_output_is_a_vector(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    const int32_t counts[ROWS] = {3, 0, -2, 7};
    put_pool(f, "\"outputs\": 1,", "y.npy");
    put_i32(f, "y.npy", counts, ROWS);
    put_npy(f, "a.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}", values, 16);
    assert_int_equal(load(f, &pool), CST_OK);
    for (int i = 0; i < ROWS; i++)
        assert_true(cst_pool_targets(pool, "oof")[i] == counts[i]);
    assert_memory_equal(cst_pool_predictions(pool, "oof", 0), values, 16);
    cst_pool_free(f->context, pool);
}

/* Float64 files are rounded to float32; targets stay as they are. */
static void float64_is_read_to_float32(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    const double fine[ROWS * OUTPUTS] = {0.1, 0.2, 1.0 / 3, 1e10, 5, 6, 7, 8};
    put_pool(f, "", "y.npy");
    put_f64(f, "a.npy", fine, ROWS, OUTPUTS);
    assert_int_equal(load(f, &pool), CST_OK);
    for (int i = 0; i < ROWS * OUTPUTS; i++)
        assert_true(cst_pool_predictions(pool, "oof", 0)[i] == (float)fine[i]);
    cst_pool_free(f->context, pool);
}

/* Ids decide the order of rows, names that of columns. */
static void tables_are_joined_by_id_and_name(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    put_text(f, "pool.json",
             "{\"corestack_pool\": 1, \"task\": \"regression\", \"outputs\": [\"u\", \"v\"], "
             "\"splits\": {\"oof\": {\"labels\": \"y.csv\"}}, \"models\": [{\"name\": \"a\", "
             "\"predictions\": {\"oof\": \"a.csv\"}}]}");
    put_text(f, "y.csv", "id,v,u\np,10,1\nq,20,2\nr,30,3\n");
    put_text(f, "a.csv", "id,u,v\nr,3.5,30.5\np,1.5,10.5\nq,2.5,20.5\n");
    assert_int_equal(load(f, &pool), CST_OK);
    const double *y = cst_pool_targets(pool, "oof");
    const float *x = cst_pool_predictions(pool, "oof", 0);
    for (int i = 0; i < 3; i++) {
        assert_true(y[2 * i] == i + 1 && y[2 * i + 1] == 10 * (i + 1));
        assert_true(x[2 * i] == (float)(i + 1.5) && x[2 * i + 1] == (float)(10 * i + 10.5));
    }
    assert_string_equal(cst_pool_class_name(pool, 1), "v");
    cst_pool_free(f->context, pool);
    put_text(f, "y.csv", "id,v,w\np,10,1\nq,20,2\nr,30,3\n");
    expect_load_error(f, CST_ERROR_MISMATCH, "y.csv", "column 'w' does not name an output");
    put_text(f, "y.csv", "id,v,u\np,10,1\nq,20,2\ns,30,3\n");
    expect_load_error(f, CST_ERROR_MISMATCH, "a.csv", "'r'");
}

static void what_is_wrong_is_named(void **state) {
    fixture *f = *state;
    float bad[ROWS * OUTPUTS];
    double wrong[ROWS * OUTPUTS];
    put_pool(f, "", "y.npy");
    memcpy(bad, values, sizeof bad);
    bad[5] = NAN;
    put_f32(f, "a.npy", bad, ROWS, OUTPUTS);
    expect_load_error(f, CST_ERROR_INPUT, "a.npy", "row 2, column 1 is NaN");
    put_pool(f, "", "y.npy");
    memcpy(wrong, truth, sizeof wrong);
    wrong[6] = -INFINITY;
    put_f64(f, "y.npy", wrong, ROWS, OUTPUTS);
    expect_load_error(f, CST_ERROR_INPUT, "y.npy", "row 3, column 0 is -infinity");
    put_f64(f, "y.npy", truth, ROWS, 1);
    expect_load_error(f, CST_ERROR_MISMATCH, "y.npy", "1 outputs, but the predictions have 2");
    put_f64(f, "y.npy", truth, 3, OUTPUTS);
    expect_load_error(f, CST_ERROR_MISMATCH, "a.npy", "4 rows");
    put_pool(f, "\"outputs\": 3,", "y.npy");
    expect_load_error(f, CST_ERROR_MISMATCH, "y.npy", "2 outputs");
    put_pool(f, "\"classes\": 3,", "y.npy");
    expect_load_error(f, CST_ERROR_INPUT, "pool.json", "classes");
    put_pool(f, "", "y.npy");
    put_npy(f, "a.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 2)}", values, 32);
    expect_load_error(f, CST_ERROR_INPUT, "a.npy", "[rows] or [rows, outputs]");
    put_pool(f, "", "y.npy");
    put_npy(f, "y.npy", "{'descr': '|S2', 'fortran_order': False, 'shape': (4,)}", "a b c d ", 8);
    expect_load_error(f, CST_ERROR_INPUT, "y.npy", "numbers");
    const double large[2] = {1e39, 1};
    put_f64(f, "a.npy", large, 1, 2);
    put_f64(f, "y.npy", truth, 1, 2);
    expect_load_error(f, CST_ERROR_INPUT, "a.npy", "too large for float32; use");
}

/* Ten rows of each stretch of the ranks, in five folds: two or so in each. */
static void folds_spread_similar_targets(void **state) {
    fixture *f = *state;
    enum { N = 203, L = 5 };
    double y[N];
    int32_t folds[N];
    int32_t again[N];
    int64_t groups[N];
    int count[L] = {0};
    int part[21][L] = {{0}};
    cst_rng rng;
    cst_rng_init(&rng, 1, CST_STREAM_TEST, 0);
    for (int i = 0; i < N; i++) {
        y[i] = (i * 37) % N; /* the rank itself */
        groups[i] = i / 4;
    }
    assert_int_equal(cst_folds_quantile(f->context, y, 1, NULL, N, L, 3, folds), CST_OK);
    assert_int_equal(cst_folds_quantile(f->context, y, 1, NULL, N, L, 3, again), CST_OK);
    assert_memory_equal(folds, again, sizeof folds);
    for (int i = 0; i < N; i++) {
        count[folds[i]]++;
        part[(int)y[i] / 10][folds[i]]++;
    }
    for (int l = 0; l < L; l++) {
        assert_in_range(count[l], 40, 41);
        for (int b = 0; b < 20; b++)
            assert_int_equal(part[b][l], 2);
    }
    assert_int_equal(cst_folds_quantile(f->context, y, 1, groups, N, L, 3, folds), CST_OK);
    for (int i = 1; i < N; i++)
        assert_true(groups[i] != groups[i - 1] || folds[i] == folds[i - 1]);
    assert_int_equal(cst_folds_quantile(f->context, y, 1, NULL, 3, L, 3, folds), CST_ERROR_INPUT);
    assert_int_equal(cst_folds_quantile(f->context, y, 1, NULL, N, 1, 3, folds),
                     CST_ERROR_ARGUMENT);
}

static void pools_from_memory(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    const float *members[1] = {values};
    const char *names[1] = {"a"};
    assert_int_equal(
        pool_from_values(f->context, &pool, "oof", members, names, 1, ROWS, OUTPUTS, truth),
        CST_OK);
    assert_memory_equal(cst_pool_targets(pool, "oof"), truth, sizeof truth);
    assert_memory_equal(cst_pool_predictions(pool, "oof", 0), values, sizeof values);
    cst_pool_free(f->context, pool);
    double wrong[ROWS * OUTPUTS];
    memcpy(wrong, truth, sizeof wrong);
    wrong[3] = NAN;
    expect_error(
        f, pool_from_values(f->context, &pool, "oof", members, names, 1, ROWS, OUTPUTS, wrong),
        CST_ERROR_INPUT, "row 1, output 1", NULL);
}

int suite_regression(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values_pass_unchanged, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(one_output_is_a_vector, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(float64_is_read_to_float32, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(tables_are_joined_by_id_and_name, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_named, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(folds_spread_similar_targets, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(pools_from_memory, files_setup, files_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
