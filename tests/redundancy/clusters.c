/*
 * Pearson correlation and condition number against NumPy; clusters, thresholds and the projection
 * on matrices small enough to reason about.
 */
#include "method/redundancy/redundancy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"
#include "data/redundancy.h"

/* ---- Pearson and kappa ---- */

static void pearson_equals_numpy(void **state) {
    cst_context *context = *state;
    size_t width = (size_t)REF_ROWS * REF_CLASSES;
    float *rows = calloc(width * (REF_MEMBERS + 1), sizeof *rows);
    assert_non_null(rows);
    const float *data[REF_MEMBERS + 1];
    for (size_t k = 0; k <= REF_MEMBERS; k++) {
        data[k] = rows + k * width;
        for (size_t i = 0; i < width; i++)
            rows[k * width + i] =
                k < REF_MEMBERS ? (float)ref_predictions[k * width + i] / 4096 : 0.1F;
    }
    cst_view view = {
        .rows = REF_ROWS, .classes = REF_CLASSES, .members = REF_MEMBERS, .data = data};
    double first[REF_MEMBERS * REF_MEMBERS];
    for (int threads = 1; threads <= 4; threads *= 2) {
        double got[REF_MEMBERS * REF_MEMBERS];
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        assert_int_equal(cst_pearson(context, &view, got), CST_OK);
        for (size_t i = 0; i < sizeof got / sizeof *got; i++)
            assert_true(fabs(got[i] - ref_pearson[i]) <= 1e-6 * fabs(ref_pearson[i]));
        if (threads == 1)
            memcpy(first, got, sizeof got);
        assert_memory_equal(first, got, sizeof got);
    }
    double kappa = 0;
    assert_int_equal(cst_gram_kappa(context, first, REF_MEMBERS, NULL, 0, &kappa), CST_OK);
    assert_true(fabs(kappa - ref_kappa[0]) < 1e-6 * ref_kappa[0]);
    const int32_t subset[] = {0, 2, 3};
    assert_int_equal(cst_gram_kappa(context, first, REF_MEMBERS, subset, 3, &kappa), CST_OK);
    assert_true(fabs(kappa - ref_kappa[1]) < 1e-6 * ref_kappa[1]);
    /* A flat column (0.1 everywhere, which no sum of floats hits exactly) has no correlation. */
    view.members = REF_MEMBERS + 1;
    double with_flat[(REF_MEMBERS + 1) * (REF_MEMBERS + 1)];
    assert_int_equal(cst_pearson(context, &view, with_flat), CST_OK);
    for (size_t k = 0; k < REF_MEMBERS; k++)
        assert_true(with_flat[k * (REF_MEMBERS + 1) + REF_MEMBERS] == 0);
    assert_true(with_flat[(REF_MEMBERS + 1) * (REF_MEMBERS + 1) - 1] == 1);
    free(rows);
}

enum { WIDE_MEMBERS = 150, WIDE_ROWS = 600 };

/* More members than the products of one call of BLAS cover, against sums in the plain way. */
static void pearson_of_many_members(void **state) {
    cst_context *context = *state;
    float *rows = calloc((size_t)WIDE_MEMBERS * WIDE_ROWS, sizeof *rows);
    double *got = calloc((size_t)WIDE_MEMBERS * WIDE_MEMBERS, sizeof *got);
    double *mean = calloc(WIDE_MEMBERS, sizeof *mean);
    const float *data[WIDE_MEMBERS];
    assert_true(rows && got && mean);
    cst_rng rng;
    cst_rng_init(&rng, 1, CST_STREAM_TEST, 0);
    for (size_t k = 0; k < WIDE_MEMBERS; k++) {
        data[k] = rows + k * WIDE_ROWS;
        for (size_t i = 0; i < WIDE_ROWS; i++) {
            rows[k * WIDE_ROWS + i] = (float)cst_rng_normal(&rng) + rows[k / 2 * WIDE_ROWS + i];
            mean[k] += (double)rows[k * WIDE_ROWS + i] / WIDE_ROWS;
        }
    }
    cst_view view = {.rows = WIDE_ROWS, .classes = 1, .members = WIDE_MEMBERS, .data = data};
    assert_int_equal(cst_pearson(context, &view, got), CST_OK);
    for (size_t a = 0; a < WIDE_MEMBERS; a++)
        for (size_t b = 0; b < WIDE_MEMBERS; b++) {
            double aa = 0;
            double ab = 0;
            double bb = 0;
            for (size_t i = 0; i < WIDE_ROWS; i++) {
                double x = (double)data[a][i] - mean[a];
                double y = (double)data[b][i] - mean[b];
                aa += x * x;
                ab += x * y;
                bb += y * y;
            }
            assert_true(fabs(got[a * WIDE_MEMBERS + b] - ab / sqrt(aa * bb)) < 1e-12);
        }
    free(rows);
    free(got);
    free(mean);
}

/* Two copies make one eigenvalue zero, which kappa leaves out. */
static void kappa_leaves_out_zero_eigenvalues(void **state) {
    cst_context *context = *state;
    const double copies[] = {1, 1, 0.5, 1, 1, 0.5, 0.5, 0.5, 1};
    double kappa = 0;
    assert_int_equal(cst_gram_kappa(context, copies, 3, NULL, 0, &kappa), CST_OK);
    /* In the space of (x1 + x2)/sqrt(2) and x3: [2, s; s, 1], s = 1/sqrt(2). */
    double root = sqrt(1 + 4 * 0.5);
    assert_true(fabs(kappa - (3 + root) / (3 - root)) < 1e-9);
    const int32_t one[] = {2};
    assert_int_equal(cst_gram_kappa(context, copies, 3, one, 1, &kappa), CST_OK);
    assert_true(kappa == 1);
    assert_int_equal(cst_gram_kappa(context, copies, 3, one, 0, &kappa), CST_OK);
    assert_true(isnan(kappa));
}

/* ---- clusters ---- */

/* 0 - 1 - 2 - 3 - 4: each like its neighbours, the ends unlike. */
static void chains_do_not_become_one_cluster(void **state) {
    cst_context *context = *state;
    double chain[25];
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++)
            chain[5 * i + j] = i == j ? 1 : abs(i - j) == 1 ? 0.9 - 0.01 * (i + j) / 10.0 : 0.1;
    int32_t cluster[5];
    assert_int_equal(cst_clusters(context, chain, 5, 0.8, cluster), CST_OK);
    const int32_t expected[] = {0, 0, 1, 1, 2};
    assert_memory_equal(cluster, expected, sizeof expected);
    assert_int_equal(cst_clusters(context, chain, 5, 0.0, cluster), CST_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(cluster[i], 0);
    assert_int_equal(cst_clusters(context, chain, 5, 1.0, cluster), CST_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(cluster[i], i);
}

/* Interleaved groups {0, 3, 4} and {1, 2}: numbered by first member. A third member joins by the
 * mean of its two similarities. */
static void clusters_by_mean_similarity(void **state) {
    cst_context *context = *state;
    double s[25];
    for (int i = 0; i < 25; i++)
        s[i] = i % 6 == 0 ? 1 : 0.2;
    s[0 * 5 + 3] = s[3 * 5 + 0] = 0.99;
    s[0 * 5 + 4] = s[4 * 5 + 0] = 0.9;
    s[3 * 5 + 4] = s[4 * 5 + 3] = 0.8;
    s[1 * 5 + 2] = s[2 * 5 + 1] = 0.95;
    int32_t cluster[5];
    const int32_t joined[] = {0, 1, 1, 0, 0};
    const int32_t apart[] = {0, 1, 1, 0, 2};
    assert_int_equal(cst_clusters(context, s, 5, 0.849, cluster), CST_OK);
    assert_memory_equal(cluster, joined, sizeof joined);
    assert_int_equal(cst_clusters(context, s, 5, 0.851, cluster), CST_OK);
    assert_memory_equal(cluster, apart, sizeof apart);
}

/* ---- thresholds ---- */

static void elbow_is_the_largest_gap(void **state) {
    cst_context *context = *state;
    double s[] = {1, 0.9, 0.3, 0.9, 1, 0.2, 0.3, 0.2, 1};
    double tau = 0;
    bool found = false;
    assert_int_equal(cst_elbow_threshold(context, s, 3, &tau, &found), CST_OK);
    assert_true(found && fabs(tau - 0.6) < 1e-12);
    double equal[] = {1, 0.5, 0.5, 0.5, 1, 0.5, 0.5, 0.5, 1};
    assert_int_equal(cst_elbow_threshold(context, equal, 3, &tau, &found), CST_OK);
    assert_true(!found && tau == 1);
    assert_int_equal(cst_elbow_threshold(context, s, 2, &tau, &found), CST_OK);
    assert_true(!found && tau == 1);
    /* Two gaps of the same width, exactly: the upper one. */
    double ties[] = {1, 0.25, 0.5, 0.25, 1, 0.75, 0.5, 0.75, 1};
    assert_int_equal(cst_elbow_threshold(context, ties, 3, &tau, &found), CST_OK);
    assert_true(found && tau == 0.625);
    s[1] = s[3] = NAN;
    assert_int_equal(cst_elbow_threshold(context, s, 3, &tau, &found), CST_ERROR_NUMERIC);
}

static void one_standard_error_takes_the_smallest(void **state) {
    cst_context *context = *state;
    /* Means 1.00, 0.52, 0.50, 0.501, NaN; the best one's standard error is 0.1/sqrt(3) * ... */
    const double loss[] = {1.0, 1.0, 1.0, 0.52,  0.52, 0.52, 0.40, 0.50,
                           0.6, 0.5, 0.5, 0.503, NAN,  0.1,  0.1};
    int32_t chosen = 0;
    int32_t best = 0;
    assert_int_equal(cst_threshold_cv(context, loss, 5, 3, &chosen, &best), CST_OK);
    assert_int_equal(best, 2);
    assert_int_equal(chosen, 1);
    /* The standard error is 0.0577: just inside and just outside. */
    double edge[] = {0.557, 0.557, 0.557, 0.40, 0.50, 0.60};
    assert_int_equal(cst_threshold_cv(context, edge, 2, 3, &chosen, &best), CST_OK);
    assert_int_equal(chosen, 0);
    edge[0] = edge[1] = edge[2] = 0.558;
    assert_int_equal(cst_threshold_cv(context, edge, 2, 3, &chosen, &best), CST_OK);
    assert_int_equal(chosen, 1);
    assert_int_equal(cst_threshold_cv(context, loss, 1, 1, &chosen, &best), CST_ERROR_ARGUMENT);
    const double hopeless[] = {NAN, 1, INFINITY, 1};
    assert_int_equal(cst_threshold_cv(context, hopeless, 2, 2, &chosen, &best), CST_ERROR_NUMERIC);
}

static void candidates_give_every_kept_set(void **state) {
    cst_context *context = *state;
    const double s[] = {1, 0.9, 0.3, 0.2, 0.9, 1, 0.4, 0.6, 0.3, 0.4, 1, 0.8, 0.2, 0.6, 0.8, 1};
    const double risk[] = {0.1, 0.2, 0.3, 0.4};
    cst_projection_rule rule = {0};
    double taus[16];
    int32_t count = 0;
    assert_int_equal(cst_threshold_candidates(context, s, 4, risk, &rule, 16, taus, &count),
                     CST_OK);
    /* Every threshold of a fine grid keeps a set that some candidate keeps too. */
    for (int g = 1; g <= 1000; g++) {
        cst_projection at_grid;
        bool matched = false;
        rule.tau = g / 1000.0;
        assert_int_equal(cst_project(context, s, 4, risk, &rule, &at_grid), CST_OK);
        for (int32_t i = 0; i < count; i++) {
            cst_projection at_candidate;
            rule.tau = taus[i];
            assert_int_equal(cst_project(context, s, 4, risk, &rule, &at_candidate), CST_OK);
            matched |= at_grid.kept_count == at_candidate.kept_count &&
                       memcmp(at_grid.kept, at_candidate.kept,
                              (size_t)at_grid.kept_count * sizeof *at_grid.kept) == 0;
            cst_projection_free(context, &at_candidate);
        }
        assert_true(matched);
        cst_projection_free(context, &at_grid);
    }
    for (int32_t i = 1; i < count; i++)
        assert_true(taus[i] > taus[i - 1]);
    double few[2];
    double lowest = taus[0];
    double highest = taus[count - 1];
    assert_true(count > 2);
    assert_int_equal(cst_threshold_candidates(context, s, 4, risk, &rule, 2, few, &count), CST_OK);
    assert_int_equal(count, 2);
    assert_true(few[0] == lowest && few[1] == highest);
    assert_int_equal(cst_threshold_candidates(context, s, 1, risk, &rule, 2, few, &count), CST_OK);
    assert_true(count == 1 && few[0] == 1);
}

/* ---- projection ---- */

static void projection_follows_risk(void **state) {
    cst_context *context = *state;
    /* 0 and 1 alike, 2 like both a little, 3 alone; the risks put 1 before 0. */
    const double s[] = {1, 0.9, 0.7, 0.1, 0.9, 1, 0.6, 0.2, 0.7, 0.6, 1, 0.3, 0.1, 0.2, 0.3, 1};
    const double risk[] = {0.5, 0.1, 0.4, 0.3};
    cst_projection_rule rule = {.tau = 0.85};
    cst_projection p;
    assert_int_equal(cst_project(context, s, 4, risk, &rule, &p), CST_OK);
    const int32_t kept[] = {1, 3, 2};
    assert_int_equal(p.kept_count, 3);
    assert_memory_equal(p.kept, kept, sizeof kept);
    assert_int_equal(p.reason[0], CST_DROPPED_REDUNDANT);
    assert_int_equal(p.partner[0], 1);
    assert_true(p.similarity[0] == 0.9);
    assert_int_equal(p.partner[1], -1);
    assert_true(isnan(p.similarity[1]));
    assert_int_equal(p.partner[2], 1);
    cst_projection_free(context, &p);
    rule.tau = 0.9; /* must exceed */
    assert_int_equal(cst_project(context, s, 4, risk, &rule, &p), CST_OK);
    assert_int_equal(p.kept_count, 4);
    cst_projection_free(context, &p);
    /* Redundant with a member that is itself redundant does not count: 0 is out, so 2 stays. */
    rule.tau = 0.65;
    assert_int_equal(cst_project(context, s, 4, risk, &rule, &p), CST_OK);
    assert_int_equal(p.kept_count, 3);
    assert_int_equal(p.reason[2], CST_KEPT);
    cst_projection_free(context, &p);
}

static void ties_in_risk_still_reduce(void **state) {
    cst_context *context = *state;
    const double twins[] = {1, 1, 0.2, 1, 1, 0.2, 0.2, 0.2, 1};
    const double risk[] = {0.3, 0.3, NAN};
    cst_projection_rule rule = {.tau = 0.995};
    cst_projection p;
    assert_int_equal(cst_project(context, twins, 3, risk, &rule, &p), CST_OK);
    assert_int_equal(p.kept_count, 2);
    assert_int_equal(p.kept[0], 0);
    assert_int_equal(p.kept[1], 2); /* a risk that is not known comes last */
    assert_int_equal(p.reason[1], CST_DROPPED_REDUNDANT);
    assert_int_equal(p.partner[1], 0);
    cst_projection_free(context, &p);
}

/* The letter: both of two identical best members stay; what resembles them and is worse goes, for
 * the most similar of those of lower risk, whatever it costs. */
static void ties_in_risk_stay_to_the_letter(void **state) {
    cst_context *context = *state;
    const double s[] = {1, 1, 0.9, 0.9, 1, 1, 0.9, 0.9, 0.9, 0.9, 1, 1, 0.9, 0.9, 1, 1};
    const double risk[] = {0.3, 0.3, 0.4, 0.4};
    const double cost[] = {4, 3, 2, 1};
    cst_projection_rule rule = {.tau = 0.95, .keep_ties = true, .costs = {{cost}}};
    cst_projection p;
    assert_int_equal(cst_project(context, s, 4, risk, &rule, &p), CST_OK);
    assert_int_equal(p.kept_count, 4); /* 2 and 3 resemble each other, at one risk */
    cst_projection_free(context, &p);
    rule.tau = 0.85;
    assert_int_equal(cst_project(context, s, 4, risk, &rule, &p), CST_OK);
    assert_int_equal(p.kept_count, 2);
    assert_int_equal(p.kept[0], 0);
    assert_int_equal(p.kept[1], 1);
    assert_int_equal(p.reason[3], CST_DROPPED_REDUNDANT);
    assert_int_equal(p.partner[3], 0);
    assert_true(p.similarity[3] == 0.9);
    cst_projection_free(context, &p);
    const double close[] = {0.3, 0.3 + 1e-12, 0.4, NAN}; /* lower is lower; unknown comes last */
    assert_int_equal(cst_project(context, s, 4, close, &rule, &p), CST_OK);
    assert_int_equal(p.kept_count, 1);
    assert_int_equal(p.kept[0], 0); /* the cheaper copy does not take its place */
    cst_projection_free(context, &p);
}

static void caps_and_constant_members(void **state) {
    cst_context *context = *state;
    double s[25];
    for (int i = 0; i < 25; i++)
        s[i] = i % 6 == 0 ? 1 : 0.1;
    const double risk[] = {0.1, 0.2, 0.3, 0.4, 0.5};
    const double cost[] = {5, 4, 1, 0, 2};
    const bool constant[] = {false, false, true, false, false};
    cst_projection_rule rule = {.tau = 0.9, .cap_count = 2};
    cst_projection p;
    assert_int_equal(cst_project(context, s, 5, risk, &rule, &p), CST_OK);
    assert_int_equal(p.kept_count, 2);
    assert_int_equal(p.reason[2], CST_DROPPED_COUNT);
    assert_int_equal(p.reason[4], CST_DROPPED_COUNT);
    cst_projection_free(context, &p);
    rule = (cst_projection_rule){
        .tau = 0.9, .limits = {.most = {7}}, .costs = {{cost}}, .constant = constant};
    assert_int_equal(cst_project(context, s, 5, risk, &rule, &p), CST_OK);
    const int32_t kept[] = {0, 3, 4}; /* 5, not 4 on top, nothing, 2: 7 in all */
    assert_int_equal(p.kept_count, 3);
    assert_memory_equal(p.kept, kept, sizeof kept);
    assert_int_equal(p.reason[1], CST_DROPPED_COST);
    assert_int_equal(p.reason[2], CST_DROPPED_CONSTANT);
    cst_projection_free(context, &p);
    const double dear[] = {5, 4, 1, 9, 9};
    rule.limits.most[0] = 3;
    rule.costs.of[0] = dear;
    assert_int_equal(cst_project(context, s, 5, risk, &rule, &p), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "cheapest has 4; raise the limit"));
    cst_projection_free(context, &p);
    /* Two caps at once; a member that is too dear alone makes no other redundant. */
    const double slow[] = {1, 1, 9, 9, 1};
    rule = (cst_projection_rule){.tau = 0.9, .limits = {.most = {8, 2}}, .costs = {{cost, slow}}};
    assert_int_equal(cst_project(context, s, 5, risk, &rule, &p), CST_OK);
    const int32_t both[] = {0, 4};
    assert_int_equal(p.kept_count, 2);
    assert_memory_equal(p.kept, both, sizeof both);
    cst_projection_free(context, &p);
    rule.limits.most[0] = 0.5;
    assert_int_equal(cst_project(context, s, 5, risk, &rule, &p), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "within all limits"));
    cst_projection_free(context, &p);
    rule = (cst_projection_rule){.tau = 0.05, .limits = {.most = {4}}, .costs = {{cost}}};
    assert_int_equal(cst_project(context, s, 5, risk, &rule, &p), CST_OK);
    assert_int_equal(p.kept_count, 1); /* 0 is too dear, so that 1 stands, and for the others */
    assert_int_equal(p.kept[0], 1);
    assert_int_equal(p.reason[0], CST_DROPPED_COST);
    assert_int_equal(p.reason[4], CST_DROPPED_REDUNDANT);
    cst_projection_free(context, &p);
    const bool all[] = {true, true, true, true, true};
    rule = (cst_projection_rule){.tau = 0.9, .constant = all};
    assert_int_equal(cst_project(context, s, 5, risk, &rule, &p), CST_OK);
    assert_int_equal(p.kept_count, 1);
    assert_int_equal(p.kept[0], 0);
    cst_projection_free(context, &p);
}

int suite_clusters(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pearson_equals_numpy, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(pearson_of_many_members, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(kappa_leaves_out_zero_eigenvalues, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(chains_do_not_become_one_cluster, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(clusters_by_mean_similarity, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(elbow_is_the_largest_gap, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(one_standard_error_takes_the_smallest, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(candidates_give_every_kept_set, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(projection_follows_risk, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(ties_in_risk_still_reduce, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(ties_in_risk_stay_to_the_letter, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(caps_and_constant_members, context_setup, context_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
