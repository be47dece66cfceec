/*
 * Prior precision of the log-linear weights and mixing by cross-validated loss: on small pools the
 * evidence, which trusts the Laplace approximation, shrinks too much or too little; held-out loss
 * does not. Stage S4.
 */
#include "learners/loglinear.h"

#include <math.h>
#include <string.h>

/* Standard errors by which a candidate must beat the default; one lets small pools choose at
 * random. */
static const double CONFIDENCE = 2;

/* Of the weights; 0 stands for both precisions by the evidence. The first two are on equal terms.
 */
static const double PRECISIONS[] = {10, 0, 1, 3, 30, 100};
/* Where other pools are blended, which cover what the prior misses. */
static const double BRIEF[] = {10, 1, 100};
static const double SHARES[] = {1e-6, 1e-3};
enum {
    PRECISION_COUNT = sizeof PRECISIONS / sizeof PRECISIONS[0],
    BRIEF_COUNT = sizeof BRIEF / sizeof BRIEF[0],
    SHARE_COUNT = sizeof SHARES / sizeof SHARES[0],
    CHOICES_MAX = PRECISION_COUNT + SHARE_COUNT
};
/* The evidence re-estimates the precision of the biases tens of times, each for O(C^3). */
enum { EVIDENCE_CLASSES = 256 };

/* What of a pool is chosen. */
typedef struct choice {
    double share;     /* as in cst_compact_options */
    double precision; /* of the weights; 0: by the evidence */
} choice;

typedef struct crossfit_job {
    const cst_logtable *table;
    const int32_t *folds;
    const cst_loglinear_options *options;
    const choice *choices;
    int32_t count;
    double *loss; /* [count][rows] */
} crossfit_job;

static void choose(const choice *chosen, cst_loglinear_options *options) {
    options->evidence = chosen->precision <= 0;
    if (!options->evidence)
        options->prior_weights = chosen->precision;
    options->compact.share = chosen->share;
}

/* Each fit starts from the weights of the one before, and from its biases where fits are rough.
 * rows: [held->rows] of the table. */
static cst_status fold_losses(cst_context *context, const crossfit_job *job, cst_logtable *table,
                              cst_logtable *held, const int64_t *rows) {
    int32_t members = table->members;
    int32_t *active = cst_alloc(context, (size_t)members, sizeof *active);
    double *per_row = cst_alloc(context, (size_t)held->rows, sizeof *per_row);
    cst_loglinear fit = {0};
    cst_status status = active && per_row ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t k = 0; active && k < members; k++)
        active[k] = k;
    for (int32_t g = 0; status == CST_OK && g < job->count; g++) {
        cst_loglinear next = {0};
        cst_loglinear_options options = *job->options;
        double mean = 0;
        options.tolerance = 1e-4;
        options.trusted = table->compact->every_class ? 0 : 0.1;
        options.bias = options.bias && table->classes <= EVIDENCE_CLASSES;
        options.start_bias = table->compact->every_class ? NULL : fit.bias;
        choose(&job->choices[g], &options);
        if (table->share != options.compact.share) {
            table->share = options.compact.share;
            status = cst_logtable_mix(context, table);
            memcpy(held->mix, table->mix, (size_t)members * sizeof *held->mix);
        }
        CST_TRY(cst_loglinear_fit(context, table, active, members, &options, fit.weights, &next));
        CST_TRY(cst_loglinear_loss(context, held, active, members, next.weights, next.bias, &mean,
                                   per_row));
        for (int64_t i = 0; status == CST_OK && i < held->rows; i++)
            job->loss[g * job->table->rows + rows[i]] = per_row[i];
        cst_loglinear_free(context, &fit);
        fit = next;
    }
    cst_loglinear_free(context, &fit);
    cst_free(context, active);
    cst_free(context, per_row);
    return status;
}

static cst_status crossfit_task(cst_context *context, void *user, int64_t task) {
    const crossfit_job *job = user;
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

/* ---- choices ---- */

/* Mean over rows of the loss less that of another, and its standard error. */
static double paired_gain(const double *loss, const double *other, int64_t rows, double *se) {
    double sum = 0;
    double square = 0;
    for (int64_t i = 0; i < rows; i++) {
        double d = loss[i] - other[i];
        sum += d;
        square += d * d;
    }
    double n = (double)rows;
    double mean = sum / n;
    *se = sqrt(fmax(square / n - mean * mean, 0) / n);
    return mean;
}

/* `start`, unless another of the choices first..last-1 is better by more than two standard errors.
 */
static int32_t clearly_best(const double *loss, int64_t rows, int32_t first, int32_t last,
                            int32_t start) {
    int32_t best = start;
    double least = 0;
    for (int32_t g = first; g < last; g++) {
        double se = 0;
        double mean = paired_gain(loss + g * rows, loss + start * rows, rows, &se);
        if (mean + CONFIDENCE * se < 0 && mean < least) {
            least = mean;
            best = g;
        }
    }
    return best;
}

/* Candidates at the table's share: precisions, or the one that is set. */
static int32_t list_priors(const cst_logtable *table, const cst_loglinear_cv *cv,
                           const cst_loglinear_options *options, choice *out) {
    int32_t count = 0;
    if (!cv->prior)
        out[count++] = (choice){table->share, options->evidence ? 0 : options->prior_weights};
    for (int g = 0; cv->prior && cv->brief && g < BRIEF_COUNT; g++)
        out[count++] = (choice){table->share, BRIEF[g]};
    for (int g = 0; cv->prior && !cv->brief && g < PRECISION_COUNT; g++)
        if (PRECISIONS[g] > 0 || table->classes <= EVIDENCE_CLASSES)
            out[count++] = (choice){table->share, PRECISIONS[g]};
    return count;
}

static int32_t best_prior(const double *loss, int64_t rows, const choice *choices, int32_t count) {
    double se = 0;
    bool evidence = count > 1 && choices[1].precision <= 0;
    int32_t start = evidence && paired_gain(loss + rows, loss, rows, &se) < 0;
    return clearly_best(loss, rows, 0, count, start);
}

/* Priors at the table's share, and other shares with the first of these priors. */
cst_status cst_loglinear_cv_run(cst_context *context, const cst_logtable *table,
                                const int32_t *folds, int32_t fold_count,
                                const cst_loglinear_cv *cv, cst_loglinear_options *options,
                                double *loss) {
    choice choices[CHOICES_MAX];
    int64_t rows = table->rows;
    int32_t priors = list_priors(table, cv, options, choices);
    int32_t count = priors;
    for (int g = 0; cv->share && g < SHARE_COUNT; g++)
        choices[count++] = (choice){SHARES[g], choices[0].precision};
    crossfit_job job = {
        .table = table, .folds = folds, .options = options, .choices = choices, .count = count};
    job.loss = cst_alloc(context, (size_t)rows * CHOICES_MAX, sizeof *job.loss);
    cst_status status = job.loss ? CST_OK : CST_ERROR_MEMORY;
    CST_TRY(cst_parallel_long(context, fold_count, crossfit_task, &job));
    if (status == CST_OK) {
        int32_t best = best_prior(job.loss, rows, choices, priors);
        best = clearly_best(job.loss, rows, priors, count, best);
        choose(&choices[best], options);
        if (loss)
            memcpy(loss, job.loss + best * rows, (size_t)rows * sizeof *loss);
    }
    cst_free(context, job.loss);
    return status;
}
