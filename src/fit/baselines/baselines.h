/*
 * Baselines that a stack is compared with: one interface for all methods that combine members'
 * predictions, fitted on labelled out-of-fold rows. Paper: section "Experimental Setup";
 * docs/baselines.md#definitions.
 */
#ifndef CST_BASELINES_H
#define CST_BASELINES_H

#include "core/base.h"
#include "data/pool/pool.h"
#include "data/pool/view.h"
#include "model/stack.h"

#include <corestack/pool.h>

typedef struct cst_baseline cst_baseline;

/* What a baseline is fitted on. */
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
    double *weights;  /* [members]; all 0 for CST_MIX_OTHER */
    bool *uses;       /* [members]: prediction reads this member */
    void *state;      /* the method's own */
    bool own_rows;    /* a rank predicts its own rows only, for who reads no others */
    char detail[128]; /* what the fit chose, for a reader; may be empty */
} cst_baseline_fit;

struct cst_baseline {
    const char *name;        /* as on the command line */
    const char *definition;  /* one sentence */
    bool rows_alike;         /* all rows count alike: refuses a view with weights */
    cst_ensemble_kind needs; /* it is of members with this tag; none: of any */
    /* Fills mix, weights, state and detail of `out`, whose arrays are allocated and zero; `uses`
     * only where it is not simply weights != 0. */
    cst_status (*fit)(cst_context *context, const cst_baseline_data *data, cst_baseline_fit *out);
    /* Probabilities of a view's rows, out [rows][classes]. NULL: the linear mixture itself. */
    cst_status (*predict)(cst_context *context, const cst_baseline_fit *fit, const cst_view *view,
                          float *out);
    void (*release)(cst_context *context, void *state); /* may be NULL where state is NULL */
    /* Gives a model of the members `kept`, with room for `mix`, its learner and map. NULL: the
     * linear mixture itself. */
    cst_status (*model)(cst_context *context, const cst_baseline_fit *fit, const int32_t *kept,
                        cst_model *out);
};

/* The methods, one file each; the table in baselines.c has them in the order of the report. */
extern const cst_baseline cst_baseline_best_single;
extern const cst_baseline cst_baseline_average;
extern const cst_baseline cst_baseline_performance_weighted;
extern const cst_baseline cst_baseline_ridge;
extern const cst_baseline cst_baseline_lasso;
extern const cst_baseline cst_baseline_elastic_net;
extern const cst_baseline cst_baseline_greedy;
extern const cst_baseline cst_baseline_greedy_top1;
extern const cst_baseline cst_baseline_greedy_brier;
extern const cst_baseline cst_baseline_minimum_variance;
extern const cst_baseline cst_baseline_log_linear;
extern const cst_baseline cst_baseline_hill_climbing;
extern const cst_baseline cst_baseline_deep_ensemble;
extern const cst_baseline cst_baseline_snapshot;
extern const cst_baseline cst_baseline_mc_dropout;
extern const cst_baseline cst_baseline_soup;
extern const cst_baseline cst_baseline_swag;
extern const cst_baseline cst_baseline_mlp;

size_t cst_baseline_count(void);
const cst_baseline *cst_baseline_at(size_t index);
const cst_baseline *cst_baseline_find(const char *name); /* NULL where there is none */

/* Fits on labelled rows. *out is zeroed first and empty after an error. */
cst_status cst_baseline_fit_run(cst_context *context, const cst_baseline *baseline,
                                const cst_baseline_data *data, cst_baseline_fit *out);

/* Probabilities [view->rows][classes] of rows of the same members in the same order. The same bytes
 * for any number of threads. */
cst_status cst_baseline_fit_predict(cst_context *context, const cst_baseline_fit *fit,
                                    const cst_view *view, float *out);

/* The fit as a model of the members kept [count], ascending, which are at least those it uses: the
 * same predictions. Without names and settings. *out is the caller's. */
cst_status cst_baseline_fit_model(cst_context *context, const cst_baseline_fit *fit,
                                  const int32_t *kept, int32_t count, cst_model **out);
/* Gives a model one learner with the fit's weights. bias: [biases], or NULL for zeros. */
cst_status cst_baseline_learner(cst_context *context, const cst_baseline_fit *fit,
                                cst_learner_kind kind, const int32_t *kept, const double *bias,
                                int32_t biases, cst_model *out);

void cst_baseline_fit_free(cst_context *context, cst_baseline_fit *fit);

/* sum_k weights[k] p_k of `count` rows from `first`, out [count][classes]; scratch [count *
 * classes] floats where the view has an index. What predictions of linear mixtures start from. */
cst_status cst_mixture_rows(cst_context *context, const cst_view *view, const double *weights,
                            int64_t first, int64_t count, float *scratch, double *out);

/* Probabilities [view->rows][classes] of the linear mixture by a fit's weights. */
cst_status cst_mixture_predict(cst_context *context, const cst_baseline_fit *fit,
                               const cst_view *view, float *out);

#endif
