/* Methods of the caller's own in comparisons: what they are given, and what is made of what they
 * return. docs/baselines.md. */
#include "fit/added.h"

#include "core/context.h"
#include "model/kernels.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const double SUM_TOLERANCE = 1e-3;

struct cst_added {
    cst_method_ops ops;
    struct cst_added *next;
};

const cst_method_ops *cst_added_at(const cst_context *context, size_t index) {
    const struct cst_added *one = (context->root ? context->root : context)->added;
    for (; one && index > 0; index--)
        one = one->next;
    return one ? &one->ops : NULL;
}

const cst_method_ops *cst_added_find(const cst_context *context, const char *name) {
    const cst_method_ops *ops = NULL;
    size_t length = strcspn(name, "+");
    for (size_t i = 0; (ops = cst_added_at(context, i)); i++)
        if (strlen(ops->name) == length && strncmp(ops->name, name, length) == 0)
            return ops;
    return NULL;
}

cst_status cst_added_keep(cst_context *context, const cst_method_ops *ops) {
    cst_context *root = cst_context_root(context);
    struct cst_added **end = &root->added;
    CST_NEW(root, &root->added_scope, struct cst_added, one, 1);
    one->ops = *ops;
    one->ops.name = cst_take_text(root, &root->added_scope, ops->name);
    one->ops.definition = cst_take_text(root, &root->added_scope,
                                        ops->definition ? ops->definition : "a method of your own");
    if (!one->ops.name || !one->ops.definition)
        return CST_ERROR_MEMORY;
    while (*end)
        end = &(*end)->next;
    *end = one;
    return CST_OK;
}

cst_status cst_added_refuse_model(cst_context *context, const cst_method_ops *ops) {
    return cst_fail(context, CST_ERROR_UNSUPPORTED,
                    "method '%s' is your own, and a model cannot hold its functions; compare and "
                    "sweep score it",
                    ops->name);
}

/* ---- rows ---- */

typedef struct gather_job {
    const cst_view *view;
    bool fit;
    float *predictions;
    int32_t *labels;
    double *targets;
    double *weights;
} gather_job;

static void gather_member(const gather_job *job, const cst_rows *rows, int32_t k) {
    size_t classes = (size_t)job->view->classes;
    size_t members = (size_t)job->view->members;
    const uint8_t *present = cst_view_present(job->view, k);
    for (int64_t i = 0; i < rows->count; i++) {
        float *to = job->predictions + ((size_t)(rows->first + i) * members + (size_t)k) * classes;
        bool there = rows->data && cst_view_is_there(job->view, present, rows->first + i);
        for (size_t c = 0; c < classes; c++)
            to[c] = there ? cst_rows_at(rows, i)[c] : NAN;
    }
}

static cst_status gather_block(cst_context *context, void *user, int64_t block) {
    const gather_job *job = user;
    const cst_view *view = job->view;
    size_t classes = (size_t)view->classes;
    cst_rows rows;
    CST_SCOPE(scope);
    CST_TRY(cst_rows_open(context, scope, view, block, &rows));
    for (int32_t k = 0; k < view->members; k++) {
        rows.data = NULL;
        if (view->data[k])
            CST_TRY(cst_rows_read(context, &rows, k));
        gather_member(job, &rows, k);
    }
    for (int64_t i = rows.first; job->fit && i < rows.first + rows.count; i++) {
        if (job->labels)
            job->labels[i] = cst_view_label(view, i);
        if (job->targets)
            memcpy(job->targets + (size_t)i * classes, cst_view_target(view, i),
                   classes * sizeof *job->targets);
        if (job->weights)
            job->weights[i] = cst_view_weight(view, i);
    }
    return CST_OK;
}

/* Rows of a view together, with labels or targets and weights of a fit. */
static cst_status gather(cst_context *context, cst_scope *scope, const cst_view *given, bool fit,
                         uint64_t seed, cst_method_rows *out) {
    cst_view view = cst_view_even(given);
    gather_job job = {.view = &view, .fit = fit};
    size_t cells = 0;
    if (cst_context_ranks(context) > 1)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "methods of your own are not supported on several processes; run one");
    if (!cst_size_mul((size_t)view.rows, (size_t)view.members, &cells) ||
        !cst_size_mul(cells, (size_t)view.classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "too many predictions");
    CST_TAKE(context, scope, job.predictions, cells);
    if (fit && view.labels)
        CST_TAKE(context, scope, job.labels, view.rows);
    if (fit && view.targets)
        CST_TAKE(context, scope, job.targets, (size_t)view.rows * (size_t)view.classes);
    if (fit && view.weights)
        CST_TAKE(context, scope, job.weights, view.rows);
    *out = (cst_method_rows){.predictions = job.predictions,
                             .rows = view.rows,
                             .members = view.members,
                             .columns = view.classes,
                             .labels = job.labels,
                             .targets = job.targets,
                             .weights = job.weights,
                             .seed = seed};
    return cst_parallel_for(context, cst_block_count(view.rows), gather_block, &job);
}

/* ---- calls ---- */

static cst_status told(cst_context *context, const cst_method_ops *ops, const char *function,
                       cst_status status) {
    return status == CST_OK ? CST_OK
                            : cst_fail(context, status, "method '%s': its function %s failed: %s",
                                       ops->name, function, cst_status_text(status));
}

cst_status cst_added_fit_run(cst_context *context, const cst_method_ops *ops, const cst_view *view,
                             uint64_t seed, cst_added_fit *out) {
    cst_method_rows rows;
    CST_SCOPE(scope);
    CST_TRY(gather(context, scope, view, true, seed, &rows));
    cst_run *run = cst_calling_begin(context);
    cst_status status = ops->fit(ops->user, &rows, &out->fitted);
    cst_calling_end(context, run);
    if (status == CST_OK) /* else there is nothing to free */
        out->ops = ops;
    return told(context, ops, "fit", status);
}

static cst_status check_row(cst_context *context, const cst_method_ops *ops, const cst_view *view,
                            int64_t i, const float *row) {
    cst_row_check found = cst_check_row(row, view->classes);
    if (view->targets && !isfinite(found.sum))
        return cst_fail(context, CST_ERROR_INPUT,
                        "method '%s': predict gave no finite value for row %" PRId64, ops->name, i);
    if (!view->targets && (found.beyond || !(fabs(found.sum - 1) <= SUM_TOLERANCE)))
        return cst_fail(context, CST_ERROR_INPUT,
                        "method '%s': predict gave no probabilities for row %" PRId64
                        " (their sum is %g); return one for each class, with a sum of 1",
                        ops->name, i, found.sum);
    return CST_OK;
}

cst_status cst_added_predict(cst_context *context, const cst_added_fit *fit, const cst_view *view,
                             float *out) {
    const cst_method_ops *ops = fit->ops;
    cst_method_rows rows;
    CST_SCOPE(scope);
    CST_TRY(gather(context, scope, view, false, 0, &rows));
    cst_run *run = cst_calling_begin(context);
    cst_status status = ops->predict(ops->user, fit->fitted, &rows, out);
    cst_calling_end(context, run);
    CST_TRY(told(context, ops, "predict", status));
    for (int64_t i = 0; i < view->rows; i++)
        CST_TRY(check_row(context, ops, view, i, out + i * view->classes));
    return CST_OK;
}

void cst_added_fit_free(cst_context *context, cst_added_fit *fit) {
    (void)context;
    if (fit->ops && fit->ops->free)
        fit->ops->free(fit->ops->user, fit->fitted);
    *fit = (cst_added_fit){0};
}

CST_OWNED(cst_added_fit)

typedef struct nested_job {
    const cst_method_ops *ops;
    const cst_training *source;
    uint64_t seed;
    float *out;
} nested_job;

static cst_status nested_task(cst_context *context, void *user, const cst_fold_rows *rows) {
    const nested_job *job = user;
    size_t classes = (size_t)rows->held.classes;
    cst_added_fit fit = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, part, (size_t)rows->held.rows *classes);
    CST_OWN(context, scope, cst_added_fit, &fit);
    CST_TRY(cst_added_fit_run(context, job->ops, &rows->inside.view, job->seed, &fit));
    CST_TRY(cst_added_predict(context, &fit, &rows->held, part));
    cst_fold_scatter(job->source->folds, job->source->view.rows, rows->fold, classes, part,
                     job->out);
    return CST_OK;
}

cst_status cst_added_nested(cst_context *context, const cst_method_ops *ops,
                            const cst_training *source, uint64_t seed, float *out) {
    nested_job job = {ops, source, seed, out};
    const cst_fold_result held = {out, (size_t)source->view.classes};
    return cst_nested_run(context, source, seed, nested_task, &job, &held, 1);
}
