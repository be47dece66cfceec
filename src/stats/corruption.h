/* Corruption errors as linear functions of the errors under each condition.
 * docs/robustness.md#corruption; Hendrycks and Dietterich (2019). */
#pragma once

#include "core/scope.h"
#include "data/readers/reference_errors.h"

/* One condition of a split. A condition without a kind is of the kind that its family names. */
typedef struct cst_corruption {
    const char *family; /* or NULL */
    const char *kind;   /* or NULL */
    double severity;    /* or NaN */
} cst_corruption;

/* With a reference, families, kinds and mce_delta are in its units: those of mce_normalised.
 * Statistic s is sum_c weights[s][c] E_c + clean[s] E_clean, E the top-1 errors. */
typedef struct cst_corruption_plan {
    int32_t conditions, kinds, statistics;
    char **names;    /* [statistics]: "mce", "mce_normalised", "mce_delta", "mce_relative",
                        "families.NAME", "kinds.NAME" */
    double *weights; /* [statistics][conditions] */
    double *clean;   /* [statistics] */
    int32_t drawn;   /* the first so many are worth an interval: all but the kinds */
    bool normalised; /* by the reference */
} cst_corruption_plan;

/* clean: there is an error without corruption. CST_ERROR_INPUT where the reference (may be NULL)
 * lacks a kind or differs in severities. */
cst_status cst_corruption_plan_make(cst_context *context, cst_scope *scope,
                                    const cst_corruption *conditions, int32_t count, bool clean,
                                    const cst_reference_errors *reference,
                                    cst_corruption_plan *out);
