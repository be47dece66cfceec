/* The rows that checks look at, and the orders in which labels are compared with them. */
#include "data/checks/parts.h"

#include <math.h>
#include <stdlib.h>

/* Rows and numbers of a member that are looked at, at most. */
static const int64_t ROWS_MAX = 20000;
static const int64_t CELLS_MAX = 4000000;
static const int64_t ROWS_MIN = 2000;

static int64_t rows_of(const cst_view *view) {
    int64_t most = CELLS_MAX / view->classes;
    most = most > ROWS_MAX ? ROWS_MAX : most < ROWS_MIN ? ROWS_MIN : most;
    return view->rows < most ? view->rows : most;
}

/* ---- other orders ---- */

static cst_status add_order(cst_context *context, cst_check_sample *s, const char *words,
                            int64_t **place) {
    *place = cst_alloc(context, (size_t)s->rows, sizeof **place);
    if (!*place)
        return CST_ERROR_MEMORY;
    s->order_words[s->orders] = words;
    s->order[s->orders++] = *place;
    return CST_OK;
}

static cst_status add_shift(cst_context *context, cst_check_sample *s, const char *words,
                            int64_t by) {
    int64_t *place = NULL;
    cst_status status = add_order(context, s, words, &place);
    if (status == CST_OK)
        s->order_late[s->orders - 1] = by < 0;
    for (int64_t i = 0; status == CST_OK && i < s->rows; i++) {
        int64_t to = s->position[i] + by;
        place[i] = to >= 0 && to < s->view->rows ? to : -1;
    }
    return status;
}

static cst_status add_reversed(cst_context *context, cst_check_sample *s) {
    int64_t *place = NULL;
    cst_status status = add_order(context, s, "in reverse order", &place);
    for (int64_t i = 0; status == CST_OK && i < s->rows; i++)
        place[i] = s->view->rows - 1 - s->position[i];
    return status;
}

/* Predictions that were written fold after fold: row j of them is the j-th by fold. */
static cst_status add_by_fold(cst_context *context, cst_check_sample *s) {
    const int32_t *folds = s->source->folds;
    int64_t rows = s->view->rows;
    int64_t *place = NULL;
    int32_t count = 0;
    for (int64_t i = 0; i < rows; i++)
        count = folds[i] >= count ? folds[i] + 1 : count;
    int64_t *first = cst_alloc(context, (size_t)count + 1, sizeof *first);
    int64_t *by_fold = cst_alloc(context, (size_t)rows, sizeof *by_fold);
    cst_status status = first && by_fold ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(add_order(context, s, "one fold after another instead of in the order of the labels",
                       &place));
    if (status == CST_OK) {
        for (int64_t i = 0; i < rows; i++)
            first[folds[i] + 1]++;
        for (int32_t f = 0; f < count; f++)
            first[f + 1] += first[f];
        for (int64_t i = 0; i < rows; i++)
            by_fold[first[folds[i]]++] = i;
        for (int64_t i = 0; i < s->rows; i++)
            place[i] = by_fold[s->position[i]];
    }
    cst_free(context, first);
    cst_free(context, by_fold);
    return status;
}

static cst_status add_orders(cst_context *context, cst_check_sample *s) {
    const cst_check_source *source = s->source;
    cst_status status = CST_OK;
    if (source->orders) {
        for (; s->orders < source->order_count && s->orders < CST_CHECK_ORDERS; s->orders++) {
            s->order_words[s->orders] = source->orders[s->orders].words;
            s->order_label[s->orders] = source->orders[s->orders].labels;
        }
        return CST_OK;
    }
    CST_THEN(add_shift(context, s, "one row too early (prediction i belongs to row i + 1)", 1));
    CST_THEN(add_shift(context, s, "one row too late (prediction i belongs to row i - 1)", -1));
    CST_THEN(add_shift(context, s, "two rows too early (prediction i belongs to row i + 2)", 2));
    CST_THEN(add_shift(context, s, "two rows too late (prediction i belongs to row i - 2)", -2));
    CST_THEN(add_reversed(context, s));
    if (source->folds)
        CST_THEN(add_by_fold(context, s));
    return status;
}

/* ---- labels ---- */

static void describe_labels(cst_check_sample *s) {
    const cst_view *view = s->view;
    int32_t classes = view->classes;
    double n = (double)s->rows;
    if (view->labels) {
        double squares = 0;
        for (int64_t i = 0; i < s->rows; i++)
            s->label_mean[cst_view_label(view, s->position[i])]++;
        for (int32_t c = 0; c < classes; c++) {
            s->label_mean[c] /= n;
            s->label_scale[c] = 1;
            squares += s->label_mean[c] * s->label_mean[c];
        }
        s->label_spread = sqrt(fmax(1 - squares, 0));
        return;
    }
    int32_t varying = 0;
    for (int32_t d = 0; d < classes; d++) {
        double mean = 0;
        double squares = 0;
        for (int64_t i = 0; i < s->rows; i++)
            mean += cst_view_target(view, s->position[i])[d] / n;
        for (int64_t i = 0; i < s->rows; i++) {
            double off = cst_view_target(view, s->position[i])[d] - mean;
            squares += off * off / n;
        }
        s->label_mean[d] = mean;
        s->label_scale[d] = squares > 1e-24 * mean * mean ? 1 / sqrt(squares) : 0;
        varying += s->label_scale[d] > 0;
    }
    s->label_spread = sqrt((double)varying);
}

cst_status cst_check_sample_make(cst_context *context, const cst_check_source *source,
                                 cst_check_sample *out) {
    const cst_view *view = source->view;
    *out = (cst_check_sample){.source = source, .view = view, .rows = rows_of(view)};
    size_t classes = (size_t)view->classes;
    out->position = cst_alloc(context, (size_t)out->rows, sizeof *out->position);
    out->label_mean = cst_alloc(context, classes, sizeof *out->label_mean);
    out->label_scale = cst_alloc(context, classes, sizeof *out->label_scale);
    if (!out->position || !out->label_mean || !out->label_scale)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < out->rows; i++)
        out->position[i] = i * view->rows / out->rows;
    describe_labels(out);
    return add_orders(context, out);
}

void cst_check_sample_free(cst_context *context, cst_check_sample *sample) {
    cst_free(context, sample->position);
    cst_free(context, sample->label_mean);
    cst_free(context, sample->label_scale);
    for (int32_t o = 0; o < sample->orders; o++)
        cst_free(context, sample->order[o]);
    *sample = (cst_check_sample){0};
}

cst_status cst_check_read(cst_context *context, const cst_check_sample *sample, int32_t member,
                          int64_t first, int64_t count, float *out) {
    return cst_view_gather(context, sample->view, member, sample->position + first, count, out);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double cst_check_median(double *values, int32_t count) {
    if (count < 1)
        return NAN;
    qsort(values, (size_t)count, sizeof *values, ascending);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}
