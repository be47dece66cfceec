/* What a task is to the rest of the library: a table of functions for each of classification,
 * regression, segmentation and detection. compare, ablate and sweep are written once over it;
 * src/tasks chooses the table by the pool. docs/architecture.md#tasks. */
#pragma once

#include "core/scope.h"
#include "fit/baselines/ensembles.h"
#include "fit/method.h"
#include "report/report.h"
#include "report/scores.h"
#include "stats/metric_list.h"
#include "stats/resample.h"

#include <corestack/compare.h>
#include <corestack/fit.h>
#include <corestack/metrics.h>

enum { CST_PAIR_TESTS_MAX = 3 }; /* the first of the metric, if there is one */

typedef struct cst_task_ops cst_task_ops;
typedef struct cst_profile_ops cst_profile_ops;
typedef struct cst_mix_task cst_mix_task;

/* Rows that methods are fitted on, and rows that they are scored on: nested on split "oof", or
 * another split, which is read by predictions only. */
typedef struct cst_evaluation {
    const cst_task_ops *ops;
    cst_pool *pool;
    const cst_compare_options *options; /* borrowed; seed, settings, split */
    const char *split;
    const char *fitted;         /* the split that methods are fitted on; NULL: "oof" */
    bool checked;               /* the data were checked before */
    bool unscored;              /* only the fit is wanted, without scores of rows */
    bool nested;                /* each row is scored by a fit without the row's fold */
    bool brief;                 /* an evaluation of a model or member: only the task's brief_scores
                                   are wanted */
    bool shift;                 /* several splits, clean ones and those out of distribution may be
                                   asked for */
    int32_t members;            /* that methods choose from */
    const int32_t *positions;   /* [members] in the pool, ascending; NULL: all members */
    const cst_training *source; /* costs and tags of the members; in `data` */
    double *pearson;            /* [members][members]; NULL: that of the whole is taken */
    double *cka;                /* likewise; NULL also with too many members for all pairs */
    cst_findings findings;      /* of split "oof" */
    double seconds_read;
    cst_metric_choice metric;                  /* by cst_evaluation_metric */
    bool added;                                /* the metric is none of the task's scores */
    const char *named;                         /* by it, one of the scores of a task without
                                                  metrics; NULL: none */
    cst_score_spec specs[CST_TASK_SCORES_MAX]; /* where it is added: the task's, and the metric */
    cst_scope scope;                           /* holds `data`, pearson and cka */
    void *data;                                /* the task's own, of its state_bytes */
} cst_evaluation;

/* One method, and what it gave. */
typedef struct cst_entry {
    cst_scope scope; /* holds `method` and `result` */
    char name[CST_METHOD_NAME_CHARS];
    const char *definition;        /* one sentence, borrowed */
    const char *preset;            /* NULL: a baseline, which takes no options */
    bool own;                      /* predictions of the user's own, without a method */
    bool asked;                    /* by name, and not as one of all */
    void *method;                  /* the task's own, of its method_bytes */
    const cst_settings *settings;  /* of a preset, in `method` */
    const cst_ensemble_rule *tags; /* it needs members with these; NULL: any will do */
    bool keep;                     /* the fit on all rows is wanted as a model */
    /* Set by the task's `run`. */
    double scores[CST_TASK_SCORES_MAX]; /* as of cst_evaluation_scores; NaN: not defined */
    double *weights;                    /* [members]; NULL where the method is no mix */
    bool *uses;                         /* [members]: prediction reads this member */
    cst_mix_kind mix;
    double seconds;   /* of the fit on all rows */
    char detail[320]; /* what the fit chose; empty: a single member is named */
    char calibrator[64];
    void *result;        /* predictions, tallies or matches, of the task's result_bytes */
    cst_made_model made; /* where it is wanted */
    /* Set by the harness from these, in the pool's positions. */
    int32_t models;
    double kappa_gram; /* condition numbers: of the Gram matrix of the out-of-fold columns of the
                          members used */
    double kappa_cka;  /* and of their CKA matrix; NaN: it was not computed */
    double flops_rel;
} cst_entry;

/* The split that methods are fitted on. */
static inline const char *cst_evaluation_fitted(const cst_evaluation *e) {
    return e->fitted ? e->fitted : "oof";
}

/* Intervals of entries: arrays [count][scores of the task]; NaN where a score has none. */
typedef struct cst_intervals {
    bool done;
    cst_interval *interval;
    cst_interval *difference; /* to the reference */
    double *p;                /* of no difference, by the share of resamples; NaN: not computed */
} cst_intervals;

/* One paired test of the reference (a) and another method (b). */
typedef struct cst_pair_test {
    const char *metric; /* key of a score or loss; NULL: no test */
    const char *test;   /* its name; NULL: by the share of resamples */
    double statistic;   /* with df; NaN: the test has none */
    double df;
    double difference; /* of the means; NaN: the test has none */
    double se;         /* of that; NaN: the test has none */
    bool higher;       /* is better; of a difference */
    int64_t only_a;    /* samples that only a gets right; -1: the test does not count them */
    int64_t only_b;
    double p;
} cst_pair_test;

/* Losses of the samples of an entry times their weights, for paired tests. */
typedef struct cst_losses {
    const char *metric;     /* key of the loss */
    int64_t samples;        /* 0: there are none to test */
    double *loss;           /* [samples] */
    unsigned char *correct; /* [samples], for McNemar's test of "top1"; NULL: no such test */
} cst_losses;

/* Predictions of a split by a method: [rows][columns]. */
typedef struct cst_told {
    const char *split;
    const float *values;
    int64_t rows;
    int32_t columns;
} cst_told;

/* Parts of documents that a task writes itself. */
typedef enum cst_part {
    CST_PART_SIZE = 0,    /* sizes of the rows, at the top */
    CST_PART_ROW,         /* of an entry, beside its scores */
    CST_PART_OWN,         /* of the evaluation of a model or member, at the top */
    CST_PART_MORE,        /* after the rows of all entries */
    CST_PART_DEFINITIONS, /* of what is no score */
} cst_part;

typedef struct cst_description {
    cst_report *report;
    json_t *object; /* to fill */
    const cst_evaluation *e;
    const cst_entry *entries; /* [count]: the one of a row, the model's, or all */
    json_t *const *rows;      /* [count] objects, of CST_PART_MORE */
    int32_t count;
    int32_t reference; /* -1: none */
} cst_description;

/* A NULL entry means that the task has no such thing. */
struct cst_task_ops {
    cst_task task;
    const char *unit; /* what resamples draw: "samples", "cases", "images" */
    /* What is compared if no method is named, NULL at the end; NULL: every method
     * but the extra presets. */
    const char *const *default_methods;
    const char *tested[CST_PAIR_TESTS_MAX - 1]; /* scores tested by their share of resamples */
    const char *const *baselines;               /* beside an evaluated model; NULL at the end */
    int32_t brief_scores; /* an evaluation reports the first so many scores; 0: all */

    /* Zeroed by the harness: e->data, entry->method and entry->result. */
    size_t state_bytes, method_bytes, result_bytes;
    cst_release_fn release; /* of e->data, before the evaluation ends; NULL: nothing is */

    /* What fits and inspects; NULL: the two functions do, as the public ones of their names, with
     * options that are there. A report that they leave after a failure is freed. */
    const cst_family *family;
    cst_status (*fit)(cst_context *context, cst_pool *pool, const char *split,
                      const cst_options *options, cst_model **model, cst_report **report);
    cst_status (*inspect)(cst_context *context, cst_pool *pool, const char *split,
                          const cst_options *options, cst_report **report);
    /* Opens the rows of a loaded split with member *(int32_t *)member alone, and scores it as the
     * entry (harness.h, cst_run_alone). */
    cst_status (*member)(cst_context *context, cst_evaluation *e, cst_entry *entry,
                         const void *member);

    /* Methods by name, in the order of reports; NULL past the end. */
    const char *(*method_name)(size_t index);
    /* One sentence for a score; NULL for what it does not define. */
    const char *(*definition)(const char *score);

    /* Fills e->data. Without a model: what is fitted on and scored, with e->source, and e->pearson
     * if that is not the correlation of the columns; sets e->checked where it checks the data
     * itself. With one: rows with the members that the model reads. Without one after that
     * (e->brief): split "oof" and every member of the rows, so that `run` works for baselines. */
    cst_status (*open)(cst_context *context, cst_evaluation *e, const cst_model *model);
    /* The same evaluation of some members: `out` is a copy of `e` with members and positions set,
     * and its own data, which are not released. Closed before `e`. */
    cst_status (*subset)(cst_context *context, const cst_evaluation *e, cst_evaluation *out);
    /* CKA of the members, as stage S1 of a fit computes it; NULL: that of the source's rows. */
    cst_status (*cka)(cst_context *context, const cst_evaluation *e, const cst_cka_options *options,
                      cst_cka_result *out);

    /* Fills definition, preset, method, settings and needs of an entry whose name is set.
     * settings: [count] of "key=value" for presets. CST_ERROR_ARGUMENT lists the methods, or says
     * what is wrong. */
    cst_status (*parse)(cst_context *context, const cst_evaluation *e, const char *const *settings,
                        int32_t count, cst_entry *entry);
    /* Fits the method and predicts the rows, or predicts by a model; scores, unless the evaluation
     * says that scores are not wanted. uses is there, all false. */
    cst_status (*run)(cst_context *context, const cst_evaluation *e, const cst_model *model,
                      cst_entry *entry);
    /* Takes predictions of the user's own for the rows scored, and scores them; those are of one
     * split without conditions. */
    cst_status (*own)(cst_context *context, const cst_evaluation *e,
                      const cst_own_predictions *given, cst_entry *entry);
    /* What metrics are computed on, of a result: part `index` of several conditions or splits;
     * false past the last. NULL: the task has no metrics but its scores. */
    bool (*scored)(const cst_evaluation *e, const void *result, int32_t index,
                   cst_metric_rows *out);
    /* Prediction `index` of an entry; false past the last. NULL: the task keeps none. */
    bool (*told)(const cst_evaluation *e, const cst_entry *entry, int32_t index, cst_told *out);

    /* Gives the model of an entry its task, names and settings. */
    cst_status (*label)(cst_context *context, const cst_evaluation *e, const cst_options *options,
                        cst_entry *entry);
    /* One number for what is in a split, which is loaded. */
    cst_status (*hash)(cst_context *context, cst_pool *pool, const char *split, uint64_t *out);
    /* Whether the model was fitted on the rows scored, with notices where that is not certain. */
    cst_status (*seen)(cst_context *context, const cst_evaluation *e, const cst_model *model,
                       bool *seen);

    /* Fills what `out` has, of the results [count] of entries; *done is true and becomes false if
     * the rows are not resampled as one sample. p may be left alone. */
    cst_status (*bootstrap)(cst_context *context, const cst_evaluation *e,
                            const void *const *results, int32_t count, int32_t reference,
                            int32_t resamples, cst_intervals *out);
    /* Losses of an entry's samples. NULL: the scores in `tested` are tested. */
    cst_status (*losses)(cst_context *context, cst_scope *scope, const cst_evaluation *e,
                         const cst_entry *entry, cst_losses *out);

    cst_status (*describe)(cst_context *context, cst_part part, const cst_description *d);
    /* Calls of a model that a profile times (fit/profile.h). */
    const cst_profile_ops *profile;
    const cst_mix_task *mixes; /* where these functions are those of fit/mix_methods.h */
};
