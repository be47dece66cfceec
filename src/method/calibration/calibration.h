/* Calibration maps, fitted on labelled rows. docs/baselines.md#calibration-maps. */
#pragma once

#include "core/base.h"
#include "core/scope.h"
#include "data/pool/view.h"

typedef enum cst_calibrator_kind {
    CST_CALIBRATOR_NONE = 0,
    CST_CALIBRATOR_TEMPERATURE = 1, /* softmax(log p / T), one T (Guo et al. 2017) */
    CST_CALIBRATOR_VECTOR = 2,      /* softmax(a_c log p_c + b_c) (Guo et al. 2017) */
    CST_CALIBRATOR_ISOTONIC = 3,    /* a monotone map for each class (Zadrozny and Elkan 2002) */
    CST_CALIBRATOR_PLATT = 4        /* a sigmoid for each class (Platt 1999; Lin et al. 2007) */
} cst_calibrator_kind;

/* A non-decreasing, piecewise linear function: y[i] at x[i], constant outside. */
typedef struct cst_isotonic {
    int64_t count; /* of knots, >= 1 */
    double *x;     /* [count], ascending */
    double *y;     /* [count], non-decreasing, in [0, 1] */
} cst_isotonic;

/* A fitted map. Free with cst_calibrator_free. */
typedef struct cst_calibrator {
    cst_calibrator_kind kind;
    int32_t classes;
    double temperature;  /* CST_CALIBRATOR_TEMPERATURE */
    double *slopes;      /* [classes]: CST_CALIBRATOR_VECTOR (a_c), CST_CALIBRATOR_PLATT */
    double *intercepts;  /* [classes]: CST_CALIBRATOR_VECTOR (b_c), CST_CALIBRATOR_PLATT */
    cst_isotonic *steps; /* [classes]: CST_CALIBRATOR_ISOTONIC */
    char detail[64];     /* what was fitted, for a reader: "T = 1.234" */
} cst_calibrator;

/* "temperature", "vector", "isotonic", "platt"; NULL for CST_CALIBRATOR_NONE and unknown kinds. */
const char *cst_calibrator_name(cst_calibrator_kind kind);
/* One sentence; NULL as above. */
const char *cst_calibrator_definition(cst_calibrator_kind kind);
/* The kind of a name; CST_CALIBRATOR_NONE where there is none. */
cst_calibrator_kind cst_calibrator_find(const char *name);

/* What a map is fitted to. */
typedef struct cst_labelled {
    const float *probabilities; /* [rows][classes] */
    int64_t rows;
    int32_t classes;
    const int32_t *labels; /* [rows], each 0..classes-1 */
    const double *weights; /* [rows]: how much each counts, which the temperature and vector scaling
                              inside a blend take; NULL: alike */
} cst_labelled;

/* CST_ERROR_INPUT with weights of a kind other than the temperature. *out is zeroed first and empty
 * after an error. */
cst_status cst_calibrator_fit(cst_context *context, cst_calibrator_kind kind,
                              const cst_labelled *data, cst_calibrator *out);

/* For a labelled view's rows, with their weights: probabilities [view->rows][classes]. */
cst_status cst_calibrator_fit_view(cst_context *context, cst_calibrator_kind kind,
                                   const cst_view *view, const float *probabilities,
                                   cst_calibrator *out);

/* Maps probabilities [rows][classes] in place; rows sum to 1 afterwards. */
cst_status cst_calibrator_apply(cst_context *context, const cst_calibrator *calibrator,
                                float *probabilities, int64_t rows);

/* For rows in double precision, [count][classes], without threads or memory. */
void cst_calibrator_rows(const cst_calibrator *calibrator, int64_t count, double *probabilities);

/* Fills `detail` from what is there. */
void cst_calibrator_describe(cst_calibrator *calibrator);

/* A temperature or vector scaling as [1 + 2 * classes] numbers, and back. */
void cst_calibrator_pack(const cst_calibrator *map, double *numbers);
cst_status cst_calibrator_unpack(cst_context *context, cst_calibrator_kind kind, int32_t classes,
                                 const double *numbers, cst_calibrator *out);

void cst_calibrator_free(cst_context *context, cst_calibrator *calibrator);
CST_OWNED(cst_calibrator)

/* Bounds of a fitted temperature; a fit that ends at one of them leaves a notice. */
#define CST_TEMPERATURE_LOW 0.01
#define CST_TEMPERATURE_HIGH 100.0

/* Prior and limit of a temperature. */
typedef struct cst_temperature_options {
    double prior; /* precision of a Gaussian prior on the inverse around 1, against the total NLL */
    double start; /* a temperature near the optimum, or 1 */
    double tolerance; /* the relative step that is the last */
} cst_temperature_options;

/* The temperature with the least mean NLL (p >= 1e-15). options: NULL for those of `temperature`.
 * *nll: the loss one step before; may be NULL. */
cst_status cst_temperature_fit(cst_context *context, const cst_labelled *data,
                               const cst_temperature_options *options, double *temperature,
                               double *nll);

/* softmax(log(max(p, 1e-15)) / temperature) in place; probabilities: [count][classes]. */
void cst_temperature_rows(double temperature, int64_t count, int32_t classes,
                          double *probabilities);

/* softmax of rows [count][classes] of scores in place. */
void cst_softmax_rows(int64_t count, int32_t classes, double *scores);

/* Precision of the Gaussian prior on a_c - 1 and b_c, against the total NLL: about one row. */
#define CST_VECTOR_PRIOR 1.0

/* Prior and limit of vector scaling. */
typedef struct cst_vector_options {
    double shrink;    /* precision of the slopes around their mean and of the intercepts around
                         0, which leaves a temperature; 0: CST_VECTOR_PRIOR, of the slopes
                         around 1 */
    double tolerance; /* half the squared decrement, in nats, from which on a step is not taken */
    const cst_calibrator *start; /* a map near the optimum; NULL: the identity */
} cst_vector_options;

/* Minimum of the NLL of softmax(slopes[c] * log(max(p_c, 1e-15)) + intercepts[c]) with the prior.
 * slopes, intercepts: [classes]. options: NULL for those of the map `vector`. */
cst_status cst_vector_fit(cst_context *context, const cst_labelled *data,
                          const cst_vector_options *options, double *slopes, double *intercepts);

/* A temperature or vector map of a blend: prior of precision 1 of the inverse around 1, slopes
 * shrunk to a temperature with precision 10. start: a map near it, or NULL. */
cst_status cst_calibrator_fit_shrunk(cst_context *context, cst_calibrator_kind kind,
                                     const cst_view *view, const float *probabilities,
                                     const cst_calibrator *start, cst_calibrator *out);

/* The map itself in place; probabilities: [count][classes]. */
void cst_vector_rows(const double *slopes, const double *intercepts, int64_t count, int32_t classes,
                     double *probabilities);

/* Least probability of an isotonic map before rows are normalised, so that no NLL is infinite. */
#define CST_ISOTONIC_FLOOR 1e-6

double cst_isotonic_value(const cst_isotonic *step, double x);

/* Log-odds are of probabilities in [this, 1 - this]: half of float32's spacing just below 1. */
#define CST_PLATT_FLOOR 0x1p-25

/* ---- L-BFGS whose first guess of the inverse Hessian is the caller's ---- */

typedef struct cst_descent {
    size_t size;      /* numbers of a point */
    size_t sums;      /* numbers that evaluate gives: the value, the gradient [size], and what solve
                         needs */
    double tolerance; /* a step that promises less is not taken */
    cst_status (*evaluate)(cst_context *context, void *user, const double *theta, double *sums);
    /* v [size] becomes about (inverse Hessian) v at the point with these sums. */
    void (*solve)(const void *user, const double *sums, double *v);
    void *user;
    const char *name; /* for the notice that it stopped early */
} cst_descent;

cst_status cst_descend(cst_context *context, const cst_descent *descent, double *theta);

/* ---- a scale of log-probabilities and biases of classes for each domain: docs/method.md#domains
 * ---- */

enum { CST_DOMAINS_MAX = 1 << 16 };

/* softmax(scale[d] * log(max(p, 1e-15)) + bias[d]) for a row of domain d. */
typedef struct cst_domain_map {
    cst_scope scope; /* of the arrays */
    int32_t classes;
    int32_t count;
    char **names;   /* [count], in the order of their bytes */
    int64_t *rows;  /* [count] that it was fitted on */
    double *scale;  /* [count] */
    double *bias;   /* [count][classes] */
    double *before; /* [count]: mean NLL of held-out predictions without the layer */
    double *after;  /* [count]: with a layer fitted without the row's fold */
} cst_domain_map;

typedef struct cst_domain_priors {
    double scale; /* precision of a scale around 1, against the total NLL */
    double bias;  /* precision of a bias around 0 */
} cst_domain_priors;

/* Fits on probabilities [view->rows][classes] of a labelled view's rows, with their weights; rows
 * without a domain are not used. `before` and `after` stay 0. *out is the caller's. */
cst_status cst_domain_map_fit(cst_context *context, const cst_view *view,
                              const float *probabilities, const cst_domain_priors *priors,
                              cst_domain_map **out);

/* Biases [classes] of rows without labels: with scale 1, the mean of softmax(log p + b) is the
 * shares [classes], as far as the prior of the biases allows (docs/prediction.md#label-shift).
 * probabilities: [rows][classes]. */
cst_status cst_domain_biases(cst_context *context, const float *probabilities, int64_t rows,
                             int32_t classes, const double *shares, double *bias);

/* Rows of domain d in place; probabilities: [count][classes]. Nothing where d is negative. */
void cst_domain_rows(const cst_domain_map *map, int32_t d, int64_t count, double *probabilities);

/* Places in the map of a view's domains, [domains->count], or -1. The caller frees *out. */
cst_status cst_domain_places(cst_context *context, const cst_domain_map *map,
                             const cst_domains *domains, int32_t **out);

/* The arrays of a map without names. Free with cst_domain_map_free, also after a failure. */
cst_status cst_domain_map_alloc(cst_context *context, int32_t count, int32_t classes,
                                cst_domain_map **out);
void cst_domain_map_free(cst_context *context, cst_domain_map *map);

/* ---- scores of a linear learner become probabilities: docs/method.md#s4-blend ---- */

typedef enum cst_probability_map {
    CST_PROBABILITY_CLIP = 0,    /* clip to [1e-6, 1], divide by the sum */
    CST_PROBABILITY_SIMPLEX = 1, /* nearest point of the simplex, then as above */
    CST_PROBABILITY_MIXTURE = 2, /* unchanged: the scores are a mixture of probabilities */
    CST_PROBABILITY_FINE = 3     /* clip to [1e-15, 1 - 1e-15], divide by the sum */
} cst_probability_map;

/* The smallest value before renormalising, which keeps logarithms finite. */
#define CST_PROBABILITY_FLOOR 1e-6
/* That of CST_PROBABILITY_FINE, and how far the largest is below 1. */
#define CST_PROBABILITY_FINE_FLOOR 1e-15

/* In place, row by row: scores [count][classes]. With one class (regression) nothing is changed. */
void cst_probability_rows(cst_probability_map map, int64_t count, int32_t classes, double *scores);

/* Euclidean projection of one row onto {p >= 0, sum p = 1}, in place. */
void cst_simplex_project(int32_t classes, double *row);
