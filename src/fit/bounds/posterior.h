/* Weights of a vote with a small PAC-Bayes bound. docs/bounds.md#the-papers-quantities. */
#pragma once

#include "core/base.h"

typedef struct cst_vote_posterior {
    double empirical; /* the weights' loss: E_rho[loss], or E_rho^2[tandem loss] */
    double kl;        /* KL(rho || prior) */
    double bound;     /* PAC-Bayes-kl at the weights: of E_rho[loss], or 4 times the tandem loss */
} cst_vote_posterior;

/* losses, weights, prior (NULL: uniform): [members]. Alternates between rho ~ prior exp(-t n loss)
 * and the best t (Thiemann et al. 2017); keeps the weights of the least bound. */
void cst_gibbs_posterior(const double *losses, const double *prior, int32_t members, double n,
                         double delta, double *weights, cst_vote_posterior *out);

/* tandem [members][members]: shares of rows on which both are wrong. wrong: [members][rows]. */
cst_status cst_tandem_matrix(cst_context *context, const unsigned char *wrong, int64_t rows,
                             int32_t members, double *tandem);

/* The same for the second-order bound, which is convex in the weights for a fixed t: damped steps
 * towards rho ~ prior exp(-t n tandem rho) (Masegosa et al. 2020). */
cst_status cst_tandem_posterior(cst_context *context, const double *tandem, const double *prior,
                                int32_t members, double n, double delta, double *weights,
                                cst_vote_posterior *out);
