/*
 * Scores of probabilities against labels, their bootstrap intervals, and paired differences of two
 * methods. Every score's definition is at hand as text. method.md section 8.
 */
#ifndef CORESTACK_METRICS_H
#define CORESTACK_METRICS_H

#include <corestack/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Equal-width bins where 0 is given for `bins`. */
#define CST_METRIC_BINS 15

/* cst_metric_definition has each in words. */
typedef struct cst_metrics {
    int64_t samples;
    double top1;          /* fraction in [0, 1]; of equal probabilities the lowest class counts */
    double nll;           /* mean, nats; a true-class probability below 1e-15 counts as 1e-15 */
    double brier;         /* multiclass sum form, in [0, 2]: mean of sum_c (p_c - y_c)^2 */
    double ece;           /* top label, equal-width bins [lo, hi), the last one closed */
    double ece_mass;      /* top label, bins of equal counts */
    double ece_classwise; /* mean over classes of the ECE of each class's probability */
    double ece_debiased;  /* `ece` less the bias it has from finite bins */
    double corp;          /* miscalibration part of the top label's Brier score, bin-free */
    int bins;
} cst_metrics;

/* A 95% percentile interval around the value on all samples. */
typedef struct cst_interval {
    double value;
    double low;
    double high;
} cst_interval;

/* An interval for each score of cst_metrics. */
typedef struct cst_metric_intervals {
    int32_t resamples;
    cst_interval top1;
    cst_interval nll;
    cst_interval brier;
    cst_interval ece;
    /* All NaN where only CST_BOOTSTRAP_BASIC was asked for. */
    cst_interval ece_mass;
    cst_interval ece_classwise;
    cst_interval ece_debiased;
    cst_interval corp;
} cst_metric_intervals;

/* Which scores a bootstrap computes. ALL takes several times as long as BASIC; its ece_classwise
 * also grows with the number of classes. */
typedef enum cst_bootstrap_scores {
    CST_BOOTSTRAP_BASIC = 0, /* top1, nll, brier, ece */
    CST_BOOTSTRAP_ALL = 1    /* every field */
} cst_bootstrap_scores;

/* One sentence for the name of a score, that is of a field of cst_metrics, cst_group_accuracy,
 * cst_ood_metrics ("ece") or cst_value_metrics ("rmse"; its nll is "nll_gaussian"), or of an
 * out-of-distribution score ("max_probability", "predictive_entropy"); NULL for any other name. */
CST_API const char *cst_metric_definition(const char *name);

/* Scores probabilities [rows][classes] against labels [rows] in 0..classes-1. bins: 1 to 10000, or
 * 0 for CST_METRIC_BINS. CST_ERROR_INPUT, with the row, for a label out of range or a row that is
 * not a distribution (an entry that is not finite or outside [0, 1], or a sum other than 1, by more
 * than 1e-3). */
CST_API cst_status cst_metrics_evaluate(cst_context *context, const float *probabilities,
                                        int64_t rows, int32_t classes, const int32_t *labels,
                                        int bins, cst_metrics *out);

/* What the scores are sums of, one number a sample: each of nll, brier, confidence (the largest
 * probability) and correct (0 or 1) is [rows] or NULL. Checks its input as cst_metrics_evaluate. */
CST_API cst_status cst_metrics_per_sample(cst_context *context, const float *probabilities,
                                          int64_t rows, int32_t classes, const int32_t *labels,
                                          double *nll, double *brier, double *confidence,
                                          unsigned char *correct);

/* A bin of a reliability diagram: the samples whose confidence, the largest probability, lies in
 * [lower, upper), the last bin closed. Without samples, confidence and accuracy are NaN. */
typedef struct cst_reliability_bin {
    double lower;
    double upper;
    double confidence; /* mean */
    double accuracy;   /* fraction whose largest probability is the label's */
    int64_t count;
} cst_reliability_bin;

/* The bins that `ece` of cst_metrics is made of. out: [bins], or [CST_METRIC_BINS] where bins is 0.
 * Checks its input as cst_metrics_evaluate. */
CST_API cst_status cst_metrics_reliability(cst_context *context, const float *probabilities,
                                           int64_t rows, int32_t classes, const int32_t *labels,
                                           int bins, cst_reliability_bin *out);

/* ---- accuracy by training count ---- */

/* The usual limits of long-tailed data: head classes have more training samples than the first,
 * tail classes fewer than the second, mid classes are the others. */
#define CST_HEAD_ABOVE 100
#define CST_TAIL_BELOW 20

/* Top-1, as in cst_metrics, of the samples whose label is a head, mid or tail class; NaN for a
 * group without samples. */
typedef struct cst_group_accuracy {
    int64_t head_samples;
    int64_t mid_samples;
    int64_t tail_samples;
    double accuracy_head;
    double accuracy_mid;
    double accuracy_tail;
} cst_group_accuracy;

/* training_counts: [classes], training samples of each class, at least 0. head_above, tail_below:
 * as CST_HEAD_ABOVE and CST_TAIL_BELOW; CST_ERROR_ARGUMENT where a class could be in both. Input
 * is checked as by cst_metrics_evaluate. */
CST_API cst_status cst_group_accuracy_evaluate(cst_context *context, const float *probabilities,
                                               int64_t rows, int32_t classes, const int32_t *labels,
                                               const int64_t *training_counts, int64_t head_above,
                                               int64_t tail_below, cst_group_accuracy *out);

/* ---- out of distribution ---- */

/* Scores that are higher the more a sample looks out of distribution. */
typedef enum cst_ood_score {
    CST_OOD_MAX_PROBABILITY = 0,   /* minus the largest probability */
    CST_OOD_PREDICTIVE_ENTROPY = 1 /* -sum p log p, nats */
} cst_ood_score;

/* out: [rows]. CST_ERROR_INPUT for a row that is not a distribution, as in cst_metrics_evaluate. */
CST_API cst_status cst_ood_scores(cst_context *context, const float *probabilities, int64_t rows,
                                  int32_t classes, cst_ood_score score, double *out);

/* How well a score separates. Higher scores stand for out of distribution. The area under the ROC
 * curve is the same whichever of the two is called positive; the others say in their name which
 * is. */
typedef struct cst_ood_metrics {
    int64_t in_samples;
    int64_t out_samples;
    double auroc_out_positive; /* in [0, 1], 0.5 by chance; equal scores count one half */
    double aupr_out_positive;  /* average precision; by chance the share of out-samples */
    double fpr95_out_positive; /* share of in-samples taken for out where 95% of those are found */
    double aupr_in_positive;   /* average precision; by chance the share of in-samples */
    double fpr95_in_positive;  /* share of out-samples taken for in where 95% of those are accepted:
                                  the other usual convention */
    double detection_error;    /* least mean of the two error rates over all thresholds */
} cst_ood_metrics;

/* in_scores [in_samples] of samples in distribution, out_scores [out_samples] of others, each at
 * least one. CST_ERROR_INPUT for a score that is not finite. */
CST_API cst_status cst_ood_evaluate(cst_context *context, const double *in_scores,
                                    int64_t in_samples, const double *out_scores,
                                    int64_t out_samples, cst_ood_metrics *out);

/* ---- bootstrap ---- */

/* 95% intervals of the basic scores from `resamples` (1 to 10,000,000; 5000 is usual) bootstrap
 * resamples of the samples: percentiles 2.5 and 97.5, linear between order statistics. Resample r
 * of a seed draws the same samples whatever the method, the scores, the thread count or the number
 * of resamples. The score of a resample is what cst_metrics_evaluate gives for its rows. */
CST_API cst_status cst_bootstrap_metrics(cst_context *context, const float *probabilities,
                                         int64_t rows, int32_t classes, const int32_t *labels,
                                         int bins, int32_t resamples, uint64_t seed,
                                         cst_metric_intervals *out);

/* The same for several methods on the same samples at the cost of drawing once. probabilities:
 * [methods] pointers; out: [methods]. */
CST_API cst_status cst_bootstrap_methods(cst_context *context, const float *const *probabilities,
                                         int32_t methods, int64_t rows, int32_t classes,
                                         const int32_t *labels, int bins, int32_t resamples,
                                         uint64_t seed, cst_metric_intervals *out);

/* Intervals of the paired differences, score of `a` minus score of `b` on the same resamples. */
CST_API cst_status cst_bootstrap_difference(cst_context *context, const float *a, const float *b,
                                            int64_t rows, int32_t classes, const int32_t *labels,
                                            int bins, int32_t resamples, uint64_t seed,
                                            cst_metric_intervals *out);

/* Intervals of every method, and of every method's paired difference, its score minus that of
 * method `reference`, in one pass. intervals, differences: [methods], either of them NULL if not
 * wanted (without differences `reference` is not read). The reference differs from itself by 0. */
CST_API cst_status cst_bootstrap_compare(cst_context *context, const float *const *probabilities,
                                         int32_t methods, int64_t rows, int32_t classes,
                                         const int32_t *labels, int bins, int32_t resamples,
                                         uint64_t seed, cst_bootstrap_scores scores,
                                         int32_t reference, cst_metric_intervals *intervals,
                                         cst_metric_intervals *differences);

#ifdef __cplusplus
}
#endif
#endif
