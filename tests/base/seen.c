/*
 * Files that are others when they are opened again: within a call, over the calls of one run, in a
 * call from a callback; and maps that are checked in full each time, whatever was seen before.
 */
#include "io_files.h"

#include "base/seen.h"
#include "pool/pool.h"
#include "pool/spatial.h"

#include <fcntl.h>
#include <time.h>

enum { ROWS = 4, CLASSES = 3 };

static const float good[ROWS * CLASSES] = {0.5f, 0.25f, 0.25f, 0.125f, 0.5f,  0.375f,
                                           1,    0,     0,     0.25f,  0.25f, 0.5f};
static const float other[ROWS * CLASSES] = {0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0};

static void put_pool(fixture *f) {
    static const int32_t labels[ROWS] = {0, 1, 2, 0};
    put_text(f, "pool.json",
             "{\"corestack_pool\": 1, \"classes\": 3, \"splits\": {\"oof\": {\"labels\": "
             "\"y.npy\"}}, \"models\": [{\"name\": \"a\", \"predictions\": {\"oof\": \"a.npy\"}}, "
             "{\"name\": \"b\", \"predictions\": {\"oof\": \"b.npy\"}}]}");
    put_i32(f, "y.npy", labels, ROWS);
    put_f32(f, "a.npy", good, ROWS, CLASSES);
    put_f32(f, "b.npy", good, ROWS, CLASSES);
}

/* A new file in the place of the one at `name`. */
static void replace(fixture *f, const char *name, const float *data, int rows, int columns) {
    char path[512];
    put_f32(f, "new.npy", data, rows, columns);
    (void)snprintf(path, sizeof path, "%s", at(f, name));
    assert_int_equal(rename(at(f, "new.npy"), path), 0);
}

/* ---- calls ---- */

static void between_two_calls(void **state) {
    fixture *f = *state;
    for (int one_run = 0; one_run < 2; one_run++) {
        cst_pool *pool = NULL;
        put_pool(f);
        expect_ok(f, cst_context_set_one_run(f->context, one_run));
        expect_ok(f, cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL));
        const int32_t first = 0;
        const int32_t second = 1;
        expect_ok(f, cst_pool_load_members(f->context, pool, "oof", &first, 1));
        replace(f, "b.npy", other, ROWS, CLASSES); /* which no call has opened yet */
        expect_ok(f, cst_pool_load_members(f->context, pool, "oof", &second, 1));
        assert_memory_equal(cst_pool_predictions(pool, "oof", 1), other, sizeof other);
        cst_pool_free(f->context, pool);
        replace(f, "a.npy", other, ROWS, CLASSES);
        expect_ok(f, cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL));
        cst_status status = cst_pool_load(f->context, pool, "oof");
        if (one_run)
            expect_error(f, status, CST_ERROR_IO, "a.npy", "replaced or changed", NULL);
        else
            expect_ok(f, status);
        cst_pool_free(f->context, pool);
    }
    expect_ok(f, cst_context_set_one_run(f->context, 0));
}

typedef struct meddler {
    fixture *f;
    bool in_place; /* the same file, with other bytes and the former time of writing */
    int calls;
    cst_status inner; /* of a call from the callback, which sees the new file only */
} meddler;

/* When the headers have been looked at and the values are to be read. */
static void meddle(void *user, cst_log_level level, const char *message) {
    meddler *m = user;
    cst_pool *pool = NULL;
    struct stat before;
    if (level != CST_LOG_INFO || strcmp(message, "read") != 0 || m->calls++ > 0)
        return;
    assert_int_equal(stat(at(m->f, "a.npy"), &before), 0);
    if (m->in_place) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000000},
                        NULL); /* longer than a tick of the clock of files */
        put_f32(m->f, "a.npy", other, ROWS, CLASSES);
        const struct timespec times[] = {before.st_atim, before.st_mtim};
        assert_int_equal(utimensat(AT_FDCWD, at(m->f, "a.npy"), times, 0), 0);
    } else
        replace(m->f, "a.npy", other, ROWS, CLASSES);
    m->inner = cst_pool_open(m->f->context, &pool, at(m->f, "pool.json"), NULL);
    if (m->inner == CST_OK)
        m->inner = cst_pool_load(m->f->context, pool, "oof");
    cst_pool_free(m->f->context, pool);
}

static void within_a_call(void **state) {
    fixture *f = *state;
    for (int in_place = 0; in_place < 2; in_place++)
        for (int threads = 1; threads <= 2; threads++) {
            cst_pool *pool = NULL;
            meddler m = {.f = f, .in_place = in_place, .inner = CST_ERROR_INTERNAL};
            put_pool(f);
            expect_ok(f, cst_context_set_threads(f->context, threads));
            expect_ok(f, cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL));
            cst_context_set_log(f->context, meddle, &m);
            expect_error(f, cst_pool_load(f->context, pool, "oof"), CST_ERROR_IO, "a.npy",
                         "replaced or changed while it was being read", NULL);
            assert_int_equal(m.inner, CST_OK);
            assert_int_equal(cst_pool_rows(pool, "oof"), -1);
            expect_ok(f, cst_pool_load(f->context, pool, "oof")); /* a call of its own */
            assert_memory_equal(cst_pool_predictions(pool, "oof", 0), other, sizeof other);
            cst_context_set_log(f->context, NULL, NULL);
            cst_pool_free(f->context, pool);
        }
}

/* Far more paths than the table has room for at first, some of them forgotten. */
static cst_status see_many(cst_context *context) {
    CST_ENTER(context);
    struct stat info = {.st_size = 1};
    char path[32];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 1000; i++) {
            (void)snprintf(path, sizeof path, "file%d", i);
            info.st_ino = (ino_t)i;
            assert_int_equal(cst_seen_check(context, path, &info), CST_OK);
        }
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(path, sizeof path, "file%d", i);
        info.st_ino = (ino_t)(i + 1);
        bool forgotten = i % 3 == 0;
        if (forgotten)
            cst_seen_forget(context, path);
        assert_int_equal(cst_seen_check(context, path, &info), forgotten ? CST_OK : CST_ERROR_IO);
    }
    const struct stat seen = {.st_ino = 1, .st_size = 1};
    struct stat others[] = {seen, seen, seen, seen, seen};
    others[0].st_dev = 1;
    others[1].st_size = 2;
    others[2].st_mtim.tv_nsec = 1;
    others[3].st_mtim.tv_sec = 1;
    others[4].st_ctim.tv_nsec = 1;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(cst_seen_check(context, "file1", &others[i]), CST_ERROR_IO);
    return cst_seen_check(context, "file1", &seen);
}

/* A backup makes a hard link, or somebody changes a file's rights: its bytes are as they were. */
static cst_status see_with_other_rights(cst_context *context) {
    CST_ENTER(context);
    struct stat info = {.st_ino = 1, .st_size = 1, .st_nlink = 1, .st_mode = S_IFREG | 0644};
    assert_int_equal(cst_seen_check(context, "file", &info), CST_OK);
    info.st_nlink = 2;
    info.st_ctim.tv_sec = 1;
    assert_int_equal(cst_seen_check(context, "file", &info), CST_OK);
    assert_int_equal(cst_seen_check(context, "file", &info), CST_OK);
    info.st_mode = S_IFREG | 0600;
    info.st_ctim.tv_sec = 2;
    assert_int_equal(cst_seen_check(context, "file", &info), CST_OK);
    info.st_uid = 7;
    info.st_gid = 7;
    info.st_ctim.tv_sec = 3;
    assert_int_equal(cst_seen_check(context, "file", &info), CST_OK);
    struct stat later = info;
    later.st_ctim.tv_sec = 4;
    assert_int_equal(cst_seen_check(context, "file", &later), CST_ERROR_IO);
    later.st_nlink = 3;
    later.st_mtim.tv_sec = 1;
    assert_int_equal(cst_seen_check(context, "file", &later), CST_ERROR_IO);
    return CST_OK;
}

static void other_rights(void **state) {
    fixture *f = *state;
    expect_ok(f, see_with_other_rights(f->context));
}

/* ---- names that were made to be slow ---- */

enum { BLOCKS = 14, BLOCK = 4, NAMES = 1 << BLOCKS, ODD = 1 << 20 };

static uint32_t fnv(uint32_t hash, const char *block) {
    for (int i = 0; i < BLOCK; i++)
        hash = (hash ^ (unsigned char)block[i]) * 0x1b3U;
    return hash % ODD; /* the last bits, which depend on nothing but themselves */
}

static void block_of(uint32_t number, char block[BLOCK + 1]) {
    for (int i = 0; i < BLOCK; i++, number /= 26)
        block[i] = (char)('a' + number % 26);
    block[BLOCK] = '\0';
}

/* Two blocks of letters each that lead from one state of FNV-1a to one other. */
static void find_blocks(char blocks[BLOCKS][2][BLOCK + 1]) {
    uint32_t *seen = calloc(ODD, sizeof *seen);
    uint32_t state = 0x84222325U % ODD;
    assert_non_null(seen);
    for (int b = 0; b < BLOCKS; b++) {
        uint32_t to = 0;
        memset(seen, 0, ODD * sizeof *seen);
        for (uint32_t n = 1;; n++) {
            block_of(n, blocks[b][1]);
            to = fnv(state, blocks[b][1]);
            if (seen[to])
                break;
            seen[to] = n;
        }
        block_of(seen[to], blocks[b][0]);
        state = to;
    }
    free(seen);
}

/* Seconds for all names that the blocks make. */
static double see_names(cst_context *context, char blocks[BLOCKS][2][BLOCK + 1]) {
    cst_context *entered = NULL;
    assert_int_equal(cst_context_enter(context, &entered), CST_OK);
    struct stat info = {.st_ino = 1, .st_size = 1};
    clock_t start = clock();
    for (int n = 0; n < NAMES; n++) {
        char path[BLOCKS * BLOCK + 1];
        for (int b = 0; b < BLOCKS; b++)
            memcpy(path + (size_t)b * BLOCK, blocks[b][n >> b & 1], BLOCK);
        path[BLOCKS * BLOCK] = '\0';
        assert_int_equal(cst_seen_check(context, path, &info), CST_OK);
    }
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    cst_context_leave(&entered);
    return seconds;
}

/* Whoever writes a manifest chooses the names of its files. */
static void names_that_collide(void **state) {
    fixture *f = *state;
    char blocks[BLOCKS][2][BLOCK + 1];
    find_blocks(blocks);
    double collide = see_names(f->context, blocks);
    for (int b = 0; b < BLOCKS; b++)
        for (int k = 0; k < 2; k++)
            block_of((uint32_t)(2 * b + k + 1) * 7919, blocks[b][k]);
    double usual = see_names(f->context, blocks);
    assert_true(collide < 0.05 + 10 * usual);
}

static void many_files(void **state) {
    fixture *f = *state;
    expect_ok(f, see_many(f->context));
    expect_ok(f, see_many(f->context)); /* nothing stays from call to call */
}

/* ---- maps ---- */

/* Maps in which every class is as likely. */
static void put_maps(fixture *f, const char *name, const char *shape, size_t values) {
    char dict[128];
    float *data = malloc(values * sizeof *data);
    assert_non_null(data);
    for (size_t i = 0; i < values; i++)
        data[i] = 1.0F / CLASSES;
    (void)snprintf(dict, sizeof dict, "{'descr': '<f4', 'fortran_order': False, 'shape': (%s)}",
                   shape);
    put_npy(f, name, dict, data, values * sizeof *data);
    free(data);
}

/* No call is at work, so that no file is remembered: what is loaded must be checked as what was
 * looked at before. */
static void maps_are_checked_when_they_are_loaded(void **state) {
    static const struct {
        const char *shape;
        size_t values;
        cst_status status;
        const char *says;
    } cases[] = {{"2, 3, 2, 2", 24, CST_OK, ""},
                 {"2, 2, 2, 3", 24, CST_OK, ""},
                 {"2, 3, 1, 2, 2", 24, CST_OK, ""},
                 {"2, 3, 2, 4096", 49152, CST_ERROR_MISMATCH, "2 x 4096 pixels"},
                 {"2, 3, 4096, 2", 49152, CST_ERROR_MISMATCH, "4096 x 2 pixels"},
                 {"2, 3, 1, 4", 24, CST_ERROR_MISMATCH, "1 x 4 pixels"},
                 {"2, 3, 2, 1", 12, CST_ERROR_MISMATCH, "2 x 1 pixels"},
                 {"2, 3, 2, 0", 0, CST_ERROR_MISMATCH, "2 x 0 pixels"},
                 {"2, 3, 9, 2, 2", 216, CST_ERROR_MISMATCH, "9 x 2 x 2 pixels"},
                 {"4096, 3, 2, 2", 49152, CST_ERROR_MISMATCH, "4096 cases"},
                 {"1, 3, 2, 2", 12, CST_ERROR_MISMATCH, "1 cases"},
                 {"0, 3, 2, 2", 0, CST_ERROR_MISMATCH, "0 cases"},
                 {"2, 4, 2, 2", 32, CST_ERROR_MISMATCH, "3 classes"},
                 {"2, 3", 6, CST_ERROR_INPUT, "has shape (2, 3)"},
                 {"6,", 6, CST_ERROR_INPUT, "has shape (6,)"}};
    fixture *f = *state;
    const int32_t member = 0;
    for (size_t i = 0; i <= sizeof cases / sizeof cases[0]; i++)
        for (int stream = 0; stream < 2; stream++) {
            bool text = i == sizeof cases / sizeof cases[0];
            cst_pool *pool = NULL;
            put_text(f, "maps.json",
                     "{\"corestack_pool\": 1, \"task\": \"segmentation\", \"classes\": 3, "
                     "\"splits\": {\"oof\": {}}, \"models\": [{\"name\": \"a\", \"predictions\": "
                     "{\"oof\": \"maps\"}}]}");
            put_maps(f, "maps", "2, 3, 2, 2", 24);
            expect_ok(f, cst_pool_open(f->context, &pool, at(f, "maps.json"), NULL));
            expect_ok(f, cst_maps_survey(f->context, pool, 0, &member, 1));
            if (text)
                put_text(f, "maps", "0.5,0.25,0.25\n1,0,0\n");
            else
                put_maps(f, "maps", cases[i].shape, cases[i].values);
            expect_ok(f, cst_store_create(f->context, 1, CLASSES, &pool->splits[0].store));
            cst_status status = cst_maps_load(f->context, pool, 0, member, stream);
            if (text)
                expect_error(f, status, CST_ERROR_INPUT, "maps", "is a table", NULL);
            else if (cases[i].status != CST_OK)
                expect_error(f, status, cases[i].status, "maps", cases[i].says, NULL);
            else
                expect_ok(f, status);
            cst_pool_free(f->context, pool);
        }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, files_setup, files_teardown)

int suite_seen(void) {
    const struct CMUnitTest tests[] = {
        TEST(between_two_calls),  TEST(within_a_call),
        TEST(many_files),         TEST(other_rights),
        TEST(names_that_collide), TEST(maps_are_checked_when_they_are_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
