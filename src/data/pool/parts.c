/* The parts of a divided split. See the header. */
#include "data/pool/parts.h"

#include "data/pool/divide.h"
#include "data/pool/folds.h"
#include "data/pool/spatial.h"
#include "data/pool/weighted_rows.h"

#include <string.h>

struct cst_pool_parts {
    cst_pool pool; /* borrows what the whole has */
    cst_manifest manifest;
    cst_division division;
    char *name; /* of the rows held out */
    int64_t *rows[2];
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
    cst_free(context, division->held_units);
    division->held_count = 0;
    division->held_units = cst_alloc(context, (size_t)total, sizeof *division->held_units);
    if (!division->held_units)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < count; i++)
        if (held[i])
            division->held_units[division->held_count++] = names ? names[i] : i;
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
static cst_status make_strata(cst_context *context, const cst_view *view, const int64_t *groups,
                              double share, int32_t **own, cst_units *units) {
    if (view->labels || !view->targets) {
        units->strata = view->labels;
        units->classes = view->labels != NULL;
        return CST_OK;
    }
    double smaller = share < 0.5 ? share : 1 - share;
    double count = (double)view->rows * smaller / 2; /* two rows of a stretch are held out */
    int32_t most = groups ? CST_GROUP_STRETCHES : INT32_MAX / 2;
    *own = cst_alloc(context, (size_t)view->rows, sizeof **own);
    units->strata = *own;
    return *own ? cst_target_stretches(context, view->targets, view->classes, view->rows,
                                       count > most ? most : (int32_t)count, *own)
                : CST_ERROR_MEMORY;
}

/* Of rows that count: held [rows of the split] with 1 for those held out, 2 for those that are in
 * neither part. */
static cst_status draw_rows(cst_context *context, cst_pool_parts *p, const char *split,
                            uint8_t *held) {
    cst_counted counted = {0};
    cst_units units = {.split = split, .unit = "rows"};
    int32_t *stretches = NULL;
    cst_status status = cst_counted_open(context, p->whole, split, NULL, 0, &counted);
    if (status != CST_OK)
        return status;
    units.count = counted.samples;
    units.groups = counted.groups;
    bool *drawn = cst_alloc(context, (size_t)units.count, sizeof *drawn);
    status = drawn ? make_strata(context, &counted.view, units.groups, p->division.share,
                                 &stretches, &units)
                   : CST_ERROR_MEMORY;
    CST_THEN(cst_divide(context, &units, p->division.share, p->division.seed, drawn));
    CST_THEN(cst_division_note(context, &p->division, drawn, counted.rows, units.count));
    if (status == CST_OK) {
        memset(held, 2, (size_t)cst_pool_rows(p->whole, split));
        for (int64_t i = 0; i < units.count; i++)
            held[counted.rows ? counted.rows[i] : i] = drawn[i];
    }
    cst_free(context, drawn);
    cst_free(context, stretches);
    cst_counted_close(context, &counted);
    return status;
}

/* Of the pixels of whole cases. */
static cst_status draw_cases(cst_context *context, cst_pool_parts *p, const char *split,
                             const cst_cases *cases, uint8_t *held) {
    const cst_units units = {
        .split = split, .unit = "cases", .count = cases->count, .groups = cases->groups};
    bool *drawn = cst_alloc(context, (size_t)cases->count, sizeof *drawn);
    cst_status status =
        drawn ? cst_divide(context, &units, p->division.share, p->division.seed, drawn)
              : CST_ERROR_MEMORY;
    CST_THEN(cst_division_note(context, &p->division, drawn, NULL, cases->count));
    for (int64_t c = 0; status == CST_OK && c < cases->count; c++)
        memset(held + cases->first[c], drawn[c], (size_t)(cases->first[c + 1] - cases->first[c]));
    cst_free(context, drawn);
    return status;
}

static cst_status choose_rows(cst_context *context, cst_pool_parts *p, const char *split) {
    int64_t rows = cst_pool_rows(p->whole, split);
    const cst_cases *cases = cst_pool_cases(p->whole, split);
    if (cst_pool_conditions(p->whole, split) > 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "split '%s' has several conditions of the same samples, and rows can be "
                        "held out of a split without conditions only",
                        split);
    uint8_t *held = cst_alloc(context, (size_t)rows, sizeof *held);
    cst_status status = held ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cases ? draw_cases(context, p, split, cases, held)
                   : draw_rows(context, p, split, held));
    for (int part = 0; status == CST_OK && part < 2; part++) {
        int64_t count = 0;
        for (int64_t i = 0; i < rows; i++)
            count += held[i] == part;
        int64_t *index = cst_alloc(context, (size_t)count, sizeof *index);
        p->rows[part] = index;
        if (!index) {
            status = CST_ERROR_MEMORY;
            break;
        }
        count = 0;
        for (int64_t i = 0; i < rows; i++)
            if (held[i] == part)
                index[count++] = i;
        p->division.rows[part] = index;
        p->division.count[part] = count;
    }
    cst_free(context, held);
    return status;
}

/* ---- the state of a part ---- */

static cst_status take_cases(cst_context *context, const cst_cases *from, const int64_t *rows,
                             int64_t count, cst_cases **out) {
    size_t room = (size_t)from->count;
    cst_cases *to = cst_alloc(context, 1, sizeof *to);
    *out = to;
    if (!to)
        return CST_ERROR_MEMORY;
    *to = (cst_cases){.volumes = from->volumes, .uniform = from->uniform};
    to->where = cst_strdup(context, from->where);
    to->shape = cst_alloc(context, room, sizeof *to->shape);
    to->first = cst_alloc(context, room + 1, sizeof *to->first);
    to->folds = from->folds ? cst_alloc(context, room, sizeof *to->folds) : NULL;
    to->groups = from->groups ? cst_alloc(context, room, sizeof *to->groups) : NULL;
    int64_t *numbers = cst_alloc(context, room, sizeof *numbers);
    bool there = to->where && to->shape && to->first && numbers && (!from->folds || to->folds) &&
                 (!from->groups || to->groups);
    cst_status status = there ? cst_strings_create(context, &to->names) : CST_ERROR_MEMORY;
    for (int64_t c = 0, at = 0; status == CST_OK && c < from->count; c++) {
        char number[CST_CASE_CHARS];
        if (at == count || rows[at] != from->first[c])
            continue;
        int64_t pixels = from->first[c + 1] - from->first[c];
        int64_t i = to->count++;
        const char *name = cst_case_name(from, c, number);
        memcpy(to->shape[i], from->shape[c], sizeof *to->shape);
        to->first[i + 1] = to->first[i] + pixels;
        numbers[i] = from->folds ? from->folds[c] : 0;
        if (from->groups)
            to->groups[i] = from->groups[c];
        at += pixels;
        status = cst_strings_add(context, to->names, name, strlen(name));
    }
    if (status == CST_OK && from->folds)
        status = cst_pool_renumber(context, numbers, NULL, to->count, to->folds);
    cst_free(context, numbers);
    return status;
}

/* One member's predictions: copied where there is room in memory, else read from the whole's. */
static cst_status take_member(cst_context *context, const cst_view *below, int32_t member,
                              bool copied, cst_pool_split *to) {
    size_t values = 0;
    if (!below->data[member])
        return CST_OK;
    if (!copied) {
        cst_status status = cst_store_take_around(context, to->store, below, member);
        if (status == CST_OK)
            to->data[member] = cst_store_place(to->store, member);
        return status;
    }
    if (!cst_size_mul((size_t)below->rows, (size_t)below->classes, &values))
        return cst_fail(context, CST_ERROR_LIMIT, "too many predictions");
    float *data = cst_alloc(context, values, sizeof *data);
    to->data[member] = data;
    return data ? cst_view_copy(context, below, member, data) : CST_ERROR_MEMORY;
}

static cst_status take_members(cst_context *context, const cst_pool_parts *p, const cst_view *below,
                               cst_pool_split *to) {
    int64_t rows = p->division.count[0] + p->division.count[1];
    size_t bytes = sizeof(float) * (size_t)below->members;
    bool copied = !below->store && cst_size_mul(bytes, (size_t)rows, &bytes) &&
                  cst_size_mul(bytes, (size_t)below->classes, &bytes) &&
                  cst_size_add(bytes, cst_pool_resident(p->whole), &bytes) &&
                  bytes <= cst_context_memory(context) / 8 * 3;
    cst_status status =
        copied ? CST_OK : cst_store_create(context, below->members, below->classes, &to->store);
    for (int32_t k = 0; status == CST_OK && k < below->members; k++) {
        const uint8_t *present = cst_view_present(below, k);
        status = take_member(context, below, k, copied, to);
        if (status != CST_OK || !present)
            continue;
        to->present[k] = cst_alloc(context, (size_t)below->rows, sizeof **to->present);
        if (!to->present[k])
            return CST_ERROR_MEMORY;
        for (int64_t i = 0; i < below->rows; i++)
            to->present[k][i] = present[below->index[i]];
        cst_pool_settle_present(context, to, k, (size_t)below->rows);
    }
    return status;
}

/* What stands beside the predictions. */
static cst_status take_beside(cst_context *context, const cst_pool_split *from,
                              const cst_view *below, cst_pool_split *to) {
    size_t rows = (size_t)below->rows;
    size_t outputs = (size_t)below->classes;
    int64_t *numbers = cst_alloc(context, from->folds ? rows : 0, sizeof *numbers);
    to->labels = from->labels ? cst_alloc(context, rows, sizeof *to->labels) : NULL;
    to->targets = from->targets ? cst_alloc(context, rows * outputs, sizeof *to->targets) : NULL;
    to->folds = from->folds ? cst_alloc(context, rows, sizeof *to->folds) : NULL;
    to->groups = from->groups ? cst_alloc(context, rows, sizeof *to->groups) : NULL;
    to->weights = from->weights ? cst_alloc(context, rows, sizeof *to->weights) : NULL;
    bool there = numbers && (!from->labels || to->labels) && (!from->targets || to->targets) &&
                 (!from->folds || to->folds) && (!from->groups || to->groups) &&
                 (!from->weights || to->weights);
    cst_status status = there ? CST_OK : CST_ERROR_MEMORY;
    for (size_t i = 0; there && i < rows; i++) {
        size_t row = (size_t)below->index[i];
        if (from->labels)
            to->labels[i] = from->labels[row];
        if (from->targets)
            memcpy(to->targets + i * outputs, from->targets + row * outputs,
                   outputs * sizeof *to->targets);
        if (from->folds)
            numbers[i] = from->folds[row];
        if (from->groups)
            to->groups[i] = from->groups[row];
        if (from->weights)
            to->weights[i] = from->weights[row];
    }
    if (status == CST_OK && from->domains)
        status = cst_domains_take(context, from->domains, below->index, below->rows, &to->domains);
    if (status == CST_OK && from->folds)
        status = cst_pool_renumber(context, numbers, NULL, below->rows, to->folds);
    if (status == CST_OK && from->cases)
        status = take_cases(context, from->cases, below->index, below->rows, &to->cases);
    cst_free(context, numbers);
    return status;
}

static cst_status make_part(cst_context *context, cst_pool_parts *p, const char *split, int part,
                            cst_pool_split *to) {
    const cst_pool_split *from = &p->whole->splits[p->division.split];
    cst_view *below = &p->below[part];
    cst_status status = cst_pool_view(context, p->whole, split, below);
    below->index = p->rows[part];
    below->rows = p->division.count[part];
    to->described = true;
    to->rows = below->rows;
    to->labels_path = from->labels_path;
    CST_THEN(take_beside(context, from, below, to));
    CST_THEN(take_members(context, p, below, to));
    return status;
}

/* ---- the pool ---- */

static cst_status make_state(cst_context *context, int32_t members, cst_pool_split *out) {
    *out = (cst_pool_split){.rows = -1, .claim.rows = -1};
    out->data = cst_alloc(context, (size_t)members, sizeof(float *));
    out->present = cst_alloc(context, (size_t)members, sizeof(uint8_t *));
    out->presence = (cst_presence){.count = members, .data = out->data, .present = out->present};
    return out->data && out->present ? CST_OK : CST_ERROR_MEMORY;
}

/* The pool as it is, with one split more, and empty states of both parts. */
static cst_status make_pool(cst_context *context, cst_pool_parts *p, const char *split) {
    const cst_manifest *m = p->whole->manifest;
    int32_t members = m->member_count;
    p->name = cst_format(context, "held-out rows of %s", split);
    if (!p->name)
        return CST_ERROR_MEMORY;
    cst_status status =
        cst_manifest_with_split(context, m, p->division.split, p->name, &p->manifest);
    if (status != CST_OK)
        return status;
    p->division.held = m->split_count;
    p->pool = *p->whole;
    p->pool.manifest = &p->manifest;
    p->pool.division = &p->division;
    p->pool.splits = cst_alloc(context, (size_t)m->split_count + 1, sizeof *p->pool.splits);
    if (!p->pool.splits)
        return CST_ERROR_MEMORY;
    memcpy(p->pool.splits, p->whole->splits, (size_t)m->split_count * sizeof *p->pool.splits);
    status = make_state(context, members, &p->pool.splits[p->division.split]);
    CST_THEN(make_state(context, members, &p->pool.splits[p->division.held]));
    return status;
}

cst_status cst_pool_divide(cst_context *context, cst_pool *whole, const char *split, double share,
                           uint64_t seed, cst_pool_parts **out) {
    cst_pool_parts *p = cst_alloc(context, 1, sizeof *p);
    *out = p;
    if (!p)
        return CST_ERROR_MEMORY;
    int32_t at = cst_manifest_find_split(whole->manifest, split);
    p->whole = whole;
    p->division = (cst_division){.split = at, .share = share, .seed = seed, .whole = whole};
    cst_status status = at < 0 ? cst_fail_split(context, CST_ERROR_ARGUMENT, whole, split) : CST_OK;
    bool rows = whole->task != CST_TASK_DETECTION;
    if (rows) {
        CST_THEN(cst_pool_load(context, whole, split));
        CST_THEN(cst_pool_need_all(context, whole, split));
        CST_THEN(choose_rows(context, p, split));
    }
    CST_THEN(make_pool(context, p, split));
    for (int part = 0; rows && status == CST_OK && part < 2; part++)
        status = make_part(context, p, split, part,
                           &p->pool.splits[part ? p->division.held : p->division.split]);
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
    for (int32_t s = 0; splits && s <= parts->division.held; s++) {
        if (s != parts->division.split && s != parts->division.held) {
            parts->whole->splits[s] = splits[s];
            continue;
        }
        cst_pool_split_clear(context, &parts->pool, &splits[s]);
        cst_free(context, splits[s].data);
        cst_free(context, splits[s].present);
    }
    cst_free(context, splits);
    cst_manifest_without_split(context, &parts->manifest);
    cst_free(context, parts->rows[0]);
    cst_free(context, parts->rows[1]);
    cst_free(context, parts->division.held_units);
    cst_free(context, parts->name);
    cst_free(context, parts);
}
