/*
 * What `corestack predict` and `corestack folds` wrote, as one line.
 * Last stage of these commands without --json. Paper: none.
 */
#include "report/scores.h"
#include "report/text.h"

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
        return;
    }
    const char *columns = cst_json_string(root, "columns");
    if (columns) {
        cst_page_print(page, "%s: %.0f rows; %s\n", out, cst_json_number(root, "samples"), columns);
        return;
    }
    bool values = cst_document_task(root) == CST_TASK_REGRESSION;
    cst_page_print(page, "%s: %.0f samples x %.0f %s, float32 %s\n", out,
                   cst_json_number(root, "samples"), cst_json_number(root, "classes"),
                   values ? "outputs" : "classes", values ? "values" : "probabilities");
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
