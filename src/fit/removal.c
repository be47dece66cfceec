/* Tries removals in groups, least important first. After S4. docs/method.md#s4-blend. */
#include "fit/removal.h"

#include <math.h>

/* A group is at least this share of the members that there were: 1 / SHARES. */
enum { SHARES = 32 };

int32_t cst_members_without(const int32_t *kept, int32_t count, const int32_t *leave,
                            int32_t leaving, int32_t *left) {
    int32_t number = 0;
    for (int32_t j = 0; j < count; j++) {
        bool leaves = false;
        for (int32_t i = 0; i < leaving; i++)
            leaves = leaves || leave[i] == kept[j];
        if (!leaves)
            left[number++] = kept[j];
    }
    return number;
}

void cst_paired_change(const double *without, const double *with, int64_t rows, double *change,
                       double *se) {
    double n = (double)rows;
    double sum = 0;
    double square = 0;
    for (int64_t i = 0; i < rows; i++) {
        double d = without[i] - with[i];
        sum += d;
        square += d * d;
    }
    *change = sum / n;
    *se = sqrt(fmax(square / n - sum / n * (sum / n), 0) / n);
}

/* Kept members by how much the fit relies on them, least first; of equals the first. reliance
 * [count] is in the order of `kept`. */
static void sort_least_first(const int32_t *kept, const double *reliance, int32_t count,
                             int32_t *order) {
    for (int32_t j = 0; j < count; j++) {
        int32_t at = j;
        while (at > 0 && reliance[order[at - 1]] > reliance[j]) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = j;
    }
    for (int32_t j = 0; j < count; j++)
        order[j] = kept[order[j]];
}

cst_status cst_remove_groups(cst_context *context, const cst_removal *removal) {
    int32_t all = *removal->kept_count;
    if (all <= CST_DROP_SINGLY)
        return CST_OK;
    int32_t least = all / SHARES;
    int32_t size = all / 2;
    double *reliance = cst_alloc(context, (size_t)all, sizeof *reliance);
    int32_t *order = cst_alloc(context, (size_t)all, sizeof *order);
    cst_status status = reliance && order ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK)
        cst_notice(context,
                   "refit.drop tries to remove the %d members in groups, starting with the "
                   "smallest weights; with up to %d members it tries each one",
                   (int)all, (int)CST_DROP_SINGLY);
    while (status == CST_OK && size >= least && *removal->kept_count > CST_DROP_SINGLY) {
        int32_t count = *removal->kept_count;
        bool gone = false;
        removal->rely(removal->user, reliance);
        sort_least_first(removal->kept, reliance, count, order);
        size = size < count / 2 ? size : count / 2;
        status = removal->attempt(context, removal->user, order, size, &gone);
        if (!gone)
            size /= 2;
    }
    cst_free(context, reliance);
    cst_free(context, order);
    return status;
}

/* Adds the values of a block, less those of the first row, and their squares. */
static void add_block(const float *values, int64_t rows, int32_t classes, const double *first,
                      double *sum, double *square) {
    for (int64_t i = 0; i < rows; i++)
        for (int32_t c = 0; c < classes; c++) {
            double off = (double)values[i * classes + c] - first[c];
            sum[c] += off;
            square[c] += off * off;
        }
}

cst_status cst_member_deviations(cst_context *context, const cst_view *view, double *deviation) {
    size_t classes = (size_t)view->classes;
    int64_t blocks = cst_block_count(view->rows);
    float *copy = cst_alloc(context, CST_BLOCK_ROWS * classes, sizeof *copy);
    double *sums = cst_alloc(context, 3 * classes, sizeof *sums);
    cst_status status = copy && sums ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t k = 0; status == CST_OK && k < view->members; k++) {
        double *first = sums;
        double *sum = first + classes;
        double *square = sum + classes;
        for (size_t c = 0; c < 2 * classes; c++)
            sum[c] = 0;
        for (int64_t b = 0; status == CST_OK && b < blocks; b++) {
            const float *values = NULL;
            int64_t rows = cst_block_size(view->rows, b);
            status = cst_view_rows(context, view, k, cst_block_first(b), rows, copy, &values);
            for (size_t c = 0; status == CST_OK && b == 0 && c < classes; c++)
                first[c] = (double)values[c];
            if (status == CST_OK)
                add_block(values, rows, view->classes, first, sum, square);
        }
        double n = (double)view->rows;
        for (size_t c = 0; c < classes; c++)
            deviation[(size_t)k * classes + c] =
                sqrt(fmax(square[c] / n - sum[c] / n * (sum[c] / n), 0));
        CST_THEN(cst_poll(context));
    }
    cst_free(context, copy);
    cst_free(context, sums);
    return status;
}
