/*
 * What `corestack online` found, as text: losses next to the stack, the average and the best
 * member. Last stage of the command without --json.
 */
#include "report/scores.h"
#include "report/text.h"

#include <math.h>

enum { TITLE_CHARS = 160 };

static void print_row(cst_grid *grid, const json_t *root, const char *key, const char *title) {
    double error = cst_json_number(json_object_get(root, "error"), key);
    cst_grid_cell(grid, CST_PLAIN, "%s", title);
    cst_grid_number(grid, CST_PLAIN, 4, cst_json_number(json_object_get(root, "nll"), key));
    cst_grid_number(grid, CST_PLAIN, 2, 100 * error);
    cst_grid_number(grid, CST_PLAIN, 1, cst_json_number(json_object_get(root, "regret"), key));
}

void cst_text_online(cst_page *page, const json_t *root, bool full) {
    (void)full;
    static const char *const headers[] = {"", "NLL", "error %", "regret"};
    const json_t *share = json_object_get(root, "share");
    const json_t *sets = json_object_get(root, "sets");
    const char *out = cst_json_string(root, "out");
    if (out)
        cst_page_print(page, "%s: %.0f samples x %.0f classes, float32 probabilities\n", out,
                       cst_json_number(root, "rows"), cst_json_number(root, "classes"));
    cst_page_print(page,
                   "split %s: %.0f rows; the labels of %.0f were learned, %.0f rows wait for "
                   "theirs\n",
                   cst_json_text(root, "split"), cst_json_number(root, "rows"),
                   cst_json_number(root, "labelled"), cst_json_number(root, "waiting"));
    if (!(cst_json_number(root, "labelled") > 0))
        return;
    cst_grid grid;
    cst_grid_begin(&grid, page, "lrrr", headers);
    print_row(&grid, root, "adapter", "adapter");
    print_row(&grid, root, "stack", "stack");
    print_row(&grid, root, "average", "average");
    char title[TITLE_CHARS];
    (void)cst_snprintf(title, sizeof title, "%.100s, the best member",
                       cst_json_text(root, "best_member"));
    print_row(&grid, root, "best_member", title);
    (void)cst_snprintf(title, sizeof title, "the best of them in each %.0f rows",
                       cst_json_number(root, "block"));
    print_row(&grid, root, "switching", title);
    cst_grid_end(&grid);
    cst_page_paragraph(page,
                       "NLL: mean over the rows whose label came, each predicted before that, in "
                       "nats. regret: the adapter's loss less that of the line, in nats over all "
                       "of these rows; below 0 the adapter was better.");
    cst_page_paragraph(page,
                       "Prediction sets for %.3g%% of the labels held %.1f%% of them, with %.2f "
                       "classes in the mean.",
                       100 - 100 * cst_json_number(sets, "alpha"),
                       100 * cst_json_number(sets, "coverage"), cst_json_number(sets, "size"));
    cst_page_paragraph(
        page,
        "The next prediction is %.0f%% stack, %.0f%% refitted weights, %.0f%% "
        "average, %.0f%% single members.",
        100 * cst_json_number(share, "stack"), 100 * cst_json_number(share, "newton"),
        100 * cst_json_number(share, "average"), 100 * cst_json_number(share, "members"));
    cst_text_bullets(page, root, "notices", "Notices");
}
