/*
 * Safetensors files: what an independent writer made is read, what is broken is refused with
 * the place and the reason.
 */
#include "io_files.h"

#include "data/readers/safetensors.h"
#include "failing_memory.h"
#include "tensor_file.h"

#include <corestack/safetensors.h>
#include <fcntl.h>
#include <inttypes.h>

#include "data/safetensors.h"

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

static const char *fixture_path(const char *name, char *buffer, size_t room) {
    (void)snprintf(buffer, room, "%s/safetensors/%s.safetensors", CST_TEST_DATA, name);
    return buffer;
}

static bool same_double(double a, double b) {
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* A file of this header and data, named memory; NULL after a refusal. */
static cst_safetensors *from_header(fixture *f, const char *header, const void *data,
                                    size_t bytes) {
    size_t length = strlen(header);
    unsigned char *all = malloc(8 + length + bytes);
    assert_non_null(all);
    for (int i = 0; i < 8; i++)
        all[i] = (unsigned char)(length >> (8 * i));
    memcpy(all + 8, header, length);
    if (bytes)
        memcpy(all + 8 + length, data, bytes);
    cst_safetensors *file = NULL;
    put_bytes(f, "memory", all, 8 + length + bytes);
    free(all);
    (void)cst_safetensors_open(f->context, &file, at(f, "memory"));
    return file;
}

/* ---- types ---- */

static void names_of_types(void **state) {
    (void)state;
    assert_string_equal(cst_dtype_name(CST_DTYPE_BF16), "BF16");
    assert_string_equal(cst_dtype_name(CST_DTYPE_F8_E4M3FNUZ), "F8_E4M3FNUZ");
    assert_null(cst_dtype_name((cst_dtype)22));
    assert_null(cst_dtype_name((cst_dtype)-1));
    assert_int_equal(cst_dtype_bits(CST_DTYPE_F6_E2M3), 6);
    assert_int_equal(cst_dtype_bits(CST_DTYPE_C64), 64);
    assert_int_equal(cst_dtype_bits(CST_DTYPE_FORCE_INT), 0);
    assert_true(cst_dtype_is_number(CST_DTYPE_BOOL));
    assert_true(cst_dtype_is_number(CST_DTYPE_BF16));
    assert_false(cst_dtype_is_number(CST_DTYPE_F8_E5M2));
    assert_false(cst_dtype_is_number(CST_DTYPE_FORCE_INT));
}

/* The bits of a number that is stored as a dtype of 16 bits. */
static unsigned stored(cst_dtype dtype, double value) {
    unsigned char raw[2];
    cst_weights_store(dtype, &value, 1, raw);
    return raw[0] | (unsigned)raw[1] << 8;
}

static void rounding(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ROUNDED); i++) {
        unsigned half = stored(CST_DTYPE_F16, ROUNDED[i].value);
        unsigned bfloat = stored(CST_DTYPE_BF16, ROUNDED[i].value);
        if (half != ROUNDED[i].half || bfloat != ROUNDED[i].bfloat)
            fail_msg("%a: %04x %04x", ROUNDED[i].value, half, bfloat);
    }
    assert_int_equal(stored(CST_DTYPE_F16, NAN) & 0x7e00, 0x7e00);
    assert_int_equal(stored(CST_DTYPE_BF16, NAN) & 0x7fc0, 0x7fc0);
}

/* ---- reading ---- */

static void every_type(void **state) {
    fixture *f = *state;
    char path[512];
    cst_safetensors *file = NULL;
    expect_ok(f, cst_safetensors_open(f->context, &file, fixture_path("ok_types", path, 512)));
    assert_int_equal(cst_safetensors_count(file), COUNT_OF(TYPES));
    for (size_t i = 0; i < COUNT_OF(TYPE_ORDER); i++)
        assert_int_equal(cst_safetensors_dtype(file, (int64_t)i), TYPE_ORDER[i]);
    for (size_t i = 0; i < COUNT_OF(TYPES); i++) {
        char name[16];
        double wide[12];
        float narrow[12];
        int32_t axes = 0;
        (void)snprintf(name, sizeof name, "t.%s", cst_dtype_name(TYPES[i].dtype));
        int64_t t = cst_safetensors_find(file, name);
        assert_in_range(t, 0, COUNT_OF(TYPES) - 1);
        assert_string_equal(cst_safetensors_name(file, t), name);
        assert_int_equal(cst_safetensors_dtype(file, t), TYPES[i].dtype);
        const int64_t *shape = cst_safetensors_shape(file, t, &axes);
        assert_int_equal(axes, 2);
        assert_int_equal(shape[0], 3);
        assert_int_equal(shape[1], 4);
        assert_int_equal(cst_safetensors_elements(file, t), 12);
        expect_ok(f, cst_safetensors_read_f64(f->context, file, t, 0, 12, wide));
        expect_ok(f, cst_safetensors_read_f32(f->context, file, t, 0, 12, narrow));
        for (int j = 0; j < 12; j++) {
            assert_true(same_double(wide[j], TYPES[i].values[j]));
            assert_true(same_double((double)narrow[j], (double)(float)TYPES[i].values[j]));
        }
        /* A part of it gives the same numbers. */
        memset(wide, 0, sizeof wide);
        expect_ok(f, cst_safetensors_read_f64(f->context, file, t, 5, 3, wide));
        for (int j = 0; j < 3; j++)
            assert_true(same_double(wide[j], TYPES[i].values[5 + j]));
    }
    assert_int_equal(cst_safetensors_metadata_count(file), 3);
    assert_string_equal(cst_safetensors_metadata_key(file, 0), "format");
    assert_string_equal(cst_safetensors_metadata_value(file, 0), "pt");
    assert_string_equal(cst_safetensors_metadata(file, "note"),
                        "\xc3\xa9 \"quoted\" \\ and\na\ttab \x01");
    assert_string_equal(cst_safetensors_metadata(file, ""), "");
    assert_null(cst_safetensors_metadata(file, "no"));
    assert_null(cst_safetensors_metadata_key(file, 3));
    assert_null(cst_safetensors_metadata_value(file, -1));
    cst_safetensors_close(f->context, file);
}

/* Scalars, tensors without elements, data that are not aligned, names of every kind. */
static void odd_tensors(void **state) {
    fixture *f = *state;
    char path[512];
    cst_safetensors *file = NULL;
    float value = 0;
    int32_t axes = 7;
    expect_ok(f, cst_safetensors_open(f->context, &file, fixture_path("ok_given", path, 512)));
    assert_int_equal(cst_safetensors_count(file), 5);
    assert_string_equal(cst_safetensors_name(file, 0), "b");
    int64_t scalar = cst_safetensors_find(file, "\xc3\xa9/\xf0\x9d\x84\x9e \"\\");
    assert_int_equal(scalar, 1);
    assert_non_null(cst_safetensors_shape(file, scalar, &axes));
    assert_int_equal(axes, 0);
    assert_int_equal(cst_safetensors_elements(file, scalar), 1);
    assert_int_equal(cst_safetensors_bytes(file, scalar), 4);
    expect_ok(f, cst_safetensors_read_f32(f->context, file, scalar, 0, 1, &value));
    assert_true(value == 1.5F);
    int64_t none = cst_safetensors_find(file, "");
    assert_int_equal(cst_safetensors_elements(file, none), 0);
    assert_int_equal(cst_safetensors_bytes(file, none), 0);
    expect_ok(f, cst_safetensors_read_f32(f->context, file, none, 0, 0, NULL));
    assert_int_equal(cst_safetensors_find(file, "z\n\x7f"), 3);
    assert_int_equal(cst_safetensors_find(file, "c"), -1);
    assert_int_equal(file->tensors[1].begin, file->tensors[0].begin + 3);
    cst_safetensors_close(f->context, file);

    expect_ok(f, cst_safetensors_open(f->context, &file, fixture_path("ok_spaces", path, 512)));
    assert_string_equal(cst_safetensors_name(file, 0), "x"); /* by place, not by header */
    float two[2];
    expect_ok(f, cst_safetensors_read_f32(f->context, file, 0, 0, 2, two));
    assert_true(two[0] == 1 && two[1] == 2);
    cst_safetensors_close(f->context, file);

    expect_ok(f, cst_safetensors_open(f->context, &file, fixture_path("ok_empty", path, 512)));
    assert_int_equal(cst_safetensors_count(file), 0);
    assert_int_equal(cst_safetensors_find(file, "a"), -1);
    cst_safetensors_close(f->context, file);
}

static void listed_types(void **state) {
    fixture *f = *state;
    char path[512];
    cst_safetensors *file = NULL;
    unsigned char raw[4];
    float value[4];
    expect_ok(f, cst_safetensors_open(f->context, &file, fixture_path("ok_listed", path, 512)));
    assert_int_equal(cst_safetensors_count(file), 9);
    int64_t eighth = cst_safetensors_find(file, "F8_E4M3");
    expect_ok(f, cst_safetensors_read(f->context, file, eighth, 1, 3, raw));
    assert_memory_equal(raw, "\1\2\3", 3);
    expect_error(f, cst_safetensors_read_f32(f->context, file, eighth, 0, 4, value),
                 CST_ERROR_UNSUPPORTED, "ok_listed", "'F8_E4M3' has dtype F8_E4M3", NULL);
    expect_error(
        f,
        cst_safetensors_read_f32(f->context, file, cst_safetensors_find(file, "F4"), 0, 4, value),
        CST_ERROR_UNSUPPORTED, "F4", NULL);
    cst_safetensors_close(f->context, file);
}

static void refusals(void **state) {
    fixture *f = *state;
    for (size_t i = 0; i < COUNT_OF(BROKEN); i++) {
        char path[512];
        char name[64];
        char words[600];
        (void)snprintf(name, sizeof name, "bad_%s", BROKEN[i].name);
        cst_safetensors *file = (cst_safetensors *)&path;
        cst_status status =
            cst_safetensors_open(f->context, &file, fixture_path(name, path, sizeof path));
        if (status != BROKEN[i].status || !strstr(cst_last_error(f->context), BROKEN[i].words))
            fail_msg("%s: %s: %s", name, cst_status_name(status), cst_last_error(f->context));
        (void)snprintf(words, sizeof words, "%s.safetensors", name);
        expect_error(f, status, BROKEN[i].status, words, NULL);
        assert_null(file);
    }
}

static void refused_files(void **state) {
    fixture *f = *state;
    cst_safetensors *file = NULL;
    expect_error(f, cst_safetensors_open(f->context, &file, at(f, "none")), CST_ERROR_IO,
                 "cannot open the file", NULL);
    expect_error(f, cst_safetensors_open(f->context, &file, f->folder), CST_ERROR_IO, "folder",
                 NULL);
    put_bytes(f, "empty", "", 0);
    expect_error(f, cst_safetensors_open(f->context, &file, at(f, "empty")), CST_ERROR_FORMAT,
                 "the file is empty", NULL);
    /* Whatever a file is called, it is read as one of tensors. */
    put_bytes(f, "a.npz", "\2\0\0\0\0\0\0\0{}", 10);
    expect_ok(f, cst_safetensors_open(f->context, &file, at(f, "a.npz")));
    cst_safetensors_close(f->context, file);
}

static void ranges(void **state) {
    fixture *f = *state;
    const unsigned char data[6] = {1, 0, 2, 0, 0xff, 0xff};
    double value[3];
    const void *mapped = NULL;
    cst_safetensors *file =
        from_header(f,
                    "{\"a\":{\"dtype\":\"U16\",\"shape\":[2],\"data_offsets\":[0,4]},"
                    "\"b\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[4,6]}}",
                    data, sizeof data);
    assert_non_null(file);
    expect_ok(f, cst_safetensors_read_f64(f->context, file, 0, 2, 0, value));
    expect_error(f, cst_safetensors_read_f64(f->context, file, 0, 1, 2, value), CST_ERROR_ARGUMENT,
                 "memory", "tensor 'a'", "element 1", NULL);
    expect_error(f, cst_safetensors_read_f64(f->context, file, 0, -1, 1, value), CST_ERROR_ARGUMENT,
                 "element -1", NULL);
    expect_error(f, cst_safetensors_read_f64(f->context, file, 0, INT64_MAX, INT64_MAX, value),
                 CST_ERROR_ARGUMENT, "tensor 'a'", NULL);
    expect_error(f, cst_safetensors_read_f32(f->context, file, 2, 0, 1, (float *)value),
                 CST_ERROR_ARGUMENT, "no tensor 2 of 2", NULL);
    expect_error(f, cst_safetensors_read(f->context, file, 0, 3, 2, value), CST_ERROR_ARGUMENT,
                 "byte 3", NULL);
    /* What is no BOOL: numbered from the tensor's start, placed in the file. */
    expect_error(f, cst_safetensors_read_f64(f->context, file, 1, 1, 1, value), CST_ERROR_FORMAT,
                 "tensor 'b' is BOOL, and its element 1 is 255", NULL);
    expect_ok(f, cst_safetensors_map(f->context, file, 1, &mapped));
    assert_memory_equal(mapped, data + 4, 2);
    assert_null(cst_safetensors_name(file, 2));
    assert_null(cst_safetensors_shape(file, -1, (int32_t[1]){0}));
    assert_int_equal(cst_safetensors_dtype(file, 2), CST_DTYPE_FORCE_INT);
    assert_int_equal(cst_safetensors_elements(file, 2), -1);
    cst_safetensors_close(f->context, file);
}

/* A file that becomes shorter while it is open: an error, not a signal. */
static void shrinking(void **state) {
    fixture *f = *state;
    cst_safetensors *file = NULL;
    const void *mapped = NULL;
    float values[4] = {1, 2, 3, 4};
    tensor_file *writer = NULL;
    char path[512];
    (void)snprintf(path, sizeof path, "%s", at(f, "w.safetensors"));
    writer = tensor_file_new();
    (void)tensor_file_add(writer, "w", CST_DTYPE_F32, (const int64_t[1]){4}, 1);
    tensor_file_floats(writer, (int)(0), values, 4);
    tensor_file_write(writer, path);
    expect_ok(f, cst_safetensors_open(f->context, &file, path));
    expect_ok(f, cst_safetensors_map(f->context, file, 0, &mapped));
    assert_memory_equal(mapped, values, sizeof values);
    assert_int_equal(truncate(path, (off_t)(file->data_offset + file->tensors[0].begin) + 8), 0);
    /* What is left of it may be of another file by now. */
    expect_error(f, cst_safetensors_read_f32(f->context, file, 0, 0, 2, values), CST_ERROR_IO,
                 "w.safetensors", "changed while it was being read", NULL);
    expect_error(f, cst_safetensors_read_f32(f->context, file, 0, 0, 3, values), CST_ERROR_IO,
                 "w.safetensors", "did it change in the meantime?", NULL);
    cst_safetensors_close(f->context, file);
    expect_error(f, cst_safetensors_open(f->context, &file, path), CST_ERROR_FORMAT, "truncated",
                 NULL);
}

/* ---- many tensors, failing memory ---- */

/* A hundred thousand tensors: names are looked up, nothing is quadratic. */
static void many_tensors(void **state) {
    fixture *f = *state;
    enum { MANY = 100000, ENTRY = 96 };
    cst_safetensors *file = NULL;
    unsigned char *data = calloc(MANY, 1);
    char *header = calloc(MANY + 1, ENTRY);
    char name[64];
    assert_true(data && header);
    size_t used = 0;
    for (int i = 0; i < MANY; i++) {
        int number = (int)((i * INT64_C(7919)) % MANY);
        used += (size_t)snprintf(header + used, ENTRY,
                                 "%c\"layers.%d.weight\":{\"dtype\":\"U8\",\"shape\":[],\"data_"
                                 "offsets\":[%d,%d]}",
                                 i ? ',' : '{', number, i, i + 1);
        data[i] = (unsigned char)(number % 251);
    }
    header[used] = '}';
    file = from_header(f, header, data, MANY);
    assert_int_equal(cst_safetensors_count(file), MANY);
    for (int64_t i = 0; i < MANY; i += 997) {
        unsigned char value = 0;
        (void)snprintf(name, sizeof name, "layers.%" PRId64 ".weight", i);
        int64_t t = cst_safetensors_find(file, name);
        assert_string_equal(cst_safetensors_name(file, t), name);
        expect_ok(f, cst_safetensors_read(f->context, file, t, 0, 1, &value));
        assert_int_equal(value, i % 251);
    }
    cst_safetensors_close(f->context, file);
    free(header);
    free(data);
}

static cst_status read_all(cst_context *context, const char *path) {
    cst_safetensors *file = NULL;
    float values[12];
    cst_status status = cst_safetensors_open(context, &file, path);
    for (int64_t t = 0; status == CST_OK && t < 13; t++)
        status = cst_safetensors_read_f32(context, file, t, 0, 12, values);
    cst_safetensors_close(context, file);
    return status;
}

static void failing_allocations(void **state) {
    char from[512];
    (void)state;
    (void)fixture_path("ok_types", from, sizeof from);
    for (int64_t n = 0;; n++) {
        failing memory = {.left = INT64_MAX};
        cst_context *context = NULL;
        assert_int_equal(cst_context_create_with(&context, failing_realloc, &memory), CST_OK);
        int64_t before = memory.live;
        memory.left = n;
        cst_status status = read_all(context, from);
        bool failed = memory.left < 0;
        memory.left = INT64_MAX;
        assert_int_equal(memory.live, before);
        assert_true(status == CST_OK || (failed && status == CST_ERROR_MEMORY));
        cst_context_free(context);
        if (!failed)
            break;
        assert_true(n < 1000);
    }
}

int suite_safetensors(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_types),
        cmocka_unit_test(rounding),
        cmocka_unit_test_setup_teardown(every_type, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(odd_tensors, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(listed_types, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(refusals, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(refused_files, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(ranges, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(shrinking, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(many_tensors, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(failing_allocations, files_setup, files_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
