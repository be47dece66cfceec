/* Parts of compare, ablate, sweep and evaluate over a task's table. docs/json.md. */
#pragma once

#include "fit/task.h"

#include "stats/resample.h"
#include "stats/statistics.h"

/* Opens the rows of options (borrowed). Free with cst_evaluation_close, also after a failure. */
/* out->fitted and out->checked are read, the rest is set. */
cst_status cst_evaluation_open(cst_context *context, const cst_task_ops *ops, cst_pool *pool,
                               const cst_compare_options *options, bool shift, cst_evaluation *out);
void cst_evaluation_close(cst_context *context, cst_evaluation *e);
/* e->data, zeroed. */
cst_status cst_evaluation_take(cst_context *context, cst_evaluation *e);
/* The same and the rows of an evaluation: of the model (NULL: of methods, or of baselines beside
 * one). */
cst_status cst_evaluation_begin(cst_context *context, cst_evaluation *e, const cst_model *model);
/* Copies `e` for members [members] at positions, and opens that. */
cst_status cst_evaluation_subset(cst_context *context, const cst_evaluation *e, int32_t members,
                                 const int32_t *positions, cst_evaluation *out);
/* Reads the metric that the scores are to have beside them; NULL or empty: none. */
cst_status cst_evaluation_metric(cst_context *context, cst_evaluation *e, const char *text);
/* The same of a model: `text`, or where it is NULL the one that the model was fitted for. */
cst_status cst_evaluation_metric_of(cst_context *context, cst_evaluation *e, const cst_model *model,
                                    const char *text);
/* The scores of entries, *count of them: the task's, then the metric where it is none of these. */
const cst_score_spec *cst_evaluation_scores(const cst_evaluation *e, int32_t *count);
/* Computes the metric of an entry, which has a result. */
cst_status cst_entry_metric(cst_context *context, const cst_evaluation *e, cst_entry *entry);
/* Its intervals, [count] each, over fewer resamples where these would take long. */
cst_status cst_entries_metric_intervals(cst_context *context, const cst_evaluation *e,
                                        const void *const *results, int32_t count,
                                        int32_t reference, int32_t resamples,
                                        cst_interval *interval, cst_interval *difference,
                                        double *p);
/* The test of DeLong et al. (1988) of two results; `out` stays where the metric has none. */
cst_status cst_metric_test(cst_context *context, const cst_evaluation *e, const void *first,
                           const void *second, cst_pair_test *out);

/* Fills pearson and cka of an evaluation where they are NULL. */
cst_status cst_evaluation_similarities(cst_context *context, cst_evaluation *e);

/* Positions of the model's members in the pool, and *count of them; where predictions of a row may
 * be missing in all of these, also of the others, so that the rows scored are those of a
 * comparison. Loads them. positions: [model inputs + pool members]. */
cst_status cst_scored_members(cst_context *context, const cst_model *model, cst_pool *pool,
                              const char *split, int32_t *positions, int32_t *count);
/* Takes the other members out of the rows scored, and says how many were filled in from these. */
cst_status cst_scored_narrow(cst_context *context, const cst_model *model, const char *split,
                             cst_view *rows);

/* A method with settings [count]. Free with cst_entry_free. CST_ERROR_ARGUMENT: unknown ones. */
cst_status cst_entry_make(cst_context *context, const cst_evaluation *e, const char *name,
                          const char *const *settings, int32_t count, cst_entry *out);
/* An error where the method cannot be fitted on this pool for want of tags or costs. */
cst_status cst_entry_check(cst_context *context, const cst_evaluation *e, const cst_entry *entry);
/* An error with the method's name if asked for or last; else a notice. */
cst_status cst_entry_leave_out(cst_context *context, const cst_entry *entry, bool last,
                               cst_status status);
/* Fits, predicts and scores. part: an evaluation of allowed members; NULL: `e`. */
cst_status cst_entry_run(cst_context *context, const cst_evaluation *e, const cst_evaluation *part,
                         cst_entry *entry);
/* The error of a row of an ablation or sweep with what the row is; key: NULL, or with its value. */
cst_status cst_fail_row(cst_context *context, cst_status status, const char *method,
                        const char *key, const char *value);
void cst_entry_free(cst_context *context, cst_entry *entry);

CST_RELEASED(cst_evaluation, cst_evaluation_close)
CST_OWNED(cst_entry)

/* Empty entries [count] that live as long as the scope. */
cst_status cst_entries_take(cst_context *context, cst_scope *scope, int32_t count, cst_entry **out);

/* The task's `run`, with a place for the result. */
cst_status cst_entry_predict(cst_context *context, const cst_evaluation *e, const cst_model *model,
                             cst_entry *entry);

/* False where the method needs tagged members and the pool has none. */
bool cst_entry_applies(const cst_evaluation *e, const cst_entry *entry);
cst_status cst_entry_check_settings(cst_context *context, const cst_evaluation *e,
                                    const cst_entry *entry);

/* Fills an entry from a method of rows, which is kept with it. */
void cst_entry_take_method(const cst_method *method, cst_entry *entry);
/* `parse` of tasks with methods of rows: entry->method is a cst_method. */
cst_status cst_entry_parse_rows(cst_context *context, const cst_evaluation *e,
                                const char *const *settings, int32_t count, cst_entry *entry);
/* Copies weights [members]; NULL: the method is no mix. */
cst_status cst_entry_take_weights(cst_context *context, const double *weights, int32_t members,
                                  cst_entry *entry);
/* Takes members, weights, mix, seconds and details from a fit. */
cst_status cst_entry_take_fit(cst_context *context, const cst_method_fit *fit, cst_entry *entry);
/* Tells the caller, if it wants to know, what a method predicted. */
cst_status cst_entry_tell(cst_context *context, const cst_evaluation *e, const cst_entry *entry);

/* The methods that the options name ("all": every one that applies), else those of `defaults`
 * (ends with NULL; NULL: all but the extra presets). Those not asked for by name that cannot be
 * fitted are left out with a notice. They live as long as the scope. */
cst_status cst_entries_list(cst_context *context, cst_scope *scope, const cst_evaluation *e,
                            const char *const *defaults, cst_entry **entries, int32_t *count);
/* Adds the predictions of the user's own that the options give, scored. */
cst_status cst_entries_add_own(cst_context *context, const cst_evaluation *e, cst_entry *entries,
                               int32_t *count);
/* An entry without a method yet. */
void cst_entry_begin(const char *name, cst_entry *out);
/* The place of a method, or -1. */
int32_t cst_entries_find(const cst_entry *entries, int32_t count, const char *name);

/* Intervals of entries [count] and differences to `reference` (< 0: the one before). */
cst_status cst_intervals_make(cst_context *context, cst_scope *scope, const cst_evaluation *e,
                              const cst_entry *entries, int32_t count, int32_t reference,
                              int32_t resamples, cst_intervals *out);

/* "tests" and "adjustment" of an entry, called `name`, against the other ones of `count`. */
cst_status cst_put_tests(cst_context *context, cst_report *report, const cst_evaluation *e,
                         const cst_entry *entries, int32_t count, int32_t reference,
                         const cst_intervals *intervals, const char *name);

void cst_put_size(cst_report *report, const cst_evaluation *e);
/* "task", "split", "scored", sizes, "models_in", "seed". */
void cst_put_header(cst_report *report, const cst_evaluation *e);
/* Scores of entry m, with "KEY_ci" where there are intervals, and what the task adds. */
cst_status cst_put_scores(cst_context *context, cst_report *report, json_t *row,
                          const cst_evaluation *e, const cst_entry *entry,
                          const cst_intervals *intervals, int32_t m);
/* "difference" of entry m. */
void cst_put_difference(cst_report *report, json_t *row, const cst_evaluation *e,
                        const cst_intervals *intervals, int32_t m);
/* "mix" and "weights" [members] in the pool's order, null where the method is no mix. */
void cst_put_weights(cst_report *report, json_t *row, const cst_evaluation *e,
                     const cst_entry *entry);
/* "models", "kappa_gram", "kappa_cka", "flops_rel", "seconds". */
void cst_put_cost(cst_report *report, json_t *row, const cst_entry *entry);
void cst_put_score_definitions(cst_report *report, const cst_evaluation *e);

/* Sizes, scores, intervals: entry 0 is the document's own, the others "baselines". */
cst_status cst_put_evaluation(cst_context *context, cst_report *report, const cst_evaluation *e,
                              const cst_entry *entries, int32_t count);

void cst_put_condition(cst_report *report, json_t *object, const cst_pool *pool, const char *split,
                       int32_t condition);
/* Says that the rows scored are those of the fit. */
void cst_notice_seen(cst_context *context, const char *split);
/* Whether a fit had a split of this name and these labels, and the notice if so. */
bool cst_seen_labels(cst_context *context, const cst_evaluation *e, const cst_model *model,
                     const int32_t *labels, int64_t count);
/* The same of the targets of rows [rows][classes]. */
cst_status cst_seen_targets(cst_context *context, const cst_evaluation *e, const cst_model *model,
                            const cst_view *rows, bool *out);

/* A call that gives a report: `fill` writes it. */
typedef cst_status cst_call_fn(cst_context *context, void *user, cst_report *report);
cst_status cst_run_call(cst_context *context, cst_report_kind kind, cst_call_fn *fill, void *user,
                        cst_report **report);
/* Adds the notices and ends the report: on an error it is freed and *report NULL. */
cst_status cst_finish_report(cst_context *context, cst_status status, cst_report **report);

/* A file (NULL: none) as predictions of the user's own, named as it is; name: room. */
cst_own_predictions cst_own_file(const char *path, char name[CST_METHOD_NAME_CHARS]);

/* The evaluation of one prediction without a model: `open` fills e->data and the entry's result and
 * scores. pool: NULL, or one that is only looked at; against: NULL, or what stands beside it. */
typedef cst_status cst_alone_fn(cst_context *context, cst_evaluation *e, cst_entry *entry,
                                const void *user);
cst_status cst_run_alone(cst_context *context, const cst_task_ops *ops, const cst_pool *pool,
                         const char *split, const cst_own_predictions *against, const char *metric,
                         int32_t resamples, uint64_t seed, cst_alone_fn *open, const void *user,
                         cst_report **report);
/* The evaluation of a model, behind the public functions. options: with a split. */
cst_status cst_run_evaluate(cst_context *context, const cst_task_ops *ops, const cst_model *model,
                            cst_pool *pool, const cst_evaluate_options *options,
                            cst_report **report);
/* A fit of any method of `compare`, for the public function. */
cst_status cst_run_fit_method(cst_context *context, const cst_task_ops *ops, cst_pool *pool,
                              const char *split, const char *method, const cst_options *options,
                              cst_model **model, cst_report **report);
/* A model as a report. ops, pool: of a pool that may be its, or NULL; split: NULL: the fit's. */
cst_status cst_run_show(cst_context *context, const cst_task_ops *ops, const cst_model *model,
                        cst_pool *pool, const char *split, cst_report **report);
/* The comparisons, behind the public functions of these names. */
cst_status cst_run_compare(cst_context *context, const cst_task_ops *ops, cst_pool *pool,
                           const cst_compare_options *options, cst_report **report);
cst_status cst_run_ablate(cst_context *context, const cst_task_ops *ops, cst_pool *pool,
                          const cst_compare_options *options, cst_report **report);
cst_status cst_run_sweep(cst_context *context, const cst_task_ops *ops, cst_pool *pool,
                         const cst_sweep_options *sweep, const cst_compare_options *options,
                         cst_report **report);
