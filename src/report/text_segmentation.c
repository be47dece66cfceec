/*
 * What was found about segmentations, as text: scores of maps or a stack, of each class, and of the
 * methods beside it. Last stage of an evaluation or comparison. Paper: the main results table.
 */
#include "report/text_methods.h"

#include <math.h>
#include <string.h>

static const char *const SCORES[] = {
    "miou", "pixel_accuracy", "dice", "boundary_error", "boundary_iou", "ece", "nll", "brier"};
enum { SCORE_COUNT = sizeof SCORES / sizeof SCORES[0] };

static void interval_cell(cst_grid *table, const json_t *row, const cst_score *score) {
    const json_t *interval = json_object_get(row, score->interval);
    double low = cst_json_number_at(interval, 0);
    double high = cst_json_number_at(interval, 1);
    if (isnan(low) || isnan(high))
        cst_grid_cell(table, CST_DIM, "%s", "");
    else
        cst_grid_cell(table, CST_DIM, "[%.*f, %.*f]", score->decimals, score->scale * low,
                      score->decimals, score->scale * high);
}

/* Scores down the page: there is room for every interval. */
static void print_scores(cst_page *page, const json_t *root) {
    static const char *const headers[] = {"score", "", "", "definition"};
    const json_t *definitions = json_object_get(root, "definitions");
    cst_grid table;
    cst_grid_begin(&table, page, "lrll", headers);
    for (size_t s = 0; s < SCORE_COUNT; s++) {
        const cst_score *score = cst_score_find(SCORES[s]);
        const char *definition = cst_json_string(definitions, SCORES[s]);
        cst_grid_cell(&table, CST_PLAIN, "%s", score->header);
        cst_grid_number(&table, CST_PLAIN, score->decimals,
                        score->scale * cst_json_number(root, score->key));
        interval_cell(&table, root, score);
        cst_grid_cell(&table, CST_DIM, "%s", definition ? definition : "");
    }
    cst_grid_end(&table);
}

static void print_classes(cst_page *page, const json_t *root) {
    static const char *const headers[] = {"class",  "pixels",     "IoU %",
                                          "Dice %", "accuracy %", "boundary IoU %"};
    static const char *const keys[] = {"iou", "dice", "accuracy", "boundary_iou"};
    const json_t *list = json_object_get(root, "per_class");
    if (json_array_size(list) == 0)
        return;
    cst_page_heading(page, "Classes");
    cst_grid table;
    cst_grid_begin(&table, page, "lrrrrr", headers);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        cst_grid_name(&table, row, "class");
        cst_grid_number(&table, CST_PLAIN, 0, cst_json_number(row, "pixels"));
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
            cst_grid_number(&table, CST_PLAIN, 2, 100 * cst_json_number(row, keys[k]));
    }
    cst_grid_end(&table);
}

static bool has_numbers(const json_t *rows, const char *key) {
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (!isnan(cst_json_number(json_array_get(rows, i), key)))
            return true;
    return false;
}

/* Methods: name, members, scores; the intervals of mIoU only, others are in --json. */
static void print_methods(cst_page *page, const json_t *rows) {
    static const char *const headers[] = {"method", "mIoU %", "",  "pixels %", "Dice %", "edges %",
                                          "ECE",    "NLL",    "K", "FLOPs",    "s",      "detail"};
    static const char *const shown[] = {"pixel_accuracy", "dice", "boundary_error", "ece", "nll"};
    const cst_score *miou = cst_score_find("miou");
    cst_places best = cst_score_places(rows, miou);
    cst_grid table;
    cst_grid_begin(&table, page, "lrlrrrrrrrrl", headers);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *method = cst_json_string(row, "method");
        const char *detail = cst_json_string(row, "detail");
        double value = cst_json_number(row, "miou");
        cst_grid_cell(&table, CST_PLAIN, "%s", method ? method : "corestack");
        cst_grid_number(&table, cst_score_style(&best, value), miou->decimals, miou->scale * value);
        interval_cell(&table, row, miou);
        for (size_t s = 0; s < sizeof shown / sizeof shown[0]; s++) {
            const cst_score *score = cst_score_find(shown[s]);
            cst_places places = cst_score_places(rows, score);
            double number = cst_json_number(row, score->key);
            cst_grid_number(&table, cst_score_style(&places, number), score->decimals,
                            score->scale * number);
        }
        cst_grid_number(&table, CST_PLAIN, 0, cst_json_number(row, "models"));
        cst_grid_number(&table, CST_PLAIN, 3, cst_json_number(row, "flops_rel"));
        cst_grid_number(&table, CST_PLAIN, 2, cst_json_number(row, "seconds"));
        cst_grid_cell(&table, CST_DIM, "%s", detail ? detail : "");
    }
    cst_grid_end(&table);
    cst_page_print(page, "  edges: error rate near label boundaries.%s%s\n",
                   has_numbers(rows, "flops_rel") ? " FLOPs: relative to running every member."
                                                  : "",
                   has_numbers(rows, "seconds") ? " s: seconds of the fit." : "");
}

static void print_size(cst_page *page, const json_t *root) {
    double band = cst_json_number(json_object_get(root, "boundary"), "pixels");
    cst_page_print(page, "%.0f cases, %.0f pixels that count, %.0f that do not",
                   cst_json_number(root, "cases"), cst_json_number(root, "pixels"),
                   cst_json_number(root, "ignored"));
    if (!isnan(band))
        cst_page_print(page, "; boundaries %.0f pixels wide", band);
    cst_page_print(page, "\n");
}

static void print_resamples(cst_page *page, const json_t *root) {
    double resamples = cst_json_number(root, "resamples");
    if (resamples > 0)
        cst_page_print(page,
                       "  Brackets: 95%% bootstrap intervals over cases, %.0f resamples, seed "
                       "%.0f.\n",
                       resamples, cst_json_number(root, "seed"));
}

void cst_text_evaluate_segmentation(cst_page *page, const json_t *root) {
    const char *split = cst_json_string(root, "split");
    const json_t *baselines = json_object_get(root, "baselines");
    cst_page_styled(page, CST_BOLD, "corestack evaluate");
    cst_page_print(page, split ? ": split %s, " : ": %s", split ? split : "");
    print_size(page, root);
    print_scores(page, root);
    print_classes(page, root);
    if (json_array_size(baselines) > 0) {
        json_t *rows = cst_document_rows(root);
        cst_page_heading(page, "Methods");
        print_methods(page, rows);
        json_decref(rows);
    }
    print_resamples(page, root);
    cst_text_bullets(page, root, "notices", "Notices");
}

void cst_text_compare_segmentation(cst_page *page, const json_t *root) {
    const char *reference = cst_json_string(root, "reference");
    const json_t *rows = json_object_get(root, "rows");
    cst_page_styled(page, CST_BOLD, "corestack compare");
    cst_page_print(page, ": split %s (%s), %.0f models, ", cst_json_string(root, "split"),
                   cst_json_string(root, "scored"), cst_json_number(root, "models_in"));
    print_size(page, root);
    print_methods(page, rows);
    print_resamples(page, root);
    bool heading = false;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *method = cst_json_string(json_array_get(rows, i), "method");
        double p[2] = {cst_score_adjusted_p(root, method, "miou"),
                       cst_score_adjusted_p(root, method, "nll")};
        if (isnan(p[0]) && isnan(p[1]))
            continue;
        if (!heading)
            cst_page_print(page, "  Adjusted p of no difference to %s (mIoU, NLL), over cases:\n",
                           reference);
        heading = true;
        cst_page_print(page, "    %s %.3g, %.3g\n", method, p[0], p[1]);
    }
    cst_text_bullets(page, root, "notices", "Notices");
}
