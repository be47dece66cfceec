/*
 * What `corestack evaluate` found, as text: one row for the stack and one for each baseline.
 * Last stage of an evaluation. Paper: the layout of the main results table.
 */
#include "report/text_methods.h"

#include <math.h>
#include <string.h>

enum { METRICS = 4 };

static const struct metric {
    const char *key;
    const char *interval;
    const char *header;
    int decimals;
    double scale;
    bool more; /* more is better */
} METRIC[METRICS] = {
    {"top1", "top1_ci", "top-1 %", 2, 100, true},
    {"ece", "ece_ci", "ECE", 4, 1, false},
    {"nll", "nll_ci", "NLL", 4, 1, false},
    {"brier", "brier_ci", "Brier", 4, 1, false},
};

/* Row `index` of the table: the document itself, then its baselines. */
static const json_t *row_at(const json_t *root, size_t index) {
    const json_t *baselines = json_object_get(root, "baselines");
    const char *first = cst_json_string(json_array_get(baselines, 0), "method");
    bool listed = first && strcmp(first, "corestack") == 0;
    if (listed)
        return json_array_get(baselines, index);
    return index == 0 ? root : json_array_get(baselines, index - 1);
}

static double best_value(const json_t *root, const struct metric *metric) {
    double best = NAN;
    for (size_t i = 0; row_at(root, i); i++) {
        double value = cst_json_number(row_at(root, i), metric->key);
        if (isnan(best) || (metric->more ? value > best : value < best))
            best = value;
    }
    return best;
}

static void metric_cells(cst_grid *table, const json_t *row, const struct metric *metric,
                         bool best) {
    cst_style style = best ? CST_BOLD : CST_PLAIN;
    const json_t *interval = json_object_get(row, metric->interval);
    double low = cst_json_number_at(interval, 0);
    double high = cst_json_number_at(interval, 1);
    cst_grid_number(table, style, metric->decimals,
                    metric->scale * cst_json_number(row, metric->key));
    if (isnan(low) || isnan(high))
        cst_grid_cell(table, CST_DIM, "%s", "");
    else
        cst_grid_cell(table, CST_DIM, "[%.*f, %.*f]", metric->decimals, metric->scale * low,
                      metric->decimals, metric->scale * high);
}

static void print_table(cst_page *page, const json_t *root) {
    static const char *const headers[] = {"method", "models", "top-1 %", "", "ECE",   "",
                                          "NLL",    "",       "Brier",   "", "detail"};
    bool several = row_at(root, 1) != NULL;
    double best[METRICS];
    for (size_t m = 0; m < METRICS; m++)
        best[m] = several ? best_value(root, &METRIC[m]) : NAN;
    cst_grid table;
    cst_grid_begin(&table, page, "lrrlrlrlrll", headers);
    for (size_t i = 0; row_at(root, i); i++) {
        const json_t *row = row_at(root, i);
        const char *method = cst_json_string(row, "method");
        const char *detail = cst_json_string(row, "detail");
        const char *self = several || cst_json_string(root, "split") ? "corestack" : "predictions";
        cst_grid_cell(&table, CST_PLAIN, "%s", method ? method : self);
        cst_grid_number(&table, CST_PLAIN, 0, cst_json_number(row, "models"));
        for (size_t m = 0; m < METRICS; m++) {
            double value = cst_json_number(row, METRIC[m].key);
            metric_cells(&table, row, &METRIC[m], value >= best[m] && value <= best[m]);
        }
        cst_grid_cell(&table, CST_DIM, "%s", detail ? detail : "");
    }
    cst_grid_end(&table);
}

/* Scores by condition of a split that has several (corruptions, severities). */
static void print_conditions(cst_page *page, const json_t *root) {
    static const char *const headers[] = {"shift", "kind", "severity", "top-1 %",
                                          "ECE",   "NLL",  "Brier"};
    const json_t *conditions = json_object_get(root, "conditions");
    if (json_array_size(conditions) == 0)
        return;
    cst_page_heading(page, "Conditions");
    cst_grid table;
    cst_grid_begin(&table, page, "llrrrrr", headers);
    for (size_t i = 0; i < json_array_size(conditions); i++) {
        const json_t *row = json_array_get(conditions, i);
        const char *shift = cst_json_string(row, "shift");
        const char *kind = cst_json_string(row, "kind");
        cst_grid_cell(&table, CST_PLAIN, "%s", shift ? shift : "-");
        cst_grid_cell(&table, CST_PLAIN, "%s", kind ? kind : "-");
        double severity = cst_json_number(row, "severity");
        cst_grid_cell(&table, CST_PLAIN, isnan(severity) ? "-" : "%g", severity);
        for (size_t m = 0; m < METRICS; m++)
            cst_grid_number(&table, CST_PLAIN, METRIC[m].decimals,
                            METRIC[m].scale * cst_json_number(row, METRIC[m].key));
    }
    cst_grid_end(&table);
}

/* What stands beside the scores: corruption, splits, classes, rows out of distribution. */
static void print_shift(cst_page *page, const json_t *root) {
    json_t *rows = cst_document_rows(root);
    if (rows)
        cst_text_shift(page, root, rows, "method", true);
    else
        page->text.status = CST_ERROR_MEMORY;
    json_decref(rows);
    cst_text_definitions(page, root, true);
}

void cst_text_evaluate(cst_page *page, const json_t *root) {
    if (json_object_get(root, "AP")) {
        cst_text_evaluate_detection(page, root);
        return;
    }
    if (json_object_get(root, "miou")) {
        cst_text_evaluate_segmentation(page, root);
        return;
    }
    const char *split = cst_json_string(root, "split");
    const char *definition = cst_json_string(root, "ece_definition");
    const char *aggregate = cst_json_string(root, "aggregate");
    double resamples = cst_json_number(root, "resamples");
    cst_page_styled(page, CST_BOLD, "corestack evaluate");
    cst_page_print(page, split ? ": split %s, %.0f samples" : ": %s%.0f samples",
                   split ? split : "", cst_json_number(root, "samples"));
    size_t conditions = json_array_size(json_object_get(root, "conditions"));
    if (conditions > 0)
        cst_page_print(page, " in each of %zu conditions", conditions);
    if (aggregate)
        cst_page_print(page, "; %s", aggregate);
    cst_page_print(page, "\n");
    print_table(page, root);
    print_conditions(page, root);
    cst_text_definition(page, definition);
    if (resamples > 0)
        cst_page_print(page, "  Brackets: 95%% bootstrap intervals, %.0f resamples, seed %.0f.\n",
                       resamples, cst_json_number(root, "seed"));
    print_shift(page, root);
    cst_text_bullets(page, root, "notices", "Notices");
}
