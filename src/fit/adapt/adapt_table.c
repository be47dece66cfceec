/* Logarithms of labelled rows, as prediction computes them. See the header. */
#include "fit/adapt/adapt_table.h"
#include "model/kernels.h"

#include <string.h>

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
    double *z;
    CST_TAKE(worker, scope, z, cells);
    float *scratch;
    CST_TAKE(worker, scope, scratch, cells);
    put_column(table, 0, first, count, job->stack + first * table->classes, CST_ADAPTED_STACK_MIX,
               z);
    for (int32_t k = 0; k < job->view->members; k++) {
        const float *rows = NULL;
        CST_TRY(cst_view_rows(worker, job->view, k, first, count, scratch, &rows));
        put_column(table, k + 1, first, count, rows, CST_ADAPT_MIX, z);
    }
    return CST_OK;
}

cst_status cst_adapt_table_make(cst_context *context, const cst_model *model, const cst_view *view,
                                cst_adapt_table *out) {
    size_t rows = (size_t)view->rows;
    size_t cells = 0;
    *out = (cst_adapt_table){
        .rows = view->rows, .classes = view->classes, .columns = view->members + 1};
    if (!cst_size_mul(rows, (size_t)view->classes, &cells) ||
        !cst_size_mul(cells, (size_t)out->columns, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%lld rows of %d classes are too many",
                        (long long)view->rows, (int)view->classes);
    cst_view kept = *view;
    kept.members = model->members;
    out->x = cst_alloc(context, cells, sizeof *out->x);
    out->labels = cst_alloc(context, rows, sizeof *out->labels);
    out->weights = cst_alloc(context, rows, sizeof *out->weights);
    float *stack = cst_alloc(context, rows * (size_t)view->classes, sizeof *stack);
    cst_status status = out->x && out->labels && out->weights && stack ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_stack_predict(context, model, &kept, stack));
    for (int64_t i = 0; status == CST_OK && i < view->rows; i++) {
        out->labels[i] = view->labels ? cst_view_label(view, i) : 0;
        out->weights[i] = cst_view_weight(view, i);
    }
    table_job job = {view, out, stack};
    CST_THEN(cst_parallel_for(context, cst_block_count(view->rows), fill_block, &job));
    cst_free(context, stack);
    return status;
}

void cst_adapt_table_free(cst_context *context, cst_adapt_table *table) {
    cst_free(context, table->x);
    cst_free(context, table->labels);
    cst_free(context, table->weights);
    *table = (cst_adapt_table){0};
}
