/* Wrong labels. See the header. The model of the errors is p(given | x) = sum_y q(y | x)
 * T[y, given] with a log-linear pool q, fitted by expectation-maximisation: soft labels y are only
 * a linear term in the pool's loss. */
#include "method/noise/noise.h"

#include "method/loglinear/loglinear.h"

#include <math.h>
#include <string.h>

static const double SHARE = 1e-4;     /* of the uniform distribution, in every member */
static const double PRIOR_ROWS = 20;  /* rows of T_sym that each class of T begins with */
static const double FIRST_ERROR = .1; /* where e begins */
static const double SURE = 3;         /* an alarm: z, and the relative gain in held-out NLL */
static const double GAIN = .01;
/* Rows that are only hard look like a few wrong labels, and say the same of the next rows. */
static const double LEAST_RATE = .03;
static const double MOST_RIGHT = .1; /* of the suspects, where classes are not clear */
static const double LEAST_ERROR = .01;
static const double STILL = 1e-5;  /* how far the last round moves a number at most */
static const double LEAP_MAX = 32; /* in rounds */
static const double WORSE = 1;     /* nats that a leap may cost */

/* ROUNDS of EM, RELABELLINGS of confident learning; an alarm is judged on about so many numbers of
 * predictions, but at least so many rows. */
enum { ROUNDS = 200, RELABELLINGS = 3 };
static const int64_t NUMBERS_MAX = (int64_t)1 << 24;
static const int64_t ROWS_LEAST = 4096;

/* Its numbers lie one after the other. */
typedef struct error_model {
    size_t count;
    double *weights; /* [members] */
    double *bias;    /* [classes] */
    double *error;   /* e */
    double *shares;  /* [classes][classes] of T; NULL: (1 - e) I + e/C */
} error_model;

static cst_status model_take(cst_context *context, cst_scope *scope, const cst_view *view,
                             bool shares, error_model *out) {
    size_t members = (size_t)view->members;
    size_t classes = (size_t)view->classes;
    out->count = members + classes + 1 + (shares ? classes * classes : 0);
    CST_TAKE(context, scope, out->weights, out->count);
    out->bias = out->weights + members;
    out->error = out->bias + classes;
    out->shares = shares ? out->error + 1 : NULL;
    for (int32_t k = 0; k < view->members; k++)
        out->weights[k] = 1.0 / view->members;
    return CST_OK;
}

/* As many of the numbers as both have. */
static void model_copy(const error_model *from, const error_model *to) {
    memcpy(to->weights, from->weights,
           (from->count < to->count ? from->count : to->count) * sizeof *to->weights);
}

/* T[class, given] */
static double share_of(const error_model *model, int32_t classes, int32_t class, int32_t given) {
    if (model->shares)
        return model->shares[(size_t) class * (size_t)classes + (size_t)given];
    return *model->error / classes + (class == given ? 1 - *model->error : 0);
}

/* ---- expectation ---- */

typedef struct expectation {
    const cst_logtable *table;
    const error_model *model;
    double *per_row; /* [rows of the table]: losses, or NULL */
} expectation;

/* Sums: loss, labels drawn at random, weights of rows, tilt [members + classes], and with shares
 * rows by true and given class. */
enum { LOSS, DRAWN, WEIGHT, TILT };

/* Probabilities of the pool for a row to q; logs: [members][entries], of those `x` points to. */
static void row_pool(const expectation *s, const cst_logrow *r, double *logs, const double **x,
                     double *q) {
    const cst_logtable *table = s->table;
    const int32_t *classes = r->block->classes ? r->block->classes + r->from : NULL;
    for (int64_t e = 0; e < r->count; e++) {
        int64_t class = classes ? classes[e] : e;
        q[e] = class < 0 ? 0 : s->model->bias[class];
        q[e] += classes ? (double)r->block->offset[r->from + e] : 0;
    }
    for (int32_t k = 0; k < table->members; k++) {
        int64_t at = cst_logrow_of(table, r, k);
        double *own = logs + k * r->count;
        bool held = cst_logtable_has_logs(table, k);
        x[k] = held && table->compact->every_class ? r->block->exact + at : own;
        for (int64_t e = 0; held && x[k] == own && e < r->count; e++)
            own[e] = (double)r->block->logs[at + e];
        if (!held)
            cst_pass_logs(r->block->p + at, r->count, table->mix[k], table->classes, own);
        for (int64_t e = 0; e < r->count; e++)
            q[e] += s->model->weights[k] * x[k][e];
    }
    (void)cst_pass_softmax(r->count, q);
}

static cst_status expect_rows(cst_context *worker, const void *user, int64_t first, int64_t end,
                              double *sum) {
    const expectation *s = user;
    const cst_logtable *table = s->table;
    int32_t classes = table->classes;
    int32_t members = table->members;
    double *tilt = sum + TILT;
    double *given = tilt + members + classes;
    int64_t most = 0;
    for (int64_t i = first; i < end; i++) {
        int64_t count = cst_logrow_at(table, i).count;
        most = count > most ? count : most;
    }
    CST_SCOPE(scope);
    CST_NEW(worker, scope, double, q, most);
    CST_NEW(worker, scope, double, logs, ((size_t)most * (size_t)members));
    CST_NEW(worker, scope, const double *, x, members);
    for (int64_t i = first; i < end; i++) {
        cst_logrow r = cst_logrow_at(table, i);
        double weight = cst_logtable_weight(table, i, r.class);
        double total = 0;
        row_pool(s, &r, logs, x, q);
        for (int64_t e = 0; e < r.count; e++) {
            int32_t class = r.block->classes ? r.block->classes[r.from + e] : (int32_t)e;
            q[e] *= class < 0 ? 0 : share_of(s->model, classes, class, r.class);
            total += q[e];
        }
        total = fmax(total, 1e-300);
        double loss = -weight * log(total);
        sum[LOSS] += loss;
        sum[WEIGHT] += weight;
        sum[DRAWN] += weight * *s->model->error / classes / total;
        if (s->per_row)
            s->per_row[i] = loss;
        tilt[members + r.class] += weight;
        for (int64_t e = 0; e < r.count; e++) {
            int32_t class = r.block->classes ? r.block->classes[r.from + e] : (int32_t)e;
            q[e] *= weight / total;
            if (class < 0)
                continue;
            tilt[members + class] -= q[e];
            if (s->model->shares)
                given[(size_t) class * (size_t)classes + (size_t)r.class] += q[e];
        }
        for (int32_t k = 0; k < members; k++)
            tilt[k] += weight * x[k][r.label] - cst_pass_dot(q, x[k], r.count);
    }
    return CST_OK;
}

static size_t sums_of(const error_model *model) {
    return TILT + model->count - 1; /* e has no sum of its own */
}

static cst_status expect(cst_context *context, const expectation *s, double *sum) {
    size_t width = sums_of(s->model);
    CST_TRY(cst_logtable_sum(context, s->table, 1, width, 0, expect_rows, s, sum, s->per_row));
    for (size_t i = 0; i < width; i++)
        sum[i] *= s->table->weight;
    return CST_OK;
}

/* ---- the pool, and the model of the errors ---- */

CST_OWNED(cst_logtable)
CST_OWNED(cst_loglinear)

static cst_loglinear_options pool_options(void) {
    cst_loglinear_options options = cst_loglinear_defaults();
    options.evidence = false;
    options.compact.share = SHARE;
    return options;
}

/* Fits the pool of all members from the model's weights and biases on, to which it is written. */
static cst_status fit_pool(cst_context *context, const cst_logtable *table,
                           const cst_loglinear_options *options, const error_model *model) {
    cst_loglinear fit = {0};
    cst_loglinear_options from = *options;
    from.start_bias = model->bias;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, everyone, table->members);
    CST_OWN(context, scope, cst_loglinear, &fit);
    for (int32_t k = 0; k < table->members; k++)
        everyone[k] = k;
    CST_TRY(
        cst_loglinear_fit(context, table, everyone, table->members, &from, model->weights, &fit));
    memcpy(model->weights, fit.weights, (size_t)table->members * sizeof *fit.weights);
    memcpy(model->bias, fit.bias, (size_t)table->classes * sizeof *fit.bias);
    return CST_OK;
}

/* T by the expected counts [classes][classes], of which the prior of a model `error` has some. */
static void update_shares(int32_t classes, const double *given, const error_model *model) {
    const error_model symmetric = {.error = model->error};
    for (int32_t y = 0; y < classes; y++) {
        double *to = model->shares + (size_t)y * (size_t)classes;
        double total = 0;
        for (int32_t o = 0; o < classes; o++) {
            to[o] = (given ? given[y * classes + o] : 0) +
                    PRIOR_ROWS * share_of(&symmetric, classes, y, o);
            total += to[o];
        }
        for (int32_t o = 0; o < classes; o++)
            to[o] /= total;
    }
}

/* One round from the model on; with shares e stays. *loss: before it. */
static cst_status round_of(cst_context *context, const cst_logtable *table,
                           const error_model *model, double *sum, double *loss) {
    const expectation at = {.table = table, .model = model};
    cst_loglinear_options options = pool_options();
    options.tilt = sum + TILT;
    options.trusted = 1;
    options.trusted_share = 1e-3;
    CST_TRY(expect(context, &at, sum));
    *loss = sum[LOSS];
    if (model->shares)
        update_shares(table->classes, sum + TILT + table->members + table->classes, model);
    else
        *model->error = fmin(sum[DRAWN] / sum[WEIGHT], 1);
    return fit_pool(context, table, &options, model);
}

/* The step that two rounds point to (Varadhan and Roland 2008): from a over b to c, which gets it.
 * Returns how far one round went at most. */
static double leap(const error_model *model, const double *a, const double *b, double *c) {
    double first = 0;
    double second = 0;
    double most = 0;
    for (size_t i = 0; i < model->count; i++) {
        double bend = c[i] - 2 * b[i] + a[i];
        first += (b[i] - a[i]) * (b[i] - a[i]);
        second += bend * bend;
        most = fmax(most, fabs(c[i] - b[i]));
    }
    double step = second > 0 ? fmin(fmax(sqrt(first / second), 1), LEAP_MAX) : 1;
    size_t bounded = (size_t)(model->error - model->weights); /* e and shares are above 0 */
    for (size_t i = 0; i < model->count; i++) {
        double to = a[i] + 2 * step * (b[i] - a[i]) + step * step * (c[i] - 2 * b[i] + a[i]);
        c[i] = i < bounded ? to : fmin(fmax(to, 0.1 * c[i]), 1);
    }
    return most;
}

/* Expectation and maximisation from the model on, until nothing moves or e is too small to matter.
 * A leap that led to a worse place is taken back. */
static cst_status fit_errors(cst_context *context, const cst_logtable *table,
                             const error_model *model) {
    size_t bytes = model->count * sizeof *model->weights;
    double moved = INFINITY;
    double before = INFINITY;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sum, sums_of(model));
    CST_NEW(context, scope, double, points, 3 * model->count);
    double *const safe = points + 2 * model->count;
    for (int i = 0; i < ROUNDS && moved > STILL && *model->error >= LEAST_ERROR; i += 2) {
        double loss[2];
        memcpy(points, model->weights, bytes);
        CST_TRY(round_of(context, table, model, sum, &loss[0]));
        if (loss[0] > before + WORSE) {
            memcpy(model->weights, safe, bytes);
            before = INFINITY;
            continue;
        }
        memcpy(points + model->count, model->weights, bytes);
        CST_TRY(round_of(context, table, model, sum, &loss[1]));
        memcpy(safe, model->weights, bytes);
        before = loss[1];
        moved = leap(model, points, points + model->count, model->weights);
    }
    if (moved <= STILL)
        memcpy(model->weights, safe, bytes);
    return CST_OK;
}

/* ---- whether there are errors ---- */

typedef struct judgement {
    const cst_view *view;
    const cst_logtable *table;
    const int32_t *folds;
    const error_model *plain;
    const error_model *errors;
    double *loss; /* [2][rows of the table]: held-out losses without and with errors */
} judgement;

static cst_status judge_fold(cst_context *context, void *user, int64_t fold) {
    const judgement *job = user;
    const cst_logtable *whole = job->table;
    cst_logtable table = {0};
    cst_logtable held = {0};
    error_model own = {0};
    error_model plain = {0};
    cst_loglinear_options options = pool_options();
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_logtable, &table);
    CST_OWN(context, scope, cst_logtable, &held);
    CST_TRY(cst_logtable_split(context, whole, job->folds, (int32_t)fold, &table, &held));
    CST_TRY(model_take(context, scope, job->view, false, &plain));
    CST_TRY(model_take(context, scope, job->view, job->errors->shares != NULL, &own));
    CST_NEW(context, scope, double, loss, 2 * (size_t)held.rows);
    CST_NEW(context, scope, double, sum, sums_of(job->errors));
    model_copy(job->plain, &plain); /* e = 0: the pool itself */
    model_copy(job->errors, &own);
    options.tolerance = 1e-4;
    CST_TRY(fit_pool(context, &table, &options, &plain));
    CST_TRY(fit_errors(context, &table, &own));
    const error_model *models[2] = {&plain, &own};
    for (int m = 0; m < 2; m++) {
        const expectation at = {&held, models[m], loss + m * held.rows};
        CST_TRY(expect(context, &at, sum));
    }
    int64_t next = 0;
    for (int64_t i = 0; i < whole->rows; i++)
        if (job->folds[whole->position[i]] == fold) {
            job->loss[i] = loss[next];
            job->loss[whole->rows + i] = loss[held.rows + next++];
        }
    return CST_OK;
}

/* Judges a model of the errors by held-out losses, and takes it where it predicts better than one
 * judged before. */
static cst_status judge_errors(cst_context *context, int32_t fold_count, judgement *job,
                               const error_model **best, cst_noise *out) {
    int64_t rows = job->table->rows;
    double n = (double)rows;
    double sum[2] = {0, 0};
    double square = 0;
    CST_TRY(cst_parallel_long(context, fold_count, judge_fold, job));
    for (int64_t i = 0; i < 2 * rows; i++)
        sum[i >= rows] += job->loss[i];
    if (*best && sum[1] / n >= out->nll_errors)
        return CST_OK;
    double mean = (sum[0] - sum[1]) / n;
    for (int64_t i = 0; i < rows; i++) {
        double off = job->loss[i] - job->loss[rows + i] - mean;
        square += off * off;
    }
    *best = job->errors;
    out->nll_plain = sum[0] / n; /* weights have a mean of 1 */
    out->nll_errors = sum[1] / n;
    out->z = square > 0 ? mean / sqrt(square / (n - 1) / n) : 0;
    return CST_OK;
}

/* ---- suspects ---- */

typedef struct prediction {
    const cst_view *view;
    const int32_t *folds;      /* NULL: one model of all rows */
    const error_model *models; /* one, or [folds] */
    float *p;                  /* [rows][classes] */
} prediction;

static cst_status predict_block(cst_context *context, void *user, int64_t block) {
    const prediction *job = user;
    const cst_view *view = job->view;
    int64_t classes = view->classes;
    cst_rows rows;
    CST_SCOPE(scope);
    CST_TRY(cst_rows_open(context, scope, view, block, &rows));
    CST_NEW(context, scope, double, z, ((size_t)rows.count * (size_t)classes));
    CST_NEW(context, scope, double, logs, ((size_t)rows.count * (size_t)classes));
    for (int32_t k = 0; k < view->members; k++) {
        CST_TRY(cst_rows_read(context, &rows, k));
        cst_pass_logs(rows.data, rows.count * classes, SHARE, view->classes, logs);
        for (int64_t i = 0; i < rows.count; i++) {
            const error_model *model = &job->models[job->folds ? job->folds[rows.first + i] : 0];
            for (int64_t c = 0; c < classes; c++)
                z[i * classes + c] +=
                    model->weights[k] * logs[i * classes + c] + (k == 0 ? model->bias[c] : 0);
        }
    }
    for (int64_t i = 0; i < rows.count; i++) {
        (void)cst_pass_softmax(classes, z + i * classes);
        for (int64_t c = 0; c < classes; c++)
            job->p[(rows.first + i) * classes + c] = (float)z[i * classes + c];
    }
    return CST_OK;
}

static cst_status predict(cst_context *context, const prediction *job) {
    const cst_view *view = job->view;
    const cst_share filled =
        cst_share_rows(job->p, view->rows, (size_t)view->classes * sizeof *job->p);
    return cst_parallel_fill(context, cst_block_count(view->rows), predict_block,
                             (prediction *)(uintptr_t)job, &filled, 1);
}

typedef struct suspicion {
    double own; /* probability of the given label */
    int64_t row;
    int32_t likely;
    bool wrong;
} suspicion;

static int by_own(const void *a, const void *b) {
    const suspicion *x = a;
    const suspicion *y = b;
    if (x->own != y->own)
        return x->own < y->own ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

/* The true class of each row by the model of the errors. Returns the mean chance of an error. */
static double posterior(const cst_view *view, const error_model *model, const float *p,
                        suspicion *rows) {
    int32_t classes = view->classes;
    double errors = 0;
    for (int64_t i = 0; i < view->rows; i++) {
        const float *q = p + i * classes;
        int32_t given = cst_view_label(view, i);
        double total = 0;
        double most = -1;
        for (int32_t c = 0; c < classes; c++) {
            double joint = (double)q[c] * share_of(model, classes, c, given);
            total += joint;
            rows[i].likely = joint > most ? c : rows[i].likely;
            most = fmax(most, joint);
        }
        rows[i].row = i;
        rows[i].own = (double)q[given] * share_of(model, classes, given, given) / total;
        rows[i].wrong = rows[i].own < 0.5;
        errors += cst_view_weight(view, i) * (1 - rows[i].own);
    }
    return errors / cst_view_weight_sum(view);
}

/* Confident learning: a class is likely from its mean probability among its own rows on. */
static cst_status confident(cst_context *context, const cst_view *view, const float *p,
                            suspicion *rows) {
    int32_t classes = view->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, mean, classes);
    CST_NEW(context, scope, double, weight, classes);
    for (int64_t i = 0; i < view->rows; i++) {
        int32_t given = cst_view_label(view, i);
        mean[given] += cst_view_weight(view, i) * (double)p[i * classes + given];
        weight[given] += cst_view_weight(view, i);
    }
    for (int32_t c = 0; c < classes; c++)
        mean[c] = weight[c] > 0 ? mean[c] / weight[c] : INFINITY;
    for (int64_t i = 0; i < view->rows; i++) {
        const float *q = p + i * classes;
        int32_t given = cst_view_label(view, i);
        int32_t likely = -1;
        for (int32_t c = 0; c < classes; c++)
            if ((double)q[c] >= mean[c] && (likely < 0 || q[c] > q[likely]))
                likely = c;
        rows[i] = (suspicion){(double)q[given], i, likely < 0 ? given : likely,
                              likely >= 0 && likely != given};
    }
    return CST_OK;
}

/* A fold, or without folds a class, whose rows are all wrong keeps them. */
static cst_status keep_groups(cst_context *context, const cst_view *view, const int32_t *folds,
                              int32_t count, suspicion *rows) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, left, count);
    for (int64_t i = 0; i < view->rows; i++)
        if (!rows[i].wrong)
            left[folds ? folds[i] : cst_view_label(view, i)] = true;
    for (int64_t i = 0; i < view->rows; i++)
        rows[i].wrong = rows[i].wrong && left[folds ? folds[i] : cst_view_label(view, i)];
    return CST_OK;
}

/* Suspects in their order, at most `most` of them. rows: [view->rows], sorted here. */
static cst_status take_suspects(cst_context *context, const cst_view *view, const int32_t *folds,
                                int32_t fold_count, int64_t most, suspicion *rows, cst_noise *out) {
    CST_TRY(keep_groups(context, view, NULL, view->classes, rows));
    CST_TRY(keep_groups(context, view, folds, fold_count, rows));
    CST_TRY(cst_sort(context, rows, (size_t)view->rows, sizeof *rows, by_own));
    if (!out->wrong) {
        CST_TAKE(context, &out->scope, out->suspects, view->rows);
        CST_TAKE(context, &out->scope, out->own, view->rows);
        CST_TAKE(context, &out->scope, out->likely, view->rows);
        CST_TAKE(context, &out->scope, out->wrong, view->rows);
    }
    out->count = 0;
    memset(out->wrong, 0, (size_t)view->rows);
    for (int64_t i = 0; i < view->rows && out->count < most; i++) {
        if (!rows[i].wrong)
            continue;
        out->wrong[rows[i].row] = 1;
        out->suspects[out->count] = rows[i].row;
        out->own[out->count] = rows[i].own;
        out->likely[out->count++] = rows[i].likely;
    }
    return CST_OK;
}

/* ---- the two rules ---- */

static cst_status find_errors(cst_context *context, const cst_view *view, const int32_t *folds,
                              int32_t fold_count, const cst_logtable *table, cst_noise *out) {
    cst_loglinear_options options = pool_options();
    size_t cells = (size_t)view->rows * (size_t)view->classes;
    error_model plain = {0};
    error_model symmetric = {0};
    error_model full = {0};
    const error_model *best = NULL;
    CST_SCOPE(scope);
    CST_TRY(model_take(context, scope, view, false, &plain));
    CST_TRY(model_take(context, scope, view, false, &symmetric));
    if (!table->compact->every_class) /* only where other fits begin */
        options.tolerance = 1e-2;
    CST_TRY(fit_pool(context, table, &options, &plain));
    model_copy(&plain, &symmetric);
    *symmetric.error = FIRST_ERROR;
    CST_TRY(fit_errors(context, table, &symmetric));
    if (*symmetric.error < LEAST_ERROR)
        return CST_OK;
    CST_NEW(context, scope, double, losses, 2 * (size_t)table->rows);
    judgement job = {view, table, folds, &plain, &symmetric, losses};
    CST_TRY(judge_errors(context, fold_count, &job, &best, out));
    if (table->compact->every_class) {
        CST_TRY(model_take(context, scope, view, true, &full));
        model_copy(&symmetric, &full);
        update_shares(view->classes, NULL, &full);
        CST_TRY(fit_errors(context, table, &full));
        job.errors = &full;
        CST_TRY(judge_errors(context, fold_count, &job, &best, out));
    }
    if (out->z < SURE || out->nll_errors > (1 - GAIN) * out->nll_plain)
        return CST_OK;
    CST_NEW(context, scope, float, p, cells);
    CST_NEW(context, scope, suspicion, rows, view->rows);
    CST_TRY(predict(context, &(prediction){view, NULL, best, p}));
    out->rate = posterior(view, best, p, rows);
    if (out->rate < LEAST_RATE)
        return CST_OK;
    CST_TRY(take_suspects(context, view, folds, fold_count, view->rows, rows, out));
    double right = 0; /* of the suspects */
    for (int64_t i = 0; i < out->count; i++)
        right += out->own[i];
    out->alarm = out->count > 0 && right <= MOST_RIGHT * (double)out->count;
    if (!out->alarm) {
        out->count = 0;
        out->wrong = NULL;
    }
    return CST_OK;
}

typedef struct refit {
    const cst_logtable *table;
    const int32_t *folds;
    error_model *models; /* [folds] */
} refit;

static cst_status refit_fold(cst_context *context, void *user, int64_t fold) {
    const refit *job = user;
    cst_logtable table = {0};
    cst_logtable held = {0};
    cst_loglinear_options options = pool_options();
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_logtable, &table);
    CST_OWN(context, scope, cst_logtable, &held);
    CST_TRY(cst_logtable_split(context, job->table, job->folds, (int32_t)fold, &table, &held));
    return fit_pool(context, &table, &options, &job->models[fold]);
}

static cst_status find_unlikely(cst_context *context, const cst_view *view, const int32_t *folds,
                                int32_t fold_count, double share, cst_logtable *table,
                                cst_noise *out) {
    size_t cells = (size_t)view->rows * (size_t)view->classes;
    int64_t most = share > 0 ? (int64_t)(share * (double)view->rows) : view->rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, error_model, models, fold_count);
    CST_NEW(context, scope, float, p, cells);
    CST_NEW(context, scope, suspicion, rows, view->rows);
    if (!table->row_weights)
        CST_TAKE(context, &table->scope, table->row_weights, table->rows);
    for (int32_t f = 0; f < fold_count; f++)
        CST_TRY(model_take(context, scope, view, false, &models[f]));
    refit job = {table, folds, models};
    for (int round = 0; round < RELABELLINGS; round++) {
        for (int64_t i = 0; i < table->rows; i++) {
            int64_t row = table->position[i];
            bool left_out = out->wrong && out->wrong[row];
            table->row_weights[i] = left_out ? 0 : cst_view_weight(view, row);
        }
        CST_TRY(cst_parallel_long(context, fold_count, refit_fold, &job));
        CST_TRY(predict(context, &(prediction){view, folds, models, p}));
        CST_TRY(confident(context, view, p, rows));
        CST_TRY(take_suspects(context, view, folds, fold_count, most, rows, out));
    }
    out->rate = (double)out->count / (double)view->rows;
    out->alarm = out->count > 0;
    return CST_OK;
}

cst_status cst_noise_find(cst_context *context, const cst_view *view, const int32_t *folds,
                          int32_t fold_count, const cst_noise_options *options, cst_noise *out) {
    cst_logtable table = {0};
    cst_loglinear_options pool = pool_options();
    bool declared = options->rule == CST_LABELS_HUMAN;
    int64_t most = NUMBERS_MAX / view->members / view->classes;
    *out = (cst_noise){
        .rule = options->rule, .rate = NAN, .nll_plain = NAN, .nll_errors = NAN, .z = NAN};
    if (options->rule == CST_LABELS_OFF || view->rows < 2 || view->classes < 2 || fold_count < 2)
        return CST_OK;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_logtable, &table);
    most = most < ROWS_LEAST ? ROWS_LEAST : most;
    pool.compact.max_rows = declared ? pool.compact.max_rows : most;
    CST_TRY(cst_logtable_open(context, view, folds, fold_count, &pool.compact, &table));
    CST_TRY(cst_logtable_mix(context, &table));
    cst_mute(context, true); /* what a pool cannot do is said by the fit's own */
    cst_status status =
        declared ? find_unlikely(context, view, folds, fold_count, options->most, &table, out)
                 : find_errors(context, view, folds, fold_count, &table, out);
    cst_mute(context, false);
    return status;
}

void cst_noise_free(cst_context *context, cst_noise *noise) {
    (void)context;
    cst_scope_free(&noise->scope);
    *noise = (cst_noise){0};
}
