/* Scaled members as a view. See the header. */
#include "fit/whole.h"

#include "core/ranks.h"

#include <string.h>

/* What one scaled member is computed from. */
typedef struct scaled_member {
    const cst_view *view;
    int32_t member;
    const cst_calibrator *map;
    double factor;
} scaled_member;

/* Scales rows in place. softmax(factor p) has the logarithm factor p but for a constant of the row.
 */
static cst_status scale_rows(cst_context *context, const scaled_member *from, int64_t rows,
                             float *p) {
    size_t classes = (size_t)from->view->classes;
    int64_t piece = rows < CST_BLOCK_ROWS ? rows : CST_BLOCK_ROWS;
    double by = from->factor > 0 ? from->factor : 1;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, wide, ((size_t)piece * classes));
    for (int64_t first = 0; first < rows; first += piece) {
        int64_t count = rows - first < piece ? rows - first : piece;
        size_t cells = (size_t)count * classes;
        float *at = p + (size_t)first * classes;
        for (size_t j = 0; j < cells; j++)
            wide[j] = by * (double)at[j];
        if (from->factor > 0)
            cst_softmax_rows(count, from->view->classes, wide);
        else
            cst_calibrator_rows(from->map, count, wide);
        for (size_t j = 0; j < cells; j++)
            at[j] = (float)wide[j];
    }
    return CST_OK;
}

static cst_status read_scaled(cst_context *context, const void *source, int64_t first,
                              int64_t count, float *out) {
    const scaled_member *from = source;
    size_t classes = (size_t)from->view->classes;
    for (int64_t at = 0; at < count; at += CST_BLOCK_ROWS) {
        int64_t part = count - at < CST_BLOCK_ROWS ? count - at : CST_BLOCK_ROWS;
        const float *rows = NULL;
        float *to = out + (size_t)at * classes;
        CST_TRY(cst_poll(context));
        CST_TRY(cst_view_rows(context, from->view, from->member, first + at, part, to, &rows));
        if (rows != to)
            memcpy(to, rows, (size_t)part * classes * sizeof *to);
    }
    return scale_rows(context, from, count, out);
}

/* What a member is read from is the scope's. */
static void close_scaled(cst_context *context, void *source) {
    (void)context;
    (void)source;
}

typedef struct scale_job {
    const cst_view *view;
    const cst_scaled_spec *scaling;
    cst_calibrator *maps;
    cst_store *store;
    double *numbers; /* [members][numbers_of]: of `maps`, for the other ranks; or NULL */
    int64_t first;   /* rows that are kept */
    int64_t end;
} scale_job;

static size_t numbers_of(const cst_view *view) {
    return 1 + 2 * (size_t)view->classes;
}

/* Fits a member's map on all rows. One process keeps these rows, scaled. */
static cst_status fit_member(cst_context *context, void *user, int64_t task) {
    const scale_job *job = user;
    const cst_view *view = job->view;
    const cst_scaled_spec *scaling = job->scaling;
    cst_store_entry *entry = &job->store->entries[task];
    size_t cells = (size_t)view->rows * (size_t)view->classes;
    float *copy = cst_alloc_counted(context, cells, sizeof *copy);
    cst_status status = copy ? cst_view_copy(context, view, (int32_t)task, copy) : CST_ERROR_MEMORY;
    if (scaling->factor <= 0)
        CST_THEN(cst_calibrator_fit_shrunk(context, scaling->kind, view, copy,
                                           scaling->near ? &scaling->near[task] : NULL,
                                           &job->maps[task]));
    if (status == CST_OK && job->numbers)
        cst_calibrator_pack(&job->maps[task], job->numbers + (size_t)task * numbers_of(view));
    if (status != CST_OK || job->numbers) {
        cst_free(context, copy);
        return status;
    }
    entry->kept = copy;
    entry->kept_end = view->rows;
    return scale_rows(context, entry->source, view->rows, copy);
}

static cst_status keep_member(cst_context *context, void *user, int64_t task) {
    const scale_job *job = user;
    return cst_store_keep(context, job->store, (int32_t)task, job->first, job->end);
}

/* Ranks take some of the members each, give each other the maps, and keep their own rows. */
static cst_status fit_among_ranks(cst_context *context, scale_job *job) {
    const cst_view *view = job->view;
    size_t each = numbers_of(view);
    CST_SCOPE(scope);
    if (job->scaling->factor <= 0) {
        CST_TAKE(context, scope, job->numbers, (size_t)view->members * each);
        const cst_share filled =
            cst_share_tasks(job->numbers, view->members, each * sizeof *job->numbers);
        CST_TRY(cst_parallel_fill(context, view->members, fit_member, job, &filled, 1));
    }
    for (int32_t k = 0; job->numbers && k < view->members; k++)
        if (job->maps[k].classes == 0) /* another rank's */
            CST_TRY(cst_calibrator_unpack(context, job->scaling->kind, view->classes,
                                          job->numbers + (size_t)k * each, &job->maps[k]));
    cst_store_near(context, view->rows, &job->first, &job->end);
    return cst_parallel_for(context, view->members, keep_member, job);
}

static cst_status take_members(cst_context *context, cst_scope *scope, const scale_job *job) {
    CST_NEW(context, scope, scaled_member, sources, job->view->members);
    for (int32_t k = 0; k < job->view->members; k++) {
        sources[k] = (scaled_member){.view = job->view,
                                     .member = k,
                                     .map = job->maps ? &job->maps[k] : NULL,
                                     .factor = job->scaling->factor};
        job->store->entries[k] =
            (cst_store_entry){.source = &sources[k], .read = read_scaled, .close = close_scaled};
    }
    return CST_OK;
}

cst_status cst_scaled_make(cst_context *context, const cst_view *view,
                           const cst_scaled_spec *scaling, cst_calibrator *maps, cst_scaled *out) {
    scale_job job = {.view = view, .scaling = scaling, .maps = maps};
    *out = (cst_scaled){0};
    cst_scope *scope = &out->scope;
    CST_TRY(cst_store_create(context, view->members, view->classes, &out->store));
    CST_NEW(context, scope, const float *, places, view->members);
    CST_NEW(context, scope, int32_t, labels, view->rows);
    CST_NEW(context, scope, double, weights, view->weights ? view->rows : 0);
    for (int64_t i = 0; i < view->rows; i++) {
        labels[i] = cst_view_label(view, i);
        if (view->weights)
            weights[i] = cst_view_weight(view, i);
    }
    for (int32_t k = 0; k < view->members; k++)
        places[k] = cst_store_place(out->store, k);
    job.store = out->store;
    CST_TRY(take_members(context, scope, &job));
    CST_TRY(cst_ranks_share(context) ? fit_among_ranks(context, &job)
                                     : cst_parallel_for(context, view->members, fit_member, &job));
    out->view = (cst_view){.rows = view->rows,
                           .classes = view->classes,
                           .members = view->members,
                           .data = places,
                           .labels = labels,
                           .weights = view->weights ? weights : NULL,
                           .weight_scale = 1,
                           .store = out->store};
    return CST_OK;
}

void cst_scaled_free(cst_context *context, cst_scaled *scaled) {
    cst_store_free(context, scaled->store);
    cst_scope_free(&scaled->scope);
    *scaled = (cst_scaled){0};
}
