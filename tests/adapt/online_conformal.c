/*
 * Adaptive conformal inference: against NumPy, the share of misses whatever the rows are, and a
 * state that is restored.
 */
#include "fit/adapt/online.h"

#include "check.h"
#include "data/online_conformal.h"

#include <string.h>

static void follow(cst_aci *aci, int64_t i, bool compare) {
    const float *row = OC_PROBABILITIES + i * OC_CLASSES;
    double threshold = cst_aci_threshold(aci);
    if (compare)
        assert_true(threshold == OC_THRESHOLD[i]);
    if (OC_LABELS[i] >= 0) {
        double score = cst_aci_score(row, OC_LABELS[i]);
        cst_aci_update(aci, score <= threshold, score);
    }
    if (compare)
        assert_close(aci->level, OC_LEVEL[i], 1e-12);
}

static void stream_agrees_with_numpy(void **state) {
    cst_aci aci;
    assert_int_equal(cst_aci_start(*state, OC_ALPHA, OC_STEP, &aci), CST_OK);
    for (int64_t i = 0; i < OC_ROWS; i++)
        follow(&aci, i, true);
    assert_int_equal(aci.count, CST_ACI_WINDOW);
}

/* |share of misses - alpha| <= (max(alpha, 1 - alpha) + step) / (rows step), whatever comes. */
static void misses_come_to_alpha(void **state) {
    cst_aci aci;
    cst_rng rng;
    cst_rng_init(&rng, 3, CST_STREAM_TEST, 0);
    for (int world = 0; world < 4; world++) {
        assert_int_equal(cst_aci_start(*state, 0.1, 0.05, &aci), CST_OK);
        for (int64_t i = 0; i < 2000; i++) {
            double u = cst_rng_uniform(&rng);
            double score = world == 0   ? u
                           : world == 1 ? (double)i / 2000 + u / 100 /* always new */
                           : world == 2 ? (i / 100 % 2 == 0 ? u : 2 + u)
                                        : 0.5; /* all tied */
            cst_aci_update(&aci, score <= cst_aci_threshold(&aci), score);
        }
        double share = (double)aci.missed / (double)aci.rows;
        assert_true(fabs(share - 0.1) <= (0.9 + 0.05) / (2000 * 0.05) + 1e-9);
    }
}

static void restored_state_goes_on_alike(void **state) {
    for (int64_t stop = 0; stop < OC_ROWS; stop += 331) {
        cst_aci aci;
        cst_aci kept = {0};
        assert_int_equal(cst_aci_start(*state, OC_ALPHA, OC_STEP, &aci), CST_OK);
        for (int64_t i = 0; i < stop; i++)
            follow(&aci, i, false);
        kept.alpha = aci.alpha;
        kept.step = aci.step;
        kept.level = aci.level;
        kept.rows = aci.rows;
        kept.missed = aci.missed;
        kept.count = aci.count;
        kept.next = aci.next;
        memcpy(kept.scores, aci.scores, (size_t)aci.count * sizeof *kept.scores);
        assert_true(cst_aci_restore(&kept));
        for (int64_t i = stop; i < OC_ROWS; i++)
            follow(&kept, i, true);
    }
}

static void bad_input_is_refused(void **state) {
    static const double bad[][2] = {{0, 0.1}, {1, 0.1}, {NAN, 0.1}, {0.1, 0}, {0.1, 2}, {0.1, NAN}};
    cst_aci aci;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(cst_aci_start(*state, bad[i][0], bad[i][1], &aci), CST_ERROR_ARGUMENT);
    for (int damage = 0; damage < 8; damage++) {
        assert_int_equal(cst_aci_start(*state, 0.1, 0.05, &aci), CST_OK);
        for (int i = 0; i < 20; i++)
            cst_aci_update(&aci, true, i);
        assert_true(cst_aci_restore(&aci));
        aci.alpha = damage == 0 ? 2 : aci.alpha;
        aci.level = damage == 1 ? NAN : damage == 2 ? 40 : aci.level;
        aci.count = damage == 3 ? CST_ACI_WINDOW + 1 : damage == 4 ? -1 : aci.count;
        aci.next = damage == 5 ? 3 : aci.next;
        aci.missed = damage == 6 ? 21 : aci.missed;
        aci.scores[3] = damage == 7 ? NAN : aci.scores[3];
        assert_false(cst_aci_restore(&aci));
    }
}

/* Scores that are no numbers move the level, but leave the window alone. */
static void missing_scores(void **state) {
    cst_aci aci;
    assert_int_equal(cst_aci_start(*state, 0.1, 0.05, &aci), CST_OK);
    assert_true(isinf(cst_aci_threshold(&aci)) && cst_aci_threshold(&aci) > 0);
    cst_aci_update(&aci, false, NAN);
    cst_aci_update(&aci, true, INFINITY);
    assert_int_equal(aci.count, 0);
    assert_int_equal(aci.rows, 2);
    assert_close(aci.level, 0.1 - 0.05 * 0.9 + 0.05 * 0.1, 1e-15);
}

int suite_online_conformal(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream_agrees_with_numpy),
        cmocka_unit_test(misses_come_to_alpha),
        cmocka_unit_test(restored_state_goes_on_alike),
        cmocka_unit_test(bad_input_is_refused),
        cmocka_unit_test(missing_scores),
    };
    return cmocka_run_group_tests(tests, context_setup, context_teardown);
}
