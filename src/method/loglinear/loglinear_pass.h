/*
 * One pass of a log-linear pool over samples: loss, gradient, Hessian. Under the Newton fits of
 * stage S4 and of selection. Section: "Laplace-Approximate Bayesian Blender" of the paper.
 */
#ifndef CST_LOGLINEAR_PASS_H
#define CST_LOGLINEAR_PASS_H

#include "method/loglinear/loglinear.h"

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

/* Adds the table's rows first..end-1, of a table that is a sample of the classes, to sum. */
cst_status cst_pass_sampled(cst_context *context, const cst_pass *pass, int64_t first, int64_t end,
                            double *sum);

/* From so many members on BLAS computes the weights' part of the Hessian. */
enum { CST_PASS_MANY = 24 };

/* ---- curvature of biases where many classes of a row have mass ---- */

/* From this part of the classes on. */
enum { CST_DENSE_SHARE = 8 };

typedef struct cst_dense {
    int32_t count;      /* K_eff */
    int32_t classes;    /* C */
    int32_t parameters; /* d */
    int64_t room;
    int64_t rows;  /* of `room`, that are held */
    double *p;     /* [room][classes]: probability times the root of the row's weight */
    double *mass;  /* [classes]: sums of weighted probabilities */
    double *cross; /* [K_eff][classes]: rows of the Hessian that weights and biases share */
} cst_dense;

typedef struct cst_dense_row {
    double weight;
    const int32_t *classes; /* [count], ascending */
    const float *p;         /* [count] */
    const float *root;      /* [count]: square roots of p and of the weight */
    const float *y;         /* [K_eff][width]: `root` times the centred logs */
    int64_t width;
    int64_t count; /* entries without padding */
} cst_dense_row;

/* Starts with {count, classes, parameters} and the rest 0. Adds a row; rows are added to the
 * Hessian [d][d] now and then, and all of it by the end. */
cst_status cst_dense_add(cst_context *context, cst_dense *d, const cst_dense_row *row,
                         double *hessian);
cst_status cst_dense_end(cst_context *context, cst_dense *d, double *gradient, double *hessian);
void cst_dense_free(cst_context *context, cst_dense *d);

/* ---- kernels on a few samples, also those of the exact pass ---- */

/* Entries of consecutive samples, each sample padded to a multiple of CST_PASS_LANES with entries
 * that have no mass. */
enum { CST_PASS_LANES = 4, CST_PASS_ENTRIES = 2048 };
#define CST_PASS_NONE (-1e30) /* score of padding */

static inline int64_t cst_pass_padded(int64_t entries) {
    return (entries + CST_PASS_LANES - 1) / CST_PASS_LANES * CST_PASS_LANES;
}

/* out[e] = log(keep * p[e] + floor). exact: float64 all the way, else float32. */
void cst_pass_logs(const float *p, int64_t count, double mix, int32_t classes, bool exact,
                   double *out);
void cst_pass_logs_f32(const float *p, int64_t count, double mix, int32_t classes, float *out);
/* z[e] += weight * x[e] */
void cst_pass_add(const double *x, int64_t count, double weight, double *z);
/* Scores of one sample of `count` entries to probabilities; returns log of the normaliser. */
double cst_pass_softmax(int64_t count, double *z);
/* sum_e p[e] x[e] */
double cst_pass_dot(const double *p, const double *x, int64_t count);

#endif
