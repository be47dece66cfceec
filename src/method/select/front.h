/* The front of held-out loss against cost: sets that no cheaper set has a lower loss than. */
#ifndef CST_SELECT_FRONT_H
#define CST_SELECT_FRONT_H

#include "method/select/within.h"

typedef struct cst_front_point {
    int32_t size;
    int32_t *members; /* [size], ascending */
    double loss;      /* mean over the rows, each by the fit of the set without its fold */
    double cost[CST_COST_COUNT]; /* NaN where not known */
    bool best[CST_COST_COUNT];   /* on the front against this cost */
    bool chosen;
} cst_front_point;

/* Ascending loss; the chosen set is there even where it is not the best at its cost. */
typedef struct cst_front {
    cst_scope scope;
    int32_t count;
    cst_front_point *point; /* [count] */
} cst_front;

void cst_front_free(cst_context *context, cst_front *front);

/* Searches for sets in the spaces [fold_count + 1], from those of a path [K][size] of which one was
 * chosen, and keeps that and those on the front against a cost that is known of every member. Empty
 * where none is. rows: that the losses of the spaces are sums over. */
cst_status cst_front_make(cst_context *context, const cst_fold_space *spaces, int32_t fold_count,
                          const cst_select_options *options, int32_t *const *path, int32_t chosen,
                          int64_t rows, cst_front *out);

/* The front of the sets on the path of a selection, with the path's losses: of a fit without limits
 * on cost, where a search would take as long as the selection. Empty where no cost is known of
 * every member. */
cst_status cst_front_of_path(cst_context *context, const cst_select_options *options,
                             const cst_selection *selection, cst_front *out);

/* The front of a selection from a view, whose folds and options are those of the selection. */
cst_status cst_select_front(cst_context *context, const cst_view *view, const int32_t *folds,
                            int32_t fold_count, const cst_select_options *options,
                            const cst_selection *selection, cst_front *out);

#endif
