/*
 * Scores of probabilities against labels, their bootstrap intervals, and paired differences of two
 * methods. Every score's definition is at hand as text. docs/json.md#evaluate.
 */
#ifndef CORESTACK_METRICS_H
#define CORESTACK_METRICS_H

#include <corestack/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Equal-width bins where 0 is given for `bins`. */
#define CST_METRIC_BINS 15

/* Scores of probabilities; cst_metric_definition defines each in words. */
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

/* Returns the definition of a score in one sentence; NULL for an unknown name. Names are the fields
 * of cst_metrics, cst_group_accuracy, cst_ood_metrics ("ece") and cst_value_metrics ("rmse"; its
 * nll is "nll_gaussian"), and the out-of-distribution scores ("max_probability",
 * "predictive_entropy"). Static. */
CST_API const char *cst_metric_definition(const char *name);

/* Scores probabilities [rows][classes] against labels [rows] in 0..classes-1. bins: 1 to 10000, or
 * 0 for CST_METRIC_BINS. CST_ERROR_INPUT, with the row, for a label out of range or a row that is
 * not a distribution: an entry that is not finite or exceeds [0, 1], or a sum that differs from 1,
 * by more than 1e-3.
 * Sources: Brier score: Brier 1950, in the multiclass sum form; ECE: Naeini et al. 2015, Guo et al.
 * 2017; ECE with equal counts and classwise ECE: Nixon et al. 2019, Kull et al. 2019; debiased ECE:
 * Kumar et al. 2019; CORP: Dimitriadis et al. 2021. */
CST_API cst_status cst_metrics_evaluate(cst_context *context, const float *probabilities,
                                        int64_t rows, int32_t classes, const int32_t *labels,
                                        int bins, cst_metrics *out);

/* Computes the per-sample terms of the scores: nll, brier, confidence (the largest probability) and
 * correct (0 or 1), each [rows] or NULL if not wanted. Checks its input like cst_metrics_evaluate.
 */
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

/* Computes the bins of the reliability diagram that `ece` of cst_metrics is made of (Murphy and
 * Winkler 1977; Guo et al. 2017). out: [bins], or [CST_METRIC_BINS] if bins is 0. Checks its input
 * like cst_metrics_evaluate. */
CST_API cst_status cst_metrics_reliability(cst_context *context, const float *probabilities,
                                           int64_t rows, int32_t classes, const int32_t *labels,
                                           int bins, cst_reliability_bin *out);

/* ---- accuracy by training count ---- */

/* Default limits for long-tailed data: head classes have more training samples than the first,
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

/* Computes top-1 accuracy on head, mid and tail classes (Liu et al. 2019, "Large-scale long-tailed
 * recognition"). training_counts: [classes], training samples of each class, at least 0.
 * head_above, tail_below: limits as CST_HEAD_ABOVE and CST_TAIL_BELOW; CST_ERROR_ARGUMENT if a
 * class could be in both groups. Checks its input like cst_metrics_evaluate. */
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

/* Computes an out-of-distribution score for each row of probabilities [rows][classes]. out: [rows].
 * Maximum probability: Hendrycks and Gimpel 2017. CST_ERROR_INPUT for a row that is not a
 * distribution, as in cst_metrics_evaluate. */
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
                                  the other common convention */
    double detection_error;    /* least mean of the two error rates over all thresholds */
} cst_ood_metrics;

/* Measures how well a score separates in_scores [in_samples] from out_scores [out_samples], each
 * with at least one sample; higher scores mean out of distribution. AUROC, AUPR and FPR at 95% TPR:
 * Hendrycks and Gimpel 2017; detection error: Liang et al. 2018. CST_ERROR_INPUT for a score that
 * is not finite. */
CST_API cst_status cst_ood_evaluate(cst_context *context, const double *in_scores,
                                    int64_t in_samples, const double *out_scores,
                                    int64_t out_samples, cst_ood_metrics *out);

/* ---- bootstrap ---- */

/* Computes 95% bootstrap intervals of the basic scores by the percentile method (Efron 1979; Efron
 * and Tibshirani 1993): percentiles 2.5 and 97.5 over `resamples` resamples of the rows (1 to
 * 10,000,000; normally 5000), linear between order statistics. Each resample is scored like
 * cst_metrics_evaluate does. Resample r of a seed draws the same samples whatever the method, the
 * scores, the number of threads and the number of resamples. */
CST_API cst_status cst_bootstrap_metrics(cst_context *context, const float *probabilities,
                                         int64_t rows, int32_t classes, const int32_t *labels,
                                         int bins, int32_t resamples, uint64_t seed,
                                         cst_metric_intervals *out);

/* Computes the intervals of cst_bootstrap_metrics for several methods on the same samples, drawing
 * the resamples once. probabilities: [methods] pointers; out: [methods]. */
CST_API cst_status cst_bootstrap_methods(cst_context *context, const float *const *probabilities,
                                         int32_t methods, int64_t rows, int32_t classes,
                                         const int32_t *labels, int bins, int32_t resamples,
                                         uint64_t seed, cst_metric_intervals *out);

/* Computes intervals of paired differences: the scores of `a` minus those of `b` on the same
 * resamples. a, b: [rows][classes]. */
CST_API cst_status cst_bootstrap_difference(cst_context *context, const float *a, const float *b,
                                            int64_t rows, int32_t classes, const int32_t *labels,
                                            int bins, int32_t resamples, uint64_t seed,
                                            cst_metric_intervals *out);

/* Computes, in one pass, intervals of every method and of its paired difference from method
 * `reference`. intervals, differences: [methods], or NULL if not wanted (`reference` is used for
 * differences only). The difference of the reference from itself is 0. Other arguments as in
 * cst_bootstrap_methods. */
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
