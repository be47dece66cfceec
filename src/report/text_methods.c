/* `corestack evaluate`, `compare`, `ablate`, `sweep` and `profile` as text. */
#include "report/text.h"

#include <math.h>
#include <string.h>

static const cst_column METHOD[] = CST_COLUMNS(CST_WORDS("method", "method"));
static const cst_column STAGE[] = CST_COLUMNS(CST_WORDS("stage", "stage"));

static cst_table table_of(cst_page *page, const json_t *root, const json_t *rows,
                          const cst_column *columns) {
    cst_table table = {.page = page, .root = root, .rows = rows};
    cst_table_add(&table, columns);
    return table;
}

/* Paired differences of the rows that have some. */
static void print_paired(cst_page *page, const json_t *root, const json_t *rows,
                         const cst_column *columns, const char *heading) {
    cst_table table = table_of(page, root, rows, columns);
    bool any = false;
    for (size_t i = 0; i < json_array_size(rows); i++)
        any |= json_object_size(json_object_get(json_array_get(rows, i), "difference")) > 0;
    if (!any)
        return;
    cst_page_heading(page, root, heading);
    table.first = 1;
    cst_table_add_scores(&table, CST_COLUMN_DIFFERENCE, CST_COLUMN_EXCLUDES, 'i');
    cst_table_print(&table);
    cst_page_print(page, "  *: the 95%% bootstrap interval of the paired difference excludes 0.\n");
}

/* ---- what was scored ---- */

/* "16 cases, 18771 pixels scored". */
#define COUNTS                                                                                     \
    "[{images:0} images|{cases:0} cases|{samples:0} samples]" CST_EFFECTIVE                        \
    "[, {pixels:0} pixels][, {ignored:0} ignored][, {annotations:0} true boxes]"                   \
    "[, {detections:0} detections][, boundary width {boundary.pixels:0}]"

static void print_repetitions(cst_page *page, const json_t *root) {
    size_t count = cst_repetitions(root);
    double seed = cst_json_number(root, "seed");
    cst_page_print(page, "  Means over %zu repetitions, seeds %.0f to %.0f; se: standard error.\n",
                   count, seed, seed + (double)count - 1);
}

static const cst_text_row SCORED[] = CST_ROWS(
    CST_TEXT(NULL, "  split {split}, " COUNTS
                   "[{conditions!} in each of {conditions:0} conditions (scores: {aggregate})|"
                   "{conditions!} in each of {conditions:0} conditions (scores: -)| (scores: "
                   "{aggregate})][, {models_in:0} members][, {classes:0} classes]"
                   "[, {output_count:0} output{output_count&s}][, seed {seed:0}]\n"),
    CST_CODE("repetitions", print_repetitions),
    CST_TEXT(NULL,
             "[  Scores are of rows held out of split {split}: {holdout:%g4}% of it, drawn at "
             "random, that no fit saw.\n|{scored=nested!}  Scores are nested out-of-fold: every "
             "row is scored by a fit that did not see it.\n|{scored!}  Scores are of a held-out "
             "split: fitted on split oof, scored once on split {split}.\n]"
             "[  Rows of split {ood} are to be distinguished from those of split {split}.\n]\n"));

static void print_legend(cst_page *page, const json_t *root) {
    double resamples = cst_json_number(root, "resamples");
    const json_t *first = cst_json_at(root, "rows.0");
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
    for (size_t i = 0; i < json_array_size(json_object_get(root, "rows")); i++)
        if (cst_json_flag(json_array_get(json_object_get(root, "rows"), i), "decided")) {
            cst_page_fill(page, root,
                          "  {metric.label}: of values that are decided for it, where "
                          "a method has such.\n");
            break;
        }
    if (!(resamples > 0) || isnan(cst_score_interval(first, &scores[0]).low))
        return;
    cst_page_print(page, "  Next to %s: the 95%% bootstrap interval, ",
                   intervals == shown ? "each score" : scores[0].label);
    cst_page_fill(page, root,
                  "{resamples:0} resamples paired over [{images!}images|{cases!}cases|samples].\n");
    if (ece && ece->interval_in_table && page->full)
        cst_page_print(page, "  Resampling adds noise to every bin: the interval of an ECE may lie "
                             "above its value.\n");
}

/* Whether the document or one of its rows has the key: evaluations of files lack some scores. */
static bool has_value(const json_t *root, const char *key) {
    const json_t *own = json_object_get(root, key);
    if (json_object_get(root, "rows") || !cst_json_string(root, "task"))
        return true;
    return own && !json_is_null(own);
}

/* Of the scores shown: all but the further ones, and those too where `full`. */
static void print_definitions(cst_page *page, const json_t *root) {
    const json_t *definitions = json_object_get(root, "definitions");
    const char *key = NULL;
    json_t *value = NULL;
    if (json_object_size(definitions) == 0) {
        if (cst_json_string(root, "ap_definition"))
            cst_page_paragraph(page, root, "{ap_definition}");
        return;
    }
    cst_page_heading(page, root, "Definitions");
    json_object_foreach((json_t *)(uintptr_t)definitions, key, value) {
        const cst_score_spec *score = cst_score_find(root, key);
        char text[120];
        (void)cst_snprintf(text, sizeof text, "%s: {}", cst_score_label(root, key));
        if (has_value(root, key) && (page->full || !score || score->in_table))
            cst_page_paragraph(page, value, text);
    }
}

void cst_text_end(cst_page *page, const json_t *root) {
    static const cst_text_row notices[] = CST_ROWS(CST_NOTICES);
    const char *separator = "\n  Seconds:";
    const char *key = NULL;
    json_t *value = NULL;
    cst_text_rows(page, root, notices);
    json_object_foreach(json_object_get(root, "seconds"), key, value) {
        cst_page_print(page, "%s %s %.2f", separator, key, json_number_value(value));
        separator = ",";
    }
    cst_page_print(page, "%s", *separator == ',' ? "\n" : "");
}

/* ---- tables of scores ---- */

/* The scores of a group by method or stage (`name`), where any row has one of them. */
static void print_group(cst_page *page, const json_t *root, const json_t *rows,
                        const cst_column *name, cst_score_group group, const char *heading) {
    cst_table table = table_of(page, root, rows, name);
    if (cst_table_add_group(&table, group) == 0)
        return;
    cst_page_heading(page, root, heading);
    cst_table_print(&table);
}

static void print_further(cst_page *page, const json_t *root, const json_t *rows,
                          const cst_column *name) {
    bool classes = cst_document_task(root) == CST_TASK_CLASSIFICATION;
    print_group(page, root, rows, name, CST_SCORES_OF_TASK,
                classes ? "Further calibration" : "Further scores");
}

/* ---- tables of one task ---- */

void cst_text_coverage(cst_page *page, const json_t *rows) {
    enum { LEVELS_MAX = 12 };
    bool single = json_is_object(rows);
    const json_t *levels = json_object_get(single ? rows : json_array_get(rows, 0), "levels");
    char headers[LEVELS_MAX][24];
    char paths[LEVELS_MAX][2][16];
    cst_table table = {.page = page, .rows = rows};
    if (!single)
        cst_table_add(&table, METHOD);
    for (size_t l = 0; l < json_array_size(levels) && l < LEVELS_MAX; l++) {
        (void)cst_snprintf(headers[l], sizeof headers[l], "%g %%",
                           100 * cst_json_number_at(levels, l));
        (void)cst_snprintf(paths[l][0], sizeof paths[l][0], "coverage.%zu", l);
        (void)cst_snprintf(paths[l][1], sizeof paths[l][1], "width.%zu", l);
        const cst_column columns[] =
            CST_COLUMNS({.object = paths[l][0], .header = headers[l], .decimals = 2, .scale = 100},
                        {.object = paths[l][1], .header = "width", .decimals = 4});
        cst_table_add(&table, columns);
    }
    if (json_array_size(levels) == 0)
        return;
    cst_page_heading(page, NULL, "Prediction intervals: % of targets inside, and width");
    cst_table_print(&table);
}

static const cst_column OUTPUTS[] = CST_COLUMNS(
    CST_WORDS("name", "output"), CST_NUMBER("rmse", "RMSE", 4), CST_NUMBER("mae", "MAE", 4),
    CST_NUMBER("r2", "R^2", 4), CST_NUMBER("nll", "NLL", 4),
    {.object = "coverage.2", .header = "cover 0.9", .decimals = 3});
static const cst_text_row OF_OUTPUTS[] = CST_ROWS(CST_TABLE("outputs", "Outputs", OUTPUTS));

void cst_text_outputs(cst_page *page, const json_t *root) {
    if (json_array_size(json_object_get(root, "outputs")) > 1)
        cst_text_rows(page, root, OF_OUTPUTS);
}

static const cst_column LABELS[] =
    CST_COLUMNS(CST_WORDS("name", "label"), CST_NUMBER("known", "known", 0),
                CST_NUMBER("positives", "positive", 0), CST_NUMBER("log_loss", "log loss", 5),
                CST_NUMBER("auc", "AUC", 4), CST_NUMBER("ap", "AP", 4), CST_NUMBER("f1", "F1", 4));
static const cst_text_row OF_LABELS[] = CST_ROWS(CST_TABLE("labels", "Labels", LABELS));

void cst_text_labels(cst_page *page, const json_t *root) {
    cst_text_rows(page, root, OF_LABELS);
}

static const cst_column CLASSES[] = CST_COLUMNS(
    {.key = "class", .header = "class", .kind = CST_COLUMN_NAME}, CST_NUMBER("pixels", "pixels", 0),
    CST_PERCENT("iou", "IoU %", 2), CST_PERCENT("dice", "Dice %", 2),
    CST_PERCENT("accuracy", "accuracy %", 2), CST_PERCENT("boundary_iou", "boundary IoU %", 2));
static const cst_text_row OF_SEGMENTATION[] = CST_ROWS(CST_TABLE("per_class", "Classes", CLASSES));

/* A table of the task's scores by category or by condition of a split (corruptions, severities). */
static void print_by(cst_page *page, const json_t *root, const char *list, const char *heading,
                     const cst_column *columns) {
    cst_table table = table_of(page, root, json_object_get(root, list), columns);
    if (json_array_size(table.rows) == 0)
        return;
    cst_page_heading(page, root, heading);
    cst_table_add_scores(&table, CST_COLUMN_VALUE, CST_COLUMN_NUMBER, 0);
    table.leading = columns[2].header ? 3 : 1;
    cst_table_print(&table);
}

static void print_task(cst_page *page, const json_t *root, const json_t *rows) {
    static const cst_column categories[] =
        CST_COLUMNS({.key = "id", .header = "category", .kind = CST_COLUMN_NAME},
                    CST_NUMBER("boxes", "boxes", 0));
    switch (cst_document_task(root)) {
    case CST_TASK_CLASSIFICATION:
    case CST_TASK_TOPK:
        break;
    case CST_TASK_REGRESSION:
        cst_text_coverage(page, rows);
        cst_text_outputs(page, root);
        break;
    case CST_TASK_SEGMENTATION:
        cst_text_rows(page, root, OF_SEGMENTATION);
        break;
    case CST_TASK_DETECTION:
        print_by(page, root, "categories", "Categories", categories);
        break;
    case CST_TASK_MULTILABEL:
        cst_text_labels(page, root);
        break;
    }
}

/* ---- corruption, splits, parts of a split, rows out of distribution ---- */

/* A table with a column for each number of an object of the rows, times `scale`. */
static void print_parts(cst_page *page, const json_t *rows, const char *object, const char *heading,
                        int decimals, double scale) {
    const json_t *first = json_object_get(json_array_get(rows, 0), object);
    cst_table table = table_of(page, NULL, rows, METHOD);
    const char *part = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)first, part, value) {
        bool error = cst_is_error(first, part);
        if (json_is_number(value))
            cst_table_add_one(&table,
                              (cst_column){.key = part,
                                           .header = error ? "" : part,
                                           .kind = error ? CST_COLUMN_ERROR : CST_COLUMN_NUMBER,
                                           .object = object,
                                           .decimals = decimals,
                                           .scale = scale,
                                           .align = error ? 'i' : 0});
    }
    if (table.count == 1)
        return;
    cst_page_heading(page, NULL, heading);
    cst_table_print(&table);
}

static void print_severities(cst_page *page, const json_t *rows) {
    static const cst_column columns[] =
        CST_COLUMNS({.key = "method", .header = "method", .kind = CST_COLUMN_OUTER},
                    {.key = "severity", .header = "severity", .kind = CST_COLUMN_GENERAL},
                    CST_PERCENT("error", "error %", 2), CST_NUMBER("nll", "NLL", 4),
                    CST_NUMBER("ece", "ECE", 4));
    cst_table table = table_of(page, NULL, rows, columns);
    table.nested = "severities";
    if (json_array_size(json_object_get(json_array_get(rows, 0), "severities")) == 0)
        return;
    cst_page_heading(page, NULL, "By severity");
    cst_table_print(&table);
}

static void print_corruption(cst_page *page, const json_t *root, const json_t *rows) {
    const json_t *about = json_object_get(root, "corruption");
    if (!about)
        return;
    bool by = cst_json_string(about, "normalised_by");
    print_group(page, root, rows, METHOD, CST_SCORES_CORRUPTION, "Corruption");
    cst_page_fill(page, about,
                  "  {kinds:0} kinds; [normalised by {normalised_by}, families, kinds and the "
                  "difference to clean too; |plain, not normalised by a reference; ][clean split "
                  "{clean}.|no clean split named.]\n");
    print_parts(page, rows, "families", by ? "Normalised error % by family" : "Error % by family",
                2, 100);
    print_severities(page, rows);
    if (page->full)
        print_parts(page, rows, "kinds", by ? "Normalised error % by kind" : "Error % by kind", 2,
                    100);
}

/* Every split and score of every method, both ways round. */
static void print_ood(cst_page *page, const json_t *rows) {
    static const cst_score_spec auroc = {.key = "auroc", .scale = 1};
    static const cst_column columns[] = CST_COLUMNS(
        {.key = "method", .header = "method", .kind = CST_COLUMN_OUTER},
        CST_WORDS("split", "split"), CST_WORDS("score", "score"), CST_NUMBER("auroc", "AUROC", 3),
        {.header = "", .kind = CST_COLUMN_BRACKETS, .score = &auroc, .decimals = 3, .align = 'i'},
        CST_NUMBER("aupr_out_positive", "AUPR out+", 3),
        CST_NUMBER("aupr_in_positive", "AUPR in+", 3),
        CST_NUMBER("fpr95_out_positive", "FPR@95 out+", 3),
        CST_NUMBER("fpr95_in_positive", "FPR@95 in+", 3),
        CST_NUMBER("detection_error", "det. error", 3));
    cst_table table = table_of(page, NULL, rows, columns);
    table.nested = "ood_scores";
    cst_page_heading(page, NULL, "Out-of-distribution rows, by score");
    cst_table_print(&table);
    cst_page_print(page, "  out+: out of distribution is the positive class; in+: in distribution "
                         "is. AUROC is the same for both.\n");
}

static void print_classes_and_groups(cst_page *page, const json_t *root, const json_t *rows) {
    print_group(page, root, rows, METHOD, CST_SCORES_PARTS, "Classes and groups");
    if (json_object_get(root, "training_counts"))
        cst_page_fill(page, json_object_get(root, "training_counts"),
                      "  head: more than {head_above:0} training samples; tail: fewer than "
                      "{tail_below:0}. head: {head.classes:0} classes, {head.samples:0} samples; "
                      "mid: {mid.classes:0} classes, {mid.samples:0} samples; tail: "
                      "{tail.classes:0} classes, {tail.samples:0} samples.\n");
    if (isnan(cst_json_number(root, "groups")))
        return;
    cst_page_fill(page, root, "  worst of {groups:0} groups:");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        cst_page_fill(page, row, i ? ", {method} " : " {method} ");
        cst_page_fill(page, row, "{worst_group:0} ({worst_group_samples:0} rows)");
    }
    cst_page_print(page, "\n");
}

static void print_shift(cst_page *page, const json_t *root, const json_t *rows) {
    const json_t *about = json_object_get(root, "ood_detection");
    print_corruption(page, root, rows);
    print_parts(page, rows, "on", "Top-1 % on each split", 2, 100);
    print_parts(page, rows, "top1_in", "Top-1 % in each domain", 2, 100);
    print_parts(page, rows, "nll_in", "NLL in each domain", 4, 1);
    print_classes_and_groups(page, root, rows);
    print_group(page, root, rows, METHOD, CST_SCORES_OOD,
                "Detection of out-of-distribution rows: split {ood:first}");
    if (!about)
        return;
    cst_page_print(page, "  AUPR and FPR@95: out of distribution is the positive class%s.\n",
                   page->full ? "" : "; for the opposite, and each split: --verbose");
    cst_page_fill(page, about, "[  energy: {energy}.\n]");
    if (page->full)
        print_ood(page, rows);
}

/* ---- evaluate ---- */

static void print_evaluation(cst_page *page, const json_t *root) {
    static const cst_column models = CST_NUMBER("models", "K", 0);
    static const cst_column detail = {
        .key = "detail", .header = "detail", .kind = CST_COLUMN_NOTE, .spare = true};
    static const cst_column conditions[] =
        CST_COLUMNS(CST_WORDS("shift", "shift"), CST_WORDS("kind", "kind"),
                    {.key = "severity", .header = "severity", .kind = CST_COLUMN_GENERAL});
    json_t *rows = cst_document_rows(root);
    cst_table table = table_of(page, root, rows, METHOD);
    bool full = page->full;
    if (!rows)
        page->text.status = CST_ERROR_MEMORY;
    cst_table_add_one(&table, models);
    cst_table_add_scores(&table, CST_COLUMN_SCORE, full ? CST_COLUMN_BRACKETS : CST_COLUMN_SHORT,
                         'i');
    cst_table_add_one(&table, detail);
    cst_table_print(&table);
    page->full = true;
    print_further(page, root, rows, METHOD);
    if (!cst_json_string(root, "split"))
        print_paired(page, root, rows, METHOD, "Difference from predictions");
    print_by(page, root, "conditions", "Conditions", conditions);
    if (cst_json_string(root, "ece_definition"))
        cst_page_paragraph(page, root, CST_ECE);
    cst_page_fill(
        page, root,
        "[{resamples!}  Next to scores: 95% bootstrap intervals, {resamples:0} resamples, "
        "seed {seed:0}.\n]");
    print_task(page, root, rows);
    print_shift(page, root, rows);
    json_decref(rows);
}

static cst_cell_code metric_cell;
static const cst_column VERDICTS[] = CST_COLUMNS(
    CST_WORDS("verdict", "verdict"), CST_WORDS("b", "than"),
    {.header = "by", .kind = CST_COLUMN_CODE, .code = metric_cell},
    {.key = "difference", .header = "difference", .kind = CST_COLUMN_SIGNED, .decimals = 4},
    CST_NUMBER("se", "s.e.", 4),
    {.key = "[{only_a:0} : {only_b:0}|]",
     .header = "only right",
     .kind = CST_COLUMN_FILLED,
     .align = 'r'},
    {.key = "p_adjusted", .header = "p adjusted", .kind = CST_COLUMN_P});

static const cst_text_row TESTED[] =
    CST_ROWS(CST_TABLE("tests", "Paired tests: {reference} is", VERDICTS),
             CST_PARAGRAPH(NULL, "p adjusted: {adjustment}."));

const cst_text_row cst_text_evaluate[] =
    CST_ROWS(CST_TITLE(": [split {split}, ]" COUNTS
                       "[{conditions!} in each of {conditions:0} conditions][; {aggregate}]\n"),
             CST_CODE(NULL, print_evaluation), CST_GROUP("tests", TESTED),
             CST_CODE(NULL, print_definitions), CST_NOTICES);

/* ---- compare ---- */

/* The paired test against the reference in words. */
static void verdict_cell(cst_table *table, const json_t *row) {
    const char *method = cst_json_string(row, "method");
    const json_t *test = cst_score_test(table->root, method);
    const cst_score_spec *score = cst_score_find(table->root, cst_json_string(test, "metric"));
    double p = cst_json_number(test, "p_adjusted");
    bool above = cst_json_number(test, "difference") < 0 || /* reference minus method */
                 cst_json_number(test, "only_b") > cst_json_number(test, "only_a");
    const char *words = p >= CST_SIGNIFICANT                          ? "unclear"
                        : above == (score && score->higher_is_better) ? "better"
                                                                      : "worse";
    if (cst_json_is(table->root, "reference", method))
        cst_table_cell(table, CST_PLAIN, "reference");
    else if (isnan(p))
        cst_table_cell(table, CST_PLAIN, "-");
    else
        cst_table_cell(table, CST_PLAIN, p < 0.001 ? "%s, p <0.001" : "%s, p %.3f", words, p);
}

static void print_compared(cst_page *page, const json_t *root) {
    const char *tested = cst_score_tested(root);
    const json_t *rows = json_object_get(root, "rows");
    const char *ranking = cst_score_label(root, cst_json_string(root, "ranked_by"));
    cst_table table = table_of(page, root, rows, METHOD);
    cst_table_add_scores(&table, CST_COLUMN_SCORE, CST_COLUMN_SHORT, 'i');
    cst_table_add_costs(&table, false);
    cst_table_add_one(&table, (cst_column){.header = "verdict",
                                           .kind = CST_COLUMN_CODE,
                                           .align = 'l',
                                           .code = verdict_cell});
    cst_table_print(&table);
    print_legend(page, root);
    if (cst_json_has_column(rows, "flops_rel"))
        cst_page_print(page, "  FLOPs: relative to running every member.\n");
    if (page->full)
        cst_page_print(page, "  s: seconds of the fit.\n");
    cst_page_print(page, "  Ranked by %.*s.", (int)strcspn(ranking, " "), ranking);
    if (tested)
        cst_page_print(page,
                       " Verdict: paired test of %s against the reference%s; unclear: p of %.2f or "
                       "more.",
                       cst_score_label(root, tested),
                       json_array_size(rows) > 2 ? ", p adjusted for the number of methods" : "",
                       CST_SIGNIFICANT);
    cst_page_print(page, "\n");
    print_shift(page, root, rows);
    print_task(page, root, rows);
    if (page->full)
        print_further(page, root, rows, METHOD);
}

/* Choices of each fit, condition numbers of its members, and its mixing. */
static const cst_column FITS[] =
    CST_COLUMNS(CST_WORDS("method", "method"), CST_WORDS("mix", "mix"),
                CST_NUMBER("kappa_gram", "kappa Gram", 1), CST_NUMBER("kappa_cka", "kappa CKA", 1),
                {.key = "detail", .header = "detail", .kind = CST_COLUMN_NOTE});
static const cst_text_row CHOSEN[] = CST_ROWS(CST_TABLE("rows", "Fits", FITS));

/* Of means over repetitions, paired in each of them. */
static void print_differences(cst_page *page, const json_t *root) {
    cst_table table = table_of(page, root, json_object_get(root, "rows"), METHOD);
    if (json_array_size(table.rows) < 2)
        return;
    cst_page_heading(page, root, "Difference from {reference}");
    cst_table_add_scores(&table, CST_COLUMN_DIFFERENCE, CST_COLUMN_NUMBER, 'i');
    cst_table_print(&table);
    cst_page_fill(page, root,
                  "  Means over the repetitions of the method's score minus that of {reference}; "
                  "se: standard error.\n");
}

static bool is_significant(const json_t *test) {
    return cst_json_number(test, "p_adjusted") < CST_SIGNIFICANT;
}

static void metric_cell(cst_table *table, const json_t *test) {
    cst_table_cell(table, CST_PLAIN, "%s",
                   cst_score_label(table->root, cst_json_string(test, "metric")));
}

static void print_tests(cst_page *page, const json_t *root) {
    static const cst_column columns[] = CST_COLUMNS(
        CST_WORDS("b", "method"), {.header = "score", .kind = CST_COLUMN_CODE, .code = metric_cell},
        {.key = "difference", .header = "difference", .kind = CST_COLUMN_SIGNED, .decimals = 4},
        {.key = "[{only_a:0} : {only_b:0}|-]",
         .header = "only correct",
         .kind = CST_COLUMN_FILLED,
         .align = 'r'},
        CST_NUMBER("statistic", "t", 2), CST_NUMBER("df", "df", 0),
        {.key = "p_adjusted", .header = "p adjusted", .kind = CST_COLUMN_P},
        {.key = "test", .header = "test", .kind = CST_COLUMN_TEXT, .style = CST_DIM});
    cst_table table = table_of(page, root, json_object_get(root, "tests"), columns);
    size_t count = json_array_size(table.rows);
    size_t significant = 0;
    bool alone = false;
    bool squares = false;
    char text[200];
    for (size_t i = 0; i < count; i++) {
        const json_t *test = json_array_get(table.rows, i);
        significant += is_significant(test);
        alone = alone || json_object_get(test, "only_a");
        squares = squares || cst_json_is(test, "metric", "squared_error");
    }
    cst_page_heading(page, root, "Paired tests of {reference} against each method");
    (void)cst_snprintf(text, sizeof text,
                       "%zu of %zu significant at %.2f after adjustment[ ({adjustment})]",
                       significant, count, CST_SIGNIFICANT);
    cst_page_paragraph(page, root, text);
    cst_table_print(&table);
    if (squares)
        cst_page_paragraph(page, root,
                           "squared error: in units of the variance of the target, so that a "
                           "difference of -0.01 is one of +0.01 in R^2.");
    (void)cst_snprintf(text, sizeof text,
                       "difference: mean of {reference} minus that of the method.%s *: below "
                       "%.2f.",
                       alone ? " only correct: samples that only {reference} and only the method "
                               "classifies correctly."
                             : "",
                       CST_SIGNIFICANT);
    cst_page_paragraph(page, root, text);
}

/* Of the condition numbers and the task's first score. */
static void print_rank_correlations(cst_page *page, const json_t *root) {
    static const char *const matrices[][2] = {{"kappa_gram", "Gram"}, {"kappa_cka", "CKA"}};
    int32_t count = 0;
    const cst_score_spec *score = cst_scores_of(root, CST_SCORES_OF_TASK, &count);
    bool any = false;
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++) {
        char text[80];
        (void)cst_snprintf(text, sizeof text, "%s_%s", matrices[i][0], score->key);
        const json_t *found = json_object_get(root, text);
        if (isnan(cst_json_number(found, "spearman")))
            continue;
        (void)cst_snprintf(text, sizeof text, "Condition number and %.*s",
                           (int)strcspn(score->label, " "), score->label);
        if (!any)
            cst_page_heading(page, NULL, text);
        any = true;
        cst_page_fill(page, found,
                      "  Spearman's rank correlation over {methods:0} methods: {spearman:3}, p ");
        cst_page_fill(page, found, cst_json_number(found, "p") < 0.0001 ? "< 0.0001" : "= {p:g3}");
        cst_page_fill(page, found, " ({exact?exact|approximate}), kappa of the ");
        cst_page_print(page, "%s matrix\n", matrices[i][1]);
    }
}

static const cst_text_row TESTS[] =
    CST_ROWS(CST_CODE("tests", print_tests), CST_CODE(NULL, print_rank_correlations),
             CST_CODE(NULL, print_definitions));
static const cst_text_row COMPARED[] = CST_ROWS(
    CST_GROUP(NULL, SCORED), CST_CODE(NULL, print_compared), CST_FULL(CHOSEN),
    CST_CODE("repetitions", print_differences), CST_FULL(TESTS),
    CST_TEXT(NULL, "  Tests, choices and definitions: --verbose.\n"), CST_CODE(NULL, cst_text_end));

/* The rows by rank. */
static void print_ranked(cst_page *page, const json_t *root) {
    const json_t *rows = json_object_get(root, "rows");
    size_t count = json_array_size(rows);
    CST_SCOPE(scope);
    cst_placed *ranks = cst_page_ranks(page, scope, count);
    json_t *copy = json_copy((json_t *)(uintptr_t)root);
    json_t *sorted = json_array();
    bool failed = !ranks;
    for (size_t i = 0; !failed && i < count; i++)
        ranks[i].value = cst_json_number(json_array_get(rows, i), "rank");
    if (!failed)
        cst_page_rank(ranks, count);
    for (size_t i = 0; !failed && i < count; i++)
        failed = json_array_append_new(sorted,
                                       cst_json_share(json_array_get(rows, ranks[i].place))) != 0;
    failed = (rows ? json_object_set(copy, "rows", sorted) : 0) != 0 || failed;
    if (failed)
        page->text.status = CST_ERROR_MEMORY;
    else
        cst_text_rows(page, copy, COMPARED);
    json_decref(sorted);
    json_decref(copy);
}

const cst_text_row cst_text_compare[] = CST_ROWS(CST_TITLE("\n"), CST_CODE(NULL, print_ranked));

/* ---- ablate ---- */

static void print_stages(cst_page *page, const json_t *root) {
    const json_t *rows = json_object_get(root, "rows");
    cst_table table = table_of(page, root, rows, STAGE);
    cst_table_add_scores(&table, CST_COLUMN_SCORE, CST_COLUMN_SHORT, 'i');
    cst_table_add_costs(&table, true);
    cst_table_print(&table);
    print_legend(page, root);
    cst_page_print(page, "  FLOPs: relative to running every member.\n");
    if (page->full)
        cst_page_print(page, "  kappa: condition numbers of the kept members' out-of-fold Gram "
                             "matrix and of their CKA matrix. s: seconds of the fit.\n");
    print_paired(page, root, rows, STAGE, "Difference from the row before");
    if (page->full)
        print_further(page, root, rows, STAGE);
    cst_page_heading(page, root, "What each row switches on");
    for (size_t i = 0; i < json_array_size(rows); i++)
        cst_page_line(page, json_array_get(rows, i), "{stage}", "{settings:names}");
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (json_is_false(json_object_get(json_array_get(rows, i), "in_paper")))
            cst_page_fill(page, json_array_get(rows, i),
                          "  {stage} is ours and not in the paper.\n");
}

const cst_text_row cst_text_ablate[] =
    CST_ROWS(CST_TITLE("\n"), CST_GROUP(NULL, SCORED), CST_CODE(NULL, print_stages),
             CST_CODE(NULL, print_definitions), CST_CODE(NULL, cst_text_end));

/* ---- sweep ---- */

static void add_names(cst_table *table, const char *draw) {
    const char *key = cst_json_string(table->root, "key");
    const cst_column columns[] = CST_COLUMNS(
        {.key = "value", .header = key ? key : "value", .kind = CST_COLUMN_TEXT, .align = 'r'},
        CST_NUMBER(draw, draw, 0));
    cst_table_add(table, columns);
    table->leading = table->count;
}

static void print_values(cst_page *page, const json_t *root) {
    const json_t *summary = json_object_get(root, "summary");
    cst_table table = table_of(page, root, json_object_get(root, "rows"), METHOD);
    if (json_array_size(summary) > 0 && !page->full)
        return;
    if (json_array_size(summary) > 0)
        cst_page_heading(page, root, "{key=seed?Single seeds|Single subsets}");
    add_names(&table, "draw");
    cst_table_add_scores(&table, CST_COLUMN_SCORE, CST_COLUMN_SHORT, 'i');
    cst_table_add_costs(&table, true);
    cst_table_print(&table);
    print_legend(page, root);
}

static void print_summary(cst_page *page, const json_t *root) {
    static const cst_column models = CST_NUMBER("models_mean", "K", 1);
    cst_table table = table_of(page, root, json_object_get(root, "summary"), METHOD);
    bool seeds = cst_json_at(root, "summary.0.seeds");
    add_names(&table, seeds ? "seeds" : "draws");
    cst_table_add_scores(&table, CST_COLUMN_MEAN, CST_COLUMN_SD, 'i');
    cst_table_add_one(&table, models);
    cst_table_print(&table);
    cst_page_print(page, seeds ? "  Means over the seeds, se: standard error.\n"
                               : "  Means over random subsets of the members, sd: standard "
                                 "deviation over the subsets.\n");
    cst_page_print(page, "  K: members that prediction runs.\n");
}

const cst_text_row cst_text_sweep[] = CST_ROWS(
    CST_TITLE(" over {key}\n"), CST_GROUP(NULL, SCORED), CST_CODE("summary", print_summary),
    CST_CODE(NULL, print_values), CST_CODE(NULL, print_definitions), CST_CODE(NULL, cst_text_end));

/* ---- profile ---- */

static void print_whole(cst_page *page, const json_t *root) {
    static const cst_column columns[] =
        CST_COLUMNS(CST_NUMBER("models", "K", 0), CST_NUMBER("flops_rel", "FLOPs", 3),
                    CST_NUMBER("latency_ms", "latency (ms)", 3),
                    CST_QUANTITY("memory_bytes", "peak memory (bytes)"),
                    CST_NUMBER("throughput", "throughput (1/s)", 1));
    const json_t *rows = json_object_get(root, "rows");
    int32_t count = 0;
    const cst_score_spec *score = cst_scores_of(root, CST_SCORES_OF_TASK, &count);
    cst_table table = table_of(page, root, rows, METHOD);
    cst_table_add_one(&table, (cst_column){.header = score->label,
                                           .kind = CST_COLUMN_SCORE,
                                           .decimals = score->decimals,
                                           .score = score,
                                           .places = cst_score_places(rows, score)});
    cst_table_add(&table, columns);
    cst_table_print(&table);
}

static const cst_column META_LAYER[] =
    CST_COLUMNS(CST_WORDS("method", "method"), CST_NUMBER("single_p50_us", "1: p50 (us)", 2),
                CST_NUMBER("single_p99_us", "p99", 2), CST_NUMBER("single_calls", "calls", 0),
                CST_NUMBER("batch_p50_us", "batch: p50 (us)", 1),
                CST_NUMBER("batch_p99_us", "p99", 1), CST_NUMBER("batch_calls", "calls", 0),
                CST_QUANTITY("meta_throughput", "1/s"), CST_QUANTITY("meta_memory_bytes", "memory"),
                CST_QUANTITY("model_bytes", "model"), CST_NUMBER("gate_parameters", "gate", 0));
static const cst_column MEMBERS[] = CST_COLUMNS(
    CST_WORDS("name", "member"), CST_NUMBER("passes", "passes", 0), CST_QUANTITY("flops", "FLOPs"),
    CST_QUANTITY("params", "parameters"), CST_NUMBER("latency_ms", "latency (ms)", 3),
    CST_QUANTITY("memory_bytes", "peak memory (bytes)"));
static const cst_column PAPER[] = CST_COLUMNS(
    CST_WORDS("name", "method"), CST_PERCENT("top1", "top-1 %", 1), CST_NUMBER("models", "K", 0),
    CST_NUMBER("flops_rel", "FLOPs", 2), CST_NUMBER("latency_ms", "latency (ms)", 1),
    CST_NUMBER("memory_gb", "peak memory (GB)", 1),
    CST_NUMBER("throughput", "throughput (1/s)", 0));
static const cst_text_row OF_MEMBERS[] =
    CST_ROWS(CST_TABLE("members", "Members, as the manifest gives them", MEMBERS));

const cst_text_row cst_text_profile[] = CST_ROWS(
    CST_TITLE("[: {model}]\n"),
    CST_TEXT(NULL,
             "  split {split}, {measured.samples:0} {measured.unit} in memory, batches of "
             "{measured.batch:0}, {measured.threads:0} thread{measured.threads&s}, "
             "{measured.cpu}\n  Members run {measured.members=parallel?at the same time, each on "
             "a device of its own|one after another, all in memory}.\n"),
    CST_HEADING("From end to end: members as the manifest gives them, meta-layer measured here"),
    CST_CODE(NULL, print_whole), CST_TABLE("rows", "Meta-layer, measured here", META_LAYER),
    CST_PARAGRAPH(NULL, "1: a call with one sample; batch: with a whole batch. memory: bytes that "
                        "a batch needs; model: bytes of its file; gate: parameters."),
    CST_FULL(OF_MEMBERS),
    CST_TABLE("paper.rows",
              "Reported by the paper, not measured here: {paper.data}, {paper.device}, batches of "
              "{paper.batch:0}",
              PAPER),
    CST_CODE(NULL, cst_text_end));
