/* Weights that make PAC-Bayes bounds small, by alternating minimisation.
 * docs/bounds.md#the-papers-quantities. */
#include "fit/bounds/posterior.h"

#include "core/scope.h"
#include "stats/pac_bayes.h"

#include <math.h>
#include <string.h>

enum { GIBBS_STEPS = 100, TANDEM_STEPS = 1000 };

/* The t of the bound with t that is best at these weights. price: KL + log(2 sqrt(n) / delta). */
static double best_t(double empirical, double price, double n) {
    return 2 / (sqrt(2 * n * empirical / price + 1) + 1);
}

static double price_of(double kl, double n, double delta) {
    return kl + log(2 * sqrt(n) / delta);
}

/* weights ~ prior exp(logit), without overflow. */
static void softmax(const double *prior, int32_t members, double *weights) {
    double most = -INFINITY;
    double sum = 0;
    for (int32_t m = 0; m < members; m++)
        most = fmax(most, weights[m]);
    for (int32_t m = 0; m < members; m++) {
        weights[m] = (prior ? prior[m] : 1) * exp(weights[m] - most);
        sum += weights[m];
    }
    for (int32_t m = 0; m < members; m++)
        weights[m] /= sum;
}

static double dot(const double *a, const double *b, int32_t count) {
    double sum = 0;
    for (int32_t m = 0; m < count; m++)
        sum += a[m] * b[m];
    return fmin(sum, 1);
}

void cst_gibbs_posterior(const double *losses, const double *prior, int32_t members, double n,
                         double delta, double *weights, cst_vote_posterior *out) {
    double best = 0; /* t of the weights that are kept */
    double t = 0;
    *out = (cst_vote_posterior){.bound = INFINITY};
    for (int step = 0; step < GIBBS_STEPS; step++) {
        for (int32_t m = 0; m < members; m++)
            weights[m] = -t * n * losses[m];
        softmax(prior, members, weights);
        cst_vote_posterior now = {dot(weights, losses, members),
                                  cst_kl_discrete(members, weights, prior), 0};
        now.bound = cst_pac_bayes_kl(now.empirical, now.kl, n, delta);
        if (now.bound < out->bound) {
            *out = now;
            best = t;
        }
        double next = best_t(now.empirical, price_of(now.kl, n, delta), n);
        if (fabs(next - t) <= 1e-12)
            break;
        t = next;
    }
    for (int32_t m = 0; m < members; m++)
        weights[m] = -best * n * losses[m];
    softmax(prior, members, weights);
}

/* ---- pairs ---- */

typedef struct tandem_job {
    const unsigned char *wrong;
    int64_t rows;
    int32_t members;
} tandem_job;

static cst_status tandem_block(cst_context *context, void *user, int64_t block, double *sum) {
    (void)context;
    const tandem_job *job = user;
    int64_t first = cst_block_first(block);
    int64_t size = cst_block_size(job->rows, block);
    for (int32_t a = 0; a < job->members; a++)
        for (int32_t b = 0; b <= a; b++) {
            const unsigned char *x = job->wrong + (int64_t)a * job->rows + first;
            const unsigned char *y = job->wrong + (int64_t)b * job->rows + first;
            int64_t both = 0;
            for (int64_t i = 0; i < size; i++)
                both += x[i] && y[i];
            sum[(size_t)a * (size_t)job->members + (size_t)b] += (double)both;
        }
    return CST_OK;
}

cst_status cst_tandem_matrix(cst_context *context, const unsigned char *wrong, int64_t rows,
                             int32_t members, double *tandem) {
    tandem_job job = {wrong, rows, members};
    size_t width = (size_t)members;
    CST_TRY(cst_reduce_blocks(context, cst_block_count(rows), width * width, tandem_block, &job,
                              tandem));
    for (size_t a = 0; a < width; a++)
        for (size_t b = 0; b <= a; b++) {
            tandem[a * width + b] /= (double)rows;
            tandem[b * width + a] = tandem[a * width + b];
        }
    return CST_OK;
}

/* pull: [members], tandem rho; returns rho' tandem rho. */
static double pull_of(const double *tandem, const double *weights, int32_t members, double *pull) {
    for (int32_t a = 0; a < members; a++)
        pull[a] = dot(tandem + (size_t)a * (size_t)members, weights, members);
    return dot(pull, weights, members);
}

cst_status cst_tandem_posterior(cst_context *context, const double *tandem, const double *prior,
                                int32_t members, double n, double delta, double *weights,
                                cst_vote_posterior *out) {
    size_t count = (size_t)members;
    double most = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, logit, count);
    CST_NEW(context, scope, double, now, count);
    CST_NEW(context, scope, double, pull, count);
    for (size_t m = 0; m < count; m++)
        most = fmax(most, tandem[m * count + m]);
    *out = (cst_vote_posterior){.bound = INFINITY};
    for (int step = 0; step < TANDEM_STEPS; step++) {
        memcpy(now, logit, count * sizeof *now);
        softmax(prior, members, now);
        cst_vote_posterior at = {.empirical = pull_of(tandem, now, members, pull),
                                 .kl = cst_kl_discrete(members, now, prior)};
        at.bound = 4 * cst_pac_bayes_kl(at.empirical, 2 * at.kl, n, delta);
        if (at.bound < out->bound) {
            *out = at;
            memcpy(weights, now, count * sizeof *now);
        }
        double t = best_t(at.empirical, price_of(2 * at.kl, n, delta), n);
        double damping = 4 / (4 + t * n * most); /* pulls differ by no more than `most` */
        for (size_t m = 0; m < count; m++)
            logit[m] += damping * (-t * n * pull[m] - logit[m]);
    }
    return CST_OK;
}
