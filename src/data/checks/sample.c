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

static cst_status add_order(cst_check *s, const char *words, int64_t **place) {
    CST_TAKE(s->context, s->scope, *place, s->rows);
    s->order_words[s->orders] = words;
    s->order[s->orders++] = *place;
    return CST_OK;
}

static cst_status add_shift(cst_check *s, const char *words, int64_t by) {
    int64_t *place;
    s->order_late[s->orders] = by < 0;
    CST_TRY(add_order(s, words, &place));
    for (int64_t i = 0; i < s->rows; i++) {
        int64_t to = s->position[i] + by;
        place[i] = to >= 0 && to < s->view->rows ? to : -1;
    }
    return CST_OK;
}

static cst_status add_reversed(cst_check *s) {
    int64_t *place;
    CST_TRY(add_order(s, "in reverse order", &place));
    for (int64_t i = 0; i < s->rows; i++)
        place[i] = s->view->rows - 1 - s->position[i];
    return CST_OK;
}

/* Predictions that were written fold after fold: row j of them is the j-th by fold. */
static cst_status add_by_fold(cst_check *s) {
    const int32_t *folds = s->source->folds;
    int64_t rows = s->view->rows;
    int64_t *place;
    int32_t count = 0;
    for (int64_t i = 0; i < rows; i++)
        count = folds[i] >= count ? folds[i] + 1 : count;
    CST_SCOPE(scope);
    CST_NEW(s->context, scope, int64_t, first, count + 1);
    CST_NEW(s->context, scope, int64_t, by_fold, rows);
    CST_TRY(add_order(s, "one fold after another instead of in the order of the labels", &place));
    for (int64_t i = 0; i < rows; i++)
        first[folds[i] + 1]++;
    for (int32_t f = 0; f < count; f++)
        first[f + 1] += first[f];
    for (int64_t i = 0; i < rows; i++)
        by_fold[first[folds[i]]++] = i;
    for (int64_t i = 0; i < s->rows; i++)
        place[i] = by_fold[s->position[i]];
    return CST_OK;
}

static cst_status add_orders(cst_check *s) {
    const cst_check_source *source = s->source;
    if (source->orders) {
        for (; s->orders < source->order_count && s->orders < CST_CHECK_ORDERS; s->orders++) {
            s->order_words[s->orders] = source->orders[s->orders].words;
            s->order_label[s->orders] = source->orders[s->orders].labels;
        }
        return CST_OK;
    }
    CST_TRY(add_shift(s, "one row too early (prediction i belongs to row i + 1)", 1));
    CST_TRY(add_shift(s, "one row too late (prediction i belongs to row i - 1)", -1));
    CST_TRY(add_shift(s, "two rows too early (prediction i belongs to row i + 2)", 2));
    CST_TRY(add_shift(s, "two rows too late (prediction i belongs to row i - 2)", -2));
    CST_TRY(add_reversed(s));
    return source->folds ? add_by_fold(s) : CST_OK;
}

static void describe_labels(cst_check *s) {
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

cst_status cst_check_begin(cst_context *context, cst_scope *scope, const cst_check_source *source,
                           cst_findings *findings, cst_check *out) {
    const cst_view *view = source->view;
    *out = (cst_check){.context = context,
                       .scope = scope,
                       .source = source,
                       .view = view,
                       .findings = findings,
                       .members = view->members,
                       .rows = rows_of(view)};
    CST_TAKE(context, scope, out->position, out->rows);
    CST_TAKE(context, scope, out->label_mean, view->classes);
    CST_TAKE(context, scope, out->label_scale, view->classes);
    CST_TAKE(context, scope, out->list, view->members);
    for (int64_t i = 0; i < out->rows; i++)
        out->position[i] = i * view->rows / out->rows;
    describe_labels(out);
    return add_orders(out);
}

cst_status cst_check_read(cst_context *context, const cst_check *check, int32_t member,
                          int64_t first, int64_t count, float *out) {
    return cst_view_gather(context, check->view, member, check->position + first, count, out);
}

double cst_check_median(double *values, int32_t count) {
    if (count < 1)
        return NAN;
    qsort(values, (size_t)count, sizeof *values, cst_by_f64);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}
