/*
 * Pools whose predictions, labels and ids are tensors of a safetensors file: the numbers are those
 * of npy files, in memory and streamed from disk, and what cannot be meant is refused.
 */
#include "io_files.h"

#include "data/pool/pool.h"
#include "data/pool/view.h"

#include "tensor_file.h"

#include <corestack/files.h>
#include <corestack/safetensors.h>
#include <math.h>

enum { ROWS = 100000, CLASSES = 12, MEMBERS = 6, CELLS = ROWS * CLASSES };

static const size_t LITTLE = (size_t)64 << 20; /* 28.8 MB of predictions are more than 3/8 of it */
static const size_t MUCH = (size_t)4 << 30;
static const cst_dtype TYPES[MEMBERS] = {CST_DTYPE_F32,  CST_DTYPE_F16, CST_DTYPE_F64,
                                         CST_DTYPE_BF16, CST_DTYPE_F32, CST_DTYPE_F16};

static void fill(float *out, int member) {
    cst_rng rng;
    cst_rng_init(&rng, 5, CST_STREAM_TEST, (uint32_t)member);
    for (int i = 0; i < ROWS; i++) {
        float sum = 0;
        for (int c = 0; c < CLASSES; c++) {
            out[i * CLASSES + c] = (float)cst_rng_uniform(&rng) + 0.01F;
            sum += out[i * CLASSES + c];
        }
        for (int c = 0; c < CLASSES; c++)
            out[i * CLASSES + c] /= sum;
    }
}

/* One file with everything, and an npy for each member as it comes back from there. */
static void put_files(fixture *f) {
    static const int64_t shape[2] = {ROWS, CLASSES};
    tensor_file *w = NULL;
    cst_safetensors *file = NULL;
    char name[32];
    float *values = malloc(CELLS * sizeof *values);
    unsigned char *labels = malloc(ROWS);
    int64_t *ids = malloc(ROWS * sizeof *ids);
    assert_true(values && labels && ids);
    for (int i = 0; i < ROWS; i++) {
        labels[i] = (unsigned char)(i % CLASSES);
        ids[i] = i * INT64_C(7) % ROWS;
    }
    w = tensor_file_new();
    /* An odd byte first: nothing that follows is aligned. */
    (void)tensor_file_add(w, "odd", CST_DTYPE_U8, NULL, 0);
    for (int k = 0; k < MEMBERS; k++) {
        (void)snprintf(name, sizeof name, "net/m%d", k);
        (void)tensor_file_add(w, name, TYPES[k], shape, 2);
    }
    (void)tensor_file_add(w, "y", CST_DTYPE_U8, shape, 1);
    (void)tensor_file_add(w, "ids", CST_DTYPE_I64, shape, 1);
    tensor_file_bytes(w, (int)(0), "x", 1);
    for (int k = 0; k < MEMBERS; k++) {
        fill(values, k);
        tensor_file_floats(w, (int)(1 + k), values, CELLS);
    }
    tensor_file_bytes(w, (int)(MEMBERS + 1), labels, ROWS);
    tensor_file_bytes(w, (int)(MEMBERS + 2), ids, ROWS * 8);
    tensor_file_write(w, at(f, "all.safetensors"));
    expect_ok(f, cst_safetensors_open(f->context, &file, at(f, "all.safetensors")));
    for (int k = 0; k < MEMBERS; k++) {
        expect_ok(f, cst_safetensors_read_f32(f->context, file, 1 + k, 0, CELLS, values));
        if (TYPES[k] == CST_DTYPE_BF16) /* else refused: these sums are off by more than 1e-3 */
            for (int i = 0; i < ROWS; i++) {
                double sum = 0;
                for (int c = 0; c < CLASSES; c++)
                    sum += (double)values[i * CLASSES + c];
                for (int c = 0; c < CLASSES; c++)
                    values[i * CLASSES + c] = (float)((double)values[i * CLASSES + c] * (1 / sum));
            }
        (void)snprintf(name, sizeof name, "m%d.npy", k);
        put_f32(f, name, values, ROWS, CLASSES);
    }
    cst_safetensors_close(f->context, file);
    put_npy(f, "y.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (100000,)}", labels,
            ROWS);
    free(values);
    free(labels);
    free(ids);
}

static cst_pool *load(fixture *f, const char *manifest, size_t memory, cst_view *view) {
    cst_pool *pool = NULL;
    put_text(f, "pool.json", manifest);
    expect_ok(f, cst_context_set_memory(f->context, memory));
    expect_ok(f, cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL));
    expect_ok(f, cst_pool_load(f->context, pool, "oof"));
    expect_ok(f, cst_pool_view(f->context, pool, "oof", view));
    return pool;
}

static const char TENSORS[] =
    "{\"corestack_pool\": 1, \"classes\": 12, \"output\": \"probability\", \"splits\": {\"oof\": "
    "{\"labels\": \"all.safetensors#y\"}}, \"models\": ["
    "{\"name\": \"0\", \"predictions\": {\"oof\": \"all.safetensors#net/m0\"}},"
    "{\"name\": \"1\", \"predictions\": {\"oof\": \"all.safetensors:net/m1\"}},"
    "{\"name\": \"2\", \"predictions\": {\"oof\": \"all.safetensors#net/m2\"}},"
    "{\"name\": \"3\", \"predictions\": {\"oof\": \"all.safetensors#net/m3\"}},"
    "{\"name\": \"4\", \"predictions\": {\"oof\": \"all.safetensors#net/m4\"}},"
    "{\"name\": \"5\", \"predictions\": {\"oof\": \"all.safetensors#net/m5\"}}]}";
static const char ARRAYS[] =
    "{\"corestack_pool\": 1, \"classes\": 12, \"output\": \"probability\", \"splits\": {\"oof\": "
    "{\"labels\": \"y.npy\"}}, \"models\": ["
    "{\"name\": \"0\", \"predictions\": {\"oof\": \"m0.npy\"}},"
    "{\"name\": \"1\", \"predictions\": {\"oof\": \"m1.npy\"}},"
    "{\"name\": \"2\", \"predictions\": {\"oof\": \"m2.npy\"}},"
    "{\"name\": \"3\", \"predictions\": {\"oof\": \"m3.npy\"}},"
    "{\"name\": \"4\", \"predictions\": {\"oof\": \"m4.npy\"}},"
    "{\"name\": \"5\", \"predictions\": {\"oof\": \"m5.npy\"}}]}";

static void tensors_are_arrays(void **state) {
    fixture *f = *state;
    enum { PART = 1000 };
    float *scratch = malloc(3 * (size_t)PART * CLASSES * sizeof *scratch);
    cst_view views[3];
    assert_non_null(scratch);
    put_files(f);
    cst_pool *pools[3] = {load(f, ARRAYS, MUCH, &views[0]), load(f, TENSORS, MUCH, &views[1]),
                          load(f, TENSORS, LITTLE, &views[2])};
    assert_null(views[1].store);
    assert_non_null(views[2].store);
    for (int64_t row = 0; row < ROWS; row++)
        assert_int_equal(cst_view_label(&views[1], row), cst_view_label(&views[0], row));
    for (int32_t k = 0; k < MEMBERS; k++)
        for (int64_t first = 0; first < ROWS; first += PART) {
            const float *rows[3];
            for (int v = 0; v < 3; v++)
                expect_ok(f, cst_view_rows(f->context, &views[v], k, first, PART,
                                           scratch + (size_t)(v * PART * CLASSES), &rows[v]));
            assert_memory_equal(rows[1], rows[2], PART * CLASSES * sizeof **rows);
            /* F64 was rounded once more on its way into an npy of float32. */
            for (int i = 0; i < PART * CLASSES; i++)
                assert_true(fabsf(rows[0][i] - rows[1][i]) <=
                            (TYPES[k] == CST_DTYPE_F32 || TYPES[k] == CST_DTYPE_F16
                                 ? 0
                                 : 2 * 0x1p-24F * rows[0][i]));
        }
    for (int v = 0; v < 3; v++)
        cst_pool_free(f->context, pools[v]);
    free(scratch);
}

static void lists_of_tensors(void **state) {
    fixture *f = *state;
    char first[512];
    char second[512];
    cst_pool *pool = NULL;
    put_files(f);
    (void)snprintf(first, sizeof first, "%s", at(f, "all.safetensors#net/m0"));
    (void)snprintf(second, sizeof second, "%s", at(f, "all.safetensors#net/m4"));
    expect_ok(
        f, cst_pool_open_files(f->context, &pool, (const char *const[2]){first, second}, 2, NULL));
    assert_string_equal(cst_pool_member_name(pool, 0), "m0");
    assert_string_equal(cst_pool_member_name(pool, 1), "m4");
    expect_ok(f, cst_pool_load(f->context, pool, "oof"));
    assert_int_equal(cst_pool_rows(pool, "oof"), ROWS);
    cst_pool_free(f->context, pool);

    int32_t *labels = NULL;
    int64_t *groups = NULL;
    int64_t rows = 0;
    expect_ok(f, cst_read_labels(f->context, at(f, "all.safetensors#y"), &labels, &rows));
    assert_int_equal(rows, ROWS);
    assert_int_equal(labels[CLASSES + 1], 1);
    cst_free(f->context, labels);
    expect_ok(f, cst_read_groups(f->context, at(f, "all.safetensors#ids"), &groups, &rows));
    assert_int_equal(groups[3], 21);
    cst_free(f->context, groups);
    expect_error(f, cst_read_labels(f->context, at(f, "all.safetensors"), &labels, &rows),
                 CST_ERROR_INPUT, "has 9 tensors (odd, net/m0", "y, ...)", NULL);
}

static void what_is_refused(void **state) {
    fixture *f = *state;
    tensor_file *w = NULL;
    int32_t *labels = NULL;
    int64_t rows = 0;
    static const int64_t long_shape[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    w = tensor_file_new();
    tensor_file_write(w, at(f, "e.safetensors"));
    expect_error(f, cst_read_labels(f->context, at(f, "e.safetensors"), &labels, &rows),
                 CST_ERROR_INPUT, "e.safetensors", "no tensors", NULL);
    w = tensor_file_new();
    (void)tensor_file_add(w, "eight", CST_DTYPE_F8_E4M3, long_shape, 1);
    (void)tensor_file_add(w, "deep", CST_DTYPE_U8, long_shape, 9);
    (void)tensor_file_add(w, "half", CST_DTYPE_BF16, long_shape, 1);
    tensor_file_bytes(w, (int)(0), "a", 1);
    tensor_file_bytes(w, (int)(1), "a", 1);
    tensor_file_floats(w, (int)(2), (const float[1]){0.5F}, 1);
    tensor_file_write(w, at(f, "b.safetensors"));
    expect_error(f, cst_read_labels(f->context, at(f, "b.safetensors#eight"), &labels, &rows),
                 CST_ERROR_UNSUPPORTED, "b.safetensors#eight", "F8_E4M3", NULL);
    expect_error(f, cst_read_labels(f->context, at(f, "b.safetensors#deep"), &labels, &rows),
                 CST_ERROR_UNSUPPORTED, "b.safetensors#deep", "9 axes", NULL);
    expect_error(f, cst_read_labels(f->context, at(f, "b.safetensors#half"), &labels, &rows),
                 CST_ERROR_INPUT, "row 0 is 0.5", NULL);
    expect_error(f, cst_read_labels(f->context, at(f, "b.safetensors#no"), &labels, &rows),
                 CST_ERROR_INPUT, "has no tensor 'no'; it holds eight, deep, half", NULL);
    expect_error(f, cst_read_labels(f->context, at(f, "c.safetensors#no"), &labels, &rows),
                 CST_ERROR_IO, "c.safetensors: cannot open the file", NULL);
    /* A file of scalars alone has no lengths of axes. */
    w = tensor_file_new();
    (void)tensor_file_add(w, "a", CST_DTYPE_I32, NULL, 0);
    tensor_file_bytes(w, (int)(0), "abcd", 4);
    tensor_file_write(w, at(f, "s.safetensors"));
    expect_error(f, cst_read_labels(f->context, at(f, "s.safetensors"), &labels, &rows),
                 CST_ERROR_INPUT, "s.safetensors", NULL);
    put_text(f, "t.safetensors", "id,label\n0,1\n");
    expect_error(f, cst_read_labels(f->context, at(f, "t.safetensors"), &labels, &rows),
                 CST_ERROR_LIMIT, "is it a safetensors file?", NULL);
}

int suite_safetensors(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tensors_are_arrays, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(lists_of_tensors, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(what_is_refused, files_setup, files_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
