/* The table of scores. See the header. */
#include "report/task_scores.h"

/* key, label, decimals, scale, higher is better, has interval, in table, interval in table, in
 * summary, negative is none */
static const cst_score_spec CLASSIFICATION[] = {
    {"top1", "top-1 %", 2, 100, true, true, true, true, true, false},
    {"ece", "ECE", 4, 1, false, true, true, true, true, false},
    {"nll", "NLL", 4, 1, false, true, true, true, true, false},
    {"brier", "Brier", 4, 1, false, true, true, true, false, false},
    {"ece_mass", "ECE mass", 4, 1, false, true, false, true, false, false},
    {"ece_classwise", "ECE class-wise", 4, 1, false, true, false, true, false, false},
    {"ece_debiased", "ECE debiased", 4, 1, false, true, false, true, false, false},
    {"corp", "CORP", 4, 1, false, true, false, true, false, false},
};

static const cst_score_spec REGRESSION[] = {
    {"rmse", "RMSE", 5, 1, false, true, true, true, true, false},
    {"mae", "MAE", 5, 1, false, true, true, false, false, false},
    {"median_ae", "median AE", 5, 1, false, false, false, false, false, false},
    {"r2", "R^2", 4, 1, true, true, true, false, true, false},
    {"nll", "NLL", 4, 1, false, true, true, false, true, false},
};

static const cst_score_spec SEGMENTATION[] = {
    {"miou", "mIoU %", 2, 100, true, true, true, true, true, false},
    {"pixel_accuracy", "pixel %", 2, 100, true, true, true, false, false, false},
    {"mean_accuracy", "mean accuracy %", 2, 100, true, true, false, false, false, false},
    {"dice", "Dice %", 2, 100, true, true, false, true, false, false},
    {"fwiou", "fwIoU %", 2, 100, true, true, false, false, false, false},
    {"boundary_error", "edge %", 2, 100, false, true, true, false, false, false},
    {"boundary_iou", "boundary IoU %", 2, 100, true, true, false, false, false, false},
    {"ece", "ECE", 4, 1, false, true, true, false, true, false},
    {"nll", "NLL", 4, 1, false, true, true, false, true, false},
    {"brier", "Brier", 4, 1, false, true, false, false, false, false},
};

/* COCO's twelve; -1 where there is nothing to score. */
static const cst_score_spec DETECTION[] = {
    {"AP", "AP %", 2, 100, true, true, true, true, true, true},
    {"AP50", "AP50 %", 2, 100, true, true, true, false, true, true},
    {"AP75", "AP75 %", 2, 100, true, true, true, false, false, true},
    {"APs", "APs %", 2, 100, true, false, true, false, false, true},
    {"APm", "APm %", 2, 100, true, false, true, false, false, true},
    {"APl", "APl %", 2, 100, true, false, true, false, false, true},
    {"AR1", "AR1 %", 2, 100, true, false, false, false, false, true},
    {"AR10", "AR10 %", 2, 100, true, false, false, false, false, true},
    {"AR100", "AR100 %", 2, 100, true, true, false, true, false, true},
    {"ARs", "ARs %", 2, 100, true, false, false, false, false, true},
    {"ARm", "ARm %", 2, 100, true, false, false, false, false, true},
    {"ARl", "ARl %", 2, 100, true, false, false, false, false, true},
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
