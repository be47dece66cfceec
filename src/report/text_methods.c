/*
 * What the texts of compare, ablate and sweep share.
 * Last stage of a comparison without --json. Paper: the layout of the results tables.
 */
#include "report/text_methods.h"

#include <math.h>
#include <string.h>

/* ---- scores ---- */

/* One decimal fewer than the score has, unless an interval is so narrow that its ends would meet.
 */
static int interval_decimals(const json_t *rows, const cst_score *score) {
    double step = pow(10, 1 - score->decimals);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *interval = json_object_get(json_array_get(rows, i), score->interval);
        double low = score->scale * cst_json_number_at(interval, 0);
        double high = score->scale * cst_json_number_at(interval, 1);
        if (high - low < 2 * step)
            return score->decimals;
    }
    return score->decimals - 1;
}

void cst_text_columns(const json_t *rows, cst_score_column columns[CST_SCORES_BASIC]) {
    for (size_t i = 0; i < CST_SCORES_BASIC; i++)
        columns[i] = (cst_score_column){.score = cst_score_at(i),
                                        .places = cst_score_places(rows, cst_score_at(i)),
                                        .decimals = interval_decimals(rows, cst_score_at(i))};
}

/* "0.123" as ".123". */
static const char *without_zero(const char *number) {
    return number[0] == '0' && number[1] == '.' ? number + 1 : number;
}

void cst_text_score(cst_grid *table, const json_t *row, const cst_score_column *column) {
    const cst_score *score = column->score;
    const json_t *interval = json_object_get(row, score->interval);
    double value = cst_json_number(row, score->key);
    double low = score->scale * cst_json_number_at(interval, 0);
    double high = score->scale * cst_json_number_at(interval, 1);
    char ends[2][64];
    cst_grid_number(table, cst_score_style(&column->places, value), score->decimals,
                    score->scale * value);
    (void)cst_snprintf(ends[0], sizeof ends[0], "%.*f", column->decimals, low);
    (void)cst_snprintf(ends[1], sizeof ends[1], "%.*f", column->decimals, high);
    if (isnan(low) || isnan(high))
        cst_grid_cell(table, CST_DIM, "%s", "");
    else
        cst_grid_cell(table, CST_DIM, "%s-%s", without_zero(ends[0]), without_zero(ends[1]));
}

void cst_text_score_wide(cst_grid *table, const json_t *row, const cst_score *score,
                         const cst_places *places) {
    const json_t *interval = json_object_get(row, score->interval);
    double value = cst_json_number(row, score->key);
    double low = score->scale * cst_json_number_at(interval, 0);
    double high = score->scale * cst_json_number_at(interval, 1);
    cst_grid_number(table, cst_score_style(places, value), score->decimals, score->scale * value);
    if (isnan(low) || isnan(high))
        cst_grid_cell(table, CST_DIM, "%s", "");
    else
        cst_grid_cell(table, CST_DIM, "[%.*f, %.*f]", score->decimals, low, score->decimals, high);
}

/* ---- sentences ---- */

void cst_text_scored(cst_page *page, const json_t *root) {
    const char *split = cst_json_string(root, "split");
    const char *scored = cst_json_string(root, "scored");
    const char *ood = cst_json_string(root, "ood");
    double conditions = cst_json_number(root, "conditions");
    split = split ? split : "-";
    cst_page_print(page, "  split %s, %.0f samples", split, cst_json_number(root, "samples"));
    const char *aggregate = cst_json_string(root, "aggregate");
    if (conditions > 0)
        cst_page_print(page, " in each of %.0f conditions (scores: %s)", conditions,
                       aggregate ? aggregate : "-");
    else if (aggregate)
        cst_page_print(page, " (scores: %s)", aggregate);
    if (!isnan(cst_json_number(root, "models_in")))
        cst_page_print(page, ", %.0f members, %.0f classes", cst_json_number(root, "models_in"),
                       cst_json_number(root, "classes"));
    if (!isnan(cst_json_number(root, "seed")))
        cst_page_print(page, ", seed %.0f", cst_json_number(root, "seed"));
    cst_page_print(page, "\n");
    if (scored && strcmp(scored, "nested") == 0)
        cst_page_print(page, "  Scores are nested out-of-fold: every row is scored by a fit that "
                             "did not see it.\n");
    else if (scored)
        cst_page_print(page,
                       "  Scores are of a held-out split: fitted on split oof, scored once on "
                       "split %s.\n",
                       split);
    if (ood)
        cst_page_print(page, "  Rows of split %s are to be told from those of split %s.\n", ood,
                       split);
}

void cst_text_legend(cst_page *page, const json_t *root) {
    double resamples = cst_json_number(root, "resamples");
    const json_t *first = json_array_get(json_object_get(root, "rows"), 0);
    if (page->color)
        cst_page_print(page, "  Best of each column bold, second best underlined.\n");
    cst_page_print(page, "  K: members that prediction runs.\n");
    if (resamples > 0 && json_object_get(first, "top1_ci"))
        cst_page_print(
            page,
            "  Beside each score: its 95%% bootstrap interval, %.0f resamples paired "
            "over samples.\n  Resampling adds noise to every bin: the interval of an ECE may lie "
            "above its value.\n",
            resamples);
}

void cst_text_definitions(cst_page *page, const json_t *root, bool full) {
    const json_t *definitions = json_object_get(root, "definitions");
    if (json_object_size(definitions) == 0)
        return;
    cst_page_heading(page, "Definitions");
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)definitions, key, value) {
        const cst_score *score = cst_score_find(key);
        if (!full && score && score->group == CST_SCORE_FURTHER)
            continue;
        const char *sentence = json_string_value(value);
        char *text = cst_format(page->text.context, "%s: %s", score ? score->header : key,
                                sentence ? sentence : "-");
        if (text)
            cst_text_paragraph(page, text);
        else
            page->text.status = CST_ERROR_MEMORY;
        cst_free(page->text.context, text);
    }
}

void cst_text_seconds(cst_page *page, const json_t *root) {
    const json_t *seconds = json_object_get(root, "seconds");
    if (json_object_size(seconds) == 0)
        return;
    cst_page_print(page, "\n  Seconds:");
    const char *key = NULL;
    json_t *value = NULL;
    bool first = true;
    json_object_foreach((json_t *)(uintptr_t)seconds, key, value) {
        cst_page_print(page, "%s %s %.2f", first ? "" : ",", key, json_number_value(value));
        first = false;
    }
    cst_page_print(page, "\n");
}

/* ---- a table of one group of scores ---- */

enum { GROUP_SCORES_MAX = 12 };

static size_t scores_of_group(const json_t *rows, cst_score_group group, const cst_score **out) {
    size_t count = 0;
    for (size_t s = 0; cst_score_at(s) && count < GROUP_SCORES_MAX; s++) {
        const cst_score *score = cst_score_at(s);
        bool any = false;
        for (size_t i = 0; i < json_array_size(rows); i++)
            any |= !isnan(cst_json_number(json_array_get(rows, i), score->key));
        if (any && score->group == group)
            out[count++] = score;
    }
    return count;
}

void cst_text_score_table(cst_page *page, const json_t *rows, const char *key,
                          cst_score_group group, const char *heading) {
    const cst_score *scores[GROUP_SCORES_MAX];
    const char *headers[1 + 2 * GROUP_SCORES_MAX] = {key};
    char align[2 + 2 * GROUP_SCORES_MAX] = "l";
    size_t count = scores_of_group(rows, group, scores);
    if (count == 0)
        return;
    cst_page_heading(page, "%s", heading);
    for (size_t s = 0; s < count; s++) {
        headers[1 + 2 * s] = scores[s]->header;
        headers[2 + 2 * s] = "";
        memcpy(align + 1 + 2 * s, "ri", 3);
    }
    cst_grid table;
    cst_grid_begin(&table, page, align, headers);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *name = cst_json_string(row, key);
        cst_grid_cell(&table, CST_PLAIN, "%s", name ? name : "-");
        for (size_t s = 0; s < count; s++) {
            cst_places places = cst_score_places(rows, scores[s]);
            cst_text_score_wide(&table, row, scores[s], &places);
        }
    }
    cst_grid_end(&table);
}
