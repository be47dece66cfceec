/* Spectrum of a pool with near-duplicates, before and after the projection. */
#pragma once

#include "core/base.h"

typedef struct cst_cluster_facts {
    int32_t members;  /* K */
    int32_t clusters; /* G */
    int32_t largest;  /* s_max */
    double epsilon;   /* 1 less the least similarity within a cluster; 0: no cluster has a pair */
    double mu;        /* the largest similarity across clusters; 0 with one cluster */
    bool incoherent;  /* mu < 1 / (G - 1) */
} cst_cluster_facts;

/* similarity: [members][members], CKA or correlations, by absolute value. cluster_of: [members],
 * numbered from 0 without gaps. */
void cst_cluster_facts_of(const double *similarity, int32_t members, const int32_t *cluster_of,
                          cst_cluster_facts *out);

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

/* Of a Gram matrix at subset [count] (NULL: all). values: [count], ascending eigenvalues. */
cst_status cst_spectral_facts_of(cst_context *context, const double *gram, int32_t members,
                                 const int32_t *subset, int32_t count, double *values,
                                 cst_spectral_facts *out);

/* (largest + lambda) / (least + lambda), lambda > 0: the condition number of C + lambda I. Null
 * eigenvalues count, unlike in the paper's kappa. */
double cst_kappa_lambda(const cst_spectral_facts *facts, double lambda);

/* Effective dimension: sum of v / (v + lambda) over the eigenvalues [count]. */
double cst_effective_dimension(const double *values, int32_t count, double lambda);

/* The paper's claims for the pool and one representative of each cluster; some of them fail on
 * pools that meet the assumptions: tests/bounds/spectral.c. */
typedef struct cst_spectral_claims {
    double kappa_above; /* (i): kappa >= s_max (1 - epsilon) / (1 - (G - 1) mu) */
    double kappa_below; /* (ii): kappa after <= (1 + (G - 1) mu) / (1 - (G - 1) mu) */
    double ratio_above; /* (iii): kappa / kappa after >= s_max (1 - epsilon) */
    bool applies;       /* the clusters are incoherent; else (i) and (ii) say nothing and
                           are NaN */
    bool holds[3];      /* (i) to (iii); true where nothing is said */
} cst_spectral_claims;

/* facts: of correlations or CKA, as the claims are to be read. */
void cst_spectral_claims_of(const cst_cluster_facts *facts, const cst_spectral_facts *before,
                            const cst_spectral_facts *after, cst_spectral_claims *out);

/* Lower bound of kappa_lambda before less after: (s_max - 1) (1 - epsilon) / (least + lambda) / (1
 * + lambda / least after). Random pools break it for epsilon >= 0.2. */
double cst_kappa_reduction(const cst_cluster_facts *facts, const cst_spectral_facts *before,
                           const cst_spectral_facts *after, double lambda);

typedef struct cst_variance_facts {
    double minimum; /* (1' S^-1 1)^-1, the least variance of weights that sum to 1 */
    double best;    /* the least S_mm: theorem, minimum <= best */
    double value;   /* w' S w of the weights given */
    double gap;     /* value - minimum */
    double bound;   /* proposition: gap <= largest eigenvalue |w - w*|^2 */
    bool inside;    /* w* has no negative weight, so that it is the minimum over mixtures too */
} cst_variance_facts;

/* Of a positive definite covariance [count][count]; optimum [count] = S^-1 1 / (1' S^-1 1). */
cst_status cst_variance_facts_of(cst_context *context, int32_t count, const double *covariance,
                                 const double *weights, double *optimum, cst_variance_facts *out);

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

/* Ridge weights without each fold: (X'X + lambda n / rows I)^-1 X'y of the n rows left. */
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
