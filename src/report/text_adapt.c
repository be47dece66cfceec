/* What an adaptation did, as text: losses, how far the stack moved, members. */
#include "report/text.h"

static void print_members(cst_page *page, const json_t *root) {
    static const char *const headers[] = {"member", "weight", ""};
    const json_t *members = json_object_get(root, "members");
    cst_page_heading(page, "Members (%zu)", json_array_size(members));
    cst_grid table;
    cst_grid_begin(&table, page, "lrl", headers);
    for (size_t i = 0; i < json_array_size(members); i++) {
        const json_t *member = json_array_get(members, i);
        cst_grid_text(&table, CST_PLAIN, member, "name");
        cst_grid_number(&table, CST_PLAIN, 4, cst_json_number(member, "weight"));
        cst_grid_cell(&table, CST_DIM, "%s", cst_json_flag(member, "returned") ? "came back" : "");
    }
    cst_grid_end(&table);
}

static void print_candidates(cst_page *page, const json_t *root) {
    static const char *const headers[] = {"center", "precision", "NLL", "log evidence", "share"};
    const json_t *list = json_object_get(root, "candidates");
    cst_page_heading(page, "Candidates (%zu)", json_array_size(list));
    cst_grid table;
    cst_grid_begin(&table, page, "lrrrr", headers);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        cst_grid_text(&table, CST_PLAIN, entry, "center");
        cst_grid_number(&table, CST_PLAIN, 0, cst_json_number(entry, "precision"));
        cst_grid_number(&table, CST_PLAIN, 4, cst_json_number(entry, "nll"));
        cst_grid_number(&table, CST_PLAIN, 2, cst_json_number(entry, "log_evidence"));
        cst_grid_number(&table, CST_PLAIN, 3, cst_json_number(entry, "share"));
    }
    cst_grid_end(&table);
}

void cst_text_adapt(cst_page *page, const json_t *root, bool full) {
    const json_t *nll = json_object_get(root, "nll");
    bool adapted = cst_json_flag(root, "adapted");
    const char *out = cst_json_string(root, "out");
    cst_page_print(page, "corestack adapt: split '%s', %.0f labelled rows, %.0f classes\n",
                   cst_json_text(root, "split"), cst_json_number(root, "samples"),
                   cst_json_number(root, "classes"));
    cst_text_label(page, "result");
    if (adapted)
        cst_page_print(page, "adapted, %.0f%% of the way to the fits of the rows\n",
                       100 * cst_json_number(root, "step"));
    else
        cst_page_print(page, "the stack as it was\n");
    cst_text_label(page, "NLL of the rows");
    cst_page_print(page, "stack %.4f, with a change %.4f cross-validated in %.0f folds\n",
                   cst_json_number(nll, "stack"), cst_json_number(nll, "cross_validated"),
                   cst_json_number(root, "folds"));
    cst_text_label(page, "evidence");
    cst_page_print(page, "%.2f nats for a change\n", cst_json_number(root, "log_evidence"));
    cst_text_label(page, "members");
    cst_page_print(page, "%.0f, before %.0f, of %.0f in the pool\n",
                   cst_json_number(root, "members_after"), cst_json_number(root, "members_before"),
                   cst_json_number(root, "members_pool"));
    if (out) {
        cst_text_label(page, "model");
        cst_page_print(page, "%s\n", out);
    }
    if (adapted) {
        print_members(page, root);
        cst_page_print(page, "\n");
        cst_text_label(page, "weight of the stack");
        cst_page_print(page, "%.4f\n", cst_json_number(root, "scale"));
    }
    if (adapted) {
        cst_text_label(page, "certificates");
        cst_page_print(page, "%s\n", cst_json_text(root, "certificates"));
    }
    if (full)
        print_candidates(page, root);
    cst_text_bullets(page, root, "notices", "Notices");
}
