/*
 * Bootstrap intervals of all scores of many methods and of their paired differences. CST_LANES
 * resamples run side by side in one pass over a method's sorted samples: a resample only changes
 * how often a sample counts. docs/json.md#evaluate.
 */
#include <corestack/metrics.h>

#include "stats/classwise.h"
#include "stats/levels.h"
#include "stats/percentile.h"
#include "stats/resample.h"
#include "stats/samples.h"
#include "stats/weighted.h"

#include <math.h>
#include <string.h>

enum { METHODS_MAX = 1000000 };
enum { TOP1, NLL, BRIER, ECE, BASIC, MASS = BASIC, CLASSWISE, DEBIASED, CORP, ALL };

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

typedef struct bootstrap {
    const float *const *probabilities;
    const int32_t *labels;
    const double *weights; /* [rows], or NULL */
    int64_t rows;
    int32_t classes;
    int32_t bins;
    int32_t methods;
    int32_t resamples;
    uint64_t seed;
    int32_t scores;      /* BASIC or ALL */
    method_bins *method; /* [methods] */
    double *value;       /* [methods][scores], of the samples themselves */
    double *drawn;       /* [methods][scores][resamples] */
} bootstrap;

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
static bool is_ordered(const bootstrap *job) {
    return job->scores == ALL || job->weights;
}

/* What one task works with, made once for many resamples. */
typedef struct workspace {
    cst_resample resample;
    cst_level *levels; /* [rows] */
    double *binned;    /* [bins][CST_BIN_WIDTH] */
} workspace;

static cst_status scratch_make(cst_context *context, const bootstrap *job, workspace *out) {
    *out = (workspace){0};
    cst_status status = cst_resample_make(context, job->rows, &out->resample);
    if (status != CST_OK || !is_ordered(job))
        return status;
    out->levels = cst_alloc(context, (size_t)job->rows, sizeof *out->levels);
    out->binned = cst_alloc(context, (size_t)job->bins * CST_BIN_WIDTH, sizeof *out->binned);
    return out->levels && out->binned ? CST_OK : CST_ERROR_MEMORY;
}

static void scratch_free(cst_context *context, workspace *scratch) {
    cst_resample_free(context, &scratch->resample);
    cst_free(context, scratch->levels);
    cst_free(context, scratch->binned);
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

/* Scores of the first `lanes` lanes of a drawn resample, but for the class-wise one: score s of
 * method m and lane l to out[(m * scores + s) * stride + l]. */
static void score(const bootstrap *job, workspace *scratch, int64_t lanes, int64_t stride,
                  double *out) {
    double sums[BASIC * CST_LANES];
    const cst_resample *drawn = &scratch->resample;
    for (int32_t m = 0; m < job->methods; m++) {
        double *to = out + (int64_t)m * job->scores * stride;
        weigh(&job->method[m], job->bins, drawn->count, sums);
        for (int64_t l = 0; l < lanes; l++) {
            double ece = 0;
            double total = (double)job->rows;
            int64_t count = 0;
            if (is_ordered(job)) {
                memset(scratch->binned, 0,
                       (size_t)job->bins * CST_BIN_WIDTH * sizeof *scratch->binned);
                count = cst_order_levels(&job->method[m].order, drawn->lane + l * drawn->padded,
                                         scratch->levels, scratch->binned);
            }
            if (job->weights)
                sum_levels(scratch->levels, count, &total, &sums[TOP1 * CST_LANES + l]);
            for (int s = 0; s < BASIC; s++)
                to[s * stride + l] = sums[s * CST_LANES + l] / total;
            if (job->scores == BASIC)
                continue;
            cst_bin_errors(scratch->binned, job->bins, total, &ece, &to[DEBIASED * stride + l]);
            to[MASS * stride + l] = cst_equal_mass_error(scratch->levels, count, total, job->bins);
            to[CORP * stride + l] = cst_corp_miscalibration(scratch->levels, count, total);
        }
    }
}

/* Batches of lanes that one task runs, so that scratch is not made anew for each. */
enum { BATCHES = 4 };

static cst_status resample_task(cst_context *context, void *user, int64_t task) {
    const bootstrap *job = user;
    workspace scratch;
    cst_status status = scratch_make(context, job, &scratch);
    int64_t first = task * BATCHES * CST_LANES;
    for (int b = 0; status == CST_OK && b < BATCHES && first < job->resamples; b++) {
        int64_t left = job->resamples - first;
        cst_resample_draw(&scratch.resample, job->seed, (uint32_t)first);
        score(job, &scratch, left < CST_LANES ? left : CST_LANES, job->resamples,
              job->drawn + first);
        first += CST_LANES;
    }
    scratch_free(context, &scratch);
    return status;
}

static cst_status resample(cst_context *context, bootstrap *job) {
    workspace scratch;
    cst_status status = scratch_make(context, job, &scratch);
    if (status == CST_OK) {
        cst_resample_once(&scratch.resample);
        score(job, &scratch, 1, 1, job->value);
    }
    scratch_free(context, &scratch);
    int64_t batch = (int64_t)BATCHES * CST_LANES;
    CST_THEN(cst_resample_all(context, job->resamples, batch, resample_task, job, job->drawn,
                              (int64_t)job->methods * job->scores));
    return status;
}

/* ---- class-wise ---- */

/* total [CST_LANES]: weight of the rows of each resample. */
static void lane_weights(const bootstrap *job, const unsigned char *count, double *total) {
    for (int l = 0; l < CST_LANES; l++)
        total[l] = job->weights ? 0 : (double)job->rows;
    for (int64_t i = 0; job->weights && i < job->rows; i++)
        for (int l = 0; l < CST_LANES; l++)
            total[l] += job->weights[i] * count[i * CST_LANES + l];
}

typedef struct class_job {
    const bootstrap *job;
    cst_class_bins classes;
    double *drawn; /* [resamples] */
} class_job;

static cst_status class_task(cst_context *context, void *user, int64_t task) {
    const class_job *part = user;
    const bootstrap *job = part->job;
    cst_resample drawn;
    double ece[CST_LANES];
    double total[CST_LANES];
    cst_status status = cst_resample_make(context, job->rows, &drawn);
    double *sums = cst_alloc(context, (size_t)job->classes * CST_LANES, sizeof *sums);
    if (!sums)
        status = CST_ERROR_MEMORY;
    int64_t first = task * BATCHES * CST_LANES;
    for (int b = 0; status == CST_OK && b < BATCHES && first < job->resamples; b++) {
        cst_resample_draw(&drawn, job->seed, (uint32_t)first);
        lane_weights(job, drawn.count, total);
        cst_class_bins_ece(&part->classes, &drawn, total, sums, ece);
        for (int64_t l = 0; l < CST_LANES && first + l < job->resamples; l++)
            part->drawn[first + l] = ece[l];
        first += CST_LANES;
    }
    cst_free(context, sums);
    cst_resample_free(context, &drawn);
    return status;
}

/* One method at a time, since the lists of all classes are large. */
static cst_status classwise(cst_context *context, const bootstrap *job, int32_t m) {
    double *to = job->drawn + ((int64_t)m * ALL + CLASSWISE) * job->resamples;
    class_job part = {.job = job, .drawn = to};
    cst_resample once;
    double ece[CST_LANES];
    double total[CST_LANES];
    double *sums = cst_alloc(context, (size_t)job->classes * CST_LANES, sizeof *sums);
    cst_status status = cst_resample_make(context, job->rows, &once);
    if (!sums)
        status = CST_ERROR_MEMORY;
    CST_THEN(cst_class_bins_make(context, job->probabilities[m], job->rows, job->classes,
                                 job->labels, job->weights, job->bins, &part.classes));
    if (status == CST_OK) {
        cst_resample_once(&once);
        lane_weights(job, once.count, total);
        cst_class_bins_ece(&part.classes, &once, total, sums, ece);
        job->value[m * ALL + CLASSWISE] = ece[0];
        int64_t batch = (int64_t)BATCHES * CST_LANES;
        status = cst_resample_all(context, job->resamples, batch, class_task, &part, to, 1);
    }
    cst_class_bins_free(context, &part.classes);
    cst_resample_free(context, &once);
    cst_free(context, sums);
    return status;
}

/* ---- intervals ---- */

typedef struct interval_job {
    const bootstrap *job;
    int32_t reference;
    cst_metric_intervals *intervals;
    cst_metric_intervals *differences;
} interval_job;

static cst_interval *field(cst_metric_intervals *intervals, int32_t s) {
    cst_interval *fields[ALL] = {[TOP1] = &intervals->top1,
                                 [NLL] = &intervals->nll,
                                 [BRIER] = &intervals->brier,
                                 [ECE] = &intervals->ece,
                                 [MASS] = &intervals->ece_mass,
                                 [CLASSWISE] = &intervals->ece_classwise,
                                 [DEBIASED] = &intervals->ece_debiased,
                                 [CORP] = &intervals->corp};
    return fields[s];
}

/* One score of one method. */
static cst_status interval_task(cst_context *context, void *user, int64_t task) {
    const interval_job *part = user;
    const bootstrap *job = part->job;
    int32_t n = job->resamples;
    int32_t m = (int32_t)(task / job->scores);
    int32_t s = (int32_t)(task % job->scores);
    int64_t other = (int64_t)part->reference * job->scores + s;
    const double *drawn = job->drawn + task * n;
    double *values = cst_alloc(context, (size_t)n, sizeof *values);
    if (!values)
        return CST_ERROR_MEMORY;
    if (part->intervals) {
        memcpy(values, drawn, (size_t)n * sizeof *values);
        *field(&part->intervals[m], s) = cst_interval_of(values, n, job->value[task]);
    }
    if (part->differences) {
        for (int32_t r = 0; r < n; r++)
            values[r] = drawn[r] - job->drawn[other * n + r];
        *field(&part->differences[m], s) =
            cst_interval_of(values, n, job->value[task] - job->value[other]);
    }
    cst_free(context, values);
    return CST_OK;
}

static cst_status intervals(cst_context *context, interval_job *part) {
    const bootstrap *job = part->job;
    const cst_interval none = {NAN, NAN, NAN};
    const cst_metric_intervals empty = {job->resamples, none, none, none, none,
                                        none,           none, none, none};
    for (int32_t m = 0; m < job->methods; m++) {
        if (part->intervals)
            part->intervals[m] = empty;
        if (part->differences)
            part->differences[m] = empty;
    }
    return cst_parallel_for(context, (int64_t)job->methods * job->scores, interval_task, part);
}

/* ---- all methods ---- */

/* Sorts a method's samples by bin and correctness, by counting. */
static cst_status pack(cst_context *context, const bootstrap *job, const cst_samples *samples,
                       method_bins *out) {
    size_t parts = (size_t)job->bins * 2;
    out->samples = cst_alloc(context, (size_t)job->rows, sizeof *out->samples);
    out->end = cst_alloc(context, parts, sizeof *out->end);
    if (!out->samples || !out->end)
        return CST_ERROR_MEMORY;
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
    return is_ordered(job) ? cst_order_make(context, samples, job->bins, &out->order) : CST_OK;
}

static cst_status prepare(cst_context *context, bootstrap *job) {
    size_t cells = (size_t)job->methods * (size_t)job->scores; /* both small: checked */
    job->method = cst_alloc(context, (size_t)job->methods, sizeof *job->method);
    job->value = cst_alloc(context, cells, sizeof *job->value);
    job->drawn = cst_alloc(context, cells * (size_t)job->resamples, sizeof *job->drawn);
    if (!job->method || !job->value || !job->drawn)
        return CST_ERROR_MEMORY;
    cst_status status = CST_OK;
    for (int32_t m = 0; status == CST_OK && m < job->methods; m++) {
        cst_samples samples = {0};
        cst_view view = cst_view_of_one(&job->probabilities[m], job->rows, job->classes,
                                        job->labels, job->weights);
        status = job->weights ? cst_samples_of(context, &view, 0, &samples)
                              : cst_samples_make(context, job->probabilities[m], job->rows,
                                                 job->classes, job->labels, &samples);
        CST_THEN(pack(context, job, &samples, &job->method[m]));
        cst_samples_free(context, &samples);
    }
    return status;
}

static void bootstrap_free(cst_context *context, bootstrap *job) {
    for (int32_t m = 0; job->method && m < job->methods; m++) {
        cst_free(context, job->method[m].samples);
        cst_free(context, job->method[m].end);
        cst_order_free(context, &job->method[m].order);
    }
    cst_free(context, job->method);
    cst_free(context, job->value);
    cst_free(context, job->drawn);
}

static cst_status check(cst_context *context, const bootstrap *job, const interval_job *part) {
    if (job->resamples < 1 || job->resamples > CST_RESAMPLES_MAX || job->methods < 1 ||
        job->methods > METHODS_MAX)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%d resamples of %d methods: use 1 to %d resamples of 1 to %d methods",
                        job->resamples, job->methods, CST_RESAMPLES_MAX, METHODS_MAX);
    if (part->differences && (part->reference < 0 || part->reference >= job->methods))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "the reference is method %d of %d: use 0 to %d", part->reference,
                        job->methods, job->methods - 1);
    if (job->rows > UINT32_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "%lld rows are too many to resample",
                        (long long)job->rows);
    return CST_OK;
}

cst_status cst_bootstrap_weighted(cst_context *context, const cst_bootstrap_input *input,
                                  cst_metric_intervals *out, cst_metric_intervals *differences) {
    bootstrap job = {.probabilities = input->probabilities,
                     .labels = input->labels,
                     .weights = input->weights,
                     .rows = input->rows,
                     .classes = input->classes,
                     .methods = input->methods,
                     .resamples = input->resamples,
                     .seed = input->seed,
                     .scores = input->scores == CST_BOOTSTRAP_BASIC ? BASIC : ALL};
    interval_job part = {&job, differences ? input->reference : 0, out, differences};
    cst_status status = cst_bins_check(context, input->bins, &job.bins);
    CST_THEN(check(context, &job, &part));
    CST_THEN(cst_stage(context, "intervals"));
    CST_THEN(prepare(context, &job));
    CST_THEN(resample(context, &job));
    for (int32_t m = 0; status == CST_OK && job.scores == ALL && m < job.methods; m++)
        status = classwise(context, &job, m);
    CST_THEN(intervals(context, &part));
    bootstrap_free(context, &job);
    return status;
}
