/*
 * Weighted conformal quantiles: against NumPy, against the ordinary ones, and coverage in worlds
 * whose ratio is known.
 */
#include "stats/conformal.h"

#include "check.h"

#include "data/conformal_shift.h"

static void quantiles_agree_with_numpy(void **state) {
    for (int k = 0; k < CS_CASES; k++) {
        CST_SCOPE(scope);
        cst_weighted_scores scores;
        assert_int_equal(cst_weighted_scores_make(*state, scope, CS_SCORE,
                                                  CS_WEIGHT + k * CS_SCORES, CS_SCORES, &scores),
                         CST_OK);
        assert_true(cst_weighted_threshold(&scores, CS_ALPHA[k], CS_OWN[k]) == CS_THRESHOLD[k]);
    }
}

/* Equal weights, whatever their size, give the place of split conformal prediction. */
static void equal_weights_change_nothing(void **state) {
    enum { MOST = 150 };
    double score[MOST];
    double weight[MOST];
    for (int n = 1; n < MOST; n++)
        for (int a = 1; a < 50; a += 3) {
            CST_SCOPE(scope);
            cst_weighted_scores scores;
            double alpha = a / 100.0;
            for (int i = 0; i < n; i++) {
                score[i] = (i * 7) % n;
                weight[i] = n % 3 == 0 ? 0.1 : 1;
            }
            int64_t order = cst_conformal_order(n, alpha);
            assert_int_equal(cst_weighted_scores_make(*state, scope, score, weight, n, &scores),
                             CST_OK);
            double got = cst_weighted_threshold(&scores, alpha, weight[0]);
            assert_true(got == (order > n ? (double)INFINITY : scores.score[order - 1]));
            assert_close(scores.effective, n, 1e-9 * n);
        }
}

/* Rows x of density 1 are calibrated, rows of density 2 x are predicted; scores grow with x. */
static void coverage_under_covariate_shift(void **state) {
    enum { ROWS = 200, WORLDS = 2000 };
    double score[ROWS];
    double weight[ROWS];
    int64_t covered[2] = {0, 0};
    cst_rng rng;
    cst_rng_init(&rng, 4, CST_STREAM_TEST, 0);
    for (int w = 0; w < WORLDS; w++) {
        CST_SCOPE(scope);
        cst_weighted_scores scores;
        for (int i = 0; i < ROWS; i++) {
            double x = cst_rng_uniform(&rng);
            score[i] = x + cst_rng_uniform(&rng) / 4;
            weight[i] = 2 * x;
        }
        double x = sqrt(cst_rng_uniform(&rng));
        double fresh = x + cst_rng_uniform(&rng) / 4;
        assert_int_equal(cst_weighted_scores_make(*state, scope, score, weight, ROWS, &scores),
                         CST_OK);
        covered[0] += fresh <= cst_weighted_threshold(&scores, 0.2, 2 * x);
        for (int i = 0; i < ROWS; i++)
            weight[i] = 1;
        assert_int_equal(cst_weighted_scores_make(*state, scope, score, weight, ROWS, &scores),
                         CST_OK);
        covered[1] += fresh <= cst_weighted_threshold(&scores, 0.2, 1);
    }
    assert_true(covered[0] > WORLDS * 77 / 100 && covered[0] < WORLDS * 84 / 100);
    assert_true(covered[1] < WORLDS * 70 / 100);
}

static void densities_between_levels(void **state) {
    static const double levels[] = {0.1, 0.2, 0.2, 0.5};
    static const double density[] = {4, 2, 2, 1};
    (void)state;
    assert_true(cst_density_at(levels, density, 4, 0.05) == 4);
    assert_true(cst_density_at(levels, density, 4, 0.1) == 4);
    assert_true(cst_density_at(levels, density, 4, 0.11) == 2);
    assert_true(cst_density_at(levels, density, 4, 0.3) == 1);
    assert_true(cst_density_at(levels, density, 4, 0.5) == 1);
    assert_true(cst_density_at(levels, density, 4, 0.51) == 0);
}

int suite_conformal_shift(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_agree_with_numpy),
        cmocka_unit_test(equal_weights_change_nothing),
        cmocka_unit_test(coverage_under_covariate_shift),
        cmocka_unit_test(densities_between_levels),
    };
    return cmocka_run_group_tests(tests, context_setup, context_teardown);
}
