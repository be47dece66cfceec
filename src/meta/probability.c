/*
 * Scores become probabilities: clipping, or projection on the simplex.
 * Between stages S3 and S4, and the last step of a linear member's prediction.
 * method.md section 5, "Linear scores become probabilities".
 */
#include "meta/probability.h"

#include <math.h>

/* Michelot's algorithm: p_c = max(x_c - t, 0), where t makes the positive part sum to 1. Start from
 * all classes and drop those at or below t until none is; at most `classes` rounds. */
void cst_simplex_project(int32_t classes, double *row) {
    double threshold = -HUGE_VAL;
    int32_t active = -1;
    for (;;) {
        double sum = 0;
        int32_t above = 0;
        for (int32_t c = 0; c < classes; c++) {
            if (row[c] > threshold) {
                sum += row[c];
                above++;
            }
        }
        if (above == active || above == 0)
            break;
        active = above;
        threshold = (sum - 1.0) / (double)above;
    }
    for (int32_t c = 0; c < classes; c++)
        row[c] = row[c] > threshold ? row[c] - threshold : 0;
}

static void clip_row(int32_t classes, double *row) {
    double sum = 0;
    for (int32_t c = 0; c < classes; c++) {
        double p = row[c] < CST_PROBABILITY_FLOOR ? CST_PROBABILITY_FLOOR : row[c];
        row[c] = p > 1 ? 1 : p;
        sum += row[c];
    }
    for (int32_t c = 0; c < classes; c++)
        row[c] /= sum;
}

void cst_probability_rows(cst_probability_map map, int64_t count, int32_t classes, double *scores) {
    if (classes < 2)
        return;
    for (int64_t i = 0; i < count; i++) {
        double *row = scores + i * classes;
        if (map == CST_PROBABILITY_SIMPLEX)
            cst_simplex_project(classes, row);
        clip_row(classes, row);
    }
}
