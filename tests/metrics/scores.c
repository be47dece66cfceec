/*
 * Scores: against scikit-learn, SciPy and NumPy, by hand at the edges, and with 1 to 4 threads.
 */
#include "separation.h"
#include "stats/samples.h"

#include <corestack/metrics.h>

#include "data/metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"

static void assert_near(double got, double expected) {
    assert_close(got, expected, 1e-9 * fabs(expected) + 1e-12);
}

static void assert_scores(const cst_metrics *m, const double *expected) {
    assert_near(m->top1, expected[0]);
    assert_near(m->nll, expected[1]);
    assert_near(m->brier, expected[2]);
    assert_near(m->ece, expected[3]);
    assert_near(m->ece_mass, expected[4]);
    assert_near(m->ece_classwise, expected[5]);
    assert_near(m->ece_debiased, expected[6]);
    assert_near(m->corp, expected[7]);
}

static void scores_agree_with_the_oracle(void **state) {
    cst_context *context = *state;
    cst_metrics m;
    assert_int_equal(cst_metrics_evaluate(context, smooth_probabilities, smooth_rows,
                                          smooth_classes, smooth_labels, 0, &m),
                     CST_OK);
    assert_int_equal(m.bins, 15);
    assert_int_equal(m.samples, smooth_rows);
    assert_scores(&m, smooth_scores);
    assert_int_equal(cst_metrics_evaluate(context, coarse_probabilities, coarse_rows,
                                          coarse_classes, coarse_labels, 15, &m),
                     CST_OK);
    assert_scores(&m, coarse_scores);
}

static void assert_bins(const cst_reliability_bin *bins, const double *expected) {
    double lower = 0;
    for (int32_t b = 0; b < CST_METRIC_BINS; b++) {
        assert_near((double)bins[b].count, expected[4 * b]);
        assert_near(bins[b].lower, lower);
        assert_near(bins[b].upper, expected[4 * b + 3]);
        lower = bins[b].upper;
        if (bins[b].count > 0) {
            assert_near(bins[b].confidence, expected[4 * b + 1]);
            assert_near(bins[b].accuracy, expected[4 * b + 2]);
        } else {
            assert_true(isnan(bins[b].confidence) && isnan(bins[b].accuracy));
        }
    }
}

static void reliability_agrees_with_the_oracle(void **state) {
    cst_context *context = *state;
    cst_reliability_bin bins[CST_METRIC_BINS];
    for (int threads = 1; threads <= 4; threads += 3) {
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        assert_int_equal(cst_metrics_reliability(context, smooth_probabilities, smooth_rows,
                                                 smooth_classes, smooth_labels, 0, bins),
                         CST_OK);
        assert_bins(bins, smooth_reliability);
        assert_int_equal(cst_metrics_reliability(context, coarse_probabilities, coarse_rows,
                                                 coarse_classes, coarse_labels, 15, bins),
                         CST_OK);
        assert_bins(bins, coarse_reliability);
    }
}

/* The ECE is the mean gap of the bins, whatever their number. */
static void reliability_sums_to_the_ece(void **state) {
    cst_context *context = *state;
    const int counts[] = {1, 2, 7, 15, 100};
    cst_reliability_bin bins[100];
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        cst_metrics m;
        assert_int_equal(cst_metrics_evaluate(context, smooth_probabilities, smooth_rows,
                                              smooth_classes, smooth_labels, counts[i], &m),
                         CST_OK);
        assert_int_equal(cst_metrics_reliability(context, smooth_probabilities, smooth_rows,
                                                 smooth_classes, smooth_labels, counts[i], bins),
                         CST_OK);
        double sum = 0;
        for (int b = 0; b < counts[i]; b++)
            if (bins[b].count > 0)
                sum += (double)bins[b].count * fabs(bins[b].accuracy - bins[b].confidence);
        assert_near(sum / smooth_rows, m.ece);
    }
}

static void edges_belong_to_the_bin_above(void **state) {
    (void)state;
    for (int32_t bins = 1; bins <= 100; bins++) {
        for (int32_t b = 0; b < bins; b++) {
            double edge = (double)b / bins;
            assert_int_equal(cst_bin_of(edge, bins), b);
            assert_int_equal(cst_bin_of(nextafter(edge, 2), bins), b);
            if (b > 0)
                assert_int_equal(cst_bin_of(nextafter(edge, 0), bins), b - 1);
        }
        assert_int_equal(cst_bin_of(1.0, bins), bins - 1);
        assert_int_equal(cst_bin_of(1.0000001, bins), bins - 1);
        assert_int_equal(cst_bin_of(-1e-7, bins), 0);
    }
}

/* Two bins. Confidences 1 (right), 0.5 (wrong: of two equal classes the first counts), 0.75
 * (right): all in [0.5, 1], accuracy 2/3, mean confidence 0.75. */
static void values_by_hand(void **state) {
    cst_context *context = *state;
    const float p[] = {0, 1, 0, 0.5F, 0.5F, 0, 0.25F, 0, 0.75F};
    const int32_t labels[] = {1, 1, 2};
    cst_metrics m;
    assert_int_equal(cst_metrics_evaluate(context, p, 3, 3, labels, 2, &m), CST_OK);
    assert_near(m.top1, 2.0 / 3);
    assert_near(m.nll, (log(2) - log(0.75)) / 3);
    assert_near(m.brier, (0 + 0.5 + 0.125) / 3);
    assert_near(m.ece, 0.75 - 2.0 / 3);
    /* equal mass: the first bin ends with rank ceil(3/2) = 2: {0.5, 0.75} against 1 hit, {1} */
    assert_near(m.ece_mass, 2.0 / 3 * (0.625 - 0.5));
    /* class 0: bins {0, 0.25} and {0.5}; class 1: {0} and {1, 0.5}; class 2: {0, 0} and {0.75} */
    assert_near(m.ece_classwise, (0.25 + 0.5 + 0.5 + 0.25) / 9);
    /* isotonic: 0.5 -> 0, the others -> 1: recalibrated Brier 0, own (0.25 + 0.0625) / 3 */
    assert_near(m.corp, 0.3125 / 3);
}

static void one_certain_sample(void **state) {
    cst_context *context = *state;
    const float p[] = {1, 0};
    const int32_t right = 0;
    const int32_t wrong = 1;
    cst_metrics m;
    assert_int_equal(cst_metrics_evaluate(context, p, 1, 2, &right, 15, &m), CST_OK);
    assert_true(m.top1 == 1 && m.nll == 0 && m.brier == 0 && m.ece == 0 && m.corp == 0);
    assert_int_equal(cst_metrics_evaluate(context, p, 1, 2, &wrong, 15, &m), CST_OK);
    assert_true(m.top1 == 0 && m.brier == 2 && m.ece == 1 && m.ece_mass == 1);
    assert_near(m.nll, -log(1e-15));
    assert_near(m.corp, 1);
}

/* Isotonic confidences with the observed rates at every level are calibrated by definition. */
static void calibrated_levels_have_no_miscalibration(void **state) {
    cst_context *context = *state;
    float p[8];
    const int32_t labels[] = {0, 0, 0, 1};
    for (int i = 0; i < 4; i++) {
        p[2 * i] = 0.75F;
        p[2 * i + 1] = 0.25F;
    }
    cst_metrics m;
    assert_int_equal(cst_metrics_evaluate(context, p, 4, 2, labels, 15, &m), CST_OK);
    assert_true(m.ece == 0 && m.ece_mass == 0 && m.ece_classwise == 0 && m.corp == 0);
}

/* Two classes of which the first is predicted with probability p; `right` says whether it is the
 * label. Expected values by hand. */
typedef struct edge_case {
    const char *name;
    int rows;
    int bins;
    float p[4];
    int right[4];
    double ece;
    double ece_mass;
    double ece_classwise;
    double ece_debiased;
    double corp;
} edge_case;

static const edge_case edges[] = {
    /* All in the last bin, accuracy 3/4. Folded normal of mean 1/4 and variance 3/64: 0.2766...
     * instead of 1/4. Recalibrated: 3/4 (1 - 3/4) instead of 1/4. */
    {"certain", 4, 5, {1, 1, 1, 1}, {1, 1, 0, 1}, 0.25, 0.25, 0.25, 0.2233619643153865, 0.0625},
    /* Bins 5 and 9 of 10 hold one sample each, whose accuracy is exact: no bias. Falling outcomes
     * are pooled at 1/2. */
    {"empty bins", 2, 10, {0.5625F, 0.9375F}, {1, 0}, 0.6875, 0.6875, 0.6875, 0.6875, 0.28515625},
    /* Rank 2 of 4 has the confidence of rank 3: the first bin of equal mass takes both. Equal
     * width: one bin, gap 1/4, standard deviation 1/4. */
    {"tie at the boundary",
     4,
     2,
     {0.75F, 0.875F, 0.625F, 0.75F},
     {1, 1, 0, 0},
     0.25,
     0.3125,
     0.25,
     0.20834226470615685,
     0.1328125},
    {"one right", 1, 15, {0.75F}, {1}, 0.25, 0.25, 0.25, 0.25, 0.0625},
    {"one wrong", 1, 15, {0.75F}, {0}, 0.75, 0.75, 0.75, 0.75, 0.5625},
    /* Gaps of one sign add up alike in any bins; accuracies of 0 and 1 have no variance. */
    {"all right",
     4,
     4,
     {0.5625F, 0.75F, 0.875F, 0.875F},
     {1, 1, 1, 1},
     0.234375,
     0.234375,
     0.234375,
     0.234375,
     0.0712890625},
    {"all wrong",
     4,
     4,
     {0.5625F, 0.75F, 0.875F, 0.875F},
     {0, 0, 0, 0},
     0.765625,
     0.765625,
     0.765625,
     0.765625,
     0.6025390625},
};

static void edges_by_hand(void **state) {
    cst_context *context = *state;
    for (size_t e = 0; e < sizeof edges / sizeof edges[0]; e++) {
        const edge_case *edge = &edges[e];
        for (int turned = 0; turned < edge->rows; turned++) { /* the order of rows is nothing */
            float p[8];
            int32_t labels[4];
            cst_metrics m;
            for (int i = 0; i < edge->rows; i++) {
                int from = (i + turned) % edge->rows;
                p[2 * i] = edge->p[from];
                p[2 * i + 1] = 1 - edge->p[from];
                labels[i] = !edge->right[from];
            }
            assert_int_equal(
                cst_metrics_evaluate(context, p, edge->rows, 2, labels, edge->bins, &m), CST_OK);
            assert_near(m.ece, edge->ece);
            assert_near(m.ece_mass, edge->ece_mass);
            assert_near(m.ece_classwise, edge->ece_classwise);
            assert_near(m.ece_debiased, edge->ece_debiased);
            assert_near(m.corp, edge->corp);
        }
    }
}

static void ood_scores_by_oracle_and_hand(void **state) {
    cst_context *context = *state;
    double got[smooth_rows];
    assert_int_equal(cst_ood_scores(context, smooth_probabilities, smooth_rows, smooth_classes,
                                    CST_OOD_PREDICTIVE_ENTROPY, got),
                     CST_OK);
    for (int i = 0; i < smooth_rows; i++)
        assert_near(got[i], smooth_entropy[i]);
    assert_int_equal(cst_ood_scores(context, coarse_probabilities, coarse_rows, coarse_classes,
                                    CST_OOD_PREDICTIVE_ENTROPY, got),
                     CST_OK);
    for (int i = 0; i < coarse_rows; i++)
        assert_near(got[i], coarse_entropy[i]);
    const float p[] = {0.25F, 0.25F, 0.5F, 0, 1, 0};
    assert_int_equal(cst_ood_scores(context, p, 2, 3, CST_OOD_MAX_PROBABILITY, got), CST_OK);
    assert_true(got[0] == -0.5 && got[1] == -1);
    assert_int_equal(cst_ood_scores(context, p, 2, 3, CST_OOD_PREDICTIVE_ENTROPY, got), CST_OK);
    assert_near(got[0], 1.5 * log(2));
    assert_true(got[1] == 0);
    const float bad[] = {0.5F, 0.5F, NAN, 1};
    assert_int_equal(cst_ood_scores(context, bad, 2, 2, CST_OOD_MAX_PROBABILITY, got),
                     CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "row 1, class 0"));
}

static void assert_separation(cst_context *context, const double *in, int64_t ins,
                              const double *out, int64_t outs, const double *expected) {
    cst_ood_metrics got;
    assert_int_equal(separation_of(context, in, ins, out, outs, &got), CST_OK);
    assert_true(got.in_samples == ins && got.out_samples == outs);
    assert_near(got.auroc_out_positive, expected[0]);
    assert_near(got.aupr_out_positive, expected[1]);
    assert_near(got.fpr95_out_positive, expected[2]);
}

static void separation_agrees_with_scikit_learn(void **state) {
    cst_context *context = *state;
    assert_separation(context, apart_inside, apart_inside_rows, apart_outside, apart_outside_rows,
                      apart_separation);
    assert_separation(context, tied_inside, tied_inside_rows, tied_outside, tied_outside_rows,
                      tied_separation);
    assert_separation(context, reversed_inside, reversed_inside_rows, reversed_outside,
                      reversed_outside_rows, reversed_separation);
}

static void separation_by_hand(void **state) {
    cst_context *context = *state;
    const double low[] = {1, 2, 3};
    const double high[] = {4, 5};
    const double same[] = {7, 7, 7};
    assert_separation(context, low, 3, high, 2, (const double[]){1, 1, 0});
    /* All in-samples first: precision 1/3 when the out-sample comes. */
    assert_separation(context, high, 2, low, 1, (const double[]){0, 1.0 / 3, 1});
    assert_separation(context, same, 3, same, 2, (const double[]){0.5, 0.4, 1});
    /* In {1, 2}, out {2, 3}: of four pairs one is equal. Precisions 1 and 2/3. */
    assert_separation(context, low, 2, low + 1, 2,
                      (const double[]){3.5 / 4, (1 + 2.0 / 3) / 2, 0.5});
    cst_ood_metrics got;
    const double bad[] = {1, INFINITY};
    assert_int_equal(separation_of(context, low, 3, bad, 2, &got), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "score 1 of the samples out of"));
}

static void bad_input_is_named(void **state) {
    cst_context *context = *state;
    cst_metrics m;
    int32_t labels[] = {0, 1};
    float p[] = {0.5F, 0.5F, 2.5F, -1.5F};
    assert_int_equal(cst_metrics_evaluate(context, p, 2, 2, labels, 0, &m), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "row 1, class 0 is 2.5"));
    assert_non_null(strstr(cst_last_error(context), "logits"));
    p[2] = 0.5F;
    p[3] = NAN;
    assert_int_equal(cst_metrics_evaluate(context, p, 2, 2, labels, 0, &m), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "finite"));
    p[3] = 0.25F;
    assert_int_equal(cst_metrics_evaluate(context, p, 2, 2, labels, 0, &m), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "sums to 0.75"));
    p[3] = 0.5F;
    labels[1] = 2;
    assert_int_equal(cst_metrics_evaluate(context, p, 2, 2, labels, 0, &m), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "label of row 1 is 2"));
    labels[1] = 1;
    assert_int_equal(cst_metrics_evaluate(context, p, 2, 2, labels, -1, &m), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_metrics_evaluate(context, p, 0, 2, labels, 15, &m), CST_ERROR_ARGUMENT);
}

static void threads_do_not_change_a_byte(void **state) {
    cst_context *context = *state;
    enum { COPIES = 7, ROWS = smooth_rows * COPIES };
    float *p = malloc(sizeof smooth_probabilities * COPIES);
    int32_t labels[ROWS];
    assert_non_null(p);
    for (int i = 0; i < COPIES; i++) {
        memcpy((char *)p + sizeof smooth_probabilities * (size_t)i, smooth_probabilities,
               sizeof smooth_probabilities);
        memcpy(labels + i * smooth_rows, smooth_labels, sizeof smooth_labels);
    }
    cst_metrics first;
    double risk = 0;
    const float *members[] = {p, p};
    cst_view view = {.rows = ROWS, .classes = 4, .members = 2, .data = members, .labels = labels};
    for (int threads = 1; threads <= 4; threads++) {
        cst_metrics m;
        double again[2];
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        assert_int_equal(cst_metrics_evaluate(context, p, ROWS, 4, labels, 15, &m), CST_OK);
        assert_int_equal(cst_risk_all(context, &view, again), CST_OK);
        if (threads == 1) {
            first = m;
            risk = again[0];
        }
        assert_memory_equal(&first, &m, offsetof(cst_metrics, bins));
        assert_memory_equal(&risk, &again[1], sizeof risk);
    }
    assert_near(first.nll, smooth_scores[1]);
    assert_near(risk, smooth_scores[1]);
    free(p);
}

static void risk_reads_the_rows_of_the_view(void **state) {
    cst_context *context = *state;
    const float good[] = {0.5F, 0.5F, 1, 0, 0.25F, 0.75F};
    const float bad[] = {0.5F, 0.5F, 0, 1, 1, 0};
    const float *members[] = {bad, good};
    const int32_t labels[] = {0, 0, 1};
    const int64_t index[] = {1, 2};
    cst_view view = {
        .rows = 2, .classes = 2, .members = 2, .data = members, .labels = labels, .index = index};
    double risk[2];
    assert_int_equal(cst_risk_all(context, &view, risk), CST_OK);
    assert_near(risk[0], -log(1e-15));
    assert_near(risk[1], -log(0.75) / 2);
    assert_int_equal(cst_risk_top1_all(context, &view, risk), CST_OK);
    assert_true(risk[0] == 0 && risk[1] == 1);
    view.labels = NULL;
    assert_int_equal(cst_risk_all(context, &view, risk), CST_ERROR_INPUT);
}

static void every_score_has_a_definition(void **state) {
    (void)state;
    const char *names[] = {"top1",
                           "nll",
                           "brier",
                           "ece",
                           "ece_mass",
                           "ece_classwise",
                           "ece_debiased",
                           "corp",
                           "accuracy_head",
                           "accuracy_mid",
                           "accuracy_tail",
                           "auroc_out_positive",
                           "aupr_out_positive",
                           "fpr95_out_positive",
                           "max_probability",
                           "predictive_entropy"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_non_null(cst_metric_definition(names[i]));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(cst_metric_definition(names[i]),
                                    cst_metric_definition(names[j]));
    }
    assert_null(cst_metric_definition("f7"));
    assert_null(cst_metric_definition(NULL));
}

static void null_is_refused(void **state) {
    cst_context *context = *state;
    cst_metrics metrics;
    int32_t label = 0;
    float p[2] = {0.5F, 0.5F};
    assert_int_equal(cst_metrics_evaluate(NULL, p, 1, 2, &label, 0, &metrics), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_metrics_evaluate(context, p, 1, 2, &label, 0, NULL), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_metrics_evaluate(context, NULL, 1, 2, &label, 0, &metrics),
                     CST_ERROR_ARGUMENT);
    cst_reliability_bin bins[CST_METRIC_BINS];
    assert_int_equal(cst_metrics_reliability(NULL, p, 1, 2, &label, 0, bins), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_metrics_reliability(context, p, 1, 2, &label, 0, NULL),
                     CST_ERROR_ARGUMENT);
    assert_int_equal(cst_metrics_reliability(context, NULL, 1, 2, &label, 0, bins),
                     CST_ERROR_ARGUMENT);
    assert_int_equal(cst_metrics_reliability(context, p, 1, 2, &label, -1, bins),
                     CST_ERROR_ARGUMENT);
    label = 2;
    assert_int_equal(cst_metrics_reliability(context, p, 1, 2, &label, 0, bins), CST_ERROR_INPUT);
}

int suite_scores(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(null_is_refused, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(scores_agree_with_the_oracle, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(reliability_agrees_with_the_oracle, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(reliability_sums_to_the_ece, context_setup,
                                        context_teardown),
        cmocka_unit_test(edges_belong_to_the_bin_above),
        cmocka_unit_test_setup_teardown(values_by_hand, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(one_certain_sample, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(calibrated_levels_have_no_miscalibration, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(edges_by_hand, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(ood_scores_by_oracle_and_hand, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(separation_agrees_with_scikit_learn, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(separation_by_hand, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(bad_input_is_named, context_setup, context_teardown),
        cmocka_unit_test_setup_teardown(threads_do_not_change_a_byte, context_setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(risk_reads_the_rows_of_the_view, context_setup,
                                        context_teardown),
        cmocka_unit_test(every_score_has_a_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
