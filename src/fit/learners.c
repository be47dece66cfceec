/* Stages S2 to S4 on a fixed set of members. Every learner is fitted on all rows and, for its
 * out-of-fold loss, again without each fold; gate, moments, penalties and curvature belong to the
 * rows they are fitted on. */
#include "fit/learners.h"

#include "fit/refits.h"
#include "fit/whole.h"
#include "method/gate/gate.h"
#include "stats/samples.h"

#include <math.h>
#include <string.h>

CST_OWNED(cst_linear)
CST_OWNED(cst_loglinear)
CST_OWNED(cst_moments)
CST_OWNED(cst_standardised)

/* Most classes of pools for which a preset blends whole methods. */
static const int32_t WHOLE_CLASSES = 256;

/* Of pools with so many rows and numbers a preset's whole methods are first fitted without one
 * fold, and those that the blend does not need there are not fitted again. */
static const int64_t TRIED_ROWS = 4096;
static const int64_t TRIED_NUMBERS = (int64_t)1 << 23;

/* ---- one fit on one set of rows ---- */

/* The ridge's rule chooses `ridge`; with `cv` each l1 kind searches its own path. */
static cst_status penalty_of(cst_context *context, const cst_moments *moments,
                             const cst_settings *settings, cst_linear_kind kind, double ridge,
                             double *lambda) {
    double ratio = kind == CST_LINEAR_LASSO ? 1 : settings->l1_ratio;
    *lambda = ridge;
    if (kind == CST_LINEAR_RIDGE || settings->penalty_rule != CST_PENALTY_CV || ratio == 0 ||
        moments->folds < 2)
        return CST_OK;
    return cst_linear_path_cv(context, moments, kind, ratio, 1e-6, 61, lambda, NULL, NULL);
}

cst_status cst_linear_learners(cst_context *context, const cst_moments *moments,
                               const cst_spectrum_members *members, const cst_settings *settings,
                               unsigned kinds, cst_penalty *penalty, cst_take_linear_fn take,
                               void *user) {
    cst_standardised standardised = {0};
    cst_penalty_options options = cst_settings_penalty(settings);
    if (options.rule == CST_PENALTY_CV && moments->folds < 2)
        options.rule = CST_PENALTY_GCV;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_standardised, &standardised);
    CST_TRY(cst_standardise(context, moments, -1, &standardised));
    CST_TRY(cst_penalty_choose(context, moments, &standardised, members, &options, penalty));
    for (int kind = CST_LINEAR_RIDGE; kind <= CST_LINEAR_LASSO; kind++) {
        cst_linear linear = {0};
        double lambda = 0;
        if (!(kinds >> kind & 1U))
            continue;
        CST_SCOPE(one);
        CST_OWN(context, one, cst_linear, &linear);
        CST_TRY(penalty_of(context, moments, settings, (cst_linear_kind)kind, penalty->lambda,
                           &lambda));
        CST_TRY(cst_linear_fit(context, &standardised, (cst_linear_kind)kind, lambda,
                               settings->l1_ratio, &linear));
        CST_TRY(take(context, user, &standardised, &linear, moments->inputs));
    }
    return CST_OK;
}

static cst_status take_linear(cst_context *context, void *user,
                              const cst_standardised *standardised, const cst_linear *linear,
                              int32_t members) {
    cst_meta_fit *fit = user;
    int32_t at = fit->learners++;
    cst_learner *learner = &fit->model->learner[at];
    learner->kind = (cst_learner_kind)linear->kind;
    learner->coefficients = linear->columns;
    learner->biases = 1;
    CST_TRY(cst_learner_take(context, learner));
    memcpy(learner->weights, linear->coefficients,
           (size_t)linear->columns * sizeof *learner->weights);
    learner->bias[0] = linear->intercept;
    fit->name[at] = cst_learner_name(learner->kind);
    fit->half_logdet[at] = 0.5 * linear->logdet_hessian;
    fit->active[at] = linear->active;
    return fit->refits ? cst_refits_add_linear(context, fit->model->refits, standardised, linear,
                                               members, at)
                       : CST_OK;
}

/* The linear learners `kinds` from moments by fold. */
static cst_status fit_moments(cst_context *context, const cst_moments *moments,
                              const cst_settings *settings, unsigned kinds, cst_meta_fit *fit) {
    cst_penalty penalty = {0};
    cst_spectrum_members members = {.count = fit->model->members, .classes = fit->model->classes};
    CST_TRY(cst_linear_learners(context, moments, &members, settings, kinds, &penalty, take_linear,
                                fit));
    fit->lambda = penalty.lambda;
    fit->sigma2 = penalty.sigma2;
    fit->mp_edge = penalty.mp_edge;
    fit->snr = penalty.snr;
    return CST_OK;
}

cst_status cst_meta_diagnose(cst_context *context, const cst_view *view, const int32_t *folds,
                             int32_t fold_count, const cst_settings *settings, cst_meta_fit *fit) {
    cst_gate gate = {0};
    cst_moments moments = {0};
    cst_gate_options options = settings->gate;
    options.mode = CST_GATE_PROTOTYPE;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_gate, &gate);
    CST_OWN(context, scope, cst_moments, &moments);
    CST_TRY(cst_gate_fit(context, view, 0, &options, &gate));
    CST_TRY(cst_moments_compute(context, view, &gate, folds, fold_count, &moments));
    return fit_moments(context, &moments, settings, 0, fit);
}

/* The first log-linear pool has the model's mixing, a further one its own. */
static cst_status mix_of(cst_context *context, const cst_meta_spec *spec,
                         const cst_settings *settings, cst_model *model, cst_learner *learner,
                         double **mix) {
    *mix = model->mix;
    if (!(spec->nonnegative || spec->share > 0) || !(settings->learners & CST_META_LOGLINEAR))
        return CST_OK;
    CST_TRY(cst_learner_own_take(context, learner, spec->name));
    learner->own->map = model->map;
    CST_TAKE(context, &learner->scope, *mix, model->members);
    learner->own->mix = *mix;
    return CST_OK;
}

/* held_out: [rows] for the held-out loss of its cross-validation, or NULL. */
static cst_status fit_loglinear(cst_context *context, const cst_meta_spec *spec,
                                const cst_some_rows *rows, const cst_settings *settings,
                                double *held_out, cst_meta_fit *fit) {
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
    CST_SCOPE(scope);
    CST_TRY(mix_of(context, spec, settings, fit->model, &fit->model->learner[at], &mix));
    CST_OWN(context, scope, cst_loglinear, &pool);
    CST_TRY(cst_loglinear_pool(context, &rows->view, rows->folds, rows->fold_count, &cv, &options,
                               mix, &pool,
                               settings->blend.rule == CST_BLEND_STACKING ? NULL : &logdet));
    if (spec->share <= 0 && !spec->nonnegative) {
        fit->share = options.compact.share;
        fit->prior = options.evidence ? 0 : options.prior_weights;
    }
    fit->half_logdet[at] = 0.5 * logdet;
    CST_TRY(cst_loglinear_learner(context, &pool, &fit->model->learner[at]));
    if (fit->refits)
        CST_TRY(cst_refits_add_loglinear(context, fit->model->refits, &pool, &options, at));
    fit->seconds_ridge += cst_seconds() - start;
    return CST_OK;
}

/* Where other learners read a gate, a mixture has weights of 0 for the gate's columns. */
static cst_status fit_whole(cst_context *context, const cst_meta_spec *spec,
                            const cst_some_rows *rows, const cst_settings *settings,
                            const cst_learner *near, cst_meta_fit *fit) {
    int32_t at = fit->learners++;
    int32_t columns = cst_design_columns(&fit->model->gate);
    cst_learner *learner = &fit->model->learner[at];
    fit->name[at] = spec->name;
    CST_TRY(cst_whole_fit(context, spec, rows, settings, near,
                          fit->refits ? fit->model->refits : NULL, at, learner));
    if (!cst_learner_is_linear(learner->kind) || learner->coefficients == columns)
        return CST_OK;
    CST_NEW(context, &learner->scope, double, weights, columns);
    memcpy(weights, learner->weights, (size_t)learner->coefficients * sizeof *weights);
    learner->weights = weights;
    learner->coefficients = columns;
    return CST_OK;
}

/* ---- fits on all rows and without each fold ---- */

/* A set of rows and the fit on it. */
typedef struct part {
    cst_some_rows rows;
    const int32_t *design_folds; /* [all rows]: theirs at their places, -1 for rows not in */
    int32_t best;                /* member of least risk on these rows */
    cst_moments moments;
    cst_meta_fit fit;
} part;

typedef struct crossfit {
    const cst_view *view;
    const int32_t *folds;
    int32_t fold_count;
    const cst_settings *settings;
    const cst_meta_spec *spec[CST_LEARNERS_MAX]; /* what is wanted and can be fitted on the rows */
    int32_t specs;
    int32_t pools;  /* log-linear ones among them that are no whole methods */
    unsigned kinds; /* bits of cst_linear_kind, whose values are those of cst_learner_kind */
    bool whole;     /* some whole method is wanted */
    bool divides;   /* some of them divides its rows again */
    int32_t count;  /* parts: all rows, and where there is cross-fitting those without each fold */
    part *parts;
    /* [rows]: held-out loss of the log-linear pool, whose cross-validation has fitted it without
     * each fold; NULL: the parts fit it */
    double *pool_loss;
    int32_t pool_at; /* its number among the learners of all rows */
    part *lead;      /* where a whole method is fitted first; the other fits begin from there */
} crossfit;

/* With so many classes whole methods cost more than the pool, and their maps are noise. */
static void find_specs(crossfit *job) {
    const cst_view *view = job->view;
    bool few = view->classes <= WHOLE_CLASSES || job->settings->learners_chosen;
    for (int i = 0; i < CST_LEARNERS_MAX; i++) {
        const cst_meta_spec *spec = cst_meta_spec_at(i);
        bool whole = cst_meta_is_whole(spec);
        bool loglinear = spec->kind == CST_LEARNER_LOGLINEAR;
        if (!(job->settings->learners >> i & 1U))
            continue;
        job->whole |= whole;
        if (whole && (!few || (view->weights && spec->baseline && spec->baseline->rows_alike)))
            continue;
        job->spec[job->specs++] = spec;
        job->divides |= !loglinear && spec->kind != CST_LEARNER_LINEAR;
        job->pools += !whole && loglinear;
        job->kinds |= whole || loglinear ? 0 : 1U << spec->kind;
    }
}

/* An empty model of the view's shape. */
static cst_status start_fit(cst_context *context, const cst_view *view,
                            const cst_settings *settings, cst_meta_fit *fit) {
    *fit = (cst_meta_fit){.lambda = NAN, .sigma2 = NAN, .mp_edge = NAN, .snr = NAN};
    for (int m = 0; m < CST_LEARNERS_MAX; m++)
        fit->half_logdet[m] = fit->loss[m] = NAN;
    CST_TRY(cst_stack_create(context, &fit->model));
    cst_model *model = fit->model;
    model->classes = view->classes;
    model->members = view->members;
    model->map = settings->map;
    model->gate.mode = CST_GATE_NONE;
    model->gate.inputs = view->members;
    CST_OWN(context, &model->scope, cst_gate, &model->gate);
    CST_TAKE(context, &model->scope, model->mix, view->members);
    CST_TAKE(context, &model->scope, model->learner, CST_LEARNERS_MAX);
    model->learners = CST_LEARNERS_MAX; /* so that a failure frees whatever was filled */
    return CST_OK;
}

void cst_meta_fit_free(cst_context *context, cst_meta_fit *fit) {
    cst_model_free(context, fit->model);
    cst_scope_free(&fit->scope);
    *fit = (cst_meta_fit){0};
}

/* Aggregators that the gate suppresses in the fit on all rows or in some without a fold. */
static cst_status tell_suppressed(cst_context *context, const cst_meta_fit *fit) {
    cst_model *model = fit->model;
    cst_buffer text = {.context = context};
    bool some = false;
    for (int32_t a = 0; a < CST_AGGREGATORS; a++) {
        int32_t folds = 0;
        char in[32] = "";
        char word[80];
        bool all = cst_gate_suppresses(fit->fold_fit[0].passed[a]);
        for (int32_t f = 1; f < fit->fold_fits; f++)
            folds += cst_gate_suppresses(fit->fold_fit[f].passed[a]);
        if (folds > 0)
            (void)cst_snprintf(in, sizeof in, "%s%d of %d folds", all ? " and " : "", (int)folds,
                               (int)fit->fold_fits - 1);
        (void)cst_snprintf(word, sizeof word, "%s%s in %s%s", some ? ", " : "",
                           cst_aggregator_name(a), all ? "the fit" : "", in);
        if (all || folds > 0)
            cst_buffer_add_text(&text, word);
        some |= all || folds > 0;
    }
    if (!some)
        cst_buffer_add_text(&text, "none");
    model->suppressed = text.bytes;
    CST_TRY(cst_scope_own(context, &model->scope, cst_free, text.bytes));
    return text.status;
}

/* Curvatures and gates of every part, by the fit's own evidence. `plain`: those of all rows before
 * the blend has put them on the scale of its loss. */
static cst_status note_folds(cst_context *context, const crossfit *job, const double *plain,
                             cst_meta_fit *fit) {
    CST_TAKE(context, &fit->scope, fit->fold_fit, job->count);
    fit->fold_fits = job->count;
    for (int32_t i = 0; i < job->count; i++) {
        const cst_meta_fit *from = &job->parts[i].fit;
        cst_fold_fit *to = &fit->fold_fit[i];
        memcpy(to->passed, from->model->gate.passed, sizeof to->passed);
        memcpy(to->active, from->active, sizeof to->active);
        for (int32_t m = 0; m < fit->learners; m++) {
            double raised =
                fit->active[m] > 0 ? (fit->half_logdet[m] - plain[m]) / fit->active[m] : 0;
            to->half_logdet[m] =
                i > 0 ? from->half_logdet[m] + raised * from->active[m] : fit->half_logdet[m];
        }
    }
    return job->settings->gate.mode == CST_GATE_LEARNED ? tell_suppressed(context, fit) : CST_OK;
}

/* Frees what is not in the scope of the parts. */
static void release_part(cst_context *context, void *object) {
    part *p = object;
    cst_moments_free(context, &p->moments);
    cst_meta_fit_free(context, &p->fit);
}

/* The rows without fold `fold`, and their own folds; all 0 where nobody reads them. */
static cst_status leave_out(cst_context *context, cst_scope *scope, const crossfit *job,
                            int32_t fold, part *p) {
    int64_t rows = job->view->rows;
    int32_t *folds = NULL;
    int64_t to = 0;
    cst_view out;
    CST_NEW(context, scope, int64_t, index, rows);
    CST_NEW(context, scope, int32_t, design, rows);
    cst_view_split(job->view, job->folds, fold, index, &p->rows.view, &out);
    if (!job->pool_loss || job->divides) {
        CST_TRY(cst_folds_inside(context, &p->rows.view, job->folds, rows, job->fold_count, fold,
                                 job->settings->seed, &folds, &p->rows.fold_count));
        CST_TRY(cst_scope_own(context, scope, cst_free, folds));
    } else {
        CST_TAKE(context, scope, folds, rows);
        p->rows.fold_count = 1;
    }
    p->rows.folds = folds;
    for (int64_t i = 0; i < rows; i++)
        design[i] = job->folds[i] == fold ? -1 : folds[to++];
    p->design_folds = design;
    return CST_OK;
}

static cst_status make_parts(cst_context *context, cst_scope *scope, crossfit *job) {
    CST_TAKE(context, scope, job->parts, job->count);
    part *all = &job->parts[0];
    all->rows = (cst_some_rows){*job->view, job->folds, NULL, job->fold_count};
    all->design_folds = job->folds;
    for (int32_t i = 0; i < job->count; i++) {
        CST_TRY(cst_scope_own(context, scope, release_part, &job->parts[i]));
        if (i > 0)
            CST_TRY(leave_out(context, scope, job, i - 1, &job->parts[i]));
        CST_TRY(start_fit(context, &job->parts[i].rows.view, job->settings, &job->parts[i].fit));
    }
    all->fit.refits = true;
    cst_model *model = all->fit.model;
    return cst_refits_take(context, &model->scope, CST_LEARNERS_MAX, &model->refits);
}

/* ---- the linear learners of every part ---- */

/* Sums of -log p of the true class by the rows' weights, [folds][members]. */
static cst_status risk_block(cst_context *context, void *user, int64_t block, double *sum) {
    const crossfit *job = user;
    const cst_view *view = job->view;
    cst_rows rows;
    CST_SCOPE(scope);
    CST_TRY(cst_rows_open(context, scope, view, block, &rows));
    for (int32_t k = 0; k < view->members; k++) {
        CST_TRY(cst_rows_read(context, &rows, k));
        for (int64_t i = 0; i < rows.count; i++) {
            int64_t n = rows.first + i;
            double p = (double)cst_rows_at(&rows, i)[cst_view_label(view, n)];
            double loss = -log(fmax(p, CST_NLL_FLOOR));
            sum[job->folds[n] * view->members + k] +=
                view->weights ? cst_view_weight(view, n) * loss : loss;
        }
    }
    return CST_OK;
}

/* The member of least risk on the rows of each part, in one pass. */
static cst_status lowest_risks(cst_context *context, crossfit *job) {
    int32_t members = job->view->members;
    size_t width = (size_t)job->fold_count * (size_t)members;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sums, width);
    CST_NEW(context, scope, double, risk, members);
    CST_TRY(
        cst_reduce_blocks(context, cst_block_count(job->view->rows), width, risk_block, job, sums));
    for (int32_t i = 0; i < job->count; i++) {
        memset(risk, 0, (size_t)members * sizeof *risk);
        for (int32_t f = 0; f < job->fold_count; f++)
            for (int32_t k = 0; f != i - 1 && k < members; k++)
                risk[k] += sums[f * members + k];
        for (int32_t k = 1; k < members; k++)
            if (risk[k] < risk[job->parts[i].best])
                job->parts[i].best = k;
    }
    return CST_OK;
}

static cst_status fit_gate(cst_context *context, const void *user, int32_t index, cst_gate *out) {
    const crossfit *job = user;
    const part *p = &job->parts[index];
    return cst_gate_fit(context, &p->rows.view, p->best, &job->settings->gate, out);
}

/* The gates of all parts. */
static cst_status fit_gates(cst_context *context, const crossfit *job) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_gate *, gates, job->count);
    for (int32_t i = 0; i < job->count; i++)
        gates[i] = &job->parts[i].fit.model->gate;
    return cst_gates_fit(context, job->view->members, &job->settings->gate, fit_gate, job,
                         job->count, gates);
}

static cst_status compute_designs(cst_context *context, const crossfit *job) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_moments_job, jobs, job->count);
    for (int32_t i = 0; i < job->count; i++) {
        part *p = &job->parts[i];
        jobs[i] = (cst_moments_job){.gate = &p->fit.model->gate,
                                    .folds = p->design_folds,
                                    .fold_count = p->rows.fold_count,
                                    .out = &p->moments};
    }
    return cst_moments_compute_all(context, job->view, jobs, job->count);
}

static cst_status linear_task(cst_context *context, void *user, int64_t task) {
    const crossfit *job = user;
    part *p = &job->parts[task];
    return fit_moments(context, &p->moments, job->settings, job->kinds, &p->fit);
}

static cst_status other_linear_task(cst_context *context, void *user, int64_t task) {
    return linear_task(context, user, task + 1);
}

static cst_status fit_linear_parts(cst_context *context, crossfit *job) {
    cst_meta_fit *fit = &job->parts[0].fit;
    double start = cst_seconds();
    CST_TRY(lowest_risks(context, job));
    CST_TRY(fit_gates(context, job));
    fit->seconds_gate = cst_seconds() - start;
    start = cst_seconds();
    CST_TRY(compute_designs(context, job));
    CST_TRY(linear_task(context, job, 0)); /* not in a loop: its notices are told */
    CST_TRY(cst_parallel_for(context, job->count - 1, other_linear_task, job));
    fit->seconds_ridge = cst_seconds() - start;
    return CST_OK;
}

/* ---- the log-linear pools and whole methods of every part ---- */

/* The same learner where it is fitted first. */
static const cst_learner *learner_of_lead(const crossfit *job, const cst_meta_spec *spec) {
    const cst_meta_fit *fit = &job->lead->fit;
    int32_t m = 0;
    while (fit->name[m] != spec->name)
        m++;
    return &fit->model->learner[m];
}

static cst_status other_learners(cst_context *context, crossfit *job, part *p) {
    bool all = p == &job->parts[0];
    for (int32_t i = 0; i < job->specs; i++) {
        const cst_meta_spec *spec = job->spec[i];
        if (cst_meta_is_whole(spec))
            CST_TRY(fit_whole(context, spec, &p->rows, job->settings,
                              p == job->lead ? NULL : learner_of_lead(job, spec), &p->fit));
        else if (spec->kind == CST_LEARNER_LOGLINEAR && (all ? p == job->lead : !job->pool_loss)) {
            if (all) /* the other parts run side by side and only read it */
                job->pool_at = p->fit.learners;
            CST_TRY(fit_loglinear(context, spec, &p->rows, job->settings, job->pool_loss, &p->fit));
        }
    }
    return CST_OK;
}

static cst_status other_task(cst_context *context, void *user, int64_t task) {
    crossfit *job = user;
    part *p = &job->parts[task + 1];
    return p == job->lead ? CST_OK : other_learners(context, job, p);
}

/* ---- which whole methods a blend needs ---- */

/* Leaves of the whole methods, fitted without the first fold, those that its rows ask for. */
static cst_status leave_unneeded(cst_context *context, crossfit *job) {
    cst_meta_fit *fit = &job->lead->fit;
    const cst_model *model = fit->model;
    cst_learner *learner = fit->model->learner;
    cst_some_rows rows;
    int32_t whole = fit->learners;
    int64_t count = 0;
    unsigned dear = 0; /* more than a temperature of a mixture */
    unsigned without = 0;
    fit->model->learners = whole;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, position, job->view->rows);
    CST_NEW(context, scope, int32_t, fold, job->view->rows);
    for (int64_t i = 0; i < job->view->rows; i++)
        if (job->folds[i] == 0 && !isnan(job->pool_loss[i]))
            position[count++] = i;
    CST_TRY(cst_some_rows_take(context, scope, job->view, job->folds, position, count, &rows));
    CST_NEW(context, scope, float, truth, (size_t)count *(size_t)(whole + 1));
    cst_heldout heldout = {.view = &rows.view,
                           .folds = fold,
                           .fold_count = 1,
                           .models = &model,
                           .learners = whole,
                           .truth = truth};
    CST_TRY(cst_heldout_run(context, &heldout));
    for (int64_t i = 0; i < count; i++)
        truth[whole * count + i] = (float)exp(-job->pool_loss[position[i]]);
    for (int32_t m = 0; m < whole; m++)
        if (job->spec[m + 1]->calibrator != CST_CALIBRATOR_TEMPERATURE)
            dear |= 1U << m;
    fit->learners++; /* the pool */
    cst_status status = cst_unneeded_learners(context, &rows.view, &job->settings->blend, truth,
                                              fit, dear, &without);
    fit->learners = 0;
    job->specs = 1;
    for (int32_t m = 0; m < whole; m++) {
        cst_learner moved = learner[m];
        learner[m] = (cst_learner){0};
        if (without >> m & 1U) {
            cst_learner_free(&moved);
            continue;
        }
        job->spec[job->specs++] = job->spec[m + 1];
        fit->name[fit->learners] = fit->name[m];
        learner[fit->learners++] = moved;
    }
    return status;
}

/* The pool of all rows, and the whole methods without the first fold, of which it chooses. */
static cst_status try_learners(cst_context *context, crossfit *job) {
    crossfit pool = *job;
    pool.specs = 1;
    job->lead = &job->parts[1];
    CST_TRY(other_learners(context, &pool, &job->parts[0]));
    cst_mute(context, true);
    cst_status status = other_learners(context, job, job->lead);
    CST_THEN(leave_unneeded(context, job));
    cst_mute(context, false);
    return status;
}

/* Whether the whole methods of a preset are so dear that it pays. */
static bool tries_learners(const crossfit *job) {
    const cst_view *view = job->view;
    return job->pool_loss && job->specs > 2 && !job->settings->learners_chosen &&
           !cst_meta_is_whole(job->spec[0]) && view->rows >= TRIED_ROWS &&
           view->rows * view->classes * view->members >= TRIED_NUMBERS;
}

static cst_status fit_parts(cst_context *context, crossfit *job) {
    part *all = &job->parts[0];
    job->lead = all;
    if (job->kinds)
        CST_TRY(fit_linear_parts(context, job));
    if (tries_learners(job))
        CST_TRY(try_learners(context, job));
    CST_TRY(other_learners(context, job, all));
    double start = cst_seconds();
    CST_TRY(cst_parallel_turns(context, job->count - 1, other_task, job));
    all->fit.seconds_blend = cst_seconds() - start;
    for (int32_t i = 0; i < job->count; i++) {
        cst_meta_fit *fit = &job->parts[i].fit;
        fit->model->learners = fit->learners;
        for (int32_t m = 0; m < fit->learners; m++)
            fit->weight[m] = fit->model->learner[m].blend = 1.0 / (double)fit->learners;
    }
    return CST_OK;
}

/* ---- the blend ---- */

/* The rows that the blend is judged on: all, or those of which the held-out loss of the log-linear
 * pool is known. */
static cst_status find_judged(cst_context *context, cst_scope *scope, const crossfit *job,
                              cst_some_rows *out) {
    int64_t rows = job->view->rows;
    int64_t count = 0;
    *out = (cst_some_rows){.view = *job->view, .folds = job->folds, .fold_count = job->fold_count};
    for (int64_t i = 0; job->pool_loss && i < rows; i++)
        count += !isnan(job->pool_loss[i]);
    if (!job->pool_loss || count == rows)
        return CST_OK;
    CST_NEW(context, scope, int64_t, position, count);
    count = 0;
    for (int64_t i = 0; i < rows; i++)
        if (!isnan(job->pool_loss[i]))
            position[count++] = i;
    CST_TRY(cst_some_rows_take(context, scope, job->view, job->folds, position, count, out));
    out->fold_count = job->fold_count;
    return CST_OK;
}

/* Probabilities of the true class: the log-linear pool's come from its cross-validation where they
 * are known, before those of the learners that come after it. */
static void place_truth(const crossfit *job, const cst_some_rows *rows, int32_t learners,
                        float *truth) {
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
    cst_some_rows rows;
    CST_SCOPE(scope);
    CST_TRY(find_judged(context, scope, job, &rows));
    if (!cst_size_mul((size_t)job->view->rows, (size_t)fit->learners, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "the cross-fitted predictions overflow");
    CST_NEW(context, scope, float, truth, cells);
    CST_NEW(context, scope, const cst_model *, models, job->fold_count);
    if (losses)
        CST_TAKE(context, &fit->scope, fit->row_loss, job->view->rows);
    for (int32_t f = 0; f < job->fold_count; f++)
        models[f] = job->parts[f + 1].fit.model;
    cst_heldout heldout = {.view = &rows.view,
                           .folds = rows.folds,
                           .fold_count = job->fold_count,
                           .models = models,
                           .learners = fit->learners - (job->pool_loss != NULL),
                           .truth = truth,
                           .moments = needed ? moments : NULL,
                           .squares = squared ? squares : NULL};
    CST_TRY(cst_heldout_run(context, &heldout));
    place_truth(job, &rows, fit->learners, truth);
    if (job->settings->learners == CST_META_POOLS && fit->learners == 2)
        return cst_choose_class_wise(context, &rows, truth, fit);
    return cst_blend_learners(context, &rows, options, truth, needed ? moments : NULL,
                              squared ? squares : NULL, fit);
}

cst_status cst_meta_fit_run(cst_context *context, const cst_view *view, const int32_t *folds,
                            int32_t fold_count, const cst_settings *settings, bool losses,
                            cst_meta_fit *out) {
    *out = (cst_meta_fit){0};
    crossfit job = {.view = view, .folds = folds, .fold_count = fold_count, .settings = settings};
    find_specs(&job);
    if (job.specs == 0)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "none of the methods in meta.learners takes row weights; add log-linear, "
                        "or remove the weights");
    if (settings->blend.rule == CST_BLEND_LAPLACE && job.specs > 1 && job.whole)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "blend.rule=laplace weighs learners by the curvature of their losses, "
                        "which whole methods such as average+vector do not have: set meta.learners "
                        "to some of ridge, elastic-net, lasso, log-linear, or "
                        "blend.rule=stacking");
    bool cross = job.specs > 1 || losses;
    job.count = cross ? fold_count + 1 : 1;
    CST_SCOPE(scope);
    /* The blend can take the held-out loss of the log-linear pool from its cross-validation where
     * it asks for nothing else, and there is one such pool. */
    if (cross && settings->blend.rule == CST_BLEND_STACKING && !losses && job.pools == 1)
        CST_TAKE(context, scope, job.pool_loss, view->rows);
    CST_TRY(make_parts(context, scope, &job));
    CST_TRY(fit_parts(context, &job));
    cst_meta_fit *fit = &job.parts[0].fit;
    double start = cst_seconds();
    double plain[CST_LEARNERS_MAX];
    memcpy(plain, fit->half_logdet, sizeof plain);
    if (cross)
        CST_TRY(blend_heldout(context, &job, losses, fit));
    else
        fit->nll[0] = NAN;
    fit->seconds_blend += cst_seconds() - start;
    if (job.kinds)
        CST_TRY(note_folds(context, &job, plain, fit));
    *out = *fit;
    *fit = (cst_meta_fit){0};
    return CST_OK;
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
            cst_learner_free(learner);
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
    cst_refits_move(model->refits, place);
    cst_refits_check(model);
    cst_refits_round(model->refits, model->members);
    for (int32_t m = 0; m < kept; m++)
        model->learner[m].blend /= total;
    if (!linear) {
        cst_gate_free(context, &model->gate);
        model->gate.mode = CST_GATE_NONE;
        model->gate.inputs = model->members;
        model->suppressed = NULL;
    }
    return CST_OK;
}
