/* The cascade of a fit: pools of the first members to run, and where rows may stop, from
 * predictions of rows by pools and stacks that have not seen them. docs/cascades.md. */
#include "method/cascade/cascade.h"
#include "fit/family.h"
#include "method/select/within.h"
#include "model/cascade.h"
#include "model/predict.h"

#include <math.h>
#include <string.h>

CST_OWNED(cst_logtable)
CST_OWNED(cst_loglinear)
CST_OWNED(cst_path)

/* Orders by gain over a power of the cost. */
static const double POWERS[] = {0, 0.5, 1};
enum { ORDERS = sizeof POWERS / sizeof *POWERS };

/* One order of the members, what it was tried with and what came of it. */
typedef struct trial {
    cst_cascade_plan *plan; /* [fold_count + 1]: without each fold, and of all rows */
    cst_cascade_rows rows;
    cst_cascade_found found;
    double *threshold; /* [stages] */
    double *sure;      /* [stages][rows] of `rows`, the same below */
    double *loss;
    double *excess; /* NLL less that of the stack */
    uint8_t *failed;
} trial;

typedef struct cascade_fit {
    const cst_fit_job *job;
    cst_view view; /* kept members */
    const int32_t *folds;
    int32_t fold_count;
    cst_logtable table;
    cst_loglinear_options pool;
    int32_t stages;
    int32_t size[CST_CASCADE_STAGES];
    double *cost; /* [members]: shares of the cost of all */
    int32_t cost_of;
    float *held;      /* [rows][classes]: stacks without the row's fold */
    int32_t *decided; /* [rows]: what they decide for */
    trial *at;        /* the order at hand */
    const int32_t *order;
} cascade_fit;

/* ---- before ---- */

/* Every size up to eight, then ever larger steps. */
static void set_sizes(cascade_fit *f) {
    int32_t most = f->view.members - 1;
    for (int32_t s = 0; s < CST_CASCADE_STAGES && s < most; s++)
        f->size[f->stages++] = s + 1;
    if (most <= CST_CASCADE_STAGES)
        return;
    int32_t half = CST_CASCADE_STAGES / 2;
    for (int32_t s = half; s < CST_CASCADE_STAGES; s++) {
        double share = (double)(s + 1 - half) / half;
        f->size[s] = half + (int32_t)((most - half) * pow(share, 2));
        f->size[s] = f->size[s] > f->size[s - 1] ? f->size[s] : f->size[s - 1] + 1;
    }
}

static void set_costs(const cst_costs *costs, const int32_t *kept, cascade_fit *f) {
    static const cst_cost kinds[] = {CST_COST_FLOPS, CST_COST_LATENCY};
    double sum = 0;
    f->cost_of = CST_COST_COUNT;
    for (int32_t k = 0; k < f->view.members; k++)
        f->cost[k] = 1.0 / f->view.members;
    for (size_t c = 0; c < 2 && f->cost_of == CST_COST_COUNT; c++, sum = 0) {
        const double *of = costs->of[kinds[c]];
        for (int32_t k = 0; k < f->view.members; k++)
            sum += of ? of[kept[k]] : NAN;
        if (!of || !(sum > 0))
            continue;
        f->cost_of = (int32_t)kinds[c];
        for (int32_t k = 0; k < f->view.members; k++)
            f->cost[k] = of[kept[k]] / sum;
    }
}

/* What stacks of the kept members, fitted without each row's fold, predict of it. */
static cst_status hold_out(cst_context *context, const cst_costs *costs, cascade_fit *f) {
    cst_settings fixed = f->job->settings;
    fixed.measure = CST_MEASURE_NONE;
    fixed.select = fixed.drop = fixed.front = false;
    fixed.keep_max = 0;
    fixed.keep_fraction = 0;
    fixed.limits = (cst_limits){0};
    cst_costs kept;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, values, CST_COST_COUNT *(size_t)f->view.members);
    cst_costs_part(costs, f->job->stages.kept, f->view.members, values, &kept);
    cst_run run =
        cst_run_of(f->job->facts.family, &f->view, f->folds, f->fold_count, &fixed, &kept);
    const cst_fold_result result = {f->held, (size_t)f->view.classes};
    return cst_stages_nested(context, &run, NULL, &result, 1);
}

/* ---- pools ---- */

static cst_status fit_pools(cst_context *context, const cascade_fit *f, const cst_logtable *table,
                            cst_cascade_plan *plan) {
    size_t members = (size_t)f->view.members;
    size_t classes = (size_t)f->view.classes;
    memcpy(plan->order, f->order, members * sizeof *plan->order);
    memcpy(plan->cost, f->cost, members * sizeof *plan->cost);
    memcpy(plan->mix, table->mix, members * sizeof *plan->mix);
    for (size_t s = 0; s < (size_t)plan->stages; s++) {
        cst_loglinear fit = {0};
        CST_SCOPE(scope);
        CST_OWN(context, scope, cst_loglinear, &fit);
        plan->size[s] = f->size[s];
        CST_TRY(cst_loglinear_fit(context, table, f->order, f->size[s], &f->pool, NULL, &fit));
        memcpy(plan->weights + s * members, fit.weights,
               (size_t)f->size[s] * sizeof *plan->weights);
        memcpy(plan->bias + s * classes, fit.bias, classes * sizeof *plan->bias);
    }
    return CST_OK;
}

static cst_status fit_fold(cst_context *context, void *user, int64_t fold) {
    const cascade_fit *f = user;
    cst_logtable in = {0};
    cst_logtable held = {0};
    if (fold == f->fold_count)
        return fit_pools(context, f, &f->table, &f->at->plan[fold]);
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_logtable, &in);
    CST_OWN(context, scope, cst_logtable, &held);
    CST_TRY(cst_logtable_split(context, &f->table, f->folds, (int32_t)fold, &in, &held));
    return fit_pools(context, f, &in, &f->at->plan[fold]);
}

/* ---- rows by the pools without their fold ---- */

static double least(double p) {
    return log(fmax(p, 1e-15));
}

static void judge_row(const cascade_fit *f, int64_t row, int32_t stage, const double *pool,
                      float *rounded) {
    trial *t = f->at;
    int32_t classes = f->view.classes;
    int32_t decided = 0;
    int32_t label = cst_view_label(&f->view, row);
    const float *stack = f->held + row * classes;
    int64_t at = stage * f->view.rows + row;
    for (int32_t c = 0; c < classes; c++) {
        rounded[c] = (float)pool[c];
        t->loss[at] += (double)stack[c] * (least((double)stack[c]) - least(pool[c]));
    }
    cst_decision_apply(f->job->stages.fit.model->decision, rounded, 1, classes, &decided);
    t->excess[at] = least((double)stack[label]) - least(pool[label]);
    t->failed[at] =
        decided != f->decided[row] &&
        (f->job->settings.cascade.risk == CST_CASCADE_DISAGREEMENT || f->decided[row] == label);
}

static cst_status judge_block(cst_context *context, void *user, int64_t block) {
    const cascade_fit *f = user;
    const cst_view *view = &f->view;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(view->rows, block);
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, members, view->members);
    CST_NEW(context, scope, double, pool, view->classes);
    CST_NEW(context, scope, float, rounded, view->classes);
    CST_NEW(context, scope, float, copy, (size_t)view->members *(size_t)view->classes);
    for (int64_t i = first; i < end; i++) {
        for (int32_t k = 0; k < view->members; k++)
            CST_TRY(cst_view_rows(context, view, k, i, 1, copy + (size_t)k * (size_t)view->classes,
                                  &members[k]));
        for (int32_t s = 0; s < f->stages; s++) {
            f->at->sure[s * view->rows + i] =
                cst_cascade_pool(&f->at->plan[f->folds[i]], s, members, pool);
            judge_row(f, i, s, pool, rounded);
        }
    }
    return CST_OK;
}

/* ---- an order ---- */

/* Members in the order in which they join the pool. */
static cst_status find_order(cst_context *context, const cascade_fit *f, double power,
                             int32_t *order) {
    int32_t members = f->view.members;
    cst_path path = {0};
    cst_select_options options = f->job->settings.selection;
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_path, &path);
    CST_NEW(context, scope, double, worth, members);
    CST_NEW(context, scope, uint8_t, there, members);
    for (int32_t k = 0; k < members; k++)
        worth[k] = pow(fmax(f->cost[k], 1e-6), power);
    options.limits = (cst_limits){0};
    options.costs = (cst_costs){{NULL}};
    options.tilt = NULL;
    options.worth = worth;
    CST_TRY(cst_path_forward(context, &f->table, &options, &path));
    for (int32_t s = 0; s < members; s++)
        for (int32_t j = 0; j <= s; j++)
            if (!there[path.set[s][j]]) {
                there[path.set[s][j]] = 1;
                order[s] = path.set[s][j];
            }
    return CST_OK;
}

static cst_status take_trial(cst_context *context, cst_scope *scope, const cascade_fit *f,
                             trial *t) {
    size_t cells = (size_t)f->stages * (size_t)f->view.rows;
    CST_TAKE(context, scope, t->plan, f->fold_count + 1);
    for (int32_t k = 0; k <= f->fold_count; k++)
        CST_TRY(cst_cascade_plan_take(context, scope, f->view.members, f->view.classes, f->stages,
                                      &t->plan[k]));
    CST_TAKE(context, scope, t->threshold, f->stages);
    CST_TAKE(context, scope, t->sure, cells);
    CST_TAKE(context, scope, t->loss, cells);
    CST_TAKE(context, scope, t->excess, cells);
    CST_TAKE(context, scope, t->failed, cells);
    return CST_OK;
}

/* Rows of every second fold give the thresholds, those of the others the test. */
static cst_status try_order(cst_context *context, cst_scope *scope, cascade_fit *f, double power,
                            double limit, const uint8_t *tested, trial *t) {
    const cst_cascade_options *o = &f->job->settings.cascade;
    const cst_cascade_limits limits = {o->alpha, o->confidence, limit};
    CST_NEW(context, scope, int32_t, order, f->view.members);
    CST_NEW(context, scope, double, cost, f->stages + 1);
    CST_TRY(take_trial(context, scope, f, t));
    CST_TRY(find_order(context, f, power, order));
    f->at = t;
    f->order = order;
    CST_TRY(cst_parallel_long(context, f->fold_count + 1, fit_fold, f));
    CST_TRY(cst_parallel_for(context, cst_block_count(f->view.rows), judge_block, f));
    for (int32_t s = 0; s < f->stages; s++)
        cost[s] = cst_cascade_cost(&t->plan[f->fold_count], f->size[s]);
    cost[f->stages] = 1;
    t->rows = (cst_cascade_rows){.rows = f->view.rows,
                                 .stages = f->stages,
                                 .sure = t->sure,
                                 .loss = t->loss,
                                 .failed = t->failed,
                                 .tested = tested,
                                 .cost = cost};
    return cst_cascade_choose(context, &t->rows, &limits, t->threshold, &t->found);
}

/* ---- the result ---- */

static cst_status keep(cst_context *context, const cascade_fit *f, const trial *t,
                       cst_model *model) {
    const cst_cascade_plan *from = &t->plan[f->fold_count];
    const cst_cascade_options *o = &f->job->settings.cascade;
    size_t stages = (size_t)f->stages;
    size_t members = (size_t)from->members;
    CST_NEW(context, &model->scope, cst_cascade_plan, plan, 1);
    CST_TRY(cst_cascade_plan_take(context, &model->scope, from->members, from->classes, f->stages,
                                  plan));
    memcpy(plan->order, from->order, members * sizeof *plan->order);
    memcpy(plan->cost, from->cost, members * sizeof *plan->cost);
    memcpy(plan->mix, from->mix, members * sizeof *plan->mix);
    memcpy(plan->size, from->size, stages * sizeof *plan->size);
    memcpy(plan->weights, from->weights, stages * members * sizeof *plan->weights);
    memcpy(plan->bias, from->bias, stages * (size_t)from->classes * sizeof *plan->bias);
    memcpy(plan->threshold, t->threshold, stages * sizeof *plan->threshold);
    for (int64_t i = 0; i < t->rows.rows; i++) {
        int32_t s = t->rows.tested[i] ? cst_cascade_stop(&t->rows, t->threshold, i) : f->stages;
        if (s == f->stages)
            continue;
        plan->stopped[s] += 1.0 / (double)t->found.tested;
        plan->excess += t->excess[s * t->rows.rows + i] / (double)t->found.tested;
    }
    for (size_t s = 0; s < stages; s++)
        plan->stopped[s] = fmin(plan->stopped[s], 1);
    plan->risk = o->risk;
    plan->cost_of = f->cost_of;
    plan->alpha = o->alpha;
    plan->confidence = o->confidence;
    plan->tested = t->found.tested;
    plan->failed = t->found.failed;
    plan->bound = t->found.bound;
    plan->share = fmin(t->found.share, 1);
    model->cascade = plan;
    return CST_OK;
}

/* Says why all rows run all members. */
static void tell(cst_context *context, const cst_cascade_plan *plan, double cheapest, double loss) {
    double rows = ceil(log(1 - plan->confidence) / log1p(-plan->alpha));
    if (plan->share < 1)
        return;
    if (plan->members < 2)
        cst_notice(context, "the cascade has nothing to stop before: the stack has one member");
    else if (cheapest >= 1)
        cst_notice(context,
                   "the cascade runs all members: no row can stop where the mean divergence from "
                   "the stack's probabilities is to be at most %g of its NLL; allow more with "
                   "--set cascade.loss",
                   loss);
    else
        cst_notice(context,
                   "the cascade runs all members: no thresholds kept the risk below %g at %g%% "
                   "confidence on %lld rows (it takes %.0f or more); allow more with --alpha, or "
                   "give more rows",
                   plan->alpha, 100 * plan->confidence, (long long)plan->tested, rows);
}

/* Which order costs least on the rows for the thresholds. */
static cst_status choose_order(cst_context *context, cst_scope *scope, cascade_fit *f,
                               cst_model *model) {
    const cst_view *view = &f->view;
    double nll = 0;
    int64_t count = 0;
    int best = 0;
    CST_NEW(context, scope, uint8_t, tested, view->rows);
    CST_NEW(context, scope, trial, trials, ORDERS);
    for (int64_t i = 0; i < view->rows; i++) {
        tested[i] = f->folds[i] % 2 == 0;
        count += !tested[i];
        nll -= tested[i] ? 0 : least((double)f->held[i * view->classes + cst_view_label(view, i)]);
    }
    nll /= count > 0 ? (double)count : 1;
    for (int o = 0; o < (f->cost_of == CST_COST_COUNT ? 1 : ORDERS); o++) {
        CST_TRY(try_order(context, scope, f, POWERS[o], nll * f->job->settings.cascade.loss, tested,
                          &trials[o]));
        if (trials[o].found.cheapest < trials[best].found.cheapest)
            best = o;
    }
    CST_TRY(keep(context, f, &trials[best], model));
    tell(context, model->cascade, trials[best].found.cheapest, f->job->settings.cascade.loss);
    return CST_OK;
}

cst_status cst_fit_cascade(cst_context *context, cst_fit_job *job) {
    cst_model *model = job->stages.fit.model;
    cst_costs costs = cst_training_costs(&job->source);
    int32_t members = job->stages.kept_count;
    cascade_fit f = {.job = job,
                     .folds = job->source.folds,
                     .fold_count = job->source.fold_count,
                     .pool = job->settings.loglinear};
    CST_SCOPE(scope);
    CST_TRY(cst_stage(context, "cascade"));
    CST_NEW(context, scope, const float *, pointers, members);
    f.view = cst_view_members(&job->source.view, job->stages.kept, members, pointers);
    size_t cells = (size_t)f.view.rows * (size_t)f.view.classes;
    f.pool.evidence = false;
    f.pool.compact.share = job->stages.fit.share;
    set_sizes(&f);
    CST_TAKE(context, scope, f.cost, members);
    set_costs(&costs, job->stages.kept, &f);
    CST_TAKE(context, scope, f.held, cells);
    CST_TAKE(context, scope, f.decided, f.view.rows);
    CST_TRY(hold_out(context, &costs, &f));
    cst_decision_apply(model->decision, f.held, f.view.rows, f.view.classes, f.decided);
    CST_OWN(context, scope, cst_logtable, &f.table);
    CST_TRY(cst_logtable_open(context, &f.view, f.folds, f.fold_count, &f.pool.compact, &f.table));
    CST_TRY(cst_logtable_mix(context, &f.table));
    return choose_order(context, scope, &f, model);
}
