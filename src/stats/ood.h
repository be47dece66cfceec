/* Detection of samples out of distribution. docs/robustness.md#out-of-distribution. */
#pragma once

#include "data/pool/view.h"
#include "stats/resample.h"
#include "stats/statistics.h"

/* Scores that are higher the more a sample looks out of distribution. */
typedef enum cst_ood_score {
    CST_OOD_MAX_PROBABILITY = 0,   /* minus the largest probability */
    CST_OOD_PREDICTIVE_ENTROPY = 1 /* -sum p log p, nats */
} cst_ood_score;

/* Separation by a score, higher for out of distribution. The area under the ROC curve is symmetric;
 * the others name the positive side. */
typedef struct cst_ood_metrics {
    int64_t in_samples, out_samples;
    double auroc_out_positive; /* in [0, 1], 0.5 by chance; equal scores count one half */
    double aupr_out_positive;  /* average precision; by chance the share of out-samples */
    double fpr95_out_positive; /* share of in-samples taken for out where 95% of those are found */
    double aupr_in_positive;   /* average precision; by chance the share of in-samples */
    double fpr95_in_positive;  /* share of out-samples taken for in where 95% of those are accepted:
                                  the other common convention */
    double detection_error;    /* least mean of the two error rates over all thresholds */
} cst_ood_metrics;

/* Scores of the samples in and out of distribution, ascending; those with index below in_samples
 * are in. CST_ERROR_INPUT for what is not finite. */
cst_status cst_ood_order(cst_context *context, cst_scope *scope, const double *in_scores,
                         int64_t in_samples, const double *out_scores, int64_t out_samples,
                         cst_rank_item **sorted);

/* in_times [in_samples], out_times [out_samples]: how often each counts, with a sum of in_samples
 * and out_samples; NULL: once. */
void cst_ood_separate(const cst_rank_item *sorted, int64_t in_samples, int64_t out_samples,
                      const unsigned char *in_times, const unsigned char *out_times,
                      cst_ood_metrics *out);

/* Intervals of the separation; both kinds of samples are drawn independently. */
typedef struct cst_ood_intervals {
    cst_interval auroc, aupr_out, fpr95_out, aupr_in, fpr95_in, detection_error;
} cst_ood_intervals;

/* Without resamples the ends are NaN. */
cst_status cst_ood_bootstrap(cst_context *context, const double *in_scores, int64_t in_samples,
                             const double *out_scores, int64_t out_samples, int32_t resamples,
                             uint64_t seed, cst_ood_intervals *out);

/* ---- scores that need the members ---- */

/* Per sample [view->rows], each or NULL. */
typedef struct cst_ood_member_scores {
    double *disagreement;       /* weighted share of members whose top-1 is not the stack's */
    double *mutual_information; /* entropy of the weighted mean less the weighted mean entropy */
} cst_ood_member_scores;

/* weights: [view->members], sum 1. stack: [view->rows][classes], the predictions. */
cst_status cst_ood_members(cst_context *context, const cst_view *view, const double *weights,
                           const float *stack, const cst_ood_member_scores *out);

/* Out-of-distribution scores out [rows] of probabilities [rows][classes] (maximum probability:
 * Hendrycks and Gimpel 2017). CST_ERROR_INPUT as in cst_metrics_evaluate. */
cst_status cst_ood_scores(cst_context *context, const float *probabilities, int64_t rows,
                          int32_t classes, cst_ood_score score, double *out);
