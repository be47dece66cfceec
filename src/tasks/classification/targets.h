/*
 * The splits that an evaluation or a comparison predicts: those that are scored, the clean one that
 * corrupted ones are compared with, those out of distribution. docs/robustness.md.
 */
#ifndef CST_CLASSIFICATION_TARGETS_H
#define CST_CLASSIFICATION_TARGETS_H

#include "data/pool/subset.h"

typedef enum cst_target_role {
    CST_TARGET_SCORED = 0,
    CST_TARGET_CLEAN = 1,
    CST_TARGET_OOD = 2
} cst_target_role;

typedef struct cst_target {
    const char *split; /* in the list's text */
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
    char *text; /* names of splits, zeros between them */
    cst_target *list;
    int32_t count;
    int32_t scored; /* the first so many are scored */
} cst_targets;

/* split, ood: a name, or several with commas between; clean: a name. ood and clean may be NULL; a
 * scored split with conditions has the clean one of the manifest then, and none with clean "".
 * Checks that what is named is there and goes together. Free with cst_targets_free, also after a
 * failure. */
cst_status cst_targets_make(cst_context *context, const cst_pool *pool, const char *split,
                            const char *clean, const char *ood, cst_targets *out);
void cst_targets_free(cst_context *context, cst_targets *targets);

/* Loads a target's split with every member, and fills it in: the rows that count. */
cst_status cst_target_load(cst_context *context, cst_pool *pool, cst_target *target);
/* The same for some members ([count], loaded). */
cst_status cst_target_fill(cst_context *context, const cst_pool *pool, const int32_t *members,
                           int32_t count, cst_target *target);
/* Refuses row weights of splits that are scored together: by themselves they may have some. For
 * splits that are loaded. */
cst_status cst_targets_check_weights(cst_context *context, const cst_pool *pool,
                                     const cst_targets *targets);

#endif
