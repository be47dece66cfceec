/*
 * One number for the content of a split: which data a model was fitted on. Between loading and
 * fitting. docs/model-format.md#sett.
 */
#ifndef CST_MODEL_POOL_HASH_H
#define CST_MODEL_POOL_HASH_H

#include "data/pool/subset.h"

/* Of the rows that count in a loaded split: names and predictions of all members, in any order, and
 * labels or targets, folds, groups and weights where they are given. The same for any number of
 * threads and memory budget, and for any file format that gives the same numbers. */
cst_status cst_pool_hash(cst_context *context, const cst_pool *pool, const char *split,
                         uint64_t *out);

/* Every bit of the result depends on every bit. */
uint64_t cst_hash_mix(uint64_t hash);
/* FNV-1a of bytes [size], going on from `hash`. */
uint64_t cst_hash_bytes(uint64_t hash, const void *bytes, size_t size);
#define CST_HASH_START UINT64_C(0xcbf29ce484222325)

#endif
