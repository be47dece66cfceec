/* The front of held-out loss against cost: a ladder of limits, and what is best at its cost of the
 * sets found. */
#include "method/select/front.h"

#include "method/select/path.h"

#include <math.h>
#include <string.h>

void cst_front_free(cst_context *context, cst_front *front) {
    (void)context;
    cst_scope_free(&front->scope);
    *front = (cst_front){0};
}

static bool same(const cst_judged_set *set, const int32_t *members, int32_t count) {
    return set->count == count &&
           memcmp(set->members, members, (size_t)count * sizeof *members) == 0;
}

/* Adds a point with a copy of its members and its costs; points stay sorted by loss. */
static cst_status put_point(cst_context *context, const cst_select_options *options,
                            cst_front_point point, cst_front *out) {
    const int32_t *members = point.members;
    CST_TAKE(context, &out->scope, point.members, point.size);
    memcpy(point.members, members, (size_t)point.size * sizeof *members);
    int32_t at = out->count++;
    for (int c = 0; c < CST_COST_COUNT; c++)
        point.cost[c] = cst_cost_of(&options->costs, options->limits.parallel, (cst_cost)c,
                                    point.members, point.size);
    for (; at > 0 && out->point[at - 1].loss > point.loss; at--)
        out->point[at] = out->point[at - 1];
    out->point[at] = point;
    return CST_OK;
}

/* Keeps the points that no other beats in loss and in some cost. Points have ascending losses. */
static void keep_best(const cst_select_options *options, int32_t members, cst_front *front) {
    for (int c = 0; c < CST_COST_COUNT; c++) {
        double least = INFINITY;
        bool known = cst_cost_known(&options->costs, (cst_cost)c, members);
        for (int32_t i = 0; known && i < front->count; i++) {
            cst_front_point *p = &front->point[i];
            p->best[c] = p->cost[c] < least;
            least = fmin(least, p->cost[c]);
        }
    }
    int32_t kept = 0;
    for (int32_t i = 0; i < front->count; i++) {
        cst_front_point *p = &front->point[i];
        bool best = p->chosen;
        for (int c = 0; c < CST_COST_COUNT; c++)
            best = best || p->best[c];
        if (best)
            front->point[kept++] = *p;
    }
    front->count = kept;
}

static cst_status front_of_sets(cst_context *context, const cst_select_options *options,
                                const int32_t *chosen, int32_t size, int32_t members, int64_t rows,
                                const cst_judged_sets *sets, cst_front *out) {
    CST_TAKE(context, &out->scope, out->point, sets->count);
    for (int32_t i = 0; i < sets->count; i++) {
        const cst_judged_set *set = &sets->set[i];
        CST_TRY(put_point(context, options,
                          (cst_front_point){.size = set->count,
                                            .members = set->members,
                                            .loss = set->loss / (double)rows,
                                            .chosen = same(set, chosen, size)},
                          out));
    }
    keep_best(options, members, out);
    return CST_OK;
}

cst_status cst_front_make(cst_context *context, const cst_fold_space *spaces, int32_t fold_count,
                          const cst_select_options *options, int32_t *const *path, int32_t chosen,
                          int64_t rows, cst_front *out) {
    cst_judged_sets sets = {0};
    *out = (cst_front){0};
    cst_status status = cst_search_front(context, spaces, fold_count, options, path, chosen, &sets);
    CST_THEN(front_of_sets(context, options, path[chosen], chosen + 1, spaces[0].sets.members, rows,
                           &sets, out));
    cst_scope_free(&sets.scope);
    if (status != CST_OK)
        cst_front_free(context, out);
    return status;
}

cst_status cst_front_of_path(cst_context *context, const cst_select_options *options,
                             const cst_selection *selection, cst_front *out) {
    int32_t members = selection->members;
    bool known = false;
    *out = (cst_front){0};
    for (int c = 0; c < CST_COST_COUNT; c++)
        known = known || cst_cost_known(&options->costs, (cst_cost)c, members);
    if (!known)
        return CST_OK;
    cst_status status = CST_OK;
    out->point = cst_take(context, &out->scope, (size_t)members, sizeof *out->point);
    if (!out->point)
        return CST_ERROR_MEMORY;
    for (int32_t i = 0; status == CST_OK && i < members; i++) {
        const cst_select_step *step = &selection->path[i];
        status = put_point(context, options,
                           (cst_front_point){.size = step->size,
                                             .members = step->members,
                                             .loss = step->loss,
                                             .chosen = i == selection->chosen},
                           out);
    }
    if (status == CST_OK)
        keep_best(options, members, out);
    else
        cst_front_free(context, out);
    return status;
}

/* ---- of a log-linear pool ---- */

typedef struct splits {
    const cst_logtable *table;
    const int32_t *folds;
    cst_logtable *in;   /* [folds] */
    cst_logtable *held; /* [folds] */
} splits;

static cst_status split_task(cst_context *context, void *user, int64_t fold) {
    const splits *s = user;
    return cst_logtable_split(context, s->table, s->folds, (int32_t)fold, &s->in[fold],
                              &s->held[fold]);
}

static cst_status front_of_table(cst_context *context, const cst_logtable *table,
                                 const int32_t *folds, int32_t fold_count,
                                 const cst_select_options *options, const cst_selection *selection,
                                 cst_front *out) {
    size_t count = (size_t)fold_count;
    splits s = {.table = table, .folds = folds};
    s.in = cst_alloc(context, count, sizeof *s.in);
    s.held = cst_alloc(context, count, sizeof *s.held);
    cst_log_space *logs = cst_alloc(context, count + 1, sizeof *logs);
    cst_fold_space *spaces = cst_alloc(context, count + 1, sizeof *spaces);
    int32_t **path = cst_alloc(context, (size_t)table->members, sizeof *path);
    cst_status status = s.in && s.held && logs && spaces && path ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cst_parallel_turns(context, fold_count, split_task, &s));
    if (status == CST_OK) {
        for (size_t f = 0; f <= count; f++) {
            logs[f] = (cst_log_space){.table = f < count ? &s.in[f] : table,
                                      .held = f < count ? &s.held[f] : NULL,
                                      .options = options};
            spaces[f] = cst_log_fold_space(&logs[f]);
        }
        for (int32_t k = 0; k < table->members; k++)
            path[k] = selection->path[k].members;
        status = cst_front_make(context, spaces, fold_count, options, path, selection->chosen,
                                table->rows, out);
    }
    for (size_t f = 0; f < count; f++) {
        if (s.in)
            cst_logtable_free(context, &s.in[f]);
        if (s.held)
            cst_logtable_free(context, &s.held[f]);
    }
    cst_free(context, s.in);
    cst_free(context, s.held);
    cst_free(context, logs);
    cst_free(context, spaces);
    cst_free(context, path);
    return status;
}

cst_status cst_select_front(cst_context *context, const cst_view *view, const int32_t *folds,
                            int32_t fold_count, const cst_select_options *options,
                            const cst_selection *selection, cst_front *out) {
    cst_logtable table = {0};
    *out = (cst_front){0};
    if (!cst_limited(&options->limits))
        return cst_front_of_path(context, options, selection, out);
    cst_status status =
        cst_logtable_open(context, view, folds, fold_count, &options->compact, &table);
    CST_THEN(cst_logtable_mix(context, &table));
    CST_THEN(front_of_table(context, &table, folds, fold_count, options, selection, out));
    cst_logtable_free(context, &table);
    return status;
}
