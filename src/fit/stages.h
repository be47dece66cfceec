/* The whole procedure on one set of rows: projection, selection, meta fit, drop-and-refit. A pure
 * function of a view, so that nested evaluation is this function on fewer rows. Paper: stages S1
 * to S4. */
#pragma once

#include "fit/learners.h"
#include "fit/settings.h"
#include "fit/training.h"
#include "method/calibration/calibration.h"
#include "method/select/within.h"

typedef struct cst_family cst_family; /* fit/family.h */

/* Looks for wrong labels, with a notice where there are some. Free with cst_noise_free. */
cst_status cst_training_doubt(cst_context *context, const cst_training *source,
                              const cst_settings *settings, cst_noise *out);

/* What came of it; all 0 where it was not tried. */
typedef struct cst_domain_layer {
    bool tried;
    bool used;
    double before; /* mean NLL of held-out predictions */
    double after;  /* with a layer that was fitted without the row's fold */
    double change; /* of the mean, negative where the layer helps */
    double se;     /* of the change */
    cst_domain_map *map;
} cst_domain_layer;

/* Whether a layer is to be tried on these rows. */
bool cst_domain_wanted(const cst_view *view, const cst_settings *settings);

/* held: [view->rows][classes], each row predicted by a stack fitted without its fold. */
cst_status cst_domain_layer_fit(cst_context *context, const cst_view *view, const int32_t *folds,
                                int32_t fold_count, const cst_settings *settings, const float *held,
                                cst_domain_layer *out);
void cst_domain_layer_free(cst_context *context, cst_domain_layer *layer);

typedef enum cst_reason {
    CST_REASON_KEPT = 0,
    CST_REASON_REDUNDANT = 1, /* too similar to a better kept member */
    CST_REASON_CONSTANT = 2,  /* the same prediction for every sample */
    CST_REASON_CAP = 3,       /* a limit on their number or cost */
    CST_REASON_SELECTION = 4, /* the pool does as well without it */
    CST_REASON_REFIT = 5,     /* dropped after blending */
    CST_REASON_BLEND = 6      /* no meta-learner of the blend reads it */
} cst_reason;

/* Everything one run found. Positions are those of the view's members. */
typedef struct cst_stages {
    int32_t members;         /* K */
    int32_t kept_count;      /* K_eff */
    int32_t *kept;           /* [K] used up to kept_count, ascending */
    cst_reason *reason;      /* [K] */
    bool *leading;           /* [K]: those that the stages are for; NULL: all */
    double *risk;            /* [K]: mean NLL; of a regression, mean squared error in units of the
                                targets' variances, its mean over the outputs */
    double *similarity;      /* [K*K]: by the measure asked for; Pearson's for none */
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
    cst_scope scope; /* of the arrays */
} cst_stages;

/* What a run works on. */
typedef struct cst_run {
    const cst_family *family; /* fit/family.h */
    const cst_view *view;
    const int32_t *folds; /* [view->rows], 0..fold_count-1 */
    int32_t fold_count;
    const cst_settings *settings;
    const cst_costs *costs; /* of the view's members */
    const void *own;        /* what the family made of these rows */
    float *without;         /* of nested runs: [view->rows][members], by how much the loss of a row
                               rises where the member is absent and the other weights are solved
                               again; NaN of rows that were not looked at. NULL: not wanted */
    const struct cst_stages *whole; /* of nested runs: those of all rows, where somebody asks */
} cst_run;

static inline cst_run cst_run_of(const cst_family *family, const cst_view *view,
                                 const int32_t *folds, int32_t fold_count,
                                 const cst_settings *settings, const cst_costs *costs) {
    return (cst_run){family, view, folds, fold_count, settings, costs, NULL, NULL, NULL};
}

cst_status cst_stages_run(cst_context *context, const cst_run *run, cst_stages *out);
void cst_stages_free(cst_context *context, cst_stages *stages);
/* The arrays for `members` members, nothing kept yet. */
cst_status cst_stages_alloc(cst_context *context, int32_t members, cst_stages *out);

/* Fills similarity, threshold, reason, closest and kept of stages with risk and pearson. The caps
 * apply here only where no selection follows. */
cst_status cst_redundant_members(cst_context *context, const cst_run *run, cst_stages *out);
/* The projection's rule by the settings. constant: [members]. */
cst_projection_rule cst_projection_rule_of(const cst_run *run, const bool *constant);
/* The most members that the caps by count allow out of K. */
int32_t cst_count_cap(const cst_settings *settings, int32_t members);

/* Takes members that no meta-learner reads any more out of the model and the kept ones. */
cst_status cst_stages_drop_unused(cst_context *context, cst_stages *stages);

/* Attaches to a view of the source's rows, until the scope ends, the compact table that selection
 * and the log-linear learner would make of it, so that every fit inside, nested ones as well, reads
 * the same one; nothing where neither takes part. Says where it has not all of the rows. */
cst_status cst_stages_attach(cst_context *context, cst_scope *scope, const cst_training *source,
                             const cst_settings *settings, cst_view *view);

/* What the procedure, run without each fold, predicts of that fold: held [count] as the family's
 * `predict` writes them. scored: the training of the run, whose folds may be in time; NULL: folds
 * are left out in turn. */
cst_status cst_stages_nested(cst_context *context, const cst_run *run, const cst_training *scored,
                             const cst_fold_result *held, int32_t count);

/* Fits the kept members, and what is left of them after removals where those are asked for. */
cst_status cst_fit_and_drop(cst_context *context, const cst_run *run, cst_stages *out);
