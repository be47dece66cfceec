/*
 * One fit of an adaptation: the maximum of the posterior under a Gaussian prior, by Newton's
 * method, and the evidence of the prior by Laplace's method. docs/json.md#adapt.
 */
#ifndef CST_ADAPT_FIT_H
#define CST_ADAPT_FIT_H

#include "fit/adapt/adapt_rows.h"

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

/* -log of the probability of the label of one row. scratch: [classes]. */
double cst_adapt_loss(const cst_adapt_table *table, const double *theta, int64_t row,
                      double *scratch);

#endif
