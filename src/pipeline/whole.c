/*
 * Whole methods as meta-learners of a blend. See the header.
 */
#include "pipeline/whole.h"

#include <string.h>

/* A mixture has a weight for each member and its map a few numbers for each class: more rows than
 * make so many (sample, class) pairs, but at least so many rows, change them no more. */
static const int64_t PAIRS_MAX = (int64_t)1 << 22;
static const int64_t ROWS_LEAST = 4096;

static const cst_meta_spec SPECS[] = {
    {.name = "ridge", .kind = CST_LEARNER_RIDGE},
    {.name = "elastic-net", .kind = CST_LEARNER_ELASTIC_NET},
    {.name = "lasso", .kind = CST_LEARNER_LASSO},
    {.name = "log-linear", .kind = CST_LEARNER_LOGLINEAR},
    {.name = "log-linear-nonnegative", .kind = CST_LEARNER_LOGLINEAR, .nonnegative = true},
    {.name = "greedy+temperature",
     .kind = CST_LEARNER_LINEAR,
     .baseline = &cst_baseline_greedy,
     .calibrator = CST_CALIBRATOR_TEMPERATURE},
    {.name = "greedy+vector",
     .kind = CST_LEARNER_LINEAR,
     .baseline = &cst_baseline_greedy,
     .calibrator = CST_CALIBRATOR_VECTOR},
    {.name = "average+temperature",
     .kind = CST_LEARNER_LINEAR,
     .baseline = &cst_baseline_average,
     .calibrator = CST_CALIBRATOR_TEMPERATURE},
    {.name = "average+vector",
     .kind = CST_LEARNER_LINEAR,
     .baseline = &cst_baseline_average,
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
    return !view->weights ||
           (!spec->baseline->rows_alike && spec->calibrator == CST_CALIBRATOR_TEMPERATURE);
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

static cst_status take_part(cst_context *context, const cst_view *view, const int32_t *folds,
                            int32_t fold_count, row_part *out) {
    int64_t most = PAIRS_MAX / view->classes;
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

cst_status cst_whole_fit(cst_context *context, const cst_meta_spec *spec, const cst_view *view,
                         const int32_t *folds, int32_t fold_count, uint64_t seed,
                         cst_learner *out) {
    row_part part;
    cst_baseline_fit fit = {0};
    cst_model *model = NULL;
    cst_calibrator calibrator = {0};
    int32_t members = view->members;
    *out = (cst_learner){0};
    cst_status status = take_part(context, view, folds, fold_count, &part);
    size_t cells = (size_t)part.view.rows * (size_t)view->classes; /* at most those of a member */
    float *own = cst_alloc(context, cells, sizeof *own);
    int32_t *kept = cst_alloc(context, (size_t)members, sizeof *kept);
    if (!own || !kept)
        status = CST_ERROR_MEMORY;
    for (int32_t k = 0; kept && k < members; k++)
        kept[k] = k;
    cst_baseline_data data = {
        .view = &part.view, .folds = part.folds, .fold_count = fold_count, .seed = seed};
    CST_TRY(cst_baseline_fit_run(context, spec->baseline, &data, &fit));
    CST_TRY(cst_baseline_fit_predict(context, &fit, &part.view, own));
    CST_TRY(cst_calibrator_fit_view(context, spec->calibrator, &part.view, own, &calibrator));
    CST_TRY(cst_baseline_fit_model(context, &fit, kept, members, &model));
    CST_TRY(take_learner(context, spec, model, &calibrator, out));
    if (status != CST_OK)
        cst_learner_free(context, out);
    cst_calibrator_free(context, &calibrator);
    cst_model_free(context, model);
    cst_baseline_fit_free(context, &fit);
    cst_free(context, own);
    cst_free(context, kept);
    free_part(context, &part);
    return status;
}
