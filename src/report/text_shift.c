/*
 * Corruption, splits, parts of a split and rows out of distribution as text, of a comparison or an
 * evaluation. Last stage without --json. Paper: the layout of the tables of "Robustness".
 */
#include "report/text_methods.h"

#include <math.h>
#include <string.h>

/* ---- one number for each part ---- */

/* A table with a column for each number of an object of the rows (families, kinds, splits,
 * domains), times `scale`. */
static void print_parts(cst_page *page, const json_t *rows, const char *key, const char *object,
                        const char *heading, int decimals, double scale) {
    const json_t *first = json_object_get(json_array_get(rows, 0), object);
    const cst_text_column name = {.key = key, .header = key, .kind = CST_COLUMN_TEXT};
    cst_text_table table = {.page = page, .rows = rows};
    const char *part = NULL;
    json_t *value = NULL;
    cst_text_table_add(&table, &name, 1);
    json_object_foreach((json_t *)(uintptr_t)first, part, value) {
        bool error = cst_is_error(first, part);
        const cst_text_column column = {.key = part,
                                        .header = error ? "" : part,
                                        .kind = error ? CST_COLUMN_ERROR : CST_COLUMN_NUMBER,
                                        .object = object,
                                        .decimals = decimals,
                                        .scale = scale,
                                        .align = error ? 'i' : 0};
        cst_text_table_add(&table, &column, json_is_number(value));
    }
    if (table.count == 1)
        return;
    cst_page_heading(page, "%s", heading);
    cst_text_table_print(&table);
}

/* ---- severities ---- */

static void print_severities(cst_page *page, const json_t *rows, const char *key) {
    const cst_text_column columns[] = {
        {.key = key, .header = key, .kind = CST_COLUMN_OUTER},
        {.key = "severity", .header = "severity", .kind = CST_COLUMN_GENERAL},
        {.key = "error", .header = "error %", .decimals = 2, .scale = 100},
        {.key = "nll", .header = "NLL", .decimals = 4},
        {.key = "ece", .header = "ECE", .decimals = 4}};
    cst_text_table table = {.page = page, .rows = rows, .nested = "severities"};
    if (json_array_size(json_object_get(json_array_get(rows, 0), "severities")) == 0)
        return;
    cst_page_heading(page, "By severity");
    cst_text_table_add(&table, columns, sizeof columns / sizeof columns[0]);
    cst_text_table_print(&table);
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
        cst_page_print(page, "normalised by %s, families, kinds and the difference to clean too; ",
                       by);
    else
        cst_page_print(page, "plain, not normalised by a reference; ");
    if (clean)
        cst_page_print(page, "clean split %s.\n", clean);
    else
        cst_page_print(page, "no clean split named.\n");
    print_parts(page, rows, key, "families",
                by ? "Normalised error % by family" : "Error % by family", 2, 100);
    print_severities(page, rows, key);
    if (full)
        print_parts(page, rows, key, "kinds", by ? "Normalised error % by kind" : "Error % by kind",
                    2, 100);
}

/* ---- out of distribution ---- */

/* Of the first split: every method's separation side by side. */
static void print_ood_scores(cst_page *page, const json_t *root, const json_t *rows,
                             const char *key) {
    const char *split = cst_json_string(root, "ood");
    char heading[320];
    (void)cst_snprintf(heading, sizeof heading, "Detection of out-of-distribution rows: split %.*s",
                       split ? (int)strcspn(split, ",") : 1, split ? split : "-");
    cst_text_score_table(page, root, rows, key, CST_SCORES_OOD, heading);
}

/* Every split and score of every method, both ways round. */
static void print_ood(cst_page *page, const json_t *rows, const char *key) {
    static const cst_score_spec auroc = {.key = "auroc", .scale = 1};
    const cst_text_column columns[] = {
        {.key = key, .header = key, .kind = CST_COLUMN_OUTER},
        {.key = "split", .header = "split", .kind = CST_COLUMN_TEXT},
        {.key = "score", .header = "score", .kind = CST_COLUMN_TEXT},
        {.key = "auroc", .header = "AUROC", .decimals = 3},
        {.header = "", .kind = CST_COLUMN_BRACKETS, .score = &auroc, .decimals = 3, .align = 'i'},
        {.key = "aupr_out_positive", .header = "AUPR out+", .decimals = 3},
        {.key = "aupr_in_positive", .header = "AUPR in+", .decimals = 3},
        {.key = "fpr95_out_positive", .header = "FPR@95 out+", .decimals = 3},
        {.key = "fpr95_in_positive", .header = "FPR@95 in+", .decimals = 3},
        {.key = "detection_error", .header = "det. error", .decimals = 3}};
    cst_text_table table = {.page = page, .rows = rows, .nested = "ood_scores"};
    cst_page_heading(page, "Out-of-distribution rows, by score");
    cst_text_table_add(&table, columns, sizeof columns / sizeof columns[0]);
    cst_text_table_print(&table);
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
    print_parts(page, rows, key, "on", "Top-1 % on each split", 2, 100);
    print_parts(page, rows, key, "top1_in", "Top-1 % in each domain", 2, 100);
    print_parts(page, rows, key, "nll_in", "NLL in each domain", 4, 1);
    print_classes(page, root, rows, key);
    print_ood_scores(page, root, rows, key);
    const json_t *about = json_object_get(root, "ood_detection");
    if (!about)
        return;
    cst_page_print(page, "  AUPR and FPR@95: out of distribution is the positive class%s.\n",
                   full ? "" : "; for the opposite, and each split: --verbose");
    const char *energy = cst_json_string(about, "energy");
    if (energy)
        cst_page_print(page, "  energy: %s.\n", energy);
    if (full)
        print_ood(page, rows, key);
}
