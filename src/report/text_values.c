/*
 * What was found about a regression, as text: errors, R^2, likelihood, coverage; of a fit also
 * members, weights and costs. Last stage of a command without --json. Paper: none.
 */
#include "report/text_methods.h"

#include <math.h>

/* "coverage 0.50: 0.48, 0.80: 0.79 (width 140)" and so on. */
static void print_coverage(cst_page *page, const json_t *object) {
    const json_t *levels = json_object_get(object, "levels");
    const json_t *coverage = json_object_get(object, "coverage");
    const json_t *width = json_object_get(object, "width");
    if (json_array_size(levels) == 0)
        return;
    cst_text_label(page, "intervals hold");
    for (size_t l = 0; l < json_array_size(levels); l++)
        cst_page_print(page, "%s%.3f of targets at %g (width %.4g)", l ? ", " : "",
                       cst_json_number_at(coverage, l), cst_json_number_at(levels, l),
                       cst_json_number_at(width, l));
    cst_page_print(page, "\n");
}

static void print_scores(cst_page *page, const json_t *object) {
    static const char *const keys[] = {"rmse", "mae", "median_ae", "r2", "nll"};
    static const char *const labels[] = {"RMSE", "MAE", "median |error|", "R^2", "Gaussian NLL"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        double value = cst_json_number(object, keys[i]);
        if (isnan(value))
            continue;
        cst_text_label(page, labels[i]);
        cst_text_number(page, 6, value);
        cst_page_print(page, "\n");
    }
    print_coverage(page, object);
}

/* A row for each output where there are several. */
static void print_outputs(cst_page *page, const json_t *root) {
    static const char *const headers[] = {"output", "RMSE", "MAE", "R^2", "NLL", "cover 0.9"};
    const json_t *outputs = json_object_get(root, "outputs");
    if (json_array_size(outputs) < 2)
        return;
    cst_page_heading(page, "Outputs");
    cst_grid table;
    cst_grid_begin(&table, page, "lrrrrr", headers);
    for (size_t i = 0; i < json_array_size(outputs); i++) {
        const json_t *row = json_array_get(outputs, i);
        const char *name = cst_json_string(row, "name");
        cst_grid_cell(&table, CST_PLAIN, "%s", name ? name : "-");
        cst_grid_number(&table, CST_PLAIN, 4, cst_json_number(row, "rmse"));
        cst_grid_number(&table, CST_PLAIN, 4, cst_json_number(row, "mae"));
        cst_grid_number(&table, CST_PLAIN, 4, cst_json_number(row, "r2"));
        cst_grid_number(&table, CST_PLAIN, 4, cst_json_number(row, "nll"));
        cst_grid_number(&table, CST_PLAIN, 3,
                        cst_json_number_at(json_object_get(row, "coverage"), 2));
    }
    cst_grid_end(&table);
}

/* Rows of methods or baselines. */
static void print_rows(cst_page *page, const json_t *rows) {
    static const char *const headers[] = {"method",    "RMSE",  "MAE", "R^2",   "NLL",
                                          "cover 0.9", "width", "K",   "detail"};
    cst_grid table;
    cst_grid_begin(&table, page, "lrrrrrrrl", headers);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *name = cst_json_string(row, "method");
        const char *detail = cst_json_string(row, "detail");
        cst_grid_cell(&table, CST_PLAIN, "%s", name ? name : "-");
        cst_grid_number(&table, CST_PLAIN, 5, cst_json_number(row, "rmse"));
        cst_grid_number(&table, CST_PLAIN, 5, cst_json_number(row, "mae"));
        cst_grid_number(&table, CST_PLAIN, 4, cst_json_number(row, "r2"));
        cst_grid_number(&table, CST_PLAIN, 4, cst_json_number(row, "nll"));
        cst_grid_number(&table, CST_PLAIN, 3,
                        cst_json_number_at(json_object_get(row, "coverage"), 2));
        cst_grid_number(&table, CST_PLAIN, 4, cst_json_number_at(json_object_get(row, "width"), 2));
        cst_grid_number(&table, CST_PLAIN, 0, cst_json_number(row, "models"));
        cst_grid_cell(&table, CST_DIM, "%s", detail ? detail : "");
    }
    cst_grid_end(&table);
}

static void print_dropped(cst_page *page, const json_t *root) {
    const json_t *dropped = json_object_get(root, "dropped");
    if (json_array_size(dropped) == 0)
        return;
    cst_page_heading(page, "Dropped");
    for (size_t i = 0; i < json_array_size(dropped); i++) {
        const json_t *entry = json_array_get(dropped, i);
        const char *name = cst_json_string(entry, "name");
        const char *why = cst_json_string(entry, "text");
        cst_page_print(page, "  %s: %s\n", name ? name : "-", why ? why : "-");
    }
}

void cst_text_fit_values(cst_page *page, const json_t *root) {
    const char *model = cst_json_string(root, "model");
    const char *preset = cst_json_string(root, "preset");
    const json_t *oof = json_object_get(root, "oof");
    cst_page_styled(page, CST_BOLD, "corestack fit");
    if (model)
        cst_page_print(page, ": %s", model);
    cst_page_print(page, "\n  regression, preset %s, seed %.0f; %.0f samples, %.0f folds\n",
                   preset ? preset : "-", cst_json_number(root, "seed"),
                   cst_json_number(root, "samples"),
                   cst_json_number(json_object_get(root, "folds"), "count"));
    cst_page_print(page, "  %.0f of %.0f members kept: ", cst_json_number(root, "models_kept"),
                   cst_json_number(root, "models_in"));
    cst_text_names(page, json_object_get(root, "kept"));
    print_dropped(page, root);
    cst_page_heading(page, "Stack");
    cst_text_label(page, "blend weights");
    cst_text_weights(page, json_object_get(root, "blend"));
    if (json_object_size(json_object_get(root, "weights"))) {
        cst_text_label(page, "linear weights");
        cst_text_weights(page, json_object_get(root, "weights"));
    }
    cst_page_heading(page, "Out-of-fold scores of the stack (%s)",
                     cst_json_flag(oof, "nested")
                         ? "nested: everything is refitted without the fold that is scored"
                         : "not asked for");
    print_scores(page, oof);
    print_outputs(page, root);
    cst_page_print(page, "\n  %.2f s\n",
                   cst_json_number(json_object_get(root, "seconds"), "total"));
    cst_text_bullets(page, root, "notices", "Notices");
}

void cst_text_evaluate_values(cst_page *page, const json_t *root) {
    const char *split = cst_json_string(root, "split");
    const json_t *baselines = json_object_get(root, "baselines");
    cst_page_styled(page, CST_BOLD, "corestack evaluate");
    cst_page_print(page, ": regression%s%s, %.0f samples\n", split ? ", split " : "",
                   split ? split : "", cst_json_number(root, "samples"));
    print_scores(page, root);
    print_outputs(page, root);
    if (json_array_size(baselines) > 0) {
        cst_page_heading(page, "Baselines");
        print_rows(page, baselines);
    }
    cst_text_bullets(page, root, "notices", "Notices");
}

void cst_text_compare_values(cst_page *page, const json_t *root) {
    static const char *const headers[] = {"method", "difference", "t", "p adjusted"};
    const json_t *tests = json_object_get(root, "tests");
    const char *reference = cst_json_string(root, "reference");
    cst_page_styled(page, CST_BOLD, "corestack compare");
    cst_page_print(page, "\n  regression; split %s, %.0f samples, %.0f members; scores are %s\n\n",
                   cst_json_string(root, "split"), cst_json_number(root, "samples"),
                   cst_json_number(root, "models_in"), cst_json_string(root, "scored"));
    print_rows(page, json_object_get(root, "rows"));
    if (json_array_size(tests) > 0) {
        cst_page_heading(page, "Paired tests of %s on squared errors", reference ? reference : "-");
        cst_grid table;
        cst_grid_begin(&table, page, "lrrr", headers);
        for (size_t i = 0; i < json_array_size(tests); i++) {
            const json_t *test = json_array_get(tests, i);
            const char *name = cst_json_string(test, "b");
            cst_grid_cell(&table, CST_PLAIN, "%s", name ? name : "-");
            cst_grid_cell(&table, CST_PLAIN, "%+.4g", cst_json_number(test, "difference"));
            cst_grid_number(&table, CST_PLAIN, 2, cst_json_number(test, "statistic"));
            cst_grid_number(&table, CST_PLAIN, 4, cst_json_number(test, "p_adjusted"));
        }
        cst_grid_end(&table);
    }
    cst_text_definitions(page, root, true);
    cst_text_bullets(page, root, "notices", "Notices");
}
