/* Facts of each member of a classification from one pass over its rows; checks of its columns. */
#include "data/checks/parts.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct sums {
    double gain, gain2; /* probability of the label over what it would be by chance */
    double order[CST_CHECK_ORDERS], order2[CST_CHECK_ORDERS];
    int64_t counted[CST_CHECK_ORDERS];
    double *sum; /* [classes], and of squares */
    double *squares;
    float *least;
} sums;

static void add_columns(const float *p, int32_t classes, cst_class_facts *of, cst_member_facts *m,
                        sums *s) {
    for (int32_t c = 0; c < classes; c++) {
        double v = (double)p[c];
        s->sum[c] += v;
        s->squares[c] += v * v;
        of->most[c] = p[c] > of->most[c] ? p[c] : of->most[c];
        s->least[c] = p[c] < s->least[c] ? p[c] : s->least[c];
        of->hash[c] = cst_check_mix(of->hash[c], p[c]);
        m->hash = cst_check_mix(m->hash, p[c]);
    }
}

/* The label of row i of the sample in another order; -1: there is none. */
static int32_t other_label(const cst_check *sample, int32_t o, int64_t i) {
    if (sample->order_label[o])
        return sample->order_label[o][sample->position[i]];
    int64_t row = sample->order[o][i];
    return row < 0 ? -1 : cst_view_label(sample->view, row);
}

static void add_row(const cst_check *sample, int64_t i, const float *p, int32_t *top,
                    cst_class_facts *of, sums *s) {
    const cst_view *view = sample->view;
    int32_t label = cst_view_label(view, sample->position[i]);
    double chance = 0;
    float low = p[0];
    int32_t best = 0;
    for (int32_t c = 0; c < view->classes; c++) {
        chance += sample->label_mean[c] * (double)p[c];
        best = p[c] > p[best] ? c : best;
        low = p[c] < low ? p[c] : low;
    }
    double gain = (double)p[label] - chance;
    double nll = -log(fmax((double)p[label], 1e-15));
    s->gain += gain;
    s->gain2 += gain * gain;
    for (int32_t o = 0; o < sample->orders; o++) {
        int32_t other = other_label(sample, o, i);
        if (other < 0)
            continue;
        double then = (double)p[other] - chance;
        s->order[o] += then;
        s->order2[o] += then * then;
        s->counted[o]++;
    }
    *top = best;
    of->nll += nll;
    of->nll2 += nll * nll;
    of->right += best == label;
    of->confidence += (double)p[best];
    of->hard = of->hard && p[best] >= 1 && (view->classes < 2 || low <= 0);
    of->label_least = i == 0 ? (double)p[label] : fmin(of->label_least, (double)p[label]);
    of->label_most = fmax(of->label_most, (double)p[label]);
    of->zeros += p[label] < 1e-15F;
    of->sure += p[label] >= 1 - 1e-6F;
    double range = low > 0 ? log((double)p[best] / (double)low) : INFINITY;
    of->range = fmax(of->range, range);
}

/* Standard errors of a mean from 0, by its spread or that of a correlation of 0. */
static double standard_errors(double sum, double squares, double n, double r) {
    double variance = squares / n - sum / n * (sum / n);
    double own = variance > 0 ? sum / n / sqrt(variance / n) : 0;
    double other = r * sqrt(n);
    return fabs(other) > fabs(own) ? other : own;
}

static void finish(const cst_check *sample, cst_class_facts *of, cst_member_facts *m,
                   const sums *s) {
    double n = (double)sample->rows;
    double variance = 0;
    bool varies = false;
    cst_association *a = &m->association;
    for (int32_t c = 0; c < sample->view->classes; c++) {
        m->mean[c] = s->sum[c] / n;
        m->scale[c] = 1;
        variance += fmax(s->squares[c] / n - m->mean[c] * m->mean[c], 0);
        of->varies[c] = of->most[c] > s->least[c];
        varies = varies || of->varies[c];
    }
    a->constant = !varies;
    double scale = sqrt(variance) * sample->label_spread;
    if (!varies || !(scale > 0))
        return;
    a->spread = sqrt(variance) / sample->label_spread;
    a->r = s->gain / n / scale;
    a->z = standard_errors(s->gain, s->gain2, n, a->r);
    for (int32_t o = 0; o < sample->orders; o++) {
        double counted = (double)s->counted[o];
        if (2 * counted < n)
            continue;
        a->order_r[o] = s->order[o] / counted / scale;
        a->order_z[o] = standard_errors(s->order[o], s->order2[o], counted, a->order_r[o]);
    }
}

static cst_status read_member(cst_context *worker, void *user, int64_t k) {
    const cst_check *check = user;
    size_t classes = (size_t)check->view->classes;
    size_t all = (size_t)check->rows;
    cst_class_facts *of = &check->of[k];
    cst_member_facts *m = &check->facts[k];
    sums s = {0};
    CST_SCOPE(scope);
    CST_NEW(worker, scope, float, rows, (CST_BLOCK_ROWS * classes));
    CST_TAKE(worker, scope, s.sum, classes);
    CST_TAKE(worker, scope, s.squares, classes);
    CST_TAKE(worker, scope, s.least, classes);
    CST_NEW(worker, scope, double, pairs, classes == 2 ? 2 * all : 1);
    m->filled.far_row = -1;
    of->hard = true;
    for (size_t c = 0; c < classes; c++)
        s.least[c] = FLT_MAX;
    for (int64_t at = 0; at < check->rows; at += CST_BLOCK_ROWS) {
        int64_t count = cst_block_size(check->rows, at / CST_BLOCK_ROWS);
        CST_TRY(cst_check_read(worker, check, (int32_t)k, at, count, rows));
        for (int64_t i = 0; i < count; i++) {
            const float *p = rows + (size_t)i * classes;
            if (classes == 2) {
                pairs[at + i] = (double)p[1];
                pairs[check->rows + at + i] = cst_view_label(check->view, check->position[at + i]);
            }
            add_columns(p, check->view->classes, of, m, &s);
            add_row(check, at + i, p, check->top + (size_t)k * all + at + i, of, &s);
        }
    }
    finish(check, of, m, &s);
    return classes == 2
               ? cst_check_filled(worker, pairs, pairs + all, check->rows, false, &m->filled)
               : CST_OK;
}

/* Where the columns of each member are kept. */
static void place_facts(cst_check *check, double *means, uint64_t *hashes, float *most,
                        bool *varies) {
    size_t classes = (size_t)check->view->classes;
    size_t cells = (size_t)check->members * classes;
    for (size_t k = 0; k < (size_t)check->members; k++) {
        check->facts[k].mean = means + k * classes;
        check->facts[k].scale = means + cells + k * classes;
        check->of[k].hash = hashes + k * classes;
        check->of[k].most = most + k * classes;
        check->of[k].varies = varies + k * classes;
    }
}

cst_status cst_check_read_classes(cst_check *check) {
    cst_context *context = check->context;
    size_t classes = (size_t)check->view->classes;
    size_t rows = (size_t)check->rows;
    const int64_t tasks = check->members;
    size_t cells = (size_t)tasks * classes;
    CST_TAKE(context, check->scope, check->facts, tasks);
    CST_TAKE(context, check->scope, check->of, tasks);
    CST_TAKE(context, check->scope, check->top, (size_t)tasks * rows);
    CST_NEW(context, check->scope, double, means, 2 * cells);
    CST_NEW(context, check->scope, uint64_t, hashes, cells);
    CST_NEW(context, check->scope, float, most, cells);
    CST_NEW(context, check->scope, bool, varies, cells);
    const cst_share filled[] = {cst_share_tasks(check->facts, tasks, sizeof *check->facts),
                                cst_share_tasks(check->of, tasks, sizeof *check->of),
                                cst_share_tasks(check->top, tasks, rows * sizeof *check->top),
                                cst_share_tasks(means, tasks, classes * sizeof *means),
                                cst_share_tasks(means + cells, tasks, classes * sizeof *means),
                                cst_share_tasks(hashes, tasks, classes * sizeof *hashes),
                                cst_share_tasks(most, tasks, classes * sizeof *most),
                                cst_share_tasks(varies, tasks, classes * sizeof *varies)};
    place_facts(check, means, hashes, most, varies);
    CST_TRY(cst_parallel_fill(context, tasks, read_member, check, filled, 8));
    place_facts(check, means, hashes, most, varies); /* another rank's have its own */
    return CST_OK;
}

/* Columns that are 0 in every row although the class has rows. */
cst_status cst_check_empty_columns(cst_check *check) {
    enum { FEWEST = 5 };
    for (int32_t c = 0; c < check->view->classes; c++) {
        double rows = check->label_mean[c] * (double)check->rows;
        int32_t count = 0;
        char class[64];
        for (int32_t k = 0; k < check->members; k++)
            if (!(check->of[k].most[c] > 0))
                check->list[count++] = k;
        if (count > 0 && rows >= FEWEST - 0.5)
            CST_TRY(CST_SAY(check, "columns", false, count,
                            "%s %s %s probability 0 in every row, although %.0f rows have that "
                            "class: was it missing in training?",
                            cst_check_who(check, count), count == 1 ? "gives" : "give",
                            cst_class_of(check->source->pool, c, class, sizeof class), rows));
    }
    return CST_OK;
}

cst_status cst_check_equal_columns(cst_check *check) {
    int32_t classes = check->view->classes;
    for (int32_t k = 0; k < check->members && classes > 2; k++) {
        const cst_class_facts *of = &check->of[k];
        int32_t first = -1;
        int32_t second = -1;
        for (int32_t c = 1; c < classes && first < 0; c++)
            for (int32_t b = 0; b < c && first < 0; b++)
                if (of->varies[c] && of->hash[b] == of->hash[c]) {
                    first = b;
                    second = c;
                }
        if (first >= 0 && !check->facts[k].association.constant)
            CST_TRY(CST_SAY_OF(check, "columns", false, k,
                               "columns %d and %d of '%.60s' are the same numbers in every row",
                               (int)first, (int)second, cst_check_name(check, k)));
    }
    return CST_OK;
}

/* Members that say 0 or 1 and nothing in between. */
cst_status cst_check_hard(cst_check *check) {
    int32_t count = 0;
    for (int32_t k = 0; k < check->members; k++)
        if (check->of[k].hard && cst_check_open(check, k))
            check->list[count++] = k;
    if (2 * count <= check->members) /* a tree among others */
        return CST_OK;
    return CST_SAY(check, "scale", false, count,
                   "%s %s only probabilities 0 and 1, as predicted classes are: save the "
                   "probabilities (predict_proba) where the model has any",
                   cst_check_who(check, count), count == 1 ? "gives" : "give");
}
