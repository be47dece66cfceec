/*
 * The whole procedure on one set of rows: projection, selection, meta fit, drop-and-refit. A pure
 * function of a view, so that nested evaluation is this function on fewer rows. Paper: stages S1 to
 * S4.
 */
#ifndef CST_PIPELINE_STAGES_H
#define CST_PIPELINE_STAGES_H

#include "fit/domain.h"
#include "fit/learners.h"
#include "fit/training.h"
#include "method/select/front.h"

typedef enum cst_reason {
    CST_REASON_KEPT = 0,
    CST_REASON_REDUNDANT = 1, /* too similar to a better kept member */
    CST_REASON_CONSTANT = 2,  /* the same prediction for every sample */
    CST_REASON_CAP = 3,       /* a limit on their number or cost */
    CST_REASON_SELECTION = 4, /* the log-linear pool does as well without it */
    CST_REASON_REFIT = 5,     /* dropped after blending */
    CST_REASON_BLEND = 6      /* no meta-learner of the blend reads it */
} cst_reason;

/* Everything one run found. Positions are those of the view's members. */
typedef struct cst_stages {
    int32_t members;         /* K */
    int32_t kept_count;      /* K_eff */
    int32_t *kept;           /* [K] used up to kept_count, ascending */
    cst_reason *reason;      /* [K] */
    double *risk;            /* [K]: mean NLL */
    double *similarity;      /* [K*K]: by the measure asked for; NULL for none */
    double *pearson;         /* [K*K] */
    cst_cka_result cka;      /* empty unless the measure is CKA */
    double threshold;        /* the one used; NaN for measure none */
    int32_t *closest;        /* [K]: for a redundant member the one it was dropped for, for another
                                dropped one the kept one most similar to it; -1 */
    double *closest_value;   /* [K]: that similarity */
    cst_selection selection; /* path in positions of `candidates`; empty without selection */
    int32_t *candidates;     /* [K]: what selection chose from */
    cst_front front;         /* in positions of `candidates`; empty unless it was asked for */
    double *refit_change; /* [K]: change of the loss when dropped after blending; NaN otherwise */
    int32_t *refit_together; /* [K]: how many members were dropped at once then; 0 otherwise */
    cst_meta_fit fit;        /* on the kept members, in the order of `kept` */
    cst_domain_layer domain; /* its map is the model's where it is used */
    double seconds_redundancy, seconds_select, seconds_drop, seconds_domain;
} cst_stages;

/* costs: of the view's members. folds: [view->rows], 0..fold_count-1. */
cst_status cst_stages_run(cst_context *context, const cst_view *view, const int32_t *folds,
                          int32_t fold_count, const cst_settings *settings, const cst_costs *costs,
                          cst_stages *out);
/* How a task selects from `members` [count] of its view; and, unless front is NULL, the front
 * around that. */
typedef cst_status cst_choose(cst_context *context, void *user, const int32_t *members,
                              int32_t count, const cst_select_options *options, cst_selection *out,
                              cst_front *front);
/* Selection from the kept members of a pool of `members`, whose costs are `costs`. loss: what the
 * notice on limits calls it. */
cst_status cst_stages_choose(cst_context *context, const cst_settings *settings, int32_t members,
                             const cst_costs *costs, cst_choose *choose, void *user,
                             const char *loss, cst_stages *out);
/* The arrays for `members` members, nothing kept yet. */
cst_status cst_stages_alloc(cst_context *context, int32_t members, cst_stages *out);
/* For each member that was dropped otherwise than as redundant, the kept one most similar to it. */
void cst_stages_find_closest(cst_stages *out);
/* Takes kept members out, after a refit whose mean loss without all of them differs by `change`. */
void cst_stages_refit_without(cst_stages *stages, const int32_t *members, int32_t count,
                              double change);
void cst_stages_free(cst_context *context, cst_stages *stages);

/* The compact table that selection and the log-linear learner would make of a view, for its
 * `compact`, so that every fit inside, nested ones as well, reads the same one; NULL where neither
 * takes part. Free it with cst_logtable_unshare. Says where it has not all of the rows. */
cst_status cst_stages_table(cst_context *context, const cst_view *view, const int32_t *folds,
                            int32_t fold_count, const cst_settings *settings, cst_compact **out);

/* Out-of-fold probabilities [view->rows][classes] of the whole procedure: it is run without each
 * fold and predicts that fold. */
cst_status cst_stages_nested(cst_context *context, const cst_training *source,
                             const cst_settings *settings, float *out);

#endif
