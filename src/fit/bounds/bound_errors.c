/*
 * Certificates of errors: of the stack by its errors on held-out rows, of votes of its members by
 * PAC-Bayes. Parts of cst_bound. docs/bounds.md#the-bounds.
 */
#include "fit/bounds/bound.h"
#include "fit/bounds/posterior.h"
#include "stats/binomial.h"
#include "stats/pac_bayes.h"
#include "stats/samples.h"

#include <string.h>

cst_status cst_bound_holdout(cst_context *context, const cst_bound_work *work, cst_report *report) {
    cst_samples samples;
    cst_status status =
        cst_samples_make(context, work->stack, work->rows, work->classes, work->labels, &samples);
    if (status == CST_OK) {
        int64_t errors = 0;
        for (int64_t i = 0; i < work->rows; i++)
            errors += samples.correct[i] == 0;
        json_t *holdout = cst_report_object(report, cst_report_root(report), "holdout");
        CST_PUT(report, holdout, CST_I("errors", errors), CST_I("samples", work->rows),
                CST_N("error", (double)errors / (double)work->rows),
                CST_N("bound", cst_binomial_upper(errors, work->rows, work->delta)),
                CST_N("lower", cst_binomial_lower(errors, work->rows, work->delta)));
    }
    cst_samples_free(context, &samples);
    return status;
}

/* ---- votes of the stack's members ---- */

typedef struct votes {
    int32_t members;
    unsigned char *wrong; /* [members][rows], in the order of the halves */
    double *losses;       /* [2][members]: error rates in the halves */
    double *prior;        /* [members] */
    double *weights;      /* [members] */
    double *tandem;       /* [members][members] */
} votes;

static cst_status votes_alloc(cst_context *context, int32_t members, int64_t rows, votes *v) {
    size_t count = (size_t)members;
    *v = (votes){.members = members,
                 .wrong = cst_alloc(context, count * (size_t)rows, sizeof *v->wrong),
                 .losses = cst_alloc(context, 2 * count, sizeof *v->losses),
                 .prior = cst_alloc(context, count, sizeof *v->prior),
                 .weights = cst_alloc(context, count, sizeof *v->weights),
                 .tandem = cst_alloc(context, count * count, sizeof *v->tandem)};
    return v->wrong && v->losses && v->prior && v->weights && v->tandem ? CST_OK : CST_ERROR_MEMORY;
}

static void votes_free(cst_context *context, votes *v) {
    cst_free(context, v->wrong);
    cst_free(context, v->losses);
    cst_free(context, v->prior);
    cst_free(context, v->weights);
    cst_free(context, v->tandem);
}

/* Errors of one member; a tie of two classes goes to the first, as in every score. */
static cst_status count_member(cst_context *context, const cst_bound_work *work, int32_t k,
                               votes *v) {
    cst_samples samples = {0};
    int32_t position = cst_pool_member_index(work->pool, cst_model_member_name(work->model, k));
    cst_status status = cst_samples_of(context, &work->view, position, &samples);
    if (status == CST_OK) {
        unsigned char *wrong = v->wrong + (size_t)k * (size_t)work->rows;
        double errors[2] = {0, 0};
        for (int64_t i = 0; i < work->rows; i++) {
            wrong[i] = samples.correct[work->order[i]] == 0;
            errors[i >= work->half] += wrong[i];
        }
        v->losses[k] = errors[0] / (double)work->half;
        v->losses[v->members + k] = errors[1] / (double)(work->rows - work->half);
    }
    cst_samples_free(context, &samples);
    return status;
}

static void put_posterior(cst_report *report, json_t *object, const cst_vote_posterior *posterior,
                          int64_t samples, const votes *v) {
    CST_PUT(report, object, CST_N("empirical", posterior->empirical), CST_N("kl", posterior->kl),
            CST_I("samples", samples), CST_N("bound", posterior->bound),
            CST_B("vacuous", posterior->bound >= 1));
    cst_report_numbers(report, object, "weights", v->weights, v->members);
}

/* A member drawn by weights that were fitted to the second half, with a prior fitted to the first.
 */
static void put_gibbs(const cst_bound_work *work, votes *v, cst_report *report) {
    json_t *object = cst_report_object(report, cst_report_root(report), "pac_bayes_kl");
    int64_t later = work->rows - work->half;
    cst_vote_posterior posterior;
    cst_gibbs_posterior(v->losses, NULL, v->members, (double)work->half, work->delta, v->prior,
                        &posterior);
    cst_gibbs_posterior(v->losses + v->members, v->prior, v->members, (double)later, work->delta,
                        v->weights, &posterior);
    put_posterior(report, object, &posterior, later, v);
    CST_PUT(report, object, CST_I("prior_samples", work->half),
            CST_N("mcallester", cst_pac_bayes_mcallester(posterior.empirical, posterior.kl,
                                                         (double)later, work->delta)),
            CST_N("majority", 2 * posterior.bound));
}

cst_status cst_bound_votes(cst_context *context, const cst_bound_work *work, cst_report *report) {
    votes v;
    cst_vote_posterior pairs;
    cst_status status = votes_alloc(context, cst_model_members(work->model), work->rows, &v);
    for (int32_t k = 0; status == CST_OK && k < v.members; k++)
        status = count_member(context, work, k, &v);
    CST_THEN(cst_tandem_matrix(context, v.wrong, work->rows, v.members, v.tandem));
    if (status == CST_OK) {
        put_gibbs(work, &v, report);
        status = cst_tandem_posterior(context, v.tandem, NULL, v.members, (double)work->rows,
                                      work->delta, v.weights, &pairs);
    }
    cst_vote_losses losses;
    CST_THEN(cst_vote_losses_of(context, v.wrong, work->rows, v.members, v.weights, &losses));
    if (status == CST_OK) {
        json_t *object = cst_report_object(report, cst_report_root(report), "tandem");
        put_posterior(report, object, &pairs, work->rows, &v);
        cst_report_number(report, object, "majority", losses.majority);
    }
    votes_free(context, &v);
    return status;
}
