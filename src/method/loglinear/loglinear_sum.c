/*
 * Sums over the rows of a log table, by the blocks of its compact table, so that a rank needs only
 * the blocks that it has. Under the passes of stage S4 and of selection.
 * Section: "Laplace-Approximate Bayesian Blender" of the paper.
 */
#include "method/loglinear/loglinear.h"

#include "core/ranks.h"

typedef struct sum_job {
    const cst_logtable *table;
    int64_t together;
    cst_logtable_fn term;
    const void *user;
} sum_job;

/* The first of the table's rows that is at or behind a row of the compact table. */
static int64_t row_from(const cst_logtable *table, int64_t compact_row) {
    int64_t low = 0;
    int64_t high = table->rows;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (table->row[middle] < compact_row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static cst_status sum_task(cst_context *worker, void *user, int64_t task, double *sum) {
    const sum_job *job = user;
    int64_t rows = job->together * CST_BLOCK_ROWS;
    int64_t from = row_from(job->table, task * rows);
    int64_t end = row_from(job->table, (task + 1) * rows);
    return from < end ? job->term(worker, job->user, from, end, sum) : CST_OK;
}

/* The rows' results of every rank. */
static cst_status share_rows(cst_context *context, cst_status status, const cst_logtable *table,
                             double *per_row) {
    if (!per_row || !cst_ranks_share(context))
        return status;
    int ranks = cst_context_ranks(context);
    int64_t blocks = cst_block_count(table->compact->rows);
    int64_t *bounds = cst_alloc(context, (size_t)ranks + 1, sizeof *bounds);
    if (!bounds)
        return CST_ERROR_MEMORY;
    for (int r = 0; r <= ranks; r++)
        bounds[r] = row_from(table, cst_ranks_boundary(context, blocks, CST_COMPACT_GRAIN, r) *
                                        CST_BLOCK_ROWS);
    status = cst_ranks_fill_parts(context, status, per_row, sizeof *per_row, bounds);
    cst_free(context, bounds);
    return status;
}

cst_status cst_logtable_sum(cst_context *context, const cst_logtable *table, int64_t together,
                            size_t width, size_t square, cst_logtable_fn term, const void *user,
                            double *total, double *per_row) {
    const cst_compact *compact = table->compact;
    sum_job job = {.table = table, .together = together, .term = term, .user = user};
    int64_t blocks = cst_block_count(compact->rows);
    int64_t tasks = (blocks + together - 1) / together;
    bool whole = compact->last - compact->first == blocks;
    if (!cst_ranks_share(context) && !whole)
        return cst_fail(context, CST_ERROR_INTERNAL,
                        "a rank was asked for rows that another one has; please report this");
    if (whole) /* of every rank: nothing to send */
        cst_ranks_alone(context, true);
    cst_status status = cst_reduce_grained(context, tasks, CST_COMPACT_GRAIN / together, width,
                                           square, sum_task, &job, total);
    if (!whole)
        return share_rows(context, status, table, per_row);
    cst_ranks_alone(context, false);
    return status;
}
