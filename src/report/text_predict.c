/* `corestack predict` and `corestack folds` as one line of text. */
#include "report/scores.h"

/* Batches that the guard found unlike the fit: the first of them. */
static void print_guard(cst_page *page, const json_t *guard) {
    enum { SHOWN = 10 };
    const json_t *batches = json_object_get(guard, "batches");
    size_t fired = 0;
    size_t index = 0;
    const json_t *batch = NULL;
    json_array_foreach(batches, index, batch) {
        if (!json_is_true(json_object_get(batch, "fired")) || fired++ >= SHOWN)
            continue;
        double first = cst_json_number(batch, "first");
        if (json_object_get(batch, "case")) {
            cst_page_print(page, "  case %s: unlike the fit, weight of the average %.2f\n",
                           cst_json_text(batch, "case"), cst_json_number(batch, "lambda"));
            continue;
        }
        cst_page_print(page, "  rows %.0f to %.0f", first,
                       first + cst_json_number(batch, "rows") - 1);
        if (json_object_get(batch, "condition"))
            cst_page_print(page, ", condition %.0f", cst_json_number(batch, "condition"));
        cst_page_print(page, ": %.0f%% unlike the fit, mean weight of the average %.2f\n",
                       100 * cst_json_number(batch, "unlike"), cst_json_number(batch, "lambda"));
    }
    if (fired > SHOWN)
        cst_page_print(page, "  and %zu more %s; --json lists them all\n", fired - SHOWN,
                       json_object_get(json_array_get(batches, 0), "case") ? "cases" : "batches");
}

/* Estimated class shares of the first batches. */
static void print_shares(cst_page *page, const json_t *found) {
    enum { BATCHES = 3, SHARES = 12 };
    const json_t *batches = json_object_get(found, "batches");
    size_t count = json_array_size(batches);
    for (size_t b = 0; b < count && b < BATCHES; b++) {
        const json_t *batch = json_array_get(batches, b);
        const json_t *shares = json_object_get(batch, "shares");
        size_t classes = json_array_size(shares);
        double first = cst_json_number(batch, "first");
        cst_page_print(page, "  class shares of rows %.0f to %.0f (%s):\n", first,
                       first + cst_json_number(batch, "rows") - 1,
                       json_is_true(json_object_get(batch, "applied")) ? "applied" : "not applied");
        for (size_t c = 0; c < classes && c < SHARES; c++) {
            const json_t *share = json_array_get(shares, c);
            const char *name = cst_json_string(share, "name");
            if (name)
                cst_page_print(page, "    %s", name);
            else
                cst_page_print(page, "    %.0f", cst_json_number(share, "class"));
            cst_page_numbers(page, 3, ": # [#, #], in the fit #\n", cst_json_number(share, "share"),
                             cst_json_number(share, "low"), cst_json_number(share, "high"),
                             cst_json_number(share, "fit"));
        }
        if (classes > SHARES)
            cst_page_print(page, "    and %zu more classes; --json lists them all\n",
                           classes - SHARES);
    }
    if (count > BATCHES)
        cst_page_print(page, "  and %zu more batches; --json lists them all\n", count - BATCHES);
}

void cst_text_predict(cst_page *page, const json_t *root, bool full) {
    (void)full;
    const char *out = cst_json_text(root, "out");
    if (json_object_get(root, "detections")) {
        cst_page_print(page, "%s: %.0f detections in %.0f images, COCO results\n", out,
                       cst_json_number(root, "detections"), cst_json_number(root, "images"));
        return;
    }
    const char *format = cst_json_string(root, "format");
    if (format) {
        cst_page_print(page, "%s: %.0f cases, %.0f pixels x %.0f classes, %s\n", out,
                       cst_json_number(root, "cases"), cst_json_number(root, "samples"),
                       cst_json_number(root, "classes"), format);
        print_guard(page, json_object_get(root, "guard"));
        return;
    }
    const char *columns = cst_json_string(root, "columns");
    bool values = cst_document_task(root) == CST_TASK_REGRESSION;
    if (columns)
        cst_page_print(page, "%s: %.0f rows; %s\n", out, cst_json_number(root, "samples"), columns);
    else
        cst_page_print(page, "%s: %.0f samples x %.0f %s, float32 %s\n", out,
                       cst_json_number(root, "samples"), cst_json_number(root, "classes"),
                       values ? "outputs" : "classes", values ? "values" : "probabilities");
    print_guard(page, json_object_get(root, "guard"));
    print_shares(page, json_object_get(root, "label_shift"));
}

void cst_text_folds(cst_page *page, const json_t *root, bool full) {
    (void)full;
    const char *out = cst_json_text(root, "out");
    const json_t *sizes = json_object_get(root, "sizes");
    cst_page_print(page, "%s: %.0f samples in %.0f folds, seed %.0f, of", out,
                   cst_json_number(root, "samples"), cst_json_number(root, "folds"),
                   cst_json_number(root, "seed"));
    for (size_t i = 0; i < json_array_size(sizes); i++)
        cst_page_print(page, "%s %.0f", i ? "," : "", cst_json_number_at(sizes, i));
    cst_page_print(page, "\n");
}

/* One row to a line, so that other programs can read it: its number, and its id where it has one.
 */
void cst_text_suggest(cst_page *page, const json_t *root, bool full) {
    (void)full;
    const json_t *rows = json_object_get(root, "rows");
    const json_t *ids = json_object_get(root, "ids");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        cst_page_print(page, "%.0f", cst_json_number_at(rows, i));
        if (i < json_array_size(ids))
            cst_page_print(page, " %s", cst_json_string_at(ids, i));
        cst_page_print(page, "\n");
    }
}
