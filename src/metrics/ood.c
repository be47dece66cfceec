/*
 * Detection of samples out of distribution: scores from probabilities, and how well a score
 * separates. After prediction. method.md section 8.
 */
#include <corestack/metrics.h>

#include "metrics/ranks.h"
#include "metrics/samples.h"

#include <math.h>
#include <string.h>

/* ---- scores -----------------------------------------------------------------------------------
 */

typedef struct score_job {
    const float *probabilities;
    int64_t rows;
    int32_t classes;
    cst_ood_score score;
    double *out;
} score_job;

static double score_row(const float *row, int32_t classes, cst_ood_score score) {
    double most = 0;
    double entropy = 0;
    for (int32_t c = 0; c < classes; c++) {
        double p = (double)row[c];
        most = fmax(most, p);
        if (score == CST_OOD_PREDICTIVE_ENTROPY && p > 0)
            entropy -= p * log(p);
    }
    return score == CST_OOD_PREDICTIVE_ENTROPY ? fmax(entropy, 0) : -most;
}

static cst_status score_block(cst_context *context, void *user, int64_t block) {
    const score_job *job = user;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(job->rows, block);
    for (int64_t i = first; i < end; i++) {
        const float *row = job->probabilities + (size_t)i * (size_t)job->classes;
        cst_status status = cst_distribution_check(context, row, job->classes, i);
        if (status != CST_OK)
            return status;
        job->out[i] = score_row(row, job->classes, job->score);
    }
    return CST_OK;
}

cst_status cst_ood_scores(cst_context *context, const float *probabilities, int64_t rows,
                          int32_t classes, cst_ood_score score, double *out) {
    if (!probabilities || !out || rows < 1 || classes < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "out-of-distribution scores need probabilities of at least one row and "
                        "class: got %lld rows of %d classes",
                        (long long)rows, classes);
    if (score != CST_OOD_MAX_PROBABILITY && score != CST_OOD_PREDICTIVE_ENTROPY)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%d is no out-of-distribution score: use 0 (largest probability) or 1 "
                        "(entropy)",
                        (int)score);
    score_job job = {probabilities, rows, classes, score, out};
    return cst_parallel_for(context, cst_block_count(rows), score_block, &job);
}

/* ---- separation -------------------------------------------------------------------------------
 */

static cst_status check_finite(cst_context *context, const char *which, const double *scores,
                               int64_t samples) {
    for (int64_t i = 0; i < samples; i++)
        if (!isfinite(scores[i]))
            return cst_fail(
                context, CST_ERROR_INPUT,
                "score %lld of the samples %s distribution is %g: scores must be finite",
                (long long)i, which, scores[i]);
    return CST_OK;
}

/* From the highest score down, equal scores together. Samples before in_samples are those in
 * distribution. */
static void separate(const cst_ranked *sorted, cst_ood_metrics *out) {
    int64_t inside = 0; /* at or above the present score */
    int64_t outside = 0;
    double pairs = 0; /* (in, out) in the right order, equal ones one half */
    double precision = 0;
    bool found = false;
    for (int64_t end = out->in_samples + out->out_samples; end > 0;) {
        int64_t in = 0;
        int64_t first = end;
        while (first > 0 && sorted[first - 1].value == sorted[end - 1].value)
            in += sorted[--first].index < out->in_samples;
        int64_t positive = end - first - in;
        pairs += (double)in * ((double)outside + 0.5 * (double)positive);
        inside += in;
        outside += positive;
        precision += (double)positive * ((double)outside / (double)(inside + outside));
        if (!found && (double)outside * 20 >= (double)out->out_samples * 19) {
            out->fpr95_out_positive = (double)inside / (double)out->in_samples;
            found = true;
        }
        end = first;
    }
    out->auroc_out_positive = pairs / ((double)out->in_samples * (double)out->out_samples);
    out->aupr_out_positive = precision / (double)out->out_samples;
}

cst_status cst_ood_evaluate(cst_context *context, const double *in_scores, int64_t in_samples,
                            const double *out_scores, int64_t out_samples, cst_ood_metrics *out) {
    if (!in_scores || !out_scores || !out || in_samples < 1 || out_samples < 1 ||
        in_samples > INT64_MAX - out_samples)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "separation needs at least one score in and one out of distribution: got "
                        "%lld and %lld",
                        (long long)in_samples, (long long)out_samples);
    size_t all = (size_t)in_samples + (size_t)out_samples;
    cst_status status = check_finite(context, "in", in_scores, in_samples);
    if (status == CST_OK)
        status = check_finite(context, "out of", out_scores, out_samples);
    if (status != CST_OK)
        return status;
    *out = (cst_ood_metrics){.in_samples = in_samples, .out_samples = out_samples};
    double *scores = cst_alloc(context, all, sizeof *scores);
    cst_ranked *sorted = cst_alloc(context, all, sizeof *sorted);
    if (!scores || !sorted) {
        status = CST_ERROR_MEMORY;
        goto cleanup;
    }
    memcpy(scores, in_scores, (size_t)in_samples * sizeof *scores);
    memcpy(scores + in_samples, out_scores, (size_t)out_samples * sizeof *scores);
    cst_rank_sort(scores, (int64_t)all, sorted);
    separate(sorted, out);
cleanup:
    cst_free(context, scores);
    cst_free(context, sorted);
    return status;
}
