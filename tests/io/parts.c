/*
 * Files whose rows follow one another: their order, arrays and tables in parts read as one, and
 * failing memory at every allocation, after which nothing is left.
 */
#include "data/readers/npy.h"
#include "data/readers/row_file.h"
#include "failing_memory.h"
#include "temporary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

enum { PARTS = 4, ROWS = 20, WIDTH = 3 };
static const int64_t FIRST[PARTS + 1] = {0, 1, 9, 13, 20};

typedef struct fixture {
    cst_context *context;
    failing memory;
    char folder[TEMPORARY_CHARS];
    cst_scope scope;
    cst_file_parts parts;
    double values[ROWS * WIDTH];
} fixture;

/* A part as float32 npy (of `ending` ".npy") or text. */
static void put_part(fixture *f, int k, const char *ending) {
    char path[TEMPORARY_CHARS + 64];
    float rows[ROWS * WIDTH];
    int64_t count = FIRST[k + 1] - FIRST[k];
    const double *values = f->values + FIRST[k] * WIDTH;
    (void)snprintf(path, sizeof path, "%s/part-%d%s", f->folder, 8 + k, ending);
    for (int64_t i = 0; i < count * WIDTH; i++)
        rows[i] = (float)values[i];
    if (strcmp(ending, ".npy") == 0) {
        assert_int_equal(cst_npy_write_f32(f->context, path, rows, count, WIDTH), CST_OK);
        return;
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file, "a,b,c\n");
    for (int64_t i = 0; i < count; i++)
        (void)fprintf(file, "%.17g,%.17g,%.17g\n", values[i * WIDTH], values[i * WIDTH + 1],
                      values[i * WIDTH + 2]);
    assert_int_equal(fclose(file), 0);
}

static void make(fixture *f, const char *ending) {
    for (int k = 0; k < PARTS; k++)
        put_part(f, k, ending);
    assert_int_equal(cst_file_parts_list(f->context, &f->scope, f->folder, &f->parts), CST_OK);
    assert_int_equal(f->parts.count, PARTS);
    f->parts.name = cst_take_text(f->context, &f->scope, "the parts");
    assert_non_null(f->parts.name);
}

static int setup(void **state) {
    static fixture f;
    temporary_path(f.folder, sizeof f.folder, "parts");
    f.memory = (failing){.left = -1};
    f.scope = (cst_scope){0};
    f.parts = (cst_file_parts){0};
    for (int i = 0; i < ROWS * WIDTH; i++)
        f.values[i] = i / 64.0;
    *state = &f;
    if (!mkdtemp(f.folder))
        return 1;
    return cst_context_create_with(&f.context, failing_realloc, &f.memory) != CST_OK;
}

static int teardown(void **state) {
    fixture *f = *state;
    for (int64_t k = 0; k < f->parts.count; k++)
        (void)unlink(f->parts.paths[k]);
    cst_scope_free(&f->scope);
    cst_context_free(f->context);
    return f->memory.live != 0 || rmdir(f->folder) != 0;
}

/* Opens the parts, and reads them in order and at every place. */
static cst_status read_all(fixture *f) {
    CST_SCOPE(scope);
    cst_row_file *rows = NULL;
    cst_strings *ids = NULL;
    cst_row_source source = {.path = "the parts", .parts = &f->parts};
    double block[ROWS * WIDTH];
    float raw[ROWS * WIDTH];
    cst_status status = cst_row_file_open(f->context, scope, &rows, &source, NULL);
    CST_THEN(cst_row_file_scan(f->context, scope, rows, NULL, &ids));
    for (int64_t first = 0; status == CST_OK && first < ROWS; first += 6) {
        int64_t count = ROWS - first < 6 ? ROWS - first : 6;
        status = cst_row_file_read(f->context, rows, count, block + first * WIDTH);
    }
    if (status == CST_OK) {
        assert_int_equal(rows->row_count, ROWS);
        assert_memory_equal(block, f->values, sizeof block);
        char place[CST_WHERE_CHARS];
        assert_ptr_equal(cst_row_file_part(rows, "", 10), f->parts.paths[2]);
        assert_memory_equal(cst_row_file_where(rows, 10, 0, -1, place), "row 1", 5);
    }
    for (int64_t first = 0; status == CST_OK && rows->npy && first < ROWS; first++)
        for (int64_t count = 0; status == CST_OK && count <= ROWS - first; count++) {
            status = cst_npy_fetch(f->context, rows->npy, first, count, (unsigned char *)raw);
            for (int64_t i = 0; status == CST_OK && i < count * WIDTH; i++)
                assert_true((double)raw[i] == f->values[first * WIDTH + i]);
        }
    return status;
}

/* With each allocation failing in turn. */
static void read_with_little_memory(fixture *f) {
    int64_t base = f->memory.live;
    assert_int_equal(read_all(f), CST_OK);
    for (int64_t n = 0;; n++) {
        f->memory.left = n;
        cst_status status = read_all(f);
        f->memory.left = -1;
        assert_true(f->memory.live <= base + 8); /* what the context keeps of files */
        if (status == CST_OK)
            break;
        assert_int_equal(status, CST_ERROR_MEMORY);
    }
}

static void arrays_in_parts(void **state) {
    fixture *f = *state;
    make(f, ".npy");
    read_with_little_memory(f);
}

/* Parts are opened again for every piece where few files may be open. */
static void arrays_with_few_descriptors(void **state) {
    fixture *f = *state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit few = {.rlim_cur = 7, .rlim_max = before.rlim_max};
    make(f, ".npy");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    cst_status status = read_all(f);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, CST_OK);
}

static void tables_in_parts(void **state) {
    fixture *f = *state;
    make(f, ".csv");
    read_with_little_memory(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int suite_parts(void);
int suite_parts(void) {
    const struct CMUnitTest tests[] = {
        TEST(arrays_in_parts),
        TEST(arrays_with_few_descriptors),
        TEST(tables_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
