/*
 * Prediction on a pool: members by name, classes compared, splits with conditions, failing memory.
 */
#include "data/pool/pool.h"
#include "model_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "check.h"

enum { CELLS = MODEL_ROWS * MODEL_CLASSES, CONDITIONS = 3 };

static const char *const CLASSES[] = {"cat", "dog", "crane", "heron", "poisson rouge"};

/* Stack 0 of the fixture; members resnet50, vit-b/16, καλημέρα; classes as above. */
static cst_model *model_of(cst_context *context) {
    cst_model *model = build_stack(context, 0);
    model->class_names[3] = cst_take_text(context, &model->scope, CLASSES[3]);
    return model;
}

static void assert_fails(cst_context *context, const cst_model *model, cst_pool *pool,
                         const char *split, cst_status code, const char *fragment) {
    float *out = (float *)context;
    int64_t rows = 7;
    cst_status status = cst_model_predict_pool(context, model, pool, split, &out, &rows);
    if (status != code || !strstr(cst_last_error(context), fragment))
        fail_msg("expected %s with '%s', got %s: %s", cst_status_name(code), fragment,
                 cst_status_name(status), cst_last_error(context));
    assert_null(out);
    assert_int_equal(rows, 0);
}

/* What the stack gives for condition c of the split made below: members rotated by c. */
static void expected_of(cst_context *context, const cst_model *model, int c, float *out) {
    const float *members[MODEL_MEMBERS];
    for (int k = 0; k < MODEL_MEMBERS; k++)
        members[k] = model_input + (size_t)((k + c) % MODEL_MEMBERS) * CELLS;
    assert_int_equal(cst_model_predict(context, model, members, MODEL_ROWS, out), CST_OK);
}

static void assert_same(const float *got, const float *expected) {
    for (size_t i = 0; i < CELLS; i++)
        assert_true(got[i] - expected[i] < 1e-6F && expected[i] - got[i] < 1e-6F);
}

static void members_are_matched_by_name(void **state) {
    cst_context *context = *state;
    cst_model *model = model_of(context);
    const float *in = model_input;
    const float *data[] = {in + 2 * CELLS, in + CELLS, in + CELLS, in};
    const char *const names[] = {"καλημέρα", "another", "vit-b/16", "resnet50"};
    cst_pool *pool = NULL;
    assert_int_equal(cst_pool_from_memory(context, &pool, "test", data, names, 4, MODEL_ROWS,
                                          MODEL_CLASSES, NULL, CST_OUTPUT_PROBABILITY),
                     CST_OK);
    float expected[CELLS];
    float *out = NULL;
    int64_t rows = 0;
    expected_of(context, model, 0, expected);
    assert_int_equal(cst_model_predict_pool(context, model, pool, "test", &out, &rows), CST_OK);
    assert_int_equal(rows, MODEL_ROWS);
    assert_same(out, expected);
    cst_free(context, out);
    assert_fails(context, model, pool, "elsewhere", CST_ERROR_MISMATCH, "no split 'elsewhere'");
    assert_fails(context, model, pool, NULL, CST_ERROR_ARGUMENT, "split");
    cst_pool_free(context, pool);
    assert_int_equal(cst_pool_from_memory(context, &pool, "test", data, names, 3, MODEL_ROWS,
                                          MODEL_CLASSES, NULL, CST_OUTPUT_PROBABILITY),
                     CST_OK);
    assert_fails(context, model, pool, "test", CST_ERROR_MISMATCH, "needs member 'resnet50'");
    cst_pool_free(context, pool);
    cst_model_free(context, model);
}

static void the_number_of_classes_must_agree(void **state) {
    cst_context *context = *state;
    cst_model *model = model_of(context);
    static const float two[] = {0.25F, 0.75F};
    const float *data[] = {two, two, two};
    const char *const names[] = {"resnet50", "vit-b/16", "καλημέρα"};
    cst_pool *pool = NULL;
    assert_int_equal(cst_pool_from_memory(context, &pool, "test", data, names, 3, 1, 2, NULL,
                                          CST_OUTPUT_PROBABILITY),
                     CST_OK);
    assert_fails(context, model, pool, "test", CST_ERROR_MISMATCH,
                 "the model has 5 classes, but the pool has 2");
    cst_pool_free(context, pool);
    cst_model_free(context, model);
}

/* ---- a pool on disk ---- */

static void write_npy(const char *path, const char *type, const char *shape, const void *data,
                      size_t bytes) {
    char header[128];
    int length = snprintf(header, sizeof header,
                          "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type, shape);
    assert_in_range(length, 1, 117);
    memset(header + length, ' ', 117 - (size_t)length);
    header[117] = '\n';
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, file), 10);
    assert_int_equal(fwrite(header, 1, 118, file), 118);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static const char *const FILES[] = {"pool.json",   "labels.npy", "member0.npy", "member1.npy",
                                    "member2.npy", "test0.npy",  "test2.npy",   NULL};

static void pool_path(char *path, size_t size, const char *folder, const char *file) {
    assert_in_range(snprintf(path, size, "%s/%s", folder, file), 1, size - 1);
}

/* A pool with the split "corrupted" of three conditions, and "test" without member 1. */
static void write_pool(const char *folder, const char *const classes[MODEL_CLASSES]) {
    char path[256];
    char text[2048];
    int32_t labels[MODEL_ROWS];
    static float data[CONDITIONS * CELLS];
    for (int i = 0; i < MODEL_ROWS; i++)
        labels[i] = i % MODEL_CLASSES;
    assert_int_equal(mkdir(folder, 0700), 0);
    pool_path(path, sizeof path, folder, "labels.npy");
    write_npy(path, "<i4", "23,", labels, sizeof labels);
    for (int k = 0; k < MODEL_MEMBERS; k++) {
        for (int c = 0; c < CONDITIONS; c++)
            memcpy(data + (size_t)c * CELLS,
                   model_input + (size_t)((k + c) % MODEL_MEMBERS) * CELLS, CELLS * sizeof *data);
        pool_path(path, sizeof path, folder, FILES[2 + k]);
        write_npy(path, "<f4", "3, 23, 5", data, sizeof data);
    }
    pool_path(path, sizeof path, folder, "test0.npy");
    write_npy(path, "<f4", "23, 5", data, CELLS * sizeof *data);
    pool_path(path, sizeof path, folder, "test2.npy");
    write_npy(path, "<f4", "23, 5", data, CELLS * sizeof *data);
    int length = snprintf(
        text, sizeof text,
        "{\"corestack_pool\": 1, \"task\": \"classification\", \"output\": \"probability\",\n"
        "\"classes\": [\"%s\", \"%s\", \"%s\", \"%s\", \"%s\"],\n"
        "\"splits\": {\"corrupted\": {\"labels\": \"labels.npy\", \"conditions\": [\n"
        "{\"shift\": \"noise\", \"kind\": \"a\", \"severity\": 1},\n"
        "{\"shift\": \"noise\", \"kind\": \"a\", \"severity\": 2},\n"
        "{\"shift\": \"blur\", \"kind\": \"b\", \"severity\": 1}]},\n"
        "\"test\": {\"labels\": \"labels.npy\"}}, \"models\": [\n"
        "{\"name\": \"gone\", \"predictions\": {\"corrupted\": \"no-such-file.npy\"}},\n"
        "{\"name\": \"καλημέρα\", \"predictions\": {\"corrupted\": \"member2.npy\", \"test\": "
        "\"test2.npy\"}},\n"
        "{\"name\": \"resnet50\", \"predictions\": {\"corrupted\": \"member0.npy\", \"test\": "
        "\"test0.npy\"}},\n"
        "{\"name\": \"vit-b/16\", \"predictions\": {\"corrupted\": \"member1.npy\"}}]}\n",
        classes[0], classes[1], classes[2], classes[3], classes[4]);
    assert_in_range(length, 1, sizeof text - 1);
    pool_path(path, sizeof path, folder, "pool.json");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, (size_t)length, file), (size_t)length);
    assert_int_equal(fclose(file), 0);
}

static void remove_pool(const char *folder) {
    char path[256];
    for (int i = 0; FILES[i]; i++) {
        pool_path(path, sizeof path, folder, FILES[i]);
        assert_int_equal(remove(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

/* The member "gone" has no file: only what the model needs is read. */
static void conditions_follow_one_another(void **state) {
    cst_context *context = *state;
    const char *folder = "test_predict_pool_conditions";
    write_pool(folder, CLASSES);
    cst_model *model = model_of(context);
    cst_pool *pool = NULL;
    float *out = NULL;
    int64_t rows = 0;
    assert_int_equal(cst_pool_open(context, &pool, folder, NULL), CST_OK);
    if (cst_model_predict_pool(context, model, pool, "corrupted", &out, &rows) != CST_OK)
        fail_msg("%s", cst_last_error(context));
    assert_int_equal(rows, CONDITIONS * MODEL_ROWS);
    for (int c = 0; c < CONDITIONS; c++) {
        float expected[CELLS];
        expected_of(context, model, c, expected);
        assert_same(out + (size_t)c * CELLS, expected);
    }
    cst_free(context, out);
    assert_fails(context, model, pool, "test", CST_ERROR_MISMATCH,
                 "no predictions of it for split 'test'");
    assert_non_null(strstr(cst_last_error(context), "vit-b/16"));
    cst_pool_free(context, pool);
    cst_model_free(context, model);
    remove_pool(folder);
}

static void class_names_must_agree_in_order(void **state) {
    cst_context *context = *state;
    const char *folder = "test_predict_pool_classes";
    static const char *const swapped[] = {"cat", "crane", "dog", "heron", "poisson rouge"};
    write_pool(folder, swapped);
    cst_model *model = model_of(context);
    cst_pool *pool = NULL;
    assert_int_equal(cst_pool_open(context, &pool, folder, NULL), CST_OK);
    assert_fails(context, model, pool, "corrupted", CST_ERROR_MISMATCH,
                 "class 1 (counted from 0) is 'dog' in the model, but 'crane' in the pool");
    cst_pool_free(context, pool);
    cst_model_free(context, model);
    remove_pool(folder);
}

static void failing_allocations_leave_nothing_behind(void **state) {
    (void)state;
    const char *folder = "test_predict_pool_heap";
    write_pool(folder, CLASSES);
    flaky_heap heap = {.left = -1};
    cst_context *context = NULL;
    assert_int_equal(cst_context_create_with(&context, flaky_realloc, &heap), CST_OK);
    assert_int_equal(cst_context_set_threads(context, 1), CST_OK);
    cst_model *model = model_of(context);
    cst_pool *pool = NULL;
    long base = heap.live;
    int failures = 0;
    for (long n = 0;; n++, failures++) {
        float *out = NULL;
        int64_t rows = 0;
        assert_int_equal(cst_pool_open(context, &pool, folder, NULL), CST_OK);
        heap.left = n;
        cst_status status = cst_model_predict_pool(context, model, pool, "corrupted", &out, &rows);
        heap.left = -1;
        cst_free(context, out);
        cst_pool_free(context, pool);
        assert_int_equal(heap.live, base);
        if (status == CST_OK)
            break;
        assert_int_equal(status, CST_ERROR_MEMORY);
        assert_null(out);
    }
    assert_in_range(failures, 5, 1000);
    cst_model_free(context, model);
    cst_context_free(context);
    assert_int_equal(heap.live, 0);
    remove_pool(folder);
}

int suite_predict_pool(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_matched_by_name),
        cmocka_unit_test(the_number_of_classes_must_agree),
        cmocka_unit_test(conditions_follow_one_another),
        cmocka_unit_test(class_names_must_agree_in_order),
        cmocka_unit_test(failing_allocations_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, context_setup, context_teardown);
}
