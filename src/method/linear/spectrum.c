/* Eigenvalues of the normalised Gram, the Marchenko-Pastur edge, the SNR and lambda*. */
#include "core/la.h"
#include "method/linear/moments.h"

#include <math.h>
#include <string.h>

enum { MAX_ITERATIONS = 1000 };

void cst_spectrum_free(cst_context *context, cst_spectrum *spectrum) {
    (void)context;
    cst_scope_free(&spectrum->scope);
    *spectrum = (cst_spectrum){0};
}

/* Median of the lower half of values[0..count), ascending; of the one value if there is one. */
static double lower_half_median(const double *values, int32_t count) {
    int32_t half = count / 2 > 1 ? count / 2 : 1;
    int32_t middle = half / 2;
    return half % 2 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

/* `forced` zero eigenvalues come from having fewer rows than columns and belong to the bulk. */
static double bulk_mean(const double *values, int32_t count, int32_t forced, double gamma,
                        double start) {
    double edge_factor = (1 + sqrt(gamma)) * (1 + sqrt(gamma));
    double sigma2 = start;
    int32_t before = -1;
    for (int32_t i = 0; i < MAX_ITERATIONS; i++) {
        double sum = 0;
        int32_t inside = 0;
        while (inside < count && values[inside] <= sigma2 * edge_factor)
            sum += values[inside++];
        if (inside == before || inside == 0)
            break;
        before = inside;
        sigma2 = sum / (double)(inside + forced);
    }
    return sigma2;
}

/* From the eigenvalues as they were found. */
static void describe(cst_spectrum *s, cst_noise_rule rule) {
    int32_t k = s->columns;
    for (int32_t i = 0; i < k; i++)
        s->values[i] = s->values[i] < 0 ? 0 : s->values[i];
    double largest = s->values[k - 1];
    int32_t null = 0;
    while (null < k - 1 && s->values[null] < CST_SPECTRUM_NULL * largest)
        null++;
    const double *values = s->values + null; /* those that are not null */
    int32_t count = k - null;
    s->gamma = (double)k / s->rows;
    s->kappa = largest / values[0];
    s->sigma2 = lower_half_median(values, count);
    if (rule == CST_NOISE_BULK) {
        double short_by = (double)k - (s->rows - 1);
        int32_t forced = short_by > 0 ? (int32_t)fmin(short_by, (double)null) : 0;
        s->sigma2 = bulk_mean(values, count, forced, s->gamma, s->sigma2);
    }
    s->mp_edge = s->sigma2 * (1 + sqrt(s->gamma)) * (1 + sqrt(s->gamma));
    double signal = 0;
    double noise = 0;
    for (int32_t i = 0; i < k; i++) {
        if (s->values[i] > s->mp_edge) {
            signal += s->values[i];
            s->above++;
        } else {
            noise += s->values[i];
        }
    }
    if (values[0] > s->mp_edge) {
        s->above--;
        signal -= values[0];
        noise += values[0];
    }
    s->snr = noise > 0 ? signal / noise : HUGE_VAL;
    s->lambda_star = s->snr > 0 && isfinite(s->snr) ? largest / s->snr : (double)NAN;
}

/* values, and with vectors those and cross. */
static cst_status decompose(cst_context *context, const cst_standardised *standardised,
                            bool vectors, cst_spectrum *out) {
    size_t k = (size_t)standardised->kept;
    CST_SCOPE(scope);
    CST_LA();
    CST_TAKE(context, &out->scope, out->values, k);
    if (vectors) {
        CST_TAKE(context, &out->scope, out->vectors, k * k);
        CST_TAKE(context, &out->scope, out->cross, k);
        memcpy(out->vectors, standardised->gram, k * k * sizeof *out->vectors);
        CST_TRY(cst_eigh(context, (int64_t)k, out->vectors, out->values));
        for (size_t j = 0; j < k; j++)
            for (size_t i = 0; i < k; i++)
                out->cross[i] += out->vectors[j * k + i] * standardised->cross[j];
        return CST_OK;
    }
    CST_NEW(context, scope, double, gram, (k * k));
    memcpy(gram, standardised->gram, k * k * sizeof *gram);
    return cst_eigh_values(context, (int64_t)k, gram, out->values);
}

static cst_status compute(cst_context *context, const cst_standardised *standardised,
                          cst_noise_rule rule, bool vectors, cst_spectrum *out) {
    *out = (cst_spectrum){.columns = standardised->kept, .rows = standardised->rows};
    cst_status status = decompose(context, standardised, vectors, out);
    if (status == CST_OK)
        describe(out, rule);
    else
        cst_spectrum_free(context, out);
    return status;
}

cst_status cst_spectrum_compute(cst_context *context, const cst_standardised *standardised,
                                cst_noise_rule rule, cst_spectrum *out) {
    return compute(context, standardised, rule, true, out);
}

cst_status cst_spectrum_values(cst_context *context, const cst_standardised *standardised,
                               cst_noise_rule rule, cst_spectrum *out) {
    return compute(context, standardised, rule, false, out);
}

cst_status cst_spectrum_of_members(cst_context *context, const cst_standardised *standardised,
                                   const cst_spectrum_members *members, cst_noise_rule rule,
                                   cst_spectrum *out) {
    size_t width = (size_t)standardised->kept;
    size_t k = 0; /* a design's columns keep their order: those of the members come first */
    while (k < width && standardised->index[k] < members->count)
        k++;
    *out = (cst_spectrum){0};
    if (k == 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "every kept member gives the same prediction for every sample, so there is "
                        "no spectrum of the out-of-fold columns");
    cst_standardised part = {.kept = (int32_t)k, .rows = standardised->rows / members->classes};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, part.gram, k * k);
    for (size_t j = 0; j < k; j++)
        memcpy(part.gram + j * k, standardised->gram + j * width, k * sizeof *part.gram);
    return cst_spectrum_values(context, &part, rule, out);
}
