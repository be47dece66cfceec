/* Certificates of errors, votes, prediction sets and calibration. docs/bounds.md#the-bounds. */
#include "fit/bounds/bound.h"
#include "fit/bounds/posterior.h"
#include "stats/calibration_bound.h"
#include "stats/conformal.h"
#include "stats/pac_bayes.h"
#include "stats/samples.h"
#include "stats/statistics.h"

#include <corestack/metrics.h>
#include <string.h>

static cst_status samples_of_stack(cst_context *context, cst_scope *scope,
                                   const cst_bound_work *work, cst_samples *out) {
    return cst_samples_make(context, scope, work->stack, work->rows, work->classes, work->labels,
                            out);
}

cst_status cst_bound_holdout(cst_context *context, const cst_bound_work *work, cst_report *report) {
    cst_samples samples;
    int64_t errors = 0;
    CST_SCOPE(scope);
    CST_TRY(samples_of_stack(context, scope, work, &samples));
    for (int64_t i = 0; i < work->rows; i++)
        errors += samples.correct[i] == 0;
    json_t *holdout = cst_report_object(report, cst_report_root(report), "holdout");
    CST_PUT(report, holdout, CST_I("errors", errors), CST_I("samples", work->rows),
            CST_N("error", (double)errors / (double)work->rows),
            CST_N("bound", cst_binomial_upper(errors, work->rows, work->delta)),
            CST_N("lower", cst_binomial_lower(errors, work->rows, work->delta)));
    return CST_OK;
}

typedef struct votes {
    int32_t members;
    unsigned char *wrong; /* [members][rows], in the order of the halves */
    double *losses;       /* [2][members]: error rates in the halves */
    double *prior;        /* [members] */
    double *weights;      /* [members] */
    double *tandem;       /* [members][members] */
} votes;

/* Errors of one member; a tie of two classes goes to the first, as in every score. */
static cst_status count_member(cst_context *context, const cst_bound_work *work, int32_t k,
                               votes *v) {
    cst_samples samples;
    int32_t position = cst_pool_member_index(work->pool, cst_model_member_name(work->model, k));
    unsigned char *wrong = v->wrong + (size_t)k * (size_t)work->rows;
    double errors[2] = {0, 0};
    CST_SCOPE(scope);
    CST_TRY(cst_samples_of(context, scope, &work->view, position, false, &samples));
    for (int64_t i = 0; i < work->rows; i++) {
        wrong[i] = samples.correct[work->order[i]] == 0;
        errors[i >= work->half] += wrong[i];
    }
    v->losses[k] = errors[0] / (double)work->half;
    v->losses[v->members + k] = errors[1] / (double)(work->rows - work->half);
    return CST_OK;
}

static void put_posterior(cst_report *report, json_t *object, const cst_vote_posterior *posterior,
                          int64_t samples, const votes *v) {
    CST_PUT(report, object, CST_N("empirical", posterior->empirical), CST_N("kl", posterior->kl),
            CST_I("samples", samples), CST_N("bound", posterior->bound),
            CST_B("vacuous", posterior->bound >= 1));
    cst_report_numbers(report, object, "weights", v->weights, v->members);
}

/* Bound on a randomly drawn member: prior fitted to the first half, weights to the second. */
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
    votes v = {.members = (int32_t)cst_model_members(work->model)};
    size_t members = (size_t)v.members;
    cst_vote_posterior pairs;
    cst_vote_losses losses;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, v.wrong, members * (size_t)work->rows);
    CST_TAKE(context, scope, v.losses, 2 * members);
    CST_TAKE(context, scope, v.prior, members);
    CST_TAKE(context, scope, v.weights, members);
    CST_TAKE(context, scope, v.tandem, members * members);
    for (int32_t k = 0; k < v.members; k++)
        CST_TRY(count_member(context, work, k, &v));
    CST_TRY(cst_tandem_matrix(context, v.wrong, work->rows, v.members, v.tandem));
    put_gibbs(work, &v, report);
    CST_TRY(cst_tandem_posterior(context, v.tandem, NULL, v.members, (double)work->rows,
                                 work->delta, v.weights, &pairs));
    CST_TRY(cst_vote_losses_of(context, v.wrong, work->rows, v.members, v.weights, &losses));
    json_t *object = cst_report_object(report, cst_report_root(report), "tandem");
    put_posterior(report, object, &pairs, work->rows, &v);
    cst_report_number(report, object, "majority", losses.majority);
    return CST_OK;
}

/* Rows of one half of the split, copied. */
typedef struct part {
    int64_t rows;
    float *p;        /* [rows][classes] */
    int32_t *labels; /* [rows] */
} part;

static cst_status take(cst_context *context, cst_scope *scope, const cst_bound_work *work,
                       int64_t first, int64_t end, part *out) {
    size_t classes = (size_t)work->classes;
    size_t rows = (size_t)(end - first);
    *out = (part){.rows = end - first};
    CST_TAKE(context, scope, out->p, rows * classes);
    CST_TAKE(context, scope, out->labels, rows);
    for (size_t i = 0; i < rows; i++) {
        size_t row = (size_t)work->order[(size_t)first + i];
        memcpy(out->p + i * classes, work->stack + row * classes, classes * sizeof *out->p);
        out->labels[i] = work->labels[row];
    }
    return CST_OK;
}

static const char *const METHODS[] = {"lac", "aps", "raps"};
enum { METHOD_COUNT = sizeof METHODS / sizeof METHODS[0] };

static void put_sets(cst_report *report, json_t *object, const cst_conformal *conformal,
                     const cst_conformal_result *result, int64_t samples, double delta) {
    CST_PUT(report, object, CST_S("method", METHODS[conformal->options.method]),
            CST_N("alpha", conformal->options.alpha), CST_N("coverage", result->coverage),
            CST_N("mean_size", result->mean_size), CST_N("threshold", conformal->threshold),
            CST_N("assured", cst_conformal_assured(conformal, delta)),
            CST_I("calibration_samples", conformal->samples), CST_I("samples", samples),
            CST_I("empty", result->empty), CST_I("single", result->single));
}

/* Prediction sets calibrated on one half and measured on the other. */
cst_status cst_bound_sets(cst_context *context, const cst_bound_work *work, cst_report *report) {
    part first;
    part second;
    cst_conformal conformal[METHOD_COUNT];
    cst_conformal_result result[METHOD_COUNT];
    CST_SCOPE(scope);
    CST_TRY(take(context, scope, work, 0, work->half, &first));
    CST_TRY(take(context, scope, work, work->half, work->rows, &second));
    for (int m = 0; m < METHOD_COUNT; m++) {
        cst_conformal_options options = cst_conformal_defaults();
        options.method = (cst_conformal_method)m;
        options.alpha = work->alpha;
        options.seed = work->seed;
        CST_TRY(cst_conformal_calibrate(context, &options, first.p, first.rows, work->classes,
                                        first.labels, &conformal[m]));
        CST_TRY(cst_conformal_evaluate(context, &conformal[m], second.p, second.rows, work->classes,
                                       second.labels, &result[m]));
    }
    json_t *root = cst_report_root(report);
    cst_conformal_tell(context, first.rows, work->alpha);
    put_sets(report, cst_report_object(report, root, "conformal"), &conformal[0], &result[0],
             second.rows, work->delta);
    json_t *list = cst_report_list(report, root, "conformal_methods");
    for (int m = 0; m < METHOD_COUNT; m++)
        put_sets(report, cst_report_add_object(report, list), &conformal[m], &result[m],
                 second.rows, work->delta);
    return CST_OK;
}

/* At most BINS_MAX bins, with about BIN_ROWS rows each. */
enum { BINS_MAX = 15, BIN_ROWS = 50 };

static void put_bins(cst_report *report, const cst_certified_bin *certified, int32_t bins,
                     double epsilon, double hoeffding, int64_t samples) {
    json_t *object = cst_report_object(report, cst_report_root(report), "calibration");
    CST_PUT(report, object, CST_N("epsilon", epsilon), CST_N("hoeffding", hoeffding),
            CST_I("samples", samples));
    json_t *list = cst_report_list(report, object, "bins");
    for (int32_t b = 0; b < bins; b++) {
        json_t *bin = cst_report_add_object(report, list);
        CST_PUT(report, bin, CST_N("from", certified[b].from), CST_N("to", certified[b].to),
                CST_I("count", certified[b].count), CST_N("value", certified[b].value),
                CST_N("lower", certified[b].lower), CST_N("upper", certified[b].upper));
    }
}

/* Bin edges by the confidences of the first half; the second half certifies the bins. */
static cst_status certify(cst_context *context, const cst_bound_work *work, cst_report *report) {
    size_t rows = (size_t)work->rows;
    int64_t most = (work->rows - work->half) / BIN_ROWS;
    int32_t bins = most < 1 ? 1 : most < BINS_MAX ? (int32_t)most : BINS_MAX;
    int32_t used = 0;
    double edges[BINS_MAX + 1];
    cst_certified_bin certified[BINS_MAX];
    double epsilon = 0;
    double hoeffding = 0;
    cst_samples samples;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, confidence, rows);
    CST_NEW(context, scope, unsigned char, correct, rows);
    CST_TRY(samples_of_stack(context, scope, work, &samples));
    for (size_t i = 0; i < rows; i++) {
        confidence[i] = samples.confidence[work->order[i]];
        correct[i] = samples.correct[work->order[i]];
    }
    CST_TRY(cst_mass_edges(context, confidence, work->half, bins, edges, &used));
    const cst_judged_rows rest = {confidence + work->half, correct + work->half,
                                  work->rows - work->half};
    CST_TRY(
        cst_certify_bins(context, edges, used, rest, work->delta, certified, &epsilon, &hoeffding));
    put_bins(report, certified, used, epsilon, hoeffding, work->rows - work->half);
    return CST_OK;
}

cst_status cst_bound_calibration(cst_context *context, const cst_bound_work *work,
                                 cst_report *report) {
    cst_ece_bound bound;
    CST_TRY(cst_ece_bound_of(context, work->stack, work->rows, work->classes, work->labels, 0,
                             work->delta, &bound));
    json_t *ece = cst_report_object(report, cst_report_root(report), "ece");
    CST_PUT(report, ece, CST_N("value", bound.value), CST_N("lower", bound.lower),
            CST_N("upper", bound.upper), CST_I("bins", CST_METRIC_BINS));
    return certify(context, work, report);
}
