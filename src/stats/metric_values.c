/* Metrics of values; with several outputs, their mean. docs/metrics.md. */
#include "stats/metric_list.h"

#include <math.h>
#include <string.h>

/* Mean over rows and outputs of a loss of target and prediction. */
static double mean_of(const cst_metric_rows *rows, const double *weights,
                      double (*loss)(double target, double predicted, double argument), bool root) {
    double all = 0;
    for (int32_t d = 0; d < rows->columns; d++) {
        double sum = 0;
        double total = 0;
        for (int64_t i = 0; i < rows->rows; i++) {
            size_t at = (size_t)i * (size_t)rows->columns + (size_t)d;
            if (!(weights[i] > 0))
                continue;
            sum += weights[i] * loss(rows->targets[at], (double)rows->values[at], rows->argument);
            total += weights[i];
        }
        all += root ? sqrt(sum / total) : sum / total;
    }
    return all / rows->columns;
}

static double log_square(double y, double f, double unused) {
    double error = log1p(y) - log1p(f);
    (void)unused;
    return error * error;
}

static double relative(double y, double f, double unused) {
    const double least = 2.220446049250313e-16; /* as scikit-learn's */
    (void)unused;
    return fabs(y - f) / fmax(fabs(y), least);
}

static double symmetric(double y, double f, double unused) {
    double size = fabs(y) + fabs(f);
    (void)unused;
    return size > 0 ? 2 * fabs(y - f) / size : 0;
}

static double pinball(double y, double f, double level) {
    return y >= f ? level * (y - f) : (1 - level) * (f - y);
}

/* Deviance of a Tweedie distribution, Jorgensen (1987). */
static double deviance(double y, double f, double power) {
    if (power == 0)
        return (y - f) * (y - f);
    if (power == 1)
        return 2 * ((y > 0 ? y * log(y / f) : 0) - y + f);
    if (power == 2)
        return 2 * (log(f / y) + y / f - 1);
    double own = power < 0 && y < 0 ? 0 : pow(y, 2 - power);
    return 2 * (own / ((1 - power) * (2 - power)) - y * pow(f, 1 - power) / (1 - power) +
                pow(f, 2 - power) / (2 - power));
}

static double deviance_poisson(double y, double f, double unused) {
    (void)unused;
    return deviance(y, f, 1);
}

static double deviance_gamma(double y, double f, double unused) {
    (void)unused;
    return deviance(y, f, 2);
}

#define MEAN(name, loss, root)                                                                     \
    double cst_metric_##name(const cst_metric_rows *rows, const double *weights,                   \
                             double *scratch) {                                                    \
        (void)scratch;                                                                             \
        return mean_of(rows, weights, loss, root);                                                 \
    }

MEAN(rmsle, log_square, true)
MEAN(mape, relative, false)
MEAN(smape, symmetric, false)
MEAN(pinball, pinball, false)
MEAN(poisson, deviance_poisson, false)
MEAN(gamma, deviance_gamma, false)
MEAN(tweedie, deviance, false)

/* ---- ranks ---- */

static double predicted(const cst_metric_rows *rows, uint32_t i, int32_t column) {
    return (double)rows->values[(size_t)i * (size_t)rows->columns + (size_t)column];
}

static double target(const cst_metric_rows *rows, uint32_t i, int32_t column) {
    return rows->targets[(size_t)i * (size_t)rows->columns + (size_t)column];
}

typedef double value_fn(const cst_metric_rows *rows, uint32_t i, int32_t column);

/* Of a column, or after the columns of its target. */
static const uint32_t *order_of(const cst_metric_rows *rows, int32_t column, bool targets) {
    int32_t place = targets ? rows->columns + column : column;
    return rows->order + (size_t)place * (size_t)rows->rows;
}

/* Ranks by weight, equal values with their mean: rank [rows], less the mean of all. */
static void rank(const cst_metric_rows *rows, const double *weights, int32_t column, bool targets,
                 double *out) {
    const uint32_t *order = order_of(rows, column, targets);
    value_fn *value = targets ? target : predicted;
    double below = 0;
    for (int64_t at = 0; at < rows->rows;) {
        int64_t end = at;
        double here = 0;
        for (;
             end < rows->rows && value(rows, order[end], column) <= value(rows, order[at], column);
             end++)
            here += weights[order[end]];
        for (; at < end; at++)
            out[order[at]] = below + 0.5 * here;
        below += here;
    }
    for (int64_t i = 0; i < rows->rows; i++)
        out[i] -= 0.5 * below;
}

/* scratch: [2][rows]. */
double cst_metric_spearman(const cst_metric_rows *rows, const double *weights, double *scratch) {
    double *told = scratch;
    double *given = scratch + rows->rows;
    double mean = 0;
    for (int32_t d = 0; d < rows->columns; d++) {
        double square[2] = {0, 0};
        double product = 0;
        rank(rows, weights, d, false, told);
        rank(rows, weights, d, true, given);
        for (int64_t i = 0; i < rows->rows; i++) {
            product += weights[i] * told[i] * given[i];
            square[0] += weights[i] * told[i] * told[i];
            square[1] += weights[i] * given[i] * given[i];
        }
        mean += square[0] > 0 && square[1] > 0 ? product / sqrt(square[0] * square[1]) : NAN;
    }
    return mean / rows->columns;
}

/* Sum of tree [count], a binary indexed one, over the first `end` places. */
static double tree_sum(const double *tree, int64_t end) {
    double sum = 0;
    for (; end > 0; end -= end & -end)
        sum += tree[end - 1];
    return sum;
}

static void tree_add(double *tree, int64_t count, int64_t place, double value) {
    for (int64_t j = place + 1; j <= count; j += j & -j)
        tree[j - 1] += value;
}

/* Share of the pairs with different targets that the predictions put in the same order; equal
 * predictions count one half. scratch: [2][rows]. */
static double concordance(const cst_metric_rows *rows, const double *weights, int32_t column,
                          double *scratch) {
    const uint32_t *by_value = order_of(rows, column, false);
    const uint32_t *by_target = order_of(rows, column, true);
    double *place = scratch; /* of the first row with the same prediction, and below it the end */
    double *tree = scratch + rows->rows;
    double agree = 0;
    double pairs = 0;
    double seen = 0;
    int64_t n = rows->rows;
    for (int64_t at = 0, level = 0; at < n; level++) {
        double value = predicted(rows, by_value[at], column);
        for (; at < n && predicted(rows, by_value[at], column) <= value; at++)
            place[by_value[at]] = (double)level;
    }
    memset(tree, 0, (size_t)n * sizeof *tree);
    for (int64_t at = 0, end = 0; at < n; at = end) {
        double value = target(rows, by_target[at], column);
        for (; end < n && target(rows, by_target[end], column) <= value; end++) {
            uint32_t i = by_target[end];
            double below = tree_sum(tree, (int64_t)place[i]);
            double upto = tree_sum(tree, (int64_t)place[i] + 1);
            agree += weights[i] * (below + 0.5 * (upto - below));
            pairs += weights[i] * seen;
        }
        for (int64_t j = at; j < end; j++) {
            tree_add(tree, n, (int64_t)place[by_target[j]], weights[by_target[j]]);
            seen += weights[by_target[j]];
        }
    }
    return pairs > 0 ? agree / pairs : NAN;
}

double cst_metric_concordance(const cst_metric_rows *rows, const double *weights, double *scratch) {
    double sum = 0;
    for (int32_t d = 0; d < rows->columns; d++)
        sum += concordance(rows, weights, d, scratch);
    return sum / rows->columns;
}
