/* PAC-Bayes bounds of the error of a weighted ensemble, for all posteriors at once, over samples
 * that members and prior do not depend on. Paper: theorem "PAC-Bayes bound"; docs/bounds.md. */
#pragma once

#include "core/scope.h"

/* ---- divergences ---- */

/* KL(rho || pi) = sum_m rho_m log(rho_m / pi_m) in nats, of two weight vectors [count] that sum to
 * 1; prior NULL: uniform. Infinite where a member has weight and no prior. */
double cst_kl_discrete(int32_t count, const double *posterior, const double *prior);

/* With the factor of S^-1, the Hessian of a Laplace posterior, instead. */
cst_status cst_kl_gaussian_hessian(cst_context *context, int64_t d, const double *mean,
                                   const double *factor, const double *prior_mean, double precision,
                                   double *out);

/* ---- losses of a weighted vote ---- */

typedef struct cst_vote_losses {
    double gibbs;    /* E_rho of the members' error rates */
    double tandem;   /* E_rho^2 of the rate at which two members are both wrong */
    double majority; /* rate of samples where members of half the weight or more are wrong: an upper
                        bound of the weighted vote's error for any number of classes */
} cst_vote_losses;

/* wrong: [members][rows], not 0 where the member is wrong; weights: [members], sum 1, none
 * negative. CST_ERROR_ARGUMENT, and NaN, without a row or a member. */
cst_status cst_vote_losses_of(cst_context *context, const unsigned char *wrong, int64_t rows,
                              int32_t members, const double *weights, cst_vote_losses *out);

/* ---- bounds ---- */

/* empirical: in [0, 1], the rho-mean of a loss with values in [0, 1] over n >= 1 samples; kl =
 * KL(rho || pi) >= 0; 0 < delta < 1; NaN outside. Results are at most 1 where that is said. */

/* Seeger 2002, Maurer 2004: kl(empirical || risk) <= (KL + log(2 sqrt(n) / delta)) / n, inverted.
 * In [0, 1]. */
double cst_pac_bayes_kl(double empirical, double kl, double n, double delta);

/* McAllester 1999 with Maurer's constant: empirical + sqrt((KL + log(2 sqrt(n) / delta)) / (2 n)),
 * which follows from the former by Pinsker's inequality; may exceed 1. */
double cst_pac_bayes_mcallester(double empirical, double kl, double n, double delta);

/* Bound of the paper's theorem, empirical + term + phi, without its terms of order epsilon.
 * `empirical`: mean squared loss over ridges drawn from the posterior. */
typedef struct cst_paper_bound {
    double term;  /* sqrt((KL + log(2 sqrt(n) / delta)) / (2 (n - 1))) */
    double phi;   /* 4 B / sqrt(n) sqrt(dimensions) sqrt(1 + (clusters - 1) mu) */
    double total; /* empirical + term + phi */
} cst_paper_bound;

/* empirical >= 0, which may exceed 1; dimensions: G + d_A + p_theta, >= 0; radius: B >= 0, a bound
 * of |w|; n > 1, clusters >= 1, mu >= 0. All three are NaN outside. */
cst_paper_bound cst_pac_bayes_paper(double empirical, double kl, double n, double delta,
                                    double radius, double dimensions, int32_t clusters, double mu);
