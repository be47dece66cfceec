/*
 * What a fit stores about its out-of-fold rows for the monitor. After stage S4.
 * docs/model-format.md, section MONI.
 */
#ifndef CST_PIPELINE_WATCHED_H
#define CST_PIPELINE_WATCHED_H

#include "model/stack.h"

/* Adds it to a model of a classification that is complete otherwise; nothing to others, nor where
 * there are too few rows. rows: a view of the kept members. */
cst_status cst_fit_watch(cst_context *context, const cst_view *rows, cst_model *model);

#endif
