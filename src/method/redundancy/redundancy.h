/* Redundant members: similarity of predictions, clusters, and the projection.
 * docs/method.md#s1-redundancy. */
#pragma once

#include "data/pool/costs.h"
#include "data/pool/view.h"

typedef enum cst_cka_estimator {
    CST_CKA_AUTO = 0,    /* the cheaper of exact and Nystrom (probes for high ranks), a sample where
                            both take long */
    CST_CKA_EXACT = 1,   /* every pair of rows: O(K N^2 C + K^2 N^2) */
    CST_CKA_NYSTROM = 2, /* low-rank features, pairs by their cross-Gram: O(K N m C + K^2 N r^2) */
    CST_CKA_PROBES = 3,  /* low-rank features, pairs by random signs: O(K N m C + K^2 N s) */
    CST_CKA_SAMPLE = 4   /* pairs of n sampled rows: O(K n C + K n m (p + K)), m partners of a row,
                            p products */
} cst_cka_estimator;

typedef enum cst_cka_precision {
    CST_CKA_PRECISION_AUTO = 0, /* double where that takes about a second */
    CST_CKA_DOUBLE = 1,
    CST_CKA_SINGLE = 2 /* of `exact` and `sample`; docs/method.md#s1-redundancy has the errors */
} cst_cka_precision;

typedef enum cst_cka_statistic {
    CST_CKA_BIASED = 0,  /* the paper's V-statistic; in [0, 1] */
    CST_CKA_UNBIASED = 1 /* U-statistic of Song et al. 2007 (debiased CKA); may be below 0 */
} cst_cka_statistic;

typedef enum cst_landmark_rule {
    CST_LANDMARKS_RESIDUAL = 0, /* randomly pivoted Cholesky until little of the kernel is left */
    CST_LANDMARKS_UNIFORM = 1 /* uniformly at random, the same rows for every member (the paper) */
} cst_landmark_rule;

typedef enum cst_cka_lsh {
    CST_LSH_AUTO = 0, /* from 200 members, where it saves more than it takes */
    CST_LSH_ON = 1,
    CST_LSH_OFF = 2
} cst_cka_lsh;

/* Zero-initialise for the defaults. */
typedef struct cst_cka_options {
    cst_cka_estimator estimator;
    cst_cka_statistic statistic;
    cst_landmark_rule landmark_rule;
    bool quiet;        /* nobody is told where the landmarks decide */
    int32_t draws;     /* of uniform landmarks, whose CKAs are averaged; 0: one */
    int32_t landmarks; /* m; 0: ceil(sqrt(N)) for `uniform`, as many as are needed for `residual` */
    int32_t probes;    /* s; 0: 256 */
    int32_t rows;      /* n of `sample`, all of whose pairs are taken; 0: as many rows as fit and
                          as many of their pairs as the standard error asks for */
    cst_cka_precision precision;
    cst_cka_lsh lsh;  /* whether only pairs that hashing proposes are computed */
    double threshold; /* that such pairs exceed, at most 1; 0: not known, all pairs are computed */
    uint64_t seed;
} cst_cka_options;

/* Owned by the caller; free with cst_cka_result_free. K members. */
typedef struct cst_cka_result {
    cst_scope scope;
    int32_t members;    /* K */
    double *cka;        /* [K*K], symmetric, diagonal 1; 0 off the diagonal for a constant member */
    double *sigma;      /* [K], kernel bandwidths; 0 for a constant member */
    bool *constant;     /* [K], every row of the member is the same */
    int32_t *landmarks; /* [K], landmarks used; 0 for exact and for constant members */
    int32_t *rank;      /* [K], columns of the compressed features; 0 for exact */
    double *residual;   /* [K], share of the kernel's trace that the landmarks miss; 0 for exact */
    cst_cka_estimator estimator; /* the one used, never CST_CKA_AUTO */
    int32_t probes;              /* s used, 0 without probes */
    int64_t rows;                /* whose pairs were taken: all, or n of `sample` */
    int64_t partners;            /* rows that each of them was paired with; 0 for Nystrom, probes */
    double standard_error; /* of the worst pair, by sampling rows and pairs; 0: none sampled, NaN:
                              not known */

    /* With hashing; else NULL and 0, as every pair is computed. */
    bool *estimated;     /* [K*K], symmetric: the value comes from sketches */
    int32_t lsh_tables;  /* L */
    int32_t lsh_bits;    /* b of a table */
    int64_t proposed;    /* pairs that share a bucket and whose sketches are alike */
    int64_t computed;    /* pairs whose CKA was computed for it */
    double recall;       /* share of the pairs above the threshold that are computed, estimated */
    int32_t checked;     /* pairs, drawn from the others, that the recall is estimated from */
    double sketch_error; /* root mean square error of the sketches on proposed pairs */
} cst_cka_result;

/* All-pairs CKA: the kernel is exp(-|a - b|^2 / (2 sigma_k^2)), sigma_k the median distance of at
 * most 1000 seeded rows (a zero median: the mean). At least 2 rows, 4 for the unbiased statistic.
 * Same bytes for any number of threads. */
cst_status cst_cka(cst_context *context, const cst_view *view, const cst_cka_options *options,
                   cst_cka_result *out);
void cst_cka_result_free(cst_context *context, cst_cka_result *result);

/* Correlations of flattened columns, pearson [K*K], diagonal 1; 0 for constant columns. */
cst_status cst_pearson(cst_context *context, const cst_view *view, double *pearson);
/* The same; of more than 256 members on about 2^18 numbers of each, evenly spread. */
cst_status cst_pearson_about(cst_context *context, const cst_view *view, double *pearson);

/* Condition number of the correlation matrix [K*K] restricted to `subset` [count] (NULL: all K, and
 * count is ignored): largest eigenvalue over the smallest that is at least 1e-10 of it. NaN for
 * no member. */
cst_status cst_gram_kappa(cst_context *context, const double *correlation, int32_t members,
                          const int32_t *subset, int32_t count, double *kappa);

/* Members and rows for condition numbers of the CKA matrix. */
enum { CST_CKA_CONDITION_MEMBERS = 199, CST_CKA_CONDITION_ROWS = 4 };

/* Of the CKA matrix; NaN where a pair was estimated by hashing, or without members. */
cst_status cst_cka_kappa(cst_context *context, const cst_cka_result *cka, const int32_t *subset,
                         int32_t count, double *kappa);

/* Average-linkage clusters of a similarity matrix [K*K]: the two with the largest mean similarity
 * are merged while it exceeds `threshold`. cluster_of [K] is numbered from 0 by first member. */
cst_status cst_clusters(cst_context *context, const double *similarity, int32_t members,
                        double threshold, int32_t *cluster_of);

/* Threshold in the middle of the largest gap of sorted similarities (ties: the highest). Without a
 * gap *tau is 1 and *found false. */
cst_status cst_elbow_threshold(cst_context *context, const double *similarity, int32_t members,
                               double *tau, bool *found);

typedef enum cst_drop_reason {
    CST_KEPT = 0,
    CST_DROPPED_REDUNDANT = 1, /* too similar to a kept member of no higher risk */
    CST_DROPPED_CONSTANT = 2,  /* says the same for every sample */
    CST_DROPPED_COUNT = 3,     /* the cap on the number of members was reached */
    CST_DROPPED_COST = 4       /* would exceed the cap on the total cost */
} cst_drop_reason;

typedef struct cst_projection_rule {
    double tau;           /* redundant above this similarity with a kept member */
    int32_t cap_count;    /* most members kept; 0: no cap */
    cst_limits limits;    /* on the costs of the kept */
    cst_costs costs;      /* of the members; finite where they are limited */
    bool equal_only;      /* only members that are equal are redundant */
    bool keep_ties;       /* only a kept member of strictly lower risk makes one redundant */
    const bool *constant; /* [K] members to leave out as constant, or NULL */
} cst_projection_rule;

/* Owned by the caller; free with cst_projection_free, also after a failure. */
typedef struct cst_projection {
    cst_scope scope;
    int32_t members;         /* K */
    int32_t kept_count;      /* K_eff */
    int32_t *kept;           /* [kept_count of K], ascending risk */
    cst_drop_reason *reason; /* [K] */
    int32_t *partner;   /* [K], kept member (with keep_ties: of lower risk) most similar to this one
                           at the time of the decision; -1 if there was none */
    double *similarity; /* [K], similarity with the partner; NaN without one */
} cst_projection;

/* Keeps members in ascending order of risk (ties: lower index) unless the similarity with a kept
 * one exceeds tau or a cap refuses; of equal members the cheaper. keep_ties, as in the paper: only
 * kept members of strictly lower risk count. At least the one with the lowest risk is kept. */
cst_status cst_project(cst_context *context, const double *similarity, int32_t members,
                       const double *risk, const cst_projection_rule *rule, cst_projection *out);
void cst_projection_free(cst_context *context, cst_projection *projection);

/* Thresholds between neighbouring similarities that change the kept set under `rule` (its tau is
 * ignored), thinned evenly to at most `capacity` >= 1 with the lowest and the highest. taus
 * [capacity], ascending, *count of them set. */
cst_status cst_threshold_candidates(cst_context *context, const double *similarity, int32_t members,
                                    const double *risk, const cst_projection_rule *rule,
                                    int32_t capacity, double *taus, int32_t *count);

/* One-standard-error rule over loss [count][folds] by ascending tau: *best has the lowest mean,
 * *chosen is the lowest tau within one standard error of it. Candidates with a loss that is not
 * finite are never chosen. */
cst_status cst_threshold_cv(cst_context *context, const double *loss, int32_t count, int32_t folds,
                            int32_t *chosen, int32_t *best);
