/* PAC-Bayes bounds and their divergences. docs/bounds.md#the-papers-quantities. */
#include "stats/pac_bayes.h"

#include "core/la.h"
#include "stats/statistics.h"

#include <math.h>

double cst_kl_discrete(int32_t count, const double *posterior, const double *prior) {
    double sum = 0;
    for (int32_t m = 0; m < count; m++) {
        double from = prior ? prior[m] : 1.0 / count;
        if (posterior[m] > 0)
            sum += from > 0 ? posterior[m] * log(posterior[m] / from) : INFINITY;
    }
    return fmax(sum, 0); /* which rounding may miss where the two are equal */
}

/* (precision (|mean - prior|^2 + trace S) - d - d log precision - log det S) / 2 */
static double gaussian(int64_t d, const double *mean, const double *prior_mean, double precision,
                       double trace, double logdet) {
    double distance = 0;
    for (int64_t i = 0; i < d; i++) {
        double gap = mean[i] - (prior_mean ? prior_mean[i] : 0);
        distance += gap * gap;
    }
    double dimensions = (double)d;
    double twice =
        precision * (distance + trace) - dimensions - dimensions * log(precision) - logdet;
    return fmax(0.5 * twice, 0);
}

cst_status cst_kl_gaussian_hessian(cst_context *context, int64_t d, const double *mean,
                                   const double *factor, const double *prior_mean, double precision,
                                   double *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, diagonal, d);
    CST_TRY(cst_cholesky_inverse_diagonal(context, d, factor, diagonal));
    double trace = 0;
    for (int64_t i = 0; i < d; i++)
        trace += diagonal[i];
    *out = gaussian(d, mean, prior_mean, precision, trace, -cst_cholesky_logdet(d, factor));
    return CST_OK;
}

typedef struct vote_job {
    const unsigned char *wrong;
    int64_t rows;
    int32_t members;
    const double *weights;
} vote_job;

enum { GIBBS, TANDEM, MAJORITY, WIDTH };

/* Weight of the wrong members of a sample; its square is the part of the tandem loss. */
static cst_status vote_block(cst_context *context, void *user, int64_t block, double *sum) {
    (void)context;
    const vote_job *job = user;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(job->rows, block);
    for (int64_t i = first; i < end; i++) {
        double mass = 0;
        for (int32_t m = 0; m < job->members; m++)
            mass += job->wrong[(int64_t)m * job->rows + i] ? job->weights[m] : 0;
        sum[GIBBS] += mass;
        sum[TANDEM] += mass * mass;
        sum[MAJORITY] += mass >= 0.5 * (1 - 1e-12); /* a tie counts, also one that rounding broke */
    }
    return CST_OK;
}

cst_status cst_vote_losses_of(cst_context *context, const unsigned char *wrong, int64_t rows,
                              int32_t members, const double *weights, cst_vote_losses *out) {
    vote_job job = {wrong, rows, members, weights};
    double sum[WIDTH] = {0};
    *out = (cst_vote_losses){NAN, NAN, NAN};
    if (rows < 1 || members < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "losses of a vote need at least one row and one member: got %lld rows of "
                        "%d members",
                        (long long)rows, members);
    CST_TRY(cst_reduce_blocks(context, cst_block_count(rows), WIDTH, vote_block, &job, sum));
    double n = (double)rows;
    *out = (cst_vote_losses){fmin(sum[GIBBS] / n, 1), fmin(sum[TANDEM] / n, 1), sum[MAJORITY] / n};
    return CST_OK;
}

/* KL + log(2 sqrt(n) / delta). 2 sqrt(n) bounds sum_k C(n, k) (k/n)^k (1 - k/n)^(n - k) for every n
 * (Maurer 2004 for n >= 8; the others by computation, in the tests). */
static double complexity(double kl, double n, double delta) {
    return kl + log(2 * sqrt(n) / delta);
}

static bool domain(double empirical, double kl, double n, double delta) {
    return empirical >= 0 && empirical <= 1 && kl >= 0 && n >= 1 && delta > 0 && delta < 1;
}

double cst_pac_bayes_kl(double empirical, double kl, double n, double delta) {
    if (!domain(empirical, kl, n, delta))
        return NAN;
    return cst_binary_kl_upper(empirical, complexity(kl, n, delta) / n);
}

double cst_pac_bayes_mcallester(double empirical, double kl, double n, double delta) {
    if (!domain(empirical, kl, n, delta))
        return NAN;
    return empirical + sqrt(complexity(kl, n, delta) / (2 * n));
}

cst_paper_bound cst_pac_bayes_paper(double empirical, double kl, double n, double delta,
                                    double radius, double dimensions, int32_t clusters, double mu) {
    bool known = empirical >= 0 && kl >= 0 && n > 1 && delta > 0 && delta < 1 && radius >= 0 &&
                 dimensions >= 0 && clusters >= 1 && mu >= 0;
    if (!known)
        return (cst_paper_bound){NAN, NAN, NAN};
    cst_paper_bound out = {
        .term = sqrt(complexity(kl, n, delta) / (2 * (n - 1))),
        .phi = 4 * radius * sqrt(dimensions / n) * sqrt(1 + (clusters - 1) * mu),
    };
    out.total = empirical + out.term + out.phi;
    return out;
}
