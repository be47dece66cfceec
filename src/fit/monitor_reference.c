/* The stack on the rows of its fit, for the monitor. See the header. */
#include "fit/monitor_reference.h"

#include "stats/samples.h"

enum { CELLS = 1 << 21, ROWS_LEAST = 2048, PART_CELLS = 1 << 19 };

int64_t cst_watched_part(int64_t rows, int32_t classes) {
    int64_t blocks = PART_CELLS / classes / CST_BLOCK_ROWS;
    int64_t part = (blocks < 1 ? 1 : blocks) * CST_BLOCK_ROWS;
    return part < rows ? part : rows;
}

void cst_watched_free(cst_context *context, cst_watched *watched) {
    cst_free(context, watched->place);
    cst_watch_rows_free(context, &watched->rows);
}

cst_status cst_watched_begin(cst_context *context, const cst_view *rows, const cst_model *model,
                             cst_watched *out) {
    *out = (cst_watched){0};
    if (model->task != CST_TASK_CLASSIFICATION || rows->rows < CST_WATCH_ROWS_MIN ||
        rows->classes < 2)
        return CST_OK;
    int64_t most = CELLS / rows->classes;
    most = most < ROWS_LEAST ? ROWS_LEAST : most > CST_WATCH_ROWS_MAX ? CST_WATCH_ROWS_MAX : most;
    cst_view chosen = *rows;
    chosen.rows = out->count = rows->rows < most ? rows->rows : most;
    out->place = cst_alloc(context, (size_t)out->count, sizeof *out->place);
    if (!out->place)
        return CST_ERROR_MEMORY;
    cst_watch_choose(rows->rows, out->count, out->place);
    return cst_watch_rows_alloc(context, &chosen, &out->rows);
}

void cst_watched_take(cst_watched *watched, int64_t place, const float *p, int32_t classes) {
    if (watched->next < watched->count && watched->place[watched->next] == place)
        cst_watch_stack(&watched->rows, p, watched->next++, 1, classes);
}

/* Predicts the rows that are left. chosen: a view of all that are looked at. */
static cst_status predict_rest(cst_context *context, const cst_model *model, const cst_view *chosen,
                               cst_watched *watched) {
    int64_t size = cst_watched_part(watched->count - watched->next, chosen->classes);
    float *p = cst_alloc(context, (size_t)size * (size_t)chosen->classes, sizeof *p);
    cst_status status = p ? CST_OK : CST_ERROR_MEMORY;
    while (status == CST_OK && watched->next < watched->count) {
        int64_t left = watched->count - watched->next;
        cst_view part = *chosen;
        part.index = chosen->index + watched->next;
        part.rows = left < size ? left : size;
        status = cst_stack_predict(context, model, &part, p);
        if (status == CST_OK)
            cst_watch_stack(&watched->rows, p, watched->next, part.rows, part.classes);
        watched->next += part.rows;
    }
    cst_free(context, p);
    return status;
}

static cst_status score(cst_context *context, const cst_view *chosen, const cst_watch_rows *rows,
                        double *ece) {
    size_t count = (size_t)chosen->rows;
    CST_SCOPE(scope);
    cst_samples samples = {.rows = chosen->rows};
    CST_TAKE(context, scope, samples.confidence, count);
    CST_TAKE(context, scope, samples.correct, count);
    for (int64_t i = 0; i < chosen->rows; i++) {
        samples.confidence[i] = (double)rows->confidence[i];
        samples.correct[i] = rows->class[i] == cst_view_label(chosen, i);
    }
    return cst_samples_ece(context, &samples, ece);
}

cst_status cst_watched_end(cst_context *context, const cst_view *rows, cst_watched *watched,
                           cst_model *model) {
    double ece = 0;
    cst_view chosen = *rows;
    if (watched->count == 0)
        return CST_OK;
    chosen.rows = watched->count;
    int64_t *index = cst_alloc(context, (size_t)watched->count, sizeof *index);
    if (!index)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < watched->count; i++)
        index[i] = rows->index ? rows->index[watched->place[i]] : watched->place[i];
    chosen.index = index;
    cst_status status = CST_OK;
    if (watched->next < watched->count)
        status = predict_rest(context, model, &chosen, watched);
    CST_THEN(score(context, &chosen, &watched->rows, &ece));
    CST_THEN(cst_watch_fit(context, &chosen, &watched->rows, ece, &model->watch));
    cst_free(context, index);
    return status;
}
