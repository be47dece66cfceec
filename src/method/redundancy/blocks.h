/*
 * HSIC of some pairs of members only: blocks of the matrix of pairs. Stage S1, where hashing has
 * said which pairs matter. Paper: equation (1); docs/redundancy.md.
 */
#ifndef CST_BLOCKS_H
#define CST_BLOCKS_H

#include "method/redundancy/redundancy.h"
#include "method/redundancy/strips.h"

/* Members first_a.. with members first_b..; behind one another where they are not the same. */
typedef struct cst_pair_block {
    int32_t first_a;
    int32_t count_a;
    int32_t first_b;
    int32_t count_b;
    size_t at; /* where its [count_a][count_b] products begin */
} cst_pair_block;

/* Members whose tiles are needed together: those of consecutive blocks. */
typedef struct cst_pair_group {
    int32_t first; /* member */
    int32_t count;
    int32_t first_block;
    int32_t blocks;
} cst_pair_group;

typedef struct cst_pair_blocks {
    cst_pair_block *block;
    int32_t blocks;
    cst_pair_group *group; /* every block is in one of them, with all its members */
    int32_t groups;
    size_t products; /* of all blocks */
} cst_pair_blocks;

/* As cst_hsic_packed, the blocks one behind another, into hsic [products]. Every tile of a member's
 * kernel is computed once. */
cst_status cst_hsic_blocks(cst_context *context, const cst_packed *packed,
                           const cst_pair_blocks *blocks, cst_cka_statistic statistic,
                           double *hsic);

#endif
