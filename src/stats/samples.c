/*
 * Per-sample losses, confidence and bins, with the check of labels and probabilities. Before every
 * score. docs/json.md#evaluate.
 */
#include "stats/samples.h"

#include "stats/risk.h"

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
    if (rows < 1 || classes < 1 || !probabilities || !labels)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "scores need at least one row, one class and labels: got %lld rows of %d "
                        "classes",
                        (long long)rows, classes);
    cst_view view = {
        .rows = rows, .classes = classes, .members = 1, .data = &probabilities, .labels = labels};
    return fill(context, &view, 0, false, samples);
}

static cst_status allocate(cst_context *context, cst_scope *scope, int64_t rows, cst_samples *out) {
    int64_t count = rows > 0 ? rows : 0;
    *out = (cst_samples){0};
    CST_TAKE(context, scope, out->nll, count);
    CST_TAKE(context, scope, out->brier, count);
    CST_TAKE(context, scope, out->confidence, count);
    CST_TAKE(context, scope, out->correct, count);
    return CST_OK;
}

cst_status cst_samples_make(cst_context *context, cst_scope *scope, const float *probabilities,
                            int64_t rows, int32_t classes, const int32_t *labels,
                            cst_samples *out) {
    CST_TRY(allocate(context, scope, rows, out));
    return cst_samples_fill(context, probabilities, rows, classes, labels, out);
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
    CST_TRY(allocate(context, scope, view->rows, out));
    if (view->weights)
        CST_TAKE(context, scope, out->weight, view->rows);
    for (int64_t i = 0; view->weights && i < view->rows; i++)
        out->weight[i] = cst_view_weight(view, i);
    if (view->rows < 1 || !view->labels)
        return cst_fail(context, CST_ERROR_ARGUMENT, "scores need labelled rows");
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
