/* Metrics of classes: of ranks, of decisions, of calibration. docs/metrics.md. */
#include "stats/decide.h"

#include <math.h>
#include <string.h>

/* ---- ranks ---- */

static const uint32_t *order_of(const cst_metric_rows *rows, int32_t column) {
    return rows->order + (size_t)(rows->columns == 2 ? 0 : column) * (size_t)rows->rows;
}

static double value_of(const cst_metric_rows *rows, uint32_t i, int32_t column) {
    return (double)rows->values[(size_t)i * (size_t)rows->columns + (size_t)column];
}

/* Past the last of the rows from `at` on that have one value. */
static int64_t group_end(const cst_metric_rows *rows, const uint32_t *order, int32_t column,
                         int64_t at) {
    double value = value_of(rows, order[at], column);
    while (at < rows->rows && value_of(rows, order[at], column) <= value)
        at++;
    return at;
}

typedef struct sides {
    double in, out; /* weight of the rows of a class, and of the others */
} sides;

static sides count_sides(const cst_metric_rows *rows, const double *weights, int32_t class) {
    sides sum = {0, 0};
    for (int64_t i = 0; i < rows->rows; i++)
        *(rows->labels[i] == class ? &sum.in : &sum.out) += weights[i];
    return sum;
}

double cst_metric_auc(const cst_metric_rows *rows, const double *weights, int32_t column,
                      double *places) {
    const uint32_t *order = order_of(rows, column);
    sides all = count_sides(rows, weights, column);
    sides below = {0, 0};
    double sum = 0;
    if (!(all.in > 0 && all.out > 0))
        return NAN;
    for (int64_t at = 0, end; at < rows->rows; at = end) {
        sides here = {0, 0};
        end = group_end(rows, order, column, at);
        for (int64_t j = at; j < end; j++)
            *(rows->labels[order[j]] == column ? &here.in : &here.out) += weights[order[j]];
        sum += here.in * (below.out + 0.5 * here.out);
        for (int64_t j = at; places && j < end; j++)
            places[order[j]] = rows->labels[order[j]] == column
                                   ? (below.out + 0.5 * here.out) / all.out
                                   : 1 - (below.in + 0.5 * here.in) / all.in;
        below.in += here.in;
        below.out += here.out;
    }
    return sum / (all.in * all.out);
}

/* The mean over the classes that some rows have and others have not; of two, the second alone. */
static double mean_of_columns(const cst_metric_rows *rows, const double *weights,
                              double (*of)(const cst_metric_rows *rows, const double *weights,
                                           int32_t column)) {
    double sum = 0;
    int32_t count = 0;
    for (int32_t c = rows->columns == 2; c < rows->columns; c++) {
        double one = of(rows, weights, c);
        sum += isnan(one) ? 0 : one;
        count += !isnan(one);
    }
    return count > 0 ? sum / count : NAN;
}

static double auc_of(const cst_metric_rows *rows, const double *weights, int32_t column) {
    return cst_metric_auc(rows, weights, column, NULL);
}

double cst_metric_auc_mean(const cst_metric_rows *rows, const double *weights, double *scratch) {
    (void)scratch;
    return mean_of_columns(rows, weights, auc_of);
}

double cst_metric_gini(const cst_metric_rows *rows, const double *weights, double *scratch) {
    return 2 * cst_metric_auc_mean(rows, weights, scratch) - 1;
}

/* Of every class b, in sums [classes]: the weight of pairs of a row of class a and one of b that
 * column a puts in the right order. scratch: [2][classes]. */
static void order_pairs(const cst_metric_rows *rows, const double *weights, int32_t a, double *sums,
                        double *scratch) {
    const uint32_t *order = order_of(rows, a);
    double *below = scratch;
    double *here = scratch + rows->columns;
    memset(scratch, 0, 2 * (size_t)rows->columns * sizeof *scratch);
    for (int64_t at = 0, end; at < rows->rows; at = end) {
        end = group_end(rows, order, a, at);
        for (int64_t j = at; j < end; j++)
            here[rows->labels[order[j]]] += weights[order[j]];
        for (int32_t b = 0; here[a] > 0 && b < rows->columns; b++)
            sums[b] += here[a] * (below[b] + 0.5 * here[b]);
        for (int64_t j = at; j < end; j++) {
            int32_t b = rows->labels[order[j]];
            below[b] += here[b];
            here[b] = 0;
        }
    }
}

/* Hand and Till (2001): the mean over pairs of classes. */
double cst_metric_auc_pairs(const cst_metric_rows *rows, const double *weights, double *scratch) {
    int32_t classes = rows->columns;
    double *total = scratch;
    double *sums = scratch + classes;
    double sum = 0;
    int64_t pairs = 0;
    if (classes == 2)
        return cst_metric_auc_mean(rows, weights, scratch);
    memset(total, 0, (size_t)classes * sizeof *total);
    for (int64_t i = 0; i < rows->rows; i++)
        total[rows->labels[i]] += weights[i];
    for (int32_t a = 0; a < classes; a++) {
        memset(sums, 0, (size_t)classes * sizeof *sums);
        if (total[a] > 0)
            order_pairs(rows, weights, a, sums, sums + classes);
        for (int32_t b = 0; b < classes; b++) {
            if (b == a || !(total[a] > 0 && total[b] > 0))
                continue;
            sum += sums[b] / (total[a] * total[b]);
            pairs++;
        }
    }
    return pairs > 0 ? sum / (double)pairs : NAN;
}

/* ---- curves ---- */

/* A threshold: the rows with at least that value. */
typedef struct point {
    double in, out; /* their weight of the class, and of the others */
    double grew;    /* the first of them, from the threshold before */
} point;

/* The next threshold below `end` rows, which moves; false past the last. */
static bool next_point(const cst_metric_rows *rows, const double *weights, int32_t column,
                       int64_t *end, point *p) {
    const uint32_t *order = order_of(rows, column);
    if (*end == 0)
        return false;
    double value = value_of(rows, order[*end - 1], column);
    p->grew = 0;
    for (; *end > 0 && value_of(rows, order[*end - 1], column) >= value; (*end)--) {
        uint32_t i = order[*end - 1];
        if (rows->labels[i] == column)
            p->grew += weights[i];
        else
            p->out += weights[i];
    }
    p->in += p->grew;
    return true;
}

static double precision_of(const cst_metric_rows *rows, const double *weights, int32_t column) {
    sides all = count_sides(rows, weights, column);
    int64_t end = rows->rows;
    point p = {0, 0, 0};
    double sum = 0;
    if (!(all.in > 0 && all.out > 0))
        return NAN;
    while (next_point(rows, weights, column, &end, &p))
        sum += p.grew > 0 ? p.grew / all.in * (p.in / (p.in + p.out)) : 0;
    return sum;
}

double cst_metric_precision(const cst_metric_rows *rows, const double *weights, double *scratch) {
    (void)scratch;
    return mean_of_columns(rows, weights, precision_of);
}

static double ks_of(const cst_metric_rows *rows, const double *weights, int32_t column) {
    sides all = count_sides(rows, weights, column);
    int64_t end = rows->rows;
    point p = {0, 0, 0};
    double most = 0;
    if (!(all.in > 0 && all.out > 0))
        return NAN;
    while (next_point(rows, weights, column, &end, &p))
        most = fmax(most, fabs(p.in / all.in - p.out / all.out));
    return most;
}

double cst_metric_ks(const cst_metric_rows *rows, const double *weights, double *scratch) {
    (void)scratch;
    return mean_of_columns(rows, weights, ks_of);
}

/* The best of one rate over the thresholds where the other is at least the argument. */
static double best_where(const cst_metric_rows *rows, const double *weights, bool precision) {
    sides all = count_sides(rows, weights, 1);
    int64_t end = rows->rows;
    point p = {0, 0, 0};
    double best = 0;
    if (!(all.in > 0 && all.out > 0))
        return NAN;
    while (next_point(rows, weights, 1, &end, &p)) {
        double recall = p.in / all.in;
        double right = p.in + p.out > 0 ? p.in / (p.in + p.out) : 0;
        if ((precision ? recall : right) >= rows->argument)
            best = fmax(best, precision ? right : recall);
    }
    return best;
}

double cst_metric_precision_at(const cst_metric_rows *rows, const double *weights,
                               double *scratch) {
    (void)scratch;
    return best_where(rows, weights, true);
}

double cst_metric_recall_at(const cst_metric_rows *rows, const double *weights, double *scratch) {
    (void)scratch;
    return best_where(rows, weights, false);
}

/* ---- the largest values ---- */

double cst_metric_top_k(const cst_metric_rows *rows, const double *weights, double *scratch) {
    double sum = 0;
    double total = 0;
    (void)scratch;
    for (int64_t i = 0; i < rows->rows; i++) {
        const float *row = rows->values + i * rows->columns;
        int32_t before = 0;
        for (int32_t c = 0; c < rows->columns; c++)
            before += row[c] > row[rows->labels[i]] ||
                      (c < rows->labels[i] && row[c] >= row[rows->labels[i]]);
        sum += (double)before < rows->argument ? weights[i] : 0;
        total += weights[i];
    }
    return sum / total;
}

/* ---- calibration ---- */

enum { SMOOTH_POINTS = 256, SMOOTH_STEPS = 24 };

/* Mean over the points of the absolute residual, smoothed by a normal kernel of width sigma that is
 * reflected at 0 and 1. kernel: [2 SMOOTH_POINTS] scratch. */
static double smooth_error(const double *residual, double sigma, double *kernel) {
    const double root_two_pi = 2.50662827463100050242;
    double step = 1.0 / SMOOTH_POINTS;
    double error = 0;
    for (int d = 0; d < 2 * SMOOTH_POINTS; d++) {
        kernel[d] = 0;
        for (int turn = -3; turn <= 3; turn++) { /* reflections repeat with period 2 */
            double z = (d * step + 2 * turn) / sigma;
            kernel[d] += exp(-0.5 * z * z) / (sigma * root_two_pi);
        }
    }
    for (int t = 0; t < SMOOTH_POINTS; t++) {
        double sum = 0;
        for (int s = 0; s < SMOOTH_POINTS; s++)
            sum += residual[s] * (kernel[t > s ? t - s : s - t] + kernel[t + s + 1]);
        error += fabs(sum) * step;
    }
    return error;
}

/* Blasiok and Nakkiran (2023) of the top label: the width is where it equals the error. Residuals
 * are shared between the two nearest of 256 points. scratch: [3 SMOOTH_POINTS]. */
double cst_metric_smooth_ece(const cst_metric_rows *rows, const double *weights, double *scratch) {
    double *residual = scratch;
    double *kernel = scratch + SMOOTH_POINTS;
    double total = 0;
    double low = 1.0 / SMOOTH_POINTS;
    double high = 1;
    memset(residual, 0, SMOOTH_POINTS * sizeof *residual);
    for (int64_t i = 0; i < rows->rows; i++) {
        int32_t top = rows->decided[i];
        double p = fmin(fmax(value_of(rows, (uint32_t)i, top), 0), 1);
        double at = fmin(fmax(p * SMOOTH_POINTS - 0.5, 0), SMOOTH_POINTS - 1);
        int left = at < SMOOTH_POINTS - 1 ? (int)at : SMOOTH_POINTS - 2;
        double gap = weights[i] * ((top == rows->labels[i]) - p);
        residual[left] += gap * (left + 1 - at);
        residual[left + 1] += gap * (at - left);
        total += weights[i];
    }
    for (int s = 0; s < SMOOTH_POINTS; s++)
        residual[s] /= total;
    double error = smooth_error(residual, low, kernel);
    if (error <= low)
        return error;
    for (int step = 0; step < SMOOTH_STEPS; step++) {
        double middle = 0.5 * (low + high);
        error = smooth_error(residual, middle, kernel);
        *(error > middle ? &low : &high) = middle;
    }
    return smooth_error(residual, 0.5 * (low + high), kernel);
}

/* ---- decisions ---- */

double cst_metric_cost(const cst_metric_rows *rows, const double *weights, double *scratch) {
    double sum = 0;
    double total = 0;
    (void)scratch;
    for (int64_t i = 0; i < rows->rows; i++) {
        size_t at = (size_t)rows->labels[i] * (size_t)rows->columns + (size_t)rows->decided[i];
        sum += weights[i] * rows->costs[at];
        total += weights[i];
    }
    return sum / total;
}

static double rate(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

static double f1_of(const cst_decision_counts *n, int32_t c) {
    return rate(2 * n->right[c], n->told[c] + n->given[c]);
}

double cst_metric_accuracy(const cst_decision_counts *n) {
    double sum = 0;
    for (int32_t c = 0; c < n->classes; c++)
        sum += n->right[c];
    return sum / n->total;
}

double cst_metric_balanced(const cst_decision_counts *n) {
    double sum = 0;
    int32_t count = 0;
    for (int32_t c = 0; c < n->classes; c++) {
        sum += rate(n->right[c], n->given[c]);
        count += n->given[c] > 0;
    }
    return sum / count;
}

double cst_metric_f1(const cst_decision_counts *n) {
    return f1_of(n, 1);
}

double cst_metric_f1_macro(const cst_decision_counts *n) {
    double sum = 0;
    int32_t count = 0;
    for (int32_t c = 0; c < n->classes; c++) {
        sum += f1_of(n, c);
        count += n->told[c] + n->given[c] > 0;
    }
    return sum / count;
}

double cst_metric_f1_micro(const cst_decision_counts *n) {
    return cst_metric_accuracy(n);
}

double cst_metric_f1_weighted(const cst_decision_counts *n) {
    double sum = 0;
    for (int32_t c = 0; c < n->classes; c++)
        sum += n->given[c] * f1_of(n, c);
    return sum / n->total;
}

/* Gorodkin (2004). */
double cst_metric_mcc(const cst_decision_counts *n) {
    double right = 0;
    double cross = 0;
    double told = 0;
    double given = 0;
    for (int32_t c = 0; c < n->classes; c++) {
        right += n->right[c];
        cross += n->told[c] * n->given[c];
        told += n->told[c] * n->told[c];
        given += n->given[c] * n->given[c];
    }
    double square = n->total * n->total;
    return rate(right * n->total - cross, sqrt((square - told) * (square - given)));
}

double cst_metric_kappa(const cst_decision_counts *n) {
    double chance = 0;
    for (int32_t c = 0; c < n->classes; c++)
        chance += n->told[c] / n->total * (n->given[c] / n->total);
    return chance < 1 ? 1 - (1 - cst_metric_accuracy(n)) / (1 - chance) : NAN;
}

double cst_metric_kappa_quadratic(const cst_decision_counts *n) {
    double first[2] = {0, 0};
    double second = 0;
    for (int32_t c = 0; c < n->classes; c++) {
        first[0] += c * n->told[c];
        first[1] += c * n->given[c];
        second += (double)c * c * (n->told[c] + n->given[c]);
    }
    double chance = second - 2 * first[0] * first[1] / n->total;
    return chance > 0 ? 1 - n->squares / chance : NAN;
}

/* ---- decisions from probabilities ---- */

static double score_of(const cst_decision *decision, const float *row, int32_t c) {
    if (decision && decision->costs) {
        double cost = 0;
        for (int32_t y = 0; y < decision->classes; y++)
            cost +=
                (double)row[y] * decision->costs[(size_t)y * (size_t)decision->classes + (size_t)c];
        return -cost;
    }
    return decision && decision->offsets
               ? log(fmax((double)row[c], CST_DECISION_LEAST)) + decision->offsets[c]
               : (double)row[c];
}

void cst_decision_apply(const cst_decision *decision, const float *probabilities, int64_t rows,
                        int32_t classes, int32_t *out) {
    for (int64_t i = 0; i < rows; i++) {
        const float *row = probabilities + i * classes;
        double best = score_of(decision, row, 0);
        out[i] = 0;
        for (int32_t c = 1; c < classes; c++) {
            double score = score_of(decision, row, c);
            if (score > best) {
                best = score;
                out[i] = c;
            }
        }
    }
}
