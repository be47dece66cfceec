/* The screen of `corestack fit`: how good it is, of which members, what to look at and what to do
 * next, in at most 25 lines of 100 columns. All of it: text_fit.c. */
#include "report/text.h"

#include <math.h>
#include <string.h>

enum {
    SCREEN_LINES = 25,
    NEXT_LINES = 4,
    GUTTER = 12, /* of labels */
    NAME_WIDTH = 32,
    SCORES = 3, /* columns of scores */
    ROOM = CST_PAGE_WIDTH - GUTTER
};

/* ---- text of a given size ---- */

/* Bytes of the first `width` characters of a text. */
static size_t bytes_of(const char *text, size_t width) {
    size_t at = 0;
    while (text[at] && (width > 0 || ((unsigned char)text[at] & 0xC0) == 0x80)) {
        at++;
        width -= ((unsigned char)text[at] & 0xC0) != 0x80;
    }
    return at;
}

static size_t width_of(const char *text) {
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

typedef struct short_name {
    char text[4 * NAME_WIDTH + 4];
} short_name;

typedef struct short_word {
    char text[4 * ROOM + 1];
} short_word;

static short_name shorten(const char *name, size_t width) {
    short_name out = {""};
    bool whole = width_of(name) <= width;
    (void)cst_snprintf(out.text, sizeof out.text, "%.*s%s",
                       (int)bytes_of(name, whole ? width : width - 3), name, whole ? "" : "...");
    return out;
}

static int lines_of(const cst_page *page) {
    int lines = 0;
    for (size_t i = 0; i < page->text.used; i++)
        lines += page->text.bytes[i] == '\n';
    return lines;
}

/* A bold label and beside it a text in at most so many lines, which end where `between` is: " ", or
 * ", " of lists. Frees `part`. */
static void print_labelled(cst_page *page, const char *label, cst_page *part, const char *between,
                           int lines) {
    const char *text = part->text.used ? part->text.bytes : "";
    size_t gap = strlen(between);
    size_t most = (size_t)(cst_page_width(page) - GUTTER);
    size_t column = 0;
    if (*text)
        cst_page_styled(page, CST_BOLD, "%-*s", GUTTER, label);
    while (*text) {
        const char *end = strstr(text, between);
        const char *next = end ? end + gap : text + strlen(text);
        int bytes = (int)((end ? end + gap - 1 : next) - text); /* of a list with the comma */
        short_word word = {""};
        (void)cst_snprintf(word.text, sizeof word.text, "%.*s", bytes, text);
        word.text[bytes_of(word.text, most - 4)] = '\0';
        size_t width = width_of(word.text) + (column > 0);
        size_t room = most - (lines > 1 || !*next ? 0 : 4); /* for " ..." */
        if (column && column + width > room && --lines == 0) {
            cst_page_print(page, " ...");
            break;
        }
        bool wraps = column && column + width > room;
        if (wraps)
            cst_page_print(page, "\n%*s", GUTTER, "");
        cst_page_print(page, "%s%s", column && !wraps ? " " : "", word.text);
        column = (wraps ? 0 : column) + width;
        text = next;
    }
    if (part->text.used)
        cst_page_print(page, "\n");
    if (part->text.status != CST_OK)
        page->text.status = part->text.status;
    cst_free(page->text.context, part->text.bytes);
}

static cst_page begin_part(const cst_page *page) {
    return (cst_page){.text = {.context = page->text.context}};
}

/* Names of a list, those of a flag or with a word at a key alone, as far as there is room. */
static void add_names(cst_page *part, const json_t *list, const char *key, const char *word,
                      size_t room) {
    size_t used = 0;
    size_t left = 0;
    const char *separator = "";
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        if (!cst_json_is(entry, key, word))
            continue;
        short_name name = shorten(cst_json_text(entry, "name"), NAME_WIDTH);
        size_t width = width_of(name.text) + 2;
        if (left || (used && used + width > room)) {
            left++;
            continue;
        }
        cst_page_print(part, "%s%s", separator, name.text);
        separator = ", ";
        used += width;
    }
    if (left)
        cst_page_print(part, " and %zu more", left);
}

/* ---- losses ---- */

static const json_t *best_by(const json_t *members, const char *key, bool largest) {
    const json_t *best = NULL;
    for (size_t i = 0; i < json_array_size(members); i++) {
        const json_t *member = json_array_get(members, i);
        double value = cst_json_number(member, key);
        double least = best ? cst_json_number(best, key) : NAN;
        if (!isnan(value) && (!best || (largest ? value > least : value < least)))
            best = member;
    }
    return best;
}

const char *cst_text_loss(const json_t *root) {
    static const char *const keys[] = {"AP", "nll", "rmse", "log_loss"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (best_by(json_object_get(root, "members"), keys[i], false))
            return keys[i];
    return "";
}

const json_t *cst_text_best_member(const json_t *root) {
    const char *key = cst_text_loss(root);
    return best_by(json_object_get(root, "members"), key, strcmp(key, "AP") == 0);
}

/* ---- head ---- */

static void print_head(cst_page *page, const json_t *root) {
    const char *model = cst_json_string(root, "model");
    size_t width = model ? width_of(model) : 0;
    enum { PATH_WIDTH = 80 };
    bool whole = width <= PATH_WIDTH;
    cst_page_styled(page, CST_BOLD, "corestack fit");
    if (model)
        cst_page_print(page, ": %s%s", whole ? "" : "...",
                       model + (whole ? 0 : bytes_of(model, width - PATH_WIDTH)));
    cst_page_print(page, "\n");
    cst_page_paragraph(
        page, root,
        "[{task}|classification], [{task=segmentation!}{samples:0} pixels of {cases:0} images|"
        "{cases:0} images|{task=detection!}{samples:0} boxes of {images:0} images|{samples:0} "
        "rows]" CST_EFFECTIVE
        "[, {classes:0} classes][, {labels:0} labels], {models_in:0} members, "
        "{folds.count:0} folds "
        "[{folds.source=pool!}(the pool's)|{folds.source=made!}(made from the seed)|(in time)], "
        "[method {method}|preset {preset}], seed {seed:0}"
        "[; without {rows_left_out:0} rows whose label is probably wrong]");
}

/* ---- scores ---- */

/* The stack, where it has scores, and what it is compared with: at least the best member. */
static json_t *rows_of_scores(const json_t *root) {
    const json_t *others = json_object_get(root, "comparison");
    const json_t *best = cst_text_best_member(root);
    json_t *rows = json_array();
    bool failed = !rows;
    if (json_is_true(cst_json_at(root, "oof.nested"))) {
        json_t *stack = json_deep_copy(json_object_get(root, "oof"));
        failed |= json_array_append_new(rows, stack) ||
                  json_object_set_new(stack, "stack", json_true()) ||
                  json_object_set(stack, "models", json_object_get(root, "models_kept")) ||
                  json_object_set(stack, "flops_rel", json_object_get(root, "flops_rel"));
    }
    for (size_t i = 0; i < json_array_size(others); i++)
        failed |= json_array_append(rows, json_array_get(others, i)) != 0;
    if (!others && best)
        failed |= json_array_append_new(rows, cst_json_share(best)) != 0;
    if (!failed)
        return rows;
    json_decref(rows);
    return NULL;
}

static void name_cell(cst_table *table, const json_t *row) {
    const char *method = cst_json_string(row, "method");
    const char *member = cst_json_string(row, method ? "member" : "name");
    bool single = member && (!method || strcmp(method, "best-single") == 0);
    short_name name = shorten(single ? member : "", NAME_WIDTH - 15);
    if (cst_json_flag(row, "stack"))
        cst_table_cell(table, CST_BOLD, "> this model");
    else
        cst_table_cell(table, CST_PLAIN, "  %s%s%s", method ? method : "best-single",
                       single ? ": " : "", name.text);
}

static void verdict_cell(cst_table *table, const json_t *row) {
    const char *verdict = cst_json_string(row, "verdict");
    double p = cst_json_number(row, "p_adjusted");
    bool clear = verdict && strcmp(verdict, "no clear difference") != 0;
    bool other =
        json_object_get(table->root, "metric") != NULL; /* tested is the loss all the same */
    const char *by = other ? cst_json_string(row, "loss") : NULL;
    if (!verdict || isnan(p))
        cst_table_cell(table, CST_PLAIN, "%s", verdict ? "not tested" : "");
    else if (p < 0.001)
        cst_table_cell(table, CST_PLAIN, "%s (p < 0.001%s%s)", verdict, by ? ", by " : "",
                       by ? by : "");
    else
        cst_table_cell(table, CST_PLAIN, "%s (p %.2g%s%s)", clear ? verdict : "unclear", p,
                       by ? ", by " : "", by ? by : "");
}

/* The first scores that the rows have, among them the loss. */
static void print_scores(cst_page *page, const json_t *root) {
    int32_t count = 0;
    int shown = 0;
    const cst_score_spec *scores = cst_scores_of(root, CST_SCORES_OF_TASK, &count);
    const char *loss = cst_text_loss(root);
    bool with_loss = !*loss;
    json_t *rows = rows_of_scores(root);
    cst_table table = {.page = page, .root = root, .rows = rows};
    const cst_column name = {
        .header = "", .kind = CST_COLUMN_CODE, .align = 'l', .code = name_cell};
    static const cst_column more[] = CST_COLUMNS(
        CST_NUMBER("models", "members", 0), CST_PERCENT("flops_rel", "cost %", 1),
        {.header = "than this model", .kind = CST_COLUMN_CODE, .align = 'l', .code = verdict_cell});
    cst_table_add_one(&table, name);
    for (int32_t s = 0; s < count && shown < SCORES; s++) {
        const cst_column score = {.header = scores[s].label,
                                  .kind = CST_COLUMN_VALUE,
                                  .decimals = scores[s].decimals,
                                  .score = &scores[s],
                                  .places = {NAN, NAN}};
        bool is_loss = strcmp(scores[s].key, loss) == 0;
        if (!scores[s].in_table || !cst_json_has_column(rows, scores[s].key) ||
            (shown == SCORES - 1 && !with_loss && !is_loss))
            continue;
        cst_table_add_one(&table, score);
        with_loss = with_loss || is_loss;
        shown++;
    }
    bool nested = json_is_true(cst_json_at(root, "oof.nested"));
    cst_table_add(&table, more);
    cst_page_heading(page, root,
                     "Out-of-fold scores{oof.nested? (nested: each row by a stack that was fitted "
                     "without its fold)|}");
    cst_table_print(&table);
    if (!nested)
        cst_page_paragraph(page, root, "this model: [{oof.why}]");
    if (!rows)
        page->text.status = CST_ERROR_MEMORY;
    json_decref(rows);
}

/* ---- members ---- */

/* The member of this name; NULL: methods do not list theirs. */
static const json_t *find_member(const json_t *members, const char *name) {
    for (size_t i = 0; i < json_array_size(members); i++)
        if (cst_json_is(json_array_get(members, i), "name", name))
            return json_array_get(members, i);
    return NULL;
}

/* The kept members by how much is lost without each, else by weight. */
static void print_members(cst_page *page, const json_t *root) {
    CST_SCOPE(scope);
    const json_t *members = json_object_get(root, "members");
    const json_t *weights = json_object_get(root, "weights");
    const json_t *kept = json_object_get(root, "kept");
    size_t count = json_array_size(kept);
    size_t used = 0;
    size_t i = 0;
    cst_page part = begin_part(page);
    cst_placed *ranks = cst_page_ranks(page, scope, count);
    bool lost = cst_json_has_column(members, "loss_without");
    bool weighted = json_object_size(weights) > 0;
    for (i = 0; ranks && i < count; i++) {
        const char *name = cst_json_string_at(kept, i);
        ranks[i].value = -(lost ? cst_json_number(find_member(members, name), "loss_without")
                                : cst_json_number(weights, name));
    }
    if (ranks)
        cst_page_rank(ranks, count);
    cst_page_fill(&part, root, "{models_kept:0} of {models_in:0} kept");
    cst_page_print(&part, lost ? "; loss without it: " : weighted ? ", by weight: " : ": ");
    for (i = 0; ranks && i < count && used < 2 * (size_t)ROOM - 40; i++) {
        short_name name = shorten(cst_json_string_at(kept, ranks[i].place), NAME_WIDTH);
        cst_page_print(&part, "%s%s", i ? ", " : "", name.text);
        if (!isnan(ranks[i].value))
            cst_page_print(&part, lost ? " %+.4f" : " %.2f", -ranks[i].value);
        used += width_of(name.text) + 8;
    }
    if (i < count)
        cst_page_print(&part, " and %zu more", count - i);
    cst_page_print(page, "\n");
    print_labelled(page, "Members", &part, ", ", 3);
}

/* Who left, by the reason, and what that changed. */
static void print_left(cst_page *page, const json_t *root) {
    static const char *const reasons[][2] = {
        {"redundant", "redundant"},
        {"constant", "constant"},
        {"selection", "not needed beside the others"},
        {"cap", "over a limit"},
        {"refit", "dropped after the fit"},
        {"blend", "not used by the blend"},
    };
    const json_t *dropped = json_object_get(root, "dropped");
    cst_page part = begin_part(page);
    const char *separator = "";
    for (size_t r = 0; r < sizeof reasons / sizeof reasons[0]; r++) {
        size_t count = 0;
        for (size_t i = 0; i < json_array_size(dropped); i++)
            count += cst_json_is(json_array_get(dropped, i), "because", reasons[r][0]);
        if (count == 0)
            continue;
        cst_page_print(&part, "%s%zu %s (", separator, count, reasons[r][1]);
        add_names(&part, dropped, "because", reasons[r][0], 2 * NAME_WIDTH);
        if (strcmp(reasons[r][0], "selection") == 0)
            cst_page_fill(&part, root,
                          "[; the loss on the labels changes by {selection.left_out.change:4} +- "
                          "{selection.left_out.se:4} without]");
        cst_page_print(&part, ")");
        separator = ", ";
    }
    print_labelled(page, "Left out", &part, " ", 3);
}

/* The cheapest set of the front that loses little, where it costs clearly less. */
static void print_cheaper(cst_page *page, const json_t *root) {
    static const double LITTLE = 0.005; /* of the loss: the tolerance of preset compact */
    static const double LESS = 0.8;
    const json_t *points = cst_json_at(root, "front.points");
    const json_t *kept = NULL;
    const json_t *found = NULL;
    for (size_t i = 0; !kept && i < json_array_size(points); i++)
        if (cst_json_flag(json_array_get(points, i), "kept"))
            kept = json_array_get(points, i);
    double loss = cst_json_number(kept, "loss");
    double least = LESS * cst_json_number(kept, "flops");
    for (size_t i = 0; i < json_array_size(points); i++) {
        const json_t *point = json_array_get(points, i);
        double flops = cst_json_number(point, "flops");
        if (flops < least && cst_json_number(point, "loss") <= loss + LITTLE * fabs(loss)) {
            found = point;
            least = flops;
        }
    }
    cst_page part = begin_part(page);
    if (found)
        cst_page_print(&part,
                       "%.0f of these for %.2g%% of the cost: held-out loss %.4f instead of %.4f "
                       "(--preset compact looks for such sets)",
                       cst_json_number(found, "size"), 100 * least / cst_json_number(kept, "flops"),
                       cst_json_number(found, "loss"), loss);
    print_labelled(page, "Cheaper", &part, " ", 2);
}

static void print_cascade(cst_page *page, const json_t *root) {
    cst_page part = begin_part(page);
    cst_page_fill(&part, json_object_get(root, "cascade"), CST_CASCADE);
    print_labelled(page, "Cascade", &part, " ", 3);
}

/* ---- what to look at, and what to do ---- */

/* Notices, and what was found in the data and is none of them: a new reference. */
static json_t *texts_of(const json_t *root) {
    const json_t *findings = json_object_get(root, "findings");
    json_t *texts = json_copy(json_object_get(root, "notices"));
    bool failed = false;
    for (size_t i = 0; i < json_array_size(findings); i++) {
        json_t *text = json_object_get(json_array_get(findings, i), "text");
        bool known = false;
        for (size_t j = 0; j < json_array_size(texts); j++)
            known = known || json_equal(json_array_get(texts, j), text);
        texts = texts ? texts : json_array();
        failed |= !known && json_array_append(texts, text) != 0;
    }
    if (!failed)
        return texts;
    json_decref(texts);
    return NULL;
}

/* As far as lines are left. */
static void print_notices(cst_page *page, const json_t *root) {
    json_t *texts = texts_of(root);
    size_t count = json_array_size(texts);
    for (size_t i = 0; i < count; i++) {
        const char *text = cst_json_string_at(texts, i);
        int lines = SCREEN_LINES - NEXT_LINES - lines_of(page);
        bool last = i + 1 == count;
        cst_page part = begin_part(page);
        const char *label = i == 0 ? "Look at" : "";
        if (lines < 2 && !last) {
            cst_page_print(&part, "and %zu more (--verbose)", count - i);
            i = count;
        } else {
            cst_page_print(&part, "%s", text ? text : "-");
        }
        int most = last ? lines : lines - 1;
        print_labelled(page, label, &part, " ", most < 1 ? 1 : most > 3 ? 3 : most);
    }
    json_decref(texts);
}

/* Whether a path can be shown within a command as it is. */
static bool is_plain(const char *path) {
    enum { PATH_SHOWN = 40 };
    return strlen(path) <= PATH_SHOWN && !strpbrk(path, " '\"\\$&|;<>()*?`!");
}

static void print_next(cst_page *page, const json_t *root) {
    static const char *const output[] = {
        [CST_TASK_CLASSIFICATION] = "predictions.npy",    [CST_TASK_REGRESSION] = "predictions.npy",
        [CST_TASK_SEGMENTATION] = "maps --format labels", [CST_TASK_DETECTION] = "boxes.json",
        [CST_TASK_MULTILABEL] = "predictions.npy",        [CST_TASK_TOPK] = "predictions.npz"};
    const char *model = cst_json_string(root, "model");
    const char *path = model && is_plain(model) ? model : "MODEL";
    if (!model)
        return;
    cst_page_styled(page, CST_BOLD, "Next");
    cst_page_print(page, "%*scorestack predict %s POOL --split test -o %s\n", GUTTER - 4, "", path,
                   output[cst_document_task(root)]);
    cst_page_print(page, "%*scorestack evaluate %s POOL --split test\n", GUTTER, "", path);
    cst_page_print(page,
                   "%*severy table: --verbose; as a page for the browser: --html report.html\n",
                   GUTTER, "");
}

const cst_text_row cst_text_screen[] = CST_ROWS(
    CST_CODE(NULL, print_head), CST_CODE("oof", print_scores), CST_CODE(NULL, print_members),
    CST_CODE("dropped", print_left), CST_CODE("front.points", print_cheaper),
    CST_CODE("cascade", print_cascade), CST_CODE(NULL, print_notices), CST_CODE(NULL, print_next));
