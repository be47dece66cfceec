/* Offsets of classes by coordinate ascent: along one of them, the rows that are decided for its
 * class change one after another, so all values are tried in one pass over the sorted rows. */
#include "stats/decide.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 4 };

/* ---- the search ---- */

/* A row along the offset of a class: from `at` on it is decided for the class. */
typedef struct turn {
    double at;
    int64_t row;
    int32_t other; /* what it is decided for before */
} turn;

CST_BY(by_turn, turn, CST_UP(at), CST_UP(row), 0)

typedef struct search {
    cst_metric_choice choice;
    const cst_metric_rows *rows;
    double *offsets; /* [classes] */
    double *best;    /* [rows] scratch */
    turn *turns;     /* [rows] scratch */
    double *counts;  /* [3][classes] scratch */
    double *moments; /* [rows][2]: mean class number of a row, and mean square */
    double least;    /* a gain below is rounding */
} search;

/* How much class c counts as the class of a row: half by the label, half by what is predicted,
 * which is as good on average and varies less from sample to sample. */
static double share(const cst_metric_rows *rows, int64_t i, int32_t c) {
    static const double half = 0.5;
    return half * (rows->labels[i] == c) + (1 - half) * (double)rows->values[i * rows->columns + c];
}

static void find_moments(const search *s) {
    for (int64_t i = 0; i < s->rows->rows; i++)
        for (int32_t c = 0; c < s->rows->columns; c++) {
            s->moments[2 * i] += c * share(s->rows, i, c);
            s->moments[2 * i + 1] += (double)c * c * share(s->rows, i, c);
        }
}

/* Mean squared distance of a row's class from the one that is decided for. */
static double distance(const search *s, int64_t i, int32_t told) {
    return s->moments[2 * i + 1] - 2 * told * s->moments[2 * i] + (double)told * told;
}

static void find_turns(const search *s, int32_t c) {
    const cst_metric_rows *rows = s->rows;
    for (int64_t i = 0; i < rows->rows; i++) {
        const float *row = rows->values + i * rows->columns;
        double best = -INFINITY;
        for (int32_t a = 0; a < rows->columns; a++) {
            double score = log(fmax((double)row[a], CST_DECISION_LEAST)) + s->offsets[a];
            if (a == c || !(score > best))
                continue;
            best = score;
            s->turns[i].other = a;
        }
        s->turns[i].at = best - log(fmax((double)row[c], CST_DECISION_LEAST));
        s->turns[i].row = i;
    }
}

static void decide(const search *s, cst_decision_counts *n, const turn *t, int32_t from,
                   int32_t to) {
    double weight = s->rows->weights[t->row];
    n->told[from] -= weight;
    n->told[to] += weight;
    n->right[from] -= weight * share(s->rows, t->row, from);
    n->right[to] += weight * share(s->rows, t->row, to);
    n->squares += weight * (distance(s, t->row, to) - distance(s, t->row, from));
}

static void begin(const search *s, cst_decision_counts *n) {
    size_t classes = (size_t)s->rows->columns;
    *n = (cst_decision_counts){.classes = s->rows->columns,
                               .right = s->counts,
                               .told = s->counts + classes,
                               .given = s->counts + 2 * classes};
    memset(s->counts, 0, 3 * classes * sizeof *s->counts);
    for (int64_t i = 0; i < s->rows->rows; i++) {
        int64_t row = s->turns[i].row;
        double weight = s->rows->weights[row];
        int32_t told = s->turns[i].other;
        n->right[told] += weight * share(s->rows, row, told);
        n->told[told] += weight;
        for (int32_t c = 0; c < s->rows->columns; c++)
            n->given[c] += weight * share(s->rows, row, c);
        n->total += weight;
        n->squares += weight * distance(s, row, told);
    }
}

/* The best offset of class c, and the metric there. Of equal ones the widest range counts, and its
 * middle is taken; at an end, half a unit beyond it. */
static double line_search(search *s, int32_t c, double *metric) {
    cst_decision_counts n;
    const int64_t rows = s->rows->rows;
    const turn *t = s->turns;
    double width = 0;
    double best = s->offsets[c];
    begin(s, &n);
    for (int64_t end = 0;;) {
        double value = s->choice.metric->counts(&n);
        double low = end > 0 ? t[end - 1].at : t[0].at - 1;
        double high = end < rows ? t[end].at : t[rows - 1].at + 1;
        bool better = value > *metric + s->least;
        if (better || (value > *metric - s->least && high - low > width && width > 0)) {
            *metric = better ? value : *metric;
            width = high - low;
            best = 0.5 * (low + high);
        }
        if (end == rows)
            return best;
        double at = t[end].at;
        for (; end < rows && t[end].at <= at; end++)
            decide(s, &n, &t[end], t[end].other, c);
    }
}

cst_status cst_decision_search(cst_context *context, cst_metric_choice choice,
                               const cst_metric_rows *given, double *offsets) {
    cst_metric_rows rows;
    search s = {.choice = choice, .rows = &rows, .offsets = offsets, .least = 1e-12};
    int32_t classes = given->columns;
    CST_SCOPE(scope);
    CST_TRY(cst_metric_rows_make(context, scope, choice, given, &rows));
    CST_TAKE(context, scope, s.moments, 2 * (size_t)rows.rows);
    CST_TAKE(context, scope, s.turns, rows.rows);
    CST_TAKE(context, scope, s.counts, 3 * (size_t)classes);
    memset(offsets, 0, (size_t)classes * sizeof *offsets);
    find_moments(&s);
    double metric = -INFINITY;
    for (int round = 0; round < ROUNDS && classes <= CST_DECISION_CLASSES && rows.rows > 0;
         round++) {
        double before = metric;
        for (int32_t c = 1; c < classes; c++) {
            find_turns(&s, c);
            CST_TRY(cst_sort(context, s.turns, (size_t)rows.rows, sizeof *s.turns, by_turn));
            offsets[c] = line_search(&s, c, &metric);
        }
        if (classes == 2 || (round > 0 && !(metric > before + s.least)))
            break;
    }
    return CST_OK;
}

/* Rows in a fold, or outside it. */
static cst_status take_rows(cst_context *context, cst_scope *scope, const cst_metric_rows *rows,
                            const int32_t *folds, int32_t fold, bool inside, cst_metric_rows *out) {
    int64_t count = 0;
    for (int64_t i = 0; i < rows->rows; i++)
        count += (folds[i] == fold) == inside;
    size_t width = (size_t)rows->columns;
    CST_NEW(context, scope, float, values, ((size_t)count * width));
    CST_NEW(context, scope, int32_t, labels, count);
    CST_NEW(context, scope, double, weights, count);
    *out = (cst_metric_rows){.values = values,
                             .rows = count,
                             .columns = rows->columns,
                             .labels = labels,
                             .weights = weights};
    for (int64_t i = 0, to = 0; i < rows->rows; i++) {
        if ((folds[i] == fold) != inside)
            continue;
        memcpy(values + (size_t)to * width, rows->values + (size_t)i * width,
               width * sizeof *values);
        labels[to] = rows->labels[i];
        weights[to++] = rows->weights ? rows->weights[i] : 1;
    }
    return CST_OK;
}

static cst_status decide_fold(cst_context *context, cst_metric_choice choice,
                              const cst_metric_rows *rows, const int32_t *folds, int32_t fold,
                              int32_t *decided) {
    CST_SCOPE(scope);
    cst_metric_rows in;
    cst_metric_rows out;
    CST_NEW(context, scope, double, offsets, rows->columns);
    CST_TRY(take_rows(context, scope, rows, folds, fold, false, &in));
    CST_TRY(take_rows(context, scope, rows, folds, fold, true, &out));
    CST_NEW(context, scope, int32_t, told, out.rows);
    CST_TRY(cst_decision_search(context, choice, &in, offsets));
    const cst_decision decision = {rows->columns, offsets, NULL};
    cst_decision_apply(&decision, out.values, out.rows, rows->columns, told);
    for (int64_t i = 0, from = 0; i < rows->rows; i++)
        if (folds[i] == fold)
            decided[i] = told[from++];
    return CST_OK;
}

cst_status cst_decision_cross(cst_context *context, cst_metric_choice choice,
                              const cst_metric_rows *rows, const int32_t *folds, int32_t fold_count,
                              int32_t *decided, double *offsets, double *gain) {
    double value[2];
    cst_metric_rows with = *rows;
    for (int32_t f = 0; f < fold_count; f++)
        CST_TRY(decide_fold(context, choice, rows, folds, f, decided));
    CST_TRY(cst_metric_of(context, choice, rows, &value[0]));
    with.decided = decided;
    CST_TRY(cst_metric_of(context, choice, &with, &value[1]));
    *gain = value[1] - value[0];
    if (*gain > 0)
        return cst_decision_search(context, choice, rows, offsets);
    cst_decision_apply(NULL, rows->values, rows->rows, rows->columns, decided);
    memset(offsets, 0, (size_t)rows->columns * sizeof *offsets);
    return CST_OK;
}
