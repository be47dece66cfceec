/*
 * The option table: every default parses and lies within its bounds, presets, bad keys and values.
 */
#include "core/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct fixture {
    cst_context *context;
    cst_options *options;
} fixture;

static fixture shared;

static int setup(void **state) {
    *state = &shared;
    return cst_context_create(&shared.context) != CST_OK ||
           cst_options_create(shared.context, &shared.options) != CST_OK;
}

static int teardown(void **state) {
    fixture *f = *state;
    cst_options_free(f->context, f->options);
    cst_context_free(f->context);
    return 0;
}

static void every_default_is_valid_and_keys_differ(void **state) {
    fixture *f = *state;
    for (int64_t i = 0; i < cst_option_count(); i++) {
        const cst_option_spec *spec = cst_option_at(i);
        assert_int_equal(cst_options_set(f->context, f->options, spec->key, spec->initial), CST_OK);
        assert_string_equal(cst_options_get(f->options, spec->key), spec->initial);
        assert_true(strlen(spec->help) > 10);
        for (int64_t j = 0; j < i; j++)
            assert_string_not_equal(spec->key, cst_option_at(j)->key);
    }
    assert_null(cst_option_at(cst_option_count()));
}

static void presets_are_as_described(void **state) {
    fixture *f = *state;
    for (size_t i = 0; cst_preset_at(i); i++)
        assert_int_equal(cst_options_preset(f->context, f->options, cst_preset_at(i)), CST_OK);
    assert_int_equal(cst_options_preset(f->context, f->options, "paper"), CST_OK);
    assert_string_equal(cst_options_get(f->options, "cka.threshold"), "0.85");
    assert_string_equal(cst_options_get(f->options, "lambda.rule"), "star");
    assert_int_equal(cst_option_integer(f->options, CST_OPT_META_LEARNERS), 7);
    assert_int_equal(cst_options_preset(f->context, f->options, "prototype"), CST_OK);
    assert_string_equal(cst_options_get(f->options, "redundancy.measure"), "pearson");
    assert_string_equal(cst_options_get(f->options, "cka.threshold"),
                        "0.995"); /* back at the table's */
    assert_string_equal(cst_options_preset_name(f->options), "prototype");
    assert_int_equal(cst_options_preset(f->context, f->options, "papr"), CST_ERROR_ARGUMENT);
    assert_non_null(strstr(cst_last_error(f->context), "papr"));
    assert_int_equal(cst_options_preset(f->context, f->options, "default"), CST_OK);
}

static void bad_values_are_refused_and_change_nothing(void **state) {
    static const char *const bad[][2] = {
        {"no.such.key", "1"},
        {"folds.count", "1"},
        {"folds.count", "2.5"},
        {"folds.count", "many"},
        {"folds.count", ""},
        {"cka.threshold", "1.5"},
        {"cka.threshold", "nan"},
        {"cka.threshold", "0.5x"},
        {"refit.drop", "maybe"},
        {"lambda.rule", "sta"},
        {"lambda.rule", "star|cv"},
        {"meta.learners", ""},
        {"meta.learners", "ridge,x"},
        {"seed", "1e400"},
        {"seed", "9007199254740993"},
        {"seed", "18446744073709551616"},
        {"seed", "-0"},
        {"seed", "0x10"},
        {"seed", "1e3"},
        {"seed", "5.0"},
        {"seed", " 5"},
        {"seed", "+5"},
        {"seed", ""},
        {"keep.max", "1000001"},
        {"gate.max_rows", "0"},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *before = cst_options_get(f->options, bad[i][0]);
        char keep[256] = "";
        if (before)
            strncpy(keep, before, sizeof keep - 1);
        assert_int_equal(cst_options_set(f->context, f->options, bad[i][0], bad[i][1]),
                         CST_ERROR_ARGUMENT);
        if (before)
            assert_string_equal(cst_options_get(f->options, bad[i][0]), keep);
        assert_non_null(strstr(cst_last_error(f->context), bad[i][0]));
    }
}

static void lists_and_flags_are_read(void **state) {
    fixture *f = *state;
    assert_int_equal(cst_options_set(f->context, f->options, "meta.learners", "log-linear,ridge"),
                     CST_OK);
    assert_int_equal(cst_option_integer(f->options, CST_OPT_META_LEARNERS), 1 | 8);
    assert_int_equal(cst_options_set(f->context, f->options, "refit.drop", "on"), CST_OK);
    assert_true(cst_option_flag(f->options, CST_OPT_REFIT_DROP));
    assert_int_equal(cst_options_set(f->context, f->options, "cka.threshold", "0.5"), CST_OK);
    assert_true(cst_option_real(f->options, CST_OPT_CKA_THRESHOLD) == 0.5);
}

static void whole_numbers_are_exact(void **state) {
    fixture *f = *state;
    assert_int_equal(cst_options_set(f->context, f->options, "seed", "9007199254740992"), CST_OK);
    assert_int_equal(cst_option_integer(f->options, CST_OPT_SEED), (int64_t)1 << 53);
    assert_int_equal(cst_options_set(f->context, f->options, "seed", "9007199254740991"), CST_OK);
    assert_int_equal(cst_option_integer(f->options, CST_OPT_SEED), ((int64_t)1 << 53) - 1);
    assert_int_equal(cst_options_set(f->context, f->options, "seed", "007"), CST_OK);
    assert_int_equal(cst_option_integer(f->options, CST_OPT_SEED), 7);
    assert_int_equal(cst_options_set(f->context, f->options, "seed", "9007199254740993"),
                     CST_ERROR_ARGUMENT);
    assert_non_null(strstr(cst_last_error(f->context),
                           "'9007199254740993' is not a whole number from 0 to 9007199254740992"));
}

/* What earlier versions took and models hold. */
static void stored_whole_numbers_may_be_spelled_otherwise(void **state) {
    static const struct {
        const char *text;
        int64_t value;
    } taken[] = {{"5.0", 5},
                 {"1e3", 1000},
                 {"0x10", 16},
                 {" 5", 5},
                 {"+5", 5},
                 {"-0", 0},
                 {"007", 7},
                 {"2e15", 2000000000000000},
                 {"9007199254740992", (int64_t)1 << 53}};
    static const char *const refused[] = {
        "5.5", "9007199254740993", "9007199254740993.0", "-1", "five", "5 ", "inf", ""};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        assert_int_equal(cst_options_restore(f->context, f->options, "seed", taken[i].text),
                         CST_OK);
        assert_int_equal(cst_option_integer(f->options, CST_OPT_SEED), taken[i].value);
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_int_equal(cst_options_restore(f->context, f->options, "seed", refused[i]),
                         CST_ERROR_ARGUMENT);
    assert_int_equal(cst_options_restore(f->context, f->options, "blend.temperature", "1e0"),
                     CST_OK);
    assert_string_equal(cst_options_get(f->options, "blend.temperature"), "1e0");
    assert_int_equal(cst_options_restore(f->context, f->options, "no.option", "1"),
                     CST_ERROR_ARGUMENT);
}

int suite_options(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_default_is_valid_and_keys_differ),
        cmocka_unit_test(presets_are_as_described),
        cmocka_unit_test(bad_values_are_refused_and_change_nothing),
        cmocka_unit_test(lists_and_flags_are_read),
        cmocka_unit_test(whole_numbers_are_exact),
        cmocka_unit_test(stored_whole_numbers_may_be_spelled_otherwise),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
