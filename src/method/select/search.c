/* Local search over sets within limits, ranked by quadratic models of fitted sets. */
#include "method/select/within.h"

#include <math.h>
#include <string.h>

/* Sets of a size that are fitted after one model; sets of a size that are searched around; members
 * that changes of three and four members look at; models after which a search ends, for each size.
 */
enum { TRIED = 1, BEAM = CST_SEARCH_BEAM, OUTSIDE = 24, INSIDE = 12, ROUNDS = 8, ANY_SIZE = 3 };

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

int32_t cst_set_search_members(const cst_set_search *search, uint64_t mask, int32_t *members) {
    int32_t count = places_of(mask, members);
    for (int32_t j = 0; j < count; j++)
        members[j] = search->candidates[members[j]];
    return count;
}

static bool within(const cst_set_search *search, const cst_limits *limits, uint64_t mask) {
    int32_t members[CST_SEARCH_MEMBERS];
    int32_t count = cst_set_search_members(search, mask, members);
    return cst_costs_within(search->costs, limits, members, count);
}

static int32_t find(const cst_set_search *search, uint64_t mask) {
    for (int32_t i = 0; i < search->found_count; i++)
        if (search->found[i].mask == mask)
            return i;
    return -1;
}

/* ---- the quadratic model ---- */

/* Cholesky factor [count][count] of the curvature; gain is half the square of `half`. */
static double factor_block(const cst_set_search *s, int32_t block, const int32_t *places,
                           int32_t count, double *factor, double *half) {
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
static double model_gain(const cst_set_search *s, uint64_t mask) {
    double factor[CST_SEARCH_MEMBERS * CST_SEARCH_MEMBERS];
    double half[CST_SEARCH_MEMBERS];
    int32_t places[CST_SEARCH_MEMBERS];
    int32_t count = places_of(mask, places);
    double gain = 0;
    for (int32_t b = 0; b < s->space->blocks; b++)
        gain += factor_block(s, b, places, count, factor, half);
    return gain;
}

static void model_weights(const cst_set_search *s, uint64_t mask, double *weights) {
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
static cst_status fit(cst_context *context, cst_set_search *s, uint64_t mask, const double *start) {
    int32_t members[CST_SEARCH_MEMBERS];
    int32_t count = cst_set_search_members(s, mask, members);
    int32_t cells = count * s->space->blocks;
    double loss = 0;
    CST_NEW(context, &s->scope, double, weights, cells);
    for (int32_t i = 0; i < cells; i++)
        weights[i] = start ? start[i] : 1.0 / count;
    CST_TRY(s->space->fit(context, s->space->user, members, count, weights, &loss));
    if (s->found_count == s->capacity) {
        s->capacity = s->capacity ? 2 * s->capacity : 64;
        CST_NEW(context, &s->scope, cst_found_set, grown, s->capacity);
        if (s->found_count > 0)
            memcpy(grown, s->found, (size_t)s->found_count * sizeof *grown);
        s->found = grown;
    }
    s->found[s->found_count++] =
        (cst_found_set){.mask = mask, .count = bits(mask), .loss = loss, .weights = weights};
    return CST_OK;
}

cst_status cst_set_search_add(cst_context *context, cst_set_search *search, const int32_t *set,
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
static cst_status choose_candidates(cst_context *context, const cst_limits *limits,
                                    cst_set_search *s) {
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

cst_status cst_set_search_begin(cst_context *context, const cst_set_space *space,
                                const cst_costs *costs, const cst_limits *limits,
                                cst_set_search *out) {
    bool many = space->members > CST_SEARCH_MEMBERS;
    *out = (cst_set_search){
        .space = space, .costs = costs, .n = many ? CST_SEARCH_MEMBERS : space->members};
    CST_TAKE(context, &out->scope, out->slope, (space->blocks * out->n));
    CST_TAKE(context, &out->scope, out->curvature, (space->blocks * out->n * out->n));
    for (int32_t p = 0; p < out->n; p++)
        out->candidates[p] = p;
    return many ? choose_candidates(context, limits, out) : CST_OK;
}

/* ---- one search ---- */

typedef struct promising {
    uint64_t mask[CST_SEARCH_MEMBERS + 1][TRIED];
    double loss[CST_SEARCH_MEMBERS + 1][TRIED];
    int32_t count[CST_SEARCH_MEMBERS + 1];
} promising;

typedef struct run {
    cst_set_search *s;
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
    int32_t count = p->count[size];
    if ((count == TRIED && loss >= p->loss[size][TRIED - 1]) || find(r->s, mask) >= 0)
        return;
    int32_t at = count < TRIED ? count : TRIED - 1;
    p->count[size] = at + 1;
    while (at > 0 && p->loss[size][at - 1] > loss) {
        p->loss[size][at] = p->loss[size][at - 1];
        p->mask[size][at] = p->mask[size][at - 1];
        at--;
    }
    p->loss[size][at] = loss;
    p->mask[size][at] = mask;
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
    const cst_set_search *s = r->s;
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
            for (int32_t j = 0; j < p->count[size]; j++)
                if (p->loss[size][j] > least && p->loss[size][j] < next)
                    next = p->loss[size][j];
        least = next;
    }
    return least;
}

/* Fits what was promising and keeps the better. */
static cst_status fit_promising(cst_context *context, run *r) {
    cst_set_search *s = r->s;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, start, (CST_SEARCH_MEMBERS * s->space->blocks));
    double worst = r->every_size ? INFINITY : promised(&r->next, ANY_SIZE);
    for (int32_t size = 1; size <= r->most; size++)
        for (int32_t i = 0; i < r->next.count[size]; i++) {
            if (r->next.loss[size][i] > worst)
                break;
            model_weights(s, r->next.mask[size][i], start);
            CST_TRY(fit(context, s, r->next.mask[size][i], start));
            rank_set(r, s->found_count - 1);
        }
    return CST_OK;
}

/* The model at a set, what it promises, and that fitted. at < 0: the empty set. */
static cst_status expand(cst_context *context, run *r, int32_t at) {
    cst_set_search *s = r->s;
    int32_t members[CST_SEARCH_MEMBERS];
    uint64_t mask = at < 0 ? 0 : s->found[at].mask;
    int32_t count = cst_set_search_members(s, mask, members);
    double loss = 0;
    cst_status status =
        s->space->model(context, s->space->user, s->candidates, s->n, members, count,
                        at < 0 ? NULL : s->found[at].weights, &loss, s->slope, s->curvature);
    if (status != CST_OK)
        return status;
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
    const cst_set_search *s = r->s;
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
    const cst_set_search *s = r->s;
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

cst_status cst_set_search_run(cst_context *context, cst_set_search *search,
                              const cst_limits *limits, int32_t most, bool every_size,
                              int32_t *best) {
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
