/*
 * What the texts of compare, ablate, sweep and evaluate share.
 * Last stage of these commands without --json. Paper: the layout of the results tables.
 */
#include "report/text_methods.h"

#include <math.h>
#include <string.h>

/* ---- sentences ---- */

/* What a row of predictions is about: the first of these keys that the document has. */
static const char *unit_of(const json_t *root) {
    static const char *const units[] = {"images", "cases"};
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++)
        if (json_object_get(root, units[u]))
            return units[u];
    return "samples";
}

void cst_text_effective(cst_page *page, const json_t *root) {
    double effective = cst_json_number(root, "effective_samples");
    if (!isnan(effective))
        cst_page_print(page, " (effectively %.1f, by their weights)", effective);
}

void cst_text_counts(cst_page *page, const json_t *root) {
    static const char *const counts[][2] = {{"pixels", "pixels"},
                                            {"ignored", "ignored"},
                                            {"annotations", "true boxes"},
                                            {"detections", "detections"}};
    cst_page_print(page, "%.0f %s", cst_json_number(root, unit_of(root)), unit_of(root));
    cst_text_effective(page, root);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (json_object_get(root, counts[i][0]))
            cst_page_print(page, ", %.0f %s", cst_json_number(root, counts[i][0]), counts[i][1]);
    double band = cst_json_number(json_object_get(root, "boundary"), "pixels");
    if (!isnan(band))
        cst_page_print(page, ", boundary width %.0f", band);
}

static void print_repetitions(cst_page *page, const json_t *root) {
    size_t count = cst_repetitions(root);
    double seed = cst_json_number(root, "seed");
    if (count > 0)
        cst_page_print(page,
                       "  Means over %zu repetitions, seeds %.0f to %.0f; se: standard error.\n",
                       count, seed, seed + (double)count - 1);
}

void cst_text_scored(cst_page *page, const json_t *root) {
    const char *split = cst_json_text(root, "split");
    const char *scored = cst_json_string(root, "scored");
    const char *ood = cst_json_string(root, "ood");
    const char *aggregate = cst_json_string(root, "aggregate");
    double conditions = cst_json_number(root, "conditions");
    double outputs = cst_json_number(root, "output_count");
    double holdout = cst_json_number(root, "holdout");
    cst_page_print(page, "  split %s, ", split);
    cst_text_counts(page, root);
    if (conditions > 0)
        cst_page_print(page, " in each of %.0f conditions (scores: %s)", conditions,
                       aggregate ? aggregate : "-");
    else if (aggregate)
        cst_page_print(page, " (scores: %s)", aggregate);
    if (!isnan(cst_json_number(root, "models_in")))
        cst_page_print(page, ", %.0f members", cst_json_number(root, "models_in"));
    if (!isnan(cst_json_number(root, "classes")))
        cst_page_print(page, ", %.0f classes", cst_json_number(root, "classes"));
    if (!isnan(outputs))
        cst_page_print(page, ", %.0f output%s", outputs, outputs > 1 ? "s" : "");
    if (!isnan(cst_json_number(root, "seed")))
        cst_page_print(page, ", seed %.0f", cst_json_number(root, "seed"));
    cst_page_print(page, "\n");
    print_repetitions(page, root);
    if (!isnan(holdout))
        cst_page_print(page,
                       "  Scores are of rows held out of split %s: %.4g%% of it, drawn at random, "
                       "that no fit saw.\n",
                       split, 100 * holdout);
    else if (scored && strcmp(scored, "nested") == 0)
        cst_page_print(page, "  Scores are nested out-of-fold: every row is scored by a fit that "
                             "did not see it.\n");
    else if (scored)
        cst_page_print(page,
                       "  Scores are of a held-out split: fitted on split oof, scored once on "
                       "split %s.\n",
                       split);
    if (ood)
        cst_page_print(page, "  Rows of split %s are to be distinguished from those of split %s.\n",
                       ood, split);
    cst_page_print(page, "\n");
}

void cst_text_legend(cst_page *page, const json_t *root) {
    double resamples = cst_json_number(root, "resamples");
    const json_t *first = json_array_get(json_object_get(root, "rows"), 0);
    int32_t count = 0;
    int32_t shown = 0;
    int32_t intervals = 0;
    const cst_score_spec *scores = cst_scores_of(root, CST_SCORES_OF_TASK, &count);
    const cst_score_spec *ece = cst_score_find(root, "ece");
    for (int32_t s = 0; s < count; s++) {
        shown += scores[s].in_table;
        intervals += scores[s].in_table && scores[s].interval_in_table;
    }
    if (page->color)
        cst_page_print(page, "  Best of each column in bold, second best underlined.\n");
    cst_page_print(page, "  K: number of members that prediction runs.\n");
    if (!(resamples > 0) || isnan(cst_score_interval(first, &scores[0]).low))
        return;
    cst_page_print(page,
                   "  Next to %s: the 95%% bootstrap interval, %.0f resamples paired over %s.\n",
                   intervals == shown ? "each score" : scores[0].label, resamples, unit_of(root));
    if (ece && ece->interval_in_table)
        cst_page_print(page, "  Resampling adds noise to every bin: the interval of an ECE may lie "
                             "above its value.\n");
}

/* Whether the document or one of its rows has the key: evaluations of files lack some scores. */
static bool has_value(const json_t *root, const char *key) {
    const json_t *rows = json_object_get(root, "rows");
    if (rows || !cst_json_string(root, "task"))
        return true;
    const json_t *own = json_object_get(root, key);
    return own && !json_is_null(own);
}

void cst_text_definitions(cst_page *page, const json_t *root, bool full) {
    const json_t *definitions = json_object_get(root, "definitions");
    const char *precision = cst_json_string(root, "ap_definition");
    if (json_object_size(definitions) == 0) {
        if (precision)
            cst_page_paragraph(page, "%s", precision);
        return;
    }
    cst_page_heading(page, "Definitions");
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)definitions, key, value) {
        const cst_score_spec *score = cst_score_find(root, key);
        const char *sentence = json_string_value(value);
        if (!has_value(root, key))
            continue;
        if (full || !score || score->in_table)
            cst_page_paragraph(page, "%s: %s", cst_score_label(root, key),
                               sentence ? sentence : "-");
    }
}

void cst_text_end(cst_page *page, const json_t *root) {
    const json_t *seconds = json_object_get(root, "seconds");
    cst_text_bullets(page, root, "notices", "Notices");
    if (json_object_size(seconds) == 0)
        return;
    const char *separator = "\n  Seconds:";
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)seconds, key, value) {
        cst_page_print(page, "%s %s %.2f", separator, key, json_number_value(value));
        separator = ",";
    }
    cst_page_print(page, "\n");
}

/* ---- tables of scores ---- */

void cst_text_score_table(cst_page *page, const json_t *root, const json_t *rows, const char *key,
                          cst_score_group group, const char *heading) {
    const cst_text_column name = {.key = key, .header = key, .kind = CST_COLUMN_TEXT};
    cst_text_table table = {.page = page, .root = root, .rows = rows};
    cst_text_table_add(&table, &name, 1);
    if (cst_text_table_add_group(&table, group) == 0)
        return;
    cst_page_heading(page, "%s", heading);
    cst_text_table_print(&table);
}

void cst_text_further(cst_page *page, const json_t *root, const json_t *rows, const char *key) {
    bool classes = cst_document_task(root) == CST_TASK_CLASSIFICATION;
    cst_text_score_table(page, root, rows, key, CST_SCORES_OF_TASK,
                         classes ? "Further calibration" : "Further scores");
}

/* ---- tables of one task ---- */

void cst_text_coverage(cst_page *page, const json_t *rows) {
    enum { LEVELS_MAX = 12 };
    static const cst_text_column name = {
        .key = "method", .header = "method", .kind = CST_COLUMN_TEXT};
    bool single = json_is_object(rows);
    const json_t *levels = json_object_get(single ? rows : json_array_get(rows, 0), "levels");
    char headers[LEVELS_MAX][24];
    cst_text_table table = {.page = page, .rows = rows};
    cst_text_table_add(&table, &name, !single);
    for (size_t l = 0; l < json_array_size(levels) && l < LEVELS_MAX; l++) {
        (void)cst_snprintf(headers[l], sizeof headers[l], "%g %%",
                           100 * cst_json_number_at(levels, l));
        const cst_text_column columns[] = {
            {.object = "coverage", .index = l, .header = headers[l], .decimals = 2, .scale = 100},
            {.object = "width", .index = l, .header = "width", .decimals = 4}};
        cst_text_table_add(&table, columns, 2);
    }
    if (json_array_size(levels) == 0)
        return;
    cst_page_heading(page, "Prediction intervals: %% of targets inside, and width");
    cst_text_table_print(&table);
}

void cst_text_outputs(cst_page *page, const json_t *root) {
    static const cst_text_column columns[] = {
        {.key = "name", .header = "output", .kind = CST_COLUMN_TEXT},
        {.key = "rmse", .header = "RMSE", .decimals = 4},
        {.key = "mae", .header = "MAE", .decimals = 4},
        {.key = "r2", .header = "R^2", .decimals = 4},
        {.key = "nll", .header = "NLL", .decimals = 4},
        {.object = "coverage", .index = 2, .header = "cover 0.9", .decimals = 3}};
    const json_t *outputs = json_object_get(root, "outputs");
    if (json_array_size(outputs) < 2)
        return;
    cst_page_heading(page, "Outputs");
    cst_text_table_show(page, outputs, columns, sizeof columns / sizeof columns[0]);
}

static void print_classes(cst_page *page, const json_t *root) {
    static const cst_text_column columns[] = {
        {.key = "class", .header = "class", .kind = CST_COLUMN_NAME},
        {.key = "pixels", .header = "pixels"},
        {.key = "iou", .header = "IoU %", .decimals = 2, .scale = 100},
        {.key = "dice", .header = "Dice %", .decimals = 2, .scale = 100},
        {.key = "accuracy", .header = "accuracy %", .decimals = 2, .scale = 100},
        {.key = "boundary_iou", .header = "boundary IoU %", .decimals = 2, .scale = 100}};
    const json_t *classes = json_object_get(root, "per_class");
    if (json_array_size(classes) == 0)
        return;
    cst_page_heading(page, "Classes");
    cst_text_table_show(page, classes, columns, sizeof columns / sizeof columns[0]);
}

static void print_categories(cst_page *page, const json_t *root) {
    static const cst_text_column columns[] = {
        {.key = "id", .header = "category", .kind = CST_COLUMN_NAME},
        {.key = "boxes", .header = "boxes"}};
    cst_text_table table = {
        .page = page, .root = root, .rows = json_object_get(root, "categories")};
    if (json_array_size(table.rows) == 0)
        return;
    cst_page_heading(page, "Categories");
    cst_text_table_add(&table, columns, 2);
    cst_text_table_add_scores(&table, CST_COLUMN_VALUE, CST_COLUMN_NUMBER, 0);
    cst_text_table_print(&table);
}

void cst_text_task(cst_page *page, const json_t *root, const json_t *rows) {
    switch (cst_document_task(root)) {
    case CST_TASK_CLASSIFICATION:
        break;
    case CST_TASK_REGRESSION:
        cst_text_coverage(page, rows);
        cst_text_outputs(page, root);
        break;
    case CST_TASK_SEGMENTATION:
        print_classes(page, root);
        break;
    case CST_TASK_DETECTION:
        print_categories(page, root);
        break;
    }
}
