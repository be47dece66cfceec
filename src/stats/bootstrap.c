/* Bootstrap of all scores of many methods, in one pass over their sorted samples. docs/json.md. */
#include <corestack/metrics.h>

#include "stats/resample.h"
#include "stats/row_weights.h"
#include "stats/samples.h"

#include <math.h>
#include <string.h>

enum { BASIC = 4 }; /* the first so many are basic scores */
enum { TOP1 = 0, ECE, NLL, BRIER, MASS, CLASSWISE, DEBIASED, CORP, ALL };

/* Summands of a method's scores, times the row's weight, packed for the inner loop. */
typedef struct packed {
    double nll, brier;
    double gap; /* correct - confidence */
    int64_t row;
} packed;

/* Samples by bin; in a bin first those whose class is right, ascending among equals. */
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

/* Rows in each bin of each class. The lowest, with nearly all rows, lists its class only. */
typedef struct class_bins {
    const float *probabilities; /* [rows][classes], the caller's */
    const double *weights;      /* [rows], the caller's; NULL: 1 each */
    int64_t rows;
    int32_t classes, bins;
    double *gap;   /* target less probability; 1 in the lowest bin; times the weight */
    double *above; /* the probability; 0 in the lowest bin; times the weight */
    uint32_t *row;
    int64_t *end; /* [classes][bins]: where the bin's part of the lists ends */
} class_bins;

/* Counts the entries into `size` [classes][bins], or puts them into `out` at those places. */
static void list_entries(const class_bins *in, const int32_t *labels, int64_t *size,
                         class_bins *out) {
    double edge = 1.0 / in->bins;
    for (int64_t i = 0; i < in->rows; i++) {
        const float *row = in->probabilities + (size_t)i * (size_t)in->classes;
        double weight = in->weights ? in->weights[i] : 1;
        for (int32_t c = 0; c < in->classes; c++) {
            double p = (double)row[c];
            bool hit = labels[i] == c;
            if (!hit && (p < edge || in->bins == 1))
                continue;
            int32_t b = cst_bin_of(p, in->bins);
            int64_t at = size[(size_t)c * (size_t)in->bins + (size_t)b]++;
            if (out) {
                out->gap[at] = weight * (b > 0 ? hit - p : 1);
                out->above[at] = weight * (b > 0 ? p : 0);
                out->row[at] = (uint32_t)i;
            }
        }
    }
}

static cst_status class_bins_make(cst_context *context, cst_scope *scope,
                                  const float *probabilities, int64_t rows, int32_t classes,
                                  const int32_t *labels, const double *weights, int32_t bins,
                                  class_bins *out) {
    *out = (class_bins){.probabilities = probabilities,
                        .weights = weights,
                        .rows = rows,
                        .classes = classes,
                        .bins = bins};
    size_t parts = 0;
    if (!cst_size_mul((size_t)classes, (size_t)bins, &parts))
        return cst_fail(context, CST_ERROR_LIMIT, "%d classes in %d bins are too many", classes,
                        bins);
    CST_TAKE(context, scope, out->end, parts);
    list_entries(out, labels, out->end, NULL);
    int64_t entries = 0;
    for (size_t part = 0; part < parts; part++) {
        int64_t size = out->end[part];
        out->end[part] = entries; /* moves to the end of the part as it fills */
        entries += size;
    }
    CST_TAKE(context, scope, out->gap, entries);
    CST_TAKE(context, scope, out->above, entries);
    CST_TAKE(context, scope, out->row, entries);
    list_entries(out, labels, out->end, out);
    return CST_OK;
}

/* Classes that are summed side by side, in registers. */
enum { GROUP = 8 };

/* sums [GROUP][CST_LANES]: probabilities of `width` classes from `first` on. */
__attribute__((always_inline)) static inline void sum_group(const class_bins *in,
                                                            const unsigned char *count,
                                                            int32_t first, int32_t width,
                                                            double *sums) {
    cst_half_lanes sum[GROUP][2] = {0};
    for (int64_t i = 0; i < in->rows; i++) {
        const float *row = in->probabilities + (size_t)i * (size_t)in->classes + first;
        cst_half_whole whole;
        cst_half_lanes times[2];
        cst_lane_counts(count + i * CST_LANES, 0, &whole, &times[0]);
        cst_lane_counts(count + i * CST_LANES, 1, &whole, &times[1]);
        if (in->weights) {
            times[0] *= in->weights[i];
            times[1] *= in->weights[i];
        }
        for (int32_t c = 0; c < width; c++) {
            double p = (double)row[c];
            sum[c][0] += times[0] * p;
            sum[c][1] += times[1] * p;
        }
    }
    memcpy(sums, sum, sizeof sum[0] * (size_t)width);
}

CST_VECTOR_CLONES
static void sum_classes(const class_bins *in, const unsigned char *count, double *sums) {
    int32_t c = 0;
    for (; c + GROUP <= in->classes; c += GROUP)
        sum_group(in, count, c, GROUP, sums + (size_t)c * CST_LANES);
    for (; c < in->classes; c++)
        sum_group(in, count, c, 1, sums + (size_t)c * CST_LANES);
}

/* total [CST_LANES]: absolute sums of gaps over classes and bins. all: of sum_classes. */
CST_VECTOR_CLONES
static void sum_gaps(const class_bins *in, const unsigned char *count, const double *all,
                     double *total) {
    int64_t i = 0;
    memset(total, 0, CST_LANES * sizeof *total);
    for (int32_t c = 0; c < in->classes; c++) {
        cst_half_lanes lowest[2];
        memcpy(lowest, all + (size_t)c * CST_LANES, sizeof lowest);
        lowest[0] = -lowest[0];
        lowest[1] = -lowest[1];
        const int64_t *end = in->end + (size_t)c * (size_t)in->bins;
        for (int32_t b = 0; b < in->bins; b++) {
            if (i == end[b])
                continue;
            cst_half_lanes bin[2] = {0};
            for (; i < end[b]; i++) {
                for (int h = 0; h < 2; h++) {
                    cst_half_whole whole;
                    cst_half_lanes times;
                    cst_lane_counts(count + (size_t)in->row[i] * CST_LANES, h, &whole, &times);
                    bin[h] += times * in->gap[i];
                    lowest[h] += times * in->above[i];
                }
            }
            if (b == 0) {
                lowest[0] += bin[0];
                lowest[1] += bin[1];
                continue;
            }
            for (int l = 0; l < CST_LANES; l++)
                total[l] += fabs(bin[l / CST_HALF][l % CST_HALF]);
        }
        for (int l = 0; l < CST_LANES; l++)
            total[l] += fabs(lowest[l / CST_HALF][l % CST_HALF]);
    }
}

/* ece [CST_LANES]: mean over classes of sum over bins |sum of gaps| / total, in each resample.
 * total: [CST_LANES], the weight of its rows. scratch: [classes][CST_LANES]. */
static void class_bins_ece(const class_bins *classes, const cst_resample *resample,
                           const double *total, double *scratch, double *ece) {
    sum_classes(classes, resample->count, scratch);
    sum_gaps(classes, resample->count, scratch, ece);
    for (int l = 0; l < CST_LANES; l++)
        ece[l] /= total[l] * (double)classes->classes;
}

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
    class_bins classes;
} class_job;

/* scratch: [classes][CST_LANES]. */
static void class_figures(const cst_bootstrap *b, const cst_resample *drawn, void *scratch,
                          int64_t lanes, int64_t stride, double *out) {
    const class_job *job = b->user;
    double ece[CST_LANES];
    double total[CST_LANES];
    (void)stride;
    lane_weights(job->in, drawn->count, total);
    class_bins_ece(&job->classes, drawn, total, scratch, ece);
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
        CST_TRY(class_bins_make(context, scope, in->probabilities[m], in->rows, in->classes,
                                in->labels, in->weights, job->bins, &own.classes));
        CST_TRY(cst_bootstrap_draw(context, &one, value + at, drawn + at * b->resamples));
    }
    return CST_OK;
}

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
        CST_TRY(cst_scores_check(context, in, view.data[0], in->rows, in->classes, in->labels, ""));
        CST_TRY(cst_samples_of(context, own, &view, 0, false, &samples));
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
