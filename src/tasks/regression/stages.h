/*
 * The stages of a regression: what its family is made of (fit/family.h), checks, predictions, and
 * scores in documents (docs/json.md). Paper: stages S1 to S4; docs/regression.md.
 */
#ifndef CST_REGRESSION_STAGES_H
#define CST_REGRESSION_STAGES_H

#include "fit/document.h"
#include "fit/family.h"
#include "fit/stages.h"
#include "fit/training.h"
#include "tasks/regression/learners.h"
#include "tasks/regression/linear_pool.h"

#include <corestack/options.h>
#include <corestack/pool.h>
#include <corestack/regression.h>

/* What a run of a regression has of its own. */
typedef struct cst_value_own {
    cst_scaling scaling;
    cst_moments *moments; /* [outputs]: without a gate, by the run's folds */
} cst_value_own;

/* Those of cst_family (fit/family.h). */
cst_status cst_value_prepare(cst_context *context, cst_scope *scope, cst_run *run, cst_stages *out);
cst_status cst_value_judge(cst_context *context, const cst_run *run, const cst_stages *stages,
                           const double *taus, int32_t count, double *loss);
/* Lowers similarities of few members to the correlations of their errors, over all outputs: where
 * all members are near the target, their values agree however much their errors differ. */
void cst_value_bound(const cst_run *run, double *similarity);

/* Correlations of the members' values in units of the scaling, outputs one after another, [K*K]. */
void cst_value_pearson(const cst_moments *moments, int32_t outputs, double *pearson);

/* CKA of the members; several outputs each in units of its target. Free the result. */
cst_status cst_value_cka(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                         const cst_cka_options *options, cst_cka_result *out);

/* That of cst_family (fit/family.h). The loss is the squared error in units of the scaling, its
 * mean over the outputs; losses and their paired errors take one pass over the rows.
 * CST_ERROR_INPUT where no size satisfies the caps. */
cst_status cst_value_choose(cst_context *context, const cst_run *run, const int32_t *members,
                            int32_t count, const cst_select_options *options, cst_selection *out,
                            cst_front *front);

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

/* Whether predictions kept as float32 resolve the targets of a loaded split. Notice: an output
 * whose standard deviation is below 1e-5 of its mean. CST_ERROR_INPUT where `refuse`: below 1e-6 of
 * it, or a standard deviation outside 1e-15 to 1e15. Outputs with one target everywhere pass. */
cst_status cst_value_check_units(cst_context *context, const cst_pool *pool, const char *split,
                                 bool refuse);

/* The same of a split that is fitted on, and its folds: of two that share all the rows, each must
 * leave two rows to the fits without it. CST_ERROR_INPUT names the fold. */
cst_status cst_value_check(cst_context *context, const cst_pool *pool, const char *split,
                           const cst_training *source);

/* A notice that names the options that differ from their preset and change nothing in a regression.
 */
cst_status cst_value_check_options(cst_context *context, const cst_options *options);

/* rmse, mae, median_ae, r2, nll, and (where there are levels) levels, coverage and width. */
void cst_value_put_scores(cst_report *report, json_t *object, const cst_value_metrics *scores);
/* levels, coverage and width, where there are levels. */
void cst_value_put_coverage(cst_report *report, json_t *object, const cst_value_metrics *scores);
/* "outputs": a list of objects with name and scores. each: [outputs]. */
json_t *cst_value_put_outputs(cst_report *report, json_t *object, const cst_pool *pool,
                              const cst_value_metrics *each, int32_t outputs);
/* "definitions". */
void cst_value_put_definitions(cst_report *report);

/* Scores of every member of a view with targets: RMSE, MAE and R^2, the others NaN. out:
 * [members]. */
cst_status cst_value_member_metrics(cst_context *context, const cst_view *view,
                                    cst_value_metrics *out);

/* "members": a list of objects with name, family, kept (where `because` is given), rmse, mae, r2,
 * flops. */
void cst_value_put_members(cst_report *report, const cst_pool *pool,
                           const cst_value_metrics *members, const cst_reason *reason);

/* Those of cst_family (fit/family.h). */
cst_status cst_value_inspect(cst_context *context, cst_fit_job *job, cst_report *report);
void cst_value_put_kept(cst_report *report, const cst_fit_facts *facts);
void cst_value_put_own_fit(cst_report *report, const cst_fit_facts *facts);

#endif
