/* Variance and stability of weights, on the split and by the paper. docs/bounds.md. */
#include "fit/bounds/bound.h"
#include "fit/bounds/spectral.h"
#include "fit/document.h"
#include "method/blend/blend.h"
#include "model/stack.h"

#include <math.h>
#include <string.h>

/* The stack's members as what is blended. */
typedef struct blending {
    cst_view view;
    double *covariance;   /* [members][members]: of the residuals y_ic - p_ic */
    double *optimum;      /* [members] */
    double *weights;      /* [members] */
    double *values;       /* [members] */
    double *nll;          /* [members], total */
    cst_metrics *metrics; /* [members] */
} blending;

/* definite: of a positive definite covariance, as the statements assume. */
static void put_rule(cst_report *report, json_t *object, const blending *b, const char *name,
                     const cst_variance_facts *facts, double claimed, bool definite) {
    json_t *rule = cst_report_object(report, object, name);
    CST_PUT(report, rule, CST_N("variance", facts->value),
            CST_N("gap", definite ? facts->gap : NAN), CST_N("claimed", definite ? claimed : NAN));
    cst_report_flag_where(report, rule, "holds", definite,
                          facts->gap <= claimed * (1 + 1e-9) + 1e-15);
    cst_report_numbers(report, rule, "weights", b->weights, b->view.members);
}

/* Nats by which the second best member's total loss is above the best one's. */
static double lead(const double *nll, int32_t count) {
    double best = INFINITY;
    double second = INFINITY;
    for (int32_t m = 0; m < count; m++) {
        second = fmin(second, fmax(nll[m], best));
        best = fmin(best, nll[m]);
    }
    return second - best;
}

/* The least variance and its weights, unless the covariance is singular. */
static void put_minimum(cst_context *context, cst_report *report, json_t *object, const blending *b,
                        const cst_variance_facts *facts, const cst_spectral_facts *spectrum) {
    int32_t count = b->view.members;
    bool definite = spectrum->null == 0;
    if (!definite)
        cst_notice(context,
                   "the lowest variance of a blend is not reported: it needs a positive definite "
                   "covariance of the members' residuals, and this one is singular (rank %d of %d)",
                   count - spectrum->null, count);
    CST_PUT(report, object, CST_N("minimum", definite ? facts->minimum : NAN),
            CST_N("best", facts->best));
    cst_report_flag_where(report, object, "mixture", definite, facts->inside);
    if (definite)
        cst_report_numbers(report, object, "weights", b->optimum, count);
    else
        cst_report_number(report, object, "weights", NAN);
    cst_report_number(report, object, "largest", spectrum->largest);
}

static cst_status blend(cst_context *context, blending *b, cst_report *report) {
    int32_t count = b->view.members;
    cst_variance_facts inverse;
    cst_variance_facts laplace;
    cst_spectral_facts spectrum;
    CST_TRY(cst_residual_moments(context, &b->view, b->covariance));
    CST_TRY(
        cst_spectral_facts_of(context, b->covariance, count, NULL, count, b->values, &spectrum));
    CST_TRY(cst_member_metrics(context, &b->view, b->metrics));
    CST_TRY(cst_blend_inverse_rmse(context, &b->view, b->weights));
    CST_TRY(cst_variance_facts_of(context, count, b->covariance, b->weights, b->optimum, &inverse));
    json_t *object = cst_report_object(report, cst_report_root(report), "blending");
    bool definite = spectrum.null == 0;
    put_minimum(context, report, object, b, &inverse, &spectrum);
    put_rule(report, object, b, "inverse_rmse", &inverse, inverse.bound, definite);
    for (int32_t m = 0; m < count; m++)
        b->nll[m] = b->metrics[m].nll * (double)b->view.rows;
    CST_TRY(cst_blend_laplace(context, count, b->nll, NULL, 1, 1, b->weights));
    CST_TRY(cst_variance_facts_of(context, count, b->covariance, b->weights, b->optimum, &laplace));
    double nats = lead(b->nll, count);
    put_rule(report, object, b, "laplace", &laplace, spectrum.largest * exp(-2 * nats), definite);
    cst_report_number(report, object, "lead", nats);
    return CST_OK;
}

cst_status cst_bound_blending(cst_context *context, const cst_bound_work *work,
                              cst_report *report) {
    blending b;
    CST_SCOPE(scope);
    CST_TRY(cst_bound_view(context, scope, work, work->split, &b.view));
    size_t members = (size_t)b.view.members;
    CST_TAKE(context, scope, b.covariance, members * members);
    CST_TAKE(context, scope, b.optimum, members);
    CST_TAKE(context, scope, b.weights, members);
    CST_TAKE(context, scope, b.values, members);
    CST_TAKE(context, scope, b.nll, members);
    CST_TAKE(context, scope, b.metrics, members);
    return blend(context, &b, report);
}

/* The regression has this many (sample, class) rows at most: samples at equal distances. */
enum { DESIGN_ROWS = 20000, FOLDS = 5 };

static const double SIZES[] = {0.01, 0.1, 1}; /* of the paper's precondition */
enum { SIZE_COUNT = sizeof SIZES / sizeof SIZES[0] };

/* Ridge of the labels on the members' probabilities. */
typedef struct design {
    int64_t samples;
    int64_t rows;    /* samples times classes */
    int32_t columns; /* members */
    double lambda;   /* 1% of the mean eigenvalue of X'X */
    int32_t folds;   /* FOLDS, fewer where there are fewer samples */
    int32_t *fold;   /* [rows]: of sample i, i % folds */
    double *x;       /* [rows][columns] */
    double *y;       /* [rows] */
    double *moved_x;
    double *moved_y;
} design;

static cst_status design_take(cst_context *context, cst_scope *scope, const cst_view *view,
                              design *d) {
    int64_t classes = view->classes;
    int64_t most = DESIGN_ROWS / classes > FOLDS ? DESIGN_ROWS / classes : FOLDS;
    d->samples = view->rows < most ? view->rows : most;
    d->folds = d->samples < FOLDS ? (int32_t)d->samples : FOLDS;
    d->rows = d->samples * classes;
    d->columns = view->members;
    size_t rows = (size_t)d->rows;
    size_t cells = rows * (size_t)d->columns;
    CST_TAKE(context, scope, d->fold, rows);
    CST_TAKE(context, scope, d->x, cells);
    CST_TAKE(context, scope, d->y, rows);
    CST_TAKE(context, scope, d->moved_x, cells);
    CST_TAKE(context, scope, d->moved_y, rows);
    return CST_OK;
}

static cst_status design_read(cst_context *context, const cst_view *view, design *d) {
    size_t classes = (size_t)view->classes;
    size_t columns = (size_t)d->columns;
    double trace = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, positions, d->samples);
    CST_NEW(context, scope, float, p, d->rows);
    for (int64_t i = 0; i < d->samples; i++) {
        positions[i] = view->rows / d->samples * i + view->rows % d->samples * i / d->samples;
        for (size_t c = 0; c < classes; c++) {
            d->fold[(size_t)i * classes + c] = (int32_t)(i % d->folds);
            d->y[(size_t)i * classes + c] =
                cst_view_label(view, positions[i]) == (int32_t)c ? 1 : 0;
        }
    }
    for (int32_t k = 0; k < d->columns; k++) {
        CST_TRY(cst_view_gather(context, view, k, positions, d->samples, p));
        for (size_t r = 0; r < (size_t)d->rows; r++) {
            d->x[r * columns + (size_t)k] = (double)p[r];
            trace += (double)p[r] * (double)p[r];
        }
    }
    d->lambda = 0.01 * trace / d->columns;
    return CST_OK;
}

/* Fills moved with v and normal noise of the given Euclidean norm. */
static void plant(cst_rng *rng, const double *v, int64_t count, double norm, double *moved) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        moved[i] = cst_rng_normal(rng);
        sum += moved[i] * moved[i];
    }
    double scale = sum > 0 ? norm / sqrt(sum) : 0;
    for (int64_t i = 0; i < count; i++)
        moved[i] = v[i] + scale * moved[i];
}

static double norm_of(const double *v, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += v[i] * v[i];
    return sqrt(sum);
}

/* Noise in probabilities and targets, by Frobenius norms, no smaller than spectral ones. */
static cst_status move(cst_context *context, const cst_bound_work *work, design *d,
                       cst_report *report, json_t *list) {
    int64_t cells = d->rows * d->columns;
    double norm_x = norm_of(d->x, cells);
    double norm_y = norm_of(d->y, d->rows);
    for (int s = 0; s < SIZE_COUNT; s++) {
        cst_rng rng;
        cst_ridge_stability out;
        double share = SIZES[s] * d->lambda / (4 * norm_x * norm_x); /* of |X| and of |y| */
        cst_rng_init(&rng, work->seed, CST_STREAM_PLANTED, (uint32_t)s);
        plant(&rng, d->x, cells, share * norm_x, d->moved_x);
        plant(&rng, d->y, d->rows, share * norm_y, d->moved_y);
        CST_TRY(cst_ridge_stability_of(context, d->rows, d->columns, d->x, d->y, d->moved_x,
                                       d->moved_y, d->lambda, &out));
        json_t *item = cst_report_add_object(report, list);
        CST_PUT(report, item, CST_N("size", share), CST_N("change", out.change),
                CST_N("claimed", out.paper), CST_N("bound", out.sharp),
                CST_B("precondition", out.precondition), CST_B("holds", out.change <= out.paper));
    }
    return CST_OK;
}

static cst_status leave_out(cst_context *context, design *d, cst_report *report, json_t *object) {
    cst_fold_stability out;
    CST_TRY(cst_fold_stability_of(context, d->rows, d->columns, d->x, d->y, d->fold, d->folds,
                                  d->lambda, &out));
    json_t *folds = cst_report_object(report, object, "folds");
    CST_PUT(report, folds, CST_I("count", d->folds), CST_N("change", out.change),
            CST_N("claimed", out.claimed), CST_N("ratio", out.ratio),
            CST_B("holds", !(out.ratio > 1))); /* NaN: 0 <= 0 throughout */
    return CST_OK;
}

cst_status cst_bound_stability(cst_context *context, const cst_bound_work *work,
                               cst_report *report) {
    cst_view view;
    design d = {0};
    CST_SCOPE(scope);
    CST_TRY(cst_bound_view(context, scope, work, work->split, &view));
    CST_TRY(design_take(context, scope, &view, &d));
    CST_TRY(design_read(context, &view, &d));
    json_t *object = cst_report_object(report, cst_report_root(report), "stability");
    CST_PUT(report, object, CST_I("samples", d.samples), CST_N("lambda", d.lambda));
    CST_TRY(move(context, work, &d, report, cst_report_list(report, object, "perturbations")));
    return leave_out(context, &d, report, object);
}
