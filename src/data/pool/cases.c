/* Cases of a segmentation split: their names, shapes and rows, folds and groups.
 * docs/segmentation.md#files. */
#include "data/readers/cases.h"
#include "data/pool/spatial.h"

#include <inttypes.h>
#include <string.h>

const cst_cases *cst_pool_cases(const cst_pool *pool, const char *split) {
    int32_t s = pool && split ? cst_manifest_find_split(pool->manifest, split) : -1;
    return s >= 0 ? pool->splits[s].cases : NULL;
}

const char *cst_case_name(const cst_cases *cases, int64_t index, char buffer[CST_CASE_CHARS]) {
    if (cases->names)
        return cst_strings_at(cases->names, index);
    (void)cst_snprintf(buffer, CST_CASE_CHARS, "%05" PRId64, index);
    return buffer;
}

/* ---- shapes ---- */

/* Where each case begins; the rows of the split. */
static cst_status count_rows(cst_context *context, cst_cases *cases, int64_t *first,
                             int64_t *rows) {
    size_t total = 0;
    cases->uniform = true;
    for (int64_t i = 0; i < cases->count; i++) {
        const int64_t *shape = cases->shape[i];
        size_t pixels = 0;
        bool fits = shape[0] > 0 && shape[1] > 0 && shape[2] > 0;
        if (!fits)
            return cst_fail(context, CST_ERROR_INPUT, "%s: case %" PRId64 " has no pixels",
                            cases->where, i);
        fits = cst_size_mul((size_t)shape[0], (size_t)shape[1], &pixels) &&
               cst_size_mul(pixels, (size_t)shape[2], &pixels) &&
               cst_size_add(total, pixels, &total) && total < INT64_MAX / 8;
        if (!fits)
            return cst_fail(context, CST_ERROR_LIMIT, "%s: too many pixels", cases->where);
        first[i + 1] = (int64_t)total;
        if (memcmp(shape, cases->shape[0], 3 * sizeof *shape) != 0)
            cases->uniform = false;
    }
    *rows = (int64_t)total;
    return CST_OK;
}

cst_status cst_cases_adopt(cst_context *context, cst_pool *pool, int32_t split, const char *where,
                           int64_t count, const int64_t (*shapes)[3], bool volumes,
                           const cst_strings *names) {
    cst_pool_split *state = &pool->splits[split];
    cst_scope *scope = &state->scope;
    cst_cases *cases;
    int64_t(*shape)[3];
    cst_strings *own = NULL;
    int64_t rows = 0;
    if (count < 1)
        return cst_fail(context, CST_ERROR_INPUT, "%s: has no cases; at least one is needed",
                        where);
    CST_TAKE(context, scope, cases, 1);
    CST_TAKE(context, scope, shape, count);
    CST_NEW(context, scope, int64_t, first, count + 1);
    memcpy(shape, shapes, (size_t)count * sizeof *shape);
    if (names)
        CST_TRY(cst_strings_copy(context, scope, names, &own));
    *cases = (cst_cases){.count = count,
                         .volumes = volumes,
                         .names = own,
                         .where = cst_take_text(context, scope, where),
                         .shape = (const int64_t(*)[3])shape,
                         .first = first};
    if (!cases->where)
        return CST_ERROR_MEMORY;
    CST_TRY(count_rows(context, cases, first, &rows));
    CST_TRY(cst_pool_set_rows(context, state, rows, where));
    state->cases = cases;
    return CST_OK;
}

/* ---- pixels ---- */

const char *cst_pixel_in_case(const int64_t shape[3], int64_t pixel, char buffer[CST_WHERE_CHARS]) {
    int64_t plane = shape[1] * shape[2];
    if (shape[0] > 1)
        (void)cst_snprintf(buffer, CST_WHERE_CHARS,
                           "slice %" PRId64 ", row %" PRId64 ", column %" PRId64, pixel / plane,
                           pixel % plane / shape[2], pixel % shape[2]);
    else
        (void)cst_snprintf(buffer, CST_WHERE_CHARS, "row %" PRId64 ", column %" PRId64,
                           pixel / shape[2], pixel % shape[2]);
    return buffer;
}

int64_t cst_case_of(const cst_cases *cases, int64_t row) {
    int64_t low = 0;
    int64_t high = cases->count - 1;
    while (low < high) { /* the last case that begins at the row or before */
        int64_t middle = high - (high - low) / 2;
        if (cases->first[middle] <= row)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

const char *cst_pixel_where(const cst_cases *cases, int64_t row, int64_t value,
                            char buffer[CST_WHERE_CHARS]) {
    char number[CST_CASE_CHARS];
    char place[CST_WHERE_CHARS];
    char class[32] = "";
    int64_t index = cst_case_of(cases, row);
    if (value >= 0)
        (void)cst_snprintf(class, sizeof class, ", class %" PRId64, value);
    const char *name = cst_case_name(cases, index, number);
    (void)cst_snprintf(buffer, CST_WHERE_CHARS, "case %.32s, %.40s%.16s", name,
                       cst_pixel_in_case(cases->shape[index], row - cases->first[index], place),
                       class);
    return buffer;
}

cst_status cst_cases_check_axes(cst_context *context, const cst_npy *npy) {
    char shape[CST_NPY_SHAPE_CHARS];
    for (int d = 1; d < npy->dims; d++)
        if (npy->shape[d] == 0)
            return cst_fail(context, CST_ERROR_INPUT, "%s: has shape %s, which has no pixels",
                            cst_bytes_name(npy->source), cst_npy_shape_text(npy, shape));
    return CST_OK;
}

cst_status cst_cases_read_names(cst_context *context, cst_scope *scope, const cst_pool *pool,
                                const cst_manifest_split *spec, const char *path, int64_t count,
                                cst_strings **out) {
    const cst_row_claim claim = {count, path};
    cst_row_source source;
    *out = NULL;
    if (!spec->ids)
        return CST_OK;
    CST_TRY(cst_pool_source(context, pool, spec->ids, &source));
    CST_TRY(cst_ids_read(context, scope, out, &source, NULL, &claim));
    if ((*out)->count == count)
        return CST_OK;
    return cst_fail(context, CST_ERROR_MISMATCH,
                    "%s: has %" PRId64 " ids, but %s has %" PRId64
                    " cases; for segmentation there is one id per case",
                    spec->ids, (*out)->count, path, count);
}

cst_status cst_cases_refuse_ids(cst_context *context, const cst_manifest_split *spec,
                                const char *path) {
    if (!spec->ids)
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: ids are for the cases of an array, but the cases in %s are named by their "
                    "files; remove the ids",
                    spec->ids, path);
}

cst_status cst_cases_check_counted(cst_context *context, const cst_pool *pool, const char *split) {
    int32_t s = cst_manifest_find_split(pool->manifest, split);
    const cst_pool_split *state = s >= 0 ? &pool->splits[s] : NULL;
    for (int64_t i = 0; state && state->beside.labels && i < state->rows; i++) {
        cst_trim_item(context, i);
        if (state->beside.labels[i] >= 0)
            return CST_OK;
    }
    if (!state || !state->beside.labels)
        return CST_OK;
    return cst_fail(
        context, CST_ERROR_INPUT,
        "%s: every pixel has label %d, which is ignored; correct the masks or \"ignore\"",
        pool->manifest->splits[s].labels ? pool->manifest->splits[s].labels : split, pool->ignore);
}

cst_status cst_cases_read_beside(cst_context *context, const cst_pool *pool, int32_t split) {
    cst_pool_split *state = &pool->splits[split];
    cst_cases *cases = state->cases;
    const cst_manifest_split *spec = &pool->manifest->splits[split];
    cst_pool_split by_case = {.rows = cases->count,
                              .rows_source = cases->where,
                              .claim = {.rows = cases->count, .where = cases->where}};
    cst_row_order *order = &by_case.order;
    cst_scope *scope; /* what the cases get lives as long as they */
    CST_TRY(cst_scope_take(context, &state->scope, &scope));
    if (cases->names) {
        CST_TRY(cst_strings_copy(context, scope, cases->names, &order->ids));
        CST_TRY(cst_id_index_take(context, scope, &order->index, order->ids, cases->where));
        order->where = cases->where;
        order->anchored = true;
    }
    by_case.scope = *scope;
    cst_status status = cst_pool_describe_folds(context, pool, &by_case, spec);
    *scope = by_case.scope;
    CST_TRY(status);
    cases->folds = by_case.beside.folds;
    cases->groups = by_case.beside.groups;
    return CST_OK;
}
