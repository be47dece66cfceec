/* Inside of multilabel: the pool of log-odds, its family, baselines and scores.
 * docs/multilabel.md. */
#pragma once

#include "core/scope.h"
#include "fit/family.h"
#include "fit/mix_methods.h"
#include "stats/resample.h"

/* A probability counts as at least this and at most 1 minus it: the epsilon of float32. */
#define CST_LABEL_FLOOR 0x1p-23

/* ---- scores ---- */

/* In the order of the task's table of scores. */
typedef enum cst_label_score_kind {
    CST_LABEL_LOG_LOSS,
    CST_LABEL_MACRO_AUC,
    CST_LABEL_MICRO_AUC,
    CST_LABEL_MAP,
    CST_LABEL_MACRO_F1,
    CST_LABEL_MICRO_F1,
    CST_LABEL_LRAP,
    CST_LABEL_HAMMING,
    CST_LABEL_ECE,
    CST_LABEL_SCORES
} cst_label_score_kind;

/* Of one label; NaN where it is not defined. */
typedef struct cst_label_score {
    int64_t known;
    int64_t positives;
    double log_loss, auc, ap, f1;
} cst_label_score;

typedef struct cst_label_cells {
    const float *p;        /* [rows][labels] */
    const double *targets; /* [rows][labels]: 0, 1, or NaN where not known */
    const double *weights; /* [rows], or NULL */
    int64_t rows;
    int32_t labels;
} cst_label_cells;

double cst_label_loss(double p, bool positive);
/* Log loss of each row of p: the mean over its known cells, times its weight. */
void cst_label_losses(const cst_label_cells *rows, const float *p, double *out);
/* out: [CST_LABEL_SCORES]; each: [labels]. */
cst_status cst_label_scores_of(cst_context *context, const cst_label_cells *rows, double *out,
                               cst_label_score *each);
/* Of log loss and macro AUC of predictions [methods]; arrays [methods][CST_LABEL_SCORES], of which
 * the others stay as they are. */
cst_status cst_label_bootstrap(cst_context *context, const cst_label_cells *rows,
                               const float *const *predicted, int32_t methods, int32_t reference,
                               int32_t resamples, uint64_t seed, cst_interval *interval,
                               cst_interval *difference, double *p);

/* ---- the pool ---- */

/* Log-odds of the members, mixed with their shares of 1/2, label after label. */
typedef struct cst_label_table {
    int64_t rows;
    int32_t labels, members;
    float *logit;         /* [labels][rows][members] */
    uint8_t *truth;       /* [labels][rows]: 0, 1, or 2 where not known */
    double *weight;       /* [rows] */
    const int32_t *folds; /* [rows] in 0..fold_count-1 */
    int32_t fold_count;
    double known; /* weight of the known cells of a row, on average */
    double *mix;  /* [members]: share with the least log loss of the member */
    double *risk; /* [members]: mean log loss */
} cst_label_table;

cst_status cst_label_table_make(cst_context *context, cst_scope *scope, const cst_view *view,
                                const int32_t *folds, int32_t fold_count, cst_label_table *out);

/* Minimises the log loss of all known cells plus
 * lambda/2 sum_l |theta_l - shared|^2 + prior/2 |weights of shared - their mean|^2 and a little of
 * |shared - average|^2, which decides what the rows do not; without a shared part
 * lambda/2 sum_l |weights of theta_l|^2, and biases are nearly free. */
typedef struct cst_label_pool {
    const int32_t *members; /* [count] columns of the table; NULL: all */
    int32_t count;
    bool alone; /* each label by itself */
    double prior;
    double lambda;
    double *shared; /* [count + 1] weights, bias */
    double *theta;  /* [labels][count + 1] */
} cst_label_pool;

/* At the average. */
cst_status cst_label_pool_take(cst_context *context, cst_scope *scope, const cst_label_table *table,
                               cst_label_pool *out);
/* From where it is, on the rows whose fold is not `fold` (-1: all). curvature: of the objective in
 * the shared part, the others following, [count + 1][count + 1]; NULL: not wanted. */
cst_status cst_label_pool_fit(cst_context *context, const cst_label_table *table, int32_t fold,
                              cst_label_pool *pool, double *curvature);
/* The objective there. */
cst_status cst_label_pool_objective(cst_context *context, const cst_label_table *table,
                                    const cst_label_pool *pool, double *out);
/* Log loss of each row of `fold`: the sum over its known cells times its weight, over `known`;
 * other rows are left. */
cst_status cst_label_pool_losses(cst_context *context, const cst_label_table *table, int32_t fold,
                                 const cst_label_pool *pool, double *losses);
/* lambda of the least held-out loss, then the fit on all rows. losses: [rows] at that lambda. */
cst_status cst_label_pool_choose(cst_context *context, const cst_label_table *table,
                                 cst_label_pool *pool, double *losses);

/* ---- models ---- */

/* One function for each label, of log-odds or (mean) of probabilities. */
typedef struct cst_label_functions {
    double *weights; /* [labels][members] */
    double *bias;    /* [labels] */
    bool mean;
} cst_label_functions;

/* A model of some of the members: kept [count] columns of the functions; mix: of these columns. */
cst_status cst_label_model(cst_context *context, int32_t labels, int32_t members,
                           const int32_t *kept, int32_t count, const cst_label_functions *functions,
                           const double *mix, cst_model **out);

const cst_named *cst_label_baseline_at(size_t index);
/* Functions of all members, from the scope, and the shares that go with them. */
cst_status cst_label_baseline_fit(cst_context *context, cst_scope *scope, const cst_named *baseline,
                                  const cst_view *view, const int32_t *folds, int32_t fold_count,
                                  double prior, cst_label_functions *out, double **mix);

/* Scores greedy, best-single and average beside `held`, the nested predictions of the fit, and puts
 * them into the facts. */
cst_status cst_label_simple_rules(cst_context *context, cst_fit_job *job,
                                  const cst_label_cells *held);

/* ---- the family and the table ---- */

extern const cst_family cst_multilabel_family;
extern const cst_task_ops cst_multilabel_ops;

/* A notice of the options that differ from their preset and change nothing. */
cst_status cst_label_check_options(cst_context *context, const cst_options *options);

/* "labels": a list of each label's name and scores. */
void cst_label_put_each(cst_report *report, json_t *object, const cst_pool *pool,
                        const cst_label_score *each, int32_t labels);
