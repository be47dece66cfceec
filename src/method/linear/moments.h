/* Sums over the meta-design: counts, first and second moments of columns and target, per fold, in
 * one pass over the rows; all linear fits start here. Paper: section "Spectrum-Adaptive
 * Regularization"; docs/method.md#s2-and-s3-gate-and-penalties. */
#pragma once

#include "core/scope.h"
#include "data/pool/view.h"
#include "method/gate/gate.h"

/* Columns d of the design, then the target, then 1: the sum over rows of z z', z = (x - shift, y,
 * 1), holds every moment. `shift` is a rough mean (of rows spread over the view), which keeps the
 * centred sums accurate. */
typedef struct cst_moments {
    cst_scope scope; /* of the arrays */
    int32_t columns; /* d */
    int32_t folds;   /* L; 1 where no folds were given */
    cst_gate_mode mode;
    int32_t inputs; /* mode and inputs name the columns in notices; inputs = d without a gate */
    double *shift;  /* [d] */
    double *sums;   /* [folds][(d + 2) * (d + 2)], symmetric */
} cst_moments;

/* Target of class `c` for row `row` of the view: 1 for the true class, else 0. */
static inline double cst_design_target(const cst_view *view, int64_t row, int32_t c) {
    return cst_view_label(view, row) == c ? 1.0 : 0.0;
}

/* One pass over the view, whose rows count by their weights. folds [view->rows] in 0..fold_count-1,
 * or NULL (one group). The view must have labels and at least two classes. *out is zeroed first;
 * free with cst_moments_free. */
cst_status cst_moments_compute(cst_context *context, const cst_view *view, const cst_gate *gate,
                               const int32_t *folds, int32_t fold_count, cst_moments *out);

/* Designs on the same rows: a gate each, and the rows that count. */
typedef struct cst_moments_job {
    const cst_gate *gate;
    const int32_t *folds; /* [view->rows] in 0..fold_count-1, negative for rows that take no part;
                             NULL: all rows, one group */
    int32_t fold_count;
    cst_moments *out; /* zeroed first; free with cst_moments_free, also after a failure */
} cst_moments_job;

/* Moments of several designs in one pass: rows are read once, and what the designs have in common
 * (members, aggregators) is computed once. */
cst_status cst_moments_compute_all(cst_context *context, const cst_view *view,
                                   const cst_moments_job *jobs, int32_t count);

void cst_moments_free(cst_context *context, cst_moments *moments);

/* Sum over all folds but one (-1: over all of them): out [(d + 2) * (d + 2)]. */
void cst_moments_without(const cst_moments *moments, int32_t fold, double *out);

/* Whether such a sum has rows to fit: their weights' sum `rows` is above 0. Weights have mean 1
 * over all rows, so that those left without a heavy one may sum to less than 1. */
cst_status cst_moments_check(cst_context *context, double rows, int32_t without);

/* sum (y - intercept - x'w)^2 over the rows of one fold (fold < 0: all rows), and their number.
 * coefficients [d], raw units. */
double cst_moments_loss(const cst_moments *moments, int32_t fold, const double *coefficients,
                        double intercept, double *rows);

/* Columns centred and scaled to norm sqrt(n) (that is, divided by the population standard
 * deviation), constant columns dropped. */
typedef struct cst_standardised {
    cst_scope scope;      /* of the arrays, or empty where another has them */
    int32_t columns;      /* d of the design */
    int32_t kept;         /* columns that are not constant, k */
    double rows;          /* n: (sample, class) pairs, by the weights of the samples */
    int32_t *index;       /* [k]: position in the design */
    double *mean;         /* [k] */
    double *scale;        /* [k], positive */
    double *gram;         /* [k][k]: X'X/n, unit diagonal */
    double *cross;        /* [k]: X'y/n */
    double target_mean;   /* of y */
    double target_square; /* mean of (y - target_mean)^2 */
} cst_standardised;

/* Standardises the rows of all folds but `without` (negative: of all folds). A column is constant
 * when its standard deviation is at most 1e-10 of its root mean square. *out is zeroed first; free
 * with cst_standardised_free. */
cst_status cst_standardise(cst_context *context, const cst_moments *moments, int32_t without,
                           cst_standardised *out);
/* With arrays of the scope: not to be freed. */
cst_status cst_standardise_in(cst_context *context, cst_scope *scope, const cst_moments *moments,
                              int32_t without, cst_standardised *out);

void cst_standardised_free(cst_context *context, cst_standardised *standardised);

/* ---- slabs of rows of all members, out of which the rows of a fold are picked ---- */

typedef struct cst_slab {
    const cst_view *view;
    int64_t capacity;      /* rows that cst_slab_read may be asked for */
    int64_t chunk;         /* rows that cst_slab_pick may be asked for */
    float *scratch;        /* [members][capacity][classes] where the view's rows are not in place */
    float *gathered;       /* [members][chunk][classes] where a chunk has several rows */
    const float **rows;    /* [members] -> [capacity][classes]: the slab */
    const float **members; /* [members] -> [count][classes]: the rows picked last */
} cst_slab;

/* Memory for slabs of slab_rows rows and picks of `chunk`. */
cst_status cst_slab_open(cst_context *context, cst_scope *scope, const cst_view *view,
                         int64_t chunk, cst_slab *out);

/* Reads rows first..first+count-1 of the view. */
cst_status cst_slab_read(cst_context *context, cst_slab *slab, int64_t first, int64_t count);

/* Points slab->members at `count` rows of the slab (ascending, counted from its first), which are
 * copied together where they are apart. */
void cst_slab_pick(cst_slab *slab, const int64_t *rows, int64_t count);

/* ---- the spectrum of the normalised Gram, its noise edge and lambda* ---- */

/* How sigma^2, the noise level, is read off the spectrum. Eigenvalues below CST_SPECTRUM_NULL of
 * the largest are exact dependences, not noise, and left out of both rules; with fewer rows than
 * columns the second counts those that the missing rows force to zero. */
typedef enum cst_noise_rule {
    CST_NOISE_MEDIAN = 0, /* median of the lower half of the spectrum */
    CST_NOISE_BULK = 1    /* self-consistent: sigma^2 is the mean of the eigenvalues at or below
                             sigma^2 (1 + sqrt(gamma))^2 (the Marchenko-Pastur law of unit noise has
                             mean 1, so the mean needs no further factor), iterated from the first
                             rule until the set of eigenvalues no longer changes */
} cst_noise_rule;

#define CST_SPECTRUM_NULL 1e-10

/* Whose Gram matrix lambda* comes from. */
typedef enum cst_spectrum_of {
    CST_SPECTRUM_META = 0, /* of the meta-design, gamma = columns / its rows */
    CST_SPECTRUM_OOF = 1   /* of the kept members' out-of-fold columns, gamma = members / samples:
                              the paper */
} cst_spectrum_of;

/* The members' columns in a standardised design, which are its first. */
typedef struct cst_spectrum_members {
    int32_t count;   /* K_eff */
    int32_t classes; /* rows of the design for each sample; 1 in a regression */
} cst_spectrum_members;

typedef struct cst_spectrum {
    cst_scope scope; /* of the arrays */
    int32_t columns; /* k, of the standardised design */
    double rows;     /* n; of members' columns N */
    double *values;  /* [k], ascending, none below 0 */
    double *vectors; /* [k][k], row-major: column j belongs to values[j] */
    double *cross;   /* [k]: V'X'y/n, the target's correlations along the eigenvectors */
    double gamma;    /* k / n */
    double sigma2;
    double mp_edge;     /* tau_sp = sigma^2 (1 + sqrt(gamma))^2 */
    double snr;         /* sum above the edge / sum at or below it; infinity, or 0: no signal */
    double lambda_star; /* largest eigenvalue / snr; NaN where the snr is not finite and positive */
    double kappa;       /* largest / smallest eigenvalue that is not null */
    int32_t above;      /* eigenvalues above the edge */
} cst_spectrum;

/* *out is zeroed first; free with cst_spectrum_free. */
cst_status cst_spectrum_compute(cst_context *context, const cst_standardised *standardised,
                                cst_noise_rule rule, cst_spectrum *out);

/* Without vectors and cross, which are NULL, in less time. */
cst_status cst_spectrum_values(cst_context *context, const cst_standardised *standardised,
                               cst_noise_rule rule, cst_spectrum *out);

/* The values of the members' columns alone. CST_ERROR_INPUT where all of them are constant. */
cst_status cst_spectrum_of_members(cst_context *context, const cst_standardised *standardised,
                                   const cst_spectrum_members *members, cst_noise_rule rule,
                                   cst_spectrum *out);

void cst_spectrum_free(cst_context *context, cst_spectrum *spectrum);
