/*
 * The options with which tests/oracles computed log-linear pools: given prior precisions, a
 * tolerance that leaves nothing of the optimiser. Shared by the tests that compare with SciPy.
 */
#ifndef CST_TEST_LOGLINEAR_ORACLE_H
#define CST_TEST_LOGLINEAR_ORACLE_H

#include "method/loglinear/loglinear.h"

#include <string.h>

static inline cst_loglinear_options oracle_options(bool nonnegative, bool bias) {
    cst_loglinear_options options = cst_loglinear_defaults();
    options.nonnegative = nonnegative;
    options.bias = bias;
    options.evidence = false;
    options.prior_weights = 7;
    options.prior_scale = 2;
    options.prior_bias = 5;
    options.tolerance = 1e-14;
    return options;
}

static inline const cst_compact_block *cst_compact_at(const cst_compact *table, int64_t row,
                                                      int64_t *within) {
    *within = row % CST_BLOCK_ROWS;
    return &table->block[row / CST_BLOCK_ROWS];
}

/* A table of every row under given mixing [view->members]. */
static inline cst_status build_table(cst_context *context, const cst_view *view, const double *mix,
                                     cst_logtable *out) {
    cst_compact_options options = cst_compact_defaults();
    options.max_rows = 0;
    cst_status status = cst_logtable_open(context, view, NULL, 1, &options, out);
    if (status == CST_OK)
        memcpy(out->mix, mix, (size_t)view->members * sizeof *mix);
    return status;
}

/* The mixing [view->members] that a table of every row gets. */
static inline cst_status uniform_mix(cst_context *context, const cst_view *view, double *mix) {
    cst_compact_options options = cst_compact_defaults();
    options.max_rows = 0;
    cst_logtable table;
    cst_status status = cst_logtable_open(context, view, NULL, 1, &options, &table);
    if (status == CST_OK)
        status = cst_logtable_mix(context, &table);
    if (status == CST_OK) {
        memcpy(mix, table.mix, (size_t)view->members * sizeof *mix);
        cst_logtable_free(context, &table);
    }
    return status;
}

#endif
