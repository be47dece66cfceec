/* Scores and metrics in words. docs/metrics.md. */
#include "stats/metric_list.h"

#include <string.h>

static const struct definition {
    const char *name;
    const char *text;
} DEFINITIONS[] = {
    {"top1", "fraction of samples whose most probable class is the label; ties go to the "
             "lowest class"},
    {"nll", "mean of -log p(label) in nats, with p clipped to at least 1e-15"},
    {"brier", "multiclass Brier score, from 0 to 2: mean over samples of the sum over "
              "classes of (p - y)^2"},
    {"ece", "top-label expected calibration error (l1) with equal-width bins (15 by "
            "default) [lo, hi), the last one closed: sum of n_b / N |accuracy - "
            "confidence|"},
    {"ece_mass",
     "top-label expected calibration error (l1) with equal-mass bins, as many as for ece; "
     "samples with the same confidence share a bin"},
    {"ece_classwise", "mean over classes of the l1 calibration error of the class "
                      "probability, with the bins of ece"},
    {"ece_debiased",
     "ece minus its finite-sample bias under a normal approximation (Kumar et al. 2019, "
     "expectation in closed form), at least 0"},
    {"corp", "miscalibration term of the CORP decomposition for the top label: Brier "
             "score of the confidence minus the Brier score after isotonic recalibration"},
    {"accuracy_head", "top1 on classes with many training samples (by default more than "
                      "100)"},
    {"accuracy_mid", "top1 on classes between head and tail (by default 20 to 100 "
                     "training samples)"},
    {"accuracy_tail", "top1 on classes with few training samples (by default fewer than 20)"},
    {"auroc_out_positive", "probability that an out-of-distribution sample scores higher "
                           "than an in-distribution one; ties count one half"},
    {"aupr_out_positive", "average precision with out-of-distribution samples as "
                          "positives: sum over distinct scores, from the highest, of "
                          "precision times the increase in recall"},
    {"fpr95_out_positive", "false positive rate on in-distribution samples at the highest "
                           "threshold that detects at least 95% of the "
                           "out-of-distribution samples"},
    {"aupr_in_positive", "average precision with in-distribution samples as positives: "
                         "sum over distinct scores, from the lowest, of precision times "
                         "the increase in recall"},
    {"fpr95_in_positive", "false positive rate on out-of-distribution samples at the "
                          "lowest threshold that accepts at least 95% of the "
                          "in-distribution samples"},
    {"detection_error", "minimum over thresholds of the mean of the two error rates: "
                        "in-distribution samples flagged as out, and out-of-distribution "
                        "samples accepted as in"},
    {"energy", "-logsumexp of a member's logits, averaged over the members used with the "
               "stack's weights (negative weights as 0): higher means more out of "
               "distribution"},
    {"disagreement", "fraction of the members used whose most probable class differs from "
                     "the stack's, weighted by the stack's weights (negative weights as "
                     "0)"},
    {"mutual_information",
     "entropy of the members' mean minus the mean of their entropies in nats, both with "
     "the stack's weights (negative weights as 0): higher means more out of distribution"},
    {"mce", "mean over corruption kinds of the mean error over severities, as a fraction, "
            "not normalised by a reference"},
    {"mce_normalised", "mean over corruption kinds of the summed error over severities "
                       "divided by that of the reference: 1 equals the reference"},
    {"mce_delta", "mce, or with reference errors mce_normalised, minus the error on the clean "
                  "split"},
    {"mce_relative", "mean over corruption kinds of the increase over the clean error, "
                     "summed over severities, divided by that of the reference (Hendrycks "
                     "and Dietterich 2019)"},
    {"balanced_accuracy", "mean of top1 per class, over the classes that occur"},
    {"worst_group_accuracy", "the lowest top1 among the groups of rows"},
    {"worst_top1", "the lowest top1 among the scored splits"},
    {"max_probability", "negative of the largest class probability: higher means more out "
                        "of distribution"},
    {"rmse", "root mean squared error; with several outputs, the mean of their RMSEs"},
    {"mae", "mean absolute error; with several outputs, their mean"},
    {"median_ae", "median absolute error; with several outputs, their mean"},
    {"r2", "1 - sum of squared errors / sum of squared deviations of the targets from "
           "their mean over the scored rows; with several outputs, their mean"},
    {"nll_gaussian", "mean of -log of the normal density with the predicted mean and "
                     "variance at the target, in nats; with several outputs, their mean"},
    {"coverage", "fraction of the targets inside their interval; with several outputs, "
                 "their mean"},
    {"width", "mean width of the intervals in units of the target; with several outputs, "
              "their mean"},
    {"predictive_entropy", "entropy of the predicted distribution in nats: higher means more "
                           "out of distribution"},
};

const char *cst_metric_definition(const char *name) {
    for (size_t i = 0; name && i < sizeof DEFINITIONS / sizeof DEFINITIONS[0]; i++)
        if (strcmp(DEFINITIONS[i].name, name) == 0)
            return DEFINITIONS[i].text;
    return name ? cst_metric_meaning(name) : NULL;
}
