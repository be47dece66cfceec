/* The cost of prediction: the calls of a task that are timed, and the profile of a model. */
#pragma once

#include "fit/harness.h"

#include <corestack/profile.h>

/* A model and samples that it predicts, in memory. */
typedef struct cst_profile_work {
    cst_scope *scope; /* of the samples and of `data` */
    const cst_model *model;
    int64_t samples;      /* in memory */
    int64_t batch;        /* samples of a call with many: at most as many as are in memory */
    double largest_bytes; /* what a call with a batch reads and writes, beyond what it allocates */
    void *data;           /* the task's own, of its data_bytes */
} cst_profile_work;

/* How a task predicts. `call` gets the measured context, the others the caller's. */
struct cst_profile_ops {
    size_t data_bytes;
    /* Reads samples, at least `batch` if possible. */
    cst_status (*open)(cst_context *context, cst_pool *pool, const char *split, int64_t batch,
                       cst_profile_work *out);
    /* Memory that calls share, of the context that is measured, and its end; NULL: none. */
    cst_status (*prepare)(cst_context *measured, cst_profile_work *work);
    void (*release)(cst_context *measured, cst_profile_work *work);
    /* Predicts samples first..first+count-1: one, or a batch that begins at a multiple of it. */
    cst_status (*call)(cst_context *measured, const cst_profile_work *work, int64_t first,
                       int64_t count);
};

/* Of tasks that predict rows of numbers: classification and regression. */
extern const cst_profile_ops cst_profile_rows;

/* Fails where the pool lacks a member or its rows; view: of the model's members. */
cst_status cst_profile_need_members(cst_context *context, const cst_model *model, const char *split,
                                    const cst_view *view);
/* How many samples of `bytes` each may be kept in memory: at least one. */
int64_t cst_profile_affordable(const cst_context *context, double bytes);

/* Behind the public function. options: checked. */
cst_status cst_run_profile(cst_context *context, const cst_task_ops *ops, const cst_model *model,
                           cst_pool *pool, const cst_profile_options *options, cst_report **report);
