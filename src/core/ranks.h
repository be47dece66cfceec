/* Exchanges between ranks (<corestack/collectives.h>). Inside a task of a loop there is one rank.
 * Every exchange also tells whether a rank failed, so that no other waits for it. */
#pragma once

#include "core/base.h"

#include <corestack/collectives.h>

/* ---- the fixed binary tree in which the terms of a sum are added ----
 * A node of level l covers 2^l neighbouring terms, and its sum is that of its halves. Terms may
 * come in any number of parts, by threads or by ranks; the sum has the same bytes. */

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
void cst_tree_free(cst_context *context, cst_tree *tree);

/* ---- ranks ---- */

/* Of a context: its collectives and what went through them. */
typedef struct cst_ranks {
    cst_collectives calls; /* size 0: none */
    int alone;             /* depth of tasks that run on the caller's context */
    bool over;             /* an exchange told of a failure; until cst_context_agree */
    void *room;            /* [room_bytes]: of the message of a sum, kept for the next */
    size_t room_bytes;
    uint64_t exchanges; /* so far; the same on every rank */
    double latency;     /* seconds that an exchange of a few bytes takes; the same on every rank */
} cst_ranks;

/* Takes the collectives away. */
void cst_ranks_clear(cst_context *context);

/* Whether work is shared here: there are ranks, and this is not inside a task. */
bool cst_ranks_share(const cst_context *context);
/* A task begins on the caller's own context, or ends. */
void cst_ranks_alone(cst_context *context, bool on);

/* Whether ranks should divide passes over `numbers` numbers, each of which ends with an exchange.
 * Otherwise it is faster if every rank makes the whole pass. The same on every rank. */
bool cst_ranks_worth(const cst_context *context, double numbers);

/* This rank's part of `count` tasks: *first to *last - 1, beginning and ending at a multiple of
 * `grain`. Everything where no work is shared. */
void cst_ranks_part(const cst_context *context, int64_t count, int64_t grain, int64_t *first,
                    int64_t *last);
/* Where the part of a rank begins, with rank = the number of ranks where the last one ends. */
int64_t cst_ranks_boundary(const cst_context *context, int64_t count, int64_t grain, int rank);

/* Sums the nodes of all ranks, which cover `terms` terms; `status` is what became of this rank's
 * part. */
cst_status cst_ranks_sum(cst_context *context, cst_status status, int64_t terms, cst_tree *tree,
                         double *total);

/* Gives every rank what each has filled of the arrays, in cst_ranks_part of `count` tasks or, where
 * an array has bounds, between those. */
cst_status cst_ranks_fill(cst_context *context, cst_status status, int64_t count,
                          const cst_share *filled, int32_t arrays);

/* Adds up [count] numbers of every rank in place. For numbers whose sums are exact (whole multiples
 * of one power of two): else the bytes depend on the number of ranks. */
cst_status cst_ranks_add(cst_context *context, cst_status status, double *numbers, size_t count);

/* Gathers one part of any length for each rank: *all, for cst_free, has them in the order of ranks,
 * and [*bytes] their sum. */
cst_status cst_ranks_gather(cst_context *context, cst_status status, const void *part, size_t count,
                            void **all, size_t *bytes);

/* The rank of this context; 0 without collectives. */
int cst_context_rank(const cst_context *context);
