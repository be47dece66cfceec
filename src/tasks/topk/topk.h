/* Inside of top-k: the pool of listed log-probabilities, its family, baselines and scores.
 * docs/topk.md. */
#pragma once

#include "core/scope.h"
#include "fit/family.h"
#include "fit/mix_methods.h"
#include "model/topk.h"

/* ---- the log-linear pool ---- */

/* Weights of one fit. */
typedef struct cst_topk_fit {
    int32_t fold;    /* that is left out; -1: none */
    const bool *in;  /* [members]: those that may have a weight; NULL: all */
    double *weights; /* [members] of the view; others than those may have one at first */
    double *hessian; /* [members][members] at the end, penalties included; NULL: not wanted */
} cst_topk_fit;

#define CST_TOPK_ENOUGH 1e-8

typedef struct cst_topk_rows {
    const cst_view *view;
    const int32_t *folds; /* [rows] */
    int32_t fold_count;
    double prior;  /* draws weights to their mean; and a little to the average of the members */
    double enough; /* a fit ends where a step is to lower its objective, a sum over rows, by less */
} cst_topk_rows;

/* Newton from where they are, all fits [count] side by side in passes over the rows. */
cst_status cst_topk_fit_all(cst_context *context, const cst_topk_rows *rows, cst_topk_fit *fits,
                            int32_t count);
/* At the average. */
void cst_topk_begin(const cst_topk_rows *rows, cst_topk_fit *fit);

/* Held-out losses of mixes [fold_count][count][members]: those of a row's fold. losses:
 * [count][rows], times the weights of the rows. */
cst_status cst_topk_losses(cst_context *context, const cst_topk_rows *rows, const double *mixes,
                           int32_t count, bool linear, double *losses);

/* ---- the family, methods and scores ---- */

extern const cst_family cst_topk_family;
extern const cst_task_ops cst_topk_ops;

cst_status cst_topk_check_options(cst_context *context, const cst_options *options);

/* A model of the members `kept` [count] (NULL: the first) with these of all weights; temperature:
 * of a linear mix, 1: none. */
cst_status cst_topk_model(cst_context *context, int32_t classes, const int32_t *kept, int32_t count,
                          const double *weights, bool linear, double temperature, cst_model **out);

/* Scores in the order of the task's table. */
enum { CST_TOPK_SCORES = 7 };
/* outcomes: [rows][CST_TOPK_OUTCOME]. */
cst_status cst_topk_scores(cst_context *context, const cst_view *view, const float *outcomes,
                           double out[CST_TOPK_SCORES]);
/* What resamples draw and tests count: groups, or else rows, of very many as many stretches. unit:
 * [rows] of 0..count-1. */
cst_status cst_topk_units(cst_context *context, cst_scope *scope, const cst_view *view,
                          int64_t **unit, int64_t *count);
/* Arrays as of cst_bootstrap_intervals. */
cst_status cst_topk_bootstrap(cst_context *context, const cst_view *view,
                              const float *const *outcomes, int32_t methods, int32_t reference,
                              int32_t resamples, uint64_t seed, cst_intervals *out);

/* ---- baselines ---- */

const cst_named *cst_topk_baseline_at(size_t index);
/* A fit of it as a model of the members that have a weight. */
cst_status cst_topk_baseline_fit(cst_context *context, const cst_named *baseline,
                                 const cst_topk_rows *rows, cst_made_model *out);

/* told: [rows][members]: probability of the label. */
cst_status cst_topk_told(cst_context *context, const cst_view *view, float *told);
/* Weights of a linear mix of members (in, NULL: all) and what its logarithm is multiplied by, on
 * the rows outside a fold (-1: all); *better: its loss is below that of the log-linear pool. */
cst_status cst_topk_linear(cst_context *context, const cst_topk_rows *rows, const float *told,
                           int32_t fold, const bool *in, const double *pool, double *weights,
                           double *power, bool *better);

/* A dense view of at most 512 rows, of the scope, whose rows are as far from one another. */
cst_status cst_topk_widen(cst_context *context, cst_scope *scope, const cst_view *view,
                          cst_view *out);

/* Log-probability of the label of a row [2 k] by its member alone. */
double cst_topk_label_log(const cst_view *view, const float *row, int64_t at);
/* Mean NLL of each member on all rows, [members]; of several folds [count] without each,
 * [count][members].
 */
cst_status cst_topk_risks(cst_context *context, const cst_view *view, const int32_t *folds,
                          int32_t count, double *risk);
