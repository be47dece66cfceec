/*
 * In a program with a decimal comma numbers are read and written as anywhere else, and its locale
 * stays as it was. Whole calls in both locales: alloc_sweep locale.
 */
#define _XOPEN_SOURCE 700 /* duplocale, uselocale */
#include "comma_locale.h"
#include "core/base.h"
#include "core/options.h"
#include "stats/statistics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static cst_context *context;
static cst_options *options;

static int setup(void **state) {
    (void)state;
    return cst_context_create(&context) != CST_OK ||
           cst_options_create(context, &options) != CST_OK;
}

static int teardown(void **state) {
    (void)state;
    cst_options_free(context, options);
    cst_context_free(context);
    return 0;
}

/* From here on the test is under a comma; without such a locale it is skipped. */
static void need_comma(void) {
    char text[8];
    if (!comma_locale())
        skip();
    (void)snprintf(text, sizeof text, "%g", 0.5);
    assert_string_equal(text, "0,5"); /* that of the program itself */
}

static int point(void **state) {
    (void)state;
    return setlocale(LC_NUMERIC, "C") == NULL;
}

static void text_has_points(void **state) {
    (void)state;
    need_comma();
    char *end = NULL;
    char text[64];
    assert_true(cst_strtod("0.25,1", &end) == 0.25);
    assert_string_equal(end, ",1");
    assert_true(cst_strtod("0,25", &end) == 0);
    assert_string_equal(end, ",25");
    assert_int_equal(cst_snprintf(text, sizeof text, "%.3f %g %.1e", 0.5, 1.5, 2.5), 17);
    assert_string_equal(text, "0.500 1.5 2.5e+00");
    char *made = cst_format(context, "%g", 0.125);
    assert_string_equal(made, "0.125");
    cst_free(context, made);
}

static void options_have_points(void **state) {
    (void)state;
    need_comma();
    for (int64_t i = 0; i < cst_option_count(); i++) {
        const cst_option_spec *spec = cst_option_at(i);
        assert_int_equal(cst_options_set(context, options, spec->key, spec->initial), CST_OK);
        assert_string_equal(cst_options_get(options, spec->key), spec->initial);
    }
    assert_int_equal(cst_options_set(context, options, "cka.threshold", "0.75"), CST_OK);
    assert_string_equal(cst_options_get(options, "cka.threshold"), "0.75");
    assert_int_equal(cst_options_set(context, options, "cka.threshold", "0,75"),
                     CST_ERROR_ARGUMENT);
}

static void messages_have_points(void **state) {
    (void)state;
    need_comma();
    const double a[] = {0.5, INFINITY};
    const double b[] = {0.25, -2.5};
    cst_t_test test;
    assert_int_equal(cst_paired_t_test(context, a, b, 2, &test), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "inf minus -2.5 is"));
    cst_notices_clear(context);
    cst_notice(context, "%g of them", 0.5);
    assert_string_equal(cst_notice_at(context, 0), "0.5 of them");
}

/* Neither the process's locale nor that of a thread that has one of its own changes. */
static void locales_stay_as_they_were(void **state) {
    (void)state;
    need_comma();
    char before[64];
    char text[16];
    (void)snprintf(before, sizeof before, "%s", setlocale(LC_NUMERIC, NULL));
    (void)cst_strtod("0.5", NULL);
    (void)cst_snprintf(text, sizeof text, "%g", 0.5);
    assert_string_equal(setlocale(LC_NUMERIC, NULL), before);
    assert_true(uselocale((locale_t)0) == LC_GLOBAL_LOCALE);
    locale_t own = duplocale(LC_GLOBAL_LOCALE);
    assert_true(own != (locale_t)0);
    assert_int_equal(setlocale(LC_NUMERIC, "C") != NULL, 1);
    (void)uselocale(own);
    (void)cst_snprintf(text, sizeof text, "%g", 0.5);
    assert_string_equal(text, "0.5");
    bool kept = uselocale((locale_t)0) == own;
    (void)snprintf(text, sizeof text, "%g", 0.5);
    (void)uselocale(LC_GLOBAL_LOCALE);
    freelocale(own);
    assert_true(kept);
    assert_string_equal(text, "0,5");
}

int suite_locale(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(text_has_points, point),
        cmocka_unit_test_teardown(options_have_points, point),
        cmocka_unit_test_teardown(messages_have_points, point),
        cmocka_unit_test_teardown(locales_stay_as_they_were, point),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
