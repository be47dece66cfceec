/*
 * What `corestack monitor` found, as text: a line for each batch, and what drifted. Last stage of a
 * monitor without --json.
 */
#include "report/text_methods.h"

/* "12.3", "1.2e+05". */
static void print_evidence(cst_grid *grid, cst_style style, double value) {
    cst_grid_cell(grid, style, value < 1000 ? "%.2f" : "%.1e", value);
}

static void print_batches(cst_page *page, const json_t *batches) {
    static const char *const headers[] = {"batch",    "rows", "evidence", "alone", "expected", "",
                                          "observed", "ECE",  "observed", "flags", ""};
    cst_grid grid;
    size_t i = 0;
    const json_t *row = NULL;
    cst_page_heading(page, "Batches");
    cst_grid_begin(&grid, page, "lrrrrirrrrl", headers);
    json_array_foreach(batches, i, row) {
        const json_t *expected = json_object_get(row, "expected");
        const json_t *observed = json_object_get(row, "observed");
        bool alarm = json_is_true(json_object_get(row, "alarm"));
        cst_grid_cell(&grid, CST_PLAIN, "%s", cst_json_text(row, "batch"));
        cst_grid_cell(&grid, CST_PLAIN, "%.0f", cst_json_number(row, "samples"));
        print_evidence(&grid, alarm ? CST_BOLD : CST_PLAIN, cst_json_number(row, "evidence"));
        print_evidence(&grid, CST_PLAIN, cst_json_number(row, "evidence_alone"));
        cst_grid_cell(&grid, CST_PLAIN, "%.1f", 100 * cst_json_number(expected, "top1"));
        cst_grid_cell(&grid, CST_DIM, "+- %.1f", 100 * cst_json_number(expected, "error"));
        cst_grid_number(&grid, CST_PLAIN, 1, 100 * cst_json_number(observed, "top1"));
        cst_grid_number(&grid, CST_PLAIN, 3, cst_json_number(expected, "ece"));
        cst_grid_number(&grid, CST_PLAIN, 3, cst_json_number(observed, "ece"));
        cst_grid_cell(&grid, CST_PLAIN, "%.0f", cst_json_number(row, "flags"));
        cst_grid_cell(&grid, alarm ? CST_BOLD : CST_PLAIN, "%s", alarm ? "alarm" : "");
    }
    cst_grid_end(&grid);
    cst_page_paragraph(page, "evidence: of the test over all batches; alone: the largest of a test "
                             "of this batch by itself; expected: top-1 accuracy in %% without "
                             "labels, with its typical error; flags: drift of members that chance "
                             "does not explain.");
}

static void print_change(cst_page *page, const char *name, const json_t *member, const char *key,
                         const char *label) {
    const json_t *drift = json_object_get(member, key);
    if (!json_is_true(json_object_get(drift, "flag")))
        return;
    cst_page_print(page, "    %s: %s %.3g (fit %.3g)\n", name, label,
                   cst_json_number(drift, "value"), cst_json_number(drift, "fit"));
}

static void print_member(cst_page *page, const json_t *member) {
    const char *name = cst_json_string(member, "name");
    const json_t *classes = json_object_get(member, "classes");
    name = name ? name : "the stack";
    print_change(page, name, member, "missing", "missing share of rows");
    print_change(page, name, member, "entropy", "mean entropy");
    print_change(page, name, member, "disagreement", "disagreement with the stack");
    if (json_is_true(json_object_get(classes, "flag"))) {
        const json_t *most = json_object_get(member, "largest_change");
        const char *class = cst_json_string(most, "class");
        cst_page_print(page, "    %s: predicted classes, most %s%s%s %.1f%% (fit %.1f%%)\n", name,
                       class ? "'" : "", class ? class : "other classes", class ? "'" : "",
                       100 * cst_json_number(most, "share"), 100 * cst_json_number(most, "fit"));
    }
}

/* Of every batch, or of the last one with flags. */
static void print_drift(cst_page *page, const json_t *batches, bool full) {
    size_t i = 0;
    size_t k = 0;
    const json_t *row = NULL;
    const json_t *member = NULL;
    const json_t *last = NULL;
    size_t flagged = 0;
    json_array_foreach(batches, i, row) if (cst_json_number(row, "flags") > 0) {
        last = row;
        flagged++;
    }
    if (!last)
        return;
    cst_page_heading(page, "Drift of members");
    json_array_foreach(batches, i, row) {
        if (!(cst_json_number(row, "flags") > 0) || (!full && row != last))
            continue;
        cst_page_print(page, "  %s\n", cst_json_text(row, "batch"));
        json_array_foreach(json_object_get(row, "members"), k, member) {
            print_member(page, member);
        }
        json_array_foreach(json_object_get(row, "stack"), k, member) {
            print_member(page, member);
        }
    }
    if (!full && flagged > 1)
        cst_page_print(page, "  %zu earlier batches have flags too; --verbose shows them\n",
                       flagged - 1);
}

void cst_text_monitor(cst_page *page, const json_t *root, bool full) {
    const json_t *batches = json_object_get(root, "batches");
    const json_t *fit = json_object_get(root, "fit");
    const json_t *first = json_object_get(root, "first_alarm");
    const char *model = cst_json_string(root, "model");
    cst_page_styled(page, CST_BOLD, "corestack monitor");
    cst_page_print(page, "%s%s\n", model ? ": " : "", model ? model : "");
    cst_text_label(page, "alarm");
    if (first)
        cst_page_styled(page, CST_BOLD, "yes, since batch %.0f (%s)",
                        cst_json_number(first, "number"), cst_json_text(first, "batch"));
    else
        cst_page_print(page, "no");
    cst_page_print(page, "\n");
    cst_text_label(page, "evidence");
    cst_page_print(page, "%.3g after %.0f rows (batches: %.0f), at most %.3g; an alarm is %.4g\n",
                   cst_json_number(root, "evidence"), cst_json_number(root, "rows"),
                   cst_json_number(root, "batches_seen"), cst_json_number(root, "evidence_peak"),
                   cst_json_number(root, "evidence_alarm"));
    cst_text_label(page, "rows of the fit");
    cst_page_print(page, "%.0f, top-1 %.1f%%, ECE %.3f\n", cst_json_number(fit, "samples"),
                   100 * cst_json_number(fit, "top1"), cst_json_number(fit, "ece"));
    print_batches(page, batches);
    print_drift(page, batches, full);
    cst_text_end(page, root);
}
