/* The log-linear pool: softmax(sum_k w_k log p_k + b), fitted by Newton on the categorical
 * likelihood with Gaussian priors; a meta-learner, and the space where members are selected. Paper:
 * section "Laplace-Approximate Bayesian Blender", which leaves the meta-learners open. */
#pragma once

#include "core/scope.h"
#include "data/pool/view.h"
#include "method/calibration/calibration.h"

/* ---- compact tables: per sample the label and classes with a mean probability q_c of at least a
 * cut; of the rest a systematic sample by row number, with chance pi_c = q_c / cut and score -
 * log(pi_c), so that the mean of sum exp(score) is over all classes ---- */

/* Parts of ranks begin at a multiple of so many blocks. */
#define CST_COMPACT_GRAIN 4

/* Up to so many classes a table keeps all of them, and nothing is lost. */
#define CST_COMPACT_CLASSES 64

/* Entries of a row are a multiple of so many where classes are left out: behind those that are kept
 * come some of class -1, with probability 1 and an offset that leaves them no mass. */
#define CST_COMPACT_PAD 8
#define CST_COMPACT_NO_MASS (-1e30F)

typedef struct cst_compact_options {
    double cut;       /* mean probability from which a class is kept as it is; 0: every class */
    int64_t max_rows; /* at most about so many rows, thinned evenly in each fold; 0: no limit */
    const double *class_weights; /* [classes]: how much the loss of a row of the class counts; NULL:
                                    1. Of fits and held-out losses, not of the table itself */
    double share; /* of the uniform distribution, mixed into every member; 0: a share for each
                     member by its own NLL. Of fits, not of the table itself */
} cst_compact_options;

/* cut 1e-3, 100,000 rows. */
cst_compact_options cst_compact_defaults(void);

/* Rows b * CST_BLOCK_ROWS and on. Entries of row i: first[i] .. first[i + 1] - 1. */
typedef struct cst_compact_block {
    int64_t *first;   /* [rows of the block + 1] */
    int32_t *label;   /* [rows]: which of the row's entries is the label */
    int32_t *classes; /* [entries]: ascending within a row; NULL where every class is there */
    float *offset;    /* [entries]: added to the score; NULL where every class is there */
    float *p;         /* for each row [members][its entries] */
    float *logs;      /* the same: logs under the table's mixing; NULL where it has none */
    double *exact;    /* the same of a table with every class */
} cst_compact_block;

typedef struct cst_compact {
    cst_scope scope; /* of the arrays */
    int64_t rows;
    int64_t first;    /* blocks that this rank has: all, or its part where work is shared */
    int64_t last;     /* the block after these */
    int32_t classes;  /* C */
    int32_t members;  /* K */
    int64_t together; /* blocks of a segment */
    bool every_class;
    double cut;
    double *log_mix;    /* [members]: mixing of the logs; NULL where there are none */
    const float **data; /* [members]: what the view had there, by which a member is known */
    int64_t *split_row; /* [rows]: ascending rows of the split */
    cst_compact_block *block;
} cst_compact;

/* Table of the rows of a labelled view at `positions` ([count], ascending; NULL: every row). */
cst_status cst_compact_build(cst_context *context, const cst_view *view, const int64_t *positions,
                             int64_t count, double cut, cst_compact *out);
void cst_compact_free(cst_context *context, cst_compact *table);

/* Takes the logs of a table once for all passes, where they fit in a part of the memory there may
 * be: in float32 where classes are left out, else in float64. Results are equal with and without.
 * mix: [members], how much of the uniform distribution is in each. */
cst_status cst_compact_logs(cst_context *context, const double *mix, cst_compact *table);

/* `table` under another mixing: a table that shares all but its logs with it, for passes that
 * follow one another. It has no logs where they would take too much memory. mix: [members]. Free
 * it before `table`. */
cst_status cst_compact_remixed(cst_context *context, const cst_compact *table, const double *mix,
                               cst_compact *out);

/* Bytes of entries, offsets and probabilities, of the blocks that this rank has. */
size_t cst_compact_bytes(const cst_compact *table);

/* Attaches a table to a view, for the log tables of the view and of views made of it. The table has
 * rows of the view's split and the view's members, maybe more of either, and must outlive these
 * views. NULL leaves the view as it is. */
static inline void cst_compact_attach(cst_view *view, const cst_compact *table) {
    if (table)
        view->attached = table;
}
/* The table attached to a view, or NULL. Nothing else is ever attached. */
static inline const cst_compact *cst_compact_of(const cst_view *view) {
    return view->attached;
}

/* Positions of about `most` of `rows` rows, spread evenly over each fold and ascending; *out is the
 * caller's, *count its length. folds: [rows] or NULL; most 0 or at least `rows`: all of them. */
cst_status cst_thin_rows(cst_context *context, int64_t rows, const int32_t *folds,
                         int32_t fold_count, int64_t most, int64_t **out, int64_t *count);

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
 * NULL. options NULL: defaults. Free all tables also after a failure. */
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
    double prior_scale; /* precision of their common scale around 1/K_eff, the geometric average */
    double prior_bias;  /* precision of b_c around 0, total scale, > 0 */
    double tolerance;   /* stop when half the squared Newton decrement is below it (nats, total) */
    double trusted; /* from half the squared decrement of this on, one more step is taken and the
                       pass that would look at its end is saved: nll and hessian are those
                       before the step; 0: never */
    double trusted_share; /* the same from this share of the loss on, where that is more */
    double polish; /* half the squared decrement at the end on every class of every row, where the
                      table is a sample */
    cst_compact_options compact; /* which classes and rows the steps before that look at */
    const double *start_bias;    /* [classes]: biases to begin from; NULL: 0 */
    const double *tilt; /* [members + classes] of the table: its product with weights and biases is
                           added to the loss, as soft targets do; NULL: 0 */
    const double *seen; /* `seen` of a fit on the same table and members, to begin from in
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

/* ---- Newton's pass ---- */

typedef struct cst_pass {
    const cst_logtable *table;
    const int32_t *active; /* [count]: members of the table */
    int32_t count;         /* K_eff */
    int32_t parameters;    /* d: count, and classes with biases */
    const double *weights; /* [count] */
    const double *bias;    /* [classes] or NULL */
    bool derivatives;
    double *per_row; /* [rows] or NULL: losses of the table's rows */
} cst_pass;

/* sum: the total NLL over the table's rows, each counted `weight` times; with derivatives [1 + d +
 * d*d]: then the gradient and the Hessian's lower triangle. */
cst_status cst_pass_run(cst_context *context, const cst_pass *pass, double *sum);

/* theta [members + 1][classes]: weights, then biases of softmax_c(sum_k w_kc log max(p_kc, 1e-15) +
 * b_c), from a start to the least NLL with priors that draw a member's weights to their mean. */
cst_status cst_classwise_fit(cst_context *context, const cst_view *view, double *theta);
/* Equal weights. */
void cst_classwise_start(const cst_view *view, double *theta);
/* The same as weights of members [members], the largest of their classes', and vector scalings.
 * maps: [members], the caller's to free. */
cst_status cst_classwise_maps(cst_context *context, const cst_view *view, const double *theta,
                              double *weights, cst_calibrator *maps);
/* Mixed into members that are to stay as they are. */
#define CST_LEAST_SHARE 1e-12

/* ---- kernels, also those of the exact pass and of compact tables ---- */

enum { CST_PASS_LANES = 4 };

/* out[e] = log(keep * p[e] + floor) in float64, and in float32. */
void cst_pass_logs(const float *p, int64_t count, double mix, int32_t classes, double *out);
void cst_pass_logs_f32(const float *p, int64_t count, double mix, int32_t classes, float *out);
/* Scores of one sample of `count` entries to probabilities; returns log of the normaliser. */
double cst_pass_softmax(int64_t count, double *z);
/* sum_e p[e] x[e] */
double cst_pass_dot(const double *p, const double *x, int64_t count);
