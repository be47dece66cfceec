/* Inside of regression: moments, learners, stages, documents. docs/regression.md. */
#pragma once

#include "core/scope.h"
#include "data/pool/pool.h"
#include "fit/baselines/ensembles.h"
#include "fit/document.h"
#include "fit/family.h"
#include "fit/learners.h"
#include "fit/stages.h"
#include "fit/task.h"
#include "fit/training.h"
#include "method/linear/linear.h"
#include "method/linear/moments.h"
#include "model/stack.h"
#include "model/values.h"

#include <corestack/options.h>
#include <corestack/pool.h>
#include <corestack/regression.h>

/* ---- the linear pool ---- */

/* One set of moments for each output: out [view->classes], arrays from the scope. */
cst_status cst_value_moments(cst_context *context, cst_scope *scope, const cst_view *view,
                             const cst_scaling *scaling, const cst_gate *gate, const int32_t *folds,
                             int32_t fold_count, cst_moments *out);

/* Those without a fold (negative: of all), of some of the columns; members NULL: of all. */
cst_status cst_value_moments_part(cst_context *context, cst_scope *scope,
                                  const cst_moments *moments, int32_t fold, const int32_t *members,
                                  int32_t count, cst_moments *out);

/* Means and covariances (divided by n) of columns and target. */
typedef struct cst_covariances {
    int32_t columns;
    double rows;
    double *mean;  /* [columns] */
    double *gram;  /* [columns][columns] */
    double *cross; /* [columns]: with the target */
    double target_mean;
    double target_square; /* variance of the target */
    double power;         /* of `center` */
    double *center;       /* [columns]: what weights are drawn to, 1 / (mean squared error)^power
                             divided by their sum; power 0: the average */
} cst_covariances;

/* Of the rows of all folds but `without` (negative: of all); arrays from the scope. */
cst_status cst_covariances_make(cst_context *context, cst_scope *scope, const cst_moments *moments,
                                int32_t without, double power, cst_covariances *out);
/* The same of some columns, with a center of their own. */
cst_status cst_covariances_part(cst_context *context, cst_scope *scope,
                                const cst_covariances *covariances, const int32_t *members,
                                int32_t count, cst_covariances *out);

typedef enum cst_linear_pool_prior {
    CST_LINEAR_POOL_CV = 0,       /* least squared error on held-out folds, on a grid */
    CST_LINEAR_POOL_EVIDENCE = 1, /* most probable, on the same grid and then refined */
    CST_LINEAR_POOL_FIXED = 2     /* lambda = precision * noise / n, noise that of the center */
} cst_linear_pool_prior;

typedef struct cst_linear_pool_options {
    cst_linear_pool_prior prior;
    double precision; /* of the weights, for CST_LINEAR_POOL_FIXED */
    double power;     /* of the center, see cst_covariances */
    bool nonnegative; /* w >= 0 */
} cst_linear_pool_options;

/* Minimises |y - b - Xw|^2 / n + lambda |w - center|^2. */
typedef struct cst_linear_pool {
    double *weights; /* [columns] */
    double intercept;
    double lambda;
} cst_linear_pool;

/* weights: [columns], at a given lambda >= 0. */
cst_status cst_linear_pool_solve(cst_context *context, const cst_covariances *covariances,
                                 double lambda, bool nonnegative, double *weights);
/* The minimised sum at these weights. */
double cst_linear_pool_objective(const cst_covariances *covariances, const double *weights,
                                 double lambda);

/* lambda by the rule, then the fit on all folds of the moments; arrays from the scope. With one
 * fold the cross-validation gives way to the evidence. */
cst_status cst_linear_pool_fit(cst_context *context, cst_scope *scope, const cst_moments *moments,
                               const cst_linear_pool_options *options, cst_linear_pool *out);

/* Variance of the error of the center: the noise of a pool whose weights are those. */
double cst_center_variance(const cst_covariances *covariances);

typedef enum cst_value_mix {
    CST_VALUE_MIX_NONE = 0,
    CST_VALUE_MIX_BEST,
    CST_VALUE_MIX_GREEDY,
    CST_VALUE_MIX_MINIMUM,
    CST_VALUE_MIX_CLIMB,
    CST_VALUE_MIX_AVERAGE,
    CST_VALUE_MIX_PERFORMANCE
} cst_value_mix;

typedef struct cst_value_baseline {
    const char *name;
    const char *definition;
    cst_value_mix mix; /* NONE: a penalised fit, or the mean of a group of tagged members */
    cst_linear_kind penalty;
    cst_ensemble_kind kind; /* of tagged members; CST_ENSEMBLE_NONE: it is none of these */
} cst_value_baseline;

/* In the order of reports; NULL past the end, and for a name that is none of theirs. */
const cst_value_baseline *cst_value_baseline_at(size_t index);
const cst_value_baseline *cst_value_baseline_find(const char *name);

/* Weights [columns], zero before, and intercept for one output, in units of the scaling. tags may
 * be NULL; of several tagged groups the one with the least squared error is taken, which *choice,
 * where it is not NULL, tells (of another baseline: none). */
cst_status cst_value_baseline_fit(cst_context *context, const cst_value_baseline *baseline,
                                  const cst_member_ensemble *tags, const cst_moments *moments,
                                  double *weights, double *intercept, cst_ensemble_choice *choice);

/* ---- learners ---- */

/* Those of fixed weights have the names of the baselines that they are. */
typedef enum cst_value_learner { /* the first four: as cst_learner_kind */
                                 CST_VALUE_RIDGE = 0,
                                 CST_VALUE_ELASTIC_NET = 1,
                                 CST_VALUE_LASSO = 2,
                                 CST_VALUE_LINEAR_POOL = 3,
                                 CST_VALUE_AVERAGE = 4,
                                 CST_VALUE_MINIMUM_VARIANCE = 5,
                                 CST_VALUE_BEST_SINGLE = 6,
                                 CST_VALUE_CENTER = 7 /* of the linear pool */
} cst_value_learner;

enum { CST_VALUE_LEARNERS_MAX = 8 };

/* A fit on all rows and one without each fold. Part 0: all rows; part f + 1: without fold f. */
typedef struct cst_value_fit {
    int32_t outputs;
    int32_t columns; /* d of the design */
    int32_t folds;
    int32_t learners;
    cst_value_learner kind[CST_VALUE_LEARNERS_MAX];
    int32_t gate_count; /* 1, or folds + 1 where each part learns its own */
    cst_gate *gates;
    double *weights;    /* [folds + 1][outputs][columns] of the blend, units of the scaling */
    double *intercept;  /* [folds + 1][outputs] */
    double *blend;      /* [outputs][learners] */
    double *nll;        /* [outputs][learners]: total Gaussian NLL of the held-out residuals */
    double *logdet;     /* [outputs][learners] of the Hessian, total scale, standardised columns */
    double *center;     /* [outputs][columns]: means of the design */
    double *covariance; /* [outputs][columns][columns] of the coefficients over the noise */
    double *lambda;     /* [outputs]: of the ridge, or of the linear pool where there is no other */
    struct cst_refits *refits; /* of part 0 in units of the scaling: of output `output` and learner
                                  `learner` of the kinds above, whatever its weight */
} cst_value_fit;

const char *cst_value_learner_name(cst_value_learner kind);

/* Fits on the view (kept members only), in units of `scaling`. folds [view->rows] in
 * 0..fold_count-1, at least 2. out->values is the fit; with `losses` the squared error of each row
 * is kept. *out is empty; free with cst_meta_fit_free, also after a failure. */
cst_status cst_value_fit_run(cst_context *context, const cst_view *view, const cst_scaling *scaling,
                             const int32_t *folds, int32_t fold_count, const cst_settings *settings,
                             bool losses, cst_meta_fit *out);

/* Trains the gates [count], each on a sample of the rows of its part: gate 0 on all rows, gate f +
 * 1 on those whose fold is not f. Nothing is done for gates that are not learned; their mode and
 * inputs are set. Each (row, output) is a sample of its own. */
cst_status cst_value_gates_fit(cst_context *context, const cst_view *view,
                               const cst_scaling *scaling, const int32_t *folds,
                               const cst_settings *settings, int32_t count, cst_gate *gates);

/* The gate of a part. */
static inline const cst_gate *cst_value_gate(const cst_value_fit *fit, int32_t part) {
    return &fit->gates[fit->gate_count > 1 ? part : 0];
}

/* Options of the linear pool among the settings. */
cst_linear_pool_options cst_value_linear_pool_options(const cst_settings *settings);

/* Greedy selection with replacement on the squared error, from second moments of residuals
 * [count][count]: in each of `rounds` rounds the one joins whose addition leaves the least mean
 * squared error of the average (of equals the first); weights up to the first minimum, sum 1. */
void cst_value_greedy(const double *moments, int32_t count, int32_t rounds, double *weights);

typedef enum cst_variance_rule { /* in the order of the option variance.rule */
                                 CST_VARIANCE_AUTO = 0, /* the next two, by held-out NLL */
                                 CST_VARIANCE_CONSTANT = 1,
                                 CST_VARIANCE_DISAGREEMENT = 2
} cst_variance_rule;

/* Values without noise, doubt or quantiles. */
cst_status cst_values_start(cst_context *context, cst_scope *scope, const cst_scaling *scaling,
                            int32_t columns, cst_values **out);

/* The fitted values of a model: location and scale of `scaling`, and noise, share and quantiles
 * from residuals of rows predicted by the fits without their fold. */
cst_status cst_values_fit(cst_context *context, cst_scope *made, const cst_view *view,
                          const cst_scaling *scaling, const int32_t *folds,
                          const cst_value_fit *fit, cst_variance_rule rule, bool conformal,
                          cst_values **out);

/* ---- their weights ---- */

/* One learner of one part and output. */
typedef struct cst_value_one {
    double *weights; /* [columns] */
    double intercept;
    double logdet;  /* of the Hessian for noise 1 */
    int32_t active; /* its order: noise s^2 takes active * log(s^2) off */
    bool empty;
} cst_value_one;

typedef struct cst_value_job {
    const cst_view *view;
    const cst_scaling *scaling;
    const int32_t *folds;
    const cst_settings *settings;
    cst_meta_fit *meta;
    cst_value_fit *fit;           /* its values */
    cst_moments *moments;         /* [gate_count][outputs], every fold in each */
    cst_value_one *fits;          /* [folds + 1][outputs][learners] */
    double *covariances;          /* [outputs][learners][columns^2], of part 0 */
    double *moments_of_residuals; /* [outputs][learners^2] */
    double *losses;               /* [rows]; NULL: not wanted */
} cst_value_job;

static inline cst_value_one *cst_value_one_of(const cst_value_job *job, int32_t part,
                                              int32_t output, int32_t learner) {
    const cst_value_fit *f = job->fit;
    return &job->fits[(part * f->outputs + output) * f->learners + learner];
}

static inline const cst_moments *cst_value_moments_of(const cst_value_job *job, int32_t part,
                                                      int32_t output) {
    int32_t gate = job->fit->gate_count > 1 ? part : 0;
    return &job->moments[gate * job->fit->outputs + output];
}

/* Weights of the learners of every output, and the functions that they blend to. */
cst_status cst_value_weigh(cst_context *context, cst_value_job *job);

/* ---- stages ---- */

/* What a run of a regression has of its own. */
typedef struct cst_value_own {
    cst_scaling scaling;
    cst_moments *moments;            /* [outputs]: without a gate, by the run's folds */
    const cst_view *plain;           /* the run's view without target.transform */
    struct cst_transform *transform; /* NULL: none */
} cst_value_own;

/* Those of cst_family (fit/family.h). */
cst_status cst_value_prepare(cst_context *context, cst_scope *scope, cst_run *run, cst_stages *out);

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

/* Leaves means alone to be scored: of a model with a transform, whose intervals have two sides. */
void cst_value_result_transformed(cst_value_result *out);

/* Fills arrays [CST_VALUE_ARRAYS] by a model that has values, of one with a transform the first two
 * (variances of transformed values). `view`: the model's members. */
cst_status cst_value_predict(cst_context *context, const cst_model *model, const cst_view *view,
                             float *const *out);

/* What values become for a metric: finds the model's aim from values and variances (as of
 * cst_stack_variance) of rows that fits without their fold predicted, where such values of the rows
 * of each fold, by what is found on the others, have a better metric; else it has none. aimed
 * [rows][outputs]: these. *gain: of the metric; NaN for one that the mean is best for. */
cst_status cst_value_aim(cst_context *context, cst_metric_choice metric,
                         const cst_metric_rows *rows, const float *variance, const int32_t *folds,
                         int32_t fold_count, cst_model *model, float *aimed, double *gain);
/* Values [rows][outputs] by an aim of the model. */
void cst_value_aim_apply(const cst_model *model, const cst_aim *aim, const float *values,
                         const float *variance, int64_t rows, float *out);
/* Scores of values, with that of the metric taken from aimed ones (NULL: none). */
cst_status cst_value_scores(cst_context *context, cst_metric_choice metric,
                            const cst_predicted_values *values, const float *aimed,
                            const cst_view *rows, cst_value_metrics *average,
                            cst_value_metrics *each);

/* Says at which levels intervals are infinite, for want of rows in a fit. */
void cst_value_intervals_tell(cst_context *context, const cst_value_metrics *scores);

/* Every row of the source predicted by the whole procedure run without its fold. */
cst_status cst_value_nested(cst_context *context, const cst_training *source,
                            const cst_settings *settings, cst_value_result *out);

/* Scores greedy, best-single and average, and puts them into the facts, unless members did not
 * predict some rows. scored: the rows of `held`, the nested values of the fit. */
cst_status cst_value_simple_rules(cst_context *context, cst_fit_job *job, const cst_view *scored,
                                  const cst_predicted_values *held);

/* Whether predictions kept as float32 resolve the targets of a loaded split. Notice: an output
 * whose standard deviation is below 1e-5 of its mean. CST_ERROR_INPUT where `refuse`: below 1e-6 of
 * it, or a standard deviation outside 1e-15 to 1e15. Outputs with one target everywhere pass. */
cst_status cst_value_check_units(cst_context *context, const cst_pool *pool, const char *split,
                                 bool refuse);

/* The same of a split that is fitted on, and its folds: of two that share all the rows, each must
 * leave two rows to the fits without it. CST_ERROR_INPUT names the fold. */
cst_status cst_value_check(cst_context *context, const cst_pool *pool, const char *split,
                           const cst_training *source);

/* Whether a key changes nothing in a task. */
typedef bool cst_foreign_fn(const cst_options *options, const char *key);
/* A notice of the options that differ from their preset and change nothing. own: what is said where
 * options of the log-linear pool are among them. */
cst_status cst_check_foreign(cst_context *context, const cst_options *options, const char *task,
                             cst_foreign_fn *foreign, const char *own);
/* The same of a regression. */
cst_status cst_value_check_options(cst_context *context, const cst_options *options);

/* rmse, mae, median_ae, r2, nll, and (where there are levels) levels, coverage and width. */
void cst_value_put_scores(cst_report *report, json_t *object, const cst_value_metrics *scores);
/* levels, coverage and width, where there are levels. */
void cst_value_put_coverage(cst_report *report, json_t *object, const cst_value_metrics *scores);
/* "outputs": a list of objects with name and scores. each: [outputs]. */
json_t *cst_value_put_outputs(cst_report *report, json_t *object, const cst_pool *pool,
                              const cst_value_metrics *each, int32_t outputs);
/* Predictions of one output and the rows that they are of. */
typedef struct cst_value_wrong {
    const cst_predicted_values *values;
    const cst_view *rows;
    const cst_pool *pool; /* NULL: rows have no ids */
    const char *split;
    const int64_t *numbers; /* of the rows in the split; NULL: from 0 */
} cst_value_wrong;

/* "ranges" and "worst". Every row counts once. */
cst_status cst_value_put_wrong(cst_context *context, cst_report *report, const cst_value_wrong *w);
/* "definitions". */
void cst_value_put_definitions(cst_report *report);

/* Scores of every member of a view with targets: RMSE, MAE and R^2, the others NaN. out:
 * [members]. */
cst_status cst_value_member_metrics(cst_context *context, const cst_view *view,
                                    cst_value_metrics *out);

/* Those of cst_family (fit/family.h). */
cst_status cst_value_inspect(cst_context *context, cst_fit_job *job, cst_report *report);
void cst_value_put_kept(cst_report *report, const cst_fit_facts *facts);
void cst_value_put_own_fit(cst_report *report, const cst_fit_facts *facts);

/* ---- the table ---- */

extern const cst_task_ops cst_regression_ops;

/* Shapes an empty model: one linear function of `columns` columns for each output. */
cst_status cst_value_model(cst_context *context, int32_t outputs, int32_t members, int32_t columns,
                           cst_model *model);
/* Names and settings of a model, with the bits of the targets as the print of what it was fitted
 * on. kept: [members of the model]; method: NULL, the preset of the options. */
cst_status cst_value_label(cst_context *context, const cst_pool *pool, const char *split,
                           const cst_training *source, const cst_options *options,
                           const char *method, const int32_t *kept, cst_model *model);
