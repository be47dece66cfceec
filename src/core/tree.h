/*
 * The fixed binary tree in which the terms of a sum are added: a node of level l covers 2^l
 * neighbouring terms, and its sum is that of its halves. Terms may come in any number of parts, by
 * threads or by ranks; the sum has the same bytes. docs/architecture.md#sums-over-fixed-blocks.
 */
#ifndef CST_BASE_TREE_H
#define CST_BASE_TREE_H

#include "core/base.h"

/* Levels of a tree over as many terms as an int64_t counts, twice: a part of the terms has at most
 * two nodes of a level that are not merged. */
enum { CST_TREE_NODES = 128 };

typedef struct cst_tree_node {
    int64_t index; /* among the nodes of its level */
    int32_t level;
    bool owned; /* `sum` is the tree's to free */
    double *sum;
} cst_tree_node;

/* Nodes of a contiguous range of terms, in order. */
typedef struct cst_tree {
    size_t width;
    size_t square; /* the last square x square numbers are a matrix of which only the lower triangle
                      counts, and is sent to other ranks; 0: there is none */
    int32_t count;
    cst_tree_node node[CST_TREE_NODES];
} cst_tree;

/* Adds the next node; its sum, borrowed, is merged into what is there or stays where it is. */
void cst_tree_push(cst_context *context, cst_tree *tree, int32_t level, int64_t index, double *sum);
/* Copies borrowed sums, before their array is used again. */
cst_status cst_tree_keep(cst_context *context, cst_tree *tree);
/* The sum of all nodes, which cover every term, into `total` [width]; zeros where there are none.
 */
void cst_tree_total(const cst_tree *tree, double *total);
void cst_tree_free(cst_context *context, cst_tree *tree);

#endif
