/* The spectrum of the normalised Gram of the meta-design or of the members' columns in it, its
 * noise edge and the closed-form penalty lambda*. Paper: section "Spectrum-Adaptive
 * Regularization"; docs/method.md#s2-and-s3-gate-and-penalties. */
#ifndef CST_LEARNERS_SPECTRUM_H
#define CST_LEARNERS_SPECTRUM_H

#include "method/linear/moments.h"

/* How sigma^2, the noise level, is read off the spectrum. Eigenvalues below CST_SPECTRUM_NULL of
 * the largest are exact dependences, not noise, and left out of both rules; with fewer rows than
 * columns the second counts those that the missing rows force to zero. */
typedef enum cst_noise_rule {
    CST_NOISE_MEDIAN = 0, /* median of the lower half of the spectrum */
    CST_NOISE_BULK = 1    /* self-consistent: sigma^2 is the mean of the eigenvalues at or below
                             sigma^2 (1 + sqrt(gamma))^2 (Marchenko-Pastur), iterated from the first
                             rule until the set of eigenvalues no longer changes */
} cst_noise_rule;

#define CST_SPECTRUM_NULL 1e-10

/* Whose Gram matrix lambda* comes from. */
typedef enum cst_spectrum_of {
    CST_SPECTRUM_META = 0, /* of the meta-design, gamma = columns / its rows */
    CST_SPECTRUM_OOF = 1   /* of the kept members' out-of-fold columns, gamma = members / samples:
                              the paper */
} cst_spectrum_of;

/* The members' columns in a standardised design, which are its first. */
typedef struct cst_spectrum_members {
    int32_t count;   /* K_eff */
    int32_t classes; /* rows of the design for each sample; 1 in a regression */
} cst_spectrum_members;

typedef struct cst_spectrum {
    cst_scope scope; /* of the arrays */
    int32_t columns; /* k, of the standardised design */
    double rows;     /* n; of members' columns N */
    double *values;  /* [k], ascending, none below 0 */
    double *vectors; /* [k][k], row-major: column j belongs to values[j] */
    double *cross;   /* [k]: V'X'y/n, the target's correlations along the eigenvectors */
    double gamma;    /* k / n */
    double sigma2;
    double mp_edge;     /* tau_sp = sigma^2 (1 + sqrt(gamma))^2 */
    double snr;         /* sum above the edge / sum at or below it; infinity, or 0: no signal */
    double lambda_star; /* largest eigenvalue / snr; NaN where the snr is not finite and positive */
    double kappa;       /* largest / smallest eigenvalue that is not null */
    int32_t above;      /* eigenvalues above the edge */
} cst_spectrum;

/* *out is zeroed first; free with cst_spectrum_free. */
cst_status cst_spectrum_compute(cst_context *context, const cst_standardised *standardised,
                                cst_noise_rule rule, cst_spectrum *out);

/* Without vectors and cross, which are NULL, in less time. */
cst_status cst_spectrum_values(cst_context *context, const cst_standardised *standardised,
                               cst_noise_rule rule, cst_spectrum *out);

/* The values of the members' columns alone. CST_ERROR_INPUT where all of them are constant. */
cst_status cst_spectrum_of_members(cst_context *context, const cst_standardised *standardised,
                                   const cst_spectrum_members *members, cst_noise_rule rule,
                                   cst_spectrum *out);

void cst_spectrum_free(cst_context *context, cst_spectrum *spectrum);

#endif
