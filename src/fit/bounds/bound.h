/* The parts of a document of certificates, and who fills which keys. docs/json.md#bound. */
#pragma once

#include "data/pool/view.h"
#include "fit/settings.h"
#include "model/stack.h"
#include "report/report.h"

#include <corestack/bound.h>

/* A stack on the labelled rows of a split that it was not fitted on. */
typedef struct cst_bound_work {
    const cst_model *model;
    cst_pool *pool;
    const char *split;
    double delta;
    double alpha;
    bool leakage;
    const char *validation;  /* split that lambda* comes from; NULL: the fit's */
    const char *batch_split; /* NULL: none */
    cst_bound_weights shift;
    cst_bound_parts by;
    const double *miss_costs; /* [classes]; NULL: none */
    int64_t miss_cost_count;
    double risk;
    const char *sets; /* NULL: not written */
    uint64_t seed;
    cst_settings settings; /* the defaults: how CKA is computed, and the threshold of clusters */
    cst_view view;         /* every member of the pool */
    int64_t rows;
    int32_t classes;
    const int32_t *labels; /* [rows] */
    float *stack;          /* [rows][classes] */
    int64_t *order;        /* [rows], shuffled: the first `half` are one half, the rest the other */
    int64_t half;
} cst_bound_work;

static inline cst_status cst_bound_view(cst_context *context, cst_scope *scope,
                                        const cst_bound_work *work, const char *split,
                                        cst_view *out) {
    return cst_model_view(context, scope, work->model, work->pool, split, out);
}

/* The defaults with the option `only` as the stack was fitted with it; NULL: with every option. */
cst_status cst_bound_settings(cst_context *context, const cst_model *model, const char *only,
                              cst_settings *out);

/* Each computes its part and puts it at the end of the report. */
cst_status cst_bound_holdout(cst_context *context, const cst_bound_work *work, cst_report *report);
cst_status cst_bound_votes(cst_context *context, const cst_bound_work *work, cst_report *report);
cst_status cst_bound_sets(cst_context *context, const cst_bound_work *work, cst_report *report);
cst_status cst_bound_under_shift(cst_context *context, const cst_bound_work *work,
                                 cst_report *report);
cst_status cst_bound_calibration(cst_context *context, const cst_bound_work *work,
                                 cst_report *report);
cst_status cst_bound_spectrum(cst_context *context, cst_bound_work *work, cst_report *report);
cst_status cst_bound_blending(cst_context *context, const cst_bound_work *work, cst_report *report);
cst_status cst_bound_stability(cst_context *context, const cst_bound_work *work,
                               cst_report *report);
cst_status cst_bound_leakage(cst_context *context, const cst_bound_work *work, cst_report *report);
cst_status cst_bound_paper(cst_context *context, const cst_bound_work *work, cst_report *report);
