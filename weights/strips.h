/* A parallel loop over the elements of tensors. */
#ifndef CST_WEIGHTS_STRIPS_H
#define CST_WEIGHTS_STRIPS_H

#include "core/base.h"

/* Elements in hand at a time at most, so that they stay in the processor's cache. */
enum { CST_CHUNK = 1 << 15 };

/* Computes elements first..first+count-1 of a tensor. scratch: left as the last call had it. */
typedef cst_status (*cst_strips_fn)(cst_context *worker, void *user, int64_t tensor, int64_t first,
                                    int64_t count, double *scratch);

/* Calls `function` for all elements of tensors with elements[tensors] of them, `chunk` at a time.
 * doubles: size of the scratch of a thread. */
cst_status cst_strips_run(cst_context *context, const int64_t *elements, int64_t tensors,
                          int64_t chunk, size_t doubles, cst_strips_fn function, void *user);

#endif
