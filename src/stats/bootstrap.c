/*
 * Bootstrap intervals of all scores of many methods and of their paired differences. CST_LANES
 * resamples run side by side in one pass over a method's sorted samples: a resample only changes
 * how often a sample counts. docs/json.md#evaluate.
 */
#include <corestack/metrics.h>

#include "stats/classwise.h"
#include "stats/levels.h"
#include "stats/resample.h"
#include "stats/samples.h"
#include "stats/weighted.h"

#include <math.h>
#include <string.h>

enum { BASIC = 4 }; /* the first so many are basic scores */
enum { TOP1 = 0, ECE, NLL, BRIER, MASS, CLASSWISE, DEBIASED, CORP, ALL };

/* What a method's scores are sums of, times the row's weight, packed for the inner loop. */
typedef struct packed {
    double nll;
    double brier;
    double gap; /* correct - confidence */
    int64_t row;
} packed;

/* Samples of a method in order of their bins; in a bin first those whose class is right, ascending
 * rows among equals. */
typedef struct method_bins {
    packed *samples; /* [rows] */
    int64_t *end;    /* [bins][2]: where the right ones, and where the others end */
    cst_order order; /* for the scores beyond the basic ones, and for rows that have weights */
} method_bins;

typedef struct score_job {
    const cst_bootstrap_input *in;
    int64_t rows;
    int32_t bins;
    method_bins *method; /* [methods] */
} score_job;

/* ---- sums ---- */

/* sums [BASIC][CST_LANES]: of correct, NLL, Brier, and of the absolute gaps of the bins. */
CST_VECTOR_CLONES
static void weigh(const method_bins *method, int32_t bins, const unsigned char *counts,
                  double *sums) {
    cst_half_whole top1[2] = {0};
    cst_half_lanes nll[2] = {0};
    cst_half_lanes brier[2] = {0};
    const packed *s = method->samples;
    memset(sums, 0, BASIC * CST_LANES * sizeof *sums);
    for (int32_t b = 0; b < bins; b++) {
        cst_half_lanes gap[2] = {0};
        for (int wrong = 0; wrong < 2; wrong++) {
            cst_half_whole samples[2] = {0};
            for (const packed *end = method->samples + method->end[2 * b + wrong]; s < end; s++) {
                for (int h = 0; h < 2; h++) {
                    cst_half_whole whole;
                    cst_half_lanes times;
                    cst_lane_counts(counts + s->row * CST_LANES, h, &whole, &times);
                    samples[h] += whole;
                    nll[h] += times * s->nll;
                    brier[h] += times * s->brier;
                    gap[h] += times * s->gap;
                }
            }
            for (int h = 0; h < 2 && !wrong; h++)
                top1[h] += samples[h];
        }
        for (int l = 0; l < CST_LANES; l++)
            sums[ECE * CST_LANES + l] += fabs(gap[l / CST_HALF][l % CST_HALF]);
    }
    memcpy(sums + NLL * CST_LANES, nll, sizeof nll);
    memcpy(sums + BRIER * CST_LANES, brier, sizeof brier);
    uint64_t correct[CST_LANES];
    memcpy(correct, top1, sizeof correct);
    for (int l = 0; l < CST_LANES; l++)
        sums[TOP1 * CST_LANES + l] = (double)correct[l];
}

/* Whether samples are needed in order of their confidence. */
static bool is_ordered(const score_job *job) {
    return job->in->scores == CST_BOOTSTRAP_ALL || job->in->weights;
}

/* Weight of the samples of all levels, and of those that are right. */
static void sum_levels(const cst_level *levels, int64_t count, double *total, double *correct) {
    *total = 0;
    *correct = 0;
    for (int64_t i = 0; i < count; i++) {
        *total += levels[i].count;
        *correct += levels[i].correct;
    }
}

/* Every score but the class-wise one. scratch: levels [rows], then sums [bins][CST_BIN_WIDTH]. */
static void figures(const cst_bootstrap *b, const cst_resample *drawn, void *scratch, int64_t lanes,
                    int64_t stride, double *out) {
    const score_job *job = b->user;
    double sums[BASIC * CST_LANES];
    cst_level *levels = scratch;
    double *binned = (double *)(levels + job->rows);
    for (int32_t m = 0; m < b->methods; m++) {
        double *to = out + (int64_t)m * ALL * stride;
        weigh(&job->method[m], job->bins, drawn->count, sums);
        for (int64_t l = 0; l < lanes; l++) {
            double ece = 0;
            double total = (double)job->rows;
            int64_t count = 0;
            if (is_ordered(job)) {
                memset(binned, 0, (size_t)job->bins * CST_BIN_WIDTH * sizeof *binned);
                count = cst_order_levels(&job->method[m].order, drawn->lane + l * drawn->padded,
                                         levels, binned);
            }
            if (job->in->weights)
                sum_levels(levels, count, &total, &sums[TOP1 * CST_LANES + l]);
            for (int s = 0; s < BASIC; s++)
                to[s * stride + l] = sums[s * CST_LANES + l] / total;
            if (job->in->scores == CST_BOOTSTRAP_BASIC)
                continue;
            cst_bin_errors(binned, job->bins, total, &ece, &to[DEBIASED * stride + l]);
            to[MASS * stride + l] = cst_equal_mass_error(levels, count, total, job->bins);
            to[CORP * stride + l] = cst_corp_miscalibration(levels, count, total);
        }
    }
}

/* ---- class-wise ---- */

/* total [CST_LANES]: weight of the rows of each resample. */
static void lane_weights(const cst_bootstrap_input *in, const unsigned char *count, double *total) {
    for (int l = 0; l < CST_LANES; l++)
        total[l] = in->weights ? 0 : (double)in->rows;
    for (int64_t i = 0; in->weights && i < in->rows; i++)
        for (int l = 0; l < CST_LANES; l++)
            total[l] += in->weights[i] * count[i * CST_LANES + l];
}

typedef struct class_job {
    const cst_bootstrap_input *in;
    cst_class_bins classes;
} class_job;

/* scratch: [classes][CST_LANES]. */
static void class_figures(const cst_bootstrap *b, const cst_resample *drawn, void *scratch,
                          int64_t lanes, int64_t stride, double *out) {
    const class_job *job = b->user;
    double ece[CST_LANES];
    double total[CST_LANES];
    (void)stride;
    lane_weights(job->in, drawn->count, total);
    cst_class_bins_ece(&job->classes, drawn, total, scratch, ece);
    memcpy(out, ece, (size_t)lanes * sizeof *out);
}

/* One method at a time, since the lists of all classes are large. */
static cst_status classwise(cst_context *context, const cst_bootstrap *b, double *value,
                            double *drawn) {
    const score_job *job = b->user;
    const cst_bootstrap_input *in = job->in;
    for (int32_t m = 0; m < b->methods; m++) {
        CST_SCOPE(scope);
        class_job own = {.in = in};
        cst_bootstrap one = *b;
        one.methods = one.scores = 1;
        one.skipped = 0;
        one.figures = class_figures;
        one.user = &own;
        one.scratch = (size_t)in->classes * CST_LANES * sizeof(double);
        int64_t at = (int64_t)m * ALL + CLASSWISE;
        CST_TRY(cst_class_bins_make(context, scope, in->probabilities[m], in->rows, in->classes,
                                    in->labels, in->weights, job->bins, &own.classes));
        CST_TRY(cst_bootstrap_draw(context, &one, value + at, drawn + at * b->resamples));
    }
    return CST_OK;
}

/* ---- all methods ---- */

/* Sorts a method's samples by bin and correctness, by counting. */
static cst_status pack(cst_context *context, cst_scope *scope, const score_job *job,
                       const cst_samples *samples, method_bins *out) {
    size_t parts = (size_t)job->bins * 2;
    CST_TAKE(context, scope, out->samples, job->rows);
    CST_TAKE(context, scope, out->end, parts);
    for (int64_t i = 0; i < job->rows; i++)
        out->end[2 * cst_bin_of(samples->confidence[i], job->bins) + !samples->correct[i]]++;
    int64_t start = 0;
    for (size_t part = 0; part < parts; part++) {
        int64_t count = out->end[part];
        out->end[part] = start; /* moves to the end of the part as it fills */
        start += count;
    }
    for (int64_t i = 0; i < job->rows; i++) {
        int32_t part = 2 * cst_bin_of(samples->confidence[i], job->bins) + !samples->correct[i];
        double weight = samples->weight ? samples->weight[i] : 1;
        out->samples[out->end[part]++] =
            (packed){.nll = weight * samples->nll[i],
                     .brier = weight * samples->brier[i],
                     .gap = weight * (samples->correct[i] - samples->confidence[i]),
                     .row = i};
    }
    return is_ordered(job) ? cst_order_make(context, scope, samples, job->bins, &out->order)
                           : CST_OK;
}

cst_status cst_bootstrap_weighted(cst_context *context, const cst_bootstrap_input *in,
                                  cst_interval *interval, cst_interval *difference, double *p) {
    CST_SCOPE(scope);
    bool all = in->scores == CST_BOOTSTRAP_ALL;
    score_job job = {.in = in, .rows = in->rows};
    CST_TRY(cst_bins_check(context, in->bins, &job.bins));
    CST_TAKE(context, scope, job.method, in->methods);
    for (int32_t m = 0; m < in->methods; m++) {
        CST_SCOPE(own);
        cst_samples samples;
        cst_view view =
            cst_view_of_one(&in->probabilities[m], in->rows, in->classes, in->labels, in->weights);
        CST_TRY(in->weights ? cst_samples_of(context, own, &view, 0, false, &samples)
                            : cst_samples_make(context, own, in->probabilities[m], in->rows,
                                               in->classes, in->labels, &samples));
        CST_TRY(pack(context, scope, &job, &samples, &job.method[m]));
    }
    size_t scratch =
        (size_t)in->rows * sizeof(cst_level) + (size_t)job.bins * CST_BIN_WIDTH * sizeof(double);
    const cst_bootstrap b = {.samples = {in->rows},
                             .seed = {in->seed},
                             .resamples = in->resamples,
                             .methods = in->methods,
                             .scores = ALL,
                             .skipped = all ? 1U << CLASSWISE : ((1U << ALL) - (1U << BASIC)),
                             .scratch = is_ordered(&job) ? scratch : 0,
                             .figures = figures,
                             .user = &job,
                             .more = all ? classwise : NULL};
    return cst_bootstrap_intervals(context, &b, in->reference, interval, difference, p);
}
