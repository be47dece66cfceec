/* The rows that an adaptation reads, the stack's members first and then every other member of the
 * pool that predicted them, with logarithms of the stack's and of every member's probability for
 * each row and class. docs/json.md#adapt. */
#pragma once

#include "model/stack.h"

typedef struct cst_adapt_rows {
    cst_view view;         /* [members], labels where `labelled` */
    int32_t *position;     /* [members]: of each member in the pool */
    const int64_t *groups; /* [rows] or NULL */
    const int64_t *rows;   /* of the split, where some were left out; else NULL */
} cst_adapt_rows;

/* rows [count] of the split (NULL: all), and their labels (NULL: the split's). labelled: labels are
 * needed, and rows of weight 0 are left out. */
cst_status cst_adapt_rows_open(cst_context *context, cst_scope *scope, const cst_model *model,
                               cst_pool *pool, const char *split, const int64_t *rows,
                               const int32_t *labels, int64_t count, bool labelled,
                               cst_adapt_rows *out);

/* Mixed into every member, so that a probability near 0 costs a bounded amount under shift. */
#define CST_ADAPT_MIX 1e-3

typedef struct cst_adapt_table {
    int64_t rows;
    int32_t classes;
    int32_t columns; /* the stack, and after it every member of the view */
    float *x;        /* [rows][classes][columns] */
    int32_t *labels; /* [rows]; 0 where the view has none */
    double *weights; /* [rows], of mean 1 */
} cst_adapt_table;

/* Of a view whose first members are the model's; `model` is not adapted. */
cst_status cst_adapt_table_make(cst_context *context, cst_scope *scope, const cst_model *model,
                                const cst_view *view, cst_adapt_table *out);

/* ---- one fit ---- */

/* Parameters theta: a weight for each column of a table, then a bias for each class. */
/* Rows without labels: a term rows * sum_c share_c log(share_c / mean_c), as many rows as the fit
 * has labels, mean_c the mean probability of class c over the rows without labels. It keeps the
 * mean prediction at the class shares of the stack's fit. */
typedef struct cst_adapt_balance {
    const cst_adapt_table *table;
    const double *shares; /* [classes], positive, of sum 1 */
} cst_adapt_balance;

typedef struct cst_adapt_prior {
    const double *center;  /* [columns + classes] */
    double precision;      /* of the weights */
    double bias_precision; /* of the biases; 0: there are none, they stay at the center */
    const cst_adapt_balance *balance; /* NULL: no such term */
} cst_adapt_prior;

/* Fits to the rows with folds[i] != fold (folds NULL: to all). theta [columns + classes] starts
 * anywhere finite. evidence: log of the integral of likelihood times prior; may be NULL. */
cst_status cst_adapt_fit(cst_context *context, const cst_adapt_table *table, const int32_t *folds,
                         int32_t fold, const cst_adapt_prior *prior, double *theta,
                         double *evidence);

/* ---- how far to go ---- */

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
    float *held;        /* [rows][classes]: predictions of the fits without each row's fold, by the
                           same step; NULL where they were not asked for */
} cst_adapt_choice;

/* balance: rows without labels, or NULL. groups: [rows], rows of one group are in one fold; or
 * NULL. hold: fill out->held. */
cst_status cst_adapt_choose(cst_context *context, cst_scope *scope, const cst_adapt_table *table,
                            const int64_t *groups, const cst_adapt_balance *balance, bool hold,
                            cst_adapt_choice *out);
