/* Scores of samples out of distribution, and how well they separate. See the header. */
#include <corestack/metrics.h>

#include "stats/ood.h"
#include "stats/samples.h"

#include <math.h>
#include <string.h>

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
        CST_TRY(cst_distribution_check(context, row, job->classes, i));
        job->out[i] = score_row(row, job->classes, job->score);
    }
    return CST_OK;
}

cst_status cst_ood_scores(cst_context *context, const float *probabilities, int64_t rows,
                          int32_t classes, cst_ood_score score, double *out) {
    score_job job = {probabilities, rows, classes, score, out};
    return cst_parallel_for(context, cst_block_count(rows), score_block, &job);
}

typedef struct members_job {
    const cst_view *view;
    const double *weights;
    const float *stack;
    const cst_ood_member_scores *out;
} members_job;

static double part_of_entropy(double p) {
    return p > 0 ? -p * log(p) : 0;
}

/* Adds a member to mixture [count][classes], mean entropies and weights of other votes. */
static void add_member(const members_job *job, const float *rows, double weight, int64_t first,
                       int64_t count, double *mixture, double *entropy, double *other) {
    int32_t classes = job->view->classes;
    for (int64_t i = 0; i < count; i++) {
        const float *row = rows + i * classes;
        const float *stack = job->stack + (first + i) * classes;
        double sum = 0;
        for (int32_t c = 0; c < classes; c++) {
            mixture[i * classes + c] += weight * (double)row[c];
            sum += part_of_entropy((double)row[c]);
        }
        entropy[i] += weight * sum;
        other[i] += cst_largest(row, classes) != cst_largest(stack, classes) ? weight : 0;
    }
}

static cst_status members_block(cst_context *context, void *user, int64_t block) {
    const members_job *job = user;
    const cst_view *view = job->view;
    CST_SCOPE(scope);
    cst_rows rows;
    CST_TRY(cst_rows_open(context, scope, view, block, &rows));
    CST_NEW(context, scope, double, mixture, rows.count * view->classes);
    CST_NEW(context, scope, double, entropies, rows.count);
    CST_NEW(context, scope, double, other, rows.count);
    for (int32_t k = 0; k < view->members; k++) {
        if (job->weights[k] <= 0)
            continue;
        CST_TRY(cst_rows_read(context, &rows, k));
        add_member(job, cst_rows_at(&rows, 0), job->weights[k], rows.first, rows.count, mixture,
                   entropies, other);
    }
    for (int64_t i = 0; i < rows.count; i++) {
        double entropy = 0;
        for (int32_t c = 0; c < view->classes; c++)
            entropy += part_of_entropy(mixture[i * view->classes + c]);
        if (job->out->disagreement)
            job->out->disagreement[rows.first + i] = other[i];
        if (job->out->mutual_information) /* 0 but for rounding where all members say the same */
            job->out->mutual_information[rows.first + i] = fmax(entropy - entropies[i], 0);
    }
    return CST_OK;
}

cst_status cst_ood_members(cst_context *context, const cst_view *view, const double *weights,
                           const float *stack, const cst_ood_member_scores *out) {
    members_job job = {view, weights, stack, out};
    return cst_parallel_for(context, cst_block_count(view->rows), members_block, &job);
}

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

/* From the highest score down, where what is out of distribution is the positive side (1), or from
 * the lowest up, where what is in (0). Each sample counts `times` (NULL: once). */
static void sweep(const cst_rank_item *sorted, const unsigned char *const times[2], int positive,
                  cst_ood_metrics *out) {
    const double all[2] = {(double)out->in_samples, (double)out->out_samples};
    int64_t count = out->in_samples + out->out_samples;
    double sum[2] = {0, 0}; /* up to the present score */
    double pairs = 0;       /* (in, out) in the right order, equal ones one half */
    double precision = 0;
    double *fpr95 = positive ? &out->fpr95_out_positive : &out->fpr95_in_positive;
    bool found = false;
    for (int64_t done = 0; done < count;) {
        double run[2] = {0, 0}; /* of equal scores */
        double value = sorted[positive ? count - 1 - done : done].value;
        for (; done < count; done++) {
            const cst_rank_item *item = &sorted[positive ? count - 1 - done : done];
            bool outside = item->index >= out->in_samples;
            if (item->value != value)
                break;
            run[outside] +=
                times[outside] ? times[outside][item->index - (outside ? out->in_samples : 0)] : 1;
        }
        if (run[0] + run[1] <= 0)
            continue;
        pairs += run[0] * (sum[1] + 0.5 * run[1]);
        sum[0] += run[0];
        sum[1] += run[1];
        precision += run[positive] * (sum[positive] / (sum[0] + sum[1]));
        if (!found && sum[positive] * 20 >= all[positive] * 19) {
            *fpr95 = sum[!positive] / all[!positive];
            found = true;
        }
        if (positive)
            out->detection_error =
                fmin(out->detection_error, 0.5 * (sum[0] / all[0] + 1 - sum[1] / all[1]));
    }
    if (positive)
        out->auroc_out_positive = pairs / (all[0] * all[1]);
    *(positive ? &out->aupr_out_positive : &out->aupr_in_positive) = precision / all[positive];
}

void cst_ood_separate(const cst_rank_item *sorted, int64_t in_samples, int64_t out_samples,
                      const unsigned char *in_times, const unsigned char *out_times,
                      cst_ood_metrics *out) {
    const unsigned char *const times[2] = {in_times, out_times};
    *out = (cst_ood_metrics){
        .in_samples = in_samples, .out_samples = out_samples, .detection_error = 0.5};
    sweep(sorted, times, 1, out);
    sweep(sorted, times, 0, out);
}

cst_status cst_ood_order(cst_context *context, cst_scope *scope, const double *in_scores,
                         int64_t in_samples, const double *out_scores, int64_t out_samples,
                         cst_rank_item **sorted) {
    size_t all = (size_t)in_samples + (size_t)out_samples;
    CST_SCOPE(own);
    CST_TRY(check_finite(context, "in", in_scores, in_samples));
    CST_TRY(check_finite(context, "out of", out_scores, out_samples));
    CST_NEW(context, own, double, scores, all);
    CST_TAKE(context, scope, *sorted, all);
    memcpy(scores, in_scores, (size_t)in_samples * sizeof *scores);
    memcpy(scores + in_samples, out_scores, (size_t)out_samples * sizeof *scores);
    return cst_rank_sort_rows(context, scores, (int64_t)all, *sorted);
}

/* Samples out of distribution are drawn by a seed of their own. */
static const uint64_t OUT_SEED = UINT64_C(0x9e3779b97f4a7c15);

/* In the order of the fields of cst_ood_intervals. */
static void figures(const cst_bootstrap *b, const cst_resample *drawn, void *scratch, int64_t lanes,
                    int64_t stride, double *out) {
    (void)scratch;
    for (int64_t l = 0; l < lanes; l++) {
        cst_ood_metrics found;
        cst_ood_separate(b->user, drawn[0].rows, drawn[1].rows, drawn[0].lane + l * drawn[0].padded,
                         drawn[1].lane + l * drawn[1].padded, &found);
        out[l] = found.auroc_out_positive;
        out[stride + l] = found.aupr_out_positive;
        out[2 * stride + l] = found.fpr95_out_positive;
        out[3 * stride + l] = found.aupr_in_positive;
        out[4 * stride + l] = found.fpr95_in_positive;
        out[5 * stride + l] = found.detection_error;
    }
}

cst_status cst_ood_bootstrap(cst_context *context, const double *in_scores, int64_t in_samples,
                             const double *out_scores, int64_t out_samples, int32_t resamples,
                             uint64_t seed, cst_ood_intervals *out) {
    enum { FIGURES = sizeof *out / sizeof(cst_interval) };
    CST_SCOPE(scope);
    cst_interval found[FIGURES];
    cst_rank_item *sorted;
    CST_TRY(cst_ood_order(context, scope, in_scores, in_samples, out_scores, out_samples, &sorted));
    const cst_bootstrap b = {.samples = {in_samples, out_samples},
                             .seed = {seed, seed ^ OUT_SEED},
                             .resamples = resamples,
                             .methods = 1,
                             .scores = FIGURES,
                             .figures = figures,
                             .user = sorted};
    CST_TRY(cst_bootstrap_intervals(context, &b, 0, found, NULL, NULL));
    memcpy(out, found, sizeof found);
    return CST_OK;
}
