/*
 * What `corestack compare` found, as text: a leaderboard, tests against the reference, definitions.
 * Last stage of a comparison without --json. Paper: the main results table and its significance
 * tests.
 */
#include "report/text_methods.h"

#include <math.h>
#include <string.h>

static const cst_text_column METHOD = {
    .key = "method", .header = "method", .kind = CST_COLUMN_TEXT};

static void print_table(cst_page *page, const json_t *root, const json_t *rows) {
    const cst_score_spec *tested = cst_score_find(root, cst_score_tested(root));
    char header[40];
    const char *label = tested ? tested->label : "";
    (void)cst_snprintf(header, sizeof header, tested ? "p %.*s" : "p", (int)strcspn(label, " "),
                       label);
    const cst_text_column p = {.header = header, .kind = CST_COLUMN_P};
    cst_text_table table = {.page = page, .root = root, .rows = rows};
    cst_text_table_add(&table, &METHOD, 1);
    cst_text_table_add_scores(&table, CST_COLUMN_SCORE, CST_COLUMN_SHORT, 'i');
    cst_text_table_add_costs(&table, false);
    cst_text_table_add(&table, &p, 1);
    cst_text_table_print(&table);
    cst_text_legend(page, root);
    bool costs = false;
    for (size_t i = 0; i < json_array_size(rows); i++)
        costs = costs || !isnan(cst_json_number(json_array_get(rows, i), "flops_rel"));
    cst_page_print(page, "  %ss: seconds of the fit.\n",
                   costs ? "FLOPs: relative to running every member. " : "");
}

/* Of means over repetitions, paired in each of them. */
static void print_differences(cst_page *page, const json_t *root, const json_t *rows) {
    cst_text_table table = {.page = page, .root = root, .rows = rows};
    if (cst_repetitions(root) == 0 || json_array_size(rows) < 2)
        return;
    cst_page_heading(page, "Difference from %s", cst_json_text(root, "reference"));
    cst_text_table_add(&table, &METHOD, 1);
    cst_text_table_add_scores(&table, CST_COLUMN_DIFFERENCE, CST_COLUMN_NUMBER, 'i');
    cst_text_table_print(&table);
    cst_page_print(page,
                   "  Means over the repetitions of the method's score minus that of %s; se: "
                   "standard error.\n",
                   cst_json_text(root, "reference"));
}

/* What each fit chose, the condition numbers of the members it uses, and how it mixes them. */
static void print_fits(cst_page *page, const json_t *rows) {
    static const cst_text_column columns[] = {
        {.key = "mix", .header = "mix", .kind = CST_COLUMN_TEXT},
        {.key = "kappa_gram", .header = "kappa Gram", .decimals = 1},
        {.key = "kappa_cka", .header = "kappa CKA", .decimals = 1},
        {.key = "detail", .header = "detail", .kind = CST_COLUMN_NOTE}};
    cst_text_table table = {.page = page, .rows = rows};
    cst_page_heading(page, "Fits");
    cst_text_table_add(&table, &METHOD, 1);
    cst_text_table_add(&table, columns, sizeof columns / sizeof columns[0]);
    cst_text_table_print(&table);
}

/* ---- tests ---- */

static void test_row(cst_grid *table, const json_t *root, const json_t *test) {
    double only_a = cst_json_number(test, "only_a");
    double only_b = cst_json_number(test, "only_b");
    double difference = cst_json_number(test, "difference");
    cst_grid_text(table, CST_PLAIN, test, "b");
    cst_grid_cell(table, CST_PLAIN, "%s", cst_score_label(root, cst_json_string(test, "metric")));
    cst_grid_cell(table, CST_PLAIN, isnan(difference) ? "-" : "%+.4f", difference);
    if (isnan(only_a) || isnan(only_b))
        cst_grid_cell(table, CST_PLAIN, "-");
    else
        cst_grid_cell(table, CST_PLAIN, "%.0f : %.0f", only_a, only_b);
    cst_grid_number(table, CST_PLAIN, 2, cst_json_number(test, "statistic"));
    cst_grid_number(table, CST_PLAIN, 0, cst_json_number(test, "df"));
    cst_grid_p(table, cst_json_number(test, "p_adjusted"));
    cst_grid_text(table, CST_DIM, test, "test");
}

/* Whether the tables hold the test: all do in full, else those significant after adjustment. */
static bool shown(const json_t *test, bool full) {
    return full || cst_json_number(test, "p_adjusted") < CST_SIGNIFICANT;
}

static void print_tests(cst_page *page, const json_t *root, bool full) {
    static const char *const headers[] = {"method", "score", "difference", "only correct",
                                          "t",      "df",    "p adjusted", "test"};
    const json_t *tests = json_object_get(root, "tests");
    const char *reference = cst_json_text(root, "reference");
    const char *adjustment = cst_json_string(root, "adjustment");
    size_t count = json_array_size(tests);
    size_t significant = 0;
    bool alone = false;
    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++) {
        significant += shown(json_array_get(tests, i), false);
        alone = alone || json_object_get(json_array_get(tests, i), "only_a");
    }
    cst_page_heading(page, "Paired tests of %s against each method", reference);
    cst_page_paragraph(page, "%zu of %zu significant at %.2f after adjustment%s%s%s", significant,
                       count, CST_SIGNIFICANT, adjustment ? " (" : "", adjustment ? adjustment : "",
                       adjustment ? ")" : "");
    cst_grid table;
    cst_grid_begin(&table, page, "llrrrrrl", headers);
    for (size_t i = 0; i < count; i++)
        if (shown(json_array_get(tests, i), full))
            test_row(&table, root, json_array_get(tests, i));
    cst_grid_end(&table);
    if (significant == 0 && !full)
        return;
    bool squares = false;
    for (size_t i = 0; i < count; i++) {
        const char *metric = cst_json_string(json_array_get(tests, i), "metric");
        squares = squares || (metric && strcmp(metric, "squared_error") == 0);
    }
    if (squares)
        cst_page_paragraph(page, "squared error: in units of the variance of the target, so that "
                                 "a difference of -0.01 is one of +0.01 in R^2.");
    cst_page_paragraph(
        page, "difference: mean of %s minus that of the method.%s%s%s *: below %.2f.%s", reference,
        alone ? " only correct: samples that only " : "", alone ? reference : "",
        alone ? " and only the method classifies correctly." : "", CST_SIGNIFICANT,
        full ? "" : " Other tests: --verbose.");
}

static const char *p_text(double p, char *text, size_t size) {
    if (p < 0.0001)
        (void)cst_snprintf(text, size, "< 0.0001");
    else
        (void)cst_snprintf(text, size, "= %.3g", p);
    return text;
}

/* Of the condition numbers and the task's first score. */
static void print_rank_correlations(cst_page *page, const json_t *root) {
    static const char *const matrices[][2] = {{"kappa_gram", "Gram"}, {"kappa_cka", "CKA"}};
    int32_t count = 0;
    const cst_score_spec *score = cst_scores_of(root, CST_SCORES_OF_TASK, &count);
    bool any = false;
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++) {
        char key[40];
        char p[32];
        (void)cst_snprintf(key, sizeof key, "%s_%s", matrices[i][0], score->key);
        const json_t *found = json_object_get(root, key);
        double rho = cst_json_number(found, "spearman");
        if (isnan(rho))
            continue;
        if (!any)
            cst_page_heading(page, "Condition number and %.*s", (int)strcspn(score->label, " "),
                             score->label);
        any = true;
        cst_page_print(page,
                       "  Spearman's rank correlation over %.0f methods: %.3f, p %s (%s), kappa of "
                       "the %s matrix\n",
                       cst_json_number(found, "methods"), rho,
                       p_text(cst_json_number(found, "p"), p, sizeof p),
                       cst_json_flag(found, "exact") ? "exact" : "approximate", matrices[i][1]);
    }
}

void cst_text_compare(cst_page *page, const json_t *root, bool full) {
    const json_t *rows = json_object_get(root, "rows");
    cst_page_styled(page, CST_BOLD, "corestack compare");
    cst_page_print(page, "\n");
    cst_text_scored(page, root);
    print_table(page, root, rows);
    cst_text_shift(page, root, rows, "method", full);
    cst_text_task(page, root, rows);
    if (full) {
        cst_text_further(page, root, rows, "method");
        print_fits(page, rows);
    }
    print_differences(page, root, rows);
    print_tests(page, root, full);
    print_rank_correlations(page, root);
    cst_text_definitions(page, root, full);
    cst_text_end(page, root);
}
