/*
 * Paths of nested member sets in log-linear space, built on one log table.
 */
#ifndef CST_SELECT_PATH_H
#define CST_SELECT_PATH_H

#include "learners/loglinear.h"
#include "select/search.h"
#include "select/select.h"

/* Sets of sizes 1..members with the weights fitted to each. set[s-1] has s ascending positions. */
typedef struct cst_path {
    int32_t members;
    int32_t **set;    /* [members][size] */
    double **weights; /* [members][size] */
} cst_path;

cst_status cst_path_backward(cst_context *context, const cst_logtable *table,
                             const cst_select_options *options, cst_path *out);
cst_status cst_path_forward(cst_context *context, const cst_logtable *table,
                            const cst_select_options *options, cst_path *out);
/* Puts the best sets found within the limits of the options into a path, at the sizes that have one.
 * search: what was looked at, the caller's to free, also after a failure; table must outlive it. */
cst_status cst_path_within(cst_context *context, const cst_logtable *table,
                           const cst_select_options *options, cst_path *path, cst_set_search *search);
void cst_path_free(cst_context *context, cst_path *path);

#endif
