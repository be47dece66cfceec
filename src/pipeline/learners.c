/*
 * Stages S2 to S4 on a fixed set of members. Every learner is fitted on all rows and, for its
 * out-of-fold loss, again without each fold; gate, moments, penalties and curvature belong to the
 * rows they are fitted on.
 */
#include "pipeline/learners.h"

#include "la/la.h"
#include "meta/linear.h"
#include "metrics/risk.h"
#include "pool/folds.h"

#include <math.h>
#include <string.h>

/* Blend weights below this are taken out of the model. */
static const double NEGLIGIBLE_WEIGHT = 1e-6;

/* ---- one fit on one set of rows -----------------------------------------------------------------
 */

static bool wants(const cst_settings *settings, cst_learner_kind kind) {
    return (settings->learners >> kind & 1U) != 0;
}

static bool wants_linear(const cst_settings *settings) {
    return wants(settings, CST_LEARNER_RIDGE) || wants(settings, CST_LEARNER_ELASTIC_NET) ||
           wants(settings, CST_LEARNER_LASSO);
}

static cst_status lowest_risk(cst_context *context, const cst_view *view, int32_t *best) {
    double *risk = cst_alloc(context, (size_t)view->members, sizeof *risk);
    cst_status status = risk ? cst_risk_all(context, view, risk) : CST_ERROR_MEMORY;
    *best = 0;
    for (int32_t k = 1; status == CST_OK && k < view->members; k++)
        if (risk[k] < risk[*best])
            *best = k;
    cst_free(context, risk);
    return status;
}

static cst_status keep_linear(cst_context *context, const cst_linear *linear,
                              cst_learner *learner) {
    learner->kind = linear->kind == CST_LINEAR_RIDGE         ? CST_LEARNER_RIDGE
                    : linear->kind == CST_LINEAR_ELASTIC_NET ? CST_LEARNER_ELASTIC_NET
                                                             : CST_LEARNER_LASSO;
    learner->coefficients = linear->columns;
    learner->biases = 1;
    learner->weights = cst_alloc(context, (size_t)linear->columns, sizeof *learner->weights);
    learner->bias = cst_alloc(context, 1, sizeof *learner->bias);
    if (!learner->weights || !learner->bias)
        return CST_ERROR_MEMORY;
    memcpy(learner->weights, linear->coefficients,
           (size_t)linear->columns * sizeof *learner->weights);
    learner->bias[0] = linear->intercept;
    return CST_OK;
}

/* The penalty of one linear kind: the ridge's rule; with `cv` each l1 kind searches its own path.
 */
static cst_status penalty_of(cst_context *context, const cst_moments *moments,
                             const cst_settings *settings, cst_linear_kind kind, double ridge,
                             double *lambda) {
    *lambda = ridge;
    if (kind == CST_LINEAR_RIDGE || settings->penalty_rule != CST_PENALTY_CV)
        return CST_OK;
    double ratio = kind == CST_LINEAR_LASSO ? 1 : settings->l1_ratio;
    if (ratio == 0)
        return CST_OK;
    return cst_linear_path_cv(context, moments, kind, ratio, 1e-6, 61, lambda, NULL, NULL);
}

static cst_status fit_linear(cst_context *context, const cst_moments *moments,
                             const cst_standardised *standardised, const cst_settings *settings,
                             cst_meta_fit *fit) {
    static const cst_linear_kind kinds[] = {CST_LINEAR_RIDGE, CST_LINEAR_ELASTIC_NET,
                                            CST_LINEAR_LASSO};
    static const cst_learner_kind learners[] = {CST_LEARNER_RIDGE, CST_LEARNER_ELASTIC_NET,
                                                CST_LEARNER_LASSO};
    cst_spectrum spectrum = {0};
    cst_penalty_grid grid = cst_penalty_grid_default();
    cst_status status =
        cst_spectrum_compute(context, standardised, settings->noise_rule, &spectrum);
    if (status == CST_OK)
        status = cst_penalty_choose(context, moments, standardised, &spectrum,
                                    settings->penalty_rule, &grid, &fit->lambda);
    fit->sigma2 = spectrum.sigma2;
    fit->mp_edge = spectrum.mp_edge;
    fit->snr = spectrum.snr;
    for (size_t i = 0; status == CST_OK && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!wants(settings, learners[i]))
            continue;
        cst_linear linear = {0};
        double lambda = 0;
        status = penalty_of(context, moments, settings, kinds[i], fit->lambda, &lambda);
        if (status == CST_OK)
            status = cst_linear_fit(context, standardised, kinds[i], lambda, settings->l1_ratio,
                                    &linear);
        int32_t at = fit->learners++;
        if (status == CST_OK)
            status = keep_linear(context, &linear, &fit->model->learner[at]);
        fit->half_logdet[at] = 0.5 * linear.logdet_hessian;
        cst_linear_free(context, &linear);
    }
    cst_spectrum_free(context, &spectrum);
    return status;
}

/* Design under a gate, moments by fold, standardised columns, then the wanted linear learners. */
static cst_status fit_gated(cst_context *context, const cst_view *view, const int32_t *folds,
                            int32_t fold_count, const cst_settings *settings, const cst_gate *gate,
                            cst_meta_fit *fit) {
    cst_moments moments = {0};
    cst_standardised standardised = {0};
    cst_status status = cst_moments_compute(context, view, gate, folds, fold_count, &moments);
    if (status == CST_OK)
        status = cst_standardise(context, &moments, -1, &standardised);
    if (status == CST_OK)
        status = fit_linear(context, &moments, &standardised, settings, fit);
    cst_standardised_free(context, &standardised);
    cst_moments_free(context, &moments);
    return status;
}

static cst_status fit_design(cst_context *context, const cst_view *view, const int32_t *folds,
                             int32_t fold_count, const cst_settings *settings, cst_meta_fit *fit) {
    double start = cst_seconds();
    int32_t best = 0;
    cst_status status = lowest_risk(context, view, &best);
    if (status == CST_OK)
        status = cst_gate_fit(context, view, best, &settings->gate, &fit->model->gate);
    fit->seconds_gate = cst_seconds() - start;
    start = cst_seconds();
    if (status == CST_OK)
        status = fit_gated(context, view, folds, fold_count, settings, &fit->model->gate, fit);
    fit->seconds_ridge = cst_seconds() - start;
    return status;
}

cst_status cst_meta_diagnose(cst_context *context, const cst_view *view, const int32_t *folds,
                             int32_t fold_count, const cst_settings *settings, cst_meta_fit *fit) {
    cst_gate gate = {0};
    cst_gate_options options = settings->gate;
    cst_settings nothing_to_fit = *settings;
    options.mode = CST_GATE_PROTOTYPE;
    nothing_to_fit.learners = 0;
    cst_status status = cst_gate_fit(context, view, 0, &options, &gate);
    if (status == CST_OK)
        status = fit_gated(context, view, folds, fold_count, &nothing_to_fit, &gate, fit);
    cst_gate_free(context, &gate);
    return status;
}

static cst_status keep_loglinear(cst_context *context, const cst_loglinear *pool,
                                 cst_learner *learner) {
    learner->kind = CST_LEARNER_LOGLINEAR;
    learner->coefficients = pool->members;
    learner->biases = pool->classes;
    learner->weights = cst_alloc(context, (size_t)pool->members, sizeof *learner->weights);
    learner->bias = cst_alloc(context, (size_t)pool->classes, sizeof *learner->bias);
    if (!learner->weights || !learner->bias)
        return CST_ERROR_MEMORY;
    memcpy(learner->weights, pool->weights, (size_t)pool->members * sizeof *learner->weights);
    memcpy(learner->bias, pool->bias, (size_t)pool->classes * sizeof *learner->bias);
    return CST_OK;
}

static cst_status fit_loglinear(cst_context *context, const cst_view *view, const int32_t *folds,
                                int32_t fold_count, const cst_settings *settings,
                                cst_meta_fit *fit) {
    double start = cst_seconds();
    cst_logtable table = {0};
    cst_loglinear pool = {0};
    cst_loglinear_options options = settings->loglinear;
    int32_t *active = cst_alloc(context, (size_t)view->members, sizeof *active);
    cst_status status =
        active ? cst_uniform_mix_fit(context, view, fit->model->mix) : CST_ERROR_MEMORY;
    for (int32_t k = 0; active && k < view->members; k++)
        active[k] = k;
    if (status == CST_OK && settings->prior_cv && view->members > 1)
        status = cst_loglinear_prior_cv(context, view, folds, fold_count, &options);
    if (status == CST_OK)
        status = cst_logtable_build(context, view, fit->model->mix, &table);
    if (status == CST_OK)
        status = cst_loglinear_fit(context, &table, active, view->members, &options, NULL, &pool);
    int32_t at = fit->learners++;
    double logdet = 0;
    if (status == CST_OK)
        status = cst_loglinear_logdet(context, &table, active, &pool, &logdet);
    fit->half_logdet[at] = 0.5 * logdet;
    if (status == CST_OK)
        status = keep_loglinear(context, &pool, &fit->model->learner[at]);
    cst_loglinear_free(context, &pool);
    cst_logtable_free(context, &table);
    cst_free(context, active);
    fit->seconds_ridge += cst_seconds() - start;
    return status;
}

/* Every wanted learner on the rows of a view, blended equally for now. */
static cst_status fit_rows(cst_context *context, const cst_view *view, const int32_t *folds,
                           int32_t fold_count, const cst_settings *settings, cst_meta_fit *fit) {
    *fit = (cst_meta_fit){.lambda = NAN, .sigma2 = NAN, .mp_edge = NAN, .snr = NAN};
    cst_status status = cst_stack_create(context, &fit->model);
    if (status != CST_OK)
        return status;
    cst_model *model = fit->model;
    model->classes = view->classes;
    model->members = view->members;
    model->map = settings->map;
    model->gate.mode = CST_GATE_NONE;
    model->gate.inputs = view->members;
    model->mix = cst_alloc(context, (size_t)view->members, sizeof *model->mix);
    model->learner = cst_alloc(context, CST_LEARNERS_MAX, sizeof *model->learner);
    if (!model->mix || !model->learner)
        return CST_ERROR_MEMORY;
    model->learners = CST_LEARNERS_MAX; /* so that a failure frees whatever was filled */
    if (wants_linear(settings))
        status = fit_design(context, view, folds, fold_count, settings, fit);
    if (status == CST_OK && wants(settings, CST_LEARNER_LOGLINEAR))
        status = fit_loglinear(context, view, folds, fold_count, settings, fit);
    model->learners = status == CST_OK ? fit->learners : CST_LEARNERS_MAX;
    for (int32_t m = 0; status == CST_OK && m < fit->learners; m++) {
        fit->kind[m] = model->learner[m].kind;
        fit->weight[m] = model->learner[m].blend = 1.0 / (double)fit->learners;
    }
    return status;
}

void cst_meta_fit_free(cst_context *context, cst_meta_fit *fit) {
    cst_model_free(context, fit->model);
    cst_free(context, fit->row_loss);
    *fit = (cst_meta_fit){0};
}

/* ---- cross-fitting
 * -------------------------------------------------------------------------------- */

cst_status cst_folds_inside(cst_context *context, const cst_view *in, const int32_t *folds,
                            int64_t rows, int32_t fold_count, int32_t fold, uint64_t seed,
                            int32_t **out, int32_t *count) {
    *out = cst_alloc(context, (size_t)in->rows, sizeof **out);
    if (!*out)
        return CST_ERROR_MEMORY;
    *count = fold_count - 1;
    if (*count >= 2) {
        int64_t to = 0;
        for (int64_t i = 0; i < rows; i++)
            if (folds[i] != fold)
                (*out)[to++] = folds[i] - (folds[i] > fold);
        return CST_OK;
    }
    *count = 2;
    int32_t *labels = cst_alloc(context, (size_t)in->rows, sizeof *labels);
    int64_t *groups = cst_alloc(context, in->groups ? (size_t)in->rows : 0, sizeof *groups);
    cst_status status = labels && groups ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && i < in->rows; i++) {
        labels[i] = cst_view_label(in, i);
        if (in->groups)
            groups[i] = in->groups[in->index ? in->index[i] : i];
    }
    if (status == CST_OK && in->groups)
        status = cst_folds_grouped(context, labels, groups, in->rows, *count, seed, *out);
    else if (status == CST_OK)
        status = cst_folds_stratified(context, labels, in->rows, *count, seed, *out);
    cst_free(context, groups);
    cst_free(context, labels);
    if (status != CST_OK) {
        cst_free(context, *out);
        *out = NULL;
    }
    return status;
}

typedef struct crossfit {
    const cst_view *view;
    const int32_t *folds;
    int32_t fold_count;
    const cst_settings *settings;
    int32_t learners;
    float *held; /* [learners][rows][classes]: probabilities from fits that did not see the row */
} crossfit;

static void scatter(const crossfit *job, int32_t learner, int32_t fold, const float *from) {
    size_t classes = (size_t)job->view->classes;
    float *to = job->held + (size_t)learner * (size_t)job->view->rows * classes;
    for (int64_t i = 0; i < job->view->rows; i++) {
        if (job->folds[i] != fold)
            continue;
        memcpy(to + (size_t)i * classes, from, classes * sizeof *from);
        from += classes;
    }
}

static cst_status crossfit_task(cst_context *context, void *user, int64_t task) {
    const crossfit *job = user;
    int32_t fold = (int32_t)task;
    cst_view in;
    cst_view out;
    cst_meta_fit fit = {0};
    int32_t *folds = NULL;
    int32_t fold_count = 0;
    float *part = NULL;
    int64_t *index = cst_alloc(context, (size_t)job->view->rows, sizeof *index);
    if (!index)
        return CST_ERROR_MEMORY;
    cst_view_split(job->view, job->folds, fold, index, &in, &out);
    cst_status status = cst_folds_inside(context, &in, job->folds, job->view->rows, job->fold_count,
                                         fold, job->settings->seed, &folds, &fold_count);
    if (status == CST_OK)
        status = fit_rows(context, &in, folds, fold_count, job->settings, &fit);
    if (status == CST_OK) {
        part = cst_alloc(context, (size_t)out.rows * (size_t)out.classes, sizeof *part);
        status = part ? CST_OK : CST_ERROR_MEMORY;
    }
    for (int32_t m = 0; status == CST_OK && m < job->learners; m++) {
        status = cst_stack_predict_learner(context, fit.model, m, &out, part);
        if (status == CST_OK)
            scatter(job, m, fold, part);
    }
    cst_free(context, part);
    cst_free(context, folds);
    cst_free(context, index);
    cst_meta_fit_free(context, &fit);
    return status;
}

/* Total NLL of one learner's held-out probabilities. */
static double total_nll(const crossfit *job, const float *held) {
    size_t classes = (size_t)job->view->classes;
    double sum = 0;
    for (int64_t i = 0; i < job->view->rows; i++) {
        double p = (double)held[(size_t)i * classes + (size_t)cst_view_label(job->view, i)];
        sum -= log(fmax(p, 1e-15));
    }
    return sum;
}

static bool is_empty(const cst_learner *learner) {
    for (int32_t j = 0; j < learner->coefficients; j++)
        if (learner->weights[j] != 0)
            return false;
    return true;
}

/* A penalty that leaves a learner no coefficient leaves it no Hessian either, and the Laplace
 * weights would take the missing determinant for simplicity: such a learner, which says the same
 * for every sample, gets no evidence as long as there is another. */
static void leave_out_empty(cst_context *context, const cst_model *model, int32_t learners,
                            double *nll) {
    int32_t full = 0;
    for (int32_t m = 0; m < learners; m++)
        full += !is_empty(&model->learner[m]);
    for (int32_t m = 0; m < learners && full > 0; m++) {
        if (!is_empty(&model->learner[m]))
            continue;
        nll[m] = INFINITY;
        cst_notice(context,
                   "the penalty leaves the %s no coefficient; it takes no part in the blend",
                   cst_learner_name(model->learner[m].kind));
    }
}

static cst_status blend(cst_context *context, const crossfit *job, cst_meta_fit *fit) {
    size_t cells = (size_t)job->view->rows * (size_t)job->view->classes;
    int32_t *labels = cst_alloc(context, (size_t)job->view->rows, sizeof *labels);
    if (!labels)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < job->view->rows; i++)
        labels[i] = cst_view_label(job->view, i);
    const float *held[CST_LEARNERS_MAX];
    double nll[CST_LEARNERS_MAX];
    double logdet[CST_LEARNERS_MAX];
    for (int32_t m = 0; m < job->learners; m++) {
        held[m] = job->held + (size_t)m * cells;
        fit->nll[m] = total_nll(job, held[m]);
        nll[m] = fit->nll[m];
        logdet[m] = 2 * fit->half_logdet[m];
    }
    leave_out_empty(context, fit->model, job->learners, nll);
    double weights[CST_LEARNERS_MAX] = {0};
    cst_view mixture = {.rows = job->view->rows,
                        .classes = job->view->classes,
                        .members = job->learners,
                        .data = held,
                        .labels = labels};
    cst_status status =
        cst_blend_weights(context, &mixture, nll, logdet, &job->settings->blend, weights);
    for (int32_t m = 0; status == CST_OK && m < job->learners; m++)
        fit->weight[m] = fit->model->learner[m].blend = weights[m];
    for (int64_t i = 0; status == CST_OK && fit->row_loss && i < job->view->rows; i++) {
        double p = 0;
        for (int32_t m = 0; m < job->learners; m++)
            p += weights[m] * (double)held[m][i * job->view->classes + labels[i]];
        fit->row_loss[i] = -log(fmax(p, 1e-15));
    }
    cst_free(context, labels);
    return status;
}

cst_status cst_meta_fit_run(cst_context *context, const cst_view *view, const int32_t *folds,
                            int32_t fold_count, const cst_settings *settings, bool losses,
                            cst_meta_fit *out) {
    cst_status status = fit_rows(context, view, folds, fold_count, settings, out);
    double start = cst_seconds();
    crossfit job = {.view = view,
                    .folds = folds,
                    .fold_count = fold_count,
                    .settings = settings,
                    .learners = out->learners};
    if (status == CST_OK && (out->learners > 1 || losses)) {
        size_t cells = 0;
        if (!cst_size_mul((size_t)view->rows, (size_t)view->classes, &cells) ||
            !cst_size_mul(cells, (size_t)out->learners, &cells))
            status = cst_fail(context, CST_ERROR_LIMIT, "the cross-fitted predictions overflow");
        job.held = status == CST_OK ? cst_alloc(context, cells, sizeof *job.held) : NULL;
        if (losses)
            out->row_loss = cst_alloc(context, (size_t)view->rows, sizeof *out->row_loss);
        if (!job.held || (losses && !out->row_loss))
            status = status == CST_OK ? CST_ERROR_MEMORY : status;
        if (status == CST_OK)
            status = cst_parallel_for(context, fold_count, crossfit_task, &job);
        if (status == CST_OK)
            status = blend(context, &job, out);
    } else if (status == CST_OK) {
        out->nll[0] = NAN;
    }
    out->seconds_blend = cst_seconds() - start;
    cst_free(context, job.held);
    if (status != CST_OK)
        cst_meta_fit_free(context, out);
    return status;
}

cst_status cst_model_prune(cst_context *context, cst_model *model) {
    int32_t kept = 0;
    double total = 0;
    bool linear = false;
    for (int32_t m = 0; m < model->learners; m++) {
        cst_learner *learner = &model->learner[m];
        if (fabs(learner->blend) < NEGLIGIBLE_WEIGHT) {
            cst_free(context, learner->weights);
            cst_free(context, learner->bias);
            *learner = (cst_learner){0};
            continue;
        }
        total += learner->blend;
        linear |= learner->kind != CST_LEARNER_LOGLINEAR;
        cst_learner moved = *learner;
        *learner = (cst_learner){0};
        model->learner[kept++] = moved;
    }
    if (kept == 0)
        return cst_fail(context, CST_ERROR_INTERNAL, "no meta-learner is left in the blend");
    model->learners = kept;
    for (int32_t m = 0; m < kept; m++)
        model->learner[m].blend /= total;
    if (!linear) {
        cst_gate_free(context, &model->gate);
        model->gate.mode = CST_GATE_NONE;
        model->gate.inputs = model->members;
    }
    return CST_OK;
}
