/* What the documents of evaluations share. Keys: docs/json.md. */
#ifndef CST_CLASSIFICATION_EVALUATE_H
#define CST_CLASSIFICATION_EVALUATE_H

#include "fit/task.h"

#include <corestack/metrics.h>

/* "reliability" of probabilities [rows][classes]. */
cst_status cst_evaluation_reliability(cst_context *context, cst_report *report,
                                      const float *probabilities, int64_t rows, int32_t classes,
                                      const int32_t *labels, const double *weights);

#endif
