/*
 * What `corestack compare` found, as text: a leaderboard, tests against the reference, definitions.
 * Last stage of a comparison without --json. Paper: the main results table and its significance
 * tests.
 */
#include "report/text_methods.h"

#include <math.h>
#include <string.h>

#define SIGNIFICANT 0.05 /* level of an adjusted p-value */

/* "0.012", "<0.001"; with an asterisk below the level. */
static void p_cell(cst_grid *table, double p) {
    const char *mark = p < SIGNIFICANT ? "*" : "";
    if (isnan(p))
        cst_grid_cell(table, CST_PLAIN, "-");
    else if (p < 0.001)
        cst_grid_cell(table, CST_PLAIN, "<0.001%s", mark);
    else
        cst_grid_cell(table, CST_PLAIN, "%.3f%s", p, mark);
}

static void print_table(cst_page *page, const json_t *root, const json_t *rows) {
    static const char *const headers[] = {"method", "top-1 %", "",  "ECE",   "",  "NLL",  "",
                                          "Brier",  "",        "K", "FLOPs", "s", "p NLL"};
    cst_score_column columns[CST_SCORES_BASIC];
    cst_text_columns(rows, columns);
    cst_grid table;
    cst_grid_begin(&table, page, "lririririrrrr", headers);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *method = cst_json_string(row, "method");
        cst_grid_cell(&table, CST_PLAIN, "%s", method ? method : "-");
        for (size_t m = 0; m < CST_SCORES_BASIC; m++)
            cst_text_score(&table, row, &columns[m]);
        cst_grid_number(&table, CST_PLAIN, 0, cst_json_number(row, "models"));
        cst_grid_number(&table, CST_PLAIN, 3, cst_json_number(row, "flops_rel"));
        cst_grid_number(&table, CST_PLAIN, 2, cst_json_number(row, "seconds"));
        p_cell(&table, cst_score_adjusted_p(root, method, "nll"));
    }
    cst_grid_end(&table);
    cst_text_legend(page, root);
    bool costs = false;
    for (size_t i = 0; i < json_array_size(rows); i++)
        costs = costs || !isnan(cst_json_number(json_array_get(rows, i), "flops_rel"));
    cst_page_print(page, "  %ss: seconds of the fit.\n",
                   costs ? "FLOPs: relative to running every member. " : "");
}

/* What each fit chose, the condition number of the members it uses, and how it mixes them. */
static void print_fits(cst_page *page, const json_t *rows) {
    static const char *const headers[] = {"method", "mix", "kappa", "detail"};
    cst_page_heading(page, "Fits");
    cst_grid table;
    cst_grid_begin(&table, page, "llrl", headers);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *texts[] = {cst_json_string(row, "method"), cst_json_string(row, "mix"),
                               cst_json_string(row, "detail")};
        cst_grid_cell(&table, CST_PLAIN, "%s", texts[0] ? texts[0] : "-");
        cst_grid_cell(&table, CST_PLAIN, "%s", texts[1] ? texts[1] : "-");
        cst_grid_number(&table, CST_PLAIN, 1, cst_json_number(row, "kappa"));
        cst_grid_cell(&table, CST_DIM, "%s", texts[2] ? texts[2] : "");
    }
    cst_grid_end(&table);
}

/* ---- tests ---- */

static const char *metric_header(const char *metric) {
    const cst_score *score = metric ? cst_score_find(metric) : NULL;
    return score ? score->header : metric ? metric : "-";
}

static void test_row(cst_grid *table, const json_t *test) {
    const char *b = cst_json_string(test, "b");
    const char *name = cst_json_string(test, "test");
    double only_a = cst_json_number(test, "only_a");
    double only_b = cst_json_number(test, "only_b");
    double difference = cst_json_number(test, "difference");
    cst_grid_cell(table, CST_PLAIN, "%s", b ? b : "-");
    cst_grid_cell(table, CST_PLAIN, "%s", metric_header(cst_json_string(test, "metric")));
    cst_grid_cell(table, CST_PLAIN, isnan(difference) ? "-" : "%+.4f", difference);
    if (isnan(only_a) || isnan(only_b))
        cst_grid_cell(table, CST_PLAIN, "-");
    else
        cst_grid_cell(table, CST_PLAIN, "%.0f : %.0f", only_a, only_b);
    cst_grid_number(table, CST_PLAIN, 2, cst_json_number(test, "statistic"));
    cst_grid_number(table, CST_PLAIN, 0, cst_json_number(test, "df"));
    p_cell(table, cst_json_number(test, "p_adjusted"));
    cst_grid_cell(table, CST_DIM, "%s", name ? name : "-");
}

/* Wraps and frees `text`; NULL: memory ran out. */
static void print_paragraph(cst_page *page, char *text) {
    if (text)
        cst_text_paragraph(page, text);
    else
        page->text.status = CST_ERROR_MEMORY;
    cst_free(page->text.context, text);
}

/* Whether the tables hold the test: all do in full, else those significant after adjustment. */
static bool shown(const json_t *test, bool full) {
    return full || cst_json_number(test, "p_adjusted") < SIGNIFICANT;
}

static void print_tests(cst_page *page, const json_t *root, bool full) {
    static const char *const headers[] = {"method", "score", "difference", "right alone",
                                          "t",      "df",    "p adjusted", "test"};
    const json_t *tests = json_object_get(root, "tests");
    const char *reference = cst_json_string(root, "reference");
    const char *adjustment = cst_json_string(root, "adjustment");
    size_t count = json_array_size(tests);
    size_t significant = 0;
    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++)
        significant += shown(json_array_get(tests, i), false);
    cst_page_heading(page, "Paired tests of %s against each method", reference ? reference : "-");
    print_paragraph(page, cst_format(page->text.context,
                                     "%zu of %zu significant at %.2f after adjustment%s%s%s",
                                     significant, count, SIGNIFICANT, adjustment ? " (" : "",
                                     adjustment ? adjustment : "", adjustment ? ")" : ""));
    cst_grid table;
    cst_grid_begin(&table, page, "llrrrrrl", headers);
    for (size_t i = 0; i < count; i++)
        if (shown(json_array_get(tests, i), full))
            test_row(&table, json_array_get(tests, i));
    cst_grid_end(&table);
    if (significant > 0 || full)
        print_paragraph(page,
                        cst_format(page->text.context,
                                   "difference: mean of %s less that of the method. right alone: "
                                   "samples that only %s and only the method classifies "
                                   "correctly. *: below %.2f.%s",
                                   reference ? reference : "-", reference ? reference : "-",
                                   SIGNIFICANT, full ? "" : " Tests that are not: --verbose."));
}

static void print_rank_correlation(cst_page *page, const json_t *root) {
    const json_t *found = json_object_get(root, "kappa_top1");
    double rho = cst_json_number(found, "spearman");
    if (isnan(rho))
        return;
    cst_page_heading(page, "Condition number and top-1");
    cst_page_print(page, "  Spearman's rank correlation over %.0f methods: %.3f, p = %.3g (%s)\n",
                   cst_json_number(found, "methods"), rho, cst_json_number(found, "p"),
                   cst_json_flag(found, "exact") ? "exact" : "approximate");
}

void cst_text_compare(cst_page *page, const json_t *root, bool full) {
    const char *task = cst_json_string(root, "task");
    if (task && strcmp(task, "detection") == 0) {
        cst_text_compare_detection(page, root);
        return;
    }
    const json_t *rows = json_object_get(root, "rows");
    if (json_object_get(json_array_get(rows, 0), "miou")) {
        cst_text_compare_segmentation(page, root);
        return;
    }
    cst_page_styled(page, CST_BOLD, "corestack compare");
    cst_page_print(page, "\n");
    cst_text_scored(page, root);
    cst_page_print(page, "\n");
    print_table(page, root, rows);
    cst_text_shift(page, root, rows, "method", full);
    if (full) {
        cst_text_score_table(page, rows, "method", CST_SCORE_FURTHER, "Further calibration");
        print_fits(page, rows);
    }
    print_tests(page, root, full);
    print_rank_correlation(page, root);
    cst_text_definitions(page, root, full);
    cst_text_bullets(page, root, "notices", "Notices");
    cst_text_seconds(page, root);
}
