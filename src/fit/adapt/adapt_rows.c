/* Members by name, the rows of a split that were asked for, and their logarithms. See the header.
 */
#include "data/pool/pool.h"
#include "fit/adapt/adapt.h"
#include "model/kernels.h"

#include <string.h>

static cst_status check(cst_context *context, const cst_model *model, const cst_pool *pool,
                        const char *split) {
    if (model->task != CST_TASK_CLASSIFICATION || cst_pool_task(pool) != CST_TASK_CLASSIFICATION)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "adaptation is for classification only: the model's task is %s, the pool's "
                        "task is %s",
                        cst_task_text(model->task), cst_task_text(cst_pool_task(pool)));
    if (model->adapted)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "the model was adapted to %lld rows before; adapt the model that it was "
                        "made from, to all labelled rows together",
                        (long long)model->adapted->rows);
    if (!cst_pool_has_split(pool, split))
        return cst_fail_split(context, CST_ERROR_INPUT, pool, split);
    if (cst_pool_misses(pool))
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "adaptation is not supported with --missing allow: it needs rows that "
                        "every member predicted");
    for (int32_t k = 0; k < cst_model_inputs(model); k++) {
        int32_t at = cst_pool_member_index(pool, cst_model_input_name(model, k));
        if (at < 0 || !cst_pool_member_has_split(pool, at, split))
            return cst_fail(context, CST_ERROR_MISMATCH,
                            "the model needs member '%s', which the pool does not have for split "
                            "'%s'; adaptation needs every member of the model",
                            cst_model_input_name(model, k), split);
    }
    if (cst_pool_conditions(pool, split) > 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "split '%s' has several conditions; name a split without conditions",
                        split);
    return CST_OK;
}

/* The model's members, then the others that have the split. */
static cst_status find_members(cst_context *context, cst_scope *made, const cst_model *model,
                               cst_pool *pool, const char *split, int32_t **position,
                               int32_t *count) {
    int32_t members = (int32_t)cst_pool_members(pool);
    CST_SCOPE(scope);
    CST_NEW(context, made, int32_t, list, (int64_t)members + model->members);
    CST_NEW(context, scope, bool, taken, members);
    *position = list;
    *count = 0;
    for (int32_t k = 0; k < model->members; k++) {
        list[(*count)++] = cst_pool_member_index(pool, model->member_names[k]);
        taken[list[k]] = true; /* cst_model_view has seen that it is there */
    }
    for (int32_t k = 0; k < members; k++)
        if (!taken[k] && cst_pool_member_has_split(pool, k, split))
            list[(*count)++] = k;
    return cst_pool_load_members(context, pool, split, list, *count);
}

static cst_status check_label(cst_context *context, const cst_model *model, int64_t row,
                              int32_t label) {
    if (label >= 0 && label < model->classes)
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "the label %d of row %lld is no class: there are %d, numbered from 0",
                    (int)label, (long long)row, (int)model->classes);
}

/* rows [count] of the split as a view with an index. */
static cst_status pick(cst_context *context, cst_scope *made, const cst_model *model,
                       const cst_pool *pool, const char *split, const int64_t *rows,
                       const int32_t *labels, int64_t count, cst_adapt_rows *out) {
    int64_t all = out->view.rows;
    const int64_t *groups = cst_pool_groups(pool, split);
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, taken, all);
    CST_NEW(context, made, int64_t, index, count);
    CST_NEW(context, made, int32_t, own_labels, labels ? all : 0);
    CST_NEW(context, made, int64_t, own_groups, groups ? count : 0);
    for (int64_t i = 0; i < count; i++) {
        int64_t row = rows[i];
        if (row < 0 || row >= all)
            return cst_fail(context, CST_ERROR_INPUT,
                            "row %lld is not in split '%s', which has %lld rows, numbered from 0",
                            (long long)row, split, (long long)all);
        if (taken[row])
            return cst_fail(context, CST_ERROR_INPUT, "row %lld of split '%s' is named twice",
                            (long long)row, split);
        if (labels)
            CST_TRY(check_label(context, model, row, labels[i]));
        taken[row] = true;
        index[i] = row;
        if (labels)
            own_labels[row] = labels[i];
        if (groups)
            own_groups[i] = groups[row];
    }
    out->view.rows = count;
    out->view.index = index;
    out->view.weights = NULL; /* rows that were named count alike */
    out->groups = groups ? own_groups : NULL;
    if (labels)
        out->view.labels = own_labels;
    return CST_OK;
}

CST_RELEASED(cst_counted, cst_counted_close)

cst_status cst_adapt_rows_open(cst_context *context, cst_scope *scope, const cst_model *model,
                               cst_pool *pool, const char *split, const int64_t *rows,
                               const int32_t *labels, int64_t count, bool labelled,
                               cst_adapt_rows *out) {
    *out = (cst_adapt_rows){0};
    cst_view view = {0};
    const float **pointers;
    int32_t members = 0;
    CST_TRY(check(context, model, pool, split));
    /* Compares classes, and refuses where a member is not there. */
    CST_TRY(cst_model_view(context, scope, model, pool, split, &view));
    CST_TRY(find_members(context, scope, model, pool, split, &out->position, &members));
    if (labelled && !rows) {
        cst_counted *counted;
        CST_TAKE(context, scope, counted, 1);
        CST_OWN(context, scope, cst_counted, counted);
        CST_TRY(cst_counted_open(context, pool, split, out->position, members, counted));
        out->view = counted->view;
        out->groups = counted->groups;
        out->rows = counted->rows;
    } else {
        CST_TAKE(context, scope, pointers, members);
        CST_TRY(cst_pool_view_members(context, pool, split, out->position, members, pointers,
                                      &out->view));
        if (rows)
            CST_TRY(pick(context, scope, model, pool, split, rows, labels, count, out));
    }
    if (labelled && !out->view.labels)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s' has no labels, which an adaptation learns from", split);
    return CST_OK;
}

/* ---- logarithms, as prediction computes them ---- */

typedef struct table_job {
    const cst_view *view;
    const cst_adapt_table *table;
    const float *stack; /* [rows][classes] */
} table_job;

/* One column of some rows. z: [count * classes]. */
static void put_column(const cst_adapt_table *table, int32_t column, int64_t first, int64_t count,
                       const float *p, double mix, double *z) {
    int64_t cells = count * table->classes;
    float *to = table->x + (size_t)first * (size_t)table->classes * (size_t)table->columns;
    memset(z, 0, (size_t)cells * sizeof *z);
    cst_add_mixed_logs(p, cells, mix, table->classes, 1, z);
    for (int64_t e = 0; e < cells; e++)
        to[e * table->columns + column] = (float)z[e];
}

static cst_status fill_block(cst_context *worker, void *user, int64_t block) {
    const table_job *job = user;
    const cst_adapt_table *table = job->table;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(table->rows, block);
    size_t cells = (size_t)count * (size_t)table->classes;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, double, z, cells);
    CST_NEW(worker, scope, float, scratch, cells);
    put_column(table, 0, first, count, job->stack + first * table->classes, CST_ADAPTED_STACK_MIX,
               z);
    for (int32_t k = 0; k < job->view->members; k++) {
        const float *rows = NULL;
        CST_TRY(cst_view_rows(worker, job->view, k, first, count, scratch, &rows));
        put_column(table, k + 1, first, count, rows, CST_ADAPT_MIX, z);
    }
    return CST_OK;
}

cst_status cst_adapt_table_make(cst_context *context, cst_scope *made, const cst_model *model,
                                const cst_view *view, cst_adapt_table *out) {
    size_t cells = 0;
    *out = (cst_adapt_table){
        .rows = view->rows, .classes = view->classes, .columns = view->members + 1};
    if (!cst_size_mul((size_t)view->rows, (size_t)view->classes, &cells) ||
        !cst_size_mul(cells, (size_t)out->columns, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%lld rows of %d classes are too many",
                        (long long)view->rows, (int)view->classes);
    cst_view kept = *view;
    kept.members = model->members;
    CST_SCOPE(scope);
    CST_TAKE(context, made, out->x, cells);
    CST_TAKE(context, made, out->labels, view->rows);
    CST_TAKE(context, made, out->weights, view->rows);
    CST_NEW(context, scope, float, stack, view->rows * view->classes);
    CST_TRY(cst_stack_predict(context, model, &kept, stack));
    for (int64_t i = 0; i < view->rows; i++) {
        out->labels[i] = view->labels ? cst_view_label(view, i) : 0;
        out->weights[i] = cst_view_weight(view, i);
    }
    table_job job = {view, out, stack};
    return cst_parallel_for(context, cst_block_count(view->rows), fill_block, &job);
}
