/*
 * What `corestack fit` found, as text: members and why they went, conditioning, penalty, size
 * path, weights, nested scores, costs. Last stage of a fit. Paper: the quantities of the tables in
 * section "Experiments", for one's own pool.
 */
#include "report/text_methods.h"

#include <math.h>
#include <string.h>

enum { MEMBER_ROWS = 60, PATH_ROWS = 16, PATH_AROUND = 5 };

static void print_header(cst_page *page, const json_t *root) {
    const json_t *folds = json_object_get(root, "folds");
    const char *source = cst_json_string(folds, "source");
    cst_page_print(page, "\n  preset %s, seed %.0f; %.0f samples", cst_json_text(root, "preset"),
                   cst_json_number(root, "seed"), cst_json_number(root, "samples"));
    cst_text_effective(page, root);
    cst_page_print(page, ", %.0f classes, %.0f folds (%s)\n", cst_json_number(root, "classes"),
                   cst_json_number(folds, "count"),
                   source && strcmp(source, "pool") == 0 ? "the pool's" : "made from the seed");
    cst_page_print(page, "  kept %.0f of %.0f members\n", cst_json_number(root, "models_kept"),
                   cst_json_number(root, "models_in"));
}

/* ---- members ---- */

static const json_t *find_dropped(const json_t *root, const char *name) {
    const json_t *dropped = json_object_get(root, "dropped");
    for (size_t i = 0; name && i < json_array_size(dropped); i++) {
        const json_t *entry = json_array_get(dropped, i);
        const char *other = cst_json_string(entry, "name");
        if (other && strcmp(other, name) == 0)
            return entry;
    }
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

static void fate_cell(cst_grid *table, const json_t *root, const json_t *member) {
    if (cst_json_flag(member, "kept")) {
        cst_grid_cell(table, CST_PLAIN, "kept");
        return;
    }
    const json_t *entry = find_dropped(root, cst_json_string(member, "name"));
    const char *reason = reason_words(cst_json_string(entry, "because"));
    const char *to = cst_json_string(entry, "to");
    double cka = cst_json_number(entry, "cka");
    const json_t *redundancy = json_object_get(root, "redundancy");
    const char *measure = cst_json_string(redundancy, "measure");
    bool pearson = measure && strcmp(measure, "pearson") == 0;
    if (to && !isnan(cka))
        cst_grid_cell(table, CST_DIM, "%s; %s %.4f with %s", reason, pearson ? "Pearson" : "CKA",
                      cka, to);
    else
        cst_grid_cell(table, CST_DIM, "%s", reason);
}

static void print_members(cst_page *page, const json_t *root) {
    bool boxes = json_object_get(json_object_get(root, "oof"), "AP") != NULL;
    const char *const headers[] = {"",      "member", boxes ? "AP %" : "top-1 %",
                                   "NLL",   "ECE",    "Brier",
                                   "FLOPs", "family", "outcome"};
    const json_t *members = json_object_get(root, "members");
    size_t count = json_array_size(members);
    cst_ranked *ranks = cst_text_ranks(page, count);
    if (!ranks)
        return;
    for (size_t i = 0; i < count; i++)
        ranks[i].value = cst_json_number(json_array_get(members, i), "nll");
    cst_text_rank(ranks, count);
    cst_page_heading(page, "Members by out-of-fold NLL");
    cst_grid table;
    cst_grid_begin(&table, page, "llrrrrrll", headers);
    size_t left_out = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *member = json_array_get(members, ranks[i].place);
        bool kept = cst_json_flag(member, "kept");
        if (!kept && i >= MEMBER_ROWS) {
            left_out++;
            continue;
        }
        cst_style style = kept ? CST_BOLD : CST_DIM;
        cst_grid_cell(&table, style, "%s", kept ? "*" : "");
        cst_grid_text(&table, style, member, "name");
        cst_grid_number(&table, style, 2, 100 * cst_json_number(member, boxes ? "AP" : "top1"));
        cst_grid_number(&table, style, 4, ranks[i].value);
        cst_grid_number(&table, style, 4, cst_json_number(member, "ece"));
        cst_grid_number(&table, style, 4, cst_json_number(member, "brier"));
        cst_grid_quantity(&table, style, cst_json_number(member, "flops"));
        cst_grid_text(&table, style, member, "family");
        fate_cell(&table, root, member);
    }
    cst_grid_end(&table);
    if (left_out)
        cst_page_print(page, "  and %zu more that were dropped (--json lists them all)\n",
                       left_out);
    cst_free(page->text.context, ranks);
}

/* ---- size path ---- */

static bool in_list(const json_t *list, const char *name) {
    for (size_t i = 0; name && i < json_array_size(list); i++) {
        const char *other = cst_json_string_at(list, i);
        if (other && strcmp(other, name) == 0)
            return true;
    }
    return false;
}

/* The members of the first set of the path. */
static void first_cell(cst_grid *table, const json_t *now, size_t members) {
    size_t size = json_array_size(now);
    if (size == 0)
        cst_grid_cell(table, CST_PLAIN, "%s", "");
    else if (size == members && size > 1)
        cst_grid_cell(table, CST_PLAIN, "all %zu", size);
    else if (size == 1)
        cst_grid_cell(table, CST_PLAIN, "+ %s", cst_json_string_at(now, 0));
    else if (size == 2)
        cst_grid_cell(table, CST_PLAIN, "+ %s, %s", cst_json_string_at(now, 0),
                      cst_json_string_at(now, 1));
    else
        cst_grid_cell(table, CST_PLAIN, "+ %s, %s and %zu more", cst_json_string_at(now, 0),
                      cst_json_string_at(now, 1), size - 2);
}

/* What the set has that the one before it on the path had not, or has lost, where that is one
 * member. */
static void change_cell(cst_grid *table, const json_t *before, const json_t *now, size_t members) {
    bool grows = json_array_size(now) > json_array_size(before);
    const json_t *larger = grows ? now : before;
    const json_t *smaller = grows ? before : now;
    const char *changed = NULL;
    size_t changes = 0;
    for (size_t i = 0; i < json_array_size(larger); i++) {
        const char *name = cst_json_string_at(larger, i);
        if (!in_list(smaller, name)) {
            changed = name;
            changes++;
        }
    }
    if (!before)
        first_cell(table, now, members);
    else if (changes == 1)
        cst_grid_cell(table, CST_PLAIN, "%c %s", grows ? '+' : '-', changed);
    else
        cst_grid_cell(table, CST_PLAIN, "%s", "");
}

static void print_path(cst_page *page, const json_t *root) {
    static const char *const headers[] = {"",     "size",          "NLL",   "vs. best",
                                          "s.e.", "vs. all",       "s.e.",  "FLOPs",
                                          "ms",   "within limits", "change"};
    const json_t *path = json_object_get(root, "path");
    size_t count = json_array_size(path);
    if (count == 0)
        return;
    size_t chosen = 0;
    for (size_t i = 0; i < count; i++)
        if (cst_json_flag(json_array_get(path, i), "chosen"))
            chosen = i;
    cst_page_heading(page, "Held-out loss by size of the set (> marks the selected size)");
    cst_grid table;
    cst_grid_begin(&table, page, "lrrrrrrrrll", headers);
    for (size_t i = 0; i < count; i++) {
        bool near = i + PATH_AROUND >= chosen && i <= chosen + PATH_AROUND;
        if (count > PATH_ROWS && !near && i != 0 && i != count - 1)
            continue;
        const json_t *step = json_array_get(path, i);
        const json_t *before = i ? json_array_get(path, i - 1) : NULL;
        cst_style style = i == chosen ? CST_BOLD : CST_PLAIN;
        cst_grid_cell(&table, style, "%s", cst_json_flag(step, "chosen") ? ">" : "");
        cst_grid_number(&table, style, 0, cst_json_number(step, "size"));
        cst_grid_number(&table, style, 4, cst_json_number(step, "loss"));
        cst_grid_number(&table, style, 4, cst_json_number(step, "excess"));
        cst_grid_number(&table, style, 4, cst_json_number(step, "excess_se"));
        cst_grid_number(&table, style, 4, cst_json_number(step, "against_all"));
        cst_grid_number(&table, style, 4, cst_json_number(step, "against_all_se"));
        cst_grid_quantity(&table, style, cst_json_number(step, "flops"));
        cst_grid_quantity(&table, style, cst_json_number(step, "latency_ms"));
        cst_grid_cell(&table, style, "%s", cst_json_flag(step, "allowed") ? "yes" : "no");
        change_cell(&table, json_object_get(before, "members"), json_object_get(step, "members"),
                    json_array_size(json_object_get(root, "members")));
    }
    cst_grid_end(&table);
}

/* ---- the budget and the front ---- */

static void print_budget(cst_page *page, const json_t *root) {
    static const char *const rows[][2] = {
        {"flops", "FLOPs budget"}, {"latency_ms", "latency budget"}, {"params", "size budget"}};
    const json_t *budget = json_object_get(root, "budget");
    for (size_t c = 0; c < sizeof rows / sizeof rows[0]; c++) {
        const json_t *cost = json_object_get(budget, rows[c][0]);
        double allowed = cst_json_number(cost, "allowed");
        const char *as = cst_json_string(cost, "as");
        if (isnan(allowed))
            continue;
        cst_text_label(page, rows[c][1]);
        cst_page_print(page, "%.5g of %.5g%s%s\n", cst_json_number(cost, "used"), allowed,
                       c == 1   ? " ms"
                       : c == 2 ? " parameters"
                                : "",
                       as && strcmp(as, "max") == 0 ? " (the slowest member)" : "");
    }
}

enum { FRONT_ROWS = 12, FRONT_CHARS = 72 };

/* Names of a set, cut off where they are many. */
static void members_cell(cst_grid *table, cst_style style, const json_t *members) {
    char text[FRONT_CHARS + 24] = "";
    size_t used = 0;
    size_t count = json_array_size(members);
    for (size_t i = 0; i < count; i++) {
        const char *name = cst_json_string_at(members, i);
        size_t length = name ? strlen(name) : 0;
        if (used + length + 2 > FRONT_CHARS) {
            (void)cst_snprintf(text + used, sizeof text - used, "%s%zu more", i ? ", " : "",
                               count - i);
            break;
        }
        (void)cst_snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", name);
        used = strlen(text);
    }
    cst_grid_cell(table, style, "%s", text);
}

/* Sets that no cheaper one beats; of many every so manieth. */
static void print_front(cst_page *page, const json_t *root) {
    bool values = cst_document_task(root) == CST_TASK_REGRESSION;
    const char *const headers[] = {"",           "size",   values ? "error" : "NLL", "FLOPs", "ms",
                                   "parameters", "members"};
    const json_t *points = json_object_get(json_object_get(root, "front"), "points");
    size_t count = json_array_size(points);
    if (count == 0)
        return;
    cst_page_heading(page, "Held-out %s that sets reach at their cost (> marks the kept set)",
                     values ? "squared error" : "loss");
    cst_grid table;
    cst_grid_begin(&table, page, "lrrrrrl", headers);
    for (size_t i = 0; i < count; i++) {
        const json_t *point = json_array_get(points, i);
        bool kept = cst_json_flag(point, "kept");
        bool shown = count <= FRONT_ROWS ||
                     i * (FRONT_ROWS - 1) / (count - 1) != (i + 1) * (FRONT_ROWS - 1) / (count - 1);
        if (!kept && !shown && i != 0)
            continue;
        cst_style style = kept ? CST_BOLD : CST_PLAIN;
        cst_grid_cell(&table, style, "%s", kept ? ">" : "");
        cst_grid_number(&table, style, 0, cst_json_number(point, "size"));
        cst_grid_number(&table, style, 4, cst_json_number(point, "loss"));
        cst_grid_quantity(&table, style, cst_json_number(point, "flops"));
        cst_grid_quantity(&table, style, cst_json_number(point, "latency_ms"));
        cst_grid_quantity(&table, style, cst_json_number(point, "params"));
        members_cell(&table, style, json_object_get(point, "members"));
    }
    cst_grid_end(&table);
}

/* ---- the stack ---- */

static bool has_linear_learner(const json_t *blend) {
    return cst_json_number(blend, "ridge") > 0 || cst_json_number(blend, "elastic-net") > 0 ||
           cst_json_number(blend, "lasso") > 0;
}

static void print_lambda(cst_page *page, const json_t *root) {
    bool used = has_linear_learner(json_object_get(root, "blend"));
    cst_text_label(page, "lambda");
    cst_page_numbers(page, 4, "#", cst_json_number(root, "lambda"));
    cst_page_print(page, "  (rule: %s%s)\n", cst_json_text(root, "lambda_rule"),
                   used ? "" : "; not used, because no linear meta-learner has a weight");
    if (!isnan(cst_json_number(root, "sigma2")) || !isnan(cst_json_number(root, "snr")))
        cst_text_noise(page, root, "spectrum");
}

static void print_learners(cst_page *page, const json_t *root) {
    static const cst_text_column columns[] = {
        {.key = "name", .header = "meta-learner", .kind = CST_COLUMN_TEXT},
        {.key = "weight", .header = "weight", .decimals = 4},
        {.key = "nll", .header = "NLL (total)", .decimals = 3},
        {.key = "half_logdet", .header = "half log det", .decimals = 3},
        {.key = "loss", .header = "loss (Laplace)", .decimals = 3}}; /* not of other rules */
    const json_t *learners = json_object_get(root, "learners");
    if (json_array_size(learners) == 0)
        return;
    bool laplace = json_object_get(json_array_get(learners, 0), "loss") != NULL;
    cst_page_heading(page, "Blend");
    cst_text_table_show(page, learners, columns,
                        sizeof columns / sizeof columns[0] - (laplace ? 0 : 1));
}

static void print_weights(cst_page *page, const json_t *root, const char *label) {
    cst_text_label(page, "blend weights");
    cst_text_weights(page, json_object_get(root, "blend"));
    if (json_object_size(json_object_get(root, "weights"))) {
        cst_text_label(page, label);
        cst_text_weights(page, json_object_get(root, "weights"));
    }
}

/* One share for all members, or each one's own. */
static void print_mixing(cst_page *page, const json_t *root) {
    const json_t *mixing = json_object_get(root, "mixing");
    const json_t *members = json_object_get(mixing, "members");
    if (json_object_size(members) == 0)
        return;
    const char *name = NULL;
    json_t *value = NULL;
    double least = INFINITY;
    double most = 0;
    json_object_foreach((json_t *)(uintptr_t)members, name, value) {
        least = fmin(least, json_number_value(value));
        most = fmax(most, json_number_value(value));
    }
    cst_text_label(page, "mixing");
    if (isnan(cst_json_number(mixing, "share")) && least < most)
        cst_page_numbers(page, 4, "each member's own, # to #\n", least, most);
    else
        cst_page_numbers(page, 4, "# for every member\n", most);
}

static void print_stack(cst_page *page, const json_t *root) {
    cst_page_heading(page, "Stack");
    cst_text_label(page, "kappa, Gram");
    cst_page_numbers(page, 4, "# before -> # after\n", cst_json_number(root, "kappa_gram_before"),
                     cst_json_number(root, "kappa_gram_after"));
    if (!isnan(cst_json_number(root, "kappa_cka_before"))) {
        cst_text_label(page, "kappa, CKA");
        cst_page_numbers(page, 4, "# before -> # after\n",
                         cst_json_number(root, "kappa_cka_before"),
                         cst_json_number(root, "kappa_cka_after"));
    }
    print_lambda(page, root);
    print_weights(page, root, "log-linear weights");
    print_mixing(page, root);
}

static void print_oof_heading(cst_page *page, const json_t *oof) {
    cst_page_heading(page, "Out-of-fold scores of the stack%s",
                     cst_json_flag(oof, "nested")
                         ? " (nested: everything is refitted without the fold that is scored)"
                         : "");
}

/* Without nested scores: which there are. */
static void print_other_scores(cst_page *page, const json_t *root, const json_t *oof) {
    static const struct {
        const char *key, *label;
        bool largest;
    } scores[] = {{"AP", "AP", true}, {"nll", "NLL", false}, {"rmse", "RMSE", false}};
    const json_t *members = json_object_get(root, "members");
    const json_t *path = json_object_get(root, "path");
    bool values = cst_document_task(root) == CST_TASK_REGRESSION;
    cst_page_paragraph(page, "%s.", cst_json_text(oof, "why"));
    for (size_t i = 0; i < json_array_size(path); i++) {
        const json_t *step = json_array_get(path, i);
        if (cst_json_flag(step, "chosen") && !isnan(cst_json_number(step, "loss")))
            cst_page_paragraph(
                page, "held-out %s of the selected %.0f members, by which they were selected: %.4f",
                values ? "squared error (in variances of the target)" : "NLL",
                cst_json_number(step, "size"), cst_json_number(step, "loss"));
    }
    for (size_t s = 0; s < sizeof scores / sizeof scores[0]; s++) {
        const json_t *best = NULL;
        for (size_t i = 0; i < json_array_size(members); i++) {
            const json_t *member = json_array_get(members, i);
            double value = cst_json_number(member, scores[s].key);
            double least = best ? cst_json_number(best, scores[s].key) : NAN;
            if (!isnan(value) && (!best || (scores[s].largest ? value > least : value < least)))
                best = member;
        }
        if (!best)
            continue;
        cst_page_print(page, "  best member: %s, %s %.4f\n", cst_json_text(best, "name"),
                       scores[s].label, cst_json_number(best, scores[s].key));
        return;
    }
}

/* All scores of the task, as a table of one row. */
static void print_all_scores(cst_page *page, const json_t *root, const json_t *oof) {
    cst_text_table table = {.page = page, .root = root, .rows = oof};
    cst_text_table_add_scores(&table, CST_COLUMN_VALUE, CST_COLUMN_NUMBER, 0);
    cst_text_table_add_group(&table, CST_SCORES_OF_TASK);
    cst_text_table_print(&table);
}

static void print_scores(cst_page *page, const json_t *root) {
    const json_t *oof = json_object_get(root, "oof");
    if (!json_is_object(oof))
        return;
    print_oof_heading(page, oof);
    if (!cst_json_flag(oof, "nested")) {
        print_other_scores(page, root, oof);
        return;
    }
    if (json_object_get(oof, "AP")) {
        print_all_scores(page, root, oof);
        cst_page_paragraph(page, "%s", cst_json_text(root, "ap_definition"));
        return;
    }
    bool pixels = json_object_get(oof, "miou") != NULL;
    if (pixels)
        cst_page_numbers(page, 4, "  mIoU # %,", 100 * cst_json_number(oof, "miou"));
    cst_page_print(page, pixels ? " pixels right " : "  top-1 ");
    cst_page_numbers(page, 4, "# %, NLL #", 100 * cst_json_number(oof, "top1"),
                     cst_json_number(oof, "nll"));
    cst_page_numbers(page, 3, ", ECE #", cst_json_number(oof, "ece"));
    cst_page_numbers(page, 4, ", Brier #\n", cst_json_number(oof, "brier"));
    cst_text_definition(page, cst_json_string(root, "ece_definition"));
}

static void print_costs(cst_page *page, const json_t *root) {
    const json_t *seconds = json_object_get(root, "seconds");
    double flops = cst_json_number(root, "flops_rel");
    double memory = cst_json_number(root, "peak_rss_bytes");
    cst_page_heading(page, "Cost");
    cst_text_label(page, "FLOPs");
    cst_page_numbers(page, 3, "#", flops);
    cst_page_print(page, isnan(flops) ? "  (not in the pool)\n" : " of all members\n");
    print_budget(page, root);
    cst_text_label(page, "time");
    cst_page_print(page, "%.2f s", cst_json_number(seconds, "total"));
    const char *separator = ": ";
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)seconds, key, value) {
        if (strcmp(key, "total") == 0 || !json_is_number(value) || json_number_value(value) <= 0)
            continue;
        cst_page_print(page, "%s%s %.2f", separator, key, json_number_value(value));
        separator = ", ";
    }
    cst_page_print(page, "\n");
    if (!isnan(memory)) {
        cst_text_label(page, "peak memory");
        cst_page_print(page, "%.0f MiB\n", memory / (1024.0 * 1024.0));
    }
}

/* ---- of a method that is no preset ---- */

static void print_method(cst_page *page, const json_t *root) {
    const json_t *folds = json_object_get(root, "folds");
    const json_t *oof = json_object_get(root, "oof");
    const char *source = cst_json_string(folds, "source");
    const char *detail = cst_json_string(root, "detail");
    bool maps = json_object_get(root, "cases") != NULL;
    cst_page_print(page, "\n  method %s, %s, seed %.0f; %.0f %s", cst_json_text(root, "method"),
                   cst_json_text(root, "task"), cst_json_number(root, "seed"),
                   cst_json_number(root, maps ? "cases" : "samples"), maps ? "cases" : "samples");
    cst_text_effective(page, root);
    cst_page_print(page, ", %.0f folds (%s)\n", cst_json_number(folds, "count"),
                   source && strcmp(source, "pool") == 0 ? "the pool's" : "made from the seed");
    cst_page_paragraph(page, "%s", cst_json_text(root, "definition"));
    cst_page_heading(page, "Model");
    if (detail && *detail) {
        cst_text_label(page, "fit");
        cst_page_print(page, "%s\n", detail);
    }
    cst_text_label(page, "members");
    cst_page_print(page, "%.0f of %.0f: ", cst_json_number(root, "models_kept"),
                   cst_json_number(root, "models_in"));
    cst_text_names(page, json_object_get(root, "kept"));
    if (json_object_size(json_object_get(root, "weights"))) {
        char label[32];
        (void)cst_snprintf(label, sizeof label, "%s weights", cst_json_text(root, "mix"));
        cst_text_label(page, label);
        cst_text_weights(page, json_object_get(root, "weights"));
    }
    if (cst_json_flag(oof, "nested")) {
        cst_page_heading(page, "Out-of-fold scores (nested: the method is refitted without the "
                               "fold that is scored)");
        print_all_scores(page, root, oof);
    }
    cst_text_domains(page, root);
    print_costs(page, root);
}

/* ---- of a regression ---- */

static void print_regression(cst_page *page, const json_t *root) {
    const json_t *dropped = json_object_get(root, "dropped");
    const json_t *oof = json_object_get(root, "oof");
    cst_page_print(page, "\n  regression, preset %s, seed %.0f; %.0f samples",
                   cst_json_text(root, "preset"), cst_json_number(root, "seed"),
                   cst_json_number(root, "samples"));
    cst_text_effective(page, root);
    cst_page_print(page, ", %.0f folds\n",
                   cst_json_number(json_object_get(root, "folds"), "count"));
    cst_page_print(page, "  %.0f of %.0f members kept: ", cst_json_number(root, "models_kept"),
                   cst_json_number(root, "models_in"));
    cst_text_names(page, json_object_get(root, "kept"));
    if (json_array_size(dropped) > 0)
        cst_page_heading(page, "Dropped");
    for (size_t i = 0; i < json_array_size(dropped); i++)
        cst_page_print(page, "  %s: %s\n", cst_json_text(json_array_get(dropped, i), "name"),
                       cst_json_text(json_array_get(dropped, i), "text"));
    print_front(page, root);
    cst_page_heading(page, "Stack");
    print_weights(page, root, "linear weights");
    print_budget(page, root);
    print_oof_heading(page, oof);
    if (cst_json_flag(oof, "nested")) {
        print_all_scores(page, root, oof);
        cst_text_coverage(page, oof);
    } else {
        print_other_scores(page, root, oof);
    }
    cst_text_outputs(page, root);
    cst_page_print(page, "\n  %.2f s\n",
                   cst_json_number(json_object_get(root, "seconds"), "total"));
}

void cst_text_fit(cst_page *page, const json_t *root, bool full) {
    (void)full;
    const char *model = cst_json_string(root, "model");
    cst_page_styled(page, CST_BOLD, "corestack fit");
    if (model)
        cst_page_print(page, ": %s", model);
    if (cst_json_string(root, "method")) {
        print_method(page, root);
    } else if (cst_document_task(root) == CST_TASK_REGRESSION) {
        print_regression(page, root);
    } else {
        print_header(page, root);
        print_members(page, root);
        print_path(page, root);
        print_front(page, root);
        print_stack(page, root);
        print_learners(page, root);
        cst_text_domains(page, root);
        print_scores(page, root);
        print_costs(page, root);
    }
    cst_text_bullets(page, root, "notices", "Notices");
}
