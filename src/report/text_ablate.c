/*
 * What `corestack ablate` found, as text: a row for each stage that is switched on.
 * Last stage of an ablation without --json. Paper: the table of the component ablation.
 */
#include "report/text_methods.h"

#include <math.h>

static const char *stage_of(const json_t *row) {
    const char *stage = cst_json_string(row, "stage");
    return stage ? stage : "-";
}

static void print_table(cst_page *page, const json_t *root, const json_t *rows) {
    static const char *const headers[] = {"stage", "top-1 %", "",  "ECE",   "",      "NLL", "",
                                          "Brier", "",        "K", "kappa", "FLOPs", "s"};
    cst_score_column columns[CST_SCORES_BASIC];
    cst_text_columns(rows, columns);
    cst_grid table;
    cst_grid_begin(&table, page, "lririririrrrr", headers);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        cst_grid_cell(&table, CST_PLAIN, "%s", stage_of(row));
        for (size_t m = 0; m < CST_SCORES_BASIC; m++)
            cst_text_score(&table, row, &columns[m]);
        cst_grid_number(&table, CST_PLAIN, 0, cst_json_number(row, "models"));
        cst_grid_number(&table, CST_PLAIN, 1, cst_json_number(row, "kappa"));
        cst_grid_number(&table, CST_PLAIN, 3, cst_json_number(row, "flops_rel"));
        cst_grid_number(&table, CST_PLAIN, 2, cst_json_number(row, "seconds"));
    }
    cst_grid_end(&table);
    cst_text_legend(page, root);
    cst_page_print(page, "  kappa: condition number of the members kept. FLOPs: relative to "
                         "running every member.\n");
}

/* A signed difference and its interval; one that excludes 0 has an asterisk. */
static void difference_cells(cst_grid *table, const json_t *difference, const cst_score *score) {
    double value = score->scale * cst_json_number(difference, score->key);
    const json_t *interval = json_object_get(difference, score->interval);
    double low = score->scale * cst_json_number_at(interval, 0);
    double high = score->scale * cst_json_number_at(interval, 1);
    if (isnan(value))
        cst_grid_cell(table, CST_PLAIN, "-");
    else
        cst_grid_cell(table, CST_PLAIN, "%+.*f", score->decimals, value);
    if (isnan(low) || isnan(high))
        cst_grid_cell(table, CST_DIM, "%s", "");
    else
        cst_grid_cell(table, CST_DIM, "[%.*f, %.*f]%s", score->decimals, low, score->decimals, high,
                      low > 0 || high < 0 ? "*" : "");
}

static void print_differences(cst_page *page, const json_t *rows) {
    static const char *const headers[] = {"stage", "top-1 %", "",      "ECE", "",
                                          "NLL",   "",        "Brier", ""};
    bool any = false;
    for (size_t i = 0; i < json_array_size(rows); i++)
        any |= json_object_size(json_object_get(json_array_get(rows, i), "difference")) > 0;
    if (!any)
        return;
    cst_page_heading(page, "Difference to the row before");
    cst_grid table;
    cst_grid_begin(&table, page, "lriririri", headers);
    for (size_t i = 1; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        cst_grid_cell(&table, CST_PLAIN, "%s", stage_of(row));
        for (size_t m = 0; m < CST_SCORES_BASIC; m++)
            difference_cells(&table, json_object_get(row, "difference"), cst_score_at(m));
    }
    cst_grid_end(&table);
    cst_page_print(page, "  *: the 95%% bootstrap interval of the paired difference excludes 0.\n");
}

static void print_settings(cst_page *page, const json_t *rows) {
    cst_page_heading(page, "What each row switches on");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        cst_text_label(page, stage_of(row));
        cst_text_names(page, json_object_get(row, "settings"));
    }
}

void cst_text_ablate(cst_page *page, const json_t *root, bool full) {
    const json_t *rows = json_object_get(root, "rows");
    cst_page_styled(page, CST_BOLD, "corestack ablate");
    cst_page_print(page, "\n");
    cst_text_scored(page, root);
    cst_page_print(page, "\n");
    print_table(page, root, rows);
    print_differences(page, rows);
    if (full)
        cst_text_score_table(page, rows, "stage", CST_SCORE_FURTHER, "Further calibration");
    print_settings(page, rows);
    cst_text_definitions(page, root, full);
    cst_text_bullets(page, root, "notices", "Notices");
    cst_text_seconds(page, root);
}
