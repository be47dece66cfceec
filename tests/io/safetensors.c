/*
 * Safetensors files: what an independent writer made is read, what is broken is refused with the
 * place and the reason, and what is written has the same bytes as that writer's.
 */
#include "io_files.h"

#include "failing_memory.h"
#include "io/safetensors.h"
#include "weights/safetensors_write.h"

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

/* Header and data in one piece of memory; NULL after a refusal. */
static cst_safetensors *from_memory(fixture *f, const char *header, const void *data, size_t bytes,
                                    unsigned char **kept) {
    size_t length = strlen(header);
    unsigned char *all = malloc(8 + length + bytes);
    assert_non_null(all);
    for (int i = 0; i < 8; i++)
        all[i] = (unsigned char)(length >> (8 * i));
    memcpy(all + 8, header, length);
    if (bytes)
        memcpy(all + 8 + length, data, bytes);
    cst_safetensors *file = NULL;
    (void)cst_safetensors_open_memory(f->context, &file, "memory", all, 8 + length + bytes);
    *kept = all;
    return file;
}

/* ---- types ---- */

static void names_of_types(void **state) {
    (void)state;
    cst_dtype dtype = CST_DTYPE_U8;
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
    assert_true(cst_dtype_find("F64", 3, &dtype));
    assert_int_equal(dtype, CST_DTYPE_F64);
    assert_false(cst_dtype_find("F6", 2, &dtype));
}

static void rounding(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ROUNDED); i++) {
        if (cst_half_of_f64(ROUNDED[i].value) != ROUNDED[i].half ||
            cst_bfloat_of_f64(ROUNDED[i].value) != ROUNDED[i].bfloat)
            fail_msg("%a: %04x %04x", ROUNDED[i].value, cst_half_of_f64(ROUNDED[i].value),
                     cst_bfloat_of_f64(ROUNDED[i].value));
    }
    assert_int_equal(cst_half_of_f64(NAN) & 0x7e00, 0x7e00);
    assert_int_equal(cst_bfloat_of_f64(NAN) & 0x7fc0, 0x7fc0);
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
    unsigned char *kept = NULL;
    const unsigned char data[6] = {1, 0, 2, 0, 0xff, 0xff};
    double value[3];
    const void *mapped = NULL;
    cst_safetensors *file =
        from_memory(f,
                    "{\"a\":{\"dtype\":\"U16\",\"shape\":[2],\"data_offsets\":[0,4]},"
                    "\"b\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[4,6]}}",
                    data, sizeof data, &kept);
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
    free(kept);
}

/* A file that becomes shorter while it is open: an error, not a signal. */
static void shrinking(void **state) {
    fixture *f = *state;
    cst_safetensors *file = NULL;
    const void *mapped = NULL;
    float values[4] = {1, 2, 3, 4};
    cst_safetensors_writer *writer = NULL;
    char path[512];
    (void)snprintf(path, sizeof path, "%s", at(f, "w.safetensors"));
    expect_ok(f, cst_safetensors_writer_open(f->context, &writer, path, CST_TENSOR_ORDER_SORTED));
    expect_ok(f, cst_safetensors_writer_add(f->context, writer, "w", CST_DTYPE_F32,
                                            (const int64_t[1]){4}, 1));
    expect_ok(f, cst_safetensors_writer_put_f32(f->context, writer, 0, values, 4));
    expect_ok(f, cst_safetensors_writer_finish(f->context, writer));
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

/* ---- writing ---- */

/* Copies a file, tensor by tensor in the order of `source`'s data turned round, in odd pieces. */
static void copy_file(fixture *f, const cst_safetensors *source, const char *path,
                      cst_tensor_order order) {
    cst_safetensors_writer *writer = NULL;
    int64_t count = cst_safetensors_count(source);
    bool sorted = order == CST_TENSOR_ORDER_SORTED;
    expect_ok(f, cst_safetensors_writer_open(f->context, &writer, path, order));
    for (int64_t i = 0; i < count; i++) {
        int64_t t = sorted ? count - 1 - i : i;
        int32_t axes = 0;
        const int64_t *shape = cst_safetensors_shape(source, t, &axes);
        expect_ok(f, cst_safetensors_writer_add(f->context, writer, cst_safetensors_name(source, t),
                                                cst_safetensors_dtype(source, t), shape, axes));
    }
    for (int64_t i = 0; i < cst_safetensors_metadata_count(source); i++)
        expect_ok(f, cst_safetensors_writer_metadata(f->context, writer,
                                                     cst_safetensors_metadata_key(source, i),
                                                     cst_safetensors_metadata_value(source, i)));
    assert_int_equal(cst_safetensors_writer_at(writer, 0), -1);
    expect_ok(f, cst_safetensors_writer_start(f->context, writer));
    for (int64_t place = 0; place < count; place++) {
        int64_t added = cst_safetensors_writer_at(writer, place);
        int64_t t = sorted ? count - 1 - added : added;
        unsigned char raw[128];
        int64_t bytes = cst_safetensors_bytes(source, t);
        assert_in_range(bytes, 0, sizeof raw);
        expect_ok(f, cst_safetensors_read(f->context, source, t, 0, bytes, raw));
        for (int64_t from = 0; from < bytes; from += 5)
            expect_ok(f, cst_safetensors_writer_put(f->context, writer, added, raw + from,
                                                    bytes - from < 5 ? bytes - from : 5));
    }
    assert_int_equal(cst_safetensors_writer_at(writer, count), -1);
    assert_int_equal(access(path, F_OK), -1); /* not before it is complete */
    expect_ok(f, cst_safetensors_writer_finish(f->context, writer));
}

static void written_as_by_another(void **state) {
    fixture *f = *state;
    static const struct {
        const char *name;
        cst_tensor_order order;
    } files[] = {{"ok_types", CST_TENSOR_ORDER_SORTED},    {"ok_given", CST_TENSOR_ORDER_GIVEN},
                 {"ok_listed", CST_TENSOR_ORDER_SORTED},   {"ok_empty", CST_TENSOR_ORDER_SORTED},
                 {"ok_metadata", CST_TENSOR_ORDER_SORTED}, {"ok_types", CST_TENSOR_ORDER_GIVEN}};
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        char path[512];
        char copy[512];
        cst_safetensors *file = NULL;
        (void)fixture_path(files[i].name, path, sizeof path);
        (void)snprintf(copy, sizeof copy, "%s", at(f, "copy.safetensors"));
        expect_ok(f, cst_safetensors_open(f->context, &file, path));
        copy_file(f, file, copy, files[i].order);
        cst_safetensors_close(f->context, file);
        expect_same_bytes(path, copy);
        assert_int_equal(unlink(copy), 0);
    }
}

/* The example of the published format, byte by byte. */
static void published_bytes(void **state) {
    fixture *f = *state;
    static const char header[] =
        "{\"attn0\":{\"dtype\":\"F32\",\"shape\":[1,1,2,3],\"data_offsets\":[0,24]}}       ";
    const float values[6] = {0, 1, 2, 3, 4, 5};
    static const unsigned char data[24] = {0, 0, 0,    0,    0, 0, 128,  63,   0, 0, 0,    64,
                                           0, 0, 0x40, 0x40, 0, 0, 0x80, 0x40, 0, 0, 0xa0, 0x40};
    unsigned char expected[8 + sizeof header - 1 + 24] = {72};
    cst_safetensors_writer *writer = NULL;
    char path[512];
    size_t size = 0;
    assert_int_equal(sizeof header - 1, 72);
    memcpy(expected + 8, header, 72);
    memcpy(expected + 80, data, 24);
    (void)snprintf(path, sizeof path, "%s", at(f, "attn.safetensors"));
    expect_ok(f, cst_safetensors_writer_open(f->context, &writer, path, CST_TENSOR_ORDER_SORTED));
    expect_ok(f, cst_safetensors_writer_add(f->context, writer, "attn0", CST_DTYPE_F32,
                                            (const int64_t[4]){1, 1, 2, 3}, 4));
    expect_ok(f, cst_safetensors_writer_put_f32(f->context, writer, 0, values, 6));
    expect_ok(f, cst_safetensors_writer_finish(f->context, writer));
    unsigned char *bytes = contents(path, &size);
    assert_int_equal(size, sizeof expected);
    assert_memory_equal(bytes, expected, size);
    free(bytes);
}

/* Numbers become what the type can hold, and come back. */
static void written_numbers(void **state) {
    fixture *f = *state;
    static const cst_dtype types[] = {CST_DTYPE_F64, CST_DTYPE_F32, CST_DTYPE_F16, CST_DTYPE_BF16};
    enum { VALUES = 10000 };
    double *values = calloc(VALUES, sizeof *values);
    double *back = calloc(VALUES, sizeof *back);
    float *narrow = calloc(VALUES, sizeof *narrow);
    assert_true(values && back && narrow);
    for (int i = 0; i < VALUES; i++) {
        values[i] = sin(i) * exp(i % 37 - 18);
        narrow[i] = (float)values[i];
    }
    for (int form = 0; form < 2; form++) {
        cst_safetensors_writer *writer = NULL;
        cst_safetensors *file = NULL;
        expect_ok(f, cst_safetensors_writer_open(f->context, &writer, at(f, "n.safetensors"),
                                                 CST_TENSOR_ORDER_GIVEN));
        for (int t = 0; t < 4; t++)
            expect_ok(f, cst_safetensors_writer_add(f->context, writer, cst_dtype_name(types[t]),
                                                    types[t], (const int64_t[2]){100, VALUES / 100},
                                                    2));
        for (int t = 0; t < 4; t++)
            expect_ok(f,
                      form ? cst_safetensors_writer_put_f64(f->context, writer, t, values, VALUES)
                           : cst_safetensors_writer_put_f32(f->context, writer, t, narrow, VALUES));
        expect_ok(f, cst_safetensors_writer_finish(f->context, writer));
        expect_ok(f, cst_safetensors_open(f->context, &file, at(f, "n.safetensors")));
        for (int t = 0; t < 4; t++) {
            static const double steps[] = {0, 0x1p-24, 0x1p-11, 0x1p-8};
            expect_ok(f, cst_safetensors_read_f64(f->context, file, t, 0, VALUES, back));
            for (int i = 0; i < VALUES; i++) {
                double given = form ? values[i] : (double)narrow[i];
                double bound = fabs(given) * steps[t];
                if (t == 2 && bound < 0x1p-25)
                    bound = 0x1p-25;
                if (t == 2 && fabs(given) > 65519)
                    assert_true(isinf(back[i]));
                else
                    assert_true(fabs(back[i] - given) <= bound);
            }
        }
        cst_safetensors_close(f->context, file);
    }
    free(values);
    free(back);
    free(narrow);
}

static void misuse_of_the_writer(void **state) {
    fixture *f = *state;
    cst_safetensors_writer *writer = NULL;
    const int64_t two[1] = {2};
    char path[512];
    (void)snprintf(path, sizeof path, "%s", at(f, "m.safetensors"));
    expect_ok(f, cst_safetensors_writer_open(f->context, &writer, path, CST_TENSOR_ORDER_SORTED));
    expect_ok(f, cst_safetensors_writer_add(f->context, writer, "a", CST_DTYPE_U8, two, 1));
    expect_error(
        f, cst_safetensors_writer_add(f->context, writer, "__metadata__", CST_DTYPE_U8, two, 1),
        CST_ERROR_ARGUMENT, "__metadata__", NULL);
    expect_error(f, cst_safetensors_writer_add(f->context, writer, "\xff", CST_DTYPE_U8, two, 1),
                 CST_ERROR_ARGUMENT, "not UTF-8", NULL);
    expect_error(f, cst_safetensors_writer_metadata(f->context, writer, "k", "\xed\xa0\x80"),
                 CST_ERROR_ARGUMENT, "not UTF-8", NULL);
    expect_error(f, cst_safetensors_writer_add(f->context, writer, "b", (cst_dtype)99, two, 1),
                 CST_ERROR_ARGUMENT, "'b'", NULL);
    expect_error(f, cst_safetensors_writer_add(f->context, writer, "b", CST_DTYPE_U8, NULL, 1),
                 CST_ERROR_ARGUMENT, "'b'", NULL);
    expect_error(f,
                 cst_safetensors_writer_add(f->context, writer, "b", CST_DTYPE_U8,
                                            (const int64_t[1]){-1}, 1),
                 CST_ERROR_ARGUMENT, "negative", NULL);
    expect_error(f,
                 cst_safetensors_writer_add(f->context, writer, "b", CST_DTYPE_F64,
                                            (const int64_t[2]){INT64_MAX, 3}, 2),
                 CST_ERROR_LIMIT, "'b'", NULL);
    expect_error(
        f,
        cst_safetensors_writer_add(f->context, writer, "b", CST_DTYPE_F4, (const int64_t[1]){3}, 1),
        CST_ERROR_LIMIT, "whole number of bytes", NULL);
    expect_error(f, cst_safetensors_writer_add(f->context, writer, "b", CST_DTYPE_U8, two, 33),
                 CST_ERROR_LIMIT, "33 axes", NULL);
    expect_ok(f, cst_safetensors_writer_add(f->context, writer, "w", CST_DTYPE_F32, two, 1));
    expect_ok(f, cst_safetensors_writer_add(f->context, writer, "f", CST_DTYPE_BOOL, two, 1));
    expect_ok(f, cst_safetensors_writer_start(f->context, writer));
    expect_error(f, cst_safetensors_writer_add(f->context, writer, "late", CST_DTYPE_U8, two, 1),
                 CST_ERROR_ARGUMENT, "'late' is declared after", NULL);
    expect_error(f, cst_safetensors_writer_start(f->context, writer), CST_ERROR_ARGUMENT, NULL);
    expect_error(f, cst_safetensors_writer_put(f->context, writer, 0, "ab", 2), CST_ERROR_ARGUMENT,
                 "data of tensor 'a', but", "the next tensor is 'w'", NULL);
    expect_error(f, cst_safetensors_writer_put(f->context, writer, 1, "123456789", 9),
                 CST_ERROR_ARGUMENT, "tensor 'w' has 8 bytes", NULL);
    expect_error(f, cst_safetensors_writer_put(f->context, writer, 3, "1", 1), CST_ERROR_ARGUMENT,
                 "no tensor 3", NULL);
    expect_ok(f, cst_safetensors_writer_put(f->context, writer, 1, "12345678", 8));
    expect_error(f,
                 cst_safetensors_writer_put_f32(f->context, writer, 0, (const float[2]){1, 2}, 2),
                 CST_ERROR_UNSUPPORTED, "'a' is U8", NULL);
    expect_ok(f, cst_safetensors_writer_put(f->context, writer, 0, "ab", 2));
    expect_error(f, cst_safetensors_writer_put(f->context, writer, 2, "\1\2", 2),
                 CST_ERROR_ARGUMENT, "'f' is BOOL, and its element 1 is 2", NULL);
    expect_error(f, cst_safetensors_writer_finish(f->context, writer), CST_ERROR_ARGUMENT,
                 "tensor 'f' has 2 bytes, of which 0 were given", NULL);
    assert_int_equal(access(path, F_OK), -1);

    /* Names that are there twice are found when the header is made; what was there stays. */
    put_text(f, "m.safetensors", "old");
    for (int form = 0; form < 2; form++) {
        expect_ok(f,
                  cst_safetensors_writer_open(f->context, &writer, path, CST_TENSOR_ORDER_GIVEN));
        for (int i = 0; i < 2; i++)
            expect_ok(
                f, form ? cst_safetensors_writer_add(f->context, writer, "a", CST_DTYPE_U8, NULL, 0)
                        : cst_safetensors_writer_metadata(f->context, writer, "a", "b"));
        expect_error(f, cst_safetensors_writer_finish(f->context, writer), CST_ERROR_ARGUMENT,
                     "'a' occurs twice", NULL);
    }
    expect_ok(f, cst_safetensors_writer_open(f->context, &writer, path, CST_TENSOR_ORDER_GIVEN));
    cst_safetensors_writer_abandon(f->context, writer);
    size_t size = 0;
    unsigned char *bytes = contents(path, &size);
    assert_int_equal(size, 3);
    free(bytes);
    expect_error(f,
                 cst_safetensors_writer_open(f->context, &writer, "/nowhere/x.safetensors",
                                             CST_TENSOR_ORDER_GIVEN),
                 CST_ERROR_IO, "/nowhere/x.safetensors", NULL);
    assert_null(writer);
}

/* ---- many tensors, failing memory ---- */

/* A hundred thousand tensors: names are looked up, nothing is quadratic. */
static void many_tensors(void **state) {
    fixture *f = *state;
    enum { MANY = 100000 };
    cst_safetensors_writer *writer = NULL;
    cst_safetensors *file = NULL;
    char name[64];
    expect_ok(f, cst_safetensors_writer_open(f->context, &writer, at(f, "many.safetensors"),
                                             CST_TENSOR_ORDER_SORTED));
    for (int64_t i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof name, "layers.%" PRId64 ".weight", (i * 7919) % MANY);
        expect_ok(f, cst_safetensors_writer_add(f->context, writer, name, CST_DTYPE_U8, NULL, 0));
    }
    expect_ok(f, cst_safetensors_writer_start(f->context, writer));
    for (int64_t place = 0; place < MANY; place++) {
        int64_t t = cst_safetensors_writer_at(writer, place);
        unsigned char value = (unsigned char)((t * 7919) % MANY % 251);
        expect_ok(f, cst_safetensors_writer_put(f->context, writer, t, &value, 1));
    }
    expect_ok(f, cst_safetensors_writer_finish(f->context, writer));
    expect_ok(f, cst_safetensors_open(f->context, &file, at(f, "many.safetensors")));
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
}

/* Reads and writes a file with an allocator that fails once. */
static cst_status round_trip(cst_context *context, const char *from, const char *to) {
    cst_safetensors *file = NULL;
    cst_safetensors_writer *writer = NULL;
    float values[12];
    cst_status status = cst_safetensors_open(context, &file, from);
    if (status == CST_OK)
        status = cst_safetensors_writer_open(context, &writer, to, CST_TENSOR_ORDER_SORTED);
    for (int64_t t = 0; status == CST_OK && t < 13; t++) {
        int32_t axes = 0;
        const int64_t *shape = cst_safetensors_shape(file, t, &axes);
        status = cst_safetensors_writer_add(context, writer, cst_safetensors_name(file, t),
                                            CST_DTYPE_BF16, shape, axes);
    }
    if (status == CST_OK)
        status = cst_safetensors_writer_metadata(context, writer, "k", "v");
    if (status == CST_OK)
        status = cst_safetensors_writer_start(context, writer);
    for (int64_t place = 0; status == CST_OK && place < 13; place++) {
        int64_t t = cst_safetensors_writer_at(writer, place);
        status = cst_safetensors_read_f32(context, file, t, 0, 12, values);
        if (status == CST_OK)
            status = cst_safetensors_writer_put_f32(context, writer, t, values, 12);
    }
    if (status == CST_OK)
        status = cst_safetensors_writer_finish(context, writer);
    else
        cst_safetensors_writer_abandon(context, writer);
    cst_safetensors_close(context, file);
    return status;
}

static void failing_allocations(void **state) {
    fixture *f = *state;
    char from[512];
    char to[512];
    (void)fixture_path("ok_types", from, sizeof from);
    (void)snprintf(to, sizeof to, "%s", at(f, "f.safetensors"));
    for (int64_t n = 0;; n++) {
        failing memory = {.left = INT64_MAX};
        cst_context *context = NULL;
        assert_int_equal(cst_context_create_with(&context, failing_realloc, &memory), CST_OK);
        int64_t before = memory.live;
        memory.left = n;
        cst_status status = round_trip(context, from, to);
        bool failed = memory.left < 0;
        memory.left = INT64_MAX;
        assert_int_equal(memory.live, before);
        /* The folder's sync alone may fail without being told. */
        assert_true(status == CST_OK || (failed && status == CST_ERROR_MEMORY));
        assert_int_equal(unlink(to), status == CST_OK ? 0 : -1);
        cst_context_free(context);
        if (!failed)
            break;
        assert_true(n < 1000);
    }
}

/* A start that fails may come again, as part of the end, and leaves nothing. */
static void started_twice(void **state) {
    fixture *f = *state;
    static const int64_t shape[1] = {INT64_MAX / 4 * 3};
    failing memory = {.left = INT64_MAX};
    cst_context *context = NULL;
    cst_safetensors_writer *writer = NULL;
    assert_int_equal(cst_context_create_with(&context, failing_realloc, &memory), CST_OK);
    int64_t before = memory.live;
    assert_int_equal(cst_safetensors_writer_open(context, &writer, at(f, "f.safetensors"),
                                                 CST_TENSOR_ORDER_SORTED),
                     CST_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            cst_safetensors_writer_add(context, writer, i ? "a" : "b", CST_DTYPE_U8, shape, 1),
            CST_OK);
    assert_int_equal(cst_safetensors_writer_start(context, writer), CST_ERROR_LIMIT);
    assert_int_equal(cst_safetensors_writer_put(context, writer, 0, "x", 1), CST_ERROR_LIMIT);
    assert_int_equal(cst_safetensors_writer_finish(context, writer), CST_ERROR_LIMIT);
    assert_int_equal(memory.live, before);
    cst_context_free(context);
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
        cmocka_unit_test_setup_teardown(written_as_by_another, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(published_bytes, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(written_numbers, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(misuse_of_the_writer, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(started_twice, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(many_tensors, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(failing_allocations, files_setup, files_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
