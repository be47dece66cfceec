/*
 * Folds for the rows that a fold leaves: what is chosen inside of an evaluation is chosen on these.
 * Stage S0; docs/method.md#s0-rows-folds-ids.
 */
#include "data/pool/folds.h"

#include <string.h>

/* Two new folds, stratified by label, or by target where the view has targets. */
static cst_status make_two(cst_context *context, const cst_view *in, uint64_t seed, int32_t *out) {
    size_t rows = (size_t)in->rows;
    size_t outputs = (size_t)in->classes;
    int32_t *labels = cst_alloc(context, in->targets ? 0 : rows, sizeof *labels);
    double *targets = cst_alloc(context, in->targets ? rows * outputs : 0, sizeof *targets);
    int64_t *groups = cst_alloc(context, in->groups ? rows : 0, sizeof *groups);
    cst_status status = labels && targets && groups ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && i < in->rows; i++) {
        if (in->targets)
            memcpy(targets + (size_t)i * outputs, cst_view_target(in, i),
                   outputs * sizeof *targets);
        else
            labels[i] = cst_view_label(in, i);
        if (in->groups)
            groups[i] = in->groups[in->index ? in->index[i] : i];
    }
    if (status == CST_OK && in->targets)
        status = cst_folds_quantile(context, targets, in->classes, in->groups ? groups : NULL,
                                    in->rows, 2, seed, out);
    else if (status == CST_OK && in->groups)
        status = cst_folds_grouped(context, labels, groups, in->rows, 2, seed, out);
    else if (status == CST_OK)
        status = cst_folds_stratified(context, labels, in->rows, 2, seed, out);
    cst_free(context, labels);
    cst_free(context, targets);
    cst_free(context, groups);
    return status;
}

cst_status cst_folds_inside(cst_context *context, const cst_view *in, const int32_t *folds,
                            int64_t rows, int32_t fold_count, int32_t fold, uint64_t seed,
                            int32_t **out, int32_t *count) {
    *out = cst_alloc(context, (size_t)in->rows, sizeof **out);
    if (!*out)
        return CST_ERROR_MEMORY;
    *count = fold_count > 2 ? fold_count - 1 : 2;
    if (fold_count > 2) {
        int64_t to = 0;
        for (int64_t i = 0; i < rows; i++)
            if (folds[i] != fold)
                (*out)[to++] = folds[i] - (folds[i] > fold);
        return CST_OK;
    }
    cst_status status = make_two(context, in, seed, *out);
    if (status != CST_OK) {
        cst_free(context, *out);
        *out = NULL;
    }
    return status;
}
