/* Forward and backward paths in log-linear space by quadratic models and warm refits. */
#include "method/select/within.h"

#include "core/la.h"

#include <math.h>
#include <string.h>

CST_OWNED(cst_loglinear)

/* Above MANY members a backward step removes at least a sixteenth of those left. */
enum { MANY = 64, SHARE = 16 };

/* Whether passes are cheap enough to follow the path closely. */
static bool follows_closely(const cst_logtable *table) {
    return table->compact->every_class && table->members <= MANY;
}

static cst_loglinear_options path_fit_options(const cst_logtable *table,
                                              const cst_select_options *options) {
    cst_loglinear_options fit = cst_loglinear_defaults();
    fit.bias = false;
    fit.evidence = false;
    fit.nonnegative = options->nonnegative;
    fit.prior_weights = options->prior;
    fit.prior_scale = 3 * options->prior;
    fit.tolerance = 1e-3;
    fit.tilt = options->tilt;
    fit.trusted = 0.1; /* nats of the whole sample: the step leaves less than a thousandth of it */
    fit.trusted_share = follows_closely(table) ? 0 : 1e-3; /* leaves less than a hundredth */
    return fit;
}

static cst_status path_alloc(cst_context *context, int32_t members, cst_path *out) {
    *out = (cst_path){.members = members};
    CST_TAKE(context, &out->scope, out->set, members);
    CST_TAKE(context, &out->scope, out->weights, members);
    for (int32_t s = 0; s < members; s++) {
        CST_TAKE(context, &out->scope, out->set[s], s + 1);
        CST_TAKE(context, &out->scope, out->weights[s], s + 1);
    }
    return CST_OK;
}

void cst_path_free(cst_context *context, cst_path *path) {
    (void)context;
    cst_scope_free(&path->scope);
    *path = (cst_path){0};
}

/* The inverse of a positive definite matrix, full. */
static cst_status inverse(cst_context *context, int32_t n, const double *matrix, double *out) {
    size_t d = (size_t)n;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, factor, (d * d + d));
    memcpy(factor, matrix, d * d * sizeof *factor);
    double *unit = factor + d * d;
    CST_TRY(cst_cholesky(context, n, factor));
    for (size_t j = 0; j < d; j++) {
        memset(unit, 0, d * sizeof *unit);
        unit[j] = 1;
        cst_cholesky_solve(n, factor, unit);
        for (size_t i = 0; i < d; i++)
            out[i * d + j] = unit[i];
    }
    return CST_OK;
}

/* How far the backward path goes between two fits where it is not followed closely. The model's
 * error grows with the square of the distance, so each fit sets `reach` to keep it below the
 * tolerance. */
static const double SAFETY = 2;
static const double LEFT = 0.01;      /* tolerated error, as a share of the trusted distance */
static const double REACH_MOST = 100; /* most reach, in trusted distances */

static int32_t batch_of(int32_t size) {
    if (size <= MANY)
        return 1;
    return size - size / SHARE < MANY ? size - MANY : size / SHARE;
}

/* Inverse Hessian: how other weights move when a member leaves. Those at their bound do not. */
static cst_status following(cst_context *context, const cst_select_options *options,
                            const cst_loglinear *fit, double *out) {
    size_t n = (size_t)fit->members;
    for (size_t i = 0; options->nonnegative && i < n; i++)
        for (size_t j = 0; j < n; j++)
            if (fit->weights[i] <= 0 || fit->weights[j] <= 0)
                fit->hessian[i * n + j] = i == j ? 1 : 0;
    return inverse(context, fit->members, fit->hessian, out);
}

typedef struct backward {
    int32_t *active; /* [members] */
    double *weights; /* [members] */
    double *inv;     /* [members][members] */
    double *row;     /* [members] */
    bool nonnegative;
    const double *worth; /* as in the options */
    bool closely;        /* every size is fitted */
    double gone;  /* predicted distance of the present optimum from the point of the last fit */
    double reach; /* largest `gone` without a new fit */
} backward;

/* Removes the position that raises the model least (*raised); weights [k] adapt. */
static int32_t take_cheapest(const backward *s, int32_t k, double *raised) {
    const double *inv = s->inv;
    double *weights = s->weights;
    int32_t leave = 0;
    double least = INFINITY;
    for (int32_t j = 0; j < k; j++) {
        double rise = weights[j] * weights[j] / (2 * inv[j * k + j]);
        double cost = s->worth ? rise / s->worth[s->active[j]] : rise;
        if (cost < least) {
            *raised = rise;
            least = cost;
            leave = j;
        }
    }
    double ratio = weights[leave] / inv[leave * k + leave];
    for (int32_t j = 0, to = 0; j < k; j++)
        if (j != leave)
            weights[to++] = weights[j] - inv[j * k + leave] * ratio;
    return leave;
}

/* Removes row and column `leave` of an inverse Hessian [k][k]. row: [k] scratch. */
static void shrink_inverse(int32_t k, int32_t leave, double *inv, double *row) {
    size_t n = (size_t)k;
    memcpy(row, inv + (size_t)leave * n, n * sizeof *row);
    double pivot = row[leave];
    size_t to = 0;
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            if (a != (size_t)leave && b != (size_t)leave)
                inv[to++] = inv[a * n + b] - row[a] * row[b] / pivot;
}

static void keep_set(const backward *s, int32_t size, cst_path *out) {
    memcpy(out->set[size - 1], s->active, (size_t)size * sizeof *s->active);
    for (int32_t j = 0; j < size; j++)
        out->weights[size - 1][j] = s->nonnegative ? fmax(s->weights[j], 0) : s->weights[j];
}

/* Removes a batch of members, and more within reach. Returns how many are left. */
static int32_t step_back(backward *s, int32_t size, cst_path *out) {
    int32_t end = size - batch_of(size);
    while (size > 0) {
        double raised = 0;
        int32_t leave = take_cheapest(s, size, &raised);
        memmove(s->active + leave, s->active + leave + 1,
                (size_t)(size - 1 - leave) * sizeof *s->active);
        s->gone += raised;
        /* A negative rise is rounding: the model has to be fitted again. */
        if (size - 1 <= end && (s->gone > s->reach || !(raised >= 0)))
            return size - 1;
        shrink_inverse(size, leave, s->inv, s->row);
        if (--size > 0)
            keep_set(s, size, out);
    }
    return size;
}

/* Sets `reach` by how far the model was from this fit. */
static void set_reach(backward *s, const cst_loglinear_options *options, const cst_loglinear *fit,
                      bool first) {
    double trusted = fmax(options->trusted, options->trusted_share * fit->nll);
    double tolerance = fmax(options->tolerance, LEFT * trusted);
    if (s->closely || s->nonnegative) {
        /* Members at their bound leave for nothing; others may take them up again. */
        s->reach = s->closely ? -1 : 0;
        s->gone = 0;
        return;
    }
    if (first) {
        s->reach = trusted;
    } else {
        double left = fmax(fit->begun, 1e-3 * tolerance) / (s->gone * s->gone);
        s->reach = fmin(fmax(sqrt(tolerance / left) / SAFETY, trusted), REACH_MOST * trusted);
    }
    s->gone = fit->decrement;
}

cst_status cst_path_start(cst_context *context, cst_scope *owner, const cst_logtable *table,
                          const cst_select_options *options, double **weights) {
    cst_loglinear fit = {0};
    cst_loglinear_options fit_options = path_fit_options(table, options);
    *weights = NULL;
    if (follows_closely(table))
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, active, table->members);
    CST_NEW(context, owner, double, start, table->members);
    for (int32_t k = 0; k < table->members; k++)
        active[k] = k;
    CST_OWN(context, scope, cst_loglinear, &fit);
    CST_TRY(cst_loglinear_fit(context, table, active, table->members, &fit_options, NULL, &fit));
    *weights = memcpy(start, fit.weights, (size_t)table->members * sizeof *start);
    return CST_OK;
}

cst_status cst_path_backward(cst_context *context, const cst_logtable *table,
                             const cst_select_options *options, const double *start,
                             cst_path *out) {
    int32_t members = table->members;
    cst_loglinear_options fit_options = path_fit_options(table, options);
    backward s = {.nonnegative = options->nonnegative,
                  .worth = options->worth,
                  .closely = follows_closely(table)};
    CST_SCOPE(scope);
    CST_TRY(path_alloc(context, members, out));
    CST_TAKE(context, scope, s.active, members);
    CST_TAKE(context, scope, s.weights, members);
    CST_TAKE(context, scope, s.inv, ((int64_t)members * members));
    CST_TAKE(context, scope, s.row, members);
    for (int32_t k = 0; k < members; k++)
        s.active[k] = k;
    for (int32_t size = members; size >= 1;) {
        cst_loglinear fit = {0};
        CST_SCOPE(step);
        CST_OWN(context, step, cst_loglinear, &fit);
        CST_TRY(cst_loglinear_fit(context, table, s.active, size, &fit_options,
                                  size == members ? start : s.weights, &fit));
        set_reach(&s, &fit_options, &fit, size == members);
        memcpy(s.weights, fit.weights, (size_t)size * sizeof *s.weights);
        keep_set(&s, size, out);
        CST_TRY(following(context, options, &fit, s.inv));
        size = step_back(&s, size, out);
    }
    return CST_OK;
}

/* The forward path so far. */
typedef struct forward_state {
    const cst_logtable *table;
    const cst_select_options *options;
    int32_t size;
    int32_t *set;      /* ascending */
    double *weights;   /* [size] */
    double *full;      /* [members] weights, zeros outside */
    int32_t *everyone; /* 0..members-1 */
} forward_state;

/* Whether the set is within the limits with one more member. s->set has room for it. */
static bool affordable(forward_state *s, int32_t member) {
    const cst_select_options *o = s->options;
    s->set[s->size] = member;
    return cst_costs_within(&o->costs, &o->limits, s->set, s->size + 1);
}

static bool contains(const forward_state *s, int32_t member) {
    for (int32_t j = 0; j < s->size; j++)
        if (s->set[j] == member)
            return true;
    return false;
}

/* Gain of a candidate: g^2 / (2 (H_kk - h' H_SS^-1 h)), at the present point. */
static double gain(const forward_state *s, const double *inv, const cst_loglinear *at,
                   const double *gradient, int32_t candidate) {
    size_t members = (size_t)s->table->members;
    size_t size = (size_t)s->size;
    const double *column = at->hessian + (size_t)candidate * members;
    double schur = column[candidate];
    if (s->options->nonnegative && gradient[candidate] >= 0)
        return 0; /* it would join with a negative weight */
    for (size_t i = 0; i < size; i++)
        for (size_t j = 0; j < size; j++)
            schur -= column[s->set[i]] * inv[i * size + j] * column[s->set[j]];
    return gradient[candidate] * gradient[candidate] / (2 * fmax(schur, 1e-12));
}

/* The affordable candidate with the largest gain; if none is affordable, the one with the largest
 * gain. One pass over loss, gradient and Hessian gives every candidate's gain. */
static cst_status best_candidate(cst_context *context, forward_state *s, int32_t *join) {
    int32_t members = s->table->members;
    size_t size = (size_t)s->size;
    cst_loglinear at = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, gradient, members);
    CST_NEW(context, scope, double, inv, 2 * size * size + 1);
    double *sub = inv + size * size;
    CST_OWN(context, scope, cst_loglinear, &at);
    CST_TRY(cst_loglinear_curvature(context, s->table, s->everyone, members, s->options->prior,
                                    s->full, gradient, &at));
    for (size_t i = 0; i < size; i++)
        for (size_t j = 0; j < size; j++)
            sub[i * size + j] = at.hessian[(size_t)s->set[i] * (size_t)members + (size_t)s->set[j]];
    if (size > 0)
        CST_TRY(inverse(context, s->size, sub, inv));
    *join = -1;
    for (int pass = 0; pass < 2 && *join < 0; pass++) {
        double most = -1;
        for (int32_t k = 0; k < members; k++) {
            if (contains(s, k) || (pass == 0 && !affordable(s, k)))
                continue;
            double value = gain(s, inv, &at, gradient, k);
            value = s->options->worth ? value / s->options->worth[k] : value;
            if (value > most) {
                most = value;
                *join = k;
            }
        }
    }
    return CST_OK;
}

static void insert(forward_state *s, int32_t member) {
    int32_t at = s->size;
    while (at > 0 && s->set[at - 1] > member) {
        s->set[at] = s->set[at - 1];
        s->weights[at] = s->weights[at - 1];
        at--;
    }
    s->set[at] = member;
    s->weights[at] = 0;
    s->size++;
}

static cst_status forward_step(cst_context *context, forward_state *s, cst_path *out) {
    int32_t join = -1;
    cst_loglinear_options fit_options = path_fit_options(s->table, s->options);
    cst_loglinear fit = {0};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_loglinear, &fit);
    CST_TRY(best_candidate(context, s, &join));
    insert(s, join);
    CST_TRY(cst_loglinear_fit(context, s->table, s->set, s->size, &fit_options,
                              s->size > 1 ? s->weights : NULL, &fit));
    size_t size = (size_t)s->size;
    memcpy(s->weights, fit.weights, size * sizeof *s->weights);
    memcpy(out->set[size - 1], s->set, size * sizeof *s->set);
    memcpy(out->weights[size - 1], s->weights, size * sizeof *s->weights);
    memset(s->full, 0, (size_t)s->table->members * sizeof *s->full);
    for (size_t j = 0; j < size; j++)
        s->full[s->set[j]] = s->weights[j];
    return CST_OK;
}

cst_status cst_path_forward(cst_context *context, const cst_logtable *table,
                            const cst_select_options *options, cst_path *out) {
    forward_state s = {.table = table, .options = options};
    CST_SCOPE(scope);
    CST_TRY(path_alloc(context, table->members, out));
    CST_TAKE(context, scope, s.set, table->members);
    CST_TAKE(context, scope, s.everyone, table->members);
    CST_TAKE(context, scope, s.weights, table->members);
    CST_TAKE(context, scope, s.full, table->members);
    for (int32_t k = 0; k < table->members; k++)
        s.everyone[k] = k;
    while (s.size < table->members)
        CST_TRY(forward_step(context, &s, out));
    return CST_OK;
}

static cst_status space_fit(cst_context *context, void *user, const int32_t *set, int32_t count,
                            double *weights, double *loss) {
    const cst_log_space *space = user;
    cst_loglinear_options options = path_fit_options(space->table, space->options);
    cst_loglinear fit = {0};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_loglinear, &fit);
    CST_TRY(cst_loglinear_fit(context, space->table, set, count, &options, weights, &fit));
    memcpy(weights, fit.weights, (size_t)count * sizeof *weights);
    *loss = fit.nll;
    return CST_OK;
}

/* The penalised loss around a set's weights: its prior draws every weight to 1 / (count + 1). */
static cst_status space_model(cst_context *context, void *user, const int32_t *candidates,
                              int32_t n, const int32_t *set, int32_t count, const double *weights,
                              double *loss, double *slope, double *curvature) {
    const cst_log_space *space = user;
    double prior = space->options->prior;
    size_t k = (size_t)n;
    cst_loglinear at = {0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, full, k);
    for (int32_t p = 0; p < n; p++)
        for (int32_t j = 0; j < count; j++)
            if (candidates[p] == set[j])
                full[p] = weights[j];
    CST_OWN(context, scope, cst_loglinear, &at);
    CST_TRY(cst_loglinear_curvature(context, space->table, candidates, n, prior, full, slope, &at));
    double center = 1.0 / (count + 1);
    *loss = at.nll;
    memcpy(curvature, at.hessian, k * k * sizeof *curvature);
    for (size_t p = 0; p < k; p++) {
        slope[p] = -(slope[p] + prior * (full[p] - center));
        for (size_t q = 0; q < k; q++)
            slope[p] += at.hessian[p * k + q] * full[q];
    }
    return CST_OK;
}

static cst_status space_judge(cst_context *context, void *user, const int32_t *set, int32_t count,
                              const double *weights, double *loss) {
    const cst_log_space *space = user;
    double mean = 0;
    cst_status status =
        cst_loglinear_loss(context, space->held, set, count, weights, NULL, &mean, NULL);
    *loss = mean * (double)space->held->rows;
    return status;
}

cst_fold_space cst_log_fold_space(cst_log_space *space) {
    return (cst_fold_space){.sets = {.user = space,
                                     .members = space->table->members,
                                     .blocks = 1,
                                     .fit = space_fit,
                                     .model = space_model},
                            .judge = space_judge};
}
