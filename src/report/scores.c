/*
 * The columns that tables of methods share, and the rows of a document.
 * Used by the text, CSV and Markdown renderings. Paper: the layout of the main results table.
 */
#include "report/scores.h"

#include <math.h>
#include <string.h>

static const cst_score SCORES[] = {
    {"top1", "top1_ci", "top-1 %", CST_SCORE_BASIC, 2, 100, true},
    {"ece", "ece_ci", "ECE", CST_SCORE_BASIC, 4, 1, false},
    {"nll", "nll_ci", "NLL", CST_SCORE_BASIC, 4, 1, false},
    {"brier", "brier_ci", "Brier", CST_SCORE_BASIC, 4, 1, false},
    {"ece_mass", "ece_mass_ci", "ECE mass", CST_SCORE_FURTHER, 4, 1, false},
    {"ece_classwise", "ece_classwise_ci", "ECE class-wise", CST_SCORE_FURTHER, 4, 1, false},
    {"ece_debiased", "ece_debiased_ci", "ECE debiased", CST_SCORE_FURTHER, 4, 1, false},
    {"corp", "corp_ci", "CORP", CST_SCORE_FURTHER, 4, 1, false},
    {"ood_auroc", "ood_auroc_ci", "AUROC", CST_SCORE_OOD, 4, 1, true},
    {"ood_aupr", "ood_aupr_ci", "AUPR", CST_SCORE_OOD, 4, 1, true},
    {"ood_fpr95", "ood_fpr95_ci", "FPR@95", CST_SCORE_OOD, 4, 1, false},
    {"ood_auroc_entropy", "ood_auroc_entropy_ci", "AUROC entropy", CST_SCORE_OOD, 4, 1, true},
    {"ood_aupr_entropy", "ood_aupr_entropy_ci", "AUPR entropy", CST_SCORE_OOD, 4, 1, true},
    {"ood_fpr95_entropy", "ood_fpr95_entropy_ci", "FPR@95 entropy", CST_SCORE_OOD, 4, 1, false},
    {"miou", "miou_ci", "mIoU %", CST_SCORE_FURTHER, 2, 100, true},
    {"pixel_accuracy", "pixel_accuracy_ci", "pixel accuracy %", CST_SCORE_FURTHER, 2, 100, true},
    {"mean_accuracy", "mean_accuracy_ci", "mean accuracy %", CST_SCORE_FURTHER, 2, 100, true},
    {"dice", "dice_ci", "Dice %", CST_SCORE_FURTHER, 2, 100, true},
    {"fwiou", "fwiou_ci", "fwIoU %", CST_SCORE_FURTHER, 2, 100, true},
    {"boundary_error", "boundary_error_ci", "boundary error %", CST_SCORE_FURTHER, 2, 100, false},
    {"boundary_iou", "boundary_iou_ci", "boundary IoU %", CST_SCORE_FURTHER, 2, 100, true},
    {"ood_auroc_energy", "ood_auroc_energy_ci", "AUROC energy", CST_SCORE_OOD, 4, 1, true},
    {"ood_auroc_disagreement", "ood_auroc_disagreement_ci", "AUROC disagreement", CST_SCORE_OOD, 4,
     1, true},
    {"ood_auroc_mutual_information", "ood_auroc_mutual_information_ci", "AUROC mutual information",
     CST_SCORE_OOD, 4, 1, true},
    {"mce", "mce_ci", "mCE %", CST_SCORE_CORRUPTION, 2, 100, false},
    {"mce_normalised", "mce_normalised_ci", "normalised mCE %", CST_SCORE_CORRUPTION, 2, 100,
     false},
    {"mce_delta", "mce_delta_ci", "to clean %", CST_SCORE_CORRUPTION, 2, 100, false},
    {"mce_relative", "mce_relative_ci", "relative mCE %", CST_SCORE_CORRUPTION, 2, 100, false},
    {"accuracy_head", "accuracy_head_ci", "head %", CST_SCORE_CLASSES, 2, 100, true},
    {"accuracy_mid", "accuracy_mid_ci", "mid %", CST_SCORE_CLASSES, 2, 100, true},
    {"accuracy_tail", "accuracy_tail_ci", "tail %", CST_SCORE_CLASSES, 2, 100, true},
    {"balanced_accuracy", "balanced_accuracy_ci", "balanced %", CST_SCORE_CLASSES, 2, 100, true},
    {"worst_group_accuracy", "worst_group_accuracy_ci", "worst group %", CST_SCORE_CLASSES, 2, 100,
     true},
    {"worst_top1", "worst_top1_ci", "worst split %", CST_SCORE_CLASSES, 2, 100, true},
    {"rmse", "rmse_ci", "RMSE", CST_SCORE_VALUES, 5, 1, false},
    {"mae", "mae_ci", "MAE", CST_SCORE_VALUES, 5, 1, false},
    {"median_ae", "median_ae_ci", "median AE", CST_SCORE_VALUES, 5, 1, false},
    {"r2", "r2_ci", "R^2", CST_SCORE_VALUES, 4, 1, true},
    {"AP", "AP_ci", "AP %", CST_SCORE_BOXES, 2, 100, true},
    {"AP50", "AP50_ci", "AP50 %", CST_SCORE_BOXES, 2, 100, true},
    {"AP75", "AP75_ci", "AP75 %", CST_SCORE_BOXES, 2, 100, true},
    {"APs", "APs_ci", "APs %", CST_SCORE_BOXES, 2, 100, true},
    {"APm", "APm_ci", "APm %", CST_SCORE_BOXES, 2, 100, true},
    {"APl", "APl_ci", "APl %", CST_SCORE_BOXES, 2, 100, true},
    {"AR1", "AR1_ci", "AR1 %", CST_SCORE_BOXES, 2, 100, true},
    {"AR10", "AR10_ci", "AR10 %", CST_SCORE_BOXES, 2, 100, true},
    {"AR100", "AR100_ci", "AR100 %", CST_SCORE_BOXES, 2, 100, true},
    {"ARs", "ARs_ci", "ARs %", CST_SCORE_BOXES, 2, 100, true},
    {"ARm", "ARm_ci", "ARm %", CST_SCORE_BOXES, 2, 100, true},
    {"ARl", "ARl_ci", "ARl %", CST_SCORE_BOXES, 2, 100, true},
};

const cst_score *cst_score_at(size_t index) {
    return index < sizeof SCORES / sizeof SCORES[0] ? &SCORES[index] : NULL;
}

const cst_score *cst_score_find(const char *key) {
    for (size_t i = 0; cst_score_at(i); i++)
        if (strcmp(SCORES[i].key, key) == 0)
            return &SCORES[i];
    return NULL;
}

double cst_score_value(const json_t *row, const cst_score *score) {
    double value = cst_json_number(row, score->key);
    return score->group == CST_SCORE_BOXES && value < 0 ? NAN : value;
}

static bool better(const cst_score *score, double a, double b) {
    return isnan(b) || (score->more ? a > b : a < b);
}

cst_places cst_score_places(const json_t *rows, const cst_score *score) {
    cst_places places = {NAN, NAN};
    size_t count = json_array_size(rows);
    for (size_t i = 0; count > 1 && i < count; i++) {
        double value = cst_score_value(json_array_get(rows, i), score);
        if (isnan(value))
            continue;
        if (better(score, value, places.best)) {
            places.second = places.best;
            places.best = value;
        } else if (better(score, places.best, value) && better(score, value, places.second)) {
            places.second = value;
        }
    }
    return places;
}

cst_style cst_score_style(const cst_places *places, double value) {
    if (value >= places->best && value <= places->best)
        return CST_BOLD;
    return value >= places->second && value <= places->second ? CST_UNDERLINE : CST_PLAIN;
}

static bool same(const char *a, const char *b) {
    return a && b && strcmp(a, b) == 0;
}

double cst_score_adjusted_p(const json_t *root, const char *method, const char *metric) {
    const json_t *tests = json_object_get(root, "tests");
    const char *reference = cst_json_string(root, "reference");
    for (size_t i = 0; i < json_array_size(tests); i++) {
        const json_t *test = json_array_get(tests, i);
        const char *a = cst_json_string(test, "a");
        const char *b = cst_json_string(test, "b");
        bool pair =
            (same(a, reference) && same(b, method)) || (same(b, reference) && same(a, method));
        if (pair && same(cst_json_string(test, "metric"), metric))
            return cst_json_number(test, "p_adjusted");
    }
    return NAN;
}

/* ---- rows ---- */

/* jansson's setters take what they refer to without const and leave it alone. */
static json_t *shared(const json_t *value) {
    return json_incref((json_t *)(uintptr_t)value);
}

/* Sets a key of `row` to what `root` has there; false without memory. */
static bool copy_key(json_t *row, const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    return !value || json_object_set_new(row, key, shared(value)) == 0;
}

/* An evaluation's own scores as a row, like those of its baselines; a new reference. */
static json_t *row_of_evaluation(const json_t *root) {
    static const char *const more[] = {
        "detections", "models", "clean_error", "families",    "kinds",
        "severities", "on",     "worst_split", "worst_group", "worst_group_samples",
        "ood_scores"};
    const char *name = cst_json_string(root, "split") ? "corestack" : "predictions";
    json_t *row = json_pack("{s:s}", "method", name);
    bool kept = row != NULL;
    for (size_t i = 0; kept && cst_score_at(i); i++)
        kept = copy_key(row, root, SCORES[i].key) && copy_key(row, root, SCORES[i].interval);
    for (size_t i = 0; kept && i < sizeof more / sizeof more[0]; i++)
        kept = copy_key(row, root, more[i]);
    if (kept)
        return row;
    json_decref(row);
    return NULL;
}

static json_t *rows_of_evaluation(const json_t *root) {
    json_t *rows = json_array();
    const json_t *baselines = json_object_get(root, "baselines");
    bool failed = !rows || json_array_append_new(rows, row_of_evaluation(root)) != 0;
    for (size_t i = 0; !failed && i < json_array_size(baselines); i++)
        failed = json_array_append_new(rows, shared(json_array_get(baselines, i))) != 0;
    if (failed) {
        json_decref(rows);
        return NULL;
    }
    return rows;
}

json_t *cst_document_rows(const json_t *root) {
    const json_t *rows = json_object_get(root, "rows");
    if (rows)
        return shared(rows);
    return same(cst_json_string(root, "command"), "evaluate") ? rows_of_evaluation(root)
                                                              : json_array();
}
