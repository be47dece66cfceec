/*
 * Top-1, NLL, Brier and the calibration errors of one method, with their definitions as text.
 * After prediction. docs/json.md#evaluate.
 */
#include <corestack/metrics.h>

#include "metrics/levels.h"
#include "metrics/samples.h"
#include "metrics/weighted.h"

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
        sum[1] += weight * s->nll[i];
        sum[2] += weight * s->brier[i];
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
                                int32_t classes, const int32_t *labels, int bins,
                                cst_metrics *out) {
    CST_ENTER(context);
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
    CST_TRY(cst_samples_of(context, view, member, &samples));
    CST_TRY(sums(context, &samples, job.bins, out));
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
        {"top1", "fraction of samples whose largest probability is the label's; the lowest class "
                 "wins among equal probabilities"},
        {"nll", "mean of -log p(label) in nats, with p below 1e-15 counted as 1e-15"},
        {"brier", "multiclass Brier score in sum form, from 0 to 2: mean over samples of the sum "
                  "over classes of (p - y)^2"},
        {"ece", "top-label expected calibration error in l1, equal-width bins (15 by default) "
                "[lo, hi) with the last one closed: sum of n_b / N |accuracy - confidence|"},
        {"ece_mass",
         "top-label expected calibration error in l1 with as many bins of equal counts; "
         "samples of equal confidence share a bin"},
        {"ece_classwise", "mean over classes of the l1 calibration error of the class's "
                          "probability, equal-width bins as for ece"},
        {"ece_debiased",
         "ece minus the bias that finite bins give it under a normal "
         "approximation (Kumar et al. 2019, expectation in closed form), at least 0"},
        {"corp", "miscalibration part of the CORP decomposition for the top label: Brier score of "
                 "the confidence minus that of its isotonic recalibration"},
        {"accuracy_head", "top1 of the samples whose class has many training samples, more than "
                          "100 unless set"},
        {"accuracy_mid", "top1 of the samples whose class is neither head nor tail, 20 to 100 "
                         "training samples unless set"},
        {"accuracy_tail",
         "top1 of the samples whose class has few training samples, fewer than 20 unless set"},
        {"auroc_out_positive", "probability that a sample out of distribution has a higher score "
                               "than one in distribution, equal scores counting one half"},
        {"aupr_out_positive", "average precision with out of distribution as the positive class: "
                              "sum over distinct scores, from the highest, of precision times "
                              "the recall added"},
        {"fpr95_out_positive", "share of in-distribution samples at or above the highest threshold "
                               "that at least 95% of the samples out of distribution reach"},
        {"aupr_in_positive", "average precision with in distribution as the positive class: sum "
                             "over distinct scores, from the lowest, of precision times the recall "
                             "added"},
        {"fpr95_in_positive", "share of the samples out of distribution at or below the lowest "
                              "threshold that at least 95% of those in distribution stay within"},
        {"detection_error", "least mean, over all thresholds, of the share of in-distribution "
                            "samples taken for out and of the others taken for in"},
        {"energy", "minus log sum exp of a member's logits, mean over the members used by the "
                   "stack's weights (negative ones as 0): higher means more out of distribution"},
        {"disagreement", "share of the members used, by the stack's weights (negative ones as 0), "
                         "whose most probable class is not the stack's"},
        {"mutual_information",
         "entropy of the members' mean less their mean entropy, both by the stack's weights "
         "(negative ones as 0), in nats: higher means more out of distribution"},
        {"mce", "mean over kinds of corruption of the mean error over their severities, as a "
                "fraction: plain, not divided by a reference"},
        {"mce_normalised", "mean over kinds of the errors' sum over severities divided by the "
                           "reference's: 1 is the reference"},
        {"mce_delta", "mce less the error on the clean split"},
        {"mce_relative", "mean over kinds of the errors' excess over the clean error, summed over "
                         "severities, divided by the reference's (Hendrycks and Dietterich 2019)"},
        {"balanced_accuracy", "mean over the classes that occur of top1 among their samples"},
        {"worst_group_accuracy", "the lowest top1 of a group of rows"},
        {"worst_top1", "the lowest top1 of the splits scored"},
        {"max_probability", "minus the largest class probability: higher means more out of "
                            "distribution"},
        {"rmse", "root of the mean squared error; with several outputs the mean of their RMSEs"},
        {"mae", "mean absolute error; with several outputs the mean of theirs"},
        {"median_ae", "median absolute error; with several outputs the mean of theirs"},
        {"r2", "1 - sum of squared errors / sum of squared deviations of the targets from their "
               "mean over the rows scored; with several outputs the mean of theirs"},
        {"nll_gaussian", "mean of -log of the normal density with the predicted mean and variance "
                         "at the target, in nats; with several outputs the mean of theirs"},
        {"coverage", "share of the targets inside their interval; with several outputs the mean of "
                     "theirs"},
        {"width", "mean width of the intervals in units of the target; with several outputs the "
                  "mean of theirs"},
        {"predictive_entropy", "entropy of the predicted distribution in nats: higher means more "
                               "out of distribution"},
    };
    for (size_t i = 0; name && i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].text;
    return NULL;
}
