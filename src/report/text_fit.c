/* `corestack fit`, `show` and `adapt` as text. Paper: the tables of section "Experiments". */
#include "report/text.h"

#include <math.h>
#include <string.h>

enum { MEMBER_ROWS = 60, PATH_ROWS = 16, PATH_AROUND = 5, FRONT_ROWS = 12, FRONT_CHARS = 72 };

/* ---- members ---- */

static const json_t *find_dropped(const json_t *root, const char *name) {
    const json_t *dropped = json_object_get(root, "dropped");
    for (size_t i = 0; name && i < json_array_size(dropped); i++)
        if (cst_json_is(json_array_get(dropped, i), "name", name))
            return json_array_get(dropped, i);
    return NULL;
}

static const char *reason_words(const char *reason) {
    static const char *const words[][2] = {
        {"redundant", "redundant"},        {"constant", "constant"},
        {"selection", "not selected"},     {"cap", "over the limit"},
        {"refit", "dropped on refitting"}, {"blend", "not used by the blend"},
    };
    for (size_t i = 0; reason && i < sizeof words / sizeof words[0]; i++)
        if (strcmp(reason, words[i][0]) == 0)
            return words[i][1];
    return reason ? reason : "dropped";
}

static void fate_cell(cst_table *table, const json_t *member) {
    const json_t *entry = find_dropped(table->root, cst_json_string(member, "name"));
    const char *reason = reason_words(cst_json_string(entry, "because"));
    const char *to = cst_json_string(entry, "to");
    double cka = cst_json_number(entry, "cka");
    bool pearson = cst_json_is(json_object_get(table->root, "redundancy"), "measure", "pearson");
    if (cst_json_flag(member, "kept"))
        cst_table_cell(table, CST_PLAIN, "kept");
    else if (to && !isnan(cka))
        cst_table_cell(table, CST_DIM, "%s; %s %.4f with %s", reason, pearson ? "Pearson" : "CKA",
                       cka, to);
    else
        cst_table_cell(table, CST_DIM, "%s", reason);
}

/* A list of the entries by the number at a key, ascending or else descending; a new reference. */
static json_t *ranked_by(cst_page *page, const json_t *list, const char *key, bool ascending) {
    CST_SCOPE(scope);
    size_t count = json_array_size(list);
    cst_placed *ranks = cst_page_ranks(page, scope, count);
    json_t *ranked = ranks ? json_array() : NULL;
    for (size_t i = 0; ranked && i < count; i++)
        ranks[i].value = cst_json_number(json_array_get(list, i), key) * (ascending ? 1 : -1);
    if (ranked)
        cst_page_rank(ranks, count);
    for (size_t i = 0; ranked && i < count; i++)
        if (json_array_append_new(ranked, cst_json_share(json_array_get(list, ranks[i].place))))
            page->text.status = CST_ERROR_MEMORY;
    if (!ranked)
        page->text.status = CST_ERROR_MEMORY;
    return ranked;
}

static bool shows_member(const cst_table *table, const json_t *member) {
    return table->place < MEMBER_ROWS || cst_json_flag(member, "kept");
}

static void print_members(cst_page *page, const json_t *root) {
    bool boxes = cst_json_at(root, "oof.AP") != NULL;
    const cst_column columns[] = CST_COLUMNS(
        CST_FILLED("{kept?*|}", ""), CST_WORDS("name", "member"),
        CST_PERCENT(boxes ? "AP" : "top1", boxes ? "AP %" : "top-1 %", 2),
        CST_NUMBER("nll", "NLL", 4), CST_NUMBER("ece", "ECE", 4), CST_NUMBER("brier", "Brier", 4),
        CST_NUMBER("rmse", "RMSE", 5), CST_NUMBER("mae", "MAE", 5), CST_NUMBER("r2", "R^2", 4),
        CST_NUMBER("log_loss", "log-loss", 5), CST_NUMBER("loss_without", "lost without", 4),
        CST_QUANTITY("flops", "FLOPs"), CST_WORDS("family", "family"),
        {.header = "outcome", .kind = CST_COLUMN_CODE, .code = fate_cell});
    const char *loss = boxes ? "nll" : cst_text_loss(root);
    json_t *members = ranked_by(page, json_object_get(root, "members"), loss, true);
    cst_table table = {.page = page,
                       .root = root,
                       .rows = members,
                       .shows = shows_member,
                       .mark = "kept",
                       .other = CST_DIM};
    size_t left_out = 0;
    for (size_t i = MEMBER_ROWS; i < json_array_size(members); i++)
        left_out += !cst_json_flag(json_array_get(members, i), "kept");
    cst_table_add(&table, columns);
    cst_table_print(&table);
    json_decref(members);
    if (left_out)
        cst_page_print(page, "  and %zu more that were dropped (--json lists them all)\n",
                       left_out);
}

/* ---- size path ---- */

static void first_cell(cst_table *table, const json_t *now) {
    size_t size = json_array_size(now);
    const char *one = cst_json_string_at(now, 0);
    const char *two = cst_json_string_at(now, 1);
    if (size == 0)
        cst_table_cell(table, CST_PLAIN, "%s", "");
    else if (size == json_array_size(json_object_get(table->root, "members")) && size > 1)
        cst_table_cell(table, CST_PLAIN, "all %zu", size);
    else if (size == 1)
        cst_table_cell(table, CST_PLAIN, "+ %s", one);
    else if (size == 2)
        cst_table_cell(table, CST_PLAIN, "+ %s, %s", one, two);
    else
        cst_table_cell(table, CST_PLAIN, "+ %s, %s and %zu more", one, two, size - 2);
}

/* The one member by which the set differs from the one before it on the path. */
static void change_cell(cst_table *table, const json_t *row) {
    const json_t *added = json_object_get(row, "added");
    const json_t *removed = json_object_get(row, "removed");
    bool grows = json_array_size(added) > 0;
    const json_t *changed = grows ? added : removed;
    if (table->place == 0)
        first_cell(table, added);
    else if (json_array_size(changed) == 1)
        cst_table_cell(table, CST_PLAIN, "%c %s", grows ? '+' : '-',
                       cst_json_string_at(changed, 0));
    else
        cst_table_cell(table, CST_PLAIN, "%s", "");
}

/* The chosen step, and where there are many those around it. */
static bool shows_step(const cst_table *table, const json_t *row) {
    (void)row;
    size_t count = json_array_size(table->rows);
    size_t chosen = 0;
    for (size_t i = 0; i < count; i++)
        if (cst_json_flag(json_array_get(table->rows, i), "chosen"))
            chosen = i;
    size_t place = table->place;
    bool near = place + PATH_AROUND >= chosen && place <= chosen + PATH_AROUND;
    return count <= PATH_ROWS || near || place == 0 || place == count - 1;
}

static const cst_column PATH[] =
    CST_COLUMNS(CST_FILLED("{chosen?>|}", ""), CST_NUMBER("size", "size", 0),
                CST_NUMBER("loss", "loss", 4), CST_NUMBER("excess", "vs. best", 4),
                CST_NUMBER("excess_se", "s.e.", 4), CST_NUMBER("against_all", "vs. all", 4),
                CST_NUMBER("against_all_se", "s.e.", 4), CST_QUANTITY("flops", "FLOPs"),
                CST_QUANTITY("latency_ms", "ms"), CST_FILLED("{allowed?yes|no}", "within limits"),
                {.header = "change", .kind = CST_COLUMN_CODE, .code = change_cell});

/* ---- the front ---- */

/* Names of a set, cut off where they are many; not of very many, which the document has not. */
static void members_cell(cst_table *table, const json_t *row) {
    const json_t *members = json_object_get(row, "members");
    char text[FRONT_CHARS + 24] = "";
    size_t count = json_array_size(members);
    for (size_t i = 0; i < count; i++) {
        const char *name = cst_json_string_at(members, i);
        size_t used = strlen(text);
        bool fits = used + (name ? strlen(name) : 0) + 2 <= FRONT_CHARS;
        if (fits)
            (void)cst_snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", name);
        else
            (void)cst_snprintf(text + used, sizeof text - used, "%s%zu more", i ? ", " : "",
                               count - i);
        if (!fits)
            break;
    }
    cst_table_cell(table, table->style, "%s", text);
}

/* Of many sets every so manieth. */
static bool shows_point(const cst_table *table, const json_t *point) {
    size_t count = json_array_size(table->rows);
    size_t i = table->place;
    return i == 0 || cst_json_flag(point, "kept") || count <= FRONT_ROWS ||
           i * (FRONT_ROWS - 1) / (count - 1) != (i + 1) * (FRONT_ROWS - 1) / (count - 1);
}

static void print_front(cst_page *page, const json_t *root) {
    bool values = cst_document_task(root) == CST_TASK_REGRESSION;
    const cst_column columns[] = CST_COLUMNS(
        CST_FILLED("{kept?>|}", ""), CST_NUMBER("size", "size", 0),
        CST_NUMBER("loss", values ? "error" : "loss", 4), CST_QUANTITY("flops", "FLOPs"),
        CST_QUANTITY("latency_ms", "ms"), CST_QUANTITY("params", "parameters"),
        {.header = "members", .kind = CST_COLUMN_CODE, .code = members_cell});
    cst_table table = {.page = page,
                       .rows = cst_json_at(root, "front.points"),
                       .shows = shows_point,
                       .mark = "kept"};
    cst_page_heading(page, root,
                     "Held-out {task=regression?squared error|loss} that sets reach at their cost "
                     "(> marks the kept set)");
    cst_table_add(&table, columns);
    cst_table_print(&table);
}

/* ---- the stack ---- */

static void print_lambda(cst_page *page, const json_t *root) {
    const json_t *blend = json_object_get(root, "blend");
    bool used = cst_json_number(blend, "ridge") > 0 || cst_json_number(blend, "elastic-net") > 0 ||
                cst_json_number(blend, "lasso") > 0;
    cst_page_line(page, root, "lambda",
                  used ? "{lambda:g4}  (rule: {lambda_rule})"
                       : "{lambda:g4}  (rule: {lambda_rule}; not used, because no linear "
                         "meta-learner has a weight)");
}

/* One share for all members, or each one's own. */
static void print_mixing(cst_page *page, const json_t *root) {
    const json_t *members = cst_json_at(root, "mixing.members");
    const char *name = NULL;
    json_t *value = NULL;
    double least = INFINITY;
    double most = 0;
    json_object_foreach((json_t *)(uintptr_t)members, name, value) {
        least = fmin(least, json_number_value(value));
        most = fmax(most, json_number_value(value));
    }
    cst_page_print(page, "  mixing              ");
    if (!json_is_number(cst_json_at(root, "mixing.share")) && least < most)
        cst_page_print(page, "each member's own, %.4g to %.4g\n", least, most);
    else
        cst_page_print(page, "%.4g for every member\n", most);
}

static const cst_column LEARNERS[] =
    CST_COLUMNS(CST_WORDS("name", "meta-learner"), CST_NUMBER("weight", "weight", 4),
                CST_NUMBER("nll", "NLL (total)", 3), CST_NUMBER("half_logdet", "half log det", 3),
                CST_NUMBER("loss", "loss (Laplace)", 3)
                /* not of other rules */);

/* Without nested scores: which there are. */
static void print_other_scores(cst_page *page, const json_t *root) {
    static const char *const best[][2] = {
        {"AP", "  best member: {name}, AP {AP:4}\n"},
        {"nll", "  best member: {name}, NLL {nll:4}\n"},
        {"rmse", "  best member: {name}, RMSE {rmse:4}\n"},
        {"log_loss", "  best member: {name}, log loss {log_loss:5}\n"}};
    const json_t *path = json_object_get(root, "path");
    bool values = cst_document_task(root) == CST_TASK_REGRESSION;
    bool labels = cst_document_task(root) == CST_TASK_MULTILABEL;
    cst_page_paragraph(page, root, "{oof.why}.");
    bool by_rows = !json_is_true(cst_json_at(root, "selection.distilled")) &&
                   !cst_json_at(root, "selection.by");
    for (size_t i = 0; by_rows && i < json_array_size(path); i++) {
        const json_t *step = json_array_get(path, i);
        if (cst_json_flag(step, "chosen") && !isnan(cst_json_number(step, "loss")))
            cst_page_paragraph(page, step,
                               values   ? "held-out squared error (in variances of the target) of "
                                          "the selected {size:0} members, by which they were "
                                          "selected: {loss:4}"
                               : labels ? "held-out log loss of the selected {size:0} members, by "
                                          "which they were selected: {loss:4}"
                                        : "held-out NLL of the selected {size:0} members, by which "
                                          "they were selected: {loss:4}");
    }
    for (size_t i = 0; i < sizeof best / sizeof best[0]; i++)
        if (strcmp(cst_text_loss(root), best[i][0]) == 0)
            cst_page_fill(page, cst_text_best_member(root), best[i][1]);
}

static void print_all_scores(cst_page *page, const json_t *root) {
    cst_table table = {.page = page, .root = root, .rows = json_object_get(root, "oof")};
    cst_table_add_scores(&table, CST_COLUMN_VALUE, CST_COLUMN_NUMBER, 0);
    (void)cst_table_add_group(&table, CST_SCORES_OF_TASK);
    cst_table_print(&table);
}

/* The metric that was asked for, and how decisions are made for it. */
static void print_metric(cst_page *page, const json_t *root) {
    int32_t count = 0;
    const json_t *oof = json_object_get(root, "oof");
    const json_t *metric = json_object_get(root, CST_METRIC_KEY);
    const cst_score_spec *score = cst_scores_of(root, CST_SCORES_OF_TASK, &count);
    cst_ends ends = cst_score_interval(oof, score);
    if (!metric || strcmp(score->key, cst_json_text(metric, "key")) != 0)
        return;
    cst_page_print(page, "  %s %.*f", score->label, score->decimals,
                   score->scale * cst_score_value(oof, score));
    if (!isnan(ends.low))
        cst_page_print(page, " [%.*f, %.*f]", score->decimals, ends.low, score->decimals,
                       ends.high);
    cst_page_fill(page, root,
                  "[, decisions by {decision.by}][, {decision.gain:g3} above those by "
                  "the largest probability]\n");
}

static const cst_column COMPARISON[] = CST_COLUMNS(
    CST_WORDS("method", "rule"), CST_WORDS("member", "member"), CST_NUMBER("models", "members", 0),
    CST_NUMBER("difference", "difference", 5), CST_NUMBER("se", "s.e.", 5),
    {.key = "p_adjusted", .header = "p", .kind = CST_COLUMN_P}, CST_WORDS("verdict", "it is"));

/* Beside the stack's nested scores, those of simple rules on the same folds. */
static void print_comparison(cst_page *page, const json_t *root) {
    cst_table table = {.page = page, .root = root, .rows = json_object_get(root, "comparison")};
    const cst_column *last = COMPARISON + 3;
    cst_page_heading(page, json_array_get(table.rows, 0),
                     "Simple rules on the same folds, and paired t-tests of their {loss} less that "
                     "of the stack");
    for (const cst_column *column = COMPARISON; column < last; column++)
        cst_table_add_one(&table, *column);
    cst_table_add_scores(&table, CST_COLUMN_VALUE, CST_COLUMN_NUMBER, 0);
    cst_table_add(&table, last);
    cst_table_print(&table);
}

static void print_scores(cst_page *page, const json_t *root) {
    const json_t *oof = json_object_get(root, "oof");
    cst_page_heading(page, root,
                     "Out-of-fold scores of the stack{oof.nested? (nested: everything is refitted "
                     "without the fold that is scored)|}");
    if (!cst_json_flag(oof, "nested")) {
        print_other_scores(page, root);
    } else if (cst_document_task(root) == CST_TASK_REGRESSION) {
        print_all_scores(page, root);
        if (cst_json_number(json_object_get(root, "decision"), "gain") > 0)
            cst_page_fill(page, root,
                          "  {metric.label} of values by {decision.by}, {decision.gain:g3} better "
                          "than that of the predictions\n");
        cst_text_coverage(page, oof);
    } else if (cst_document_task(root) == CST_TASK_MULTILABEL) {
        print_all_scores(page, root);
    } else if (json_object_get(oof, "AP")) {
        print_all_scores(page, root);
        cst_page_paragraph(page, root, "{ap_definition}");
    } else {
        cst_page_fill(page, oof,
                      json_object_get(oof, "miou") ? "  mIoU {miou:%g4} %, pixels right "
                                                   : "  top-1 ");
        cst_page_fill(page, oof, "{top1:%g4} %, NLL {nll:g4}, ECE {ece:g3}, Brier {brier:g4}\n");
        print_metric(page, root);
        if (cst_json_string(root, "ece_definition"))
            cst_page_paragraph(page, root, CST_ECE);
    }
}

static void print_time(cst_page *page, const json_t *root) {
    const char *separator = ": ";
    const char *key = NULL;
    json_t *value = NULL;
    cst_page_fill(page, root, "  time                {seconds.total:2} s");
    json_object_foreach(json_object_get(root, "seconds"), key, value) {
        if (strcmp(key, "total") == 0 || !json_is_number(value) || json_number_value(value) <= 0)
            continue;
        cst_page_print(page, "%s%s %.2f", separator, key, json_number_value(value));
        separator = ", ";
    }
    cst_page_print(page, "\n");
    double memory = cst_json_number(root, "peak_rss_bytes");
    if (!isnan(memory))
        cst_page_print(page, "  peak memory         %.0f MiB\n", memory / (1024.0 * 1024.0));
}

/* ---- pages ---- */

static const cst_text_row BUDGET[] =
    CST_ROWS(CST_LINE("budget.flops", "FLOPs budget",
                      "[{used:g5} of {allowed:g5}{as=max? (the slowest member)|}]"),
             CST_LINE("budget.latency_ms", "latency budget",
                      "[{used:g5} of {allowed:g5} ms{as=max? (the slowest member)|}]"),
             CST_LINE("budget.params", "size budget",
                      "[{used:g5} of {allowed:g5} parameters{as=max? (the slowest member)|}]"));

static const cst_text_row COST[] =
    CST_ROWS(CST_HEADING("Cost"),
             CST_LINE(NULL, "FLOPs", "[{flops_rel:g3} of all members|-  (not in the pool)]"),
             CST_GROUP(NULL, BUDGET), CST_CODE(NULL, print_time));

#define FOLDS                                                                                      \
    "{folds.count:0} folds ({folds.source=pool?the pool's|}{folds.source=made?made from the "      \
    "seed|}"                                                                                       \
    "{folds.source=time?in time|})"

static const cst_text_row KAPPA[] = CST_ROWS(
    CST_LINE(NULL, "kappa, CKA", "{kappa_cka_before:g4} before -> {kappa_cka_after:g4} after"));
static const cst_text_row SPECTRUM[] = CST_ROWS(CST_LINE(NULL, "spectrum", CST_SPECTRUM));

static const cst_column DOMAINS[] =
    CST_COLUMNS(CST_WORDS("domain", "domain"), CST_NUMBER("samples", "samples", 0),
                CST_NUMBER("scale", "scale", 4), CST_NUMBER("bias_norm", "norm of biases", 4),
                CST_NUMBER("nll_before", "NLL without", 4), CST_NUMBER("nll_after", "with", 4));

static void print_domains(cst_page *page, const json_t *root) {
    const json_t *domains = json_object_get(root, "domains");
    const json_t *used = json_object_get(domains, "used");
    cst_table table = {.page = page, .rows = json_object_get(domains, "list")};
    if (json_array_size(table.rows) == 0)
        return;
    cst_page_heading(page, root,
                     json_is_false(used) ? "Domains (not used: no clear gain)" : "Domains");
    cst_table_add(&table, DOMAINS);
    cst_table_print(&table);
    if (used)
        cst_page_fill(page, domains,
                      "  held-out NLL {nll_before:4} without, {nll_after:4} with (standard error "
                      "of the difference {se:4})\n");
}

static const cst_column CASCADE_STAGES[] =
    CST_COLUMNS(CST_WORDS("member", "then runs"), CST_NUMBER("members", "members", 0),
                CST_PERCENT("cost", "cost %", 1), CST_NUMBER("threshold", "stops from", 4),
                CST_PERCENT("stopped", "rows %", 1));
static const cst_text_row CASCADE[] =
    CST_ROWS(CST_TABLE("cascade.stages", "Cascade", CASCADE_STAGES),
             CST_TEXT("cascade", "  " CST_CASCADE "\n"));

/* How members were selected. */
static const cst_text_row SELECTION[] = CST_ROWS(
    CST_MARKED(
        "path",
        "{selection.distilled?Pools of each size fitted to the predictions of the pool of "
        "all|Held-out loss by size of the set}[, {selection.by}] (> marks the selected size)",
        PATH, shows_step, "chosen"),
    CST_TEXT("selection.left_out",
             "  without {count:0} of these {of:0}, the loss on the labels changes by {change:4} "
             "+- {se:4} (vs. all)\n"),
    CST_CODE("front.points", print_front));

static const cst_text_row STACK[] = CST_ROWS(
    CST_TEXT(NULL,
             "\n  preset {preset}, seed {seed:0}; {samples:0} samples" CST_EFFECTIVE
             ", {classes:0} classes, " FOLDS "\n  kept {models_kept:0} of {models_in:0} members\n"),
    CST_TEXT("noise", "  without {rows_left_out:0} rows whose label is probably wrong; scores are "
                      "of the others\n"),
    CST_HEADING("Members by out-of-fold NLL"), CST_CODE(NULL, print_members),
    CST_GROUP(NULL, SELECTION), CST_HEADING("Stack"),
    CST_LINE(NULL, "kappa, Gram", "{kappa_gram_before:g4} before -> {kappa_gram_after:g4} after"),
    CST_GROUP("kappa_cka_before", KAPPA), CST_CODE(NULL, print_lambda),
    CST_GROUP("sigma2", SPECTRUM), CST_LINE(NULL, "blend weights", "{blend:weights}"),
    CST_LINE(
        "safety", "safety",
        "{pool_alone?log-linear pool alone|blend}; the pool alone instead of the blend changes the "
        "held-out NLL by {change:4} +- {se:4}"),
    CST_LINE("fusion", "fusion",
             "{rule}, IoU {iou:g2}[; AP by fits on half of the images: {ap_of_halves.stack:4} "
             "(stack), {ap_of_halves.equal:4} (equal weights), {ap_of_halves.tuned:4} (tuned)]"),
    CST_LINE("class_wise", "weights",
             "{used?of each class and member|of members}; those of classes change the held-out NLL "
             "by {change:4} +- {se:4}"),
    CST_LINE("offsets", "label maps",
             "{used?by offsets of the classes|by the largest probability}; offsets change the "
             "held-out mIoU by {change:%2} +- {se:%2} points"),
    CST_LINE("weights", "log-linear weights", "{:weights}"),
    CST_CODE("mixing.members", print_mixing), CST_LINE("gate.suppresses", "gate suppresses", "{}"),
    CST_TABLE("learners", "Blend", LEARNERS), CST_CODE(NULL, print_domains),
    CST_CODE("oof", print_scores), CST_CODE("comparison", print_comparison),
    CST_GROUP("cascade", CASCADE), CST_SUSPECTS, CST_GROUP(NULL, COST));

/* Of a method that is no preset. */
static const cst_text_row NESTED[] = CST_ROWS(
    CST_HEADING("Out-of-fold scores (nested: the method is refitted without the fold that is "
                "scored)"),
    CST_CODE(NULL, print_all_scores));

static const cst_text_row METHOD[] = CST_ROWS(
    CST_TEXT(NULL, "\n  method {method}, {task}, seed {seed:0}; [{cases:0} cases|{samples:0} "
                   "samples]" CST_EFFECTIVE ", " FOLDS "\n"),
    CST_PARAGRAPH(NULL, "{definition}"), CST_HEADING("Model"), CST_LINE("detail", "fit", "[{}]"),
    CST_LINE(NULL, "members", "{models_kept:0} of {models_in:0}: {kept:names}"),
    CST_LINE(NULL, "{mix} weights", "[{weights:weights}]"), CST_GROUP("oof.nested", NESTED),
    CST_CODE(NULL, print_domains), CST_GROUP(NULL, COST));

static const cst_text_row REGRESSION[] = CST_ROWS(
    CST_TEXT(NULL,
             "\n  regression, preset {preset}, seed {seed:0}; {samples:0} samples" CST_EFFECTIVE
             ", {folds.count:0} folds\n  {models_kept:0} of {models_in:0} members kept: "
             "{kept:names}\n"),
    CST_HEADING("Members by out-of-fold RMSE"), CST_CODE(NULL, print_members),
    CST_EACH("dropped", "Dropped", "  {name}: {text}\n"), CST_CODE("front.points", print_front),
    CST_HEADING("Stack"), CST_LINE("transform", "of targets after", "{}"),
    CST_LINE(NULL, "blend weights", "{blend:weights}"),
    CST_LINE("weights", "linear weights", "{:weights}"), CST_GROUP(NULL, BUDGET),
    CST_CODE(NULL, print_scores), CST_CODE("comparison", print_comparison),
    CST_CODE(NULL, cst_text_outputs), CST_TEXT(NULL, "\n  {seconds.total:2} s\n"));

static const cst_text_row MULTILABEL[] = CST_ROWS(
    CST_TEXT(NULL,
             "\n  multilabel, preset {preset}, seed {seed:0}; {samples:0} samples" CST_EFFECTIVE
             ", {folds.count:0} folds\n  {models_kept:0} of {models_in:0} members kept: "
             "{kept:names}\n"),
    CST_HEADING("Members by out-of-fold log-loss"), CST_CODE(NULL, print_members),
    CST_EACH("dropped", "Dropped", "  {name}: {text}\n"), CST_CODE("front.points", print_front),
    CST_HEADING("Stack"), CST_LINE("weights", "mean weights", "{:weights}"),
    CST_LINE(NULL, "lambda", "{lambda:g4}  (of the labels' deviations, by held-out log loss)"),
    CST_GROUP(NULL, BUDGET), CST_CODE(NULL, print_scores), CST_CODE("comparison", print_comparison),
    CST_CODE(NULL, cst_text_labels), CST_TEXT(NULL, "\n  {seconds.total:2} s\n"));

static void print_fit(cst_page *page, const json_t *root) {
    static const cst_text_row title[] = CST_ROWS(CST_TITLE("[: {model}]"));
    static const cst_text_row notices[] = CST_ROWS(CST_NOTICES);
    cst_task task = cst_document_task(root);
    if (!page->full) {
        cst_text_rows(page, root, cst_text_screen);
        return;
    }
    cst_text_rows(page, root, title);
    cst_text_rows(page, root,
                  cst_json_string(root, "method") ? METHOD
                  : task == CST_TASK_MULTILABEL   ? MULTILABEL
                  : task == CST_TASK_REGRESSION   ? REGRESSION
                                                  : STACK);
    cst_text_rows(page, root, notices);
}

const cst_text_row cst_text_fit[] = CST_ROWS(CST_CODE(NULL, print_fit));

/* ---- show ---- */

static void print_shown_members(cst_page *page, const json_t *root) {
    static const cst_column columns[] =
        CST_COLUMNS(CST_WORDS("name", "member"), CST_NUMBER("weight", "weight", 4),
                    CST_QUANTITY("flops", "FLOPs"), CST_QUANTITY("latency_ms", "ms"));
    json_t *members = ranked_by(page, json_object_get(root, "members"), "weight", false);
    bool costs = json_is_number(json_object_get(root, "flops")) ||
                 json_is_number(json_object_get(root, "latency_ms"));
    cst_table table = {.page = page, .rows = members};
    cst_table_add(&table, columns);
    cst_table_fill(&table);
    if (json_array_size(members) > 1 && costs) {
        cst_table_cell(&table, CST_DIM, "all");
        cst_table_cell(&table, CST_DIM, "%s", "");
        cst_table_quantity(&table, CST_DIM, cst_json_number(root, "flops"));
        cst_table_quantity(&table, CST_DIM, cst_json_number(root, "latency_ms"));
    }
    cst_table_end(&table);
    json_decref(members);
}

static void print_names(cst_page *page, const json_t *root) {
    enum { NAMES_SHOWN = 20 };
    bool values = json_object_get(root, "outputs") != NULL;
    const json_t *names = json_object_get(root, values ? "output_names" : "class_names");
    cst_page_fill(page, root,
                  values ? "  outputs             {outputs:0}"
                         : "  classes             {classes:0}");
    for (size_t i = 0; i < json_array_size(names) && i < NAMES_SHOWN; i++)
        cst_page_print(page, "%s%s", i ? ", " : ": ", cst_json_string_at(names, i));
    cst_page_print(page, "%s\n", json_array_size(names) > NAMES_SHOWN ? ", ..." : "");
}

/* Where a long list is cut: before a comma. */
static size_t list_length(const char *list) {
    enum { LIST_CHARS = 40 };
    size_t length = strlen(list);
    for (size_t i = length; length > LIST_CHARS && i-- > 0;)
        if (list[i] == ',')
            length = i;
    return length;
}

static void print_changed(cst_page *page, const json_t *root) {
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(json_object_get(root, "changed"), key, value) {
        const char *list = cst_json_text(value, "preset");
        size_t length = list_length(list);
        cst_page_print(page, "  %s = %s  (preset: %.*s%s)\n", key, cst_json_text(value, "value"),
                       *list ? (int)length : 4, *list ? list : "none", list[length] ? ", ..." : "");
    }
}

static void print_settings(cst_page *page, const json_t *root) {
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(json_object_get(root, "settings"), key, value) {
        cst_page_print(page, "  %s = %s\n", key, json_string_value(value));
    }
}

static void print_pool(cst_page *page, const json_t *root) {
    const json_t *pool = json_object_get(root, "pool");
    cst_page_fill(
        page, pool,
        !json_is_boolean(json_object_get(pool, "fitted_on"))
            ? "  not known: the model has no hash of its pool; split '{split}' has "
              "{hash}\n"
        : cst_json_flag(pool, "fitted_on")
            ? "  yes: the model was fitted on split '{split}' of this pool\n"
            : "  no: the model was not fitted on split '{split}' of this pool ({hash})\n");
}

/* What the fit found of all members. */
static void print_history(cst_page *page, const json_t *root) {
    static const cst_text_row rows[] =
        CST_ROWS(CST_HEADING("Members of the fit"), CST_CODE("members", print_members),
                 CST_GROUP(NULL, SELECTION));
    cst_text_rows(page, json_object_get(root, "fit"), rows);
}
static const cst_text_row HISTORY[] = CST_ROWS(CST_CODE("fit.members", print_history));

static const cst_text_row ADAPTED_TO[] = CST_ROWS(
    CST_HEADING("Adapted to"),
    CST_LINE("adapted_to", "rows", "split '{split}', {samples:0} samples"),
    CST_LINE("adapted_to", "members", "{returned:0} came back; weight of the stack {scale:4}"));
static const cst_text_row CHANGED[] =
    CST_ROWS(CST_HEADING("Settings that differ from preset [{preset}|default]"),
             CST_CODE(NULL, print_changed));
static const cst_text_row SETTINGS[] =
    CST_ROWS(CST_HEADING("Settings"), CST_CODE(NULL, print_settings));
static const cst_text_row POOL[] = CST_ROWS(CST_HEADING("Pool"), CST_CODE(NULL, print_pool));

const cst_text_row cst_text_show[] = CST_ROWS(
    CST_TITLE("[: {model}]\n  {task}, [method {method}|preset {preset}], written by corestack "
              "{corestack}\n  {bytes:0} bytes[, file modified {modified}]\n"),
    CST_HEADING("Members ({members:0})"), CST_CODE(NULL, print_shown_members), CST_HEADING("Model"),
    CST_CODE(NULL, print_names),
    CST_LINE(NULL, "[{boxes=learners!}meta-learners|{boxes!}boxes|meta-learners]",
             "[{boxes=learners!}{learners:blend}|{boxes}|{gate=none!}{learners:blend}|"
             "{learners:blend}; gate: {gate}]"),
    CST_LINE("gate_suppresses", "gate suppresses", "{}"),
    CST_LINE("calibration", "calibration", "{name}, {detail}"), CST_CODE(NULL, print_domains),
    CST_LINE("decisions", "decisions", "by {}"), CST_GROUP("cascade", CASCADE),
    CST_HEADING("Fitted on"),
    CST_LINE(NULL, "rows",
             "split '{fitted_on.split}'[{task=segmentation!}, {fitted_on.samples:0} pixels|"
             "{task=detection!}, {fitted_on.samples:0} images|, {fitted_on.samples:0} samples]"
             "[, {fitted_on.folds:0} folds ({fitted_on.folds_source=pool?the pool's|}"
             "{fitted_on.folds_source=made?made from the seed|}"
             "{fitted_on.folds_source=time?in time|})][, seed {fitted_on.seed:0}]"),
    CST_LINE(NULL, "members", "[{fitted_on.members:0}, of which the model uses {members:0}]"),
    CST_LINE(NULL, "hash of the pool", "{fitted_on.pool_hash}"),
    CST_GROUP("adapted_to", ADAPTED_TO), CST_GROUP("changed", CHANGED), CST_FULL(HISTORY),
    CST_FULL(SETTINGS), CST_GROUP("pool", POOL), CST_NOTICES);

/* ---- adapt ---- */

static const cst_column ADAPTED_MEMBERS[] = CST_COLUMNS(
    CST_WORDS("name", "member"), CST_NUMBER("weight", "weight", 4),
    {.key = "{returned?came back|}", .header = "", .kind = CST_COLUMN_FILLED, .style = CST_DIM});
static const cst_column CANDIDATES[] =
    CST_COLUMNS(CST_WORDS("center", "center"), CST_NUMBER("precision", "precision", 0),
                CST_NUMBER("nll", "NLL", 4), CST_NUMBER("log_evidence", "log evidence", 2),
                CST_NUMBER("share", "share", 3));
static const cst_text_row ADAPTED[] =
    CST_ROWS(CST_TABLE("members", "Members ({members:0})", ADAPTED_MEMBERS), CST_TEXT(NULL, "\n"),
             CST_LINE(NULL, "weight of the stack", "{scale:4}"),
             CST_LINE(NULL, "certificates", "{certificates}"));
static const cst_text_row TRIED[] =
    CST_ROWS(CST_TABLE("candidates", "Candidates ({candidates:0})", CANDIDATES));

const cst_text_row cst_text_adapt[] = CST_ROWS(
    CST_TEXT(NULL, "corestack adapt: split '{split}', {samples:0} labelled rows, {classes:0} "
                   "classes\n"),
    CST_LINE(NULL, "result",
             "[{adapted!}adapted, {step:%0}% of the way to the fits of the rows|the stack as it "
             "was]"),
    CST_LINE(NULL, "NLL of the rows",
             "stack {nll.stack:4}, with a change {nll.cross_validated:4} cross-validated in "
             "{folds:0} folds"),
    CST_LINE("metric", "metric", "{label}: stack {stack:4}, with a change {cross_validated:4}"),
    CST_LINE(NULL, "evidence", "{log_evidence:2} nats for a change"),
    CST_LINE(NULL, "members",
             "{members_after:0}, before {members_before:0}, of {members_pool:0} in the pool"),
    CST_LINE(NULL, "model", "[{out}]"), CST_GROUP("adapted", ADAPTED), CST_FULL(TRIED),
    CST_NOTICES);
