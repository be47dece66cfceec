/* The log-linear pool on a view: compact table, prior, fit, and the last steps on every class of
 * every row, so that the result does not depend on the classes that the compact table left out. */
#include "core/la.h"
#include "core/wide.h"
#include "method/loglinear/loglinear.h"
#include "stats/statistics.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- prior precision of the weights and mixing by cross-validated loss ---- */

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
    int32_t first;      /* fold of the first task */
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
        options.start_bias = fit->bias;
        options.keep_seen = g + 1 < job->count;
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
    int32_t fold = job->first + (int32_t)task;
    cst_logtable table = {0};
    cst_logtable held = {0};
    int64_t held_rows = 0;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_logtable, &table);
    CST_OWN(context, scope, cst_logtable, &held);
    CST_NEW(context, scope, int64_t, rows, whole->rows);
    for (int64_t i = 0; i < whole->rows; i++)
        if (job->folds[whole->position[i]] == fold)
            rows[held_rows++] = i;
    CST_TRY(cst_logtable_split(context, whole, job->folds, fold, &table, &held));
    return fold_losses(context, job, &table, &held, rows, &job->fit[fold]);
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
                                 const choice *chosen, int32_t folds, double *loss) {
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
    return cst_parallel_long(context, folds, crossfit_task, &job);
}

/* ---- choices ---- */

/* `start`, unless another of the choices first..last-1 is better by more than two standard errors.
 */
static int32_t clearly_best(const double *loss, int64_t rows, int32_t first, int32_t last,
                            int32_t start) {
    int32_t best = start;
    double least = 0;
    for (int32_t g = first; g < last; g++) {
        double se = 0;
        double mean = cst_paired_mean(loss + g * rows, loss + start * rows, rows, &se);
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
    int32_t start = evidence && cst_paired_mean(loss + rows, loss, rows, &se) < 0;
    return clearly_best(loss, rows, 0, count, start);
}

/* Choices of a pool: priors at the table's share, then other shares with the first of these. */
typedef struct candidates {
    choice choice[CHOICES_MAX];
    int32_t priors;
    int32_t count;
} candidates;

/* So many rows and numbers in a table make it worth to look at one fold first. */
static const int64_t LOOK_ROWS = 4096;
static const double LOOK_NUMBERS = 1 << 23;

static cst_status crossfit_folds(cst_context *context, crossfit_job *job, const candidates *all,
                                 int32_t first, int32_t end) {
    job->first = first;
    job->count = all->priors;
    CST_TRY(cst_parallel_long(context, end - first, crossfit_task, job));
    for (int32_t g = all->priors; g < all->count; g++)
        CST_TRY(crossfit_share(context, job, &all->choice[g], end - first,
                               job->loss + g * job->table->rows));
    return CST_OK;
}

/* Leaves those that are better than the first on the rows of the first fold. */
static void keep_promising(const crossfit_job *job, candidates *all) {
    int64_t rows = job->table->rows;
    const candidates tried = *all;
    *all = (candidates){0};
    for (int32_t g = 0; g < tried.count; g++) {
        double change = 0;
        for (int64_t i = 0; i < rows; i++)
            if (job->folds[job->table->position[i]] == 0)
                change += job->loss[g * rows + i] - job->loss[i];
        if (g > 0 && !(change < 0))
            continue;
        memmove(job->loss + all->count * rows, job->loss + g * rows,
                (size_t)rows * sizeof *job->loss);
        all->choice[all->count++] = tried.choice[g];
        all->priors += g < tried.priors;
    }
}

static cst_status crossfit(cst_context *context, crossfit_job *job, candidates *all,
                           int32_t fold_count) {
    const cst_logtable *table = job->table;
    double numbers = (double)table->rows * (double)table->members * (double)table->classes;
    int32_t first = table->rows >= LOOK_ROWS && numbers >= LOOK_NUMBERS && all->count > 1;
    CST_TRY(begin_folds(context, job, fold_count));
    if (first > 0) {
        CST_TRY(crossfit_folds(context, job, all, 0, first));
        keep_promising(job, all);
    }
    return crossfit_folds(context, job, all, first, fold_count);
}

cst_status cst_loglinear_cv_run(cst_context *context, const cst_logtable *table,
                                const int32_t *folds, int32_t fold_count,
                                const cst_loglinear_cv *cv, cst_loglinear_options *options,
                                double *loss) {
    candidates all = {.priors = 0};
    int64_t rows = table->rows;
    all.priors = all.count = list_priors(table, cv, options, all.choice);
    for (int g = 0; cv->share && g < SHARE_COUNT; g++)
        all.choice[all.count++] = (choice){SHARES[g], all.choice[0].precision};
    crossfit_job job = {.table = table, .folds = folds, .options = options, .choices = all.choice};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, job.loss, rows * CHOICES_MAX);
    CST_TAKE(context, scope, job.fit, fold_count);
    for (int32_t f = 0; f < fold_count; f++)
        CST_OWN(context, scope, cst_loglinear, &job.fit[f]);
    CST_NEW(context, scope, int32_t, everyone, table->members);
    for (int32_t k = 0; k < table->members; k++)
        everyone[k] = k;
    job.everyone = everyone;
    CST_TRY(crossfit(context, &job, &all, fold_count));
    int32_t best = best_prior(job.loss, rows, all.choice, all.priors);
    best = clearly_best(job.loss, rows, all.priors, all.count, best);
    choose(&all.choice[best], options);
    if (loss)
        memcpy(loss, job.loss + best * rows, (size_t)rows * sizeof *loss);
    return CST_OK;
}

/* Floats of a member that are read at a time; logs that are held at a time. */
enum { READ_FLOATS = 1 << 16, HELD_LOGS = 1 << 16 };
enum { POLISH_PASSES = 12 };
/* From so many classes on, scattered rows are taken one by one: one that is in memory is not
 * copied. */
enum { SINGLE_CLASSES = 256 };

/* ---- loss and gradient over everything ---- */

typedef struct exact_job {
    const cst_view *view;
    const double *mix;
    const double *weights;
    const double *bias;          /* [classes] */
    const double *class_weights; /* [classes], or NULL: 1 */
    int64_t read;                /* rows that are read at a time */
    int64_t held;                /* rows whose logs are held at a time */
    bool spread;                 /* the sums of logs are wanted */
} exact_job;

typedef struct exact_scratch {
    const float **rows; /* [members] */
    float *copies;      /* [members][read][classes], where the view copies */
    float *logs;        /* [members][held][classes] */
    double *z;          /* [held][classes] */
} exact_scratch;

/* ---- kernels ---- */

enum { LANES = CST_PASS_LANES, TOGETHER = 4, PIECE = 256 };

/* Logs of a member, and its part of the scores: as cst_pass_logs and cst_add_scaled_f64. */
CST_KERNEL(score,
           (const float *restrict p, int64_t count, float keep, float floor, double weight,
            float *restrict logs, double *restrict z),
           (p, count, keep, floor, weight, logs, z)) {
    if (floor >= FLT_MIN)
        for (int64_t i = 0; i < count; i++)
            logs[i] = cst_log_normal_f32(keep * p[i] + floor);
    else
        for (int64_t i = 0; i < count; i++)
            logs[i] = cst_log_one_f32(keep * p[i] + floor);
    for (int64_t i = 0; i < count; i++)
        z[i] += weight * (double)logs[i];
}

/* The products of z with TOGETHER arrays of logs, each in the order of cst_pass_dot. */
CST_KERNEL(slopes,
           (const double *restrict z, const float *restrict logs, int64_t stride, int64_t count,
            double *restrict out),
           (z, logs, stride, count, out)) {
    double lane[TOGETHER][LANES] = {{0}};
    double x[TOGETHER][PIECE];
    for (int64_t at = 0; at < count; at += PIECE) {
        int64_t size = count - at < PIECE ? count - at : PIECE;
        for (int r = 0; r < TOGETHER; r++)
            for (int64_t i = 0; i < size; i++)
                x[r][i] = (double)logs[r * stride + at + i];
        int64_t i = 0;
        for (; i + LANES <= size; i += LANES) {
            for (int l = 0; l < LANES; l++)
                lane[0][l] += z[at + i + l] * x[0][i + l];
            for (int l = 0; l < LANES; l++)
                lane[1][l] += z[at + i + l] * x[1][i + l];
            for (int l = 0; l < LANES; l++)
                lane[2][l] += z[at + i + l] * x[2][i + l];
            for (int l = 0; l < LANES; l++)
                lane[3][l] += z[at + i + l] * x[3][i + l];
        }
        for (; i < size; i++)
            for (int r = 0; r < TOGETHER; r++)
                lane[r][i % LANES] += z[at + i] * x[r][i];
    }
    for (int r = 0; r < TOGETHER; r++)
        out[r] = (lane[r][0] + lane[r][1]) + (lane[r][2] + lane[r][3]);
}

/* Adds the sum and the sum of squares. */
CST_KERNEL(spread_of, (const float *restrict logs, int64_t count, double *restrict out),
           (logs, count, out)) {
    double sum[LANES] = {0};
    double square[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int l = 0; l < LANES; l++) {
            double x = (double)logs[i + l];
            sum[l] += x;
            square[l] += x * x;
        }
    for (; i < count; i++) {
        sum[i % LANES] += (double)logs[i];
        square[i % LANES] += (double)logs[i] * (double)logs[i];
    }
    out[0] += (sum[0] + sum[1]) + (sum[2] + sum[3]);
    out[1] += (square[0] + square[1]) + (square[2] + square[3]);
}

/* ---- blocks ---- */

/* Sums and sums of squares of logs, of CST_BLOCK_ROWS at a time. */
static void add_spread(const float *logs, int64_t cells, double *spread) {
    for (int64_t at = 0; at < cells; at += CST_BLOCK_ROWS)
        spread_of(logs + at, cells - at < CST_BLOCK_ROWS ? cells - at : CST_BLOCK_ROWS, spread);
}

static void add_member_spread(const exact_job *job, int64_t first, int64_t count, const float *logs,
                              double *spread) {
    const cst_view *view = job->view;
    if (!view->weights)
        add_spread(logs, count * view->classes, spread);
    for (int64_t i = 0; view->weights && i < count; i++) {
        double row[2] = {0};
        double weight = cst_view_weight(view, first + i);
        add_spread(logs + i * view->classes, view->classes, row);
        spread[0] += weight * row[0];
        spread[1] += weight * row[1];
    }
}

/* sum: loss, gradient [members + classes], then for each member sum and sum of squares of logs,
 * where they are wanted. `from`: rows before the first of these among those that were read. */
static void exact_rows(const exact_job *job, int64_t first, int64_t from, int64_t count,
                       exact_scratch *s, double *sum) {
    const cst_view *view = job->view;
    size_t classes = (size_t)view->classes;
    size_t cells = (size_t)count * classes;
    bool weighted = job->class_weights || view->weights;
    double *gradient = sum + 1;
    double *bias_gradient = gradient + view->members;
    double *spread = bias_gradient + classes;
    for (int64_t i = 0; i < count; i++)
        memcpy(s->z + (size_t)i * classes, job->bias, classes * sizeof *s->z);
    for (int32_t k = 0; k < view->members; k++) {
        float *logs = s->logs + (size_t)k * cells;
        score(s->rows[k] + (size_t)from * classes, (int64_t)cells, (float)(1 - job->mix[k]),
              (float)(job->mix[k] / (double)classes), job->weights[k], logs, s->z);
        if (job->spread)
            add_member_spread(job, first, count, logs, spread + 2 * (size_t)k);
    }
    for (int64_t i = 0; i < count; i++) {
        int32_t class = cst_view_label(view, first + i);
        double weight = job->class_weights ? job->class_weights[class] : 1;
        weight = view->weights ? weight * cst_view_weight(view, first + i) : weight;
        double *z = s->z + (size_t)i * classes;
        double given = z[class];
        sum[0] += weight * (cst_pass_softmax((int64_t)classes, z) - given);
        z[class] -= 1; /* residuals */
        for (size_t c = 0; weighted && c < classes; c++)
            z[c] *= weight;
        cst_add_scaled_f64(z, (int64_t)classes, 1, bias_gradient);
    }
    for (int32_t k = 0; k < view->members; k += TOGETHER) {
        double slope[TOGETHER];
        slopes(s->z, s->logs + (size_t)k * cells, (int64_t)cells, (int64_t)cells, slope);
        for (int32_t r = 0; r < TOGETHER && k + r < view->members; r++)
            gradient[k + r] += slope[r];
    }
}

static cst_status exact_block(cst_context *worker, void *user, int64_t block, double *sum) {
    const exact_job *job = user;
    const cst_view *view = job->view;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(view->rows, block);
    size_t stride = (size_t)job->read * (size_t)view->classes;
    exact_scratch s;
    CST_SCOPE(scope);
    size_t classes = (size_t)view->classes;
    size_t padded = ((size_t)view->members + TOGETHER - 1) / TOGETHER * TOGETHER;
    CST_TAKE(worker, scope, s.rows, view->members);
    CST_TAKE(worker, scope, s.copies, cst_view_copies(view) ? (size_t)view->members * stride : 0);
    CST_TAKE(worker, scope, s.logs, padded * (size_t)job->held * classes);
    CST_TAKE(worker, scope, s.z, (size_t)job->held * classes);
    for (int64_t row = first; row < end; row += job->read) {
        int64_t count = end - row < job->read ? end - row : job->read;
        for (int32_t k = 0; k < view->members; k++)
            CST_TRY(cst_view_rows(worker, view, k, row, count,
                                  cst_view_copies(view) ? s.copies + (size_t)k * stride : NULL,
                                  &s.rows[k]));
        for (int64_t i = 0; i < count; i += job->held)
            exact_rows(job, row + i, i, count - i < job->held ? count - i : job->held, &s, sum);
    }
    return CST_OK;
}

static int64_t rows_in(int64_t floats, int64_t width) {
    int64_t rows = floats / width;
    return rows < 1 ? 1 : rows > CST_BLOCK_ROWS ? CST_BLOCK_ROWS : rows;
}

/* ---- polishing ---- */

typedef struct polish {
    const cst_loglinear_options *options;
    cst_loglinear *fit;
    double *factor;               /* [d][d]: of fit->hessian, without what is at its bound */
    bool *bound;                  /* [d]: weights at 0 that would be negative */
    double *theta;                /* [d]: where the loss is computed */
    double *gradient;             /* [d]: penalised, there */
    double *best;                 /* [d]: the point of least loss so far */
    double *slope;                /* [d]: its gradient */
    double *step;                 /* [d] */
    double *moved;                /* [POLISH_PASSES][d]: differences of points */
    double *turned;               /* [POLISH_PASSES][d]: of their gradients */
    double curved[POLISH_PASSES]; /* products of the two */
    int pairs;
    exact_job job; /* at theta */
    double *sum;   /* of exact_block */
} polish;

/* Penalised loss at theta from the data's loss, and the prior's pull added to the gradient. */
static double add_prior(const polish *s, double loss) {
    const cst_loglinear *fit = s->fit;
    int32_t k = fit->members;
    double center = 1.0 / (double)k;
    double scale = s->options->prior_scale;
    double common = 0;
    for (int32_t j = 0; j < k; j++)
        common += (s->theta[j] - center) / (double)k;
    loss += 0.5 * scale * (double)k * common * common;
    for (int32_t j = 0; j < fit->parameters; j++) {
        double offset = j < k ? s->theta[j] - center - common : s->theta[j];
        double precision = j < k ? fit->prior_weights : fit->prior_bias;
        loss += 0.5 * precision * offset * offset;
        s->gradient[j] += precision * offset + (j < k ? scale * common : 0);
    }
    return loss;
}

static cst_status evaluate(cst_context *context, polish *s, bool spread, double *value) {
    const cst_view *view = s->job.view;
    size_t width = 1 + 3 * (size_t)view->members + (size_t)view->classes;
    s->job.spread = spread;
    CST_TRY(cst_reduce_blocks(context, cst_block_count(view->rows), width, exact_block, &s->job,
                              s->sum));
    memcpy(s->gradient, s->sum + 1, (size_t)s->fit->parameters * sizeof *s->gradient);
    *value = add_prior(s, s->sum[0]);
    return CST_OK;
}

/* Learns the curvature between the present point and the best one. */
static void learn(polish *s) {
    size_t d = (size_t)s->fit->parameters;
    double *moved = s->moved + (size_t)s->pairs * d;
    double *turned = s->turned + (size_t)s->pairs * d;
    double curved = 0;
    for (size_t j = 0; j < d; j++) {
        moved[j] = s->bound[j] ? 0 : s->theta[j] - s->best[j];
        turned[j] = s->bound[j] ? 0 : s->gradient[j] - s->slope[j];
        curved += moved[j] * turned[j];
    }
    if (curved > 0)
        s->curved[s->pairs++] = curved;
}

/* Whether other weights than before are at their bound at the best point: those that are 0 and
 * would go below. */
static bool find_bound(const polish *s) {
    bool other = false;
    for (int32_t j = 0; j < s->fit->members; j++) {
        bool at = s->options->nonnegative && s->best[j] <= 0 && s->slope[j] > 0;
        other = other || at != s->bound[j];
        s->bound[j] = at;
    }
    return other;
}

/* Factor of the curvature with 1 in the places of weights at their bound. What was learnt with
 * others there is forgotten. */
static cst_status refactor(cst_context *context, polish *s) {
    size_t d = (size_t)s->fit->parameters;
    memcpy(s->factor, s->fit->hessian, d * d * sizeof *s->factor);
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j <= i; j++)
            if (s->bound[i] || s->bound[j])
                s->factor[i * d + j] = i == j ? 1 : 0;
    s->pairs = 0;
    return cst_cholesky(context, (int64_t)d, s->factor);
}

/* Direction from the best point by the curvature of the fit, corrected by what
 * was learnt (the two loops of L-BFGS); returns half the squared decrement. */
static double direction(polish *s) {
    int64_t d = s->fit->parameters;
    double share[POLISH_PASSES];
    for (int64_t j = 0; j < d; j++)
        s->step[j] = s->bound[j] ? 0 : s->slope[j];
    for (int i = s->pairs - 1; i >= 0; i--) {
        share[i] = cst_pass_dot(s->moved + i * d, s->step, d) / s->curved[i];
        cst_add_scaled_f64(s->turned + i * d, d, -share[i], s->step);
    }
    cst_cholesky_solve(d, s->factor, s->step);
    for (int i = 0; i < s->pairs; i++) {
        double back = cst_pass_dot(s->turned + i * d, s->step, d) / s->curved[i];
        cst_add_scaled_f64(s->moved + i * d, d, share[i] - back, s->step);
    }
    return 0.5 * cst_pass_dot(s->step, s->slope, d);
}

/* Quasi-Newton steps from the point of least loss; shorter after each that raises it. */
static cst_status descend(cst_context *context, polish *s, double *spread) {
    size_t d = (size_t)s->fit->parameters;
    size_t k = (size_t)s->fit->members;
    double least = INFINITY;
    double length = 1;
    for (int pass = 0; pass < POLISH_PASSES; pass++) {
        double value = 0;
        CST_TRY(evaluate(context, s, spread && pass == 0, &value));
        if (spread && pass == 0) /* logs do not depend on the point */
            memcpy(spread, s->sum + 1 + k + (size_t)s->fit->classes, 2 * k * sizeof *spread);
        if (pass > 0)
            learn(s);
        length *= 0.5;
        if (value <= least) {
            length = 1;
            least = value;
            s->fit->nll = s->sum[0];
            s->fit->iterations += pass > 0;
            memcpy(s->best, s->theta, d * sizeof *s->best);
            memcpy(s->slope, s->gradient, d * sizeof *s->slope);
        }
        if (find_bound(s))
            CST_TRY(refactor(context, s));
        s->fit->decrement = direction(s);
        if (s->fit->decrement <= s->options->polish)
            break;
        for (size_t j = 0; j < d; j++) {
            s->theta[j] = s->best[j] - length * s->step[j];
            if (s->options->nonnegative && j < k)
                s->theta[j] = fmax(s->theta[j], 0);
        }
    }
    memcpy(s->fit->weights, s->best, k * sizeof *s->best);
    memcpy(s->fit->bias, s->best + k, (d - k) * sizeof *s->best);
    for (size_t j = 0; j < k; j++)
        s->fit->slack[j] = s->bound[j] ? s->slope[j] : 0;
    return CST_OK;
}

/* Moves a fit of every member to the optimum on every class, with gradients of the view and the
 * curvature of `fit`, until half the squared decrement (then fit->decrement) is below
 * options->polish or nothing is gained. *spread: [2 * members] weighted sums and squares of
 * logs. */
static cst_status loglinear_polish(cst_context *context, const cst_view *view, const double *mix,
                                   const cst_loglinear_options *options, cst_loglinear *fit,
                                   double *spread) {
    size_t d = (size_t)fit->parameters;
    size_t k = (size_t)fit->members;
    polish s = {.options = options, .fit = fit};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, zeros, fit->classes);
    CST_TAKE(context, scope, s.factor, d * d);
    CST_TAKE(context, scope, s.bound, d);
    CST_TAKE(context, scope, s.theta, d);
    CST_TAKE(context, scope, s.gradient, d);
    CST_TAKE(context, scope, s.best, d);
    CST_TAKE(context, scope, s.slope, d);
    CST_TAKE(context, scope, s.step, d);
    CST_TAKE(context, scope, s.moved, POLISH_PASSES * d);
    CST_TAKE(context, scope, s.turned, POLISH_PASSES * d);
    CST_TAKE(context, scope, s.sum, 1 + 3 * k + (size_t)fit->classes);
    memcpy(s.theta, fit->weights, k * sizeof *s.theta);
    memcpy(s.theta + k, fit->bias, (d - k) * sizeof *s.theta);
    s.job = (exact_job){.view = view,
                        .mix = mix,
                        .weights = s.theta,
                        .bias = d > k ? s.theta + k : zeros,
                        .class_weights = options->compact.class_weights,
                        .read = rows_in(READ_FLOATS, view->classes),
                        .held = rows_in(HELD_LOGS, (int64_t)view->classes * view->members)};
    if (view->index && view->classes >= SINGLE_CLASSES) {
        s.job.held = 1;
        s.job.read = view->store ? s.job.read : 1;
    }
    CST_TRY(refactor(context, &s));
    CST_TRY(descend(context, &s, spread));
    double even = (double)view->rows / cst_view_weight_sum(view);
    for (size_t j = 0; spread && view->weights && j < 2 * k; j++)
        spread[j] *= even;
    return CST_OK;
}

/* ---- all of it ---- */

/* Cross-validation of a view's table, which is mixed as was chosen. */
static cst_status cross_validate(cst_context *context, cst_logtable *table, int64_t rows,
                                 const int32_t *folds, int32_t fold_count,
                                 const cst_loglinear_cv *cv, cst_loglinear_options *options) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, loss, cv->loss ? table->rows : 0);
    CST_TRY(cst_loglinear_cv_run(context, table, folds, fold_count, cv, options,
                                 cv->loss ? loss : NULL));
    for (int64_t i = 0; cv->loss && i < rows; i++)
        cv->loss[i] = NAN;
    for (int64_t i = 0; cv->loss && i < table->rows; i++)
        cv->loss[table->position[i]] = loss[i];
    if (table->share == options->compact.share)
        return CST_OK;
    table->share = options->compact.share;
    return cst_logtable_mix(context, table);
}

/* A fit that is polished later need not be exact, and finds its biases, whose
 * steps are dear, from weights that were fitted without them. */
static cst_status fit_sample(cst_context *context, const cst_logtable *table, const int32_t *active,
                             const cst_loglinear_options *options, cst_loglinear *out) {
    cst_loglinear without = {0};
    cst_loglinear_options rough = *options;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_loglinear, &without);
    rough.bias = false;
    rough.evidence = false;
    rough.tolerance = 0.1;
    if (options->bias)
        CST_TRY(cst_loglinear_fit(context, table, active, table->members, &rough, NULL, &without));
    rough.bias = options->bias;
    rough.evidence = options->evidence;
    rough.tolerance = 1e-3;
    return cst_loglinear_fit(context, table, active, table->members, &rough, without.weights, out);
}

/* Fit on the table, then on the view where the table is a sample of it. */
static cst_status fit_view(cst_context *context, const cst_view *view, const cst_logtable *table,
                           const int32_t *active, const cst_loglinear_options *options,
                           const double *start, cst_loglinear *out, double *logdet) {
    bool sample = !table->compact->every_class || table->rows < view->rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, spread, 2 * (size_t)view->members);
    if (sample) {
        CST_TRY(fit_sample(context, table, active, options, out));
        CST_TRY(loglinear_polish(context, view, table->mix, options, out, logdet ? spread : NULL));
    } else {
        CST_TRY(cst_loglinear_fit(context, table, active, view->members, options, start, out));
    }
    return logdet
               ? cst_loglinear_logdet(context, table, active, out, sample ? spread : NULL, logdet)
               : CST_OK;
}

cst_status cst_loglinear_pool(cst_context *context, const cst_view *view, const int32_t *folds,
                              int32_t fold_count, const cst_loglinear_cv *cv,
                              cst_loglinear_options *options, double *mix, cst_loglinear *out,
                              double *logdet) {
    *out = (cst_loglinear){0};
    cst_loglinear_cv wanted = {.loss = cv->loss};
    if (view->members > 1)
        wanted = *cv;
    cst_logtable table = {0};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_logtable, &table);
    CST_NEW(context, scope, int32_t, active, view->members);
    for (int32_t k = 0; k < view->members; k++)
        active[k] = k;
    CST_TRY(cst_logtable_open(context, view, folds, fold_count, &options->compact, &table));
    CST_TRY(cst_logtable_mix(context, &table));
    if (wanted.prior || wanted.share || wanted.loss)
        CST_TRY(cross_validate(context, &table, view->rows, folds, fold_count, &wanted, options));
    cst_status status = fit_view(context, view, &table, active, options, cv->start, out, logdet);
    if (status != CST_OK)
        cst_loglinear_free(context, out);
    memcpy(mix, table.mix, (size_t)view->members * sizeof *mix);
    return status;
}
