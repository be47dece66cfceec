/* Scores become probabilities: clipping, or projection on the simplex. */
#include "method/gate/probability.h"

#include "core/wide.h"

#include <math.h>

#define MODERATE 1e6 /* of a threshold times the classes: then their sum is 1 to nine digits */

enum { ROUNDS_MAX = 1000 };

/* Michelot's algorithm: p_c = max(x_c - t, 0), t such that they sum to 1: drops the classes at or
 * below t until none is, or rounding brings one back. Rounds are bounded: rounding can be made to
 * drop classes one by one. Returns t. */
static double simplex_threshold(int32_t classes, const double *row) {
    double threshold = -HUGE_VAL;
    int32_t active = INT32_MAX;
    for (int32_t round = 0; round < ROUNDS_MAX; round++) {
        double sum = 0;
        int32_t above = 0;
        for (int32_t c = 0; c < classes; c++) {
            if (row[c] > threshold) {
                sum += row[c];
                above++;
            }
        }
        if (above >= active || above == 0)
            break;
        active = above;
        threshold = (sum - 1.0) / (double)above;
    }
    return threshold;
}

/* A constant added to the row changes nothing but the rounding: beside scores of 1e16, which a
 * model file may ask for, the 1 is lost. Then the largest score is moved to 0, and those below -1,
 * which get nothing, to -1. */
void cst_simplex_project(int32_t classes, double *row) {
    double threshold = simplex_threshold(classes, row);
    if (!(fabs(threshold) * (double)classes < MODERATE)) {
        double largest = -HUGE_VAL;
        for (int32_t c = 0; c < classes; c++)
            largest = row[c] > largest ? row[c] : largest;
        for (int32_t c = 0; c < classes; c++)
            row[c] = row[c] - largest > -1 ? row[c] - largest : -1;
        threshold = simplex_threshold(classes, row);
    }
    for (int32_t c = 0; c < classes; c++)
        row[c] = row[c] > threshold ? row[c] - threshold : 0;
}

/* The sum is taken in eight fixed lanes. Two loops: with both cuts in one, compilers keep a branch.
 */
CST_KERNEL(clip_row, (int32_t classes, double *restrict row), (classes, row)) {
    for (int32_t c = 0; c < classes; c++)
        row[c] = row[c] < CST_PROBABILITY_FLOOR ? CST_PROBABILITY_FLOOR : row[c];
    for (int32_t c = 0; c < classes; c++)
        row[c] = row[c] > 1 ? 1 : row[c];
    double sum = cst_lanes_sum(row, classes);
    for (int32_t c = 0; c < classes; c++)
        row[c] /= sum;
}

/* As competitors clip: a sum of the classes in their order. */
static void clip_row_fine(int32_t classes, double *row) {
    double sum = 0;
    for (int32_t c = 0; c < classes; c++) {
        row[c] = row[c] < CST_PROBABILITY_FINE_FLOOR ? CST_PROBABILITY_FINE_FLOOR : row[c];
        row[c] = row[c] > 1 - CST_PROBABILITY_FINE_FLOOR ? 1 - CST_PROBABILITY_FINE_FLOOR : row[c];
        sum += row[c];
    }
    for (int32_t c = 0; c < classes; c++)
        row[c] /= sum;
}

void cst_probability_rows(cst_probability_map map, int64_t count, int32_t classes, double *scores) {
    if (classes < 2 || map == CST_PROBABILITY_MIXTURE)
        return;
    for (int64_t i = 0; i < count; i++) {
        double *row = scores + i * classes;
        if (map == CST_PROBABILITY_FINE) {
            clip_row_fine(classes, row);
            continue;
        }
        if (map == CST_PROBABILITY_SIMPLEX)
            cst_simplex_project(classes, row);
        clip_row(classes, row);
    }
}
