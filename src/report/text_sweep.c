/*
 * What `corestack sweep` found, as text: a row for each value of an option, or for each size of the
 * pool the mean over random subsets. Last stage of a sweep without --json. Paper: section "CKA
 * Threshold Sensitivity" and the figure of accuracy by pool size.
 */
#include "report/text_methods.h"

#include <string.h>

static void add_names(cst_text_table *table, const json_t *root, const char *draw) {
    const char *key = cst_json_string(root, "key");
    const cst_text_column columns[] = {
        {.key = "method", .header = "method", .kind = CST_COLUMN_TEXT},
        {.key = "value", .header = key ? key : "value", .kind = CST_COLUMN_TEXT, .align = 'r'},
        {.key = draw, .header = draw}};
    cst_text_table_add(table, columns, 3);
}

static void print_rows(cst_page *page, const json_t *root, const json_t *rows) {
    cst_text_table table = {.page = page, .root = root, .rows = rows};
    add_names(&table, root, "draw");
    cst_text_table_add_scores(&table, CST_COLUMN_SCORE, CST_COLUMN_SHORT, 'i');
    cst_text_table_add_costs(&table, true);
    cst_text_table_print(&table);
    cst_text_legend(page, root);
}

static void print_summary(cst_page *page, const json_t *root, const json_t *summary) {
    static const cst_text_column models = {.key = "models_mean", .header = "K", .decimals = 1};
    cst_text_table table = {.page = page, .root = root, .rows = summary};
    bool seeds = json_object_get(json_array_get(summary, 0), "seeds");
    add_names(&table, root, seeds ? "seeds" : "draws");
    cst_text_table_add_scores(&table, CST_COLUMN_MEAN, CST_COLUMN_SD, 'i');
    cst_text_table_add(&table, &models, 1);
    cst_text_table_print(&table);
    cst_page_print(page, seeds ? "  Means over the seeds, se: standard error.\n"
                               : "  Means over random subsets of the members, sd: standard "
                                 "deviation over the subsets.\n");
    cst_page_print(page, "  K: members that prediction runs.\n");
}

void cst_text_sweep(cst_page *page, const json_t *root, bool full) {
    const json_t *rows = json_object_get(root, "rows");
    const json_t *summary = json_object_get(root, "summary");
    cst_page_styled(page, CST_BOLD, "corestack sweep");
    cst_page_print(page, " over %s\n", cst_json_text(root, "key"));
    cst_text_scored(page, root);
    if (json_array_size(summary) > 0)
        print_summary(page, root, summary);
    if (json_array_size(summary) > 0 && full)
        cst_page_heading(page, strcmp(cst_json_text(root, "key"), "seed") == 0 ? "Single seeds"
                                                                               : "Single subsets");
    if (json_array_size(summary) == 0 || full)
        print_rows(page, root, rows);
    cst_text_definitions(page, root, full);
    cst_text_end(page, root);
}
