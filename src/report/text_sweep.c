/*
 * What `corestack sweep` found, as text: a row for each value of an option, or for each size of
 * the pool the mean over random subsets.
 * Last stage of a sweep without --json. Paper: section "CKA Threshold Sensitivity" and the figure
 * of accuracy by pool size.
 */
#include "report/text_methods.h"

#include <math.h>

static void name_cells(cst_grid *table, const json_t *row) {
    const char *method = cst_json_string(row, "method");
    const char *value = cst_json_string(row, "value");
    cst_grid_cell(table, CST_PLAIN, "%s", method ? method : "-");
    cst_grid_cell(table, CST_PLAIN, "%s", value ? value : "-");
}

static void print_rows(cst_page *page, const json_t *root, const json_t *rows) {
    const char *key = cst_json_string(root, "key");
    const char *const headers[] = {"method", key ? key : "value",
                                   "draw",   "top-1 %",
                                   "",       "ECE",
                                   "",       "NLL",
                                   "",       "Brier",
                                   "",       "K",
                                   "kappa",  "FLOPs",
                                   "s"};
    cst_score_column columns[CST_SCORES_BASIC];
    cst_text_columns(rows, columns);
    cst_grid table;
    cst_grid_begin(&table, page, "lrrririririrrrr", headers);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        name_cells(&table, row);
        cst_grid_number(&table, CST_PLAIN, 0, cst_json_number(row, "draw"));
        for (size_t m = 0; m < CST_SCORES_BASIC; m++)
            cst_text_score(&table, row, &columns[m]);
        cst_grid_number(&table, CST_PLAIN, 0, cst_json_number(row, "models"));
        cst_grid_number(&table, CST_PLAIN, 1, cst_json_number(row, "kappa"));
        cst_grid_number(&table, CST_PLAIN, 3, cst_json_number(row, "flops_rel"));
        cst_grid_number(&table, CST_PLAIN, 2, cst_json_number(row, "seconds"));
    }
    cst_grid_end(&table);
    cst_text_legend(page, root);
}

/* Mean and standard deviation over the draws of a size. */
static void spread_cells(cst_grid *table, const json_t *row, const char *mean, const char *sd,
                         const cst_score *score) {
    double spread = score->scale * cst_json_number(row, sd);
    cst_grid_number(table, CST_PLAIN, score->decimals, score->scale * cst_json_number(row, mean));
    if (isnan(spread))
        cst_grid_cell(table, CST_DIM, "%s", "");
    else
        cst_grid_cell(table, CST_DIM, "sd %.*f", score->decimals, spread);
}

static void print_summary(cst_page *page, const json_t *root, const json_t *summary) {
    const char *key = cst_json_string(root, "key");
    const char *const headers[] = {
        "method", key ? key : "value", "draws", "top-1 %", "", "ECE", "", "NLL", "", "K"};
    cst_grid table;
    cst_grid_begin(&table, page, "lrrriririr", headers);
    for (size_t i = 0; i < json_array_size(summary); i++) {
        const json_t *row = json_array_get(summary, i);
        name_cells(&table, row);
        cst_grid_number(&table, CST_PLAIN, 0, cst_json_number(row, "draws"));
        spread_cells(&table, row, "top1_mean", "top1_sd", cst_score_at(0));
        spread_cells(&table, row, "ece_mean", "ece_sd", cst_score_at(1));
        spread_cells(&table, row, "nll_mean", "nll_sd", cst_score_at(2));
        cst_grid_number(&table, CST_PLAIN, 1, cst_json_number(row, "models_mean"));
    }
    cst_grid_end(&table);
    cst_page_print(page, "  Means over random subsets of the members, sd: standard deviation over "
                         "the subsets.\n  K: members that prediction runs.\n");
}

void cst_text_sweep(cst_page *page, const json_t *root, bool full) {
    const json_t *rows = json_object_get(root, "rows");
    const json_t *summary = json_object_get(root, "summary");
    const char *key = cst_json_string(root, "key");
    cst_page_styled(page, CST_BOLD, "corestack sweep");
    cst_page_print(page, " over %s\n", key ? key : "-");
    cst_text_scored(page, root);
    cst_page_print(page, "\n");
    if (json_array_size(summary) > 0)
        print_summary(page, root, summary);
    if (json_array_size(summary) > 0 && full)
        cst_page_heading(page, "Single subsets");
    if (json_array_size(summary) == 0 || full)
        print_rows(page, root, rows);
    cst_text_definitions(page, root, full);
    cst_text_bullets(page, root, "notices", "Notices");
    cst_text_seconds(page, root);
}
