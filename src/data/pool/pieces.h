/*
 * Rows converted piece by piece from wherever they lie: what members in a file and members in the
 * caller's arrays share. Between a source of raw elements and the float32 rows of a view.
 * docs/method.md#s0-rows-folds-ids.
 */
#ifndef CST_POOL_PIECES_H
#define CST_POOL_PIECES_H

#include "data/pool/state.h"
#include "data/readers/npy.h"

/* Where raw elements come from. */
typedef struct cst_pieces {
    const cst_npy *element; /* says how an element is decoded */
    cst_convert convert;    /* as it is before the first row */
    const void *source;
    /* Rows first..first+count-1, width elements each, one after the other into `raw`. */
    cst_status (*fetch)(cst_context *context, const void *source, int64_t first, int64_t count,
                        unsigned char *raw);
    /* The float32 of a row where they are usable in place; NULL where they never are. */
    const float *(*plain)(const void *source, int64_t row);
    const cst_pool_split *split; /* whose rows these are, where some may be absent; else NULL */
} cst_pieces;

/* Rows first..first+count-1 into out [count][classes]. Any number of threads may read. */
cst_status cst_pieces_read(cst_context *context, const cst_pieces *pieces, int64_t first,
                           int64_t count, float *out);

/* All `rows` rows into out [rows][classes], or with out NULL only looks whether that is possible;
 * ends with what only the whole of them can show to be wrong. present (may be NULL): [rows], 0 for
 * rows that the member did not predict; *absent (may be NULL): their number. */
cst_status cst_pieces_all(cst_context *context, const cst_pieces *pieces, int64_t rows, float *out,
                          uint8_t *present, int64_t *absent);

/* Checks that rows first..first+count-1 can be converted. `convert` has then counted them, for
 * cst_convert_finish. */
cst_status cst_pieces_look(cst_context *context, const cst_pieces *pieces, int64_t first,
                           int64_t count, cst_convert *convert);

#endif
