/*
 * What the text renderings share: labelled lines, lists of names and weights, bullets. Used by
 * src/report/text_*.c.
 */
#include "report/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_WIDTH = 20 };

void cst_text_label(cst_page *page, const char *label) {
    cst_page_print(page, "  %-*s", LABEL_WIDTH, label);
}

cst_ranked *cst_text_ranks(cst_page *page, size_t count) {
    cst_ranked *ranks = cst_alloc(page->text.context, count, sizeof *ranks);
    if (!ranks)
        page->text.status = CST_ERROR_MEMORY;
    for (size_t i = 0; ranks && i < count; i++)
        ranks[i] = (cst_ranked){.value = NAN, .place = i};
    return ranks;
}

static int in_order(const void *a, const void *b) {
    const cst_ranked *left = a;
    const cst_ranked *right = b;
    int order = isnan(left->value) || isnan(right->value)
                    ? isnan(left->value) - isnan(right->value)
                    : (left->value > right->value) - (left->value < right->value);
    return order ? order : (left->place > right->place) - (left->place < right->place);
}

void cst_text_rank(cst_ranked *ranks, size_t count) {
    if (count > 1)
        qsort(ranks, count, sizeof *ranks, in_order);
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

void cst_text_weights(cst_page *page, const json_t *object) {
    size_t count = json_object_size(object);
    size_t at = 0;
    size_t column = 0;
    const char *key = NULL;
    json_t *value = NULL;
    cst_ranked *ranks = cst_text_ranks(page, count);
    const char **names = cst_alloc(page->text.context, count, sizeof *names);
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        if (!ranks || !names)
            break;
        ranks[at].value = -cst_json_number(object, key);
        names[at++] = key;
    }
    cst_text_rank(ranks, at);
    for (size_t i = 0; i < at; i++) {
        const char *name = names[ranks[i].place];
        char *text = cst_format(page->text.context, "%s %.4f", name, cst_json_number(object, name));
        if (text)
            print_item(page, text, i == 0, &column);
        else
            page->text.status = CST_ERROR_MEMORY;
        cst_free(page->text.context, text);
    }
    cst_page_print(page, at ? "\n" : "-\n");
    page->text.status = names ? page->text.status : CST_ERROR_MEMORY;
    cst_free(page->text.context, names);
    cst_free(page->text.context, ranks);
}

void cst_text_blend(cst_page *page, const json_t *learners) {
    size_t column = 0;
    for (size_t i = 0; i < json_array_size(learners); i++) {
        const json_t *learner = json_array_get(learners, i);
        char *text = cst_format(page->text.context, "%s %.4g", cst_json_text(learner, "name"),
                                cst_json_number(learner, "weight"));
        if (text)
            print_item(page, text, i == 0, &column);
        else
            page->text.status = CST_ERROR_MEMORY;
        cst_free(page->text.context, text);
    }
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
    const char *of = cst_json_text(object, "spectrum_of");
    cst_page_numbers(page, 4, "sigma2 #, Marchenko-Pastur edge #, SNR #",
                     cst_json_number(object, "sigma2"), cst_json_number(object, "mp_edge"),
                     cst_json_number(object, "snr"));
    cst_page_print(page, "  (of the %s)\n",
                   strcmp(of, "oof") == 0 ? "out-of-fold columns" : "meta-features");
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
