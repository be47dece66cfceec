/* The log-linear pool: softmax(sum_k w_k log p_k + b), fitted by Newton on the categorical
 * likelihood with Gaussian priors; a meta-learner, and the space where members are selected. Paper:
 * section "Laplace-Approximate Bayesian Blender", which leaves the meta-learners open. */
#ifndef CST_LOGLINEAR_H
#define CST_LOGLINEAR_H

#include "core/scope.h"
#include "method/loglinear/compact.h"

/* Samples that a pool is fitted to or judged on: rows of a compact table, and how much of the
 * uniform distribution is mixed into each member before its logarithm is taken:
 * log((1 - mix_k) p + mix_k / C), so that a member's hard zeros cost a bounded, fitted amount. */
typedef struct cst_logtable {
    cst_scope scope; /* of the arrays */
    int64_t rows;
    int32_t classes;
    int32_t members;   /* of the view it was opened on */
    double weight;     /* rows of the view for each of these: 1 unless they were thinned */
    double *mix;       /* [members] */
    double share;      /* the options' */
    int32_t *columns;  /* [members]: member of the compact table */
    int64_t *row;      /* [rows]: row of the compact table */
    int64_t *position; /* [rows]: row of the view, ascending */
    const cst_compact *compact;
    cst_compact *own;            /* NULL where the compact table is another's */
    const double *class_weights; /* [classes]: how much a row of the class counts; NULL: 1. The
                                    options' */
    double *row_weights;         /* [rows]: how much each counts besides; NULL: 1. The view's */
} cst_logtable;

/* Whether rows count differently. */
static inline bool cst_logtable_weighted(const cst_logtable *table) {
    return table->class_weights || table->row_weights;
}

/* How much a row counts, whose label is `class`. */
static inline double cst_logtable_weight(const cst_logtable *table, int64_t row, int32_t class) {
    double weight = table->class_weights ? table->class_weights[class] : 1;
    return table->row_weights ? weight * table->row_weights[row] : weight;
}

/* A row of the compact table. */
typedef struct cst_logrow {
    const cst_compact_block *block;
    int64_t from;  /* its first entry */
    int64_t count; /* of entries */
    int64_t label; /* entry of the label, from the first on */
    int32_t class; /* of the label */
} cst_logrow;

static inline cst_logrow cst_logrow_at(const cst_logtable *table, int64_t row) {
    int64_t at = table->row[row] % CST_BLOCK_ROWS;
    const cst_compact_block *block = &table->compact->block[table->row[row] / CST_BLOCK_ROWS];
    int64_t from = block->first[at];
    int32_t label = block->label[at];
    return (cst_logrow){.block = block,
                        .from = from,
                        .count = block->first[at + 1] - from,
                        .label = label,
                        .class = block->classes ? block->classes[from + label] : label};
}

/* Where the numbers of a member of the table begin in the block's p, logs or exact. */
static inline int64_t cst_logrow_of(const cst_logtable *table, const cst_logrow *row,
                                    int32_t member) {
    return row->from * table->compact->members + row->count * table->columns[member];
}

/* Whether the compact table has a member's logs under the same mixing. */
static inline bool cst_logtable_has_logs(const cst_logtable *table, int32_t member) {
    const double *mix = table->compact->log_mix;
    return mix && mix[table->columns[member]] == table->mix[member];
}

/* Sum over the blocks of the compact table, `together` of them at a time: `term` adds the table's
 * rows from..end-1, those of its blocks, to sum. square: as of cst_reduce_grained. per_row: [rows]
 * that terms fill, or NULL. Ranks share the work, each with the blocks that it has. */
typedef cst_status (*cst_logtable_fn)(cst_context *worker, const void *user, int64_t from,
                                      int64_t end, double *sum);
cst_status cst_logtable_sum(cst_context *context, const cst_logtable *table, int64_t together,
                            size_t width, size_t square, cst_logtable_fn term, const void *user,
                            double *total, double *per_row);

/* The rows of a labelled view, thinned where there are more than options->max_rows. The compact
 * table is the view's where it has one, else a new one. Mixing is left at 0. folds: [view->rows] or
 * NULL. options NULL: defaults. */
cst_status cst_logtable_open(cst_context *context, const cst_view *view, const int32_t *folds,
                             int32_t fold_count, const cst_compact_options *options,
                             cst_logtable *out);
void cst_logtable_free(cst_context *context, cst_logtable *table);

/* A compact table for cst_compact_attach, which log tables of the view, and of views with fewer of
 * its members or rows, are then opened on; with logs under the mixing fitted to its rows where
 * memory allows. Free it with cst_logtable_unshare, which accepts NULL. */
cst_status cst_logtable_share(cst_context *context, const cst_view *view, const int32_t *folds,
                              int32_t fold_count, const cst_compact_options *options,
                              cst_compact **out);
void cst_logtable_unshare(cst_context *context, cst_compact *shared);

/* The rows outside a fold and those in it, which share `whole` and must not outlive it. Mixing is
 * fitted on *in. folds: [view->rows] of the view. */
cst_status cst_logtable_split(cst_context *context, const cst_logtable *whole, const int32_t *folds,
                              int32_t fold, cst_logtable *in, cst_logtable *held);

/* Sets the mixing: the table's share for every member, or else for each member the one with the
 * least mean NLL on the table's rows, from the grid 1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1.
 */
cst_status cst_logtable_mix(cst_context *context, cst_logtable *table);

/* Mixing fitted on `fit`, and the tables of both views under it: what fitting on some rows and
 * judging on others needs. Free both. */
cst_status cst_logtable_pair(cst_context *context, const cst_view *fit, const cst_view *judge,
                             cst_logtable *table, cst_logtable *held);

/* Most classes with biases: a fit holds some matrices of (members + classes)^2 doubles, of half a
 * GiB each here. */
#define CST_BIAS_CLASSES 8192

typedef struct cst_loglinear_options {
    bool bias;     /* fit one bias per class, of up to CST_BIAS_CLASSES */
    bool evidence; /* set the prior precisions by MacKay's evidence, starting from those below; of
                      weights, those that are not at their bound */
    bool nonnegative;     /* weights at or above 0; nll, hessian and decrement are those of the
                             bounded optimum */
    double prior_weights; /* precision of the differences between weights, total scale, > 0 */
    double prior_scale;   /* precision of their common scale around `center`, total scale, > 0 */
    double prior_bias;    /* precision of b_c around 0, total scale, > 0 */
    double center;        /* prior mean of every w_k; < 0 means 1/K_eff, the geometric average */
    double tolerance; /* stop when half the squared Newton decrement is below it (nats, total) */
    int iterations;   /* at most this many Newton steps */
    double trusted;   /* from half the squared decrement of this on, one more step is taken and the
                         pass that would look at its end is saved: nll and hessian are those
                         before the step; 0: never */
    double trusted_share; /* the same from this share of the loss on, where that is more */
    double polish; /* half the squared decrement at the end on every class of every row, where the
                      table is a sample */
    cst_compact_options compact; /* which classes and rows the steps before that look at */
    const double *start_bias;    /* [classes]: biases to begin from; NULL: 0 */
    const double *seen;          /* `seen` of a fit on the same table and members, to begin from in
                                    place of its weights, without another pass; NULL: none */
    bool keep_seen;
} cst_loglinear_options;

cst_loglinear_options cst_loglinear_defaults(void);

typedef struct cst_loglinear {
    cst_scope scope; /* of the arrays */
    int32_t members; /* K_eff */
    int32_t classes; /* C */
    double *weights; /* [members] */
    double *bias;    /* [classes]; all zero without bias */
    double
        *hessian;  /* [d][d] of the penalised total loss at the optimum, d = members (+ classes) */
    double *slack; /* [members]: slope of the penalised loss in weights held at 0; 0 elsewhere */
    double *seen;  /* [d + 1 + d + d*d]: the last point that a pass has looked at, with its loss,
                      gradient and Hessian without priors; NULL unless options->keep_seen */
    int32_t parameters;   /* d */
    double nll;           /* total NLL on the rows it was fitted to, without the priors */
    double prior_weights; /* the precisions used */
    double prior_bias;
    double decrement; /* half the squared Newton decrement at the result */
    double begun;     /* the same at the start */
    int iterations;
} cst_loglinear;

/* Fits on the table's rows with the members active[0..count-1] (columns of the table). `start`:
 * [count] weights to begin from, or NULL. */
cst_status cst_loglinear_fit(cst_context *context, const cst_logtable *table, const int32_t *active,
                             int32_t count, const cst_loglinear_options *options,
                             const double *start, cst_loglinear *out);
void cst_loglinear_free(cst_context *context, cst_loglinear *fit);

/* Choices by cross-validation over the folds before a fit. All zero: none. */
typedef struct cst_loglinear_cv {
    bool prior;          /* the prior of the weights */
    bool brief;          /* compare fewer priors: 10, 1 and 100 */
    bool share;          /* the mixing: one share for all members instead of each member's own */
    const double *start; /* [view->members]: weights near the optimum; NULL: unknown */
    double *loss; /* out: [view->rows] held-out NLL of each row under the choice, NaN for rows that
                     the table has not; NULL: not wanted */
} cst_loglinear_cv;

/* The whole of it on the rows of a view: compact table, mixing [view->members], cross-validation,
 * whose choices are set in `options`, the fit, and its polish where the table is a sample of
 * classes or rows. logdet (may be NULL): as cst_loglinear_logdet. */
cst_status cst_loglinear_pool(cst_context *context, const cst_view *view, const int32_t *folds,
                              int32_t fold_count, const cst_loglinear_cv *cv,
                              cst_loglinear_options *options, double *mix, cst_loglinear *out,
                              double *logdet);

/* Cross-validation on a table of the choices set in `options`: prior precision, biases, mixing
 * (kept unless another is better by more than two paired standard errors). loss: [table->rows], of
 * cv->loss. folds: of the view's rows, 0..fold_count-1, none without rows of the table. */
cst_status cst_loglinear_cv_run(cst_context *context, const cst_logtable *table,
                                const int32_t *folds, int32_t fold_count,
                                const cst_loglinear_cv *cv, cst_loglinear_options *options,
                                double *loss);

/* Gradient [count] and Hessian (in out->hessian, full) of the total NLL without biases at given
 * weights, each with the prior's curvature `prior` on the Hessian's diagonal: what a score test
 * needs. */
cst_status cst_loglinear_curvature(cst_context *context, const cst_logtable *table,
                                   const int32_t *active, int32_t count, double prior,
                                   const double *weights, double *gradient, cst_loglinear *out);

/* log det of the Hessian for columns with unit standard deviation over the (sample, class) rows,
 * comparable with the linear meta-learners'. spread: from loglinear_polish, of every row of the
 * view; NULL: computed from the table, unbiased where that is a sample. */
cst_status cst_loglinear_logdet(cst_context *context, const cst_logtable *table,
                                const int32_t *active, const cst_loglinear *fit,
                                const double *spread, double *logdet);

/* Mean NLL of fixed weights and bias (NULL: zero) on a table; per_row [rows] may be NULL. */
cst_status cst_loglinear_loss(cst_context *context, const cst_logtable *table,
                              const int32_t *active, int32_t count, const double *weights,
                              const double *bias, double *mean, double *per_row);

/* Probabilities of one row: logs [classes][stride] with column j at logs[c*stride + active[j]].
 * out: [classes]. */
void cst_loglinear_row(const float *logs, int32_t classes, int32_t stride, const int32_t *active,
                       int32_t count, const double *weights, const double *bias, double *out);

/* The value stored in a log table for a probability. */
float cst_mixed_log(float probability, double mix, int32_t classes);

#endif
