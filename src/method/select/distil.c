/* The choice of members from a view's rows; selection by distillation: members leave while a
 * log-linear pool of the rest can say what all of them say. docs/method.md. */
#include "method/select/within.h"
#include "stats/statistics.h"

#include <math.h>
#include <string.h>

typedef struct distil_job {
    const cst_logtable *table;
    const float *targets; /* [rows of the view][classes] */
    double *tilt;         /* [rows][members] */
    const cst_path *path;
    double *losses; /* [members][rows] */
} distil_job;

/* Of each row, by its weight: scores of the label less the mean of scores under the target. Sums
 * for [members + classes]. */
static cst_status tilt_block(cst_context *context, const void *user, int64_t from, int64_t end,
                             double *sum) {
    const distil_job *job = user;
    const cst_logtable *table = job->table;
    size_t members = (size_t)table->members;
    size_t classes = (size_t)table->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, share, classes + CST_COMPACT_PAD);
    CST_NEW(context, scope, double, logs, classes + CST_COMPACT_PAD);
    for (int64_t i = from; i < end; i++) {
        cst_logrow r = cst_logrow_at(table, i);
        const int32_t *class = r.block->classes ? r.block->classes + r.from : NULL;
        const float *offset = r.block->offset ? r.block->offset + r.from : NULL;
        const float *target = job->targets + (size_t)table->position[i] * classes;
        double weight = cst_logtable_weight(table, i, r.class);
        double total = 0;
        for (int64_t e = 0; e < r.count; e++) {
            int64_t c = class ? class[e] : e;
            share[e] = c < 0 ? 0 : (double)target[c] * (offset ? exp((double)offset[e]) : 1);
            total += share[e];
        }
        for (int64_t e = 0; e < r.count; e++)
            share[e] *= weight / total;
        for (size_t k = 0; k < members; k++) {
            const float *p = r.block->p + cst_logrow_of(table, &r, (int32_t)k);
            cst_pass_logs(p, r.count, table->mix[k], table->classes, logs);
            double tilt = weight * logs[r.label] - cst_pass_dot(share, logs, r.count);
            job->tilt[(size_t)i * members + k] = tilt;
            sum[k] += tilt;
        }
        sum[members + (size_t)r.class] += weight;
        for (int64_t e = 0; e < r.count; e++)
            if (share[e] > 0)
                sum[members + (size_t)(class ? class[e] : e)] -= share[e];
    }
    return CST_OK;
}

CST_OWNED(cst_path)
CST_OWNED(cst_logtable)

/* Sums over the rows of the loss at each size and of the products of the losses at two sizes, the
 * larger one first. */
static cst_status moment_block(cst_context *context, const void *user, int64_t from, int64_t end,
                               double *sum) {
    const distil_job *job = user;
    const cst_path *path = job->path;
    int64_t rows = job->table->rows;
    int32_t members = path->members;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, loss, members);
    for (int64_t i = from; i < end; i++) {
        const double *tilt = job->tilt + i * members;
        for (int32_t s = 0; s < members; s++) {
            loss[s] = job->losses[s * rows + i];
            for (int32_t j = 0; j <= s; j++)
                loss[s] += path->weights[s][j] * tilt[path->set[s][j]];
            sum[s] += loss[s];
        }
        for (int32_t s = 0; s < members; s++)
            for (int32_t t = 0; t <= s; t++)
                sum[members + s * members + t] += loss[s] * loss[t];
    }
    return CST_OK;
}

/* ---- what members cost ---- */

/* Powers of the members' costs; the first path alone where these are not known. */
static const double POWERS[] = {0, 0.5, 1};
enum { PATHS = sizeof POWERS / sizeof POWERS[0] };

/* The first cost that is known of every member, if they cost something. */
static const double *known_cost(const cst_select_options *options, int32_t members, double *sum) {
    *sum = 0;
    for (int c = 0; c < CST_COST_COUNT; c++) {
        if (!cst_cost_known(&options->costs, (cst_cost)c, members))
            continue;
        const double *cost = options->costs.of[c];
        for (int32_t k = 0; k < members; k++)
            *sum += cost[k];
        return *sum > 0 ? cost : NULL;
    }
    return NULL;
}

int cst_distil_paths(const cst_select_options *options, int32_t members) {
    double sum = 0;
    return known_cost(options, members, &sum) ? PATHS : 1;
}

void cst_distil_worth(const cst_select_options *options, int32_t members, int path, double *worth) {
    double sum = 0;
    const double *cost = known_cost(options, members, &sum);
    for (int32_t k = 0; k < members; k++)
        worth[k] = cost ? pow(fmax(cost[k] * members / sum, 1e-6), POWERS[path]) : 1;
}

/* Shares of the chosen set in all members and in what these cost. */
static double price_of(const cst_select_options *options, const cst_selection *selection) {
    const cst_select_step *step = &selection->path[selection->chosen];
    double sum = 0;
    double kept = 0;
    const double *cost = known_cost(options, selection->members, &sum);
    for (int32_t j = 0; cost && j < step->size; j++)
        kept += cost[step->members[j]] / sum;
    return (double)step->size / (double)selection->members + kept;
}

/* Whether larger sets are not allowed: the choice may then be far from the tolerance. */
static bool is_capped(const cst_selection *selection) {
    int32_t next = selection->chosen + 1;
    return next < selection->members && !selection->path[next].allowed;
}

void cst_distil_keep(cst_context *context, const cst_select_options *options, cst_selection *found,
                     cst_selection *out) {
    bool capped = is_capped(found);
    bool dearer = out->path && price_of(options, found) >= price_of(options, out);
    if (out->path && (capped || is_capped(out)))
        dearer = capped && (!is_capped(out) ||
                            found->path[found->chosen].loss >= out->path[out->chosen].loss);
    if (dearer)
        return;
    cst_selection_free(context, out);
    *out = *found;
    *found = (cst_selection){0};
}

/* ---- paths ---- */

/* The path on which a rise of the loss counts less the more a member costs, and its choice. */
static cst_status follow(cst_context *context, distil_job job, const cst_select_options *options,
                         const double *start, cst_selection *out) {
    const cst_logtable *table = job.table;
    size_t members = (size_t)table->members;
    size_t rows = (size_t)table->rows;
    size_t width = members + members * members;
    cst_path path = {0};
    double mean = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, total, width);
    CST_OWN(context, scope, cst_path, &path);
    job.path = &path;
    CST_TRY(cst_path_backward(context, table, options, start, &path));
    for (size_t s = 0; s < members; s++)
        CST_TRY(cst_loglinear_loss(context, table, path.set[s], (int32_t)s + 1, path.weights[s],
                                   NULL, &mean, job.losses + s * rows));
    CST_TRY(cst_logtable_sum(context, table, 1, width, 0, moment_block, &job, total, NULL));
    for (size_t s = 0; s < members; s++)
        for (size_t t = 0; t < s; t++)
            total[members + t * members + s] = total[members + s * members + t];
    CST_TRY(cst_selection_finish(context, options, total, table->rows, path.set, out));
    for (size_t s = 0; s < members; s++) /* no pool of the path was fitted to the labels */
        out->path[s].against_all =
            cst_paired_mean(job.losses + s * rows, job.losses + (members - 1) * rows, table->rows,
                            &out->path[s].against_all_se);
    return CST_OK;
}

/* A path of pools fitted to the targets, and its choice. */
static cst_status distil(cst_context *context, const cst_logtable *table,
                         const cst_select_options *options, cst_selection *out) {
    size_t members = (size_t)table->members;
    size_t rows = (size_t)table->rows;
    cst_select_options soft = *options;
    distil_job job = {.table = table, .targets = options->targets};
    double *start = NULL;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, tilt, members + (size_t)table->classes);
    CST_NEW(context, scope, double, worth, members);
    CST_TAKE(context, scope, job.tilt, rows * members);
    CST_TAKE(context, scope, job.losses, rows * members);
    CST_TRY(cst_logtable_sum(context, table, 1, members + (size_t)table->classes, 0, tilt_block,
                             &job, tilt, NULL));
    for (size_t j = 0; j < members + (size_t)table->classes; j++)
        tilt[j] *= table->weight;
    soft.tilt = tilt;
    soft.worth = worth;
    CST_TRY(cst_path_start(context, scope, table, &soft, &start));
    for (int p = 0; p < cst_distil_paths(options, table->members); p++) {
        cst_selection found = {.members = table->members};
        cst_distil_worth(options, table->members, p, worth);
        cst_status status = follow(context, job, &soft, start, &found);
        if (status == CST_OK)
            cst_distil_keep(context, options, &found, out);
        cst_selection_free(context, &found);
        CST_TRY(status);
    }
    return CST_OK;
}

cst_status cst_select(cst_context *context, const cst_view *view, const int32_t *folds,
                      int32_t fold_count, const cst_select_options *options, cst_selection *out,
                      cst_front *front) {
    cst_logtable table = {0};
    *out = (cst_selection){.members = view->members};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_logtable, &table);
    CST_TRY(cst_logtable_open(context, view, folds, fold_count, &options->compact, &table));
    CST_TRY(cst_logtable_mix(context, &table));
    if (options->rule == CST_SELECT_DISTIL) {
        CST_TRY(distil(context, &table, options, out));
        if (front)
            CST_TRY(cst_front_make(context, NULL, fold_count, options, out, front));
    } else {
        CST_TRY(cst_select_by_folds(context, &table, folds, fold_count, options, out, front));
    }
    if (table.own && table.rows < view->rows)
        cst_notice(context,
                   "members were selected on %lld of %lld samples (select.max_rows); the selected "
                   "members were fitted on all samples",
                   (long long)table.rows, (long long)view->rows);
    return CST_OK;
}
