/*
 * What a fit stores about its out-of-fold rows for the guard, and the names of the members that the
 * guard may ask for. After stage S4. model/stack.h, docs/model-format.md.
 */
#include "fit/reference.h"

#include "fit/monitor_reference.h"

enum { CONFUSION_CELLS = 1 << 24 };

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

/* Rows of the fit at evenly spread positions, and what stack and average predict of them. */
typedef struct told {
    const cst_view *kept;
    const cst_view *all;
    int64_t count;
    int64_t part;             /* rows at a time */
    int64_t *index;           /* [part] */
    float *p;                 /* [part][classes] */
    cst_confusion_row *stack; /* [count] */
    cst_lean_row *average;    /* [count] */
    float *at;                /* [count][CST_LEAN_STEPS] */
} told;

static void told_free(cst_context *context, told *t) {
    cst_free(context, t->index);
    cst_free(context, t->p);
    cst_free(context, t->stack);
    cst_free(context, t->average);
    cst_free(context, t->at);
}

static cst_status told_alloc(cst_context *context, told *t) {
    size_t count = (size_t)t->count;
    size_t part = (size_t)t->part;
    t->index = cst_alloc(context, part, sizeof *t->index);
    t->p = cst_alloc(context, part * (size_t)t->kept->classes, sizeof *t->p);
    t->stack = cst_alloc(context, count, sizeof *t->stack);
    t->average = cst_alloc(context, count, sizeof *t->average);
    t->at = cst_alloc(context, count * CST_LEAN_STEPS, sizeof *t->at);
    return t->index && t->p && t->stack && t->average && t->at ? CST_OK : CST_ERROR_MEMORY;
}

static int64_t place_of(const told *t, int64_t row) {
    return row * t->kept->rows / t->count;
}

static cst_status tell_part(cst_context *context, const cst_model *model, told *t, int64_t first,
                            int64_t size, cst_watched *watched) {
    const cst_view *rows = t->kept;
    cst_view part = *rows;
    cst_view all = *t->all;
    part.rows = all.rows = size;
    part.index = all.index = t->index;
    for (int64_t i = 0; i < size; i++) {
        int64_t at = place_of(t, first + i);
        t->index[i] = rows->index ? rows->index[at] : at;
    }
    cst_status status = cst_stack_predict(context, model, &part, t->p);
    for (int64_t i = 0; status == CST_OK && i < size; i++) {
        const float *p = t->p + i * rows->classes;
        t->stack[first + i] = cst_confusion_row_of(p, rows->classes, cst_view_label(&part, i));
        cst_watched_take(watched, place_of(t, first + i), p, rows->classes);
    }
    CST_THEN(cst_lean_average(context, &all, t->average + first, t->at + first * CST_LEAN_STEPS));
    return status;
}

static cst_status tell(cst_context *context, const cst_view *rows, const cst_view *all,
                       cst_watched *watched, cst_model *model) {
    int64_t classes = rows->classes;
    int64_t most = CONFUSION_CELLS / classes;
    most = most > CST_NOVELTY_ROWS_MAX ? CST_NOVELTY_ROWS_MAX : most < 2048 ? 2048 : most;
    told t = {.kept = rows, .all = all, .count = rows->rows < most ? rows->rows : most};
    t.part = cst_watched_part(t.count, rows->classes);
    if (t.count < CST_CONFUSION_ROWS_MIN || classes > CST_CONFUSION_SHARES_MAX)
        return CST_OK;
    double *share = cst_alloc(context, (size_t)classes, sizeof *share);
    cst_status status = share ? told_alloc(context, &t) : CST_ERROR_MEMORY;
    for (int64_t first = 0; status == CST_OK && first < t.count; first += t.part)
        status = tell_part(context, model, &t, first,
                           t.count - first < t.part ? t.count - first : t.part, watched);
    CST_THEN(
        cst_lean_fit(context, t.stack, t.average, t.at, t.count, (int32_t)classes, &model->lean));
    if (status == CST_OK) {
        count_shares(rows, share);
        status = cst_confusion_fit(context, t.stack, t.count, (int32_t)classes, share,
                                   &model->confusion);
    }
    told_free(context, &t);
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
    cst_watched watched = {0};
    CST_THEN(cst_watched_begin(context, rows, model, &watched));
    if (status == CST_OK && model->task == CST_TASK_CLASSIFICATION)
        status = tell(context, rows, &source->view, &watched, model);
    CST_THEN(cst_watched_end(context, rows, &watched, model));
    cst_watched_free(context, &watched);
    return status;
}
