/* `corestack predict`, `folds`, `online`, `monitor`, `soup`, `swa` and `swag` as text. */
#include "report/text.h"

#include <math.h>

/* ---- predict ---- */

/* Batches that the guard found unlike the fit: the first of them. */
static void print_guard(cst_page *page, const json_t *root) {
    enum { SHOWN = 10 };
    const json_t *batches = cst_json_at(root, "guard.batches");
    size_t fired = 0;
    for (size_t i = 0; i < json_array_size(batches); i++) {
        const json_t *batch = json_array_get(batches, i);
        if (!cst_json_flag(batch, "fired") || fired++ >= SHOWN)
            continue;
        double first = cst_json_number(batch, "first");
        if (json_object_get(batch, "case")) {
            cst_page_fill(page, batch,
                          "  case {case}: unlike the fit, weight of the average {lambda:2}\n");
            continue;
        }
        cst_page_print(page, "  rows %.0f to %.0f", first,
                       first + cst_json_number(batch, "rows") - 1);
        cst_page_fill(page, batch,
                      "[, condition {condition:0}]: {unlike:%0}% unlike the fit, mean weight of "
                      "the average {lambda:2}\n");
    }
    if (fired > SHOWN)
        cst_page_print(page, "  and %zu more %s; --json lists them all\n", fired - SHOWN,
                       json_object_get(json_array_get(batches, 0), "case") ? "cases" : "batches");
}

static void print_shares(cst_page *page, const json_t *root) {
    enum { BATCHES = 3, SHARES = 12 };
    const json_t *batches = cst_json_at(root, "label_shift.batches");
    size_t count = json_array_size(batches);
    bool fixed = cst_json_is(json_object_get(root, "label_shift"), "method", "fixed");
    for (size_t b = 0; b < count && b < BATCHES; b++) {
        const json_t *batch = json_array_get(batches, b);
        const json_t *shares = json_object_get(batch, "shares");
        size_t classes = json_array_size(shares);
        double first = cst_json_number(batch, "first");
        cst_page_print(page, "  %s of rows %.0f to %.0f (%s):\n",
                       fixed ? "mean prediction before the correction" : "class shares", first,
                       first + cst_json_number(batch, "rows") - 1,
                       cst_json_flag(batch, "applied") ? "applied" : "not applied");
        for (size_t c = 0; c < classes && c < SHARES; c++)
            cst_page_fill(page, json_array_get(shares, c),
                          fixed ? "    [{name}|{class:0}]: {share:g3}, in the fit {fit:g3}\n"
                                : "    [{name}|{class:0}]: {share:g3} [[{low:g3}, {high:g3}]], in "
                                  "the fit {fit:g3}\n");
        if (classes > SHARES)
            cst_page_print(page, "    and %zu more classes; --json lists them all\n",
                           classes - SHARES);
    }
    if (count > BATCHES)
        cst_page_print(page, "  and %zu more batches; --json lists them all\n", count - BATCHES);
}

static const cst_column STAGES[] =
    CST_COLUMNS(CST_WORDS("member", "stopped after"), CST_NUMBER("members", "members", 0),
                CST_PERCENT("cost", "cost %", 1), CST_NUMBER("rows", "rows", 0));
static const cst_text_row CASCADE[] =
    CST_ROWS(CST_TABLE("cascade.stages", "Cascade", STAGES),
             CST_TEXT("cascade", "[{cost_of=members!}  {cost:%1}% of the members\n|  {cost:%1}% of "
                                 "the {cost_of} of all members\n|]"
                                 "[  rows that lack a member keep the answer of the stack: "
                                 "{incomplete:0}\n|]"));

const cst_text_row cst_text_predict[] = CST_ROWS(
    CST_TEXT(NULL, "{out}: [{detections:0} detections in {images:0} images, COCO results|{cases:0} "
                   "cases, {samples:0} pixels x {classes:0} classes, {format}|{samples:0} rows; "
                   "{columns}|{task=regression!}{samples:0} samples x {classes:0} outputs, float32 "
                   "values|{samples:0} samples x {classes:0} classes, float32 probabilities]\n"),
    CST_CODE("guard", print_guard), CST_CODE("label_shift", print_shares),
    CST_GROUP("cascade", CASCADE));

const cst_text_row cst_text_export[] = CST_ROWS(
    CST_TEXT(NULL, "{out}: {format}, {members:0} inputs of {classes:0} columns\n"), CST_NOTICES);

/* ---- folds and suggestions ---- */

static void print_sizes(cst_page *page, const json_t *root) {
    const json_t *sizes = json_object_get(root, "sizes");
    for (size_t i = 0; i < json_array_size(sizes); i++)
        cst_page_print(page, "%s %.0f", i ? "," : "", cst_json_number_at(sizes, i));
}

const cst_text_row cst_text_folds[] =
    CST_ROWS(CST_TEXT(NULL, "{out}: {samples:0} samples in {folds:0} folds, seed {seed:0}, of"),
             CST_CODE(NULL, print_sizes), CST_TEXT(NULL, "\n"));

/* Prints one row to a line: its number, and its id where it has one. */
static void print_suggestions(cst_page *page, const json_t *root) {
    const json_t *rows = json_object_get(root, "rows");
    const json_t *ids = json_object_get(root, "ids");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        cst_page_print(page, "%.0f", cst_json_number_at(rows, i));
        cst_page_fill(page, json_array_get(ids, i), "[ {}]\n");
    }
}

const cst_text_row cst_text_suggest[] = CST_ROWS(CST_CODE(NULL, print_suggestions));

/* ---- online ---- */

static void print_losses(cst_page *page, const json_t *root) {
    static const struct {
        const char *key, *title;
    } rows[] = {{"adapter", "adapter"},
                {"stack", "stack"},
                {"average", "average"},
                {"best_member", "{best_member}, the best member"},
                {"switching", "the best of them in each {block:0} rows"}};
    static const cst_column columns[] = CST_COLUMNS({.header = "", .align = 'l'}, {.header = "NLL"},
                                                    {.header = "error %"}, {.header = "regret"});
    cst_table table = {.page = page};
    cst_table_add(&table, columns);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *key = rows[i].key;
        cst_table_filled(&table, CST_PLAIN, root, rows[i].title);
        cst_table_number(&table, CST_PLAIN, 4, cst_json_number(json_object_get(root, "nll"), key));
        cst_table_number(&table, CST_PLAIN, 2,
                         100 * cst_json_number(json_object_get(root, "error"), key));
        cst_table_number(&table, CST_PLAIN, 1,
                         cst_json_number(json_object_get(root, "regret"), key));
    }
    cst_table_end(&table);
}

static void print_learned(cst_page *page, const json_t *root) {
    static const cst_text_row rows[] = CST_ROWS(
        CST_CODE(NULL, print_losses),
        CST_PARAGRAPH(NULL,
                      "NLL: mean over the rows whose label came, each predicted before that, in "
                      "nats. regret: the adapter's loss less that of the line, in nats over all of "
                      "these rows; below 0 the adapter was better."),
        CST_PARAGRAPH("sets", "Prediction sets for {alpha:-%g3}% of the labels held {coverage:%1}% "
                              "of them, with {size:2} classes in the mean."),
        CST_PARAGRAPH("share", "The next prediction is {stack:%0}% stack, {newton:%0}% refitted "
                               "weights, {average:%0}% average, {members:%0}% single members."),
        CST_NOTICES);
    if (cst_json_number(root, "labelled") > 0)
        cst_text_rows(page, root, rows);
}

const cst_text_row cst_text_online[] = CST_ROWS(
    CST_TEXT(NULL, "[{out}: {rows:0} samples x {classes:0} classes, float32 probabilities\n]"
                   "split {split}: {rows:0} rows; the labels of {labelled:0} were learned, "
                   "{waiting:0} rows wait for theirs\n"),
    CST_CODE(NULL, print_learned));

/* ---- monitor ---- */

static void evidence_cell(cst_table *table, cst_style style, double value) {
    cst_table_cell(table, style, value < 1000 ? "%.2f" : "%.1e", value);
}

static void total_cell(cst_table *table, const json_t *row) {
    evidence_cell(table, cst_json_flag(row, "alarm") ? CST_BOLD : CST_PLAIN,
                  cst_json_number(row, "evidence"));
}

static void alone_cell(cst_table *table, const json_t *row) {
    evidence_cell(table, CST_PLAIN, cst_json_number(row, "evidence_alone"));
}

static const cst_column BATCHES[] = CST_COLUMNS(
    CST_WORDS("batch", "batch"),
    {.key = "{samples:0}", .header = "rows", .kind = CST_COLUMN_FILLED, .align = 'r'},
    {.header = "evidence", .kind = CST_COLUMN_CODE, .code = total_cell, .align = 'r'},
    {.header = "alone", .kind = CST_COLUMN_CODE, .code = alone_cell, .align = 'r'},
    {.key = "{expected.top1:%1}", .header = "expected", .kind = CST_COLUMN_FILLED, .align = 'r'},
    {.key = "+- {expected.error:%1}",
     .header = "",
     .kind = CST_COLUMN_FILLED,
     .align = 'i',
     .style = CST_DIM},
    {.object = "observed", .key = "top1", .header = "observed", .decimals = 1, .scale = 100},
    {.object = "observed", .key = "metric", .header = "metric", .decimals = 4},
    {.object = "expected", .key = "ece", .header = "ECE", .decimals = 3},
    {.object = "observed", .key = "ece", .header = "observed", .decimals = 3},
    {.key = "{flags:0}", .header = "flags", .kind = CST_COLUMN_FILLED, .align = 'r'},
    {.key = "{alarm?alarm|}", .header = "", .kind = CST_COLUMN_FILLED, .style = CST_BOLD});

static void print_member(cst_page *page, const json_t *member) {
    static const struct {
        const char *key, *text;
    } changes[] = {
        {"missing", "missing share of rows {missing.value:g3} (fit {missing.fit:g3})"},
        {"entropy", "mean entropy {entropy.value:g3} (fit {entropy.fit:g3})"},
        {"disagreement",
         "disagreement with the stack {disagreement.value:g3} (fit {disagreement.fit:g3})"},
        {"classes", "predicted classes, most ['{largest_change.class}'|other classes] "
                    "{largest_change.share:%1}% (fit {largest_change.fit:%1}%)"}};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        if (!cst_json_flag(json_object_get(member, changes[i].key), "flag"))
            continue;
        cst_page_fill(page, member, "    [{name}|the stack]: ");
        cst_page_fill(page, member, changes[i].text);
        cst_page_print(page, "\n");
    }
}

/* Of every batch, or of the last one with flags. */
static void print_drift(cst_page *page, const json_t *root) {
    static const char *const lists[] = {"members", "stack"};
    const json_t *batches = json_object_get(root, "batches");
    const json_t *last = NULL;
    size_t flagged = 0;
    for (size_t i = 0; i < json_array_size(batches); i++)
        if (cst_json_number(json_array_get(batches, i), "flags") > 0) {
            last = json_array_get(batches, i);
            flagged++;
        }
    if (!last)
        return;
    cst_page_heading(page, root, "Drift of members");
    for (size_t i = 0; i < json_array_size(batches); i++) {
        const json_t *row = json_array_get(batches, i);
        if (!(cst_json_number(row, "flags") > 0) || (!page->full && row != last))
            continue;
        cst_page_fill(page, row, "  {batch}\n");
        for (size_t k = 0; k < 2; k++) {
            const json_t *list = json_object_get(row, lists[k]);
            for (size_t m = 0; m < json_array_size(list); m++)
                print_member(page, json_array_get(list, m));
        }
    }
    if (!page->full && flagged > 1)
        cst_page_print(page, "  %zu earlier batches have flags too; --verbose shows them\n",
                       flagged - 1);
}

static void print_alarm(cst_page *page, const json_t *root) {
    const json_t *first = json_object_get(root, "first_alarm");
    cst_page_print(page, "  alarm               %s", first ? "" : "no");
    if (first)
        cst_page_styled(page, CST_BOLD, "yes, since batch %.0f (%s)",
                        cst_json_number(first, "number"), cst_json_text(first, "batch"));
    cst_page_print(page, "\n");
}

const cst_text_row cst_text_monitor[] = CST_ROWS(
    CST_TITLE("[: {model}]\n"), CST_CODE(NULL, print_alarm),
    CST_LINE(NULL, "evidence",
             "{evidence:g3} after {rows:0} rows (batches: {batches_seen:0}), at most "
             "{evidence_peak:g3}; an alarm is {evidence_alarm:g4}"),
    CST_LINE("fit", "fit rows", "{samples:0}, top-1 {top1:%1}%, ECE {ece:3}"),
    CST_LINE("metric", "metric", "{label}, of labelled rows"),
    CST_TABLE("batches", "Batches", BATCHES),
    CST_PARAGRAPH(NULL, "evidence: of the test over all batches; alone: the largest of a test of "
                        "this batch by itself; expected: top-1 accuracy in % without labels, with "
                        "its typical error; flags: drift of members that chance does not "
                        "explain."),
    CST_CODE(NULL, print_drift), CST_CODE(NULL, cst_text_end));

/* ---- soups and averages of checkpoints ---- */

enum { STEPS_SHOWN = 40 };

static bool shows_kept(const cst_table *table, const json_t *row) {
    (void)table;
    return cst_json_flag(row, "kept");
}

static void step_cell(cst_table *table, const json_t *step) {
    bool alone = cst_json_is(step, "kind", "single") && !json_object_get(step, "kept");
    cst_table_cell(table, CST_PLAIN, alone ? "-" : cst_json_flag(step, "kept") ? "yes" : "no");
}

static void score_cell(cst_table *table, const json_t *step) {
    cst_table_number(table, cst_json_flag(step, "kept") ? CST_BOLD : CST_PLAIN, 6,
                     cst_json_number(step, "score"));
}

/* Steps in the order in which they were taken; of many only those that made it better. */
static void print_steps(cst_page *page, const json_t *root) {
    static const cst_column columns[] =
        CST_COLUMNS({.key = "{step:0}",
                     .header = "",
                     .kind = CST_COLUMN_FILLED,
                     .align = 'r',
                     .style = CST_DIM},
                    CST_WORDS("kind", "candidate"), CST_WORDS("file", "file"),
                    {.header = "score", .kind = CST_COLUMN_CODE, .code = score_cell, .align = 'r'},
                    {.header = "kept", .kind = CST_COLUMN_CODE, .code = step_cell});
    bool all = page->full || json_array_size(json_object_get(root, "steps")) <= STEPS_SHOWN;
    cst_table table = {
        .page = page, .rows = json_object_get(root, "steps"), .shows = all ? NULL : shows_kept};
    cst_page_heading(page, root, all ? "Steps" : "Steps that were accepted");
    cst_table_add(&table, columns);
    cst_table_print(&table);
}

static const cst_text_row SCORED[] =
    CST_ROWS(CST_LINE(NULL, "{metric}", "{score:6} on {samples:0} samples"),
             CST_LINE(NULL, "evaluations", "{evaluations:0}"), CST_CODE(NULL, print_steps));

const cst_text_row cst_text_soup[] = CST_ROWS(
    CST_TEXT(NULL, "{out}: {kind} soup of {files:0} file{files&s}\n"),
    CST_LINE(NULL, "mixed",
             "{parameters:0} parameters in {tensors:0} tensors[{copied!}; {copied:0} other "
             "tensor{copied&s} from the first file]"),
    CST_LINE(NULL, "chosen", "[{kind=greedy!}{chosen:names}]"), CST_GROUP("metric", SCORED),
    CST_NOTICES);

const cst_text_row cst_text_swa[] = CST_ROWS(
    CST_TEXT(NULL,
             "{out}: [{kind=sample!}{samples:0} sample{samples&s} around {model}, rank "
             "{rank:0}, scale {scale:g6}, seed {seed:0}|mean of {checkpoints:0} "
             "checkpoint{checkpoints&s}][{from!}, {files:0} of them after those of {from}]\n"),
    CST_NOTICES);

const cst_text_row cst_text_swag[] = CST_ROWS(
    CST_TEXT(NULL, "{out}: [{kind=sample!}{samples:0} sample{samples&s} around {model}, rank "
                   "{rank:0}, scale {scale:g6}, seed {seed:0}|mean, variance and {rank:0} "
                   "deviations of {files:0} checkpoints]\n"),
    CST_NOTICES);
