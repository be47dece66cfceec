/*
 * Whole methods as meta-learners of a blend. See the header.
 */
#include "pipeline/whole.h"

#include "base/ranks.h"
#include "pipeline/refits.h"

#include <string.h>

/* A mixture has a weight for each member, a map a few numbers for each class: more rows than have
 * so many numbers, but at least so many rows, change them no more. */
static const int64_t NUMBERS_MAX = (int64_t)1 << 22;
static const int64_t ROWS_LEAST = 4096;

/* Precision of the weights of a pool of probabilities, whose scores are in these times a factor. */
static const double LINEAR_PRIOR = 100;

/* Mixed into members after scaling: what their tails then are. */
static const double SCALED_SHARE = 1e-3;
static const double LEAST_SHARE = 1e-12;

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
    {.name = "best-single+temperature",
     .kind = CST_LEARNER_LINEAR,
     .baseline = &cst_baseline_best_single,
     .calibrator = CST_CALIBRATOR_TEMPERATURE},
    {.name = "average+temperature",
     .kind = CST_LEARNER_LINEAR,
     .baseline = &cst_baseline_average,
     .calibrator = CST_CALIBRATOR_TEMPERATURE},
    {.name = "average+vector",
     .kind = CST_LEARNER_LINEAR,
     .baseline = &cst_baseline_average,
     .calibrator = CST_CALIBRATOR_VECTOR},
    {.name = "greedy+temperature",
     .kind = CST_LEARNER_LINEAR,
     .baseline = &cst_baseline_greedy,
     .calibrator = CST_CALIBRATOR_TEMPERATURE},
    {.name = "greedy+vector",
     .kind = CST_LEARNER_LINEAR,
     .baseline = &cst_baseline_greedy,
     .calibrator = CST_CALIBRATOR_VECTOR},
    {.name = "ridge+temperature",
     .kind = CST_LEARNER_RIDGE,
     .baseline = &cst_baseline_ridge,
     .calibrator = CST_CALIBRATOR_TEMPERATURE},
    {.name = "hill-climbing+temperature",
     .kind = CST_LEARNER_LINEAR,
     .baseline = &cst_baseline_hill_climbing,
     .calibrator = CST_CALIBRATOR_TEMPERATURE},
};

const cst_meta_spec *cst_meta_spec_at(int index) {
    return index >= 0 && (size_t)index < sizeof SPECS / sizeof SPECS[0] ? &SPECS[index] : NULL;
}

bool cst_whole_applies(const cst_meta_spec *spec, const cst_view *view) {
    return !view->weights || !spec->baseline || !spec->baseline->rows_alike;
}

/* The rows that the method is fitted on, with their folds. */
typedef struct row_part {
    cst_view view;
    const int32_t *folds;
    int64_t *index;     /* NULL: every row */
    int32_t *own_folds; /* with index */
} row_part;

static void free_part(cst_context *context, row_part *part) {
    cst_free(context, part->index);
    cst_free(context, part->own_folds);
}

/* width: numbers of a row. */
static cst_status take_part(cst_context *context, const cst_view *view, const int32_t *folds,
                            int32_t fold_count, int64_t width, row_part *out) {
    int64_t most = NUMBERS_MAX / width;
    int64_t count = 0;
    *out = (row_part){.view = *view, .folds = folds};
    most = most < ROWS_LEAST ? ROWS_LEAST : most;
    if (view->rows <= most)
        return CST_OK;
    cst_status status =
        cst_thin_rows(context, view->rows, folds, fold_count, most, &out->index, &count);
    if (status != CST_OK)
        return status;
    out->own_folds = cst_alloc(context, (size_t)count, sizeof *out->own_folds);
    if (!out->own_folds)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        out->own_folds[i] = folds[out->index[i]];
        out->index[i] = view->index ? view->index[out->index[i]] : out->index[i];
    }
    out->folds = out->own_folds;
    out->view.rows = count;
    out->view.index = out->index;
    return CST_OK;
}

/* The learner of a model of one method that reads every member, with its name and maps. */
static cst_status take_learner(cst_context *context, const cst_meta_spec *spec, cst_model *model,
                               cst_calibrator *calibrator, cst_learner *out) {
    cst_learner_own *own = cst_alloc(context, 1, sizeof *own);
    if (!own)
        return CST_ERROR_MEMORY;
    *out = model->learner[0];
    model->learner[0] = (cst_learner){0};
    out->own = own;
    own->map = model->map;
    own->calibrator = *calibrator;
    *calibrator = (cst_calibrator){0};
    own->name = cst_strdup(context, spec->name);
    return own->name ? CST_OK : CST_ERROR_MEMORY;
}

static cst_status fit_baseline(cst_context *context, const cst_meta_spec *spec,
                               const row_part *part, int32_t fold_count, uint64_t seed,
                               const cst_learner *near, cst_learner *out) {
    const cst_view *view = &part->view;
    cst_baseline_fit fit = {0};
    cst_model *model = NULL;
    cst_calibrator calibrator = {0};
    int32_t members = view->members;
    bool start = near && spec->calibrator == CST_CALIBRATOR_TEMPERATURE;
    size_t cells = (size_t)view->rows * (size_t)view->classes; /* at most those of a member */
    float *own = cst_alloc(context, cells, sizeof *own);
    int32_t *kept = cst_alloc(context, (size_t)members, sizeof *kept);
    cst_status status = own && kept ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t k = 0; kept && k < members; k++)
        kept[k] = k;
    cst_baseline_data data = {
        .view = view, .folds = part->folds, .fold_count = fold_count, .seed = seed};
    CST_TRY(cst_baseline_fit_run(context, spec->baseline, &data, &fit));
    fit.own_rows = true; /* of the sums that fit a calibrator */
    CST_TRY(cst_baseline_fit_predict(context, &fit, view, own));
    fit.own_rows = false;
    CST_TRY(cst_calibrator_fit_shrunk(context, spec->calibrator, view, own,
                                      start ? &near->own->calibrator : NULL, &calibrator));
    CST_TRY(cst_baseline_fit_model(context, &fit, kept, members, &model));
    CST_TRY(take_learner(context, spec, model, &calibrator, out));
    cst_calibrator_free(context, &calibrator);
    cst_model_free(context, model);
    cst_baseline_fit_free(context, &fit);
    cst_free(context, own);
    cst_free(context, kept);
    return status;
}

/* ---- the log-linear pool of scaled members ---- */

/* Copies of the members after scaling, and the view of them. */
typedef struct scaled_view {
    cst_view view;
    float *all;     /* [members][rows * classes] */
    float **copies; /* [members]: into `all` */
    int32_t *labels;
    double *weights;
} scaled_view;

static void free_scaled(cst_context *context, scaled_view *s) {
    cst_free(context, s->all);
    cst_free(context, s->copies);
    cst_free(context, s->labels);
    cst_free(context, s->weights);
}

typedef struct scale_job {
    const cst_view *view;
    const cst_meta_spec *spec;
    const cst_calibrator *near; /* [members], or NULL */
    scaled_view *scaled;
    cst_calibrator *scaling;
    double *numbers; /* [members][numbers_of]: of `scaling`, for the other ranks; or NULL */
} scale_job;

static size_t numbers_of(const cst_view *view) {
    return 1 + 2 * (size_t)view->classes;
}

/* Replaces p by softmax(factor p), whose logarithm is factor p but for a constant of the row. */
static cst_status exponentiate(cst_context *context, double factor, int64_t rows, int32_t classes,
                               float *p) {
    int64_t piece = rows < CST_BLOCK_ROWS ? rows : CST_BLOCK_ROWS;
    double *wide = cst_alloc(context, (size_t)piece * (size_t)classes, sizeof *wide);
    if (!wide)
        return CST_ERROR_MEMORY;
    for (int64_t first = 0; first < rows; first += piece) {
        int64_t count = rows - first < piece ? rows - first : piece;
        float *from = p + first * classes;
        for (int64_t j = 0; j < count * classes; j++)
            wide[j] = factor * (double)from[j];
        cst_softmax_rows(count, classes, wide);
        for (int64_t j = 0; j < count * classes; j++)
            from[j] = (float)wide[j];
    }
    cst_free(context, wide);
    return CST_OK;
}

static cst_status scale_task(cst_context *context, void *user, int64_t task) {
    const scale_job *job = user;
    const cst_view *view = job->view;
    float *copy = job->scaled->copies[task];
    cst_status status = cst_view_copy(context, view, (int32_t)task, copy);
    if (status == CST_OK && job->spec->linear > 0)
        return exponentiate(context, job->spec->linear, view->rows, view->classes, copy);
    CST_TRY(cst_calibrator_fit_shrunk(context, job->spec->scaling, view, copy,
                                      job->near ? &job->near[task] : NULL, &job->scaling[task]));
    CST_TRY(cst_calibrator_apply(context, &job->scaling[task], copy, view->rows));
    if (status == CST_OK && job->numbers)
        cst_calibrator_pack(&job->scaling[task], job->numbers + (size_t)task * numbers_of(view));
    return status;
}

/* Scales every member; ranks take some of the members each. */
static cst_status scale_members(cst_context *context, scale_job *job) {
    const cst_view *view = job->view;
    bool fitted = job->spec->linear <= 0;
    size_t members = (size_t)view->members;
    size_t cells = (size_t)view->rows * (size_t)view->classes * sizeof(float);
    cst_status status = CST_OK;
    if (fitted && cst_ranks_share(context)) {
        job->numbers = cst_alloc(context, members * numbers_of(view), sizeof *job->numbers);
        status = job->numbers ? CST_OK : CST_ERROR_MEMORY;
    }
    const cst_share filled[] = {
        cst_share_tasks(job->scaled->all, view->members, cells),
        cst_share_tasks(job->numbers, view->members, numbers_of(view) * sizeof *job->numbers)};
    CST_TRY(
        cst_parallel_fill(context, view->members, scale_task, job, filled, job->numbers ? 2 : 1));
    for (int32_t k = 0; status == CST_OK && job->numbers && k < view->members; k++)
        if (job->scaling[k].classes == 0) /* another rank's */
            status = cst_calibrator_unpack(context, job->spec->scaling, view->classes,
                                           job->numbers + (size_t)k * numbers_of(view),
                                           &job->scaling[k]);
    cst_free(context, job->numbers);
    return status;
}

static cst_status make_scaled(cst_context *context, const cst_view *view, const cst_meta_spec *spec,
                              const cst_calibrator *near, cst_calibrator *scaling,
                              scaled_view *out) {
    size_t rows = (size_t)view->rows;
    *out = (scaled_view){0};
    size_t cells = rows * (size_t)view->classes;
    out->all = cst_alloc(context, (size_t)view->members, cells * sizeof *out->all);
    out->copies = cst_alloc(context, (size_t)view->members, sizeof *out->copies);
    out->labels = cst_alloc(context, rows, sizeof *out->labels);
    out->weights = cst_alloc(context, view->weights ? rows : 0, sizeof *out->weights);
    if (!out->all || !out->copies || !out->labels || !out->weights)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < view->rows; i++) {
        out->labels[i] = cst_view_label(view, i);
        if (view->weights)
            out->weights[i] = cst_view_weight(view, i);
    }
    for (int32_t k = 0; k < view->members; k++)
        out->copies[k] = out->all + (size_t)k * cells;
    scale_job job = {.view = view, .spec = spec, .near = near, .scaled = out, .scaling = scaling};
    cst_status status = scale_members(context, &job);
    out->view = (cst_view){.rows = view->rows,
                           .classes = view->classes,
                           .members = view->members,
                           .data = (const float *const *)out->copies,
                           .labels = out->labels,
                           .weights = view->weights ? out->weights : NULL,
                           .weight_scale = 1};
    return status;
}

static cst_status fit_scaled(cst_context *context, const cst_meta_spec *spec, const row_part *part,
                             int32_t fold_count, const cst_settings *settings,
                             const cst_learner *near, cst_refits *refits, int32_t at,
                             cst_learner *out) {
    const cst_view *view = &part->view;
    size_t members = (size_t)view->members;
    scaled_view scaled = {0};
    cst_loglinear pool = {0};
    cst_loglinear_options options = settings->loglinear;
    cst_loglinear_cv cv = {.start = near ? near->weights : NULL};
    cst_learner_own *own = cst_alloc(context, 1, sizeof *own);
    if (!own)
        return CST_ERROR_MEMORY;
    *out = (cst_learner){.kind = CST_LEARNER_LOGLINEAR, .own = own};
    own->name = cst_strdup(context, spec->name);
    own->mix = cst_alloc(context, members, sizeof *own->mix);
    own->linear = spec->linear;
    cst_status status = own->name && own->mix ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK && spec->linear <= 0) {
        own->scaling = cst_alloc(context, members, sizeof *own->scaling);
        own->scaled = own->scaling ? view->members : 0;
        status = own->scaling ? CST_OK : CST_ERROR_MEMORY;
    }
    options.evidence = false;
    options.compact.share = spec->linear > 0 ? LEAST_SHARE : SCALED_SHARE;
    if (spec->linear > 0)
        options.prior_weights = LINEAR_PRIOR;
    if (near)
        options.tolerance = 1e-4;
    CST_TRY(
        make_scaled(context, view, spec, near ? near->own->scaling : NULL, own->scaling, &scaled));
    CST_TRY(cst_loglinear_pool(context, &scaled.view, part->folds, fold_count, &cv, &options,
                               own->mix, &pool, NULL));
    CST_TRY(cst_loglinear_learner(context, &pool, out));
    if (status == CST_OK && refits)
        status = cst_refits_add_loglinear(context, refits, &pool, &options, at);
    cst_loglinear_free(context, &pool);
    free_scaled(context, &scaled);
    return status;
}

cst_status cst_loglinear_learner(cst_context *context, const cst_loglinear *pool,
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

cst_status cst_whole_fit(cst_context *context, const cst_meta_spec *spec, const cst_view *view,
                         const int32_t *folds, int32_t fold_count, const cst_settings *settings,
                         const cst_learner *near, cst_refits *refits, int32_t at,
                         cst_learner *out) {
    row_part part = {0};
    int64_t width = (int64_t)view->classes * (spec->baseline ? 1 : view->members);
    *out = (cst_learner){0};
    cst_status status = take_part(context, view, folds, fold_count, width, &part);
    if (status == CST_OK)
        status =
            spec->baseline
                ? fit_baseline(context, spec, &part, fold_count, settings->seed, near, out)
                : fit_scaled(context, spec, &part, fold_count, settings, near, refits, at, out);
    if (status != CST_OK)
        cst_learner_free(context, out);
    free_part(context, &part);
    return status;
}
