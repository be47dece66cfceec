/*
 * What the text renderings share: labelled lines, lists of names and weights, bullets.
 * Used by src/report/text_*.c. Paper: none.
 */
#include "report/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_WIDTH = 20 };

void cst_text_label(cst_page *page, const char *label) {
    cst_page_print(page, "  %-*s", LABEL_WIDTH, label);
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
    } else if (*column + length + 2 > CST_PAGE_WIDTH) {
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

void cst_text_noise(cst_page *page, const json_t *object, const char *label) {
    cst_text_label(page, label);
    cst_page_numbers(page, 4, "sigma2 #, Marchenko-Pastur edge #, SNR #\n",
                     cst_json_number(object, "sigma2"), cst_json_number(object, "mp_edge"),
                     cst_json_number(object, "snr"));
}

void cst_text_definition(cst_page *page, const char *ece) {
    if (ece)
        cst_page_paragraph(page, "ECE: %s. NLL: mean over samples, in nats.", ece);
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
