/* A path of sets by the Wald statistic. See the header. */
#include "method/select/wald.h"

#include "core/la.h"
#include "core/scope.h"
#include "method/select/within.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* What a member costs of the limits, for its loss to be weighed by; 1 without limits. One that no
 * allowed set can have leaves first. */
static double worth_of(const cst_select_options *options, int32_t member) {
    double worth = 0;
    for (int c = 0; c < CST_COST_COUNT; c++)
        if (options->limits.most[c] > 0)
            worth = fmax(worth, options->costs.of[c][member] / options->limits.most[c]);
    if (worth > 1)
        return DBL_MAX;
    return cst_limited(&options->limits) ? fmax(worth, 1e-12) : 1;
}

cst_status cst_wald_path(cst_context *context, const double *weights, const double *curvature,
                         int32_t count, size_t d, const cst_select_options *options,
                         int32_t **set) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, inverse, d *d);
    CST_NEW(context, scope, double, factor, d *d);
    CST_NEW(context, scope, double, left, d);
    CST_NEW(context, scope, bool, gone, count);
    memcpy(factor, curvature, d * d * sizeof *factor);
    CST_TRY(cst_cholesky(context, (int64_t)d, factor));
    for (size_t j = 0; j < d; j++) {
        double *column = inverse + j * d;
        column[j] = 1;
        cst_cholesky_solve((int64_t)d, factor, column);
        left[j] = weights[j];
    }
    for (int32_t size = count; size > 0; size--) {
        int32_t leave = -1;
        double least = 0;
        int32_t to = 0;
        for (int32_t j = 0; j < count; j++) {
            size_t at = (size_t)j;
            if (gone[j])
                continue;
            set[size - 1][to++] = j;
            double cost = left[j] * left[j] / inverse[at * d + at] / worth_of(options, j);
            if (leave < 0 || cost < least) {
                leave = j;
                least = cost;
            }
        }
        size_t k = (size_t)leave;
        double pivot = inverse[k * d + k];
        gone[leave] = true;
        for (size_t i = 0; i < d; i++) /* `left` at the minimum with that weight 0 */
            factor[i] = inverse[i * d + k];
        for (size_t i = 0; i < d; i++) {
            left[i] -= i == k ? 0 : factor[i] / pivot * left[k];
            for (size_t j = 0; j < d; j++)
                inverse[i * d + j] -= factor[i] * factor[j] / pivot;
        }
        left[k] = 0;
    }
    return CST_OK;
}

cst_status cst_wald_sets(cst_context *context, cst_scope *scope, int32_t count, int32_t ***set) {
    CST_TAKE(context, scope, *set, count);
    for (int32_t s = 0; s < count; s++)
        CST_TAKE(context, scope, (*set)[s], s + 1);
    return CST_OK;
}

cst_status cst_wald_choose(cst_context *context, const cst_select_options *options,
                           const double *losses, int64_t rows, int32_t count, int32_t **set,
                           cst_selection *out, cst_front *front) {
    cst_select_options with = *options;
    size_t k = (size_t)count;
    if (with.rule == CST_SELECT_DISTIL)
        with.rule = CST_SELECT_NON_INFERIOR;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, total, k + k * k);
    for (int64_t i = 0; i < rows; i++)
        for (size_t s = 0; s < k; s++) {
            double loss = losses[(int64_t)s * rows + i];
            total[s] += loss;
            for (size_t t = 0; t < k; t++)
                total[k + s * k + t] += loss * losses[(int64_t)t * rows + i];
        }
    *out = (cst_selection){.members = count};
    cst_status status = cst_selection_finish(context, &with, total, rows, set, out);
    if (status != CST_OK)
        cst_selection_free(context, out);
    CST_TRY(status);
    return front ? cst_front_make(context, NULL, 0, &with, out, front) : CST_OK;
}
