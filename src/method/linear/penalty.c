/* The ridge penalty by cross-validation, GCV and evidence (MacKay, Neural Comput. 4, 1992), each
 * from an eigendecomposition. */
#include "method/linear/penalty.h"

#include <math.h>
#include <string.h>

enum { MAX_BISECTIONS = 200, MAX_FIXED_POINT_STEPS = 10000 };

cst_penalty_grid cst_penalty_grid_default(void) {
    cst_penalty_grid grid = {.low = 1e-8, .high = 1e2, .points = 61};
    return grid;
}

double cst_penalty_grid_at(const cst_penalty_grid *grid, int32_t point) {
    if (point <= 0)
        return grid->low;
    if (point >= grid->points - 1)
        return grid->high;
    double part = (double)point / (double)(grid->points - 1);
    return exp(log(grid->low) + part * (log(grid->high) - log(grid->low)));
}

static cst_status check_grid(cst_context *context, const cst_penalty_grid *grid) {
    if (!(grid->low > 0) || !(grid->high > grid->low) || !isfinite(grid->high) || grid->points < 2)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "a penalty grid of %d points from %g to %g: it needs at least two points "
                        "and 0 < low < high",
                        (int)grid->points, grid->low, grid->high);
    return CST_OK;
}

/* ---- cross-validation ---- */

/* Adds the squared error on one fold at every grid point. coefficients [d] is storage. */
static cst_status add_fold_losses(cst_context *context, const cst_moments *moments, int32_t fold,
                                  const cst_standardised *s, const cst_spectrum *e,
                                  const cst_penalty_grid *grid, double *coefficients,
                                  double *losses) {
    size_t k = (size_t)s->kept;
    for (int32_t p = 0; p < grid->points; p++) {
        double lambda = cst_penalty_grid_at(grid, p);
        memset(coefficients, 0, (size_t)s->columns * sizeof *coefficients);
        double intercept = s->target_mean;
        for (size_t j = 0; j < k; j++) {
            double w = 0;
            for (size_t i = 0; i < k; i++)
                w += e->vectors[j * k + i] * e->cross[i] / (e->values[i] + lambda);
            w /= s->scale[j];
            coefficients[s->index[j]] = w;
            intercept -= w * s->mean[j];
        }
        losses[p] += cst_moments_loss(moments, fold, coefficients, intercept, NULL);
        CST_TRY(cst_poll(context));
    }
    return CST_OK;
}

static int32_t least(const double *losses, int32_t count) {
    int32_t best = 0;
    for (int32_t p = 1; p < count; p++)
        if (losses[p] <= losses[best])
            best = p;
    return best;
}

cst_status cst_penalty_cv(cst_context *context, const cst_moments *moments,
                          const cst_penalty_grid *grid, double *lambda, double *losses) {
    CST_TRY(check_grid(context, grid));
    if (moments->folds < 2)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cross-validation of the penalty needs at least two folds, but there is %d",
                        (int)moments->folds);
    size_t d = (size_t)moments->columns;
    double rows = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sums, grid->points);
    CST_NEW(context, scope, double, coefficients, d);
    for (int32_t f = 0; f < moments->folds; f++) {
        CST_SCOPE(fold);
        cst_standardised s;
        cst_spectrum e;
        CST_TRY(cst_standardise_in(context, fold, moments, f, &s));
        CST_TRY(cst_spectrum_compute(context, &s, CST_NOISE_MEDIAN, &e));
        cst_status status = add_fold_losses(context, moments, f, &s, &e, grid, coefficients, sums);
        cst_spectrum_free(context, &e);
        CST_TRY(status);
    }
    memset(coefficients, 0, d * sizeof *coefficients);
    (void)cst_moments_loss(moments, -1, coefficients, 0, &rows);
    *lambda = cst_penalty_grid_at(grid, least(sums, grid->points));
    for (int32_t p = 0; losses && p < grid->points; p++)
        losses[p] = sums[p] / rows;
    return CST_OK;
}

/* ---- closed forms ---- */

/* Sums over eigenvalues at one penalty, per row: residual |y - Xw|^2/n, norm |w|^2, the effective
 * parameters and the derivatives of residual and parameters in lambda. */
typedef struct fit_sums {
    double residual;
    double norm;
    double effective;
    double residual_slope;
    double effective_slope;
} fit_sums;

static fit_sums sums_at(const cst_standardised *s, const cst_spectrum *e, double lambda) {
    fit_sums f = {.residual = s->target_square};
    for (int32_t i = 0; i < s->kept; i++) {
        double value = e->values[i];
        double shrunk = value + lambda;
        double w = e->cross[i] / shrunk;
        f.residual -= w * w * (value + 2 * lambda);
        f.norm += w * w;
        f.effective += value / shrunk;
        f.residual_slope += 2 * lambda * w * w / shrunk;
        f.effective_slope -= value / (shrunk * shrunk);
    }
    f.residual = fmax(f.residual, 0);
    return f;
}

double cst_penalty_gcv_score(const cst_standardised *standardised, const cst_spectrum *spectrum,
                             double lambda) {
    fit_sums f = sums_at(standardised, spectrum, lambda);
    double free_part = 1 - (f.effective + 1) / standardised->rows;
    return free_part > 0 ? f.residual / (free_part * free_part) : HUGE_VAL;
}

/* Sign of the GCV score's derivative: residual' free - 2 residual free'. */
static double gcv_slope(const cst_standardised *s, const cst_spectrum *e, double lambda) {
    fit_sums f = sums_at(s, e, lambda);
    double free_part = 1 - (f.effective + 1) / s->rows;
    double free_slope = -f.effective_slope / s->rows;
    return f.residual_slope * free_part - 2 * f.residual * free_slope;
}

double cst_penalty_gcv(const cst_standardised *standardised, const cst_spectrum *spectrum,
                       const cst_penalty_grid *grid) {
    int32_t best = 0;
    double score = HUGE_VAL;
    for (int32_t p = 0; p < grid->points; p++) {
        double at = cst_penalty_gcv_score(standardised, spectrum, cst_penalty_grid_at(grid, p));
        if (at <= score) {
            score = at;
            best = p;
        }
    }
    double low = log(cst_penalty_grid_at(grid, best - 1));
    double high = log(cst_penalty_grid_at(grid, best + 1));
    if (!(gcv_slope(standardised, spectrum, exp(low)) < 0) ||
        !(gcv_slope(standardised, spectrum, exp(high)) > 0))
        return cst_penalty_grid_at(grid, best);
    for (int i = 0; i < MAX_BISECTIONS && high - low > 1e-14; i++) {
        double middle = 0.5 * (low + high);
        if (gcv_slope(standardised, spectrum, exp(middle)) < 0)
            low = middle;
        else
            high = middle;
    }
    return exp(0.5 * (low + high));
}

double cst_penalty_log_evidence(const cst_standardised *standardised, const cst_spectrum *spectrum,
                                double lambda) {
    fit_sums f = sums_at(standardised, spectrum, lambda);
    double penalised = fmax(f.residual + lambda * f.norm, 1e-300);
    double volume = 0;
    for (int32_t i = 0; i < standardised->kept; i++)
        volume += log(lambda / (spectrum->values[i] + lambda));
    return 0.5 * volume - 0.5 * fmax(standardised->rows - 1, 0) * log(penalised);
}

double cst_penalty_evidence(const cst_standardised *standardised, const cst_spectrum *spectrum,
                            const cst_penalty_grid *grid) {
    double n = standardised->rows;
    double best = grid->high;
    double evidence = -HUGE_VAL;
    for (int32_t p = 0; p < grid->points; p++) {
        double at = cst_penalty_grid_at(grid, p);
        double value = cst_penalty_log_evidence(standardised, spectrum, at);
        if (value >= evidence) {
            evidence = value;
            best = at;
        }
    }
    double lambda = best;
    for (int i = 0; i < MAX_FIXED_POINT_STEPS; i++) {
        fit_sums f = sums_at(standardised, spectrum, lambda);
        double next = grid->low; /* no noise is left */
        if (f.residual > 0 && f.norm > 0) {
            double alpha = f.effective / f.norm;
            double beta = (n - 1 - f.effective) / (n * f.residual);
            next = beta > 0 ? alpha / (n * beta) : grid->low;
        } else if (f.residual > 0)
            next = grid->high; /* no signal */
        if (!(next > grid->low))
            next = grid->low;
        if (next > grid->high)
            next = grid->high;
        bool still = fabs(next - lambda) <= 1e-13 * lambda;
        lambda = next;
        if (still)
            break;
    }
    return cst_penalty_log_evidence(standardised, spectrum, lambda) >= evidence ? lambda : best;
}

/* ---- by rule ---- */

double cst_penalty_of_star(double star, cst_penalty_scale scale, double rows) {
    return scale == CST_SCALE_SUM ? star / rows : star;
}

static void describe(const cst_spectrum *spectrum, cst_penalty *out) {
    out->sigma2 = spectrum->sigma2;
    out->mp_edge = spectrum->mp_edge;
    out->snr = spectrum->snr;
}

/* GCV or the evidence, by the whole spectrum of the design. */
static cst_status closed_form(cst_context *context, const cst_standardised *standardised,
                              const cst_penalty_options *options, cst_penalty *out) {
    cst_spectrum design;
    CST_TRY(cst_spectrum_compute(context, standardised, options->noise, &design));
    out->lambda = options->rule == CST_PENALTY_EVIDENCE
                      ? cst_penalty_evidence(standardised, &design, &options->grid)
                      : cst_penalty_gcv(standardised, &design, &options->grid);
    if (options->of == CST_SPECTRUM_META)
        describe(&design, out);
    cst_spectrum_free(context, &design);
    return CST_OK;
}

cst_status cst_penalty_choose(cst_context *context, const cst_moments *moments,
                              const cst_standardised *standardised,
                              const cst_spectrum_members *members,
                              const cst_penalty_options *options, cst_penalty *out) {
    bool oof = options->of == CST_SPECTRUM_OOF;
    bool star = options->rule == CST_PENALTY_STAR;
    cst_spectrum spectrum = {0};
    cst_status grid = check_grid(context, &options->grid);
    if (options->rule < CST_PENALTY_STAR || options->rule > CST_PENALTY_EVIDENCE)
        return cst_fail(context, CST_ERROR_ARGUMENT, "penalty rule %d does not exist",
                        (int)options->rule);
    CST_TRY(grid);
    cst_status status = CST_OK;
    if (oof)
        status = cst_spectrum_of_members(context, standardised, members, options->noise, &spectrum);
    else if (star || options->rule == CST_PENALTY_CV)
        status = cst_spectrum_values(context, standardised, options->noise, &spectrum);
    double lambda_star = spectrum.lambda_star;
    if (spectrum.values)
        describe(&spectrum, out);
    cst_spectrum_free(context, &spectrum);
    CST_TRY(status);
    if (options->rule == CST_PENALTY_CV)
        return cst_penalty_cv(context, moments, &options->grid, &out->lambda, NULL);
    if (star && isfinite(lambda_star)) {
        out->lambda = cst_penalty_of_star(lambda_star, options->scale, standardised->rows);
        return CST_OK;
    }
    CST_TRY(closed_form(context, standardised, options, out));
    if (star)
        cst_notice(context,
                   "the spectrum of the %s has no finite signal-to-noise ratio (%g), so the "
                   "penalty is chosen by generalised cross-validation",
                   oof ? "out-of-fold columns" : "meta-design", out->snr);
    return CST_OK;
}

cst_status cst_penalties_compute(cst_context *context, const cst_moments *moments,
                                 const cst_standardised *standardised, const cst_spectrum *spectrum,
                                 const cst_penalty_grid *grid, cst_penalties *out) {
    CST_TRY(check_grid(context, grid));
    out->star = spectrum->lambda_star;
    out->gcv = cst_penalty_gcv(standardised, spectrum, grid);
    out->evidence = cst_penalty_evidence(standardised, spectrum, grid);
    out->cv = (double)NAN;
    return moments->folds < 2 ? CST_OK : cst_penalty_cv(context, moments, grid, &out->cv, NULL);
}
