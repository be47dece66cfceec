/* Methods that combine members' predictions. docs/baselines.md#definitions. */
#pragma once

#include "core/scope.h"
#include "data/pool/pool.h"
#include "data/pool/view.h"
#include "method/calibration/calibration.h"
#include "model/stack.h"

#include <corestack/pool.h>

typedef struct cst_baseline cst_baseline;

typedef struct cst_baseline_data {
    const cst_view *view; /* labelled rows, every member */
    const int32_t *folds; /* [view->rows], 0..fold_count-1: for penalties by cross-validation */
    int32_t fold_count;   /* at least 2 */
    uint64_t seed;
    const cst_member_ensemble *ensembles; /* [members]: tags of the manifest; NULL: none */
} cst_baseline_data;

typedef enum cst_mix_kind {
    CST_MIX_LINEAR = 0,    /* sum_k w_k p_k; where weights are negative or do not sum to 1, mapped
                              to probabilities by the method */
    CST_MIX_LOGLINEAR = 1, /* weights of log p_k */
    CST_MIX_OTHER = 2      /* no weight stands for a member */
} cst_mix_kind;

/* A fitted baseline. Free what it holds with cst_baseline_fit_free. */
typedef struct cst_baseline_fit {
    const cst_baseline *baseline;
    int32_t members; /* K of the view it was fitted on */
    int32_t classes;
    cst_mix_kind mix;
    double *weights;         /* [members]; all 0 for CST_MIX_OTHER */
    double intercept;        /* of linear mixtures */
    double *bias;            /* [classes] of a log-linear pool; else NULL */
    double *shares;          /* [members] of that: of the uniform distribution in each; else NULL */
    cst_calibrator *scaling; /* [members] of a pool with weights of each class; else NULL */
    cst_network *network;
    bool *uses;       /* [members]: prediction reads this member */
    char detail[128]; /* what the fit chose, for a reader; may be empty */
    cst_scope scope;
} cst_baseline_fit;

struct cst_baseline {
    const char *name;       /* as on the command line */
    const char *definition; /* one sentence */
    /* Fills `out`, whose weights and uses are there and zero; `uses` only where it is not simply
     * weights != 0. */
    cst_status (*fit)(cst_context *context, const cst_baseline_data *data, cst_baseline_fit *out);
    int variant; /* for fit, of methods that share one: a metric, a cst_linear_kind, ... */
    cst_ensemble_kind ensemble; /* members tagged as this are averaged; NONE: of all members */
    bool rows_alike;            /* all rows count alike: refuses a view with weights */
    cst_probability_map map;    /* of a linear mixture */
    cst_learner_kind learner;   /* of its model */
};

/* In the order of the report. */
enum {
    CST_BASELINE_BEST_SINGLE,
    CST_BASELINE_AVERAGE,
    CST_BASELINE_PERFORMANCE_WEIGHTED,
    CST_BASELINE_RIDGE,
    CST_BASELINE_LASSO,
    CST_BASELINE_ELASTIC_NET,
    CST_BASELINE_GREEDY,
    CST_BASELINE_GREEDY_TOP1,
    CST_BASELINE_GREEDY_BRIER,
    CST_BASELINE_MINIMUM_VARIANCE,
    CST_BASELINE_LOG_LINEAR,
    CST_BASELINE_CLASS_WISE,
    CST_BASELINE_MLP,
    CST_BASELINE_HILL_CLIMBING,
    CST_BASELINE_DEEP_ENSEMBLE,
    CST_BASELINE_SNAPSHOT,
    CST_BASELINE_MC_DROPOUT,
    CST_BASELINE_SOUP,
    CST_BASELINE_SWAG,
    CST_BASELINES
};
extern const cst_baseline cst_baselines[CST_BASELINES];

/* For the table. */
cst_status cst_fit_hill_climbing(cst_context *context, const cst_baseline_data *data,
                                 cst_baseline_fit *out);
cst_status cst_fit_ensemble(cst_context *context, const cst_baseline_data *data,
                            cst_baseline_fit *out);
cst_status cst_fit_mlp(cst_context *context, const cst_baseline_data *data, cst_baseline_fit *out);

size_t cst_baseline_count(void);
const cst_baseline *cst_baseline_at(size_t index);
const cst_baseline *cst_baseline_find(const char *name); /* NULL where there is none */

/* Fits on labelled rows. Free with cst_baseline_fit_free, also after a failure. */
cst_status cst_baseline_fit_run(cst_context *context, const cst_baseline *baseline,
                                const cst_baseline_data *data, cst_baseline_fit *out);

/* Probabilities [view->rows][classes] by a linear mixture, of rows of the same members in the same
 * order. A rank predicts its own rows only. */
cst_status cst_mixture_predict(cst_context *context, const cst_baseline_fit *fit,
                               const cst_view *view, float *out);

/* The fit as a model of the members kept [count], ascending, which are at least those it uses: the
 * same predictions. Without names and settings. Free *out, also after a failure. */
cst_status cst_baseline_fit_model(cst_context *context, const cst_baseline_fit *fit,
                                  const int32_t *kept, int32_t count, cst_model **out);
/* Predictions [view->rows][classes] by that model, which has a rule for rows that members did not
 * predict. */
cst_status cst_baseline_predict(cst_context *context, const cst_baseline_fit *fit,
                                const cst_view *view, float *out);
/* Positions of `uses` [members], or the first. *count: their number. The caller frees them. */
cst_status cst_members_used(cst_context *context, const bool *uses, int32_t members, int32_t **kept,
                            int32_t *count);
void cst_baseline_fit_free(cst_context *context, cst_baseline_fit *fit);

/* sum_k weights[k] p_k of the rows of a block, out [rows][classes]. */
cst_status cst_mixture_rows(cst_context *context, const cst_view *view, const double *weights,
                            int64_t block, double *out);
