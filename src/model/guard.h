/*
 * The guard inside the library: batches of a prediction are tested, and mixed with the average of
 * all members. After prediction. corestack/guard.h, model/shift/novelty.h.
 */
#ifndef CST_MODEL_GUARD_H
#define CST_MODEL_GUARD_H

#include "model/stack.h"

#include <corestack/guard.h>

struct cst_guard_report {
    cst_scope scope;
    int64_t rows;
    int64_t count;          /* batches */
    cst_guard_batch *batch; /* [count] */
    bool cases;             /* of a segmentation: a batch is a case */
    char **name;            /* [count] of the cases of a split; else NULL */
    double *level;          /* [rows]; of cases [count] */
    double *lambda;         /* the same */
    const cst_lean *lean;   /* of the model, if batches lean by it: no member may be absent */
    cst_lean_row *stack;    /* [rows]: its prediction; NULL without `lean` */
    int64_t fired;
    int64_t untested;
    int32_t members; /* of the average */
    int32_t others;  /* of them, those that the model leaves out */
    double cost[2];  /* of those: FLOPs, milliseconds */
};

/* A batch in which nothing was found. */
cst_guard_batch cst_guard_batch_of(int64_t first, int64_t rows);

/* How batches lean on the average; NULL: by the rows' levels alone. */
const cst_lean *cst_guard_lean(const cst_model *model);

/* Measures the rows of a view of the model's members, in batches. predicted: [rows][classes], the
 * stack's prediction. conditions: at least 1, of as many rows each. */
cst_status cst_guard_test(cst_context *context, const cst_model *model, const cst_view *view,
                          const float *predicted, int64_t conditions, int64_t batch,
                          cst_guard_report **out);

/* Whether the model stores what batches of its task are compared with. */
bool cst_guard_known(const cst_model *model);

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

#endif
