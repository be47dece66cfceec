/*
 * Scratch memory that tasks of a parallel loop borrow: allocated once for each thread, not for each
 * task. Under the loops over weights. Paper: none.
 */
#ifndef CST_WEIGHTS_LENT_H
#define CST_WEIGHTS_LENT_H

#include "base/base.h"

/* Blocks of memory, as many as tasks run at a time. */
typedef struct cst_lender {
    size_t doubles; /* of a block */
    int count;
    int *lent;       /* [count]: whether a task has it; changed atomically */
    double **blocks; /* [count]: made when first lent */
} cst_lender;

cst_status cst_lender_open(cst_context *context, cst_lender *lender, size_t doubles);
void cst_lender_close(cst_context *context, cst_lender *lender);

/* A block with what its last task left in it; NULL with the error recorded where there is no
 * memory. A task has one at a time and gives it back. */
double *cst_lend(cst_context *worker, cst_lender *lender, int *which);
void cst_lent_back(cst_lender *lender, int which);

#endif
