/*
 * Headers of safetensors files: the whole message of what is wrong with one, and names and texts
 * that are odd and right. Beside tests/io/safetensors.c, whose files another program wrote.
 */
#include "io_files.h"

#include "data/readers/safetensors.h"

/* A file called F of this header, in which ' stands for ", and `data` zero bytes. */
static cst_status open_header(fixture *f, cst_safetensors **file, const char *header, size_t length,
                              size_t data) {
    unsigned char *bytes = calloc(8 + length + data, 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(length >> (8 * i));
    for (size_t i = 0; i < length; i++)
        bytes[8 + i] = header[i] == '\'' ? '"' : (unsigned char)header[i];
    put_bytes(f, "F", bytes, 8 + length + data);
    free(bytes);
    return cst_safetensors_open(f->context, file, at(f, "F"));
}

typedef struct fault {
    const char *header;
    size_t length; /* 0: that of the text */
    cst_status code;
    const char *says;
} fault;

#define TENSOR(rest) "{'a': {" rest "}}"
#define SHAPE(shape) TENSOR("'dtype': 'U8', 'shape': " shape ", 'data_offsets': [0, 1]")
#define OFFSETS(offsets) TENSOR("'dtype': 'U8', 'shape': [1], 'data_offsets': " offsets)

static const fault FAULTS[] = {
    {"[]", 0, CST_ERROR_FORMAT,
     "F: byte 8: the header does not begin with '{'; is it a safetensors file?"},
    {"{'a': true}", 0, CST_ERROR_FORMAT,
     "F: tensor 'a': has true, but an object {...} is expected"},
    {"{'a': null}", 0, CST_ERROR_FORMAT,
     "F: tensor 'a': has null, but an object {...} is expected"},
    {"{'__metadata__': false}", 0, CST_ERROR_FORMAT,
     "F: __metadata__: has false, but an object {...} is expected"},
    {"{'__metadata__': {'k': true}}", 0, CST_ERROR_FORMAT,
     "F: __metadata__: has true as a value, but only strings are allowed"},
    {"{'__metadata__': {'k': []}}", 0, CST_ERROR_FORMAT,
     "F: __metadata__: has a list as a value, but only strings are allowed"},
    {"{'__metadata__': {'k\\u0000': 'v'}}", 0, CST_ERROR_FORMAT, "F: byte "},
    {TENSOR("'dtype': ['U8']"), 0, CST_ERROR_FORMAT,
     "F: tensor 'a': 'dtype' is a list, not a string"},
    {TENSOR("'dtype': false"), 0, CST_ERROR_FORMAT,
     "F: tensor 'a': 'dtype' is false, not a string"},
    {TENSOR("'dtype': 'a text that is no type of ours'"), 0, CST_ERROR_UNSUPPORTED,
     "F: tensor 'a': dtype 'a text that is no type of ours' is not supported"},
    {TENSOR("'a key of a tensor that is longer than what a message shows of it, 64 bytes': 1"), 0,
     CST_ERROR_FORMAT,
     "F: tensor 'a': has the key 'a key of a tensor that is longer than what a message shows of "
     "it, 64 "
     "bytes'; the keys of a tensor are dtype, shape and data_offsets"},
    {SHAPE("'1'"), 0, CST_ERROR_FORMAT,
     "F: tensor 'a': 'shape' is a string, not a list of lengths"},
    {SHAPE("{}"), 0, CST_ERROR_FORMAT,
     "F: tensor 'a': 'shape' is an object, not a list of lengths"},
    {SHAPE("[null]"), 0, CST_ERROR_FORMAT,
     "F: tensor 'a': 'shape' contains null, but only whole numbers are allowed"},
    {SHAPE("[[1]]"), 0, CST_ERROR_FORMAT,
     "F: tensor 'a': 'shape' contains a list, but only whole numbers are allowed"},
    {SHAPE("[18446744073709551616]"), 0, CST_ERROR_FORMAT, "F: byte "},
    {SHAPE("[9223372036854775808]"), 0, CST_ERROR_FORMAT, "F: byte "},
    {SHAPE("[4611686018427387904, 4, 3]"), 0, CST_ERROR_FORMAT,
     "F: tensor 'a': its shape has more elements of U8 than any file can hold, or its "
     "size is not a whole number of bytes"},
    {SHAPE("[2]"), 0, CST_ERROR_FORMAT,
     "F: tensor 'a': 'data_offsets' are 0 and 1, but shape and dtype need 2 bytes"},
    {OFFSETS("null"), 0, CST_ERROR_FORMAT,
     "F: tensor 'a': 'data_offsets' is null, not a list of two numbers"},
    {OFFSETS("[0, true]"), 0, CST_ERROR_FORMAT,
     "F: tensor 'a': 'data_offsets' contains true, but only whole numbers are allowed"},
    {OFFSETS("[]"), 0, CST_ERROR_FORMAT,
     "F: tensor 'a': 'data_offsets' has 0 numbers instead of two"},
    {"{'\\u00zz': 1}", 0, CST_ERROR_FORMAT, "F: byte "},
    {"{'\\u00-1': 1}", 0, CST_ERROR_FORMAT, "F: byte "},
    {"{'\\u00G0': 1}", 0, CST_ERROR_FORMAT, "F: byte "},
    {"{'\\ud83d\\u0041': 1}", 0, CST_ERROR_FORMAT, "F: byte "},
    {"{'\\ud83d\\n': 1, 'more': 2}", 0, CST_ERROR_FORMAT, "F: byte "},
    {"{'\\ud83d\\ue000': 1}", 0, CST_ERROR_FORMAT, "F: byte "},
    {"{'\\ud83d1234567': 1}", 0, CST_ERROR_FORMAT, "F: byte "},
    {"{'\\", 0, CST_ERROR_FORMAT, "F: byte "},
    {"{'\\u12", 0, CST_ERROR_FORMAT, "F: byte "},
    {"{\f}", 0, CST_ERROR_FORMAT, "F: byte "},
    {"{}\0", 3, CST_ERROR_FORMAT, "F: byte "},
};

static void faults(void **state) {
    fixture *f = *state;
    for (size_t i = 0; i < sizeof FAULTS / sizeof FAULTS[0]; i++) {
        const fault *one = &FAULTS[i];
        cst_safetensors *file = NULL;
        cst_status status =
            open_header(f, &file, one->header, one->length ? one->length : strlen(one->header), 1);
        const char *said = strstr(cst_last_error(f->context), "/F: ");
        if (status != one->code || !said || strncmp(said + 1, one->says, strlen(one->says)) != 0)
            fail_msg("%s\ngives %s: %s\ninstead of %s", one->header, cst_status_name(status),
                     cst_last_error(f->context), one->says);
        assert_null(file);
    }
}

/* Escapes with digits of either case, pairs for what is beyond the first plane, a name as long as
 * __metadata__, and a key of metadata with everything that is to be escaped. */
static void names_and_texts(void **state) {
    static const char header[] =
        "{'\\u00e4\\u00C4\\uD83D\\uDE00\\\\': {'dtype': 'U8', 'shape': [], 'data_offsets': [0, 1]},"
        " 'abcdefghijkl': {'dtype': 'U8', 'shape': [0, 9223372036854775807, 3], 'data_offsets': "
        "[1, 1]}, '__metadata__': {'k\\t': '\\u0031', '': ''}}";
    fixture *f = *state;
    cst_safetensors *file = NULL;
    expect_ok(f, open_header(f, &file, header, sizeof header - 1, 1));
    assert_int_equal(cst_safetensors_count(file), 2);
    assert_string_equal(cst_safetensors_name(file, 0), "\xc3\xa4\xc3\x84\xf0\x9f\x98\x80\\");
    assert_int_equal(cst_safetensors_find(file, "abcdefghijkl"), 1);
    assert_int_equal(cst_safetensors_metadata_count(file), 2);
    assert_string_equal(cst_safetensors_metadata(file, "k\t"), "1");
    assert_string_equal(cst_safetensors_metadata(file, ""), "");
    cst_safetensors_close(f->context, file);
}

/* More lengths than there is room for at first. */
static void many_axes(void **state) {
    enum { TENSORS = 30, AXES = 7 };
    fixture *f = *state;
    cst_safetensors *file = NULL;
    char header[8192] = "{";
    size_t used = 1;
    for (int t = 0; t < TENSORS; t++)
        used += (size_t)snprintf(header + used, sizeof header - used,
                                 "%s't%d': {'shape': [1, 1, 1, 1, 1, 1, %d], 'dtype': 'I16', "
                                 "'data_offsets': [%d, %d]}",
                                 t ? ", " : "", t, t, t * (t - 1), t * (t + 1));
    header[used++] = '}';
    expect_ok(f, open_header(f, &file, header, used, (size_t)TENSORS * (TENSORS - 1)));
    assert_int_equal(cst_safetensors_count(file), TENSORS);
    for (int t = 0; t < TENSORS; t++) {
        char name[16];
        int32_t axes = 0;
        (void)snprintf(name, sizeof name, "t%d", t);
        int64_t at = cst_safetensors_find(file, name);
        const int64_t *shape = cst_safetensors_shape(file, at, &axes);
        assert_int_equal(axes, AXES);
        assert_true(shape[0] == 1 && shape[AXES - 1] == t);
        assert_int_equal(cst_safetensors_bytes(file, at), 2 * t);
    }
    cst_safetensors_close(f->context, file);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, files_setup, files_teardown)

int suite_safetensors_header(void) {
    const struct CMUnitTest tests[] = {TEST(faults), TEST(names_and_texts), TEST(many_axes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
