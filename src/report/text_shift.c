/*
 * Corruption, splits, parts of a split and rows out of distribution as text, of a comparison or an
 * evaluation. Last stage without --json. Paper: the layout of the tables of "Robustness".
 */
#include "report/text_methods.h"

#include <math.h>
#include <string.h>

/* ---- one number for each part ---- */

/* A table with a column for each number of an object of the rows (families, kinds, splits), in %.
 */
static void print_parts(cst_page *page, const json_t *rows, const char *key, const char *object,
                        const char *heading) {
    const json_t *first = json_object_get(json_array_get(rows, 0), object);
    const cst_text_column name = {.key = key, .header = key, .kind = CST_COLUMN_TEXT};
    cst_text_table table = {.page = page, .rows = rows};
    const char *part = NULL;
    json_t *value = NULL;
    cst_text_table_add(&table, &name, 1);
    json_object_foreach((json_t *)(uintptr_t)first, part, value) {
        const cst_text_column column = {
            .key = part, .header = part, .object = object, .decimals = 2, .scale = 100};
        cst_text_table_add(&table, &column, json_is_number(value));
    }
    if (table.count == 1)
        return;
    cst_page_heading(page, "%s", heading);
    cst_text_table_print(&table);
}

/* ---- severities ---- */

static void print_severities(cst_page *page, const json_t *rows, const char *key) {
    const char *const headers[] = {key, "severity", "error %", "NLL", "ECE"};
    if (json_array_size(json_object_get(json_array_get(rows, 0), "severities")) == 0)
        return;
    cst_page_heading(page, "By severity");
    cst_grid table;
    cst_grid_begin(&table, page, "lrrrr", headers);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const json_t *list = json_object_get(row, "severities");
        for (size_t s = 0; s < json_array_size(list); s++) {
            const json_t *at = json_array_get(list, s);
            cst_grid_cell(&table, CST_PLAIN, "%s", s == 0 ? cst_json_text(row, key) : "");
            cst_grid_cell(&table, CST_PLAIN, "%g", cst_json_number(at, "severity"));
            cst_grid_number(&table, CST_PLAIN, 2, 100 * cst_json_number(at, "error"));
            cst_grid_number(&table, CST_PLAIN, 4, cst_json_number(at, "nll"));
            cst_grid_number(&table, CST_PLAIN, 4, cst_json_number(at, "ece"));
        }
    }
    cst_grid_end(&table);
}

static void print_corruption(cst_page *page, const json_t *root, const json_t *rows,
                             const char *key, bool full) {
    const json_t *about = json_object_get(root, "corruption");
    if (!about)
        return;
    const char *clean = cst_json_string(about, "clean");
    const char *by = cst_json_string(about, "normalised_by");
    cst_text_score_table(page, root, rows, key, CST_SCORES_CORRUPTION, "Corruption");
    cst_page_print(page, "  %.0f kinds; ", cst_json_number(about, "kinds"));
    if (by)
        cst_page_print(page, "normalised by %s; ", by);
    else
        cst_page_print(page, "plain, not normalised by a reference; ");
    if (clean)
        cst_page_print(page, "clean split %s.\n", clean);
    else
        cst_page_print(page, "no clean split named.\n");
    print_parts(page, rows, key, "families", "Error % by family");
    print_severities(page, rows, key);
    if (full)
        print_parts(page, rows, key, "kinds", "Error % by kind");
}

/* ---- out of distribution ---- */

static void ood_cells(cst_grid *table, const json_t *at, const char *score, const char *interval) {
    const json_t *ends = json_object_get(at, interval);
    double low = cst_json_number_at(ends, 0);
    double high = cst_json_number_at(ends, 1);
    cst_grid_number(table, CST_PLAIN, 3, cst_json_number(at, score));
    if (isnan(low) || isnan(high))
        cst_grid_cell(table, CST_DIM, "%s", "");
    else
        cst_grid_cell(table, CST_DIM, "[%.3f, %.3f]", low, high);
}

/* Of the first split: every method's separation side by side. */
static void print_ood_scores(cst_page *page, const json_t *root, const json_t *rows,
                             const char *key) {
    const char *split = cst_json_string(root, "ood");
    char *heading =
        cst_format(page->text.context, "Telling out-of-distribution rows apart: split %.*s",
                   split ? (int)strcspn(split, ",") : 1, split ? split : "-");
    if (heading)
        cst_text_score_table(page, root, rows, key, CST_SCORES_OOD, heading);
    else
        page->text.status = CST_ERROR_MEMORY;
    cst_free(page->text.context, heading);
}

/* Every split and score of every method, both ways round. */
static void print_ood(cst_page *page, const json_t *rows, const char *key) {
    const char *headers[] = {key,         "split",    "score",       "AUROC",      "",
                             "AUPR out+", "AUPR in+", "FPR@95 out+", "FPR@95 in+", "det. error"};
    cst_page_heading(page, "Out-of-distribution rows, by score");
    cst_grid table;
    cst_grid_begin(&table, page, "lllrirrrrr", headers);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const json_t *list = json_object_get(row, "ood_scores");
        for (size_t s = 0; s < json_array_size(list); s++) {
            const json_t *at = json_array_get(list, s);
            cst_grid_cell(&table, CST_PLAIN, "%s", s == 0 ? cst_json_text(row, key) : "");
            cst_grid_cell(&table, CST_PLAIN, "%s", cst_json_text(at, "split"));
            cst_grid_cell(&table, CST_PLAIN, "%s", cst_json_text(at, "score"));
            ood_cells(&table, at, "auroc", "auroc_ci");
            cst_grid_number(&table, CST_PLAIN, 3, cst_json_number(at, "aupr_out_positive"));
            cst_grid_number(&table, CST_PLAIN, 3, cst_json_number(at, "aupr_in_positive"));
            cst_grid_number(&table, CST_PLAIN, 3, cst_json_number(at, "fpr95_out_positive"));
            cst_grid_number(&table, CST_PLAIN, 3, cst_json_number(at, "fpr95_in_positive"));
            cst_grid_number(&table, CST_PLAIN, 3, cst_json_number(at, "detection_error"));
        }
    }
    cst_grid_end(&table);
    cst_page_print(page, "  out+: out of distribution is the positive class; in+: in distribution "
                         "is. AUROC is the same for both.\n");
}

/* ---- parts of a split ---- */

static void print_classes(cst_page *page, const json_t *root, const json_t *rows, const char *key) {
    static const char *const parts[] = {"head", "mid", "tail"};
    const json_t *about = json_object_get(root, "training_counts");
    cst_text_score_table(page, root, rows, key, CST_SCORES_PARTS, "Classes and groups");
    if (about) {
        cst_page_print(page, "  head: more than %.0f training samples; tail: fewer than %.0f.",
                       cst_json_number(about, "head_above"), cst_json_number(about, "tail_below"));
        for (size_t p = 0; p < 3; p++) {
            const json_t *part = json_object_get(about, parts[p]);
            cst_page_print(page, " %s: %.0f classes, %.0f samples%s", parts[p],
                           cst_json_number(part, "classes"), cst_json_number(part, "samples"),
                           p < 2 ? ";" : ".\n");
        }
    }
    double groups = cst_json_number(root, "groups");
    if (isnan(groups))
        return;
    cst_page_print(page, "  worst of %.0f groups:", groups);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        cst_page_print(page, "%s %s %.0f (%.0f rows)", i ? "," : "", cst_json_text(row, key),
                       cst_json_number(row, "worst_group"),
                       cst_json_number(row, "worst_group_samples"));
    }
    cst_page_print(page, "\n");
}

void cst_text_shift(cst_page *page, const json_t *root, const json_t *rows, const char *key,
                    bool full) {
    print_corruption(page, root, rows, key, full);
    print_parts(page, rows, key, "on", "Top-1 % on each split");
    print_classes(page, root, rows, key);
    print_ood_scores(page, root, rows, key);
    const json_t *about = json_object_get(root, "ood_detection");
    if (!about)
        return;
    cst_page_print(page, "  AUPR and FPR@95: out of distribution is the positive class%s.\n",
                   full ? "" : "; the other way round, and each split: --verbose");
    const char *energy = cst_json_string(about, "energy");
    if (energy)
        cst_page_print(page, "  energy: %s.\n", energy);
    if (full)
        print_ood(page, rows, key);
}
