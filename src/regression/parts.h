/*
 * The finished stages of a regression as checkpoint parts (io/checkpoint.h).
 */
#ifndef CST_REGRESSION_PARTS_H
#define CST_REGRESSION_PARTS_H

#include "pipeline/parts.h"
#include "regression/stages.h"

/* For cst_checkpoint_part: object is a cst_value_stages with the arrays of its base. Contains the
 * members that removals have left, and their fit. */
void cst_pack_value_fit(cst_pack *pack, void *object);

#endif
