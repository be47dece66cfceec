/*
 * Top-1, NLL, Brier and the calibration errors of one method, with their definitions as text.
 * After prediction. docs/json.md#evaluate.
 */
#include <corestack/metrics.h>

#include "stats/levels.h"
#include "stats/samples.h"
#include "stats/weighted.h"

#include <math.h>
#include <string.h>

/* ---- sums over samples ---- */

typedef struct sum_job {
    const cst_samples *samples;
    int32_t bins;
} sum_job;

/* sum: [0] correct, [1] NLL, [2] Brier, then [bins][CST_BIN_WIDTH]. */
static cst_status sum_block(cst_context *context, void *user, int64_t block, double *sum) {
    (void)context;
    const sum_job *job = user;
    const cst_samples *s = job->samples;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(s->rows, block);
    double *binned = sum + 3;
    for (int64_t i = first; i < end; i++) {
        double weight = s->weight ? s->weight[i] : 1;
        sum[0] += weight * s->correct[i];
        sum[1] += s->nll ? weight * s->nll[i] : 0;
        sum[2] += s->brier ? weight * s->brier[i] : 0;
        double *bin = binned + (size_t)cst_bin_of(s->confidence[i], job->bins) * CST_BIN_WIDTH;
        bin[CST_BIN_COUNT] += weight;
        bin[CST_BIN_CORRECT] += weight * s->correct[i];
        bin[CST_BIN_CONFIDENCE] += weight * s->confidence[i];
    }
    return CST_OK;
}

static cst_status sums(cst_context *context, const cst_samples *samples, int32_t bins,
                       cst_metrics *out) {
    size_t width = 3 + (size_t)bins * CST_BIN_WIDTH;
    double *total = cst_alloc(context, width, sizeof *total);
    if (!total)
        return CST_ERROR_MEMORY;
    sum_job job = {samples, bins};
    cst_status status =
        cst_reduce_blocks(context, cst_block_count(samples->rows), width, sum_block, &job, total);
    if (status == CST_OK) {
        double rows = cst_samples_weight(samples);
        out->top1 = total[0] / rows;
        out->nll = total[1] / rows;
        out->brier = total[2] / rows;
        cst_bin_errors(total + 3, bins, rows, &out->ece, &out->ece_debiased);
    }
    cst_free(context, total);
    return status;
}

cst_status cst_samples_ece(cst_context *context, const cst_samples *samples, double *out) {
    cst_metrics scores = {0};
    int32_t bins = 0;
    cst_status status = cst_bins_check(context, 0, &bins);
    CST_THEN(sums(context, samples, bins, &scores));
    *out = scores.ece;
    return status;
}

/* ---- class-wise ---- */

typedef struct class_job {
    const cst_view *view;
    int32_t member;
    int32_t bins;
} class_job;

/* sum: [classes][bins], one-hot target minus probability. */
static cst_status class_block(cst_context *context, void *user, int64_t block, double *sum) {
    const class_job *job = user;
    const cst_view *view = job->view;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(view->rows, block);
    size_t classes = (size_t)view->classes;
    const float *rows = NULL;
    float *scratch =
        cst_alloc(context, cst_view_copies(view) ? (size_t)count * classes : 0, sizeof *scratch);
    cst_status status =
        scratch ? cst_view_rows(context, view, job->member, first, count, scratch, &rows)
                : CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && i < count; i++) {
        const float *row = rows + (size_t)i * classes;
        double weight = cst_view_weight(view, first + i);
        for (int32_t c = 0; c < view->classes; c++) {
            double p = (double)row[c];
            size_t at = (size_t)c * (size_t)job->bins + (size_t)cst_bin_of(p, job->bins);
            double gap = (cst_view_label(view, first + i) == c ? 1.0 : 0.0) - p;
            sum[at] += view->weights ? weight * gap : gap;
        }
    }
    cst_free(context, scratch);
    return status;
}

static cst_status classwise(cst_context *context, const class_job *job, double *out) {
    size_t width = 0;
    if (!cst_size_mul((size_t)job->view->classes, (size_t)job->bins, &width))
        return cst_fail(context, CST_ERROR_LIMIT, "%d classes in %d bins are too many",
                        job->view->classes, job->bins);
    double *total = cst_alloc(context, width, sizeof *total);
    if (!total)
        return CST_ERROR_MEMORY;
    cst_status status = cst_reduce_blocks(context, cst_block_count(job->view->rows), width,
                                          class_block, (void *)job, total);
    double sum = 0;
    for (size_t j = 0; j < width; j++)
        sum += fabs(total[j]);
    *out = sum / (cst_view_weight_sum(job->view) * (double)job->view->classes);
    cst_free(context, total);
    return status;
}

/* ---- all ---- */

static cst_status ordered(cst_context *context, const cst_samples *samples, int32_t bins,
                          cst_metrics *out) {
    cst_order order;
    cst_level *levels = cst_alloc(context, (size_t)samples->rows, sizeof *levels);
    cst_status status = cst_order_make(context, samples, bins, &order);
    if (!levels)
        status = CST_ERROR_MEMORY;
    if (status == CST_OK) {
        int64_t count = cst_order_levels(&order, NULL, levels, NULL);
        double total = cst_samples_weight(samples);
        out->ece_mass = cst_equal_mass_error(levels, count, total, bins);
        out->corp = cst_corp_miscalibration(levels, count, total);
    }
    cst_order_free(context, &order);
    cst_free(context, levels);
    return status;
}

cst_status cst_metrics_evaluate(cst_context *context, const float *probabilities, int64_t rows,
                                int64_t classes_given, const int32_t *labels, int bins,
                                cst_metrics *out) {
    CST_ENTER(context);
    CST_COUNT(context, classes, classes_given);
    CST_FITS(context, rows, classes, sizeof(*probabilities));
    cst_status status = cst_scores_check(context, out, probabilities, rows, classes, labels,
                                         "cst_metrics_evaluate: context and scores are required");
    if (status != CST_OK)
        return status;
    return cst_why(context, cst_metrics_weighted(context, probabilities, rows, classes, labels,
                                                 NULL, bins, out));
}

cst_status cst_metrics_weighted(cst_context *context, const float *probabilities, int64_t rows,
                                int32_t classes, const int32_t *labels, const double *weights,
                                int bins, cst_metrics *out) {
    cst_view view = cst_view_of_one(&probabilities, rows, classes, labels, weights);
    return cst_metrics_of(context, &view, 0, bins, true, out);
}

cst_status cst_metrics_of(cst_context *context, const cst_view *view, int32_t member, int bins,
                          bool all, cst_metrics *out) {
    cst_samples samples = {0};
    class_job job = {view, member, 0};
    *out = (cst_metrics){.samples = view->rows, .ece_mass = NAN, .ece_classwise = NAN, .corp = NAN};
    cst_status status = cst_bins_check(context, bins, &job.bins);
    CST_THEN((all ? cst_samples_of : cst_samples_of_own)(context, view, member, &samples));
    CST_THEN(sums(context, &samples, job.bins, out));
    if (status == CST_OK && all)
        status = classwise(context, &job, &out->ece_classwise);
    if (status == CST_OK && all)
        status = ordered(context, &samples, job.bins, out);
    out->bins = job.bins;
    cst_samples_free(context, &samples);
    return status;
}

const char *cst_metric_definition(const char *name) {
    static const struct {
        const char *name;
        const char *text;
    } table[] = {
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
    for (size_t i = 0; name && i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].text;
    return NULL;
}
