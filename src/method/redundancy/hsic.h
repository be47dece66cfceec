/*
 * HSIC of all pairs of members, by every pair of rows or by low-rank features. Stage S1, between
 * the kernels and the normalisation to CKA. Paper: equation (1); method section 2.
 */
#ifndef CST_HSIC_H
#define CST_HSIC_H

#include "method/redundancy/kernel.h"
#include "method/redundancy/narrow.h"
#include "method/redundancy/pairs.h"
#include "method/redundancy/redundancy.h"
#include "method/redundancy/strips.h"

/* Seconds on one core that `auto` spends on a sample of pairs of rows, and those of a multiply-add
 * in the products of two members. */
#define CST_SECONDS_MAX 12.0
#define CST_SECONDS_MEMBER_ADD 2.5e-11

/* Bytes of packed rows at most, and the fewest rows that a sample is worth. */
#define CST_PACKED_BYTES 3e8
enum { CST_SAMPLE_MIN = 2048 };

/* Up to a factor common to all pairs (which CKA cancels), into hsic [K*K], symmetric; 0 for
 * constant members. Biased: tr(K H L H). Unbiased: n (n - 3) times the U-statistic. */
cst_status cst_hsic_exact(cst_context *context, const cst_kernels *kernels,
                          cst_cka_statistic statistic, double *hsic);

/* The same in single precision, over the pairs of the rows that were packed. With `pairs` (NULL:
 * all rows and pairs), estimated for all rows from some of them in random order, or from some
 * pairs; what is left of its sums is of no use. */
/* To a multiple of 2^-32, so that sums of up to 2^21 are exact in any order: what tiles of one
 * round add to the columns of a strip comes from any rank. */
static inline double cst_on_grid(double x) {
    const double middle = 0x1.8p20;
    return (x + middle) - middle;
}

cst_status cst_hsic_packed(cst_context *context, cst_packed *packed, cst_pairs *pairs,
                           cst_cka_statistic statistic, double *hsic);

/* Nystrom features of one member: phi(x) = k(x, landmarks) projection - mean, with phi phi' close
 * to the centred kernel H K H. */
typedef struct cst_features {
    int64_t landmarks;  /* m; 0 for a constant member */
    int64_t rank;       /* r <= m */
    double *points;     /* [m][C], landmarks less the member's origin */
    double *norms;      /* [m], their squared norms */
    double *projection; /* [m][r] */
    double *mean;       /* [r] */
    double *spectrum;   /* [r], eigenvalues of the centred features' Gram, descending */
    double residual;    /* share of the kernel's trace that is lost, 0..1 */
    cst_narrow narrow;  /* the landmarks in single precision, where that does, */
    float *single;      /* [m][r], and the projection */
} cst_features;

/* Eigenvalues of W = k(landmarks, landmarks) below this share of the largest are dropped. */
#define CST_LANDMARK_CUTOFF 1e-10

/* Features from the given landmarks (positions in the view), with W^(-1/2) from an
 * eigendecomposition, rotated to the axes of their Gram. The smallest axes are dropped as long as
 * what is dropped has at most `tail` of the Frobenius norm of the centred kernel (0: none but
 * those that are zero to rounding). */
cst_status cst_features_fit(cst_context *context, const cst_kernels *kernels, int32_t member,
                            const int64_t *landmarks, int64_t count, double tail,
                            cst_features *out);
void cst_features_free(cst_context *context, cst_features *features);

/* Features of rows first..first+count-1 into out [count][r]. */
cst_status cst_features_rows(cst_context *context, const cst_kernels *kernels, int32_t member,
                             const cst_features *features, int64_t first, int64_t count,
                             double *out);
/* The same in single precision, for features that have it (features->single). */
cst_status cst_features_rows_f32(cst_context *context, const cst_kernels *kernels, int32_t member,
                                 const cst_features *features, int64_t first, int64_t count,
                                 float *out);

typedef struct cst_landmark_options {
    int64_t floor; /* at least so many landmarks */
    int64_t cap;   /* at most */
    double tolerance;
    uint64_t seed;
} cst_landmark_options;

/* Landmarks by randomly pivoted Cholesky on at most 8192 seeded rows: `floor` of them, then more
 * until the residual trace is at most `tolerance` of the Frobenius norm of the centred kernel, or
 * `cap` is reached. landmarks [cap], *count of them are set, ascending (fewer than `floor` only
 * where the kernel is used up); *converged says whether the tolerance was met. */
cst_status cst_landmarks_residual(cst_context *context, const cst_kernels *kernels, int32_t member,
                                  const cst_landmark_options *options, int64_t *landmarks,
                                  int64_t *count, bool *converged);

/* As cst_hsic_exact, from the features of the members ([K]): by their cross-Grams, or by `probes`
 * random signs. */
cst_status cst_hsic_features(cst_context *context, const cst_kernels *kernels,
                             const cst_features *features, cst_cka_statistic statistic,
                             double *hsic);
cst_status cst_hsic_probes(cst_context *context, const cst_kernels *kernels,
                           const cst_features *features, int64_t probes, uint64_t seed,
                           cst_cka_statistic statistic, double *hsic);

#endif
