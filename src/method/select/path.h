/* Paths of nested member sets in log-linear space, built on one log table. */
#ifndef CST_SELECT_PATH_H
#define CST_SELECT_PATH_H

#include "method/loglinear/loglinear.h"
#include "method/select/within.h"

/* Sets of sizes 1..members with the weights fitted to each. set[s-1] has s ascending positions. */
typedef struct cst_path {
    cst_scope scope;
    int32_t members;
    int32_t **set;    /* [members][size] */
    double **weights; /* [members][size] */
} cst_path;

/* *weights: [members] of all members, fitted to a table's rows: what paths on parts
 * of the rows start from. NULL where they start by themselves. */
cst_status cst_path_start(cst_context *context, cst_scope *owner, const cst_logtable *table,
                          const cst_select_options *options, double **weights);

/* start: [members] weights near the optimum of all members, or NULL. Free *out also after a
 * failure.
 */
cst_status cst_path_backward(cst_context *context, const cst_logtable *table,
                             const cst_select_options *options, const double *start, cst_path *out);
cst_status cst_path_forward(cst_context *context, const cst_logtable *table,
                            const cst_select_options *options, cst_path *out);
void cst_path_free(cst_context *context, cst_path *path);

/* Rows to fit the log-linear pool to and to judge it on; held is NULL where nothing is judged. */
typedef struct cst_log_space {
    const cst_logtable *table;
    const cst_logtable *held;
    const cst_select_options *options;
} cst_log_space;

/* The space of the sets of a table's members; refers to `space`. */
cst_fold_space cst_log_fold_space(cst_log_space *space);

#endif
