/*
 * Whether scores may know their own labels: what two splits have in common, members that are better
 * on the rows they should not know, and a stack fitted to permuted labels. Beside the certificates.
 * Paper: "Leakage-Freeness of the Nested OOF Construction"; method.md section 6.
 */
#ifndef CST_BOUNDS_LEAKAGE_H
#define CST_BOUNDS_LEAKAGE_H

#include "pool/view.h"

typedef struct cst_shared_rows {
    int64_t shared; /* rows of the second view with the label and predictions of one in the first */
    int64_t repeated; /* rows of the first view that another one of it equals */
} cst_shared_rows;

/* Two views of the same members, both with labels. Rows are compared by 64 bits of their contents.
 */
cst_status cst_shared_rows_of(cst_context *context, const cst_view *first, const cst_view *second,
                              cst_shared_rows *out);

/* Groups whose rows are in several folds. groups, folds: [rows]. */
cst_status cst_split_groups(cst_context *context, const int64_t *groups, const int32_t *folds,
                            int64_t rows, int64_t *count);

/* P that independent error rates differ by as much as errors[0] / rows[0] is below errors[1] /
 * rows[1], if they are equal: the normal approximation, one side. 1 where neither varies. */
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

#endif
