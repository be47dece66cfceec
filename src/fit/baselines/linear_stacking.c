/* Linear stacking: ridge, lasso and elastic net of the class indicators on the members'
 * probabilities, one coefficient a member for all classes. */
#include "fit/baselines/baselines.h"

#include "method/linear/linear.h"
#include "method/linear/penalty.h"

#include <string.h>

static const double L1_RATIO = 0.5; /* of the elastic net */
static const double PATH_LOW = 1e-6;
enum { PATH_POINTS = 61 };

typedef struct linear_fit {
    cst_moments moments;
    cst_standardised standardised;
    cst_linear linear;
} linear_fit;

static cst_status choose_lambda(cst_context *context, const cst_moments *moments,
                                cst_linear_kind kind, double *lambda) {
    cst_penalty_grid grid = cst_penalty_grid_default();
    if (kind == CST_LINEAR_RIDGE)
        return cst_penalty_cv(context, moments, &grid, lambda, NULL);
    return cst_linear_path_cv(context, moments, kind, L1_RATIO, PATH_LOW, PATH_POINTS, lambda, NULL,
                              NULL);
}

static cst_status fit(cst_context *context, const cst_baseline_data *data, linear_fit *f,
                      cst_baseline_fit *out) {
    cst_linear_kind kind = (cst_linear_kind)out->baseline->variant;
    cst_gate gate = {.mode = CST_GATE_NONE, .inputs = data->view->members};
    double lambda = 0;
    CST_TRY(cst_moments_compute(context, data->view, &gate, data->folds, data->fold_count,
                                &f->moments));
    CST_TRY(choose_lambda(context, &f->moments, kind, &lambda));
    CST_TRY(cst_standardise(context, &f->moments, -1, &f->standardised));
    CST_TRY(cst_linear_fit(context, &f->standardised, kind, lambda, L1_RATIO, &f->linear));
    memcpy(out->weights, f->linear.coefficients, (size_t)out->members * sizeof *out->weights);
    out->intercept = f->linear.intercept;
    (void)cst_snprintf(out->detail, sizeof out->detail, "lambda %.4g, intercept %.4g", lambda,
                       out->intercept);
    return CST_OK;
}

cst_status cst_fit_linear(cst_context *context, const cst_baseline_data *data,
                          cst_baseline_fit *out) {
    linear_fit f = {0};
    cst_status status = fit(context, data, &f, out);
    cst_linear_free(context, &f.linear);
    cst_standardised_free(context, &f.standardised);
    cst_moments_free(context, &f.moments);
    return status;
}
