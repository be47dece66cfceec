/* Predictions with variance and intervals by the stack of a regression. docs/regression.md. */
#ifndef CST_REGRESSION_STAGES_H
#define CST_REGRESSION_STAGES_H

#include "fit/family.h"
#include "tasks/regression/learners.h"

#include <corestack/regression.h>

extern const cst_family cst_regression_family;

/* Levels that coverage is reported at. */
enum { CST_COVERAGE_LEVELS = 4, CST_VALUE_ARRAYS = 2 + CST_COVERAGE_LEVELS };
extern const double cst_coverage_levels[CST_COVERAGE_LEVELS];

typedef struct cst_value_result {
    cst_predicted_values values;    /* of the arrays below */
    float *array[CST_VALUE_ARRAYS]; /* [rows][outputs]: mean, variance, half-widths at the levels */
    const float *half_width[CST_COVERAGE_LEVELS];
} cst_value_result;

/* Arrays of `rows` rows, as long as the scope. *out stays where it is. */
cst_status cst_value_result_make(cst_context *context, cst_scope *scope, int64_t rows,
                                 int32_t outputs, cst_value_result *out);

/* Fills arrays [CST_VALUE_ARRAYS] by a model that has values. `view`: the model's members. */
cst_status cst_value_predict(cst_context *context, const cst_model *model, const cst_view *view,
                             float *const *out);

/* Says at which levels intervals are infinite, for want of rows in a fit. */
void cst_value_intervals_tell(cst_context *context, const cst_value_metrics *scores);

/* Every row of the source predicted by the whole procedure run without its fold. */
cst_status cst_value_nested(cst_context *context, const cst_training *source,
                            const cst_settings *settings, cst_value_result *out);

#endif
