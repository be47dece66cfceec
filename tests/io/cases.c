/*
 * Cases of a segmentation pool: whose files of a folder are whose, and what is kept of ids.
 */
#include "io_files.h"

#include <corestack/pool.h>

#include <sys/stat.h>

enum { CASES = 3, CLASSES = 2, CELLS = 2 * CLASSES };

/* Maps of one case, 1 x 2 pixels, which tell the case. */
static void make_maps(int n, float maps[CELLS]) {
    float share = 0.125F * (float)(n + 1);
    for (int i = 0; i < CELLS; i++)
        maps[i] = i % CLASSES ? share : 1 - share;
}

static void put_maps(fixture *f, const char *name, const char *shape, const float *maps,
                     int cases) {
    char dict[128];
    (void)snprintf(dict, sizeof dict, "{'descr': '<f4', 'fortran_order': False, 'shape': (%s)}",
                   shape);
    put_npy(f, name, dict, maps, (size_t)cases * CELLS * sizeof *maps);
}

static void put_cases(fixture *f, const char *split, const char *members) {
    char text[512];
    (void)snprintf(text, sizeof text,
                   "{\"corestack_pool\": 1, \"task\": \"segmentation\", \"classes\": 2, "
                   "\"splits\": {\"oof\": {%s}}, \"models\": [%s]}",
                   split, members);
    put_text(f, "pool.json", text);
}

#define ARRAY "{\"name\": \"a\", \"predictions\": {\"oof\": \"a.npy\"}}"
#define FOLDER "{\"name\": \"b\", \"predictions\": {\"oof\": \"b\"}}"

/* Three cases as one array, and the same as the files z, y and x of a folder, which the split's ids
 * name in this order. */
static void put_both(fixture *f) {
    float maps[CASES][CELLS];
    char name[16];
    assert_int_equal(mkdir(at(f, "b"), 0700), 0);
    for (int n = 0; n < CASES; n++) {
        make_maps(n, maps[n]);
        (void)snprintf(name, sizeof name, "b/%c.npy", 'z' - n);
        put_maps(f, name, "1, 2, 2", maps[n], 1);
    }
    put_maps(f, "a.npy", "3, 1, 2, 2", maps[0], CASES);
    put_text(f, "ids.csv", "id\nz\ny\nx\n");
}

static void files_go_by_name(void **state) {
    fixture *f = *state;
    float got[2][CASES * CELLS];
    cst_pool *pool = NULL;
    put_both(f);
    put_cases(f, "\"ids\": \"ids.csv\"", ARRAY ", " FOLDER);
    expect_ok(f, cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL));
    expect_ok(f, cst_pool_load(f->context, pool, "oof"));
    for (int k = 0; k < 2; k++)
        expect_ok(f, cst_pool_read(f->context, pool, "oof", k, 0, 2 * CASES, got[k]));
    assert_memory_equal(got[0], got[1], sizeof got[0]);
    cst_pool_free(f->context, pool);
}

static void files_that_are_no_cases(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    put_both(f);
    put_cases(f, "\"ids\": \"ids.csv\"", ARRAY ", " FOLDER);
    assert_int_equal(remove(at(f, "b/y.npy")), 0);
    expect_ok(f, cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL));
    expect_error(f, cst_pool_load(f->context, pool, "oof"), CST_ERROR_MISMATCH,
                 "b: has no file for case 'y' of", NULL);
    cst_pool_free(f->context, pool);
    float maps[CELLS];
    make_maps(1, maps);
    put_maps(f, "b/y.npy", "1, 2, 2", maps, 1);
    put_maps(f, "b/w.npy", "1, 2, 2", maps, 1);
    expect_ok(f, cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL));
    expect_error(f, cst_pool_load(f->context, pool, "oof"), CST_ERROR_MISMATCH,
                 "b: has a file for case 'w', which is not in", NULL);
    cst_pool_free(f->context, pool);
}

static void *count(void *user, void *pointer, size_t bytes) {
    int64_t *live = user;
    *live += (bytes > 0) - (pointer != NULL);
    if (bytes > 0)
        return realloc(pointer, bytes);
    free(pointer);
    return NULL;
}

/* Ids that come with folds alone order them, and are not kept. */
static void nothing_is_left_of_ids(void **state) {
    static const char *const splits[] = {
        "\"folds\": \"folds.csv\"",
        "\"folds\": \"folds.csv\", \"labels\": \"masks.npy\"",
        "\"folds\": \"folds.csv\", \"ids\": \"ids.csv\"",
    };
    fixture *f = *state;
    const int32_t masks[CASES * 2] = {0, 1, 1, 0, 0, 1};
    int64_t live = 0;
    cst_context *context = NULL;
    put_both(f);
    put_text(f, "folds.csv", "id,fold\nz,0\ny,1\nx,0\n");
    put_npy(f, "masks.npy", "{'descr': '<i4', 'fortran_order': False, 'shape': (3, 1, 2)}", masks,
            sizeof masks);
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
        put_cases(f, splits[i], ARRAY);
        assert_int_equal(cst_context_create_with(&context, count, &live), CST_OK);
        int64_t held = 0;
        for (int again = 0; again < 3; again++) {
            cst_pool *pool = NULL;
            assert_int_equal(cst_pool_open(context, &pool, at(f, "pool.json"), NULL), CST_OK);
            assert_int_equal(cst_pool_load(context, pool, "oof"), CST_OK);
            cst_pool_free(context, pool);
            if (again > 0)
                assert_int_equal(live, held);
            held = live;
        }
        cst_context_free(context);
        assert_int_equal(live, 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, files_setup, files_teardown)

int suite_cases(void) {
    const struct CMUnitTest tests[] = {TEST(files_go_by_name), TEST(files_that_are_no_cases),
                                       TEST(nothing_is_left_of_ids)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
