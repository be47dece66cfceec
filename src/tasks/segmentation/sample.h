/*
 * The pixels that a fit sees: a seeded sample of those that count, copied into a classification
 * pool with every member, so that all stages run on it as on any other pool. First step of a fit.
 * docs/segmentation.md, "Sampling".
 */
#ifndef CST_SEGMENTATION_SAMPLE_H
#define CST_SEGMENTATION_SAMPLE_H

#include "core/options.h"
#include "data/pool/spatial.h"
#include "model/stack.h"

typedef struct cst_segment_settings {
    int64_t pixels;  /* to sample */
    double balance;  /* 0: classes as they occur; 1: equal numbers of each */
    double boundary; /* of the scores */
    bool decide;     /* offsets for label maps are to be chosen */
    int32_t folds;   /* to be made of the cases where the pool brings none */
    uint64_t seed;
} cst_segment_settings;

void cst_segment_settings_read(const cst_options *options, cst_segment_settings *out);

typedef struct cst_pixel_sample {
    cst_pool *pool; /* classification; its one split "oof" has the sampled pixels, in their order */
    int64_t rows;
    int64_t *index;  /* [rows]: rows of the split, ascending */
    int64_t counted; /* pixels of the split that count */
    double *prior;   /* [classes]: share of each class among those */
    double *share;   /* [classes]: share in the sample */
    double seconds;
} cst_pixel_sample;

/* Loads the split and draws the sample: an exact number of pixels of each class, each pixel of a
 * class with the same chance. Groups are those of the cases, else the cases themselves. */
cst_status cst_pixel_sample_make(cst_context *context, cst_scope *scope, cst_pool *pool,
                                 const char *split, const cst_segment_settings *settings,
                                 cst_pixel_sample *out);

/* How many pixels of each class: counts [classes] of those there are, out [classes] with the sum
 * min(pixels, sum of counts) and out[c] <= counts[c]. */
cst_status cst_sample_sizes(cst_context *context, const int64_t *counts, int32_t classes,
                            int64_t pixels, double balance, int64_t *out);

/* Undoes the sample's share of the classes in a fitted model: the bias of class c rises by
 * log(prior / share) (both [classes]), exact for log-linear pools (case-control sampling).
 * CST_ERROR_UNSUPPORTED for a model that holds other learners or no biases. Nothing to do at
 * balance 0. */
cst_status cst_prior_correct(cst_context *context, const double *prior, const double *share,
                             const cst_segment_settings *settings, cst_model *model);

#endif
