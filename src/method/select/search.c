/* Local search over sets within limits, ranked by quadratic models of fitted sets; searches without
 * each fold, the held-out loss of their sets, and the front of loss against cost. */
#include "method/select/within.h"

#include <math.h>
#include <string.h>

/* Sets of a size that are searched around; members that changes of three and four members look at;
 * models after which a search ends, for each size. */
enum { BEAM = 2, OUTSIDE = 24, INSIDE = 12, ROUNDS = 8, ANY_SIZE = 3 };

typedef struct found_set {
    uint64_t mask;   /* of positions in set_search.candidates */
    int32_t count;   /* members */
    double loss;     /* as the space has it */
    double *weights; /* [blocks][count] */
    bool expanded;
} found_set;

typedef struct set_search {
    cst_scope scope;
    const cst_set_space *space;
    const cst_costs *costs;
    bool parallel; /* of latency, where costs are compared */
    int32_t n;
    int32_t candidates[CST_SEARCH_MEMBERS]; /* ascending */
    found_set *found;                       /* every set that was fitted */
    int32_t found_count;
    int32_t capacity;
    double *slope;     /* [blocks][n] of the present model */
    double *curvature; /* [blocks][n][n] */
} set_search;

/* Of the loss: less is not worth a fit. */
static const double WORTH = 2e-5;

static int32_t bits(uint64_t mask) {
    int32_t count = 0;
    for (; mask; mask &= mask - 1)
        count++;
    return count;
}

static uint64_t bit(int32_t place) {
    return (uint64_t)1 << place;
}

/* Places in `candidates` of a set, ascending. */
static int32_t places_of(uint64_t mask, int32_t *places) {
    int32_t count = 0;
    for (int32_t p = 0; p < CST_SEARCH_MEMBERS; p++)
        if (mask & bit(p))
            places[count++] = p;
    return count;
}

/* The members of a set that was found, ascending; returns how many. */
static int32_t members_in(const set_search *search, uint64_t mask, int32_t *members) {
    int32_t count = places_of(mask, members);
    for (int32_t j = 0; j < count; j++)
        members[j] = search->candidates[members[j]];
    return count;
}

static bool within(const set_search *search, const cst_limits *limits, uint64_t mask) {
    int32_t members[CST_SEARCH_MEMBERS];
    int32_t count = members_in(search, mask, members);
    return cst_costs_within(search->costs, limits, members, count);
}

static int32_t find(const set_search *search, uint64_t mask) {
    for (int32_t i = 0; i < search->found_count; i++)
        if (search->found[i].mask == mask)
            return i;
    return -1;
}

/* ---- the quadratic model ---- */

/* Cholesky factor [count][count] of the curvature; gain is half the square of `half`. */
static double factor_block(const set_search *s, int32_t block, const int32_t *places, int32_t count,
                           double *factor, double *half) {
    size_t n = (size_t)s->n;
    const double *curvature = s->curvature + (size_t)block * n * n;
    const double *slope = s->slope + (size_t)block * n;
    double gain = 0;
    for (int32_t i = 0; i < count; i++) {
        const double *from = curvature + (size_t)places[i] * n;
        double *row = factor + (ptrdiff_t)i * count;
        double value = slope[places[i]];
        double diagonal = from[places[i]];
        for (int32_t j = 0; j < i; j++) {
            const double *other = factor + (ptrdiff_t)j * count;
            double sum = from[places[j]];
            for (int32_t l = 0; l < j; l++)
                sum -= row[l] * other[l];
            row[j] = other[j] > 0 ? sum / other[j] : 0;
            diagonal -= row[j] * row[j];
            value -= row[j] * half[j];
        }
        /* A member that the others before it replace entirely adds nothing. */
        row[i] = diagonal > 1e-12 * from[places[i]] ? sqrt(diagonal) : 0;
        half[i] = row[i] > 0 ? value / row[i] : 0;
        gain += half[i] * half[i] / 2;
    }
    return gain;
}

/* By how much the model's loss of the set is below its constant. */
static double model_gain(const set_search *s, uint64_t mask) {
    double factor[CST_SEARCH_MEMBERS * CST_SEARCH_MEMBERS];
    double half[CST_SEARCH_MEMBERS];
    int32_t places[CST_SEARCH_MEMBERS];
    int32_t count = places_of(mask, places);
    double gain = 0;
    for (int32_t b = 0; b < s->space->blocks; b++)
        gain += factor_block(s, b, places, count, factor, half);
    return gain;
}

static void model_weights(const set_search *s, uint64_t mask, double *weights) {
    double factor[CST_SEARCH_MEMBERS * CST_SEARCH_MEMBERS];
    int32_t places[CST_SEARCH_MEMBERS];
    int32_t count = places_of(mask, places);
    for (int32_t b = 0; b < s->space->blocks; b++) {
        double *w = weights + (ptrdiff_t)b * count;
        (void)factor_block(s, b, places, count, factor, w);
        for (int32_t i = count - 1; i >= 0; i--) {
            for (int32_t j = i + 1; j < count; j++)
                w[i] -= factor[(ptrdiff_t)j * count + i] * w[j];
            double diagonal = factor[(ptrdiff_t)i * count + i];
            w[i] = diagonal > 0 ? w[i] / diagonal : 0;
        }
    }
}

/* ---- sets ---- */

/* Fits a set from given weights [blocks][count]; NULL: equal ones. */
static cst_status fit(cst_context *context, set_search *s, uint64_t mask, const double *start) {
    int32_t members[CST_SEARCH_MEMBERS];
    int32_t count = members_in(s, mask, members);
    int32_t cells = count * s->space->blocks;
    double loss = 0;
    CST_NEW(context, &s->scope, double, weights, cells);
    for (int32_t i = 0; i < cells; i++)
        weights[i] = start ? start[i] : 1.0 / count;
    CST_TRY(s->space->fit(context, s->space->user, members, count, weights, &loss));
    if (s->found_count == s->capacity) {
        s->capacity = s->capacity ? 2 * s->capacity : 64;
        CST_NEW(context, &s->scope, found_set, grown, s->capacity);
        if (s->found_count > 0)
            memcpy(grown, s->found, (size_t)s->found_count * sizeof *grown);
        s->found = grown;
    }
    s->found[s->found_count++] =
        (found_set){.mask = mask, .count = bits(mask), .loss = loss, .weights = weights};
    return CST_OK;
}

/* Adds a set that was fitted elsewhere; one with members that are no candidates is left out. */
static cst_status take_set(cst_context *context, set_search *search, const int32_t *set,
                           int32_t count, const double *weights) {
    uint64_t mask = 0;
    for (int32_t p = 0; p < search->n; p++)
        for (int32_t j = 0; j < count; j++)
            if (search->candidates[p] == set[j])
                mask |= bit(p);
    if (bits(mask) != count || find(search, mask) >= 0)
        return CST_OK;
    return fit(context, search, mask, weights);
}

/* ---- candidates ---- */

/* Share of the tightest limit that a member takes. */
static double share_of(const cst_costs *costs, const cst_limits *limits, int32_t member) {
    double most = 0;
    for (int c = 0; c < CST_COST_COUNT; c++)
        if (limits->most[c] > 0 && costs->of[c])
            most = fmax(most, costs->of[c][member] / limits->most[c]);
    return most;
}

/* Takes the members not taken yet of the largest value, until `n` are. */
static void take_largest(const double *value, int32_t members, int32_t n, bool *taken,
                         int32_t *count) {
    while (*count < n) {
        int32_t best = -1;
        for (int32_t k = 0; k < members; k++)
            if (!taken[k] && (best < 0 || value[k] > value[best]))
                best = k;
        taken[best] = true;
        (*count)++;
    }
}

/* Of many members: the cheapest, those of most gain, alone and for their cost. */
static cst_status choose_candidates(cst_context *context, const cst_limits *limits, set_search *s) {
    const cst_set_space *space = s->space;
    int32_t all = space->members;
    size_t blocks = (size_t)space->blocks;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, value, 2 * (size_t)all);
    CST_NEW(context, scope, bool, taken, all);
    CST_NEW(context, scope, int32_t, part, CST_SEARCH_MEMBERS);
    double *gain = value + all;
    for (int32_t first = 0; first < all; first += CST_SEARCH_MEMBERS) {
        double loss = 0;
        int32_t n = all - first < CST_SEARCH_MEMBERS ? all - first : CST_SEARCH_MEMBERS;
        for (int32_t j = 0; j < n; j++)
            part[j] = first + j;
        CST_TRY(space->model(context, space->user, part, n, NULL, 0, NULL, &loss, s->slope,
                             s->curvature));
        for (int32_t j = 0; j < n; j++)
            for (size_t b = 0; b < blocks; b++) {
                size_t at = b * (size_t)n + (size_t)j;
                double slope = s->slope[at];
                double curvature = s->curvature[at * (size_t)n + (size_t)j];
                gain[first + j] += curvature > 0 ? slope * slope / curvature : 0;
            }
    }
    int32_t count = 0;
    for (int32_t k = 0; k < all; k++)
        value[k] = -share_of(s->costs, limits, k);
    take_largest(value, all, CST_SEARCH_MEMBERS / 4, taken, &count);
    take_largest(gain, all, CST_SEARCH_MEMBERS / 2, taken, &count);
    for (int32_t k = 0; k < all; k++)
        value[k] = gain[k] / fmax(-value[k], 1e-12);
    take_largest(value, all, CST_SEARCH_MEMBERS, taken, &count);
    for (int32_t k = 0, to = 0; k < all; k++)
        if (taken[k])
            s->candidates[to++] = k;
    return CST_OK;
}

/* Candidates: all members of the space, or 64 of them by cost and by what they gain alone. */
static cst_status search_begin(cst_context *context, const cst_set_space *space,
                               const cst_costs *costs, const cst_limits *limits, set_search *out) {
    bool many = space->members > CST_SEARCH_MEMBERS;
    *out = (set_search){
        .space = space, .costs = costs, .n = many ? CST_SEARCH_MEMBERS : space->members};
    CST_TAKE(context, &out->scope, out->slope, (space->blocks * out->n));
    CST_TAKE(context, &out->scope, out->curvature, (space->blocks * out->n * out->n));
    for (int32_t p = 0; p < out->n; p++)
        out->candidates[p] = p;
    return many ? choose_candidates(context, limits, out) : CST_OK;
}

/* ---- one search ---- */

/* The set of each size that the model says is best; 0: none. */
typedef struct promising {
    uint64_t mask[CST_SEARCH_MEMBERS + 1];
    double loss[CST_SEARCH_MEMBERS + 1];
} promising;

typedef struct run {
    set_search *s;
    const cst_limits *limits;
    int32_t most;
    int32_t beam[CST_SEARCH_MEMBERS + 1][BEAM]; /* the best of each size, best first; -1: none */
    double anchor;                              /* the model's constant */
    bool every_size;
    double least; /* loss of the best set of all sizes */
    promising next;
} run;

static double loss_in(const run *r, int32_t size, int32_t rank) {
    int32_t at = r->beam[size][rank];
    return at < 0 ? INFINITY : r->s->found[at].loss;
}

/* Puts a set that was fitted, and is within the limits, among the best of its size. */
static void rank_set(run *r, int32_t found) {
    int32_t size = r->s->found[found].count;
    int32_t *beam = r->beam[size];
    int32_t at = BEAM;
    while (at > 0 && !(loss_in(r, size, at - 1) <= r->s->found[found].loss)) {
        at--;
        if (at + 1 < BEAM)
            beam[at + 1] = beam[at];
    }
    if (at < BEAM)
        beam[at] = found;
}

/* The best set of all sizes; -1: none. */
static int32_t best_of_all(const run *r) {
    int32_t size = 0;
    for (int32_t t = 1; t <= r->most; t++)
        if (loss_in(r, t, 0) < loss_in(r, size, 0))
            size = t;
    return r->beam[size][0];
}

/* Takes note of a set if the model says that it is among the best of its size. */
static void consider(run *r, uint64_t mask) {
    int32_t size = bits(mask);
    if (size < 1 || size > r->most || !within(r->s, r->limits, mask))
        return;
    double loss = r->anchor - model_gain(r->s, mask);
    double known = r->every_size ? loss_in(r, size, BEAM - 1) : r->least;
    promising *p = &r->next;
    if (!(loss < known - WORTH * fabs(known)) && isfinite(known))
        return;
    if ((p->mask[size] && loss >= p->loss[size]) || find(r->s, mask) >= 0)
        return;
    p->loss[size] = loss;
    p->mask[size] = mask;
}

/* Up to `most` of the places in `from` by value, largest first. */
static int32_t by_value(uint64_t from, const double *value, int32_t most, int32_t *places) {
    int32_t count = 0;
    for (int32_t p = 0; p < CST_SEARCH_MEMBERS; p++) {
        if (!(from & bit(p)))
            continue;
        int32_t at = count < most ? count++ : most;
        while (at > 0 && value[places[at - 1]] < value[p]) {
            if (at < most)
                places[at] = places[at - 1];
            at--;
        }
        if (at < most)
            places[at] = p;
    }
    return count;
}

static void consider_near(run *r, uint64_t mask) {
    const set_search *s = r->s;
    double value[CST_SEARCH_MEMBERS];
    int32_t in[CST_SEARCH_MEMBERS];
    int32_t out[CST_SEARCH_MEMBERS];
    uint64_t all = s->n == CST_SEARCH_MEMBERS ? ~(uint64_t)0 : bit(s->n) - 1;
    uint64_t outside = 0;
    double present = model_gain(s, mask);
    for (int32_t p = 0; p < s->n; p++) {
        bool inside = (mask & bit(p)) != 0;
        value[p] = model_gain(s, mask ^ bit(p)) - present;
        consider(r, mask ^ bit(p));
        /* Alone over a limit: never. */
        if (!inside && within(s, r->limits, bit(p)))
            outside |= bit(p);
    }
    int32_t outs = by_value(outside & all, value, CST_SEARCH_MEMBERS, out);
    int32_t ins = by_value(mask, value, CST_SEARCH_MEMBERS, in);
    for (int32_t i = 0; i < ins; i++)
        for (int32_t o = 0; o < outs; o++)
            consider(r, (mask ^ bit(in[i])) | bit(out[o]));
    /* Of pairs those that gain most, by themselves and for their cost. */
    double worth[CST_SEARCH_MEMBERS];
    for (int32_t p = 0; p < s->n; p++)
        worth[p] = value[p] / fmax(share_of(s->costs, r->limits, s->candidates[p]), 1e-9);
    uint64_t chosen = 0;
    int32_t cheap[OUTSIDE / 2];
    int32_t cheaps = by_value(outside & all, worth, OUTSIDE / 2, cheap);
    for (int32_t o = 0; o < cheaps; o++)
        chosen |= bit(cheap[o]);
    for (int32_t o = 0; o < outs && bits(chosen) < OUTSIDE; o++)
        chosen |= bit(out[o]);
    outs = places_of(chosen, out);
    ins = ins < INSIDE ? ins : INSIDE; /* value is least negative for those missed least */
    for (int32_t i = 0; i < ins; i++)
        for (int32_t o = 0; o < outs; o++) {
            uint64_t swapped = (mask ^ bit(in[i])) | bit(out[o]);
            for (int32_t other = o + 1; other < outs; other++)
                consider(r, swapped | bit(out[other]));
            for (int32_t other = i + 1; other < ins; other++) {
                consider(r, swapped ^ bit(in[other]));
                for (int32_t more = o + 1; more < outs; more++)
                    consider(r, (swapped ^ bit(in[other])) | bit(out[more]));
            }
        }
    for (int32_t o = 0; o < outs; o++)
        for (int32_t other = o + 1; other < outs; other++)
            consider(r, mask | bit(out[o]) | bit(out[other]));
}

/* The loss that the promising set of this rank, of all sizes, promises. */
static double promised(const promising *p, int rank) {
    double least = -INFINITY;
    for (int i = 0; i <= rank; i++) {
        double next = INFINITY;
        for (int32_t size = 1; size <= CST_SEARCH_MEMBERS; size++)
            if (p->mask[size] && p->loss[size] > least && p->loss[size] < next)
                next = p->loss[size];
        least = next;
    }
    return least;
}

/* Fits what was promising and keeps the better. */
static cst_status fit_promising(cst_context *context, run *r) {
    set_search *s = r->s;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, start, (CST_SEARCH_MEMBERS * s->space->blocks));
    double worst = r->every_size ? INFINITY : promised(&r->next, ANY_SIZE);
    for (int32_t size = 1; size <= r->most; size++) {
        uint64_t mask = r->next.mask[size];
        if (!mask || r->next.loss[size] > worst)
            continue;
        model_weights(s, mask, start);
        CST_TRY(fit(context, s, mask, start));
        rank_set(r, s->found_count - 1);
    }
    return CST_OK;
}

/* The model at a set, what it promises, and that fitted. at < 0: the empty set. */
static cst_status expand(cst_context *context, run *r, int32_t at) {
    set_search *s = r->s;
    int32_t members[CST_SEARCH_MEMBERS];
    uint64_t mask = at < 0 ? 0 : s->found[at].mask;
    int32_t count = members_in(s, mask, members);
    double loss = 0;
    CST_TRY(s->space->model(context, s->space->user, s->candidates, s->n, members, count,
                            at < 0 ? NULL : s->found[at].weights, &loss, s->slope, s->curvature));
    if (at >= 0)
        s->found[at].expanded = true;
    r->anchor = (at < 0 ? loss : s->found[at].loss) + model_gain(s, mask);
    memset(&r->next, 0, sizeof r->next);
    int32_t known = best_of_all(r);
    r->least = known < 0 ? INFINITY : s->found[known].loss;
    if (s->n <= CST_SEARCH_ALL)
        for (uint64_t every = 1; every < bit(r->s->n); every++)
            consider(r, every);
    else
        consider_near(r, mask);
    return fit_promising(context, r);
}

/* Sets of each size allowed whatever the data; up to CST_SEARCH_ALL members any. */
static void starts(const run *r, uint64_t *mask) {
    const set_search *s = r->s;
    memset(mask, 0, (CST_SEARCH_MEMBERS + 1) * sizeof *mask);
    enum { MIXTURES = 17 };
    for (int m = 0; m < MIXTURES; m++) {
        double cost[CST_SEARCH_MEMBERS];
        int32_t order[CST_SEARCH_MEMBERS];
        uint64_t alone = 0;
        for (int32_t p = 0; p < s->n; p++) {
            double share[2] = {0, 0}; /* of the first limit, and the largest of the others */
            int limits = 0;
            for (int c = 0; c < CST_COST_COUNT; c++)
                if (r->limits->most[c] > 0) {
                    bool sums = !(r->limits->parallel && c == CST_COST_LATENCY);
                    double one = s->costs->of[c][s->candidates[p]] / r->limits->most[c];
                    share[limits > 0] = fmax(share[limits > 0], sums ? one : 0);
                    limits++;
                }
            double mix = (double)m / (MIXTURES - 1);
            cost[p] = -((1 - mix) * share[0] + mix * share[1]);
            if (within(s, r->limits, bit(p)))
                alone |= bit(p);
        }
        int32_t count = by_value(alone, cost, CST_SEARCH_MEMBERS, order);
        uint64_t set = 0;
        for (int32_t j = 0; j < count && j < r->most; j++) {
            set |= bit(order[j]);
            if (!mask[j + 1] && within(s, r->limits, set))
                mask[j + 1] = set;
        }
    }
    for (uint64_t set = 1; s->n <= CST_SEARCH_ALL && set < bit(s->n); set++) {
        int32_t size = bits(set);
        if (size <= r->most && !mask[size] && within(s, r->limits, set))
            mask[size] = set;
    }
}

static void take_known(run *r) {
    const set_search *s = r->s;
    for (int32_t size = 0; size <= CST_SEARCH_MEMBERS; size++)
        for (int32_t rank = 0; rank < BEAM; rank++)
            r->beam[size][rank] = -1;
    for (int32_t i = 0; i < s->found_count; i++) {
        s->found[i].expanded = false;
        if (s->found[i].count <= r->most && within(s, r->limits, s->found[i].mask))
            rank_set(r, i);
    }
}

/* Searches around the set of each size that has a rank among the best. */
static cst_status sweep_sizes(cst_context *context, run *r, int32_t rank, int32_t *left,
                              bool *expanded) {
    for (int32_t size = 1; size <= r->most && *left > 0; size++) {
        int32_t at = r->beam[size][rank];
        if (at < 0 || r->s->found[at].expanded)
            continue;
        *expanded = true;
        (*left)--;
        CST_TRY(expand(context, r, at));
        CST_TRY(cst_poll(context));
    }
    return CST_OK;
}

/* Looks for the best sets of each size up to `most` within the limits; best [most + 1][BEAM]: their
 * places in `found`, best first, -1 where there is none. With every_size false only the best set of
 * all is looked for. */
static cst_status search_sets(cst_context *context, set_search *search, const cst_limits *limits,
                              int32_t most, bool every_size, int32_t *best) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, run, r, 1);
    r->s = search;
    r->limits = limits;
    r->every_size = every_size;
    r->most = most < search->n ? most : search->n;
    uint64_t start[CST_SEARCH_MEMBERS + 1];
    starts(r, start);
    take_known(r);
    CST_TRY(expand(context, r, -1));
    int32_t all = search->n <= CST_SEARCH_ALL ? find(search, bit(search->n) - 1) : -1;
    if (all >= 0 && !search->found[all].expanded)
        CST_TRY(expand(context, r, all));
    for (int32_t size = 1; every_size && size <= r->most; size++)
        if (r->beam[size][0] < 0 && start[size]) {
            CST_TRY(fit(context, search, start[size], NULL));
            rank_set(r, search->found_count - 1);
        }
    int32_t left = ROUNDS * (r->most + 2);
    int32_t rank = every_size ? 0 : BEAM;
    while (left > 0 && rank < BEAM) {
        bool expanded = false;
        CST_TRY(sweep_sizes(context, r, rank, &left, &expanded));
        rank = expanded ? 0 : rank + 1; /* the second best where the best lead no further */
    }
    while (!every_size && left-- > 0) {
        int32_t at = best_of_all(r);
        if (at < 0 || search->found[at].expanded)
            break;
        CST_TRY(expand(context, r, at));
    }
    for (int32_t size = 0; size <= most; size++)
        for (int32_t place = 0; place < BEAM; place++)
            best[(ptrdiff_t)size * BEAM + place] = size <= r->most ? r->beam[size][place] : -1;
    return CST_OK;
}

/* ---- folds and the front ---- */

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

static cst_status add_found(cst_context *context, cst_judged_sets *sets, const set_search *search,
                            int32_t at) {
    int32_t members[CST_SEARCH_MEMBERS];
    const found_set *found = &search->found[at];
    int32_t count = members_in(search, found->mask, members);
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
    set_search *search; /* [folds + 1] */
    int32_t *best;      /* [folds + 1][most + 1][BEAM] */
} searching;

static cst_status search_task(cst_context *context, void *user, int64_t task) {
    const searching *job = user;
    const cst_set_space *sets = &job->spaces[task].sets;
    const cst_select_options *o = job->options;
    set_search *search = &job->search[task];
    int32_t *best = job->best + task * (job->most + 1) * BEAM;
    CST_TRY(search_begin(context, sets, &o->costs, &o->limits, search));
    for (int32_t s = 0; s < sets->members; s++)
        if (s + 1 == sets->members ||
            cst_costs_within(&o->costs, &o->limits, job->path[task][s], s + 1))
            CST_TRY(take_set(context, search, job->path[task][s], s + 1, NULL));
    return search_sets(context, search, &o->limits, job->most, true, best);
}

/* Of every size the best of each fold's search, and all of that on all rows. */
static cst_status gather(cst_context *context, const searching *job, int32_t fold_count,
                         cst_judged_sets *out) {
    for (int32_t size = 1; size <= job->most; size++)
        for (int32_t f = fold_count; f >= 0; f--)
            for (int32_t rank = 0; rank < BEAM; rank++) {
                int32_t at = job->best[((ptrdiff_t)f * (job->most + 1) + size) * BEAM + rank];
                if (at >= 0 && (rank == 0 || f == fold_count))
                    CST_TRY(add_found(context, out, &job->search[f], at));
            }
    return CST_OK;
}

static void release_search(cst_context *context, void *search) {
    (void)context;
    cst_scope_free(&((set_search *)search)->scope);
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
    CST_TAKE(context, scope, job.best, ((fold_count + 1) * (job.most + 1) * BEAM));
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
static cst_status add_front(cst_context *context, const set_search *search, cst_cost cost,
                            cst_judged_sets *out) {
    size_t count = (size_t)search->found_count;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, value, count);
    CST_NEW(context, scope, int32_t, order, count);
    int32_t on = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t members[CST_SEARCH_MEMBERS];
        int32_t size = members_in(search, search->found[i].mask, members);
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
static cst_status climb(cst_context *context, set_search *search, cst_cost cost, int32_t most,
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
        CST_TRY(search_sets(context, search, &limits, most, false, best));
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
    CST_NEW(context, scope, int32_t, best, ((most + 1) * BEAM));
    CST_NEW(context, scope, set_search, search, 1);
    CST_TRY(cst_scope_own(context, scope, release_search, search));
    CST_TRY(search_begin(context, all, &options->costs, &options->limits, search));
    search->parallel = options->limits.parallel;
    for (int32_t s = 0; s < members; s++)
        CST_TRY(take_set(context, search, selection->path[s].members, s + 1, NULL));
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
        const cst_select_step *step = &selection->path[spaces ? 0 : i];
        cst_front_point point = {.size = step->size,
                                 .members = step->members,
                                 .loss = step->loss,
                                 .chosen = step == chosen};
        if (spaces) {
            const cst_judged_set *set = &sets.set[i];
            point = (cst_front_point){.size = set->count,
                                      .members = set->members,
                                      .loss = set->loss / (double)selection->rows,
                                      .chosen = same(set, chosen->members, chosen->size)};
        }
        CST_TRY(put_point(context, options, point, out));
    }
    keep_best(options, selection->members, out);
    return CST_OK;
}
