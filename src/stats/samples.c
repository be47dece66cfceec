/* Per-sample losses, levels of confidence and sums over bins. docs/json.md#evaluate. */
#include "stats/samples.h"

#include "stats/statistics.h"

#include <corestack/metrics.h>
#include <math.h>

cst_status cst_bins_check(cst_context *context, int bins, int32_t *out) {
    *out = bins == 0 ? CST_METRIC_BINS : bins;
    if (*out < 1 || *out > CST_METRIC_BINS_MAX)
        return cst_fail(context, CST_ERROR_ARGUMENT, "%d calibration bins: use 1 to %d", bins,
                        CST_METRIC_BINS_MAX);
    return CST_OK;
}

int32_t cst_bin_of(double probability, int32_t bins) {
    if (!(probability > 0))
        return 0;
    if (probability >= 1)
        return bins - 1;
    double scaled = probability * bins;
    int32_t bin = (int32_t)scaled;
    double inside = scaled - bin;
    if (inside > 1e-9 && inside < 1 - 1e-9)
        return bin;
    /* The product above rounds; next to an edge, the edge decides. */
    if (bin > bins - 1)
        bin = bins - 1;
    while (bin > 0 && probability < (double)bin / bins)
        bin--;
    while (bin < bins - 1 && probability >= (double)(bin + 1) / bins)
        bin++;
    return bin;
}

typedef struct fill_job {
    const cst_view *view;
    int32_t member;
    cst_samples *samples;
} fill_job;

static cst_status bad_row(cst_context *context, const float *row, int32_t classes, int64_t i) {
    double sum = 0;
    for (int32_t c = 0; c < classes; c++) {
        double p = (double)row[c];
        if (!isfinite(p))
            return cst_fail(context, CST_ERROR_INPUT,
                            "row %lld, class %d is %g: probabilities must be finite", (long long)i,
                            c, p);
        if (p < -CST_PROBABILITY_TOLERANCE || p > 1 + CST_PROBABILITY_TOLERANCE)
            return cst_fail(context, CST_ERROR_INPUT,
                            "row %lld, class %d is %g, outside [0, 1]: if these are logits, apply "
                            "softmax first",
                            (long long)i, c, p);
        sum += p;
    }
    return cst_fail(context, CST_ERROR_INPUT,
                    "row %lld sums to %g, not 1: give one probability per class", (long long)i,
                    sum);
}

cst_status cst_distribution_check(cst_context *context, const float *row, int32_t classes,
                                  int64_t i) {
    double sum = 0;
    double least = 0;
    double most = 0;
    for (int32_t c = 0; c < classes; c++) {
        sum += (double)row[c];
        least = fmin(least, (double)row[c]);
        most = fmax(most, (double)row[c]);
    }
    if (fabs(sum - 1) <= CST_PROBABILITY_TOLERANCE && least >= -CST_PROBABILITY_TOLERANCE &&
        most <= 1 + CST_PROBABILITY_TOLERANCE)
        return CST_OK;
    return bad_row(context, row, classes, i);
}

static cst_status fill_row(cst_context *context, const fill_job *job, const float *row, int64_t i) {
    const cst_samples *to = job->samples;
    int32_t classes = job->view->classes;
    int32_t label = cst_view_label(job->view, i);
    if (label < 0 || label >= classes)
        return cst_fail(context, CST_ERROR_INPUT, "label of row %lld is %d, outside 0..%d",
                        (long long)i, label, classes - 1);
    double sum = 0;
    double squares = 0;
    float least = row[0];
    int32_t best = 0;
    for (int32_t c = 0; c < classes; c++) {
        double p = (double)row[c];
        sum += p;
        squares += p * p;
        best = row[c] > row[best] ? c : best;
        least = row[c] < least ? row[c] : least;
    }
    /* A NaN anywhere makes the sum NaN, and then the first comparison fails. */
    if (!(fabs(sum - 1) <= CST_PROBABILITY_TOLERANCE) ||
        !((double)least >= -CST_PROBABILITY_TOLERANCE) ||
        !((double)row[best] <= 1 + CST_PROBABILITY_TOLERANCE))
        return bad_row(context, row, classes, i);
    double truth = (double)row[label];
    if (to->nll)
        to->nll[i] = -log(fmax(truth, CST_NLL_FLOOR));
    if (to->brier)
        to->brier[i] = squares - truth * truth + (1 - truth) * (1 - truth);
    if (to->confidence)
        to->confidence[i] = (double)row[best];
    if (to->correct)
        to->correct[i] = best == label;
    return CST_OK;
}

static cst_status fill_block(cst_context *context, void *user, int64_t block) {
    const fill_job *job = user;
    CST_SCOPE(scope);
    cst_rows rows;
    CST_TRY(cst_rows_open(context, scope, job->view, block, &rows));
    CST_TRY(cst_rows_read(context, &rows, job->member));
    for (int64_t i = 0; i < rows.count; i++)
        CST_TRY(fill_row(context, job, cst_rows_at(&rows, i), rows.first + i));
    return CST_OK;
}

/* own: a rank fills in its own rows only. */
static cst_status fill(cst_context *context, const cst_view *view, int32_t member, bool own,
                       cst_samples *samples) {
    samples->rows = view->rows;
    fill_job job = {view, member, samples};
    if (own)
        return cst_parallel_own(context, cst_block_count(view->rows), 1, fill_block, &job);
    double *const columns[] = {samples->nll, samples->brier, samples->confidence};
    cst_share filled[4];
    int32_t count = 0;
    for (size_t a = 0; a < sizeof columns / sizeof *columns; a++)
        if (columns[a])
            filled[count++] = cst_share_rows(columns[a], view->rows, sizeof(double));
    if (samples->correct)
        filled[count++] = cst_share_rows(samples->correct, view->rows, sizeof *samples->correct);
    return cst_parallel_fill(context, cst_block_count(view->rows), fill_block, &job, filled, count);
}

cst_status cst_samples_fill(cst_context *context, const float *probabilities, int64_t rows,
                            int32_t classes, const int32_t *labels, cst_samples *samples) {
    CST_TRY(cst_scores_check(context, samples, probabilities, rows, classes, labels, ""));
    const cst_view view = cst_view_of_one(&probabilities, rows, classes, labels, NULL);
    return fill(context, &view, 0, false, samples);
}

cst_status cst_samples_make(cst_context *context, cst_scope *scope, const float *probabilities,
                            int64_t rows, int32_t classes, const int32_t *labels,
                            cst_samples *out) {
    CST_TRY(cst_scores_check(context, out, probabilities, rows, classes, labels, ""));
    const cst_view view = cst_view_of_one(&probabilities, rows, classes, labels, NULL);
    return cst_samples_of(context, scope, &view, 0, false, out);
}

double cst_samples_weight(const cst_samples *samples) {
    double sum = 0;
    if (!samples->weight)
        return (double)samples->rows;
    for (int64_t i = 0; i < samples->rows; i++)
        sum += samples->weight[i];
    return sum;
}

cst_status cst_samples_of(cst_context *context, cst_scope *scope, const cst_view *view,
                          int32_t member, bool own, cst_samples *out) {
    *out = (cst_samples){0};
    if (view->rows < 1 || !view->labels)
        return cst_fail(context, CST_ERROR_ARGUMENT, "scores need labelled rows");
    CST_TAKE(context, scope, out->nll, view->rows);
    CST_TAKE(context, scope, out->brier, view->rows);
    CST_TAKE(context, scope, out->confidence, view->rows);
    CST_TAKE(context, scope, out->correct, view->rows);
    if (view->weights)
        CST_TAKE(context, scope, out->weight, view->rows);
    for (int64_t i = 0; view->weights && i < view->rows; i++)
        out->weight[i] = cst_view_weight(view, i);
    return fill(context, view, member, own, out);
}

cst_status cst_scores_check(cst_context *context, const void *out, const float *probabilities,
                            int64_t rows, int32_t classes, const int32_t *labels,
                            const char *needs) {
    if (!out)
        return cst_fail(context, CST_ERROR_ARGUMENT, "%s", needs);
    if (rows < 1 || classes < 1 || !probabilities || !labels)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "scores need at least one row, one class and labels: got %lld rows of %d "
                        "classes",
                        (long long)rows, classes);
    return CST_OK;
}

cst_view cst_view_of_one(const float *const *probabilities, int64_t rows, int32_t classes,
                         const int32_t *labels, const double *weights) {
    return (cst_view){.rows = rows,
                      .classes = classes,
                      .members = 1,
                      .data = probabilities,
                      .labels = labels,
                      .weights = weights,
                      .weight_scale = 1};
}

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

typedef struct sum_job {
    const cst_samples *samples;
    int32_t bins;
} sum_job;

static cst_status sum_block(cst_context *context, void *user, int64_t block, double *sum) {
    (void)context;
    const sum_job *job = user;
    const cst_samples *s = job->samples;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(s->rows, block);
    for (int64_t i = first; i < end; i++) {
        double weight = s->weight ? s->weight[i] : 1;
        double gap = s->correct[i] - s->confidence[i];
        sum[CST_SUM_CORRECT] += weight * s->correct[i];
        sum[CST_SUM_NLL] += s->nll ? weight * s->nll[i] : 0;
        sum[CST_SUM_BRIER] += s->brier ? weight * s->brier[i] : 0;
        sum[CST_SUM_GAPS] += gap * gap;
        double *bin =
            sum + CST_SUMS + (size_t)cst_bin_of(s->confidence[i], job->bins) * CST_BIN_WIDTH;
        bin[CST_BIN_COUNT] += weight;
        bin[CST_BIN_CORRECT] += weight * s->correct[i];
        bin[CST_BIN_CONFIDENCE] += weight * s->confidence[i];
        bin[CST_BIN_ROWS] += 1;
    }
    return CST_OK;
}

cst_status cst_samples_sum(cst_context *context, cst_scope *scope, const cst_samples *samples,
                           int32_t bins, double **out) {
    size_t width = CST_SUMS + (size_t)bins * CST_BIN_WIDTH;
    sum_job job = {samples, bins};
    CST_TAKE(context, scope, *out, width);
    return cst_reduce_blocks(context, cst_block_count(samples->rows), width, sum_block, &job, *out);
}

static void merge(cst_context *context, const cst_rank_item *sorted, const cst_samples *samples,
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
    int64_t rows = samples->rows;
    *out = (cst_order){.rows = rows};
    CST_TAKE(context, scope, out->row, rows);
    CST_TAKE(context, scope, out->correct, rows);
    CST_TAKE(context, scope, out->end, rows);
    CST_TAKE(context, scope, out->confidence, rows);
    CST_TAKE(context, scope, out->bin, rows);
    if (samples->weight)
        CST_TAKE(context, scope, out->weight, rows);
    CST_NEW(context, own, cst_rank_item, sorted, rows);
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

/* ---- risk of members ---- */

typedef struct risk_job {
    const cst_view *view;
    bool top1; /* count correct rows instead of the NLL */
} risk_job;

static double row_nll(const float *row, int32_t label) {
    return -log(fmax((double)row[label], CST_NLL_FLOOR));
}

static cst_status risk_block(cst_context *context, void *user, int64_t block, double *sum) {
    const risk_job *job = user;
    const cst_view *view = job->view;
    CST_SCOPE(scope);
    cst_rows rows;
    CST_TRY(cst_rows_open(context, scope, view, block, &rows));
    bool singly = view->index && !view->store; /* one row is not copied */
    for (int32_t k = 0; k < view->members; k++) {
        const uint8_t *present = cst_view_present(view, k);
        if (!singly)
            CST_TRY(cst_rows_read(context, &rows, k));
        for (int64_t i = 0; i < rows.count; i++) {
            int64_t n = rows.first + i;
            int32_t label = cst_view_label(view, n);
            const float *row = NULL;
            if (singly)
                CST_TRY(cst_view_rows(context, view, k, n, 1, rows.scratch, &row));
            else
                row = cst_rows_at(&rows, i);
            double loss =
                job->top1 ? cst_largest(row, view->classes) == label : row_nll(row, label);
            loss = view->weights ? cst_view_weight(view, n) * loss : loss;
            sum[k] += loss;
            if (view->presence && cst_view_is_there(view, present, n))
                sum[view->members + k] += loss;
        }
    }
    return CST_OK;
}

static cst_status mean_over_rows(cst_context *context, const risk_job *job, double *out) {
    int64_t rows = job->view->rows;
    size_t members = (size_t)job->view->members;
    size_t width = job->view->presence ? 2 * members : members;
    if (rows < 1 || !job->view->labels)
        return cst_fail(context, CST_ERROR_INPUT,
                        "the risk of a member needs labelled rows: the split has %s",
                        rows < 1 ? "no rows" : "no labels");
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sum, width);
    CST_TRY(cst_reduce_blocks(context, cst_block_count(rows), width, risk_block, (void *)job, sum));
    double total = cst_view_weight_sum(job->view);
    for (size_t k = 0; k < members; k++) {
        double there = cst_view_present_sum(job->view, (int32_t)k);
        bool part = job->view->presence && there > 0;
        out[k] = part ? sum[members + k] / there : sum[k] / total;
    }
    return CST_OK;
}

cst_status cst_risk_all(cst_context *context, const cst_view *view, double *out) {
    risk_job job = {.view = view};
    return mean_over_rows(context, &job, out);
}

cst_status cst_risk_top1_all(cst_context *context, const cst_view *view, double *out) {
    risk_job job = {.view = view, .top1 = true};
    return mean_over_rows(context, &job, out);
}
