/* The order of a split's rows: how many there are, by the headers of all files first, since a small
 * file can claim many, and which row of the split an id is. Every file of a split is joined through
 * these. docs/method.md#s0-rows-folds-ids and docs/reliability.md. */
#include "data/pool/state.h"
#include "data/readers/cases.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Rounding of labels that were written as text. */
static const double TRUTH_TOLERANCE = 1e-3;

/* ---- what headers claim ---- */

/* The length that `path` (NULL: none) says it has along `axis`. */
static cst_status compare(cst_context *context, const cst_pool *pool, cst_pool_split *split,
                          const char *path, int axis) {
    int64_t rows = -1;
    cst_row_source source;
    if (!path)
        return CST_OK;
    CST_TRY(cst_pool_source(context, pool, path, &source));
    if (!source.parts && cst_is_folder(path))
        return CST_OK;
    CST_TRY(cst_row_claim_read(context, &source, axis, &rows));
    CST_TRY(cst_row_claim_check(context, path, rows, &split->claim));
    if (split->claim.rows < 0 && rows >= 0)
        split->claim = (cst_row_claim){.rows = rows, .where = path};
    return CST_OK;
}

cst_status cst_pool_compare_claims(cst_context *context, cst_pool *pool, int32_t split,
                                   const int32_t *members, int32_t count) {
    cst_pool_split *state = &pool->splits[split];
    const cst_manifest_split *spec = &pool->manifest->splits[split];
    const char *const paths[] = {spec->labels,  spec->ids,     spec->folds, spec->groups,
                                 spec->weights, spec->domains, spec->order};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        CST_TRY(compare(context, pool, state, paths[i], 0));
    for (int32_t i = 0; i < count; i++) {
        const cst_manifest_member *member = &pool->manifest->members[members[i]];
        CST_TRY(compare(context, pool, state, member->paths[split], spec->condition_count > 0));
        CST_TRY(compare(context, pool, state, member->ids[split], 0));
    }
    return CST_OK;
}

/* ---- rows and ids ---- */

cst_status cst_pool_set_rows(cst_context *context, cst_pool_split *split, int64_t rows,
                             const char *where) {
    if (rows < 1)
        return cst_fail(context, CST_ERROR_INPUT, "%s: has no rows; at least one is needed", where);
    if (split->rows < 0) {
        split->rows_source = cst_take_text(context, &split->scope, where);
        if (!split->rows_source)
            return CST_ERROR_MEMORY;
        split->rows = rows;
    }
    if (rows == split->rows)
        return CST_OK;
    return cst_fail(context, CST_ERROR_MISMATCH,
                    "%s: has %" PRId64 " rows, but %s has %" PRId64
                    "; give sample ids if they are not the same samples",
                    where, rows, split->rows_source, split->rows);
}

/* `ids` become the order that other files are joined to. */
static cst_status adopt(cst_context *context, cst_pool_split *split, const cst_strings *ids,
                        const char *where, bool anchor) {
    cst_row_order *order = &split->order;
    CST_TRY(cst_pool_set_rows(context, split, ids->count, where));
    order->where = cst_take_text(context, &split->scope, where);
    if (!order->where)
        return CST_ERROR_MEMORY;
    CST_TRY(cst_strings_copy(context, &split->scope, ids, &order->ids));
    order->anchored = anchor;
    return cst_id_index_take(context, &split->scope, &order->index, order->ids, order->where);
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

cst_status cst_pool_order(cst_context *context, cst_scope *scope, cst_pool_split *split,
                          const cst_strings *ids, const char *where, cst_joining joining,
                          int64_t **places) {
    const cst_row_order *order = &split->order;
    bool anchor = joining == CST_JOIN_ANCHOR;
    *places = NULL;
    if (!anchor && split->labels_path && !order->anchored) {
        if (are_row_numbers(context, ids))
            return cst_pool_set_rows(context, split, ids->count, where);
        /* which label is whose would be a guess */
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: has sample ids, but the labels in %s have no ids to match them with; "
                        "give ids for the labels (--ids, \"ids\" of the split in a manifest, or an "
                        "id column next to the labels), or remove the ids from this file",
                        where, split->labels_path);
    }
    if (!order->index)
        return adopt(context, split, ids, where, anchor);
    if (!ids->rounded && ids->count == order->ids->count && ids->used == order->ids->used &&
        memcmp(ids->bytes, order->ids->bytes, ids->used) == 0)
        return CST_OK;
    CST_NEW(context, scope, int64_t, rows, ids->count);
    CST_TRY(cst_id_join(context, order->index, ids, where, joining == CST_JOIN_PARTIAL, rows));
    for (int64_t i = 0; !order->anchored && i < ids->count; i++) {
        char quoted[CST_QUOTE_CHARS];
        cst_trim_item(context, i);
        if (rows[i] != i)
            return cst_fail(context, CST_ERROR_MISMATCH,
                            "%s: id '%s' is in row %" PRId64 ", but in row %" PRId64
                            " of %s, and the split has no labels that define the order; give an "
                            "ids file for the split",
                            where, cst_quote(quoted, cst_strings_at(ids, i)), i, rows[i],
                            order->where);
    }
    *places = rows;
    return CST_OK;
}

cst_status cst_pool_read_ordered(cst_context *context, cst_scope *scope, const cst_pool *pool,
                                 cst_pool_split *split, const char *path, const cst_table_ask *ask,
                                 cst_joining joining, cst_column *column, int64_t **places) {
    cst_row_source source;
    *places = NULL;
    CST_TRY(cst_pool_source(context, pool, path, &source));
    CST_TRY(cst_column_read(context, scope, column, &source, ask, &split->claim));
    if (column->ids)
        CST_TRY(cst_pool_order(context, scope, split, column->ids, path, joining, places));
    return cst_pool_set_rows(context, split, column->count, path);
}

cst_status cst_pool_order_rows(cst_context *context, cst_scope *scope, cst_pool_split *split,
                               cst_row_file *rows, cst_joining joining, int64_t **places) {
    cst_strings *ids = NULL;
    *places = NULL;
    CST_TRY(cst_row_file_scan(context, scope, rows, &split->claim, &ids));
    if (ids)
        CST_TRY(cst_pool_order(context, scope, split, ids, rows->path, joining, places));
    return cst_pool_set_rows(context, split, rows->row_count, rows->path);
}

/* ---- labels that a member's table holds: a file of other rows, or in another order, shows ---- */

/* Whether text is the label, or about the target, of a row. */
static bool is_truth(const cst_pool *pool, const cst_pool_split *split, const char *text,
                     int64_t row) {
    const double *targets = split->beside.targets;
    int32_t label = targets ? 0 : split->beside.labels[row];
    int64_t value = 0;
    if (pool->unlabelled && (!*text || label < 0))
        return true;
    if (targets)
        return cst_csv_is_number(text) && fabs(cst_strtod(text, NULL) - targets[row]) <=
                                              TRUTH_TOLERANCE * fmax(1, fabs(targets[row]));
    if (pool->class_index && cst_id_index_find(pool->class_index, text) == label)
        return true;
    return cst_text_integer(text, &value) && value == label;
}

cst_status cst_pool_check_truth(cst_context *context, const cst_pool *pool,
                                const cst_pool_split *split, cst_row_file *rows,
                                const int64_t *places) {
    const cst_beside *beside = &split->beside;
    const cst_table *table = rows->table;
    bool end = false;
    if (!table || table->truth_column < 0 || !split->labels_path ||
        !(beside->labels || (beside->targets && pool->classes == 1)))
        return CST_OK;
    CST_TRY(cst_row_file_rewind(context, rows));
    for (int64_t row = 0; row < rows->row_count; row++) {
        int64_t place = places ? places[row] : row;
        char quoted[CST_QUOTE_CHARS];
        char called[CST_QUOTE_CHARS];
        char ours[48];
        CST_TRY(cst_csv_next(context, table->csv, &end));
        if (end)
            break;
        const char *text = cst_csv_cell(table->csv, table->truth_column);
        if (is_truth(pool, split, text, place))
            continue;
        if (beside->targets)
            (void)cst_snprintf(ours, sizeof ours, "%.9g", beside->targets[place]);
        else
            (void)cst_snprintf(ours, sizeof ours, "%d", (int)beside->labels[place]);
        const char *file = cst_row_parts_find(&rows->parts, rows->path, &row);
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s: row %" PRId64 " (line %" PRId64
                        ") has '%s' in column '%s', but the label of "
                        "that row is %s in %s; are the rows in another order, or other rows? Give "
                        "ids, or remove the column",
                        file, row, table->csv->record_line, cst_quote(quoted, text),
                        cst_quote(called, cst_strings_at(table->names, table->truth_column)), ours,
                        split->labels_path);
    }
    return cst_row_file_rewind(context, rows);
}
