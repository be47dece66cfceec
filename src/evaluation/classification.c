/*
 * The table of classification: rows are samples, and every call is there.
 * Chosen by src/tasks. Paper: section "Experimental Setup".
 */
#include "evaluation/task.h"
#include "pipeline/pipeline.h"

const cst_task_calls cst_classification_calls = {
    .fit = cst_classification_fit,
    .inspect = cst_classification_inspect,
    .evaluate_member = cst_classification_evaluate_member,
    .evaluate_model = cst_classification_evaluate_model,
    .compare = cst_classification_compare,
    .ablate = cst_classification_ablate,
    .sweep = cst_classification_sweep,
};
