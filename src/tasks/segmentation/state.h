/*
 * What an evaluation of a segmentation holds, shared by comparisons and the evaluation of a model.
 */
#ifndef CST_SEGMENTATION_STATE_H
#define CST_SEGMENTATION_STATE_H

#include "fit/harness.h"
#include "tasks/segmentation/sample.h"
#include "tasks/segmentation/score.h"

/* Sampled pixels ready to be fitted on. */
typedef struct cst_sampled_pixels {
    cst_segment_settings settings;
    cst_pixel_sample sample;
    cst_training source;
    cst_training_part part; /* of a narrowed evaluation */
} cst_sampled_pixels;

/* What an evaluation holds. A narrowed one borrows samples and rows of the whole. */
typedef struct cst_map_state {
    cst_segment_settings settings;
    cst_sampled_pixels plain;    /* classes as they occur */
    cst_sampled_pixels balanced; /* as segment.balance says; empty if that is 0 */
    const cst_cases *fitted_cases;
    const cst_cases *cases;
    cst_view view;
    const float **pointers; /* of a narrowed view */
    int64_t pixels;         /* that count */
    bool narrowed;
    double *offsets; /* of the model that is evaluated; or NULL */
} cst_map_state;

/* Samples pixels of split "oof" and makes folds of them. Free also after a failure. */
cst_status cst_sampled_open(cst_context *context, const cst_evaluation *e,
                            const cst_segment_settings *settings, double balance, int32_t folds,
                            cst_sampled_pixels *out);
/* Cases and counted pixels of a split whose view is there. CST_ERROR_INPUT without masks. */
cst_status cst_map_state_rows(cst_context *context, const cst_pool *pool, const char *split,
                              cst_map_state *state);

/* The entries of the table that evaluate a model. */
cst_status cst_map_open_model(cst_context *context, cst_evaluation *e, const cst_model *model);
cst_status cst_map_run_model(cst_context *context, const cst_evaluation *e, const cst_model *model,
                             cst_entry *entry);
cst_status cst_map_seen(cst_context *context, const cst_evaluation *e, const cst_model *model,
                        const cst_entry *entry, bool *seen);
cst_status cst_map_open_baselines(cst_context *context, cst_evaluation *e);
cst_status cst_map_put_own(cst_context *context, cst_report *report, const cst_evaluation *e,
                           const cst_entry *entry);

#endif
