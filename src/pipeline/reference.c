/*
 * What a fit stores about its out-of-fold rows for the guard, and the names of the members that the
 * guard may ask for. After stage S4. model/stack.h, docs/model-format.md.
 */
#include "pipeline/reference.h"

enum { CONFUSION_CELLS = 1 << 24, PART_CELLS = 1 << 20 };

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

/* ---- what the stack predicts of each class ---- */

/* Shares of the classes in all rows of a view. */
static void count_shares(const cst_view *rows, double *share) {
    double sum = cst_view_weight_sum(rows);
    for (int64_t i = 0; i < rows->rows; i++)
        share[cst_view_label(rows, i)] += cst_view_weight(rows, i) / sum;
}

/* The rows at evenly spread positions, as many as `count`. */
static cst_status predict_part(cst_context *context, const cst_model *model, const cst_view *rows,
                               int64_t first, int64_t size, int64_t count, int64_t *index, float *p,
                               cst_confusion_row *out) {
    cst_view part = *rows;
    part.rows = size;
    part.index = index;
    for (int64_t i = 0; i < size; i++) {
        int64_t at = (int64_t)((double)(first + i) / (double)count * (double)rows->rows);
        index[i] = rows->index ? rows->index[at] : at;
    }
    cst_status status = cst_stack_predict(context, model, &part, p);
    for (int64_t i = 0; status == CST_OK && i < size; i++)
        out[first + i] =
            cst_confusion_row_of(p + i * rows->classes, rows->classes, cst_view_label(&part, i));
    return status;
}

static cst_status count_confusion(cst_context *context, const cst_view *rows, cst_model *model) {
    int64_t classes = rows->classes;
    int64_t most = CONFUSION_CELLS / classes;
    most = most > CST_NOVELTY_ROWS_MAX ? CST_NOVELTY_ROWS_MAX : most < 2048 ? 2048 : most;
    int64_t count = rows->rows < most ? rows->rows : most;
    int64_t part = PART_CELLS / classes;
    part = part < CST_BLOCK_ROWS ? CST_BLOCK_ROWS : part;
    part = part > count ? count : part;
    if (count < CST_CONFUSION_ROWS_MIN || classes > CST_CONFUSION_SHARES_MAX)
        return CST_OK;
    cst_confusion_row *counted = cst_alloc(context, (size_t)count, sizeof *counted);
    int64_t *index = cst_alloc(context, (size_t)part, sizeof *index);
    float *p = cst_alloc(context, (size_t)part * (size_t)classes, sizeof *p);
    double *share = cst_alloc(context, (size_t)classes, sizeof *share);
    cst_status status = counted && index && p && share ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t first = 0; status == CST_OK && first < count; first += part) {
        int64_t size = count - first < part ? count - first : part;
        status = predict_part(context, model, rows, first, size, count, index, p, counted);
    }
    if (status == CST_OK) {
        count_shares(rows, share);
        status =
            cst_confusion_fit(context, counted, count, (int32_t)classes, share, &model->confusion);
    }
    cst_free(context, counted);
    cst_free(context, index);
    cst_free(context, p);
    cst_free(context, share);
    return status;
}

cst_status cst_fit_reference(cst_context *context, const cst_pool *pool, const cst_training *source,
                             const cst_view *rows, const int32_t *kept, cst_model *model) {
    if (model->task != CST_TASK_CLASSIFICATION && model->task != CST_TASK_SEGMENTATION)
        return CST_OK;
    cst_status status =
        cst_novelty_fit(context, rows, source->folds, source->fold_count, &model->novelty);
    if (status == CST_OK && model->novelty)
        status = name_others(context, pool, kept, model->members, model->novelty);
    if (status == CST_OK && model->task == CST_TASK_CLASSIFICATION)
        status = count_confusion(context, rows, model);
    return status;
}
