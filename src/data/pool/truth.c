/*
 * Labels that a member's table holds next to its predictions, compared with those of the split: a
 * file of other rows, or in another order, shows there. While a member is loaded.
 * docs/method.md#s0-rows-folds-ids.
 */
#include "data/pool/columns.h"

#include <inttypes.h>
#include <math.h>

/* Rounding of what was written as text. */
static const double TRUTH_TOLERANCE = 1e-3;

/* Whether text is the label of a row. */
static bool is_label(const cst_pool *pool, const char *text, int32_t label) {
    int64_t value = 0;
    if (pool->class_index && cst_id_index_find(pool->class_index, text) == label)
        return true;
    return cst_text_integer(text, &value) && value == label;
}

static bool is_target(const char *text, double target) {
    if (!cst_csv_is_number(text))
        return false;
    return fabs(cst_strtod(text, NULL) - target) <= TRUTH_TOLERANCE * fmax(1, fabs(target));
}

/* Whether labels in a table are about as those of the split, of which the first is at `place`. */
static cst_status compare_row(cst_context *context, const cst_pool *pool,
                              const cst_pool_split *split, const cst_row_file *rows,
                              const char *name, int64_t row, int64_t place) {
    const cst_csv *csv = rows->table->csv;
    const char *text = cst_csv_cell(csv, rows->table->truth_column);
    bool unlabelled = pool->unlabelled && (!*text || split->labels[place] < 0);
    bool same = unlabelled       ? true
                : split->targets ? is_target(text, split->targets[place])
                                 : is_label(pool, text, split->labels[place]);
    char quoted[CST_QUOTE_CHARS];
    char called[CST_QUOTE_CHARS];
    if (same)
        return CST_OK;
    char ours[48];
    if (split->targets)
        (void)cst_snprintf(ours, sizeof ours, "%.9g", split->targets[place]);
    else
        (void)cst_snprintf(ours, sizeof ours, "%d", (int)split->labels[place]);
    const char *file = cst_row_parts_find(&rows->parts, rows->path, &row);
    return cst_fail(context, CST_ERROR_MISMATCH,
                    "%s: row %" PRId64 " (line %" PRId64
                    ") has '%s' in column '%s', but the label of "
                    "that row is %s in %s; are the rows in another order, or other rows? Give ids, "
                    "or remove the column",
                    file, row, cst_csv_line(csv), cst_quote(quoted, text), cst_quote(called, name),
                    ours, split->labels_path);
}

cst_status cst_pool_check_truth(cst_context *context, const cst_pool *pool,
                                const cst_pool_split *split, const cst_row_file *rows,
                                const int64_t *places) {
    const cst_table *table = rows->table;
    bool end = false;
    if (!table || table->truth_column < 0 || !split->labels_path ||
        !(split->labels || (split->targets && pool->classes == 1)))
        return CST_OK;
    const char *name = cst_strings_at(table->names, table->truth_column);
    cst_status status = cst_table_rewind(context, rows->table);
    for (int64_t row = 0; status == CST_OK && row < rows->row_count; row++) {
        status = cst_csv_next(context, table->csv, &end);
        if (status != CST_OK || end)
            break;
        status = compare_row(context, pool, split, rows, name, row, places ? places[row] : row);
    }
    CST_THEN(cst_table_rewind(context, rows->table));
    return status;
}
