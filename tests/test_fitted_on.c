/*
 * The rows a model says it was fitted on: by name and labels; files that do not say mean "oof".
 */
#include "model/fitted_on.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const int32_t labels[4] = {2, 0, 1, 1};
static const int32_t others[4] = {2, 0, 1, 0};

static void a_model_knows_its_rows(void **state) {
    (void)state;
    cst_context *context = NULL;
    char *setting[CST_FITTED_ON_SETTINGS] = {NULL, NULL};
    assert_int_equal(cst_context_create(&context), CST_OK);
    assert_int_equal(cst_fitted_on_note(context, "half", labels, 4, setting), CST_OK);
    assert_string_equal(setting[0], "split=half");
    /* FNV-1a of 2, 0, 1, 1, computed by hand in Python. */
    assert_string_equal(setting[1], "split.labels=4:8d1769904a36aba1");
    struct cst_model model = {.settings = CST_FITTED_ON_SETTINGS, .setting = setting};
    assert_true(cst_fitted_on(&model, "half", labels, 4));
    assert_false(cst_fitted_on(&model, "half", others, 4));
    assert_false(cst_fitted_on(&model, "half", labels, 3));
    assert_false(cst_fitted_on(&model, "oof", labels, 4));
    cst_free(context, setting[0]);
    cst_free(context, setting[1]);
    cst_context_free(context);
}

static void an_older_model_was_fitted_on_oof(void **state) {
    (void)state;
    char text[] = "seed=0";
    char *setting[1] = {text};
    struct cst_model model = {.settings = 1, .setting = setting};
    assert_true(cst_fitted_on(&model, "oof", labels, 4));
    assert_true(cst_fitted_on(&model, "oof", NULL, 4));
    assert_false(cst_fitted_on(&model, "test", labels, 4));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_knows_its_rows),
        cmocka_unit_test(an_older_model_was_fitted_on_oof),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
