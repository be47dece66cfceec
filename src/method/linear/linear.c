/* Ridge by Cholesky, elastic net and lasso by coordinate descent on the Gram, and their scores. */
#include "method/linear/linear.h"
#include "core/la.h"
#include "core/wide.h"
#include "method/linear/box_quadratic.h"

#include <math.h>
#include <string.h>

/* Sweeps at most; sweeps between checks; tolerance of the KKT residual relative to max|X'y/n|, for
 * a fit and along a cross-validation path. */
enum { FIT_SWEEPS = 50000, PATH_SWEEPS = 2000, CHECK_EVERY = 10 };
/* Sweeps before active-set steps are tried, a multiple of CHECK_EVERY; their number at most. */
enum { PATIENCE = 200, STEPS_PER_COLUMN = 20 };
/* Of a residual relative to the target's deviation: what rounding leaves. Without it, columns that
 * have nothing to do with the target would be swept for ever. */
static const double rounding = 1e-14;
static const double fit_tolerance = 1e-10;
static const double path_tolerance = 1e-7;

void cst_linear_free(cst_context *context, cst_linear *linear) {
    (void)context;
    cst_scope_free(&linear->scope);
    *linear = (cst_linear){0};
}

/* ---- coordinate descent ---- */

/* minimise w'Gw - 2c'w + quadratic |w|^2 + 2 absolute |w|_1, G of unit diagonal. */
typedef struct problem {
    int32_t k;
    const double *gram;
    const double *cross;
    double absolute;  /* lambda l1_ratio */
    double quadratic; /* lambda (1 - l1_ratio) */
    double deviation; /* standard deviation of the target, the largest that |c| can be */
} problem;

typedef struct descent {
    cst_context *context;
    cst_status status; /* CST_ERROR_CANCELLED once the caller wants to stop */
    double *w;         /* [k], the coefficients; the start on entry */
    double *gradient;  /* [k], c - Gw */
    double *trial;     /* [k] */
    double *packed;    /* [k]: right-hand side on the active set */
    double *factor;    /* [k][k] */
    int32_t *active;   /* [k] */
} descent;

static cst_status open_descent(cst_context *context, cst_scope *scope, int32_t k, descent *d) {
    *d = (descent){.context = context};
    size_t n = (size_t)k;
    CST_TAKE(context, scope, d->w, n);
    CST_TAKE(context, scope, d->gradient, n);
    CST_TAKE(context, scope, d->trial, n);
    CST_TAKE(context, scope, d->packed, n);
    CST_TAKE(context, scope, d->factor, n * n);
    CST_TAKE(context, scope, d->active, n);
    return CST_OK;
}

static double soft(double x, double threshold) {
    if (x > threshold)
        return x - threshold;
    return x < -threshold ? x + threshold : 0;
}

/* The KKT residual at which a problem counts as solved. */
static double small_enough(const problem *p, double tolerance) {
    return fmax(tolerance * cst_largest_absolute(p->cross, p->k), rounding * p->deviation);
}

/* gradient = c - Gw, column after column, and the largest violation of the optimality conditions at
 * w. */
static double kkt_residual(const problem *p, const double *w, double *gradient) {
    double worst = 0;
    memcpy(gradient, p->cross, (size_t)p->k * sizeof *gradient);
    for (int32_t i = 0; i < p->k; i++)
        if (w[i] != 0)
            cst_add_scaled_f64(p->gram + (size_t)i * (size_t)p->k, p->k, -w[i], gradient);
    for (int32_t j = 0; j < p->k; j++) {
        double g = gradient[j];
        double off = fabs(g) - p->absolute;
        if (w[j] != 0)
            off = fabs(g - p->quadratic * w[j] - copysign(p->absolute, w[j]));
        worst = fmax(worst, off);
    }
    return worst;
}

/* One sweep over all coordinates. True when no coefficient changed its sign, to or from 0. */
static bool sweep(const problem *p, double *w, double *gradient) {
    bool same = true;
    for (int32_t j = 0; j < p->k; j++) {
        const double *column = p->gram + (size_t)j * (size_t)p->k;
        double next = soft(gradient[j] + w[j], p->absolute) / (1 + p->quadratic);
        double change = next - w[j];
        if (change == 0)
            continue;
        same = same && ((next > 0) - (next < 0)) == ((w[j] > 0) - (w[j] < 0));
        w[j] = next;
        cst_add_scaled_f64(column, p->k, -change, gradient);
    }
    return same;
}

/* Row i of the factor, columns below i, from row i of the matrix; the rows before stand in the
 * upper triangle as columns, so that all of the row is reduced at once. */
CST_KERNEL(factor_row, (size_t n, size_t i, double *a), (n, i, a)) {
    double *restrict row = a + i * n;
    for (size_t m = 0; m < i; m++) {
        const double *restrict other = a + m * n;
        double factor = other[m] > 0 ? row[m] / other[m] : 0;
        row[m] = factor;
        for (size_t j = m + 1; j < i; j++)
            row[j] -= factor * other[j];
        row[i] -= factor * factor;
    }
}

/* Lower Cholesky factor in place (the diagonal is 1 or more), mirrored in the upper triangle;
 * returns the number of independent rows, with a pivot above 1e-13. The others are left out, zero
 * with their diagonal; or, where `stop`, the first of them ends it. */
static int32_t independent_cholesky(int32_t count, double *a, bool stop) {
    size_t n = (size_t)count;
    int32_t rank = 0;
    for (size_t i = 0; i < n; i++) {
        double *row = a + i * n;
        factor_row(n, i, a);
        row[i] = row[i] > 1e-13 ? sqrt(row[i]) : 0;
        if (row[i] > 0)
            rank++;
        else if (stop)
            return rank;
        else
            memset(row, 0, n * sizeof *row);
        for (size_t m = 0; m < i; m++)
            a[m * n + i] = row[m];
    }
    return rank;
}

/* Whether the columns of the active set do not depend on one another; then `a` is factored. */
static bool try_cholesky(int32_t n, double *a) {
    return independent_cholesky(n, a, true) == n;
}

/* Indices of the non-zero entries of w to d->active, and G + quadratic I on them to d->factor. */
static int32_t active_matrix(const problem *p, const double *w, double ridge, descent *d) {
    int32_t count = 0;
    for (int32_t j = 0; j < p->k; j++)
        if (w[j] != 0)
            d->active[count++] = j;
    for (int32_t a = 0; a < count; a++) {
        const double *row = p->gram + (size_t)d->active[a] * (size_t)p->k;
        for (int32_t b = 0; b < count; b++)
            d->factor[(size_t)a * (size_t)count + (size_t)b] =
                row[d->active[b]] + (a == b ? ridge : 0);
    }
    return count;
}

/* Solves the optimality conditions exactly for the signs of d->w. True, with d->w replaced, when
 * the solution has those signs and is no worse. */
static bool polish(const problem *p, descent *d, double *residual) {
    int32_t count = active_matrix(p, d->w, p->quadratic, d);
    if (count == 0 || !try_cholesky(count, d->factor))
        return false;
    for (int32_t a = 0; a < count; a++)
        d->packed[a] = p->cross[d->active[a]] - copysign(p->absolute, d->w[d->active[a]]);
    cst_cholesky_solve(count, d->factor, d->packed);
    memset(d->trial, 0, (size_t)p->k * sizeof *d->trial);
    for (int32_t a = 0; a < count; a++) {
        if (p->absolute > 0 && d->packed[a] * d->w[d->active[a]] <= 0)
            return false;
        d->trial[d->active[a]] = d->packed[a];
    }
    double reached = kkt_residual(p, d->trial, d->gradient);
    if (!(reached <= *residual)) {
        (void)kkt_residual(p, d->w, d->gradient);
        return false;
    }
    memcpy(d->w, d->trial, (size_t)p->k * sizeof *d->w);
    *residual = reached;
    return true;
}

/* Index of the coefficient at 0 whose gradient is furthest outside the penalty; -1 where all are
 * inside. */
static int32_t worst_inactive(const problem *p, const descent *d) {
    int32_t worst = -1;
    double most = p->absolute;
    for (int32_t j = 0; j < p->k; j++) {
        if (d->w[j] == 0 && fabs(d->gradient[j]) > most) {
            most = fabs(d->gradient[j]);
            worst = j;
        }
    }
    return worst;
}

/* One step towards the minimum on the active coefficients (and `joining`, or none: -1) with their
 * signs held, as far as the first that reaches 0, which it leaves at 0. True when none did. */
static bool orthant_step(const problem *p, int32_t joining, descent *d) {
    double *sign = d->trial;
    for (int32_t j = 0; j < p->k; j++)
        sign[j] = (double)((d->w[j] > 0) - (d->w[j] < 0));
    if (joining >= 0)
        sign[joining] = copysign(1, d->gradient[joining]);
    /* Dependent columns: a small ridge on the step, which later steps make up for. */
    int32_t count = active_matrix(p, sign, p->quadratic, d);
    if (!try_cholesky(count, d->factor)) {
        (void)active_matrix(p, sign, p->quadratic + 1e-9, d);
        if (!try_cholesky(count, d->factor))
            return false;
    }
    for (int32_t a = 0; a < count; a++) {
        int32_t j = d->active[a];
        d->packed[a] = d->gradient[j] - p->quadratic * d->w[j] - p->absolute * sign[j];
    }
    cst_cholesky_solve(count, d->factor, d->packed);
    double length = 1;
    int32_t leaving = -1;
    for (int32_t a = 0; a < count; a++) {
        int32_t j = d->active[a];
        double reach = -d->w[j] / d->packed[a];
        if (sign[j] * (d->w[j] + d->packed[a]) < 0 && reach < length) {
            length = reach;
            leaving = j;
        }
    }
    for (int32_t a = 0; a < count; a++)
        d->w[d->active[a]] += length * d->packed[a];
    if (leaving >= 0)
        d->w[leaving] = 0;
    return leaving < 0;
}

/* Whether to go on; a step of hundreds of columns takes long enough to ask. */
static bool goes_on(descent *d) {
    if (d->status == CST_OK)
        d->status = cst_poll(d->context);
    return d->status == CST_OK;
}

/* Active-set steps (the feature-sign search of Lee et al. 2007), for columns so close to dependent
 * that sweeps do not arrive. Every step lowers the objective or changes the active set. */
static void finish(const problem *p, double enough, descent *d, double *residual) {
    int32_t joining = -1;
    for (int32_t step = 0; *residual > enough && step < STEPS_PER_COLUMN * p->k && goes_on(d);
         step++) {
        bool inside = orthant_step(p, joining, d);
        *residual = kkt_residual(p, d->w, d->gradient);
        joining = inside ? worst_inactive(p, d) : -1;
    }
}

/* Sweeps from d->w until the KKT residual is small. Returns the number of sweeps. */
static int32_t descend(const problem *p, double tolerance, int32_t most, descent *d,
                       double *residual) {
    double enough = small_enough(p, tolerance);
    *residual = kkt_residual(p, d->w, d->gradient);
    int32_t sweeps = 0;
    bool same = false;
    while (*residual > enough && sweeps < most && d->status == CST_OK) {
        same = sweep(p, d->w, d->gradient);
        sweeps++;
        if (sweeps % CHECK_EVERY != 0 || !goes_on(d))
            continue;
        *residual = kkt_residual(p, d->w, d->gradient);
        if (*residual > enough && same)
            (void)polish(p, d, residual);
        if (*residual > enough && sweeps % PATIENCE == 0)
            finish(p, enough, d, residual);
    }
    return sweeps;
}

/* Coefficients that differ from 0 by rounding are 0: whether one is there decides on a dimension.
 */
static void drop_rounding(const problem *p, double *w) {
    double least = rounding * cst_largest_absolute(w, p->k);
    for (int32_t j = 0; p->absolute > 0 && j < p->k; j++)
        w[j] = fabs(w[j]) > least ? w[j] : 0;
}

/* ---- fits ---- */

static cst_status check_penalty(cst_context *context, double lambda, double l1_ratio) {
    if (!(lambda >= 0) || !isfinite(lambda))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "a penalty of %g: lambda must be a non-negative number", lambda);
    if (!(l1_ratio >= 0 && l1_ratio <= 1))
        return cst_fail(context, CST_ERROR_ARGUMENT, "l1_ratio %g is not in [0, 1]", l1_ratio);
    return CST_OK;
}

static double ratio_of(cst_linear_kind kind, double l1_ratio) {
    if (kind == CST_LINEAR_RIDGE)
        return 0;
    return kind == CST_LINEAR_LASSO ? 1 : l1_ratio;
}

/* Raw units from standardised coefficients. */
static void unscale(const cst_standardised *s, const double *w, double *coefficients,
                    double *intercept) {
    memset(coefficients, 0, (size_t)s->columns * sizeof *coefficients);
    *intercept = s->target_mean;
    for (int32_t j = 0; j < s->kept; j++) {
        double raw = w[j] / s->scale[j];
        coefficients[s->index[j]] = raw;
        *intercept -= raw * s->mean[j];
    }
}

/* Ridge: (G + lambda I) w = c. */
static cst_status solve_ridge(cst_context *context, const problem *p, descent *d) {
    size_t k = (size_t)p->k;
    memcpy(d->factor, p->gram, k * k * sizeof *d->factor);
    for (size_t j = 0; j < k; j++)
        d->factor[j * k + j] += p->quadratic;
    if (cst_cholesky(context, p->k, d->factor) != CST_OK)
        return cst_fail(context, CST_ERROR_NUMERIC,
                        "the ridge system of %d columns is singular at lambda = %g: use a larger "
                        "penalty",
                        (int)p->k, p->quadratic);
    memcpy(d->w, p->cross, k * sizeof *d->w);
    cst_cholesky_solve(p->k, d->factor, d->w);
    return CST_OK;
}

void cst_linear_hessian(const cst_standardised *standardised, double lambda, double variance,
                        double *out) {
    size_t k = (size_t)standardised->kept;
    double precision = standardised->rows / variance;
    for (size_t i = 0; i < k * k; i++)
        out[i] = precision * (standardised->gram[i] + (i % (k + 1) == 0 ? lambda : 0));
}

/* log det of 2n (G + quadratic I) on the coefficients it is taken over. Of columns that depend on
 * one another (with one member, its mean and its median) as many count as are independent: how a
 * solver spreads a weight over them says nothing. */
static void hessian(const problem *p, double rows, descent *d, cst_linear *out) {
    int32_t count = p->k;
    out->active = p->k;
    if (out->kind != CST_LINEAR_RIDGE) {
        for (int32_t j = 0; p->absolute == 0 && j < p->k; j++)
            d->trial[j] = 1;
        const double *support = p->absolute == 0 ? d->trial : d->w;
        count = active_matrix(p, support, p->quadratic, d);
        out->active = independent_cholesky(count, d->factor, false);
    }
    out->logdet_hessian = out->active * log(2 * rows);
    double sum = 0;
    for (int32_t i = 0; i < count; i++) {
        double pivot = d->factor[(size_t)i * (size_t)count + (size_t)i];
        sum += pivot > 0 ? log(pivot) : 0;
    }
    out->logdet_hessian += 2 * sum;
}

/* Loss and objective at d->w; d->gradient is c - Gw. */
static void describe(const problem *p, const cst_standardised *s, const descent *d,
                     cst_linear *out) {
    double loss = s->target_square;
    double square = 0;
    double absolute = 0;
    for (int32_t j = 0; j < p->k; j++) {
        loss -= d->w[j] * (p->cross[j] + d->gradient[j]);
        square += d->w[j] * d->w[j];
        absolute += fabs(d->w[j]);
    }
    out->loss = fmax(loss, 0);
    out->objective = out->loss + p->quadratic * square + 2 * p->absolute * absolute;
}

static problem problem_of(const cst_standardised *s, double lambda, double ratio) {
    return (problem){.k = s->kept,
                     .gram = s->gram,
                     .cross = s->cross,
                     .absolute = lambda * ratio,
                     .quadratic = lambda * (1 - ratio),
                     .deviation = sqrt(s->target_square)};
}

cst_status cst_linear_fit(cst_context *context, const cst_standardised *standardised,
                          cst_linear_kind kind, double lambda, double l1_ratio, cst_linear *out) {
    *out = (cst_linear){0};
    double ratio = ratio_of(kind, l1_ratio);
    CST_TRY(check_penalty(context, lambda, ratio));
    *out = (cst_linear){
        .kind = kind, .columns = standardised->columns, .lambda = lambda, .l1_ratio = ratio};
    problem p = problem_of(standardised, out->lambda, out->l1_ratio);
    descent d;
    CST_SCOPE(scope);
    CST_LA();
    CST_TRY(open_descent(context, scope, p.k, &d));
    CST_TAKE(context, &out->scope, out->coefficients, standardised->columns);
    if (out->kind == CST_LINEAR_RIDGE) {
        CST_TRY(solve_ridge(context, &p, &d));
    } else {
        out->iterations = descend(&p, fit_tolerance, FIT_SWEEPS, &d, &out->kkt_residual);
        CST_TRY(d.status);
        drop_rounding(&p, d.w);
    }
    out->kkt_residual = kkt_residual(&p, d.w, d.gradient);
    describe(&p, standardised, &d, out);
    hessian(&p, standardised->rows, &d, out);
    unscale(standardised, d.w, out->coefficients, &out->intercept);
    if (out->kkt_residual > small_enough(&p, fit_tolerance) && out->kind != CST_LINEAR_RIDGE)
        cst_notice(context,
                   "coordinate descent stopped after %d sweeps with a KKT residual of %.2g "
                   "(lambda %g, l1_ratio %g): the columns are nearly collinear",
                   (int)out->iterations, out->kkt_residual, out->lambda, out->l1_ratio);
    return CST_OK;
}

double cst_linear_lambda_max(const cst_standardised *standardised, double l1_ratio) {
    return cst_largest_absolute(standardised->cross, standardised->kept) / l1_ratio;
}

/* ---- path ---- */

static double path_at(double top, double low, int32_t points, int32_t point) {
    return top * pow(low, (double)point / (double)(points - 1));
}

/* Adds one fold's squared error at each point of the path, from the largest penalty down. */
static cst_status add_path(cst_context *context, const cst_moments *moments, int32_t fold,
                           double ratio, double top, double low, int32_t points, double *losses) {
    cst_standardised s;
    descent d;
    CST_SCOPE(scope);
    CST_TRY(cst_standardise_in(context, scope, moments, fold, &s));
    CST_TRY(open_descent(context, scope, s.kept, &d));
    CST_NEW(context, scope, double, coefficients, s.columns);
    for (int32_t i = 0; goes_on(&d) && i < points; i++) {
        problem p = problem_of(&s, path_at(top, low, points, i), ratio);
        double residual = 0;
        double intercept = 0;
        (void)descend(&p, path_tolerance, PATH_SWEEPS, &d, &residual);
        unscale(&s, d.w, coefficients, &intercept);
        losses[i] += cst_moments_loss(moments, fold, coefficients, intercept, NULL);
    }
    return d.status;
}

cst_status cst_linear_path_cv(cst_context *context, const cst_moments *moments,
                              cst_linear_kind kind, double l1_ratio, double low, int32_t points,
                              double *lambda, double *lambdas, double *losses) {
    double ratio = ratio_of(kind, l1_ratio);
    if (!(ratio > 0 && ratio <= 1) || !(low > 0 && low < 1) || points < 2)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "a path of %d penalties down to %g of the largest with l1_ratio %g: it "
                        "needs two points, 0 < low < 1 and 0 < l1_ratio <= 1",
                        (int)points, low, ratio);
    if (moments->folds < 2)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cross-validation of the penalty needs at least two folds, but there is %d",
                        (int)moments->folds);
    cst_standardised all;
    CST_SCOPE(scope);
    CST_TRY(cst_standardise_in(context, scope, moments, -1, &all));
    double top = cst_linear_lambda_max(&all, ratio);
    if (!(top > 0)) /* nothing correlates with the target: every penalty gives the same fit */
        top = 1;
    CST_NEW(context, scope, double, sums, points);
    CST_LA();
    for (int32_t f = 0; f < moments->folds; f++)
        CST_TRY(add_path(context, moments, f, ratio, top, low, points, sums));
    int32_t best = 0;
    for (int32_t i = 1; i < points; i++)
        if (sums[i] < sums[best])
            best = i;
    *lambda = path_at(top, low, points, best);
    for (int32_t i = 0; i < points; i++) {
        if (lambdas)
            lambdas[i] = path_at(top, low, points, i);
        if (losses)
            losses[i] = sums[i] / all.rows;
    }
    return CST_OK;
}
