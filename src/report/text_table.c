/*
 * Tables of the rows of a document, column by column.
 * Used by the text renderings. Paper: the layout of the results tables.
 */
#include "report/text_table.h"

#include <math.h>

/* ---- columns ---- */

void cst_text_table_add(cst_text_table *table, const cst_text_column *columns, size_t count) {
    for (size_t c = 0; c < count && table->count < CST_GRID_COLUMNS; c++)
        table->columns[table->count++] = columns[c];
}

/* One decimal fewer than the score has, unless an interval is so narrow that its ends would meet.
 */
static int short_decimals(const json_t *rows, const cst_score_spec *score) {
    double step = pow(10, 1 - score->decimals);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        cst_ends ends = cst_score_interval(json_array_get(rows, i), score);
        if (ends.high - ends.low < 2 * step)
            return score->decimals;
    }
    return score->decimals - 1;
}

static bool has_error(const json_t *rows, const char *object, const cst_score_spec *score) {
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (!isnan(cst_score_error(json_array_get(rows, i), object, score)))
            return true;
    return false;
}

static void add_score(cst_text_table *table, const cst_score_spec *score, cst_column_kind value,
                      cst_column_kind interval, char align) {
    const char *object = value == CST_COLUMN_DIFFERENCE ? "difference" : NULL;
    if (has_error(table->rows, object, score)) {
        interval = CST_COLUMN_ERROR;
        align = 'i';
    }
    cst_text_column column = {.header = score->label,
                              .kind = value,
                              .decimals = score->decimals,
                              .score = score,
                              .places = {NAN, NAN}};
    if (value == CST_COLUMN_SCORE)
        column.places = cst_score_places(table->rows, score);
    cst_text_table_add(table, &column, 1);
    if (interval == CST_COLUMN_NUMBER)
        return;
    column.header = "";
    column.kind = interval;
    column.align = align;
    column.object = object;
    if (interval == CST_COLUMN_SHORT)
        column.decimals = short_decimals(table->rows, score);
    cst_text_table_add(table, &column, 1);
}

void cst_text_table_add_scores(cst_text_table *table, cst_column_kind value,
                               cst_column_kind interval, char align) {
    int32_t count = 0;
    const cst_score_spec *scores = cst_scores_of(table->root, CST_SCORES_OF_TASK, &count);
    for (int32_t s = 0; s < count; s++) {
        bool spread = value == CST_COLUMN_MEAN;
        bool room = spread || scores[s].interval_in_table;
        bool summarised = scores[s].in_summary || has_error(table->rows, NULL, &scores[s]);
        if (spread ? summarised : scores[s].in_table)
            add_score(table, &scores[s], value, room ? interval : CST_COLUMN_NUMBER, align);
    }
}

void cst_text_table_add_costs(cst_text_table *table, bool kappa) {
    static const cst_text_column columns[] = {
        {.key = "models", .header = "K"},
        {.key = "flops_rel", .header = "FLOPs", .decimals = 3},
        {.key = "seconds", .header = "s", .decimals = 2}};
    static const cst_text_column conditions[] = {
        {.key = "kappa_gram", .header = "kappa Gram", .decimals = 1},
        {.key = "kappa_cka", .header = "CKA", .decimals = 1}};
    cst_text_table_add(table, columns, 1);
    table->columns[table->count - 1].decimals = cst_models_decimals(table->rows);
    cst_text_table_add(table, conditions, kappa ? 2 : 0);
    cst_text_table_add(table, columns + 1, 2);
}

int cst_text_table_add_group(cst_text_table *table, cst_score_group group) {
    int32_t count = 0;
    int added = 0;
    const cst_score_spec *scores = cst_scores_of(table->root, group, &count);
    for (int32_t s = 0; s < count; s++) {
        bool any = !isnan(cst_score_value(table->rows, &scores[s]));
        for (size_t i = 0; i < json_array_size(table->rows); i++)
            any = any || !isnan(cst_score_value(json_array_get(table->rows, i), &scores[s]));
        if (!any || (group == CST_SCORES_OF_TASK && scores[s].in_table))
            continue;
        add_score(table, &scores[s], CST_COLUMN_SCORE,
                  scores[s].interval_in_table ? CST_COLUMN_BRACKETS : CST_COLUMN_NUMBER, 'i');
        added++;
    }
    return added;
}

/* ---- cells ---- */

static double number_of(const json_t *row, const cst_text_column *column) {
    const json_t *object = column->object ? json_object_get(row, column->object) : row;
    double value = column->key ? cst_json_number(object, column->key)
                               : cst_json_number_at(object, column->index);
    return column->scale > 0 ? column->scale * value : value;
}

/* "0.123" as ".123". */
static const char *without_zero(const char *number) {
    return number[0] == '0' && number[1] == '.' ? number + 1 : number;
}

static void short_cell(cst_grid *grid, cst_ends ends, int decimals) {
    char text[2][64];
    (void)cst_snprintf(text[0], sizeof text[0], "%.*f", decimals, ends.low);
    (void)cst_snprintf(text[1], sizeof text[1], "%.*f", decimals, ends.high);
    cst_grid_cell(grid, CST_DIM, "%s-%s", without_zero(text[0]), without_zero(text[1]));
}

static void interval_cell(cst_grid *grid, const json_t *row, const cst_text_column *column) {
    bool excludes = column->kind == CST_COLUMN_EXCLUDES;
    cst_ends ends =
        cst_score_interval(excludes ? json_object_get(row, "difference") : row, column->score);
    if (isnan(ends.low))
        cst_grid_cell(grid, CST_DIM, "%s", "");
    else if (column->kind == CST_COLUMN_SHORT)
        short_cell(grid, ends, column->decimals);
    else
        cst_grid_cell(grid, CST_DIM, "[%.*f, %.*f]%s", column->decimals, ends.low, column->decimals,
                      ends.high, excludes && (ends.low > 0 || ends.high < 0) ? "*" : "");
}

static void error_cell(cst_grid *grid, const json_t *row, const cst_text_column *column) {
    double error = column->score ? cst_score_error(row, column->object, column->score)
                                 : number_of(row, column);
    if (isnan(error))
        cst_grid_cell(grid, CST_DIM, "%s", "");
    else
        cst_grid_cell(grid, CST_DIM, "se %.*f", column->decimals, error);
}

static void difference_cell(cst_grid *grid, const json_t *row, const cst_text_column *column) {
    double value = cst_json_number(json_object_get(row, "difference"), column->score->key);
    cst_grid_cell(grid, CST_PLAIN, isnan(value) ? "-" : "%+.*f", column->decimals,
                  column->score->scale * value);
}

/* Mean or standard deviation over the draws of a size. */
static void spread_cell(cst_grid *grid, const json_t *row, const cst_text_column *column) {
    bool mean = column->kind == CST_COLUMN_MEAN;
    char key[64];
    (void)cst_snprintf(key, sizeof key, "%s_%s", column->score->key, mean ? "mean" : "sd");
    double value = column->score->scale * cst_json_number(row, key);
    if (mean)
        cst_grid_number(grid, CST_PLAIN, column->decimals, value);
    else if (isnan(value))
        cst_grid_cell(grid, CST_DIM, "%s", "");
    else
        cst_grid_cell(grid, CST_DIM, "sd %.*f", column->decimals, value);
}

void cst_grid_p(cst_grid *grid, double p) {
    const char *mark = p < CST_SIGNIFICANT ? "*" : "";
    if (isnan(p))
        cst_grid_cell(grid, CST_PLAIN, "-");
    else if (p < 0.001)
        cst_grid_cell(grid, CST_PLAIN, "<0.001%s", mark);
    else
        cst_grid_cell(grid, CST_PLAIN, "%.3f%s", p, mark);
}

static void score_cell(cst_grid *grid, const json_t *row, const cst_text_column *column) {
    double value = cst_score_value(row, column->score);
    cst_grid_number(grid, cst_score_style(&column->places, column->score, value), column->decimals,
                    column->score->scale * value);
}

/* outer: the row that has the list, for its first entry. */
static void print_cell(cst_grid *grid, const cst_text_table *table, const json_t *row,
                       const json_t *outer, size_t place, const cst_text_column *column) {
    const char *text = column->key ? cst_json_string(row, column->key) : NULL;
    double number = number_of(row, column);
    switch (column->kind) {
    case CST_COLUMN_NUMBER:
        cst_grid_number(grid, CST_PLAIN, column->decimals, number);
        break;
    case CST_COLUMN_TEXT:
        cst_grid_cell(grid, CST_PLAIN, "%s", text ? text : "-");
        break;
    case CST_COLUMN_NOTE:
        cst_grid_cell(grid, CST_DIM, "%s", text ? text : "");
        break;
    case CST_COLUMN_NAME:
        cst_grid_name(grid, row, column->key);
        break;
    case CST_COLUMN_PLACE:
        cst_grid_cell(grid, CST_DIM, "%zu", place + 1);
        break;
    case CST_COLUMN_OUTER:
        cst_grid_cell(grid, CST_PLAIN, "%s", outer ? cst_json_text(outer, column->key) : "");
        break;
    case CST_COLUMN_QUANTITY:
        cst_grid_quantity(grid, CST_PLAIN, number);
        break;
    case CST_COLUMN_GENERAL:
        cst_grid_cell(grid, CST_PLAIN, isnan(number) ? "-" : "%g", number);
        break;
    case CST_COLUMN_P:
        cst_grid_p(grid, cst_score_adjusted_p(table->root, cst_json_string(row, "method")));
        break;
    case CST_COLUMN_SCORE:
    case CST_COLUMN_VALUE:
        score_cell(grid, row, column);
        break;
    case CST_COLUMN_SHORT:
    case CST_COLUMN_BRACKETS:
    case CST_COLUMN_EXCLUDES:
        interval_cell(grid, row, column);
        break;
    case CST_COLUMN_ERROR:
        error_cell(grid, row, column);
        break;
    case CST_COLUMN_DIFFERENCE:
        difference_cell(grid, row, column);
        break;
    case CST_COLUMN_MEAN:
    case CST_COLUMN_SD:
        spread_cell(grid, row, column);
        break;
    }
}

/* ---- table ---- */

static char align_of(const cst_text_column *column) {
    bool left = column->kind == CST_COLUMN_TEXT || column->kind == CST_COLUMN_NOTE ||
                column->kind == CST_COLUMN_NAME || column->kind == CST_COLUMN_OUTER;
    return column->align ? column->align : left ? 'l' : 'r';
}

static void print_row(cst_grid *grid, const cst_text_table *table, const json_t *row,
                      const json_t *outer, size_t place) {
    for (int c = 0; c < table->count; c++)
        print_cell(grid, table, row, outer, place, &table->columns[c]);
}

void cst_text_table_print(const cst_text_table *table) {
    const char *headers[CST_GRID_COLUMNS];
    char align[CST_GRID_COLUMNS + 1] = "";
    for (int c = 0; c < table->count; c++) {
        headers[c] = table->columns[c].header;
        align[c] = align_of(&table->columns[c]);
    }
    cst_grid grid;
    cst_grid_begin(&grid, table->page, align, headers);
    bool single = json_is_object(table->rows);
    size_t count = single ? 1 : json_array_size(table->rows);
    size_t end = table->limit && table->limit < count ? table->limit : count;
    for (size_t i = table->first; i < end; i++) {
        const json_t *row = single ? table->rows : json_array_get(table->rows, i);
        const json_t *list = table->nested ? json_object_get(row, table->nested) : NULL;
        for (size_t e = 0; e < json_array_size(list); e++)
            print_row(&grid, table, json_array_get(list, e), e == 0 ? row : NULL, e);
        if (!table->nested)
            print_row(&grid, table, row, NULL, i);
    }
    cst_grid_end(&grid);
}

void cst_text_table_show(cst_page *page, const json_t *rows, const cst_text_column *columns,
                         size_t count) {
    cst_text_table table = {.page = page, .rows = rows};
    cst_text_table_add(&table, columns, count);
    cst_text_table_print(&table);
}
