/* The pixels that a fit sees: a seeded sample, copied into a classification pool.
 * docs/segmentation.md#sampling. */
#ifndef CST_SEGMENTATION_SAMPLE_H
#define CST_SEGMENTATION_SAMPLE_H

#include "core/options.h"
#include "data/pool/spatial.h"
#include "fit/training.h"
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
 * log(prior / share), both [classes]. CST_ERROR_UNSUPPORTED without biases. Nothing to do at
 * balance 0. */
cst_status cst_prior_correct(cst_context *context, const double *prior, const double *share,
                             const cst_segment_settings *settings, cst_model *model);

/* ---- other orders of the pixels ---- */

enum { CST_MAP_ORDERS = 7 };

typedef struct cst_map_orders {
    cst_check_order_of list[CST_MAP_ORDERS];
    cst_training_hints hints; /* with these orders, for a split of that name */
} cst_map_orders;

/* labels: of all rows of the split, with `classes` classes; others do not count. split: borrowed.
 */
cst_status cst_map_orders_make(cst_context *context, cst_scope *scope, const char *split,
                               const cst_cases *cases, const int32_t *labels, int32_t classes,
                               const cst_pixel_sample *sample, cst_map_orders *out);

#endif
