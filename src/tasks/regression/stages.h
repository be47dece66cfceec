/*
 * The whole procedure of a regression on one set of rows: projection, selection, learners,
 * variance; and its nested evaluation. Paper: stages S1 to S4; docs/regression.md.
 */
#ifndef CST_REGRESSION_STAGES_H
#define CST_REGRESSION_STAGES_H

#include "fit/stages.h"
#include "tasks/regression/learners.h"

#include <corestack/regression.h>

/* Levels that coverage is reported at. */
enum { CST_COVERAGE_LEVELS = 4 };
extern const double cst_coverage_levels[CST_COVERAGE_LEVELS];

/* What a run found. `base.risk`: mean squared error in units of the targets' variances, its mean
 * over the outputs; `base.fit.model` has no names; the rest of `base.fit` is not used. */
typedef struct cst_value_stages {
    cst_stages base;
    cst_value_fit fit; /* on the kept members, in the order of base.kept */
} cst_value_stages;

/* costs: of the view's members. folds [view->rows] in 0..fold_count-1, at least 2. */
cst_status cst_value_stages_run(cst_context *context, const cst_view *view, const int32_t *folds,
                                int32_t fold_count, const cst_settings *settings,
                                const cst_costs *costs, cst_value_stages *out);
void cst_value_stages_free(cst_context *context, cst_value_stages *stages);

/* Predictions with variance and half-widths at cst_coverage_levels, in arrays of their own. */
typedef struct cst_value_result {
    cst_predicted_values values; /* what the arrays below hold; level and half_width point there */
    float *mean;                 /* [rows][outputs] */
    float *variance;
    float *half[CST_COVERAGE_LEVELS];
    const float *half_width[CST_COVERAGE_LEVELS];
} cst_value_result;

/* Arrays of `rows` rows. Free with cst_value_result_free, also after a failure. */
cst_status cst_value_result_make(cst_context *context, int64_t rows, int32_t outputs,
                                 cst_value_result *out);
void cst_value_result_free(cst_context *context, cst_value_result *result);

/* Fills a result from a model that has values. `view`: the model's members in its order. */
cst_status cst_value_result_predict(cst_context *context, const cst_model *model,
                                    const cst_view *view, cst_value_result *result);

/* Says at which levels intervals are infinite, for want of rows in a fit. */
void cst_value_intervals_tell(cst_context *context, const cst_value_metrics *scores);

/* Puts the rows of a fold, which are `part`, at their places in `to`. */
void cst_value_result_scatter(const cst_training *source, int32_t fold,
                              const cst_value_result *part, cst_value_result *to);

/* Every row predicted by the whole procedure run without its fold. */
cst_status cst_value_stages_nested(cst_context *context, const cst_training *source,
                                   const cst_settings *settings, cst_value_result *out);

#endif
