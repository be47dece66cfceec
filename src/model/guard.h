/* The guard inside the library: batches of a prediction are tested, and mixed with the average of
 * all members. */
#pragma once

#include "model/stack.h"

#include <corestack/guard.h>

struct cst_guard_report {
    cst_scope scope;
    int64_t rows;
    int64_t count;            /* batches */
    cst_guard_batch *batch;   /* [count] */
    bool cases;               /* of a segmentation: a batch is a case */
    char **name;              /* [count] of the cases of a split; else NULL */
    double *level;            /* [rows]; of cases [count] */
    double *lambda;           /* the same */
    const cst_mixing *mixing; /* of the model, if batches lean by it: no member may be absent */
    cst_mixing_row *stack;    /* [rows]: its prediction; NULL without `mixing` */
    int64_t fired;
    int64_t untested;
    int32_t members; /* of the average */
    int32_t others;  /* of them, those that the model leaves out */
    double cost[2];  /* of those: FLOPs, milliseconds */
};

/* A batch in which nothing was found. */
cst_guard_batch cst_guard_batch_of(int64_t first, int64_t rows);

/* How batches lean on the average; NULL: by the rows' levels alone. */
const cst_mixing *cst_guard_mixing(const cst_model *model);

/* Tests the cases of a segmentation's split that is loaded as `view`. *out: NULL if nothing was
 * tested. */
cst_status cst_guard_test_maps(cst_context *context, const cst_model *model, const cst_pool *pool,
                               const char *split, const cst_view *view, const cst_guard *guard,
                               cst_guard_report **out);
/* Mixes rows first..first+count-1, as far as they are of batches that fired, with the average of a
 * view of all members; out [count] has the stack's prediction of them. */
cst_status cst_guard_mix(cst_context *context, const cst_guard_report *report, const cst_view *all,
                         int64_t first, int64_t count, float *out);
/* The weight of the average in a row. */
double cst_guard_lambda(const cst_guard_report *report, int64_t row);

/* A view of the model's members and of those of the fit that the pool has too, which are loaded.
 * Its pointers are the report's. */
cst_status cst_guard_all(cst_context *context, const cst_model *model, cst_pool *pool,
                         const char *split, const cst_view *view, cst_guard_report *report,
                         cst_view *all);

/* Guards the prediction of a split, loaded as `view`. *report: NULL where nothing was tested. */
cst_status cst_guard_split(cst_context *context, const cst_model *model, cst_pool *pool,
                           const char *split, const cst_view *view, const cst_guard *guard,
                           float *out, cst_guard_report **report);

/* Whether a member that the fit left out came back in an adaptation. */
bool cst_guard_is_input(const cst_model *model, int32_t other);

/* Gives notices of what was found in a split. */
void cst_guard_tell(cst_context *context, const cst_model *model, const char *split,
                    cst_guard_mode mode, const cst_guard_report *report);

/* ---- label shift ---- */

struct cst_label_report {
    cst_scope scope;
    cst_label_method method;
    int32_t classes;
    int64_t count; /* batches */
    int64_t applied;
    cst_label_batch *batch; /* [count] */
    cst_label_shift *shift; /* [count] */
    float *fit;             /* [classes]: shares in the fit */
};

/* CST_ERROR_UNSUPPORTED where class shares cannot be estimated with the model. */
cst_status cst_labels_check(cst_context *context, const cst_model *model);

/* ---- a stream ---- */

typedef struct cst_stream_guard cst_stream_guard;

/* window: at least CST_NOVELTY_BATCH_MIN rows. */
cst_status cst_stream_guard_make(cst_context *context, const cst_model *model, int64_t window,
                                 cst_stream_guard **out);
void cst_stream_guard_free(cst_context *context, cst_stream_guard *stream);

/* The next row: predictions [members] and, from `at` on, others ([others], or NULL; entries may be
 * NULL) are its probabilities [classes]. out: the stack's prediction, which is changed where the
 * window is unlike the fit. */
void cst_stream_guard_row(cst_stream_guard *stream, const float *const *predictions,
                          const float *const *others, int64_t at, float *out);

/* The state of the window after the last row. */
void cst_stream_guard_found(const cst_stream_guard *stream, cst_guard_batch *out);
