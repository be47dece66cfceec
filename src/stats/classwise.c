/*
 * Class-wise ECE of bootstrap resamples. Under cst_bootstrap_compare; the score of the samples
 * themselves is in metrics.c. docs/json.md#evaluate.
 */
#include "stats/classwise.h"

#include "stats/samples.h"

#include <math.h>
#include <string.h>

/* Visits the entries of the lists, row by row: counts them into `size` [classes][bins], or, where
 * `out` is given, puts each at the place that its part of `size` says. */
static void list_entries(const cst_class_bins *in, const int32_t *labels, int64_t *size,
                         cst_class_bins *out) {
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

cst_status cst_class_bins_make(cst_context *context, cst_scope *scope, const float *probabilities,
                               int64_t rows, int32_t classes, const int32_t *labels,
                               const double *weights, int32_t bins, cst_class_bins *out) {
    *out = (cst_class_bins){.probabilities = probabilities,
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
__attribute__((always_inline)) static inline void sum_group(const cst_class_bins *in,
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
static void sum_classes(const cst_class_bins *in, const unsigned char *count, double *sums) {
    int32_t c = 0;
    for (; c + GROUP <= in->classes; c += GROUP)
        sum_group(in, count, c, GROUP, sums + (size_t)c * CST_LANES);
    for (; c < in->classes; c++)
        sum_group(in, count, c, 1, sums + (size_t)c * CST_LANES);
}

/* total [CST_LANES]: absolute sums of gaps over all classes and bins. all: what sum_classes gave.
 */
CST_VECTOR_CLONES
static void sum_gaps(const cst_class_bins *in, const unsigned char *count, const double *all,
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

void cst_class_bins_ece(const cst_class_bins *classes, const cst_resample *resample,
                        const double *total, double *scratch, double *ece) {
    sum_classes(classes, resample->count, scratch);
    sum_gaps(classes, resample->count, scratch, ece);
    for (int l = 0; l < CST_LANES; l++)
        ece[l] /= total[l] * (double)classes->classes;
}
