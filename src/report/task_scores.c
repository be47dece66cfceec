/*
 * The table of scores. See the header.
 */
#include "report/task_scores.h"

/* key, label, decimals, scale, higher is better, has interval, in table, in summary */
static const cst_score_spec CLASSIFICATION[] = {
    {"top1", "top-1 %", 2, 100, true, true, true, true},
    {"ece", "ECE", 4, 1, false, true, true, true},
    {"nll", "NLL", 4, 1, false, true, true, true},
    {"brier", "Brier", 4, 1, false, true, true, false},
    {"ece_mass", "ECE mass", 4, 1, false, true, false, false},
    {"ece_classwise", "ECE class-wise", 4, 1, false, true, false, false},
    {"ece_debiased", "ECE debiased", 4, 1, false, true, false, false},
    {"corp", "CORP", 4, 1, false, true, false, false},
};

static const cst_score_spec REGRESSION[] = {
    {"rmse", "RMSE", 5, 1, false, true, true, true},
    {"mae", "MAE", 5, 1, false, true, true, false},
    {"median_ae", "median AE", 5, 1, false, false, false, false},
    {"r2", "R^2", 4, 1, true, true, true, true},
    {"nll", "NLL", 4, 1, false, true, true, true},
};

static const cst_score_spec SEGMENTATION[] = {
    {"miou", "mIoU %", 2, 100, true, true, true, true},
    {"pixel_accuracy", "pixel accuracy %", 2, 100, true, true, true, false},
    {"mean_accuracy", "mean accuracy %", 2, 100, true, true, false, false},
    {"dice", "Dice %", 2, 100, true, true, true, false},
    {"fwiou", "fwIoU %", 2, 100, true, true, false, false},
    {"boundary_error", "boundary error %", 2, 100, false, true, true, false},
    {"boundary_iou", "boundary IoU %", 2, 100, true, true, false, false},
    {"ece", "ECE", 4, 1, false, true, true, true},
    {"nll", "NLL", 4, 1, false, true, true, true},
    {"brier", "Brier", 4, 1, false, true, false, false},
};

/* COCO's twelve; -1 where there is nothing to score. */
static const cst_score_spec DETECTION[] = {
    {"AP", "AP %", 2, 100, true, true, true, true},
    {"AP50", "AP50 %", 2, 100, true, true, true, true},
    {"AP75", "AP75 %", 2, 100, true, true, true, false},
    {"APs", "APs %", 2, 100, true, false, false, false},
    {"APm", "APm %", 2, 100, true, false, false, false},
    {"APl", "APl %", 2, 100, true, false, false, false},
    {"AR1", "AR1 %", 2, 100, true, false, false, false},
    {"AR10", "AR10 %", 2, 100, true, false, false, false},
    {"AR100", "AR100 %", 2, 100, true, true, true, false},
    {"ARs", "ARs %", 2, 100, true, false, false, false},
    {"ARm", "ARm %", 2, 100, true, false, false, false},
    {"ARl", "ARl %", 2, 100, true, false, false, false},
};

#define COUNT(list) ((int32_t)(sizeof(list) / sizeof(list)[0]))

static const struct task_table {
    const cst_score_spec *scores;
    int32_t count;
} TABLES[] = {
    [CST_TASK_CLASSIFICATION] = {CLASSIFICATION, COUNT(CLASSIFICATION)},
    [CST_TASK_REGRESSION] = {REGRESSION, COUNT(REGRESSION)},
    [CST_TASK_SEGMENTATION] = {SEGMENTATION, COUNT(SEGMENTATION)},
    [CST_TASK_DETECTION] = {DETECTION, COUNT(DETECTION)},
};

const cst_score_spec *cst_task_scores(cst_task task, int32_t *count) {
    *count = TABLES[task].count;
    return TABLES[task].scores;
}
