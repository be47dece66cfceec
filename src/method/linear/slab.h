/* Rows of all members of a view, read together: a slab of consecutive rows at a time, small enough
 * for the cache, out of which the rows of one fold are picked. Paper: "Scalability";
 * docs/method.md#s2-and-s3-gate-and-penalties. */
#ifndef CST_LEARNERS_SLAB_H
#define CST_LEARNERS_SLAB_H

#include "core/scope.h"
#include "data/pool/view.h"

typedef struct cst_slab {
    const cst_view *view;
    int64_t capacity;      /* rows that cst_slab_read may be asked for */
    int64_t chunk;         /* rows that cst_slab_pick may be asked for */
    float *scratch;        /* [members][capacity][classes] where the view's rows are not in place */
    float *gathered;       /* [members][chunk][classes] where a chunk has several rows */
    const float **rows;    /* [members] -> [capacity][classes]: the slab */
    const float **members; /* [members] -> [count][classes]: the rows picked last */
} cst_slab;

/* Memory for slabs of slab_rows rows and picks of `chunk`. */
cst_status cst_slab_open(cst_context *context, cst_scope *scope, const cst_view *view,
                         int64_t chunk, cst_slab *out);

/* Reads rows first..first+count-1 of the view. */
cst_status cst_slab_read(cst_context *context, cst_slab *slab, int64_t first, int64_t count);

/* Points slab->members at `count` rows of the slab (ascending, counted from its first), which are
 * copied together where they are apart. */
void cst_slab_pick(cst_slab *slab, const int64_t *rows, int64_t count);

#endif
