/* What a fit stores of its stack's predictions by the true class. See label_shift.h. */
#include "model/shift/label_shift.h"
#include "model/shift/parts.h"

#include <stdlib.h>

cst_status cst_confusion_alloc(cst_context *context, cst_scope *scope, int32_t classes,
                               int32_t entries, cst_confusion **out) {
    cst_confusion *made;
    *out = NULL;
    CST_TAKE(context, scope, made, 1);
    made->classes = classes;
    CST_TAKE(context, scope, made->share, classes);
    CST_TAKE(context, scope, made->bin, classes * CST_CONFUSION_BINS);
    CST_TAKE(context, scope, made->first, classes + 1);
    CST_TAKE(context, scope, made->predicted, entries);
    CST_TAKE(context, scope, made->count, entries);
    *out = made;
    return CST_OK;
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

int64_t cst_confusion_all_rows(const cst_confusion *confusion) {
    int64_t rows = 0;
    for (int32_t c = 0; c < confusion->classes; c++)
        rows += cst_confusion_rows(confusion, c);
    return rows;
}

float cst_confusion_counted_share(const cst_confusion *confusion, int32_t c, int64_t rows) {
    return (float)((double)cst_confusion_rows(confusion, c) / (double)rows);
}

/* Shares that are those of the counted rows but for rounding become exactly these. */
static void round_shares(cst_confusion *made, const double *share, int64_t rows) {
    bool counted = true;
    for (int32_t c = 0; c < made->classes; c++) {
        double own = (double)cst_confusion_rows(made, c) / (double)rows;
        counted = counted && share[c] > own - 1e-9 && share[c] < own + 1e-9;
    }
    for (int32_t c = 0; c < made->classes; c++)
        made->share[c] = counted ? cst_confusion_counted_share(made, c, rows) : (float)share[c];
}

cst_confusion_row cst_confusion_row_of(const float *p, int32_t classes, int32_t label) {
    int32_t top = cst_largest(p, classes);
    return (cst_confusion_row){.label = label, .predicted = top, .confidence = p[top]};
}

/* Rows of a class for which another is predicted. */
typedef struct pair {
    int32_t label;
    int32_t predicted;
    int32_t count;
} pair;

static int by_class(const void *a, const void *b) {
    const cst_confusion_row *x = a;
    const cst_confusion_row *y = b;
    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    return (x->predicted > y->predicted) - (x->predicted < y->predicted);
}

static int by_confidence(const void *a, const void *b) {
    const cst_confusion_row *x = a;
    const cst_confusion_row *y = b;
    return (x->confidence > y->confidence) - (x->confidence < y->confidence);
}

static int by_predicted(const void *a, const void *b) {
    const pair *x = a;
    const pair *y = b;
    return (x->predicted > y->predicted) - (x->predicted < y->predicted);
}

/* The most frequent first; of equals the first class. */
static int by_count(const void *a, const void *b) {
    const pair *x = a;
    const pair *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return by_predicted(a, b);
}

/* rows [count], ordered by class: one pair for each combination, the most frequent of each class
 * and no more than `most`. Returns how many there are. */
static int32_t make_pairs(const cst_confusion_row *rows, int64_t count, int32_t most, pair *pairs) {
    int32_t kept = 0;
    int64_t at = 0;
    while (at < count) {
        int32_t label = rows[at].label;
        pair *own = pairs + kept;
        int32_t distinct = 0;
        for (; at < count && rows[at].label == label; at++) {
            if (distinct > 0 && own[distinct - 1].predicted == rows[at].predicted)
                own[distinct - 1].count++;
            else
                own[distinct++] = (pair){label, rows[at].predicted, 1};
        }
        qsort(own, (size_t)distinct, sizeof *own, by_count);
        distinct = distinct < most ? distinct : most;
        qsort(own, (size_t)distinct, sizeof *own, by_predicted);
        kept += distinct;
    }
    return kept;
}

cst_status cst_confusion_fit(cst_context *context, cst_scope *made_in, cst_confusion_row *rows,
                             int64_t count, int32_t classes, const double *share,
                             cst_confusion **out) {
    *out = NULL;
    if (count < CST_CONFUSION_ROWS_MIN || count > INT32_MAX || classes < 2 ||
        classes > CST_CONFUSION_SHARES_MAX)
        return CST_OK;
    CST_SCOPE(scope);
    pair *pairs;
    cst_confusion *made;
    CST_TAKE(context, scope, pairs, count);
    CST_TRY(cst_sort(context, rows, (size_t)count, sizeof *rows, by_class));
    int32_t most = CST_CONFUSION_ENTRIES / classes;
    most = classes > CST_CONFUSION_CLASSES_MAX ? 0 : most < 2 ? 2 : most > classes ? classes : most;
    int32_t entries = make_pairs(rows, count, most, pairs);
    CST_TRY(cst_confusion_alloc(context, made_in, classes, entries, &made));
    CST_TRY(cst_sort(context, rows, (size_t)count, sizeof *rows, by_confidence));
    for (int b = 1; b < CST_CONFUSION_BINS; b++)
        made->edge[b - 1] = rows[count * b / CST_CONFUSION_BINS].confidence;
    for (int64_t i = 0; i < count; i++) {
        int bin = cst_confusion_bin(made, rows[i].confidence);
        made->bin[(size_t)rows[i].label * CST_CONFUSION_BINS + (size_t)bin]++;
    }
    round_shares(made, share, count);
    for (int32_t e = 0; e < entries; e++) {
        made->first[pairs[e].label + 1]++;
        made->predicted[e] = pairs[e].predicted;
        made->count[e] = pairs[e].count;
    }
    for (int32_t c = 0; c < classes; c++)
        made->first[c + 1] += made->first[c];
    *out = made;
    return CST_OK;
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
