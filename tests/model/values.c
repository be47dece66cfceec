/*
 * What a model of a regression keeps of its targets: location and scale, the unit of a variance,
 * factors of intervals between the stored levels and beyond them. docs/regression.md.
 */
#include "model/values.h"
#include "stats/statistics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"

static void location_and_scale(void **state) {
    cst_context *context = *state;
    /* the second is the same everywhere, the third is 0 */
    static const double targets[] = {1, 7, 0, 2, 7, 0, 6, 7, 0};
    static const double weights[] = {2, 1, 1};
    cst_view view = {.rows = 3, .classes = 3, .targets = targets};
    cst_scaling scaling;
    CST_SCOPE(scope);
    assert_int_equal(cst_scaling_take(context, scope, &view, &scaling), CST_OK);
    assert_true(scaling.outputs == 3 && scaling.location[0] == 3);
    assert_true(fabs(scaling.scale[0] - sqrt(14.0 / 3)) < 1e-15);
    assert_true(scaling.location[1] == 7 && scaling.scale[1] == 1);
    assert_true(scaling.location[2] == 0 && scaling.scale[2] == 1);
    assert_int_equal(cst_notice_count(context), 2);
    assert_string_equal(cst_notice_at(context, 0), "output 1 has the same target in every row");
    assert_string_equal(cst_notice_at(context, 1), "output 2 has the same target in every row");
    /* weights that add to the number of rows: 1.5, 0.75, 0.75 */
    view.weights = weights;
    view.weight_scale = 0.75;
    assert_int_equal(cst_scaling_take(context, scope, &view, &scaling), CST_OK);
    assert_true(fabs(scaling.location[0] - 2.5) < 1e-15);
    assert_true(fabs(scaling.scale[0] - sqrt((2 * 2.25 + 0.25 + 12.25) / 4)) < 1e-15);
    view.targets = NULL;
    assert_int_equal(cst_scaling_take(context, scope, &view, &scaling), CST_ERROR_INPUT);
    assert_string_equal(cst_last_error(context), "a regression is fitted on rows with targets");
    view.targets = targets;
    view.rows = 0;
    assert_int_equal(cst_scaling_take(context, scope, &view, &scaling), CST_ERROR_INPUT);
    assert_null(scaling.location);
}

static void near(double got, double wanted) {
    if (!(fabs(got - wanted) <= 1e-12 * fabs(wanted)))
        fail_msg("%.17g instead of %.17g", got, wanted);
}

static void factors_of_intervals(void **state) {
    (void)state;
    double quantile[2 * CST_VALUE_LEVELS];
    double offset[] = {1, 1 / 9999.0};
    cst_values values = {.quantile = quantile, .offset = offset};
    for (int32_t i = 0; i < CST_VALUE_LEVELS; i++) {
        quantile[i] = -1;
        quantile[CST_VALUE_LEVELS + i] = 10 + i;
    }
    /* 0.01, 0.02, ..., 0.99, 0.995, 0.999 */
    near(cst_value_level(0), 0.01);
    near(cst_value_level(98), 0.99);
    near(cst_value_level(99), 0.995);
    near(cst_value_level(100), 0.999);
    /* without quantiles those of the normal distribution */
    near(cst_values_factor(&values, 1, 0.9), cst_normal_quantile(0.95));
    values.conformal = true;
    near(cst_values_factor(&values, 1, 0.01), 10);
    near(cst_values_factor(&values, 1, 0.002), 2); /* a straight line from 0 */
    near(cst_values_factor(&values, 1, 0.5), 59);
    near(cst_values_factor(&values, 1, 0.505), 59.5);
    near(cst_values_factor(&values, 1, 0.9925), 108.5);
    near(cst_values_factor(&values, 1, 0.998), 109.75);
    near(cst_values_factor(&values, 1, 0.999), 110);
    near(cst_values_factor(&values, 1, 0.9999), /* the tail is the normal one's */
         110 * cst_normal_quantile(0.99995) / cst_normal_quantile(0.9995));
    /* of n residuals none is the ceil((n + 1) level)-th smallest */
    assert_true(isinf(cst_values_factor(&values, 1, 0.99991)));
    static const double levels[] = {0.5, 0.9, 0.95, 0.99, 0.995, 0.999};
    static const double needed[] = {1, 9, 19, 99, 199, 999};
    for (size_t i = 0; i < 6; i++) {
        near(cst_values_needed(levels[i]), needed[i]);
        offset[1] = 1 / needed[i];
        assert_true(isfinite(cst_values_factor(&values, 1, levels[i])));
        offset[1] = 1 / (needed[i] - 1 + 1e-300);
        assert_true(isinf(cst_values_factor(&values, 1, levels[i])));
    }
}

static void unit_of_a_variance(void **state) {
    (void)state;
    double share[] = {0, 0.25};
    double spread[] = {1, 4};
    double offset[] = {0.5, 0.125};
    double center[] = {0, 0, 1, 2};
    double covariance[] = {0, 0, 0, 0, 2, 0.5, 0.5, 3};
    static const double x[] = {3, 1};
    cst_values values = {.columns = 2,
                         .share = share,
                         .mean_spread = spread,
                         .offset = offset,
                         .center = center,
                         .covariance = covariance};
    near(cst_values_unit(&values, 0, x, 100), 1.5);
    /* 0.75 + 0.125 + 0.25 * 8 / 4 + (2, -1)' [2, 0.5; 0.5, 3] (2, -1) */
    near(cst_values_unit(&values, 1, x, 8), 0.75 + 0.125 + 0.5 + 8 - 2 + 3);
    offset[0] = -3; /* never 0 or below */
    near(cst_values_unit(&values, 0, x, 0), 1e-12);
}

int suite_values(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(location_and_scale, context_setup, context_teardown),
        cmocka_unit_test(factors_of_intervals),
        cmocka_unit_test(unit_of_a_variance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
