/* A cascade on a split of a pool: which rows would have stopped, and what they would have got.
 * docs/cascades.md. */
#include "model/cascade.h"
#include "model/guard.h"

#include <string.h>

typedef struct cascade_job {
    const cst_cascade_plan *plan;
    const cst_view *view;
    const cst_guard_report *guard; /* NULL: none */
    float *out;
    int32_t *ran;
} cascade_job;

static bool is_shifted(const cst_guard_report *guard, int64_t row) {
    int64_t low = 0;
    int64_t high = guard ? guard->count : 0;
    while (low < high) { /* batches follow one another */
        int64_t middle = (low + high) / 2;
        if (row >= guard->batch[middle].first + guard->batch[middle].rows)
            low = middle + 1;
        else
            high = middle;
    }
    return guard && low < guard->count && guard->batch[low].fired;
}

static bool is_whole(const cascade_job *job, int64_t row) {
    const cst_view *view = job->view;
    bool whole = true;
    for (int32_t k = 0; k < view->members; k++)
        whole = whole && view->data[k] && cst_view_is_there(view, cst_view_present(view, k), row);
    return whole;
}

static void run_row(const cascade_job *job, int64_t row, const float *const *members,
                    double *scores) {
    const cst_cascade_plan *plan = job->plan;
    int32_t stage = 0;
    while (stage < plan->stages &&
           cst_cascade_pool(plan, stage, members, scores) < plan->threshold[stage])
        stage++;
    job->ran[row] = cst_cascade_ran(plan, stage);
    for (int32_t c = 0; stage < plan->stages && c < plan->classes; c++)
        job->out[row * plan->classes + c] = (float)scores[c];
}

static cst_status run_block(cst_context *context, void *user, int64_t block) {
    const cascade_job *job = user;
    const cst_view *view = job->view;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(view->rows, block);
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, members, view->members);
    CST_NEW(context, scope, double, scores, view->classes);
    CST_NEW(context, scope, float, copy, (size_t)view->members *(size_t)view->classes);
    for (int64_t i = first; i < end; i++) {
        bool whole = is_whole(job, i);
        job->ran[i] = whole ? view->members : 0;
        if (!whole || is_shifted(job->guard, i))
            continue;
        for (int32_t k = 0; k < view->members; k++)
            CST_TRY(cst_view_rows(context, view, k, i, 1, copy + (size_t)k * (size_t)view->classes,
                                  &members[k]));
        run_row(job, i, members, scores);
    }
    return CST_OK;
}

static cst_status run_split(cst_context *context, const cst_model *model, cst_pool *pool,
                            const char *split, int64_t rows, const cascade_job *job) {
    cst_view view;
    CST_SCOPE(scope);
    CST_TRY(cst_cascade_check(context, model));
    CST_TRY(cst_model_view(context, scope, model, pool, split, &view));
    if (view.rows != rows)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_cascade: split '%s' has %lld rows, not %lld", split,
                        (long long)view.rows, (long long)rows);
    cascade_job own = *job;
    own.view = &view;
    return cst_parallel_for(context, cst_block_count(rows), run_block, &own);
}

cst_status cst_model_cascade(cst_context *context, const cst_model *model, cst_pool *pool,
                             const char *split, const cst_guard_report *guard, int64_t rows,
                             float *out, int32_t *ran) {
    CST_ENTER(context);
    if (!model || !pool || !split || rows < 1 || !out || !ran)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_cascade: model, pool, split, rows and results are required");
    cascade_job job = {.plan = model->cascade, .guard = guard, .out = out, .ran = ran};
    return cst_why(context, run_split(context, model, pool, split, rows, &job));
}
