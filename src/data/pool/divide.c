/* Stratified and grouped divisions in two. See the header. */
#include "data/pool/divide.h"

#include <math.h>
#include <string.h>

/* A unit with its stratum and group. */
typedef struct divided {
    int64_t group;
    int64_t stratum;
    int64_t unit;
} divided;

static int by_stratum(const void *a, const void *b) {
    const divided *x = a;
    const divided *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->stratum != y->stratum)
        return x->stratum < y->stratum ? -1 : 1;
    return (x->unit > y->unit) - (x->unit < y->unit);
}

static int64_t stratum_of(const cst_units *units, int64_t i) {
    return units->strata ? units->strata[i] : 0;
}

static cst_status count_strata(cst_context *context, const cst_units *units, int64_t **counts,
                               int64_t *strata) {
    *strata = 1;
    for (int64_t i = 0; i < units->count; i++)
        *strata = stratum_of(units, i) >= *strata ? stratum_of(units, i) + 1 : *strata;
    *counts = cst_alloc(context, (size_t)*strata, sizeof **counts);
    for (int64_t i = 0; *counts && i < units->count; i++)
        (*counts)[stratum_of(units, i)]++;
    return *counts ? CST_OK : CST_ERROR_MEMORY;
}

static cst_status check_classes(cst_context *context, const cst_units *units, const int64_t *counts,
                                int64_t strata) {
    int64_t single = -1;
    int64_t singles = 0;
    for (int64_t c = strata - 1; units->classes && c >= 0; c--)
        if (counts[c] == 1) {
            single = c;
            singles++;
        }
    if (singles == 0)
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "split '%s': %lld class%s (class %lld%s) %s one row, which cannot be both "
                    "fitted on and held out; a holdout needs at least two rows of every class: "
                    "merge rare classes, or leave the holdout out",
                    units->split, (long long)singles, singles > 1 ? "es" : "", (long long)single,
                    singles > 1 ? " is the first" : "", singles > 1 ? "have" : "has");
}

/* ---- single units ---- */

/* Units in the order of shuffled strata, shuffled within each: every stretch of the order then has
 * its share, to less than one unit. */
static cst_status draw_units(cst_context *context, const cst_units *units, const int64_t *counts,
                             int64_t strata, double share, cst_rng *rng, bool *held) {
    int64_t count = units->count;
    int64_t *order = cst_alloc(context, (size_t)count, sizeof *order);
    int64_t *shuffled = cst_alloc(context, (size_t)strata, sizeof *shuffled);
    int64_t *first = cst_alloc(context, (size_t)strata + 1, sizeof *first);
    cst_status status = order && shuffled && first ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t c = 0; status == CST_OK && c < strata; c++)
        shuffled[c] = c;
    if (status == CST_OK) {
        cst_rng_shuffle(rng, shuffled, strata);
        int64_t at = 0;
        for (int64_t c = 0; c < strata; c++) {
            first[shuffled[c]] = at;
            at += counts[shuffled[c]];
        }
        for (int64_t i = 0; i < count; i++)
            order[first[stratum_of(units, i)]++] = i;
        double wanted = floor(share * (double)count + 0.5);
        int64_t total = wanted < 1 ? 1 : wanted > (double)count - 1 ? count - 1 : (int64_t)wanted;
        double step = (double)total / (double)count;
        for (int64_t c = 0, end = 0; c < strata; c++) {
            int64_t size = counts[shuffled[c]];
            int64_t *own = order + end;
            cst_rng_shuffle(rng, own, size);
            int64_t before = (int64_t)floor((double)end * step + 0.5);
            end += size;
            int64_t taken = (int64_t)floor((double)end * step + 0.5) - before;
            if (units->classes && taken == size)
                taken--;
            for (int64_t i = 0; i < taken; i++)
                held[own[i]] = true;
        }
    }
    cst_free(context, order);
    cst_free(context, shuffled);
    cst_free(context, first);
    return status;
}

/* ---- groups ---- */

typedef struct grouping {
    const divided *sorted; /* by group, then stratum */
    int64_t *first;        /* [groups + 1] in `sorted` */
    int64_t groups;
    int64_t count;
    double share;
    const int64_t *counts; /* [strata] */
    int64_t strata;
    int64_t *taken; /* [strata] */
    int64_t total;
    bool classes;
} grouping;

/* By how much holding out a group brings the strata, and all together, nearer to their share
 * (negative: nearer); NaN where nothing of a class would stay. */
static double gain(const grouping *g, int64_t group) {
    double change = 0;
    int64_t first = g->first[group];
    int64_t end = g->first[group + 1];
    for (int64_t i = first, next = first; i < end; i = next) {
        int64_t c = g->sorted[i].stratum;
        while (next < end && g->sorted[next].stratum == c)
            next++;
        double more = (double)(next - i);
        double off = (double)g->taken[c] - g->share * (double)g->counts[c];
        if (g->classes && g->taken[c] + next - i == g->counts[c])
            return NAN;
        change += more * (2 * off + more) / (double)g->counts[c];
    }
    double more = (double)(end - first);
    double off = (double)g->total - g->share * (double)g->count;
    return change + (double)g->strata * more * (2 * off + more) / (double)g->count;
}

static void take_group(grouping *g, int64_t group, bool *held) {
    for (int64_t i = g->first[group]; i < g->first[group + 1]; i++) {
        g->taken[g->sorted[i].stratum]++;
        g->total++;
        held[g->sorted[i].unit] = true;
    }
}

/* Groups in random order; at least one is taken and one stays. */
static bool take_groups(grouping *g, const int64_t *order, bool *held) {
    int64_t least = -1;
    int64_t number = 0;
    for (int64_t i = 0; i < g->groups; i++) {
        double change = gain(g, order[i]);
        bool last = number == g->groups - 1;
        if (change < 0 && !last) {
            take_group(g, order[i], held);
            number++;
        } else if (!isnan(change) && number == 0 && (least < 0 || change < gain(g, order[least]))) {
            least = i;
        }
    }
    if (number == 0 && least >= 0 && g->groups > 1) {
        take_group(g, order[least], held);
        number = 1;
    }
    return number > 0;
}

static cst_status draw_groups(cst_context *context, const cst_units *units, const int64_t *counts,
                              int64_t strata, double share, cst_rng *rng, bool *held) {
    size_t count = (size_t)units->count;
    divided *sorted = cst_alloc(context, count, sizeof *sorted);
    int64_t *first = cst_alloc(context, count + 1, sizeof *first);
    int64_t *order = cst_alloc(context, count, sizeof *order);
    int64_t *taken = cst_alloc(context, (size_t)strata, sizeof *taken);
    cst_status status = sorted && first && order && taken ? CST_OK : CST_ERROR_MEMORY;
    for (size_t i = 0; status == CST_OK && i < count; i++)
        sorted[i] = (divided){units->groups[i], stratum_of(units, (int64_t)i), (int64_t)i};
    if (status == CST_OK)
        status = cst_sort(context, sorted, count, sizeof *sorted, by_stratum);
    if (status == CST_OK) {
        grouping g = {.sorted = sorted,
                      .first = first,
                      .count = units->count,
                      .share = share,
                      .counts = counts,
                      .strata = strata,
                      .taken = taken,
                      .classes = units->classes};
        for (int64_t i = 0; i < units->count; i++)
            if (i == 0 || sorted[i].group != sorted[i - 1].group) {
                order[g.groups] = g.groups;
                first[g.groups++] = i;
            }
        first[g.groups] = units->count;
        cst_rng_shuffle(rng, order, g.groups);
        if (!take_groups(&g, order, held))
            status = cst_fail(context, CST_ERROR_INPUT,
                              "split '%s': no group can be held out%s; a holdout needs groups that "
                              "can be left out of the fit: divide the groups further, or leave the "
                              "holdout out",
                              units->split,
                              g.groups > 1 ? ", because each is the only one with some class"
                                           : ", because there is only one");
    }
    cst_free(context, sorted);
    cst_free(context, first);
    cst_free(context, order);
    cst_free(context, taken);
    return status;
}

cst_status cst_divide(cst_context *context, const cst_units *units, double share, uint64_t seed,
                      bool *held) {
    int64_t *counts = NULL;
    int64_t strata = 0;
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_DIVISION, 0);
    memset(held, 0, (size_t)units->count * sizeof *held);
    if (units->count < 2)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s' has %lld %s to divide, but a holdout needs at least two",
                        units->split, (long long)units->count, units->unit);
    cst_status status = count_strata(context, units, &counts, &strata);
    if (!units->groups)
        CST_THEN(check_classes(context, units, counts, strata));
    CST_THEN((units->groups ? draw_groups : draw_units)(context, units, counts, strata, share, &rng,
                                                        held));
    cst_free(context, counts);
    return status;
}
