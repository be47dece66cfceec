/*
 * Exponentials and logarithms for wide registers, against the C library's in a wider type over the
 * whole range, and the same bytes with and without wide registers.
 */
#include "core/wide.h"

#include "core/base.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { COUNT = 400003 }; /* not a multiple of a register */

/* Distance in units of the last place of the true value's neighbours; a denormal's unit is the
 * smallest one. */
static double ulps_f64(double got, long double want) {
    int exponent = 0;
    (void)frexpl(want, &exponent);
    exponent = exponent < DBL_MIN_EXP ? DBL_MIN_EXP : exponent;
    return (double)fabsl(((long double)got - want) / ldexpl(1, exponent - DBL_MANT_DIG));
}

static double ulps_f32(float got, double want) {
    int exponent = 0;
    (void)frexp(want, &exponent);
    exponent = exponent < FLT_MIN_EXP ? FLT_MIN_EXP : exponent;
    return fabs(((double)got - want) / ldexp(1, exponent - FLT_MANT_DIG));
}

/* Compares one array, computed in place as well. */
static void check_f64(bool logarithm, const double *x, int64_t count, double *out) {
    double worst = 0;
    (logarithm ? cst_log_f64 : cst_exp_f64)(count, x, out);
    for (int64_t i = 0; i < count; i++) {
        long double want = logarithm ? logl((long double)x[i]) : expl((long double)x[i]);
        double one = logarithm ? cst_log_one_f64(x[i]) : cst_exp_one_f64(x[i]);
        assert_memory_equal(&one, &out[i], sizeof one);
        worst = fmax(worst, ulps_f64(out[i], want));
    }
    if (!(worst <= 2))
        fail_msg("%s of a double is off by %.3g ulp", logarithm ? "log" : "exp", worst);
}

static void check_f32(bool logarithm, const float *x, int64_t count, float *out) {
    double worst = 0;
    (logarithm ? cst_log_f32 : cst_exp_f32)(count, x, out);
    for (int64_t i = 0; i < count; i++) {
        double want = logarithm ? log((double)x[i]) : exp((double)x[i]);
        float one = logarithm ? cst_log_one_f32(x[i]) : cst_exp_one_f32(x[i]);
        assert_memory_equal(&one, &out[i], sizeof one);
        if (logarithm && isnormal(x[i]) && x[i] > 0) {
            one = cst_log_normal_f32(x[i]);
            assert_memory_equal(&one, &out[i], sizeof one);
        }
        worst = fmax(worst, ulps_f32(out[i], want));
    }
    if (!(worst <= 2))
        fail_msg("%s of a float is off by %.3g ulp", logarithm ? "log" : "exp", worst);
}

static void doubles_are_within_two_ulp(void **state) {
    (void)state;
    double *x = malloc(COUNT * sizeof *x);
    double *out = malloc(COUNT * sizeof *out);
    assert_non_null(x);
    assert_non_null(out);
    cst_rng rng;
    cst_rng_init(&rng, 1, CST_STREAM_TEST, 0);
    for (size_t i = 0; i < COUNT; i++) /* denormal results at the lower end */
        x[i] = -745 + 1454.7 * cst_rng_uniform(&rng);
    check_f64(false, x, COUNT, out);
    for (size_t i = 0; i < COUNT; i++)
        x[i] = (cst_rng_uniform(&rng) - 0.5) * ldexp(1, -(int)(i % 60));
    check_f64(false, x, COUNT, out);
    for (size_t i = 0; i < COUNT; i++) /* every exponent, denormals included */
        x[i] = ldexp(1 + cst_rng_uniform(&rng), (int)(i % 2098) - 1074);
    check_f64(true, x, COUNT, out);
    for (size_t i = 0; i < COUNT; i++) /* near 1, where log goes through 0 */
        x[i] = 1 + (cst_rng_uniform(&rng) - 0.5) * ldexp(1, -(int)(i % 52));
    check_f64(true, x, COUNT, out);
    free(x);
    free(out);
}

static void floats_are_within_two_ulp(void **state) {
    (void)state;
    float *x = malloc(COUNT * sizeof *x);
    float *out = malloc(COUNT * sizeof *out);
    assert_non_null(x);
    assert_non_null(out);
    cst_rng rng;
    cst_rng_init(&rng, 2, CST_STREAM_TEST, 0);
    for (size_t i = 0; i < COUNT; i++)
        x[i] = (float)(-103.2 + 191.9 * cst_rng_uniform(&rng));
    check_f32(false, x, COUNT, out);
    for (size_t i = 0; i < COUNT; i++)
        x[i] = (float)((cst_rng_uniform(&rng) - 0.5) * ldexp(1, -(int)(i % 30)));
    check_f32(false, x, COUNT, out);
    for (size_t i = 0; i < COUNT; i++)
        x[i] = (float)ldexp(1 + cst_rng_uniform(&rng) * 0.9999999, (int)(i % 277) - 149);
    check_f32(true, x, COUNT, out);
    for (size_t i = 0; i < COUNT; i++)
        x[i] = (float)(1 + (cst_rng_uniform(&rng) - 0.5) * ldexp(1, -(int)(i % 24)));
    check_f32(true, x, COUNT, out);
    free(x);
    free(out);
}

static void ends_of_the_range(void **state) {
    (void)state;
    double x[] = {0, -0.0, 1, -INFINITY, INFINITY, -746, -1e300, 709.78, 710, 1e300, DBL_TRUE_MIN};
    double out[11];
    cst_exp_f64(11, x, out);
    assert_true(out[0] == 1 && out[1] == 1 && out[3] == 0 && out[5] == 0 && out[6] == 0);
    assert_true(isinf(out[4]) && isfinite(out[7]) && isinf(out[8]) && isinf(out[9]));
    assert_true(out[10] == 1);
    cst_log_f64(11, x, out);
    assert_true(out[0] == -INFINITY && out[1] == -INFINITY && out[2] == 0 && out[4] == INFINITY);
    assert_true(isnan(out[3]) && isnan(out[5]));
    float y[] = {0, -0.0F, 1, -INFINITY, INFINITY, -104, -1e30F, 88.72F, 89, 1e30F, FLT_TRUE_MIN};
    float few[11];
    cst_exp_f32(11, y, few);
    assert_true(few[0] == 1 && few[1] == 1 && few[3] == 0 && few[5] == 0 && few[6] == 0);
    assert_true(isinf(few[4]) && isfinite(few[7]) && isinf(few[8]) && isinf(few[9]));
    assert_true(few[10] == 1);
    cst_log_f32(11, y, few);
    assert_true(few[0] == -INFINITY && few[1] == -INFINITY && few[2] == 0 && few[4] == INFINITY);
    assert_true(isnan(few[3]) && isnan(few[5]));
    double nan64[] = {NAN, NAN};
    float nan32[] = {NAN, NAN};
    cst_exp_f64(1, nan64, nan64);
    cst_log_f64(1, nan64 + 1, nan64 + 1);
    cst_exp_f32(1, nan32, nan32);
    cst_log_f32(1, nan32 + 1, nan32 + 1);
    for (size_t i = 0; i < 2; i++)
        assert_true(isnan(nan64[i]) && isnan(nan32[i]));
}

int suite_wide(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubles_are_within_two_ulp),
        cmocka_unit_test(floats_are_within_two_ulp),
        cmocka_unit_test(ends_of_the_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
