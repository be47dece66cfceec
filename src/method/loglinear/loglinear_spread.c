/*
 * The curvature of a log-linear pool in standardised units, so that it may be set beside those of
 * the linear meta-learners. Stage S4. Section: "Laplace-Approximate Bayesian Blender" of the paper.
 */
#include "core/la.h"
#include "method/loglinear/loglinear.h"

#include <math.h>
#include <string.h>

typedef struct spread_job {
    const cst_logtable *table;
    const int32_t *active;
    int32_t count;
} spread_job;

/* Sums and sums of squares of logs over all classes, and of the rows' weights; what is kept of the
 * others stands for 1/pi of them. */
static cst_status spread_block(cst_context *worker, const void *user, int64_t first, int64_t end,
                               double *sum) {
    (void)worker;
    const spread_job *job = user;
    const cst_logtable *table = job->table;
    for (int64_t i = first; i < end; i++) {
        int64_t at = 0;
        const cst_compact_block *from = cst_compact_at(table->compact, table->row[i], &at);
        int64_t start = from->first[at];
        int64_t count = from->first[at + 1] - start;
        double weight = table->row_weights ? table->row_weights[i] : 1;
        sum[2 * job->count] += weight;
        for (int32_t j = 0; j < job->count; j++) {
            int32_t member = job->active[j];
            const float *p =
                from->p + start * table->compact->members + count * table->columns[member];
            double keep = 1 - table->mix[member];
            double floor = table->mix[member] / (double)table->classes;
            for (int64_t e = 0; e < count; e++) {
                double v = log(keep * (double)p[e] + floor);
                double share = from->offset ? exp((double)from->offset[start + e]) : 1;
                share *= weight;
                sum[2 * j] += share * v; /* share 0: padding */
                sum[2 * j + 1] += share * v * v;
            }
        }
    }
    return CST_OK;
}

cst_status cst_loglinear_logdet(cst_context *context, const cst_logtable *table,
                                const int32_t *active, const cst_loglinear *fit,
                                const double *spread, double *logdet) {
    size_t d = (size_t)fit->parameters;
    size_t k = (size_t)fit->members;
    double *sums = cst_alloc(context, 2 * k + 1, sizeof *sums);
    double *factor = cst_alloc(context, d * d, sizeof *factor);
    spread_job job = {.table = table, .active = active, .count = fit->members};
    cst_status status = sums && factor ? CST_OK : CST_ERROR_MEMORY;
    double n = (double)table->rows * (double)table->classes;
    if (status == CST_OK && spread) {
        n *= table->weight;
        memcpy(sums, spread, 2 * k * sizeof *sums);
    } else if (status == CST_OK) {
        status = cst_logtable_sum(context, table, 1, 2 * k + 1, 0, spread_block, &job, sums, NULL);
        n = sums[2 * k] * (double)table->classes;
    }
    if (status == CST_OK) {
        memcpy(factor, fit->hessian, d * d * sizeof *factor);
        status = cst_cholesky(context, (int64_t)d, factor);
    }
    if (status == CST_OK) {
        *logdet = cst_cholesky_logdet((int64_t)d, factor);
        /* w_std = w * sd: H_std = D^-1 H D^-1. A class indicator has variance (1/C)(1 - 1/C). */
        for (size_t j = 0; j < k; j++) {
            double mean = sums[2 * j] / n;
            double variance = sums[2 * j + 1] / n - mean * mean;
            *logdet -= log(fmax(variance, 1e-300));
        }
        double share = 1.0 / (double)table->classes;
        *logdet -= (double)(d - k) * log(share * (1 - share));
    }
    cst_free(context, sums);
    cst_free(context, factor);
    return status;
}
