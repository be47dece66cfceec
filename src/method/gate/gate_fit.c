/* Training of the gate: the start, Adam with early stopping, and the result. */
#include "core/la.h"
#include "core/wide.h"
#include "method/gate/gate_training.h"

#include <math.h>
#include <string.h>

cst_gate_options cst_gate_options_default(void) {
    cst_gate_options options = {.mode = CST_GATE_LEARNED,
                                .hidden = 32,
                                .epochs = 60,
                                .batch_rows = 256,
                                .learning_rate = 1e-3,
                                .validation_fraction = 0.2,
                                .patience = 6,
                                .max_rows = 20000,
                                .max_parameters = 15000,
                                .l2 = 1e-4,
                                .seed = 0};
    return options;
}

/* ---- the start ---- */

/* Cholesky factor of a [d][d], its diagonal raised by as small a share as is needed: of values that
 * are thousands of times the target's deviation from 0, rounding is larger than the penalty. */
static cst_status raised_cholesky(cst_context *context, size_t d, const double *a, double *factor) {
    cst_status status = CST_ERROR_NUMERIC;
    for (double share = 0;
         status == CST_ERROR_NUMERIC && share<1; share = share> 0 ? 10 * share : 1e-14) {
        memcpy(factor, a, d * d * sizeof *factor);
        for (size_t j = 0; j < d; j++)
            factor[j * d + j] *= 1 + share;
        status = cst_cholesky(context, (int64_t)d, factor);
    }
    return status;
}

/* Rows whose products are added in one go over the triangle, which is then read less often. */
enum { TOGETHER = 8 };

/* gram += scaled row', of TOGETHER rows one after the other, lower triangle. x: [TOGETHER][d];
 * weight [TOGETHER]. */
CST_KERNEL(add_products,
           (size_t d, const double *restrict x, const double *restrict weight,
            double *restrict gram),
           (d, x, weight, gram)) {
    for (size_t a = 0; a < d; a++) {
        double *restrict to = gram + a * d;
        double s[TOGETHER];
        for (size_t r = 0; r < TOGETHER; r++)
            s[r] = weight[r] * x[r * d + a];
        for (size_t b = 0; b <= a; b++) {
            double sum = to[b];
            for (size_t r = 0; r < TOGETHER; r++)
                sum += s[r] * x[r * d + b];
            to[b] = sum;
        }
    }
}

/* Weighted sums of products over the training rows: of the columns (members, half the aggregates,
 * 1) with each other, lower triangle, and with the target. Each sum takes the rows in their order.
 * x: [TOGETHER][d]. */
static void add_training_rows(const cst_gate_training *t, double *x, double *gram, double *cross) {
    const cst_gate_problem *p = &t->problem;
    size_t k = (size_t)p->inputs;
    size_t d = k + CST_AGGREGATORS + 1;
    double weight[TOGETHER];
    double count = (double)(p->rows - t->held_rows);
    for (int64_t first = t->held_rows; first < p->rows; first += TOGETHER) {
        memset(x, 0, TOGETHER * d * sizeof *x);
        memset(weight, 0, sizeof weight);
        for (int64_t i = first; i < p->rows && i < first + TOGETHER; i++) {
            double *row = x + (size_t)(i - first) * d;
            memcpy(row, p->input + (size_t)i * k, k * sizeof *row);
            for (size_t j = 0; j < CST_AGGREGATORS; j++)
                row[k + j] = 0.5 * p->aggregate[(size_t)i * CST_AGGREGATORS + j];
            row[d - 1] = 1;
            weight[i - first] = p->weight[i] / count;
            for (size_t a = 0; a < d; a++)
                cross[a] += weight[i - first] * row[a] * p->target[i];
        }
        add_products(d, x, weight, gram);
    }
}

/* Random first layer (He), small second layer, so that g is about 1/2 everywhere; the head is the
 * ridge solution for g = 1/2, so that training starts from the best linear stack. */
static cst_status start(cst_context *context, const cst_gate_training *t, uint64_t seed,
                        double *theta) {
    const cst_gate_problem *p = &t->problem;
    cst_gate_layout at = cst_gate_layout_of(p->inputs, p->hidden);
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_GATE_INIT, 0);
    memset(theta, 0, at.count * sizeof *theta);
    for (size_t j = 0; j < at.b1; j++)
        theta[j] = sqrt(2.0 / (double)p->inputs) * cst_rng_normal(&rng);
    for (size_t j = at.w2; j < at.b2; j++)
        theta[j] = 0.1 * sqrt(1.0 / (double)p->hidden) * cst_rng_normal(&rng);
    size_t k = (size_t)p->inputs;
    size_t d = k + CST_AGGREGATORS + 1; /* the intercept last */
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, gram, (d * d));
    CST_NEW(context, scope, double, cross, d);
    CST_NEW(context, scope, double, rows, (TOGETHER * d));
    CST_NEW(context, scope, double, factor, (d * d));
    add_training_rows(t, rows, gram, cross);
    for (size_t j = 0; j < d; j++)
        gram[j * d + j] += j + 1 < d ? p->l2 + 1e-12 : 0;
    CST_TRY(raised_cholesky(context, d, gram, factor));
    cst_cholesky_solve((int64_t)d, factor, cross);
    memcpy(theta + at.head_members, cross, d * sizeof *theta);
    return CST_OK;
}

/* ---- Adam ---- */

typedef struct adam {
    size_t count;
    double rate;
    double decay1; /* product of beta1 so far */
    double decay2;
    double *first;  /* [count] */
    double *second; /* [count] */
} adam;

/* Kingma and Ba's constants. */
static void adam_step(adam *a, const double *gradient, double *theta) {
    const double beta1 = 0.9;
    const double beta2 = 0.999;
    const double epsilon = 1e-8;
    a->decay1 *= beta1;
    a->decay2 *= beta2;
    double rate = a->rate / (1 - a->decay1);
    double spread = 1 / sqrt(1 - a->decay2);
    for (size_t j = 0; j < a->count; j++) {
        a->first[j] = beta1 * a->first[j] + (1 - beta1) * gradient[j];
        a->second[j] = beta2 * a->second[j] + (1 - beta2) * gradient[j] * gradient[j];
        theta[j] -= rate * a->first[j] / (sqrt(a->second[j]) * spread + epsilon);
    }
}

/* Mean squared error on the held-out rows, without the penalty on the head. */
static cst_status held_out_loss(cst_context *context, const cst_gate_training *t,
                                const double *theta, double *loss) {
    cst_gate_problem p = t->problem;
    p.l2 = 0;
    return cst_gate_gradient(context, &p, NULL, t->held_rows, theta, NULL, loss);
}

/* Trains from `theta`, leaving the best of the epochs in `best`. */
static cst_status train(cst_context *context, const cst_gate_training *t,
                        const cst_gate_options *options, double *theta, double *best,
                        cst_gate *out) {
    size_t count = cst_gate_theta_count(t->problem.inputs, t->problem.hidden);
    int64_t rows = t->problem.rows - t->held_rows;
    adam a = {.count = count, .rate = options->learning_rate, .decay1 = 1, .decay2 = 1};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, a.first, count);
    CST_TAKE(context, scope, a.second, count);
    CST_NEW(context, scope, double, gradient, count);
    CST_NEW(context, scope, int64_t, order, rows);
    CST_TRY(held_out_loss(context, t, theta, &out->loss_start));
    memcpy(best, theta, count * sizeof *best);
    out->loss_best = out->loss_start;
    for (int64_t i = 0; i < rows; i++)
        order[i] = t->held_rows + i;
    for (int32_t worse = 0; out->epochs < options->epochs && worse < options->patience; worse++) {
        double loss = 0;
        cst_rng rng;
        cst_rng_init(&rng, options->seed, CST_STREAM_GATE_SHUFFLE, (uint32_t)out->epochs);
        cst_rng_shuffle(&rng, order, rows);
        for (int64_t i = 0; i < rows; i += options->batch_rows) {
            int64_t size = rows - i < options->batch_rows ? rows - i : options->batch_rows;
            CST_TRY(
                cst_gate_gradient(context, &t->problem, order + i, size, theta, gradient, &loss));
            adam_step(&a, gradient, theta);
        }
        CST_TRY(held_out_loss(context, t, theta, &loss));
        out->epochs++;
        if (loss < out->loss_best) {
            out->loss_best = loss;
            out->best_epoch = out->epochs;
            worse = -1;
            memcpy(best, theta, count * sizeof *best);
        }
        CST_TRY(cst_progress(context, "gate", out->epochs, options->epochs));
    }
    return CST_OK;
}

/* ---- the fit ---- */

static cst_status check(cst_context *context, const cst_view *view, int32_t best,
                        const cst_gate_options *o) {
    if (view->members < 1 || best < 0 || best >= view->members)
        return cst_fail(context, CST_ERROR_ARGUMENT, "best member %d of %d does not exist",
                        (int)best, (int)view->members);
    if (o->mode != CST_GATE_LEARNED)
        return o->mode == CST_GATE_NONE || o->mode == CST_GATE_PROTOTYPE
                   ? CST_OK
                   : cst_fail(context, CST_ERROR_ARGUMENT, "gate mode %d does not exist",
                              (int)o->mode);
    if (!view->targets && (!view->labels || view->classes < 2))
        return cst_fail(context, CST_ERROR_INPUT,
                        "a learned gate needs labels and at least two classes (there are %d): use "
                        "gate.mode=none or gate.mode=prototype",
                        (int)view->classes);
    if (o->hidden < 1 || o->epochs < 0 || o->batch_rows < 1 || o->patience < 1 || o->max_rows < 1 ||
        !(o->learning_rate > 0) || !(o->l2 >= 0) ||
        !(o->validation_fraction > 0 && o->validation_fraction < 1))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "gate options out of range: hidden %d, epochs %d, batch_rows %d, patience "
                        "%d, max_rows %lld, learning_rate %g, l2 %g, validation_fraction %g",
                        (int)o->hidden, (int)o->epochs, (int)o->batch_rows, (int)o->patience,
                        (long long)o->max_rows, o->learning_rate, o->l2, o->validation_fraction);
    int64_t parameters = cst_gate_parameter_count(view->members, o->hidden);
    if (parameters > o->max_parameters)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "a gate of %d members and %d hidden units has %lld parameters, more than "
                        "%d: keep fewer members or use fewer hidden units",
                        (int)view->members, (int)o->hidden, (long long)parameters,
                        (int)o->max_parameters);
    return CST_OK;
}

/* Copies the perceptron out of theta, in float32, with the inputs' standardisation folded in:
 * w (x - m)/s + b = (w/s) x + (b - w m/s). */
static cst_status store(cst_context *context, const cst_gate_training *t, const double *theta,
                        cst_gate *out) {
    size_t k = (size_t)t->problem.inputs;
    size_t h = (size_t)t->problem.hidden;
    cst_gate_layout at = cst_gate_layout_of(t->problem.inputs, t->problem.hidden);
    out->w1 = cst_alloc(context, k * h, sizeof *out->w1);
    out->b1 = cst_alloc(context, h, sizeof *out->b1);
    out->w2 = cst_alloc(context, CST_AGGREGATORS * h, sizeof *out->w2);
    out->b2 = cst_alloc(context, CST_AGGREGATORS, sizeof *out->b2);
    if (!out->w1 || !out->b1 || !out->w2 || !out->b2)
        return CST_ERROR_MEMORY;
    for (size_t j = 0; j < h; j++) {
        double constant = theta[at.b1 + j];
        for (size_t i = 0; i < k; i++) {
            double slope = theta[j * k + i] / t->scale[i];
            out->w1[j * k + i] = (float)slope;
            constant -= slope * t->mean[i];
        }
        out->b1[j] = (float)constant;
    }
    for (size_t j = 0; j < CST_AGGREGATORS * h; j++)
        out->w2[j] = (float)theta[at.w2 + j];
    for (size_t j = 0; j < CST_AGGREGATORS; j++)
        out->b2[j] = (float)theta[at.b2 + j];
    out->hidden = t->problem.hidden;
    return CST_OK;
}

/* Parameters times rows of a minibatch from which on threads share a step. */
static const double SHARED_FROM = 4e6;

static cst_status fit_perceptron(cst_context *context, const cst_view *view, int32_t best,
                                 const cst_gate_options *options, cst_gate *out) {
    cst_gate_training t = {0};
    size_t count = cst_gate_theta_count(view->members, options->hidden);
    CST_SCOPE(scope);
    CST_LA();
    CST_NEW(context, scope, double, theta, count);
    CST_NEW(context, scope, double, kept, count);
    CST_TRY(cst_gate_training_make(context, scope, view, best, options, &t));
    CST_TRY(start(context, &t, options->seed, theta));
    out->train_rows = t.problem.rows - t.held_rows;
    /* A step this small is over before threads have met, and on a busy machine long before. */
    int threads = cst_context_threads(context);
    if ((double)options->batch_rows * (double)count < SHARED_FROM)
        CST_TRY(cst_context_set_threads(context, 1));
    cst_status status = train(context, &t, options, theta, kept, out);
    (void)cst_context_set_threads(context, threads); /* was valid before */
    return status == CST_OK ? store(context, &t, kept, out) : status;
}

cst_status cst_gate_fit(cst_context *context, const cst_view *view, int32_t best,
                        const cst_gate_options *options, cst_gate *out) {
    cst_gate_options defaults = cst_gate_options_default();
    options = options ? options : &defaults;
    *out = (cst_gate){0};
    CST_TRY(check(context, view, best, options));
    *out = (cst_gate){.mode = options->mode, .inputs = view->members, .best = best};
    if (options->mode != CST_GATE_LEARNED)
        return CST_OK;
    cst_status status = fit_perceptron(context, view, best, options, out);
    if (status != CST_OK)
        cst_gate_free(context, out);
    return status;
}
