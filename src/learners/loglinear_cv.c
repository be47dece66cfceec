/*
 * Prior precision of the log-linear weights and mixing by cross-validated loss: on small pools the evidence,
 * which trusts the Laplace approximation, shrinks too much or too little; held-out loss does not.
 * Stage S4.
 */
#include "learners/loglinear.h"

#include <math.h>
#include <string.h>

/* Standard errors by which a candidate must beat the default; one lets small pools choose at
 * random. */
static const double CONFIDENCE = 2;

static const double PRECISIONS[CST_PRIORS_MAX] = {10, 0, 1, 3, 30, 100};
static const double SHARES[] = {0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2};
enum { SHARE_COUNT = sizeof SHARES / sizeof SHARES[0] };
/* The evidence re-estimates the precision of the biases tens of times, each for O(C^3). */
enum { EVIDENCE_CLASSES = 256 };

typedef struct crossfit_job {
    const cst_logtable *table;
    const int32_t *folds;
    const cst_loglinear_options *options;
    const cst_loglinear_choice *choices;
    int32_t count;
    double *loss; /* [count][rows] */
} crossfit_job;

void cst_loglinear_choose(const cst_loglinear_choice *choice, cst_loglinear_options *options) {
    options->evidence = choice->precision <= 0;
    if (!options->evidence)
        options->prior_weights = choice->precision;
    options->nonnegative = choice->nonnegative;
    options->compact.share = choice->share;
}

/* Each fit starts from the weights of the one before. rows: [held->rows] of the table. */
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
        cst_loglinear_choose(&job->choices[g], &options);
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

cst_status cst_loglinear_crossfit(cst_context *context, const cst_logtable *table,
                                  const int32_t *folds, int32_t fold_count,
                                  const cst_loglinear_options *options,
                                  const cst_loglinear_choice *choices, int32_t count,
                                  double *loss) {
    crossfit_job job = {table, folds, options, choices, count, loss};
    return cst_parallel_for(context, fold_count, crossfit_task, &job);
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

/* `start`, unless another of the choices is better by more than two standard errors. */
static int32_t clearly_best(const double *loss, int64_t rows, int32_t count, int32_t start) {
    int32_t best = start;
    double least = 0;
    for (int32_t g = 0; g < count; g++) {
        double se = 0;
        double mean = paired_gain(loss + g * rows, loss + start * rows, rows, &se);
        if (mean + CONFIDENCE * se < 0 && mean < least) {
            least = mean;
            best = g;
        }
    }
    return best;
}

int32_t cst_loglinear_priors(const cst_logtable *table, bool nonnegative,
                             cst_loglinear_choice *out) {
    int32_t count = 0;
    for (int g = 0; g < CST_PRIORS_MAX; g++)
        if (PRECISIONS[g] > 0 || table->classes <= EVIDENCE_CLASSES)
            out[count++] = (cst_loglinear_choice){
                .share = table->share, .precision = PRECISIONS[g], .nonnegative = nonnegative};
    return count;
}

int32_t cst_loglinear_best_prior(const double *loss, int64_t rows, int32_t count,
                                 const cst_loglinear_choice *choices) {
    double se = 0;
    bool evidence = choices[1].precision <= 0;
    int32_t start = evidence && paired_gain(loss + rows, loss, rows, &se) < 0;
    return clearly_best(loss, rows, count, start);
}

cst_status cst_loglinear_prior_cv(cst_context *context, const cst_logtable *table,
                                  const int32_t *folds, int32_t fold_count,
                                  cst_loglinear_options *options) {
    cst_loglinear_choice choices[CST_PRIORS_MAX];
    int32_t count = cst_loglinear_priors(table, options->nonnegative, choices);
    double *loss = cst_alloc(context, (size_t)table->rows * (size_t)count, sizeof *loss);
    cst_status status = loss ? CST_OK : CST_ERROR_MEMORY;
    CST_TRY(cst_loglinear_crossfit(context, table, folds, fold_count, options, choices, count,
                                   loss));
    if (status == CST_OK)
        cst_loglinear_choose(
            &choices[cst_loglinear_best_prior(loss, table->rows, count, choices)], options);
    cst_free(context, loss);
    return status;
}

cst_status cst_loglinear_share_cv(cst_context *context, const cst_view *view, const int32_t *folds,
                                  int32_t fold_count, const cst_loglinear_options *options,
                                  double *share) {
    cst_loglinear_choice choices[SHARE_COUNT];
    cst_logtable table = {0};
    cst_status status =
        cst_logtable_open(context, view, folds, fold_count, &options->compact, &table);
    for (int g = 0; g < SHARE_COUNT; g++)
        choices[g] = (cst_loglinear_choice){.share = SHARES[g],
                                            .precision = options->prior_weights,
                                            .nonnegative = options->nonnegative};
    double *loss = cst_alloc(context, (size_t)table.rows * SHARE_COUNT, sizeof *loss);
    if (!loss)
        status = CST_ERROR_MEMORY;
    CST_TRY(cst_logtable_mix(context, &table));
    CST_TRY(cst_loglinear_crossfit(context, &table, folds, fold_count, options, choices,
                                   SHARE_COUNT, loss));
    if (status == CST_OK)
        *share = SHARES[clearly_best(loss, table.rows, SHARE_COUNT, 0)];
    cst_free(context, loss);
    cst_logtable_free(context, &table);
    return status;
}
