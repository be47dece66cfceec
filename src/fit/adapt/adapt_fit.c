/* One fit of an adaptation, by Newton's method with halved steps on the strictly convex penalised
 * likelihood, and the choice among candidates of the prior. docs/json.md#adapt. */
#include "fit/adapt/adapt.h"

#include "core/la.h"

#include <math.h>
#include <string.h>

enum { STEPS = 60, BALANCED_STEPS = 400, HALVINGS = 40, CHUNK = 64 };

/* A Newton step that gains less than this, in nats over all rows, is the last. */
static const double ENOUGH = 1e-13;

typedef struct newton {
    const cst_adapt_table *table;
    const cst_adapt_prior *prior;
    const int32_t *folds;
    int32_t fold;
    size_t size;      /* parameters that move: columns, and classes where there are biases */
    double *gradient; /* [size] */
    double *hessian;  /* [size][size] */
    double *step;     /* [size] */
    double *next;     /* [columns + classes] */
    double *centered; /* [CHUNK * classes][columns]: sqrt(weight p) (x - mean x) */
    double *shares;   /* [CHUNK][classes]: sqrt(weight) p */
    double *block;    /* [columns][columns], then [classes][classes] */
    double *scores;   /* [classes] */
    double *mean;     /* [columns] */
    double strength;  /* of the balance */
    double *means;    /* [classes]: mean probabilities of rows without labels */
    double *slopes;   /* [classes][size]: of these by the parameters */
} newton;

static bool is_in(const newton *n, int64_t row) {
    return !n->folds || n->folds[row] != n->fold;
}

static const float *row_of(const cst_adapt_table *table, int64_t row) {
    return table->x + (size_t)row * (size_t)table->classes * (size_t)table->columns;
}

/* Scores of a row become its probabilities; returns -log of the label's. */
static double row_loss(const cst_adapt_table *table, const double *theta, int64_t row, double *p) {
    size_t columns = (size_t)table->columns;
    const float *x = row_of(table, row);
    double largest = -HUGE_VAL;
    double sum = 0;
    for (int32_t c = 0; c < table->classes; c++, x += columns) {
        double score = theta[columns + (size_t)c];
        for (size_t j = 0; j < columns; j++)
            score += theta[j] * (double)x[j];
        p[c] = score;
        largest = score > largest ? score : largest;
    }
    double own = p[table->labels[row]] - largest;
    for (int32_t c = 0; c < table->classes; c++) {
        p[c] = exp(p[c] - largest);
        sum += p[c];
    }
    for (int32_t c = 0; c < table->classes; c++)
        p[c] /= sum;
    return log(sum) - own;
}

static double loss_of(const cst_adapt_table *table, const double *theta, int64_t row,
                      double *scratch) {
    return row_loss(table, theta, row, scratch);
}

static double precision_of(const newton *n, size_t j) {
    return j < (size_t)n->table->columns ? n->prior->precision : n->prior->bias_precision;
}

/* Of rows without labels; fills n->means. */
static double imbalance(const newton *n, const double *theta) {
    const cst_adapt_balance *balance = n->prior->balance;
    const cst_adapt_table *table = balance->table;
    double sum = 0;
    memset(n->means, 0, (size_t)table->classes * sizeof *n->means);
    for (int64_t i = 0; i < table->rows; i++) {
        (void)row_loss(table, theta, i, n->scores);
        for (int32_t c = 0; c < table->classes; c++)
            n->means[c] += n->scores[c] / (double)table->rows;
    }
    for (int32_t c = 0; c < table->classes; c++) {
        n->means[c] = n->means[c] > 1e-300 ? n->means[c] : 1e-300;
        sum += balance->shares[c] * log(balance->shares[c] / n->means[c]);
    }
    return n->strength * sum;
}

static double objective(const newton *n, const double *theta) {
    double sum = 0;
    for (int64_t i = 0; i < n->table->rows; i++)
        if (is_in(n, i))
            sum += n->table->weights[i] * row_loss(n->table, theta, i, n->scores);
    for (size_t j = 0; j < n->size; j++) {
        double off = theta[j] - n->prior->center[j];
        sum += 0.5 * precision_of(n, j) * off * off;
    }
    return n->prior->balance ? sum + imbalance(n, theta) : sum;
}

/* One row's part of the gradient, of the products of weights with biases, and the place in the
 * chunk of what the other products are made of. */
static void add_row(const newton *n, int64_t row, int64_t place) {
    const cst_adapt_table *table = n->table;
    size_t columns = (size_t)table->columns;
    size_t classes = (size_t)table->classes;
    const float *x = row_of(table, row);
    const double *p = n->scores;
    double weight = table->weights[row];
    bool biases = n->size > columns;
    memset(n->mean, 0, columns * sizeof *n->mean);
    for (size_t c = 0; c < classes; c++)
        for (size_t j = 0; j < columns; j++)
            n->mean[j] += p[c] * (double)x[c * columns + j];
    const float *own = x + (size_t)table->labels[row] * columns;
    for (size_t j = 0; j < columns; j++)
        n->gradient[j] += weight * (n->mean[j] - (double)own[j]);
    for (size_t c = 0; c < classes; c++) {
        double *to = n->centered + ((size_t)place * classes + c) * columns;
        double root = sqrt(weight * p[c]);
        for (size_t j = 0; j < columns; j++)
            to[j] = root * ((double)x[c * columns + j] - n->mean[j]);
        if (!biases)
            continue;
        double *line = n->hessian + (columns + c) * n->size;
        for (size_t j = 0; j < columns; j++)
            line[j] += root * to[j];
        line[columns + c] += weight * p[c];
        n->gradient[columns + c] += weight * p[c];
        n->shares[(size_t)place * classes + c] = sqrt(weight) * p[c];
    }
    if (biases)
        n->gradient[columns + (size_t)table->labels[row]] -= weight;
}

/* Adds the lower triangle of scale * A'A, A [rows][width], from place `at` on. */
static cst_status add_products(cst_context *context, const newton *n, const double *a, int64_t rows,
                               size_t width, double scale, size_t at) {
    memset(n->block, 0, width * width * sizeof *n->block);
    CST_TRY(cst_syrk_f64(context, (int64_t)width, rows, scale, a, (int64_t)width, 0, n->block,
                         (int64_t)width));
    for (size_t i = 0; i < width; i++)
        for (size_t j = 0; j <= i; j++)
            n->hessian[(at + i) * n->size + at + j] += n->block[i * width + j];
    return CST_OK;
}

/* One row's part of the slopes of the mean probabilities. */
static void add_slopes(const newton *n, int64_t row) {
    const cst_adapt_table *table = n->prior->balance->table;
    size_t columns = (size_t)table->columns;
    size_t classes = (size_t)table->classes;
    const float *x = row_of(table, row);
    const double *p = n->scores;
    double weight = 1 / (double)table->rows;
    memset(n->mean, 0, columns * sizeof *n->mean);
    for (size_t c = 0; c < classes; c++)
        for (size_t j = 0; j < columns; j++)
            n->mean[j] += p[c] * (double)x[c * columns + j];
    for (size_t c = 0; c < classes; c++) {
        double *to = n->slopes + c * n->size;
        for (size_t j = 0; j < columns; j++)
            to[j] += weight * p[c] * ((double)x[c * columns + j] - n->mean[j]);
        for (size_t d = columns; d < n->size; d++)
            to[d] += weight * p[c] * ((d - columns == c) - p[d - columns]);
    }
}

/* The balance's gradient, and of its curvature the part that is never negative. */
static cst_status differentiate_balance(cst_context *context, const newton *n,
                                        const double *theta) {
    const cst_adapt_balance *balance = n->prior->balance;
    memset(n->slopes, 0, (size_t)balance->table->classes * n->size * sizeof *n->slopes);
    (void)imbalance(n, theta); /* the means */
    for (int64_t i = 0; i < balance->table->rows; i++) {
        (void)row_loss(balance->table, theta, i, n->scores);
        add_slopes(n, i);
    }
    for (size_t c = 0; c < (size_t)balance->table->classes; c++) {
        double *slope = n->slopes + c * n->size;
        double root = sqrt(n->strength * balance->shares[c]);
        for (size_t j = 0; j < n->size; j++) {
            slope[j] *= root / n->means[c];
            n->gradient[j] -= root * slope[j];
        }
    }
    return add_products(context, n, n->slopes, balance->table->classes, n->size, 1, 0);
}

/* Gradient and Hessian at theta. */
static cst_status differentiate(cst_context *context, const newton *n, const double *theta) {
    const cst_adapt_table *table = n->table;
    size_t columns = (size_t)table->columns;
    size_t classes = (size_t)table->classes;
    memset(n->gradient, 0, n->size * sizeof *n->gradient);
    memset(n->hessian, 0, n->size * n->size * sizeof *n->hessian);
    for (int64_t row = 0; row < table->rows;) {
        int64_t count = 0;
        for (; row < table->rows && count < CHUNK; row++)
            if (is_in(n, row)) {
                (void)row_loss(table, theta, row, n->scores);
                add_row(n, row, count++);
            }
        if (count == 0)
            break;
        CST_TRY(add_products(context, n, n->centered, count * table->classes, columns, 1, 0));
        if (n->size > columns)
            CST_TRY(add_products(context, n, n->shares, count, classes, -1, columns));
    }
    if (n->prior->balance)
        CST_TRY(differentiate_balance(context, n, theta));
    for (size_t j = 0; j < n->size; j++) {
        n->gradient[j] += precision_of(n, j) * (theta[j] - n->prior->center[j]);
        n->hessian[j * n->size + j] += precision_of(n, j);
    }
    return CST_OK;
}

/* Moves theta; *done where it is the minimum. */
static cst_status advance(cst_context *context, const newton *n, double *theta, double *value,
                          bool *done) {
    size_t all = (size_t)n->table->columns + (size_t)n->table->classes;
    CST_TRY(differentiate(context, n, theta));
    CST_TRY(cst_cholesky(context, (int64_t)n->size, n->hessian));
    double gain = 0;
    memcpy(n->step, n->gradient, n->size * sizeof *n->step);
    cst_cholesky_solve((int64_t)n->size, n->hessian, n->step);
    for (size_t j = 0; j < n->size; j++)
        gain += n->step[j] * n->gradient[j];
    double size = 1;
    *done = gain < ENOUGH;
    for (int halving = 0; halving < HALVINGS; halving++, size /= 2) {
        memcpy(n->next, theta, all * sizeof *theta);
        for (size_t j = 0; j < n->size; j++)
            n->next[j] -= size * n->step[j];
        double reached = objective(n, n->next);
        if (reached <= *value - 1e-4 * size * gain || *done) {
            *value = reached;
            memcpy(theta, n->next, all * sizeof *theta);
            return CST_OK;
        }
    }
    *done = true; /* rounding is all that is left */
    return CST_OK;
}

/* After the last step the Hessian is that of its start, which is the same to rounding. */
static double log_evidence(const newton *n, double value) {
    double prior = 0;
    for (size_t j = 0; j < n->size; j++)
        prior += log(precision_of(n, j));
    return -value + 0.5 * (prior - cst_cholesky_logdet((int64_t)n->size, n->hessian));
}

static cst_status take(cst_context *context, cst_scope *scope, newton *n) {
    size_t columns = (size_t)n->table->columns;
    size_t classes = (size_t)n->table->classes;
    size_t width = columns > classes || n->size == columns ? columns : classes;
    bool balanced = n->prior->balance != NULL;
    width = balanced ? n->size : width;
    size_t chunk = n->table->rows < CHUNK ? (size_t)n->table->rows : CHUNK;
    CST_TAKE(context, scope, n->gradient, n->size);
    CST_TAKE(context, scope, n->hessian, n->size * n->size);
    CST_TAKE(context, scope, n->step, n->size);
    CST_TAKE(context, scope, n->next, columns + classes);
    CST_TAKE(context, scope, n->centered, chunk * classes * columns);
    CST_TAKE(context, scope, n->shares, chunk * classes);
    CST_TAKE(context, scope, n->block, width * width);
    CST_TAKE(context, scope, n->scores, classes);
    CST_TAKE(context, scope, n->mean, columns);
    CST_TAKE(context, scope, n->means, balanced ? classes : 0);
    CST_TAKE(context, scope, n->slopes, balanced ? classes * n->size : 0);
    return CST_OK;
}

cst_status cst_adapt_fit(cst_context *context, const cst_adapt_table *table, const int32_t *folds,
                         int32_t fold, const cst_adapt_prior *prior, double *theta,
                         double *evidence) {
    newton n = {.table = table, .prior = prior, .folds = folds, .fold = fold};
    n.size = (size_t)table->columns + (prior->bias_precision > 0 ? (size_t)table->classes : 0);
    for (int64_t i = 0; i < table->rows; i++)
        n.strength += is_in(&n, i) ? table->weights[i] : 0;
    int most = prior->balance ? BALANCED_STEPS : STEPS;
    CST_SCOPE(scope);
    CST_TRY(take(context, scope, &n));
    double value = objective(&n, theta);
    bool done = false;
    for (int step = 0; !done && step < most; step++)
        CST_TRY(advance(context, &n, theta, &value, &done));
    if (evidence)
        *evidence = log_evidence(&n, value);
    return CST_OK;
}

/* ---- the choice ---- */

static const double PRECISION[CST_ADAPT_PRECISIONS] = {3, 10, 30, 100, 300, 1000, 3000, 10000};
static const double BIAS_SHARE = 0.1;   /* of the weights' precision */
static const double PRIOR_CHANGE = 0.1; /* that the stack should change, before any row */

typedef struct choose_job {
    const cst_adapt_table *table;
    const int32_t *folds;
    cst_adapt_choice *choice;
    const cst_adapt_balance *balance; /* of the present fits; or NULL */
    double *centers;                  /* [2][parameters] */
    double *theta;                    /* [candidates][parameters]: fits to all rows */
    double *losses;                   /* [candidates][rows] */
    double *without; /* [candidates][folds][parameters]: fits without a fold; NULL: not kept */
} choose_job;

static size_t parameters_of(const cst_adapt_table *table) {
    return (size_t)table->columns + (size_t)table->classes;
}

/* ---- folds ---- */

typedef struct placed {
    int64_t key; /* class, or first row of the group */
    int64_t row;
} placed;

CST_BY(by_key, placed, CST_UP(key), CST_UP(row), 0)

CST_BY(by_group, placed, CST_UP(key), 0, 0)

/* Rows of a class one after another, dealt out; or groups, in the order of their numbers. */
static cst_status deal(cst_context *context, const cst_adapt_table *table, const int64_t *groups,
                       int32_t *folds, int32_t *count) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, placed, order, table->rows);
    for (int64_t i = 0; i < table->rows; i++)
        order[i] = (placed){groups ? groups[i] : table->labels[i], i};
    CST_TRY(cst_sort(context, order, (size_t)table->rows, sizeof *order, by_key));
    int64_t units = groups ? 0 : table->rows;
    for (int64_t i = 0; groups && i < table->rows; i++)
        units += i == 0 || by_group(&order[i], &order[i - 1]) != 0;
    *count = units <= CST_ADAPT_LEAVE_ONE_OUT ? (int32_t)units : CST_ADAPT_FOLDS;
    int64_t unit = -1;
    for (int64_t i = 0; i < table->rows; i++) {
        unit += !groups || i == 0 || by_group(&order[i], &order[i - 1]) != 0;
        folds[order[i].row] = (int32_t)(unit % *count);
    }
    if (*count < 2)
        return cst_fail(context, CST_ERROR_INPUT,
                        "the labelled rows are of one group, so nothing can be cross-validated");
    return CST_OK;
}

/* ---- fits ---- */

/* Task: one candidate without one fold, or, after those, to all rows. */
static cst_status fit_one(cst_context *worker, void *user, int64_t task) {
    const choose_job *job = user;
    const cst_adapt_table *table = job->table;
    size_t parameters = parameters_of(table);
    int32_t each = job->choice->folds + 1;
    size_t at = (size_t)(task / each);
    int32_t fold = (int32_t)(task % each);
    cst_adapt_candidate *candidate = &job->choice->candidate[at];
    const double *center = job->centers + (candidate->halfway ? parameters : 0);
    const cst_adapt_prior prior = {center, candidate->precision,
                                   job->choice->biases ? BIAS_SHARE * candidate->precision : 0,
                                   job->balance};
    if (fold == job->choice->folds) {
        double *theta = job->theta + at * parameters;
        memcpy(theta, center, parameters * sizeof *theta);
        return cst_adapt_fit(worker, table, NULL, 0, &prior, theta,
                             job->balance ? NULL : &candidate->evidence);
    }
    CST_SCOPE(scope);
    CST_NEW(worker, scope, double, theta, parameters);
    CST_NEW(worker, scope, double, scratch, table->classes);
    memcpy(theta, center, parameters * sizeof *theta);
    CST_TRY(cst_adapt_fit(worker, table, job->folds, fold, &prior, theta, NULL));
    if (job->without)
        memcpy(job->without + (at * (size_t)job->choice->folds + (size_t)fold) * parameters, theta,
               parameters * sizeof *theta);
    for (int64_t i = 0; i < table->rows; i++)
        if (job->folds[i] == fold)
            job->losses[at * (size_t)table->rows + (size_t)i] =
                table->weights[i] * loss_of(table, theta, i, scratch);
    return CST_OK;
}

static cst_status mean_loss(cst_context *context, const cst_adapt_table *table, const double *theta,
                            double *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, scratch, table->classes);
    double sum = 0;
    for (int64_t i = 0; i < table->rows; i++)
        sum += table->weights[i] * loss_of(table, theta, i, scratch);
    *out = sum / (double)table->rows;
    return CST_OK;
}

/* ---- the average of the candidates, and how far to go there ---- */

static void share_out(const choose_job *job) {
    cst_adapt_choice *choice = job->choice;
    double rows = (double)job->table->rows;
    double least = HUGE_VAL;
    double total = 0;
    for (size_t c = 0; c < CST_ADAPT_CANDIDATES; c++) {
        cst_adapt_candidate *candidate = &choice->candidate[c];
        double sum = 0;
        for (int64_t i = 0; i < job->table->rows; i++)
            sum += job->losses[c * (size_t)job->table->rows + (size_t)i];
        candidate->loss = sum / rows;
        least = fmin(least, candidate->loss);
    }
    choice->loss = 0;
    for (size_t c = 0; c < CST_ADAPT_CANDIDATES; c++) {
        cst_adapt_candidate *candidate = &choice->candidate[c];
        candidate->share = exp(-rows * (candidate->loss - least));
        total += candidate->share;
    }
    for (size_t c = 0; c < CST_ADAPT_CANDIDATES; c++) {
        choice->candidate[c].share /= total;
        choice->loss += choice->candidate[c].share * choice->candidate[c].loss;
    }
}

/* By the labels alone. */
static void judge(const choose_job *job) {
    cst_adapt_choice *choice = job->choice;
    double most = -HUGE_VAL;
    double ratio = 0;
    for (size_t c = 0; c < CST_ADAPT_CANDIDATES; c++) {
        choice->candidate[c].evidence += (double)job->table->rows * choice->stack_loss;
        most = fmax(most, choice->candidate[c].evidence);
    }
    for (size_t c = 0; c < CST_ADAPT_CANDIDATES; c++)
        ratio += exp(choice->candidate[c].evidence - most) / CST_ADAPT_CANDIDATES;
    choice->evidence = most + log(ratio);
    choice->step = 1 / (1 + exp(-choice->evidence) * (1 - PRIOR_CHANGE) / PRIOR_CHANGE);
}

/* The fits again with rows without labels, which stay where the cross-validated loss is lower. */
static cst_status use_unlabeled(cst_context *context, choose_job *job,
                                const cst_adapt_balance *balance) {
    cst_adapt_choice *choice = job->choice;
    const cst_adapt_choice before = *choice;
    size_t parameters = parameters_of(job->table);
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, theta, (CST_ADAPT_CANDIDATES * parameters));
    choose_job with = *job;
    with.balance = balance;
    with.theta = theta;
    if (job->without)
        CST_TAKE(context, scope, with.without,
                 CST_ADAPT_CANDIDATES * (size_t)choice->folds * parameters);
    CST_TRY(cst_parallel_for(context, (int64_t)CST_ADAPT_CANDIDATES * (choice->folds + 1), fit_one,
                             &with));
    share_out(&with);
    choice->balanced = choice->loss < before.loss;
    if (!choice->balanced) {
        *choice = before;
        return CST_OK;
    }
    memcpy(job->theta, theta, CST_ADAPT_CANDIDATES * parameters * sizeof *theta);
    if (job->without)
        memcpy(job->without, with.without,
               CST_ADAPT_CANDIDATES * (size_t)choice->folds * parameters * sizeof *theta);
    return CST_OK;
}

/* From the stack to the average of fits [candidates], `stride` apart. */
static void go(const choose_job *job, const double *fits, size_t stride, double *theta) {
    const cst_adapt_choice *choice = job->choice;
    for (size_t j = 0; j < parameters_of(job->table); j++) {
        double to = 0;
        for (size_t c = 0; c < CST_ADAPT_CANDIDATES; c++)
            to += choice->candidate[c].share * fits[c * stride + j];
        theta[j] = job->centers[j] + choice->step * (to - job->centers[j]);
    }
}

/* Each row by the fits without its fold, whatever is decided for. */
static cst_status hold_rows(cst_context *context, const choose_job *job, float *held) {
    const cst_adapt_table *table = job->table;
    size_t parameters = parameters_of(table);
    size_t classes = (size_t)table->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, theta, parameters);
    CST_NEW(context, scope, double, p, classes);
    for (int32_t f = 0; f < job->choice->folds; f++) {
        go(job, job->without + (size_t)f * parameters, (size_t)job->choice->folds * parameters,
           theta);
        for (int64_t i = 0; i < table->rows; i++) {
            if (job->folds[i] != f)
                continue;
            (void)row_loss(table, theta, i, p);
            for (size_t c = 0; c < classes; c++)
                held[(size_t)i * classes + c] = (float)p[c];
        }
    }
    return CST_OK;
}

/* Refuses a change that cross-validation or the evidence do not ask for, and one that does not help
 * on the rows themselves. */
static cst_status move(cst_context *context, const choose_job *job) {
    cst_adapt_choice *choice = job->choice;
    size_t parameters = parameters_of(job->table);
    go(job, job->theta, parameters, choice->theta);
    cst_status status = mean_loss(context, job->table, choice->theta, &choice->fitted);
    choice->adapted = choice->loss < choice->stack_loss && choice->evidence > 0 &&
                      choice->fitted < choice->stack_loss;
    if (choice->adapted || status != CST_OK)
        return status;
    memcpy(choice->theta, job->centers, parameters * sizeof *choice->theta);
    choice->fitted = choice->stack_loss;
    choice->step = 0;
    return CST_OK;
}

cst_status cst_adapt_choose(cst_context *context, cst_scope *made, const cst_adapt_table *table,
                            const int64_t *groups, const cst_adapt_balance *balance, bool hold,
                            cst_adapt_choice *out) {
    size_t parameters = parameters_of(table);
    *out = (cst_adapt_choice){.biases = table->classes <= CST_ADAPT_BIASES_MAX};
    choose_job job = {.table = table, .choice = out};
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, folds, table->rows);
    CST_TAKE(context, scope, job.centers, 2 * parameters);
    CST_TAKE(context, scope, job.theta, CST_ADAPT_CANDIDATES * parameters);
    CST_TAKE(context, scope, job.losses, CST_ADAPT_CANDIDATES * table->rows);
    CST_TAKE(context, made, out->theta, parameters);
    job.folds = folds;
    job.centers[0] = 1;
    job.centers[parameters] = 0.5;
    for (int32_t k = 1; k < table->columns; k++)
        job.centers[parameters + (size_t)k] = 0.5 / (table->columns - 1);
    for (size_t c = 0; c < CST_ADAPT_CANDIDATES; c++) {
        out->candidate[c].halfway = c >= CST_ADAPT_PRECISIONS;
        out->candidate[c].precision = PRECISION[c % CST_ADAPT_PRECISIONS];
    }
    CST_TRY(mean_loss(context, table, job.centers, &out->stack_loss));
    CST_TRY(deal(context, table, groups, folds, &out->folds));
    if (hold) {
        CST_TAKE(context, made, out->held, (size_t)table->rows * (size_t)table->classes);
        CST_TAKE(context, scope, job.without,
                 CST_ADAPT_CANDIDATES * (size_t)out->folds * parameters);
    }
    CST_TRY(
        cst_parallel_for(context, (int64_t)CST_ADAPT_CANDIDATES * (out->folds + 1), fit_one, &job));
    share_out(&job);
    judge(&job);
    out->labels_loss = out->loss;
    if (balance)
        CST_TRY(use_unlabeled(context, &job, balance));
    if (hold)
        CST_TRY(hold_rows(context, &job, out->held));
    return move(context, &job);
}
