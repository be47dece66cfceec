/*
 * Scratch memory that tasks of a parallel loop borrow. Under the loops over weights: with memory of
 * its own for every task, a fifth of an average's time goes into pages that come and go. Paper:
 * none.
 */
#include "weights/lent.h"

cst_status cst_lender_open(cst_context *context, cst_lender *lender, size_t doubles) {
    *lender = (cst_lender){.doubles = doubles, .count = cst_context_threads(context)};
    lender->lent = cst_alloc(context, (size_t)lender->count, sizeof *lender->lent);
    lender->blocks = cst_alloc(context, (size_t)lender->count, sizeof *lender->blocks);
    return lender->lent && lender->blocks ? CST_OK : CST_ERROR_MEMORY;
}

void cst_lender_close(cst_context *context, cst_lender *lender) {
    for (int i = 0; lender->blocks && i < lender->count; i++)
        cst_free(context, lender->blocks[i]);
    cst_free(context, lender->blocks);
    cst_free(context, lender->lent);
}

double *cst_lend(cst_context *worker, cst_lender *lender, int *which) {
    int i = 0; /* no more tasks run at a time than there are blocks, so one is free */
    while (__atomic_exchange_n(&lender->lent[i], 1, __ATOMIC_ACQUIRE))
        i = i + 1 < lender->count ? i + 1 : 0;
    *which = i;
    if (!lender->blocks[i])
        lender->blocks[i] = cst_alloc(worker, lender->doubles, sizeof **lender->blocks);
    if (lender->blocks[i])
        return lender->blocks[i];
    cst_lent_back(lender, i);
    return NULL;
}

void cst_lent_back(cst_lender *lender, int which) {
    __atomic_store_n(&lender->lent[which], 0, __ATOMIC_RELEASE);
}
