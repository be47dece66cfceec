/*
 * Nested evaluation. See the header.
 */
#include "pipeline/nested.h"

#include "pool/folds.h"

#include <string.h>

cst_status cst_fold_rows_make(cst_context *context, const cst_training *source, int32_t fold,
                              uint64_t seed, cst_fold_rows *out) {
    *out = (cst_fold_rows){.fold = fold, .inside = *source};
    out->inside.folds = NULL; /* tags and costs are the members', not the rows' */
    out->index = cst_alloc(context, (size_t)source->view.rows, sizeof *out->index);
    if (!out->index)
        return CST_ERROR_MEMORY;
    cst_view_split(&source->view, source->folds, fold, out->index, &out->inside.view, &out->held);
    return cst_folds_inside(context, &out->inside.view, source->folds, source->view.rows,
                            source->fold_count, fold, seed, &out->inside.folds,
                            &out->inside.fold_count);
}

void cst_fold_rows_free(cst_context *context, cst_fold_rows *rows) {
    cst_free(context, rows->inside.folds);
    cst_free(context, rows->index);
    *rows = (cst_fold_rows){0};
}

typedef struct nested_job {
    const cst_training *source;
    uint64_t seed;
    cst_fold_fn fn;
    void *user;
} nested_job;

static cst_status nested_task(cst_context *worker, void *user, int64_t task) {
    const nested_job *job = user;
    cst_fold_rows rows;
    cst_status status = cst_fold_rows_make(worker, job->source, (int32_t)task, job->seed, &rows);
    CST_TRY(job->fn(worker, job->user, &rows));
    cst_fold_rows_free(worker, &rows);
    return status;
}

cst_status cst_nested_run(cst_context *context, const cst_training *source, uint64_t seed,
                          cst_fold_fn fn, void *user) {
    nested_job job = {source, seed, fn, user};
    return cst_parallel_long(context, source->fold_count, nested_task, &job);
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
