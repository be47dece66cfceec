/*
 * Stages S2 to S4 on a fixed set of members. Every learner is fitted on all rows and, for its
 * out-of-fold loss, again without each fold; gate, moments, penalties and curvature belong to the
 * rows they are fitted on.
 */
#include "fit/learners.h"

#include "data/pool/folds.h"
#include "fit/heldout.h"
#include "fit/refits.h"
#include "fit/weigh.h"
#include "fit/whole.h"
#include "method/gate/design.h"
#include "method/linear/linear.h"
#include "stats/risk.h"

#include <math.h>
#include <string.h>

/* Most classes of pools for which a preset blends whole methods. */
static const int32_t WHOLE_CLASSES = 256;

/* ---- one fit on one set of rows ---- */

/* Number `index` of the option's choices, where it is wanted; else NULL. */
static const cst_meta_spec *wanted(const cst_settings *settings, int index) {
    return settings->learners >> index & 1U ? cst_meta_spec_at(index) : NULL;
}

static bool wants_whole(const cst_settings *settings) {
    for (int i = 0; i < CST_LEARNERS_MAX; i++)
        if (wanted(settings, i) && cst_meta_is_whole(wanted(settings, i)))
            return true;
    return false;
}

/* Whether it is wanted and can be fitted on the rows of the view. */
static bool applies(const cst_settings *settings, int index, const cst_view *view) {
    const cst_meta_spec *spec = wanted(settings, index);
    if (!spec || !cst_meta_is_whole(spec))
        return spec != NULL;
    /* With so many classes whole methods cost more than the pool, and their maps are noise. */
    bool few = view->classes <= WHOLE_CLASSES || settings->learners_chosen;
    return few && cst_whole_applies(spec, view);
}

static bool wants(const cst_settings *settings, cst_learner_kind kind) {
    for (int i = 0; i < CST_LEARNERS_MAX; i++) {
        const cst_meta_spec *spec = wanted(settings, i);
        if (spec && !cst_meta_is_whole(spec) && spec->kind == kind)
            return true;
    }
    return false;
}

static bool wants_linear(const cst_settings *settings) {
    return wants(settings, CST_LEARNER_RIDGE) || wants(settings, CST_LEARNER_ELASTIC_NET) ||
           wants(settings, CST_LEARNER_LASSO);
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
    cst_penalty_options options = cst_settings_penalty(settings);
    cst_penalty penalty = {0};
    cst_spectrum_members members = {.count = fit->model->members, .classes = fit->model->classes};
    cst_status status =
        cst_penalty_choose(context, moments, standardised, &members, &options, &penalty);
    if (status != CST_OK)
        return status;
    fit->lambda = penalty.lambda;
    fit->sigma2 = penalty.sigma2;
    fit->mp_edge = penalty.mp_edge;
    fit->snr = penalty.snr;
    for (size_t i = 0; status == CST_OK && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!wants(settings, learners[i]))
            continue;
        cst_linear linear = {0};
        double lambda = 0;
        status = penalty_of(context, moments, settings, kinds[i], fit->lambda, &lambda);
        CST_THEN(
            cst_linear_fit(context, standardised, kinds[i], lambda, settings->l1_ratio, &linear));
        int32_t at = fit->learners++;
        fit->name[at] = cst_learner_name(learners[i]);
        CST_THEN(keep_linear(context, &linear, &fit->model->learner[at]));
        if (status == CST_OK && fit->refits)
            status = cst_refits_add_linear(context, fit->model->refits, standardised, &linear,
                                           fit->model->members, at);
        fit->half_logdet[at] = 0.5 * linear.logdet_hessian;
        fit->active[at] = linear.active;
        cst_linear_free(context, &linear);
    }
    return status;
}

/* Standardised columns from moments by fold, then the wanted linear learners. */
static cst_status fit_moments(cst_context *context, const cst_moments *moments,
                              const cst_settings *settings, cst_meta_fit *fit) {
    cst_standardised standardised = {0};
    cst_status status = cst_standardise(context, moments, -1, &standardised);
    CST_THEN(fit_linear(context, moments, &standardised, settings, fit));
    cst_standardised_free(context, &standardised);
    return status;
}

cst_status cst_meta_diagnose(cst_context *context, const cst_view *view, const int32_t *folds,
                             int32_t fold_count, const cst_settings *settings, cst_meta_fit *fit) {
    cst_gate gate = {0};
    cst_moments moments = {0};
    cst_gate_options options = settings->gate;
    cst_settings nothing_to_fit = *settings;
    options.mode = CST_GATE_PROTOTYPE;
    nothing_to_fit.learners = 0;
    cst_status status = cst_gate_fit(context, view, 0, &options, &gate);
    CST_THEN(cst_moments_compute(context, view, &gate, folds, fold_count, &moments));
    CST_THEN(fit_moments(context, &moments, &nothing_to_fit, fit));
    cst_moments_free(context, &moments);
    cst_gate_free(context, &gate);
    return status;
}

/* The first log-linear pool has the model's mixing, a further one its own. */
static cst_status mix_of(cst_context *context, const cst_meta_spec *spec,
                         const cst_settings *settings, cst_model *model, cst_learner *learner,
                         double **mix) {
    *mix = model->mix;
    if (!(spec->nonnegative || spec->share > 0) || !(settings->learners & CST_META_LOGLINEAR))
        return CST_OK;
    cst_learner_own *own = cst_alloc(context, 1, sizeof *own);
    learner->own = own;
    if (!own)
        return CST_ERROR_MEMORY;
    own->map = model->map;
    own->name = cst_strdup(context, spec->name);
    own->mix = cst_alloc(context, (size_t)model->members, sizeof *own->mix);
    *mix = own->mix;
    return own->name && own->mix ? CST_OK : CST_ERROR_MEMORY;
}

/* held_out: [view->rows] for the held-out loss of its cross-validation, or NULL. */
static cst_status fit_loglinear(cst_context *context, const cst_meta_spec *spec,
                                const cst_view *view, const int32_t *folds, int32_t fold_count,
                                const cst_settings *settings, double *held_out, cst_meta_fit *fit) {
    double start = cst_seconds();
    cst_loglinear pool = {0};
    cst_loglinear_options options = settings->loglinear;
    int32_t at = fit->learners++;
    double logdet = NAN;
    double *mix = NULL;
    cst_loglinear_cv cv = {.prior = settings->prior_cv,
                           .brief = held_out != NULL,
                           .share = settings->share_cv && spec->share <= 0,
                           .loss = held_out};
    fit->name[at] = spec->name;
    options.nonnegative = options.nonnegative || spec->nonnegative;
    if (spec->share > 0)
        options.compact.share = spec->share;
    cst_status status = mix_of(context, spec, settings, fit->model, &fit->model->learner[at], &mix);
    CST_THEN(cst_loglinear_pool(context, view, folds, fold_count, &cv, &options, mix, &pool,
                                settings->blend.rule == CST_BLEND_STACKING ? NULL : &logdet));
    if (status == CST_OK && spec->share <= 0 && !spec->nonnegative) {
        fit->share = options.compact.share;
        fit->precision = pool.prior_weights;
    }
    fit->half_logdet[at] = 0.5 * logdet;
    CST_THEN(cst_loglinear_learner(context, &pool, &fit->model->learner[at]));
    if (status == CST_OK && fit->refits)
        status = cst_refits_add_loglinear(context, fit->model->refits, &pool, &options, at);
    cst_loglinear_free(context, &pool);
    fit->seconds_ridge += cst_seconds() - start;
    return status;
}

/* Where other learners read a gate, a mixture has weights of 0 for the gate's columns. */
static cst_status widen(cst_context *context, const cst_gate *gate, cst_learner *learner) {
    int32_t columns = cst_design_columns(gate);
    if (!cst_learner_is_linear(learner->kind) || learner->coefficients == columns)
        return CST_OK;
    double *weights = cst_alloc(context, (size_t)columns, sizeof *weights);
    if (!weights)
        return CST_ERROR_MEMORY;
    memcpy(weights, learner->weights, (size_t)learner->coefficients * sizeof *weights);
    cst_free(context, learner->weights);
    learner->weights = weights;
    learner->coefficients = columns;
    return CST_OK;
}

static cst_status fit_whole(cst_context *context, const cst_meta_spec *spec, const cst_view *view,
                            const int32_t *folds, int32_t fold_count, const cst_settings *settings,
                            const cst_learner *near, cst_meta_fit *fit) {
    int32_t at = fit->learners++;
    fit->name[at] = spec->name;
    cst_status status =
        cst_whole_fit(context, spec, view, folds, fold_count, settings, near,
                      fit->refits ? fit->model->refits : NULL, at, &fit->model->learner[at]);
    CST_THEN(widen(context, &fit->model->gate, &fit->model->learner[at]));
    return status;
}

/* ---- fits on all rows and without each fold ---- */

/* A set of rows and the fit on it. */
typedef struct part {
    cst_view view;
    int64_t *index;        /* NULL for all rows */
    const int32_t *folds;  /* [view.rows] */
    int32_t *own_folds;    /* the same where they are not the caller's */
    int32_t *design_folds; /* [all rows]: the same at their places, -1 for rows that are not in */
    int32_t fold_count;
    int32_t best; /* member of least risk on these rows */
    cst_moments moments;
    cst_meta_fit fit;
} part;

typedef struct crossfit {
    const cst_view *view;
    const int32_t *folds;
    int32_t fold_count;
    const cst_settings *settings;
    int32_t count; /* parts: all rows, and where there is cross-fitting those without each fold */
    part *parts;
    /* [rows]: held-out loss of the log-linear pool, whose cross-validation has fitted it without
     * each fold; NULL: the parts fit it */
    double *pool_loss;
    int32_t pool_at; /* its number among the learners of all rows */
} crossfit;

/* An empty model of the view's shape. */
static cst_status start_fit(cst_context *context, const cst_view *view,
                            const cst_settings *settings, cst_meta_fit *fit) {
    *fit = (cst_meta_fit){.lambda = NAN, .sigma2 = NAN, .mp_edge = NAN, .snr = NAN};
    for (int m = 0; m < CST_LEARNERS_MAX; m++)
        fit->half_logdet[m] = fit->loss[m] = NAN;
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
    return CST_OK;
}

void cst_meta_fit_free(cst_context *context, cst_meta_fit *fit) {
    cst_model_free(context, fit->model);
    cst_free(context, fit->row_loss);
    *fit = (cst_meta_fit){0};
}

static void free_parts(cst_context *context, crossfit *job) {
    for (int32_t i = 0; job->parts && i < job->count; i++) {
        part *p = &job->parts[i];
        cst_moments_free(context, &p->moments);
        cst_meta_fit_free(context, &p->fit);
        cst_free(context, p->index);
        cst_free(context, p->own_folds);
        cst_free(context, p->design_folds);
    }
    cst_free(context, job->parts);
    job->parts = NULL;
}

/* Whether some learner of the parts divides its rows again. */
static bool needs_folds(const crossfit *job) {
    if (!job->pool_loss)
        return true;
    for (int i = 0; i < CST_LEARNERS_MAX; i++) {
        const cst_meta_spec *spec = wanted(job->settings, i);
        if (spec && spec->kind != CST_LEARNER_LINEAR && spec->kind != CST_LEARNER_LOGLINEAR)
            return true;
    }
    return false;
}

/* The rows without fold `fold`, and their own folds; all 0 where nobody reads them. */
static cst_status leave_out(cst_context *context, const crossfit *job, int32_t fold, part *p) {
    size_t rows = (size_t)job->view->rows;
    cst_view out;
    p->index = cst_alloc(context, rows, sizeof *p->index);
    p->design_folds = cst_alloc(context, rows, sizeof *p->design_folds);
    if (!p->index || !p->design_folds)
        return CST_ERROR_MEMORY;
    cst_view_split(job->view, job->folds, fold, p->index, &p->view, &out);
    cst_status status = CST_OK;
    if (needs_folds(job)) {
        status = cst_folds_inside(context, &p->view, job->folds, job->view->rows, job->fold_count,
                                  fold, job->settings->seed, &p->own_folds, &p->fold_count);
    } else {
        p->own_folds = cst_alloc(context, rows, sizeof *p->own_folds);
        p->fold_count = 1;
        status = p->own_folds ? CST_OK : CST_ERROR_MEMORY;
    }
    p->folds = p->own_folds;
    int64_t to = 0;
    for (int64_t i = 0; status == CST_OK && i < job->view->rows; i++)
        p->design_folds[i] = job->folds[i] == fold ? -1 : p->own_folds[to++];
    return status;
}

static cst_status make_parts(cst_context *context, crossfit *job) {
    job->parts = cst_alloc(context, (size_t)job->count, sizeof *job->parts);
    if (!job->parts)
        return CST_ERROR_MEMORY;
    part *all = &job->parts[0];
    all->view = *job->view;
    all->folds = job->folds;
    all->fold_count = job->fold_count;
    cst_status status = CST_OK;
    for (int32_t i = 0; status == CST_OK && i < job->count; i++) {
        if (i > 0)
            status = leave_out(context, job, i - 1, &job->parts[i]);
        CST_THEN(start_fit(context, &job->parts[i].view, job->settings, &job->parts[i].fit));
    }
    if (status == CST_OK) {
        all->fit.refits = true;
        status = cst_refits_create(context, CST_LEARNERS_MAX, &all->fit.model->refits);
    }
    return status;
}

/* ---- the linear learners of every part ---- */

/* Sums of -log p of the true class by the rows' weights, [folds][members]. */
static cst_status risk_block(cst_context *context, void *user, int64_t block, double *sum) {
    const crossfit *job = user;
    const cst_view *view = job->view;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    size_t width = (size_t)view->classes;
    float *scratch =
        cst_alloc(context, cst_view_copies(view) ? (size_t)count * width : 0, sizeof *scratch);
    cst_status status = scratch ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t k = 0; status == CST_OK && k < view->members; k++) {
        const float *rows = NULL;
        status = cst_view_rows(context, view, k, first, count, scratch, &rows);
        for (int64_t i = 0; status == CST_OK && i < count; i++) {
            double p = (double)rows[(size_t)i * width + (size_t)cst_view_label(view, first + i)];
            double loss = -log(fmax(p, CST_NLL_FLOOR));
            sum[job->folds[first + i] * view->members + k] +=
                view->weights ? cst_view_weight(view, first + i) * loss : loss;
        }
    }
    cst_free(context, scratch);
    return status;
}

/* The member of least risk on the rows of each part, in one pass. */
static cst_status lowest_risks(cst_context *context, crossfit *job) {
    int32_t members = job->view->members;
    size_t width = (size_t)job->fold_count * (size_t)members;
    double *sums = cst_alloc(context, width + (size_t)members, sizeof *sums);
    if (!sums)
        return CST_ERROR_MEMORY;
    double *risk = sums + width;
    cst_status status =
        cst_reduce_blocks(context, cst_block_count(job->view->rows), width, risk_block, job, sums);
    for (int32_t i = 0; status == CST_OK && i < job->count; i++) {
        memset(risk, 0, (size_t)members * sizeof *risk);
        for (int32_t f = 0; f < job->fold_count; f++)
            for (int32_t k = 0; f != i - 1 && k < members; k++)
                risk[k] += sums[f * members + k];
        for (int32_t k = 1; k < members; k++)
            if (risk[k] < risk[job->parts[i].best])
                job->parts[i].best = k;
    }
    cst_free(context, sums);
    return status;
}

static cst_status fit_gate(cst_context *context, const void *user, int32_t index, cst_gate *out) {
    const crossfit *job = user;
    const part *p = &job->parts[index];
    return cst_gate_fit(context, &p->view, p->best, &job->settings->gate, out);
}

/* The gates of all parts. */
static cst_status fit_gates(cst_context *context, const crossfit *job) {
    cst_gate **gates = cst_alloc(context, (size_t)job->count, sizeof *gates);
    if (!gates)
        return CST_ERROR_MEMORY;
    for (int32_t i = 0; i < job->count; i++)
        gates[i] = &job->parts[i].fit.model->gate;
    cst_status status = cst_gates_fit(context, job->view->members, &job->settings->gate, fit_gate,
                                      job, job->count, gates);
    cst_free(context, gates);
    return status;
}

static cst_status compute_designs(cst_context *context, const crossfit *job) {
    cst_moments_job *jobs = cst_alloc(context, (size_t)job->count, sizeof *jobs);
    if (!jobs)
        return CST_ERROR_MEMORY;
    for (int32_t i = 0; i < job->count; i++) {
        part *p = &job->parts[i];
        jobs[i] = (cst_moments_job){.gate = &p->fit.model->gate,
                                    .folds = i == 0 ? p->folds : p->design_folds,
                                    .fold_count = p->fold_count,
                                    .out = &p->moments};
    }
    cst_status status = cst_moments_compute_all(context, job->view, jobs, job->count);
    cst_free(context, jobs);
    return status;
}

static cst_status linear_task(cst_context *context, void *user, int64_t task) {
    const crossfit *job = user;
    part *p = &job->parts[task];
    return fit_moments(context, &p->moments, job->settings, &p->fit);
}

static cst_status other_linear_task(cst_context *context, void *user, int64_t task) {
    return linear_task(context, user, task + 1);
}

static cst_status fit_linear_parts(cst_context *context, crossfit *job) {
    cst_meta_fit *fit = &job->parts[0].fit;
    double start = cst_seconds();
    cst_status status = lowest_risks(context, job);
    CST_THEN(fit_gates(context, job));
    fit->seconds_gate = cst_seconds() - start;
    start = cst_seconds();
    CST_THEN(compute_designs(context, job));
    CST_THEN(linear_task(context, job, 0)); /* not in a loop: its notices are told */
    CST_THEN(cst_parallel_for(context, job->count - 1, other_linear_task, job));
    fit->seconds_ridge = cst_seconds() - start;
    return status;
}

/* ---- the log-linear pools and whole methods of every part ---- */

/* The same learner fitted on all rows, which is done first. */
static const cst_learner *learner_of_all(const crossfit *job, const cst_meta_spec *spec) {
    const cst_meta_fit *fit = &job->parts[0].fit;
    int32_t m = 0;
    while (fit->name[m] != spec->name)
        m++;
    return &fit->model->learner[m];
}

static cst_status other_learners(cst_context *context, crossfit *job, part *p) {
    bool all = p == &job->parts[0];
    cst_status status = CST_OK;
    for (int i = 0; status == CST_OK && i < CST_LEARNERS_MAX; i++) {
        const cst_meta_spec *spec =
            applies(job->settings, i, job->view) ? cst_meta_spec_at(i) : NULL;
        if (spec && cst_meta_is_whole(spec))
            status = fit_whole(context, spec, &p->view, p->folds, p->fold_count, job->settings,
                               all ? NULL : learner_of_all(job, spec), &p->fit);
        else if (spec && spec->kind == CST_LEARNER_LOGLINEAR && (all || !job->pool_loss)) {
            if (all) /* the other parts run side by side and only read it */
                job->pool_at = p->fit.learners;
            status = fit_loglinear(context, spec, &p->view, p->folds, p->fold_count, job->settings,
                                   job->pool_loss, &p->fit);
        }
    }
    return status;
}

static cst_status other_task(cst_context *context, void *user, int64_t task) {
    crossfit *job = user;
    return other_learners(context, job, &job->parts[task + 1]);
}

static cst_status fit_parts(cst_context *context, crossfit *job) {
    cst_status status = CST_OK;
    part *all = &job->parts[0];
    if (wants_linear(job->settings))
        status = fit_linear_parts(context, job);
    CST_THEN(other_learners(context, job, all));
    double start = cst_seconds();
    CST_THEN(cst_parallel_turns(context, job->count - 1, other_task, job));
    all->fit.seconds_blend = cst_seconds() - start;
    for (int32_t i = 0; status == CST_OK && i < job->count; i++) {
        cst_meta_fit *fit = &job->parts[i].fit;
        fit->model->learners = fit->learners;
        for (int32_t m = 0; m < fit->learners; m++)
            fit->weight[m] = fit->model->learner[m].blend = 1.0 / (double)fit->learners;
    }
    return status;
}

/* ---- the blend ---- */

/* The rows that the blend is judged on: all, or those of which the held-out loss of the log-linear
 * pool is known. */
typedef struct judged {
    cst_view view;
    const int32_t *folds;
    int64_t *position; /* [view.rows] in the fit's view; NULL: every row */
    int64_t *index;
    int32_t *own_folds;
} judged;

static void free_judged(cst_context *context, judged *out) {
    cst_free(context, out->position);
    cst_free(context, out->index);
    cst_free(context, out->own_folds);
}

static cst_status find_judged(cst_context *context, const crossfit *job, judged *out) {
    size_t rows = (size_t)job->view->rows;
    int64_t count = 0;
    *out = (judged){.view = *job->view, .folds = job->folds};
    for (size_t i = 0; job->pool_loss && i < rows; i++)
        count += !isnan(job->pool_loss[i]);
    if (!job->pool_loss || count == job->view->rows)
        return CST_OK;
    out->position = cst_alloc(context, rows, sizeof *out->position);
    out->index = cst_alloc(context, rows, sizeof *out->index);
    out->own_folds = cst_alloc(context, rows, sizeof *out->own_folds);
    if (!out->position || !out->index || !out->own_folds)
        return CST_ERROR_MEMORY;
    count = 0;
    for (int64_t i = 0; i < job->view->rows; i++) {
        if (isnan(job->pool_loss[i]))
            continue;
        out->position[count] = i;
        out->index[count] = job->view->index ? job->view->index[i] : i;
        out->own_folds[count++] = job->folds[i];
    }
    out->view.rows = count;
    out->view.index = out->index;
    out->folds = out->own_folds;
    return CST_OK;
}

/* Probabilities of the true class: the log-linear pool's come from its cross-validation where they
 * are known, before those of the learners that come after it. */
static void place_truth(const crossfit *job, const judged *rows, int32_t learners, float *truth) {
    int64_t n = rows->view.rows;
    if (!job->pool_loss)
        return;
    for (int32_t m = learners - 1; m > job->pool_at; m--)
        memcpy(truth + m * n, truth + (m - 1) * n, (size_t)n * sizeof *truth);
    for (int64_t i = 0; i < n; i++)
        truth[job->pool_at * n + i] =
            (float)exp(-job->pool_loss[rows->position ? rows->position[i] : i]);
}

/* Predicts every row with the fit that has not seen it, and blends by what comes out. */
static cst_status blend_heldout(cst_context *context, const crossfit *job, bool losses,
                                cst_meta_fit *fit) {
    size_t cells = 0;
    double moments[CST_LEARNERS_MAX * CST_LEARNERS_MAX];
    double squares[CST_LEARNERS_MAX];
    const cst_blend_options *options = &job->settings->blend;
    bool needed = fit->learners > 1 && cst_blend_needs_moments(options->rule);
    bool squared = options->rule == CST_BLEND_LAPLACE && options->same_loss;
    judged rows;
    cst_status status = find_judged(context, job, &rows);
    if (!cst_size_mul((size_t)job->view->rows, (size_t)fit->learners, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "the cross-fitted predictions overflow");
    float *truth = cst_alloc(context, cells, sizeof *truth);
    const cst_model **models = cst_alloc(context, (size_t)job->fold_count, sizeof *models);
    if (losses)
        fit->row_loss = cst_alloc(context, (size_t)job->view->rows, sizeof *fit->row_loss);
    if (!truth || !models || (losses && !fit->row_loss))
        status = CST_ERROR_MEMORY;
    for (int32_t f = 0; status == CST_OK && f < job->fold_count; f++)
        models[f] = job->parts[f + 1].fit.model;
    cst_heldout heldout = {.view = &rows.view,
                           .folds = rows.folds,
                           .fold_count = job->fold_count,
                           .models = models,
                           .learners = fit->learners - (job->pool_loss != NULL),
                           .truth = truth,
                           .moments = needed ? moments : NULL,
                           .squares = squared ? squares : NULL};
    CST_THEN(cst_heldout_run(context, &heldout));
    if (status == CST_OK)
        place_truth(job, &rows, fit->learners, truth);
    CST_THEN(cst_blend_learners(context, &rows.view, options, truth, needed ? moments : NULL,
                                squared ? squares : NULL, fit));
    free_judged(context, &rows);
    cst_free(context, truth);
    cst_free(context, models);
    return status;
}

/* Whether the blend can take the held-out loss of the log-linear pool from its cross-validation: it
 * asks for nothing else, and there is one such pool. */
static bool takes_pool_loss(const cst_settings *settings, bool losses) {
    int32_t pools = 0;
    for (int i = 0; i < CST_LEARNERS_MAX; i++) {
        const cst_meta_spec *spec = wanted(settings, i);
        pools += spec && !cst_meta_is_whole(spec) && spec->kind == CST_LEARNER_LOGLINEAR;
    }
    return settings->blend.rule == CST_BLEND_STACKING && !losses && pools == 1;
}

cst_status cst_meta_fit_run(cst_context *context, const cst_view *view, const int32_t *folds,
                            int32_t fold_count, const cst_settings *settings, bool losses,
                            cst_meta_fit *out) {
    *out = (cst_meta_fit){0};
    int32_t count = 0;
    for (int i = 0; i < CST_LEARNERS_MAX; i++)
        count += applies(settings, i, view);
    if (count == 0)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "none of the methods in meta.learners takes row weights; add log-linear, "
                        "or remove the weights");
    if (settings->blend.rule == CST_BLEND_LAPLACE && count > 1 && wants_whole(settings))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "blend.rule=laplace weighs learners by the curvature of their losses, "
                        "which whole methods such as average+vector do not have: set meta.learners "
                        "to some of ridge, elastic-net, lasso, log-linear, or "
                        "blend.rule=stacking");
    bool cross = count > 1 || losses;
    crossfit job = {.view = view,
                    .folds = folds,
                    .fold_count = fold_count,
                    .settings = settings,
                    .count = cross ? fold_count + 1 : 1};
    cst_status status = CST_OK;
    if (cross && takes_pool_loss(settings, losses)) {
        job.pool_loss = cst_alloc(context, (size_t)view->rows, sizeof *job.pool_loss);
        status = job.pool_loss ? CST_OK : CST_ERROR_MEMORY;
    }
    CST_THEN(make_parts(context, &job));
    CST_THEN(fit_parts(context, &job));
    if (status == CST_OK) {
        cst_meta_fit *fit = &job.parts[0].fit;
        double start = cst_seconds();
        if (cross)
            status = blend_heldout(context, &job, losses, fit);
        else
            fit->nll[0] = NAN;
        fit->seconds_blend += cst_seconds() - start;
        if (status == CST_OK) {
            *out = *fit;
            *fit = (cst_meta_fit){0};
        }
    }
    cst_free(context, job.pool_loss);
    free_parts(context, &job);
    return status;
}

cst_status cst_model_prune(cst_context *context, cst_model *model) {
    int32_t kept = 0;
    double total = 0;
    bool linear = false;
    int32_t place[CST_LEARNERS_MAX];
    for (int32_t m = 0; m < model->learners; m++) {
        cst_learner *learner = &model->learner[m];
        place[m] = -1;
        if (fabs(learner->blend) < CST_NEGLIGIBLE_WEIGHT) {
            cst_learner_free(context, learner);
            continue;
        }
        total += learner->blend;
        linear |= learner->kind != CST_LEARNER_LOGLINEAR;
        cst_learner moved = *learner;
        *learner = (cst_learner){0};
        place[m] = kept;
        model->learner[kept++] = moved;
    }
    if (kept == 0)
        return cst_fail(context, CST_ERROR_INTERNAL, "no meta-learner is left in the blend");
    model->learners = kept;
    cst_refits_move(context, model->refits, place);
    cst_refits_check(context, model);
    cst_refits_round(model->refits, model->members);
    for (int32_t m = 0; m < kept; m++)
        model->learner[m].blend /= total;
    if (!linear) {
        cst_gate_free(context, &model->gate);
        model->gate.mode = CST_GATE_NONE;
        model->gate.inputs = model->members;
    }
    return CST_OK;
}
