/* Log tables: which rows of a compact table a fit reads, sums over them by the compact table's
 * blocks (so that a rank needs only those it has), and the mixing with the uniform distribution. */
#include "method/loglinear/loglinear.h"

#include "core/ranks.h"
#include "core/wide.h"

#include <math.h>
#include <string.h>

float cst_mixed_log(float probability, double mix, int32_t classes) {
    return (float)log((1 - mix) * (double)probability + mix / (double)classes);
}

/* ---- rows and columns of a compact table ---- */

void cst_logtable_free(cst_context *context, cst_logtable *table) {
    cst_logtable_unshare(context, table->own);
    cst_scope_free(&table->scope);
    *table = (cst_logtable){0};
}

CST_OWNED(cst_logtable)

static cst_status table_take(cst_context *context, int64_t rows, bool weighted,
                             cst_logtable *table) {
    CST_TAKE(context, &table->scope, table->mix, table->members);
    CST_TAKE(context, &table->scope, table->columns, table->members);
    CST_TAKE(context, &table->scope, table->row, rows);
    CST_TAKE(context, &table->scope, table->position, rows);
    if (weighted)
        CST_TAKE(context, &table->scope, table->row_weights, rows);
    return CST_OK;
}

/* Member by member of the view: which of the compact table's it is. False where one is missing. */
static bool find_columns(const cst_view *view, const cst_compact *compact, int32_t *columns) {
    for (int32_t k = 0; k < view->members; k++) {
        int32_t at = 0;
        while (at < compact->members && compact->data[at] != view->data[k])
            at++;
        if (at == compact->members)
            return false;
        columns[k] = at;
    }
    return true;
}

/* The rows of the view that the compact table has, both in ascending order of the split's rows.
 * False where the view's rows are not ascending, or where the table has not all of them, unless
 * they would be thinned all the same, and it has half of as many. */
static bool find_rows(const cst_view *view, const cst_compact *compact, int64_t max_rows,
                      cst_logtable *table) {
    int64_t at = 0;
    int64_t before = -1;
    table->rows = 0;
    for (int64_t i = 0; i < view->rows; i++) {
        int64_t row = view->index ? view->index[i] : i;
        if (row <= before)
            return false;
        before = row;
        while (at < compact->rows && compact->split_row[at] < row)
            at++;
        if (at == compact->rows || compact->split_row[at] != row)
            continue;
        table->row[table->rows] = at;
        table->position[table->rows++] = i;
    }
    bool thinned = max_rows > 0 && max_rows < view->rows;
    return table->rows == view->rows || (thinned && table->rows >= max_rows / 2);
}

/* Keeps of the rows found about max_rows. */
static cst_status thin(cst_context *context, const int32_t *folds, int32_t fold_count,
                       int64_t max_rows, cst_logtable *table) {
    if (max_rows <= 0 || table->rows <= max_rows)
        return CST_OK;
    CST_SCOPE(scope);
    int64_t *chosen = NULL;
    int64_t count = 0;
    CST_NEW(context, scope, int32_t, part, table->rows);
    for (int64_t i = 0; folds && i < table->rows; i++)
        part[i] = folds[table->position[i]];
    CST_TRY(cst_thin_rows(context, table->rows, part, folds ? fold_count : 1, max_rows, &chosen,
                          &count));
    CST_TRY(cst_scope_own(context, scope, cst_free, chosen));
    for (int64_t i = 0; i < count; i++) {
        table->row[i] = table->row[chosen[i]];
        table->position[i] = table->position[chosen[i]];
    }
    table->rows = count;
    return CST_OK;
}

/* A compact table of the view's own, of the rows that are wanted. */
static cst_status build_own(cst_context *context, const cst_view *view, const int32_t *folds,
                            int32_t fold_count, const cst_compact_options *options,
                            cst_logtable *table) {
    CST_SCOPE(scope);
    int64_t *chosen = NULL;
    CST_TRY(cst_thin_rows(context, view->rows, folds, fold_count, options->max_rows, &chosen,
                          &table->rows));
    CST_TRY(cst_scope_own(context, scope, cst_free, chosen));
    table->own = cst_alloc(context, 1, sizeof *table->own);
    if (!table->own)
        return CST_ERROR_MEMORY;
    CST_TRY(cst_compact_build(context, view, chosen, table->rows, options->cut, table->own));
    table->compact = table->own;
    for (int64_t i = 0; i < table->rows; i++) {
        table->row[i] = i;
        table->position[i] = chosen[i];
    }
    for (int32_t k = 0; k < view->members; k++)
        table->columns[k] = k;
    return CST_OK;
}

cst_status cst_logtable_open(cst_context *context, const cst_view *view, const int32_t *folds,
                             int32_t fold_count, const cst_compact_options *options,
                             cst_logtable *out) {
    const cst_compact_options defaults = cst_compact_defaults();
    options = options ? options : &defaults;
    *out = (cst_logtable){.classes = view->classes,
                          .members = view->members,
                          .share = options->share,
                          .class_weights = options->class_weights};
    CST_TRY(table_take(context, view->rows, view->weights, out));
    const cst_compact *attached = cst_compact_of(view);
    if (attached && attached->cut == options->cut && find_columns(view, attached, out->columns) &&
        find_rows(view, attached, options->max_rows, out)) {
        out->compact = attached;
        CST_TRY(thin(context, folds, fold_count, options->max_rows, out));
    } else {
        CST_TRY(build_own(context, view, folds, fold_count, options, out));
    }
    for (int64_t i = 0; view->weights && i < out->rows; i++)
        out->row_weights[i] = cst_view_weight(view, out->position[i]);
    out->weight = out->rows > 0 ? (double)view->rows / (double)out->rows : 1;
    return CST_OK;
}

/* The rows of the fold, or those outside it. */
static cst_status take_rows(cst_context *context, const cst_logtable *whole, const int32_t *folds,
                            int32_t fold, bool inside, cst_logtable *out) {
    *out = *whole; /* but the arrays */
    out->scope = (cst_scope){0};
    out->own = NULL;
    out->rows = 0;
    CST_TRY(table_take(context, whole->rows, whole->row_weights, out));
    memcpy(out->columns, whole->columns, (size_t)whole->members * sizeof *out->columns);
    for (int64_t i = 0; i < whole->rows; i++) {
        if ((folds[whole->position[i]] == fold) != inside)
            continue;
        if (whole->row_weights)
            out->row_weights[out->rows] = whole->row_weights[i];
        out->row[out->rows] = whole->row[i];
        out->position[out->rows++] = whole->position[i];
    }
    return CST_OK;
}

/* Fits the mixing of a table, also for the other. */
static cst_status mix_both(cst_context *context, cst_logtable *table, cst_logtable *held) {
    CST_TRY(cst_logtable_mix(context, table));
    memcpy(held->mix, table->mix, (size_t)held->members * sizeof *held->mix);
    return CST_OK;
}

cst_status cst_logtable_split(cst_context *context, const cst_logtable *whole, const int32_t *folds,
                              int32_t fold, cst_logtable *in, cst_logtable *held) {
    *held = (cst_logtable){0};
    CST_TRY(take_rows(context, whole, folds, fold, false, in));
    CST_TRY(take_rows(context, whole, folds, fold, true, held));
    return mix_both(context, in, held);
}

cst_status cst_logtable_pair(cst_context *context, const cst_view *fit, const cst_view *judge,
                             cst_logtable *table, cst_logtable *held) {
    *held = (cst_logtable){0};
    CST_TRY(cst_logtable_open(context, fit, NULL, 1, NULL, table));
    CST_TRY(cst_logtable_open(context, judge, NULL, 1, NULL, held));
    return mix_both(context, table, held);
}

/* ---- sums ---- */

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
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, bounds, ranks + 1);
    for (int r = 0; r <= ranks; r++)
        bounds[r] = row_from(table, cst_ranks_boundary(context, blocks, CST_COMPACT_GRAIN, r) *
                                        CST_BLOCK_ROWS);
    const cst_share share = {per_row, sizeof *per_row, (size_t)bounds[ranks] * sizeof *per_row,
                             bounds};
    return cst_ranks_fill(context, status, 0, &share, 1);
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

/* ---- mixing with the uniform distribution ---- */

static const double MIX_GRID[] = {1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1};
enum { MIX_COUNT = sizeof MIX_GRID / sizeof MIX_GRID[0] };

/* Adds the losses of labels' probabilities p [count] of one member, mixed each way, to sum
 * [MIX_COUNT]. weight: [count], how much each counts, or NULL. logs: [count]. */
static void mix_losses(const double *p, int64_t count, int32_t classes, const double *weight,
                       double *logs, double *sum) {
    for (int g = 0; g < MIX_COUNT; g++) {
        for (int64_t i = 0; i < count; i++)
            logs[i] = (1 - MIX_GRID[g]) * p[i] + MIX_GRID[g] / (double)classes;
        cst_log_f64(count, logs, logs);
        for (int64_t i = 0; i < count; i++)
            sum[g] -= weight ? weight[i] * logs[i] : logs[i];
    }
}

static void best_mix(const double *loss, int32_t members, double *mix) {
    for (int32_t k = 0; k < members; k++) {
        int best = 0;
        for (int g = 1; g < MIX_COUNT; g++)
            if (loss[k * MIX_COUNT + g] < loss[k * MIX_COUNT + best])
                best = g;
        mix[k] = MIX_GRID[best];
    }
}

static cst_status table_mix_block(cst_context *worker, const void *user, int64_t first, int64_t end,
                                  double *sum) {
    (void)worker;
    const cst_logtable *table = user;
    int64_t count = end - first;
    double p[CST_BLOCK_ROWS];
    double logs[CST_BLOCK_ROWS];
    double weight[CST_BLOCK_ROWS];
    bool weighted = cst_logtable_weighted(table);
    for (int64_t i = 0; weighted && i < count; i++)
        weight[i] = cst_logtable_weight(table, first + i, cst_logrow_at(table, first + i).class);
    for (int32_t k = 0; k < table->members; k++) {
        for (int64_t i = 0; i < count; i++) {
            cst_logrow r = cst_logrow_at(table, first + i);
            p[i] = (double)r.block->p[cst_logrow_of(table, &r, k) + r.label];
        }
        mix_losses(p, count, table->classes, weighted ? weight : NULL, logs,
                   sum + (size_t)k * MIX_COUNT);
    }
    return CST_OK;
}

cst_status cst_logtable_mix(cst_context *context, cst_logtable *table) {
    size_t width = (size_t)table->members * MIX_COUNT;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, loss, width);
    for (int32_t k = 0; k < table->members; k++)
        table->mix[k] = table->share;
    if (table->share <= 0) {
        CST_TRY(cst_logtable_sum(context, table, 1, width, 0, table_mix_block, table, loss, NULL));
        best_mix(loss, table->members, table->mix);
    }
    return table->own ? cst_compact_logs(context, table->mix, table->own) : CST_OK;
}

cst_status cst_logtable_share(cst_context *context, const cst_view *view, const int32_t *folds,
                              int32_t fold_count, const cst_compact_options *options,
                              cst_compact **out) {
    cst_logtable table = {0};
    cst_view fresh = *view;
    fresh.attached = NULL;
    *out = NULL;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_logtable, &table);
    CST_TRY(cst_logtable_open(context, &fresh, folds, fold_count, options, &table));
    CST_TRY(cst_logtable_mix(context, &table));
    *out = table.own;
    table.own = NULL;
    return CST_OK;
}

void cst_logtable_unshare(cst_context *context, cst_compact *shared) {
    if (shared)
        cst_compact_free(context, shared);
    cst_free(context, shared);
}
