/*
 * Held-out loss of every size on the path, and the choice of one. Every fold builds its own path
 * (and its own log table), so the losses are honest; the members at a size are those of the path on
 * all rows.
 */
#include "select/select.h"

#include "select/path.h"

#include <math.h>
#include <string.h>

/* Standard errors added to an excess before it is called small. */
static const double CONFIDENCE = 3;

typedef struct fold_job {
    const cst_logtable *table; /* every row that is looked at */
    const int32_t *folds;
    int32_t fold_count;
    const cst_select_options *options;
    double *moments; /* [fold_count][K + K*K]: sums and cross sums of the losses by size, held-out
                        rows */
    cst_path *whole; /* the path on all rows */
} fold_job;

/* For each size the better of the forward and the backward set by training loss; consumes both. */
static cst_status merge_paths(cst_context *context, const cst_logtable *table, cst_path *backward,
                              cst_path *forward) {
    for (int32_t s = 0; s < table->members; s++) {
        double loss[2];
        cst_path *paths[2] = {backward, forward};
        for (int p = 0; p < 2; p++) {
            cst_status status = cst_loglinear_loss(context, table, paths[p]->set[s], s + 1,
                                                   paths[p]->weights[s], NULL, &loss[p], NULL);
            if (status != CST_OK)
                return status;
        }
        if (loss[1] < loss[0]) {
            memcpy(backward->set[s], forward->set[s], ((size_t)s + 1) * sizeof **backward->set);
            memcpy(backward->weights[s], forward->weights[s],
                   ((size_t)s + 1) * sizeof **backward->weights);
        }
    }
    return CST_OK;
}

/* Within limits on cost: a path that members leave, or where there are more than a search looks at,
 * one that they join as long as they are within; then what a search finds. */
static cst_status build_within(cst_context *context, const cst_logtable *table,
                               const cst_select_options *options, cst_path *out) {
    cst_set_search search = {0};
    cst_status status = table->members > CST_SEARCH_MEMBERS
                            ? cst_path_forward(context, table, options, out)
                            : cst_path_backward(context, table, options, out);
    if (status != CST_OK)
        return status;
    status = cst_path_within(context, table, options, out, &search);
    cst_set_search_free(context, &search);
    if (status != CST_OK)
        cst_path_free(context, out);
    return status;
}

static cst_status build_path(cst_context *context, const cst_logtable *table,
                             const cst_select_options *options, cst_path *out) {
    if (cst_limited(&options->limits))
        return build_within(context, table, options, out);
    if (options->direction == CST_SELECT_FORWARD)
        return cst_path_forward(context, table, options, out);
    cst_status status = cst_path_backward(context, table, options, out);
    if (status != CST_OK || options->direction == CST_SELECT_BACKWARD)
        return status;
    cst_path forward = {0};
    status = cst_path_forward(context, table, options, &forward);
    CST_TRY(merge_paths(context, table, out, &forward));
    cst_path_free(context, &forward);
    if (status != CST_OK)
        cst_path_free(context, out);
    return status;
}

/* Sums over held-out rows of the loss at each size and of the products of losses at two sizes. */
static cst_status held_out(cst_context *context, const cst_logtable *table, const cst_path *path,
                           double *moments) {
    size_t members = (size_t)path->members;
    size_t rows = (size_t)table->rows;
    double *losses = cst_alloc(context, members * rows, sizeof *losses);
    cst_status status = losses ? CST_OK : CST_ERROR_MEMORY;
    for (size_t s = 0; status == CST_OK && s < members; s++) {
        double mean = 0;
        status = cst_loglinear_loss(context, table, path->set[s], (int32_t)s + 1, path->weights[s],
                                    NULL, &mean, losses + s * rows);
        moments[s] = mean * (double)rows;
    }
    for (size_t s = 0; status == CST_OK && s < members; s++)
        for (size_t t = 0; t <= s; t++) {
            double sum = 0;
            for (size_t i = 0; i < rows; i++)
                sum += losses[s * rows + i] * losses[t * rows + i];
            moments[members + s * members + t] = sum;
            moments[members + t * members + s] = sum;
        }
    cst_free(context, losses);
    return status;
}

/* Task f < fold_count: path without fold f, judged on fold f. The last task: the path on all rows.
 */
static cst_status fold_task(cst_context *context, void *user, int64_t task) {
    fold_job *job = user;
    size_t members = (size_t)job->table->members;
    if (task == job->fold_count)
        return build_path(context, job->table, job->options, job->whole);
    cst_logtable table = {0};
    cst_logtable held = {0};
    cst_path path = {0};
    cst_status status =
        cst_logtable_split(context, job->table, job->folds, (int32_t)task, &table, &held);
    CST_TRY(build_path(context, &table, job->options, &path));
    CST_TRY(held_out(context, &held, &path,
                     job->moments + (size_t)task * (members + members * members)));
    cst_path_free(context, &path);
    cst_logtable_free(context, &table);
    cst_logtable_free(context, &held);
    return status;
}

/* Paired standard error of the mean difference between sizes s and t. */
static double paired_se(const double *total, size_t members, size_t s, size_t t, double n) {
    const double *cross = total + members;
    double square = cross[s * members + s] + cross[t * members + t] - 2 * cross[s * members + t];
    double mean = (total[s] - total[t]) / n;
    return sqrt(fmax(square / n - mean * mean, 0) / n);
}

static void describe(const cst_select_options *o, const double *total, double n, int32_t **sets,
                     cst_selection *out) {
    size_t members = (size_t)out->members;
    for (size_t s = 1; s < members; s++)
        if (total[s] < total[out->best])
            out->best = (int32_t)s;
    size_t b = (size_t)out->best;
    for (size_t s = 0; s < members; s++) {
        cst_select_step *step = &out->path[s];
        step->size = (int32_t)s + 1;
        step->loss = total[s] / n;
        step->excess = (total[s] - total[b]) / n;
        step->excess_se = paired_se(total, members, s, b, n);
        step->against_all = (total[s] - total[members - 1]) / n;
        step->against_all_se = paired_se(total, members, s, members - 1, n);
        step->members = sets[s];
        sets[s] = NULL;
        for (int c = 0; c < CST_COST_COUNT; c++)
            step->cost[c] = cst_cost_of(&o->costs, o->limits.parallel, (cst_cost)c, step->members,
                                        step->size);
        step->allowed = (o->cap_count <= 0 || step->size <= o->cap_count) &&
                        cst_costs_within(&o->costs, &o->limits, step->members, step->size);
    }
}

/* How far a size is over what its rule allows; not positive: it qualifies. */
static double over_margin(const cst_select_options *options, const cst_selection *selection,
                          const cst_select_step *step) {
    switch (options->rule) {
    case CST_SELECT_ONE_SE:
        return step->excess - step->excess_se;
    case CST_SELECT_TOLERANCE:
        return step->excess - options->tolerance * selection->path[selection->best].loss;
    case CST_SELECT_NON_INFERIOR:
        return step->against_all + CONFIDENCE * step->against_all_se -
               options->tolerance * selection->path[selection->members - 1].loss;
    case CST_SELECT_BEST:
        break;
    }
    return step->excess;
}

/* Relative excess over the best allowed size for which nothing more is spent. */
static const double NEGLIGIBLE = 1e-3;

/* The least held-out loss within every cap. */
static double least_allowed(const cst_selection *selection) {
    double least = INFINITY;
    for (int32_t s = 0; s < selection->members; s++)
        if (selection->path[s].allowed)
            least = fmin(least, selection->path[s].loss);
    return least;
}

/* The smallest allowed size within a relative margin of the best allowed one. */
static int32_t smallest_near_best(const cst_selection *selection, double margin) {
    double least = least_allowed(selection);
    int32_t s = 0;
    while (!selection->path[s].allowed || selection->path[s].loss - least > margin * fabs(least))
        s++;
    return s;
}

/* The smallest allowed size within the margin. Where none is: the rule that asks for proof keeps
 * the largest allowed size, the others take the size that is least over. With limits on cost the
 * best allowed size has a say. */
static cst_status choose(cst_context *context, const cst_select_options *options,
                         cst_selection *out) {
    int32_t nearest = -1;
    int32_t largest = -1;
    double least = INFINITY;
    for (int32_t s = 0; s < out->members && least > 0; s++) {
        if (!out->path[s].allowed)
            continue;
        largest = s;
        double over = over_margin(options, out, &out->path[s]);
        if (over < least || nearest < 0) {
            least = over;
            nearest = s;
        }
    }
    if (nearest < 0)
        return cst_costs_too_dear(context, &options->costs, &options->limits,
                                  out->path[out->members - 1].members, out->members);
    bool proven = least <= 0 || options->rule != CST_SELECT_NON_INFERIOR;
    out->chosen = proven ? nearest : largest;
    if (options->rule == CST_SELECT_NON_INFERIOR && cst_limited(&options->limits)) {
        int32_t close = smallest_near_best(out, proven ? options->tolerance : NEGLIGIBLE);
        out->chosen = proven && close < nearest ? nearest : close;
    }
    return CST_OK;
}

cst_status cst_selection_finish(cst_context *context, const cst_select_options *options,
                                const double *total, int64_t rows, int32_t **sets,
                                cst_selection *out) {
    out->rows = rows;
    out->path = cst_alloc(context, (size_t)out->members, sizeof *out->path);
    if (!out->path)
        return CST_ERROR_MEMORY;
    describe(options, total, (double)rows, sets, out);
    return choose(context, options, out);
}

/* Losses of the sizes on the table's rows, and the choice. */
static cst_status run(cst_context *context, const cst_logtable *table, const int32_t *folds,
                      int32_t fold_count, const cst_select_options *options, cst_selection *out) {
    size_t members = (size_t)table->members;
    cst_path whole = {0};
    fold_job job = {.table = table,
                    .folds = folds,
                    .fold_count = fold_count,
                    .options = options,
                    .whole = &whole};
    size_t width = members + members * members;
    double *total = cst_alloc(context, width, sizeof *total);
    job.moments = cst_alloc(context, (size_t)fold_count * width, sizeof(double));
    cst_status status = job.moments && total ? CST_OK : CST_ERROR_MEMORY;
    CST_TRY(cst_parallel_for(context, (int64_t)fold_count + 1, fold_task, &job));
    for (int32_t f = 0; status == CST_OK && f < fold_count; f++)
        for (size_t j = 0; j < width; j++)
            total[j] += job.moments[(size_t)f * width + j];
    CST_TRY(cst_selection_finish(context, options, total, table->rows, whole.set, out));
    cst_path_free(context, &whole);
    cst_free(context, total);
    cst_free(context, job.moments);
    return status;
}

cst_status cst_select(cst_context *context, const cst_view *view, const int32_t *folds,
                      int32_t fold_count, const cst_select_options *options, cst_selection *out) {
    *out = (cst_selection){.members = view->members};
    cst_logtable table = {0};
    cst_status status =
        cst_logtable_open(context, view, folds, fold_count, &options->compact, &table);
    CST_TRY(cst_logtable_mix(context, &table));
    out->rows = table.rows;
    CST_TRY(run(context, &table, folds, fold_count, options, out));
    if (status == CST_OK && table.own && table.rows < view->rows)
        cst_notice(context,
                   "members were selected on %lld of %lld samples (select.max_rows); the selected "
                   "members were fitted on all samples",
                   (long long)table.rows, (long long)view->rows);
    cst_logtable_free(context, &table);
    if (status != CST_OK)
        cst_selection_free(context, out);
    return status;
}

void cst_selection_free(cst_context *context, cst_selection *selection) {
    for (int32_t s = 0; selection->path && s < selection->members; s++)
        cst_free(context, selection->path[s].members);
    cst_free(context, selection->path);
    *selection = (cst_selection){0};
}
