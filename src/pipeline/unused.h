/*
 * Members that no meta-learner of a blend reads any more. After stage S4: nobody should run them.
 */
#ifndef CST_PIPELINE_UNUSED_H
#define CST_PIPELINE_UNUSED_H

#include "pipeline/stages.h"

/* Takes members without a weight in any learner out of a model without names: mixing, weights,
 * scalings, refits and what a regression knows of their coefficients. Members whose disagreement
 * its variance grows with stay. used: [model->members as it was], out: who stays, at least one. A
 * gate whose aggregators have no weight leaves first; one that is read keeps every member. */
cst_status cst_model_drop_unused(cst_context *context, cst_model *model, bool *used);

/* The same of the stages' model and list of kept members, whose reason says so. */
cst_status cst_stages_drop_unused(cst_context *context, cst_stages *stages);

#endif
