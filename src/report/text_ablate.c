/*
 * What `corestack ablate` found, as text: a row for each stage that is switched on.
 * Last stage of an ablation without --json. Paper: the table of the component ablation.
 */
#include "report/text_methods.h"

static const cst_text_column STAGE = {.key = "stage", .header = "stage", .kind = CST_COLUMN_TEXT};

static void print_table(cst_page *page, const json_t *root, const json_t *rows) {
    cst_text_table table = {.page = page, .root = root, .rows = rows};
    cst_text_table_add(&table, &STAGE, 1);
    cst_text_table_add_scores(&table, CST_COLUMN_SCORE, CST_COLUMN_SHORT, 'i');
    cst_text_table_add_costs(&table, true);
    cst_text_table_print(&table);
    cst_text_legend(page, root);
    cst_page_print(page, "  kappa: condition numbers of the kept members' out-of-fold Gram matrix "
                         "and of their CKA\n  matrix. FLOPs: relative to running every member.\n");
}

static void print_differences(cst_page *page, const json_t *root, const json_t *rows) {
    cst_text_table table = {.page = page, .root = root, .rows = rows, .first = 1};
    bool any = false;
    for (size_t i = 0; i < json_array_size(rows); i++)
        any |= json_object_size(json_object_get(json_array_get(rows, i), "difference")) > 0;
    if (!any)
        return;
    cst_page_heading(page, "Difference from the row before");
    cst_text_table_add(&table, &STAGE, 1);
    cst_text_table_add_scores(&table, CST_COLUMN_DIFFERENCE, CST_COLUMN_EXCLUDES, 'i');
    cst_text_table_print(&table);
    cst_page_print(page, "  *: the 95%% bootstrap interval of the paired difference excludes 0.\n");
}

void cst_text_ablate(cst_page *page, const json_t *root, bool full) {
    const json_t *rows = json_object_get(root, "rows");
    cst_page_styled(page, CST_BOLD, "corestack ablate");
    cst_page_print(page, "\n");
    cst_text_scored(page, root);
    print_table(page, root, rows);
    print_differences(page, root, rows);
    if (full)
        cst_text_further(page, root, rows, "stage");
    cst_page_heading(page, "What each row switches on");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        cst_text_label(page, cst_json_text(row, "stage"));
        cst_text_names(page, json_object_get(row, "settings"));
    }
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (json_is_false(json_object_get(row, "in_paper")))
            cst_page_print(page, "  %s is ours and not in the paper.\n",
                           cst_json_text(row, "stage"));
    }
    cst_text_definitions(page, root, full);
    cst_text_end(page, root);
}
