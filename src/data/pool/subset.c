/* Leaves out rows of weight 0, rows that no member predicted and rows without a fold, so that all
 * code above sees a view without them. docs/method.md#row-weights. */
#include "data/pool/pool.h"

#include "data/pool/state.h"

#include <string.h>

/* Copies the values [each] of the rows index[0..count-1] to *to, of the scope; NULL stays NULL. */
static cst_status gather(cst_context *context, cst_scope *scope, const void *from, size_t each,
                         const int64_t *index, int64_t count, void **to) {
    *to = NULL;
    if (!from)
        return CST_OK;
    *to = cst_take(context, scope, (size_t)count, each);
    if (!*to)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)*to + (size_t)i * each, (const char *)from + (size_t)index[i] * each, each);
    return CST_OK;
}

cst_status cst_beside_take(cst_context *context, cst_scope *scope, const cst_beside *from,
                           const int64_t *index, int64_t count, int64_t all, int32_t outputs,
                           cst_beside *to) {
    void *labels;
    void *targets;
    void *groups;
    void *order;
    void *weights;
    int32_t *folds = NULL;
    cst_domains *domains = NULL;
    CST_TRY(gather(context, scope, from->labels, sizeof *from->labels, index, all, &labels));
    CST_TRY(gather(context, scope, from->targets, (size_t)outputs * sizeof *from->targets, index,
                   all, &targets));
    CST_TRY(gather(context, scope, from->groups, sizeof *from->groups, index, count, &groups));
    CST_TRY(gather(context, scope, from->order, sizeof *from->order, index, count, &order));
    CST_TRY(gather(context, scope, from->weights, sizeof *from->weights, index, count, &weights));
    if (from->folds) {
        CST_SCOPE(own);
        CST_NEW(context, own, int64_t, numbers, count);
        CST_TAKE(context, scope, folds, count);
        for (int64_t i = 0; i < count; i++)
            numbers[i] = from->folds[index[i]];
        CST_TRY(cst_pool_renumber(context, numbers, NULL, count, folds));
    }
    if (from->domains)
        CST_TRY(cst_domains_take(context, scope, from->domains, index, count, &domains));
    *to = (cst_beside){.labels = labels,
                       .targets = targets,
                       .folds = folds,
                       .groups = groups,
                       .order = order,
                       .weights = weights,
                       .domains = domains};
    return CST_OK;
}

/* Which of the rows of `below` each member predicted, for views whose data are `places`. */
static cst_status take_presence(cst_context *context, cst_scope *scope, const cst_view *below,
                                const float *const *places, cst_presence **out) {
    CST_TAKE(context, scope, *out, 1);
    CST_NEW(context, scope, uint8_t *, there, below->members);
    for (int32_t k = 0; k < below->members; k++) {
        void *rows;
        CST_TRY(gather(context, scope, cst_view_present(below, k), 1, below->index, below->rows,
                       &rows));
        there[k] = rows;
    }
    **out = (cst_presence){.count = below->members, .data = places, .present = there};
    return CST_OK;
}

/* Leaves out the rows with counts[row] = 0: `counting` others are left. */
static cst_status leave_out(cst_context *context, const cst_pool *pool, const char *split,
                            const uint8_t *counts, int64_t counting, cst_counted *out) {
    cst_scope *scope = &out->scope;
    int64_t *index;
    cst_store *store;
    cst_beside beside;
    cst_presence *presence = NULL;
    int64_t rows = out->samples;
    CST_NEW(context, scope, cst_view, below,
            1); /* the rows that count, by an index into the split */
    *below = out->view;
    CST_TAKE(context, scope, index, below->rows / rows * counting);
    int64_t to = 0;
    for (int64_t i = 0; i < below->rows; i++)
        if (counts[i % rows])
            index[to++] = i;
    below->index = index;
    below->rows = to;
    out->samples = counting;
    out->rows = index;
    CST_TRY(cst_store_take(context, scope, below->members, below->classes, &store));
    CST_NEW(context, scope, const float *, places, below->members);
    for (int32_t k = 0; k < below->members; k++) {
        CST_TRY(cst_store_take_around(context, scope, store, below, k));
        places[k] = below->data[k] ? cst_store_place(store, k) : NULL;
    }
    const cst_beside all = {.labels = below->labels,
                            .targets = below->targets,
                            .folds = cst_pool_folds(pool, split),
                            .groups = cst_pool_groups(pool, split),
                            .domains = below->domains};
    CST_TRY(cst_beside_take(context, scope, &all, index, counting, to, below->classes, &beside));
    if (below->presence)
        CST_TRY(take_presence(context, scope, below, places, &presence));
    out->labels = beside.labels;
    out->folds = beside.folds;
    out->groups = beside.groups;
    out->view = (cst_view){.rows = to,
                           .classes = below->classes,
                           .members = below->members,
                           .data = places,
                           .labels = beside.labels,
                           .binary = below->binary,
                           .targets = beside.targets,
                           .domains = beside.domains,
                           .presence = presence,
                           .store = store};
    return CST_OK;
}

/* Rows that no member of the view predicted, and rows without a fold, do not count either. */
static cst_status drop_absent(cst_context *context, const cst_counted *out, const char *split,
                              uint8_t *counts) {
    int64_t rows = out->samples;
    int64_t unpredicted = 0;
    int64_t unfolded = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, uint8_t, there, out->view.rows);
    for (int64_t i = 0; out->folds && i < rows; i++)
        if (out->folds[i] < 0) {
            unfolded += counts[i];
            counts[i] = 0;
        }
    cst_view_any_there(&out->view, there);
    for (int64_t i = 0; i < out->view.rows; i++)
        if (counts[i % rows] && !there[i]) {
            counts[i % rows] = 0;
            unpredicted++;
        }
    if (unfolded > 0)
        cst_notice(context,
                   "split '%s': %lld of %lld rows have no fold, so no out-of-fold prediction; they "
                   "are left out",
                   split, (long long)unfolded, (long long)rows);
    if (unpredicted > 0)
        cst_notice(context, "split '%s': no member predicted %lld of %lld rows; they are left out",
                   split, (long long)unpredicted, (long long)rows);
    return CST_OK;
}

/* Leaves out what does not count. `largest`: of the weights, 0 without. */
static cst_status choose_rows(cst_context *context, const cst_pool *pool, const char *split,
                              const double *weights, double largest, const uint8_t *without,
                              cst_counted *out) {
    int64_t rows = out->samples;
    int64_t counting = 0;
    CST_SCOPE(scope);
    bool complete = !out->view.presence;
    for (int64_t i = 0; complete && out->folds && i < rows; i++)
        complete = out->folds[i] >= 0;
    if (!weights && complete && !without)
        return CST_OK;
    CST_NEW(context, scope, uint8_t, counts, rows);
    for (int64_t i = 0; i < rows; i++)
        counts[i] = (!weights || weights[i] / largest > 0) && !(without && without[i]);
    if (!complete)
        CST_TRY(drop_absent(context, out, split, counts));
    for (int64_t i = 0; i < rows; i++)
        counting += counts[i];
    if (counting == 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "split '%s': no row is left that counts: each has no fold, no prediction "
                        "or a weight of 0",
                        split);
    return counting < rows ? leave_out(context, pool, split, counts, counting, out) : CST_OK;
}

/* Weights of the rows that count at a mean of 1, for each condition; none where they are all the
 * same. Divided by the largest first, so that sums do not overflow. */
static cst_status scale_weights(cst_context *context, const double *weights, double largest,
                                cst_counted *out) {
    int64_t rows = out->samples;
    double sum = 0;
    bool differ = false;
    for (int64_t i = 0; i < rows; i++) {
        double weight = weights[out->rows ? out->rows[i] : i];
        differ = differ || weight < largest;
        sum += weight / largest;
    }
    out->view.weight_scale = 1;
    if (!differ)
        return CST_OK;
    CST_NEW(context, &out->scope, double, scaled, out->view.rows);
    for (int64_t i = 0; i < out->view.rows; i++)
        scaled[i] =
            weights[out->rows ? out->rows[i % rows] : i % rows] / largest * ((double)rows / sum);
    out->view.weights = scaled;
    return CST_OK;
}

/* The view of some members, of which one must have predictions. */
static cst_status view_members(cst_context *context, const cst_pool *pool, const char *split,
                               const int32_t *members, int32_t count, cst_counted *out) {
    CST_NEW(context, &out->scope, const float *, data, count);
    CST_TRY(cst_pool_view_there(context, pool, split, members, count, data, &out->view));
    bool any = count == 0;
    for (int32_t k = 0; k < count; k++)
        any = any || data[k];
    return any ? CST_OK
               : cst_fail(context, CST_ERROR_INPUT, "split '%s' has no predictions of %s", split,
                          count == 1 ? "this member" : "any of these members");
}

static cst_status open_rows(cst_context *context, const cst_pool *pool, const char *split,
                            const int32_t *members, int32_t count, const uint8_t *without,
                            cst_counted *out) {
    const double *weights = cst_pool_weights(pool, split);
    double largest = 0;
    CST_TRY(members ? view_members(context, pool, split, members, count, out)
                    : cst_pool_view(context, pool, split, &out->view));
    out->samples = cst_pool_rows(pool, split);
    out->labels = cst_pool_labels(pool, split);
    out->folds = cst_pool_folds(pool, split);
    out->groups = cst_pool_groups(pool, split);
    for (int64_t i = 0; weights && i < out->samples; i++)
        largest = weights[i] > largest ? weights[i] : largest;
    if (out->samples > 0)
        CST_TRY(choose_rows(context, pool, split, weights, largest, without, out));
    return weights && out->samples > 0 ? scale_weights(context, weights, largest, out) : CST_OK;
}

cst_status cst_counted_open(cst_context *context, const cst_pool *pool, const char *split,
                            const int32_t *members, int32_t count, cst_counted *out) {
    *out = (cst_counted){0};
    cst_status status = open_rows(context, pool, split, members, count, NULL, out);
    if (status != CST_OK)
        cst_counted_close(context, out);
    return status;
}

cst_status cst_counted_without(cst_context *context, const cst_pool *pool, const char *split,
                               const uint8_t *without, cst_counted *out) {
    *out = (cst_counted){0};
    cst_mute(context, true); /* what else is left out was said */
    cst_status status = open_rows(context, pool, split, NULL, 0, without, out);
    cst_mute(context, false);
    if (status != CST_OK)
        cst_counted_close(context, out);
    return status;
}

void cst_counted_close(cst_context *context, cst_counted *counted) {
    (void)context;
    cst_scope_free(&counted->scope);
    *counted = (cst_counted){0};
}
