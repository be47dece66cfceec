/* Scores of independent probabilities of labels; cells that are not known do not count. Beside
 * comparisons and fits. docs/multilabel.md#scores. */
#include "tasks/multilabel/multilabel.h"

#include <math.h>
#include <string.h>

enum { BINS = 15, THRESHOLD_FOLDS = 5 };

/* A known cell. */
typedef struct cell {
    float p;
    bool positive;
    int8_t fold; /* of its row, where thresholds are found without it */
    double weight;
    int64_t row;
} cell;

CST_BY(by_score, cell, CST_DOWN(p), CST_UP(row), 0)

double cst_label_loss(double p, bool positive) {
    double q = positive ? p : 1 - p;
    return -log(fmin(fmax(q, CST_LABEL_FLOOR), 1 - CST_LABEL_FLOOR));
}

static double weight_of(const cst_label_cells *rows, int64_t row) {
    return rows->weights ? rows->weights[row] : 1;
}

/* The known cells of a label, by descending probability. */
static cst_status sorted_cells(cst_context *context, const cst_label_cells *rows, int32_t label,
                               cell *out, int64_t *count) {
    *count = 0;
    for (int64_t i = 0; i < rows->rows; i++) {
        int64_t at = i * rows->labels + label;
        if (!isnan(rows->targets[at]))
            out[(*count)++] = (cell){rows->p[at], rows->targets[at] > 0.5,
                                     (int8_t)(i % THRESHOLD_FOLDS), weight_of(rows, i), i};
    }
    return cst_sort(context, out, (size_t)*count, sizeof *out, by_score);
}

/* ROC AUC and average precision of sorted cells; NaN where one is not defined. */
static void rank_scores(const cell *cells, int64_t count, double *auc, double *ap) {
    double right = 0;
    double wrong = 0;
    double positives = 0;
    double area = 0;
    double precision = 0;
    for (int64_t i = 0; i < count; i++)
        positives += cells[i].positive ? cells[i].weight : 0;
    for (int64_t first = 0, end = 0; first < count; first = end) {
        double added[2] = {0, 0};
        for (; end < count && !(cells[end].p < cells[first].p); end++)
            added[cells[end].positive] += cells[end].weight;
        area += added[0] * (right + added[1] / 2);
        right += added[1];
        wrong += added[0];
        precision += added[1] > 0 ? added[1] * (right / (right + wrong)) : 0;
    }
    *auc = positives > 0 && wrong > 0 ? area / (positives * wrong) : NAN;
    *ap = positives > 0 ? precision / positives : NAN;
}

/* Threshold of the largest F1 on sorted cells without a fold; of equal ones the largest; infinite
 * without a positive one. */
static double best_threshold(const cell *cells, int64_t count, int fold) {
    double positives = 0;
    double right = 0;
    double named = 0;
    double best = 0;
    double threshold = INFINITY;
    for (int64_t i = 0; i < count; i++)
        positives += cells[i].positive && cells[i].fold != fold ? cells[i].weight : 0;
    for (int64_t first = 0, end = 0; first < count; first = end) {
        for (; end < count && !(cells[end].p < cells[first].p); end++) {
            double weight = cells[end].fold != fold ? cells[end].weight : 0;
            named += weight;
            right += cells[end].positive ? weight : 0;
        }
        double f1 = positives + named > 0 ? 2 * right / (positives + named) : 0;
        if (f1 > best) {
            best = f1;
            threshold = (double)cells[first].p;
        }
    }
    return threshold;
}

/* Twice the true positives, and those and the errors, at thresholds found without each row's fold.
 */
static void f1_counts(const cell *cells, int64_t count, double *both, double *all) {
    double threshold[THRESHOLD_FOLDS];
    *both = *all = 0;
    for (int f = 0; f < THRESHOLD_FOLDS; f++)
        threshold[f] = best_threshold(cells, count, f);
    for (int64_t i = 0; i < count; i++) {
        bool named = (double)cells[i].p >= threshold[cells[i].fold];
        *both += named && cells[i].positive ? 2 * cells[i].weight : 0;
        *all += cells[i].weight * (named + cells[i].positive);
    }
}

typedef struct labels_job {
    const cst_label_cells *rows;
    cst_label_score *each; /* [labels] */
    double *f1;            /* [labels][2] */
} labels_job;

static cst_status score_label(cst_context *context, void *user, int64_t label) {
    const labels_job *job = user;
    cst_label_score *out = &job->each[label];
    double weight = 0;
    int64_t count = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, cell, cells, job->rows->rows);
    CST_TRY(sorted_cells(context, job->rows, (int32_t)label, cells, &count));
    *out = (cst_label_score){.known = count};
    for (int64_t i = 0; i < count; i++) {
        out->positives += cells[i].positive;
        out->log_loss += cells[i].weight * cst_label_loss((double)cells[i].p, cells[i].positive);
        weight += cells[i].weight;
    }
    out->log_loss = weight > 0 ? out->log_loss / weight : NAN;
    rank_scores(cells, count, &out->auc, &out->ap);
    double *f1 = job->f1 + 2 * label;
    f1_counts(cells, count, &f1[0], &f1[1]);
    out->f1 = out->positives > 0 ? f1[0] / f1[1] : NAN;
    return CST_OK;
}

/* Area over all known cells of all labels together. */
static cst_status micro_auc(cst_context *context, const cst_label_cells *rows, double *out) {
    double ap = 0;
    size_t cells = (size_t)rows->rows * (size_t)rows->labels;
    int64_t count = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, cell, all, cells);
    for (size_t i = 0; i < cells; i++)
        if (!isnan(rows->targets[i]))
            all[count++] = (cell){.p = rows->p[i],
                                  .positive = rows->targets[i] > 0.5,
                                  .weight = weight_of(rows, (int64_t)i / rows->labels),
                                  .row = (int64_t)i};
    CST_TRY(cst_sort(context, all, (size_t)count, sizeof *all, by_score));
    rank_scores(all, count, out, &ap);
    return CST_OK;
}

/* Share of a row's labels of at least the rank of each positive one that are positive, their mean;
 * 1 where all or none are; NaN where nothing is known. */
static double row_lrap(const float *p, const double *y, int32_t labels) {
    double sum = 0;
    int32_t known = 0;
    int32_t positives = 0;
    for (int32_t l = 0; l < labels; l++) {
        int32_t above[2] = {0, 0};
        known += !isnan(y[l]);
        if (!(y[l] > 0.5))
            continue;
        for (int32_t m = 0; m < labels; m++)
            if (!isnan(y[m]) && p[m] >= p[l])
                above[y[m] > 0.5]++;
        positives++;
        sum += (double)above[1] / (above[0] + above[1]);
    }
    return known == 0 ? NAN : positives == 0 || positives == known ? 1 : sum / positives;
}

/* Sums over a block of rows, of weights times: log loss, errors at 1/2, 1; LRAP and 1 of rows; and
 * by bins of probability: 1, probability, truth. */
enum { LOSS, ERRORS, CELLS, RANKING, ROWS, BIN, SUMS = BIN + 3 * BINS };

static cst_status block_sums(cst_context *context, void *user, int64_t block, double *sum) {
    const cst_label_cells *rows = user;
    int64_t first = cst_block_first(block);
    (void)context;
    for (int64_t i = first; i < first + cst_block_size(rows->rows, block); i++) {
        const float *p = rows->p + i * rows->labels;
        const double *y = rows->targets + i * rows->labels;
        double weight = weight_of(rows, i);
        double lrap = row_lrap(p, y, rows->labels);
        sum[RANKING] += isnan(lrap) ? 0 : weight * lrap;
        sum[ROWS] += isnan(lrap) ? 0 : weight;
        for (int32_t l = 0; l < rows->labels; l++) {
            bool positive = y[l] > 0.5;
            int bin = (int)fmin((double)p[l] * BINS, BINS - 1);
            if (isnan(y[l]))
                continue;
            sum[LOSS] += weight * cst_label_loss((double)p[l], positive);
            sum[ERRORS] += (p[l] >= 0.5F) != positive ? weight : 0;
            sum[CELLS] += weight;
            sum[BIN + 3 * bin] += weight;
            sum[BIN + 3 * bin + 1] += weight * (double)p[l];
            sum[BIN + 3 * bin + 2] += positive ? weight : 0;
        }
    }
    return CST_OK;
}

/* The mean of what is defined; NaN where nothing is. */
static double mean_of(const double *first, size_t step, int32_t count) {
    double sum = 0;
    int32_t defined = 0;
    for (int32_t l = 0; l < count; l++) {
        double value = *(const double *)(const void *)((const char *)first + (size_t)l * step);
        sum += isnan(value) ? 0 : value;
        defined += !isnan(value);
    }
    return defined > 0 ? sum / defined : NAN;
}

void cst_label_losses(const cst_label_cells *rows, const float *p, double *out) {
    for (int64_t i = 0; i < rows->rows; i++) {
        int32_t known = 0;
        out[i] = 0;
        for (int64_t at = i * rows->labels; at < (i + 1) * rows->labels; at++)
            if (!isnan(rows->targets[at])) {
                out[i] += cst_label_loss((double)p[at], rows->targets[at] > 0.5);
                known++;
            }
        out[i] *= known > 0 ? (rows->weights ? rows->weights[i] : 1) / known : 0;
    }
}

cst_status cst_label_scores_of(cst_context *context, const cst_label_cells *rows, double *out,
                               cst_label_score *each) {
    double sum[SUMS] = {0};
    double both = 0;
    double all = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, f1, 2 * (size_t)rows->labels);
    labels_job job = {rows, each, f1};
    CST_TRY(cst_parallel_for(context, rows->labels, score_label, &job));
    CST_TRY(cst_reduce_blocks(context, cst_block_count(rows->rows), SUMS, block_sums,
                              (void *)(uintptr_t)rows, sum));
    CST_TRY(micro_auc(context, rows, &out[CST_LABEL_MICRO_AUC]));
    for (int32_t l = 0; l < rows->labels; l++) {
        both += f1[2 * l];
        all += f1[2 * l + 1];
    }
    out[CST_LABEL_LOG_LOSS] = sum[CELLS] > 0 ? sum[LOSS] / sum[CELLS] : NAN;
    out[CST_LABEL_MACRO_AUC] = mean_of(&each->auc, sizeof *each, rows->labels);
    out[CST_LABEL_MAP] = mean_of(&each->ap, sizeof *each, rows->labels);
    out[CST_LABEL_MACRO_F1] = mean_of(&each->f1, sizeof *each, rows->labels);
    out[CST_LABEL_MICRO_F1] = all > 0 ? both / all : NAN;
    out[CST_LABEL_LRAP] = sum[ROWS] > 0 ? sum[RANKING] / sum[ROWS] : NAN;
    out[CST_LABEL_HAMMING] = sum[CELLS] > 0 ? sum[ERRORS] / sum[CELLS] : NAN;
    out[CST_LABEL_ECE] = 0;
    for (int b = 0; b < BINS; b++)
        out[CST_LABEL_ECE] += fabs(sum[BIN + 3 * b + 1] - sum[BIN + 3 * b + 2]) / sum[CELLS];
    return CST_OK;
}

/* ---- intervals ---- */

/* Of one method: what its rows add to the log loss, and each label's rows by descending score. */
typedef struct drawn_method {
    double *loss;   /* [rows] weight times the sum of the row's known cells */
    int32_t *order; /* [labels][rows]; -1: no more known cells */
    const float *p;
} drawn_method;

typedef struct draw_job {
    cst_label_cells rows;
    double *cells; /* [rows] weight times known cells */
    drawn_method *methods;
} draw_job;

/* The area under one label's curve on each lane; NaN where it is not defined. */
static void lane_auc(const draw_job *job, const drawn_method *method, int32_t label,
                     const cst_resample *drawn, double *out) {
    const int32_t *order = method->order + (int64_t)label * job->rows.rows;
    int32_t labels = job->rows.labels;
    double right[CST_LANES] = {0};
    double wrong[CST_LANES] = {0};
    double area[CST_LANES] = {0};
    for (int64_t first = 0, end = 0; first < job->rows.rows && order[first] >= 0; first = end) {
        double added[2][CST_LANES] = {{0}, {0}};
        float p = method->p[(int64_t)order[first] * labels + label];
        for (; end < job->rows.rows && order[end] >= 0 &&
               !(method->p[(int64_t)order[end] * labels + label] < p);
             end++) {
            int64_t row = order[end];
            double *to = added[job->rows.targets[row * labels + label] > 0.5];
            double weight = weight_of(&job->rows, row);
            for (int l = 0; l < CST_LANES; l++)
                to[l] += weight * drawn->count[row * CST_LANES + l];
        }
        for (int l = 0; l < CST_LANES; l++) {
            area[l] += added[0][l] * (right[l] + added[1][l] / 2);
            right[l] += added[1][l];
            wrong[l] += added[0][l];
        }
    }
    for (int l = 0; l < CST_LANES; l++)
        out[l] = right[l] > 0 && wrong[l] > 0 ? area[l] / (right[l] * wrong[l]) : NAN;
}

static void figures(const cst_bootstrap *b, const cst_resample *drawn, void *scratch, int64_t lanes,
                    int64_t stride, double *out) {
    const draw_job *job = b->user;
    (void)scratch;
    for (int32_t m = 0; m < b->methods; m++) {
        const drawn_method *method = &job->methods[m];
        double loss[CST_LANES] = {0};
        double cells[CST_LANES] = {0};
        double auc[CST_LANES] = {0};
        double defined[CST_LANES] = {0};
        for (int64_t i = 0; i < job->rows.rows; i++)
            for (int l = 0; l < CST_LANES; l++) {
                loss[l] += method->loss[i] * drawn->count[i * CST_LANES + l];
                cells[l] += job->cells[i] * drawn->count[i * CST_LANES + l];
            }
        for (int32_t d = 0; !(b->skipped & 2U) && d < job->rows.labels; d++) {
            double one[CST_LANES];
            lane_auc(job, method, d, drawn, one);
            for (int l = 0; l < CST_LANES; l++) {
                auc[l] += isnan(one[l]) ? 0 : one[l];
                defined[l] += !isnan(one[l]);
            }
        }
        for (int64_t l = 0; l < lanes; l++) {
            out[(m * 2) * stride + l] = cells[l] > 0 ? loss[l] / cells[l] : NAN;
            out[(m * 2 + 1) * stride + l] = defined[l] > 0 ? auc[l] / defined[l] : NAN;
        }
    }
}

static cst_status take_method(cst_context *context, cst_scope *scope, const draw_job *job,
                              bool order, drawn_method *method) {
    cst_label_cells rows = job->rows;
    rows.p = method->p;
    CST_SCOPE(own);
    CST_NEW(context, own, cell, cells, order ? rows.rows : 0);
    CST_TAKE(context, scope, method->loss, rows.rows);
    CST_TAKE(context, scope, method->order, order ? rows.rows * rows.labels : 0);
    for (int64_t i = 0; i < rows.rows * rows.labels; i++)
        if (!isnan(rows.targets[i]))
            method->loss[i / rows.labels] +=
                weight_of(&rows, i / rows.labels) *
                cst_label_loss((double)rows.p[i], rows.targets[i] > 0.5);
    for (int32_t d = 0; order && d < rows.labels; d++) {
        int64_t count = 0;
        CST_TRY(sorted_cells(context, &rows, d, cells, &count));
        for (int64_t i = 0; i < rows.rows; i++)
            method->order[d * rows.rows + i] = i < count ? (int32_t)cells[i].row : -1;
    }
    return CST_OK;
}

cst_status cst_label_bootstrap(cst_context *context, const cst_label_cells *rows,
                               const float *const *predicted, int32_t methods, int32_t reference,
                               int32_t resamples, uint64_t seed, cst_interval *interval,
                               cst_interval *difference, double *p) {
    enum { SCORES = 2 };
    static const double most = 4e10; /* what takes a few minutes */
    draw_job job = {.rows = *rows};
    double work = (double)rows->rows * rows->labels * methods * resamples;
    bool order = work <= most && rows->rows < INT32_MAX;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, job.cells, rows->rows);
    CST_TAKE(context, scope, job.methods, methods);
    CST_NEW(context, scope, cst_interval, found, 2 * SCORES * (size_t)methods);
    CST_NEW(context, scope, double, share, SCORES *(size_t)methods);
    for (int64_t i = 0; i < rows->rows * rows->labels; i++)
        job.cells[i / rows->labels] +=
            isnan(rows->targets[i]) ? 0 : weight_of(rows, i / rows->labels);
    for (int32_t m = 0; m < methods; m++) {
        job.methods[m].p = predicted[m];
        CST_TRY(take_method(context, scope, &job, order, &job.methods[m]));
    }
    if (!order)
        cst_notice(context, "no intervals of the macro AUC: they would take %.0f draws of cells",
                   work);
    const cst_bootstrap b = {.samples = {rows->rows, 0},
                             .seed = {seed, seed},
                             .resamples = resamples,
                             .methods = methods,
                             .scores = SCORES,
                             .skipped = order ? 0 : 2,
                             .figures = figures,
                             .user = &job};
    CST_TRY(cst_bootstrap_intervals(context, &b, reference, found, found + SCORES * (size_t)methods,
                                    share));
    for (int32_t m = 0; m < methods; m++)
        for (int32_t s = 0; s < SCORES; s++) {
            interval[m * CST_LABEL_SCORES + s] = found[m * SCORES + s];
            difference[m * CST_LABEL_SCORES + s] = found[(methods + m) * SCORES + s];
            p[m * CST_LABEL_SCORES + s] = share[m * SCORES + s];
        }
    return CST_OK;
}
