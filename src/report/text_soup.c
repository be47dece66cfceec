/*
 * Reports of soups and of averages of checkpoints as text: files, sizes, the steps of the choice.
 */
#include "report/text.h"

#include <string.h>

enum { STEPS_SHOWN = 40 };

static bool is(const char *a, const char *b) {
    return a && strcmp(a, b) == 0;
}

static void print_size(cst_page *page, const json_t *root) {
    cst_text_label(page, "mixed");
    cst_page_print(page, "%.0f parameters in %.0f tensors", cst_json_number(root, "parameters"),
                   cst_json_number(root, "tensors"));
    double copied = cst_json_number(root, "copied");
    if (copied > 0)
        cst_page_print(page, "; %.0f other tensor%s from the first file", copied,
                       copied > 1 ? "s" : "");
    cst_page_print(page, "\n");
}

/* Steps in the order in which they were taken; of many only those that made it better. */
static void print_steps(cst_page *page, const json_t *root, bool full) {
    static const char *const headers[] = {"", "candidate", "file", "score", "kept"};
    const json_t *steps = json_object_get(root, "steps");
    bool all = full || json_array_size(steps) <= STEPS_SHOWN;
    cst_grid table;
    cst_page_heading(page, all ? "Steps" : "Steps that were accepted");
    cst_grid_begin(&table, page, "rllrl", headers);
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *step = json_array_get(steps, i);
        const char *kind = cst_json_string(step, "kind");
        bool kept = cst_json_flag(step, "kept");
        if (!all && !kept)
            continue;
        cst_style style = kept ? CST_BOLD : CST_PLAIN;
        cst_grid_cell(&table, CST_DIM, "%.0f", cst_json_number(step, "step"));
        cst_grid_text(&table, CST_PLAIN, step, "kind");
        cst_grid_text(&table, CST_PLAIN, step, "file");
        cst_grid_number(&table, style, 6, cst_json_number(step, "score"));
        cst_grid_cell(&table, CST_PLAIN, "%s",
                      is(kind, "single") && !json_object_get(step, "kept") ? "-"
                      : kept                                               ? "yes"
                                                                           : "no");
    }
    cst_grid_end(&table);
}

void cst_text_soup(cst_page *page, const json_t *root, bool full) {
    const char *kind = cst_json_string(root, "kind");
    const char *out = cst_json_text(root, "out");
    const char *metric = cst_json_string(root, "metric");
    size_t files = json_array_size(json_object_get(root, "files"));
    cst_page_print(page, "%s: %s soup of %zu file%s\n", out, cst_json_text(root, "kind"), files,
                   files == 1 ? "" : "s");
    print_size(page, root);
    if (is(kind, "greedy")) {
        cst_text_label(page, "chosen");
        cst_text_names(page, json_object_get(root, "chosen"));
    }
    if (metric) {
        cst_text_label(page, metric);
        cst_page_print(page, "%.6f on %.0f samples", cst_json_number(root, "score"),
                       cst_json_number(root, "samples"));
        cst_page_print(page, "\n");
        cst_text_label(page, "evaluations");
        cst_page_print(page, "%.0f\n", cst_json_number(root, "evaluations"));
        print_steps(page, root, full);
    }
    cst_text_bullets(page, root, "notices", "Notices");
}

void cst_text_averages(cst_page *page, const json_t *root, bool full) {
    (void)full;
    const char *command = cst_json_string(root, "command");
    const char *kind = cst_json_string(root, "kind");
    const char *out = cst_json_text(root, "out");
    double files = (double)json_array_size(json_object_get(root, "files"));
    cst_page_print(page, "%s: ", out);
    if (is(kind, "sample")) {
        double samples = cst_json_number(root, "samples");
        cst_page_print(page, "%.0f sample%s around %s, rank %.0f, scale %.6g, seed %.0f\n", samples,
                       samples == 1 ? "" : "s", cst_json_text(root, "model"),
                       cst_json_number(root, "rank"), cst_json_number(root, "scale"),
                       cst_json_number(root, "seed"));
    } else if (is(command, "swag")) {
        cst_page_print(page, "mean, variance and %.0f deviations of %.0f checkpoints\n",
                       cst_json_number(root, "rank"), files);
    } else {
        const char *from = cst_json_string(root, "from");
        double checkpoints = cst_json_number(root, "checkpoints");
        cst_page_print(page, "mean of %.0f checkpoint%s", checkpoints, checkpoints == 1 ? "" : "s");
        if (from)
            cst_page_print(page, ", %.0f of them after those of %s", files, from);
        cst_page_print(page, "\n");
    }
    cst_text_bullets(page, root, "notices", "Notices");
}
