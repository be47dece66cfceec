/*
 * What a task is to the rest of the library: one table of functions for each of classification,
 * regression, segmentation and detection. The harness (harness.h, compare, ablate, sweep) is
 * written once over it; src/tasks chooses the table by the pool. docs/architecture.md#tasks.
 */
#ifndef CST_EVALUATION_TASK_H
#define CST_EVALUATION_TASK_H

#include "fit/method.h"
#include "report/report.h"
#include "report/task_scores.h"
#include "stats/percentile.h"

#include <corestack/compare.h>
#include <corestack/fit.h>
#include <corestack/metrics.h>

enum { CST_PAIR_TESTS_MAX = 2 };

typedef struct cst_task_ops cst_task_ops;
typedef struct cst_profile_ops cst_profile_ops;

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
    bool brief;                 /* an evaluation: only the task's brief_scores are wanted */
    bool shift;                 /* several splits, clean ones and those out of distribution may be
                                   asked for */
    int32_t members;            /* that methods choose from */
    const int32_t *positions;   /* [members] in the pool, ascending; NULL: all members */
    const cst_training *source; /* costs and tags of the members; in `data` */
    double *pearson; /* [members][members], freed with the evaluation; NULL: those of the whole are
                        taken */
    double *cka;     /* likewise; NULL also where there are too many members for all pairs */
    cst_findings findings; /* of split "oof" */
    double seconds_read;
    void *data; /* the task's own */
} cst_evaluation;

/* One method, and what it gave. */
typedef struct cst_entry {
    char name[CST_METHOD_NAME_CHARS];
    const char *definition; /* one sentence, borrowed */
    const char *preset;     /* NULL: a baseline, which takes no options */
    bool asked;             /* by name, and not as one of all */
    void *method;           /* the task's own */
    bool keep;              /* the fit on all rows is wanted as a model */
    /* Set by the task's `run`. */
    double scores[CST_TASK_SCORES_MAX]; /* in the order of the task's table; NaN: not defined */
    double *weights;                    /* [members]; NULL where the method is no mix */
    bool *uses;                         /* [members]: prediction reads this member */
    cst_mix_kind mix;
    double seconds;   /* of the fit on all rows */
    char detail[320]; /* what the fit chose; empty: a single member is named */
    char calibrator[64];
    void *result;        /* predictions, tallies or matches */
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
    int64_t only_a;    /* samples that only a gets right; -1: the test does not count them */
    int64_t only_b;
    double p;
} cst_pair_test;

/* A NULL entry means that the task has no such thing. */
struct cst_task_ops {
    cst_task task;
    const char *unit; /* what resamples draw: "samples", "cases", "images" */

    /* Calls as the public functions of their names. The pool and the places for results are there,
     * and results are NULL already. evaluate_member gets the table itself, and fit and inspect
     * always get options, and a report that they leave after a failure is freed. */
    cst_status (*fit)(cst_context *context, cst_pool *pool, const char *split,
                      const cst_options *options, cst_model **model, cst_report **report);
    cst_status (*inspect)(cst_context *context, cst_pool *pool, const char *split,
                          const cst_options *options, cst_report **report);
    cst_status (*evaluate_member)(cst_context *context, const cst_task_ops *ops,
                                  const cst_pool *pool, const char *split, int32_t member,
                                  int32_t resamples, uint64_t seed, cst_report **report);

    /* Methods by name, in the order of reports; NULL past the end. */
    const char *(*method_name)(size_t index);
    /* What is compared if no method is named, NULL at the end; NULL: every method
     * but the extra presets. */
    const char *const *default_methods;
    const char *(*definition)(
        const char *score); /* one sentence; NULL for what it does not define */

    /* Loads what is fitted on and what is scored: fills source and data, and pearson if that is not
     * the correlation of the columns. close frees data, also after open failed. */
    cst_status (*open)(cst_context *context, cst_evaluation *e);
    /* CKA of the members, as stage S1 of a fit computes it; NULL: that of the source's rows. */
    cst_status (*cka)(cst_context *context, const cst_evaluation *e, const cst_cka_options *options,
                      cst_cka_result *out);
    /* Checks what is fitted on, into e->findings; NULL: the rows of the source are checked. */
    cst_status (*check_data)(cst_context *context, cst_evaluation *e);
    void (*close)(cst_context *context, cst_evaluation *e);
    /* The same evaluation of some members: `out` is a copy of `e` with members and positions set,
     * and without data. Closed before `e`. */
    cst_status (*narrow)(cst_context *context, const cst_evaluation *e, cst_evaluation *out);

    /* Fills definition, preset and method of an entry whose name is set. settings: [count] of
     * "key=value" for presets. CST_ERROR_ARGUMENT lists the methods, or says what is wrong. */
    cst_status (*parse)(cst_context *context, const cst_evaluation *e, const char *const *settings,
                        int32_t count, cst_entry *entry);
    /* Whether a preset's settings can be fitted on this pool: an error, or CST_OK. */
    cst_status (*check)(cst_context *context, const cst_evaluation *e, const cst_entry *entry);
    /* False if the method needs tagged members and there are none. */
    bool (*applies)(const cst_evaluation *e, const cst_entry *entry);
    /* Fits, predicts the rows and scores, unless the evaluation says that scores are not wanted.
     * uses is there, all false. */
    cst_status (*run)(cst_context *context, const cst_evaluation *e, cst_entry *entry);
    void (*free_entry)(cst_context *context, cst_entry *entry); /* method and result */

    /* Gives the model of an entry its task, names and settings. */
    cst_status (*label_model)(cst_context *context, const cst_evaluation *e,
                              const cst_options *options, cst_entry *entry);
    /* One number for what is in a split, which is loaded. */
    cst_status (*hash)(cst_context *context, cst_pool *pool, const char *split, uint64_t *out);

    /* Fills what `out` has, [count] of them; *done stays false if the rows are not resampled as one
     * sample. p may be left alone. */
    cst_status (*bootstrap)(cst_context *context, const cst_evaluation *e,
                            const cst_entry *const *entries, int32_t count, int32_t reference,
                            int32_t resamples, cst_intervals *out);
    /* Tests of every entry but the reference: out [count][CST_PAIR_TESTS_MAX]. NULL: the scores in
     * `tested` are, by their share of resamples. */
    cst_status (*tests)(cst_context *context, const cst_evaluation *e, const cst_entry *entries,
                        int32_t count, int32_t reference, cst_pair_test *out);
    const char *tested[CST_PAIR_TESTS_MAX];
    /* Tells options->predicted what a method predicted; NULL: the task does not keep that. */
    cst_status (*tell)(cst_context *context, const cst_evaluation *e, const cst_entry *entry);

    /* Evaluation of a model. open_model loads the rows that options name with the members that the
     * model reads and fills data; run_model predicts and scores them; seen says whether the model
     * was fitted on them, with notices where that is not certain. open_baselines then loads split
     * "oof" and every member of the rows, so that `run` works for `baselines`, NULL at the end. */
    cst_status (*open_model)(cst_context *context, cst_evaluation *e, const cst_model *model);
    cst_status (*run_model)(cst_context *context, const cst_evaluation *e, const cst_model *model,
                            cst_entry *entry);
    cst_status (*seen)(cst_context *context, const cst_evaluation *e, const cst_model *model,
                       const cst_entry *entry, bool *seen);
    cst_status (*open_baselines)(cst_context *context, cst_evaluation *e);
    const char *const *baselines;
    int32_t brief_scores; /* an evaluation reports the first so many scores; 0: all */
    /* What the document of an evaluation holds beside scores, at its top. */
    cst_status (*put_own)(cst_context *context, cst_report *report, const cst_evaluation *e,
                          const cst_entry *entry);

    /* Calls of a model that a profile times (fit/profile.h). */
    const cst_profile_ops *profile;

    /* Parts of documents: sizes of the rows; what a row holds beside scores; what follows the rows
     * of a comparison (rows: [count] objects). */
    void (*put_size)(cst_report *report, const cst_evaluation *e);
    cst_status (*put_row)(cst_context *context, cst_report *report, json_t *row,
                          const cst_evaluation *e, const cst_entry *entry);
    cst_status (*put_more)(cst_context *context, cst_report *report, json_t *const *rows,
                           const cst_evaluation *e, const cst_entry *entries, int32_t count,
                           int32_t reference);
    void (*put_definitions)(cst_report *report, json_t *object, const cst_evaluation *e);
};

#endif
