/*
 * Leaves out rows of weight 0, rows that no member predicted and rows without a fold, so that all
 * code above sees a view without them. docs/method.md#row-weights.
 */
#include "data/pool/weighted_rows.h"

#include "data/pool/state.h"

#include <string.h>

/* Everything that the view and its companions point to. */
typedef struct cst_counted_own {
    const float **data;   /* [members] of the pool */
    cst_view below;       /* the rows that count, by an index into the split */
    int64_t *index;       /* [conditions * samples] */
    cst_store *store;     /* reads `below` */
    const float **places; /* [members] in the store */
    int32_t *labels;      /* [conditions * samples] */
    double *targets;      /* [conditions * samples][outputs] */
    int32_t *folds;
    int64_t *groups;
    double *weights; /* [conditions * samples] */
    cst_domains *domains;
    uint8_t **present; /* [members] -> [conditions * samples]; NULL where `below` has no presence */
    cst_presence presence;
} cst_counted_own;

/* A store that reads the rows of `below`. */
static cst_status make_store(cst_context *context, cst_counted_own *own) {
    int32_t members = own->below.members;
    cst_status status = cst_store_create(context, members, own->below.classes, &own->store);
    own->places = cst_alloc(context, (size_t)members, sizeof *own->places);
    if (status == CST_OK && !own->places)
        status = CST_ERROR_MEMORY;
    for (int32_t k = 0; status == CST_OK && k < members; k++) {
        status = cst_store_take_around(context, own->store, &own->below, k);
        own->places[k] = own->below.data[k] ? cst_store_place(own->store, k) : NULL;
    }
    return status;
}

/* Weights of the rows that count, [rows], at a mean of 1; NULL where they are all the same. Divided
 * by the largest first, so that sums do not overflow. */
static cst_status scale_weights(cst_context *context, const double *weights, const int64_t *index,
                                int64_t rows, double largest, double **out) {
    double sum = 0;
    bool differ = false;
    double *scaled = cst_alloc(context, (size_t)rows, sizeof *scaled);
    *out = scaled;
    if (!scaled)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < rows; i++) {
        double weight = weights[index ? index[i] : i];
        differ = differ || weight < largest;
        scaled[i] = weight / largest;
        sum += scaled[i];
    }
    for (int64_t i = 0; i < rows; i++)
        scaled[i] *= (double)rows / sum;
    if (!differ) {
        cst_free(context, scaled);
        *out = NULL;
    }
    return CST_OK;
}

/* What stands beside the predictions, for the rows at `index`. */
static cst_status take_rows(cst_context *context, const cst_pool *pool, const char *split,
                            const cst_view *all, cst_counted *out) {
    cst_counted_own *own = out->own;
    size_t samples = (size_t)out->samples;
    size_t rows = (size_t)own->below.rows;
    size_t outputs = (size_t)all->classes;
    const int32_t *folds = cst_pool_folds(pool, split);
    const int64_t *groups = cst_pool_groups(pool, split);
    int64_t *numbers = cst_alloc(context, folds ? samples : 0, sizeof *numbers);
    own->labels = cst_alloc(context, all->labels ? rows : 0, sizeof *own->labels);
    own->targets = cst_alloc(context, all->targets ? rows * outputs : 0, sizeof *own->targets);
    own->folds = cst_alloc(context, folds ? samples : 0, sizeof *own->folds);
    own->groups = cst_alloc(context, groups ? samples : 0, sizeof *own->groups);
    cst_status status = numbers && own->labels && own->targets && own->folds && own->groups
                            ? CST_OK
                            : CST_ERROR_MEMORY;
    for (size_t i = 0; status == CST_OK && i < rows; i++) {
        size_t row = (size_t)own->index[i];
        if (all->labels)
            own->labels[i] = all->labels[row];
        if (all->targets)
            memcpy(own->targets + i * outputs, all->targets + row * outputs,
                   outputs * sizeof *own->targets);
    }
    for (size_t i = 0; status == CST_OK && i < samples; i++) {
        if (folds)
            numbers[i] = folds[own->index[i]];
        if (groups)
            own->groups[i] = groups[own->index[i]];
    }
    if (status == CST_OK && folds)
        status = cst_pool_renumber(context, numbers, NULL, out->samples, own->folds);
    if (status == CST_OK && all->domains)
        status = cst_domains_take(context, all->domains, own->index, out->samples, &own->domains);
    cst_free(context, numbers);
    out->labels = all->labels ? own->labels : NULL;
    out->folds = folds ? own->folds : NULL;
    out->groups = groups ? own->groups : NULL;
    return status;
}

/* Which of the rows at `index` each member predicted. */
static cst_status take_presence(cst_context *context, cst_counted_own *own) {
    size_t members = (size_t)own->below.members;
    own->present = cst_alloc(context, members, sizeof *own->present);
    if (!own->present)
        return CST_ERROR_MEMORY;
    for (size_t k = 0; k < members; k++) {
        const uint8_t *present = cst_view_present(&own->below, (int32_t)k);
        if (!present)
            continue;
        own->present[k] = cst_alloc(context, (size_t)own->below.rows, sizeof **own->present);
        if (!own->present[k])
            return CST_ERROR_MEMORY;
        for (int64_t i = 0; i < own->below.rows; i++)
            own->present[k][i] = present[own->index[i]];
    }
    own->presence =
        (cst_presence){.count = own->below.members, .data = own->places, .present = own->present};
    return CST_OK;
}

/* Leaves out the rows with counts[row] = 0: `counting` others are left. */
static cst_status leave_out(cst_context *context, const cst_pool *pool, const char *split,
                            const uint8_t *counts, int64_t counting, cst_counted *out) {
    cst_counted_own *own = out->own;
    cst_view all = out->view;
    int64_t rows = out->samples;
    int64_t conditions = all.rows / rows;
    own->index = cst_alloc(context, (size_t)(conditions * counting), sizeof *own->index);
    if (!own->index)
        return CST_ERROR_MEMORY;
    int64_t to = 0;
    for (int64_t i = 0; i < all.rows; i++)
        if (counts[i % rows])
            own->index[to++] = i;
    own->below = all;
    own->below.index = own->index;
    own->below.rows = to;
    out->samples = counting;
    out->rows = own->index;
    cst_status status = make_store(context, own);
    CST_THEN(take_rows(context, pool, split, &all, out));
    if (status == CST_OK && all.presence)
        status = take_presence(context, own);
    out->view = (cst_view){.rows = to,
                           .classes = all.classes,
                           .members = all.members,
                           .data = own->places,
                           .labels = out->labels,
                           .targets = all.targets ? own->targets : NULL,
                           .domains = own->domains,
                           .presence = own->present ? &own->presence : NULL,
                           .store = own->store};
    return status;
}

/* Rows that no member of the view predicted, and rows without a fold, do not count either. */
static cst_status drop_absent(cst_context *context, const cst_counted *out, const char *split,
                              uint8_t *counts) {
    int64_t rows = out->samples;
    int64_t unpredicted = 0;
    int64_t unfolded = 0;
    uint8_t *there = cst_alloc(context, (size_t)out->view.rows, sizeof *there);
    if (!there)
        return CST_ERROR_MEMORY;
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
    cst_free(context, there);
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
                              const double *weights, double largest, cst_counted *out) {
    int64_t rows = out->samples;
    int64_t counting = 0;
    bool complete = !out->view.presence;
    for (int64_t i = 0; complete && out->folds && i < rows; i++)
        complete = out->folds[i] >= 0;
    if (!weights && complete)
        return CST_OK;
    uint8_t *counts = cst_alloc(context, (size_t)rows, sizeof *counts);
    if (!counts)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < rows; i++)
        counts[i] = !weights || weights[i] / largest > 0;
    cst_status status = complete ? CST_OK : drop_absent(context, out, split, counts);
    for (int64_t i = 0; i < rows; i++)
        counting += counts[i];
    if (status == CST_OK && counting == 0)
        status = cst_fail(context, CST_ERROR_INPUT,
                          "split '%s': no row is left that counts: each has no fold, no prediction "
                          "or a weight of 0",
                          split);
    if (status == CST_OK && counting < rows)
        status = leave_out(context, pool, split, counts, counting, out);
    cst_free(context, counts);
    return status;
}

static cst_status open_rows(cst_context *context, const cst_pool *pool, const char *split,
                            const double *weights, cst_counted *out) {
    int64_t conditions = out->view.rows / out->samples;
    double largest = 0;
    for (int64_t i = 0; weights && i < out->samples; i++)
        largest = weights[i] > largest ? weights[i] : largest;
    cst_status status = choose_rows(context, pool, split, weights, largest, out);
    if (status != CST_OK || !weights)
        return status;
    int64_t counting = out->samples;
    cst_counted_own *own = out->own;
    CST_THEN(scale_weights(context, weights, out->rows, counting, largest, &own->weights));
    if (status == CST_OK && own->weights && conditions > 1) {
        double *repeated = cst_alloc(context, (size_t)(conditions * counting), sizeof *repeated);
        for (int64_t c = 0; repeated && c < conditions; c++)
            memcpy(repeated + c * counting, own->weights, (size_t)counting * sizeof *repeated);
        cst_free(context, own->weights);
        own->weights = repeated;
        status = repeated ? CST_OK : CST_ERROR_MEMORY;
    }
    out->view.weights = own->weights;
    out->view.weight_scale = 1;
    return status;
}

cst_status cst_counted_open(cst_context *context, const cst_pool *pool, const char *split,
                            const int32_t *members, int32_t count, cst_counted *out) {
    *out = (cst_counted){0};
    cst_counted_own *own = cst_alloc(context, 1, sizeof *own);
    out->own = own;
    if (!own)
        return CST_ERROR_MEMORY;
    cst_status status = CST_OK;
    if (members) {
        own->data = cst_alloc(context, (size_t)count, sizeof *own->data);
        status = own->data ? cst_pool_view_there(context, pool, split, members, count, own->data,
                                                 &out->view)
                           : CST_ERROR_MEMORY;
        bool any = count == 0;
        for (int32_t k = 0; status == CST_OK && k < count; k++)
            any = any || own->data[k];
        if (status == CST_OK && !any)
            status = cst_fail(context, CST_ERROR_INPUT, "split '%s' has no predictions of %s",
                              split, count == 1 ? "this member" : "any of these members");
    } else {
        status = cst_pool_view(context, pool, split, &out->view);
    }
    if (status == CST_OK) {
        const double *weights = cst_pool_weights(pool, split);
        out->samples = cst_pool_rows(pool, split);
        out->labels = cst_pool_labels(pool, split);
        out->folds = cst_pool_folds(pool, split);
        out->groups = cst_pool_groups(pool, split);
        if (out->samples > 0)
            status = open_rows(context, pool, split, weights, out);
    }
    if (status != CST_OK)
        cst_counted_close(context, out);
    return status;
}

void cst_counted_close(cst_context *context, cst_counted *counted) {
    cst_counted_own *own = counted->own;
    if (own) {
        cst_store_free(context, own->store);
        cst_free(context, own->data);
        cst_free(context, own->index);
        for (int32_t k = 0; own->present && k < own->below.members; k++)
            cst_free(context, own->present[k]);
        cst_free(context, own->present);
        cst_free(context, own->places);
        cst_free(context, own->labels);
        cst_free(context, own->targets);
        cst_free(context, own->folds);
        cst_free(context, own->groups);
        cst_free(context, own->weights);
        cst_domains_free(context, own->domains);
        cst_free(context, own);
    }
    *counted = (cst_counted){0};
}
