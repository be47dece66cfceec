/*
 * The test of a batch: what share of its rows is like those of the fit, and how far each row is to
 * lean on the average. Before prediction mixes. model/shift/novelty.h.
 */
#include "model/shift/novelty.h"

#include <math.h>
#include <string.h>

/* Of pi: what is allowed for a reference and a batch that differ by chance, and the quantile of the
 * normal distribution for a level of 5%. */
static const double ALLOWANCE = 1.25;
static const double QUANTILE = 1.645;

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Least concave majorant of the distribution function of sorted levels: hull[0] = 0 is the origin,
 * hull[h] the number of levels at or below its vertex. Returns the number of vertices. */
static int64_t majorant(const double *sorted, int64_t rows, int64_t *hull) {
    int64_t count = 1;
    hull[0] = 0;
    for (int64_t i = 1; i <= rows; i++) {
        if (i < rows && sorted[i] == sorted[i - 1])
            continue; /* the highest of equal levels counts */
        double x = sorted[i - 1];
        while (count > 1) {
            double x1 = sorted[hull[count - 1] - 1];
            double x0 = count > 2 ? sorted[hull[count - 2] - 1] : 0;
            double rise = (double)(i - hull[count - 1]) * (x1 - x0);
            if (rise < (double)(hull[count - 1] - hull[count - 2]) * (x - x1))
                break;
            count--;
        }
        hull[count++] = i;
    }
    return count;
}

/* The slope left of a level that is one of the sorted ones. */
static double density(const double *sorted, int64_t rows, const int64_t *hull, int64_t count,
                      double level) {
    int64_t low = 1; /* the first vertex at or beyond the level */
    int64_t high = count - 1;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (sorted[hull[middle] - 1] < level)
            low = middle + 1;
        else
            high = middle;
    }
    double x0 = low > 1 ? sorted[hull[low - 1] - 1] : 0;
    double width = sorted[hull[low] - 1] - x0;
    return (double)(hull[low] - hull[low - 1]) / ((double)rows * width);
}

/* pi, from how many of `rows` levels are above 1/2; 1 at most. */
static double bound_of(int64_t rows, int64_t count) {
    double above = (double)count + 1;
    double pi = ALLOWANCE * (above + QUANTILE * sqrt(above)) / ((double)rows / 2);
    return rows < CST_NOVELTY_BATCH_MIN || pi > 1 ? 1 : pi;
}

double cst_novelty_sorted(const double *sorted, int64_t rows, int64_t above, double level,
                          int64_t *hull, cst_novelty_found *found) {
    *found = (cst_novelty_found){.rows = rows,
                                 .above = above,
                                 .judged = rows >= CST_NOVELTY_BATCH_MIN,
                                 .pi = bound_of(rows, above)};
    if (found->pi >= 1)
        return 0;
    found->unlike = 1 - found->pi;
    int64_t vertices = majorant(sorted, rows, hull);
    for (int64_t v = 1; v < vertices; v++) {
        int64_t count = hull[v] - hull[v - 1];
        double f = density(sorted, rows, hull, vertices, sorted[hull[v] - 1]);
        found->fired = found->fired || f > found->pi;
        found->lambda += f > found->pi ? (1 - found->pi / f) * (double)count / (double)rows : 0;
    }
    double f = density(sorted, rows, hull, vertices, level);
    return f > found->pi ? 1 - found->pi / f : 0;
}

cst_status cst_novelty_batch(cst_context *context, const double *level, int64_t rows, double *ratio,
                             double *lambda, cst_novelty_found *found) {
    *found = (cst_novelty_found){.rows = rows, .pi = 1};
    for (int64_t i = 0; i < rows; i++) {
        if (!(level[i] > 0 && level[i] <= 1))
            return cst_fail(context, CST_ERROR_ARGUMENT, "row %lld: level %g is not from 0 to 1",
                            (long long)i, level[i]);
        found->above += level[i] > 0.5;
        lambda[i] = 0;
        if (ratio)
            ratio[i] = 1;
    }
    found->judged = rows >= CST_NOVELTY_BATCH_MIN;
    found->pi = bound_of(rows, found->above);
    if (found->pi >= 1)
        return CST_OK;
    found->unlike = 1 - found->pi;
    CST_SCOPE(scope);
    double *sorted;
    int64_t *hull;
    CST_TAKE(context, scope, sorted, rows);
    CST_TAKE(context, scope, hull, rows + 1);
    memcpy(sorted, level, (size_t)rows * sizeof *sorted);
    CST_TRY(cst_sort(context, sorted, (size_t)rows, sizeof *sorted, ascending));
    int64_t vertices = majorant(sorted, rows, hull);
    double sum = 0;
    for (int64_t i = 0; i < rows; i++) {
        double f = density(sorted, rows, hull, vertices, level[i]);
        if (ratio)
            ratio[i] = f;
        lambda[i] = f > found->pi ? 1 - found->pi / f : 0;
        found->fired = found->fired || lambda[i] > 0;
        sum += lambda[i];
    }
    found->lambda = sum / (double)(rows > 0 ? rows : 1);
    return CST_OK;
}
