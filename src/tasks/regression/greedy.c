/*
 * Greedy selection with replacement on the squared error, from the residuals' second moments alone.
 * A blend rule and a baseline of a regression. Caruana et al. 2004; docs/regression.md.
 */
#include "tasks/regression/learners.h"

#include <string.h>

void cst_value_greedy(const double *moments, int32_t count, int32_t rounds, double *weights) {
    size_t n = (size_t)count;
    double least = 0;
    /* With counts c the average's error is c'Sc / r^2; `sum` is c'Sc, weights the counts, and S c
     * is computed anew for each candidate's share. */
    double sum = 0;
    int32_t kept = 0;
    int32_t picked[1024] = {0};
    rounds = rounds < 1024 ? rounds : 1024;
    memset(weights, 0, n * sizeof *weights);
    for (int32_t r = 1; r <= rounds; r++) {
        int32_t best = 0;
        double best_sum = 0;
        for (int32_t k = 0; k < count; k++) {
            double cross = 0;
            for (size_t j = 0; j < n; j++)
                cross += moments[(size_t)k * n + j] * weights[j];
            double joined = sum + 2 * cross + moments[(size_t)k * n + (size_t)k];
            if (k == 0 || joined < best_sum) {
                best = k;
                best_sum = joined;
            }
        }
        sum = best_sum;
        weights[best] += 1;
        picked[r - 1] = best;
        double loss = sum / ((double)r * (double)r);
        if (r == 1 || loss < least) {
            least = loss;
            kept = r;
        }
    }
    memset(weights, 0, n * sizeof *weights);
    for (int32_t r = 0; r < kept; r++)
        weights[picked[r]] += 1 / (double)kept;
}
