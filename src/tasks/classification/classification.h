/* Inside of classification: scores beyond one split. docs/robustness.md. */
#pragma once

#include "data/pool/pool.h"
#include "fit/task.h"
#include "report/report.h"
#include "stats/resample.h"
#include "stats/samples.h"

#include <corestack/metrics.h>

typedef enum cst_target_role {
    CST_TARGET_SCORED = 0,
    CST_TARGET_CLEAN = 1,
    CST_TARGET_OOD = 2
} cst_target_role;

typedef struct cst_target {
    const char *split; /* of the list's scope */
    cst_target_role role;
    int32_t conditions;         /* 0: none */
    cst_view view;              /* all conditions one after the other; filled by cst_target_load */
    const int32_t *labels;      /* [samples]; NULL out of distribution */
    const int64_t *groups;      /* [samples], or NULL */
    const double *weights;      /* [samples], or NULL */
    const cst_domains *domains; /* of the samples, or NULL */
    int64_t samples;            /* of one condition, those that count */
    cst_counted counted;        /* what the above are in, unless they are another's */
} cst_target;

typedef struct cst_targets {
    cst_scope scope; /* of the list and its names */
    cst_target *list;
    int32_t count;
    int32_t scored; /* the first so many are scored */
} cst_targets;

/* split, ood: names with commas between; clean: a name. ood and clean may be NULL (the manifest's
 * clean split of a scored one then; none with ""). Checks that they exist and go together. Free
 * with cst_targets_free, also after a failure. */
cst_status cst_targets_make(cst_context *context, const cst_pool *pool, const char *split,
                            const char *clean, const char *ood, cst_targets *out);
void cst_targets_free(cst_context *context, cst_targets *targets);

/* What its counted rows say. */
void cst_target_take(cst_target *target);
/* Loads a target's split with every member, and fills it in: the rows that count. */
cst_status cst_target_load(cst_context *context, cst_pool *pool, cst_target *target);
/* For some members ([count], loaded). */
cst_status cst_target_fill(cst_context *context, const cst_pool *pool, const int32_t *members,
                           int32_t count, cst_target *target);
/* Refuses row weights of loaded splits that are scored together. */
cst_status cst_targets_check_weights(cst_context *context, const cst_pool *pool,
                                     const cst_targets *targets);

typedef struct cst_shift_method {
    json_t *row;                   /* an object of the document */
    const float *const *predicted; /* [targets] of [view rows][classes] */
    const cst_view *views;         /* [targets], of the members that weights and uses are of */
    const int32_t *members;        /* [views members] in the pool; NULL: the same */
    const double *weights;         /* [views members]; NULL: the members used alike */
    const bool *uses;              /* [views members]; NULL: all */
} cst_shift_method;

typedef struct cst_shift {
    cst_report *report;
    cst_pool *pool;
    const cst_targets *targets;
    int32_t classes;
    const cst_shift_method *methods; /* [count] */
    int32_t count;
    int32_t reference; /* differences are to it; -1: none */
    int32_t resamples; /* 0: no intervals */
    uint64_t seed;
    int64_t head_above; /* 0 with tail_below 0: the defaults */
    int64_t tail_below;
    const char *reference_errors; /* a file or a table's name; NULL: the manifest's, if any */
} cst_shift;

cst_status cst_shift_corruption(cst_context *context, const cst_shift *shift);
cst_status cst_shift_splits(cst_context *context, const cst_shift *shift);
cst_status cst_shift_classes(cst_context *context, const cst_shift *shift);
cst_status cst_shift_groups(cst_context *context, const cst_shift *shift);
cst_status cst_shift_domains(cst_context *context, const cst_shift *shift);
cst_status cst_shift_ood(cst_context *context, const cst_shift *shift);

/* Statistics of method m: value [size], drawn [size][resamples], NULL without resamples. */
typedef cst_status (*cst_statistics_fn)(cst_context *context, void *user, int32_t m, double *value,
                                        double *drawn);

/* Of every method; puts "NAME", "NAME_ci" and paired "difference" into the rows. names: [size]
 * keys; "a.b" is key b of an object a. */
cst_status cst_shift_statistics(cst_context *context, const cst_shift *shift, int32_t size,
                                const char *const *names, cst_statistics_fn compute, void *user);

/* ---- where it is wrong ---- */

typedef struct cst_wrong {
    const cst_pool *pool; /* NULL: rows of a file */
    const cst_target *target;
    int32_t classes;
    const int64_t *numbers; /* [samples] of the rows in the split; NULL: 0, 1, ... */
    const float *rows;      /* [samples][classes] */
    const int32_t *decided; /* [samples]; NULL: by the largest probability */
} cst_wrong;

/* Puts "per_class", "confused" and "worst" into the document. Every row counts once. */
cst_status cst_document_wrong(cst_context *context, cst_report *report, const cst_wrong *wrong);

/* ---- the table ---- */

extern const cst_task_ops cst_classification_ops;
