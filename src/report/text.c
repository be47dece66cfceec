/*
 * A report as text: the choice of renderer, and what the renderers share.
 * Last stage of a command without --json. Paper: none.
 */
#include "report/text.h"

#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_WIDTH = 20, LINE_WIDTH = 100 };

static cst_status render(cst_context *context, const cst_report *report, int color, bool full,
                         char **out) {
    if (out)
        *out = NULL;
    if (!report || !out)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "showing a report as text: a report and a place for the text are needed");
    cst_page page = {.text = {.context = context}, .color = color != 0};
    const char *task = cst_json_string(report->root, "task");
    bool values = task && strcmp(task, "regression") == 0;
    cst_page_print(&page, "%s", ""); /* an empty page is an empty string */
    switch (report->kind) {
    case CST_REPORT_FIT:
        (values ? cst_text_fit_values : cst_text_fit)(&page, report->root);
        break;
    case CST_REPORT_INSPECT:
        cst_text_inspect(&page, report->root);
        break;
    case CST_REPORT_EVALUATE:
        (values ? cst_text_evaluate_values : cst_text_evaluate)(&page, report->root);
        break;
    case CST_REPORT_PREDICT:
        cst_text_predict(&page, report->root);
        break;
    case CST_REPORT_FOLDS:
        cst_text_folds(&page, report->root);
        break;
    case CST_REPORT_COMPARE:
        if (values)
            cst_text_compare_values(&page, report->root);
        else
            cst_text_compare(&page, report->root, full);
        break;
    case CST_REPORT_ABLATE:
        cst_text_ablate(&page, report->root, full);
        break;
    case CST_REPORT_SWEEP:
        cst_text_sweep(&page, report->root, full);
        break;
    case CST_REPORT_BOUND:
        cst_text_bound(&page, report->root);
        break;
    case CST_REPORT_SOUP:
        cst_text_soup(&page, report->root, full);
        break;
    case CST_REPORT_SWA:
    case CST_REPORT_SWAG:
        cst_text_averages(&page, report->root);
        break;
    }
    if (page.text.status != CST_OK) {
        cst_free(context, page.text.bytes);
        return page.text.status;
    }
    *out = page.text.bytes;
    return CST_OK;
}

cst_status cst_report_text(cst_context *context, const cst_report *report, int color, char **out) {
    CST_ENTER(context);
    CST_CHECK(context, report, REPORT, "report");
    return cst_why(context, render(context, report, color, false, out));
}

cst_status cst_report_text_full(cst_context *context, const cst_report *report, int color,
                                char **out) {
    CST_ENTER(context);
    CST_CHECK(context, report, REPORT, "report");
    return cst_why(context, render(context, report, color, true, out));
}

/* ---- shared ---- */

void cst_text_label(cst_page *page, const char *label) {
    cst_page_print(page, "  %-*s", LABEL_WIDTH, label);
}

void cst_text_number(cst_page *page, int digits, double value) {
    if (isnan(value))
        cst_page_print(page, "-");
    else
        cst_page_print(page, "%.*g", digits, value);
}

int cst_text_order(double a, double b) {
    if (isnan(a) || isnan(b))
        return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

/* Prints an item of a list after what stands on the line already, on a new line where it would not
 * fit. `column` is the position on the line. */
static void print_item(cst_page *page, const char *text, bool first, size_t *column) {
    size_t length = strlen(text);
    if (first) {
        *column = LABEL_WIDTH + 2;
    } else if (*column + length + 2 > LINE_WIDTH) {
        cst_page_print(page, ",\n  %*s", LABEL_WIDTH, "");
        *column = LABEL_WIDTH + 2;
    } else {
        cst_page_print(page, ", ");
        *column += 2;
    }
    cst_page_print(page, "%s", text);
    *column += length;
}

typedef struct weighted {
    const char *name;
    double weight;
    size_t place;
} weighted;

static int by_weight(const void *a, const void *b) {
    const weighted *left = a;
    const weighted *right = b;
    int order = cst_text_order(-left->weight, -right->weight);
    return order ? order : (left->place > right->place) - (left->place < right->place);
}

void cst_text_weights(cst_page *page, const json_t *object) {
    size_t count = json_object_size(object);
    weighted *items = cst_alloc(page->text.context, count, sizeof *items);
    if (!items || count == 0) {
        page->text.status = items ? page->text.status : CST_ERROR_MEMORY;
        cst_page_print(page, "-\n");
        cst_free(page->text.context, items);
        return;
    }
    size_t at = 0;
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        double weight = json_is_number(value) ? json_number_value(value) : NAN;
        items[at] = (weighted){.name = key, .weight = weight, .place = at};
        at++;
    }
    qsort(items, count, sizeof *items, by_weight);
    size_t column = 0;
    for (size_t i = 0; i < count; i++) {
        char *text = cst_format(page->text.context, "%s %.4f", items[i].name, items[i].weight);
        if (text)
            print_item(page, text, i == 0, &column);
        else
            page->text.status = CST_ERROR_MEMORY;
        cst_free(page->text.context, text);
    }
    cst_page_print(page, "\n");
    cst_free(page->text.context, items);
}

void cst_text_names(cst_page *page, const json_t *list) {
    size_t column = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = cst_json_string_at(list, i);
        print_item(page, name ? name : "-", i == 0, &column);
    }
    cst_page_print(page, json_array_size(list) ? "\n" : "-\n");
}

void cst_text_paragraph(cst_page *page, const char *text) {
    int column = 0;
    while (*text) {
        text += strspn(text, " ");
        int length = (int)strcspn(text, " ");
        bool wraps = column > 0 && column + 1 + length > LINE_WIDTH;
        if (column == 0 || wraps) {
            cst_page_print(page, "%s  %.*s", wraps ? "\n" : "", length, text);
            column = 2 + length;
        } else {
            cst_page_print(page, " %.*s", length, text);
            column += 1 + length;
        }
        text += length;
    }
    cst_page_print(page, "\n");
}

void cst_text_definition(cst_page *page, const char *ece) {
    if (!ece)
        return;
    char *text = cst_format(page->text.context, "ECE: %s. NLL: mean over samples, in nats.", ece);
    if (text)
        cst_text_paragraph(page, text);
    else
        page->text.status = CST_ERROR_MEMORY;
    cst_free(page->text.context, text);
}

void cst_text_bullets(cst_page *page, const json_t *root, const char *key, const char *heading) {
    const json_t *list = json_object_get(root, key);
    if (json_array_size(list) == 0)
        return;
    cst_page_heading(page, "%s", heading);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = cst_json_string_at(list, i);
        cst_page_print(page, "  - %s\n", text ? text : "");
    }
}

/* ---- predict and folds ---- */

void cst_text_predict(cst_page *page, const json_t *root) {
    const char *out = cst_json_string(root, "out");
    if (json_object_get(root, "detections")) {
        cst_page_print(page, "%s: %.0f detections in %.0f images, COCO results\n", out ? out : "-",
                       cst_json_number(root, "detections"), cst_json_number(root, "images"));
        return;
    }
    const char *format = cst_json_string(root, "format");
    if (format) {
        cst_page_print(page, "%s: %.0f cases, %.0f pixels x %.0f classes, %s\n", out ? out : "-",
                       cst_json_number(root, "cases"), cst_json_number(root, "samples"),
                       cst_json_number(root, "classes"), format);
        return;
    }
    const char *task = cst_json_string(root, "task");
    bool values = task && strcmp(task, "regression") == 0;
    cst_page_print(page, "%s: %.0f samples x %.0f %s, float32 %s\n", out ? out : "-",
                   cst_json_number(root, "samples"), cst_json_number(root, "classes"),
                   values ? "outputs" : "classes", values ? "values" : "probabilities");
}

void cst_text_folds(cst_page *page, const json_t *root) {
    const char *out = cst_json_string(root, "out");
    const json_t *sizes = json_object_get(root, "sizes");
    cst_page_print(page, "%s: %.0f samples in %.0f folds, seed %.0f, of", out ? out : "-",
                   cst_json_number(root, "samples"), cst_json_number(root, "folds"),
                   cst_json_number(root, "seed"));
    for (size_t i = 0; i < json_array_size(sizes); i++)
        cst_page_print(page, "%s %.0f", i ? "," : "", cst_json_number_at(sizes, i));
    cst_page_print(page, "\n");
}
