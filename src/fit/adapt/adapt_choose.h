/*
 * How far labelled rows take a stack: candidates of the prior compared by cross-validation, and the
 * evidence that the stack should change at all. docs/json.md#adapt.
 */
#ifndef CST_ADAPT_CHOOSE_H
#define CST_ADAPT_CHOOSE_H

#include "fit/adapt/adapt_fit.h"

enum {
    CST_ADAPT_PRECISIONS = 8, /* 3, 10, 30, ..., 10000 */
    CST_ADAPT_CANDIDATES = 2 * CST_ADAPT_PRECISIONS,
    CST_ADAPT_FOLDS = 5,
    CST_ADAPT_LEAVE_ONE_OUT = 20, /* up to so many rows (or groups) each is a fold */
    CST_ADAPT_BIASES_MAX = 200    /* classes; biases of more are not learnt */
};

typedef struct cst_adapt_candidate {
    bool halfway;     /* the center: halfway from the stack to the members' geometric mean */
    double precision; /* of the weights; a tenth of it of the biases */
    double loss;      /* mean NLL of the rows, each predicted by a fit without its fold */
    double evidence;  /* log of the rows' likelihood under the prior over that under the stack */
    double share;     /* of the average of the candidates' parameters */
} cst_adapt_candidate;

typedef struct cst_adapt_choice {
    cst_adapt_candidate candidate[CST_ADAPT_CANDIDATES];
    int32_t folds;
    bool biases;
    double stack_loss;  /* mean NLL of the rows under the stack */
    double loss;        /* cross-validated: the candidates' by their shares */
    double evidence;    /* log of the mean over candidates of the ratio of likelihoods */
    double step;        /* how far from the stack to the candidates' average: the probability, by
                           the evidence, that the stack should change, 0.1 before any row */
    double fitted;      /* mean NLL of the rows under the result */
    bool balanced;      /* rows without labels lowered the cross-validated loss, and are used */
    double labels_loss; /* `loss` without them */
    bool adapted;       /* false: theta is the stack */
    double *theta;      /* [columns + classes] */
} cst_adapt_choice;

/* balance: rows without labels, or NULL. groups: [rows], rows of one group are in one fold; or
 * NULL. */
cst_status cst_adapt_choose(cst_context *context, cst_scope *scope, const cst_adapt_table *table,
                            const int64_t *groups, const cst_adapt_balance *balance,
                            cst_adapt_choice *out);

#endif
