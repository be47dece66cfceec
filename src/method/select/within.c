/* Searches within limits without each fold, the held-out loss of their sets, and the front of loss
 * against cost, by a ladder of limits. */
#include "method/select/within.h"

#include <math.h>
#include <string.h>

static bool same(const cst_judged_set *set, const int32_t *members, int32_t count) {
    return set->count == count &&
           memcmp(set->members, members, (size_t)count * sizeof *members) == 0;
}

/* Adds a set with weights [blocks][count] to begin from; NULL: equal ones. */
static cst_status add(cst_context *context, cst_judged_sets *sets, const int32_t *members,
                      int32_t count, const double *weights) {
    for (int32_t i = 0; i < sets->count; i++)
        if (same(&sets->set[i], members, count))
            return CST_OK;
    if ((sets->count & (sets->count - 1)) == 0) { /* doubled at powers of two */
        CST_NEW(context, sets->scope, cst_judged_set, grown, (sets->count ? 2 * sets->count : 1));
        if (sets->count > 0)
            memcpy(grown, sets->set, (size_t)sets->count * sizeof *grown);
        sets->set = grown;
    }
    cst_judged_set set = {.count = count};
    int32_t cells = sets->blocks * count;
    CST_TAKE(context, sets->scope, set.members, count);
    CST_TAKE(context, sets->scope, set.weights, (sets->fold_count * cells));
    memcpy(set.members, members, (size_t)count * sizeof *members);
    for (int32_t i = 0; i < sets->fold_count * cells; i++)
        set.weights[i] = weights ? weights[i % cells] : 1.0 / count;
    sets->set[sets->count++] = set;
    return CST_OK;
}

static cst_status add_found(cst_context *context, cst_judged_sets *sets,
                            const cst_set_search *search, int32_t at) {
    int32_t members[CST_SEARCH_MEMBERS];
    const cst_found_set *found = &search->found[at];
    int32_t count = cst_set_search_members(search, found->mask, members);
    return add(context, sets, members, count, found->weights);
}

typedef struct judging {
    const cst_fold_space *spaces;
    cst_judged_sets *sets;
    double *loss; /* [folds][sets] */
} judging;

static cst_status judge_fold(cst_context *context, void *user, int64_t fold) {
    const judging *job = user;
    const cst_fold_space *space = &job->spaces[fold];
    for (int32_t i = 0; i < job->sets->count; i++) {
        const cst_judged_set *set = &job->sets->set[i];
        double *weights = set->weights + fold * job->sets->blocks * set->count;
        double fitted = 0;
        CST_TRY(
            space->sets.fit(context, space->sets.user, set->members, set->count, weights, &fitted));
        CST_TRY(space->judge(context, space->sets.user, set->members, set->count, weights,
                             &job->loss[fold * job->sets->count + i]));
        CST_TRY(cst_poll(context));
    }
    return CST_OK;
}

static cst_status judge(cst_context *context, const cst_fold_space *spaces, cst_judged_sets *sets) {
    int32_t count = sets->count;
    judging job = {.spaces = spaces, .sets = sets};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, job.loss, (sets->fold_count * count));
    CST_TRY(cst_parallel_turns(context, sets->fold_count, judge_fold, &job));
    for (int32_t i = 0; i < count; i++) {
        sets->set[i].loss = 0;
        for (int32_t f = 0; f < sets->fold_count; f++)
            sets->set[i].loss += job.loss[f * count + i];
    }
    return CST_OK;
}

typedef struct searching {
    const cst_fold_space *spaces;
    const cst_select_options *options;
    int32_t **const *path; /* [folds + 1] */
    int32_t most;
    cst_set_search *search; /* [folds + 1] */
    int32_t *best;          /* [folds + 1][most + 1][CST_SEARCH_BEAM] */
} searching;

static cst_status search_task(cst_context *context, void *user, int64_t task) {
    const searching *job = user;
    const cst_set_space *sets = &job->spaces[task].sets;
    const cst_select_options *o = job->options;
    cst_set_search *search = &job->search[task];
    int32_t *best = job->best + task * (job->most + 1) * CST_SEARCH_BEAM;
    CST_TRY(cst_set_search_begin(context, sets, &o->costs, &o->limits, search));
    for (int32_t s = 0; s < sets->members; s++)
        if (s + 1 == sets->members ||
            cst_costs_within(&o->costs, &o->limits, job->path[task][s], s + 1))
            CST_TRY(cst_set_search_add(context, search, job->path[task][s], s + 1, NULL));
    return cst_set_search_run(context, search, &o->limits, job->most, true, best);
}

/* Of every size the best of each fold's search, and all of that on all rows. */
static cst_status gather(cst_context *context, const searching *job, int32_t fold_count,
                         cst_judged_sets *out) {
    for (int32_t size = 1; size <= job->most; size++)
        for (int32_t f = fold_count; f >= 0; f--)
            for (int32_t rank = 0; rank < CST_SEARCH_BEAM; rank++) {
                int32_t at =
                    job->best[((ptrdiff_t)f * (job->most + 1) + size) * CST_SEARCH_BEAM + rank];
                if (at >= 0 && (rank == 0 || f == fold_count))
                    CST_TRY(add_found(context, out, &job->search[f], at));
            }
    return CST_OK;
}

static void release_search(cst_context *context, void *search) {
    (void)context;
    cst_scope_free(&((cst_set_search *)search)->scope);
}

cst_status cst_search_within(cst_context *context, const cst_fold_space *spaces, int32_t fold_count,
                             const cst_select_options *options, int32_t **const *path,
                             int32_t *chosen, cst_judged_sets *out) {
    int32_t members = spaces[0].sets.members;
    searching job = {.spaces = spaces, .options = options, .path = path};
    job.most =
        options->cap_count > 0 && options->cap_count < members ? options->cap_count : members;
    *out = (cst_judged_sets){
        .scope = out->scope, .fold_count = fold_count, .blocks = spaces[0].sets.blocks};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, job.search, fold_count + 1);
    CST_TAKE(context, scope, job.best, ((fold_count + 1) * (job.most + 1) * CST_SEARCH_BEAM));
    for (int32_t f = 0; f <= fold_count; f++)
        CST_TRY(cst_scope_own(context, scope, release_search, &job.search[f]));
    CST_TRY(cst_parallel_turns(context, (int64_t)fold_count + 1, search_task, &job));
    CST_TRY(gather(context, &job, fold_count, out));
    CST_TRY(judge(context, spaces, out));
    for (int32_t s = 0; s < members; s++)
        chosen[s] = -1;
    for (int32_t i = 0; i < out->count; i++) {
        int32_t *mine = &chosen[out->set[i].count - 1];
        if (*mine < 0 || out->set[i].loss < out->set[*mine].loss)
            *mine = i;
    }
    return CST_OK;
}

enum { RUNGS = 8, FRONT_SETS = 16 };

/* The sets that no cheaper set has a lower loss than, on the rows fitted to; thinned evenly. */
static cst_status add_front(cst_context *context, const cst_set_search *search, cst_cost cost,
                            cst_judged_sets *out) {
    size_t count = (size_t)search->found_count;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, value, count);
    CST_NEW(context, scope, int32_t, order, count);
    int32_t on = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t members[CST_SEARCH_MEMBERS];
        int32_t size = cst_set_search_members(search, search->found[i].mask, members);
        value[i] = cst_cost_of(search->costs, search->parallel, cost, members, size);
        int32_t at = (int32_t)i; /* ascending cost, then loss */
        while (at > 0 && (value[order[at - 1]] > value[i] ||
                          (value[order[at - 1]] == value[i] &&
                           search->found[order[at - 1]].loss > search->found[i].loss))) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = (int32_t)i;
    }
    double least = INFINITY;
    for (size_t i = 0; i < count; i++)
        if (search->found[order[i]].loss < least) {
            least = search->found[order[i]].loss;
            order[on++] = order[i];
        }
    int32_t taken = on < FRONT_SETS ? on : FRONT_SETS;
    for (int32_t j = 0; j < taken; j++)
        CST_TRY(add_found(context, out, search,
                          order[taken > 1 ? (int64_t)j * (on - 1) / (taken - 1) : 0]));
    return CST_OK;
}

/* Searches with a limit on one cost, from the cheapest member's to that of all members. */
static cst_status climb(cst_context *context, cst_set_search *search, cst_cost cost, int32_t most,
                        int32_t *best) {
    const double *of = search->costs->of[cost];
    double least = INFINITY;
    double all = cst_cost_of(search->costs, search->parallel, cost, search->candidates, search->n);
    for (int32_t p = 0; p < search->n; p++)
        if (of[search->candidates[p]] > 0)
            least = fmin(least, of[search->candidates[p]]);
    for (int j = 0; least < all && j < RUNGS; j++) {
        cst_limits limits = {.parallel = search->parallel};
        limits.most[cost] = least * pow(all / least, (j + 0.5) / RUNGS);
        CST_TRY(cst_set_search_run(context, search, &limits, most, false, best));
    }
    return CST_OK;
}

/* Sets on the front of loss against each known cost, of a path and within limits. */
static cst_status search_front(cst_context *context, const cst_fold_space *spaces,
                               int32_t fold_count, const cst_select_options *options,
                               const cst_selection *selection, cst_judged_sets *out) {
    const cst_set_space *all = &spaces[fold_count].sets;
    const cst_select_step *chosen = &selection->path[selection->chosen];
    int32_t members = all->members;
    int32_t most =
        options->cap_count > 0 && options->cap_count < members ? options->cap_count : members;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, best, ((most + 1) * CST_SEARCH_BEAM));
    CST_NEW(context, scope, cst_set_search, search, 1);
    CST_TRY(cst_scope_own(context, scope, release_search, search));
    CST_TRY(cst_set_search_begin(context, all, &options->costs, &options->limits, search));
    search->parallel = options->limits.parallel;
    for (int32_t s = 0; s < members; s++)
        CST_TRY(cst_set_search_add(context, search, selection->path[s].members, s + 1, NULL));
    for (int c = 0; c < CST_COST_COUNT; c++)
        if (cst_cost_known(&options->costs, (cst_cost)c, members))
            CST_TRY(climb(context, search, (cst_cost)c, most, best));
    for (int c = 0; c < CST_COST_COUNT; c++)
        if (cst_cost_known(&options->costs, (cst_cost)c, members))
            CST_TRY(add_front(context, search, (cst_cost)c, out));
    CST_TRY(add(context, out, chosen->members, chosen->size, NULL));
    return judge(context, spaces, out);
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

cst_status cst_front_make(cst_context *context, const cst_fold_space *spaces, int32_t fold_count,
                          const cst_select_options *options, const cst_selection *selection,
                          cst_front *out) {
    const cst_select_step *chosen = &selection->path[selection->chosen];
    bool known = false;
    *out = (cst_front){0};
    for (int c = 0; c < CST_COST_COUNT; c++)
        known = known || cst_cost_known(&options->costs, (cst_cost)c, selection->members);
    if (!known)
        return CST_OK;
    CST_SCOPE(scope);
    cst_judged_sets sets = {.scope = scope, .fold_count = fold_count};
    if (spaces) {
        sets.blocks = spaces[0].sets.blocks;
        CST_TRY(search_front(context, spaces, fold_count, options, selection, &sets));
    }
    int32_t count = spaces ? sets.count : selection->members;
    CST_TAKE(context, &out->scope, out->point, count);
    for (int32_t i = 0; i < count; i++) {
        const cst_select_step *step = spaces ? NULL : &selection->path[i];
        const cst_judged_set *set = spaces ? &sets.set[i] : NULL;
        cst_front_point point = {.size = set ? set->count : step->size,
                                 .members = set ? set->members : step->members,
                                 .loss = set ? set->loss / (double)selection->rows : step->loss,
                                 .chosen = set ? same(set, chosen->members, chosen->size)
                                               : step == chosen};
        CST_TRY(put_point(context, options, point, out));
    }
    keep_best(options, selection->members, out);
    return CST_OK;
}
