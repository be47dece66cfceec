/* Sets of members within limits on cost: the search for the best of them, found outside each fold
 * and judged on it, and the front of held-out loss against cost. */
#pragma once

#include "method/loglinear/loglinear.h"
#include "method/select/select.h"

/* Members a search looks at; those up to which every set is ranked. */
enum { CST_SEARCH_MEMBERS = 64, CST_SEARCH_ALL = 12 };

/* Fits and models of sets of ascending members; losses are on the rows fitted to. */
typedef struct cst_set_space {
    void *user;
    int32_t members; /* K */
    int32_t blocks;  /* models with one set between them: 1, or one for each output */
    /* Weights [blocks][count] hold a start, and then the optimum. */
    cst_status (*fit)(cst_context *context, void *user, const int32_t *set, int32_t count,
                      double *weights, double *loss);
    /* The quadratic model at the optimum of a set, which may be empty, of `candidates` [n]: a set T
     * has about the loss constant - sum over blocks of slope_T' curvature_TT^-1 slope_T / 2. slope:
     * [blocks][n], curvature: [blocks][n][n]. */
    cst_status (*model)(cst_context *context, void *user, const int32_t *candidates, int32_t n,
                        const int32_t *set, int32_t count, const double *weights, double *loss,
                        double *slope, double *curvature);
} cst_set_space;

/* Fits on the rows outside a fold, and judges on its rows. */
typedef struct cst_fold_space {
    cst_set_space sets;
    /* Sum of the losses of the fold's rows; not called for the space of all rows. */
    cst_status (*judge)(cst_context *context, void *user, const int32_t *set, int32_t count,
                        const double *weights, double *loss);
} cst_fold_space;

typedef struct cst_judged_set {
    int32_t count;
    int32_t *members; /* [count], ascending */
    double *weights;  /* [fold_count][blocks][count] */
    double loss;      /* sum over all rows, each by the fit without its fold */
} cst_judged_set;

typedef struct cst_judged_sets {
    cst_scope *scope; /* the caller's, set before */
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

/* The chosen set and those on the front against a cost that is known of every member: of the sets
 * of the selection's path, or, with spaces [fold_count + 1], of a search from those. Empty where no
 * cost is known. */
cst_status cst_front_make(cst_context *context, const cst_fold_space *spaces, int32_t fold_count,
                          const cst_select_options *options, const cst_selection *selection,
                          cst_front *out);

/* ---- paths ---- */

/* Sets of sizes 1..members with the weights fitted to each. set[s-1] has s ascending positions. */
typedef struct cst_path {
    cst_scope scope;
    int32_t members;
    int32_t **set;    /* [members][size] */
    double **weights; /* [members][size] */
} cst_path;

/* *weights [members] of all members, where paths on parts start; NULL: by themselves. */
cst_status cst_path_start(cst_context *context, cst_scope *owner, const cst_logtable *table,
                          const cst_select_options *options, double **weights);

/* start: [members] weights near the optimum, or NULL. Free *out also after a failure. */
cst_status cst_path_backward(cst_context *context, const cst_logtable *table,
                             const cst_select_options *options, const double *start, cst_path *out);
cst_status cst_path_forward(cst_context *context, const cst_logtable *table,
                            const cst_select_options *options, cst_path *out);

/* Paths on the labels without each fold, their losses, and the choice. table is mixed. */
cst_status cst_select_by_folds(cst_context *context, const cst_logtable *table,
                               const int32_t *folds, int32_t fold_count,
                               const cst_select_options *options, cst_selection *out,
                               cst_front *front);
void cst_path_free(cst_context *context, cst_path *path);

/* Rows to fit the log-linear pool to and to judge it on; held is NULL where nothing is judged. */
typedef struct cst_log_space {
    const cst_logtable *table;
    const cst_logtable *held;
    const cst_select_options *options;
} cst_log_space;

/* The space of the sets of a table's members; refers to `space`. */
cst_fold_space cst_log_fold_space(cst_log_space *space);
