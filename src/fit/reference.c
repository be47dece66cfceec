/* What a fit stores about its out-of-fold rows for the guard, label shift and the monitor, and the
 * names of the members that the guard may ask for. After stage S4. docs/model-format.md. */
#include "fit/label.h"

#include "model/shift/parts.h"
#include "stats/samples.h"

enum {
    CONFUSION_CELLS = 1 << 24,
    MONITOR_CELLS = 1 << 21,
    PART_CELLS = 1 << 19,
    ROWS_LEAST = 2048
};

static bool is_kept(const int32_t *kept, int32_t count, int32_t member) {
    for (int32_t j = 0; j < count; j++)
        if (kept[j] == member)
            return true;
    return false;
}

static cst_status name_others(cst_context *context, const cst_pool *pool, const int32_t *kept,
                              cst_model *model) {
    cst_novelty *novelty = model->reference.novelty;
    int32_t members = (int32_t)cst_pool_members(pool);
    CST_TAKE(context, &model->scope, novelty->other_names, members - model->members);
    for (int32_t k = 0; k < members; k++) {
        if (is_kept(kept, model->members, k))
            continue;
        char *name = cst_take_text(context, &model->scope, cst_pool_member_name(pool, k));
        if (!name)
            return CST_ERROR_MEMORY;
        novelty->other_names[novelty->others++] = name;
    }
    return CST_OK;
}

/* How many rows are looked at, where each takes as many cells as there are classes. */
static int64_t rows_within(const cst_view *rows, int64_t cells, int64_t most) {
    int64_t count = cells / rows->classes;
    count = count < ROWS_LEAST ? ROWS_LEAST : count > most ? most : count;
    return rows->rows < count ? rows->rows : count;
}

/* Rows that are predicted at a time: whole blocks, of 2 MiB where there are many classes. */
static int64_t part_of(int64_t rows, int32_t classes) {
    int64_t blocks = PART_CELLS / classes / CST_BLOCK_ROWS;
    int64_t part = (blocks < 1 ? 1 : blocks) * CST_BLOCK_ROWS;
    return part < rows ? part : rows;
}

/* ---- rows for the monitor ---- */

/* A random sample, of which label shift's rows predict those that they share. */
typedef struct sample {
    int64_t count;  /* 0: the model has nothing for a monitor */
    int64_t *place; /* [count] in the view of the fit, ascending */
    int64_t next;   /* the first that is not predicted yet */
    cst_gauge_rows rows;
} sample;

static cst_status sample_begin(cst_context *context, cst_scope *scope, const cst_view *rows,
                               sample *s) {
    *s = (sample){0};
    if (rows->rows < CST_GAUGE_ROWS_MIN || rows->classes < 2)
        return CST_OK;
    cst_view chosen = *rows;
    chosen.rows = s->count = rows_within(rows, MONITOR_CELLS, CST_GAUGE_ROWS_MAX);
    CST_TAKE(context, scope, s->place, s->count);
    cst_choose_rows(rows->rows, s->count, 1, s->place);
    return cst_gauge_rows_take(context, scope, &chosen, &s->rows);
}

/* What the stack predicts of row `place` of the fit's view, if it is the next one. */
static void sample_add(sample *s, int64_t place, const float *p, int32_t classes) {
    if (s->next < s->count && s->place[s->next] == place)
        cst_gauge_stack(&s->rows, p, s->next++, 1, classes);
}

/* Predicts the rows that are left. chosen: a view of the sample. */
static cst_status sample_rest(cst_context *context, const cst_model *model, const cst_view *chosen,
                              sample *s) {
    CST_SCOPE(scope);
    int64_t size = part_of(s->count - s->next, chosen->classes);
    CST_NEW(context, scope, float, p, size * chosen->classes);
    while (s->next < s->count) {
        int64_t left = s->count - s->next;
        cst_view part = *chosen;
        part.index = chosen->index + s->next;
        part.rows = left < size ? left : size;
        CST_TRY(cst_stack_predict(context, model, &part, p));
        cst_gauge_stack(&s->rows, p, s->next, part.rows, part.classes);
        s->next += part.rows;
    }
    return CST_OK;
}

static cst_status score(cst_context *context, const cst_view *chosen, const cst_gauge_rows *rows,
                        double *ece) {
    cst_samples samples = {.rows = chosen->rows};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, samples.confidence, chosen->rows);
    CST_TAKE(context, scope, samples.correct, chosen->rows);
    for (int64_t i = 0; i < chosen->rows; i++) {
        samples.confidence[i] = (double)rows->confidence[i];
        samples.correct[i] = rows->class[i] == cst_view_label(chosen, i);
    }
    return cst_samples_ece(context, &samples, ece);
}

static cst_status sample_end(cst_context *context, cst_scope *scope, const cst_view *rows,
                             sample *s, cst_model *model) {
    double ece = 0;
    if (s->count == 0)
        return CST_OK;
    cst_view chosen = *rows;
    CST_NEW(context, scope, int64_t, index, s->count);
    chosen.rows = s->count;
    chosen.index = index;
    for (int64_t i = 0; i < s->count; i++)
        index[i] = rows->index ? rows->index[s->place[i]] : s->place[i];
    if (s->next < s->count)
        CST_TRY(sample_rest(context, model, &chosen, s));
    CST_TRY(score(context, &chosen, &s->rows, &ece));
    return cst_gauge_fit(context, &model->scope, &chosen, &s->rows, ece, &model->reference.gauge);
}

/* ---- what stack and average predict of each class ---- */

/* Shares of the classes in all rows of a view. */
static void count_shares(const cst_view *rows, double *share) {
    double sum = cst_view_weight_sum(rows);
    for (int64_t i = 0; i < rows->rows; i++)
        share[cst_view_label(rows, i)] += cst_view_weight(rows, i) / sum;
}

/* Rows of the fit at evenly spread positions. all: of every member. */
static cst_status fit_predictions(cst_context *context, const cst_view *rows, const cst_view *all,
                                  sample *s, cst_model *model) {
    int32_t classes = rows->classes;
    int64_t count = rows_within(rows, CONFUSION_CELLS, CST_NOVELTY_ROWS_MAX);
    int64_t size = part_of(count, classes);
    if (count < CST_CONFUSION_ROWS_MIN || classes > CST_CONFUSION_SHARES_MAX)
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, share, classes);
    CST_NEW(context, scope, int64_t, index, size);
    CST_NEW(context, scope, float, p, (size * classes));
    CST_NEW(context, scope, cst_confusion_row, stack, count);
    CST_NEW(context, scope, cst_mixing_row, average, count);
    CST_NEW(context, scope, float, at, (count * CST_MIXING_STEPS));
    cst_view part = *rows;
    cst_view part_of_all = *all;
    part.index = part_of_all.index = index;
    for (int64_t first = 0; first < count; first += size) {
        part.rows = part_of_all.rows = count - first < size ? count - first : size;
        for (int64_t i = 0; i < part.rows; i++) {
            int64_t place = (first + i) * rows->rows / count;
            index[i] = rows->index ? rows->index[place] : place;
        }
        CST_TRY(cst_stack_predict(context, model, &part, p));
        for (int64_t i = 0; i < part.rows; i++) {
            const float *row = p + i * classes;
            stack[first + i] = cst_confusion_row_of(row, classes, cst_view_label(&part, i));
            sample_add(s, (first + i) * rows->rows / count, row, classes);
        }
        CST_TRY(cst_mixing_average(context, &part_of_all, average + first,
                                   at + first * CST_MIXING_STEPS));
    }
    CST_TRY(cst_mixing_fit(context, &model->scope, stack, average, at, count, classes,
                           &model->reference.mixing));
    count_shares(rows, share);
    return cst_confusion_fit(context, &model->scope, stack, count, classes, share,
                             &model->reference.confusion);
}

cst_status cst_fit_reference(cst_context *context, const cst_pool *pool, const cst_training *source,
                             const cst_view *rows, const int32_t *kept, cst_model *model) {
    if (model->task != CST_TASK_CLASSIFICATION && model->task != CST_TASK_SEGMENTATION)
        return CST_OK;
    CST_TRY(cst_novelty_fit(context, &model->scope, rows, source->folds, source->fold_count,
                            &model->reference.novelty));
    if (model->reference.novelty)
        CST_TRY(name_others(context, pool, kept, model));
    if (model->task != CST_TASK_CLASSIFICATION)
        return CST_OK;
    CST_SCOPE(scope);
    sample s;
    CST_TRY(sample_begin(context, scope, rows, &s));
    CST_TRY(fit_predictions(context, rows, &source->view, &s, model));
    return sample_end(context, scope, rows, &s, model);
}
