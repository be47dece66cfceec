/* Decisions from probabilities: by offsets of the classes that a metric is best with, or by costs.
 * docs/metrics.md#decisions. */
#pragma once

#include "stats/metric_list.h"

/* Probabilities below count as so much where offsets are added to their logarithms. */
#define CST_DECISION_LEAST 1e-12

/* One of the two, or neither: the class with the largest probability. */
typedef struct cst_decision {
    int32_t classes;
    const double *offsets; /* [classes]: added to the logarithms of the probabilities */
    const double
        *costs; /* [classes][classes]: of the decision (column) where a class (row) is true */
} cst_decision;

/* Decides rows [rows][classes]; equal ones go to the lowest class. decision: NULL: none. */
void cst_decision_apply(const cst_decision *decision, const float *probabilities, int64_t rows,
                        int32_t classes, int32_t *out);

/* More classes than these have no offsets searched. */
enum { CST_DECISION_CLASSES = 128 };

/* Searches offsets [classes] that the metric, one of decisions, is best with on rows. */
cst_status cst_decision_search(cst_context *context, cst_metric_choice choice,
                               const cst_metric_rows *rows, double *offsets);

/* The search with rows of each fold decided by offsets found on the others, in decided [rows].
 * *gain: of the metric over the largest probability. Offsets [classes] are found on all rows, and
 * all 0, with such decisions, where there is no gain. */
cst_status cst_decision_cross(cst_context *context, cst_metric_choice choice,
                              const cst_metric_rows *rows, const int32_t *folds, int32_t fold_count,
                              int32_t *decided, double *offsets, double *gain);
