/*
 * Greedy ensemble selection with replacement (Caruana et al. 2004) on the log loss, the top-1 error
 * or the Brier score, giving the result of AutoGluon's EnsembleSelection for float32 predictions. A
 * blend rule of stage S4 and three baselines. docs/method.md#s4-blend.
 */
#ifndef CST_BLEND_GREEDY_H
#define CST_BLEND_GREEDY_H

#include "core/scope.h"
#include "data/pool/view.h"

/* AutoGluon's number of rounds. */
#define CST_GREEDY_ROUNDS 25

typedef struct cst_greedy {
    int32_t rounds;  /* rounds kept: up to the first minimum of the loss */
    int32_t *order;  /* [rounds] member added in each */
    double *loss;    /* [rounds] mean loss after each, rounded to 6 decimals (unless <= 1e-4) */
    double *weights; /* [members], sum 1 */
} cst_greedy;

/* Runs `rounds` rounds on a labelled view. In each, the member joins whose addition gives the least
 * mean log loss of the renormalised average, clipped to [2^-52, 1 - 2^-52]; losses are rounded to 6
 * decimals after the first round; of losses equal to a relative 1e-12 a member used before goes
 * first, then one is drawn as NumPy's RandomState(seed) would. Free with cst_greedy_free. */
cst_status cst_greedy_select(cst_context *context, const cst_view *view, int32_t rounds,
                             uint32_t seed, cst_greedy *out);

typedef enum cst_greedy_metric {
    CST_GREEDY_LOG_LOSS = 0,
    CST_GREEDY_TOP1 = 1, /* share of rows whose largest probability is not the label's */
    CST_GREEDY_BRIER = 2 /* mean of sum_c (p_c - y_c)^2 */
} cst_greedy_metric;

/* The same on another loss: same rounds, rounding and ties, nothing clipped. */
cst_status cst_greedy_select_by(cst_context *context, const cst_view *view,
                                cst_greedy_metric metric, int32_t rounds, uint32_t seed,
                                cst_greedy *out);

void cst_greedy_free(cst_context *context, cst_greedy *greedy);

#endif
