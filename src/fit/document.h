/* What a run found, as a report document. Keys: docs/json.md. */
#pragma once

#include "fit/stages.h"
#include "fit/training.h"
#include "model/guard.h"
#include "report/report.h"
#include "stats/metric_list.h"
#include "stats/resample.h"

#include <corestack/metrics.h>

/* A simple rule on the nested folds of a fit, and a paired t-test of its loss against the fit's. */
typedef struct cst_compared {
    const char *name;   /* as of `compare` */
    const void *scores; /* as facts.oof */
    int32_t member;     /* a single one: that of all rows; -1 */
    int32_t members;    /* that it reads, fitted on all rows */
    double flops_rel;
    double difference; /* of the mean loss, less that of the fit */
    double se;
    double p, p_adjusted; /* for the number of rules, by Bonferroni */
} cst_compared;

/* Everything a fit's document is made of. Scores are cst_metrics, or cst_value_metrics of a
 * regression. */
typedef struct cst_fit_facts {
    const cst_family *family;
    const cst_pool *pool;
    const char *split;
    const cst_options *options;
    const cst_settings *settings;
    const cst_training *source;
    const cst_stages *stages;
    const void *members;   /* [members]: scores of each member on the split */
    const void *oof;       /* nested scores; NULL when not asked for */
    const void *each;      /* of a regression, with oof: [outputs] */
    const double *without; /* [2][members], with oof: rise of the nested loss without each, and its
                              standard error; NULL: not known */
    const cst_compared *compared; /* [compared_count], with oof */
    int32_t compared_count;
    const cst_findings *findings;
    const cst_noise *noise;   /* NULL: labels are not judged */
    cst_metric_choice metric; /* that is reported; NULL: none */
    cst_interval oof_metric;  /* nested */
    const double *of_members; /* [members]: the metric of each */
    double gain;              /* of decisions over the largest probability; NaN: not tried */
    double seconds_nested;
    double seconds_total;
} cst_fit_facts;

/* Sets of more members than these are not listed. */
enum { CST_SET_LISTED = 64 };

/* "metric", where there is one. */
void cst_put_metric(cst_report *report, cst_metric_choice metric);

/* "decision" of a metric of decisions. gain: NaN where it is not known. */
void cst_put_decision(cst_report *report, cst_metric_choice metric, const cst_model *model,
                      double gain);

/* "cascade" of a model; nothing where it has none. */
void cst_document_cascade(cst_report *report, const cst_model *model);

/* "domains": the list of a map's; nothing where it is NULL. Returns the object. */
json_t *cst_document_domains(cst_report *report, const cst_domain_map *map);

/* An object of the kept members' values [count]; NULL: empty. */
void cst_document_weights(cst_report *report, json_t *object, const char *key,
                          const cst_fit_facts *facts, const double *values, int32_t count);

/* "id" of a row of a split, or where it has none "row", from 0. pool: NULL without one. */
void cst_document_row(cst_report *report, json_t *object, const cst_pool *pool, const char *split,
                      int64_t row);

/* "nested" of "oof", and with `nested` false "why" its scores are null. */
void cst_document_nested(cst_report *report, json_t *oof, bool nested);

/* "loss_without" and "loss_without_se" of "members", where these are known. */
void cst_document_without(cst_report *report, const cst_fit_facts *facts);

/* "comparison", where there is one; put: as of `oof`. */
typedef void cst_put_scores_fn(cst_report *report, json_t *object, const void *scores);
void cst_document_comparison(cst_report *report, const cst_fit_facts *facts, const char *loss,
                             cst_put_scores_fn *put);

/* "findings" (NULL: none): a list of {kind, members, text}, at the top of a document; and with
 * `problems` the sentences alone under that key. */
void cst_findings_put(cst_report *report, const cst_pool *pool, const cst_findings *findings,
                      bool problems);

/* "noise", where labels are wrong; all suspects beside the document. */
void cst_document_noise(cst_report *report, const cst_pool *pool, const char *split,
                        const cst_training *source, const cst_noise *noise);

cst_status cst_fit_document(cst_context *context, const cst_fit_facts *facts, cst_report **out);

/* One of "members": name, family, kept (where `because` is given); what a prediction costs, flops
 * and passes, comes behind its scores. */
json_t *cst_document_member(cst_report *report, json_t *list, const cst_pool *pool, int32_t member,
                            const cst_reason *reason);
void cst_document_cost(cst_report *report, json_t *object, const cst_pool *pool, int32_t member);

/* "members": a list of such objects with top1, nll, ece, brier. */
void cst_document_members(cst_report *report, const cst_pool *pool, const cst_metrics *members,
                          const cst_reason *reason);

/* The same with one loss of each, [members]. */
void cst_document_losses(cst_report *report, const cst_pool *pool, const char *key,
                         const double *loss, const cst_reason *reason);

/* top1, ece, nll, brier of a score into an object. */
void cst_document_scores(cst_report *report, json_t *object, const cst_metrics *scores);

/* "cka" to "kappa_cka" of an inspection: what stage S1 sees of the members. */
cst_status cst_document_similarity(cst_context *context, cst_report *report, const cst_pool *pool,
                                   const cst_settings *settings, const cst_cka_result *cka,
                                   const double *pearson);
/* Spectrum of the meta-design or of the members' columns, what each rule makes of it, and lambda*
 * of both. Fails as cst_standardise does where there is none. */
cst_status cst_document_spectrum(cst_context *context, cst_report *report, json_t *object,
                                 const cst_moments *moments, const cst_spectrum_members *members,
                                 const cst_settings *settings);
/* What `status` of the above is worth: constant members have no spectrum, and the rest of the
 * report is there all the same. */
cst_status cst_document_no_spectrum(cst_context *context, cst_report *report, json_t *object,
                                    cst_status status);

/* One of "shares": a class in the fit and in a batch, by label shift. */
void cst_document_share(cst_report *report, json_t *list, const cst_model *model, int32_t class,
                        double fit, const cst_label_shift *shift);

/* "clusters": lists of names of the members with the same cluster_of [members]. */
void cst_document_clusters(cst_report *report, const cst_pool *pool, const int32_t *cluster_of);

/* Scores of every member of a view. out: [members]. */
cst_status cst_member_metrics(cst_context *context, const cst_view *view, cst_metrics *out);
