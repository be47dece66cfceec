/*
 * What unit tests share: a context for each test, with linear algebra where it is used, and numbers
 * that are nearly equal. Paper: none.
 */
#ifndef CST_TEST_CHECK_H
#define CST_TEST_CHECK_H

#include "core/base.h"
#include "core/la.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static inline int context_setup(void **state) {
    return cst_context_create((cst_context **)state) != CST_OK;
}

static inline int context_teardown(void **state) {
    cst_context_free(*state);
    return 0;
}

static inline int la_setup(void **state) {
    cst_la_enter();
    return context_setup(state);
}

static inline int la_teardown(void **state) {
    (void)context_teardown(state);
    cst_la_leave();
    return 0;
}

/* |got - expected| <= tolerance. */
static inline void assert_close(double got, double expected, double tolerance) {
    if (!(fabs(got - expected) <= tolerance))
        fail_msg("got %.17g, expected %.17g", got, expected);
}

/* |got - expected| <= relative * max(|expected|, floor). */
static inline void assert_relative(double got, double expected, double relative, double floor) {
    assert_close(got, expected, relative * fmax(fabs(expected), floor));
}

#endif
