/*
 * Folds for a regression: every stretch of similar targets is spread over all folds. Stage S0,
 * before anything is fitted. docs/method.md#s0-rows-folds-ids; docs/regression.md.
 */
#include "data/pool/folds.h"

#include <math.h>

typedef struct ranked {
    double key;
    int64_t row;
} ranked;

static int by_rank(const void *a, const void *b) {
    const ranked *x = a;
    const ranked *y = b;
    if (x->key < y->key || x->key > y->key)
        return x->key < y->key ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

/* Sum over the outputs of the target in standard deviations from its mean. */
static void make_keys(const double *targets, int64_t rows, int32_t outputs, ranked *out) {
    for (int64_t i = 0; i < rows; i++)
        out[i] = (ranked){.row = i};
    for (int32_t d = 0; d < outputs; d++) {
        double mean = 0;
        double square = 0;
        for (int64_t i = 0; i < rows; i++)
            mean += targets[i * outputs + d] / (double)rows;
        for (int64_t i = 0; i < rows; i++) {
            double off = targets[i * outputs + d] - mean;
            square += off * off / (double)rows;
        }
        for (int64_t i = 0; square > 0 && i < rows; i++)
            out[i].key += (targets[i * outputs + d] - mean) / sqrt(square);
    }
}

cst_status cst_target_stretches(cst_context *context, const double *targets, int32_t outputs,
                                int64_t rows, int64_t count, int32_t *out) {
    ranked *order = cst_alloc(context, (size_t)rows, sizeof *order);
    if (!order)
        return CST_ERROR_MEMORY;
    make_keys(targets, rows, outputs, order);
    cst_status status = cst_sort(context, order, (size_t)rows, sizeof *order, by_rank);
    count = count < 1 ? 1 : count;
    int64_t length = rows / count > 1 ? rows / count : 1;
    for (int64_t i = 0; status == CST_OK && i < rows; i++)
        out[order[i].row] = (int32_t)(i / length < count ? i / length : count - 1);
    cst_free(context, order);
    return status;
}

cst_status cst_folds_quantile(cst_context *context, const double *targets, int64_t outputs_given,
                              const int64_t *groups, int64_t rows, int32_t folds, uint64_t seed,
                              int32_t *out) {
    CST_ENTER(context);
    CST_COUNT(context, outputs, outputs_given);
    if (!targets || !out || outputs < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_folds_quantile: targets and folds are required");
    CST_FITS(context, rows, outputs, sizeof *targets);
    if (folds < 2)
        return cst_fail(context, CST_ERROR_ARGUMENT, "%d folds requested: at least 2 are needed",
                        (int)folds);
    if (rows < folds)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%lld rows cannot be divided into %d folds: use fewer folds or more rows",
                        (long long)rows, (int)folds);
    int32_t *stretch = cst_alloc(context, (size_t)rows, sizeof *stretch);
    if (!stretch)
        return cst_why(context, CST_ERROR_MEMORY);
    /* Each stretch has as many rows as there are folds; the last one has what is left over. */
    int64_t count = rows / folds < INT32_MAX ? rows / folds : INT32_MAX;
    if (groups && count > CST_GROUP_STRETCHES)
        count = CST_GROUP_STRETCHES;
    cst_status status = cst_target_stretches(context, targets, outputs, rows, count, stretch);
    CST_THEN(groups ? cst_folds_grouped(context, stretch, groups, rows, folds, seed, out)
                    : cst_folds_stratified(context, stretch, rows, folds, seed, out));
    cst_free(context, stretch);
    return cst_why(context, status);
}
