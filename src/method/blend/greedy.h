/* Greedy selection with replacement, as AutoGluon's for float32. docs/method.md#s4-blend. */
#ifndef CST_BLEND_GREEDY_H
#define CST_BLEND_GREEDY_H

#include "core/scope.h"
#include "data/pool/view.h"

/* AutoGluon's number of rounds. */
#define CST_GREEDY_ROUNDS 25

/* Free the scope at the end. */
typedef struct cst_greedy {
    cst_scope scope;
    int32_t rounds;  /* rounds kept: up to the first minimum of the loss */
    int32_t *order;  /* [rounds] member added in each */
    double *loss;    /* [rounds] mean loss after each, rounded to 6 decimals (unless <= 1e-4) */
    double *weights; /* [members], sum 1 */
} cst_greedy;

typedef enum cst_greedy_metric {
    CST_GREEDY_LOG_LOSS = 0,
    CST_GREEDY_TOP1 = 1, /* share of rows whose largest probability is not the label's */
    CST_GREEDY_BRIER = 2 /* mean of sum_c (p_c - y_c)^2 */
} cst_greedy_metric;

/* `rounds` rounds on a labelled view: the member joins whose addition gives the least mean loss,
 * rounded to 6 decimals after the first round. Ties: members used before, then NumPy's
 * RandomState(seed). *out is empty after an error. */
cst_status cst_greedy_select(cst_context *context, const cst_view *view, cst_greedy_metric metric,
                             int32_t rounds, uint32_t seed, cst_greedy *out);

#endif
