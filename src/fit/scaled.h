/*
 * Scaled members: each after its own calibration map or softmax, as the view that log-linear pools
 * are fitted on. A rank keeps the rows that it works on and computes others when they are read.
 * Under the meta-learners of the blend.
 */
#ifndef CST_PIPELINE_SCALED_H
#define CST_PIPELINE_SCALED_H

#include "data/pool/store.h"
#include "method/calibration/calibration.h"

typedef struct cst_scaled {
    cst_view view; /* every row of the view that it was made of, in memory or computed when read */
    cst_store *store;
    const float **places; /* [members] */
    int32_t *labels;      /* [rows] */
    double *weights;      /* [rows], or NULL */
} cst_scaled;

typedef struct cst_scaled_spec {
    cst_calibrator_kind kind;   /* of the maps; not read where `factor` is above 0 */
    const cst_calibrator *near; /* [members], where to start their fits, or NULL */
    double factor;              /* above 0: p becomes softmax(factor p), and nothing is fitted */
} cst_scaled_spec;

/* Fits a map for each member of a labelled view, unless there is a factor, and gives the view of
 * scaled members; `view` must outlive it. maps: [members], the caller's to free; NULL with a
 * factor. Free `out` with cst_scaled_free, also after a failure. */
cst_status cst_scaled_make(cst_context *context, const cst_view *view,
                           const cst_scaled_spec *scaling, cst_calibrator *maps, cst_scaled *out);
void cst_scaled_free(cst_context *context, cst_scaled *scaled);

#endif
