/*
 * Newton steps with forgetting on softmax_c(sum_j w_j x_jc + b_c), one labelled row at a time: an
 * expert of the online adapter. The parameters are those of an adapted model, with a prior centred
 * on the first feature. docs/prediction.md#learning-online.
 */
#ifndef CST_ADAPT_ONLINE_NEWTON_H
#define CST_ADAPT_ONLINE_NEWTON_H

#include "core/scope.h"

/* Every row's loss is kept as a quadratic at the parameters of its time, so that the state does not
 * grow: minimised is prior/2 |t|^2 + sum_i keep^(n-i) (g_i'(t - t_i) + 1/2 (t - t_i)'H_i(t - t_i)),
 * t being the parameters less their prior means (1, 0, 0, ...). */
typedef struct cst_newton {
    int32_t features; /* w: the first has a prior mean of 1, the others of 0 */
    int32_t classes;
    int32_t biases; /* 0, or as many as classes; prior mean 0 */
    int32_t size;   /* features + biases */
    double keep;    /* what a row leaves of the rows before it, in (0, 1] */
    double prior;   /* precision of every parameter */
    int32_t period; /* labels from one solution to the next, by `size`: the same work per label */
    int32_t since;  /* labels since the last one */
    double *curvature; /* [size][size], lower triangle */
    double *pull;      /* [size] */
    double *shift;     /* [size] t */
    double *factor;    /* [size][size]: scratch, as the rest */
    double *mean;      /* [features] */
    double *row;       /* [classes] */
    double *side;      /* [classes] */
} cst_newton;

/* No parameter leaves its mean by more. */
#define CST_NEWTON_MAX 1e6

cst_status cst_newton_take(cst_context *context, cst_scope *scope, int32_t features,
                           int32_t classes, bool biases, double keep, double prior,
                           cst_newton *out);

/* Probabilities of a row x [features][classes]; out [classes]. */
void cst_newton_predict(const cst_newton *newton, const double *x, double *out);

/* The label of a row x. Allocates nothing. */
void cst_newton_learn(cst_newton *newton, const double *x, int32_t label);

#endif
