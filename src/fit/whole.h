/* Whole methods as meta-learners of a blend: a mixture of the members with a calibration map.
 * Stage S3, for the blend of stage S4. Not in the paper; docs/method.md#s4-blend. */
#pragma once

#include "data/pool/view.h"
#include "fit/baselines/baselines.h"
#include "fit/settings.h"
#include "fit/training.h"
#include "method/calibration/calibration.h"
#include "model/absent.h"

/* One choice of the option meta.learners; bit i of cst_settings.learners is number i. */
typedef struct cst_meta_spec {
    const char *name;
    cst_learner_kind kind;
    const cst_baseline *baseline;   /* NULL: a linear learner or a log-linear pool */
    cst_calibrator_kind calibrator; /* of a baseline: cst_calibrator_fit_shrunk */
    cst_calibrator_kind scaling; /* of each member, before a log-linear pool; none: no such pool */
    bool class_wise;             /* of the scalings, which are found together with the pool */
    double linear;               /* a pool of probabilities times this; 0: no such pool */
    bool nonnegative;            /* of a log-linear pool of the pipeline */
    double share;                /* the same: of the uniform distribution; 0: as settings say */
} cst_meta_spec;

/* Whether a choice is fitted by cst_whole_fit. */
static inline bool cst_meta_is_whole(const cst_meta_spec *spec) {
    return spec->baseline || spec->scaling != CST_CALIBRATOR_NONE || spec->linear > 0;
}

/* In the order of the option's choices: at most CST_LEARNERS_MAX. */
const cst_meta_spec *cst_meta_spec_at(int index); /* NULL beyond the last */

/* Gives a learner, whose other parts stay, the weights and biases of a pool. */
cst_status cst_loglinear_learner(cst_context *context, const cst_loglinear *pool,
                                 cst_learner *learner);

/* Fits the method and its calibration map on rows, with more than 2^22 numbers on a sample spread
 * evenly over the folds. near: the fit on more rows, where one that only gives held-out losses
 * starts; NULL: none. refits: gets that of a log-linear pool, as learner `at`; NULL: not wanted. */
cst_status cst_whole_fit(cst_context *context, const cst_meta_spec *spec, const cst_some_rows *rows,
                         const cst_settings *settings, const cst_learner *near, cst_refits *refits,
                         int32_t at, cst_learner *out);

typedef struct cst_scaled {
    cst_view view; /* every row of the view that it was made of, in memory or computed when read */
    cst_store *store;
    cst_scope scope;
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
