/*
 * The guard on a stream: the last rows of a predictor, tested and mixed row by row without
 * allocation. corestack/guard.h, model/guard.h.
 */
#ifndef CST_STREAM_GUARD_H
#define CST_STREAM_GUARD_H

#include "model/guard.h"

typedef struct cst_stream_guard cst_stream_guard;

/* window: at least CST_NOVELTY_BATCH_MIN rows. */
cst_status cst_stream_guard_make(cst_context *context, const cst_model *model, int64_t window,
                                 cst_stream_guard **out);
void cst_stream_guard_free(cst_context *context, cst_stream_guard *stream);

/* The next row: predictions [members] and, from `at` on, others ([others], or NULL; entries may be
 * NULL) are its probabilities [classes]. out: the stack's prediction, which is changed where the
 * window is unlike the fit. */
void cst_stream_guard_row(cst_stream_guard *stream, const float *const *predictions,
                          const float *const *others, int64_t at, float *out);

/* What the window looks like after the last row. */
void cst_stream_guard_found(const cst_stream_guard *stream, cst_guard_batch *out);

#endif
