/* `corestack show` as text: members with weights, rows of the fit, settings. */
#include "report/scores.h"
#include "report/text.h"
#include "report/text_table.h"

#include <math.h>
#include <string.h>

enum { NAMES_SHOWN = 20 };

static void print_members(cst_page *page, const json_t *root) {
    static const char *const headers[] = {"member", "weight", "FLOPs", "ms"};
    const json_t *members = json_object_get(root, "members");
    size_t count = json_array_size(members);
    cst_ranked *ranks = cst_text_ranks(page, count);
    if (!ranks)
        return;
    for (size_t i = 0; i < count; i++)
        ranks[i].value = -cst_json_number(json_array_get(members, i), "weight");
    cst_text_rank(ranks, count);
    cst_page_heading(page, "Members (%zu)", count);
    cst_grid table;
    cst_grid_begin(&table, page, "lrrr", headers);
    for (size_t i = 0; i < count; i++) {
        const json_t *member = json_array_get(members, ranks[i].place);
        cst_grid_text(&table, CST_PLAIN, member, "name");
        cst_grid_number(&table, CST_PLAIN, 4, cst_json_number(member, "weight"));
        cst_grid_quantity(&table, CST_PLAIN, cst_json_number(member, "flops"));
        cst_grid_quantity(&table, CST_PLAIN, cst_json_number(member, "latency_ms"));
    }
    if (count > 1 &&
        !(isnan(cst_json_number(root, "flops")) && isnan(cst_json_number(root, "latency_ms")))) {
        cst_grid_cell(&table, CST_DIM, "all");
        cst_grid_cell(&table, CST_DIM, "%s", "");
        cst_grid_quantity(&table, CST_DIM, cst_json_number(root, "flops"));
        cst_grid_quantity(&table, CST_DIM, cst_json_number(root, "latency_ms"));
    }
    cst_grid_end(&table);
    cst_free(page->text.context, ranks);
}

static void print_names(cst_page *page, const json_t *root) {
    bool values = json_object_get(root, "outputs") != NULL;
    const json_t *names = json_object_get(root, values ? "output_names" : "class_names");
    cst_text_label(page, values ? "outputs" : "classes");
    cst_page_print(page, "%.0f", cst_json_number(root, values ? "outputs" : "classes"));
    for (size_t i = 0; i < json_array_size(names) && i < NAMES_SHOWN; i++)
        cst_page_print(page, "%s%s", i ? ", " : ": ", cst_json_string_at(names, i));
    cst_page_print(page, "%s\n", json_array_size(names) > NAMES_SHOWN ? ", ..." : "");
}

static void print_model(cst_page *page, const json_t *root) {
    const json_t *learners = json_object_get(root, "learners");
    const json_t *calibration = json_object_get(root, "calibration");
    const char *boxes = cst_json_string(root, "boxes");
    const char *gate = cst_json_text(root, "gate");
    cst_page_heading(page, "Model");
    print_names(page, root);
    if (boxes && strcmp(boxes, "learners") != 0) {
        cst_text_label(page, "boxes");
        cst_page_print(page, "%s\n", boxes);
    } else {
        cst_text_label(page, "meta-learners");
        cst_text_blend(page, learners);
        cst_page_print(page, "%s%s\n", strcmp(gate, "none") == 0 ? "" : "; gate: ",
                       strcmp(gate, "none") == 0 ? "" : gate);
    }
    if (json_is_object(calibration)) {
        cst_text_label(page, "calibration");
        cst_page_print(page, "%s, %s\n", cst_json_text(calibration, "name"),
                       cst_json_text(calibration, "detail"));
    }
}

static void print_fit(cst_page *page, const json_t *root) {
    const json_t *fit = json_object_get(root, "fitted_on");
    const char *source = cst_json_string(fit, "folds_source");
    static const char *const units[] = {"samples", "samples", "pixels", "images"};
    cst_task task = cst_document_task(root);
    cst_page_heading(page, "Fitted on");
    cst_text_label(page, "rows");
    cst_page_print(page, "split '%s'", cst_json_text(fit, "split"));
    if (!isnan(cst_json_number(fit, "samples")))
        cst_page_print(page, ", %.0f %s", cst_json_number(fit, "samples"), units[task]);
    if (!isnan(cst_json_number(fit, "folds")))
        cst_page_print(page, ", %.0f folds (%s)", cst_json_number(fit, "folds"),
                       source && strcmp(source, "pool") == 0 ? "the pool's" : "made from the seed");
    if (!isnan(cst_json_number(fit, "seed")))
        cst_page_print(page, ", seed %.0f", cst_json_number(fit, "seed"));
    cst_page_print(page, "\n");
    if (!isnan(cst_json_number(fit, "members"))) {
        cst_text_label(page, "members");
        cst_page_print(page, "%.0f, of which the model uses %zu\n", cst_json_number(fit, "members"),
                       json_array_size(json_object_get(root, "members")));
    }
    cst_text_label(page, "hash of the pool");
    cst_page_print(page, "%s\n", cst_json_text(fit, "pool_hash"));
}

static void print_adaptation(cst_page *page, const json_t *root) {
    const json_t *adapted = json_object_get(root, "adapted_to");
    if (!adapted)
        return;
    cst_page_heading(page, "Adapted to");
    cst_text_label(page, "rows");
    cst_page_print(page, "split '%s', %.0f samples\n", cst_json_text(adapted, "split"),
                   cst_json_number(adapted, "samples"));
    cst_text_label(page, "members");
    cst_page_print(page, "%.0f came back; weight of the stack %.4f\n",
                   cst_json_number(adapted, "returned"), cst_json_number(adapted, "scale"));
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
    const json_t *changed = json_object_get(root, "changed");
    const char *preset = cst_json_string(root, "preset");
    const char *key = NULL;
    json_t *value = NULL;
    if (json_object_size(changed) == 0)
        return;
    cst_page_heading(page, "Settings that differ from preset %s", preset ? preset : "default");
    json_object_foreach((json_t *)(uintptr_t)changed, key, value) {
        const char *list = cst_json_text(value, "preset");
        size_t length = list_length(list);
        cst_page_print(page, "  %s = %s  (preset: %.*s%s)\n", key, cst_json_text(value, "value"),
                       (int)length, list, list[length] ? ", ..." : "");
    }
}

static void print_pool(cst_page *page, const json_t *root) {
    const json_t *pool = json_object_get(root, "pool");
    if (!json_is_object(pool))
        return;
    const char *split = cst_json_text(pool, "split");
    const char *hash = cst_json_text(pool, "hash");
    cst_page_heading(page, "Pool");
    if (!json_is_boolean(json_object_get(pool, "fitted_on")))
        cst_page_print(page, "  not known: the model has no hash of its pool; split '%s' has %s\n",
                       split, hash);
    else if (cst_json_flag(pool, "fitted_on"))
        cst_page_print(page, "  yes: the model was fitted on split '%s' of this pool\n", split);
    else
        cst_page_print(page, "  no: the model was not fitted on split '%s' of this pool (%s)\n",
                       split, hash);
}

void cst_text_show(cst_page *page, const json_t *root, bool full) {
    const char *method = cst_json_string(root, "method");
    const char *modified = cst_json_string(root, "modified");
    const char *model = cst_json_string(root, "model");
    cst_page_styled(page, CST_BOLD, "corestack show");
    if (model)
        cst_page_print(page, ": %s", model);
    cst_page_print(page, "\n  %s, %s %s, written by corestack %s\n", cst_json_text(root, "task"),
                   method ? "method" : "preset", method ? method : cst_json_text(root, "preset"),
                   cst_json_text(root, "corestack"));
    cst_page_print(page, "  %.0f bytes", cst_json_number(root, "bytes"));
    if (modified)
        cst_page_print(page, ", file modified %s", modified);
    cst_page_print(page, "\n");
    print_members(page, root);
    print_model(page, root);
    cst_text_domains(page, root);
    print_fit(page, root);
    print_adaptation(page, root);
    print_changed(page, root);
    if (full) {
        const char *key = NULL;
        json_t *value = NULL;
        cst_page_heading(page, "Settings");
        json_object_foreach(json_object_get(root, "settings"), key, value) {
            cst_page_print(page, "  %s = %s\n", key, json_string_value(value));
        }
    }
    print_pool(page, root);
    cst_text_bullets(page, root, "notices", "Notices");
}
