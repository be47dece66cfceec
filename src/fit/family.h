/* What differs between the two families of the one pipeline: log-probabilities with cross-entropy
 * (classification.c), and values with the squared error (tasks/regression/stages.c). */
#pragma once

#include "core/scope.h"
#include "fit/document.h"
#include "stats/decide.h"

/* A fit of a split. */
typedef struct cst_fit_job {
    cst_fit_facts facts; /* what the report is made of */
    cst_pool *pool;
    const cst_training_hints *hints; /* may be NULL */
    cst_settings settings;
    cst_training source;
    cst_stages stages;
    cst_findings findings;
    cst_noise noise;
    cst_scope *scope; /* of the fit */
} cst_fit_job;

/* A NULL entry means that the family has no such step. */
struct cst_family {
    const char *task; /* as its documents say it; NULL: they do not */
    const char *loss; /* in notices: "NLL" */
    const char *pool; /* what selection judges sets with: "log-linear" */
    bool whole;       /* removals are judged on all rows, in one pass */

    /* ---- a run ---- */

    /* Fills risk and pearson, and what the run has of its own, from the run's scope. */
    cst_status (*prepare)(cst_context *context, cst_scope *scope, cst_run *run, cst_stages *out);
    cst_status (*cka)(cst_context *context, const cst_run *run, cst_cka_result *out);
    /* Lowers similarities [K*K] before they decide. */
    void (*bound)(const cst_run *run, double *similarity);
    /* Held-out losses of the pool on what each threshold keeps: loss [count][folds]. */
    cst_status (*judge)(cst_context *context, const cst_run *run, const cst_stages *stages,
                        const double *taus, int32_t count, double *loss);
    /* Leaves out kept members where there are too many to select from. */
    void (*shorten)(cst_context *context, const cst_run *run, cst_stages *out);
    /* The members [members] that lead among many, which the stages are then for; NULL: none do. */
    cst_status (*lead)(cst_context *context, const cst_run *run, bool *leading);
    /* Selects from `members` [count] of the view; and, unless front is NULL, the front around. */
    cst_status (*choose)(cst_context *context, const cst_run *run, const int32_t *members,
                         int32_t count, const cst_select_options *options, cst_selection *out,
                         cst_front *front);
    /* Fits these members [count]; with `losses` the cross-fitted loss of every row is kept. */
    cst_status (*fit)(cst_context *context, const cst_run *run, const int32_t *members,
                      int32_t count, bool losses, cst_meta_fit *out);
    /* How much the fit's scores move with its member j. deviation: of its columns [classes]. */
    double (*reliance)(const cst_run *run, const cst_meta_fit *fit, int32_t j,
                       const double *deviation);
    /* Completes the model of the kept members, without names. */
    cst_status (*complete)(cst_context *context, const cst_run *run, cst_stages *out);
    /* What comes last, where everything else is known. */
    cst_status (*last)(cst_context *context, const cst_run *run, cst_stages *out);
    /* Arrays that a model predicts of rows of its members, [rows][classes] each. */
    cst_status (*predict)(cst_context *context, const cst_model *model, const cst_view *view,
                          float *const *out);
    /* All folds of a nested run at once, from its `whole`: [rows][width of its results]. */
    cst_status (*nested)(cst_context *context, const cst_run *run, float *held);
    /* Loss of a row of a view by the first of these arrays; needed for a run's `without`. */
    double (*row_loss)(const cst_view *view, int64_t row, const float *told);

    /* ---- a fit of a split ---- */

    cst_status (*admit)(cst_context *context, cst_fit_job *job); /* before the checks of data */
    cst_status (*ready)(cst_context *context, cst_fit_job *job); /* after them */
    cst_status (*label)(cst_context *context, cst_fit_job *job); /* names and settings */
    /* Nested scores, and those of the members, into the facts. */
    cst_status (*diagnose)(cst_context *context, cst_fit_job *job);
    cst_status (*score)(cst_context *context, cst_fit_job *job);
    cst_status (*measure)(cst_context *context, cst_fit_job *job);
    void (*put_members)(cst_report *report, const cst_fit_facts *facts);
    void (*put_own)(cst_report *report, const cst_fit_facts *facts); /* after the learners */
    /* What an inspection shows besides sizes and names. */
    cst_status (*inspect)(cst_context *context, cst_fit_job *job, cst_report *report);
};

extern const cst_family cst_classification_family;

/* cst_fit and, for `hints`, what the caller knows of the rows. */
cst_status cst_fit_family(cst_context *context, const cst_family *family, cst_pool *pool,
                          const char *split, const cst_options *options,
                          const cst_training_hints *hints, cst_model **model, cst_report **report);
/* cst_inspect likewise; the caller frees a report that is left after a failure. */
cst_status cst_inspect_family(cst_context *context, const cst_family *family, cst_pool *pool,
                              const char *split, const cst_options *options,
                              const cst_training_hints *hints, cst_report **report);
/* Finds what is wrong with the data, unless hints or options say otherwise, and puts it. */
cst_status cst_inspect_findings(cst_context *context, cst_fit_job *job, cst_report *report);

/* What an inspection shows of the facts' members (their `loss` by its key), findings, and members
 * alike by a view of rows. */
cst_status cst_inspect_members(cst_context *context, cst_fit_job *job, const char *loss,
                               const cst_view *rows, cst_report *report);

/* With more members than that, stages of a classification are for those that lead. */
enum { CST_MANY_MEMBERS = 256 };

/* The members [members], at most 128 of many, that a log-linear pool of all that limits on cost
 * allow needs most. */
cst_status cst_leading_members(cst_context *context, const cst_run *run, bool *leading);
/* Members [*count of view->members] that greedy selection with replacement takes, on some rows. */
cst_status cst_greedy_members(cst_context *context, const cst_view *view, const int32_t *folds,
                              int32_t fold_count, int32_t *members, int32_t *count);

/* Finds wrong labels of a fit's rows, and leaves these rows out. */
cst_status cst_fit_doubt(cst_context *context, cst_fit_job *job);

/* CST_ERROR_ARGUMENT where a balance of the classes is set beside what does not take it. */
cst_status cst_balance_check(cst_context *context, const cst_settings *settings);

/* The metric of each member into the facts; NaN for one that it is not defined for. */
cst_status cst_fit_members_metric(cst_context *context, cst_fit_job *job);

/* The metric that is asked for (NULL: that of the fit); out->metric is NULL where there is none. */
cst_status cst_model_metric(cst_context *context, cst_scope *scope, const cst_model *model,
                            const char *text, cst_metric_choice *out);

/* The metric of the model's predictions, decided as the model does; NaN, with a notice that begins
 * with the name, where these rows have none. */
cst_status cst_model_score(cst_context *context, const cst_model *model, cst_metric_choice metric,
                           const char *name, const cst_metric_rows *given, double *out);

/* What a model decides by for a metric of decisions: costs, or offsets where those that are found
 * without each fold are better than the largest probability. decided [rows] and *gain: as of
 * cst_decision_cross. */
cst_status cst_model_decisions(cst_context *context, cst_metric_choice metric,
                               const cst_metric_rows *rows, const int32_t *folds,
                               int32_t fold_count, int32_t *decided, cst_model *model,
                               double *gain);

/* Nested predictions `held` of a classification as rows of a metric, and their folds: of folds in
 * time those that are scored, which `held` has been packed to. */
cst_status cst_nested_rows(cst_context *context, cst_scope *scope, const cst_training *source,
                           const float *held, cst_metric_rows *out, const int32_t **folds);

/* The metric of rows with its 95% interval. */
cst_status cst_metric_interval(cst_context *context, cst_metric_choice metric,
                               const cst_metric_rows *rows, uint64_t seed, cst_interval *out);

/* The cascade of a classification, once all else is known of its model. */
cst_status cst_fit_cascade(cst_context *context, cst_fit_job *job);

CST_OWNED(cst_stages)
CST_RELEASED(cst_training, cst_training_close)
CST_OWNED(cst_findings)
CST_OWNED(cst_noise)

CST_RELEASED(cst_counted, cst_counted_close)

/* The rows that the nested scores of a fit are of; `later`: empty, where they are not all. */
static inline cst_status cst_fit_job_scored(cst_context *context, cst_scope *scope,
                                            const cst_fit_job *job, cst_counted *later,
                                            cst_view *view) {
    if (!job->source.time)
        return CST_OK;
    CST_OWN(context, scope, cst_counted, later);
    CST_TRY(cst_training_scored(context, job->pool, job->facts.split, &job->source, later));
    *view = later->view;
    return CST_OK;
}

static inline cst_run cst_fit_job_run(const cst_fit_job *job, const cst_costs *costs) {
    return cst_run_of(job->facts.family, &job->source.view, job->source.folds,
                      job->source.fold_count, &job->settings, costs);
}
