/*
 * A pool whose split is divided in two at random: rows that are fitted on, under the split's own
 * name, and rows that are held out, as one split more. Everything else is the pool's own.
 * Between the pool and repeated comparisons (fit/compare.c). Paper: section "Results".
 */
#ifndef CST_POOL_DIVISION_H
#define CST_POOL_DIVISION_H

#include "data/pool/pool.h"

/* Rows, cases or images. */
typedef struct cst_units {
    const char *split; /* for messages, with `unit`: "rows", "cases", "images" */
    const char *unit;
    int64_t count;
    const int32_t *strata; /* [count], >= 0: each is divided alike; NULL: there is one */
    const int64_t *groups; /* [count]: held out as a whole; NULL: each unit by itself */
    bool classes;          /* the strata are classes, of which a fit needs one row each */
} cst_units;

/* held [count]: which units are held out, a share of `share` (above 0, below 1). Without groups
 * their number is round(share * count), and that of each stratum as near to its share as whole
 * numbers allow; groups are taken in random order, each where it brings the strata nearer to their
 * share. Something of each class stays. CST_ERROR_INPUT for a class with one row, and where there
 * is nothing to divide. */
cst_status cst_divide(cst_context *context, const cst_units *units, double share, uint64_t seed,
                      bool *held);

typedef struct cst_pool_parts cst_pool_parts;

/* How a pool is divided. Of detections whoever reads the files divides the images. */
typedef struct cst_division {
    int32_t split; /* position of the split whose rows are divided */
    int32_t held;  /* position of the split that has those held out */
    double share;
    uint64_t seed;
    const int64_t *rows[2]; /* rows of the whole split that are fitted on, and held out */
    int64_t count[2];
    const cst_pool *whole;
    const int64_t *held_units; /* [held_count]: rows or cases of the split by place, images by id */
    int64_t held_count;
    cst_scope *scope; /* of the parts */
} cst_division;

/* Loads the split (not of detections) and divides what counts in it: rows that count by class or
 * target, groups as a whole; cases of maps. The whole must outlive the parts and is not to be used
 * before they are freed. */
cst_status cst_pool_divide(cst_context *context, cst_pool *whole, const char *split, double share,
                           uint64_t seed, cst_pool_parts **out);
/* Other splits that were loaded stay loaded in the whole. NULL is accepted. */
void cst_pool_parts_free(cst_context *context, cst_pool_parts *parts);

cst_pool *cst_parts_pool(cst_pool_parts *parts);
/* Name of the split with the rows that are held out. */
const char *cst_parts_held(const cst_pool_parts *parts);

/* How the pool was divided; NULL: it was not. */
cst_division *cst_pool_division(const cst_pool *pool);

/* Notes which of [count] units of a divided pool are held out; names: theirs, or NULL: places. */
cst_status cst_division_note(cst_context *context, cst_division *division, const bool *held,
                             const int64_t *names, int64_t count);

#endif
