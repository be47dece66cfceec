/*
 * Scores that need the confidences in order: equal-mass ECE, debiased ECE, CORP. Shared by the
 * scores and their bootstrap, so that both are one arithmetic. docs/json.md#evaluate; CORP:
 * Dimitriadis, Gneiting and Jordan (2021).
 */
#include "stats/levels.h"

#include "stats/ranks.h"

#include <math.h>

/* Mean of |N(difference, variance)|, the folded normal. */
static double folded_mean(double difference, double variance) {
    double size = fabs(difference);
    if (variance <= 0)
        return size;
    double sd = sqrt(variance);
    return sd * sqrt(2 / 3.14159265358979323846) * exp(-size * size / (2 * variance)) +
           size * erf(size / (sd * sqrt(2)));
}

void cst_bin_errors(const double *binned, int32_t bins, double total, double *ece,
                    double *debiased) {
    double error = 0;
    double bias = 0;
    for (int32_t b = 0; b < bins; b++) {
        const double *bin = binned + (size_t)b * CST_BIN_WIDTH;
        if (bin[CST_BIN_COUNT] == 0)
            continue;
        double share = bin[CST_BIN_COUNT] / total;
        double accuracy = bin[CST_BIN_CORRECT] / bin[CST_BIN_COUNT];
        double gap = accuracy - bin[CST_BIN_CONFIDENCE] / bin[CST_BIN_COUNT];
        error += share * fabs(gap);
        bias +=
            share * (folded_mean(gap, accuracy * (1 - accuracy) / bin[CST_BIN_COUNT]) - fabs(gap));
    }
    *ece = error;
    *debiased = fmax(error - bias, 0);
}

double cst_equal_mass_error(const cst_level *levels, int64_t count, double total, int32_t bins) {
    double error = 0;
    double inside = 0;
    double gap = 0;
    int64_t bin = 0;
    for (int64_t i = 0; i < count; i++) {
        inside += levels[i].count;
        gap += levels[i].correct - levels[i].count * levels[i].confidence;
        if (inside * bins < (double)(bin + 1) * total)
            continue;
        error += fabs(gap);
        gap = 0;
        while (bin < bins && inside * bins >= (double)(bin + 1) * total)
            bin++;
    }
    error += fabs(gap); /* nothing, unless rounding leaves weights short of their total */
    return error / total;
}

double cst_corp_miscalibration(cst_level *levels, int64_t count, double total) {
    double before = 0;
    for (int64_t i = 0; i < count; i++) {
        double p = levels[i].confidence;
        before +=
            levels[i].correct * (1 - p) * (1 - p) + (levels[i].count - levels[i].correct) * p * p;
    }
    int64_t top = 0;
    for (int64_t i = 0; i < count; i++) {
        levels[top++] = levels[i];
        while (top > 1 && levels[top - 2].correct * levels[top - 1].count >=
                              levels[top - 1].correct * levels[top - 2].count) {
            levels[top - 2].count += levels[top - 1].count;
            levels[top - 2].correct += levels[top - 1].correct;
            top--;
        }
    }
    double after = 0;
    for (int64_t i = 0; i < top; i++)
        after += levels[i].correct * (1 - levels[i].correct / levels[i].count);
    return fmax((before - after) / total, 0);
}

/* ---- presorted rows ---- */

static void merge(cst_context *context, const cst_ranked *sorted, const cst_samples *samples,
                  int32_t bins, cst_order *out) {
    for (int64_t i = 0; i < out->rows; i++) {
        cst_trim_item(context, i);
        if (i == 0 || sorted[i].value != sorted[i - 1].value) {
            out->confidence[out->levels] = sorted[i].value;
            out->bin[out->levels++] = cst_bin_of(sorted[i].value, bins);
        }
        out->end[out->levels - 1] = i + 1;
        out->row[i] = (uint32_t)sorted[i].index;
        out->correct[i] = samples->correct[sorted[i].index];
        if (samples->weight)
            out->weight[i] = samples->weight[sorted[i].index];
    }
}

cst_status cst_order_make(cst_context *context, cst_scope *scope, const cst_samples *samples,
                          int32_t bins, cst_order *out) {
    CST_SCOPE(own);
    cst_ranked *sorted;
    int64_t rows = samples->rows;
    *out = (cst_order){.rows = rows};
    CST_TAKE(context, scope, out->row, rows);
    CST_TAKE(context, scope, out->correct, rows);
    CST_TAKE(context, scope, out->end, rows);
    CST_TAKE(context, scope, out->confidence, rows);
    CST_TAKE(context, scope, out->bin, rows);
    if (samples->weight)
        CST_TAKE(context, scope, out->weight, rows);
    CST_TAKE(context, own, sorted, rows);
    CST_TRY(cst_rank_sort_rows(context, samples->confidence, rows, sorted));
    merge(context, sorted, samples, bins, out);
    return CST_OK;
}

/* Weights instead of counts of the samples first..end-1 of a level. */
static void weigh_level(const cst_order *order, const unsigned char *count, int64_t first,
                        int64_t end, cst_level *level) {
    level->count = 0;
    level->correct = 0;
    for (int64_t i = first; i < end; i++) {
        double weight = order->weight[i] * (count ? count[order->row[i]] : 1);
        level->count += weight;
        level->correct += order->correct[i] ? weight : 0;
    }
}

int64_t cst_order_levels(const cst_order *order, const unsigned char *count, cst_level *levels,
                         double *binned) {
    int64_t used = 0;
    int64_t i = 0;
    for (int64_t l = 0; l < order->levels; l++) {
        int64_t samples = 0;
        int64_t correct = 0;
        int64_t first = i;
        for (; i < order->end[l]; i++) {
            int64_t times = count ? count[order->row[i]] : 1;
            samples += times;
            correct += order->correct[i] ? times : 0;
        }
        levels[used] = (cst_level){order->confidence[l], (double)samples, (double)correct};
        if (order->weight)
            weigh_level(order, count, first, i, &levels[used]);
        if (binned) {
            double *bin = binned + (size_t)order->bin[l] * CST_BIN_WIDTH;
            bin[CST_BIN_COUNT] += levels[used].count;
            bin[CST_BIN_CORRECT] += levels[used].correct;
            bin[CST_BIN_CONFIDENCE] += levels[used].count * order->confidence[l];
        }
        used += samples > 0;
    }
    return used;
}
