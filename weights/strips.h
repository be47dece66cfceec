/*
 * Tensors cut into strips, one task each. For what is computed tensor by tensor, place by place,
 * and written at any place of a file. Paper: none.
 */
#ifndef CST_WEIGHTS_STRIPS_H
#define CST_WEIGHTS_STRIPS_H

#include "base/base.h"

/* Elements of a strip, and those in hand at a time: what a task computes stays in the processor's
 * cache. An element's result does not depend on these. */
enum { CST_STRIP = 1 << 18, CST_CHUNK = 1 << 15 };

typedef struct cst_strip {
    int64_t tensor; /* as the caller numbers them */
    int64_t first;  /* element */
    int64_t count;
} cst_strip;

/* Strips of tensors with so many elements [tensors]; *out [*count] is the caller's (cst_free). */
cst_status cst_strips_plan(cst_context *context, const int64_t *elements, int64_t tensors,
                           cst_strip **out, int64_t *count);

#endif
