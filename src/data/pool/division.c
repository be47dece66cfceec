/* Divisions in two, stratified and grouped, and the parts of a divided split. See the header. */

#include "data/pool/pool.h"
#include "data/pool/spatial.h"
#include "data/pool/state.h"

#include <math.h>
#include <string.h>

/* A unit with its stratum and group. */
typedef struct divided {
    int64_t group;
    int64_t stratum;
    int64_t unit;
} divided;

CST_BY(by_stratum, divided, CST_UP(group), CST_UP(stratum), CST_UP(unit))

static int64_t stratum_of(const cst_units *units, int64_t i) {
    return units->strata ? units->strata[i] : 0;
}

static cst_status count_strata(cst_context *context, cst_scope *scope, const cst_units *units,
                               int64_t **counts, int64_t *strata) {
    *strata = 1;
    for (int64_t i = 0; i < units->count; i++)
        *strata = stratum_of(units, i) >= *strata ? stratum_of(units, i) + 1 : *strata;
    CST_TAKE(context, scope, *counts, *strata);
    for (int64_t i = 0; i < units->count; i++)
        (*counts)[stratum_of(units, i)]++;
    return CST_OK;
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
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, order, count);
    CST_NEW(context, scope, int64_t, shuffled, strata);
    CST_NEW(context, scope, int64_t, first, strata);
    for (int64_t c = 0; c < strata; c++)
        shuffled[c] = c;
    cst_rng_shuffle(rng, shuffled, strata);
    for (int64_t c = 0, at = 0; c < strata; c++) {
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
    return CST_OK;
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
    grouping g = {.count = units->count,
                  .share = share,
                  .counts = counts,
                  .strata = strata,
                  .classes = units->classes};
    CST_SCOPE(scope);
    CST_NEW(context, scope, divided, sorted, count);
    CST_TAKE(context, scope, g.first, count + 1);
    CST_NEW(context, scope, int64_t, order, count);
    CST_TAKE(context, scope, g.taken, strata);
    for (size_t i = 0; i < count; i++)
        sorted[i] = (divided){units->groups[i], stratum_of(units, (int64_t)i), (int64_t)i};
    CST_TRY(cst_sort(context, sorted, count, sizeof *sorted, by_stratum));
    g.sorted = sorted;
    for (int64_t i = 0; i < units->count; i++)
        if (i == 0 || sorted[i].group != sorted[i - 1].group) {
            order[g.groups] = g.groups;
            g.first[g.groups++] = i;
        }
    g.first[g.groups] = units->count;
    cst_rng_shuffle(rng, order, g.groups);
    if (take_groups(&g, order, held))
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "split '%s': no group can be held out%s; a holdout needs groups that "
                    "can be left out of the fit: divide the groups further, or leave the "
                    "holdout out",
                    units->split,
                    g.groups > 1 ? ", because each is the only one with some class"
                                 : ", because there is only one");
}

cst_status cst_divide(cst_context *context, const cst_units *units, double share, uint64_t seed,
                      bool *held) {
    int64_t *counts;
    int64_t strata = 0;
    cst_rng rng;
    CST_SCOPE(scope);
    cst_rng_init(&rng, seed, CST_STREAM_DIVISION, 0);
    memset(held, 0, (size_t)units->count * sizeof *held);
    if (units->count < 2)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s' has %lld %s to divide, but a holdout needs at least two",
                        units->split, (long long)units->count, units->unit);
    CST_TRY(count_strata(context, scope, units, &counts, &strata));
    if (!units->groups)
        CST_TRY(check_classes(context, units, counts, strata));
    return (units->groups ? draw_groups : draw_units)(context, units, counts, strata, share, &rng,
                                                      held);
}

/* ---- parts of a pool ---- */

struct cst_pool_parts {
    cst_scope scope;
    cst_pool pool; /* borrows what the whole has */
    cst_manifest manifest;
    cst_division division;
    char *name;        /* of the rows held out; the manifest's view of it */
    cst_view below[2]; /* the rows of a part, by an index into the split */
    cst_pool *whole;
};

cst_division *cst_pool_division(const cst_pool *pool) {
    return pool->division;
}

cst_status cst_division_note(cst_context *context, cst_division *division, const bool *held,
                             const int64_t *names, int64_t count) {
    int64_t total = 0;
    for (int64_t i = 0; i < count; i++)
        total += held[i];
    CST_NEW(context, division->scope, int64_t, units, total);
    division->held_units = units;
    division->held_count = total;
    for (int64_t i = 0; i < count; i++)
        if (held[i])
            *units++ = names ? names[i] : i;
    return CST_OK;
}

cst_pool *cst_parts_pool(cst_pool_parts *parts) {
    return &parts->pool;
}

const char *cst_parts_held(const cst_pool_parts *parts) {
    return parts->name;
}

/* ---- which rows ---- */

/* Classes, or stretches of similar targets: so many that every one can be divided. */
static cst_status make_strata(cst_context *context, cst_scope *scope, const cst_view *view,
                              const int64_t *groups, double share, cst_units *units) {
    if (view->labels || !view->targets) {
        units->strata = view->labels;
        units->classes = view->labels != NULL;
        return CST_OK;
    }
    double smaller = share < 0.5 ? share : 1 - share;
    double count = (double)view->rows * smaller / 2; /* two rows of a stretch are held out */
    int32_t most = groups ? CST_GROUP_STRETCHES : INT32_MAX / 2;
    CST_NEW(context, scope, int32_t, stretches, view->rows);
    units->strata = stretches;
    return cst_target_stretches(context, view->targets, view->classes, view->rows,
                                count > most ? most : (int32_t)count, stretches);
}

/* Of rows that count: held [rows of the split] with 1 for those held out, 2 for those that are in
 * neither part. */
static cst_status draw_rows(cst_context *context, cst_pool_parts *p, const char *split,
                            const cst_counted *counted, uint8_t *held) {
    cst_units units = {
        .split = split, .unit = "rows", .count = counted->samples, .groups = counted->groups};
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, drawn, units.count);
    CST_TRY(make_strata(context, scope, &counted->view, units.groups, p->division.share, &units));
    CST_TRY(cst_divide(context, &units, p->division.share, p->division.seed, drawn));
    CST_TRY(cst_division_note(context, &p->division, drawn, counted->rows, units.count));
    memset(held, 2, (size_t)cst_pool_rows(p->whole, split));
    for (int64_t i = 0; i < units.count; i++)
        held[counted->rows ? counted->rows[i] : i] = drawn[i];
    return CST_OK;
}

/* Of the pixels of whole cases. */
static cst_status draw_cases(cst_context *context, cst_pool_parts *p, const char *split,
                             const cst_cases *cases, uint8_t *held) {
    const cst_units units = {
        .split = split, .unit = "cases", .count = cases->count, .groups = cases->groups};
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, drawn, cases->count);
    CST_TRY(cst_divide(context, &units, p->division.share, p->division.seed, drawn));
    CST_TRY(cst_division_note(context, &p->division, drawn, NULL, cases->count));
    for (int64_t c = 0; c < cases->count; c++)
        memset(held + cases->first[c], drawn[c], (size_t)(cases->first[c + 1] - cases->first[c]));
    return CST_OK;
}

static cst_status choose_rows(cst_context *context, cst_pool_parts *p, const char *split) {
    int64_t rows = cst_pool_rows(p->whole, split);
    const cst_cases *cases = cst_pool_cases(p->whole, split);
    uint8_t *held;
    CST_SCOPE(scope);
    if (cst_pool_conditions(p->whole, split) > 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "split '%s' has several conditions of the same samples, and rows can be "
                        "held out of a split without conditions only",
                        split);
    CST_TAKE(context, scope, held, rows);
    if (cases) {
        CST_TRY(draw_cases(context, p, split, cases, held));
    } else {
        cst_counted counted;
        CST_TRY(cst_counted_open(context, p->whole, split, NULL, 0, &counted));
        cst_status status = draw_rows(context, p, split, &counted, held);
        cst_counted_close(context, &counted);
        CST_TRY(status);
    }
    for (int part = 0; part < 2; part++) {
        int64_t count = 0;
        for (int64_t i = 0; i < rows; i++)
            count += held[i] == part;
        CST_NEW(context, &p->scope, int64_t, index, count);
        p->division.rows[part] = index;
        p->division.count[part] = count;
        for (int64_t i = 0; i < rows; i++)
            if (held[i] == part)
                *index++ = i;
    }
    return CST_OK;
}

/* ---- the state of a part ---- */

static cst_status take_cases(cst_context *context, cst_scope *scope, const cst_cases *from,
                             const int64_t *rows, int64_t count, cst_cases **out) {
    int64_t(*shape)[3];
    cst_strings *names;
    int64_t found = 0;
    CST_SCOPE(own);
    CST_NEW(context, own, int64_t, cases, from->count);
    CST_NEW(context, scope, cst_cases, to, 1);
    CST_TAKE(context, scope, shape, from->count);
    CST_NEW(context, scope, int64_t, first, from->count + 1);
    *to = (cst_cases){.volumes = from->volumes,
                      .uniform = from->uniform,
                      .where = from->where,
                      .shape = (const int64_t(*)[3])shape,
                      .first = first};
    CST_TRY(cst_strings_take(context, scope, &names));
    to->names = names;
    for (int64_t c = 0, at = 0; c < from->count; c++) {
        char number[CST_CASE_CHARS];
        if (at == count || rows[at] != from->first[c])
            continue;
        int64_t pixels = from->first[c + 1] - from->first[c];
        const char *name = cst_case_name(from, c, number);
        memcpy(shape[found], from->shape[c], sizeof *shape);
        first[found + 1] = first[found] + pixels;
        cases[found++] = c;
        at += pixels;
        CST_TRY(cst_strings_put(context, names, name));
    }
    const cst_beside all = {.folds = from->folds, .groups = from->groups};
    cst_beside some;
    CST_TRY(cst_beside_take(context, scope, &all, cases, found, found, 0, &some));
    to->count = found;
    to->folds = some.folds;
    to->groups = some.groups;
    *out = to;
    return CST_OK;
}

/* One member's predictions: copied where there is room in memory, else read from the whole's. */
static cst_status take_member(cst_context *context, const cst_view *below, int32_t member,
                              bool copied, cst_pool_split *to) {
    const uint8_t *present = cst_view_present(below, member);
    cst_scope *scope = &to->own[member];
    size_t values = 0;
    if (below->data[member] && copied) {
        if (!cst_size_mul((size_t)below->rows, (size_t)below->classes, &values))
            return cst_fail(context, CST_ERROR_LIMIT, "too many predictions");
        CST_NEW(context, scope, float, data, values);
        to->data[member] = data;
        CST_TRY(cst_view_copy(context, below, member, data));
    } else if (below->data[member]) {
        CST_TRY(cst_store_take_around(context, scope, to->store, below, member));
        to->data[member] = cst_store_place(to->store, member);
    }
    if (!present)
        return CST_OK;
    CST_TRY(cst_pool_start_present(context, to, member, below->rows));
    for (int64_t i = 0; i < below->rows; i++)
        to->present[member][i] = present[below->index[i]];
    cst_pool_settle_present(context, to, member, below->rows);
    return CST_OK;
}

static cst_status make_part(cst_context *context, cst_pool_parts *p, const char *split, int part,
                            cst_pool_split *to) {
    const cst_pool_split *from = &p->whole->splits[p->division.split];
    cst_view *below = &p->below[part];
    CST_TRY(cst_pool_view(context, p->whole, split, below));
    below->index = p->division.rows[part];
    below->rows = p->division.count[part];
    to->described = true;
    to->rows = below->rows;
    to->labels_path = from->labels_path;
    CST_TRY(cst_beside_take(context, &to->scope, &from->beside, below->index, below->rows,
                            below->rows, below->classes, &to->beside));
    if (from->cases)
        CST_TRY(
            take_cases(context, &to->scope, from->cases, below->index, below->rows, &to->cases));
    int64_t rows = p->division.count[0] + p->division.count[1];
    size_t bytes = sizeof(float) * (size_t)below->members;
    bool copied = !below->store && cst_size_mul(bytes, (size_t)rows, &bytes) &&
                  cst_size_mul(bytes, (size_t)below->classes, &bytes) &&
                  cst_size_add(bytes, cst_pool_resident(p->whole), &bytes) &&
                  bytes <= cst_context_memory(context) / 8 * 3;
    if (!copied)
        CST_TRY(cst_store_take(context, &to->scope, below->members, below->classes, &to->store));
    for (int32_t k = 0; k < below->members; k++)
        CST_TRY(take_member(context, below, k, copied, to));
    return CST_OK;
}

/* ---- the pool ---- */

/* The pool as it is, with one split more, and empty states of both parts. */
static cst_status make_pool(cst_context *context, cst_pool_parts *p, const char *split) {
    const cst_manifest *m = p->whole->manifest;
    p->name = cst_take_format(context, &p->scope, "held-out rows of %s", split);
    if (!p->name)
        return CST_ERROR_MEMORY;
    CST_TRY(
        cst_manifest_with_split(context, &p->scope, m, p->division.split, p->name, &p->manifest));
    p->pool = *p->whole;
    p->pool.scope = (cst_scope){0};
    p->pool.manifest = &p->manifest;
    p->pool.division = &p->division;
    CST_TAKE(context, &p->scope, p->pool.splits, m->split_count + 1);
    p->division.held = m->split_count;
    memcpy(p->pool.splits, p->whole->splits, (size_t)m->split_count * sizeof *p->pool.splits);
    const int32_t parts[] = {p->division.split, p->division.held};
    for (int part = 0; part < 2; part++)
        CST_TRY(cst_pool_split_create(context, &p->scope, m->member_count,
                                      &p->pool.splits[parts[part]]));
    return CST_OK;
}

static cst_status divide(cst_context *context, cst_pool_parts *p, const char *split) {
    bool rows = p->whole->task != CST_TASK_DETECTION;
    if (p->division.split < 0)
        return cst_fail_split(context, CST_ERROR_ARGUMENT, p->whole, split);
    if (rows) {
        CST_TRY(cst_pool_load(context, p->whole, split));
        CST_TRY(cst_pool_need_all(context, p->whole, split));
        CST_TRY(choose_rows(context, p, split));
    }
    CST_TRY(make_pool(context, p, split));
    for (int part = 0; rows && part < 2; part++)
        CST_TRY(make_part(context, p, split, part,
                          &p->pool.splits[part ? p->division.held : p->division.split]));
    return CST_OK;
}

cst_status cst_pool_divide(cst_context *context, cst_pool *whole, const char *split, double share,
                           uint64_t seed, cst_pool_parts **out) {
    cst_pool_parts *p = cst_alloc(context, 1, sizeof *p);
    *out = p;
    if (!p)
        return CST_ERROR_MEMORY;
    p->whole = whole;
    p->division = (cst_division){.split = cst_manifest_find_split(whole->manifest, split),
                                 .share = share,
                                 .seed = seed,
                                 .whole = whole,
                                 .scope = &p->scope};
    cst_status status = divide(context, p, split);
    if (status != CST_OK) {
        cst_pool_parts_free(context, p);
        *out = NULL;
    }
    return status;
}

void cst_pool_parts_free(cst_context *context, cst_pool_parts *parts) {
    if (!parts)
        return;
    cst_pool_split *splits = parts->pool.splits;
    for (int32_t s = 0; splits && s <= parts->division.held; s++)
        if (s != parts->division.split && s != parts->division.held)
            parts->whole->splits[s] = splits[s];
        else
            cst_pool_split_clear(context, &splits[s]);
    cst_scope_free(&parts->pool.scope);
    cst_scope_free(&parts->scope);
    cst_free(context, parts);
}
