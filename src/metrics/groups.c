/*
 * Accuracy on head, mid and tail classes by training count. After prediction, for long-tailed data.
 * docs/robustness.md#groups.
 */
#include <corestack/metrics.h>

#include "metrics/samples.h"

#include <math.h>

static cst_status check_groups(cst_context *context, int32_t classes,
                               const int64_t *training_counts, int64_t head_above,
                               int64_t tail_below) {
    if (!training_counts || head_above < 0 || tail_below < 0 || tail_below - 1 > head_above)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "head above %lld and tail below %lld training samples: choose limits that "
                        "no class can satisfy both of, and give the training counts",
                        (long long)head_above, (long long)tail_below);
    for (int32_t c = 0; c < classes; c++)
        if (training_counts[c] < 0)
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "class %d has %lld training samples: counts must be 0 or more", c,
                            (long long)training_counts[c]);
    return CST_OK;
}

cst_status cst_group_accuracy_evaluate(cst_context *context, const float *probabilities,
                                       int64_t rows, int32_t classes, const int32_t *labels,
                                       const int64_t *training_counts, int64_t head_above,
                                       int64_t tail_below, cst_group_accuracy *out) {
    enum { HEAD, MID, TAIL, GROUPS };
    cst_samples samples = {0};
    int64_t total[GROUPS] = {0};
    int64_t right[GROUPS] = {0};
    double accuracy[GROUPS];
    CST_ENTER(context);
    CST_FITS(context, rows, classes, sizeof(*probabilities));
    if (!out)
        return cst_fail(context, CST_ERROR_ARGUMENT, "accuracy by group: the output is required");
    cst_status status = check_groups(context, classes, training_counts, head_above, tail_below);
    CST_TRY(cst_samples_make(context, probabilities, rows, classes, labels, &samples));
    if (status != CST_OK)
        goto cleanup;
    for (int64_t i = 0; i < rows; i++) {
        int64_t count = training_counts[labels[i]];
        int group = MID;
        if (count > head_above)
            group = HEAD;
        else if (count < tail_below)
            group = TAIL;
        total[group]++;
        right[group] += samples.correct[i];
    }
    for (int g = 0; g < GROUPS; g++)
        accuracy[g] = total[g] > 0 ? (double)right[g] / (double)total[g] : NAN;
    *out = (cst_group_accuracy){.head_samples = total[HEAD],
                                .mid_samples = total[MID],
                                .tail_samples = total[TAIL],
                                .accuracy_head = accuracy[HEAD],
                                .accuracy_mid = accuracy[MID],
                                .accuracy_tail = accuracy[TAIL]};
cleanup:
    cst_samples_free(context, &samples);
    return cst_why(context, status);
}
