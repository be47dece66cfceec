/*
 * What is said of methods beyond their scores on one split: which parts the targets call for, and
 * their definitions. docs/robustness.md.
 */
#include "tasks/classification/shift.h"

bool cst_shift_scores(const cst_targets *targets) {
    return targets->scored > 1 || targets->list[0].conditions > 0;
}

cst_status cst_shift_report(cst_context *context, const cst_shift *shift) {
    const cst_targets *targets = shift->targets;
    bool plain = !cst_shift_scores(targets);
    const char *split = targets->list[0].split;
    cst_status status = CST_OK;
    if (targets->list[0].conditions > 0)
        status = cst_shift_corruption(context, shift);
    else if (targets->scored > 1)
        status = cst_shift_splits(context, shift);
    else if (shift->reference_errors)
        status =
            cst_fail(context, CST_ERROR_ARGUMENT,
                     "reference errors are for splits with conditions, and '%s' has none", split);
    if (status == CST_OK && plain)
        status = cst_shift_classes(context, shift);
    if (status == CST_OK && plain && cst_pool_groups(shift->pool, split))
        status = cst_shift_groups(context, shift);
    if (status == CST_OK && plain)
        status = cst_shift_domains(context, shift);
    if (status == CST_OK && targets->list[targets->count - 1].role == CST_TARGET_OOD)
        status = cst_shift_ood(context, shift);
    return status;
}

static void define(cst_report *report, json_t *object, const char *const *names) {
    for (; *names; names++)
        cst_report_string(report, object, *names, cst_metric_definition(*names));
}

void cst_shift_definitions(cst_report *report, json_t *object, const cst_pool *pool,
                           const cst_targets *targets) {
    static const char *const corruption[] = {"mce", "mce_normalised", "mce_delta", "mce_relative",
                                             NULL};
    static const char *const splits[] = {"worst_top1", NULL};
    static const char *const classes[] = {"accuracy_head", "accuracy_mid", "accuracy_tail",
                                          "balanced_accuracy", NULL};
    static const char *const groups[] = {"worst_group_accuracy", NULL};
    static const char *const ood[] = {"auroc_out_positive",
                                      "aupr_out_positive",
                                      "fpr95_out_positive",
                                      "aupr_in_positive",
                                      "fpr95_in_positive",
                                      "detection_error",
                                      "max_probability",
                                      "predictive_entropy",
                                      "disagreement",
                                      "mutual_information",
                                      NULL};
    static const char *const energy[] = {"energy", NULL};
    bool plain = !cst_shift_scores(targets);
    bool out = targets->list[targets->count - 1].role == CST_TARGET_OOD;
    if (targets->list[0].conditions > 0)
        define(report, object, corruption);
    if (targets->scored > 1)
        define(report, object, splits);
    if (plain && cst_pool_training_counts(pool))
        define(report, object, classes);
    if (plain && cst_pool_groups(pool, targets->list[0].split))
        define(report, object, groups);
    if (out)
        define(report, object, ood);
    if (out && cst_pool_has_logits(pool))
        define(report, object, energy);
}
