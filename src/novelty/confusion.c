/*
 * What a fit stores of its stack's predictions by the true class. See label_shift.h.
 */
#include "novelty/label_shift.h"

#include <stdlib.h>
#include <string.h>

cst_status cst_confusion_alloc(cst_context *context, int32_t classes, int32_t entries,
                               cst_confusion **out) {
    size_t c = (size_t)classes;
    *out = NULL;
    cst_confusion *made = cst_alloc(context, 1, sizeof *made);
    if (!made)
        return CST_ERROR_MEMORY;
    made->classes = classes;
    made->share = cst_alloc(context, c, sizeof *made->share);
    made->bin = cst_alloc(context, c * CST_CONFUSION_BINS, sizeof *made->bin);
    made->first = cst_alloc(context, c + 1, sizeof *made->first);
    made->predicted = cst_alloc(context, (size_t)entries, sizeof *made->predicted);
    made->count = cst_alloc(context, (size_t)entries, sizeof *made->count);
    if (!made->share || !made->bin || !made->first || !made->predicted || !made->count) {
        cst_confusion_free(context, made);
        return CST_ERROR_MEMORY;
    }
    *out = made;
    return CST_OK;
}

void cst_confusion_free(cst_context *context, cst_confusion *confusion) {
    if (!confusion)
        return;
    cst_free(context, confusion->share);
    cst_free(context, confusion->bin);
    cst_free(context, confusion->first);
    cst_free(context, confusion->predicted);
    cst_free(context, confusion->count);
    cst_free(context, confusion);
}

int64_t cst_confusion_rows(const cst_confusion *confusion, int32_t c) {
    int64_t rows = 0;
    for (int b = 0; b < CST_CONFUSION_BINS; b++)
        rows += confusion->bin[(size_t)c * CST_CONFUSION_BINS + (size_t)b];
    return rows;
}

int cst_confusion_bin(const cst_confusion *confusion, float confidence) {
    int bin = 0;
    for (int b = 0; b < CST_CONFUSION_BINS - 1; b++)
        bin += confusion->edge[b] <= confidence;
    return bin;
}

static int32_t top_of(const float *row, int32_t classes) {
    int32_t top = 0;
    for (int32_t c = 1; c < classes; c++)
        top = row[c] > row[top] ? c : top;
    return top;
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a;
    float y = *(const float *)b;
    return (x > y) - (x < y);
}

/* A row by what is counted: ordered by class and prediction. */
typedef struct pair {
    int32_t label;
    int32_t predicted;
    int32_t count;
} pair;

static int by_class(const void *a, const void *b) {
    const pair *x = a;
    const pair *y = b;
    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    return (x->predicted > y->predicted) - (x->predicted < y->predicted);
}

/* The most frequent first; of equals the first class. */
static int by_count(const void *a, const void *b) {
    const pair *x = a;
    const pair *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return (x->predicted > y->predicted) - (x->predicted < y->predicted);
}

/* pairs [rows], ordered by class: becomes one for each combination, the most frequent of each class
 * and no more than `most`. Returns how many are left. */
static int32_t merge(pair *pairs, int64_t rows, int32_t most) {
    int32_t kept = 0;
    int64_t at = 0;
    while (at < rows) {
        int32_t label = pairs[at].label;
        int64_t start = at;
        int64_t distinct = at; /* merged ones are from `start` to here */
        for (; at < rows && pairs[at].label == label; at++) {
            if (distinct > start && pairs[distinct - 1].predicted == pairs[at].predicted)
                pairs[distinct - 1].count++;
            else
                pairs[distinct++] = pairs[at];
        }
        size_t count = (size_t)(distinct - start);
        qsort(pairs + start, count, sizeof *pairs, by_count);
        count = count < (size_t)most ? count : (size_t)most;
        qsort(pairs + start, count, sizeof *pairs, by_class);
        memmove(pairs + kept, pairs + start, count * sizeof *pairs);
        kept += (int32_t)count;
    }
    return kept;
}

static void put_bins(const float *p, const int32_t *labels, int64_t rows, cst_confusion *made) {
    for (int64_t i = 0; i < rows; i++) {
        const float *row = p + i * made->classes;
        int bin = cst_confusion_bin(made, row[top_of(row, made->classes)]);
        made->bin[(size_t)labels[i] * CST_CONFUSION_BINS + (size_t)bin]++;
    }
}

cst_status cst_confusion_fit(cst_context *context, const float *p, const int32_t *labels,
                             int64_t rows, int32_t classes, const double *share,
                             cst_confusion **out) {
    *out = NULL;
    if (rows < CST_CONFUSION_ROWS_MIN || classes < 2 || rows > INT32_MAX)
        return CST_OK;
    pair *pairs = cst_alloc(context, (size_t)rows, sizeof *pairs);
    float *confidence = cst_alloc(context, (size_t)rows, sizeof *confidence);
    cst_confusion *made = NULL;
    cst_status status = pairs && confidence ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && i < rows; i++) {
        int32_t top = top_of(p + i * classes, classes);
        pairs[i] = (pair){.label = labels[i], .predicted = top, .count = 1};
        confidence[i] = p[i * classes + top];
    }
    CST_TRY(cst_sort(context, pairs, (size_t)rows, sizeof *pairs, by_class));
    CST_TRY(cst_sort(context, confidence, (size_t)rows, sizeof *confidence, ascending));
    int32_t most = CST_CONFUSION_ENTRIES / classes;
    most = most < 2 ? 2 : most > classes ? classes : most;
    int32_t entries = status == CST_OK ? merge(pairs, rows, most) : 0;
    CST_TRY(cst_confusion_alloc(context, classes, entries, &made));
    if (status == CST_OK) {
        made->rows = rows;
        memcpy(made->share, share, (size_t)classes * sizeof *share);
        for (int b = 1; b < CST_CONFUSION_BINS; b++)
            made->edge[b - 1] = confidence[rows * b / CST_CONFUSION_BINS];
        put_bins(p, labels, rows, made);
        for (int32_t e = 0; e < entries; e++) {
            made->first[pairs[e].label + 1]++;
            made->predicted[e] = pairs[e].predicted;
            made->count[e] = pairs[e].count;
        }
        for (int32_t c = 0; c < classes; c++)
            made->first[c + 1] += made->first[c];
    }
    *out = made;
    cst_free(context, pairs);
    cst_free(context, confidence);
    return status;
}

void cst_confusion_matrix(const cst_confusion *confusion, double *matrix) {
    size_t classes = (size_t)confusion->classes;
    for (size_t j = 0; j < classes; j++) {
        double rows = (double)cst_confusion_rows(confusion, (int32_t)j);
        int32_t listed = confusion->first[j + 1] - confusion->first[j];
        double rest = rows;
        for (int32_t e = confusion->first[j]; e < confusion->first[j + 1]; e++)
            rest -= (double)confusion->count[e];
        double each = rows > 0 && rest > 0 ? rest / rows / (double)((int32_t)classes - listed) : 0;
        for (size_t i = 0; i < classes; i++)
            matrix[i * classes + j] = rows > 0 ? each : (double)(i == j);
        for (int32_t e = confusion->first[j]; rows > 0 && e < confusion->first[j + 1]; e++)
            matrix[(size_t)confusion->predicted[e] * classes + j] =
                (double)confusion->count[e] / rows;
    }
}
