/* Similar pairs of many members by locality-sensitive hashing. docs/redundancy.md. */
#ifndef CST_LSH_H
#define CST_LSH_H

#include "method/redundancy/kernel.h"
#include "method/redundancy/redundancy.h"

/* Members from which hashing may be chosen, and bits of all tables at most. */
enum { CST_LSH_MEMBERS = 200, CST_LSH_BITS = 2048 };

/* Cosine s shares a bit with p = 1 - acos(s) / pi, a bucket with 1 - (1 - p^b)^L. */
typedef struct cst_lsh_tables {
    int32_t bits;   /* b of a table, at most 32 */
    int32_t tables; /* L */
    double level;   /* proposed pairs below this cosine are not pursued */
} cst_lsh_tables;

/* Most bits within CST_LSH_BITS at which pairs of cosine `threshold` meet with 0.995. */
cst_lsh_tables cst_lsh_choose(double threshold);

/* Whether cst_cka hashes: `auto` does where that saves more time than sketches take. */
bool cst_lsh_wanted(const cst_view *view, const cst_cka_options *options);

/* HSIC of all pairs of some members into hsic [m*m]; members [m] may repeat. */
typedef cst_status (*cst_lsh_products)(cst_context *context, void *user, const cst_kernels *group,
                                       const int32_t *members, double *hsic);

/* The CKA of pairs that hashing proposes, from `products`, or, where it is NULL, over all rows or,
 * where that takes long or is asked for, a sample of them; of other pairs that of the sketches.
 * Fills all of `out` that cst_cka does after the bandwidths but for what `products` knows. */
cst_status cst_cka_hashed(cst_context *context, const cst_kernels *kernels,
                          const cst_cka_options *options, cst_lsh_products products, void *user,
                          cst_cka_result *out);

#endif
