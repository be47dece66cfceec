/*
 * Simple ensembles to set a stack beside: best single model, average, greedy selection, each with
 * or without temperature scaling. Fitted on out-of-fold predictions only. method.md section 8.
 */
#ifndef CORESTACK_BASELINES_H
#define CORESTACK_BASELINES_H

#include <corestack/context.h>
#include <corestack/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cst_baseline_kind {
    CST_BASELINE_BEST_SINGLE = 0,      /* least NLL; the first of equals */
    CST_BASELINE_BEST_SINGLE_TOP1 = 1, /* highest top-1, of equals the one with the least NLL */
    CST_BASELINE_AVERAGE = 2,          /* the same weight for every member */
    CST_BASELINE_GREEDY = 3            /* greedy selection as in AutoGluon: 25 rounds, log loss */
} cst_baseline_kind;

/* A fitted baseline: the mixture sum_k w_k p_k, then softmax(log(mixture) / temperature). Free what
 * it holds with cst_baseline_free. */
typedef struct cst_baseline {
    cst_baseline_kind kind;
    int scaled;         /* non-zero: temperature scaling was asked for */
    double temperature; /* 1 without temperature scaling */
    int32_t members;    /* K of the pool */
    int32_t used;       /* members with a weight above 0 */
    double *weights;    /* [members], sum 1 */
} cst_baseline;

/* "best-single", "best-single-top1", "average", "greedy"; NULL for any other value. */
CST_API const char *cst_baseline_name(cst_baseline_kind kind);

/* Fits on a loaded split with labels. temperature: non-zero adds temperature scaling: the T in
 * [0.01, 100] with the least NLL on the same rows, probabilities below 1e-15 counting as 1e-15. */
CST_API cst_status cst_baseline_fit(cst_context *context, const cst_pool *pool, const char *split,
                                    cst_baseline_kind kind, int temperature, cst_baseline *out);

/* Probabilities of a loaded split of the same pool. out: [rows][classes] float32, the caller's. */
CST_API cst_status cst_baseline_predict(cst_context *context, const cst_baseline *baseline,
                                        const cst_pool *pool, const char *split, float *out);

CST_API void cst_baseline_free(cst_context *context, cst_baseline *baseline);

#ifdef __cplusplus
}
#endif
#endif
