/* Pools whose members list the likeliest classes of each row with their log-probabilities.
 * docs/topk.md. */
#ifndef CORESTACK_TOPK_H
#define CORESTACK_TOPK_H

#include <corestack/corestack.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Predictions as such members have them. */
typedef struct cst_topk {
    int64_t rows;
    int64_t top;      /* classes in a row */
    int32_t *indices; /* [rows][top], the likeliest first; -1: no more */
    float *logprobs;  /* [rows][top]; -infinity where there is no class */
    float *rest;      /* [rows]: log-probability of all other classes together */
} cst_topk;

/* Predicts a split of a pool of such members (cst_pool_task: CST_TASK_TOPK). top: how many classes
 * of each row; 0: as many as the widest member lists. *out belongs to the caller (cst_topk_free).
 */
CST_API cst_status cst_model_predict_topk(cst_context *context, const cst_model *model,
                                          cst_pool *pool, const char *split, int64_t top,
                                          cst_topk **out);

/* Frees predictions; NULL is accepted. */
CST_API void cst_topk_free(cst_context *context, cst_topk *topk);

/* Predicts as above into an npz of "indices" (int32), "logprobs" and "rest" (float32), itself a
 * member's file, written whole or not at all; little of it is held in memory. *rows: how many.
 * path: a file; NULL: this rank writes none. */
CST_API cst_status cst_model_write_topk(cst_context *context, const cst_model *model,
                                        cst_pool *pool, const char *split, int64_t top,
                                        const char *path, int64_t *rows);

#ifdef __cplusplus
}
#endif

#endif
