/* Whether scores may know their own labels. docs/bounds.md#leaks. */
#pragma once

#include "data/pool/view.h"

typedef struct cst_shared_rows {
    int64_t shared; /* rows of the second view with the label and predictions of one in the first */
    int64_t repeated; /* rows of the first view that another one of it equals */
    double p;         /* how likely so many shared rows or more are where all rows of both views are
                         independent draws from one source; by dealing them anew, so that
                         P(p <= t) <= t for every t >= 1 / 2000 */
} cst_shared_rows;

/* Two labelled views of the same members. Rows are compared by 64-bit hashes; seed: of deals. */
cst_status cst_shared_rows_of(cst_context *context, const cst_view *first, const cst_view *second,
                              uint64_t seed, cst_shared_rows *out);

/* Fisher's exact test, one side: P that of all errors at least errors[1] fall to the second rows.
 * 0 below 1e-300. errors[i] of rows[i]. */
double cst_lower_error_p(const int64_t *errors, const int64_t *rows);

/* A fit of labels that were permuted, so that no score of unseen rows is above chance. */
typedef struct cst_permuted {
    int64_t samples;
    double chance;    /* share of the commonest class */
    double top1;      /* nested: each row scored by a fit without it */
    double p;         /* P(at least so many right) at chance */
    double seen_top1; /* of the whole fit on its own rows: what a leak would look like */
    double seen_p;
} cst_permuted;

/* view: at most `most` of its rows take part. names: [members]. settings: "key=value" of a stack
 * ([count]); those that are no option are left out. */
cst_status cst_permuted_fit(cst_context *context, const cst_view *view, const char *const *names,
                            const char *const *settings, size_t count, int64_t most, uint64_t seed,
                            cst_permuted *out);
