/*
 * How much of the pairs of rows is enough: rounds of tiles in which every row has as many partners
 * as every other, and the standard error of a CKA that is left. Stage S1, beside the sum over pairs
 * of rows. Paper: equation (2); docs/redundancy.md.
 */
#ifndef CST_PAIRS_H
#define CST_PAIRS_H

#include "method/redundancy/strips.h"

/* Sums over tiles that are kept, each [K*K]: with h_ab a tile's sum of products of members a and b
 * (at and below the diagonal), of h_ab, of the part of it that row sums know, of h_ab^2, of h_ab
 * h_aa, of h_aa h_bb. */
enum { CST_PAIRS_SUMS = 5 };

typedef struct cst_pairs {
    int32_t members;       /* K */
    const bool *constant;  /* [K], borrowed */
    int64_t rows;          /* n, in random order */
    int64_t all;           /* N */
    int64_t rounds_most;   /* 0: no limit */
    double tolerance;      /* standard error that is small enough; 0: all pairs of the n rows */
    int64_t strips;        /* of CST_STRIP_ROWS rows, the last may have fewer */
    double *strip_sums;    /* [strips][2][K(K+1)/2], h of the tiles that a strip is either side of;
                              NULL where there are too many members */
    double *strips_of_all; /* the same of all ranks; `strip_sums` where there is one */
    /* of the rounds done: */
    int64_t tiles;    /* between two strips */
    int64_t partners; /* m, rows that each row was paired with */
    double error;     /* standard error of the worst pair of members */
} cst_pairs;

cst_status cst_pairs_create(cst_context *context, const cst_kernels *kernels, int64_t rows,
                            double tolerance, int64_t rounds_most, cst_pairs *out);
void cst_pairs_free(cst_context *context, cst_pairs *pairs);

/* Of a tile of two whole strips: sum [CST_PAIRS_SUMS][K*K] has h and gets its products. Tiles of
 * one round may come at a time. */
void cst_pairs_tile(cst_pairs *pairs, int64_t i, int64_t j, double *sum);

/* A round of `tasks` tiles is done; `last`: it was the one on the diagonal, and so all are. */
void cst_pairs_round(cst_pairs *pairs, int64_t tasks, bool last);

/* Before the error is looked at: the strips' sums of all ranks. */
cst_status cst_pairs_share(cst_context *context, cst_pairs *pairs);

/* Rounds after which the error is to be looked at, first and again; again == done: enough. */
int64_t cst_pairs_first_check(const cst_pairs *pairs, int64_t rounds);
int64_t cst_pairs_next_check(const cst_pairs *pairs, const double *sums, const double *hsic,
                             int64_t done, int64_t rounds);

/* Standard error of the CKA of the worst pair, for sums [CST_PAIRS_SUMS][K*K] and what was made of
 * them, hsic [K*K]. */
double cst_pairs_error(const cst_pairs *pairs, const double *sums, const double *hsic);

#endif
