/* Prior precision of the log-linear weights and mixing by cross-validated loss: on small pools the
 * evidence, which trusts the Laplace approximation, shrinks too much or too little. */
#include "method/loglinear/loglinear.h"

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

/* A choice for a pool. */
typedef struct choice {
    double share;     /* as in cst_compact_options */
    double precision; /* of the weights; 0: by the evidence */
} choice;

typedef struct crossfit_job {
    const cst_logtable *table;
    const int32_t *folds;
    const cst_loglinear_options *options;
    const int32_t *everyone; /* [members] */
    const choice *choices;   /* of one share, the table's */
    int32_t count;
    cst_loglinear *fit; /* [folds]: the last one of each, from which the next begins */
    double *loss;       /* [count][rows] */
} crossfit_job;

CST_OWNED(cst_compact)
CST_OWNED(cst_loglinear)
CST_OWNED(cst_logtable)

static void choose(const choice *chosen, cst_loglinear_options *options) {
    options->evidence = chosen->precision <= 0;
    if (!options->evidence)
        options->prior_weights = chosen->precision;
    options->compact.share = chosen->share;
}

/* Pools of many classes are compared without biases. */
static bool with_biases(const cst_logtable *table, const cst_loglinear_options *options) {
    return options->bias && table->classes <= EVIDENCE_CLASSES;
}

/* Each fit starts from the weights of the one before. Of a sample of classes fits are rough: they
 * start from its biases too, or under the same mixing, where only the prior differs, with its sums.
 * rows: [held->rows] of the table. */
static cst_status fold_losses(cst_context *context, const crossfit_job *job,
                              const cst_logtable *table, const cst_logtable *held,
                              const int64_t *rows, cst_loglinear *fit) {
    bool rough = !table->compact->every_class;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, per_row, held->rows);
    for (int32_t g = 0; g < job->count; g++) {
        cst_loglinear next = {0};
        cst_loglinear_options options = *job->options;
        double mean = 0;
        options.tolerance = 1e-4;
        options.trusted = rough ? 0.1 : 0;
        options.bias = with_biases(table, &options);
        options.start_bias = rough ? fit->bias : NULL;
        options.keep_seen = rough && g + 1 < job->count;
        options.seen = fit->seen;
        choose(&job->choices[g], &options);
        CST_TRY(cst_loglinear_fit(context, table, job->everyone, table->members, &options,
                                  fit->weights, &next));
        cst_loglinear_free(context, fit);
        *fit = next;
        CST_TRY(cst_loglinear_loss(context, held, job->everyone, table->members, fit->weights,
                                   fit->bias, &mean, per_row));
        for (int64_t i = 0; i < held->rows; i++)
            job->loss[g * job->table->rows + rows[i]] = per_row[i];
    }
    return CST_OK;
}

static cst_status crossfit_task(cst_context *context, void *user, int64_t task) {
    const crossfit_job *job = user;
    const cst_logtable *whole = job->table;
    cst_logtable table = {0};
    cst_logtable held = {0};
    int64_t held_rows = 0;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_logtable, &table);
    CST_OWN(context, scope, cst_logtable, &held);
    CST_NEW(context, scope, int64_t, rows, whole->rows);
    for (int64_t i = 0; i < whole->rows; i++)
        if (job->folds[whole->position[i]] == task)
            rows[held_rows++] = i;
    CST_TRY(cst_logtable_split(context, whole, job->folds, (int32_t)task, &table, &held));
    return fold_losses(context, job, &table, &held, rows, &job->fit[task]);
}

/* Where the first fit of every fold begins: about the optimum of all rows, first without biases,
 * which is a cheaper pass. Folds move by more than a quarter of the number of parameters. */
static cst_status begin_folds(cst_context *context, const crossfit_job *job, int32_t fold_count) {
    const cst_logtable *table = job->table;
    size_t members = (size_t)table->members;
    size_t classes = (size_t)table->classes;
    cst_loglinear without = {0};
    cst_loglinear with = {0};
    cst_loglinear_options options = *job->options;
    const cst_loglinear *fit = &without;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_loglinear, &without);
    CST_OWN(context, scope, cst_loglinear, &with);
    choose(&job->choices[0], &options);
    options.evidence = false;
    options.bias = false;
    options.tolerance = 1;
    options.trusted = (double)members;
    CST_TRY(
        cst_loglinear_fit(context, table, job->everyone, table->members, &options, NULL, &without));
    if (with_biases(table, job->options)) {
        options.bias = true;
        options.trusted = 0.25 * (double)(members + classes);
        CST_TRY(cst_loglinear_fit(context, table, job->everyone, table->members, &options,
                                  without.weights, &with));
        fit = &with;
    }
    for (int32_t f = 0; f < fold_count; f++) {
        cst_loglinear *start = &job->fit[f];
        CST_TAKE(context, &start->scope, start->weights, members);
        CST_TAKE(context, &start->scope, start->bias, classes);
        memcpy(start->weights, fit->weights, members * sizeof *start->weights);
        memcpy(start->bias, fit->bias, classes * sizeof *start->bias);
    }
    return CST_OK;
}

/* The choice of one share for all members, whose logs all folds read. */
static cst_status crossfit_share(cst_context *context, const crossfit_job *priors,
                                 const choice *chosen, int32_t fold_count, double *loss) {
    cst_compact remixed = {0};
    cst_logtable table = *priors->table;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, mix, table.compact->members);
    for (int32_t k = 0; k < table.compact->members; k++)
        mix[k] = chosen->share;
    CST_OWN(context, scope, cst_compact, &remixed);
    CST_TRY(cst_compact_remixed(context, table.compact, mix, &remixed));
    table.compact = &remixed;
    table.share = chosen->share;
    crossfit_job job = *priors;
    job.table = &table;
    job.choices = chosen;
    job.count = 1;
    job.loss = loss;
    return cst_parallel_long(context, fold_count, crossfit_task, &job);
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
static cst_status crossfit(cst_context *context, crossfit_job *job, int32_t priors, int32_t count,
                           int32_t fold_count) {
    if (!job->table->compact->every_class)
        CST_TRY(begin_folds(context, job, fold_count));
    CST_TRY(cst_parallel_long(context, fold_count, crossfit_task, job));
    for (int32_t g = priors; g < count; g++)
        CST_TRY(crossfit_share(context, job, &job->choices[g], fold_count,
                               job->loss + g * job->table->rows));
    return CST_OK;
}

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
        .table = table, .folds = folds, .options = options, .choices = choices, .count = priors};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, job.loss, rows * CHOICES_MAX);
    CST_TAKE(context, scope, job.fit, fold_count);
    for (int32_t f = 0; f < fold_count; f++)
        CST_OWN(context, scope, cst_loglinear, &job.fit[f]);
    CST_NEW(context, scope, int32_t, everyone, table->members);
    for (int32_t k = 0; k < table->members; k++)
        everyone[k] = k;
    job.everyone = everyone;
    CST_TRY(crossfit(context, &job, priors, count, fold_count));
    int32_t best = best_prior(job.loss, rows, choices, priors);
    best = clearly_best(job.loss, rows, priors, count, best);
    choose(&choices[best], options);
    if (loss)
        memcpy(loss, job.loss + best * rows, (size_t)rows * sizeof *loss);
    return CST_OK;
}
