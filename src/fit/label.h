/* What a model says of itself: names of members and classes, settings, and what it was fitted on.
 * Between fitting and saving. docs/model-format.md#sett. */
#pragma once

#include "fit/training.h"
#include "model/stack.h"

#include <corestack/options.h>

typedef struct cst_fit_origin {
    const cst_pool *pool;
    const char *split;
    const cst_options *options;
    const char *method;    /* NULL: the preset of the options */
    const int32_t *labels; /* [label_count]: fingerprint of the training data */
    int64_t label_count;
    const cst_view *rows; /* of the kept members, for a sketch; NULL: none */
    const int32_t *kept;  /* [members of the model] in the pool */
    const cst_training *source;
    int64_t samples; /* rows, pixels or images */
    uint64_t hash;   /* of the split */
} cst_fit_origin;

/* Gives a model without any its names and settings. A detection model gets member names only: its
 * two classes are whether a box is right. */
cst_status cst_fit_label(cst_context *context, const cst_fit_origin *origin, cst_model *model);

/* The same for a model fitted on the rows of a split, loaded in `source`; also stores what the
 * guard compares batches with. kept: [members of the model]. */
cst_status cst_fit_label_rows(cst_context *context, const cst_pool *pool, const char *split,
                              const cst_training *source, const cst_options *options,
                              const char *method, const int32_t *kept, cst_model *model);

/* Adds to a model of a classification or segmentation, and nothing to others, what it stores about
 * its out-of-fold rows for use on rows without labels. rows: a view of the
 * kept members on the rows of `source`. kept: [members of the model] in the pool. */
cst_status cst_fit_reference(cst_context *context, const cst_pool *pool, const cst_training *source,
                             const cst_view *rows, const int32_t *kept, cst_model *model);

/* Loads a split of rows and gives its cst_pool_hash. */
cst_status cst_hash_rows(cst_context *context, cst_pool *pool, const char *split, uint64_t *out);

/* Replaces the model's setting `key`, if there is one. */
cst_status cst_fit_relabel(cst_context *context, cst_model *model, const char *key,
                           const char *value);

/* A hash as settings and documents have it: 16 hexadecimal digits. */
enum { CST_HASH_CHARS = 17 };
void cst_hash_text(uint64_t hash, char text[CST_HASH_CHARS]);
