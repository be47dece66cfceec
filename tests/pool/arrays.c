/*
 * Pools from arrays in memory: every layout and type gives the numbers of float32 in C order, large
 * arrays are read where they lie, and bad ones are refused by name and row.
 */
#include "core/base.h"
#include "data/pool/pool.h"

#include <corestack/more.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* LARGE rows as float32 are more than CST_ARRAYS_COPIED, SMALL ones less. */
enum { CLASSES = 8, SMALL = 37, LARGE = (1 << 19) + 1 + SMALL };

/* Eighths that sum to 1, so float16 holds them and dividing by the sum changes nothing. */
static int value_at(int64_t row, int column) {
    int first = (int)(row % CLASSES);
    int second = (int)((row / 3 + 1 + row) % CLASSES);
    return (column == first ? 5 : 0) + (column == second ? 3 : 0);
}

/* n / 8 as float16, for n in 0..8. */
static uint16_t half_of(int n) {
    static const uint16_t bits[] = {0x0000, 0x3000, 0x3400, 0x3600, 0x3800,
                                    0x3900, 0x3a00, 0x3b00, 0x3c00};
    return bits[n];
}

static size_t item_of(cst_number type) {
    return type == CST_NUMBER_FLOAT64 ? 8 : type == CST_NUMBER_FLOAT16 ? 2 : 4;
}

static void put(unsigned char *at, cst_number type, int n) {
    double wide = n / 8.0;
    float narrow = (float)wide;
    uint16_t half = half_of(n);
    memcpy(at,
           type == CST_NUMBER_FLOAT64   ? (void *)&wide
           : type == CST_NUMBER_FLOAT16 ? (void *)&half
                                        : (void *)&narrow,
           item_of(type));
}

typedef enum layout { C_ORDER, FORTRAN, EVERY_SECOND, BACKWARDS, ODD_ADDRESS, LAYOUTS } layout;

/* The matrix of value_at as `type` in a layout; *storage is to be freed. */
static cst_array lay(cst_number type, layout how, int64_t rows, unsigned char **storage) {
    int64_t item = (int64_t)item_of(type);
    unsigned char *bytes = malloc((size_t)(2 * rows * CLASSES * item + item));
    assert_non_null(bytes);
    cst_array array = {
        .data = bytes, .type = type, .row_step = CLASSES * item, .column_step = item};
    if (how == FORTRAN) {
        array.row_step = item;
        array.column_step = rows * item;
    } else if (how == EVERY_SECOND) {
        array.row_step = 2 * CLASSES * item;
        array.column_step = 2 * item;
    } else if (how == BACKWARDS) {
        array.row_step = -CLASSES * item;
        array.data = bytes + (rows - 1) * CLASSES * item;
    } else if (how == ODD_ADDRESS)
        array.data = bytes + 1;
    for (int64_t i = 0; i < rows; i++)
        for (int c = 0; c < CLASSES; c++)
            put(bytes + ((const unsigned char *)array.data - bytes) + i * array.row_step +
                    c * array.column_step,
                type, value_at(i, c));
    *storage = bytes;
    return array;
}

static cst_pool_arrays describe(const cst_array *array, int64_t rows) {
    static const char *const names[] = {"m", "n", "o"};
    return (cst_pool_arrays){
        .members = 1, .rows = rows, .classes = CLASSES, .predictions = array, .names = names};
}

static void expect(cst_context *context, cst_status got, cst_status wanted, const char *part) {
    if (got != wanted || (part && !strstr(cst_last_error(context), part)))
        print_error("%s: %s\n", cst_status_name(got), cst_last_error(context));
    assert_int_equal(got, wanted);
    if (part)
        assert_non_null(strstr(cst_last_error(context), part));
}

static void expect_values(cst_context *context, const cst_pool *pool, int64_t rows) {
    static const int64_t starts[] = {0, 1, 4096, LARGE - SMALL};
    float out[SMALL * CLASSES];
    for (size_t s = 0; s < sizeof starts / sizeof starts[0]; s++) {
        if (starts[s] + SMALL > rows)
            continue;
        memset(out, 0xff, sizeof out);
        expect(context, cst_pool_read(context, pool, "oof", 0, starts[s], SMALL, out), CST_OK,
               NULL);
        for (int64_t i = 0; i < SMALL; i++)
            for (int c = 0; c < CLASSES; c++)
                assert_true(out[i * CLASSES + c] == (float)value_at(starts[s] + i, c) / 8);
    }
}

static void every_layout_and_type(void **state) {
    (void)state;
    cst_context *context = NULL;
    expect(NULL, cst_context_create(&context), CST_OK, NULL);
    for (int type = 0; type <= CST_NUMBER_FLOAT16; type++)
        for (int how = 0; how < LAYOUTS; how++)
            for (int large = 0; large < 2; large++) {
                int64_t rows = large ? LARGE : SMALL;
                unsigned char *storage = NULL;
                cst_pool *pool = NULL;
                cst_array array = lay((cst_number)type, (layout)how, rows, &storage);
                cst_pool_arrays arrays = describe(&array, rows);
                expect(context, cst_pool_from_arrays(context, &pool, &arrays), CST_OK, NULL);
                assert_int_equal(cst_pool_rows(pool, "oof"), rows);
                assert_int_equal(cst_pool_predictions(pool, "oof", 0) == NULL, large);
                expect_values(context, pool, rows);
                cst_pool_free(context, pool);
                free(storage);
            }
    cst_context_free(context);
}

/* An allocator that says how much was asked for at once. */
static void *counted(void *user, void *pointer, size_t bytes) {
    size_t *largest = user;
    if (bytes > *largest)
        *largest = bytes;
    if (bytes > 0)
        return realloc(pointer, bytes);
    free(pointer);
    return NULL;
}

static void large_arrays_are_not_copied(void **state) {
    (void)state;
    cst_context *context = NULL;
    cst_pool *pool = NULL;
    unsigned char *storage = NULL;
    size_t largest = 0;
    expect(NULL, cst_context_create_with(&context, counted, &largest), CST_OK, NULL);
    cst_array array = lay(CST_NUMBER_FLOAT32, C_ORDER, LARGE, &storage);
    cst_pool_arrays arrays = describe(&array, LARGE);
    expect(context, cst_pool_from_arrays(context, &pool, &arrays), CST_OK, NULL);
    assert_true(largest < (size_t)1 << 20);
    /* Where they lie: a change is seen. */
    float row[CLASSES] = {0, 0, 0, 0, 0, 0, 0, 1};
    float out[CLASSES];
    memcpy(storage, row, sizeof row);
    expect(context, cst_pool_read(context, pool, "oof", 0, 0, 1, out), CST_OK, NULL);
    assert_memory_equal(out, row, sizeof row);
    cst_pool_free(context, pool);
    cst_context_free(context);
    free(storage);
}

static void what_stands_beside_the_predictions(void **state) {
    (void)state;
    enum { ROWS = 4 };
    static const float p[] = {0.25f, 1, 0, 0.5f};
    static const int32_t labels[ROWS] = {1, 1, 0, 0};
    static const int64_t folds[ROWS] = {7, 3, 3, 90};
    static const int64_t groups[ROWS] = {-5, 8, 8, 1};
    static const double flops[] = {2e9};
    static const char *const names[] = {"m"};
    static const char *const classes[] = {"no", "yes"};
    cst_context *context = NULL;
    cst_pool *pool = NULL;
    expect(NULL, cst_context_create(&context), CST_OK, NULL);
    cst_array array = {.data = p, .row_step = sizeof *p, .column_step = 0};
    cst_pool_arrays arrays = {.split = "test",
                              .members = 1,
                              .rows = ROWS,
                              .classes = 2,
                              .columns = 1,
                              .predictions = &array,
                              .names = names,
                              .class_names = classes,
                              .flops = flops,
                              .labels = labels,
                              .folds = folds,
                              .groups = groups};
    expect(context, cst_pool_from_arrays(context, &pool, &arrays), CST_OK, NULL);
    const float *rows = cst_pool_predictions(pool, "test", 0);
    for (int i = 0; i < ROWS; i++)
        assert_true(rows[2 * i] == 1 - p[i] && rows[2 * i + 1] == p[i]);
    static const int32_t numbered[ROWS] = {1, 0, 0, 2};
    assert_memory_equal(cst_pool_labels(pool, "test"), labels, sizeof labels);
    assert_memory_equal(cst_pool_folds(pool, "test"), numbered, sizeof numbered);
    assert_memory_equal(cst_pool_groups(pool, "test"), groups, sizeof groups);
    assert_string_equal(cst_pool_class_name(pool, 1), "yes");
    assert_true(cst_pool_member_flops(pool, 0) == 2e9);
    cst_pool_free(context, pool);
    cst_context_free(context);
}

static void values_of_a_regression(void **state) {
    (void)state;
    static const double values[] = {1, -2, 30, 1e-3};
    static const double targets[] = {0.5, -1.5, 20, 4};
    static const char *const names[] = {"m"};
    cst_context *context = NULL;
    cst_pool *pool = NULL;
    expect(NULL, cst_context_create(&context), CST_OK, NULL);
    cst_array array = {.data = values,
                       .type = CST_NUMBER_FLOAT64,
                       .row_step = 2 * sizeof *values,
                       .column_step = sizeof *values};
    cst_pool_arrays arrays = {.task = CST_TASK_REGRESSION,
                              .members = 1,
                              .rows = 2,
                              .classes = 2,
                              .predictions = &array,
                              .names = names,
                              .targets = targets};
    expect(context, cst_pool_from_arrays(context, &pool, &arrays), CST_OK, NULL);
    assert_int_equal(cst_pool_task(pool), CST_TASK_REGRESSION);
    assert_memory_equal(cst_pool_targets(pool, "oof"), targets, sizeof targets);
    for (int i = 0; i < 4; i++)
        assert_true(cst_pool_predictions(pool, "oof", 0)[i] == (float)values[i]);
    cst_pool_free(context, pool);
    arrays.task = CST_TASK_DETECTION;
    expect(context, cst_pool_from_arrays(context, &pool, &arrays), CST_ERROR_UNSUPPORTED,
           "detection");
    assert_null(pool);
    cst_context_free(context);
}

static void what_is_wrong_is_named(void **state) {
    (void)state;
    cst_context *context = NULL;
    cst_pool *pool = NULL;
    unsigned char *storage = NULL;
    expect(NULL, cst_context_create(&context), CST_OK, NULL);
    cst_array array = lay(CST_NUMBER_FLOAT64, FORTRAN, LARGE, &storage);
    const cst_pool_arrays good = describe(&array, LARGE);
    cst_pool_arrays a = good;
    double *first = (double *)(void *)storage;
    first[LARGE - 2] = 3;
    expect(context, cst_pool_from_arrays(context, &pool, &a), CST_ERROR_INPUT,
           "m: row 524324 sums to");
    first[LARGE - 2] = NAN;
    expect(context, cst_pool_from_arrays(context, &pool, &a), CST_ERROR_INPUT,
           "m: row 524324, column 0 is NaN");
    first[LARGE - 2] = value_at(LARGE - 2, 0) / 8.0;
    a.output = CST_OUTPUT_LOGIT;
    expect(context, cst_pool_from_arrays(context, &pool, &a), CST_ERROR_INPUT,
           "if these are probabilities");
    static const int64_t folds[SMALL] = {0, 1, -4};
    static const int32_t labels[SMALL] = {0, 1, CLASSES};
    a = describe(&array, SMALL);
    a.folds = folds;
    expect(context, cst_pool_from_arrays(context, &pool, &a), CST_ERROR_INPUT, "row 2 is fold -4");
    a = describe(&array, SMALL);
    a.labels = labels;
    expect(context, cst_pool_from_arrays(context, &pool, &a), CST_ERROR_INPUT, "row 2 is label 8");
    a = describe(&array, SMALL);
    a.columns = 3;
    expect(context, cst_pool_from_arrays(context, &pool, &a), CST_ERROR_ARGUMENT, "3 columns");
    static const double costs[] = {-1, 1.1e30, INFINITY};
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        a = describe(&array, SMALL);
        a.flops = &costs[i];
        expect(context, cst_pool_from_arrays(context, &pool, &a), CST_ERROR_ARGUMENT,
               "flops[0] is");
    }
    static const char *const gap[CLASSES] = {"a", NULL};
    a = describe(&array, SMALL);
    a.class_names = gap;
    expect(context, cst_pool_from_arrays(context, &pool, &a), CST_ERROR_ARGUMENT, "class_names[1]");
    array.type = (cst_number)9;
    a = describe(&array, SMALL);
    expect(context, cst_pool_from_arrays(context, &pool, &a), CST_ERROR_ARGUMENT,
           "predictions[0] is of an unknown data type");
    assert_null(pool);
    cst_context_free(context);
    free(storage);
}

int suite_arrays(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_and_type),
        cmocka_unit_test(large_arrays_are_not_copied),
        cmocka_unit_test(what_stands_beside_the_predictions),
        cmocka_unit_test(values_of_a_regression),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
