/* Rows by which members predicted them. docs/prediction.md#absent-members. */
#include "model/patterns.h"

#include <string.h>

/* Rows handed on at a time. */
enum { PART_ROWS = 16 * CST_BLOCK_ROWS };

bool cst_view_has_absent(const cst_view *view) {
    bool absent = view->presence != NULL;
    for (int32_t k = 0; k < view->members; k++)
        absent = absent || !view->data[k];
    return absent;
}

typedef struct patterns {
    const cst_view *view;
    const uint8_t **present; /* [members] */
    int64_t *first;          /* [rows]: a row of each pattern */
    int64_t *start;          /* [rows + 1]: of each pattern in `sorted` */
    int64_t *sorted;         /* [rows]: rows by pattern, each ascending */
    int64_t count;
} patterns;

static bool is_there(const patterns *p, int32_t k, int64_t row) {
    return p->view->data[k] && cst_view_is_there(p->view, p->present[k], row);
}

static bool same_pattern(const patterns *p, int64_t a, int64_t b) {
    for (int32_t k = 0; k < p->view->members; k++)
        if (is_there(p, k, a) != is_there(p, k, b))
            return false;
    return true;
}

static uint64_t hash_of(const patterns *p, int64_t row) {
    uint64_t hash = 0xcbf29ce484222325U;
    for (int32_t k = 0; k < p->view->members; k++)
        hash = (hash ^ (is_there(p, k, row) ? 2U : 1U)) * 0x100000001b3U;
    return hash ^ hash >> 29;
}

/* The pattern of each row, numbered by first appearance. table: [size], a power of 2, of a pattern
 * plus 1. */
static void number_rows(patterns *p, int64_t *table, size_t size, int64_t *number) {
    for (int64_t row = 0; row < p->view->rows; row++) {
        size_t at = (size_t)hash_of(p, row) & (size - 1);
        while (table[at] > 0 && !same_pattern(p, p->first[table[at] - 1], row))
            at = (at + 1) & (size - 1);
        if (table[at] == 0) {
            p->first[p->count++] = row;
            table[at] = p->count;
        }
        number[row] = table[at] - 1;
    }
}

static cst_status find_patterns(cst_context *context, cst_scope *made, const cst_view *view,
                                patterns *p) {
    int64_t rows = view->rows;
    size_t size = 16;
    while (size < 2 * (size_t)rows)
        size *= 2;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, table, size);
    CST_NEW(context, scope, int64_t, number, rows);
    *p = (patterns){.view = view};
    CST_TAKE(context, made, p->present, view->members);
    CST_TAKE(context, made, p->first, rows);
    CST_TAKE(context, made, p->start, rows + 1);
    CST_TAKE(context, made, p->sorted, rows);
    for (int32_t k = 0; k < view->members; k++)
        p->present[k] = cst_view_present(view, k);
    number_rows(p, table, size, number);
    for (int64_t i = 0; i < rows; i++)
        p->start[number[i] + 1]++;
    for (int64_t i = 0; i < p->count; i++)
        p->start[i + 1] += p->start[i];
    memset(table, 0, (size_t)p->count * sizeof *table); /* rows of each that are sorted */
    for (int64_t i = 0; i < rows; i++)
        p->sorted[p->start[number[i]] + table[number[i]]++] = i;
    return CST_OK;
}

/* Memory that one pattern is handed on with. */
typedef struct part_memory {
    uint8_t *there;     /* [members] */
    const float **data; /* [members] */
    int64_t *index;     /* [PART_ROWS] */
} part_memory;

static cst_status nobody(cst_context *context, const cst_view *view, int64_t row) {
    return cst_fail(context, CST_ERROR_INPUT,
                    "row %lld: no member of the model predicted it, so the model cannot; at least "
                    "one member is needed",
                    (long long)(view->index ? view->index[row] : row));
}

/* The model for one pattern: the whole one, or that of the room. */
static cst_status model_for(cst_context *context, const cst_model *model, const patterns *p,
                            int64_t pattern, bool strict, cst_room *room, part_memory *m,
                            const cst_model **out, int32_t *members) {
    int64_t row = p->first[pattern];
    int32_t there = 0;
    int32_t filled = 0;
    for (int32_t k = 0; k < p->view->members; k++) {
        m->there[k] = is_there(p, k, row);
        filled += p->view->data[k] != NULL;
        if (m->there[k])
            m->data[there++] = p->view->data[k];
    }
    *out = model;
    *members = p->view->members;
    if (there == 0 && (strict || filled < p->view->members))
        return nobody(context, p->view, row);
    if (there == 0 || there == p->view->members) {
        memcpy(m->data, p->view->data, (size_t)p->view->members * sizeof *m->data);
        return CST_OK;
    }
    CST_TRY(cst_room_fill(context, room, m->there));
    cst_room_tell(context, room);
    *out = &room->model;
    *members = there;
    return CST_OK;
}

static cst_status run_pattern(cst_context *context, const patterns *p, int64_t pattern,
                              const cst_model *model, int32_t members, const part_memory *m,
                              cst_pattern_fn fn, void *user) {
    int64_t end = p->start[pattern + 1];
    for (int64_t at = p->start[pattern]; at < end; at += PART_ROWS) {
        int64_t count = end - at < PART_ROWS ? end - at : PART_ROWS;
        const int64_t *positions = p->sorted + at;
        for (int64_t i = 0; i < count; i++)
            m->index[i] = p->view->index ? p->view->index[positions[i]] : positions[i];
        cst_view part = *p->view;
        part.rows = count;
        part.index = m->index;
        part.members = members;
        part.data = m->data;
        part.presence = NULL;
        CST_TRY(fn(context, user, model, &part, positions));
    }
    return CST_OK;
}

cst_status cst_for_patterns(cst_context *context, const cst_model *model, const cst_view *view,
                            bool strict, cst_pattern_fn fn, void *user) {
    patterns p;
    part_memory m;
    cst_room room = {0};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, m.there, view->members);
    CST_TAKE(context, scope, m.data, view->members);
    CST_TAKE(context, scope, m.index, PART_ROWS);
    CST_TRY(find_patterns(context, scope, view, &p));
    cst_status status = cst_room_make(context, model, &room);
    for (int64_t i = 0; status == CST_OK && i < p.count; i++) {
        const cst_model *part = NULL;
        int32_t count = 0;
        status = model_for(context, model, &p, i, strict, &room, &m, &part, &count);
        CST_THEN(run_pattern(context, &p, i, part, count, &m, fn, user));
    }
    cst_room_free(&room);
    return status;
}

void cst_put_rows(const float *from, const int64_t *positions, int64_t count, int32_t classes,
                  float *to) {
    for (int64_t i = 0; i < count; i++)
        memcpy(to + positions[i] * classes, from + i * classes, (size_t)classes * sizeof *to);
}
