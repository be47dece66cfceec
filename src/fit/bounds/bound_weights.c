/*
 * Blending weights and their variance, and how far ridge weights move: on the split, beside what
 * the paper says of them. Parts of cst_bound. Paper: appendix, "Stability of Regularized
 * Meta-Learning" and "Optimal blending"; docs/bounds.md#the-papers-quantities.
 */
#include "fit/bounds/bound.h"
#include "fit/bounds/spectral.h"
#include "fit/document.h"
#include "method/blend/blend.h"
#include "model/stack.h"

#include <math.h>
#include <string.h>

/* ---- blending ---- */

/* The stack's members as what is blended. */
typedef struct blending {
    const float **pointers;
    cst_view view;
    double *covariance;   /* [members][members]: of the residuals y_ic - p_ic */
    double *optimum;      /* [members] */
    double *weights;      /* [members] */
    double *values;       /* [members] */
    double *nll;          /* [members], total */
    cst_metrics *metrics; /* [members] */
} blending;

static void blending_free(cst_context *context, blending *b) {
    cst_free(context, b->pointers);
    cst_free(context, b->covariance);
    cst_free(context, b->optimum);
    cst_free(context, b->weights);
    cst_free(context, b->values);
    cst_free(context, b->nll);
    cst_free(context, b->metrics);
}

static cst_status blending_alloc(cst_context *context, size_t members, blending *b) {
    b->covariance = cst_alloc(context, members * members, sizeof *b->covariance);
    b->optimum = cst_alloc(context, members, sizeof *b->optimum);
    b->weights = cst_alloc(context, members, sizeof *b->weights);
    b->values = cst_alloc(context, members, sizeof *b->values);
    b->nll = cst_alloc(context, members, sizeof *b->nll);
    b->metrics = cst_alloc(context, members, sizeof *b->metrics);
    return b->covariance && b->optimum && b->weights && b->values && b->nll && b->metrics
               ? CST_OK
               : CST_ERROR_MEMORY;
}

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

/* The least variance and its weights, which a singular covariance has not: what the inverse makes
 * of its null eigenvalues is rounding. */
static void put_minimum(cst_context *context, cst_report *report, json_t *object, const blending *b,
                        const cst_variance_facts *facts, const cst_spectral_facts *spectrum) {
    int32_t count = b->view.members;
    bool definite = spectrum->null == 0;
    if (!definite)
        cst_notice(context,
                   "the least variance of a blend is not reported: it needs a positive definite "
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
    cst_status status = cst_residual_moments(context, &b->view, b->covariance);
    CST_THEN(
        cst_spectral_facts_of(context, b->covariance, count, NULL, count, b->values, &spectrum));
    CST_THEN(cst_member_metrics(context, &b->view, b->metrics));
    CST_THEN(cst_blend_inverse_rmse(context, &b->view, b->weights));
    CST_THEN(
        cst_variance_facts_of(context, count, b->covariance, b->weights, b->optimum, &inverse));
    if (status != CST_OK)
        return status;
    json_t *object = cst_report_object(report, cst_report_root(report), "blending");
    bool definite = spectrum.null == 0;
    put_minimum(context, report, object, b, &inverse, &spectrum);
    put_rule(report, object, b, "inverse_rmse", &inverse, inverse.bound, definite);
    for (int32_t m = 0; m < count; m++)
        b->nll[m] = b->metrics[m].nll * (double)b->view.rows;
    status = cst_blend_laplace(context, count, b->nll, NULL, 1, 1, b->weights);
    CST_THEN(
        cst_variance_facts_of(context, count, b->covariance, b->weights, b->optimum, &laplace));
    if (status == CST_OK) {
        double nats = lead(b->nll, count);
        put_rule(report, object, b, "laplace", &laplace, spectrum.largest * exp(-2 * nats),
                 definite);
        cst_report_number(report, object, "lead", nats);
    }
    return status;
}

cst_status cst_bound_blending(cst_context *context, const cst_bound_work *work,
                              cst_report *report) {
    blending b = {0};
    cst_status status =
        cst_model_view(context, work->model, work->pool, work->split, &b.pointers, &b.view);
    CST_THEN(blending_alloc(context, (size_t)b.view.members, &b));
    CST_THEN(blend(context, &b, report));
    blending_free(context, &b);
    return status;
}

/* ---- stability ---- */

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

static void design_free(cst_context *context, design *d) {
    cst_free(context, d->fold);
    cst_free(context, d->x);
    cst_free(context, d->y);
    cst_free(context, d->moved_x);
    cst_free(context, d->moved_y);
}

static cst_status design_alloc(cst_context *context, const cst_view *view, design *d) {
    int64_t classes = view->classes;
    int64_t most = DESIGN_ROWS / classes > FOLDS ? DESIGN_ROWS / classes : FOLDS;
    d->samples = view->rows < most ? view->rows : most;
    d->folds = d->samples < FOLDS ? (int32_t)d->samples : FOLDS;
    d->rows = d->samples * classes;
    d->columns = view->members;
    size_t rows = (size_t)d->rows;
    size_t cells = rows * (size_t)d->columns;
    d->fold = cst_alloc(context, rows, sizeof *d->fold);
    d->x = cst_alloc(context, cells, sizeof *d->x);
    d->y = cst_alloc(context, rows, sizeof *d->y);
    d->moved_x = cst_alloc(context, cells, sizeof *d->moved_x);
    d->moved_y = cst_alloc(context, rows, sizeof *d->moved_y);
    return d->fold && d->x && d->y && d->moved_x && d->moved_y ? CST_OK : CST_ERROR_MEMORY;
}

static cst_status design_read(cst_context *context, const cst_view *view, design *d) {
    size_t classes = (size_t)view->classes;
    size_t columns = (size_t)d->columns;
    int64_t *positions = cst_alloc(context, (size_t)d->samples, sizeof *positions);
    float *p = cst_alloc(context, (size_t)d->rows, sizeof *p);
    cst_status status = positions && p ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t i = 0; status == CST_OK && i < d->samples; i++) {
        positions[i] = view->rows / d->samples * i + view->rows % d->samples * i / d->samples;
        for (size_t c = 0; c < classes; c++) {
            d->fold[(size_t)i * classes + c] = (int32_t)(i % d->folds);
            d->y[(size_t)i * classes + c] =
                cst_view_label(view, positions[i]) == (int32_t)c ? 1 : 0;
        }
    }
    double trace = 0;
    for (int32_t k = 0; status == CST_OK && k < d->columns; k++) {
        status = cst_view_gather(context, view, k, positions, d->samples, p);
        for (size_t r = 0; status == CST_OK && r < (size_t)d->rows; r++) {
            d->x[r * columns + (size_t)k] = (double)p[r];
            trace += (double)p[r] * (double)p[r];
        }
    }
    d->lambda = 0.01 * trace / d->columns;
    cst_free(context, positions);
    cst_free(context, p);
    return status;
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

/* Noise in the members' probabilities and in the targets. Norms are Frobenius norms, no smaller
 * than spectral ones, so that sizes up to 1 meet the precondition. */
static cst_status move(cst_context *context, const cst_bound_work *work, design *d,
                       cst_report *report, json_t *list) {
    int64_t cells = d->rows * d->columns;
    double norm_x = norm_of(d->x, cells);
    double norm_y = norm_of(d->y, d->rows);
    cst_status status = CST_OK;
    for (int s = 0; status == CST_OK && s < SIZE_COUNT; s++) {
        cst_rng rng;
        cst_ridge_stability out;
        double share = SIZES[s] * d->lambda / (4 * norm_x * norm_x); /* of |X| and of |y| */
        cst_rng_init(&rng, work->seed, CST_STREAM_PLANTED, (uint32_t)s);
        plant(&rng, d->x, cells, share * norm_x, d->moved_x);
        plant(&rng, d->y, d->rows, share * norm_y, d->moved_y);
        status = cst_ridge_stability_of(context, d->rows, d->columns, d->x, d->y, d->moved_x,
                                        d->moved_y, d->lambda, &out);
        json_t *item = status == CST_OK ? cst_report_add_object(report, list) : NULL;
        if (item) {
            CST_PUT(report, item, CST_N("size", share), CST_N("change", out.change),
                    CST_N("claimed", out.paper), CST_N("bound", out.sharp),
                    CST_B("precondition", out.precondition),
                    CST_B("holds", out.change <= out.paper));
        }
    }
    return status;
}

static cst_status leave_out(cst_context *context, design *d, cst_report *report, json_t *object) {
    cst_fold_stability out;
    cst_status status = cst_fold_stability_of(context, d->rows, d->columns, d->x, d->y, d->fold,
                                              d->folds, d->lambda, &out);
    if (status == CST_OK) {
        json_t *folds = cst_report_object(report, object, "folds");
        CST_PUT(report, folds, CST_I("count", d->folds), CST_N("change", out.change),
                CST_N("claimed", out.claimed), CST_N("ratio", out.ratio));
        cst_report_flag(report, folds, "holds", !(out.ratio > 1)); /* NaN: 0 <= 0 throughout */
    }
    return status;
}

cst_status cst_bound_stability(cst_context *context, const cst_bound_work *work,
                               cst_report *report) {
    const float **pointers = NULL;
    cst_view view;
    design d = {0};
    cst_status status =
        cst_model_view(context, work->model, work->pool, work->split, &pointers, &view);
    CST_THEN(design_alloc(context, &view, &d));
    CST_THEN(design_read(context, &view, &d));
    if (status == CST_OK) {
        json_t *object = cst_report_object(report, cst_report_root(report), "stability");
        CST_PUT(report, object, CST_I("samples", d.samples), CST_N("lambda", d.lambda));
        status = move(context, work, &d, report, cst_report_list(report, object, "perturbations"));
        CST_THEN(leave_out(context, &d, report, object));
    }
    design_free(context, &d);
    cst_free(context, pointers);
    return status;
}
