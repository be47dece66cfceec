/*
 * Figures of clusters and spectra, and what the paper's propositions make of them. After stage S1.
 * Paper: appendix, "Spectral Preconditioning"; docs/bounds.md#the-papers-quantities.
 */
#include "fit/bounds/spectral.h"

#include "core/la.h"
#include "method/blend/blend.h"

#include <math.h>

/* ---- clusters ---- */

void cst_cluster_facts_of(const double *similarity, int32_t members, const int32_t *cluster_of,
                          cst_cluster_facts *out) {
    *out = (cst_cluster_facts){.members = members, .closest = 1, .aligned = true};
    for (int32_t a = 0; a < members; a++) {
        const double *row = similarity + (size_t)a * (size_t)members;
        const double *head = NULL; /* the row of the first member of the cluster */
        int32_t size = 0;
        for (int32_t b = 0; b < members; b++) {
            double value = fabs(row[b]);
            bool together = cluster_of[a] == cluster_of[b];
            size += together;
            if (together && !head)
                head = similarity + (size_t)b * (size_t)members;
            if (a == b)
                continue;
            if (together) {
                out->epsilon = fmax(out->epsilon, 1 - value);
                out->closest = fmin(out->closest, fmax(1 - value, 0));
                if (row[b] * head[a] * head[b] < 0)
                    out->aligned = false;
            } else {
                out->mu = fmax(out->mu, value);
            }
        }
        out->largest = size > out->largest ? size : out->largest;
        out->clusters = cluster_of[a] >= out->clusters ? cluster_of[a] + 1 : out->clusters;
    }
    out->incoherent = out->mu * (out->clusters - 1) < 1;
}

/* ---- spectra ---- */

#define NULL_SHARE 1e-10

static void put_discs(const double *matrix, size_t n, cst_spectral_facts *out) {
    out->disc_low = INFINITY;
    out->disc_high = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        double radius = 0;
        for (size_t j = 0; j < n; j++)
            radius += j == i ? 0 : fabs(matrix[i * n + j]);
        out->trace += matrix[i * n + i];
        out->disc_low = fmin(out->disc_low, matrix[i * n + i] - radius);
        out->disc_high = fmax(out->disc_high, matrix[i * n + i] + radius);
    }
}

static void put_values(const double *values, int32_t n, cst_spectral_facts *out) {
    out->largest = values[n - 1];
    out->least = fmax(values[0], 0);
    if (!(out->largest > 0)) {
        out->null = n;
        out->kappa = 1;
        return;
    }
    while (out->null < n - 1 && values[out->null] < NULL_SHARE * out->largest)
        out->null++;
    out->smallest = values[out->null];
    out->kappa = out->largest / out->smallest;
}

cst_status cst_spectral_facts_of(cst_context *context, const double *gram, int32_t members,
                                 const int32_t *subset, int32_t count, double *values,
                                 cst_spectral_facts *out) {
    int32_t n = subset ? count : members;
    *out = (cst_spectral_facts){.members = n};
    if (n < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT, "a spectrum needs at least one member");
    size_t width = (size_t)n;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, matrix, (width * width));
    for (size_t i = 0; i < width; i++)
        for (size_t j = 0; j < width; j++) {
            size_t from = subset ? (size_t)subset[i] : i;
            size_t to = subset ? (size_t)subset[j] : j;
            matrix[i * width + j] = gram[from * (size_t)members + to];
        }
    put_discs(matrix, width, out);
    CST_TRY(cst_eigh(context, n, matrix, values));
    put_values(values, n, out);
    return CST_OK;
}

double cst_kappa_lambda(const cst_spectral_facts *facts, double lambda) {
    return (facts->largest + lambda) / (facts->least + lambda);
}

double cst_effective_dimension(const double *values, int32_t count, double lambda) {
    double sum = 0;
    for (int32_t i = 0; i < count; i++) {
        double value = fmax(values[i], 0);
        sum += value / (value + lambda);
    }
    return sum;
}

/* ---- claims ---- */

/* Comparisons of computed eigenvalues with bounds that may be attained. */
static bool at_least(double value, double bound) {
    return value >= bound * (1 - 1e-9);
}

void cst_spectral_claims_of(const cst_cluster_facts *facts, const cst_spectral_facts *before,
                            const cst_spectral_facts *after, cst_spectral_claims *out) {
    double across = (facts->clusters - 1) * facts->mu;
    double within = 1 - facts->epsilon;
    *out = (cst_spectral_claims){.kappa_above = NAN,
                                 .kappa_below = NAN,
                                 .least_below = NAN,
                                 .largest_above = facts->largest * within,
                                 .ratio_above = facts->largest * within,
                                 .applies = facts->incoherent,
                                 .holds = {true, true, true},
                                 .proved = 1};
    if (facts->incoherent) {
        out->kappa_above = facts->largest * within / (1 - across);
        out->kappa_below = (1 + across) / (1 - across);
        out->least_below = 1 - across;
        out->holds[0] = at_least(before->kappa, out->kappa_above);
        out->holds[1] = at_least(out->kappa_below, after->kappa);
    }
    out->holds[2] = at_least(before->kappa / after->kappa, out->ratio_above);
    if (facts->largest > 1) {
        double pair = 2 - facts->closest; /* the larger eigenvalue of the closest two */
        double cluster = 1 + (facts->largest - 1) * within;
        out->proved = (facts->aligned ? fmax(pair, cluster) : pair) / facts->closest;
    }
}

double cst_kappa_reduction(const cst_cluster_facts *facts, const cst_spectral_facts *before,
                           const cst_spectral_facts *after, double lambda) {
    return (facts->largest - 1) * (1 - facts->epsilon) / (before->least + lambda) /
           (1 + lambda / after->least);
}

/* ---- variance of a blend ---- */

static double quadratic_form(int32_t n, const double *matrix, const double *v) {
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < n; j++)
            sum += v[i] * matrix[(size_t)i * (size_t)n + (size_t)j] * v[j];
    return sum;
}

cst_status cst_variance_facts_of(cst_context *context, int32_t count, const double *covariance,
                                 const double *weights, double *optimum, cst_variance_facts *out) {
    *out = (cst_variance_facts){.best = INFINITY, .inside = true};
    cst_spectral_facts spectrum;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, values, count);
    CST_TRY(cst_spectral_facts_of(context, covariance, count, NULL, count, values, &spectrum));
    CST_TRY(cst_blend_minimum_variance(context, count, covariance, true, optimum));
    double distance = 0;
    for (int32_t m = 0; m < count; m++) {
        distance += (weights[m] - optimum[m]) * (weights[m] - optimum[m]);
        out->inside = out->inside && optimum[m] >= 0;
        out->best = fmin(out->best, covariance[(size_t)m * (size_t)count + (size_t)m]);
    }
    out->minimum = quadratic_form(count, covariance, optimum);
    out->value = quadratic_form(count, covariance, weights);
    out->gap = out->value - out->minimum;
    out->bound = spectrum.largest * distance;
    return CST_OK;
}
