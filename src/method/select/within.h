/* Sets of members within limits on cost, found on the rows outside each fold and judged on its
 * rows. */
#ifndef CST_SELECT_WITHIN_H
#define CST_SELECT_WITHIN_H

#include "method/select/search.h"
#include "method/select/select.h"

/* Fits on the rows outside a fold, and judges on its rows. */
typedef struct cst_fold_space {
    cst_set_space sets;
    /* Sum of the losses of the fold's rows; not called for the space of all rows. */
    cst_status (*judge)(cst_context *context, void *user, const int32_t *set, int32_t count,
                        const double *weights, double *loss);
} cst_fold_space;

/* A set and its weights without each fold. */
typedef struct cst_judged_set {
    int32_t count;
    int32_t *members; /* [count], ascending */
    double *weights;  /* [fold_count][blocks][count] */
    double loss;      /* sum over all rows, each by the fit without its fold */
} cst_judged_set;

typedef struct cst_judged_sets {
    cst_scope scope; /* the caller frees it, also after a failure */
    int32_t fold_count;
    int32_t blocks;
    int32_t count;
    cst_judged_set *set; /* [count] */
} cst_judged_sets;

/* spaces: [fold_count + 1], the last of all rows. path [fold_count + 1][K][size]: sets to begin
 * from, one of each size. chosen [K]: for each size the set within the limits of least loss, a
 * place in `out`; -1 where there is none. */
cst_status cst_search_within(cst_context *context, const cst_fold_space *spaces, int32_t fold_count,
                             const cst_select_options *options, int32_t **const *path,
                             int32_t *chosen, cst_judged_sets *out);

/* Sets on the front of loss against each cost that is known of every member: those of a path, and
 * those found within a ladder of limits; and the set path[chosen]. */
cst_status cst_search_front(cst_context *context, const cst_fold_space *spaces, int32_t fold_count,
                            const cst_select_options *options, int32_t *const *path, int32_t chosen,
                            cst_judged_sets *out);

#endif
