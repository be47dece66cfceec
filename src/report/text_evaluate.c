/*
 * What `corestack evaluate` found, as text: one row for the stack or the file, and one for each
 * baseline. Last stage of an evaluation. Paper: the layout of the main results table.
 */
#include "report/text_methods.h"

static void print_table(cst_page *page, const json_t *root, const json_t *rows) {
    static const cst_text_column first[] = {
        {.key = "method", .header = "method", .kind = CST_COLUMN_TEXT},
        {.key = "models", .header = "models"}};
    static const cst_text_column last = {
        .key = "detail", .header = "detail", .kind = CST_COLUMN_NOTE};
    cst_text_table table = {.page = page, .root = root, .rows = rows};
    cst_text_table_add(&table, first, 2);
    cst_text_table_add_scores(&table, CST_COLUMN_SCORE, CST_COLUMN_BRACKETS, 'l');
    cst_text_table_add(&table, &last, 1);
    cst_text_table_print(&table);
}

/* Scores by condition of a split that has several (corruptions, severities). */
static void print_conditions(cst_page *page, const json_t *root) {
    static const cst_text_column columns[] = {
        {.key = "shift", .header = "shift", .kind = CST_COLUMN_TEXT},
        {.key = "kind", .header = "kind", .kind = CST_COLUMN_TEXT},
        {.key = "severity", .header = "severity", .kind = CST_COLUMN_GENERAL}};
    cst_text_table table = {
        .page = page, .root = root, .rows = json_object_get(root, "conditions")};
    if (json_array_size(table.rows) == 0)
        return;
    cst_page_heading(page, "Conditions");
    cst_text_table_add(&table, columns, 3);
    cst_text_table_add_scores(&table, CST_COLUMN_VALUE, CST_COLUMN_NUMBER, 0);
    cst_text_table_print(&table);
}

static void print_rows(cst_page *page, const json_t *root, const json_t *rows) {
    double resamples = cst_json_number(root, "resamples");
    print_table(page, root, rows);
    cst_text_further(page, root, rows, "method");
    print_conditions(page, root);
    cst_text_definition(page, cst_json_string(root, "ece_definition"));
    if (resamples > 0)
        cst_page_print(page, "  Brackets: 95%% bootstrap intervals, %.0f resamples, seed %.0f.\n",
                       resamples, cst_json_number(root, "seed"));
    cst_text_task(page, root, rows);
    cst_text_shift(page, root, rows, "method", true);
}

void cst_text_evaluate(cst_page *page, const json_t *root, bool full) {
    (void)full;
    const char *split = cst_json_string(root, "split");
    const char *aggregate = cst_json_string(root, "aggregate");
    size_t conditions = json_array_size(json_object_get(root, "conditions"));
    json_t *rows = cst_document_rows(root);
    cst_page_styled(page, CST_BOLD, "corestack evaluate");
    cst_page_print(page, split ? ": split %s, " : ": %s", split ? split : "");
    cst_text_counts(page, root);
    if (conditions > 0)
        cst_page_print(page, " in each of %zu conditions", conditions);
    if (aggregate)
        cst_page_print(page, "; %s", aggregate);
    cst_page_print(page, "\n");
    if (rows)
        print_rows(page, root, rows);
    else
        page->text.status = CST_ERROR_MEMORY;
    json_decref(rows);
    cst_text_definitions(page, root, true);
    cst_text_bullets(page, root, "notices", "Notices");
}
