/*
 * Whether bounds can be valid on a split: rows that are independent draws, which the model was not
 * fitted on, whatever their split is called. A part of cst_bound. docs/bounds.md#rows-of-the-fit.
 */
#include "fit/bounds/bound.h"
#include "model/seen_rows.h"

#include <string.h>

/* ---- rows of the fit ---- */

static cst_status say(cst_context *context, const cst_bound_work *work, const cst_fit_rows *fit,
                      const cst_row_match *match, cst_seen seen) {
    if (seen == CST_SEEN_ALL)
        return cst_fail(context, CST_ERROR_INPUT,
                        "the model was fitted on the rows of split '%s', so no bound is valid "
                        "there; name another split",
                        work->split);
    if (seen == CST_SEEN_SOME)
        cst_notice(
            context,
            "of %lld rows of split '%s' that were checked, %lld have the label and the predictions "
            "of rows that the model was fitted on; if they are the same rows, no bound is valid",
            (long long)match->looked_at, work->split, (long long)match->found);
    else if (fit->same_labels)
        cst_notice(context,
                   "split '%s' has as many rows as the model was fitted on, with the same labels "
                   "in the same order; if they are the same rows, no bound is valid",
                   work->split);
    return CST_OK;
}

static cst_status check_fit(cst_context *context, const cst_bound_work *work, const char *key) {
    cst_fit_rows fit;
    if (!cst_fit_rows_under(work->model, key, work->labels, work->rows, &fit) &&
        strcmp(key, CST_FITTED_KEY) != 0)
        return CST_OK;
    cst_known_rows known = {0};
    cst_row_match match = {0};
    cst_view view = {0};
    cst_seen seen = CST_SEEN_NONE;
    CST_SCOPE(scope);
    cst_status status = cst_bound_view(context, scope, work, work->split, &view);
    CST_THEN(cst_rows_seen(context, work->model, work->pool, &fit, work->split, &view, &known,
                           &match, &seen));
    CST_THEN(say(context, work, &fit, &match, seen));
    cst_known_rows_free(context, &known);
    return status;
}

/* ---- independent rows ---- */

static int by_number(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Groups of one row each are none. */
static cst_status check_groups(cst_context *context, const cst_bound_work *work) {
    const int64_t *groups = cst_pool_groups(work->pool, work->split);
    if (!groups)
        return CST_OK;
    size_t rows = (size_t)work->rows;
    int64_t *sorted = cst_alloc(context, rows, sizeof *sorted);
    if (!sorted)
        return CST_ERROR_MEMORY;
    cst_copy(context, sorted, groups, rows * sizeof *sorted);
    cst_status status = cst_sort(context, sorted, rows, sizeof *sorted, by_number);
    bool several = false;
    for (size_t i = 1; i < rows; i++)
        several = several || sorted[i] == sorted[i - 1];
    cst_free(context, sorted);
    if (status != CST_OK || !several)
        return status;
    return cst_fail(context, CST_ERROR_UNSUPPORTED,
                    "groups of split '%s' have several rows, which are not independent; name a "
                    "split with one row of each group",
                    work->split);
}

cst_status cst_bound_check_rows(cst_context *context, const cst_bound_work *work) {
    const char *split = work->split;
    if (!work->labels)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s' has no labels, which are needed to count errors", split);
    if (cst_pool_weights(work->pool, split))
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "split '%s' has row weights, which bounds do not support", split);
    if (work->rows < 4)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s' has %lld rows; bounds need at least 4", split,
                        (long long)work->rows);
    CST_TRY(check_groups(context, work));
    CST_TRY(check_fit(context, work, CST_FITTED_KEY));
    return check_fit(context, work, CST_ADAPTED_KEY);
}
