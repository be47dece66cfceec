/*
 * Members that no meta-learner of a blend reads any more. After stage S4: nobody should run them.
 */
#ifndef CST_PIPELINE_UNUSED_H
#define CST_PIPELINE_UNUSED_H

#include "fit/stages.h"

/* The same of the stages' model and list of kept members, whose reason says so. */
cst_status cst_stages_drop_unused(cst_context *context, cst_stages *stages);

#endif
