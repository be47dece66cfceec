/*
 * Out-of-distribution scores from disagreement: the share of members that vote otherwise than the
 * stack, and the mutual information of prediction and member (Houlsby et al. 2011; Lakshminarayanan
 * et al. 2017). docs/robustness.md#out-of-distribution.
 */
#include "stats/ood.h"

#include <math.h>

typedef struct members_job {
    const cst_view *view;
    const double *weights;
    const float *stack;
    const cst_ood_member_scores *out;
} members_job;

/* The class of largest probability, the lowest of equal ones. */
static int32_t top_class(const float *row, int32_t classes) {
    int32_t top = 0;
    for (int32_t c = 1; c < classes; c++)
        if (row[c] > row[top])
            top = c;
    return top;
}

static double part_of_entropy(double p) {
    return p > 0 ? -p * log(p) : 0;
}

/* Adds one member's share: to mixture [count][classes], and per sample to the mean entropy and the
 * weight of other votes. */
static void add_member(const members_job *job, const float *rows, double weight, int64_t first,
                       int64_t count, double *mixture, double *entropy, double *other) {
    int32_t classes = job->view->classes;
    for (int64_t i = 0; i < count; i++) {
        const float *row = rows + i * classes;
        const float *stack = job->stack + (first + i) * classes;
        double sum = 0;
        for (int32_t c = 0; c < classes; c++) {
            mixture[i * classes + c] += weight * (double)row[c];
            sum += part_of_entropy((double)row[c]);
        }
        entropy[i] += weight * sum;
        other[i] += top_class(row, classes) != top_class(stack, classes) ? weight : 0;
    }
}

static cst_status members_block(cst_context *context, void *user, int64_t block) {
    const members_job *job = user;
    const cst_view *view = job->view;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    size_t cells = (size_t)count * (size_t)view->classes;
    float *copy = cst_alloc(context, cst_view_copies(view) ? cells : 0, sizeof *copy);
    double *mixture = cst_alloc(context, cells, sizeof *mixture);
    double *sums = cst_alloc(context, 2 * (size_t)count, sizeof *sums);
    cst_status status = copy && mixture && sums ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t k = 0; status == CST_OK && k < view->members; k++) {
        const float *rows = NULL;
        if (job->weights[k] <= 0)
            continue;
        status = cst_view_rows(context, view, k, first, count, copy, &rows);
        if (status == CST_OK)
            add_member(job, rows, job->weights[k], first, count, mixture, sums, sums + count);
    }
    for (int64_t i = 0; status == CST_OK && i < count; i++) {
        double entropy = 0;
        for (int32_t c = 0; c < view->classes; c++)
            entropy += part_of_entropy(mixture[i * view->classes + c]);
        if (job->out->disagreement)
            job->out->disagreement[first + i] = sums[count + i];
        if (job->out->mutual_information) /* 0 but for rounding where all members say the same */
            job->out->mutual_information[first + i] = fmax(entropy - sums[i], 0);
    }
    cst_free(context, copy);
    cst_free(context, mixture);
    cst_free(context, sums);
    return status;
}

cst_status cst_ood_members(cst_context *context, const cst_view *view, const double *weights,
                           const float *stack, const cst_ood_member_scores *out) {
    members_job job = {view, weights, stack, out};
    return cst_parallel_for(context, cst_block_count(view->rows), members_block, &job);
}
