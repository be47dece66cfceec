/*
 * Pools larger than their share of the memory budget: rows read from disk are those that would be
 * in memory, whatever the file is like; bad files are found when the split is loaded, and files
 * that change later when they are read.
 */
#include "io_files.h"

#include "core/context.h"
#include "data/pool/pool.h"
#include "data/pool/state.h"
#include "data/pool/view.h"

#include <corestack/fit.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

enum { ROWS = 100000, CLASSES = 12, MEMBERS = 6, CELLS = ROWS * CLASSES };

static const size_t LITTLE = (size_t)64 << 20; /* 28.8 MB of predictions are more than 3/8 of it */
static const size_t MUCH = (size_t)4 << 30;

/* Values of a member in float32, each row a distribution or scores of any size. */
static void fill(float *out, int member, bool logits) {
    cst_rng rng;
    cst_rng_init(&rng, 3, CST_STREAM_TEST, (uint32_t)member);
    for (int i = 0; i < ROWS; i++) {
        float sum = 0;
        for (int c = 0; c < CLASSES; c++) {
            out[i * CLASSES + c] = (float)cst_rng_uniform(&rng) + 0.01F;
            sum += out[i * CLASSES + c];
        }
        for (int c = 0; c < CLASSES; c++)
            out[i * CLASSES + c] =
                logits ? 8 * out[i * CLASSES + c] - 4 : out[i * CLASSES + c] / sum;
    }
}

/* A float in [0, 1) as IEEE half, rounded towards zero. */
static uint16_t half_of(float value) {
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    int exponent = (int)(bits >> 23) - 127;
    if (exponent < -14)
        return 0;
    return (uint16_t)((uint32_t)(exponent + 15) << 10 | (bits >> 13 & 0x3ff));
}

/* One file for each way there is to save the numbers; e's rows are turned round, with ids. */
static void put_members(fixture *f, bool logits) {
    float *values = malloc(CELLS * sizeof *values);
    double *doubles = malloc(CELLS * sizeof *doubles);
    int32_t *ids = malloc(ROWS * sizeof *ids);
    uint16_t *halves = malloc(CELLS * sizeof *halves);
    assert_true(values && doubles && ids && halves);
    float *other = (void *)doubles;
    fill(values, 0, logits);
    put_f32(f, "a.npy", values, ROWS, CLASSES);
    fill(values, 1, logits);
    for (int i = 0; i < CELLS; i++)
        halves[i] = half_of(logits ? fabsf(values[i]) / 8 : values[i]);
    put_npy(f, "b.npy", "{'descr': '<f2', 'fortran_order': False, 'shape': (100000, 12)}", halves,
            CELLS * sizeof *halves);
    fill(values, 2, logits);
    for (int i = 0; i < CELLS; i++)
        doubles[i] = (double)values[i];
    put_npy(f, "c.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (100000, 12)}", doubles,
            CELLS * sizeof *doubles);
    fill(values, 3, logits);
    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < CLASSES; c++)
            other[c * ROWS + i] = values[i * CLASSES + c];
    put_npy(f, "d.npy", "{'descr': '<f4', 'fortran_order': True, 'shape': (100000, 12)}", other,
            CELLS * sizeof *other);
    fill(values, 4, logits);
    for (int i = 0; i < ROWS; i++)
        memcpy(other + (size_t)(ROWS - 1 - i) * CLASSES, values + (size_t)i * CLASSES,
               CLASSES * sizeof *other);
    put_f32(f, "e.npy", other, ROWS, CLASSES);
    for (int i = 0; i < ROWS; i++)
        ids[i] = ROWS - 1 - i;
    put_i32(f, "e.ids.npy", ids, ROWS);
    fill(values, 5, logits);
    for (int i = 0; i < CELLS; i++) {
        uint32_t bits = 0;
        memcpy(&bits, &values[i], sizeof bits);
        bits = __builtin_bswap32(bits);
        memcpy(&other[i], &bits, sizeof bits);
    }
    put_npy(f, "f.npy", "{'descr': '>f4', 'fortran_order': False, 'shape': (100000, 12)}", other,
            CELLS * sizeof *other);
    for (int i = 0; i < ROWS; i++)
        ids[i] = i % CLASSES;
    put_i32(f, "y.npy", ids, ROWS);
    for (int i = 0; i < ROWS; i++)
        ids[i] = i;
    put_i32(f, "ids.npy", ids, ROWS);
    free(values);
    free(doubles);
    free(ids);
    free(halves);
}

static void put_pool(fixture *f, bool logits) {
    char text[2048];
    (void)snprintf(
        text, sizeof text,
        "{\"corestack_pool\": 1, \"classes\": 12, \"output\": \"%s\", \"splits\": {\"oof\": "
        "{\"labels\": \"y.npy\", \"ids\": \"ids.npy\"}}, \"models\": ["
        "{\"name\": \"a\", \"predictions\": {\"oof\": \"a.npy\"}}, "
        "{\"name\": \"b\", \"predictions\": {\"oof\": \"b.npy\"}}, "
        "{\"name\": \"c\", \"predictions\": {\"oof\": \"c.npy\"}}, "
        "{\"name\": \"d\", \"predictions\": {\"oof\": \"d.npy\"}}, "
        "{\"name\": \"e\", \"predictions\": {\"oof\": {\"path\": \"e.npy\", \"ids\": "
        "\"e.ids.npy\"}}}, "
        "{\"name\": \"f\", \"predictions\": {\"oof\": \"f.npy\"}}]}",
        logits ? "logit" : "probability");
    put_text(f, "pool.json", text);
    put_members(f, logits);
}

static cst_pool *load(fixture *f, size_t memory, cst_view *view) {
    cst_pool *pool = NULL;
    expect_ok(f, cst_context_set_memory(f->context, memory));
    expect_ok(f, cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL));
    expect_ok(f, cst_pool_load(f->context, pool, "oof"));
    expect_ok(f, cst_pool_view(f->context, pool, "oof", view));
    return pool;
}

static void expect_rows(fixture *f, const cst_view *a, const cst_view *b, int32_t member,
                        int64_t first, int64_t count) {
    float *scratch = malloc(2 * (size_t)count * CLASSES * sizeof *scratch);
    const float *x = NULL;
    const float *y = NULL;
    assert_non_null(scratch);
    expect_ok(f, cst_view_rows(f->context, a, member, first, count, scratch, &x));
    expect_ok(f, cst_view_rows(f->context, b, member, first, count,
                               scratch + (size_t)count * CLASSES, &y));
    assert_memory_equal(x, y, (size_t)count * CLASSES * sizeof *x);
    free(scratch);
}

/* Also where a member is given what others say of a class. */
static void expect_taught(fixture *f, cst_pool *first, cst_pool *second, const cst_view *memory,
                          const cst_view *disk) {
    enum { FOLDS = 5 };
    static int32_t folds[ROWS];
    static uint8_t lacks[MEMBERS * FOLDS * CLASSES];
    float before[FOLDS * CLASSES];
    float after[FOLDS * CLASSES];
    float others = 0;
    for (int32_t i = 0; i < ROWS; i++)
        folds[i] = i % FOLDS;
    lacks[(0 * FOLDS + 1) * CLASSES + 2] = 1;
    lacks[(4 * FOLDS + 3) * CLASSES + 0] = 1;
    expect_ok(f, cst_pool_read(f->context, first, "oof", 0, 0, FOLDS, before));
    expect_ok(f, cst_pool_teach(f->context, first, "oof", folds, FOLDS, lacks));
    expect_ok(f, cst_pool_teach(f->context, second, "oof", folds, FOLDS, lacks));
    expect_ok(f, cst_pool_read(f->context, first, "oof", 0, 0, FOLDS, after));
    for (int32_t k = 1; k < MEMBERS; k++) {
        float row[CLASSES];
        expect_ok(f, cst_pool_read(f->context, first, "oof", k, 1, 1, row));
        others += row[2] / (MEMBERS - 1);
    }
    assert_float_equal(after[CLASSES + 2], others, 1e-6F);
    for (int i = 0; i < FOLDS * CLASSES; i++) {
        float scale = (1 - others) / (1 - before[CLASSES + 2]);
        if (i != CLASSES + 2)
            assert_float_equal(after[i], before[i] * (i / CLASSES == 1 ? scale : 1), 1e-6F);
    }
    for (int32_t k = 0; k < MEMBERS; k += 4)
        for (int64_t row = 0; row < ROWS; row += 9973)
            expect_rows(f, memory, disk, k, row, ROWS - row < 600 ? ROWS - row : 600);
}

static void rows_are_the_same(fixture *f, bool logits) {
    static const int64_t scattered[] = {0, 1, 2, 700, 701, 49999, 50000, 99998, 99999};
    enum { SCATTERED = sizeof scattered / sizeof scattered[0] };
    float near[SCATTERED * CLASSES];
    float far[SCATTERED * CLASSES];
    cst_view memory;
    cst_view disk;
    put_pool(f, logits);
    cst_pool *first = load(f, MUCH, &memory);
    cst_pool *second = load(f, LITTLE, &disk);
    assert_null(memory.store);
    assert_non_null(disk.store);
    assert_true(cst_view_copies(&disk) && !cst_view_copies(&memory));
    for (int32_t k = 0; k < MEMBERS; k++) {
        assert_non_null(cst_pool_predictions(first, "oof", k));
        assert_null(cst_pool_predictions(second, "oof", k));
        for (int64_t row = 0; row < ROWS; row += 9973)
            expect_rows(f, &memory, &disk, k, row, ROWS - row < 600 ? ROWS - row : 600);
        expect_ok(f, cst_view_gather(f->context, &memory, k, scattered, SCATTERED, near));
        expect_ok(f, cst_view_gather(f->context, &disk, k, scattered, SCATTERED, far));
        assert_memory_equal(near, far, sizeof near);
        expect_ok(f, cst_pool_read(f->context, first, "oof", k, 31, SCATTERED, near));
        expect_ok(f, cst_pool_read(f->context, second, "oof", k, 31, SCATTERED, far));
        assert_memory_equal(near, far, sizeof near);
        cst_view a = memory;
        cst_view b = disk;
        a.index = b.index = scattered;
        a.rows = b.rows = SCATTERED;
        expect_rows(f, &a, &b, k, 0, SCATTERED);
        expect_rows(f, &a, &b, k, 3, 2);
        static const int64_t positions[] = {1, 4, 8};
        expect_ok(f, cst_view_gather(f->context, &a, k, positions, 3, near));
        expect_ok(f, cst_view_gather(f->context, &b, k, positions, 3, far));
        assert_memory_equal(near, far, 3 * CLASSES * sizeof *near);
    }
    static const int32_t some[] = {4, 1};
    const float *pointers[2];
    const float *found = NULL;
    const float *again = NULL;
    cst_view part = cst_view_members(&disk, some, 2, pointers);
    cst_view alone = cst_view_members(&memory, some + 1, 1, (const float *[1]){NULL});
    expect_ok(f, cst_view_rows(f->context, &part, 1, 5, 7, near, &found));
    expect_ok(f, cst_view_rows(f->context, &alone, 0, 5, 7, far, &again));
    assert_memory_equal(found, again, 7 * CLASSES * sizeof *found);
    expect_error(f, cst_pool_read(f->context, second, "oof", 0, ROWS - 1, 2, near),
                 CST_ERROR_ARGUMENT, "rows", NULL);
    expect_error(f, cst_pool_read(f->context, second, "oof", MEMBERS, 0, 1, near),
                 CST_ERROR_ARGUMENT, "not loaded", NULL);
    cst_report *reports[2] = {NULL, NULL};
    char *texts[2] = {NULL, NULL};
    expect_ok(f, cst_evaluate_member(f->context, first, "oof", 1, NULL, 50, 1, &reports[0]));
    expect_ok(f, cst_evaluate_member(f->context, second, "oof", 1, NULL, 50, 1, &reports[1]));
    for (int i = 0; i < 2; i++)
        expect_ok(f, cst_report_json(f->context, reports[i], &texts[i]));
    assert_string_equal(texts[0], texts[1]);
    expect_taught(f, first, second, &memory, &disk);
    for (int i = 0; i < 2; i++) {
        cst_report_free(f->context, reports[i]);
        cst_free(f->context, texts[i]);
    }
    cst_pool_free(f->context, first);
    cst_pool_free(f->context, second);
}

static void probabilities_on_disk_are_those_in_memory(void **state) {
    rows_are_the_same(*state, false);
}

static void logits_on_disk_are_those_in_memory(void **state) {
    rows_are_the_same(*state, true);
}

/* A row that is no distribution is found at loading, by the same words, wherever the rows go. */
static void a_bad_row_is_found_at_loading(void **state) {
    fixture *f = *state;
    put_pool(f, false);
    int fd = open(at(f, "a.npy"), O_WRONLY);
    const float bad = 3;
    struct stat info;
    assert_true(fd >= 0 && fstat(fd, &info) == 0);
    off_t row = info.st_size - (off_t)(20 * CLASSES * sizeof(float));
    assert_int_equal(pwrite(fd, &bad, sizeof bad, row), sizeof bad);
    assert_int_equal(close(fd), 0);
    for (int little = 0; little < 2; little++) {
        cst_pool *pool = NULL;
        expect_ok(f, cst_context_set_memory(f->context, little ? LITTLE : MUCH));
        expect_ok(f, cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL));
        expect_error(f, cst_pool_load(f->context, pool, "oof"), CST_ERROR_INPUT, "a.npy",
                     "row 99980", "correct this row", NULL);
        assert_int_equal(cst_pool_rows(pool, "oof"), -1);
        cst_pool_free(f->context, pool);
    }
}

static void a_file_that_shrinks_later_is_an_error(void **state) {
    fixture *f = *state;
    float rows[10 * CLASSES];
    const float *found = NULL;
    cst_view disk;
    put_pool(f, false);
    cst_pool *pool = load(f, LITTLE, &disk);
    assert_int_equal(truncate(at(f, "a.npy"), 4096), 0);
    expect_error(f, cst_view_rows(f->context, &disk, 0, 0, 10, rows, &found), CST_ERROR_IO, "a.npy",
                 "changed while it was being read", NULL);
    expect_error(f, cst_view_rows(f->context, &disk, 0, 5000, 10, rows, &found), CST_ERROR_IO,
                 "a.npy", "change in the meantime?", NULL);
    cst_pool_free(f->context, pool);
}

static void no_room_for_a_copy_is_an_error(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    put_pool(f, false);
    char *before = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;
    assert_int_equal(setenv("TMPDIR", at(f, "nowhere"), 1), 0);
    expect_ok(f, cst_context_set_memory(f->context, LITTLE));
    expect_ok(f, cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL));
    expect_error(f, cst_pool_load(f->context, pool, "oof"), CST_ERROR_IO, "nowhere", "TMPDIR",
                 NULL);
    cst_pool_free(f->context, pool);
    assert_int_equal(before ? setenv("TMPDIR", before, 1) : unsetenv("TMPDIR"), 0);
    free(before);
}

/* ---- large arrays ---- */

/* Beyond half of the budget arrays are mapped: zero, writable, freed in any order. */
static void large_arrays_go_to_files(void **state) {
    fixture *f = *state;
    enum { ARRAYS = 6 };
    const size_t bytes = CST_LARGE_BYTES;
    unsigned char *arrays[ARRAYS];
    expect_ok(f, cst_context_set_memory(f->context, LITTLE));
    for (int i = 0; i < ARRAYS; i++) {
        arrays[i] = cst_alloc(f->context, bytes, 1);
        assert_non_null(arrays[i]);
        assert_int_equal((uintptr_t)arrays[i] % 64, 0);
        for (size_t j = 0; j < bytes; j += 4096)
            assert_int_equal(arrays[i][j], 0);
        memset(arrays[i], i + 1, bytes);
    }
    /* Whoever asks whether to stop keeps to the budget, readers too. */
    f->context->large.next_look = 0;
    expect_ok(f, cst_poll(f->context));
    assert_true(f->context->large.next_look > 0);
    f->context->large.next_look = 0;
    expect_ok(f, cst_poll_reading(f->context));
    assert_true(f->context->large.next_look > 0);
    for (int i = 0; i < ARRAYS; i++)
        for (size_t j = 0; j < bytes; j += 997)
            assert_int_equal(arrays[i][j], i + 1);
    arrays[4] = cst_grow(f->context, arrays[4], bytes, 2 * bytes, 1);
    assert_non_null(arrays[4]);
    assert_int_equal(arrays[4][bytes - 1], 5);
    static const int order[ARRAYS] = {3, 0, 5, 4, 1, 2};
    for (int i = 0; i < ARRAYS; i++)
        cst_free(f->context, arrays[order[i]]);
    expect_error(f, cst_context_set_memory(f->context, 1), CST_ERROR_ARGUMENT, "64 MiB", NULL);
    expect_ok(f, cst_context_set_memory(f->context, 0));
    assert_true(cst_context_memory(f->context) >= LITTLE);
}

/* Rows together and one by one: the same bytes, the same count, and the row that is wrong. */
static void rows_together_are_rows_alone(void **state) {
    enum { MOST = 11, WIDEST = 37 };
    cst_context *context = ((fixture *)*state)->context;
    float rows[MOST * WIDEST];
    float alone[MOST * WIDEST];
    float together[MOST * WIDEST];
    double wide[WIDEST];
    cst_rng rng;
    cst_rng_init(&rng, 3, CST_STREAM_TEST, 0);
    for (int32_t width = 2; width <= WIDEST; width++) {
        int bad = width % (MOST + 1); /* MOST: none */
        for (int i = 0; i < MOST; i++) {
            float sum = 0;
            for (int c = 0; c < width; c++)
                sum += rows[i * width + c] = (float)cst_rng_uniform(&rng) + 1e-3F;
            for (int c = 0; c < width; c++)
                rows[i * width + c] /= sum;
        }
        rows[width + 1] += rows[width];
        rows[width] = -1e-7F; /* is clipped */
        if (bad < MOST)
            rows[bad * width + width - 1] += width % 2 ? 0.5F : NAN;
        cst_convert c[2] = {{.where = "m", .classes = width, .width = width}};
        c[1] = c[0];
        cst_status status = CST_OK;
        for (int i = 0; status == CST_OK && i < MOST; i++)
            status = cst_convert_row_f32(context, &c[0], 100, i, rows + i * width, wide,
                                         alone + i * width);
        assert_int_equal(status, bad < MOST ? CST_ERROR_INPUT : CST_OK);
        char message[512];
        (void)cst_snprintf(message, sizeof message, "%s", cst_last_error(context));
        assert_int_equal(cst_convert_rows_f32(context, &c[1], 100, MOST, rows, wide, together),
                         status);
        if (bad < MOST)
            assert_string_equal(cst_last_error(context), message);
        assert_int_equal(c[0].total, c[1].total);
        assert_memory_equal(alone, together, (size_t)(bad * width) * sizeof *alone);
    }
}

int suite_stream(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(probabilities_on_disk_are_those_in_memory, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(logits_on_disk_are_those_in_memory, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(a_bad_row_is_found_at_loading, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(a_file_that_shrinks_later_is_an_error, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(no_room_for_a_copy_is_an_error, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(large_arrays_go_to_files, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(rows_together_are_rows_alone, files_setup, files_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
