/*
 * Prior precision of the log-linear weights by cross-validated loss: on small pools the evidence,
 * which trusts the Laplace approximation, shrinks too much or too little; held-out loss does not.
 * Stage S4.
 */
#include "learners/loglinear.h"

#include <math.h>

/* Standard errors by which a candidate must beat the default; one lets small pools choose at
 * random. */
static const double CONFIDENCE = 2;

/* Precisions of the weights; the last candidate, 0, stands for both precisions by the evidence. */
static const double PRIOR_GRID[] = {1, 3, 10, 30, 100, 0};
enum {
    PRIOR_COUNT = sizeof PRIOR_GRID / sizeof PRIOR_GRID[0],
    PRIOR_MIDDLE = 2,
    PRIOR_EVIDENCE = 5
};
enum { EVIDENCE_CLASSES = 256 };

typedef struct prior_job {
    const cst_logtable *table;
    const int32_t *folds;
    const cst_loglinear_options *options;
    double *loss; /* [rows][PRIOR_COUNT]: held-out NLL */
} prior_job;

/* The evidence re-estimates the precision of the biases tens of times, each for O(C^3): with many
 * classes it is no candidate, and the others, which are about the weights, are compared without
 * biases. */
static int first_candidate(const cst_logtable *table) {
    return table->classes > EVIDENCE_CLASSES ? PRIOR_EVIDENCE - 1 : PRIOR_EVIDENCE;
}

static cst_status fold_losses(cst_context *context, const prior_job *job, const cst_logtable *table,
                              const cst_logtable *held, const int64_t *rows) {
    int32_t members = table->members;
    int32_t *active = cst_alloc(context, (size_t)members, sizeof *active);
    double *per_row = cst_alloc(context, (size_t)held->rows, sizeof *per_row);
    cst_loglinear_options options = *job->options;
    options.tolerance = 1e-4;
    options.trusted = table->compact->every_class ? 0 : 0.1;
    options.bias = options.bias && table->classes <= EVIDENCE_CLASSES;
    cst_loglinear fit = {0};
    cst_status status = active && per_row ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t k = 0; active && k < members; k++)
        active[k] = k;
    for (int g = first_candidate(table); status == CST_OK && g >= 0; g--) {
        cst_loglinear next = {0};
        double mean = 0;
        options.evidence = g == PRIOR_EVIDENCE;
        options.prior_weights = options.evidence ? job->options->prior_weights : PRIOR_GRID[g];
        status = cst_loglinear_fit(context, table, active, members, &options, fit.weights, &next);
        CST_TRY(cst_loglinear_loss(context, held, active, members, next.weights, next.bias, &mean,
                                   per_row));
        for (int64_t i = 0; status == CST_OK && i < held->rows; i++)
            job->loss[rows[i] * PRIOR_COUNT + g] = per_row[i];
        cst_loglinear_free(context, &fit);
        fit = next;
    }
    cst_loglinear_free(context, &fit);
    cst_free(context, active);
    cst_free(context, per_row);
    return status;
}

static cst_status prior_task(cst_context *context, void *user, int64_t task) {
    const prior_job *job = user;
    const cst_logtable *whole = job->table;
    cst_logtable table = {0};
    cst_logtable held = {0};
    int64_t held_rows = 0;
    int64_t *rows = cst_alloc(context, (size_t)whole->rows, sizeof *rows);
    cst_status status = rows ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && i < whole->rows; i++)
        if (job->folds[whole->position[i]] == task)
            rows[held_rows++] = i;
    CST_TRY(cst_logtable_split(context, whole, job->folds, (int32_t)task, &table, &held));
    CST_TRY(fold_losses(context, job, &table, &held, rows));
    cst_logtable_free(context, &table);
    cst_logtable_free(context, &held);
    cst_free(context, rows);
    return status;
}

/* Mean over rows of the loss at g minus that at `start`, and its standard error. */
static double paired_gain(const double *loss, int64_t rows, int g, int start, double *se) {
    double sum = 0;
    double square = 0;
    for (int64_t i = 0; i < rows; i++) {
        double d = loss[i * PRIOR_COUNT + g] - loss[i * PRIOR_COUNT + start];
        sum += d;
        square += d * d;
    }
    double n = (double)rows;
    double mean = sum / n;
    *se = sqrt(fmax(square / n - mean * mean, 0) / n);
    return mean;
}

/* The better of the middle of the grid and the evidence, unless another is better by more than a
 * standard error. */
static int best_prior(const double *loss, int64_t rows, bool evidence) {
    double se = 0;
    int start = evidence && paired_gain(loss, rows, PRIOR_EVIDENCE, PRIOR_MIDDLE, &se) < 0
                    ? PRIOR_EVIDENCE
                    : PRIOR_MIDDLE;
    int best = start;
    double least = 0;
    for (int g = 0; g < PRIOR_EVIDENCE + evidence; g++) {
        double mean = paired_gain(loss, rows, g, start, &se);
        if (mean + CONFIDENCE * se < 0 && mean < least) {
            least = mean;
            best = g;
        }
    }
    return best;
}

cst_status cst_loglinear_prior_cv(cst_context *context, const cst_logtable *table,
                                  const int32_t *folds, int32_t fold_count,
                                  cst_loglinear_options *options) {
    prior_job job = {.table = table, .folds = folds, .options = options};
    job.loss = cst_alloc(context, (size_t)table->rows * PRIOR_COUNT, sizeof *job.loss);
    cst_status status = job.loss ? CST_OK : CST_ERROR_MEMORY;
    CST_TRY(cst_parallel_for(context, fold_count, prior_task, &job));
    if (status == CST_OK) {
        int best = best_prior(job.loss, table->rows, table->classes <= EVIDENCE_CLASSES);
        options->evidence = best == PRIOR_EVIDENCE;
        if (!options->evidence)
            options->prior_weights = PRIOR_GRID[best];
    }
    cst_free(context, job.loss);
    return status;
}
