/* What a fit found of its members, kept with the model: their scores, why some left, the path of
 * the selection and the front, under the keys of the fit's document. docs/model-format.md#hist. */
#pragma once

#include "model/stack.h"
#include "report/report.h"

/* Takes these parts of a fit's document into its model. */
cst_status cst_model_remember(cst_context *context, cst_model *model, const cst_report *report);
