/*
 * What a fit stores about its out-of-fold rows for the guard, and the names of the members that the
 * guard may ask for. After stage S4. model/stack.h, docs/model-format.md.
 */
#include "pipeline/reference.h"

static bool is_kept(const int32_t *kept, int32_t count, int32_t member) {
    for (int32_t j = 0; j < count; j++)
        if (kept[j] == member)
            return true;
    return false;
}

static cst_status name_others(cst_context *context, const cst_pool *pool, const int32_t *kept,
                              int32_t count, cst_novelty *novelty) {
    int32_t members = cst_pool_members(pool);
    novelty->other_names =
        cst_alloc(context, (size_t)(members - count), sizeof *novelty->other_names);
    if (!novelty->other_names)
        return CST_ERROR_MEMORY;
    for (int32_t k = 0; k < members; k++) {
        if (is_kept(kept, count, k))
            continue;
        char *name = cst_strdup(context, cst_pool_member_name(pool, k));
        if (!name)
            return CST_ERROR_MEMORY;
        novelty->other_names[novelty->others++] = name;
    }
    return CST_OK;
}

cst_status cst_fit_reference(cst_context *context, const cst_pool *pool, const cst_training *source,
                             const cst_view *rows, const int32_t *kept, cst_model *model) {
    if (model->task != CST_TASK_CLASSIFICATION && model->task != CST_TASK_SEGMENTATION)
        return CST_OK;
    cst_status status =
        cst_novelty_fit(context, rows, source->folds, source->fold_count, &model->novelty);
    if (status == CST_OK && model->novelty)
        status = name_others(context, pool, kept, model->members, model->novelty);
    return status;
}
