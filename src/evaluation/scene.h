/*
 * Where a comparison takes its scores: rows that a method is fitted on and rows it is scored on,
 * and one method's run on them. Nested on the out-of-fold rows themselves, or on another split.
 * method.md section 6.
 */
#ifndef CST_EVALUATION_SCENE_H
#define CST_EVALUATION_SCENE_H

#include "evaluation/method.h"
#include "evaluation/targets.h"

#include <corestack/compare.h>
#include <corestack/metrics.h>

typedef struct cst_scene {
    cst_pool *pool;
    cst_targets targets;   /* what is predicted: the splits scored, the clean one, those of ood */
    const char *split;     /* as asked for: one, or several with commas between */
    const char *ood;       /* the same; NULL: none */
    bool nested;           /* scored on the rows fitted on, each by a fit without its fold */
    int32_t conditions;    /* of the first split scored; 0: none */
    cst_training source;   /* what methods are fitted on */
    const int32_t *labels; /* [samples] of the first split scored */
    const double *weights; /* [samples], or NULL */
    int64_t samples;       /* its rows of one condition */
    int32_t classes;
    double *pearson; /* [members][members] correlations of the flattened columns, fitted rows */
    uint64_t seed;
    double seconds_read;
} cst_scene;

/* Loads what is needed. settings: of the options; "folds.count" is read. shift: several splits, a
 * clean one and those out of distribution may be asked for; else the one split alone is. */
cst_status cst_scene_open(cst_context *context, cst_pool *pool, const cst_compare_options *options,
                          bool shift, cst_scene *out);
void cst_scene_close(cst_context *context, cst_scene *scene);

/* What one method gave. */
typedef struct cst_entry {
    cst_method method;
    bool applies;         /* else nothing below is filled: no member is tagged for the method */
    float **predicted;    /* [targets] of [view rows][classes] */
    float *probabilities; /* of the first target; in `predicted` */
    int32_t targets;
    double *weights; /* [members]; NULL where the method is no mix */
    bool *uses;      /* [members]: prediction reads this member */
    cst_mix_kind mix;
    int32_t models;
    double kappa; /* condition number of the Gram matrix of the members used */
    double flops_rel;
    double seconds; /* of the fit on all rows */
    char detail[192];
    cst_metrics scores; /* means over the conditions or splits where there are several */
} cst_entry;

/* Fits and predicts. members [count]: only those of the pool (NULL: all). A budget needs the cost
 * of every member of the pool. */
cst_status cst_scene_run(cst_context *context, const cst_scene *scene, const cst_method *method,
                         const int32_t *members, int32_t count, cst_entry *out);
void cst_entry_free(cst_context *context, cst_entry *entry);

/* Intervals of the entries, and of each one's difference to entry `reference`, or to the one before
 * it (reference < 0). All [count]; nothing is done, and *done is false, for several splits or
 * conditions (those of protocol/shift.h are) or 0 resamples. */
cst_status cst_scene_intervals(cst_context *context, const cst_scene *scene,
                               const cst_entry *entries, int32_t count, int32_t resamples,
                               int32_t reference, cst_metric_intervals *intervals,
                               cst_metric_intervals *differences, bool *done);

#endif
