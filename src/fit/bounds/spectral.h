/* Spectrum of a pool with near-duplicates: clusters, condition numbers before and after the
 * projection, discs, effective dimension. */
#ifndef CST_BOUNDS_SPECTRAL_H
#define CST_BOUNDS_SPECTRAL_H

#include "core/base.h"

/* ---- clusters ---- */

/* The assumption of CKA-cluster redundancy, measured. */
typedef struct cst_cluster_facts {
    int32_t members;  /* K */
    int32_t clusters; /* G */
    int32_t largest;  /* s_max */
    double epsilon;   /* 1 less the least similarity within a cluster; 0: no cluster has a pair */
    double closest;   /* 1 less the largest one within a cluster; 1: no cluster has a pair */
    double mu;        /* the largest similarity across clusters; 0 with one cluster */
    bool aligned;     /* members can be turned (x to -x) so that no similarity within a cluster is
                         negative, as correlations always can where epsilon < 1/2 */
    bool incoherent;  /* mu < 1 / (G - 1) */
} cst_cluster_facts;

/* similarity: [members][members], of which absolute values are taken: CKA, or correlations, which
 * the lemma on the block structure says the same of. cluster_of: [members], numbered from 0 without
 * gaps. */
void cst_cluster_facts_of(const double *similarity, int32_t members, const int32_t *cluster_of,
                          cst_cluster_facts *out);

/* ---- spectra ---- */

typedef struct cst_spectral_facts {
    int32_t members;
    int32_t null;    /* eigenvalues below 1e-10 of the largest, which kappa leaves out; all of them
                        of the matrix 0 */
    double largest;  /* eigenvalue */
    double smallest; /* that is not null */
    double least;    /* of all, at least 0 */
    double kappa;    /* largest / smallest; of the matrix 0 it is 1, as kappa_lambda */
    double trace;
    double disc_low; /* Gershgorin: every eigenvalue is in [disc_low, disc_high] */
    double disc_high;
} cst_spectral_facts;

/* Of a Gram matrix [members][members] restricted to subset [count] (NULL: all of it). values:
 * [count], the eigenvalues, ascending. CST_ERROR_ARGUMENT for no member. */
cst_status cst_spectral_facts_of(cst_context *context, const double *gram, int32_t members,
                                 const int32_t *subset, int32_t count, double *values,
                                 cst_spectral_facts *out);

/* (largest + lambda) / (least + lambda), lambda > 0: the condition number of C + lambda I. Null
 * eigenvalues count, unlike in the paper's kappa: by its letter two copies would have 1 before and
 * after. */
double cst_kappa_lambda(const cst_spectral_facts *facts, double lambda);

/* Effective dimension: sum of v / (v + lambda) over the eigenvalues [count]. */
double cst_effective_dimension(const double *values, int32_t count, double lambda);

/* ---- claims ---- */

/* The paper's claims for the whole pool and one representative of each cluster, without terms of
 * order epsilon but the factors 1 - epsilon. Some of them fail on pools that meet the assumptions:
 * tests/bounds/spectral.c. */
typedef struct cst_spectral_claims {
    double kappa_above;   /* (i): kappa >= s_max (1 - epsilon) / (1 - (G - 1) mu) */
    double kappa_below;   /* (ii): kappa after <= (1 + (G - 1) mu) / (1 - (G - 1) mu) */
    double ratio_above;   /* (iii): kappa / kappa after >= s_max (1 - epsilon) */
    double largest_above; /* lemma: largest eigenvalue >= s_max (1 - epsilon) */
    double least_below;   /* lemma: smallest eigenvalue <= 1 - (G - 1) mu */
    bool applies;         /* the clusters are incoherent; else (i), (ii) and the lemma on the
                             smallest eigenvalue say nothing and are NaN */
    bool holds[3];        /* (i) to (iii); true where nothing is said */
    double proved;        /* what does follow from facts of correlations: with a pair at distance
                             `closest`, largest / least >= (2 - closest) / closest, and if they are
                             aligned, >= (1 + (s_max - 1) (1 - epsilon)) / closest; the greater of
                             what holds; 1 without a pair */
} cst_spectral_claims;

/* facts: of correlations or CKA, as the claims are to be read. */
void cst_spectral_claims_of(const cst_cluster_facts *facts, const cst_spectral_facts *before,
                            const cst_spectral_facts *after, cst_spectral_claims *out);

/* Corollary: kappa_lambda before less after is at least this:
 * (s_max - 1) (1 - epsilon) / (least + lambda) / (1 + lambda / least after). Random pools break it
 * where epsilon is 0.2 and more, none was found with near-duplicates. */
double cst_kappa_reduction(const cst_cluster_facts *facts, const cst_spectral_facts *before,
                           const cst_spectral_facts *after, double lambda);

/* ---- variance of a blend ---- */

typedef struct cst_variance_facts {
    double minimum; /* (1' S^-1 1)^-1, the least variance of weights that sum to 1 */
    double best;    /* the least S_mm: theorem, minimum <= best */
    double value;   /* w' S w of the weights given */
    double gap;     /* value - minimum */
    double bound;   /* proposition: gap <= largest eigenvalue |w - w*|^2 */
    bool inside;    /* w* has no negative weight, so that it is the minimum over mixtures too */
} cst_variance_facts;

/* Of a positive definite covariance [count][count] and weights [count] that sum to 1; optimum:
 * [count], w* = S^-1 1 / (1' S^-1 1). */
cst_status cst_variance_facts_of(cst_context *context, int32_t count, const double *covariance,
                                 const double *weights, double *optimum, cst_variance_facts *out);

/* ---- stability ---- */

/* Ridge weights w = (X'X + lambda I)^-1 X'y under perturbation to X', y'. Spectral norms. */
typedef struct cst_ridge_stability {
    double change; /* |w' - w|, measured */
    double
        paper;    /* 2 |X| |dy| / lambda + 8 |X| |y| |dX| / lambda^2 + 2 |y| |dX| / lambda; holds
                     where |X| >= sqrt(lambda) / 4 and may fail below, also under its precondition */
    double sharp; /* (|dy| + |dX| |w|) / (2 sqrt(lambda)) + |dX| |y - X w| / lambda: holds always,
                     for w' - w = A'^-1 (X'' (dy - dX w) + dX' (y - X w)), A' = X''X' + lambda I,
                     |A'^-1| <= 1 / lambda and |A'^-1 X''| <= 1 / (2 sqrt(lambda)) */
    bool precondition; /* |dX| <= lambda / (4 |X|) */
} cst_ridge_stability;

/* x, moved_x: [rows][columns], y, moved_y: [rows]; lambda > 0. */
cst_status cst_ridge_stability_of(cst_context *context, int64_t rows, int32_t columns,
                                  const double *x, const double *y, const double *moved_x,
                                  const double *moved_y, double lambda, cst_ridge_stability *out);

/* Ridge weights with one fold left out after the other, of the mean loss with penalty lambda /
 * rows: (X'X + lambda n / rows I)^-1 X'y of the n rows that are left. */
typedef struct cst_fold_stability {
    double change;  /* the largest |w - w'| of two folds */
    double claimed; /* lemma, for these two: 4 B^2 |F and F'| |w| / (lambda rows), lambda that of
                       the mean loss and B the largest norm of a row; a term of order rows^-1/2
                       without a constant is left out */
    double ratio;   /* the largest change / claimed of two folds; NaN where nothing changes and
                       nothing is claimed */
} cst_fold_stability;

/* fold: [rows], 0..folds-1, none empty. */
cst_status cst_fold_stability_of(cst_context *context, int64_t rows, int32_t columns,
                                 const double *x, const double *y, const int32_t *fold,
                                 int32_t folds, double lambda, cst_fold_stability *out);

#endif
