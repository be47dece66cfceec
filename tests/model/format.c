/*
 * Model files: the bytes against an independent writer (tests/oracles/model.py), and what the
 * reader does with damaged, truncated and hostile ones, and when memory runs out.
 */
#include "core/utf8.h"
#include "model/codec.h"
#include "model/values.h"
#include "model_fixture.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "check.h"

enum { FILE_BYTES = sizeof model_file };

static void store(uint8_t *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t load(const uint8_t *from, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)from[i] << (8 * i);
    return value;
}

/* Makes length and checksum right again. */
static void sign(uint8_t *file, size_t size) {
    store(file + 16, size, 8);
    store(file + size - 4, cst_crc32c(file, size - 4), 4);
}

/* Where a section begins (its tag). */
static size_t section_at(const uint8_t *file, size_t size, const char *tag) {
    size_t at = CST_MODEL_HEADER_BYTES;
    while (memcmp(file + at, tag, 4) != 0) {
        at += CST_MODEL_SECTION_BYTES + (size_t)load(file + at + 8, 8);
        assert_true(at < size - 4);
    }
    return at;
}

static uint64_t bits_of(double value) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* ---- what is written ---- */

static void checksum_known_answers(void **state) {
    (void)state;
    uint8_t block[32];
    memset(block, 0, sizeof block);
    assert_int_equal(cst_crc32c((const uint8_t *)"123456789", 9), 0xe3069283);
    assert_int_equal(cst_crc32c(block, 32), 0x8a9136aa); /* RFC 3720, appendix B.4 */
    memset(block, 0xff, sizeof block);
    assert_int_equal(cst_crc32c(block, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        block[i] = (uint8_t)i;
    assert_int_equal(cst_crc32c(block, 32), 0x46dd794e);
}

static void bytes_are_those_of_the_reference_writer(void **state) {
    cst_context *context = *state;
    cst_model *model = build_stack(context, 0);
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(cst_stack_encode(context, model, &bytes, &size), CST_OK);
    assert_int_equal(size, FILE_BYTES);
    assert_memory_equal(bytes, model_file, FILE_BYTES);
    cst_free(context, bytes);
    cst_model_free(context, model);
}

static void what_is_read_is_what_was_written(void **state) {
    cst_context *context = *state;
    cst_model *model = NULL;
    assert_int_equal(cst_model_load_memory(context, &model, model_file, FILE_BYTES), CST_OK);
    assert_int_equal(cst_model_members(model), 3);
    assert_int_equal(cst_model_classes(model), 5);
    assert_string_equal(cst_model_member_name(model, 1), "vit-b/16");
    assert_null(cst_model_member_name(model, 3));
    assert_null(cst_model_member_name(model, -1));
    assert_true(cst_model_member_weight(model, 2) == model_weights_0_2[2]);
    assert_true(isnan(cst_model_member_weight(model, 3)));
    assert_string_equal(cst_model_class_name(model, 4), "poisson rouge");
    assert_null(cst_model_class_name(model, 5));
    assert_string_equal(cst_model_setting(model, 2), "note=a=b");
    assert_null(cst_model_setting(model, 3));
    assert_int_equal(model->gate.mode, CST_GATE_LEARNED);
    assert_int_equal(model->gate.best, 1);
    assert_memory_equal(model->gate.w2, model_w2, sizeof model_w2);
    assert_memory_equal(model->mix, model_mix, sizeof model_mix);
    assert_int_equal(model->learner[1].kind, CST_LEARNER_LASSO);
    assert_memory_equal(model->learner[2].bias, model_bias_0_2, sizeof model_bias_0_2);
    cst_model_free(context, model);
    cst_model_free(context, NULL);
}

static void every_stack_survives_a_round_trip(void **state) {
    cst_context *context = *state;
    for (int s = 0; s < STACKS; s++) {
        cst_model *model = build_stack(context, s);
        cst_model *again = NULL;
        uint8_t *first = NULL;
        uint8_t *second = NULL;
        size_t first_size = 0;
        size_t second_size = 0;
        assert_int_equal(cst_stack_encode(context, model, &first, &first_size), CST_OK);
        assert_int_equal(cst_model_load_memory(context, &again, first, first_size), CST_OK);
        assert_int_equal(again->task, model->task);
        assert_int_equal(again->gate.mode, model->gate.mode);
        assert_int_equal(cst_stack_encode(context, again, &second, &second_size), CST_OK);
        assert_int_equal(first_size, second_size);
        assert_memory_equal(first, second, first_size);
        cst_free(context, first);
        cst_free(context, second);
        cst_model_free(context, model);
        cst_model_free(context, again);
    }
}

static void class_names_may_be_absent(void **state) {
    cst_context *context = *state;
    cst_model *model = build_stack(context, 0);
    model->class_names = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    cst_model *again = NULL;
    assert_int_equal(cst_stack_encode(context, model, &bytes, &size), CST_OK);
    assert_int_equal(cst_model_load_memory(context, &again, bytes, size), CST_OK);
    assert_int_equal(cst_model_classes(again), MODEL_CLASSES);
    assert_null(cst_model_class_name(again, 0));
    cst_free(context, bytes);
    cst_model_free(context, model);
    cst_model_free(context, again);
}

static char **numbered(cst_context *context, cst_scope *scope, const char *format_a,
                       int32_t count) {
    char **names = cst_take(context, scope, (size_t)count, sizeof *names);
    for (int32_t i = 0; i < count; i++)
        names[i] = cst_take_format(context, scope, "%s%06d", format_a, (int)i);
    return names;
}

static void a_large_model_is_below_100_kilobytes(void **state) {
    cst_context *context = *state;
    enum { MEMBERS = 14, CLASSES = 1000, HIDDEN = 32, COLUMNS = MEMBERS + 12 };
    cst_model *model = NULL;
    assert_int_equal(cst_stack_create(context, &model), CST_OK);
    model->classes = CLASSES;
    model->members = MEMBERS;
    model->member_names = numbered(context, &model->scope, "a_model_with_a_long_name_", MEMBERS);
    model->class_names =
        numbered(context, &model->scope, "class_of_things_", CLASSES); /* 22 characters */
    model->settings = 60;
    model->setting = numbered(context, &model->scope, "some.option.of.the.fit=", 60);
    for (int i = 0; i < 60; i++) /* different keys */
        memcpy(model->setting[i] + 4, model->setting[i] + 23 + 2, 4);
    model->mix = cst_take(context, &model->scope, MEMBERS, sizeof(double));
    for (int k = 0; k < MEMBERS; k++)
        model->mix[k] = 1e-3;
    model->gate = (cst_gate){.mode = CST_GATE_LEARNED, .inputs = MEMBERS, .hidden = HIDDEN};
    model->gate.w1 = cst_take(context, &model->scope, (size_t)HIDDEN * MEMBERS, sizeof(float));
    model->gate.b1 = cst_take(context, &model->scope, HIDDEN, sizeof(float));
    model->gate.w2 = cst_take(context, &model->scope, (size_t)HIDDEN * 12, sizeof(float));
    model->gate.b2 = cst_take(context, &model->scope, 12, sizeof(float));
    model->learners = 4;
    model->learner = cst_take(context, &model->scope, 4, sizeof *model->learner);
    for (int l = 0; l < 4; l++) {
        cst_learner *learner = &model->learner[l];
        learner->kind = (cst_learner_kind)l;
        learner->blend = 0.25;
        learner->coefficients = l < 3 ? COLUMNS : MEMBERS;
        learner->biases = l < 3 ? 1 : CLASSES;
        learner->weights =
            cst_take(context, &model->scope, (size_t)learner->coefficients, sizeof(double));
        learner->bias = cst_take(context, &model->scope, (size_t)learner->biases, sizeof(double));
    }
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(cst_stack_encode(context, model, &bytes, &size), CST_OK);
    assert_in_range(size, 30000, 100000);
    cst_free(context, bytes);
    cst_model_free(context, model);
}

/* ---- damage ---- */

/* The bytes are refused with the code, one line that names the source and holds `fragment`. */
static void assert_refused(cst_context *context, const uint8_t *file, size_t size, cst_status code,
                           const char *fragment) {
    cst_model *model = (cst_model *)context; /* must be overwritten */
    cst_status status = cst_stack_decode(context, "dir/some.model", file, size, &model);
    if (status != code || !strstr(cst_last_error(context), fragment))
        fail_msg("expected %s with '%s', got %s: %s", cst_status_name(code), fragment,
                 cst_status_name(status), cst_last_error(context));
    assert_null(model);
    assert_int_equal(strncmp(cst_last_error(context), "dir/some.model: byte ", 21), 0);
    assert_null(strchr(cst_last_error(context), '\n'));
}

static void every_flipped_bit_is_refused(void **state) {
    cst_context *context = *state;
    static uint8_t file[FILE_BYTES];
    memcpy(file, model_file, FILE_BYTES);
    for (size_t at = 0; at < FILE_BYTES; at++)
        for (int flip = 0; flip < 9; flip++) {
            file[at] ^= (uint8_t)(flip < 8 ? 1 << flip : 0xff);
            cst_model *model = NULL;
            cst_status status = cst_stack_decode(context, "m", file, FILE_BYTES, &model);
            bool version = at >= 8 && at < 12;
            assert_true(status == CST_ERROR_FORMAT || (version && status == CST_ERROR_UNSUPPORTED));
            assert_null(model);
            file[at] = model_file[at];
        }
    cst_model *model = NULL;
    assert_int_equal(cst_stack_decode(context, "m", file, FILE_BYTES, &model), CST_OK);
    cst_model_free(context, model);
}

static void every_truncation_is_refused(void **state) {
    cst_context *context = *state;
    assert_refused(context, model_file, 0, CST_ERROR_FORMAT, "empty");
    for (size_t size = 1; size < FILE_BYTES; size++) {
        uint8_t *exact = malloc(size); /* so that a read beyond the end shows */
        assert_non_null(exact);
        memcpy(exact, model_file, size);
        assert_refused(context, exact, size, CST_ERROR_FORMAT, "truncated");
        free(exact);
    }
}

static void bytes_after_the_end_are_refused(void **state) {
    cst_context *context = *state;
    static uint8_t file[FILE_BYTES + 8];
    memcpy(file, model_file, FILE_BYTES);
    assert_refused(context, file, FILE_BYTES + 8, CST_ERROR_FORMAT, "extra bytes follow");
    sign(file, FILE_BYTES + 8); /* announced and signed, and yet in no section */
    assert_refused(context, file, FILE_BYTES + 8, CST_ERROR_FORMAT, "follow the last section");
}

static void other_files_and_newer_versions_are_named(void **state) {
    cst_context *context = *state;
    const char *npy = "\x93NUMPY\x01 and a lot of other things that are not a model";
    assert_refused(context, (const uint8_t *)npy, strlen(npy), CST_ERROR_FORMAT,
                   "byte 0: this is not a corestack model");
    assert_refused(context, (const uint8_t *)"PK", 2, CST_ERROR_FORMAT, "not a corestack model");
    static uint8_t file[FILE_BYTES];
    memcpy(file, model_file, FILE_BYTES);
    file[8] = 2; /* whatever else a newer format changes, the checksum's place included */
    assert_refused(context, file, FILE_BYTES, CST_ERROR_UNSUPPORTED,
                   "byte 8: written by a newer corestack (format 2, but this program reads up to "
                   "1); upgrade corestack");
    file[8] = 0;
    assert_refused(context, file, FILE_BYTES, CST_ERROR_FORMAT, "version is 0");
    memcpy(file, model_file, FILE_BYTES);
    file[FILE_BYTES - 1] ^= 1;
    assert_refused(context, file, FILE_BYTES, CST_ERROR_FORMAT, "checksum");
}

/* ---- hostile files with a valid checksum ---- */

typedef struct patch {
    const char *tag;
    size_t at; /* in the section's payload */
    int bytes;
    uint64_t value;
    const char *fragment;
} patch;

enum { LEARNER_1 = 8 + 20 + 16 * 8 }; /* payload of LEAR: where meta-learner 1 begins */

static void try_patches(cst_context *context, const patch *patches, size_t count) {
    static uint8_t file[FILE_BYTES];
    for (size_t i = 0; i < count; i++) {
        const patch *p = &patches[i];
        memcpy(file, model_file, FILE_BYTES);
        size_t at = section_at(file, FILE_BYTES, p->tag) + CST_MODEL_SECTION_BYTES + p->at;
        store(file + at, p->value, p->bytes);
        sign(file, FILE_BYTES);
        assert_refused(context, file, FILE_BYTES, CST_ERROR_FORMAT, p->fragment);
    }
}

static void impossible_sizes_are_refused(void **state) {
    static const patch patches[] = {
        {"TASK", 0, 4, 6, "the task is 6"},
        {"TASK", 0, 4, 4, "15 coefficients instead of 75"}, /* multilabel: for each label */
        {"TASK", 0, 4, 1, "15 coefficients instead of 75"}, /* regression: for each output */
        {"TASK", 4, 4, 0, "classes is 0"},
        {"TASK", 4, 4, 1, "classes is 1"},
        {"TASK", 4, 4, 0x80000000, "classes is 2147483648"},
        {"TASK", 4, 4, 0xffffffff, "classes is 4294967295"},
        {"TASK", 4, 4, 1 << 24, "class names are declared, but"},
        {"TASK", 4, 4, 4, "left over in section CLAS"},
        {"TASK", 8, 4, 0, "members is 0"},
        {"TASK", 8, 4, 0x80000000, "members is 2147483648"},
        {"TASK", 8, 4, 1 << 20, "members are declared, but"},
        {"TASK", 8, 4, 2, "left over in section MEMB"},
        {"TASK", 8, 4, 4, "declared"},
        {"MEMB", 0, 4, 0xffffffff, "are declared, but"},
        {"MEMB", 0, 4, 0, "member name 0 (counted from 0) is empty"},
        {"CLAS", 0, 4, 0, "class name 0 (counted from 0) is empty"},
        {"CLAS", 0, 4, 0x7fffffff, "are declared, but"},
        {"GATE", 0, 4, 3, "mode is 3"},
        {"GATE", 0, 4, 1, "hidden units is 4"},
        {"GATE", 4, 4, 3, "best member is 3"},
        {"GATE", 4, 4, 0xffffffff, "best member is"},
        {"GATE", 8, 4, 0, "hidden units is 0"},
        {"GATE", 8, 4, 1 << 16, "are declared, but"},
        {"GATE", 8, 4, 0xffffffff, "hidden units is"},
        {"GATE", 8, 4, 3, "left over in section GATE"},
        {"LEAR", 0, 4, 2, "map"},
        {"LEAR", 4, 4, 0, "meta-learners is 0"},
        {"LEAR", 4, 4, 0x7fffffff, "meta-learners are declared, but"},
        {"LEAR", 4, 4, 0xffffffff, "meta-learners is"},
        {"LEAR", 4, 4, 2, "sum to 0.5 instead of 1"},
        {"LEAR", 8, 4, 4, "for regression only"},
        {"LEAR", 8, 4, 6, "unknown kind 6"},
        {"LEAR", 8, 4, 3, "15 coefficients instead of 3"},
        {"LEAR", 12, 4, 14, "14 coefficients instead of 15"},
        {"LEAR", 12, 4, 0x7fffffff, "coefficients instead of 15"},
        {"LEAR", 12, 4, 0x80000000, "coefficients is 2147483648"},
        {"LEAR", 16, 4, 2, "2 biases instead of 1"},
        {"LEAR", 16, 4, 0, "0 biases instead of 1"},
        {"LEAR", 2 * LEARNER_1 - 8 + 8, 4, 4, "4 biases instead of 5"},
        {"SETT", 0, 4, 0xffffffff, "settings are declared, but"},
        {"SETT", 0, 4, 2, "left over in section SETT"},
        {"SETT", 0, 4, 4, "are declared, but"},
    };
    try_patches(*state, patches, sizeof patches / sizeof patches[0]);
}

static void impossible_numbers_are_refused(void **state) {
    const uint64_t nan_bits = bits_of(NAN);
    const patch patches[] = {
        {"MEMB", 12, 8, nan_bits, "is nan"},
        {"MEMB", 12, 8, bits_of(INFINITY), "is inf"},
        {"MEMB", 12, 8, bits_of(-1e-9), "share of the uniform"},
        {"MEMB", 12, 8, bits_of(1.5), "share of the uniform"},
        {"MEMB", 12, 8, bits_of(0), "takes logarithms"},
        {"MEMB", 32, 8, bits_of(1), "'vit-b/16' is mixed with a share 1"},
        {"GATE", 12, 4, 0x7fc00000, "a weight of the gate is nan"},
        {"GATE", 16, 4, 0x7f800000, "a weight of the gate is inf"},
        {"GATE", 16, 4, 0x7149f2ca, "a weight of the gate is 1e+30"},
        {"LEAR", 20, 8, nan_bits, "a blend weight is nan"},
        {"LEAR", 20, 8, bits_of(-0.1), "a blend weight is -0.1"},
        {"LEAR", 20, 8, bits_of(1e300), "a blend weight is 1e+300"},
        {"LEAR", 20, 8, bits_of(0.3001), "sum to 1.0001 instead of 1"},
        {"LEAR", 28, 8, nan_bits, "a coefficient is nan"},
        {"LEAR", 28 + 14 * 8, 8, bits_of(-INFINITY), "a coefficient is -inf"},
        {"LEAR", 28, 8, bits_of(2e30), "a coefficient is 2e+30"},
        {"LEAR", 28 + 15 * 8, 8, nan_bits, "a bias is nan"},
    };
    try_patches(*state, patches, sizeof patches / sizeof patches[0]);
}

static void names_that_are_not_text_are_refused(void **state) {
    static const patch patches[] = {
        {"MEMB", 4, 1, 0xff,
         "member name 0 (counted from 0) has a control character or is not UTF-8 text"},
        {"MEMB", 4, 2, 0x80c0, "not UTF-8"},   /* overlong NUL */
        {"MEMB", 4, 3, 0x80a0ed, "not UTF-8"}, /* surrogate */
        {"MEMB", 11, 1, 0xc3, "not UTF-8"},    /* cut short by the end of the name */
        {"MEMB", 6, 1, 0, "not UTF-8"},
        {"MEMB", 6, 1, '\n', "not UTF-8"},
        {"MEMB", 24, 8, UINT64_C(0x303574656e736572), "member name 'resnet50' occurs twice"},
        {"CLAS", 5, 1, 0x1b,
         "class name 0 (counted from 0) has a control character or is not UTF-8 text"},
        {"SETT", 8 + 6, 1, '-', "setting 0 is not in the form key=value"},
        {"SETT", 8, 1, '=', "setting 0 is not in the form key=value"},
    };
    try_patches(*state, patches, sizeof patches / sizeof patches[0]);
    assert_int_equal(cst_utf8_text((const uint8_t *)"aé€𝄞", 10), 10);
    assert_int_equal(cst_utf8_text((const uint8_t *)"\xf4\x90\x80\x80", 4), 0);  /* > U+10FFFF */
    assert_int_equal(cst_utf8_text((const uint8_t *)"a\xf0\x8f\xbf\xbf", 5), 1); /* overlong */
    assert_int_equal(cst_utf8_text((const uint8_t *)"ab\xe2\x82", 4), 2);
    assert_int_equal(cst_utf8_text((const uint8_t *)"ab\x7f", 3), 2);
}

static void a_key_may_not_stand_twice(void **state) {
    cst_context *context = *state;
    static uint8_t file[FILE_BYTES];
    memcpy(file, model_file, FILE_BYTES);
    size_t at = section_at(file, FILE_BYTES, "SETT") + CST_MODEL_SECTION_BYTES + 4;
    at += 4 + 14; /* preset=default */
    memcpy(file + at + 4, "note=8", 6);
    sign(file, FILE_BYTES);
    assert_refused(context, file, FILE_BYTES, CST_ERROR_FORMAT, "setting 'note' occurs twice");
}

/* ---- sections ---- */

/* The file with `extra` put in at `at`, and the number of sections changed by `more`. */
static size_t with_inserted(uint8_t *file, size_t at, const uint8_t *extra, size_t bytes,
                            int more) {
    memcpy(file, model_file, at);
    memcpy(file + at, extra, bytes);
    memcpy(file + at + bytes, model_file + at, FILE_BYTES - at);
    store(file + 12, (uint64_t)((int64_t)load(file + 12, 4) + more), 4);
    sign(file, FILE_BYTES + bytes);
    return FILE_BYTES + bytes;
}

static void unknown_sections_are_skipped_or_refused_by_their_flag(void **state) {
    cst_context *context = *state;
    static uint8_t file[FILE_BYTES + 64];
    uint8_t extra[CST_MODEL_SECTION_BYTES + 5] = "ZZZZ";
    store(extra + 8, 5, 8);
    const char *const before[] = {"TASK", "GATE", "SETT"};
    for (int i = 0; i < 3; i++) {
        size_t at = section_at(model_file, FILE_BYTES, before[i]);
        store(extra + 4, 0, 4);
        size_t size = with_inserted(file, at, extra, sizeof extra, 1);
        cst_model *model = NULL;
        uint8_t *bytes = NULL;
        size_t encoded = 0;
        assert_int_equal(cst_model_load_memory(context, &model, file, size), CST_OK);
        assert_int_equal(cst_stack_encode(context, model, &bytes, &encoded), CST_OK);
        assert_memory_equal(bytes, model_file, FILE_BYTES);
        cst_free(context, bytes);
        cst_model_free(context, model);
        store(extra + 4, CST_MODEL_REQUIRED, 4);
        size = with_inserted(file, at, extra, sizeof extra, 1);
        assert_refused(context, file, size, CST_ERROR_UNSUPPORTED, "upgrade corestack");
    }
    store(extra + 4, 0, 4);
    store(extra + 8, UINT64_MAX - 3, 8);
    size_t size = with_inserted(file, FILE_BYTES - 4, extra, sizeof extra, 1);
    assert_refused(context, file, size, CST_ERROR_FORMAT, "are left");
}

static void sections_stand_once_in_their_order(void **state) {
    cst_context *context = *state;
    static uint8_t file[2 * FILE_BYTES];
    static const char *const tags[] = {"TASK", "MEMB", "CLAS", "GATE", "LEAR", "SETT"};
    for (int i = 0; i < 6; i++) {
        size_t from = section_at(model_file, FILE_BYTES, tags[i]);
        size_t bytes = CST_MODEL_SECTION_BYTES + (size_t)load(model_file + from + 8, 8);
        size_t size = with_inserted(file, FILE_BYTES - 4, model_file + from, bytes, 1);
        assert_refused(context, file, size, CST_ERROR_FORMAT, "is a duplicate or out of order");
        /* Without it: class names alone may be absent. */
        memcpy(file, model_file, from);
        memcpy(file + from, model_file + from + bytes, FILE_BYTES - from - bytes);
        store(file + 12, 5, 4);
        sign(file, FILE_BYTES - bytes);
        if (i != 2)
            assert_refused(context, file, FILE_BYTES - bytes, CST_ERROR_FORMAT, "is missing here");
        memcpy(file, model_file, FILE_BYTES);
        file[from + 4] ^= 1;
        sign(file, FILE_BYTES);
        assert_refused(context, file, FILE_BYTES, CST_ERROR_FORMAT, "has flags");
        memcpy(file, model_file, FILE_BYTES);
        store(file + from + 8, bytes - CST_MODEL_SECTION_BYTES - 1, 8);
        sign(file, FILE_BYTES);
        assert_refused(context, file, FILE_BYTES, CST_ERROR_FORMAT, "");
    }
    memcpy(file, model_file, FILE_BYTES);
    file[12] = 5;
    sign(file, FILE_BYTES);
    assert_refused(context, file, FILE_BYTES, CST_ERROR_FORMAT, "section SETT is missing");
    file[12] = 7;
    sign(file, FILE_BYTES);
    assert_refused(context, file, FILE_BYTES, CST_ERROR_FORMAT, "are declared");
    store(file + 12, UINT32_MAX, 4);
    sign(file, FILE_BYTES);
    assert_refused(context, file, FILE_BYTES, CST_ERROR_FORMAT, "are declared");
    cst_model *model = NULL;
    assert_int_equal(cst_model_load_memory(context, &model, file, ((size_t)1 << 30) + 1),
                     CST_ERROR_LIMIT);
    assert_non_null(strstr(cst_last_error(context), "bytes; corestack models have at most"));
}

/* Whatever bytes stand in a signed file, the reader neither crashes nor reads outside. */
static void signed_noise_is_survived(void **state) {
    cst_context *context = *state;
    static uint8_t file[FILE_BYTES];
    cst_rng rng;
    cst_rng_init(&rng, 3, CST_STREAM_TEST, 0);
    int refused = 0;
    for (int trial = 0; trial < 20000; trial++) {
        memcpy(file, model_file, FILE_BYTES);
        int64_t changes = 1 + cst_rng_below(&rng, 4);
        for (int64_t i = 0; i < changes; i++)
            file[12 + cst_rng_below(&rng, FILE_BYTES - 16)] = (uint8_t)cst_rng_u32(&rng);
        sign(file, FILE_BYTES);
        cst_model *model = NULL;
        refused += cst_stack_decode(context, "m", file, FILE_BYTES, &model) != CST_OK;
        cst_model_free(context, model);
    }
    assert_in_range(refused, 5000, 19999);
}

/* ---- models that must not be written ---- */

static void assert_not_saved(cst_context *context, const cst_model *model, const char *fragment) {
    uint8_t *bytes = (uint8_t *)context;
    size_t size = 1;
    assert_int_equal(cst_stack_encode(context, model, &bytes, &size), CST_ERROR_ARGUMENT);
    assert_null(bytes);
    assert_int_equal(size, 0);
    if (!strstr(cst_last_error(context), fragment))
        fail_msg("'%s' is not in: %s", fragment, cst_last_error(context));
}

/* Every array and every count of a model, each gone once. */
static void incomplete_models_are_not_written(void **state) {
    cst_context *context = *state;
    cst_model *model = build_stack(context, 0);
    int64_t ids[1] = {7};
    char *names[1] = {NULL};
    double weights[MODEL_MEMBERS] = {0};
    cst_fusion fusion = {.iou = 0.5,
                         .max_boxes = 9,
                         .categories = 1,
                         .category_id = ids,
                         .category_name = names,
                         .weights = weights};
    static const int32_t less = -1;
    cst_learner *linear = &model->learner[0];
    cst_gate *gate = &model->gate;
    const struct {
        void *field;
        size_t bytes;
        const void *value; /* NULL: zeros */
    } holes[] = {
        {&model->members, sizeof model->members, NULL},
        {&model->classes, sizeof model->classes, NULL},
        {&model->learners, sizeof model->learners, NULL},
        {&model->member_names, sizeof model->member_names, NULL},
        {&model->member_names[1], sizeof *model->member_names, NULL},
        {&model->class_names[2], sizeof *model->class_names, NULL},
        {&model->mix, sizeof model->mix, NULL},
        {&model->learner, sizeof model->learner, NULL},
        {&model->setting, sizeof model->setting, NULL},
        {&model->setting[0], sizeof *model->setting, NULL},
        {&linear->weights, sizeof linear->weights, NULL},
        {&linear->bias, sizeof linear->bias, NULL},
        {&linear->coefficients, sizeof less, &less},
        {&linear->biases, sizeof less, &less},
        {&gate->best, sizeof less, &less},
        {&gate->inputs, sizeof less, &less},
        {&gate->hidden, sizeof gate->hidden, NULL},
        {&gate->w1, sizeof gate->w1, NULL},
        {&gate->b1, sizeof gate->b1, NULL},
        {&gate->w2, sizeof gate->w2, NULL},
        {&gate->b2, sizeof gate->b2, NULL},
        {&fusion.categories, sizeof fusion.categories, NULL},
        {&fusion.category_id, sizeof fusion.category_id, NULL},
        {&fusion.category_name, sizeof fusion.category_name, NULL},
        {&fusion.weights, sizeof fusion.weights, NULL},
    };
    enum { HOLES = sizeof holes / sizeof holes[0], OF_FUSION = 4 };
    for (int i = 0; i < HOLES; i++) {
        unsigned char kept[16];
        if (i == HOLES - OF_FUSION)
            model->fusion = &fusion;
        memcpy(kept, holes[i].field, holes[i].bytes);
        if (holes[i].value)
            memcpy(holes[i].field, holes[i].value, holes[i].bytes);
        else
            memset(holes[i].field, 0, holes[i].bytes);
        assert_not_saved(context, model, "incomplete");
        memcpy(holes[i].field, kept, holes[i].bytes);
    }
    assert_not_saved(context, model,
                     "section FUSE is in a model of"); /* a fusion in a model of another task */
    model->fusion = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(cst_stack_encode(context, model, &bytes, &size), CST_OK);
    cst_free(context, bytes);
    cst_model_free(context, model);
}

/* Sections that do not go with a task, and what detection and regression have of their own. */
static void models_of_other_tasks_are_whole(void **state) {
    cst_context *context = *state;
    cst_model *model = build_stack(context, 0);
    int64_t ids[2] = {7, 7};
    char *names[2] = {NULL, NULL};
    double weights[2 * MODEL_MEMBERS] = {0};
    cst_fusion fusion = {.iou = 0.5,
                         .max_boxes = 9,
                         .categories = 2,
                         .category_id = ids,
                         .category_name = names,
                         .weights = weights};
    model->task = CST_TASK_DETECTION;
    assert_not_saved(context, model, "section FUSE is missing from a detection model");
    model->fusion = &fusion;
    assert_not_saved(context, model, "the ids of the categories are not in ascending order");
    ids[1] = 8;
    assert_not_saved(context, model, "a detection model has 5 classes instead of 2");
    model->fusion = NULL;
    model->task = CST_TASK_CLASSIFICATION;
    cst_values *values = NULL;
    cst_scope scope = {0};
    int32_t columns = cst_design_columns(&model->gate);
    assert_int_equal(cst_values_take(context, &scope, MODEL_CLASSES, columns, &values), CST_OK);
    model->values = values;
    assert_not_saved(context, model, "section REGR is in a model of classification");
    model->values = NULL;
    model->learner[0].kind = CST_LEARNER_LINEAR;
    assert_not_saved(context, model, "meta-learner 0 is of a kind for regression only");
    cst_model_free(context, model);

    model = build_stack(context, 3);
    columns = cst_design_columns(&model->gate);
    values->columns = columns + 1;
    model->values = values;
    assert_not_saved(context, model, "the design has ");
    values->columns = columns;
    assert_not_saved(context, model, "the scale of an output is 0");
    values->scaling.scale[0] = 1;
    values->mean_spread[0] = 1;
    values->covariance[0] = -1;
    assert_not_saved(context, model, "a covariance is -1");
    values->covariance[0] = 0;
    values->noise[0] = INFINITY;
    assert_not_saved(context, model, "the noise of an output is inf");
    values->noise[0] = 0;
    model->learner[1].kind = CST_LEARNER_LOGLINEAR;
    assert_not_saved(context, model,
                     "meta-learner 1 is a log-linear pool, but the task is regression");
    model->learner[1].kind = CST_LEARNER_LASSO;
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(cst_stack_encode(context, model, &bytes, &size), CST_OK);
    cst_free(context, bytes);
    model->values = NULL;
    cst_model_free(context, model);
    cst_scope_free(&scope);
}

static void what_could_not_be_read_is_not_written(void **state) {
    cst_context *context = *state;
    cst_model *model = NULL;
    assert_int_equal(cst_stack_create(context, &model), CST_OK);
    assert_not_saved(context, model, "incomplete");
    cst_model_free(context, model);
    model = build_stack(context, 0);
    double kept = model->learner[2].weights[1];
    model->learner[2].weights[1] = NAN;
    assert_not_saved(context, model, "a coefficient is nan");
    model->learner[2].weights[1] = kept;
    model->learner[0].blend = 0.31;
    assert_not_saved(context, model, "sum to 1.01");
    model->learner[0].blend = 0.3;
    model->member_names[0][0] = '\n';
    assert_not_saved(context, model, "not UTF-8");
    model->member_names[0][0] = 'r';
    model->gate.inputs = 2;
    assert_not_saved(context, model, "incomplete");
    model->gate.inputs = 3;
    float *weights = model->gate.w1;
    model->gate.w1 = NULL;
    assert_not_saved(context, model, "incomplete");
    model->gate.w1 = weights;
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(cst_stack_encode(context, model, &bytes, &size), CST_OK);
    cst_free(context, bytes);
    cst_model_free(context, model);
}

/* ---- files ---- */

static void write_file(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void files_are_read_whole_or_refused_with_their_path(void **state) {
    cst_context *context = *state;
    const char *path = "test_model_load.model";
    cst_model *model = (cst_model *)context;
    assert_int_equal(cst_model_load(context, &model, "no/such/file"), CST_ERROR_IO);
    assert_null(model);
    assert_non_null(strstr(cst_last_error(context), "no/such/file: cannot open the file"));
    assert_int_equal(cst_model_load(context, &model, "."), CST_ERROR_IO);
    assert_int_equal(cst_model_load(context, &model, NULL), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_model_load_memory(context, &model, NULL, 5), CST_ERROR_ARGUMENT);
    write_file(path, model_file, FILE_BYTES);
    assert_int_equal(cst_model_load(context, &model, path), CST_OK);
    assert_string_equal(cst_model_member_name(model, 0), "resnet50");
    cst_model_free(context, model);
    write_file(path, model_file, FILE_BYTES - 100);
    assert_int_equal(cst_model_load(context, &model, path), CST_ERROR_FORMAT);
    assert_non_null(strstr(cst_last_error(context), "test_model_load.model: byte "));
    assert_non_null(strstr(cst_last_error(context), "truncated"));

    /* Larger than the first read; longer than announced; announced as absurd. */
    enum { LARGE = 300000 };
    uint8_t *large = calloc(LARGE + 1, 1);
    assert_non_null(large);
    memcpy(large, model_file, FILE_BYTES - 4);
    size_t at = FILE_BYTES - 4;
    memcpy(large + at, "FILL", 4);
    store(large + at + 8, LARGE - 4 - at - CST_MODEL_SECTION_BYTES, 8);
    large[12]++;
    sign(large, LARGE);
    write_file(path, large, LARGE);
    assert_int_equal(cst_model_load(context, &model, path), CST_OK);
    cst_model_free(context, model);
    write_file(path, large, LARGE + 1);
    assert_int_equal(cst_model_load(context, &model, path), CST_ERROR_FORMAT);
    assert_non_null(strstr(cst_last_error(context), "extra bytes follow"));
    store(large + 16, (uint64_t)1 << 40, 8);
    write_file(path, large, LARGE);
    assert_int_equal(cst_model_load(context, &model, path), CST_ERROR_LIMIT);
    memset(large, 'x', LARGE);
    write_file(path, large, LARGE);
    assert_int_equal(cst_model_load(context, &model, path), CST_ERROR_FORMAT);
    assert_non_null(strstr(cst_last_error(context), "not a corestack model"));
    free(large);
    assert_int_equal(remove(path), 0);
}

static void heed(int number) {
    (void)number;
}

/* A process that comes late to the pipe and writes so many bytes of the model in three pieces;
 * before each, this one gets a signal. */
static pid_t start_writer(const char *path, size_t size) {
    const struct timespec pause = {.tv_nsec = 15000000};
    pid_t writer = fork();
    assert_true(writer >= 0);
    if (writer > 0)
        return writer;
    (void)alarm(20);
    (void)nanosleep(&pause, NULL);
    (void)kill(getppid(), SIGUSR1);
    int fd = open(path, O_WRONLY);
    for (size_t done = 0; done < size;) {
        (void)nanosleep(&pause, NULL);
        (void)kill(getppid(), SIGUSR1);
        (void)nanosleep(&pause, NULL);
        size_t piece = size - done < FILE_BYTES / 3 ? size - done : FILE_BYTES / 3;
        if (write(fd, model_file + done, piece) != (ssize_t)piece)
            _exit(1);
        done += piece;
    }
    _exit(fd < 0);
}

static int stop_at_the_second(void *user, const char *stage, int64_t done, int64_t total) {
    int *calls = user;
    assert_string_equal(stage, "reading");
    assert_int_equal(done, 0);
    assert_int_equal(total, 1);
    return ++*calls == 2;
}

/* Signals that have a handler change nothing; whoever waits for a writer may stop. */
static void a_pipe_is_read_whole(void **state) {
    cst_context *context = *state;
    const char *path = "test_model_pipe.model";
    const struct sigaction heeded = {.sa_handler = heed};
    const size_t sizes[] = {FILE_BYTES, FILE_BYTES - 100, 0};
    struct sigaction before;
    cst_model *model = NULL;
    int how = 0;
    int calls = 0;
    (void)unlink(path); /* of a run that was killed */
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(sigaction(SIGUSR1, &heeded, &before), 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pid_t writer = start_writer(path, sizes[i]);
        cst_status status = cst_model_load(context, &model, path);
        assert_int_equal(waitpid(writer, &how, 0), writer);
        assert_int_equal(how, 0);
        assert_int_equal(status, i == 0 ? CST_OK : CST_ERROR_FORMAT);
        cst_model_free(context, model);
    }
    assert_non_null(strstr(cst_last_error(context), "it is empty"));
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    (void)alarm(20);
    cst_context_set_progress(context, stop_at_the_second, &calls);
    assert_int_equal(cst_model_load(context, &model, path), CST_ERROR_CANCELLED);
    cst_context_set_progress(context, NULL, NULL);
    (void)alarm(0);
    assert_int_equal(calls, 2);
    assert_int_equal(remove(path), 0);
}

static void saved_twice_the_bytes_are_the_same(void **state) {
    cst_context *context = *state;
    for (int s = 0; s < STACKS; s++) {
        uint8_t bytes[2][2 * FILE_BYTES];
        size_t size[2];
        cst_model *model = build_stack(context, s);
        for (int round = 0; round < 2; round++) {
            const char *path = "test_model_save.model";
            cst_model *again = NULL;
            assert_int_equal(cst_model_save(context, model, path), CST_OK);
            assert_int_equal(cst_model_load(context, &again, path), CST_OK);
            cst_model_free(context, model);
            model = again;
            FILE *file = fopen(path, "rb");
            assert_non_null(file);
            size[round] = fread(bytes[round], 1, sizeof bytes[round], file);
            assert_int_equal(fclose(file), 0);
            assert_int_equal(remove(path), 0);
        }
        cst_model_free(context, model);
        assert_int_equal(size[0], size[1]);
        assert_memory_equal(bytes[0], bytes[1], size[0]);
        void *memory = NULL;
        size_t count = 0;
        model = build_stack(context, s);
        assert_int_equal(cst_model_save_memory(context, model, &memory, &count), CST_OK);
        assert_int_equal(count, size[0]);
        assert_memory_equal(memory, bytes[0], count);
        cst_free(context, memory);
        cst_model_free(context, model);
        if (s == 0)
            assert_memory_equal(bytes[0], model_file, FILE_BYTES);
    }
}

static void a_save_that_fails_leaves_the_old_file(void **state) {
    cst_context *context = *state;
    const char *path = "test_model_kept.model";
    cst_model *model = build_stack(context, 0);
    assert_int_equal(cst_model_save(context, model, "no/such/folder/a.model"), CST_ERROR_IO);
    assert_non_null(strstr(cst_last_error(context), "no/such/folder/a.model"));
    assert_int_equal(cst_model_save(context, model, NULL), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_model_save(context, NULL, path), CST_ERROR_ARGUMENT);
    write_file(path, "old", 3);
    model->learner[0].bias[0] = INFINITY;
    assert_int_equal(cst_model_save(context, model, path), CST_ERROR_ARGUMENT);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char old[8];
    assert_int_equal(fread(old, 1, sizeof old, file), 3);
    assert_int_equal(fclose(file), 0);
    assert_memory_equal(old, "old", 3);
    assert_int_equal(remove(path), 0);
    cst_model_free(context, model);
}

/* ---- memory that runs out ---- */

/* Lets the 1st, 2nd, ... allocation of reading and writing fail until none does. */
static void failing_allocations_leave_nothing_behind(void **state) {
    (void)state;
    const char *path = "test_model_heap.model";
    write_file(path, model_file, FILE_BYTES);
    flaky_heap heap = {.left = -1};
    cst_context *context = NULL;
    assert_int_equal(cst_context_create_with(&context, flaky_realloc, &heap), CST_OK);
    long base = heap.live;
    int failures = 0;
    for (long n = 0;; n++, failures++) {
        cst_model *model = NULL;
        heap.left = n;
        cst_status status = cst_model_load(context, &model, path);
        heap.left = -1;
        if (status == CST_OK) {
            cst_model_free(context, model);
            break;
        }
        assert_int_equal(status, CST_ERROR_MEMORY);
        assert_null(model);
        assert_int_equal(heap.live, base);
    }
    assert_in_range(failures, 5, 200);
    cst_model *model = build_stack(context, 0);
    base = heap.live;
    for (long n = 0;; n++) {
        uint8_t *bytes = NULL;
        size_t size = 0;
        heap.left = n;
        cst_status status = cst_stack_encode(context, model, &bytes, &size);
        heap.left = -1;
        if (status == CST_OK) {
            assert_memory_equal(bytes, model_file, FILE_BYTES);
            cst_free(context, bytes);
            break;
        }
        assert_int_equal(status, CST_ERROR_MEMORY);
        assert_null(bytes);
        assert_int_equal(heap.live, base);
    }
    for (long n = 0;; n++) {
        heap.left = n;
        cst_status status = cst_model_save(context, model, path);
        heap.left = -1;
        assert_int_equal(heap.live, base);
        if (status == CST_OK)
            break;
        assert_int_equal(status, CST_ERROR_MEMORY);
    }
    cst_model_free(context, model);
    cst_context_free(context);
    assert_int_equal(heap.live, 0);
    assert_int_equal(remove(path), 0);
}

int suite_format(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksum_known_answers),
        cmocka_unit_test(bytes_are_those_of_the_reference_writer),
        cmocka_unit_test(what_is_read_is_what_was_written),
        cmocka_unit_test(every_stack_survives_a_round_trip),
        cmocka_unit_test(class_names_may_be_absent),
        cmocka_unit_test(a_large_model_is_below_100_kilobytes),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(bytes_after_the_end_are_refused),
        cmocka_unit_test(other_files_and_newer_versions_are_named),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(impossible_numbers_are_refused),
        cmocka_unit_test(names_that_are_not_text_are_refused),
        cmocka_unit_test(a_key_may_not_stand_twice),
        cmocka_unit_test(unknown_sections_are_skipped_or_refused_by_their_flag),
        cmocka_unit_test(sections_stand_once_in_their_order),
        cmocka_unit_test(signed_noise_is_survived),
        cmocka_unit_test(incomplete_models_are_not_written),
        cmocka_unit_test(models_of_other_tasks_are_whole),
        cmocka_unit_test(what_could_not_be_read_is_not_written),
        cmocka_unit_test(files_are_read_whole_or_refused_with_their_path),
        cmocka_unit_test(a_pipe_is_read_whole),
        cmocka_unit_test(saved_twice_the_bytes_are_the_same),
        cmocka_unit_test(a_save_that_fails_leaves_the_old_file),
        cmocka_unit_test(failing_allocations_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, context_setup, context_teardown);
}
