/*
 * Bootstrap intervals of how well a score tells samples out of distribution from the others. After
 * prediction. docs/robustness.md#out-of-distribution.
 */
#include "stats/ood.h"
#include "stats/percentile.h"
#include "stats/resample.h"

#include <math.h>
#include <stddef.h>

/* Offsets of the values, in the order of the fields of cst_ood_intervals. */
static const size_t VALUES[] = {
    offsetof(cst_ood_metrics, auroc_out_positive), offsetof(cst_ood_metrics, aupr_out_positive),
    offsetof(cst_ood_metrics, fpr95_out_positive), offsetof(cst_ood_metrics, aupr_in_positive),
    offsetof(cst_ood_metrics, fpr95_in_positive),  offsetof(cst_ood_metrics, detection_error),
};

enum { VALUE_COUNT = sizeof VALUES / sizeof VALUES[0] };

/* Samples out of distribution are drawn by a seed of their own. */
static const uint64_t OUT_SEED = UINT64_C(0x9e3779b97f4a7c15);

typedef struct ood_job {
    const cst_ranked *sorted;
    int64_t in_samples;
    int64_t out_samples;
    int32_t resamples;
    uint64_t seed;
    double *drawn; /* [VALUE_COUNT][resamples] */
} ood_job;

static double value_of(const cst_ood_metrics *metrics, int v) {
    const double *value = (const void *)((const char *)metrics + VALUES[v]);
    return *value;
}

static cst_status ood_task(cst_context *context, void *user, int64_t batch) {
    const ood_job *job = user;
    int64_t first = batch * CST_LANES;
    cst_resample in = {0};
    cst_resample out = {0};
    cst_status status = cst_resample_make(context, job->in_samples, &in);
    CST_THEN(cst_resample_make(context, job->out_samples, &out));
    if (status == CST_OK) {
        cst_resample_draw(&in, job->seed, (uint32_t)first);
        cst_resample_draw(&out, job->seed ^ OUT_SEED, (uint32_t)first);
    }
    for (int64_t l = 0; status == CST_OK && l < CST_LANES && first + l < job->resamples; l++) {
        cst_ood_metrics found;
        cst_ood_separate(job->sorted, job->in_samples, job->out_samples, in.lane + l * in.padded,
                         out.lane + l * out.padded, &found);
        for (int v = 0; v < VALUE_COUNT; v++)
            job->drawn[(int64_t)v * job->resamples + first + l] = value_of(&found, v);
    }
    cst_resample_free(context, &in);
    cst_resample_free(context, &out);
    return status;
}

cst_status cst_ood_bootstrap(cst_context *context, const double *in_scores, int64_t in_samples,
                             const double *out_scores, int64_t out_samples, int32_t resamples,
                             uint64_t seed, cst_ood_intervals *out) {
    cst_ranked *sorted = NULL;
    cst_interval *const fields[VALUE_COUNT] = {&out->auroc,     &out->aupr_out,
                                               &out->fpr95_out, &out->aupr_in,
                                               &out->fpr95_in,  &out->detection_error};
    cst_ood_metrics found;
    cst_status status =
        cst_ood_order(context, in_scores, in_samples, out_scores, out_samples, &sorted);
    ood_job job = {.sorted = sorted,
                   .in_samples = in_samples,
                   .out_samples = out_samples,
                   .resamples = resamples,
                   .seed = seed};
    if (status == CST_OK) {
        job.drawn = cst_alloc(context, (size_t)VALUE_COUNT * (size_t)resamples, sizeof *job.drawn);
        status = job.drawn ? CST_OK : CST_ERROR_MEMORY;
    }
    if (status == CST_OK && resamples > 0)
        status = cst_stage(context, "intervals");
    if (status == CST_OK && resamples > 0)
        status =
            cst_resample_all(context, resamples, CST_LANES, ood_task, &job, job.drawn, VALUE_COUNT);
    if (status == CST_OK) {
        cst_ood_separate(sorted, in_samples, out_samples, NULL, NULL, &found);
        for (int v = 0; v < VALUE_COUNT; v++)
            *fields[v] = resamples > 0 ? cst_interval_of(job.drawn + (int64_t)v * resamples,
                                                         resamples, value_of(&found, v))
                                       : (cst_interval){value_of(&found, v), NAN, NAN};
    }
    cst_free(context, job.drawn);
    cst_free(context, sorted);
    return status;
}
