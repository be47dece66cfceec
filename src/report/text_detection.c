/*
 * What was found about detections, as text: COCO's figures of a file or a stack, of each category,
 * and of the methods beside it. Last stage of an evaluation or comparison. Paper: the main table.
 */
#include "report/text.h"

#include <math.h>

static const char *const FIGURES[] = {"AP",  "AP50", "AP75",  "APs", "APm", "APl",
                                      "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"};
enum { FIGURE_COUNT = sizeof FIGURES / sizeof FIGURES[0], IN_TABLES = 6 };

/* A fraction in percent; "-" where it is not defined (-1). */
static void figure_cell(cst_grid *table, cst_style style, double value) {
    cst_grid_number(table, style, 2, value < 0 ? NAN : 100 * value);
}

static void interval_cell(cst_grid *table, const json_t *row) {
    const json_t *interval = json_object_get(row, "AP_ci");
    double low = cst_json_number_at(interval, 0);
    double high = cst_json_number_at(interval, 1);
    if (isnan(low) || isnan(high))
        cst_grid_cell(table, CST_DIM, "%s", "");
    else
        cst_grid_cell(table, CST_DIM, "[%.2f, %.2f]", 100 * low, 100 * high);
}

void cst_text_figures_detection(cst_page *page, const json_t *object) {
    static const char *const headers[] = {"",      "all",    "IoU .50", "IoU .75",
                                          "small", "medium", "large"};
    static const char *const recalls[] = {"", "1 box", "10", "100", "small", "medium", "large"};
    cst_grid table;
    for (int part = 0; part < 2; part++) {
        cst_grid_begin(&table, page, "lrrrrrr", part ? recalls : headers);
        cst_grid_cell(&table, CST_PLAIN, "%s", part ? "AR %" : "AP %");
        for (int f = 0; f < FIGURE_COUNT / 2; f++)
            figure_cell(&table, CST_PLAIN,
                        cst_json_number(object, FIGURES[part * FIGURE_COUNT / 2 + f]));
        cst_grid_end(&table);
    }
    const json_t *interval = json_object_get(object, "AP_ci");
    if (interval)
        cst_page_print(page, "  AP within [%.2f, %.2f] (95%% bootstrap interval over images)\n",
                       100 * cst_json_number_at(interval, 0),
                       100 * cst_json_number_at(interval, 1));
}

static void print_categories(cst_page *page, const json_t *root) {
    static const char *const headers[] = {"category", "boxes", "AP %",   "AP50",
                                          "AP75",     "small", "medium", "large"};
    const json_t *list = json_object_get(root, "categories");
    if (json_array_size(list) == 0)
        return;
    cst_page_heading(page, "Categories");
    cst_grid table;
    cst_grid_begin(&table, page, "lrrrrrrr", headers);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        cst_grid_name(&table, row, "id");
        cst_grid_number(&table, CST_PLAIN, 0, cst_json_number(row, "boxes"));
        for (int f = 0; f < IN_TABLES; f++)
            figure_cell(&table, CST_PLAIN, cst_json_number(row, FIGURES[f]));
    }
    cst_grid_end(&table);
}

/* Methods: name, members, figures. */
static void print_methods(cst_page *page, const json_t *rows) {
    static const char *const headers[] = {"method", "models", "AP %",   "",      "AP50",
                                          "AP75",   "small",  "medium", "large", "detail"};
    double best = NAN;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        double ap = cst_json_number(json_array_get(rows, i), "AP");
        best = isnan(best) || ap > best ? ap : best;
    }
    cst_grid table;
    cst_grid_begin(&table, page, "lrrlrrrrrl", headers);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *method = cst_json_string(row, "method");
        const char *detail = cst_json_string(row, "detail");
        double ap = cst_json_number(row, "AP");
        cst_grid_cell(&table, CST_PLAIN, "%s", method ? method : "-");
        cst_grid_number(&table, CST_PLAIN, 0, cst_json_number(row, "models"));
        figure_cell(&table, ap >= best ? CST_BOLD : CST_PLAIN, ap);
        interval_cell(&table, row);
        for (int f = 1; f < IN_TABLES; f++)
            figure_cell(&table, CST_PLAIN, cst_json_number(row, FIGURES[f]));
        cst_grid_cell(&table, CST_DIM, "%s", detail ? detail : "");
    }
    cst_grid_end(&table);
}

void cst_text_evaluate_detection(cst_page *page, const json_t *root) {
    const char *split = cst_json_string(root, "split");
    const char *definition = cst_json_string(root, "ap_definition");
    double resamples = cst_json_number(root, "resamples");
    const json_t *baselines = json_object_get(root, "baselines");
    cst_page_styled(page, CST_BOLD, "corestack evaluate");
    cst_page_print(page, split ? ": split %s, " : ": %s", split ? split : "");
    cst_page_print(page, "%.0f images, %.0f true boxes, %.0f detections\n",
                   cst_json_number(root, "images"), cst_json_number(root, "annotations"),
                   cst_json_number(root, "detections"));
    cst_text_figures_detection(page, root);
    print_categories(page, root);
    if (json_array_size(baselines) > 0) {
        cst_page_heading(page, "Methods");
        print_methods(page, baselines);
    }
    if (definition)
        cst_text_paragraph(page, definition);
    if (resamples > 0)
        cst_page_print(page, "  Brackets: 95%% bootstrap intervals, %.0f resamples, seed %.0f.\n",
                       resamples, cst_json_number(root, "seed"));
    cst_text_bullets(page, root, "notices", "Notices");
}

void cst_text_compare_detection(cst_page *page, const json_t *root) {
    const char *definition = cst_json_string(root, "ap_definition");
    double resamples = cst_json_number(root, "resamples");
    cst_page_styled(page, CST_BOLD, "corestack compare");
    cst_page_print(page, ": split %s (%s), %.0f images, %.0f models\n",
                   cst_json_string(root, "split"), cst_json_string(root, "scored"),
                   cst_json_number(root, "images"), cst_json_number(root, "models_in"));
    print_methods(page, json_object_get(root, "rows"));
    if (definition)
        cst_text_paragraph(page, definition);
    if (resamples > 0)
        cst_page_print(page, "  Brackets: 95%% bootstrap intervals, %.0f resamples, seed %.0f.\n",
                       resamples, cst_json_number(root, "seed"));
    cst_text_bullets(page, root, "notices", "Notices");
}
