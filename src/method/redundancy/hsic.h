/* HSIC of pairs of members, by pairs of rows or low-rank features. Paper: equation (1). */
#pragma once

#include "data/pool/view.h"
#include "method/redundancy/redundancy.h"

/* Most rows that a bandwidth is estimated from. */
enum { CST_BANDWIDTH_ROWS = 1000 };

/* One kernel per member of a view. `origin` is subtracted from rows before |a|^2 + |b|^2 - 2ab, so
 * that cancellation is relative to the spread of the rows. */
typedef struct cst_kernels {
    const cst_view *view; /* borrowed */
    double *sigma;        /* [K]; 0 for a constant member */
    bool *constant;       /* [K] */
    double *origin;       /* [K][C] */
} cst_kernels;

/* The scope owns its arrays. */
cst_status cst_kernels_create(cst_context *context, cst_scope *scope, const cst_view *view,
                              uint64_t seed, cst_kernels *out);

/* Draws `count` distinct rows of 0..rows-1, ascending. */
cst_status cst_sample_rows(cst_context *context, int64_t rows, int64_t count, uint64_t seed,
                           cst_stream stream, uint32_t substream, int64_t *sample);

/* Rows of a member less its origin ([count][C]) and their squared norms ([count]). The rows are
 * first..first+count-1, or, with `index` (ascending), those it names. scratch: C floats for
 * each of min(count, CST_BLOCK_ROWS) rows. */
cst_status cst_kernel_rows(cst_context *context, const cst_kernels *kernels, int32_t member,
                           const int64_t *index, int64_t first, int64_t count, float *scratch,
                           double *rows, double *norms);

typedef struct cst_kernel_points {
    const double *rows;  /* [count][C] */
    const double *norms; /* [count] */
    int64_t count;
} cst_kernel_points;

/* exp(-|a_i - b_j|^2 / (2 sigma^2)) of rows a with rows b, into out [a.count][b.count]. */
cst_status cst_kernel_tile(cst_context *context, const cst_kernels *kernels, int32_t member,
                           cst_kernel_points a, cst_kernel_points b, double *out);
/* Of rows first[s]..first[s]+count[s]-1, or of the places that `index` has there. */
cst_status cst_kernel_pair(cst_context *context, const cst_kernels *kernels, int32_t member,
                           const int64_t *index, const int64_t first[2], const int64_t count[2],
                           double *out);

/* Seconds on one core of a sample of row pairs in `auto`; of a multiply-add of a product. */
#define CST_SECONDS_MAX 12.0
#define CST_SECONDS_MEMBER_ADD 2.5e-11

/* Bytes of packed rows at most, and the fewest rows that a sample is worth. */
#define CST_PACKED_BYTES 3e8
enum { CST_SAMPLE_MIN = 2048 };

/* Rows of a strip, and so the side of a tile. */
enum { CST_STRIP_ROWS = 128, CST_REFERENCE_ROWS = 256 };

typedef enum cst_packing {
    CST_PACKED_NOT = 0,    /* single precision would not do: tiles come from cst_kernel_tile */
    CST_PACKED_DENSE = 1,  /* rows less the origin, products by BLAS */
    CST_PACKED_SPARSE = 2, /* the entries that matter, class by class */
} cst_packing;

/* Up to a strip of one member's rows in units of sigma: |a|^2 stands for |a|^2 / sigma^2. */
typedef struct cst_strip {
    int64_t rows;
    float *exponents; /* [rows], -|a_i|^2 / 2 */
    float *dense;     /* [rows][C], less the origin */
    uint32_t *starts; /* sparse: [C + 1], where the entries of a class begin */
    float *values;    /* sparse: descending within a class */
    uint8_t *places;  /* sparse: the row */
} cst_strip;

typedef struct cst_packed_member {
    cst_scope scope; /* of all below */
    cst_packing packing;
    float cut;        /* sparse: products below it are left out of a b / sigma^2 */
    double error;     /* |H (K' - K) H| / |H K H| (Frobenius) on the reference rows, K' as packed */
    double bytes;     /* a row takes, about */
    double seconds;   /* a pair of rows takes, about */
    cst_strip sample; /* the reference rows */
    cst_strip *strips; /* [strips] */
    float *exponents;  /* [n], of the strips, one after another */
    float *dense;      /* [n][C]: of dense strips, one after another; else NULL */
    float *levels;     /* [n], about the mean of the kernel's row i, less half the mean of all */
} cst_packed_member;

typedef struct cst_packed {
    cst_scope scope; /* without what the members hold */
    const cst_kernels *kernels;
    const int64_t *sample; /* [n] rows of the view, ascending in a strip, borrowed; NULL: all */
    int64_t rows;          /* n */
    int64_t strips;
    cst_packed_member *member; /* [K] */
    bool partial;              /* ranks divide the strips, and this one lacks some */
    bool *there;               /* [strips]: those that it has */
} cst_packed;

/* Chooses how to pack each member, on at most CST_REFERENCE_ROWS rows of it. */
cst_status cst_packed_plan(cst_context *context, const cst_kernels *kernels, cst_packed *out);

/* One pass over the data: packs the sampled rows ([rows], ascending in each strip; NULL: all).
 * own: packs only this rank's part of the strips, but exponents and levels of all of them. */
cst_status cst_packed_fill(cst_context *context, cst_packed *packed, const int64_t *sample,
                           int64_t rows, bool own);
/* Packs the strips this rank lacks for its part of `tiles` tiles, of strips i and i + shift. */
cst_status cst_packed_reach(cst_context *context, cst_packed *packed, int64_t tiles, int64_t shift);
void cst_packed_free(cst_context *context, void *packed); /* a cst_release_fn */

/* k(a_i, b_j) - level_i - level_j for rows of strips i and j (at most CST_STRIP_ROWS), which the
 * centring takes out again, into out [na][nb]; 0 on the diagonal of the matrix. Adds the sums of
 * the tile's rows to row_sums [na] and, where i != j, of its columns to column_sums [nb]. */
cst_status cst_packed_tile(cst_context *context, const cst_packed *packed, int32_t member,
                           int64_t i, int64_t j, float *out, double *row_sums, double *column_sums);

/* 1 - 2 level_i: the tile's diagonal. */
double cst_packed_diagonal(const cst_packed *packed, int32_t member, int64_t row);

/* To a multiple of 2^-32: sums of up to 2^21 are exact in any order and on any rank. */
static inline double cst_on_grid(double x) {
    const double middle = 0x1.8p20;
    return (x + middle) - middle;
}

/* Sums over tiles that are kept, each [K*K]: with h_ab a tile's sum of products of members a and b
 * (at and below the diagonal), of h_ab, of the part of it that row sums know, of h_ab^2, of h_ab
 * h_aa, of h_aa h_bb. */
enum { CST_PAIRS_SUMS = 5 };

/* Rounds of tiles in which every row has as many partners as every other. */
typedef struct cst_pairs {
    int32_t members;       /* K */
    const bool *constant;  /* [K], borrowed */
    int64_t rows;          /* n, in random order */
    int64_t all;           /* N */
    int64_t rounds_most;   /* 0: no limit */
    double tolerance;      /* standard error that is small enough; 0: all pairs of the n rows */
    int64_t strips;        /* of CST_STRIP_ROWS rows, the last may have fewer */
    double *strip_sums;    /* [strips][2][K(K+1)/2], h of the tiles that a strip is either side of;
                              NULL where there are too many members */
    double *strips_of_all; /* those of all ranks; `strip_sums` where there is one */
    /* of the rounds done: */
    int64_t tiles;    /* between two strips */
    int64_t partners; /* m, rows that each row was paired with */
    double error;     /* standard error of the worst pair of members */
} cst_pairs;

/* Its arrays are of the scope. */
cst_status cst_pairs_create(cst_context *context, cst_scope *scope, const cst_kernels *kernels,
                            int64_t rows, double tolerance, int64_t rounds_most, cst_pairs *out);

/* Of a tile of two whole strips: sum [CST_PAIRS_SUMS][K*K] has h and gets its products. */
void cst_pairs_tile(cst_pairs *pairs, int64_t i, int64_t j, double *sum);

/* A round of `tasks` tiles is done; `last`: it was the one on the diagonal, and so all are. */
void cst_pairs_round(cst_pairs *pairs, int64_t tasks, bool last);

/* Before the error is looked at: the strips' sums of all ranks. */
cst_status cst_pairs_share(cst_context *context, cst_pairs *pairs);

/* Rounds after which the error is to be looked at, first and again; again == done: enough. */
int64_t cst_pairs_first_check(const cst_pairs *pairs, int64_t rounds);
int64_t cst_pairs_next_check(const cst_pairs *pairs, const double *sums, const double *hsic,
                             int64_t done, int64_t rounds);

/* Standard error of the CKA of the worst pair; sums [CST_PAIRS_SUMS][K*K], hsic [K*K]. */
double cst_pairs_error(const cst_pairs *pairs, const double *sums, const double *hsic);

/* Members first_a.. with members first_b..; behind one another where they are not the same. */
typedef struct cst_pair_block {
    int32_t first_a;
    int32_t count_a;
    int32_t first_b;
    int32_t count_b;
    size_t at; /* where its [count_a][count_b] products begin */
} cst_pair_block;

/* Members whose tiles are needed together: those of consecutive blocks. */
typedef struct cst_pair_group {
    int32_t first; /* member */
    int32_t count;
    int32_t first_block;
    int32_t blocks;
} cst_pair_group;

/* Some pairs of members. Every tile of a member's kernel is computed once. */
typedef struct cst_pair_blocks {
    cst_pair_block *block;
    int32_t blocks;
    cst_pair_group *group; /* every block is in one of them, with all its members */
    int32_t groups;
    size_t products; /* of all blocks */
} cst_pair_blocks;

/* Up to a factor common to all pairs (which CKA cancels), into hsic [K*K], symmetric; 0 for
 * constant members. Biased: tr(K H L H). Unbiased: n (n - 3) times the U-statistic. */
cst_status cst_hsic_exact(cst_context *context, const cst_kernels *kernels,
                          cst_cka_statistic statistic, double *hsic);

/* In single precision, over the pairs of the rows that were packed. With `pairs` (NULL: all rows
 * and pairs of rows), estimated for all rows from some of them in random order, or from some pairs.
 * blocks: some pairs of members, one block behind another in hsic; NULL: all. Not both. */
cst_status cst_hsic_packed(cst_context *context, cst_packed *packed, cst_pairs *pairs,
                           const cst_pair_blocks *blocks, cst_cka_statistic statistic,
                           double *hsic);

/* Nystrom features of a member: phi(x) = k(x, landmarks) projection - mean. */
typedef struct cst_features {
    cst_scope scope;
    int64_t landmarks;  /* m; 0 for a constant member */
    int64_t rank;       /* r <= m */
    double *points;     /* [m][C], landmarks less the member's origin */
    double *norms;      /* [m], their squared norms */
    double *projection; /* [m][r] */
    double *mean;       /* [r] */
    double *spectrum;   /* [r], eigenvalues of the centred features' Gram, descending */
    double residual;    /* share of the kernel's trace that is lost, 0..1 */
    /* In single precision, of members with many classes where that does; else NULL: */
    float *single;    /* [m][r], the projection */
    float *columns;   /* [C][m], landmarks over sigma^2, transposed */
    float *exponents; /* [m], -|l|^2 / (2 sigma^2) */
    double scale;     /* -1 / (2 sigma^2) */
} cst_features;

/* Eigenvalues of W = k(landmarks, landmarks) below this share of the largest are dropped. */
#define CST_LANDMARK_CUTOFF 1e-10

/* Features from landmarks (positions in the view), rotated to the axes of their Gram; the smallest
 * axes go as long as they have at most `tail` of the Frobenius norm of the centred kernel (0: only
 * those zero to rounding). The caller frees out->scope, also after a failure. */
cst_status cst_features_fit(cst_context *context, const cst_kernels *kernels, int32_t member,
                            const int64_t *landmarks, int64_t count, double tail,
                            cst_features *out);

/* Features of rows first..first+count-1 into out [count][r]. */
cst_status cst_features_rows(cst_context *context, const cst_kernels *kernels, int32_t member,
                             const cst_features *features, int64_t first, int64_t count,
                             double *out);
/* In single precision, for features that have it (features->single). */
cst_status cst_features_rows_f32(cst_context *context, const cst_kernels *kernels, int32_t member,
                                 const cst_features *features, int64_t first, int64_t count,
                                 float *out);

/* Landmarks by randomly pivoted Cholesky on at most 8192 seeded rows: `floor`, then more until the
 * residual trace is a small share of the kernel's Frobenius norm (*converged) or `cap` is reached.
 * landmarks [cap], *count set, ascending. */
cst_status cst_landmarks_residual(cst_context *context, const cst_kernels *kernels, int32_t member,
                                  int64_t floor, int64_t cap, uint64_t seed, int64_t *landmarks,
                                  int64_t *count, bool *converged);

/* As cst_hsic_exact, from features [K]: by cross-Grams, or by `probes` random signs. */
cst_status cst_hsic_features(cst_context *context, const cst_kernels *kernels,
                             const cst_features *features, cst_cka_statistic statistic,
                             double *hsic);
cst_status cst_hsic_probes(cst_context *context, const cst_kernels *kernels,
                           const cst_features *features, int64_t probes, uint64_t seed,
                           cst_cka_statistic statistic, double *hsic);

/* ---- similar pairs of many members by locality-sensitive hashing:
 * docs/method.md#hundreds-of-members ---- */

/* Members from which hashing may be chosen, and bits of all tables at most. */
enum { CST_LSH_MEMBERS = 200, CST_LSH_BITS = 2048 };

/* Cosine s shares a bit with p = 1 - acos(s) / pi, a bucket with 1 - (1 - p^b)^L. */
typedef struct cst_lsh_tables {
    int32_t bits;   /* b of a table, at most 32 */
    int32_t tables; /* L */
    double level;   /* proposed pairs below this cosine are not pursued */
} cst_lsh_tables;

/* Most bits within CST_LSH_BITS at which pairs of cosine `threshold` meet with 0.995. */
cst_lsh_tables cst_lsh_choose(double threshold);

/* Whether cst_cka hashes: `auto` does where that saves more time than sketches take. */
bool cst_lsh_wanted(const cst_view *view, const cst_cka_options *options);

/* HSIC of all pairs of some members into hsic [m*m]; members [m] may repeat. */
typedef cst_status (*cst_lsh_products)(cst_context *context, void *user, const cst_kernels *group,
                                       const int32_t *members, double *hsic);

/* The CKA of pairs that hashing proposes, from `products`, or, where it is NULL, over all rows or,
 * where that takes long or is asked for, a sample of them; of other pairs that of the sketches.
 * Fills all of `out` that cst_cka does after the bandwidths but for what `products` knows. */
cst_status cst_cka_hashed(cst_context *context, const cst_kernels *kernels,
                          const cst_cka_options *options, cst_lsh_products products, void *user,
                          cst_cka_result *out);
