/*
 * The order of a split's rows: how many there are, which row of the split an id is. Every file of a
 * split is joined through these. docs/method.md#s0-rows-folds-ids.
 */
#include "data/pool/state.h"

#include <inttypes.h>
#include <string.h>

cst_status cst_pool_set_rows(cst_context *context, cst_pool_split *split, int64_t rows,
                             const char *where) {
    if (rows < 1)
        return cst_fail(context, CST_ERROR_INPUT, "%s: has no rows; at least one is needed", where);
    if (split->rows < 0) {
        split->rows_source = cst_strdup(context, where);
        if (!split->rows_source)
            return CST_ERROR_MEMORY;
        split->rows = rows;
    }
    if (rows != split->rows)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: has %" PRId64 " rows, but %s has %" PRId64
                        "; give sample ids if they are not the same samples",
                        where, rows, split->rows_source, split->rows);
    return CST_OK;
}

/* `ids` become the order that other files are joined to. */
static cst_status adopt(cst_context *context, cst_pool_split *split, cst_strings **ids,
                        const char *where, bool anchor) {
    cst_status status = cst_pool_set_rows(context, split, (*ids)->count, where);
    if (status == CST_OK) {
        split->ids_where = cst_strdup(context, where);
        status = split->ids_where ? CST_OK : CST_ERROR_MEMORY;
    }
    if (status != CST_OK)
        return status;
    split->ids = *ids; /* from here on the split frees them */
    *ids = NULL;
    split->anchored = anchor;
    return cst_id_index_create(context, &split->index, split->ids, split->ids_where);
}

/* Whether the ids are 0, 1, 2, ... in this order, as a data frame writes its index: they say no
 * more than the positions do. */
static bool are_row_numbers(cst_context *context, const cst_strings *ids) {
    for (int64_t i = 0; i < ids->count; i++) {
        char number[24];
        cst_trim_item(context, i);
        (void)cst_snprintf(number, sizeof number, "%" PRId64, i);
        if (strcmp(cst_strings_at(ids, i), number) != 0)
            return false;
    }
    return true;
}

/* Ids of a file say nothing where the labels have none: which label is whose would be a guess. */
static cst_status labels_lack_ids(cst_context *context, const cst_pool_split *split,
                                  const char *where) {
    return cst_fail(context, CST_ERROR_MISMATCH,
                    "%s: has sample ids, but the labels in %s have no ids to match them with; give "
                    "ids for the labels (--ids, \"ids\" of the split in a manifest, or an id "
                    "column next to the labels), or remove the ids from this file",
                    where, split->labels_path);
}

static cst_status order(cst_context *context, cst_pool_split *split, cst_strings **ids,
                        const char *where, bool anchor, bool partial, int64_t **places) {
    *places = NULL;
    if (!anchor && split->labels_path && !split->anchored)
        return are_row_numbers(context, *ids)
                   ? cst_pool_set_rows(context, split, (*ids)->count, where)
                   : labels_lack_ids(context, split, where);
    if (!split->index)
        return adopt(context, split, ids, where, anchor);
    int64_t *rows = cst_alloc(context, (size_t)(*ids)->count, sizeof *rows);
    if (!rows)
        return CST_ERROR_MEMORY;
    cst_status status = cst_id_join(context, split->index, *ids, where, partial, rows);
    for (int64_t i = 0; status == CST_OK && !split->anchored && i < (*ids)->count; i++) {
        char quoted[CST_QUOTE_CHARS];
        cst_trim_item(context, i);
        if (rows[i] != i)
            status = cst_fail(context, CST_ERROR_MISMATCH,
                              "%s: id '%s' is in row %" PRId64 ", but in row %" PRId64
                              " of %s, and the split has no labels that define the order; give an "
                              "ids file for the split",
                              where, cst_quote(quoted, cst_strings_at(*ids, i)), i, rows[i],
                              split->ids_where);
    }
    if (status != CST_OK) {
        cst_free(context, rows);
        return status;
    }
    *places = rows;
    return CST_OK;
}

cst_status cst_pool_order(cst_context *context, cst_pool_split *split, cst_strings **ids,
                          const char *where, bool anchor, int64_t **places) {
    return order(context, split, ids, where, anchor, false, places);
}

cst_status cst_pool_order_member(cst_context *context, cst_pool_split *split, cst_strings **ids,
                                 const char *where, bool partial, int64_t **places) {
    return order(context, split, ids, where, false, partial, places);
}

cst_status cst_pool_read_ordered(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                                 const char *path, const cst_table_ask *ask, bool anchor,
                                 cst_column *column, int64_t **places) {
    *places = NULL;
    memset(column, 0, sizeof *column);
    cst_status status = cst_manifest_confine(context, pool->manifest, path);
    cst_row_source source = cst_pool_source(pool, path);
    CST_THEN(cst_column_read_source(context, column, &source, ask, &split->claim));
    if (status == CST_OK && column->ids)
        status = cst_pool_order(context, split, &column->ids, path, anchor, places);
    CST_THEN(cst_pool_set_rows(context, split, column->count, path));
    if (status != CST_OK) {
        cst_free(context, *places);
        *places = NULL;
        cst_column_clear(context, column);
    }
    return status;
}
