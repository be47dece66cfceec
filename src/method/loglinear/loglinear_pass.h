/* One pass of a log-linear pool over samples: loss, gradient, Hessian. */
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

/* ---- kernels, also those of the exact pass and of compact tables ---- */

enum { CST_PASS_LANES = 4 };

/* out[e] = log(keep * p[e] + floor) in float64, and in float32. */
void cst_pass_logs(const float *p, int64_t count, double mix, int32_t classes, double *out);
void cst_pass_logs_f32(const float *p, int64_t count, double mix, int32_t classes, float *out);
/* z[e] += weight * x[e] */
void cst_pass_add(const double *x, int64_t count, double weight, double *z);
/* Scores of one sample of `count` entries to probabilities; returns log of the normaliser. */
double cst_pass_softmax(int64_t count, double *z);
/* sum_e p[e] x[e] */
double cst_pass_dot(const double *p, const double *x, int64_t count);

#endif
