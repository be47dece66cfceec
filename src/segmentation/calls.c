/*
 * The table of segmentation. Chosen by src/tasks. Paper: section "Dense Prediction".
 */
#include "segmentation/segmentation.h"

const cst_task_calls cst_segmentation_calls = {
    .fit = cst_segmentation_fit,
    .inspect = cst_segmentation_inspect,
    .evaluate_member = cst_segmentation_evaluate_member,
    .evaluate_model = cst_segmentation_evaluate_model,
    .compare = cst_segmentation_compare,
};
