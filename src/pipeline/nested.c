/*
 * Nested evaluation. See the header.
 */
#include "pipeline/nested.h"

#include "base/number.h"
#include "base/ranks.h"
#include "io/checkpoint.h"
#include "learners/compact.h"
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

/* ---- all folds ---- */

typedef struct nested_job {
    const cst_training *source;
    uint64_t seed;
    cst_fold_fn fn;
    void *user;
    const cst_fold_result *results;
    int32_t count;
    uint64_t of;   /* what the results of the folds depend on besides the pool and the options */
    int32_t *left; /* folds to compute */
    bool by_ranks; /* one fold per rank: a fold is kept when all ranks have its results */
} nested_job;

/* A fold's rows of the results. */
typedef struct fold_part {
    const nested_job *job;
    int32_t fold;
} fold_part;

static void pack_fold(cst_pack *pack, void *object) {
    const fold_part *part = object;
    const cst_training *source = part->job->source;
    for (int32_t r = 0; r < part->job->count; r++) {
        const cst_fold_result *result = &part->job->results[r];
        for (int64_t i = 0; i < source->view.rows; i++)
            if (source->folds[i] == part->fold)
                cst_pack_raw(pack, result->rows + (size_t)i * result->width,
                             result->width * sizeof *result->rows);
    }
}

static cst_checkpoint_part part_of(fold_part *part, char *name, size_t room) {
    (void)cst_snprintf(name, room, "rows of fold %d", (int)part->fold);
    return (cst_checkpoint_part){
        .name = name, .of = part->job->of, .pack = pack_fold, .object = part};
}

static void keep_fold(cst_context *worker, const nested_job *job, int32_t fold, double start) {
    char name[32];
    fold_part folded = {job, fold};
    cst_checkpoint_part part = part_of(&folded, name, sizeof name);
    part.start = start;
    cst_checkpoint_keep(worker, &part);
    size_t before = cst_checkpoint_enter(worker, "fold %d", (int)fold);
    cst_checkpoint_inside_done(worker);
    cst_checkpoint_leave(worker, before);
}

static cst_status nested_task(cst_context *worker, void *user, int64_t task) {
    const nested_job *job = user;
    int32_t fold = job->left[task];
    double start = cst_seconds();
    cst_fold_rows rows;
    size_t before = cst_checkpoint_enter(worker, "fold %d", (int)fold);
    cst_status status = cst_fold_rows_make(worker, job->source, fold, job->seed, &rows);
    CST_TRY(job->fn(worker, job->user, &rows));
    cst_fold_rows_free(worker, &rows);
    cst_checkpoint_leave(worker, before);
    if (status == CST_OK && job->count > 0 && !job->by_ranks)
        keep_fold(worker, job, fold, start);
    return status;
}

/* Fills in the results of folds that were kept; *left is the number of the others. */
static cst_status take_folds(cst_context *context, nested_job *job, int64_t *left) {
    const cst_training *source = job->source;
    const int64_t shape[] = {source->view.rows, source->view.members, source->view.classes,
                             source->fold_count, (int64_t)job->seed};
    cst_status status = CST_OK;
    *left = 0;
    if (cst_checkpoint_on(context))
        job->of = cst_checkpoint_of(cst_checkpoint_of(0, shape, sizeof shape), source->folds,
                                    (size_t)source->view.rows * sizeof *source->folds);
    for (int32_t f = 0; status == CST_OK && f < source->fold_count; f++) {
        char name[32];
        fold_part folded = {job, f};
        cst_checkpoint_part part = part_of(&folded, name, sizeof name);
        if (job->count > 0)
            status = cst_checkpoint_take(context, &part);
        if (!part.taken)
            job->left[(*left)++] = f;
    }
    return status;
}

/* ---- one fold per rank ---- */

/* Whether to fit one fold per rank: if passes over the rows are not worth dividing, or in a
 * regression, which does not divide them. Each rank then needs all rows of the table. */
static bool folds_by_ranks(const cst_context *context, const nested_job *job, int64_t left) {
    const cst_view *view = &job->source->view;
    const cst_compact *table = cst_compact_of(view);
    double numbers = (double)view->rows * (double)view->members * (double)view->classes;
    bool whole = !table || table->last - table->first == cst_block_count(table->rows);
    return cst_ranks_share(context) && left > 1 && job->count > 0 && whole &&
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
    int64_t *bounds = cst_alloc(context, (size_t)ranks + 1, sizeof *bounds);
    float *all = cst_alloc_counted(context, (size_t)rows * width, sizeof *all);
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
    status = cst_ranks_fill_parts(context, status, all, width * sizeof *all, bounds);
    part = all;
    for (int32_t r = 0; status == CST_OK && r < job->count; r++) {
        cst_fold_scatter(source->folds, source->view.rows, fold, job->results[r].width, part,
                         job->results[r].rows);
        part += (size_t)rows * job->results[r].width;
    }
    cst_free(context, all);
    cst_free(context, bounds);
    return status;
}

/* Runs as many folds at a time as there are ranks. */
static cst_status run_by_ranks(cst_context *context, nested_job *job, int64_t left) {
    int ranks = cst_context_ranks(context);
    int rank = cst_context_rank(context);
    cst_status status = cst_stage(context, "nested evaluation, one fold per rank");
    job->by_ranks = true;
    for (int64_t at = 0; status == CST_OK && at < left; at += ranks) {
        int64_t wave = left - at < ranks ? left - at : ranks;
        double start = cst_seconds();
        cst_mute(context, true);
        cst_ranks_alone(context, true);
        if (rank < wave)
            status = nested_task(context, job, at + rank);
        cst_ranks_alone(context, false);
        cst_mute(context, false);
        status = share_fold(context, status, job, job->left[at], 0);
        for (int r = 1; status == CST_OK && r < wave; r++)
            status = share_fold(context, status, job, job->left[at + r], r);
        for (int r = 0; status == CST_OK && r < wave; r++)
            keep_fold(context, job, job->left[at + r], start);
    }
    return status;
}

cst_status cst_nested_run(cst_context *context, const cst_training *source, uint64_t seed,
                          cst_fold_fn fn, void *user, const cst_fold_result *results,
                          int32_t count) {
    int64_t left = 0;
    nested_job job = {
        .source = source, .seed = seed, .fn = fn, .user = user, .results = results, .count = count};
    size_t before = cst_checkpoint_enter(context, "nested");
    job.left = cst_alloc(context, (size_t)source->fold_count, sizeof *job.left);
    cst_status status = job.left ? take_folds(context, &job, &left) : CST_ERROR_MEMORY;
    CST_TRY(folds_by_ranks(context, &job, left)
                ? run_by_ranks(context, &job, left)
                : cst_parallel_long(context, left, nested_task, &job));
    cst_free(context, job.left);
    cst_checkpoint_leave(context, before);
    return status;
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
