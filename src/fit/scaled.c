/* Scaled members as a view. See the header. */
#include "fit/scaled.h"

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
    double *wide = cst_alloc(context, (size_t)piece * classes, sizeof *wide);
    if (!wide)
        return CST_ERROR_MEMORY;
    for (int64_t first = 0; first < rows; first += piece) {
        int64_t count = rows - first < piece ? rows - first : piece;
        size_t cells = (size_t)count * classes;
        float *at = p + (size_t)first * classes;
        double by = from->factor > 0 ? from->factor : 1;
        for (size_t j = 0; j < cells; j++)
            wide[j] = by * (double)at[j];
        if (from->factor > 0)
            cst_softmax_rows(count, from->view->classes, wide);
        else
            cst_calibrator_rows(from->map, count, wide);
        for (size_t j = 0; j < cells; j++)
            at[j] = (float)wide[j];
    }
    cst_free(context, wide);
    return CST_OK;
}

static cst_status read_scaled(cst_context *context, const void *source, int64_t first,
                              int64_t count, float *out) {
    const scaled_member *from = source;
    size_t classes = (size_t)from->view->classes;
    cst_status status = CST_OK;
    for (int64_t at = 0; status == CST_OK && at < count; at += CST_BLOCK_ROWS) {
        int64_t part = count - at < CST_BLOCK_ROWS ? count - at : CST_BLOCK_ROWS;
        const float *rows = NULL;
        float *to = out + (size_t)at * classes;
        status = cst_poll(context);
        CST_THEN(cst_view_rows(context, from->view, from->member, first + at, part, to, &rows));
        if (status == CST_OK && rows != to)
            memcpy(to, rows, (size_t)part * classes * sizeof *to);
    }
    return status == CST_OK ? scale_rows(context, from, count, out) : status;
}

static void close_scaled(cst_context *context, void *source) {
    cst_free(context, source);
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
    size_t members = (size_t)view->members;
    cst_status status = CST_OK;
    if (job->scaling->factor <= 0) {
        job->numbers = cst_alloc(context, members * numbers_of(view), sizeof *job->numbers);
        status = job->numbers ? CST_OK : CST_ERROR_MEMORY;
        const cst_share filled =
            cst_share_tasks(job->numbers, view->members, numbers_of(view) * sizeof *job->numbers);
        CST_THEN(cst_parallel_fill(context, view->members, fit_member, job, &filled, 1));
    }
    for (int32_t k = 0; status == CST_OK && job->numbers && k < view->members; k++)
        if (job->maps[k].classes == 0) /* another rank's */
            status =
                cst_calibrator_unpack(context, job->scaling->kind, view->classes,
                                      job->numbers + (size_t)k * numbers_of(view), &job->maps[k]);
    cst_free(context, job->numbers);
    job->numbers = NULL;
    cst_store_near(context, view->rows, &job->first, &job->end);
    return status == CST_OK ? cst_parallel_for(context, view->members, keep_member, job) : status;
}

static cst_status take_members(cst_context *context, const scale_job *job) {
    for (int32_t k = 0; k < job->view->members; k++) {
        scaled_member *source = cst_alloc(context, 1, sizeof *source);
        if (!source)
            return CST_ERROR_MEMORY;
        *source = (scaled_member){.view = job->view,
                                  .member = k,
                                  .map = job->maps ? &job->maps[k] : NULL,
                                  .factor = job->scaling->factor};
        job->store->entries[k] =
            (cst_store_entry){.source = source, .read = read_scaled, .close = close_scaled};
    }
    return CST_OK;
}

cst_status cst_scaled_make(cst_context *context, const cst_view *view,
                           const cst_scaled_spec *scaling, cst_calibrator *maps, cst_scaled *out) {
    size_t rows = (size_t)view->rows;
    scale_job job = {.view = view, .scaling = scaling, .maps = maps};
    *out = (cst_scaled){0};
    cst_status status = cst_store_create(context, view->members, view->classes, &out->store);
    out->places = cst_alloc(context, (size_t)view->members, sizeof *out->places);
    out->labels = cst_alloc(context, rows, sizeof *out->labels);
    out->weights = cst_alloc(context, view->weights ? rows : 0, sizeof *out->weights);
    if (status == CST_OK && (!out->places || !out->labels || !out->weights))
        status = CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && i < view->rows; i++) {
        out->labels[i] = cst_view_label(view, i);
        if (view->weights)
            out->weights[i] = cst_view_weight(view, i);
    }
    for (int32_t k = 0; status == CST_OK && k < view->members; k++)
        out->places[k] = cst_store_place(out->store, k);
    job.store = out->store;
    CST_THEN(take_members(context, &job));
    CST_THEN(cst_ranks_share(context) ? fit_among_ranks(context, &job)
                                      : cst_parallel_for(context, view->members, fit_member, &job));
    out->view = (cst_view){.rows = view->rows,
                           .classes = view->classes,
                           .members = view->members,
                           .data = out->places,
                           .labels = out->labels,
                           .weights = view->weights ? out->weights : NULL,
                           .weight_scale = 1,
                           .store = out->store};
    return status;
}

void cst_scaled_free(cst_context *context, cst_scaled *scaled) {
    cst_store_free(context, scaled->store);
    cst_free(context, scaled->places);
    cst_free(context, scaled->labels);
    cst_free(context, scaled->weights);
    *scaled = (cst_scaled){0};
}
