/* Held-out loss of every size on the path of each fold, and the choice of a size. */
#include "method/select/select.h"

#include "method/select/within.h"

#include <math.h>
#include <string.h>

/* Standard errors added to an excess before it is called small. */
static const double CONFIDENCE = 3;

typedef struct fold_job {
    const cst_logtable *table; /* every row that is looked at */
    const int32_t *folds;
    int32_t fold_count;
    const cst_select_options *options;
    double *start;      /* [members]: weights of all members, fitted to all rows; NULL: none */
    cst_logtable *in;   /* [fold_count]: rows outside the fold */
    cst_logtable *held; /* [fold_count]: its rows */
    cst_path *path;     /* [fold_count + 1]: without each fold; on all rows */
    double *moments; /* [fold_count][K + K*K]: sums and cross sums of the losses by size, held-out
                        rows */
    cst_log_space *logs; /* [fold_count + 1], where costs are limited: the spaces of the folds, */
    cst_fold_space *spaces; /* and of all rows */
} fold_job;

CST_OWNED(cst_logtable)
CST_OWNED(cst_path)

/* For each size the better of the forward and the backward set by training loss; consumes both. */
static cst_status merge_paths(cst_context *context, const cst_logtable *table, cst_path *backward,
                              cst_path *forward) {
    for (int32_t s = 0; s < table->members; s++) {
        double loss[2];
        cst_path *paths[2] = {backward, forward};
        for (int p = 0; p < 2; p++)
            CST_TRY(cst_loglinear_loss(context, table, paths[p]->set[s], s + 1,
                                       paths[p]->weights[s], NULL, &loss[p], NULL));
        if (loss[1] < loss[0]) {
            memcpy(backward->set[s], forward->set[s], ((size_t)s + 1) * sizeof **backward->set);
            memcpy(backward->weights[s], forward->weights[s],
                   ((size_t)s + 1) * sizeof **backward->weights);
        }
    }
    return CST_OK;
}

/* With limits on cost a search follows the path; many members join while within. */
static bool only_forward(const cst_select_options *options, int32_t members) {
    return cst_limited(&options->limits) ? members > CST_SEARCH_MEMBERS
                                         : options->direction == CST_SELECT_FORWARD;
}

static cst_status build_path(cst_context *context, const cst_logtable *table,
                             const cst_select_options *options, const double *start,
                             cst_path *out) {
    if (only_forward(options, table->members))
        return cst_path_forward(context, table, options, out);
    CST_TRY(cst_path_backward(context, table, options, start, out));
    if (options->direction == CST_SELECT_BACKWARD || cst_limited(&options->limits))
        return CST_OK;
    cst_path forward = {0};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_path, &forward);
    CST_TRY(cst_path_forward(context, table, options, &forward));
    return merge_paths(context, table, out, &forward);
}

/* Sums over held-out rows of the loss at each size and of the products of losses at two sizes. */
static cst_status held_out(cst_context *context, const cst_logtable *table, const cst_path *path,
                           double *moments) {
    size_t members = (size_t)path->members;
    size_t rows = (size_t)table->rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, losses, (members * rows));
    for (size_t s = 0; s < members; s++) {
        double mean = 0;
        CST_TRY(cst_loglinear_loss(context, table, path->set[s], (int32_t)s + 1, path->weights[s],
                                   NULL, &mean, losses + s * rows));
        moments[s] = mean * (double)rows;
    }
    for (size_t s = 0; s < members; s++)
        for (size_t t = 0; t <= s; t++) {
            double sum = 0;
            for (size_t i = 0; i < rows; i++)
                sum += losses[s * rows + i] * losses[t * rows + i];
            moments[members + s * members + t] = sum;
            moments[members + t * members + s] = sum;
        }
    return CST_OK;
}

static double *moments_of(const fold_job *job, int64_t fold) {
    size_t members = (size_t)job->table->members;
    return job->moments + (size_t)fold * (members + members * members);
}

/* Task f < fold_count: path without fold f, judged on it; the last: all rows. */
static cst_status fold_task(cst_context *context, void *user, int64_t task) {
    const fold_job *job = user;
    cst_path *path = &job->path[task];
    if (task == job->fold_count)
        return build_path(context, job->table, job->options, job->start, path);
    cst_logtable *in = &job->in[task];
    cst_logtable *held = &job->held[task];
    CST_TRY(cst_logtable_split(context, job->table, job->folds, (int32_t)task, in, held));
    CST_TRY(build_path(context, in, job->options, job->start, path));
    if (job->spaces) /* judged when the search is done */
        return CST_OK;
    CST_TRY(held_out(context, held, path, moments_of(job, task)));
    cst_path_free(context, path);
    cst_logtable_free(context, in);
    cst_logtable_free(context, held);
    return CST_OK;
}

static cst_status judge_task(cst_context *context, void *user, int64_t fold) {
    const fold_job *job = user;
    return held_out(context, &job->held[fold], &job->path[fold], moments_of(job, fold));
}

/* Puts the sets that were chosen into the paths of all rows and of every fold. */
static void take_chosen(const fold_job *job, const int32_t *chosen, const cst_judged_sets *sets) {
    for (int32_t s = 0; s < job->table->members; s++)
        for (int32_t f = 0; chosen[s] >= 0 && f <= job->fold_count; f++) {
            const cst_judged_set *set = &sets->set[chosen[s]];
            size_t size = (size_t)set->count;
            memcpy(job->path[f].set[s], set->members, size * sizeof *set->members);
            if (f < job->fold_count)
                memcpy(job->path[f].weights[s], set->weights + (size_t)f * size,
                       size * sizeof *set->weights);
        }
}

static cst_status search_within(cst_context *context, fold_job *job) {
    int32_t count = job->fold_count + 1;
    CST_SCOPE(scope);
    cst_judged_sets sets = {.scope = scope};
    CST_NEW(context, scope, int32_t **, path, count);
    CST_NEW(context, scope, int32_t, chosen, job->table->members);
    for (int32_t f = 0; f < count; f++) {
        path[f] = job->path[f].set;
        job->logs[f] = (cst_log_space){job->table, NULL, job->options};
        if (f < job->fold_count)
            job->logs[f] = (cst_log_space){&job->in[f], &job->held[f], job->options};
        job->spaces[f] = cst_log_fold_space(&job->logs[f]);
    }
    CST_TRY(cst_search_within(context, job->spaces, job->fold_count, job->options, path, chosen,
                              &sets));
    take_chosen(job, chosen, &sets);
    return cst_parallel_turns(context, job->fold_count, judge_task, job);
}

/* Paired standard error of the mean difference between sizes s and t. */
static double paired_se(const double *total, size_t members, size_t s, size_t t, double n) {
    const double *cross = total + members;
    double square = cross[s * members + s] + cross[t * members + t] - 2 * cross[s * members + t];
    double mean = (total[s] - total[t]) / n;
    return sqrt(fmax(square / n - mean * mean, 0) / n);
}

static void describe(const cst_select_options *o, const double *total, double n,
                     int32_t *const *sets, cst_selection *out) {
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
        memcpy(step->members, sets[s], ((size_t)s + 1) * sizeof *step->members);
        for (int c = 0; c < CST_COST_COUNT; c++)
            step->cost[c] =
                cst_cost_of(&o->costs, o->limits.parallel, (cst_cost)c, step->members, step->size);
        step->allowed = (o->cap_count <= 0 || step->size <= o->cap_count) &&
                        cst_costs_within(&o->costs, &o->limits, step->members, step->size);
    }
}

/* Of so many rows distillation tolerates half as much: what all members say is then uncertain. */
static const double FEW_ROWS = 500;

/* How far a size is over what its rule allows; not positive: it qualifies. */
static double over_margin(const cst_select_options *options, const cst_selection *selection,
                          const cst_select_step *step) {
    switch (options->rule) {
    case CST_SELECT_ONE_SE:
        return step->excess - step->excess_se;
    case CST_SELECT_TOLERANCE:
        return step->excess - options->tolerance * selection->path[selection->best].loss;
    case CST_SELECT_DISTIL:
        return step->excess - options->tolerance * selection->path[selection->best].loss *
                                  (double)selection->rows / ((double)selection->rows + FEW_ROWS);
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

/* Allowed size up to `most` of least held-out loss; smaller ones count only for what they gain
 * with confidence, as the least of several is mostly luck. */
static int32_t least_up_to(const cst_selection *selection, const double *total, int32_t most) {
    int32_t least = most;
    double at_least = selection->path[most].loss;
    for (int32_t s = most - 1; s >= 0; s--) {
        const cst_select_step *step = &selection->path[s];
        double se = paired_se(total, (size_t)selection->members, (size_t)s, (size_t)most,
                              (double)selection->rows);
        if (!step->allowed || step->loss + CONFIDENCE * se > at_least)
            continue;
        at_least = step->loss + CONFIDENCE * se;
        least = s;
    }
    return least;
}

/* The smallest allowed size within the margin; else the largest allowed (the
 * rule that asks for proof) or that least over. Limits on cost add the best allowed size. Never a
 * size that a smaller one beats with confidence. */
static cst_status choose(cst_context *context, const cst_select_options *options,
                         const double *total, cst_selection *out) {
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
    out->chosen = least_up_to(out, total, out->chosen);
    return CST_OK;
}

cst_status cst_selection_finish(cst_context *context, const cst_select_options *options,
                                const double *total, int64_t rows, int32_t *const *sets,
                                cst_selection *out) {
    out->rows = rows;
    out->distilled = options->rule == CST_SELECT_DISTIL;
    CST_TAKE(context, &out->scope, out->path, out->members);
    for (int32_t s = 0; s < out->members; s++)
        CST_TAKE(context, &out->scope, out->path[s].members, s + 1);
    describe(options, total, (double)rows, sets, out);
    return choose(context, options, total, out);
}

cst_status cst_select_by_folds(cst_context *context, const cst_logtable *table,
                               const int32_t *folds, int32_t fold_count,
                               const cst_select_options *options, cst_selection *out,
                               cst_front *front) {
    fold_job job = {.table = table, .folds = folds, .fold_count = fold_count, .options = options};
    size_t members = (size_t)table->members;
    size_t width = members + members * members;
    bool limited = cst_limited(&options->limits);
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, total, width);
    CST_TAKE(context, scope, job.moments, (size_t)fold_count * width);
    CST_TAKE(context, scope, job.in, fold_count);
    CST_TAKE(context, scope, job.held, fold_count);
    CST_TAKE(context, scope, job.path, fold_count + 1);
    if (limited) {
        CST_TAKE(context, scope, job.logs, fold_count + 1);
        CST_TAKE(context, scope, job.spaces, fold_count + 1);
    }
    CST_OWN(context, scope, cst_path, &job.path[fold_count]);
    for (int32_t f = 0; f < fold_count; f++) {
        CST_OWN(context, scope, cst_logtable, &job.in[f]);
        CST_OWN(context, scope, cst_logtable, &job.held[f]);
        CST_OWN(context, scope, cst_path, &job.path[f]);
    }
    if (!only_forward(options, table->members))
        CST_TRY(cst_path_start(context, scope, table, options, &job.start));
    CST_TRY(cst_parallel_long(context, (int64_t)fold_count + 1, fold_task, &job));
    if (limited)
        CST_TRY(search_within(context, &job));
    for (int32_t f = 0; f < fold_count; f++)
        for (size_t j = 0; j < width; j++)
            total[j] += job.moments[(size_t)f * width + j];
    CST_TRY(
        cst_selection_finish(context, options, total, table->rows, job.path[fold_count].set, out));
    return front ? cst_front_make(context, job.spaces, fold_count, options, out, front) : CST_OK;
}

void cst_selection_free(cst_context *context, cst_selection *selection) {
    (void)context;
    cst_scope_free(&selection->scope);
    *selection = (cst_selection){0};
}

void cst_front_free(cst_context *context, cst_front *front) {
    (void)context;
    cst_scope_free(&front->scope);
    *front = (cst_front){0};
}
