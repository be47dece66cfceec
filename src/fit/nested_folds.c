/* Nested evaluation. See the header. */
#include "fit/training.h"

#include "core/ranks.h"
#include "data/pool/pool.h"
#include "method/loglinear/loglinear.h"

#include <string.h>

/* The same of folds in time: the rows before the fold, cut into as many blocks again. */
static cst_status rows_before(cst_context *context, cst_scope *scope, const cst_training *source,
                              int32_t fold, cst_fold_rows *out) {
    const cst_view *view = &source->view;
    cst_training *inside = &out->inside;
    int64_t start = 0; /* rows before the fold */
    int64_t count = 0;
    int64_t held = view->rows;
    CST_NEW(context, scope, int64_t, index, view->rows);
    CST_TAKE(context, scope, inside->time, view->rows);
    CST_TAKE(context, scope, inside->folds, view->rows);
    for (int64_t i = 0; i < view->rows; i++)
        if (source->folds[i] < fold && source->time[i] > start)
            start = source->time[i];
    for (int64_t i = 0; i < view->rows; i++)
        if (source->folds[i] < fold && source->time[i] + source->gap <= start) {
            inside->time[count] = source->time[i];
            index[count++] = view->index ? view->index[i] : i;
        }
    for (int64_t i = view->rows - 1; i >= 0; i--)
        if (source->folds[i] == fold)
            index[--held] = view->index ? view->index[i] : i;
    inside->view.index = index;
    inside->view.rows = count;
    out->held = *view;
    out->held.index = index + held;
    out->held.rows = view->rows - held;
    if (count > 0)
        CST_TRY(cst_time_blocks(context, inside->time, count, source->fold_count, inside->folds,
                                NULL, &inside->fold_count));
    return count > 0 && inside->fold_count > 1
               ? CST_OK
               : cst_fail(context, CST_ERROR_INPUT,
                          "fold %d has fewer than two times before it to fit on: give a smaller "
                          "folds.gap or folds.count",
                          (int)fold);
}

cst_status cst_fold_rows_make(cst_context *context, cst_scope *scope, const cst_training *source,
                              int32_t fold, uint64_t seed, cst_fold_rows *out) {
    *out = (cst_fold_rows){.fold = fold, .inside = *source};
    out->inside.folds = NULL; /* tags and costs are the members', not the rows' */
    if (source->time)
        return rows_before(context, scope, source, fold, out);
    CST_NEW(context, scope, int64_t, index, source->view.rows);
    cst_view_split(&source->view, source->folds, fold, index, &out->inside.view, &out->held);
    CST_TRY(cst_folds_inside(context, &out->inside.view, source->folds, source->view.rows,
                             source->fold_count, fold, seed, &out->inside.folds,
                             &out->inside.fold_count));
    return cst_scope_own(context, scope, cst_free, out->inside.folds);
}

cst_status cst_some_rows_take(cst_context *context, cst_scope *scope, const cst_view *view,
                              const int32_t *folds, const int64_t *position, int64_t count,
                              cst_some_rows *out) {
    CST_NEW(context, scope, int64_t, index, count);
    CST_NEW(context, scope, int32_t, own, count);
    for (int64_t i = 0; i < count; i++) {
        index[i] = view->index ? view->index[position[i]] : position[i];
        own[i] = folds[position[i]];
    }
    *out = (cst_some_rows){.view = *view, .folds = own, .position = position};
    out->view.rows = count;
    out->view.index = index;
    return CST_OK;
}

cst_status cst_some_rows_thin(cst_context *context, cst_scope *scope, const cst_some_rows *rows,
                              int64_t most, cst_some_rows *out) {
    const cst_some_rows all = *rows;
    int64_t *position = NULL;
    int64_t count = 0;
    *out = all;
    if (all.view.rows <= most)
        return CST_OK;
    CST_TRY(
        cst_thin_rows(context, all.view.rows, all.folds, all.fold_count, most, &position, &count));
    CST_TRY(cst_scope_own(context, scope, cst_free, position));
    CST_TRY(cst_some_rows_take(context, scope, &all.view, all.folds, position, count, out));
    out->fold_count = all.fold_count;
    return CST_OK;
}

/* ---- all folds ---- */

typedef struct nested_job {
    const cst_training *source;
    uint64_t seed;
    cst_fold_fn fn;
    void *user;
    const cst_fold_result *results;
    int32_t count;
} nested_job;

static cst_status nested_task(cst_context *worker, void *user, int64_t task) {
    const nested_job *job = user;
    cst_fold_rows rows;
    CST_SCOPE(scope);
    CST_TRY(cst_fold_rows_make(worker, scope, job->source,
                               (int32_t)task + cst_training_first(job->source), job->seed, &rows));
    return job->fn(worker, job->user, &rows);
}

/* ---- one fold per rank ---- */

/* Whether to fit one fold per rank: if passes over the rows are not worth dividing, or in a
 * regression, which does not divide them. Each rank then needs all rows of the table. */
static bool folds_by_ranks(const cst_context *context, const nested_job *job) {
    const cst_view *view = &job->source->view;
    const cst_compact *table = cst_compact_of(view);
    double numbers = (double)view->rows * (double)view->members * (double)view->classes;
    bool whole = !table || table->last - table->first == cst_block_count(table->rows);
    return cst_ranks_share(context) && job->source->fold_count > 1 && job->count > 0 && whole &&
           (view->targets || !cst_ranks_worth(context, numbers));
}

/* Gives every rank a fold's rows of the results, which `owner` has. */
static cst_status share_fold(cst_context *context, cst_status status, const nested_job *job,
                             int32_t fold, int owner) {
    const cst_training *source = job->source;
    int ranks = cst_context_ranks(context);
    int64_t rows = 0;
    size_t width = 0;
    for (int64_t i = 0; i < source->view.rows; i++)
        rows += source->folds[i] == fold;
    for (int32_t r = 0; r < job->count; r++)
        width += job->results[r].width;
    CST_SCOPE(scope);
    int64_t *bounds = cst_take(context, scope, (size_t)ranks + 1, sizeof *bounds);
    float *all = cst_take(context, scope, (size_t)rows * width, sizeof *all);
    if (status == CST_OK && (!bounds || !all))
        status = CST_ERROR_MEMORY;
    for (int r = 0; bounds && r <= ranks; r++)
        bounds[r] = r > owner ? rows : 0;
    float *part = all;
    for (int32_t r = 0; status == CST_OK && r < job->count; r++) {
        size_t bytes = job->results[r].width * sizeof *part;
        for (int64_t i = 0; cst_context_rank(context) == owner && i < source->view.rows; i++) {
            if (source->folds[i] != fold)
                continue;
            memcpy(part, job->results[r].rows + (size_t)i * job->results[r].width, bytes);
            part += job->results[r].width;
        }
    }
    const cst_share share = {all, width * sizeof *all, (size_t)rows * width * sizeof *all, bounds};
    status = cst_ranks_fill(context, status, 0, &share, 1);
    part = all;
    for (int32_t r = 0; status == CST_OK && r < job->count; r++) {
        cst_fold_scatter(source->folds, source->view.rows, fold, job->results[r].width, part,
                         job->results[r].rows);
        part += (size_t)rows * job->results[r].width;
    }
    return status;
}

/* Runs as many folds at a time as there are ranks. */
static cst_status run_by_ranks(cst_context *context, nested_job *job) {
    int32_t folds = job->source->fold_count;
    int ranks = cst_context_ranks(context);
    int rank = cst_context_rank(context);
    cst_stage_share(context, 0.95);
    cst_status status = cst_stage(context, "nested evaluation, one fold per rank");
    for (int32_t at = cst_training_first(job->source); status == CST_OK && at < folds;
         at += ranks) {
        int wave = folds - at < ranks ? folds - at : ranks;
        double end = cst_part_begin(context, (double)wave / (folds - at + 1));
        cst_mute(context, true);
        cst_ranks_alone(context, true);
        if (rank < wave)
            status = nested_task(context, job, at + rank - cst_training_first(job->source));
        cst_ranks_alone(context, false);
        cst_mute(context, false);
        cst_part_end(context, end);
        status = share_fold(context, status, job, at, 0);
        for (int r = 1; status == CST_OK && r < wave; r++)
            status = share_fold(context, status, job, at + r, r);
    }
    return status;
}

cst_status cst_nested_run(cst_context *context, const cst_training *source, uint64_t seed,
                          cst_fold_fn fn, void *user, const cst_fold_result *results,
                          int32_t count) {
    nested_job job = {
        .source = source, .seed = seed, .fn = fn, .user = user, .results = results, .count = count};
    if (folds_by_ranks(context, &job))
        return run_by_ranks(context, &job);
    cst_stage_share(context, 0.95);
    CST_TRY(cst_stage(context, "nested evaluation"));
    return cst_parallel_long(context, source->fold_count - cst_training_first(source), nested_task,
                             &job);
}

void cst_fold_scatter(const int32_t *folds, int64_t rows, int32_t fold, size_t width,
                      const float *from, float *to) {
    for (int64_t i = 0; i < rows; i++) {
        if (folds[i] != fold)
            continue;
        memcpy(to + (size_t)i * width, from, width * sizeof *from);
        from += width;
    }
}
