/* The metrics that a user can name, and one of them on rows. docs/metrics.md. */
#pragma once

#include "core/scope.h"
#include "core/score_spec.h"

#include <corestack/metrics.h>
#include <corestack/pool.h>

/* What a metric is computed on, made by cst_metric_rows_make. */
typedef struct cst_metric_rows {
    const float *values; /* [rows][columns]: probabilities of the classes, or predicted values */
    int64_t rows;
    int32_t columns;
    const int32_t *labels;  /* [rows]; NULL: values */
    const double *targets;  /* [rows][columns]; NULL: classes */
    const double *weights;  /* [rows] */
    const int32_t *decided; /* [rows]: the class decided for; NULL where the metric reads none */
    const uint32_t *order;  /* rows by ascending value, of every column (of two classes the second),
                               then by ascending target; NULL where the metric reads none */
    double argument;
    const double *costs; /* [columns][columns]: of a decision (column) where a class (row) is true;
                            NULL where the metric reads none */
} cst_metric_rows;

/* The metric of rows with weights [rows], which may be 0; NaN where it is not defined. */
typedef double cst_metric_fn(const cst_metric_rows *rows, const double *weights, double *scratch);

/* Counts of decided and true classes, by weight. */
typedef struct cst_decision_counts {
    int32_t classes;
    double total, squares; /* sum of the weights, and of weight (true - decided)^2 */
    double *right, *told, *given;
} cst_decision_counts;

typedef double cst_counts_fn(const cst_decision_counts *counts);

typedef struct cst_metric {
    const char *name;
    const char *aliases; /* other names, separated by | */
    cst_score_spec shown;
    const char *definition; /* one sentence */
    cst_task task;
    bool binary;               /* of two classes only */
    const char *argument;      /* what NAME=VALUE gives; NULL: the metric takes no value */
    double least, most, usual; /* of that value; usual: without one, NaN: it must be given */
    cst_metric_fn *compute;    /* NULL: `counts`, or a score of the task's own table */
    cst_counts_fn *counts;     /* of what depends on decisions */
    int orders;                /* 1: of values, 2: and of targets */
    const cst_metric_ops *own; /* the caller's; else NULL */
} cst_metric;

typedef struct cst_metric_choice {
    const cst_metric *metric; /* NULL: none */
    double argument;
    const double *costs; /* [classes][classes], borrowed from the scope; or NULL */
    int32_t cost_classes;
} cst_metric_choice;

/* Whether it is one of decisions, which offsets or costs change. */
static inline bool cst_metric_decides(cst_metric_choice choice) {
    return choice.metric && (choice.metric->counts || choice.costs);
}

/* Whether it is none of the scores of the task's table. */
static inline bool cst_metric_is_more(const cst_metric *metric) {
    return metric && (metric->compute || metric->counts || metric->own);
}

/* What a metric of values is best with, where it is not what a fit of squared errors predicts. */
typedef enum cst_metric_aim {
    CST_METRIC_AS_IT_IS = 0,
    CST_METRIC_QUANTILE = 1,
    CST_METRIC_MEAN = 2, /* of targets that were transformed */
} cst_metric_aim;
/* level: of a quantile; may be NULL. */
cst_metric_aim cst_metric_aim_of(cst_metric_choice choice, bool transformed, double *level);

/* Metric `index` of the list; NULL past the end. */
const cst_metric *cst_metric_at(size_t index);
/* The definition of the first metric of this name, or NULL. */
const char *cst_metric_meaning(const char *name);
/* The metric with this key and task, or NULL. */
const cst_metric *cst_metric_of_key(cst_task task, const char *key);

/* Whether it is a metric of the list, or one that the context was given. */
bool cst_metric_known(cst_context *context, cst_task task, const char *text);

/* Whether one of the names in `names`, separated by |, is text [length]; _ and - are the same. */
bool cst_metric_named(const char *names, const char *text, size_t length);

/* Reads NAME or NAME=VALUE, where _ and - are the same, and the file of costs, if VALUE is one.
 * CST_ERROR_ARGUMENT lists the metrics. */
cst_status cst_metric_parse(cst_context *context, cst_scope *scope, cst_task task, const char *text,
                            cst_metric_choice *out);

/* An error where the metric is not for so many classes. */
cst_status cst_metric_check_classes(cst_context *context, cst_metric_choice choice,
                                    int32_t classes);

/* Checks what the metric needs of labels or targets and of the predictions, and gives the rows what
 * it reads. CST_ERROR_INPUT, with the row. decided: NULL: the class with the largest value. */
cst_status cst_metric_rows_make(cst_context *context, cst_scope *scope, cst_metric_choice choice,
                                const cst_metric_rows *given, cst_metric_rows *out);
/* Doubles of scratch. */
size_t cst_metric_scratch(const cst_metric_rows *rows);
/* The metric; not one of the task's own table. */
double cst_metric_compute(cst_metric_choice choice, const cst_metric_rows *rows,
                          const double *weights, double *scratch);
/* The metric of given rows, whichever it is. */
cst_status cst_metric_of(cst_context *context, cst_metric_choice choice,
                         const cst_metric_rows *given, double *out);

/* Area under the ROC curve of a column and class, with the placements that DeLong's test needs in
 * places [rows] (NULL: not wanted). */
double cst_metric_auc(const cst_metric_rows *rows, const double *weights, int32_t column,
                      double *places);

/* ---- parts of the list ---- */

cst_metric_fn cst_metric_cost, cst_metric_auc_mean, cst_metric_auc_pairs, cst_metric_gini,
    cst_metric_precision, cst_metric_ks, cst_metric_precision_at, cst_metric_recall_at,
    cst_metric_top_k, cst_metric_smooth_ece;
cst_counts_fn cst_metric_accuracy, cst_metric_balanced, cst_metric_f1, cst_metric_f1_macro,
    cst_metric_f1_micro, cst_metric_f1_weighted, cst_metric_mcc, cst_metric_kappa,
    cst_metric_kappa_quadratic;
cst_metric_fn cst_metric_rmsle, cst_metric_mape, cst_metric_smape, cst_metric_pinball,
    cst_metric_poisson, cst_metric_gamma, cst_metric_tweedie, cst_metric_spearman,
    cst_metric_concordance;
