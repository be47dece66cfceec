/*
 * Every candidate is fitted without each fold and to all rows; the average of those fits, by their
 * cross-validated losses, is where the stack moves to. See the header.
 */
#include "fit/adapt/adapt_choose.h"

#include <math.h>
#include <string.h>

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
} choose_job;

static size_t parameters_of(const cst_adapt_table *table) {
    return (size_t)table->columns + (size_t)table->classes;
}

/* ---- folds ---- */

typedef struct placed {
    int64_t key; /* class, or first row of the group */
    int64_t row;
} placed;

static int by_key(const void *a, const void *b) {
    const placed *x = a;
    const placed *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static int by_group(const void *a, const void *b) {
    const placed *x = a;
    const placed *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

/* Rows of a class one after another, dealt out; or groups, in the order of their numbers. */
static cst_status deal(cst_context *context, const cst_adapt_table *table, const int64_t *groups,
                       int32_t *folds, int32_t *count) {
    CST_SCOPE(scope);
    placed *order;
    CST_TAKE(context, scope, order, table->rows);
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
    double *theta;
    CST_TAKE(worker, scope, theta, parameters);
    double *scratch;
    CST_TAKE(worker, scope, scratch, table->classes);
    memcpy(theta, center, parameters * sizeof *theta);
    CST_TRY(cst_adapt_fit(worker, table, job->folds, fold, &prior, theta, NULL));
    for (int64_t i = 0; i < table->rows; i++)
        if (job->folds[i] == fold)
            job->losses[at * (size_t)table->rows + (size_t)i] =
                table->weights[i] * cst_adapt_loss(table, theta, i, scratch);
    return CST_OK;
}

static cst_status mean_loss(cst_context *context, const cst_adapt_table *table, const double *theta,
                            double *out) {
    CST_SCOPE(scope);
    double *scratch;
    CST_TAKE(context, scope, scratch, table->classes);
    double sum = 0;
    for (int64_t i = 0; i < table->rows; i++)
        sum += table->weights[i] * cst_adapt_loss(table, theta, i, scratch);
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
    double *theta;
    CST_SCOPE(scope);
    CST_TAKE(context, scope, theta, CST_ADAPT_CANDIDATES * parameters);
    choose_job with = *job;
    with.balance = balance;
    with.theta = theta;
    CST_TRY(cst_parallel_for(context, (int64_t)CST_ADAPT_CANDIDATES * (choice->folds + 1), fit_one,
                             &with));
    share_out(&with);
    choice->balanced = choice->loss < before.loss;
    if (choice->balanced)
        memcpy(job->theta, theta, CST_ADAPT_CANDIDATES * parameters * sizeof *theta);
    else
        *choice = before;
    return CST_OK;
}

/* Refuses a change that cross-validation or the evidence do not ask for, and one that does not help
 * on the rows themselves. */
static cst_status move(cst_context *context, const choose_job *job) {
    cst_adapt_choice *choice = job->choice;
    size_t parameters = parameters_of(job->table);
    for (size_t j = 0; j < parameters; j++) {
        double to = 0;
        for (size_t c = 0; c < CST_ADAPT_CANDIDATES; c++)
            to += choice->candidate[c].share * job->theta[c * parameters + j];
        choice->theta[j] = job->centers[j] + choice->step * (to - job->centers[j]);
    }
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
                            const int64_t *groups, const cst_adapt_balance *balance,
                            cst_adapt_choice *out) {
    size_t parameters = parameters_of(table);
    int32_t *folds;
    *out = (cst_adapt_choice){.biases = table->classes <= CST_ADAPT_BIASES_MAX};
    choose_job job = {.table = table, .choice = out};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, folds, table->rows);
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
    CST_TRY(
        cst_parallel_for(context, (int64_t)CST_ADAPT_CANDIDATES * (out->folds + 1), fit_one, &job));
    share_out(&job);
    judge(&job);
    out->labels_loss = out->loss;
    if (balance)
        CST_TRY(use_unlabeled(context, &job, balance));
    return move(context, &job);
}
