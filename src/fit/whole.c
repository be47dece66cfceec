/* Whole methods as meta-learners of a blend. See the header. */
#include "fit/whole.h"

#include "fit/refits.h"

#include <string.h>

/* A mixture has a weight for each member, a map a few numbers for each class: more rows than have
 * so many numbers, but at least so many rows, change them no more. */
static const int64_t NUMBERS_MAX = (int64_t)1 << 22;
static const int64_t ROWS_LEAST = 4096;

/* Precisions of a pool of probabilities, whose scores are in these times a factor. With a factor of
 * 8 and two classes, 256 is as strong as scikit-learn's C = 1. Biases are nearly free. */
static const double LINEAR_PRIOR = 256;
static const double LINEAR_BIAS = 3;

/* Mixed into members after scaling: what their tails then are. */
static const double SCALED_SHARE = 1e-3;

#define WHOLE(title, learner, method, map)                                                         \
    {                                                                                              \
        .name = (title), .kind = CST_LEARNER_##learner,                                            \
        .baseline = &cst_baselines[CST_BASELINE_##method], .calibrator = CST_CALIBRATOR_##map      \
    }

static const cst_meta_spec SPECS[] = {
    {.name = "ridge", .kind = CST_LEARNER_RIDGE},
    {.name = "elastic-net", .kind = CST_LEARNER_ELASTIC_NET},
    {.name = "lasso", .kind = CST_LEARNER_LASSO},
    {.name = "log-linear", .kind = CST_LEARNER_LOGLINEAR},
    {.name = "log-linear:nonnegative", .kind = CST_LEARNER_LOGLINEAR, .nonnegative = true},
    {.name = "log-linear:mix=1e-6", .kind = CST_LEARNER_LOGLINEAR, .share = 1e-6},
    {.name = "log-linear:mix=1e-3", .kind = CST_LEARNER_LOGLINEAR, .share = 1e-3},
    {.name = "temperature+log-linear",
     .kind = CST_LEARNER_LOGLINEAR,
     .scaling = CST_CALIBRATOR_TEMPERATURE},
    {.name = "vector+log-linear", .kind = CST_LEARNER_LOGLINEAR, .scaling = CST_CALIBRATOR_VECTOR},
    {.name = "logistic", .kind = CST_LEARNER_LOGLINEAR, .linear = 8},
    WHOLE("best-single+temperature", LINEAR, BEST_SINGLE, TEMPERATURE),
    WHOLE("average+temperature", LINEAR, AVERAGE, TEMPERATURE),
    WHOLE("average+vector", LINEAR, AVERAGE, VECTOR),
    WHOLE("greedy+temperature", LINEAR, GREEDY, TEMPERATURE),
    WHOLE("greedy+vector", LINEAR, GREEDY, VECTOR),
    WHOLE("ridge+temperature", RIDGE, RIDGE, TEMPERATURE),
    WHOLE("hill-climbing+temperature", LINEAR, HILL_CLIMBING, TEMPERATURE),
    {.name = "class-wise",
     .kind = CST_LEARNER_LOGLINEAR,
     .scaling = CST_CALIBRATOR_VECTOR,
     .class_wise = true},
};

const cst_meta_spec *cst_meta_spec_at(int index) {
    return index >= 0 && (size_t)index < sizeof SPECS / sizeof SPECS[0] ? &SPECS[index] : NULL;
}

CST_OWNED(cst_baseline_fit)
CST_OWNED(cst_loglinear)
CST_OWNED(cst_scaled)

/* The learner of a model of one method that reads every member, with its name and maps. */
static cst_status take_learner(cst_context *context, const cst_meta_spec *spec, cst_model *model,
                               cst_calibrator *calibrator, cst_learner *out) {
    *out = model->learner[0];
    model->learner[0] = (cst_learner){0};
    CST_TRY(cst_learner_own_take(context, out, spec->name));
    out->own->map = model->map;
    out->own->calibrator = *calibrator;
    *calibrator = (cst_calibrator){0};
    return CST_OK;
}

static cst_status fit_baseline(cst_context *context, const cst_meta_spec *spec,
                               const cst_some_rows *part, uint64_t seed, const cst_learner *near,
                               cst_learner *out) {
    const cst_view *view = &part->view;
    cst_baseline_fit fit = {0};
    cst_model *model = NULL;
    cst_calibrator calibrator = {0};
    int32_t members = view->members;
    bool start = near && spec->calibrator == CST_CALIBRATOR_TEMPERATURE;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, own, ((size_t)view->rows * (size_t)view->classes));
    CST_NEW(context, scope, int32_t, kept, members);
    for (int32_t k = 0; k < members; k++)
        kept[k] = k;
    cst_baseline_data data = {
        .view = view, .folds = part->folds, .fold_count = part->fold_count, .seed = seed};
    CST_OWN(context, scope, cst_baseline_fit, &fit);
    CST_OWN(context, scope, cst_calibrator, &calibrator);
    CST_TRY(cst_baseline_fit_run(context, spec->baseline, &data, &fit));
    CST_TRY(cst_mixture_predict(context, &fit, view, own));
    CST_TRY(cst_calibrator_fit_shrunk(context, spec->calibrator, view, own,
                                      start ? &near->own->calibrator : NULL, &calibrator));
    cst_status status = cst_baseline_fit_model(context, &fit, kept, members, &model);
    CST_THEN(take_learner(context, spec, model, &calibrator, out));
    cst_model_free(context, model);
    return status;
}

/* ---- the log-linear pool of scaled members ---- */

/* Where the weights of each class start: those of a fit on more rows, or equal ones. */
static void start_class_wise(const cst_view *view, const cst_learner *near, double *theta) {
    cst_classwise_start(view, theta);
    for (int32_t k = 0; near && k < view->members; k++)
        for (int32_t c = 0; c < view->classes; c++)
            theta[k * view->classes + c] = near->weights[k] * near->own->scaling[k].slopes[c];
    for (int32_t c = 0; near && c < view->classes; c++)
        theta[view->members * view->classes + c] = near->bias[c];
}

/* Parts of its own of a pool of scaled members. */
static cst_status take_scaled(cst_context *context, const cst_meta_spec *spec, int32_t members,
                              cst_learner *out) {
    CST_TRY(cst_learner_own_take(context, out, spec->name));
    cst_learner_own *own = out->own;
    CST_TAKE(context, &out->scope, own->mix, members);
    own->linear = spec->linear;
    own->scaled = spec->linear > 0 ? 0 : members;
    if (own->scaled > 0)
        CST_TAKE(context, &out->scope, own->scaling, own->scaled);
    for (int32_t k = 0; k < own->scaled; k++)
        CST_OWN(context, &out->scope, cst_calibrator, &own->scaling[k]);
    return CST_OK;
}

static cst_status fit_class_wise(cst_context *context, const cst_meta_spec *spec,
                                 const cst_some_rows *part, const cst_learner *near,
                                 cst_learner *out) {
    const cst_view *view = &part->view;
    size_t weights = (size_t)view->members * (size_t)view->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, theta, weights + (size_t)view->classes);
    CST_TRY(take_scaled(context, spec, view->members, out));
    out->kind = CST_LEARNER_LOGLINEAR;
    out->coefficients = view->members;
    out->biases = view->classes;
    CST_TRY(cst_learner_take(context, out));
    start_class_wise(view, near, theta);
    CST_TRY(cst_classwise_fit(context, view, theta));
    memcpy(out->bias, theta + weights, (size_t)view->classes * sizeof *out->bias);
    for (int32_t k = 0; k < view->members; k++)
        out->own->mix[k] = CST_LEAST_SHARE;
    return cst_classwise_maps(context, view, theta, out->weights, out->own->scaling);
}

static cst_status fit_scaled(cst_context *context, const cst_meta_spec *spec,
                             const cst_some_rows *part, const cst_settings *settings,
                             const cst_learner *near, cst_refits *refits, int32_t at,
                             cst_learner *out) {
    const cst_view *view = &part->view;
    cst_scaled scaled = {0};
    const cst_scaled_spec scaling = {
        .kind = spec->scaling, .near = near ? near->own->scaling : NULL, .factor = spec->linear};
    cst_loglinear pool = {0};
    cst_loglinear_options options = settings->loglinear;
    cst_loglinear_cv cv = {.start = near ? near->weights : NULL};
    CST_TRY(take_scaled(context, spec, view->members, out));
    const cst_learner_own *own = out->own;
    CST_SCOPE(scope);
    options.evidence = false;
    options.compact.share = spec->linear > 0 ? CST_LEAST_SHARE : SCALED_SHARE;
    if (spec->linear > 0) {
        options.prior_weights = LINEAR_PRIOR;
        options.prior_bias = LINEAR_BIAS;
    }
    if (near)
        options.tolerance = 1e-4;
    CST_OWN(context, scope, cst_scaled, &scaled);
    CST_OWN(context, scope, cst_loglinear, &pool);
    CST_TRY(cst_scaled_make(context, view, &scaling, own->scaling, &scaled));
    CST_TRY(cst_loglinear_pool(context, &scaled.view, part->folds, part->fold_count, &cv, &options,
                               own->mix, &pool, NULL));
    CST_TRY(cst_loglinear_learner(context, &pool, out));
    return refits ? cst_refits_add_loglinear(context, refits, &pool, &options, at) : CST_OK;
}

cst_status cst_loglinear_learner(cst_context *context, const cst_loglinear *pool,
                                 cst_learner *learner) {
    learner->kind = CST_LEARNER_LOGLINEAR;
    learner->coefficients = pool->members;
    learner->biases = pool->classes;
    CST_TRY(cst_learner_take(context, learner));
    memcpy(learner->weights, pool->weights, (size_t)pool->members * sizeof *learner->weights);
    memcpy(learner->bias, pool->bias, (size_t)pool->classes * sizeof *learner->bias);
    return CST_OK;
}

cst_status cst_whole_fit(cst_context *context, const cst_meta_spec *spec, const cst_some_rows *rows,
                         const cst_settings *settings, const cst_learner *near, cst_refits *refits,
                         int32_t at, cst_learner *out) {
    cst_some_rows part;
    int64_t width = (int64_t)rows->view.classes * (spec->baseline ? 1 : rows->view.members);
    int64_t most = NUMBERS_MAX / width;
    *out = (cst_learner){0};
    CST_SCOPE(scope);
    CST_TRY(cst_some_rows_thin(context, scope, rows, most < ROWS_LEAST ? ROWS_LEAST : most, &part));
    cst_status status =
        spec->baseline     ? fit_baseline(context, spec, &part, settings->seed, near, out)
        : spec->class_wise ? fit_class_wise(context, spec, &part, near, out)
                           : fit_scaled(context, spec, &part, settings, near, refits, at, out);
    if (status != CST_OK)
        cst_learner_free(out);
    return status;
}
