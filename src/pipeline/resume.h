/*
 * Continuing a fit from its checkpoint: the text that describes what its parts depend on, which is
 * compared with that of the run before. Between loading and fitting. io/checkpoint.h.
 */
#ifndef CST_PIPELINE_RESUME_H
#define CST_PIPELINE_RESUME_H

#include "pipeline/training.h"

/* A fit, as its caller named it. */
typedef struct cst_resume {
    cst_pool *pool; /* with the split loaded */
    const char *split;
    const char *method; /* NULL: the preset of the options */
    const cst_options *options;
    /* A hash of the content of a split. */
    cst_status (*hash)(cst_context *context, cst_pool *pool, const char *split, uint64_t *out);
} cst_resume;

/* Keeps parts from here on until cst_checkpoint_stop, if the context has a folder for them. A fit
 * inside another one belongs to that. */
cst_status cst_fit_resume(cst_context *context, const cst_resume *fit);

#endif
