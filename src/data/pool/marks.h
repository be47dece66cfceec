/*
 * Splits that the names of files and columns speak of: oof_lgb, lgb.test, sub_lgb. When a pool is
 * opened. docs/pool.md#without-a-manifest.
 */
#ifndef CST_POOL_MARKS_H
#define CST_POOL_MARKS_H

#include <stdbool.h>

/* Removes the mark of a split from a name ("oof_lgb", "lgb.test"): "oof", "test", or NULL. */
const char *cst_take_mark(char *name);
/* The same for names that need not speak of a split ("sub_lgb", "lgb_preds"): predictions of test
 * rows, if there are out-of-fold ones. sample_submission is none. */
bool cst_take_loose_mark(char *name);

#endif
