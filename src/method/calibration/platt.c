/* Platt scaling: one sigmoid of the log-odds for each class. docs/calibration.md#definitions;
 * Platt (1999) with the targets and the damped Newton method of Lin, Lin and Weng (2007). */
#include "method/calibration/calibration.h"

#include <math.h>

typedef struct platt_job {
    const float *probabilities;
    const int32_t *labels;
    int64_t rows;
    int32_t classes;
    double *slopes;
    double *intercepts;
} platt_job;

/* One class: standardised scores, so that the two parameters are nearly independent. */
typedef struct platt_problem {
    const double *scores; /* [rows] */
    const int32_t *labels;
    int64_t rows;
    int32_t class;
    double high; /* target of rows of the class */
    double low;  /* target of the others */
} platt_problem;

/* sum: [0] cross-entropy, [1..2] its derivatives in slope and intercept, [3..5] the second ones
 * (slope twice, mixed, intercept twice). */
static void evaluate(const platt_problem *p, const double theta[2], double sum[6]) {
    for (int j = 0; j < 6; j++)
        sum[j] = 0;
    for (int64_t i = 0; i < p->rows; i++) {
        double x = p->scores[i];
        double z = theta[0] * x + theta[1];
        double target = p->labels[i] == p->class ? p->high : p->low;
        double small = exp(-fabs(z)); /* never overflows */
        double q = z >= 0 ? 1 / (1 + small) : small / (1 + small);
        double spread = small / ((1 + small) * (1 + small));
        sum[0] += log1p(small) + fmax(z, 0) - target * z;
        sum[1] += (q - target) * x;
        sum[2] += q - target;
        sum[3] += spread * x * x;
        sum[4] += spread * x;
        sum[5] += spread;
    }
}

/* Newton with step halving from theta; the loss is strictly convex where scores differ. */
static void newton(const platt_problem *p, double theta[2]) {
    enum { STEPS = 100 };
    double sum[6];
    double next[6];
    evaluate(p, theta, sum);
    for (int i = 0; i < STEPS; i++) {
        /* A ridge far below rounding of a sum over rows: saturated sigmoids have no curvature. */
        double ridge = 1e-12;
        double determinant = (sum[3] + ridge) * (sum[5] + ridge) - sum[4] * sum[4];
        double step[2] = {((sum[5] + ridge) * sum[1] - sum[4] * sum[2]) / determinant,
                          ((sum[3] + ridge) * sum[2] - sum[4] * sum[1]) / determinant};
        double decrement = step[0] * sum[1] + step[1] * sum[2];
        if (!(decrement > 1e-20))
            return;
        bool moved = false;
        for (double t = 1; t > 1e-10 && !moved; t *= 0.5) {
            double trial[2] = {theta[0] - t * step[0], theta[1] - t * step[1]};
            evaluate(p, trial, next);
            /* Close to the optimum the loss cannot tell points apart, but its slope can. */
            double slope = step[0] * next[1] + step[1] * next[2];
            moved = next[0] <= sum[0] - 1e-4 * t * decrement ||
                    (next[0] <= sum[0] + 1e-12 * fabs(sum[0]) && fabs(slope) < 0.9 * decrement);
            for (int j = 0; moved && j < 2; j++)
                theta[j] = trial[j];
            for (int j = 0; moved && j < 6; j++)
                sum[j] = next[j];
        }
        if (!moved)
            return;
    }
}

double cst_log_odds(double probability) {
    double p = fmin(fmax(probability, CST_PLATT_FLOOR), 1 - CST_PLATT_FLOOR);
    return log(p) - log1p(-p);
}

static cst_status fit_class(cst_context *worker, void *user, int64_t task) {
    const platt_job *job = user;
    double *scores = cst_alloc(worker, (size_t)job->rows, sizeof *scores);
    if (!scores)
        return CST_ERROR_MEMORY;
    double count = (double)job->rows;
    double mean = 0;
    double variance = 0;
    double positives = 0;
    for (int64_t i = 0; i < job->rows; i++) {
        size_t cell = (size_t)i * (size_t)job->classes + (size_t)task;
        scores[i] = cst_log_odds((double)job->probabilities[cell]);
        mean += scores[i] / count;
        positives += job->labels[i] == task ? 1 : 0;
    }
    for (int64_t i = 0; i < job->rows; i++)
        variance += (scores[i] - mean) * (scores[i] - mean) / count;
    double scale = sqrt(variance);
    bool flat = scale <= 1e-12 * (1 + fabs(mean));
    for (int64_t i = 0; i < job->rows; i++)
        scores[i] = flat ? 0 : (scores[i] - mean) / scale;
    platt_problem problem = {.scores = scores,
                             .labels = job->labels,
                             .rows = job->rows,
                             .class = (int32_t)task,
                             .high = (positives + 1) / (positives + 2),
                             .low = 1 / (count - positives + 2)};
    double theta[2] = {0, log((positives + 1) / (count - positives + 1))};
    newton(&problem, theta);
    job->slopes[task] = flat ? 0 : theta[0] / scale;
    job->intercepts[task] = flat ? theta[1] : theta[1] - theta[0] * mean / scale;
    cst_free(worker, scores);
    return CST_OK;
}

cst_status cst_platt_fit(cst_context *context, const float *probabilities, int64_t rows,
                         int32_t classes, const int32_t *labels, double *slopes,
                         double *intercepts) {
    platt_job job = {probabilities, labels, rows, classes, slopes, intercepts};
    return cst_parallel_for(context, classes, fit_class, &job);
}

void cst_platt_rows(const double *slopes, const double *intercepts, int64_t count, int32_t classes,
                    double *values) {
    size_t cells = (size_t)count * (size_t)classes;
    for (size_t j = 0; j < cells; j++) {
        size_t c = j % (size_t)classes;
        double score = slopes[c] * cst_log_odds(values[j]) + intercepts[c];
        values[j] = 1 / (1 + exp(-score));
    }
    cst_normalise_rows(count, classes, values);
}
