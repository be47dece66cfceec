/* The gate g: [0,1]^K -> [0,1]^12, a two-layer perceptron that weighs the aggregators of each
 * (sample, class) pair. Paper: section "Differentiable Meta-Feature Gate";
 * docs/method.md#s2-and-s3-gate-and-penalties. */
#pragma once

#include "core/base.h"
#include "core/scope.h"
#include "core/wide.h"
#include "data/pool/view.h"

/* Columns, in this order. Standard deviations are of the population (divided by K). Quartiles and
 * the median interpolate linearly between order statistics (NumPy's default). Logarithms are
 * natural, 0 log 0 = 0. */
enum {
    CST_AGGREGATE_MEAN = 0,
    CST_AGGREGATE_SD = 1,
    CST_AGGREGATE_MEDIAN = 2,
    CST_AGGREGATE_RANGE = 3,
    CST_AGGREGATE_Q25 = 4,
    CST_AGGREGATE_Q75 = 5,
    CST_AGGREGATE_ENTROPY = 6, /* of the mean prediction; the same for every class of a sample */
    CST_AGGREGATE_MEAN_SD = 7,
    CST_AGGREGATE_MEAN_SQUARED = 8,
    CST_AGGREGATE_RANGE_SD = 9,
    CST_AGGREGATE_SD_SQUARED = 10,
    CST_AGGREGATE_DIVERGENCE = 11, /* KL(best single member || mean); the same for every class */
    CST_AGGREGATORS = 12
};

/* Whether a share that comes through is less than half of what training starts with, 1/2. */
static inline bool cst_gate_suppresses(double passed) {
    return passed < 0.25;
}

/* "mean", "sd", "median" and so on. */
const char *cst_aggregator_name(int32_t aggregator);

/* Doubles of scratch for any of the functions below with `members` members. */
size_t cst_aggregate_scratch(int32_t members);

/* ---- in tiles: what the design and the prediction path use ---- */

/* (sample, class) pairs handled together, laid out column by column so that loops vectorise. */
enum { CST_TILE = 128 };

/* Entropy of the mean and KL(best || mean) of each sample: entropy [count], divergence [count]. */
void cst_aggregate_samples(const float *const *members, int32_t member_count, int32_t best,
                           int64_t count, int32_t classes, double *entropy, double *divergence,
                           double *scratch);

/* Aggregators of the pairs first..first+size-1 of the flattened [count * classes] rows, size <=
 * CST_TILE: columns [12][CST_TILE]. entropy and divergence as cst_aggregate_samples gives them, or
 * both NULL: those two columns are then left alone. */
void cst_aggregate_tile(const float *const *members, int32_t member_count, int32_t classes,
                        int64_t first, int64_t size, const double *entropy,
                        const double *divergence, double *columns, double *scratch);

/* Those two columns alone, in the tile `columns` [12][CST_TILE]. */
void cst_aggregate_broadcast(int32_t classes, int64_t first, int64_t size, const double *entropy,
                             const double *divergence, double *columns);

typedef enum cst_gate_mode {
    CST_GATE_NONE = 0,      /* the design is the members alone */
    CST_GATE_PROTOTYPE = 1, /* g = 1 on mean, sd, median, range, mean*sd, range*sd; 0 elsewhere */
    CST_GATE_LEARNED = 2    /* the perceptron */
} cst_gate_mode;

/* A fitted gate: plain data, all a model file has to store. g(p) = sigmoid(w2 relu(w1 p + b1) +
 * b2), with the standardisation of the inputs already folded into w1 and b1. Immutable after the
 * fit. */
typedef struct cst_gate {
    cst_gate_mode mode;
    int32_t inputs; /* K_eff, set in every mode */
    int32_t hidden; /* h; 0 unless learned */
    int32_t best;   /* position of the best single member, for the divergence column */
    float *w1;      /* [hidden][inputs]; the four arrays are NULL unless learned */
    float *b1;      /* [hidden] */
    float *w2;      /* [12][hidden] */
    float *b2;      /* [12] */
    /* Findings of the training; not needed to predict. */
    int32_t epochs;     /* epochs run */
    int32_t best_epoch; /* epoch that was kept; 0: no epoch beat the constant gate g = 1/2 */
    int64_t train_rows; /* (sample, class) rows trained on */
    double loss_start;  /* held-out mean squared error, in units of the target's variance, of the */
    double loss_best;   /* best head on the constant gate, and of the epoch that was kept */
    double passed[CST_AGGREGATORS]; /* sum of g a over the rows drawn, divided by that of a */
} cst_gate;

typedef struct cst_gate_options {
    cst_gate_mode mode;
    int32_t hidden;             /* h, 1.. */
    int32_t epochs;             /* at most */
    int32_t batch_rows;         /* rows of a mini-batch */
    double learning_rate;       /* Adam's */
    double validation_fraction; /* of the samples (not rows) held out for early stopping, (0, 1) */
    int32_t patience;           /* epochs without improvement before stopping */
    int64_t max_rows;           /* (sample, class) rows drawn when there are more */
    int32_t max_parameters;     /* the paper's 15,000; more is an error */
    double l2;                  /* penalty on the head, standardised columns, mean-loss scale */
    uint64_t seed;
} cst_gate_options;

/* The defaults: learned, h = 32, Adam at 1e-3, 15,000 parameters, 20,000 rows. */
cst_gate_options cst_gate_options_default(void);

/* Number of parameters of the perceptron: inputs * hidden + hidden + 12 * hidden + 12. */
int64_t cst_gate_parameter_count(int32_t inputs, int32_t hidden);

/* Fits the gate on the rows of `view` (with labels, or targets, when it is learned) with a linear
 * head that is thrown away; beyond max_rows (sample, class) rows, on a sample whose loss is
 * unbiased. NULL options: the defaults. *out is zeroed first; free with cst_gate_free. */
cst_status cst_gate_fit(cst_context *context, const cst_view *view, int32_t best,
                        const cst_gate_options *options, cst_gate *out);

/* Fits gates[0] to gates[count - 1], each by `fit` on its own. Ranks fit some each and send each
 * other the weights. inputs: of every gate. */
typedef cst_status (*cst_gate_fn)(cst_context *worker, const void *user, int32_t index,
                                  cst_gate *out);
cst_status cst_gates_fit(cst_context *context, int32_t inputs, const cst_gate_options *options,
                         cst_gate_fn fit, const void *user, int32_t count, cst_gate *const *gates);

/* The four arrays for `inputs` and `hidden`. Free *gate also after a failure. */
cst_status cst_gate_alloc(cst_context *context, cst_gate *gate);

/* Frees the arrays and zeroes the struct. NULL is accepted. */
void cst_gate_free(cst_context *context, cst_gate *gate);
CST_OWNED(cst_gate)

/* Doubles of scratch for cst_gate_tile, and a tile of its output. */
size_t cst_gate_scratch(const cst_gate *gate);

/* g, learned, for (sample, class) pairs first..first+size-1, size <= CST_TILE: members[k] [count],
 * out [12][CST_TILE] in [0, 1]. Float arithmetic, the same operations for every pair. */
void cst_gate_tile(const cst_gate *gate, const float *const *members, int64_t first, int64_t size,
                   float *out, double *scratch);

/* ---- the training problem, exposed for the tests ---- */

/* Rows to train on. f = head_members . inputs + head_aggregates . (g(inputs) * aggregates) +
 * intercept. */
typedef struct cst_gate_problem {
    int64_t rows;
    int32_t inputs;
    int32_t hidden;
    double l2;
    double *input;     /* [rows][inputs], standardised */
    double *aggregate; /* [rows][12], divided by their standard deviations */
    double *target;    /* [rows], standardised */
    double *weight;    /* [rows], mean 1 */
} cst_gate_problem;

/* Where the parts of the parameter vector begin, from w1 [hidden][inputs] on; its entries. */
typedef struct cst_gate_layout {
    size_t b1;
    size_t w2;
    size_t b2;
    size_t head_members;
    size_t head_aggregates;
    size_t intercept;
    size_t count;
} cst_gate_layout;

cst_gate_layout cst_gate_layout_of(int32_t inputs, int32_t hidden);

/* Loss (1/count) sum_i weight_i (f_i - target_i)^2 + l2 |head|^2 (intercept not penalised) over the
 * rows rows[0..count-1] (NULL: rows 0..count-1), and its gradient [theta] (NULL: loss only). The
 * sum is taken over chunks of fixed size in their order. */
cst_status cst_gate_gradient(cst_context *context, const cst_gate_problem *problem,
                             const int64_t *rows, int64_t count, const double *theta,
                             double *gradient, double *loss);

/* What share of each aggregator's weighted sum over the rows comes through the gate; 1 where it is
 * 0. */
cst_status cst_gate_passed(cst_context *context, const cst_gate_problem *problem,
                           const double *theta, double passed[CST_AGGREGATORS]);

/* ---- the meta-design: a row for each (sample, class) pair, members and gated aggregators ---- */

/* Columns d of the design: inputs, + 12 (learned), + 6 (prototype: mean, sd, median, range,
 * mean*sd, range*sd, which is CoRe-Stack), + 0 (none). */
int32_t cst_design_columns(const cst_gate *gate);

/* The aggregator behind column `column`, counted from the first gated one. */
int32_t cst_design_aggregate(cst_gate_mode mode, int32_t column);

/* Doubles of scratch for the functions below on `count` samples (cst_design_tile: any count). */
size_t cst_design_scratch(const cst_gate *gate, int64_t count);

/* The design of `count` samples, members[k] [count][classes] float32, column by column: out[j *
 * stride + e] is column j of flattened pair e = sample * classes + class, stride >= count *
 * classes. */
void cst_design_fill(const cst_gate *gate, const float *const *members, int64_t count,
                     int32_t classes, double *out, int64_t stride, double *scratch);

/* The aggregator part of the columns of pairs first..first+size-1, size <= CST_TILE, [d -
 * inputs][CST_TILE]. `samples` is [2][count]: entropy and divergence from cst_aggregate_samples
 * (only a learned gate reads it). */
void cst_design_tile(const cst_gate *gate, const float *const *members, int64_t count,
                     int32_t classes, int64_t first, int64_t size, const double *samples,
                     double *columns, double *scratch);
