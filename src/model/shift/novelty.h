/* How unlike the rows of a fit other rows are, without labels: a level per row and a test of a
 * batch. docs/method.md, "Under shift". */
#pragma once

#include "core/scope.h"
#include "data/pool/view.h"

enum {
    CST_NOVELTY_ROWS_MAX = 32768, /* reference rows: at most, and at least for a test */
    CST_NOVELTY_ROWS_MIN = 200,
    CST_NOVELTY_CLASS_MIN = 100,  /* reference rows of a class with a table of its own */
    CST_NOVELTY_MEMBERS_MAX = 32, /* members in the distance M: more are thinned out evenly */
    CST_NOVELTY_BATCH_MIN = 50    /* rows of a batch that is judged */
};

/* A sample of keys (small: unlike the fit), kept at some of its ranks: at every rank up to `fine`,
 * then at ranks that grow by 1/fine each. */
typedef struct cst_novelty_table {
    int64_t rows;  /* N of the sample */
    int32_t fine;  /* at least 1 */
    int32_t knots; /* as many as N and `fine` give: cst_novelty_knots */
    uint32_t *key; /* [knots], ascending */
    int32_t *rank; /* [knots], from 1; the last is N */
} cst_novelty_table;

typedef struct cst_novelty {
    int32_t classes;
    int32_t members; /* kept ones of the stack, K */
    int64_t rows;    /* reference rows */
    int32_t others;
    char **other_names;         /* [others]: members of the pool that the stack leaves out */
    int32_t size;               /* members in the distance, at most CST_NOVELTY_MEMBERS_MAX */
    int32_t *place;             /* [size]: which of the kept ones, ascending */
    double *mean;               /* [size] of log(H + 1e-3) */
    double *covariance;         /* [size][size], 1e-3 added to the diagonal */
    double *factor;             /* [size][size]: inverse of its lower Cholesky factor */
    cst_novelty_table spread;   /* of J, the members' disagreement */
    cst_novelty_table distance; /* of M */
    int32_t tables;
    cst_novelty_table *score; /* [tables] of S; the first is that of classes without their own */
    int32_t *table_of;        /* [classes]: of the class that the average predicts */
} cst_novelty;

/* The reference of the rows of a view of the kept members. folds: [rows], 0..fold_count-1, so that
 * no row's distance is measured with itself. *out is NULL, without an error, where there are fewer
 * than CST_NOVELTY_ROWS_MIN rows or two classes. */
cst_status cst_novelty_fit(cst_context *context, cst_scope *scope, const cst_view *kept,
                           const int32_t *folds, int32_t fold_count, cst_novelty **out);

/* Levels [rows] of a view of the kept members, in (0, 1]: small ones are unlike the fit, rows like
 * the fit's have uniform ones. Without absent members (presence, or no data) the others count; a
 * row that no member predicted has level 1. Equal bytes for any number of threads. */
cst_status cst_novelty_levels(cst_context *context, const cst_novelty *novelty,
                              const cst_view *kept, double *level);

/* The level of one row, for a stream: rows[k] are the C probabilities of kept member k; all are
 * there. work: [2 C]. Allocates nothing. */
double cst_novelty_row(const cst_novelty *novelty, const float *const *rows, float *work);

/* Findings of a test of a batch. */
typedef struct cst_novelty_found {
    int64_t rows;
    int64_t above; /* rows with a level over 1/2 */
    bool judged;   /* it has CST_NOVELTY_BATCH_MIN rows */
    bool fired;    /* some row has lambda > 0 */
    double pi;     /* upper bound of the share of rows like those of the fit; 1: not judged */
    double unlike; /* 1 - pi */
    double lambda; /* mean of the rows' */
} cst_novelty_found;

/* Tests a batch. ratio [rows], may be NULL: Grenander's density of the levels at each row's level,
 * 1 where pi is 1. lambda [rows]: how far each row is to lean on the average, 0 where pi is 1.
 * Levels are from 0 (excluded) to 1; CST_ERROR_ARGUMENT for others. */
cst_status cst_novelty_batch(cst_context *context, const double *level, int64_t rows, double *ratio,
                             double *lambda, cst_novelty_found *found);
/* The test of a window: its levels [rows] in ascending order, of which `above` are over 1/2.
 * Returns the lambda of a level that is one of them. hull: [rows + 1]. Allocates nothing. */
double cst_novelty_sorted(const double *sorted, int64_t rows, int64_t above, double level,
                          int64_t *hull, cst_novelty_found *found);

/* ---- for files ---- */

/* Number of knots of a table. */
int32_t cst_novelty_knots(int64_t rows, int32_t fine);
/* Room for the knots of a table, with their ranks. rows, fine >= 1. */
cst_status cst_novelty_table_alloc(cst_context *context, cst_scope *scope, int64_t rows,
                                   int32_t fine, cst_novelty_table *table);
/* The factor of the covariance. CST_ERROR_NUMERIC where it is not positive definite. */
cst_status cst_novelty_factor(cst_context *context, cst_novelty *novelty);
