/* Class shares of a batch: BBSE (Lipton, Wang and Smola 2018), EM, the two tests, and the
 * correction of probabilities. */
#include "model/shift/label_shift.h"

#include "core/la.h"
#include "method/calibration/calibration.h"
#include "model/shift/parts.h"
#include "stats/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MAX = 1000, BINS = CST_CONFUSION_BINS };

/* Where two rounds of the EM differ by no more than this in all shares together, it ends. */
static const double TOLERANCE = 1e-8;
/* Bins in which fewer rows are expected become one. */
static const double EXPECTED_MIN = 4;
/* A pivot of M'M below this share of the largest means that M is singular. */
static const double SINGULAR = 1e-12;
static const double NORMAL_95 = 1.959963984540054;

const char *cst_label_method_name(cst_label_method method) {
    static const char *const names[] = {"off", "em", "bbse", "fixed"};
    return method >= CST_LABEL_OFF && method <= CST_LABEL_FIXED ? names[method] : NULL;
}

const char *cst_label_verdict_text(cst_label_verdict verdict, cst_label_method method) {
    switch (verdict) {
    case CST_LABEL_APPLIED:
        return method == CST_LABEL_FIXED
                   ? "rows look unlike the fit rows, and class shares are assumed to be unchanged"
                   : "the class shares have changed, and that explains the batch";
    case CST_LABEL_FEW_ROWS:
        return "the batch has fewer than 50 rows";
    case CST_LABEL_SAME:
        return "chance explains the difference of the class shares";
    case CST_LABEL_OTHER_SHIFT:
        return "no class shares explain the confidence of the predictions, so more than the shares "
               "has changed";
    case CST_LABEL_GUARDED:
        return "rows look unlike the fit rows, so more than the class shares has changed";
    case CST_LABEL_LIKE_FIT:
        return "rows look like the fit rows";
    }
    return "";
}

/* ---- what a fit stores of its predictions ---- */

static int bin_of(const cst_confusion *confusion, float confidence) {
    int bin = 0;
    for (int b = 0; b < CST_CONFUSION_BINS - 1; b++)
        bin += confusion->edge[b] <= confidence;
    return bin;
}

/* Shares that are those of the counted rows but for rounding become exactly these. */
static void round_shares(cst_confusion *made, const double *share, int64_t rows) {
    bool counted = true;
    for (int32_t c = 0; c < made->classes; c++) {
        double own = (double)cst_confusion_rows(made, c) / (double)rows;
        counted = counted && share[c] > own - 1e-9 && share[c] < own + 1e-9;
    }
    for (int32_t c = 0; c < made->classes; c++)
        made->share[c] = counted ? cst_confusion_counted_share(made, c, rows) : (float)share[c];
}

/* Rows of a class for which another is predicted. */
typedef struct pair {
    int32_t label;
    int32_t predicted;
    int32_t count;
} pair;

CST_BY(by_class, cst_confusion_row, CST_UP(label), CST_UP(predicted), 0)

CST_BY(by_confidence, cst_confusion_row, CST_UP(confidence), 0, 0)

CST_BY(by_predicted, pair, CST_UP(predicted), 0, 0)

/* The most frequent first; of equals the first class. */
CST_BY(by_count, pair, CST_DOWN(count), CST_UP(predicted), 0)

/* rows [count], ordered by class: one pair for each combination, the most frequent of each class
 * and no more than `most`. Returns how many there are. */
static int32_t make_pairs(const cst_confusion_row *rows, int64_t count, int32_t most, pair *pairs) {
    int32_t kept = 0;
    int64_t at = 0;
    while (at < count) {
        int32_t label = rows[at].label;
        pair *own = pairs + kept;
        int32_t distinct = 0;
        for (; at < count && rows[at].label == label; at++) {
            if (distinct > 0 && own[distinct - 1].predicted == rows[at].predicted)
                own[distinct - 1].count++;
            else
                own[distinct++] = (pair){label, rows[at].predicted, 1};
        }
        qsort(own, (size_t)distinct, sizeof *own, by_count);
        distinct = distinct < most ? distinct : most;
        qsort(own, (size_t)distinct, sizeof *own, by_predicted);
        kept += distinct;
    }
    return kept;
}

cst_status cst_confusion_fit(cst_context *context, cst_scope *made_in, cst_confusion_row *rows,
                             int64_t count, int32_t classes, const double *share,
                             cst_confusion **out) {
    *out = NULL;
    if (count < CST_CONFUSION_ROWS_MIN || count > INT32_MAX || classes < 2 ||
        classes > CST_CONFUSION_SHARES_MAX)
        return CST_OK;
    CST_SCOPE(scope);
    cst_confusion *made;
    CST_NEW(context, scope, pair, pairs, count);
    CST_TRY(cst_sort(context, rows, (size_t)count, sizeof *rows, by_class));
    int32_t most = CST_CONFUSION_ENTRIES / classes;
    most = classes > CST_CONFUSION_CLASSES_MAX ? 0 : most < 2 ? 2 : most > classes ? classes : most;
    int32_t entries = make_pairs(rows, count, most, pairs);
    CST_TRY(cst_confusion_alloc(context, made_in, classes, entries, &made));
    CST_TRY(cst_sort(context, rows, (size_t)count, sizeof *rows, by_confidence));
    for (int b = 1; b < CST_CONFUSION_BINS; b++)
        made->edge[b - 1] = rows[count * b / CST_CONFUSION_BINS].confidence;
    for (int64_t i = 0; i < count; i++) {
        int bin = bin_of(made, rows[i].confidence);
        made->bin[(size_t)rows[i].label * CST_CONFUSION_BINS + (size_t)bin]++;
    }
    round_shares(made, share, count);
    for (int32_t e = 0; e < entries; e++) {
        made->first[pairs[e].label + 1]++;
        made->predicted[e] = pairs[e].predicted;
        made->count[e] = pairs[e].count;
    }
    for (int32_t c = 0; c < classes; c++)
        made->first[c + 1] += made->first[c];
    *out = made;
    return CST_OK;
}

void cst_confusion_matrix(const cst_confusion *confusion, double *matrix) {
    size_t classes = (size_t)confusion->classes;
    for (size_t j = 0; j < classes; j++) {
        double rows = (double)cst_confusion_rows(confusion, (int32_t)j);
        int32_t listed = confusion->first[j + 1] - confusion->first[j];
        double rest = rows;
        for (int32_t e = confusion->first[j]; e < confusion->first[j + 1]; e++)
            rest -= (double)confusion->count[e];
        double each = rows > 0 && rest > 0 ? rest / rows / (double)((int32_t)classes - listed) : 0;
        for (size_t i = 0; i < classes; i++)
            matrix[i * classes + j] = rows > 0 ? each : (double)(i == j);
        for (int32_t e = confusion->first[j]; rows > 0 && e < confusion->first[j + 1]; e++)
            matrix[(size_t)confusion->predicted[e] * classes + j] =
                (double)confusion->count[e] / rows;
    }
}

/* ---- sums over rows ---- */

typedef struct rows_job {
    const float *p;
    int64_t rows;
    int32_t classes;
    int parity;          /* of the rows that count; -1: all */
    const double *ratio; /* [classes]: share over the fit's */
} rows_job;

static bool counts(const rows_job *job, int64_t i) {
    return job->parity < 0 || i % 2 == job->parity;
}

static double likelihood(const rows_job *job, const float *row) {
    double sum = 0;
    for (int32_t c = 0; c < job->classes; c++)
        sum += job->ratio[c] * (double)row[c];
    return sum;
}

/* Expected rows of each class, over its ratio. */
static cst_status expect_block(cst_context *context, void *user, int64_t block, double *sum) {
    const rows_job *job = user;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(job->rows, block);
    (void)context;
    for (int64_t i = first; i < end; i++) {
        const float *row = job->p + i * job->classes;
        double total = counts(job, i) ? likelihood(job, row) : 0;
        if (total > 0)
            for (int32_t c = 0; c < job->classes; c++)
                sum[c] += (double)row[c] / total;
    }
    return CST_OK;
}

/* Sum of the log-likelihood ratios. */
static cst_status evidence_block(cst_context *context, void *user, int64_t block, double *sum) {
    const rows_job *job = user;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(job->rows, block);
    (void)context;
    for (int64_t i = first; i < end; i++)
        if (counts(job, i))
            sum[0] += log(fmax(likelihood(job, job->p + i * job->classes), 1e-300));
    return CST_OK;
}

static int64_t rows_of_parity(int64_t rows, int parity) {
    return parity < 0 ? rows : (rows + 1 - parity) / 2;
}

static void set_ratio(const cst_confusion *confusion, const double *share, double *ratio) {
    for (int32_t c = 0; c < confusion->classes; c++)
        ratio[c] = confusion->share[c] > 0 ? share[c] / (double)confusion->share[c] : 1;
}

/* ---- BBSE: shares that the confusion of the fit makes those of the predicted classes ---- */

typedef struct bbse_system {
    size_t classes;
    double *matrix;   /* [classes][classes]: M */
    double *gram;     /* the Cholesky factor of M'M */
    double *observed; /* [classes]: shares of predicted classes */
} bbse_system;

static cst_status singular(cst_context *context, const bbse_system *s) {
    int32_t never = -1;
    for (size_t i = 0; never < 0 && i < s->classes; i++) {
        double sum = 0;
        for (size_t j = 0; j < s->classes; j++)
            sum += s->matrix[i * s->classes + j];
        never = sum > 0 ? never : (int32_t)i;
    }
    if (never >= 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "label shift by bbse: the stack predicts class %d for no row of the fit, "
                        "so its share cannot be solved for; use em",
                        (int)never);
    return cst_fail(context, CST_ERROR_UNSUPPORTED,
                    "label shift by bbse: the confusion of the fit's rows is singular, because the "
                    "stack does not tell some classes apart; use em");
}

static cst_status make_system(cst_context *context, cst_scope *scope,
                              const cst_confusion *confusion, const float *p, int64_t rows,
                              int parity, bbse_system *s) {
    int64_t n = confusion->classes;
    size_t classes = (size_t)n;
    *s = (bbse_system){.classes = classes};
    CST_TAKE(context, scope, s->matrix, classes * classes);
    CST_TAKE(context, scope, s->gram, classes * classes);
    CST_TAKE(context, scope, s->observed, classes);
    for (int64_t i = parity > 0; i < rows; i += parity < 0 ? 1 : 2)
        s->observed[cst_largest(p + i * n, confusion->classes)] += 1;
    for (size_t c = 0; c < classes; c++)
        s->observed[c] /= (double)rows_of_parity(rows, parity);
    cst_confusion_matrix(confusion, s->matrix);
    CST_TRY(cst_syrk_f64(context, n, n, 1, s->matrix, n, 0, s->gram, n));
    double largest = 0;
    for (size_t c = 0; c < classes; c++)
        largest = fmax(largest, s->gram[c * classes + c]);
    cst_status status = cst_cholesky(context, n, s->gram);
    double least = INFINITY;
    for (size_t c = 0; status == CST_OK && c < classes; c++)
        least = fmin(least, s->gram[c * classes + c] * s->gram[c * classes + c]);
    if (status == CST_ERROR_NUMERIC || (status == CST_OK && !(least > SINGULAR * largest)))
        return singular(context, s);
    return status;
}

/* x [classes] becomes the solution of M z = x. */
static void solve(const bbse_system *s, const double *x, double *z) {
    for (size_t j = 0; j < s->classes; j++)
        z[j] = 0;
    for (size_t i = 0; i < s->classes; i++)
        for (size_t j = 0; x[i] != 0 && j < s->classes; j++)
            z[j] += s->matrix[i * s->classes + j] * x[i];
    cst_cholesky_solve((int64_t)s->classes, s->gram, z);
}

/* Delta method: q = M^-1 mu, so Var q = M^-1 (Var mu + sum_j q_j^2 Var M_j) M^-T, mu and the
 * columns of M being multinomial. */
static cst_status variances(cst_context *context, const cst_confusion *confusion,
                            const bbse_system *s, double rows, const double *share,
                            double *variance) {
    size_t classes = s->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, work, 3 * classes);
    double *unit = work + classes;
    double *column = unit + classes;
    for (size_t i = 0; i < classes; i++) {
        work[i] = s->observed[i] / rows;
        for (size_t j = 0; j < classes; j++) {
            double known = (double)cst_confusion_rows(confusion, (int32_t)j);
            if (known > 0)
                work[i] += s->matrix[i * classes + j] * share[j] * share[j] / known;
        }
    }
    for (size_t c = 0; c < classes; c++) {
        double known = (double)cst_confusion_rows(confusion, (int32_t)c);
        variance[c] = -share[c] * share[c] * (1 / rows + (known > 0 ? 1 / known : 0));
    }
    for (size_t i = 0; i < classes; i++) { /* column i of M^-1 */
        unit[i] = 1;
        solve(s, unit, column);
        unit[i] = 0;
        for (size_t c = 0; c < classes; c++)
            variance[c] += column[c] * column[c] * work[i];
    }
    return CST_OK;
}

cst_status cst_label_bbse(cst_context *context, const cst_confusion *confusion, const float *p,
                          int64_t rows, int parity, double *share, double *variance) {
    bbse_system s;
    if (confusion->classes > CST_CONFUSION_CLASSES_MAX)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "label shift by bbse is for at most %d classes, but the model has %d; use "
                        "em",
                        (int)CST_CONFUSION_CLASSES_MAX, (int)confusion->classes);
    int64_t count = rows_of_parity(rows, parity);
    if (count < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT, "label shift by bbse needs at least one row");
    CST_SCOPE(scope);
    CST_TRY(make_system(context, scope, confusion, p, rows, parity, &s));
    solve(&s, s.observed, share);
    return variance ? variances(context, confusion, &s, (double)count, share, variance) : CST_OK;
}

/* ---- EM ---- */

static cst_status label_em(cst_context *context, const cst_confusion *confusion, const float *p,
                           int64_t rows, int parity, double prior, double *share) {
    size_t classes = (size_t)confusion->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, ratio, classes);
    CST_NEW(context, scope, double, sum, classes);
    rows_job job = {p, rows, confusion->classes, parity, ratio};
    double moved = INFINITY;
    for (int round = 0; moved > TOLERANCE && round < ROUNDS_MAX; round++) {
        set_ratio(confusion, share, ratio);
        CST_TRY(
            cst_reduce_blocks(context, cst_block_count(rows), classes, expect_block, &job, sum));
        double total = 0;
        for (size_t c = 0; c < classes; c++) {
            sum[c] = confusion->share[c] > 0
                         ? ratio[c] * sum[c] + prior * (double)confusion->share[c]
                         : 0;
            total += sum[c];
        }
        moved = 0;
        for (size_t c = 0; total > 0 && c < classes; c++) {
            moved += fabs(sum[c] / total - share[c]);
            share[c] = sum[c] / total;
        }
    }
    return CST_OK;
}

/* The information of the rows in the shares: sum of g g', g = p over the fit's shares and their
 * likelihood, and that of the prior. Block by block into the lower triangle. */
static cst_status information(cst_context *context, const cst_confusion *confusion,
                              const rows_job *job, double prior, const double *share,
                              double *matrix) {
    size_t classes = (size_t)confusion->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, g, (CST_BLOCK_ROWS * classes));
    for (int64_t b = 0; b < cst_block_count(job->rows); b++) {
        int64_t count = cst_block_size(job->rows, b);
        for (int64_t i = 0; i < count; i++) {
            const float *row = job->p + (cst_block_first(b) + i) * job->classes;
            double total = likelihood(job, row);
            for (size_t c = 0; c < classes; c++)
                g[(size_t)i * classes + c] =
                    total > 0 && confusion->share[c] > 0
                        ? (double)row[c] / (double)confusion->share[c] / total
                        : 0;
        }
        CST_TRY(cst_syrk_f64(context, (int64_t)classes, count, 1, g, (int64_t)classes, b > 0,
                             matrix, (int64_t)classes));
    }
    for (size_t c = 0; c < classes; c++)
        matrix[c * classes + c] +=
            share[c] > 0 ? prior * (double)confusion->share[c] / (share[c] * share[c]) : 1e12;
    return CST_OK;
}

/* Standard errors on the plane where shares sum to 1: diag(H^-1) - (H^-1 1)^2 / 1'H^-1 1. */
static cst_status em_intervals(cst_context *context, const cst_confusion *confusion, const float *p,
                               double prior, cst_label_shift *out) {
    size_t classes = (size_t)out->classes;
    if (out->classes > CST_CONFUSION_CLASSES_MAX)
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, matrix, (classes * classes));
    CST_NEW(context, scope, double, diagonal, classes);
    CST_NEW(context, scope, double, solved, classes);
    CST_NEW(context, scope, double, ratio, classes);
    rows_job job = {p, out->rows, out->classes, -1, ratio};
    set_ratio(confusion, out->share, ratio);
    CST_TRY(information(context, confusion, &job, prior, out->share, matrix));
    cst_status status = cst_cholesky(context, out->classes, matrix);
    CST_THEN(cst_cholesky_inverse_diagonal(context, out->classes, matrix, diagonal));
    if (status != CST_OK) /* a singular one: they stay NAN */
        return status == CST_ERROR_NUMERIC ? CST_OK : status;
    double sum = 0;
    for (size_t c = 0; c < classes; c++)
        solved[c] = 1;
    cst_cholesky_solve(out->classes, matrix, solved);
    for (size_t c = 0; c < classes; c++)
        sum += solved[c];
    for (size_t c = 0; c < classes; c++) {
        double half = NORMAL_95 * sqrt(fmax(diagonal[c] - solved[c] * solved[c] / sum, 0));
        out->low[c] = fmax(out->share[c] - half, 0);
        out->high[c] = fmin(out->share[c] + half, 1);
    }
    return CST_OK;
}

/* ---- the two methods ---- */

/* Shares between 0 and 1 that sum to 1, drawn to the fit's by `prior` rows. */
static void draw_in(const cst_confusion *confusion, double rows, double prior, double *share) {
    double total = 0;
    for (int32_t c = 0; c < confusion->classes; c++) {
        share[c] = confusion->share[c] > 0 ? fmax(share[c], 0) : 0;
        total += share[c];
    }
    for (int32_t c = 0; c < confusion->classes; c++)
        share[c] = ((total > 0 ? share[c] / total : (double)confusion->share[c]) * rows +
                    prior * (double)confusion->share[c]) /
                   (rows + prior);
}

/* The shares that probabilities are changed by, from the rows of one parity. */
static cst_status drawn_shares(cst_context *context, const cst_confusion *confusion,
                               cst_label_method method, const float *p, int64_t rows, int parity,
                               double *share) {
    double prior = (double)confusion->classes;
    if (method == CST_LABEL_EM) {
        for (int32_t c = 0; c < confusion->classes; c++)
            share[c] = (double)confusion->share[c];
        return label_em(context, confusion, p, rows, parity, prior, share);
    }
    CST_TRY(cst_label_bbse(context, confusion, p, rows, parity, share, NULL));
    draw_in(confusion, (double)rows_of_parity(rows, parity), prior, share);
    return CST_OK;
}

static cst_status estimate_bbse(cst_context *context, const cst_confusion *confusion,
                                const float *p, cst_label_shift *out) {
    size_t classes = (size_t)out->classes;
    CST_TRY(cst_label_bbse(context, confusion, p, out->rows, -1, out->share, out->low));
    memcpy(out->ratio, out->share, classes * sizeof *out->ratio);
    draw_in(confusion, (double)out->rows, (double)classes, out->ratio);
    for (size_t c = 0; c < classes; c++) {
        double half = NORMAL_95 * sqrt(fmax(out->low[c], 0));
        out->low[c] = fmin(fmax(out->share[c] - half, 0), 1);
        out->high[c] = fmin(fmax(out->share[c] + half, 0), 1);
        out->share[c] = fmin(fmax(out->share[c], 0), 1);
    }
    return CST_OK;
}

static cst_status estimate(cst_context *context, const cst_confusion *confusion, const float *p,
                           cst_label_shift *out) {
    size_t classes = (size_t)out->classes;
    if (out->method == CST_LABEL_BBSE) {
        CST_TRY(estimate_bbse(context, confusion, p, out));
    } else {
        CST_TRY(drawn_shares(context, confusion, out->method, p, out->rows, -1, out->share));
        for (size_t c = 0; c < classes; c++)
            out->low[c] = out->high[c] = NAN;
        CST_TRY(em_intervals(context, confusion, p, (double)classes, out));
        memcpy(out->ratio, out->share, classes * sizeof *out->ratio);
    }
    set_ratio(confusion, out->ratio, out->ratio);
    return CST_OK;
}

/* ---- whether the shares have changed ---- */

static cst_status test_change(cst_context *context, const cst_confusion *confusion, const float *p,
                              cst_label_shift *out) {
    size_t classes = (size_t)out->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, share, 2 * classes);
    double *ratio = share + classes;
    double evidence[2] = {0, 0};
    for (int half = 0; half < 2; half++) {
        CST_TRY(drawn_shares(context, confusion, out->method, p, out->rows, half, share));
        set_ratio(confusion, share, ratio);
        rows_job job = {p, out->rows, out->classes, 1 - half, ratio};
        CST_TRY(cst_reduce_blocks(context, cst_block_count(out->rows), 1, evidence_block, &job,
                                  &evidence[half]));
    }
    double larger = fmax(evidence[0], evidence[1]);
    double mean = larger + log((exp(evidence[0] - larger) + exp(evidence[1] - larger)) / 2);
    out->change_p = exp(fmin(-mean, 0));
    return CST_OK;
}

/* ---- whether shares explain the batch ---- */

/* Which group each bin is in: its own, or the last one where few rows are expected. Returns how
 * many groups there are. */
static int group_bins(const double *expected, int *group) {
    int groups = 0;
    bool few = false;
    for (int b = 0; b < BINS; b++)
        few = few || expected[b] < EXPECTED_MIN;
    for (int b = 0; b < BINS; b++)
        group[b] = expected[b] < EXPECTED_MIN ? -1 : groups++;
    for (int b = 0; b < BINS; b++)
        group[b] = group[b] < 0 ? groups : group[b];
    return groups + few;
}

/* matrix [BINS][BINS] for the first `groups`: variance of the counts, with that of the mixture. */
static void put_variance(const cst_confusion *confusion, const double *share, double rows,
                         const double *expected, const int *group, int groups, double *matrix) {
    memset(matrix, 0, sizeof(double) * BINS * BINS);
    for (int g = 0; g < groups; g++)
        matrix[g * groups + g] = fmax(expected[g], 1e-9) + 1e-9;
    for (int32_t c = 0; c < confusion->classes; c++) {
        double known = (double)cst_confusion_rows(confusion, c);
        double part[BINS] = {0};
        double scale = known > 0 ? rows * rows * share[c] * share[c] / known : 0;
        for (int b = 0; known > 0 && b < BINS; b++)
            part[group[b]] += confusion->bin[c * BINS + b] / known;
        for (int g = 0; g < groups; g++)
            for (int h = 0; h < groups; h++)
                matrix[g * groups + h] += scale * ((g == h ? part[g] : 0) - part[g] * part[h]);
    }
}

static cst_status test_fit(cst_context *context, const cst_confusion *confusion, const float *p,
                           cst_label_shift *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, share, out->classes);
    /* Without the prior: what explains the batch best. */
    memcpy(share, out->share, (size_t)out->classes * sizeof *share);
    if (out->method == CST_LABEL_EM)
        CST_TRY(label_em(context, confusion, p, out->rows, -1, 0, share));
    else
        draw_in(confusion, (double)out->rows, 0, share);
    double expected[BINS] = {0};
    double difference[BINS] = {0};
    double grouped[BINS] = {0};
    double matrix[BINS * BINS];
    int group[BINS];
    double rows = (double)out->rows;
    for (int32_t c = 0; c < out->classes; c++) {
        double known = (double)cst_confusion_rows(confusion, c);
        for (int b = 0; known > 0 && b < BINS; b++)
            expected[b] += rows * share[c] * confusion->bin[c * BINS + b] / known;
    }
    int groups = group_bins(expected, group);
    for (int64_t i = 0; i < out->rows; i++) {
        const float *row = p + i * out->classes;
        float top = row[0];
        for (int32_t c = 1; c < out->classes; c++)
            top = row[c] > top ? row[c] : top;
        difference[group[bin_of(confusion, top)]] += 1;
    }
    for (int b = 0; b < BINS; b++) {
        difference[group[b]] -= expected[b];
        grouped[group[b]] += expected[b];
    }
    put_variance(confusion, share, rows, grouped, group, groups, matrix);
    out->fit_p = 1;
    if (groups > 1) {
        double solved[BINS];
        double statistic = 0;
        memcpy(solved, difference, sizeof solved);
        CST_TRY(cst_cholesky(context, groups, matrix));
        cst_cholesky_solve(groups, matrix, solved);
        for (int g = 0; g < groups; g++)
            statistic += difference[g] * solved[g];
        out->fit_p = cst_chi_square_upper(fmax(statistic, 0), groups - 1);
    }
    return CST_OK;
}

/* ---- all of it ---- */

static void mean_shares(const float *p, cst_label_shift *out) {
    for (int64_t i = 0; i < out->rows; i++)
        for (int32_t c = 0; c < out->classes; c++)
            out->share[c] += (double)p[i * out->classes + c];
    for (int32_t c = 0; c < out->classes; c++) {
        out->share[c] /= (double)out->rows;
        out->low[c] = out->high[c] = NAN;
    }
    out->change_p = out->fit_p = NAN;
}

cst_status cst_label_shift_keep(cst_context *context, const cst_confusion *confusion,
                                const float *p, cst_label_shift *shift) {
    double total = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, fit, shift->classes);
    for (int32_t c = 0; c < shift->classes; c++)
        total += (double)confusion->share[c];
    for (int32_t c = 0; c < shift->classes; c++)
        fit[c] = (double)confusion->share[c] / total;
    CST_TRY(cst_domain_biases(context, p, shift->rows, shift->classes, fit, shift->ratio));
    for (int32_t c = 0; c < shift->classes; c++)
        shift->ratio[c] = exp(shift->ratio[c]);
    return CST_OK;
}

cst_status cst_label_shift_estimate(cst_context *context, cst_scope *scope,
                                    const cst_confusion *confusion, cst_label_method method,
                                    const float *p, int64_t rows, cst_label_shift *out) {
    int32_t classes = confusion->classes;
    *out = (cst_label_shift){.method = method,
                             .verdict = CST_LABEL_FEW_ROWS,
                             .rows = rows,
                             .classes = classes,
                             .change_p = 1,
                             .fit_p = 1};
    CST_TAKE(context, scope, out->share, classes);
    CST_TAKE(context, scope, out->low, classes);
    CST_TAKE(context, scope, out->high, classes);
    CST_TAKE(context, scope, out->ratio, classes);
    if (method == CST_LABEL_FIXED) {
        mean_shares(p, out);
        return CST_OK;
    }
    CST_TRY(estimate(context, confusion, p, out));
    if (rows < CST_LABEL_ROWS_MIN)
        return CST_OK;
    CST_TRY(test_change(context, confusion, p, out));
    CST_TRY(test_fit(context, confusion, p, out));
    out->verdict = out->change_p > CST_LABEL_CHANGE_LEVEL ? CST_LABEL_SAME
                   : out->fit_p <= CST_LABEL_FIT_LEVEL    ? CST_LABEL_OTHER_SHIFT
                                                          : CST_LABEL_APPLIED;
    return CST_OK;
}

typedef struct apply_job {
    const cst_label_shift *shift;
    float *p;
    int64_t rows;
} apply_job;

static cst_status apply_task(cst_context *context, void *user, int64_t block) {
    const apply_job *job = user;
    int32_t classes = job->shift->classes;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(job->rows, block);
    (void)context;
    for (int64_t i = first; i < end; i++) {
        float *row = job->p + i * classes;
        double sum = 0;
        for (int32_t c = 0; c < classes; c++)
            sum += job->shift->ratio[c] * (double)row[c];
        for (int32_t c = 0; sum > 0 && c < classes; c++)
            row[c] = (float)(job->shift->ratio[c] * (double)row[c] / sum);
    }
    return CST_OK;
}

cst_status cst_label_shift_apply(cst_context *context, const cst_label_shift *shift, float *p,
                                 int64_t rows) {
    apply_job job = {shift, p, rows};
    return cst_parallel_for(context, cst_block_count(rows), apply_task, &job);
}
