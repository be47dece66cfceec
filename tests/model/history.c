/*
 * What a fit found, in the file of its model: it comes back as it went in, older readers skip it,
 * and a damaged one is refused. The bytes of the small one are written by hand from
 * docs/model-format.md.
 */
#include "model/history.h"

#include "model/codec.h"
#include "model_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "check.h"

enum { ROOM = 1 << 16, NAMES = 300 };

static void store(uint8_t *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

/* A model file with a section HIST of this payload at its end. */
static size_t with_history(uint8_t *file, const char *tag, const void *payload, size_t size) {
    size_t at = sizeof model_file - CST_MODEL_CHECKSUM_BYTES;
    memcpy(file, model_file, at);
    file[12]++;
    memcpy(file + at, tag, 4);
    store(file + at + 4, 0, 4);
    store(file + at + 8, size, 8);
    memcpy(file + at + CST_MODEL_SECTION_BYTES, payload, size);
    size_t end = at + CST_MODEL_SECTION_BYTES + size;
    store(file + 16, end + 4, 8);
    store(file + end, cst_crc32c(file, end), 4);
    return end + 4;
}

/* {"a": null, "path": [{"n": 3, "x": 0.5, "who": ["ä", "a"]}, {"n": 300, "ok": true}]} */
static const uint8_t SMALL[] = "\x07\x02"                              /* an object of two */
                               "\x00\x01\0\0\0a\x00"                   /* a: null */
                               "\x01\x04\0\0\0path\x08"                /* path: a table */
                               "\x04\x02\x01\0\0\0n\x03\x01\0\0\0x"    /* of four keys */
                               "\x04\x03\0\0\0who\x05\x02\0\0\0ok\x02" /* and two rows */
                               "\x03\x03\x04\0\0\0\x3f"                /* 3, 0.5 */
                               "\x06\x02\x05\x06\x02\0\0\0\xc3\xa4"    /* two texts, */
                               "\x05\x00\x09"                          /* the second known */
                               "\x03\xac\x02\x09\x09\x02";             /* 300, -, -, true */
enum { SMALL_BYTES = sizeof SMALL - 1 };

static cst_model *decoded(cst_context *context, const uint8_t *file, size_t size) {
    cst_model *model = NULL;
    if (cst_stack_decode(context, "m", file, size, &model) != CST_OK)
        fail_msg("%s", cst_last_error(context));
    return model;
}

static void the_bytes_are_those_of_the_page(void **state) {
    cst_context *context = *state;
    static uint8_t file[ROOM];
    size_t size = with_history(file, "HIST", SMALL, SMALL_BYTES);
    cst_model *model = decoded(context, file, size);
    json_t *expected = json_pack("{s:n, s:[{s:i, s:f, s:[ss]}, {s:i, s:b}]}", "a", "path", "n", 3,
                                 "x", 0.5, "who", "\xc3\xa4", "a", "n", 300, "ok", 1);
    assert_true(json_equal(model->history, expected));
    uint8_t *bytes = NULL;
    size_t again = 0;
    assert_int_equal(cst_stack_encode(context, model, &bytes, &again), CST_OK);
    assert_int_equal(again, size);
    assert_memory_equal(bytes, file, size);
    cst_free(context, bytes);
    json_decref(expected);
    cst_model_free(context, model);
    size = with_history(file, "HISX", SMALL, SMALL_BYTES); /* as an older reader sees it */
    model = decoded(context, file, size);
    assert_null(model->history);
    cst_model_free(context, model);
}

static void what_is_damaged_is_refused(void **state) {
    static const struct {
        const char *bytes;
        size_t size;
        const char *why;
    } cases[] = {
        {"\x06\x00", 2, "not an object"},
        {"\x00", 1, "not an object"},
        {"\x0a", 1, "the form of a value"},
        {"\x07\xff\xff\xff\xff\x07", 6, "entries are declared"},
        {"\x07\x01\x01", 3, "the position of a text"},
        {"\x07\x01\x00\x00\x00\x00\x00\x00", 8, "text 0 (counted from 0) is empty"},
        {"\x07\x01\x00\x01\x00\x00\x00\x1b\x00", 9, "control character"},
        {"\x07\x01\x00\x01\x00\x00\x00\x61\x04\x00\x00\xc0\x7f", 13, "a number is nan"},
        {"\x07\x01\x00\x01\x00\x00\x00\x61\x08\x00\x00", 11, "no keys"},
        {"\x07\x01\x00\x01\x00\x00\x00\x61\x08\x02\x00\x00\x00", 13, "or one of them twice"},
        {"\x07\x00\x00", 3, "1 bytes are left over in section HIST"},
    };
    cst_context *context = *state;
    static uint8_t file[ROOM];
    cst_model *model = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = with_history(file, "HIST", cases[i].bytes, cases[i].size);
        assert_int_equal(cst_stack_decode(context, "m", file, size, &model), CST_ERROR_FORMAT);
        if (!strstr(cst_last_error(context), cases[i].why))
            fail_msg("%zu: %s", i, cst_last_error(context));
    }
    uint8_t deep[64] = {0x07, 1, 0, 1, 0, 0, 0, 'a'};
    for (int i = 8; i < 62; i += 2)
        memcpy(deep + i, "\x06\x01", 2);
    size_t size = with_history(file, "HIST", deep, sizeof deep);
    assert_int_equal(cst_stack_decode(context, "m", file, size, &model), CST_ERROR_FORMAT);
    assert_non_null(strstr(cst_last_error(context), "deeper than"));
}

/* Every other value of every byte, and every length: taken or refused, and never more. */
static void any_byte_may_be_wrong(void **state) {
    cst_context *context = *state;
    static uint8_t file[ROOM];
    uint8_t payload[SMALL_BYTES];
    int taken = 0;
    int refused = 0;
    for (size_t at = 0; at < SMALL_BYTES; at++)
        for (int value = 0; value < 256; value++) {
            memcpy(payload, SMALL, SMALL_BYTES);
            payload[at] = (uint8_t)value;
            size_t size =
                with_history(file, "HIST", payload, value == SMALL[at] ? at : SMALL_BYTES);
            cst_model *model = NULL;
            cst_status status = cst_stack_decode(context, "m", file, size, &model);
            assert_true(status == CST_OK || status == CST_ERROR_FORMAT);
            assert_true(value != SMALL[at] || status == CST_ERROR_FORMAT);
            taken += status == CST_OK;
            refused += status != CST_OK;
            cst_model_free(context, model);
        }
    assert_true(taken > 500 && refused > 5000);
}

/* What a report of `count` members has; of each 16-character names. */
static cst_report *report_of(cst_context *context, int count) {
    cst_report *report = NULL;
    assert_int_equal(cst_report_create(context, &report, "fit"), CST_OK);
    json_t *members = json_array();
    json_t *path = json_array();
    json_t *dropped = json_array();
    for (int k = 0; k < count; k++) {
        char name[32];
        (void)cst_snprintf(name, sizeof name, "a_model_name_%03d", k);
        json_array_append_new(members,
                              json_pack("{s:s, s:s, s:b, s:f, s:f, s:f, s:f, s:f, s:i}", "name",
                                        name, "family", k % 2 ? "cnn" : "vit", "kept", k % 2,
                                        "top1", 0.1 + k / 1e3, "ece", 0.1, "nll", 0.7, "brier", 0.3,
                                        "flops", 1e9 + k, "passes", 1));
        json_array_append_new(path,
                              json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:n, s:b, "
                                        "s:b, s:[s], s:[s]}",
                                        "size", k + 1, "loss", 1.0 / (k + 3), "excess", 0.1,
                                        "excess_se", 0.01, "against_all", 0.2, "against_all_se",
                                        0.02, "flops", 1e9, "latency_ms", 1.5, "params", "allowed",
                                        1, "chosen", k == 3, "added", name, "members", name));
        json_array_append_new(dropped, json_pack("{s:s, s:s, s:f, s:s, s:s}", "name", name,
                                                 "because", "selection", "cka", 0.9, "to", name,
                                                 "text", "not needed by the pool"));
    }
    json_object_set_new(report->root, "members", members);
    json_object_set_new(report->root, "path", path);
    json_object_set_new(report->root, "dropped", dropped);
    json_object_set_new(report->root, "flops_rel", json_real(1e300)); /* no single precision */
    json_object_set_new(report->root, "models_in", json_integer(-1));
    json_object_set_new(report->root, "kept", json_pack("[ss]", "", "\x1b[0m"));
    json_object_set_new(report->root, "seconds", json_real(3));
    return report;
}

static void a_report_is_kept_small(void **state) {
    cst_context *context = *state;
    static const struct {
        int members;
        size_t most;
    } cases[] = {{16, 4096}, {NAMES, 65536}};
    for (size_t i = 0; i < 2; i++) {
        cst_model *model = build_stack(context, 0);
        cst_report *report = report_of(context, cases[i].members);
        uint8_t *bytes = NULL;
        size_t size = 0;
        assert_int_equal(cst_model_remember(context, model, report), CST_OK);
        json_t *path = json_object_get(model->history, "path");
        json_t *step = json_array_get(path, 1);
        assert_int_equal(json_array_size(path), cases[i].members);
        assert_true(json_real_value(json_object_get(step, "loss")) == (double)(1.0F / 4));
        assert_null(json_object_get(step, "members"));
        assert_string_equal(json_string_value(json_array_get(json_object_get(step, "added"), 0)),
                            "a_model_name_001");
        assert_null(
            json_object_get(json_array_get(json_object_get(model->history, "dropped"), 0), "text"));
        assert_true(json_is_null(json_object_get(model->history, "flops_rel")));
        assert_true(json_real_value(json_object_get(model->history, "models_in")) == -1);
        assert_true(json_is_null(json_array_get(json_object_get(model->history, "kept"), 1)));
        assert_null(json_object_get(model->history, "seconds"));
        assert_int_equal(cst_stack_encode(context, model, &bytes, &size), CST_OK);
        assert_in_range(size - sizeof model_file, 1000, cases[i].most);
        cst_model *again = decoded(context, bytes, size);
        assert_true(json_equal(again->history, model->history));
        cst_free(context, bytes);
        cst_report_free(context, report);
        cst_model_free(context, model);
        cst_model_free(context, again);
    }
}

int suite_history(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_are_those_of_the_page),
        cmocka_unit_test(what_is_damaged_is_refused),
        cmocka_unit_test(any_byte_may_be_wrong),
        cmocka_unit_test(a_report_is_kept_small),
    };
    return cmocka_run_group_tests(tests, context_setup, context_teardown);
}
