/*
 * The rows of a document as LaTeX tables for the package booktabs: the methods' scores, and where
 * the document has them corruption, classes and groups, splits, and rows out of distribution.
 * Last stage of a comparison with --latex. Paper: the layout of its results tables.
 */
#include "report/scores.h"

#include <math.h>
#include <string.h>

enum { COLUMNS_MAX = 64 };

/* A score, or a number of an object of the rows. */
typedef struct latex_column {
    const cst_score_spec *score;
    const char *object; /* where there is no score: its key, */
    const char *part;   /* and the number's in it, in % */
    bool mean;          /* of a sweep's summary: the score's mean, and its error or deviation */
    bool higher_is_better;
    cst_places places;
} latex_column;

typedef struct latex_table {
    cst_page *page;
    const json_t *root;
    const json_t *rows;
    int count;
    latex_column columns[COLUMNS_MAX];
} latex_table;

enum { PART_DECIMALS = 2 };
static const double PART_SCALE = 100;

/* Columns before the scores; those that no row has are left out. */
static const char *const NAMES[] = {"stage", "method", "value", "draw", "seeds", "draws"};

/* What an ablation or a profile measured, after the costs of every table; those that no row has are
 * left out. */
typedef struct measured {
    const char *only; /* a key that rows must have too; NULL: none */
    const char *key;
    const char *header;
    const char *arrow;
    int decimals;
    double scale;
} measured;

static const measured MEASURED[] = {
    {"stage", "kappa_gram", "kappa Gram", " $\\downarrow$", 1, 1},
    {"stage", "kappa_cka", "kappa CKA", " $\\downarrow$", 1, 1},
    {"stage", "seconds", "Train (s)", " $\\downarrow$", 2, 1},
    {NULL, "latency_ms", "Latency (ms)", " $\\downarrow$", 3, 1},
    {NULL, "memory_bytes", "Peak Mem (GB)", " $\\downarrow$", 2, 1e-9},
    {NULL, "memory_bytes", "Peak Mem (MB)", " $\\downarrow$", 2, 1e-6},
    {NULL, "throughput", "Throughput (1/s)", " $\\uparrow$", 1, 1},
    {NULL, "single_p50_us", "Meta-layer (us)", " $\\downarrow$", 2, 1},
    {NULL, "meta_throughput", "Meta-layer (1/s)", " $\\uparrow$", 0, 1}};
enum { MEASURED_COUNT = sizeof MEASURED / sizeof MEASURED[0] };
static const double MANY_BYTES = 1e8;

/* ---- text ---- */

/* Text that means nothing to LaTeX but itself. */
static void print_text(cst_page *page, const char *text) {
    static const char special[] = "\\{}$&#%_^~<>|-\n";
    static const char *const escaped[] = {"\\textbackslash{}",
                                          "\\{",
                                          "\\}",
                                          "\\$",
                                          "\\&",
                                          "\\#",
                                          "\\%",
                                          "\\_",
                                          "\\textasciicircum{}",
                                          "\\textasciitilde{}",
                                          "\\textless{}",
                                          "\\textgreater{}",
                                          "\\textbar{}",
                                          "-{}",
                                          " "};
    while (*text) {
        size_t length = strcspn(text, special);
        cst_page_print(page, "%.*s", (int)length, text);
        text += length;
        if (!*text)
            return;
        bool hyphen = *text == '-' && text[1] != '-';
        cst_page_print(page, "%s", hyphen ? "-" : escaped[strchr(special, *text) - special]);
        text++;
    }
}

/* "top-1 %" as "top-1 (\%)", "R^2" as "$R^2$". */
static void print_label(cst_page *page, const char *label) {
    size_t length = strlen(label);
    bool percent = length > 2 && strcmp(label + length - 2, " %") == 0;
    char name[80];
    if (strcmp(label, "R^2") == 0) {
        cst_page_print(page, "$R^2$");
        return;
    }
    (void)cst_snprintf(name, sizeof name, "%.*s", (int)(percent ? length - 2 : length), label);
    print_text(page, name);
    cst_page_print(page, "%s", percent ? " (\\%)" : "");
}

/* ---- columns ---- */

/* A number of a summary, such as "nll_mean". */
static double summary_number(const json_t *row, const latex_column *column, const char *end) {
    char key[80];
    (void)cst_snprintf(key, sizeof key, "%.60s%s", column->score->key, end);
    return column->score->scale * cst_json_number(row, key);
}

static double value_of(const json_t *row, const latex_column *column) {
    if (column->mean)
        return summary_number(row, column, "_mean");
    if (column->score)
        return column->score->scale * cst_score_value(row, column->score);
    return PART_SCALE * cst_json_number(json_object_get(row, column->object), column->part);
}

static int decimals_of(const latex_column *column) {
    return column->score ? column->score->decimals : PART_DECIMALS;
}

/* The standard error, or half the width of the interval. */
static double error_of(const json_t *row, const latex_column *column) {
    char key[300];
    if (!column->score) {
        const json_t *object = json_object_get(row, column->object);
        (void)cst_snprintf(key, sizeof key, "%s_se", column->part);
        double error = PART_SCALE * cst_json_number(object, key);
        (void)cst_snprintf(key, sizeof key, "%s_ci", column->part);
        const json_t *ends = json_object_get(object, key);
        return isnan(error)
                   ? PART_SCALE / 2 * (cst_json_number_at(ends, 1) - cst_json_number_at(ends, 0))
                   : error;
    }
    if (column->mean)
        return summary_number(row, column, json_object_get(row, "seeds") ? "_se" : "_sd");
    double error = cst_score_error(row, NULL, column->score);
    cst_ends ends = cst_score_interval(row, column->score);
    return isnan(error) ? (ends.high - ends.low) / 2 : error;
}

static void add_column(latex_table *table, latex_column column) {
    size_t count = json_array_size(table->rows);
    bool any = false;
    column.places = (cst_places){NAN, NAN};
    for (size_t i = 0; i < count; i++) {
        double value = value_of(json_array_get(table->rows, i), &column);
        any = any || !isnan(value);
        if (count > 1)
            cst_places_add(&column.places, column.higher_is_better,
                           cst_shown(value, decimals_of(&column)));
    }
    if (any && table->count < COLUMNS_MAX)
        table->columns[table->count++] = column;
}

static void add_score(latex_table *table, const cst_score_spec *score) {
    add_column(table, (latex_column){.score = score, .higher_is_better = score->higher_is_better});
}

static void add_group(latex_table *table, cst_score_group group) {
    int32_t count = 0;
    const cst_score_spec *scores = cst_scores_of(table->root, group, &count);
    for (int32_t s = 0; s < count; s++)
        if (scores[s].in_table)
            add_score(table, &scores[s]);
}

static void add_means(latex_table *table) {
    int32_t count = 0;
    const cst_score_spec *scores = cst_scores_of(table->root, CST_SCORES_OF_TASK, &count);
    for (int32_t s = 0; s < count; s++)
        if (scores[s].in_table)
            add_column(table, (latex_column){.score = &scores[s],
                                             .mean = true,
                                             .higher_is_better = scores[s].higher_is_better});
}

/* Every number of an object of the rows, then the score that is their mean. */
static void add_parts(latex_table *table, const char *object, const char *mean) {
    const json_t *first = json_object_get(json_array_get(table->rows, 0), object);
    const cst_score_spec *score = cst_score_find(table->root, mean);
    const char *part = NULL;
    json_t *value = NULL;
    bool higher = score && score->higher_is_better;
    json_object_foreach((json_t *)(uintptr_t)first, part, value) {
        if (json_is_number(value) && !cst_is_error(first, part))
            add_column(table,
                       (latex_column){.object = object, .part = part, .higher_is_better = higher});
    }
    if (score && table->count > 0)
        add_score(table, score);
}

/* ---- cells ---- */

/* Memory is in GB, or in MB where no row has a tenth of one. */
static bool has_measured(const json_t *rows, const measured *m) {
    bool many = false;
    if (!cst_json_has_column(rows, m->key) || (m->only && !cst_json_has_column(rows, m->only)))
        return false;
    if (strcmp(m->key, "memory_bytes") != 0)
        return true;
    for (size_t i = 0; i < json_array_size(rows); i++)
        many = many || cst_json_number(json_array_get(rows, i), m->key) >= MANY_BYTES;
    return many == (m->scale < 1e-8);
}

static bool has_tests(const latex_table *table) {
    for (size_t i = 0; i < json_array_size(table->rows); i++)
        if (!isnan(cst_score_adjusted_p(table->root,
                                        cst_json_string(json_array_get(table->rows, i), "method"))))
            return true;
    return false;
}

static void print_score(cst_page *page, const json_t *row, const latex_column *column) {
    int decimals = decimals_of(column);
    double value = value_of(row, column);
    double error = error_of(row, column);
    cst_style style = cst_places_style(&column->places, cst_shown(value, decimals));
    if (isnan(value)) {
        cst_page_print(page, " & --");
        return;
    }
    cst_page_print(page, " & %s%.*f",
                   style == CST_BOLD        ? "$\\mathbf{"
                   : style == CST_UNDERLINE ? "\\underline{$"
                                            : "$",
                   decimals, value);
    if (!isnan(error))
        cst_page_print(page, "\\pm%.*f", decimals, error);
    cst_page_print(page, "%s", style == CST_BOLD ? "}$" : style == CST_UNDERLINE ? "$}" : "$");
}

static void print_p(const latex_table *table, const json_t *row) {
    double p = cst_score_adjusted_p(table->root, cst_json_string(row, "method"));
    if (isnan(p))
        cst_page_print(table->page, " & --");
    else if (p < 0.001)
        cst_page_print(table->page, " & $<0.001$");
    else
        cst_page_print(table->page, " & $%.3f$", p);
}

static void print_costs(const latex_table *table, const json_t *row) {
    double models = cst_json_number(row, "models");
    double flops = cst_json_number(row, "flops_rel");
    if (cst_json_has_column(table->rows, "models"))
        cst_page_print(table->page, isnan(models) ? " & --" : " & $%.*f$",
                       cst_models_decimals(table->rows), models);
    if (cst_json_has_column(table->rows, "flops_rel"))
        cst_page_print(table->page, isnan(flops) ? " & --" : " & $%.2f\\times$", flops);
    for (int m = 0; m < MEASURED_COUNT; m++) {
        double value = MEASURED[m].scale * cst_json_number(row, MEASURED[m].key);
        if (has_measured(table->rows, &MEASURED[m]))
            cst_page_print(table->page, isnan(value) ? " & --" : " & $%.*f$", MEASURED[m].decimals,
                           value);
    }
    if (has_tests(table))
        print_p(table, row);
}

static void print_row(const latex_table *table, const json_t *row, bool costs) {
    bool first = true;
    for (size_t n = 0; n < sizeof NAMES / sizeof NAMES[0]; n++) {
        const char *text = cst_json_string(row, NAMES[n]);
        double number = cst_json_number(row, NAMES[n]);
        if (!cst_json_has_column(table->rows, NAMES[n]))
            continue;
        cst_page_print(table->page, "%s", first ? "" : " & ");
        first = false;
        if (text)
            print_text(table->page, text);
        else if (!isnan(number))
            cst_page_print(table->page, "%.0f", number);
    }
    for (int c = 0; c < table->count; c++)
        print_score(table->page, row, &table->columns[c]);
    if (costs)
        print_costs(table, row);
    cst_page_print(table->page, " \\\\\n");
}

/* ---- header ---- */

static void print_head(const latex_table *table, const char *label, const char *arrow) {
    cst_page_print(table->page, " & \\textbf{");
    print_label(table->page, label);
    cst_page_print(table->page, "}%s", arrow);
}

static void print_heads(const latex_table *table, bool costs) {
    const char *key = cst_json_string(table->root, "key");
    bool first = true;
    for (size_t n = 0; n < sizeof NAMES / sizeof NAMES[0]; n++) {
        if (!cst_json_has_column(table->rows, NAMES[n]))
            continue;
        cst_page_print(table->page, "%s\\textbf{", first ? "" : " & ");
        print_text(table->page, strcmp(NAMES[n], "value") == 0 && key ? key : NAMES[n]);
        cst_page_print(table->page, "}");
        first = false;
    }
    for (int c = 0; c < table->count; c++) {
        const latex_column *column = &table->columns[c];
        print_head(table, column->score ? column->score->label : column->part,
                   column->higher_is_better ? " $\\uparrow$" : " $\\downarrow$");
    }
    if (costs && cst_json_has_column(table->rows, "models"))
        print_head(table, "models", "");
    if (costs && cst_json_has_column(table->rows, "flops_rel"))
        print_head(table, "FLOPs (rel.)", " $\\downarrow$");
    for (int m = 0; costs && m < MEASURED_COUNT; m++)
        if (has_measured(table->rows, &MEASURED[m]))
            print_head(table, MEASURED[m].header, MEASURED[m].arrow);
    if (costs && has_tests(table)) {
        char label[64];
        const char *tested = cst_score_label(table->root, cst_score_tested(table->root));
        (void)cst_snprintf(label, sizeof label, "p %.*s", (int)strcspn(tested, " "), tested);
        print_head(table, label, "");
    }
    cst_page_print(table->page, " \\\\\n");
}

/* l for each name, r for each number. */
static void print_alignment(const latex_table *table, bool costs) {
    int numbers = table->count;
    for (size_t n = 0; n < sizeof NAMES / sizeof NAMES[0]; n++)
        cst_page_print(table->page, "%s", cst_json_has_column(table->rows, NAMES[n]) ? "l" : "");
    if (costs)
        numbers += cst_json_has_column(table->rows, "models") +
                   cst_json_has_column(table->rows, "flops_rel") + has_tests(table);
    for (int m = 0; costs && m < MEASURED_COUNT; m++)
        numbers += has_measured(table->rows, &MEASURED[m]);
    for (int i = 0; i < numbers; i++)
        cst_page_print(table->page, "r");
}

/* ---- table ---- */

/* What the numbers are, as a caption. */
static void print_caption(const latex_table *table, const char *what) {
    cst_page *page = table->page;
    const json_t *root = table->root;
    const char *split = cst_json_string(root, "split");
    double holdout = cst_json_number(root, "holdout");
    size_t repetitions = cst_repetitions(root);
    bool interval = false;
    bool places = false;
    for (int c = 0; c < table->count; c++) {
        const latex_column *column = &table->columns[c];
        places = places || !isnan(column->places.best);
        for (size_t i = 0; i < json_array_size(table->rows); i++)
            interval = interval || !isnan(error_of(json_array_get(table->rows, i), column));
    }
    cst_page_print(page, "\\caption{%s", what);
    if (split) {
        cst_page_print(page, ", split ");
        print_text(page, split);
    }
    if (!isnan(holdout))
        cst_page_print(page, ", %.4g\\%% of it held out at random", 100 * holdout);
    cst_page_print(page, ".");
    if (table->count > 0 && table->columns[0].mean)
        cst_page_print(page, " Mean and standard %s.",
                       cst_json_has_column(table->rows, "seeds")
                           ? "error over the seeds"
                           : "deviation over the random subsets");
    else if (repetitions > 0)
        cst_page_print(page, " Mean and standard error over %zu repetitions.", repetitions);
    else if (interval)
        cst_page_print(page, " $\\pm$: half the width of the 95\\%% bootstrap interval.");
    if (places)
        cst_page_print(page,
                       " Best values in \\textbf{bold}; second best \\underline{underlined}.");
    cst_page_print(page, "}\n");
}

static void print_table(const latex_table *table, const char *what, const char *label, bool costs,
                        bool first) {
    cst_page *page = table->page;
    if (table->count == 0 && !costs)
        return;
    cst_page_print(page, "%s\\begin{table}[ht]\n\\centering\n\\scriptsize\n", first ? "" : "\n");
    print_caption(table, what);
    cst_page_print(
        page, "\\label{tab:corestack-%s}\n\\setlength{\\tabcolsep}{4pt}\n\\begin{tabular}{", label);
    print_alignment(table, costs);
    cst_page_print(page, "}\n\\toprule\n");
    print_heads(table, costs);
    cst_page_print(page, "\\midrule\n");
    for (size_t i = 0; i < json_array_size(table->rows); i++)
        print_row(table, json_array_get(table->rows, i), costs);
    cst_page_print(page, "\\bottomrule\n\\end{tabular}\n\\end{table}\n");
}

void cst_rows_latex(cst_page *page, const json_t *root, const json_t *rows) {
    static const struct {
        cst_score_group group;
        const char *object; /* NULL: the scores of the group */
        const char *mean;
        const char *what;
        const char *label;
    } more[] = {
        {CST_SCORES_CORRUPTION, NULL, NULL, "Corruption", "corruption"},
        {CST_SCORES_CORRUPTION, "families", "mce", "Error by family of corruption (\\%)",
         "families"},
        {CST_SCORES_PARTS, "on", "top1", "Top-1 on each split (\\%)", "splits"},
        {CST_SCORES_PARTS, NULL, NULL, "Classes and groups", "parts"},
        {CST_SCORES_OOD, NULL, NULL, "Detection of out-of-distribution rows", "ood"},
    };
    latex_table table = {.page = page, .root = root, .rows = rows};
    bool normalised = cst_json_string(json_object_get(root, "corruption"), "normalised_by");
    cst_page_print(page, "%% needs \\usepackage{booktabs}\n");
    add_group(&table, CST_SCORES_OF_TASK);
    print_table(&table, "Scores of the methods", cst_json_text(root, "command"), true, true);
    table.count = 0;
    table.rows = json_object_get(root, "summary");
    add_means(&table);
    print_table(&table, "Means of the sweep", "means", false, false);
    table.rows = rows;
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        table.count = 0;
        bool families = more[i].object && strcmp(more[i].object, "families") == 0;
        if (more[i].object)
            add_parts(&table, more[i].object,
                      families && normalised ? "mce_normalised" : more[i].mean);
        else
            add_group(&table, more[i].group);
        print_table(&table,
                    families && normalised ? "Normalised error by family of corruption (\\%)"
                                           : more[i].what,
                    more[i].label, false, false);
    }
}
