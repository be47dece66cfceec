/* The rows of a document in Markdown and LaTeX, as the paper's results tables, and as CSV (RFC
 * 4180, '\n' at line ends): every number in full, nested keys joined by '_'. */
#include "core/cell_text.h"
#include "report/table.h"

#include <math.h>
#include <string.h>

/* Columns before the scores; those that no row has are left out. */
static const cst_column NAMES[] = CST_COLUMNS(
    CST_WORDS("stage", "stage"), CST_WORDS("method", "method"), CST_WORDS("value", "value"),
    CST_WORDS("draw", "draw"), CST_WORDS("seeds", "seeds"), CST_WORDS("draws", "draws"));

static bool has_tests(const cst_table *table) {
    for (size_t i = 0; i < json_array_size(table->rows); i++)
        if (!isnan(cst_score_adjusted_p(table->root,
                                        cst_json_string(json_array_get(table->rows, i), "method"))))
            return true;
    return false;
}

/* Memory is in GB, or in MB where no row has a tenth of one. */
static bool has_unit(const cst_table *table, const cst_column *column) {
    bool many = false;
    if (strcmp(column->key, "memory_bytes") != 0 || column->scale <= 0)
        return true;
    for (size_t i = 0; i < json_array_size(table->rows); i++)
        many = many || cst_json_number(json_array_get(table->rows, i), column->key) >= 1e8;
    return many == (column->scale < 1e-8);
}

static void add_plain(cst_table *table, const cst_column *columns) {
    const char *key = cst_json_string(table->root, "key");
    for (; columns->header; columns++) {
        cst_column column = *columns;
        column.places = (cst_places){NAN, NAN};
        if (strcmp(column.key, "models") == 0)
            column.decimals = cst_models_decimals(table->rows);
        if (strcmp(column.key, "value") == 0 && key)
            column.header = key;
        if (cst_json_has_column(table->rows, column.key) && has_unit(table, &column) &&
            (!column.only || cst_json_has_column(table->rows, column.only)))
            cst_table_add_one(table, column);
    }
}

static double value_of(const json_t *row, const cst_column *column) {
    if (column->kind == CST_COLUMN_MEAN)
        return cst_score_spread(row, column->score, "mean");
    if (column->score)
        return column->score->scale * cst_score_value(row, column->score);
    return cst_column_number(row, column);
}

static double error_of(const json_t *row, const cst_column *column) {
    char key[300];
    if (column->kind == CST_COLUMN_MEAN)
        return cst_score_spread(row, column->score, json_object_get(row, "seeds") ? "se" : "sd");
    if (column->score)
        return cst_score_error(row, NULL, column->score);
    (void)cst_snprintf(key, sizeof key, "%s_se", column->key);
    return column->object ? column->scale * cst_json_number(cst_json_at(row, column->object), key)
                          : NAN;
}

static cst_ends interval_of(const json_t *row, const cst_column *column) {
    cst_score_spec part = {.key = column->key, .scale = column->scale};
    if (column->kind == CST_COLUMN_MEAN || !(column->score || column->object))
        return (cst_ends){NAN, NAN};
    return column->score ? cst_score_interval(row, column->score)
                         : cst_score_interval(cst_json_at(row, column->object), &part);
}

/* The error of a number, or its interval, in the dialect's form. */
static void add_uncertainty(cst_table *table, const json_t *row, const cst_column *column) {
    double error = error_of(row, column);
    cst_ends ends = interval_of(row, column);
    char text[2][160] = {"", ""};
    int d = column->decimals;
    if (table->dialect->tail_inside) {
        double half = isnan(error) ? (ends.high - ends.low) / 2 : error;
        if (!isnan(half))
            (void)cst_snprintf(text[0], sizeof text[0], "\\pm%.*f", d, half);
    } else {
        if (!isnan(error))
            (void)cst_snprintf(text[0], sizeof text[0], " ± %.*f", d, error);
        if (!isnan(ends.low))
            (void)cst_snprintf(text[1], sizeof text[1], " [%.*f, %.*f]", d, ends.low, d, ends.high);
    }
    cst_table_tail(table, "%s%s%s", text[0], text[1], column->tail ? column->tail : "");
}

static void add_cell(cst_table *table, const json_t *row, const cst_column *column) {
    const char *text = column->key ? cst_json_string(row, column->key) : NULL;
    if (column->kind == CST_COLUMN_P) {
        cst_table_p(table, cst_score_adjusted_p(table->root, cst_json_string(row, "method")));
        return;
    }
    double value = value_of(row, column);
    if (column->kind == CST_COLUMN_TEXT && (text || isnan(value))) {
        cst_table_cell(table, CST_PLAIN, "%s", text ? text : "");
    } else if (column->kind == CST_COLUMN_TEXT) {
        cst_table_cell(table, CST_PLAIN, "%.0f", value);
    } else {
        double shown = cst_shown(value, column->decimals);
        cst_table_number(table, cst_places_style(&column->places, shown), column->decimals, value);
        add_uncertainty(table, row, column);
    }
}

static void print_rows(cst_table *table) {
    for (size_t i = 0; i < json_array_size(table->rows); i++)
        for (int c = 0; c < table->count; c++)
            add_cell(table, json_array_get(table->rows, i), &table->columns[c]);
    cst_table_end(table);
}

/* Prints `text` with each character of `special` replaced. */
static void print_escaped(cst_page *page, const char *text, const char *special,
                          const char *const *escaped) {
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

/* ---- Markdown ---- */

static void markdown_text(cst_page *page, const char *text) {
    static const char *const escaped[] = {"\\\\", "\\`", "\\*", "\\_", "\\|",
                                          "\\<",  "\\>", "\\[", "\\]", " "};
    print_escaped(page, text, "\\`*_|<>[]\n", escaped);
}

static void markdown_header(cst_page *page, const cst_column *column) {
    markdown_text(page, column->header);
}

static const cst_dialect MARKDOWN = {.row = "|",
                                     .before = " ",
                                     .between = "",
                                     .after = " |",
                                     .end = "\n",
                                     .on = {"", "**", "", "<u>"},
                                     .off = {"", "**", "", "</u>"},
                                     .missing = "",
                                     .text = markdown_text,
                                     .header = markdown_header};

void cst_rows_markdown(cst_page *page, const json_t *root, const json_t *rows) {
    static const cst_column last[] =
        CST_COLUMNS(CST_NUMBER("models", "K", 0), CST_NUMBER("kappa_gram", "kappa Gram", 1),
                    CST_NUMBER("kappa_cka", "kappa CKA", 1), CST_NUMBER("flops_rel", "FLOPs", 3),
                    CST_NUMBER("latency_ms", "latency (ms)", 3),
                    CST_NUMBER("memory_bytes", "peak memory (bytes)", 0),
                    CST_NUMBER("throughput", "throughput (1/s)", 1),
                    CST_NUMBER("single_p50_us", "1: p50 (us)", 1),
                    CST_NUMBER("single_p99_us", "1: p99 (us)", 1),
                    CST_NUMBER("batch_p50_us", "batch: p50 (us)", 1),
                    CST_NUMBER("batch_p99_us", "batch: p99 (us)", 1),
                    CST_NUMBER("seconds", "seconds", 2), CST_WORDS("detail", "detail"));
    cst_table table = {.page = page, .root = root, .rows = rows, .dialect = &MARKDOWN};
    char tested[80];
    add_plain(&table, NAMES);
    for (int group = 0; group < CST_SCORE_GROUPS; group++) {
        int32_t count = 0;
        const cst_score_spec *scores = cst_scores_of(root, (cst_score_group)group, &count);
        for (int32_t s = 0; s < count; s++)
            if (cst_json_has_column(rows, scores[s].key))
                cst_table_add_one(&table,
                                  (cst_column){.header = scores[s].label,
                                               .kind = CST_COLUMN_SCORE,
                                               .decimals = scores[s].decimals,
                                               .score = &scores[s],
                                               .places = cst_score_places(rows, &scores[s])});
    }
    add_plain(&table, last);
    (void)cst_snprintf(tested, sizeof tested, "p %s",
                       cst_score_label(root, cst_score_tested(root)));
    if (has_tests(&table))
        cst_table_add_one(&table, (cst_column){.header = tested, .kind = CST_COLUMN_P});
    cst_table_heads(&table);
    cst_page_print(page, "|");
    for (int c = 0; c < table.count; c++) {
        const cst_column *column = &table.columns[c];
        bool left = column->kind == CST_COLUMN_TEXT && strcmp(column->key, "draw") != 0;
        cst_page_print(page, left ? "---|" : "--:|");
    }
    cst_page_print(page, "\n");
    print_rows(&table);
}

/* ---- LaTeX ---- */

static void latex_text(cst_page *page, const char *text) {
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
    print_escaped(page, text, "\\{}$&#%_^~<>|-\n", escaped);
}

/* "top-1 %" as "top-1 (\%)", "R^2" as "$R^2$". */
static void latex_name(cst_page *page, const char *header) {
    size_t length = strlen(header);
    bool percent = length > 2 && strcmp(header + length - 2, " %") == 0;
    char name[80];
    (void)cst_snprintf(name, sizeof name, "%.*s", (int)(percent ? length - 2 : length), header);
    if (strcmp(name, "R^2") == 0)
        cst_page_print(page, "$R^2$");
    else
        latex_text(page, name);
    cst_page_print(page, "%s", percent ? " (\\%)" : "");
}

static void latex_header(cst_page *page, const cst_column *column) {
    static const char *const arrows[] = {" $\\downarrow$", "", " $\\uparrow$"};
    cst_page_print(page, "\\textbf{");
    latex_name(page, column->header);
    cst_page_print(page, "}%s", arrows[column->arrow + 1]);
}

static const cst_dialect LATEX = {.row = "",
                                  .before = "",
                                  .between = " & ",
                                  .after = "",
                                  .end = " \\\\\n",
                                  .on = {"$", "$\\mathbf{", "$", "\\underline{$"},
                                  .off = {"$", "}$", "$", "$}"},
                                  .tail_inside = true,
                                  .missing = "--",
                                  .text = latex_text,
                                  .header = latex_header};

/* Adds a column with its best values; false where no row has it. */
static bool add_ranked(cst_table *table, cst_column column, bool higher_is_better) {
    size_t count = json_array_size(table->rows);
    bool any = false;
    column.arrow = higher_is_better ? 1 : -1;
    column.places = (cst_places){NAN, NAN};
    for (size_t i = 0; i < count; i++) {
        double value = value_of(json_array_get(table->rows, i), &column);
        any = any || !isnan(value);
        if (count > 1)
            cst_places_add(&column.places, higher_is_better, cst_shown(value, column.decimals));
    }
    if (any)
        cst_table_add_one(table, column);
    return any;
}

static bool add_score(cst_table *table, const cst_score_spec *score, cst_column_kind kind) {
    return add_ranked(
        table,
        (cst_column){
            .header = score->label, .kind = kind, .decimals = score->decimals, .score = score},
        score->higher_is_better);
}

static void add_group(cst_table *table, cst_score_group group, cst_column_kind kind) {
    int32_t count = 0;
    const cst_score_spec *scores = cst_scores_of(table->root, group, &count);
    for (int32_t s = 0; s < count; s++)
        if (scores[s].in_table)
            (void)add_score(table, &scores[s], kind);
}

/* Every number of an object of the rows, in %, then the score that is their mean. */
static void add_parts(cst_table *table, const char *object, const char *mean) {
    const json_t *first = json_object_get(json_array_get(table->rows, 0), object);
    const cst_score_spec *score = cst_score_find(table->root, mean);
    const char *part = NULL;
    json_t *value = NULL;
    bool any = false;
    json_object_foreach((json_t *)(uintptr_t)first, part, value) {
        cst_column column = {
            .key = part, .header = part, .object = object, .decimals = 2, .scale = 100};
        if (json_is_number(value) && !cst_is_error(first, part))
            any |= add_ranked(table, column, score && score->higher_is_better);
    }
    if (score && any)
        (void)add_score(table, score, CST_COLUMN_SCORE);
}

/* What a column holds, in a few words; of other scores the definition in the document. */
static const char *meaning_of(const json_t *root, const cst_column *column) {
    static const char *const words[][2] = {
        {"top1", "share of the rows whose most probable class is right"},
        {"ece", "expected calibration error, the mean distance of confidence from accuracy"},
        {"nll", "mean negative log-likelihood of the true values, in nats"},
        {"brier", "mean squared error of the probabilities, summed over classes"},
        {"rmse", "root mean squared error"},
        {"mae", "mean absolute error"},
        {"r2", "share of the variance that is explained"},
        {"miou", "mean over classes of intersection over union"},
        {"pixel_accuracy", "share of the pixels that are right"},
        {"boundary_error", "share of the pixels near edges that are wrong"},
        {"AP", "average precision, mean over IoU 0.50 to 0.95"},
        {"AP50", "average precision at IoU 0.50"},
        {"AP75", "average precision at IoU 0.75"},
        {"APs", "AP of small objects"},
        {"APm", "AP of medium objects"},
        {"APl", "AP of large objects"},
        {"models", "members that predict"},
        {"flops_rel", "operations of a prediction, relative to running every member"},
        {"kappa_gram", "condition number of the members' Gram matrix"},
        {"kappa_cka", "condition number of the members' CKA matrix"},
        {"seconds", "time of the fit"},
        {"latency_ms", "time of a prediction"},
        {"memory_bytes", "largest memory of a prediction"},
        {"throughput", "predictions in a second"},
        {"single_p50_us", "median time of combining one row, in microseconds"},
        {"meta_throughput", "rows combined in a second"}};
    const char *key = column->score ? column->score->key : column->key;
    for (size_t i = 0; key && i < sizeof words / sizeof words[0]; i++)
        if (strcmp(key, words[i][0]) == 0)
            return words[i][1];
    if (column->score)
        return cst_json_string(json_object_get(root, "definitions"), key);
    return column->kind == CST_COLUMN_P
               ? "adjusted p-value of the paired test against the reference"
               : NULL;
}

static void print_meanings(const cst_table *table) {
    for (int c = 0; c < table->count; c++) {
        const char *meaning = meaning_of(table->root, &table->columns[c]);
        if (!meaning)
            continue;
        cst_page_print(table->page, " ");
        latex_name(table->page, table->columns[c].header);
        cst_page_print(table->page, ": ");
        latex_text(table->page, meaning);
        cst_page_print(table->page, ".");
    }
}

static void print_caption(const cst_table *table, const char *what) {
    cst_page *page = table->page;
    const json_t *root = table->root;
    double holdout = cst_json_number(root, "holdout");
    size_t repetitions = cst_repetitions(root);
    bool interval = false;
    bool places = false;
    bool means = false;
    for (int c = 0; c < table->count; c++) {
        const cst_column *column = &table->columns[c];
        means = means || column->kind == CST_COLUMN_MEAN;
        places = places || !isnan(column->places.best);
        for (size_t i = 0; i < json_array_size(table->rows); i++) {
            const json_t *row = json_array_get(table->rows, i);
            interval =
                interval || !isnan(error_of(row, column)) || !isnan(interval_of(row, column).low);
        }
    }
    cst_page_print(page, "\\caption{%s", what);
    if (cst_json_string(root, "split")) {
        cst_page_print(page, ", split ");
        latex_text(page, cst_json_string(root, "split"));
    }
    if (!isnan(holdout))
        cst_page_print(page, ", %.4g\\%% of it held out at random", 100 * holdout);
    cst_page_print(page, ".");
    if (means)
        cst_page_print(page, " Mean and standard %s.",
                       cst_json_has_column(table->rows, "seeds")
                           ? "error over the seeds"
                           : "deviation over the random subsets");
    else if (repetitions > 0)
        cst_page_print(page, " Mean and standard error over %zu repetitions.", repetitions);
    else if (interval)
        cst_page_print(page, " $\\pm$: half the width of the 95\\%% bootstrap interval.");
    if (places)
        cst_page_print(page, " Best values in \\textbf{bold}; second best \\underline{underlined};"
                             " arrows point to better values.");
    print_meanings(table);
    cst_page_print(page, "}\n");
}

/* Costs of a method, and results of an ablation or a profile. */
static void add_costs(cst_table *table) {
    static const cst_column costs[] = CST_COLUMNS(
        CST_NUMBER("models", "models", 0),
        {.key = "flops_rel",
         .header = "FLOPs (rel.)",
         .arrow = -1,
         .decimals = 2,
         .tail = "\\times"},
        {.only = "stage", .key = "kappa_gram", .header = "kappa Gram", .arrow = -1, .decimals = 1},
        {.only = "stage", .key = "kappa_cka", .header = "kappa CKA", .arrow = -1, .decimals = 1},
        {.only = "stage", .key = "seconds", .header = "Train (s)", .arrow = -1, .decimals = 2},
        {.key = "latency_ms", .header = "Latency (ms)", .arrow = -1, .decimals = 3},
        {.key = "memory_bytes",
         .header = "Peak Mem (GB)",
         .arrow = -1,
         .decimals = 2,
         .scale = 1e-9},
        {.key = "memory_bytes",
         .header = "Peak Mem (MB)",
         .arrow = -1,
         .decimals = 2,
         .scale = 1e-6},
        {.key = "throughput", .header = "Throughput (1/s)", .arrow = 1, .decimals = 1},
        {.key = "single_p50_us", .header = "Meta-layer (us)", .arrow = -1, .decimals = 2},
        {.key = "meta_throughput", .header = "Meta-layer (1/s)", .arrow = 1});
    add_plain(table, costs);
}

/* A table of the names, the columns that `add` puts there, and with `costs` more. */
typedef struct latex_table {
    const char *what, *label;
    cst_score_group group;
    const char *object; /* NULL: the scores of the group */
    const char *mean;
    bool summary; /* the means of a sweep */
} latex_table;

static void print_latex(cst_page *page, const json_t *root, const json_t *rows,
                        const latex_table *layout, bool costs) {
    cst_table table = {.page = page, .root = root, .rows = rows, .dialect = &LATEX};
    char tested[64];
    const char *label = cst_score_label(root, cst_score_tested(root));
    if (layout->summary)
        table.rows = json_object_get(root, "summary");
    add_plain(&table, NAMES);
    int names = table.count;
    if (layout->object)
        add_parts(&table, layout->object, layout->mean);
    else
        add_group(&table, layout->group, layout->summary ? CST_COLUMN_MEAN : CST_COLUMN_SCORE);
    if (table.count == names && !costs)
        return;
    if (costs)
        add_costs(&table);
    (void)cst_snprintf(tested, sizeof tested, "p %.*s", (int)strcspn(label, " "), label);
    if (costs && has_tests(&table))
        cst_table_add_one(
            &table, (cst_column){.header = tested, .kind = CST_COLUMN_P, .places = {NAN, NAN}});
    cst_page_print(page, "%s\\begin{table}[ht]\n\\centering\n\\scriptsize\n", costs ? "" : "\n");
    print_caption(&table, layout->what);
    cst_page_print(page,
                   "\\label{tab:corestack-%s}\n\\setlength{\\tabcolsep}{4pt}\n\\begin{tabular}{",
                   layout->label);
    for (int c = 0; c < table.count; c++)
        cst_page_print(page, c < names ? "l" : "r");
    cst_page_print(page, "}\n\\toprule\n");
    cst_table_heads(&table);
    cst_page_print(page, "\\midrule\n");
    print_rows(&table);
    cst_page_print(page, "\\bottomrule\n\\end{tabular}\n\\end{table}\n");
}

void cst_rows_latex(cst_page *page, const json_t *root, const json_t *rows) {
    bool normalised = cst_json_string(json_object_get(root, "corruption"), "normalised_by");
    const latex_table tables[] = {
        {"Scores of the methods", cst_json_text(root, "command"), CST_SCORES_OF_TASK, 0, 0, false},
        {"Means of the sweep", "means", CST_SCORES_OF_TASK, 0, 0, true},
        {"Corruption", "corruption", CST_SCORES_CORRUPTION, 0, 0, false},
        {normalised ? "Normalised error by family of corruption (\\%)"
                    : "Error by family of corruption (\\%)",
         "families", CST_SCORES_CORRUPTION, "families", normalised ? "mce_normalised" : "mce",
         false},
        {"Top-1 on each split (\\%)", "splits", CST_SCORES_PARTS, "on", "top1", false},
        {"Classes and groups", "parts", CST_SCORES_PARTS, 0, 0, false},
        {"Detection of out-of-distribution rows by the largest probability, or by what a column "
         "names "
         "(AUROC and AUPR: areas under the ROC and the precision-recall curve; FPR@95: share of "
         "false alarms where 95\\% are found)",
         "ood", CST_SCORES_OOD, 0, 0, false}};
    cst_page_print(page, "%% needs \\usepackage{booktabs}\n");
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        print_latex(page, root, rows, &tables[t], t == 0);
}

/* ---- comma-separated values ---- */

/* Column names so far, and the column behind the one met last in the row at hand. */
typedef struct csv_walk {
    cst_table *table;
    cst_scope *scope; /* of the names */
    int place;
} csv_walk;

/* Rows may lack keys, so a new column goes behind the one that it follows in its row. */
static void note_column(csv_walk *walk, const char *name) {
    cst_table *table = walk->table;
    cst_buffer *text = &table->page->text;
    int found = 0;
    while (found < table->count && strcmp(table->columns[found].header, name) != 0)
        found++;
    if (found == CST_TABLE_COLUMNS) {
        text->status = cst_fail(text->context, CST_ERROR_LIMIT,
                                "a table can have at most %d columns; use the JSON", found);
        return;
    }
    if (found == table->count) {
        cst_column *at = table->columns + walk->place;
        const char *header = cst_take_text(text->context, walk->scope, name);
        if (!header) {
            text->status = CST_ERROR_MEMORY;
            return;
        }
        memmove(at + 1, at, (size_t)(table->count++ - walk->place) * sizeof *at);
        *at = (cst_column){.header = header};
        found = walk->place;
    }
    walk->place = found + 1;
}

/* Cells of a row by column name. "NAME_ci" gives NAME_low and NAME_high, an object its keys after
 * its own; lists of numbers and definitions are left out. */
static void flatten(csv_walk *walk, const json_t *object, const char *prefix, json_t *cells) {
    cst_buffer *text = &walk->table->page->text;
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        char name[300];
        int length = (int)strlen(key);
        bool interval = length > 3 && strcmp(key + length - 3, "_ci") == 0 && json_is_array(value);
        if (strcmp(key, "weights") == 0 || strcmp(key, "definition") == 0 ||
            (json_is_array(value) && !interval && !json_is_string(json_array_get(value, 0))))
            continue;
        for (size_t end = 0; end < (interval ? 2 : 1) && text->status == CST_OK; end++) {
            (void)cst_snprintf(name, sizeof name, "%s%.*s%s", prefix,
                               interval ? length - 3 : length, key,
                               interval                ? end ? "_high" : "_low"
                               : json_is_object(value) ? "_"
                                                       : "");
            if (json_is_object(value)) {
                flatten(walk, value, name, cells);
                continue;
            }
            json_t *cell = interval ? json_array_get(value, end) : value;
            if (cell && json_object_set(cells, name, cell) != 0)
                text->status = CST_ERROR_MEMORY;
            note_column(walk, name);
        }
    }
}

static void csv_text(cst_page *page, const char *text) {
    const char *mark = cst_csv_is_formula(text) ? "'" : "";
    bool bare = !*text || cst_csv_is_bare(text);
    cst_page_print(page, "%s%s", bare ? "" : "\"", mark);
    while (*text) {
        size_t length = bare ? strlen(text) : strcspn(text, "\"");
        cst_page_print(page, "%.*s%s", (int)length, text, text[length] ? "\"\"" : "");
        text += length + (text[length] != '\0');
    }
    cst_page_print(page, "%s", bare ? "" : "\"");
}

static void csv_header(cst_page *page, const cst_column *column) {
    csv_text(page, column->header);
}

/* The fewest digits that read back as the same double. */
static int digits_of(double value) {
    char text[32];
    for (int digits = 15; digits < 17; digits++) {
        (void)cst_snprintf(text, sizeof text, "%.*g", digits, value);
        if (!(cst_strtod(text, NULL) < value || cst_strtod(text, NULL) > value))
            return digits;
    }
    return 17;
}

/* Strings of a list, with ';' between them, where some spreadsheets split a line. */
static void add_list(cst_table *table, const json_t *list) {
    cst_buffer joined = {.context = table->page->text.context};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *item = cst_json_string_at(list, i);
        item = item ? item : "";
        cst_buffer_add_text(&joined, i ? ";" : "");
        cst_buffer_add_text(&joined, i && cst_csv_is_formula(item) ? "'" : "");
        cst_buffer_add_text(&joined, item);
    }
    cst_table_cell(table, CST_PLAIN, "%s", joined.used ? joined.bytes : "");
    if (joined.status != CST_OK)
        table->page->text.status = joined.status;
    cst_free(joined.context, joined.bytes);
}

void cst_rows_csv(cst_page *page, const json_t *root, const json_t *rows) {
    static const cst_dialect csv = {.row = "",
                                    .before = "",
                                    .between = ",",
                                    .after = "",
                                    .end = "\n",
                                    .on = {"", "", "", ""},
                                    .off = {"", "", "", ""},
                                    .missing = "",
                                    .text = csv_text,
                                    .header = csv_header};
    CST_SCOPE(scope);
    cst_table table = {.page = page, .root = root, .rows = rows, .dialect = &csv};
    csv_walk walk = {.table = &table, .scope = scope};
    json_t *flat = json_array(); /* the cells of each row */
    for (size_t i = 0; i < json_array_size(rows); i++, walk.place = 0) {
        json_t *cells = json_object();
        if (json_array_append_new(flat, cells) != 0)
            page->text.status = CST_ERROR_MEMORY;
        flatten(&walk, json_array_get(rows, i), "", cells);
    }
    cst_table_heads(&table);
    for (size_t i = 0; i < json_array_size(flat); i++) {
        for (int c = 0; c < table.count && page->text.status == CST_OK; c++) {
            const json_t *value = json_object_get(json_array_get(flat, i), table.columns[c].header);
            const char *text = json_string_value(value);
            double number = json_real_value(value);
            if (json_is_array(value))
                add_list(&table, value);
            else if (json_is_real(value))
                cst_table_value(&table, "%.*g", digits_of(number), number);
            else if (json_is_integer(value))
                cst_table_value(&table, "%lld", (long long)json_integer_value(value));
            else if (json_is_boolean(value))
                cst_table_value(&table, json_is_true(value) ? "true" : "false");
            else
                cst_table_cell(&table, CST_PLAIN, "%s", text ? text : "");
        }
    }
    json_decref(flat);
    cst_table_end(&table);
}
