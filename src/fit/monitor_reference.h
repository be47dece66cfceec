/*
 * Computes the reference that a fit stores for the monitor from its out-of-fold rows.
 * docs/model-format.md, section MONI.
 */
#ifndef CST_PIPELINE_MONITOR_REFERENCE_H
#define CST_PIPELINE_MONITOR_REFERENCE_H

#include "model/shift/watch.h"
#include "model/stack.h"

/* The rows that are looked at, and which of them the stack has predicted. */
typedef struct cst_watched {
    int64_t count;  /* 0: the model has nothing for a monitor */
    int64_t *place; /* [count] in the view of the fit, ascending */
    int64_t next;   /* the first that is not predicted yet */
    cst_watch_rows rows;
} cst_watched;

/* rows: a view of the kept members. Free with cst_watched_free, also after a failure. */
cst_status cst_watched_begin(cst_context *context, const cst_view *rows, const cst_model *model,
                             cst_watched *out);
void cst_watched_free(cst_context *context, cst_watched *watched);

/* What the stack predicts of row `place` of that view, if it is the next one: a row that was
 * predicted for something else is not predicted twice where both look at every row. */
void cst_watched_take(cst_watched *watched, int64_t place, const float *p, int32_t classes);

/* Adds what the monitor needs to a model that is complete otherwise. */
cst_status cst_watched_end(cst_context *context, const cst_view *rows, cst_watched *watched,
                           cst_model *model);

/* Rows that are predicted at a time: whole blocks, of 2 MiB where there are many classes. */
int64_t cst_watched_part(int64_t rows, int32_t classes);

#endif
