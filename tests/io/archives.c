/*
 * Archives made by hand: which member is read, what lies in its headers, limits; and readers of all
 * formats that are stopped. Beside tests/io/npy.c, whose archives another program wrote. Under npz
 * files of a pool.
 */
#include "io_files.h"

#include "data/pool/pool.h"
#include "data/readers/coco.h"
#include "data/readers/row_file.h"
#include "png_labels.h"
#include "tasks/detection/detection.h"

#include <corestack/files.h>
#include <corestack/pool.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

/* A member as an archive describes it; 0: as it is. */
typedef struct member {
    const char *name;
    const char *data;
    size_t bytes;
    uint32_t size;   /* that it claims */
    uint32_t packed; /* bytes in the archive that it claims */
    uint16_t flags;
    uint16_t method;
} member;

typedef struct archive {
    unsigned char bytes[1 << 17];
    size_t used;
} archive;

static void put_number(archive *a, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        a->bytes[a->used++] = (unsigned char)(value >> (8 * i));
}

static void put_part(archive *a, const char *data, size_t bytes) {
    assert_true(a->used + bytes + 64 < sizeof a->bytes);
    memcpy(a->bytes + a->used, data, bytes);
    a->used += bytes;
}

static uint32_t crc32_of(const char *data, size_t bytes) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= (unsigned char)data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

/* What the local and the central header have in common. */
static void put_fields(archive *a, const member *m) {
    put_number(a, 20, 2);
    put_number(a, m->flags, 2);
    put_number(a, m->method, 2);
    put_number(a, 0x00210000, 4); /* 1980-01-01 */
    put_number(a, crc32_of(m->data, m->bytes), 4);
    put_number(a, m->packed ? m->packed : m->bytes, 4);
    put_number(a, m->size ? m->size : m->bytes, 4);
    put_number(a, strlen(m->name), 2);
    put_number(a, 0, 2);
}

static const char *put_archive(fixture *f, const char *name, const member *members, int count) {
    archive a = {.used = 0};
    size_t offsets[16] = {0};
    for (int i = 0; i < count; i++) {
        offsets[i] = a.used;
        put_number(&a, 0x04034b50, 4);
        put_fields(&a, &members[i]);
        put_part(&a, members[i].name, strlen(members[i].name));
        put_part(&a, members[i].data, members[i].bytes);
    }
    size_t directory = a.used;
    for (int i = 0; i < count; i++) {
        put_number(&a, 0x02014b50, 4);
        put_number(&a, 20, 2);
        put_fields(&a, &members[i]);
        put_number(&a, 0, 6);
        put_number(&a, 0, 4);
        put_number(&a, offsets[i], 4);
        put_part(&a, members[i].name, strlen(members[i].name));
    }
    size_t bytes = a.used - directory;
    put_number(&a, 0x06054b50, 4);
    put_number(&a, 0, 4);
    put_number(&a, (uint64_t)count, 2);
    put_number(&a, (uint64_t)count, 2);
    put_number(&a, bytes, 4);
    put_number(&a, directory, 4);
    put_number(&a, 0, 2);
    put_bytes(f, name, a.bytes, a.used);
    return at(f, name);
}

/* An npy of two float32, 1 and `second`. */
static member array_called(const char *name, float second) {
    static char room[16][80];
    static int next = 0;
    static const char header[] =
        "\x93NUMPY\x01\x00\x36\x00{'descr': '<f4', 'fortran_order': False, "
        "'shape': (2,)}";
    char *data = room[next++ % 16];
    const float values[2] = {1, second};
    size_t length = sizeof header - 1;
    memcpy(data, header, length);
    data[8] = (char)(length - 10);
    memcpy(data + length, values, sizeof values);
    return (member){.name = name, .data = data, .bytes = length + sizeof values};
}

static void the_member_that_is_named(void **state) {
    fixture *f = *state;
    const member members[] = {array_called("xy.npy", 2), array_called("x.npz", 3),
                              array_called("x.npy.npy", 4), array_called("x.npy", 5),
                              array_called("folder/x.npy", 6)};
    static const struct {
        const char *after;
        float second;
    } cases[] = {{"#x", 5},  {":x.npy", 5},    {"#x.npy.npy", 4},
                 {"#xy", 2}, {"#folder/x", 6}, {"#x.npz", 3}};
    char path[256];
    (void)strcpy(path, put_archive(f, "a.npz", members, 5));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[300];
        cst_npy *npy = NULL;
        double values[2] = {0};
        (void)snprintf(name, sizeof name, "%s%s", path, cases[i].after);
        expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, name, 0));
        expect_ok(f, cst_npy_read_rows_f64(f->context, npy, 0, 2, values));
        assert_true(values[0] == 1 && values[1] == (double)cases[i].second);
        cst_scope_free(&f->scope);
    }
}

static void expect_refused(fixture *f, const char *path, cst_status code, const char *says) {
    cst_npy *npy = NULL;
    double values[2];
    cst_status status = cst_npy_open(f->context, &f->scope, &npy, path, 0);
    if (status == CST_OK) /* what shows itself only when the data are read */
        status = cst_npy_read_rows_f64(f->context, npy, 0, 2, values);
    cst_scope_free(&f->scope);
    expect_error(f, status, code, says, NULL);
}

static void archives_without_one_array(void **state) {
    fixture *f = *state;
    member many[10];
    static const char *const names[] = {"a.npy", "b.npy", "c.npy", "d.npy", "e.npy",
                                        "f.npy", "g.npy", "h.npy", "i.npy", "j.npy"};
    expect_refused(f, put_archive(f, "a.npz", NULL, 0), CST_ERROR_FORMAT,
                   "a.npz: the archive has no members");
    for (int i = 0; i < 10; i++)
        many[i] = array_called(names[i], 2);
    expect_refused(
        f, put_archive(f, "a.npz", many, 10), CST_ERROR_INPUT,
        "a.npz: has 10 arrays (a, b, c, d, e, f, g, h, ...); choose one with FILE.npz#NAME");
    expect_refused(f, put_archive(f, "a.npz", many, 8), CST_ERROR_INPUT,
                   "a.npz: has 8 arrays (a, b, c, d, e, f, g, h); choose one with FILE.npz#NAME");
    (void)put_archive(f, "a.npz", many, 2);
    expect_refused(f, at(f, "a.npz#\xc2\x9b"), CST_ERROR_INPUT,
                   "a.npz: has no array '?\?'; it holds a, b");
}

/* NumPy takes the last of two that have one name, and calls an array x whether the archive calls it
 * x or x.npy. */
static void members_with_one_name(void **state) {
    fixture *f = *state;
    static const char *const names[][3] = {
        {"x.npy", "y.npy", "x.npy"}, {"x", "y", "x"}, {"x.npy", "y", "x"}, {"x", "x.npy", "y"}};
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        member members[3];
        for (int m = 0; m < 3; m++)
            members[m] = array_called(names[i][m], (float)m);
        (void)strcpy(path, put_archive(f, "a.npz", members, 3));
        expect_refused(f, at(f, "a.npz#y"), CST_ERROR_FORMAT,
                       i == 3 ? "a.npz: has two arrays called 'x' (members 0 and 1)"
                              : "a.npz: has two arrays called 'x' (members 0 and 2)");
        expect_refused(f, at(f, "a.npz#x"), CST_ERROR_FORMAT, "two arrays called 'x'");
    }
}

/* Changes bytes of an archive counted from its end. */
static void change_end(fixture *f, const char *name, long before, uint64_t value, int bytes) {
    FILE *file = fopen(at(f, name), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -before, SEEK_END), 0);
    for (int i = 0; i < bytes; i++)
        assert_true(fputc((int)(value >> (8 * i) & 0xff), file) != EOF);
    assert_int_equal(fclose(file), 0);
}

/* End records, of which each field stands so many bytes before the end of the file. */
static void end_records_that_lie(void **state) {
    static const struct {
        long before;
        uint64_t value;
        int bytes;
        cst_status code;
        const char *says;
    } cases[] = {
        {14, 0x00030003, 4, CST_ERROR_FORMAT, "not a readable zip archive: "},
        {14, 0x00010001, 4, CST_ERROR_FORMAT, "not a readable zip archive: "},
        {12, 1, 2, CST_ERROR_FORMAT, "not a readable zip archive: "},
        {18, 1, 2, CST_ERROR_UNSUPPORTED, "is one part of a multi-part archive"},
        {10, 1, 4, CST_ERROR_FORMAT, "not a readable zip archive: "},
        {10, 0xffffffff, 4, CST_ERROR_LIMIT, "its directory has 4294967295 bytes"},
        {6, 0xfffffff0, 4, CST_ERROR_FORMAT, "not a readable zip archive: "},
        {22, 0, 1, CST_ERROR_FORMAT, "it has no end record"},
        {22 + 50 - 29, 7, 1, CST_ERROR_FORMAT, "not a readable zip archive: "},
        {22 + 4, 0, 1, CST_ERROR_FORMAT, "not a readable zip archive: "},
    };
    fixture *f = *state;
    const member members[] = {array_called("abcd", 2), array_called("efgh", 3)};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)put_archive(f, "a.npz", members, 2);
        change_end(f, "a.npz", cases[i].before, cases[i].value, cases[i].bytes);
        expect_refused(f, at(f, "a.npz#abcd"), cases[i].code, cases[i].says);
    }
}

/* A comment that is not there, one that looks like the end of an archive, and bytes of an array
 * that do. */
static void comments_of_archives(void **state) {
    static const char end[] = "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0 and more";
    fixture *f = *state;
    cst_npy *npy = NULL;
    double values[2] = {0};
    const member members[] = {array_called("abcd", 2), array_called("efgh", 3)};
    (void)put_archive(f, "a.npz", members, 2);
    change_end(f, "a.npz", 2, 500, 2);
    expect_refused(f, at(f, "a.npz#abcd"), CST_ERROR_FORMAT, "not a readable zip archive: ");
    (void)put_archive(f, "a.npz", members, 2);
    FILE *file = fopen(at(f, "a.npz"), "ab");
    assert_non_null(file);
    assert_int_equal(fwrite(end, 1, 31, file), 31);
    assert_int_equal(fclose(file), 0);
    expect_refused(f, at(f, "a.npz#abcd"), CST_ERROR_FORMAT, "the archive has no members");
    (void)put_archive(f, "a.npz", members, 2);
    change_end(f, "a.npz", 2, 22, 2);
    file = fopen(at(f, "a.npz"), "ab");
    assert_non_null(file);
    assert_int_equal(fwrite(end, 1, 22, file), 22);
    assert_int_equal(fclose(file), 0);
    expect_refused(f, at(f, "a.npz#abcd"), CST_ERROR_FORMAT, "has the end records of two archives");
    member m = array_called("abcd", 0);
    char data[80];
    memcpy(data, m.data, m.bytes);
    memcpy(data + m.bytes - 4, end, 4);
    m.data = data;
    expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, put_archive(f, "a.npz", &m, 1), 0));
    expect_ok(f, cst_npy_read_rows_f64(f->context, npy, 0, 2, values));
    assert_true(values[1] != 0);
    cst_scope_free(&f->scope);
}

static void members_that_lie(void **state) {
    fixture *f = *state;
    member m = array_called("m.npy", 2);
    cst_npy *npy = NULL;
    expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, put_archive(f, "a.npz", &m, 1), 0));
    cst_scope_free(&f->scope);
    m.flags = 1;
    expect_refused(f, put_archive(f, "a.npz", &m, 1), CST_ERROR_UNSUPPORTED,
                   "a.npz#m.npy: is encrypted; save it without a password");
    m = array_called("m.npy", 2);
    m.bytes = 0;
    expect_refused(f, put_archive(f, "a.npz", &m, 1), CST_ERROR_FORMAT,
                   "a.npz#m.npy: the member is empty (0 bytes); was it written to the end?");
    m = array_called("m.npy", 2);
    m.method = 97;
    expect_refused(f, put_archive(f, "a.npz", &m, 1), CST_ERROR_UNSUPPORTED,
                   "a.npz#m.npy: compression method 97 is not supported");
    m = array_called("m.npy", 2);
    m.packed = 100000;
    m.size = 100000;
    expect_refused(f, put_archive(f, "a.npz", &m, 1), CST_ERROR_FORMAT,
                   "a.npz#m.npy: declares 100000 compressed bytes in an archive of 181 bytes");
    m = array_called("m.npy", 2); /* more is declared than is packed */
    m.size = (uint32_t)m.bytes;
    m.bytes -= 4;
    expect_refused(f, put_archive(f, "a.npz", &m, 1), CST_ERROR_FORMAT, "a.npz#m.npy: ");
    m = array_called("m.npy", 2); /* not deflated, as it says */
    m.method = 8;
    expect_refused(f, put_archive(f, "a.npz", &m, 1), CST_ERROR_FORMAT,
                   "a.npz#m.npy: damaged at byte ");
}

/* The number of the file that is opened next. */
static int next_file(void) {
    int next = dup(STDERR_FILENO);
    assert_true(next >= 0);
    assert_int_equal(close(next), 0);
    return next;
}

enum { ZEROS = 20000 };

/* An archive that shrinks or cannot be read is not a bad one: as with plain files. */
static void archives_that_fail_while_read(void **state) {
    fixture *f = *state;
    double value = 1;
    static char data[128 + 4 * ZEROS]; /* longer than what libzip reads at a time */
    const member m = {.name = "a", .data = data, .bytes = sizeof data};
    memset(data, ' ', 128);
    memcpy(data,
           "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (20000,)}",
           10 + 59);
    data[127] = '\n';
    for (int kind = 0; kind < 2; kind++) {
        cst_npy *npy = NULL;
        (void)put_archive(f, "read.npz", &m, 1);
        int fd = next_file();
        expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, at(f, "read.npz"), 0));
        int kept = dup(fd);
        if (kind == 0)
            assert_int_equal(truncate(at(f, "read.npz"), 50000), 0);
        else { /* a folder in the file's place, which is not read: EISDIR */
            int folder = open(f->folder, O_RDONLY);
            assert_true(folder >= 0 && dup2(folder, fd) == fd);
            (void)close(folder);
        }
        for (int again = 0; again < 2; again++) {
            cst_status status = cst_npy_read_rows_f64(f->context, npy, ZEROS - 1, 1, &value);
            if (kind == 0)
                expect_error(f, status, CST_ERROR_IO, "read.npz#a: ends at byte 50000, but",
                             "bytes when it was opened; did it change in the meantime?", NULL);
            else
                expect_error(f, status, CST_ERROR_IO, "read.npz#a: reading at byte ",
                             " failed: ", NULL);
        }
        if (kind == 1) { /* once it can be read again, it is */
            assert_int_equal(dup2(kept, fd), fd);
            expect_ok(f, cst_npy_read_rows_f64(f->context, npy, ZEROS - 1, 1, &value));
            assert_true(value == 0);
        }
        (void)close(kept);
        cst_scope_free(&f->scope);
    }
}

/* ---- zip_limit of a pool ---- */

static const float halves[8] = {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f};
static const int32_t numbers[2] = {0, 1};
static const int64_t counts[2] = {3, 4};
static const uint8_t mask[3] = {0, 1, 1};

/* The files of two small pools, each with what stands before it in their manifests. */
static const struct {
    const char *before, *key, *shape, *type;
    const void *data;
    size_t bytes;
} pool_files[] = {
    {"\"splits\": {\"oof\": {", "labels", "(2,)", "<i4", numbers, 8},
    {", ", "ids", "(2,)", "<i4", numbers, 8},
    {", ", "folds", "(2,)", "<i4", numbers, 8},
    {", ", "groups", "(2,)", "<i4", numbers, 8},
    {", ", "weights", "(2,)", "<f4", halves, 8},
    {"}}, ", "training_counts", "(2,)", "<i8", counts, 16},
    {", \"models\": [{\"name\": \"m\", \"predictions\": {", "oof", "(2, 2)", "<f4", halves, 16},
    {"\"task\": \"segmentation\", \"splits\": {\"oof\": {", "labels", "(1, 1, 3)", "|u1", mask, 3},
    {"}}, \"models\": [{\"name\": \"m\", \"predictions\": {", "oof", "(1, 2, 1, 3)", "<f4", halves,
     24}};
enum { ROW_FILES = 7, POOL_FILES = sizeof pool_files / sizeof pool_files[0] };

/* The pool of file `packed`, which is in an archive; the others are plain. Its bytes there. */
static size_t put_pool_around(fixture *f, int packed) {
    int first = packed < ROW_FILES ? 0 : ROW_FILES;
    int end = packed < ROW_FILES ? ROW_FILES : POOL_FILES;
    char text[1024] = "{\"corestack_pool\": 1, \"classes\": 2, ";
    size_t used = strlen(text);
    size_t size = 0;
    for (int i = first; i < end; i++) {
        const char *key = pool_files[i].key;
        char name[64];
        char dict[128];
        (void)snprintf(name, sizeof name, "%s.npy", key);
        (void)snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': %s}",
                       pool_files[i].type, pool_files[i].shape);
        put_npy(f, name, dict, pool_files[i].data, pool_files[i].bytes);
        if (i == packed) {
            char *bytes = (char *)contents(at(f, name), &size);
            const member m = {.name = "a.npy", .data = bytes, .bytes = size};
            (void)snprintf(name, sizeof name, "%s.npz", key);
            (void)put_archive(f, name, &m, 1);
            free(bytes);
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s\": \"%s\"",
                                 pool_files[i].before, key, name);
    }
    (void)snprintf(text + used, sizeof text - used, "}}]}");
    put_text(f, "pool.json", text);
    return size;
}

/* Whatever file of a pool is an archive, a member above the caller's limit is refused. */
static void pools_keep_to_their_limit(void **state) {
    fixture *f = *state;
    for (int i = 0; i < POOL_FILES; i++) {
        size_t size = put_pool_around(f, i);
        char name[64];
        char says[64];
        (void)snprintf(name, sizeof name, "%s.npz#a.npy", pool_files[i].key);
        (void)snprintf(says, sizeof says, "the limit for an archive member is %zu", size - 1);
        for (uint64_t limit = size - 1; limit <= size; limit++) {
            cst_pool *pool = NULL;
            const cst_pool_config config = {.zip_limit = limit};
            cst_status status = cst_pool_open(f->context, &pool, at(f, "pool.json"), &config);
            if (status == CST_OK)
                status = cst_pool_load(f->context, pool, "oof");
            if (limit == size)
                expect_ok(f, status);
            else
                expect_error(f, status, CST_ERROR_LIMIT, name, says, NULL);
            cst_pool_free(f->context, pool);
        }
    }
}

/* ---- limits ---- */

/* A file that an archive holds as it is. */
static member text_called(const char *name, const char *text) {
    return (member){.name = name, .data = text, .bytes = strlen(text)};
}

static const char BOXES[] = "[]";
static const char TRUTH[] = "{\"images\": [{\"id\": 1}], \"annotations\": [], \"categories\": []}";

static const char *put_texts(fixture *f) {
    const member members[] = {
        text_called("y.csv", "label\n0\n1\n"), text_called("p.csv", "0.25,0.75\n0.5,0.5\n"),
        text_called("ids.csv", "id\na\nb\n"),  text_called("gt.json", TRUTH),
        text_called("dt.json", BOXES),         array_called("a", 2)};
    return put_archive(f, "z.npz", members, sizeof members / sizeof members[0]);
}

/* What is read of an archive, whatever it is, is within the caller's limit. */
static void limits_hold_for_every_format(void **state) {
    fixture *f = *state;
    CST_SCOPE(scope);
    (void)put_texts(f);
    for (int limit = 0; limit < 2; limit++) {
        uint64_t most = limit ? 1 : 1000;
        cst_row_file *rows = NULL;
        cst_column column;
        cst_strings *ids = NULL;
        cst_coco *coco = NULL;
        cst_coco_boxes *boxes = NULL;
        cst_npy *npy = NULL;
        int64_t size[2];
        expect_ok(f, cst_coco_read(f->context, &coco, at(f, "z.npz#gt.json"), 0, false));
        cst_status all[] = {
            rows_of(f, scope, &rows, at(f, "z.npz#p.csv"), most),
            column_of(f, scope, &column, at(f, "z.npz#y.csv"), NULL, most),
            ids_of(f, scope, &ids, at(f, "z.npz#ids.csv"), most),
            cst_coco_read_boxes(f->context, &boxes, at(f, "z.npz#dt.json"), most, coco, true),
            cst_npy_open(f->context, &f->scope, &npy, at(f, "z.npz#a"), most),
        };
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            assert_int_equal(all[i], limit ? CST_ERROR_LIMIT : CST_OK);
        cst_coco_boxes_free(f->context, boxes);
        cst_scope_free(&f->scope);
        cst_coco_free(f->context, coco);
        coco = NULL;
        assert_int_equal(cst_coco_read(f->context, &coco, at(f, "z.npz#gt.json"), most, true),
                         limit ? CST_ERROR_LIMIT : CST_OK);
        cst_coco_free(f->context, coco);
        /* which is no PNG in either case */
        assert_int_equal(cst_png_size(f->context, at(f, "z.npz#gt.json"), most, &size[0], &size[1]),
                         limit ? CST_ERROR_LIMIT : CST_ERROR_FORMAT);
    }
}

/* zip_limit of a pool's settings reaches tables and COCO files. */
static void tables_of_a_pool_keep_to_its_limit(void **state) {
    fixture *f = *state;
    static const float matrix[4] = {0.25F, 0.75F, 0.5F, 0.5F};
    cst_pool_config config = {.zip_limit = 1};
    cst_pool *pool = NULL;
    cst_box_split boxes = {0};
    (void)put_texts(f);
    put_f32(f, "a.npy", matrix, 2, 2);
    put_text(f, "pool.json",
             "{\"corestack_pool\": 1, \"splits\": {\"oof\": {\"labels\": \"z.npz#y.csv\"}}, "
             "\"models\": [{\"name\": \"a\", \"predictions\": {\"oof\": \"a.npy\"}}]}");
    for (int limit = 0; limit < 2; limit++) {
        expect_ok(f, cst_pool_open(f->context, &pool, f->folder, limit ? &config : NULL));
        cst_status status = cst_pool_load(f->context, pool, "oof");
        if (limit)
            expect_error(f, status, CST_ERROR_LIMIT, "z.npz#y.csv: declares 10 bytes", NULL);
        else
            expect_ok(f, status);
        cst_pool_free(f->context, pool);
    }
    put_text(f, "pool.json",
             "{\"corestack_pool\": 1, \"task\": \"detection\", "
             "\"splits\": {\"oof\": {\"annotations\": \"z.npz#gt.json\"}}, "
             "\"models\": [{\"name\": \"a\", \"predictions\": {\"oof\": \"z.npz#dt.json\"}}]}");
    for (int limit = 0; limit < 3; limit++) {
        config.zip_limit = limit ? sizeof TRUTH - 2 : 0;
        expect_ok(f, cst_pool_open(f->context, &pool, f->folder, &config));
        cst_status status = cst_box_split_open(f->context, pool, "oof", NULL, 0, true, &boxes);
        if (limit)
            expect_error(f, status, CST_ERROR_LIMIT, "z.npz#gt.json: declares", NULL);
        else
            expect_ok(f, status);
        cst_box_split_close(f->context, &boxes);
        cst_pool_free(f->context, pool);
    }
}

/* An array that is there by the usual name is the one that is meant, also where it is no good. */
static void the_usual_array(void **state) {
    fixture *f = *state;
    member bad = array_called("usual.npy", 2);
    char copy[80];
    cst_npy *npy = NULL;
    double value = 0;
    memcpy(copy, bad.data, bad.bytes);
    memcpy(strchr(copy + 10, '<'), "<c8", 3);
    bad.data = copy;
    const member usual[] = {array_called("x.npy", 3), array_called("usual.npy", 2)};
    const member useless[] = {array_called("x.npy", 3), bad};
    const member other[] = {array_called("x.npy", 3), array_called("y.npy", 4)};
    expect_ok(f, cst_npy_open_default(f->context, &f->scope, &npy,
                                      put_archive(f, "a.npz", usual, 2), "usual", 0));
    expect_ok(f, cst_npy_read_rows_f64(f->context, npy, 1, 1, &value));
    assert_true(value == 2);
    cst_scope_free(&f->scope);
    expect_ok(f, cst_npy_open_default(f->context, &f->scope, &npy,
                                      put_archive(f, "a.npz", other, 1), "usual", 0));
    expect_ok(f, cst_npy_read_rows_f64(f->context, npy, 1, 1, &value));
    assert_true(value == 3);
    cst_scope_free(&f->scope);
    const char *path = put_archive(f, "a.npz", useless, 2);
    expect_error(f, cst_npy_open_default(f->context, &f->scope, &npy, path, "usual", 0),
                 CST_ERROR_UNSUPPORTED, "a.npz#usual: dtype <c8 is not supported", NULL);
    assert_null(npy);
    expect_error(f, cst_npy_open_default(f->context, &f->scope, &npy, path, "usual", 8),
                 CST_ERROR_LIMIT, "a.npz#usual.npy: declares", NULL);
    expect_error(f,
                 cst_npy_open_default(f->context, &f->scope, &npy,
                                      put_archive(f, "a.npz", other, 2), "usual", 0),
                 CST_ERROR_INPUT, "a.npz: has 2 arrays (x, y)", NULL);
}

/* ---- who reads asks whether to stop ---- */

static int stop_once_told(void *user, const char *stage, int64_t done, int64_t total) {
    const bool *stop = user;
    assert_string_equal(stage, "work");
    assert_true(done == 3 && total == 7);
    return *stop;
}

static cst_status read_rows(fixture *f, const char *path) {
    CST_SCOPE(scope);
    cst_row_file *rows = NULL;
    cst_status status = rows_of(f, scope, &rows, path, 0);
    return status;
}

static cst_status read_column(fixture *f, const char *path) {
    CST_SCOPE(scope);
    cst_column column;
    cst_status status = column_of(f, scope, &column, path, NULL, 0);
    return status;
}

static cst_status read_ids(fixture *f, const char *path) {
    CST_SCOPE(scope);
    cst_strings *ids = NULL;
    cst_status status = ids_of(f, scope, &ids, path, 0);
    return status;
}

static cst_status read_labels(fixture *f, const char *path) {
    int32_t *labels = NULL;
    int64_t size[2];
    cst_status status = png_labels(f->context, path, &labels, &size[0], &size[1]);
    cst_free(f->context, labels);
    return status;
}

static cst_status read_truth(fixture *f, const char *path) {
    cst_coco *coco = NULL;
    cst_status status = cst_coco_read(f->context, &coco, path, 0, true);
    cst_coco_free(f->context, coco);
    return status;
}

static void every_reader_asks_whether_to_stop(void **state) {
    fixture *f = *state;
    static const int32_t labels[4] = {0, 1, 1, 0};
    static const char tensor[] = "{\"y\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}";
    static const struct {
        const char *name;
        cst_status (*read)(fixture *, const char *);
    } cases[] = {{"p.csv", read_rows},         {"y.npy", read_column},
                 {"z.npz#y.csv", read_column}, {"z.npz#ids.csv", read_ids},
                 {"z.npz#a", read_rows},       {"y.safetensors", read_column},
                 {"y.png", read_labels},       {"gt.json", read_truth}};
    unsigned char file[8 + sizeof tensor + 1] = {sizeof tensor - 1};
    (void)put_texts(f);
    put_text(f, "p.csv", "0.25,0.75\n0.5,0.5\n");
    put_text(f, "gt.json", TRUTH);
    put_i32(f, "y.npy", labels, 4);
    memcpy(file + 8, tensor, sizeof tensor - 1);
    put_bytes(f, "y.safetensors", file, sizeof file);
    expect_ok(f, cst_png_write_labels(f->context, at(f, "y.png"), labels, 2, 2, 8, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static const struct timespec pause = {.tv_nsec = 60000000};
        bool stop = false;
        expect_ok(f, cases[i].read(f, at(f, cases[i].name)));
        cst_context_set_progress(f->context, stop_once_told, &stop);
        expect_ok(f, cst_progress(f->context, "work", 3, 7));
        expect_ok(f, cases[i].read(f, at(f, cases[i].name)));
        stop = true;
        (void)nanosleep(&pause, NULL);
        expect_error(f, cases[i].read(f, at(f, cases[i].name)), CST_ERROR_CANCELLED,
                     "stopped on request during work", NULL);
        cst_context_set_progress(f->context, NULL, NULL);
        expect_ok(f, cases[i].read(f, at(f, cases[i].name)));
    }
}

static int stop_reading(void *user, const char *stage, int64_t done, int64_t total) {
    const bool *stop = user;
    assert_string_equal(stage, "reading");
    assert_true(done == 0 && total == 1);
    return *stop;
}

/* A call that has no stage can be stopped while it reads, and after that
 * reads on. */
static void long_tables_can_be_left(void **state) {
    fixture *f = *state;
    enum { BYTES = 24 << 20 };
    char *text = malloc(BYTES);
    int32_t *labels = NULL;
    int64_t rows = 0;
    bool stop = true;
    assert_non_null(text);
    for (size_t i = 0; i < BYTES; i++)
        text[i] = i % 2 ? '\n' : '1';
    put_bytes(f, "long.csv", text, BYTES);
    free(text);
    put_text(f, "short.csv", "1\n2\n");
    cst_context_set_progress(f->context, stop_reading, &stop);
    for (int again = 0; again < 2; again++) {
        stop = true;
        expect_error(f, cst_read_labels(f->context, at(f, "long.csv"), &labels, &rows),
                     CST_ERROR_CANCELLED, "stopped on request during reading", NULL);
        stop = false;
        expect_ok(f, cst_read_labels(f->context, at(f, "short.csv"), &labels, &rows));
        assert_int_equal(rows, 2);
        cst_free(f->context, labels);
    }
    cst_context_set_progress(f->context, NULL, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, files_setup, files_teardown)

int suite_archives(void) {
    const struct CMUnitTest tests[] = {TEST(the_member_that_is_named),
                                       TEST(archives_without_one_array),
                                       TEST(members_with_one_name),
                                       TEST(end_records_that_lie),
                                       TEST(comments_of_archives),
                                       TEST(members_that_lie),
                                       TEST(archives_that_fail_while_read),
                                       TEST(pools_keep_to_their_limit),
                                       TEST(limits_hold_for_every_format),
                                       TEST(tables_of_a_pool_keep_to_its_limit),
                                       TEST(the_usual_array),
                                       TEST(every_reader_asks_whether_to_stop),
                                       TEST(long_tables_can_be_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
