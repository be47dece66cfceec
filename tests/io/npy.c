/*
 * npy and npz against files that NumPy wrote, and against broken and hostile ones; output that
 * appears whole or not at all.
 */
#include "io_files.h"

#include "data/files/output.h"
#include "data/io.h"
#include "data/readers/npy.h"

#include <corestack/files.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#define DATA CST_TEST_DATA "/io/"

static cst_status open_npy(fixture *f, const char *path) {
    cst_npy *npy = NULL;
    cst_status status = cst_npy_open(f->context, &f->scope, &npy, path, 0);
    assert_int_equal(status == CST_OK, npy != NULL);
    cst_scope_free(&f->scope);
    return status;
}

/* ---- what NumPy writes ---- */

static void every_dtype_order_and_version_is_read(void **state) {
    fixture *f = *state;
    for (size_t k = 0; k < sizeof io_expected / sizeof io_expected[0]; k++) {
        char path[512];
        double values[12];
        float singles[12];
        cst_npy *npy = NULL;
        (void)snprintf(path, sizeof path, DATA "%s", io_expected[k].name);
        expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, path, 0));
        assert_int_equal(npy->dims, 2);
        assert_int_equal(cst_npy_rows(npy), 3);
        assert_int_equal(cst_npy_width(npy), 4);
        /* in two parts, so that streaming is exercised */
        expect_ok(f, cst_npy_read_rows_f64(f->context, npy, 0, 1, values));
        expect_ok(f, cst_npy_read_rows_f64(f->context, npy, 1, 2, values + 4));
        expect_ok(f, cst_npy_read_rows_f32(f->context, npy, 0, 3, singles));
        for (int i = 0; i < 12; i++) {
            assert_true(values[i] == io_expected[k].values[i]);
            assert_true(singles[i] == (float)io_expected[k].values[i]);
        }
        expect_error(f, cst_npy_read_rows_f64(f->context, npy, 2, 2, values), CST_ERROR_ARGUMENT,
                     io_expected[k].name, "rows 2 to 3 of 3", NULL);
        cst_scope_free(&f->scope);
    }
}

static void three_dimensions_in_both_orders(void **state) {
    fixture *f = *state;
    for (int fortran = 0; fortran < 2; fortran++)
        for (int axes = 1; axes <= 2; axes++) {
            cst_npy *npy = NULL;
            float values[24];
            char shape[CST_NPY_SHAPE_CHARS];
            expect_ok(f, cst_npy_open(f->context, &f->scope, &npy,
                                      fortran ? DATA "cube_F.npy" : DATA "cube_C.npy", 0));
            assert_int_equal(npy->fortran, fortran);
            assert_string_equal(cst_npy_shape_text(npy, shape), "(2, 3, 4)");
            npy->row_axes = axes;
            int64_t rows = cst_npy_rows(npy);
            int64_t width = cst_npy_width(npy);
            assert_int_equal(rows, axes == 1 ? 2 : 6);
            expect_ok(f, cst_npy_read_rows_f32(f->context, npy, 1, rows - 1, values));
            for (int64_t i = 0; i < (rows - 1) * width; i++)
                assert_true(values[i] == (float)(width + i));
            cst_scope_free(&f->scope);
        }
}

/* All 65,536 halves, against sign, exponent and fraction put together with ldexp. */
static void every_half_is_exact(void **state) {
    fixture *f = *state;
    static uint16_t halves[65536];
    static float values[65536];
    cst_npy *npy = NULL;
    for (int i = 0; i < 65536; i++)
        halves[i] = (uint16_t)i;
    put_npy(f, "h.npy", "{'descr': '<f2', 'fortran_order': False, 'shape': (65536,)}", halves,
            sizeof halves);
    expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, at(f, "h.npy"), 0));
    expect_ok(f, cst_npy_read_rows_f32(f->context, npy, 0, 65536, values));
    for (int i = 0; i < 65536; i++) {
        int exponent = i >> 10 & 31;
        double fraction = i & 1023;
        double expected = exponent == 31  ? (fraction > 0 ? (double)NAN : (double)INFINITY)
                          : exponent == 0 ? ldexp(fraction, -24)
                                          : ldexp(1024 + fraction, exponent - 25);
        if (i & 0x8000)
            expected = -expected;
        assert_true(isnan(expected) ? isnan(values[i]) : (double)values[i] == expected);
        if (!isnan(expected))
            assert_int_equal(signbit(values[i]) != 0, (i & 0x8000) != 0);
    }
    cst_scope_free(&f->scope);
}

static void strings_become_utf8(void **state) {
    fixture *f = *state;
    static const char *const expected[] = {"cat", "d\xc3\xb6rr", "\xe6\x97\xa5\xe6\x9c\xac", "",
                                           "\xf0\x9f\x90\x88x"};
    static const char *const files[] = {DATA "text_U.npy", DATA "text_U_be.npy"};
    cst_npy *npy = NULL;
    cst_strings *strings = NULL;
    for (int k = 0; k < 2; k++) {
        expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, files[k], 0));
        assert_true(cst_npy_is_text(npy));
        expect_ok(f, cst_strings_take(f->context, &f->scope, &strings));
        expect_ok(f, cst_npy_read_strings(f->context, npy, strings));
        assert_int_equal(strings->count, 5);
        for (int i = 0; i < 5; i++)
            assert_string_equal(cst_strings_at(strings, i), expected[i]);
        double ignored[5];
        expect_error(f, cst_npy_read_rows_f64(f->context, npy, 0, 5, ignored), CST_ERROR_INPUT,
                     "text_U", "strings", NULL);
        cst_scope_free(&f->scope);
    }
    expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, DATA "text_S.npy", 0));
    expect_ok(f, cst_strings_take(f->context, &f->scope, &strings));
    expect_ok(f, cst_npy_read_strings(f->context, npy, strings));
    assert_string_equal(cst_strings_at(strings, 1), "bcd");
    assert_string_equal(cst_strings_at(strings, 2), "");
    cst_scope_free(&f->scope);
}

static void strings_with_bad_characters_are_refused(void **state) {
    fixture *f = *state;
    static const struct {
        uint32_t codes[4];
        const char *what;
    } cases[] = {{{'a', 'b', 'c', 0xd800}, "U+D800"},
                 {{'a', 'b', 0x110000, 0}, "U+110000"},
                 {{'a', 'b', 0, 'd'}, "NUL"}};
    for (int k = 0; k < 3; k++) {
        cst_npy *npy = NULL;
        cst_strings *strings = NULL;
        put_npy(f, "s.npy", "{'descr': '<U2', 'fortran_order': False, 'shape': (2,)}",
                cases[k].codes, sizeof cases[k].codes);
        expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, at(f, "s.npy"), 0));
        npy->item = k == 2 ? 16 : 8; /* the third has the NUL inside one string */
        npy->shape[0] = k == 2 ? 1 : 2;
        expect_ok(f, cst_strings_take(f->context, &f->scope, &strings));
        expect_error(f, cst_npy_read_strings(f->context, npy, strings), CST_ERROR_INPUT, "s.npy",
                     "row", cases[k].what, NULL);
        cst_scope_free(&f->scope);
    }
}

static void integers_must_be_integral(void **state) {
    fixture *f = *state;
    static const double good[] = {3, -2, 9007199254740992.0};
    double bad[] = {3, 1.5, 2};
    static const uint64_t huge[] = {1, UINT64_MAX};
    const char *dict = "{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}";
    cst_npy *npy = NULL;
    int64_t *values = NULL;
    int64_t count = 0;
    put_npy(f, "good.npy", dict, good, sizeof good);
    expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, at(f, "good.npy"), 0));
    expect_ok(f, cst_npy_read_i64(f->context, &f->scope, npy, &values, &count));
    assert_int_equal(count, 3);
    for (int i = 0; i < 3; i++)
        assert_true(values[i] == (int64_t)good[i]);
    cst_scope_free(&f->scope);
    static const struct {
        double value;
        const char *text;
    } cases[] = {{1.5, "1.5"}, {NAN, "nan"}, {INFINITY, "inf"}, {1e30, "1e+30"}};
    for (int k = 0; k < 4; k++) {
        bad[1] = cases[k].value;
        put_npy(f, "bad.npy", dict, bad, sizeof bad);
        expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, at(f, "bad.npy"), 0));
        expect_error(f, cst_npy_read_i64(f->context, &f->scope, npy, &values, &count),
                     CST_ERROR_INPUT, "bad.npy", "row 1", cases[k].text, "not an integer", NULL);
        cst_scope_free(&f->scope);
    }
    put_npy(f, "huge.npy", "{'descr': '<u8', 'fortran_order': False, 'shape': (2, 1)}", huge,
            sizeof huge);
    expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, at(f, "huge.npy"), 0));
    expect_error(f, cst_npy_read_i64(f->context, &f->scope, npy, &values, &count), CST_ERROR_INPUT,
                 "huge.npy", "row 1", "18446744073709551615", NULL);
    cst_scope_free(&f->scope);
    expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, DATA "i4_le_C.npy", 0));
    expect_error(f, cst_npy_read_i64(f->context, &f->scope, npy, &values, &count), CST_ERROR_INPUT,
                 "i4_le_C.npy", "(3, 4)", NULL);
    cst_scope_free(&f->scope);
}

/* ---- what nobody should write ---- */

/* What is neither 0 nor 1 is no bool, in npy files as in tensors. */
static void bools_are_0_or_1(void **state) {
    fixture *f = *state;
    static const unsigned char good[6] = {0, 1, 1, 0, 1, 0};
    static const char header[] = "{\"y\":{\"dtype\":\"BOOL\",\"shape\":[6,1],"
                                 "\"data_offsets\":[0,6]}}";
    static const struct {
        const char *name;
        const char *dict; /* NULL: a tensor */
        const char *says;
    } cases[] = {
        {"c.npy", "{'descr': '|b1', 'fortran_order': False, 'shape': (6, 1)}",
         "element 4 is 3, but dtype |b1 allows only 0 and 1"},
        {"f.npy", "{'descr': '|b1', 'fortran_order': True, 'shape': (6, 1)}", "element 4 is 3"},
        {"y.safetensors", NULL, "element 4 is 3, but dtype BOOL allows only 0 and 1"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
        for (int bad = 0; bad < 2; bad++) {
            const char *name = cases[k].name;
            unsigned char all[8 + sizeof header - 1 + 6] = {sizeof header - 1};
            unsigned char *values = all + sizeof all - 6;
            cst_status code = bad ? CST_ERROR_FORMAT : CST_OK;
            const char *says = bad ? cases[k].says : NULL;
            cst_npy *npy = NULL;
            int64_t *whole = NULL;
            cst_strings *texts = NULL;
            int64_t count = 0;
            float narrow[6];
            double wide[6];
            unsigned char raw[6];
            memcpy(all + 8, header, sizeof header - 1);
            memcpy(values, good, 6);
            values[4] = bad ? 3 : values[4];
            if (cases[k].dict)
                put_npy(f, name, cases[k].dict, values, 6);
            else
                put_bytes(f, name, all, sizeof all);
            expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, at(f, name), 0));
            expect_ok(f, cst_npy_read_rows_f64(f->context, npy, 0, 4, wide));
            expect_error(f, cst_npy_read_rows_f64(f->context, npy, 2, 4, wide), code, says, NULL);
            expect_error(f, cst_npy_read_rows_f32(f->context, npy, 4, 1, narrow), code, says, NULL);
            expect_error(f, cst_npy_read_i64(f->context, &f->scope, npy, &whole, &count), code,
                         says, NULL);
            expect_ok(f, cst_strings_take(f->context, &f->scope, &texts));
            expect_error(f, cst_npy_read_strings(f->context, npy, texts), code, says, NULL);
            if (cst_npy_streams(npy))
                expect_error(f, cst_npy_fetch(f->context, npy, 3, 2, raw), code, says, NULL);
            cst_scope_free(&f->scope);
        }
}

static void objects_are_never_unpickled(void **state) {
    fixture *f = *state;
    expect_error(f, open_npy(f, DATA "object.npy"), CST_ERROR_UNSUPPORTED, "object.npy", "|O",
                 "never unpickled", NULL);
    expect_error(f, open_npy(f, DATA "structured.npy"), CST_ERROR_UNSUPPORTED, "structured.npy",
                 "structured", NULL);
    expect_error(f, open_npy(f, DATA "complex.npy"), CST_ERROR_UNSUPPORTED, "complex.npy", "<c8",
                 "complex", NULL);
    expect_error(f, open_npy(f, DATA "date.npy"), CST_ERROR_UNSUPPORTED, "date.npy", "<M8[s]",
                 NULL);
}

static void empty_missing_and_odd_files(void **state) {
    fixture *f = *state;
    put_text(f, "empty.npy", "");
    put_text(f, "short.npy", "\x93NUMPY");
    put_text(f, "text.npy", "this is not an array");
    expect_error(f, open_npy(f, at(f, "empty.npy")), CST_ERROR_FORMAT, "empty.npy",
                 "the file is empty", NULL);
    expect_error(f, open_npy(f, at(f, "short.npy")), CST_ERROR_FORMAT, "short.npy",
                 "at least 10 bytes, but only 6 were found", NULL);
    expect_error(f, open_npy(f, at(f, "text.npy")), CST_ERROR_FORMAT, "text.npy", "byte 0", NULL);
    expect_error(f, open_npy(f, at(f, "none.npy")), CST_ERROR_IO, "none.npy", strerror(ENOENT),
                 NULL);
    expect_error(f, open_npy(f, f->folder), CST_ERROR_IO, f->folder, "a folder", NULL);
    assert_int_equal(mkfifo(at(f, "pipe.npy"), 0600), 0);
    expect_error(f, open_npy(f, at(f, "pipe.npy")), CST_ERROR_IO, "pipe.npy", "pipe", NULL);
}

static void truncated_and_overlong_files(void **state) {
    fixture *f = *state;
    static const float data[13] = {0};
    const char *dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}";
    put_npy(f, "cut.npy", dict, data, 47);
    put_npy(f, "more.npy", dict, data, 52);
    expect_error(f, open_npy(f, at(f, "cut.npy")), CST_ERROR_FORMAT, "cut.npy", "truncated",
                 "(3, 4)", "48 bytes", "47 were found", NULL);
    expect_error(f, open_npy(f, at(f, "more.npy")), CST_ERROR_FORMAT, "more.npy", "52", "48", NULL);
}

/* A header may promise anything: nothing is allocated before the file's size is compared. */
static void sizes_beyond_the_file_are_refused(void **state) {
    fixture *f = *state;
    static const char *const shapes[] = {"(9223372036854775807,)", "(4611686018427387904, 4, 8)",
                                         "(2147483648, 2147483648, 2)", "(3000000000, 3)"};
    char dict[256];
    for (int k = 0; k < 4; k++) {
        (void)snprintf(dict, sizeof dict, "{'descr': '<f8', 'fortran_order': False, 'shape': %s}",
                       shapes[k]);
        put_npy(f, "big.npy", dict, "12345678", 8);
        expect_error(f, open_npy(f, at(f, "big.npy")), CST_ERROR_FORMAT, "big.npy", shapes[k], "8 ",
                     NULL);
    }
    put_npy(f, "big.npy",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (9223372036854775808,)}", "", 0);
    expect_error(f, open_npy(f, at(f, "big.npy")), CST_ERROR_FORMAT, "big.npy", "2^63", "byte 79",
                 NULL);
    put_npy(f, "zero.npy",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 9223372036854775807, 9)}", "",
            0);
    expect_ok(f, open_npy(f, at(f, "zero.npy")));
}

static void malformed_headers(void **state) {
    fixture *f = *state;
    static const struct {
        const char *dict;
        const char *what;
    } cases[] = {
        {"", "expected '{'"},
        {"{", "a quoted string"},
        {"{'descr': '<f4'", "',' or '}'"},
        {"{'descr': '<f4', 'fortran_order': False}", "is missing"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
         "extra text after the closing"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "True or False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 1}", "tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", "comma"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "digits"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}", "',' or ')'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", "8 dimensions"},
        {"{'descr': '<f4', 'descr': '<f4'}", "twice"},
        {"{'descr': '<f4', 'extra': '<f4'}", "a key other than"},
        {"{'descr': '<f4\\n', 'shape': (1,)}", "escape"},
        {"{'descr': 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'}", "too long"},
        {"{'descr' '<f4'}", "expected ':'"},
        {"{'descr': '|f4', 'fortran_order': False, 'shape': (1,)}", "byte order"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        put_npy(f, "bad.npy", cases[k].dict, "abcd", strlen(cases[k].dict) ? 4 : 0);
        expect_error(f, open_npy(f, at(f, "bad.npy")), CST_ERROR_FORMAT, "bad.npy", "byte ",
                     cases[k].what, NULL);
    }
    static const char *const types[] = {"<f16", "<f3",           "<i16", "|b2", "<f",
                                        "",     "<f99999999999", "<V8",  "q",   "<U0"};
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        char dict[128];
        (void)snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (1,)}",
                       types[k]);
        put_npy(f, "type.npy", dict, "abcd", 4);
        expect_error(f, open_npy(f, at(f, "type.npy")), CST_ERROR_UNSUPPORTED, "type.npy", types[k],
                     "dtype", NULL);
    }
}

/* Every prefix of a good header, and every byte of it replaced, ends in success or one message. */
static void damaged_headers_never_crash(void **state) {
    fixture *f = *state;
    static const char good[] =
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }            \n";
    size_t length = sizeof good - 1;
    static const char bytes[] = {0, '\'', '"', '{', '}', '(', ')', ',', '9', 'L', ' ', (char)0xff};
    int refused = 0;
    for (size_t cut = 0; cut < length; cut++) {
        char *copy =
            malloc(cut ? cut : 1); /* exactly as long, so that a sanitizer sees overreads */
        memcpy(copy, good, cut);
        cst_npy npy = {0};
        refused += cst_npy_parse_dict(f->context, &npy, copy, cut, 10, "cut") != CST_OK;
        free(copy);
    }
    assert_true(refused >= 55);
    for (size_t i = 0; i < length; i++)
        for (size_t k = 0; k < sizeof bytes; k++) {
            char copy[sizeof good];
            memcpy(copy, good, sizeof good);
            copy[i] = bytes[k];
            cst_npy npy = {0};
            cst_status status = cst_npy_parse_dict(f->context, &npy, copy, length, 10, "changed");
            if (bytes[k] == 0)
                assert_int_not_equal(status, CST_OK);
            if (status != CST_OK)
                assert_non_null(strstr(cst_last_error(f->context), "changed: "));
        }
}

static void absurd_header_lengths(void **state) {
    fixture *f = *state;
    put_bytes(f, "v2.npy", "\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14);
    expect_error(f, open_npy(f, at(f, "v2.npy")), CST_ERROR_LIMIT, "v2.npy", "4294967295", NULL);
    put_bytes(f, "v1.npy", "\x93NUMPY\x01\x00\xff\xff{}", 12);
    expect_error(f, open_npy(f, at(f, "v1.npy")), CST_ERROR_FORMAT, "v1.npy", "65535",
                 "2 were found", NULL);
    put_bytes(f, "v9.npy", "\x93NUMPY\x09\x00\x02\x00{}", 12);
    expect_error(f, open_npy(f, at(f, "v9.npy")), CST_ERROR_UNSUPPORTED, "v9.npy", "9.0", NULL);
    put_bytes(f, "v3.npy", "\x93NUMPY\x03\x00\x02\x00", 10);
    expect_error(f, open_npy(f, at(f, "v3.npy")), CST_ERROR_FORMAT, "v3.npy", "truncated", NULL);
}

/* ---- archives ---- */

static void archives_stored_and_deflated(void **state) {
    fixture *f = *state;
    static const char *const second[] = {DATA "deflated.npz#second", DATA "deflated.npz:second",
                                         DATA "deflated.npz#second.npy"};
    cst_npy *npy = NULL;
    float few[12];
    expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, DATA "stored.npz", 0));
    expect_ok(f, cst_npy_read_rows_f32(f->context, npy, 0, 3, few));
    for (int i = 0; i < 12; i++)
        assert_true(few[i] == (float)i);
    cst_scope_free(&f->scope);
    for (int k = 0; k < 3; k++) {
        static double values[4000];
        expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, second[k], 0));
        assert_int_equal(cst_npy_rows(npy), 3000);
        /* forwards, then back: a deflated member is inflated again */
        const int64_t firsts[] = {0, 1000, 2000, 500};
        for (int b = 0; b < 4; b++) {
            expect_ok(f, cst_npy_read_rows_f64(f->context, npy, firsts[b], 1000, values));
            for (int64_t i = 0; i < 4000; i++)
                assert_true(values[i] == (double)((firsts[b] * 4 + i) % 97));
        }
        cst_scope_free(&f->scope);
    }
    double column[200];
    expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, DATA "fortran.npz", 0));
    assert_true(npy->fortran);
    expect_ok(f, cst_npy_read_rows_f64(f->context, npy, 0, 50, column));
    for (int i = 0; i < 200; i++)
        assert_true(column[i] == (double)(i % 97));
    cst_scope_free(&f->scope);
}

static void archives_that_are_refused(void **state) {
    fixture *f = *state;
    cst_npy *npy = NULL;
    double values[12];
    expect_error(f, open_npy(f, DATA "deflated.npz"), CST_ERROR_INPUT, "deflated.npz", "2 arrays",
                 "first, second", "#NAME", NULL);
    expect_error(f, open_npy(f, DATA "deflated.npz#third"), CST_ERROR_INPUT, "deflated.npz",
                 "'third'", "second", NULL);
    expect_error(f, open_npy(f, DATA "bzip2.npz"), CST_ERROR_UNSUPPORTED, "bzip2.npz#first.npy",
                 "method 12", NULL);
    expect_error(f, open_npy(f, DATA "bomb.npz"), CST_ERROR_LIMIT, "bomb.npz#a.npy", "4294967280",
                 "zip bomb", NULL);
    expect_error(f, open_npy(f, DATA "beyond.npz"), CST_ERROR_FORMAT, "beyond.npz", "(2, 2)",
                 "262176", "32", NULL);
    expect_error(f, cst_npy_open(f->context, &f->scope, &npy, DATA "deflated.npz#second", 96000),
                 CST_ERROR_LIMIT, "second", "96128", "96000", NULL);
    /* these two show themselves only when the data are read */
    expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, DATA "longer.npz", 0));
    expect_error(f, cst_npy_read_rows_f64(f->context, npy, 0, 2, values), CST_ERROR_FORMAT,
                 "longer.npz#a.npy", NULL);
    cst_scope_free(&f->scope);
    expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, DATA "flipped.npz", 0));
    expect_error(f, cst_npy_read_rows_f64(f->context, npy, 0, 3, values), CST_ERROR_FORMAT,
                 "flipped.npz#first.npy", "damaged", NULL);
    cst_scope_free(&f->scope);
    put_text(f, "text.npz", "not an archive");
    put_text(f, "empty.npz", "");
    expect_error(f, open_npy(f, at(f, "text.npz")), CST_ERROR_FORMAT, "text.npz", "zip archive",
                 NULL);
    expect_error(f, open_npy(f, at(f, "empty.npz")), CST_ERROR_FORMAT, "empty.npz", "empty", NULL);
}

/* ---- output ---- */

static int count_files(fixture *f) {
    char command[128];
    (void)snprintf(command, sizeof command, "ls -A '%s' | wc -l", f->folder);
    FILE *pipe = popen(command, "r");
    int count = -1;
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%d", &count), 1);
    (void)pclose(pipe);
    return count;
}

static void what_is_written_is_read_back(void **state) {
    fixture *f = *state;
    static float matrix[70000];
    static float again[70000];
    int32_t vector[] = {-1, 0, INT32_MAX, INT32_MIN};
    int64_t *values = NULL;
    int64_t count = 0;
    cst_npy *npy = NULL;
    for (int i = 0; i < 70000; i++)
        matrix[i] = (float)i / 7;
    expect_ok(f, cst_npy_write_f32(f->context, at(f, "m.npy"), matrix, 7000, 10));
    expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, at(f, "m.npy"), 0));
    assert_int_equal(npy->data_offset, 128);
    assert_int_equal(cst_npy_rows(npy), 7000);
    expect_ok(f, cst_npy_read_rows_f32(f->context, npy, 0, 7000, again));
    assert_memory_equal(matrix, again, sizeof matrix);
    cst_scope_free(&f->scope);
    expect_ok(f, cst_npy_write_i32(f->context, at(f, "v.npy"), vector, 4));
    expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, at(f, "v.npy"), 0));
    expect_ok(f, cst_npy_read_i64(f->context, &f->scope, npy, &values, &count));
    assert_int_equal(count, 4);
    for (int i = 0; i < 4; i++)
        assert_true(values[i] == vector[i]);
    cst_scope_free(&f->scope);
    assert_int_equal(count_files(f), 2);
}

static void nothing_appears_before_commit(void **state) {
    fixture *f = *state;
    cst_output_file *output = NULL;
    char text[16] = "";
    put_text(f, "out", "before");
    assert_int_equal(chmod(at(f, "out"), 0640), 0);
    expect_ok(f, cst_output_open(f->context, &output, at(f, "out")));
    expect_ok(f, cst_output_write(f->context, output, "after", 5));
    /* Where there are files without a name, not even a temporary one. */
    assert_in_range(count_files(f), 1, 2);
    FILE *untouched = fopen(at(f, "out"), "r");
    assert_non_null(fgets(text, sizeof text, untouched));
    (void)fclose(untouched);
    assert_string_equal(text, "before");
    cst_output_abort(f->context, output);
    assert_int_equal(count_files(f), 1);
    expect_ok(f, cst_output_open(f->context, &output, at(f, "out")));
    expect_ok(f, cst_output_write(f->context, output, "after", 5));
    expect_ok(f, cst_output_commit(f->context, output));
    FILE *file = fopen(at(f, "out"), "r");
    assert_non_null(fgets(text, sizeof text, file));
    (void)fclose(file);
    assert_string_equal(text, "after");
    struct stat info;
    assert_int_equal(stat(at(f, "out"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(count_files(f), 1);
}

/* A limit on file sizes makes write fail as a full disk does. */
static void a_full_disk_leaves_the_old_file(void **state) {
    fixture *f = *state;
    static float matrix[70000];
    struct rlimit before;
    struct rlimit small;
    put_text(f, "out.npy", "before");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    cst_status status = cst_npy_write_f32(f->context, at(f, "out.npy"), matrix, 7000, 10);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    expect_error(f, status, CST_ERROR_IO, "out.npy", "writing", strerror(EFBIG), NULL);
    char text[16] = "";
    FILE *file = fopen(at(f, "out.npy"), "r");
    assert_non_null(fgets(text, sizeof text, file));
    (void)fclose(file);
    assert_string_equal(text, "before");
    assert_int_equal(count_files(f), 1);
}

/* Bytes that were not written are never passed over, whatever the caller tries afterwards. */
static void output_that_failed_once_stays_failed(void **state) {
    fixture *f = *state;
    static const unsigned char bytes[40000];
    struct rlimit before;
    struct rlimit small;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 50000;
    put_text(f, "out", "before");
    for (int ending = 0; ending < 3; ending++) {
        cst_output_file *output = NULL;
        expect_ok(f, cst_output_open(f->context, &output, at(f, "out")));
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        cst_status status =
            ending < 2 ? CST_OK
                       : cst_output_write_at(f->context, output, 20000, bytes, sizeof bytes);
        for (int i = 0; status == CST_OK && i < 4; i++)
            status = cst_output_write(f->context, output, bytes, sizeof bytes);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0); /* there is room again */
        expect_error(f, status, CST_ERROR_IO, "out: writing failed", strerror(EFBIG), NULL);
        for (int i = 0; ending > 0 && i < 4; i++) {
            expect_error(f, cst_output_write(f->context, output, bytes, sizeof bytes), CST_ERROR_IO,
                         "out: cannot be completed: an earlier part could not be written", NULL);
            expect_error(f, cst_output_write_at(f->context, output, 0, bytes, 1), CST_ERROR_IO,
                         "out: cannot be completed: an earlier", NULL);
        }
        expect_error(f, cst_output_commit(f->context, output), CST_ERROR_IO,
                     "out: cannot be completed: an earlier", NULL);
        size_t size = 0;
        unsigned char *text = contents(at(f, "out"), &size);
        assert_int_equal(size, 6);
        free(text);
        assert_int_equal(count_files(f), 1);
    }
    (void)signal(SIGXFSZ, handler);
}

static void a_link_stays_a_link(void **state) {
    fixture *f = *state;
    static const int32_t data[3] = {1, 2, 3};
    struct stat info;
    assert_int_equal(symlink("sub/real.npy", at(f, "link.npy")), 0);
    expect_error(f, cst_npy_write_i32(f->context, at(f, "link.npy"), data, 3), CST_ERROR_IO,
                 "link.npy", "is a dangling link", NULL);
    assert_int_equal(mkdir(at(f, "sub"), 0700), 0);
    put_text(f, "sub/real.npy", "before");
    expect_ok(f, cst_npy_write_i32(f->context, at(f, "link.npy"), data, 3));
    assert_int_equal(lstat(at(f, "link.npy"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(at(f, "sub/real.npy"), &info), 0);
    assert_int_equal(info.st_size, 128 + 3 * 4);
}

static void csv_of_any_names(void **state) {
    fixture *f = *state;
    static const float p[4] = {0.25f, 0.75f, 1.0f / 3, 2.0f / 3};
    static const char *const ids[2] = {"a;b", "say \"x\""};
    static const char *const names[2] = {"cat", "2"};
    char text[256];
    expect_ok(f, cst_write_predictions_csv(f->context, at(f, "p.csv"), p, 2, 2, ids, names));
    FILE *file = fopen(at(f, "p.csv"), "r");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    assert_string_equal(text, "id,cat,2\n\"a;b\",0.25,0.75\n\"say \"\"x\"\"\",0.333333343,"
                              "0.666666687\n");
    expect_ok(f, cst_write_predictions_csv(f->context, at(f, "p.csv"), p, 1, 2, NULL, names));
    file = fopen(at(f, "p.csv"), "r");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    assert_string_equal(text, "class_cat,class_2\n0.25,0.75\n");
    static const char *const gap[2] = {"cat", NULL};
    expect_error(f, cst_write_predictions_csv(f->context, at(f, "q.csv"), p, 2, 2, gap, NULL),
                 CST_ERROR_ARGUMENT, "row 1", NULL);
    expect_error(f, cst_write_predictions_csv(f->context, at(f, "q.csv"), p, 2, 2, NULL, gap),
                 CST_ERROR_ARGUMENT, "class 1", NULL);
    assert_int_equal(access(at(f, "q.csv"), F_OK), -1);
}

static void devices_are_written_directly(void **state) {
    fixture *f = *state;
    static const int32_t data[4] = {0};
    char bytes[160];
    struct stat info;
    /* A pipe in our own folder first: should this go wrong, no device is replaced. */
    assert_int_equal(mkfifo(at(f, "pipe"), 0600), 0);
    int pipe = open(f->path, O_RDWR);
    assert_true(pipe >= 0);
    expect_ok(f, cst_npy_write_i32(f->context, at(f, "pipe"), data, 4));
    assert_int_equal(read(pipe, bytes, sizeof bytes), 144);
    assert_memory_equal(bytes, "\x93NUMPY", 6);
    (void)close(pipe);
    assert_int_equal(stat(at(f, "pipe"), &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    expect_error(f, cst_npy_write_i32(f->context, "/dev/full", data, 4), CST_ERROR_IO, "/dev/full",
                 strerror(ENOSPC), NULL);
    expect_error(f, cst_npy_write_i32(f->context, f->folder, data, 4), CST_ERROR_IO, f->folder,
                 "is a folder", NULL);
    expect_error(f, cst_npy_write_i32(f->context, at(f, "no/such.npy"), data, 4), CST_ERROR_IO,
                 "no/such.npy", strerror(ENOENT), NULL);
}

static int ignore_progress(void *user, const char *stage, int64_t done, int64_t total) {
    (void)user;
    (void)stage;
    return done > total || total < 1;
}

static int count_waits(void *user, const char *stage, int64_t done, int64_t total) {
    int *calls = user;
    assert_string_equal(stage, "writing");
    assert_int_equal(done, 0);
    assert_int_equal(total, 1);
    return ++*calls % 2 == 0;
}

/* Waiting has a stage of its own, whatever a call before ended in. */
static void pipes_that_nobody_reads_report_progress(void **state) {
    fixture *f = *state;
    static const float data[2] = {0.5f, 0.5f};
    int calls = 0;
    assert_int_equal(mkfifo(at(f, "pipe"), 0600), 0);
    for (int i = 1; i <= 2; i++) {
        cst_context_set_progress(f->context, count_waits, &calls);
        expect_error(f, cst_write_predictions(f->context, at(f, "pipe"), data, 1, 2),
                     CST_ERROR_CANCELLED, "stopped on request during writing", NULL);
        assert_int_equal(calls, 2 * i);
        cst_context_set_progress(f->context, ignore_progress, NULL);
        expect_ok(f, cst_progress(f->context, "another", 3, 10)); /* and fails there */
    }
    cst_context_set_progress(f->context, NULL, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, files_setup, files_teardown)

int suite_npy(void) {
    const struct CMUnitTest tests[] = {
        TEST(every_dtype_order_and_version_is_read),
        TEST(three_dimensions_in_both_orders),
        TEST(every_half_is_exact),
        TEST(strings_become_utf8),
        TEST(strings_with_bad_characters_are_refused),
        TEST(integers_must_be_integral),
        TEST(bools_are_0_or_1),
        TEST(objects_are_never_unpickled),
        TEST(empty_missing_and_odd_files),
        TEST(truncated_and_overlong_files),
        TEST(sizes_beyond_the_file_are_refused),
        TEST(malformed_headers),
        TEST(damaged_headers_never_crash),
        TEST(absurd_header_lengths),
        TEST(archives_stored_and_deflated),
        TEST(archives_that_are_refused),
        TEST(what_is_written_is_read_back),
        TEST(nothing_appears_before_commit),
        TEST(a_full_disk_leaves_the_old_file),
        TEST(output_that_failed_once_stays_failed),
        TEST(a_link_stays_a_link),
        TEST(csv_of_any_names),
        TEST(devices_are_written_directly),
        TEST(pipes_that_nobody_reads_report_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
