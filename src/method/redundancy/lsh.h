/* Which pairs of many members may be similar, by locality-sensitive hashing, and the CKA of those.
 * Paper: section "Scalability"; docs/redundancy.md. */
#ifndef CST_LSH_H
#define CST_LSH_H

#include "method/redundancy/kernel.h"
#include "method/redundancy/redundancy.h"

/* Members from which hashing may be chosen, and bits of all tables at most. */
enum { CST_LSH_MEMBERS = 200, CST_LSH_BITS = 2048 };

/* A pair of members whose sketches have cosine s shares one bit with probability p = 1 -
 * acos(s) / pi and a bucket of one of L tables of b bits with 1 - (1 - p^b)^L. */
typedef struct cst_lsh_tables {
    int32_t bits;   /* b of a table, at most 32 */
    int32_t tables; /* L */
    double level;   /* proposed pairs below this cosine are not pursued */
} cst_lsh_tables;

/* The most bits whose tables fit into CST_LSH_BITS and let pairs of cosine `threshold`, less what a
 * sketch may be wrong, share a bucket with probability 0.995. */
cst_lsh_tables cst_lsh_choose(double threshold);

/* Whether cst_cka goes by hashing: `auto` does where the products of many members that it saves
 * take longer than the sketches. */
bool cst_lsh_wanted(const cst_view *view, const cst_cka_options *options);

/* HSIC of all pairs of some members into hsic [m*m]; `group` are their kernels, `members` [m] their
 * places in the pool, some maybe more than once. */
typedef cst_status (*cst_lsh_products)(cst_context *context, void *user, const cst_kernels *group,
                                       const int32_t *members, double *hsic);

/* The CKA of pairs that hashing proposes, from `products`, or, where it is NULL, over all rows or,
 * where that takes long or is asked for, a sample of them; of other pairs that of the sketches.
 * Fills all of `out` that cst_cka does after the bandwidths but for what `products` knows. */
cst_status cst_cka_hashed(cst_context *context, const cst_kernels *kernels,
                          const cst_cka_options *options, cst_lsh_products products, void *user,
                          cst_cka_result *out);

/* ---- sketch.c: centred kernels on some rows, folded with random signs ---- */

/* Rows whose kernels are sketched at most, and numbers of a sketch (a power of two). */
enum { CST_SKETCH_ROWS = 512, CST_SKETCH_WIDTH = 2048 };

/* Sketches of length 1 of all members into sketches [K][CST_SKETCH_WIDTH]; 0 for constant ones. */
cst_status cst_sketches(cst_context *context, const cst_kernels *kernels,
                        cst_cka_statistic statistic, uint64_t seed, float *sketches);

/* For each table the sides of `bits` (at most 32) random hyperplanes that a sketch is on, into keys
 * [tables][K]. */
cst_status cst_sketch_keys(cst_context *context, const float *sketches, int32_t members,
                           int32_t bits, int32_t tables, uint64_t seed, uint32_t *keys);

/* Cosines of all pairs of sketches above the diagonal of cosines [K][K]. */
cst_status cst_sketch_cosines(cst_context *context, const float *sketches, int32_t members,
                              double *cosines);

#endif
