/* Scores of probabilities against labels, and their definitions. docs/json.md#evaluate. */
#ifndef CORESTACK_METRICS_H
#define CORESTACK_METRICS_H

#include <corestack/context.h>
#include <corestack/pool.h>

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

/* Returns the definition of a score in one sentence; NULL for an unknown name. Names are those of
 * reports, e.g. "ece", "rmse", "nll_gaussian", "accuracy_head", "max_probability". Static. */
CST_API const char *cst_metric_definition(const char *name);

/* Scores probabilities [rows][classes] against labels [rows] in 0..classes-1. bins: 1 to 10000, or
 * 0 for CST_METRIC_BINS. CST_ERROR_INPUT, with the row, for a label out of range or a row that is
 * not a distribution: an entry that is not finite or exceeds [0, 1], or a sum that differs from 1,
 * by more than 1e-3. Sources: Brier score: Brier 1950, in the multiclass sum form; ECE: Naeini et
 * al. 2015, Guo et al. 2017; ECE with equal counts and classwise ECE: Nixon et al. 2019, Kull et
 * al. 2019; debiased ECE: Kumar et al. 2019; CORP: Dimitriadis et al. 2021. */
CST_API cst_status cst_metrics_evaluate(cst_context *context, const float *probabilities,
                                        int64_t rows, int64_t classes, const int32_t *labels,
                                        int bins, cst_metrics *out);

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
                                           int64_t rows, int64_t classes, const int32_t *labels,
                                           int bins, cst_reliability_bin *out);

/* Returns the name of metric `index` that `--metric` takes, with the task that it is for (may be
 * NULL); NULL past the end. docs/metrics.md defines each. Static. */
CST_API const char *cst_metric_name(size_t index, cst_task *task);

/* Returns 1 if NAME or NAME=VALUE is a metric of the task, by any of its names, else 0. */
CST_API int cst_metric_is_of(const char *metric, cst_task task);

/* Rows that a metric is computed on; arrays are in C order and borrowed. */
typedef struct cst_scored_rows {
    size_t struct_size; /* sizeof(cst_scored_rows), or 0 for the fields of version 0.1 */
    int64_t rows;
    int64_t columns;
    const float *values;   /* [rows][columns]: probabilities of the classes, or values */
    const int32_t *labels; /* [rows], 0..columns-1; NULL: targets */
    const double *targets; /* [rows][columns], for regression */
    const double *weights; /* [rows], 0 or more, not all 0; NULL: 1 each */
} cst_scored_rows;

/* Computes the metric NAME or NAME=VALUE ("auc", "top-k=5"), NaN where it is not defined on these
 * rows. CST_ERROR_ARGUMENT for an unknown metric, with a list; CST_ERROR_INPUT, with the row, for
 * what the metric does not take. */
CST_API cst_status cst_metric_score(cst_context *context, const char *metric,
                                    const cst_scored_rows *rows, double *out);

/* Scores rows, in *out. Another status than CST_OK ends the call. */
typedef cst_status (*cst_metric_score_fn)(void *user, const cst_scored_rows *rows, double *out);

/* A metric of the caller's own, called on the caller's thread. */
typedef struct cst_metric_ops {
    size_t struct_size; /* sizeof(cst_metric_ops) */
    const char *name;   /* up to 40 bytes without '=', and not that of another metric */
    int higher_is_better;
    cst_metric_score_fn score;
    void *user;
} cst_metric_ops;

/* Makes it a metric of this context for classification and regression, by its name as option
 * "metric" and the like. It is reported without intervals. The name is copied; a name that is added
 * again is replaced. For programs with a metric that the list lacks. */
CST_API cst_status cst_context_add_metric(cst_context *context, const cst_metric_ops *ops);

#ifdef __cplusplus
}
#endif
#endif
