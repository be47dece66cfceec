/* Sums in a fixed binary tree. Under cst_reduce_blocks. */
#include "core/tree.h"

#include <string.h>

static void add(const double *from, size_t width, double *to) {
    for (size_t j = 0; j < width; j++)
        to[j] += from[j];
}

void cst_tree_push(cst_context *context, cst_tree *tree, int32_t level, int64_t index,
                   double *sum) {
    tree->node[tree->count++] = (cst_tree_node){.index = index, .level = level, .sum = sum};
    while (tree->count > 1) {
        cst_tree_node *left = &tree->node[tree->count - 2];
        const cst_tree_node *right = left + 1;
        if (left->level != right->level || left->index % 2 != 0 || right->index != left->index + 1)
            return;
        add(right->sum, tree->width, left->sum);
        if (right->owned)
            cst_free(context, right->sum);
        left->level++;
        left->index /= 2;
        tree->count--;
    }
}

cst_status cst_tree_keep(cst_context *context, cst_tree *tree) {
    for (int32_t i = 0; i < tree->count; i++) {
        cst_tree_node *node = &tree->node[i];
        if (node->owned)
            continue;
        double *copy = cst_alloc(context, tree->width, sizeof *copy);
        if (!copy)
            return CST_ERROR_MEMORY;
        memcpy(copy, node->sum, tree->width * sizeof *copy);
        node->sum = copy;
        node->owned = true;
    }
    return CST_OK;
}

void cst_tree_total(const cst_tree *tree, double *total) {
    memset(total, 0, tree->width * sizeof *total);
    for (int32_t i = tree->count - 1; i >= 0; i--)
        for (size_t j = 0; j < tree->width; j++)
            total[j] =
                i == tree->count - 1 ? tree->node[i].sum[j] : tree->node[i].sum[j] + total[j];
}

void cst_tree_free(cst_context *context, cst_tree *tree) {
    for (int32_t i = 0; i < tree->count; i++)
        if (tree->node[i].owned)
            cst_free(context, tree->node[i].sum);
    tree->count = 0;
}
