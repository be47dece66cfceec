/*
 * The rows of a document as a Markdown table: best of each column bold, second best underlined,
 * intervals in brackets, standard errors after +-.
 * Last stage of a comparison with --markdown. Paper: the layout of the main results table.
 */
#include "report/scores.h"

#include <math.h>
#include <string.h>

/* Columns beside the scores; those that no row has are left out. */
typedef struct plain_column {
    const char *key;
    const char *header;
    int decimals; /* -1: text */
} plain_column;

static const plain_column FIRST[] = {
    {"stage", "stage", -1}, {"method", "method", -1}, {"value", NULL, -1}, {"draw", "draw", 0}};
static const plain_column LAST[] = {{"models", "K", 0},
                                    {"kappa_gram", "kappa Gram", 1},
                                    {"kappa_cka", "kappa CKA", 1},
                                    {"flops_rel", "FLOPs", 3},
                                    {"latency_ms", "latency (ms)", 3},
                                    {"memory_bytes", "peak memory (bytes)", 0},
                                    {"throughput", "throughput (1/s)", 1},
                                    {"single_p50_us", "1: p50 (us)", 1},
                                    {"single_p99_us", "1: p99 (us)", 1},
                                    {"batch_p50_us", "batch: p50 (us)", 1},
                                    {"batch_p99_us", "batch: p99 (us)", 1},
                                    {"seconds", "seconds", 2},
                                    {"detail", "detail", -1}};

/* Whether a row has a p-value. */
static bool has_tests(const json_t *root, const json_t *rows) {
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (!isnan(cst_score_adjusted_p(root, cst_json_string(json_array_get(rows, i), "method"))))
            return true;
    return false;
}

/* The next score that some row has; start with *group and *place 0. NULL at the end. */
static const cst_score_spec *next_score(const json_t *root, const json_t *rows, int *group,
                                        int32_t *place) {
    for (; *group < CST_SCORE_GROUPS; (*group)++, *place = 0) {
        int32_t count = 0;
        const cst_score_spec *scores = cst_scores_of(root, (cst_score_group)*group, &count);
        while (*place < count)
            if (cst_json_has_column(rows, scores[(*place)++].key))
                return &scores[*place - 1];
    }
    return NULL;
}

/* Text that no Markdown in a name can break. */
static void print_text(cst_page *page, const char *text) {
    while (*text) {
        size_t length = strcspn(text, "\\`*_|<>[]\n");
        const char special = text[length];
        cst_page_print(page, "%.*s", (int)length, text);
        if (special == '\n')
            cst_page_print(page, " ");
        else if (special)
            cst_page_print(page, "\\%c", special);
        text += length + (special != '\0');
    }
}

/* ---- header ---- */

static void print_heads(cst_page *page, const json_t *root, const json_t *rows,
                        const plain_column *columns, size_t count, bool rule) {
    const char *key = cst_json_string(root, "key");
    for (size_t c = 0; c < count; c++) {
        if (!cst_json_has_column(rows, columns[c].key))
            continue;
        if (rule) {
            cst_page_print(page, columns[c].decimals < 0 ? "---|" : "--:|");
        } else {
            cst_page_print(page, " ");
            print_text(page, columns[c].header ? columns[c].header : key ? key : "value");
            cst_page_print(page, " |");
        }
    }
}

static void print_header(cst_page *page, const json_t *root, const json_t *rows, bool rule) {
    cst_page_print(page, "|");
    print_heads(page, root, rows, FIRST, sizeof FIRST / sizeof FIRST[0], rule);
    const cst_score_spec *score = NULL;
    int group = 0;
    int32_t place = 0;
    while ((score = next_score(root, rows, &group, &place)))
        cst_page_print(page, rule ? "--:|" : " %s |", score->label);
    print_heads(page, root, rows, LAST, sizeof LAST / sizeof LAST[0], rule);
    if (has_tests(root, rows))
        cst_page_print(page, rule ? "--:|" : " p %s |",
                       cst_score_label(root, cst_score_tested(root)));
    cst_page_print(page, "\n");
}

/* ---- rows ---- */

static int decimals_of(const json_t *rows, const plain_column *column) {
    if (strcmp(column->key, "models") == 0)
        return cst_models_decimals(rows);
    return column->decimals > 0 ? column->decimals : 0;
}

static void print_plain(cst_page *page, const json_t *rows, const json_t *row,
                        const plain_column *columns, size_t count) {
    for (size_t c = 0; c < count; c++) {
        const char *text = cst_json_string(row, columns[c].key);
        double value = cst_json_number(row, columns[c].key);
        if (!cst_json_has_column(rows, columns[c].key))
            continue;
        cst_page_print(page, " ");
        if (text)
            print_text(page, text);
        else if (!isnan(value))
            cst_page_print(page, "%.*f", decimals_of(rows, &columns[c]), value);
        cst_page_print(page, " |");
    }
}

static void print_score(cst_page *page, const json_t *rows, const json_t *row,
                        const cst_score_spec *score) {
    static const char *const on[] = {
        [CST_PLAIN] = "", [CST_BOLD] = "**", [CST_DIM] = "", [CST_UNDERLINE] = "<u>"};
    static const char *const off[] = {
        [CST_PLAIN] = "", [CST_BOLD] = "**", [CST_DIM] = "", [CST_UNDERLINE] = "</u>"};
    cst_places places = cst_score_places(rows, score);
    double value = cst_score_value(row, score);
    cst_ends ends = cst_score_interval(row, score);
    cst_style style = cst_score_style(&places, score, value);
    if (isnan(value))
        cst_page_print(page, " ");
    else
        cst_page_print(page, " %s%.*f%s", on[style], score->decimals, score->scale * value,
                       off[style]);
    double error = cst_score_error(row, NULL, score);
    if (!isnan(value) && !isnan(error))
        cst_page_print(page, " ± %.*f", score->decimals, error);
    if (!isnan(value) && !isnan(ends.low))
        cst_page_print(page, " [%.*f, %.*f]", score->decimals, ends.low, score->decimals,
                       ends.high);
    cst_page_print(page, " |");
}

static void print_row(cst_page *page, const json_t *root, const json_t *rows, const json_t *row) {
    cst_page_print(page, "|");
    print_plain(page, rows, row, FIRST, sizeof FIRST / sizeof FIRST[0]);
    const cst_score_spec *score = NULL;
    int group = 0;
    int32_t place = 0;
    while ((score = next_score(root, rows, &group, &place)))
        print_score(page, rows, row, score);
    print_plain(page, rows, row, LAST, sizeof LAST / sizeof LAST[0]);
    if (has_tests(root, rows)) {
        double p = cst_score_adjusted_p(root, cst_json_string(row, "method"));
        if (isnan(p))
            cst_page_print(page, " |");
        else
            cst_page_print(page, p < 0.001 ? " <0.001 |" : " %.3f |", p);
    }
    cst_page_print(page, "\n");
}

void cst_rows_markdown(cst_page *page, const json_t *root, const json_t *rows) {
    print_header(page, root, rows, false);
    print_header(page, root, rows, true);
    for (size_t i = 0; i < json_array_size(rows); i++)
        print_row(page, root, rows, json_array_get(rows, i));
}
