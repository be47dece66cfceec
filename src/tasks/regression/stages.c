/*
 * The stages of a regression in order, and their nested evaluation.
 * Paper: stages S1 to S4; "Leakage-Freeness of the Nested OOF Construction".
 */
#include "tasks/regression/stages.h"

#include "core/buffer.h"
#include "fit/nested.h"

#include "fit/refits.h"
#include "fit/unused.h"
#include "tasks/regression/drop.h"
#include "tasks/regression/noise.h"
#include "tasks/regression/path.h"
#include "tasks/regression/redundant.h"

#include <math.h>
#include <string.h>

const double cst_coverage_levels[CST_COVERAGE_LEVELS] = {0.5, 0.8, 0.9, 0.95};

void cst_value_stages_free(cst_context *context, cst_value_stages *stages) {
    cst_stages_free(context, &stages->base);
    cst_value_fit_free(context, &stages->fit);
    *stages = (cst_value_stages){0};
}

/* ---- selection ---- */

typedef struct choice {
    const cst_view *view;
    const cst_scaling *scaling;
    const cst_moments *moments; /* [outputs] */
    const int32_t *folds;
    int32_t fold_count;
    const cst_settings *settings;
} choice;

static cst_status choose_members(cst_context *context, void *user, const int32_t *members,
                                 int32_t count, const cst_select_options *options,
                                 cst_selection *out, cst_front *front) {
    const choice *c = user;
    int32_t outputs = c->view->classes;
    const float **pointers = cst_alloc(context, (size_t)count, sizeof *pointers);
    cst_moments *kept = cst_alloc(context, (size_t)outputs, sizeof *kept);
    cst_status status = pointers && kept ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t d = 0; status == CST_OK && d < outputs; d++)
        status = cst_value_moments_part(context, &c->moments[d], -1, members, count, &kept[d]);
    if (status == CST_OK) {
        cst_view part = cst_view_members(c->view, members, count, pointers);
        cst_linear_pool_options pool = cst_value_linear_pool_options(c->settings);
        status = cst_value_select(context, &part, c->scaling, kept, c->folds, c->fold_count,
                                  options, &pool, out, front);
    }
    cst_value_moments_free(context, kept, outputs);
    cst_free(context, kept);
    cst_free(context, pointers);
    return status;
}

/* The time of a selection grows with the fourth power of the members: of more than SELECT_MEMBERS,
 * at most one for every SELECT_ROWS rows takes part. */
enum { SELECT_MEMBERS = 400, SELECT_ROWS = 5 };

/* Leaves out the kept members of the highest error, until no more than that are left. */
static void shorten(cst_context *context, int64_t rows, cst_stages *out) {
    int64_t most = rows / SELECT_ROWS > SELECT_MEMBERS ? rows / SELECT_ROWS : SELECT_MEMBERS;
    if (out->kept_count > most)
        cst_notice(context,
                   "%d members are too many to select from with %lld rows: the %lld of the lowest "
                   "error take part (select.direction=none keeps all, and takes much longer)",
                   (int)out->kept_count, (long long)rows, (long long)most);
    while (out->kept_count > most) {
        int32_t worst = 0;
        for (int32_t j = 1; j < out->kept_count; j++)
            if (out->risk[out->kept[j]] >= out->risk[out->kept[worst]])
                worst = j;
        out->reason[out->kept[worst]] = CST_REASON_SELECTION;
        out->kept_count--;
        memmove(out->kept + worst, out->kept + worst + 1,
                (size_t)(out->kept_count - worst) * sizeof *out->kept);
    }
}

/* ---- the model ---- */

/* The blend as one linear function of each output, in units of the target. */
static cst_status make_learner(cst_context *context, const cst_value_fit *fit,
                               const cst_scaling *scaling, int32_t members, cst_model *model) {
    size_t columns = (size_t)fit->columns;
    size_t outputs = (size_t)fit->outputs;
    model->learner = cst_alloc(context, 1, sizeof *model->learner);
    if (!model->learner)
        return CST_ERROR_MEMORY;
    model->learners = 1;
    cst_learner *learner = &model->learner[0];
    *learner = (cst_learner){.kind = CST_LEARNER_LINEAR,
                             .blend = 1,
                             .coefficients = (int32_t)(outputs * columns),
                             .biases = fit->outputs};
    learner->weights = cst_alloc(context, outputs * columns, sizeof *learner->weights);
    learner->bias = cst_alloc(context, outputs, sizeof *learner->bias);
    if (!learner->weights || !learner->bias)
        return CST_ERROR_MEMORY;
    for (size_t d = 0; d < outputs; d++) { /* part 0 */
        double bias = scaling->location[d] + scaling->scale[d] * fit->intercept[d];
        for (size_t j = 0; j < columns; j++) {
            bool member = j < (size_t)members; /* read as they are; aggregators in the scaling */
            double weight = fit->weights[d * columns + j];
            learner->weights[d * columns + j] = member ? weight : weight * scaling->scale[d];
            bias -= member ? weight * scaling->location[d] : 0;
        }
        learner->bias[d] = bias;
    }
    return CST_OK;
}

/* The loss that a refit gives weights [k] of all members, in units of the scaling. */
static double loss_of(const cst_refit *refit, const double *weights, size_t k) {
    double sum = refit->loss;
    for (size_t i = 0; i < k; i++) {
        double row = -2 * refit->slope[i];
        for (size_t j = 0; j < k; j++)
            row += refit->curvature[i * k + j] * weights[j];
        sum += weights[i] * row;
    }
    return fmax(sum, 0);
}

/* The refits of the learners with a weight, for the one learner of the model and in units of the
 * target. */
static void take_refits(cst_context *context, cst_value_fit *fit, const cst_scaling *scaling,
                        cst_model *model) {
    int32_t kept = 0;
    model->refits = fit->refits;
    fit->refits = NULL;
    for (int32_t i = 0; i < model->refits->count; i++) {
        cst_refit moved = model->refits->refit[i];
        double share = fit->blend[moved.output * fit->learners + moved.learner];
        model->refits->refit[i] = (cst_refit){0};
        if (!(share > 0)) {
            cst_refit_clear(context, &moved);
            continue;
        }
        cst_refit *refit = &model->refits->refit[kept++];
        *refit = moved;
        double location = scaling->location[refit->output];
        double scale = scaling->scale[refit->output];
        if (fit->learners > 1 && fit->columns == model->members) /* of the blend, not its own */
            refit->least =
                loss_of(refit, fit->weights + (size_t)refit->output * (size_t)fit->columns,
                        (size_t)model->members);
        refit->share = share;
        refit->learner = 0;
        refit->rest[0] = location + scale * refit->rest[0];
        for (int32_t k = 0; k < model->members; k++)
            refit->tilt[k] = scale * refit->tilt[k] + location;
    }
    model->refits->count = kept;
    cst_refits_check(context, model);
}

/* A copy of a gate, arrays and all. */
static cst_status copy_gate(cst_context *context, const cst_gate *from, cst_gate *out) {
    size_t inputs = (size_t)from->inputs;
    size_t hidden = (size_t)from->hidden;
    const float *sources[] = {from->w1, from->b1, from->w2, from->b2};
    size_t counts[] = {hidden * inputs, hidden, CST_AGGREGATORS * hidden, CST_AGGREGATORS};
    *out = *from;
    float **places[] = {&out->w1, &out->b1, &out->w2, &out->b2};
    for (int i = 0; i < 4; i++)
        *places[i] = NULL;
    for (int i = 0; i < 4 && from->mode == CST_GATE_LEARNED; i++) {
        *places[i] = cst_alloc(context, counts[i], sizeof(float));
        if (!*places[i])
            return CST_ERROR_MEMORY;
        memcpy(*places[i], sources[i], counts[i] * sizeof(float));
    }
    return CST_OK;
}

/* The learners with a weight, as a model says them: means over the outputs. */
static cst_status name_learners(cst_context *context, const cst_value_fit *fit, cst_model *model) {
    cst_buffer text = {.context = context};
    bool any = false;
    for (int32_t m = 0; m < fit->learners; m++) {
        char number[40];
        double weight = 0;
        for (int32_t d = 0; d < fit->outputs; d++)
            weight += fit->blend[d * fit->learners + m] / fit->outputs;
        if (!(weight > 0))
            continue;
        (void)cst_snprintf(number, sizeof number, " %.6g", weight);
        cst_buffer_add_text(&text, any ? "," : "");
        cst_buffer_add_text(&text, cst_value_learner_name(fit->kind[m]));
        cst_buffer_add_text(&text, number);
        any = true;
    }
    model->blend = text.bytes;
    return text.status;
}

static cst_status make_model(cst_context *context, const cst_view *kept, const cst_scaling *scaling,
                             const int32_t *folds, const cst_settings *settings,
                             cst_value_stages *out) {
    cst_model *model = NULL;
    cst_status status = cst_stack_create(context, &model);
    if (status != CST_OK)
        return status;
    out->base.fit.model = model;
    model->task = CST_TASK_REGRESSION;
    model->classes = kept->classes;
    model->members = kept->members;
    model->map = settings->map;
    model->mix = cst_alloc(context, (size_t)kept->members, sizeof *model->mix);
    status = model->mix ? copy_gate(context, &out->fit.gates[0], &model->gate) : CST_ERROR_MEMORY;
    CST_THEN(make_learner(context, &out->fit, scaling, kept->members, model));
    CST_THEN(name_learners(context, &out->fit, model));
    if (status == CST_OK)
        take_refits(context, &out->fit, scaling, model);
    CST_THEN(cst_values_fit(context, kept, scaling, folds, &out->fit,
                            (cst_variance_rule)settings->variance_rule, settings->conformal,
                            &model->values));
    return status;
}

/* ---- one run ---- */

/* The fit of the kept members, with removals after it where they are asked for. */
static cst_status fit_and_drop(cst_context *context, const cst_view *view,
                               const cst_scaling *scaling, const int32_t *folds, int32_t fold_count,
                               const cst_settings *settings, const float **pointers,
                               cst_value_stages *out) {
    cst_stages *base = &out->base;
    bool drop = settings->drop && base->kept_count > 1;
    cst_view kept = cst_view_members(view, base->kept, base->kept_count, pointers);
    cst_status status =
        cst_value_fit_run(context, &kept, scaling, folds, fold_count, settings, &out->fit);
    double before = cst_seconds();
    if (drop)
        CST_THEN(cst_value_drop(context, view, scaling, folds, fold_count, settings, out));
    base->seconds_drop = cst_seconds() - before;
    return status;
}

static cst_status fit_kept(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                           const int32_t *folds, int32_t fold_count, const cst_settings *settings,
                           cst_value_stages *out) {
    cst_stages *base = &out->base;
    const float **pointers = cst_alloc(context, (size_t)view->members, sizeof *pointers);
    cst_status status = pointers ? cst_stage(context, "meta-learners") : CST_ERROR_MEMORY;
    CST_THEN(fit_and_drop(context, view, scaling, folds, fold_count, settings, pointers, out));
    if (status == CST_OK) {
        cst_view kept = cst_view_members(view, base->kept, base->kept_count, pointers);
        status = make_model(context, &kept, scaling, folds, settings, out);
    }
    CST_THEN(cst_stages_drop_unused(context, base));
    cst_free(context, pointers);
    return status;
}

cst_status cst_value_stages_run(cst_context *context, const cst_view *rows, const int32_t *folds,
                                int32_t fold_count, const cst_settings *settings,
                                const cst_costs *costs, cst_value_stages *out) {
    const cst_view even = cst_view_even(rows);
    const cst_view *view = &even;
    *out = (cst_value_stages){0};
    cst_stages *base = &out->base;
    cst_scaling scaling = {0};
    cst_gate none = {.mode = CST_GATE_NONE, .inputs = view->members};
    double start = cst_seconds();
    cst_moments *moments = cst_alloc(context, (size_t)view->classes, sizeof *moments);
    cst_status status = moments ? cst_stages_alloc(context, view->members, base) : CST_ERROR_MEMORY;
    CST_THEN(cst_stage(context, "moments"));
    CST_THEN(cst_scaling_make(context, view, &scaling));
    CST_THEN(cst_value_moments(context, view, &scaling, &none, folds, fold_count, moments));
    CST_THEN(cst_value_redundant(context, view, &scaling, moments, settings, costs, base));
    base->seconds_redundancy = cst_seconds() - start;
    start = cst_seconds();
    bool many = base->kept_count > 1 || cst_limited(&settings->limits);
    if (status == CST_OK && settings->select && many) {
        status = cst_stage(context, "selection");
        choice c = {view, &scaling, moments, folds, fold_count, settings};
        if (!cst_limited(&settings->limits))
            shorten(context, view->rows, base);
        CST_THEN(cst_stages_choose(context, settings, view->members, costs, choose_members, &c,
                                   "squared error", base));
    }
    base->seconds_select = cst_seconds() - start;
    CST_THEN(fit_kept(context, view, &scaling, folds, fold_count, settings, out));
    if (moments)
        cst_value_moments_free(context, moments, view->classes);
    cst_free(context, moments);
    cst_scaling_free(context, &scaling);
    if (status == CST_OK)
        cst_stages_find_closest(base);
    else
        cst_value_stages_free(context, out);
    return status;
}

/* ---- results ---- */

cst_status cst_value_result_make(cst_context *context, int64_t rows, int32_t outputs,
                                 cst_value_result *out) {
    size_t cells = 0;
    *out = (cst_value_result){0};
    if (!cst_size_mul((size_t)rows, (size_t)outputs, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "too many values");
    out->mean = cst_alloc(context, cells, sizeof *out->mean);
    out->variance = cst_alloc(context, cells, sizeof *out->variance);
    cst_status status = out->mean && out->variance ? CST_OK : CST_ERROR_MEMORY;
    for (int l = 0; l < CST_COVERAGE_LEVELS; l++) {
        out->half[l] = cst_alloc(context, cells, sizeof(float));
        out->half_width[l] = out->half[l];
        status = out->half[l] ? status : CST_ERROR_MEMORY;
    }
    out->values = (cst_predicted_values){.rows = rows,
                                         .outputs = outputs,
                                         .mean = out->mean,
                                         .variance = out->variance,
                                         .levels = CST_COVERAGE_LEVELS,
                                         .level = cst_coverage_levels,
                                         .half_width = out->half_width};
    return status;
}

void cst_value_result_free(cst_context *context, cst_value_result *result) {
    cst_free(context, result->mean);
    cst_free(context, result->variance);
    for (int l = 0; l < CST_COVERAGE_LEVELS; l++)
        cst_free(context, result->half[l]);
    *result = (cst_value_result){0};
}

cst_status cst_value_result_predict(cst_context *context, const cst_model *model,
                                    const cst_view *view, cst_value_result *result) {
    size_t cells = (size_t)view->rows * (size_t)view->classes;
    cst_status status = cst_stack_predict(context, model, view, result->mean);
    CST_THEN(cst_stack_variance(context, model, view, result->variance));
    for (int l = 0; status == CST_OK && l < CST_COVERAGE_LEVELS; l++)
        for (int32_t d = 0; d < view->classes; d++) {
            double factor = cst_values_factor(model->values, d, cst_coverage_levels[l]);
            for (size_t e = (size_t)d; status == CST_OK && e < cells; e += (size_t)view->classes) {
                result->half[l][e] = (float)(factor * sqrt((double)result->variance[e]));
                if (isfinite(factor) && !isfinite(result->half[l][e]))
                    status =
                        cst_fail(context, CST_ERROR_INPUT,
                                 "row %lld, output %d: the width of the interval for a variance of "
                                 "%g is too large for float32",
                                 (long long)e / view->classes, (int)d, (double)result->variance[e]);
            }
        }
    return status;
}

void cst_value_intervals_tell(cst_context *context, const cst_value_metrics *scores) {
    for (int32_t l = 0; l < scores->levels; l++)
        if (isinf(scores->width[l]))
            cst_notice(context,
                       "intervals at level %g are infinite, because they need a fit on at least "
                       "%.0f rows",
                       scores->level[l], cst_values_needed(scores->level[l]));
}

/* ---- nested evaluation ---- */

typedef struct nested_job {
    const cst_training *source;
    const cst_settings *settings;
    cst_value_result *out;
} nested_job;

static void put_part(const cst_training *source, int32_t fold, const float *from, float *to) {
    const cst_view *view = &source->view;
    cst_fold_scatter(source->folds, view->rows, fold, (size_t)view->classes, from, to);
}

void cst_value_result_scatter(const cst_training *source, int32_t fold,
                              const cst_value_result *part, cst_value_result *to) {
    put_part(source, fold, part->mean, to->mean);
    put_part(source, fold, part->variance, to->variance);
    for (int l = 0; l < CST_COVERAGE_LEVELS; l++)
        put_part(source, fold, part->half[l], to->half[l]);
}

static cst_status nested_task(cst_context *context, void *user, const cst_fold_rows *rows) {
    const nested_job *job = user;
    const cst_training *inside = &rows->inside;
    cst_costs costs = cst_training_costs(inside);
    cst_value_stages stages = {0};
    cst_value_result part = {0};
    const float **pointers = cst_alloc(context, (size_t)inside->view.members, sizeof *pointers);
    cst_status status = pointers ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_value_stages_run(context, &inside->view, inside->folds, inside->fold_count,
                                  job->settings, &costs, &stages));
    CST_THEN(cst_value_result_make(context, rows->held.rows, rows->held.classes, &part));
    if (status == CST_OK) {
        cst_view kept =
            cst_view_members(&rows->held, stages.base.kept, stages.base.kept_count, pointers);
        status = cst_value_result_predict(context, stages.base.fit.model, &kept, &part);
    }
    if (status == CST_OK)
        cst_value_result_scatter(job->source, rows->fold, &part, job->out);
    cst_value_result_free(context, &part);
    cst_value_stages_free(context, &stages);
    cst_free(context, pointers);
    return status;
}

cst_status cst_value_stages_nested(cst_context *context, const cst_training *source,
                                   const cst_settings *settings, cst_value_result *out) {
    nested_job job = {source, settings, out};
    size_t width = (size_t)source->view.classes;
    cst_fold_result held[2 + CST_COVERAGE_LEVELS] = {{out->mean, width}, {out->variance, width}};
    for (int l = 0; l < CST_COVERAGE_LEVELS; l++)
        held[2 + l] = (cst_fold_result){out->half[l], width};
    return cst_nested_run(context, source, settings->seed, nested_task, &job, held,
                          2 + CST_COVERAGE_LEVELS);
}
