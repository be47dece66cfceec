/*
 * The public face of the baselines: a loaded split of a pool becomes a view. Beside the stack,
 * after stage S0. method.md section 8.
 */
#include "baselines/baselines.h"

/* The split as a view over `pointers` [members]. */
static cst_status split_view(cst_context *context, const cst_pool *pool, const char *split,
                             const float **pointers, cst_view *out) {
    int64_t rows = cst_pool_rows(pool, split);
    if (rows < 0)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "split \"%s\" is not loaded: call cst_pool_load first", split);
    *out = (cst_view){.rows = rows,
                      .classes = cst_pool_classes(pool),
                      .members = cst_pool_members(pool),
                      .data = pointers,
                      .labels = cst_pool_labels(pool, split)};
    for (int32_t k = 0; k < out->members; k++)
        pointers[k] = cst_pool_predictions(pool, split, k);
    return CST_OK;
}

cst_status cst_baseline_fit(cst_context *context, const cst_pool *pool, const char *split,
                            cst_baseline_kind kind, int temperature, cst_baseline *out) {
    *out = (cst_baseline){0};
    cst_view view;
    const float **pointers = cst_alloc(context, (size_t)cst_pool_members(pool), sizeof *pointers);
    cst_status status =
        pointers ? split_view(context, pool, split, pointers, &view) : CST_ERROR_MEMORY;
    if (status == CST_OK && !view.labels)
        status = cst_fail(context, CST_ERROR_INPUT,
                          "split \"%s\" has no labels: a baseline cannot be fitted on it", split);
    if (status == CST_OK)
        status = cst_baseline_fit_view(context, &view, kind, temperature != 0, out);
    cst_free(context, pointers);
    return status;
}

cst_status cst_baseline_predict(cst_context *context, const cst_baseline *baseline,
                                const cst_pool *pool, const char *split, float *out) {
    cst_view view;
    const float **pointers = cst_alloc(context, (size_t)cst_pool_members(pool), sizeof *pointers);
    cst_status status =
        pointers ? split_view(context, pool, split, pointers, &view) : CST_ERROR_MEMORY;
    if (status == CST_OK)
        status = cst_baseline_predict_view(context, baseline, &view, out);
    cst_free(context, pointers);
    return status;
}
