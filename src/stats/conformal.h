/* Split conformal prediction: sets of classes that hold the true one with a given probability if
 * calibration rows and later rows are exchangeable. docs/bounds.md#the-bounds. */
#pragma once

#include "stats/statistics.h"

/* How strange class c is for a row p. Classes are ordered by falling probability, equal ones by
 * index; before(c) is the mass of those before c, rank(c) its place from 1. */
typedef enum cst_conformal_method {
    CST_CONFORMAL_LAC = 0, /* 1 - p_c (Sadinle et al. 2019): the smallest sets on average */
    CST_CONFORMAL_APS = 1, /* before(c) + u p_c (Romano et al. 2020): more even over the rows */
    CST_CONFORMAL_RAPS = 2 /* APS + penalty max(0, rank(c) - free) (Angelopoulos et al. 2021) */
} cst_conformal_method;

typedef struct cst_conformal_options {
    cst_conformal_method method;
    double alpha;         /* of all sets, at most this share may miss; in (0, 1) */
    bool randomised;      /* u uniform in [0, 1), one a row; otherwise 1. Exact size, but the set of
                             a row is a matter of chance */
    double penalty;       /* RAPS; >= 0 */
    int32_t free_classes; /* RAPS; >= 0 */
    uint64_t seed;        /* of u */
} cst_conformal_options;

/* LAC at alpha 0.1; randomised, penalty 0.01 and 5 free classes for the others. */
cst_conformal_options cst_conformal_defaults(void);

typedef struct cst_conformal {
    cst_conformal_options options;
    int64_t samples;  /* n, of calibration */
    int64_t order;    /* the threshold is the score of this place, from 1; n + 1: there is none, and
                         every set is full */
    double threshold; /* classes whose score is at most this are in the set; may be infinite */
} cst_conformal;

/* Scores of every class for a row p; u: as above. values, scratch: [classes]. */
void cst_conformal_row(const cst_conformal_options *options, const float *row, int32_t classes,
                       double u, double *values, cst_rank_item *scratch, double *scores);

/* The place of the threshold among n scores: the k-th smallest with k = ceil((n + 1) (1 - alpha)).
 * From 1 to n + 1. */
int64_t cst_conformal_order(int64_t samples, double alpha);

/* Says that every set is full where so few samples have no threshold. */
void cst_conformal_tell(cst_context *context, int64_t samples, double alpha);

/* probabilities: [rows][classes], labels: [rows]. CST_ERROR_INPUT, with the row, for a label or a
 * row that is none. */
cst_status cst_conformal_calibrate(cst_context *context, const cst_conformal_options *options,
                                   const float *probabilities, int64_t rows, int32_t classes,
                                   const int32_t *labels, cst_conformal *out);

/* Coverage of later rows assured with probability 1 - delta: the quantile of Beta(order, n + 1 -
 * order). */
double cst_conformal_assured(const cst_conformal *conformal, double delta);

typedef struct cst_conformal_result {
    double coverage;  /* share of rows whose set holds the label */
    double mean_size; /* classes in a set */
    int64_t covered, empty;
    int64_t single; /* sets of one class */
} cst_conformal_result;

/* The sets of labelled rows in figures. */
cst_status cst_conformal_evaluate(cst_context *context, const cst_conformal *conformal,
                                  const float *probabilities, int64_t rows, int32_t classes,
                                  const int32_t *labels, cst_conformal_result *out);

/* ---- by parts of the rows ---- */

/* Rows of calibration: each in a part (Mondrian; Vovk 2003), with a cost if its label is missed. */
typedef struct cst_conformal_rows {
    int64_t rows;
    const double *scores; /* [rows] */
    const double *costs;  /* [rows], finite and >= 0; NULL: 1 each */
    double most;          /* the largest cost that any row can have; 1 without costs */
    const int32_t *parts; /* [rows], below part_count, negative: in none; NULL: all in part 0 */
    int32_t part_count;
} cst_conformal_rows;

/* For each part the least score (or -INFINITY) for which (costs of its rows above it + most) / (n +
 * 1) <= level: the expected cost of a later row of the part is at most `level` (conformal risk
 * control; Angelopoulos et al. 2022); without costs, its miss rate is. INFINITY where a part has
 * too few rows for that, so that the promise is kept. threshold: [part_count]. */
cst_status cst_conformal_by_parts(cst_context *context, const cst_conformal_rows *rows,
                                  double level, double *threshold);

/* ---- under shift ---- */

/* Weighted calibration rows: Tibshirani et al. 2019 (covariates); Podkopaev and Ramdas 2021
 * (labels). docs/bounds.md#under-shift. */

/* Scores of calibration, ascending, with the sums of their weights. */
typedef struct cst_weighted_scores {
    int64_t samples;
    double *score; /* [samples] */
    double *sum;   /* [samples]: of the weights up to this score */
    double total;
    double effective; /* (sum of weights)^2 / sum of squares: as many rows of equal weight */
} cst_weighted_scores;

/* scores, weights: [samples]; weights are finite, none negative. */
cst_status cst_weighted_scores_make(cst_context *context, cst_scope *scope, const double *scores,
                                    const double *weights, int64_t samples,
                                    cst_weighted_scores *out);

/* The least score with (1 - alpha) of the weight of all scores and of `own`, the weight of the
 * predicted row; INFINITY, every class, without one. */
double cst_weighted_threshold(const cst_weighted_scores *scores, double alpha, double own);

/* Density at a level (Grenander): that of the next larger of levels [rows], ascending, else 0. */
double cst_density_at(const double *levels, const double *density, int64_t rows, double level);
