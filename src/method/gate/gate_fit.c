/* Training of the gate: a sample of (sample, class) rows, drawn and standardised, the start, Adam
 * with early stopping, and the result. */
#include "core/la.h"
#include "core/wide.h"
#include "method/gate/gate.h"

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

/* ---- rows to train on ---- */

/* The training set: rows of the first `held` samples are for validation, the rest for training. */
typedef struct training {
    cst_gate_problem problem;
    int64_t held_rows; /* rows 0..held_rows-1 are held out */
    double *mean;      /* [inputs] */
    double *scale;     /* [inputs] */
} training;

/* Classes drawn per sample when not all rows are used. */
enum { CLASSES_PER_SAMPLE = 8 };
/* Share of a sample's drawing probability that is spread evenly over its classes. */
static const double even_share = 0.1;

/* A plan of the sample: `samples` rows of the view, `per_sample` classes of each on average (all,
 * when it equals the number of classes). */
typedef struct draw {
    const cst_view *view;
    int32_t best;
    uint64_t seed;
    int64_t samples;
    int64_t per_sample;
    int64_t capacity;           /* rows that a sample may give at most */
    const int64_t *chosen;      /* [samples], positions in the view */
    const cst_gate_problem *to; /* with room for samples * capacity rows */
    int64_t *taken;             /* [samples]: rows of each */
} draw;

/* The largest of the members' probabilities of each class. */
CST_KERNEL(largest,
           (const float *const *members, int32_t count, int32_t classes, double *restrict most),
           (members, count, classes, most)) {
    for (int32_t c = 0; c < classes; c++)
        most[c] = 0;
    for (int32_t k = 0; k < count; k++) {
        const float *restrict x = members[k];
        for (int32_t c = 0; c < classes; c++)
            most[c] = (double)x[c] > most[c] ? (double)x[c] : most[c];
    }
}

/* Classes to take of one sample and their probabilities of being taken. The true class always; of
 * the others, `expected` on average, by systematic sampling with one random number: mostly where a
 * member has mass. Returns how many. */
static int64_t draw_classes(const draw *d, const float *const *members, int32_t label,
                            double uniform, double *probability, int32_t *classes) {
    int32_t count = d->view->classes;
    int64_t taken = 0;
    if (d->per_sample >= count) {
        for (int32_t c = 0; c < count; c++) {
            probability[c] = 1;
            classes[taken++] = c;
        }
        return taken;
    }
    double mass = 0;
    largest(members, d->view->members, count, probability);
    for (int32_t c = 0; c < count; c++)
        mass += c == label ? 0 : probability[c];
    double expected = (double)(d->per_sample - 1);
    double next = uniform;
    double passed = 0;
    for (int32_t c = 0; c < count; c++) {
        if (c == label) {
            probability[c] = 1;
            classes[taken++] = c;
            continue;
        }
        double share = even_share / (double)(count - 1);
        share += (1 - even_share) * (mass > 0 ? probability[c] / mass : 1.0 / (count - 1));
        probability[c] = fmin(1, expected * share);
        passed += probability[c];
        if (passed > next && taken < d->capacity) {
            classes[taken++] = c;
            next += 1;
        }
    }
    return taken;
}

/* Samples handled by one task. */
enum { TASK_SAMPLES = 32 };

typedef struct draw_buffers {
    float *copied;         /* [members][classes] */
    const float **members; /* [members] */
    float *picked;         /* [members][CST_TILE]: the classes taken, a tile at a time */
    const float **tile;    /* [members] */
    double *columns;       /* [12][CST_TILE] */
    double *scratch;
    double *probability; /* [classes] */
    int32_t *taken;      /* [classes] */
} draw_buffers;

static cst_status open_draw(cst_context *context, cst_scope *scope, const draw *d,
                            draw_buffers *b) {
    size_t classes = (size_t)d->view->classes;
    size_t k = (size_t)d->view->members;
    CST_TAKE(context, scope, b->copied, k * classes);
    CST_TAKE(context, scope, b->members, k);
    CST_TAKE(context, scope, b->picked, k * CST_TILE);
    CST_TAKE(context, scope, b->tile, k);
    CST_TAKE(context, scope, b->columns, CST_AGGREGATORS * CST_TILE);
    CST_TAKE(context, scope, b->scratch, cst_aggregate_scratch(d->view->members));
    CST_TAKE(context, scope, b->probability, classes);
    CST_TAKE(context, scope, b->taken, classes);
    for (size_t j = 0; j < k; j++)
        b->tile[j] = b->picked + j * CST_TILE;
    return CST_OK;
}

/* Writes the rows of the classes taken of sample `s`, a tile at a time. */
static void add_sample(const draw *d, const draw_buffers *b, int64_t s, const double *values,
                       int32_t label, const double broadcast[2]) {
    size_t k = (size_t)d->view->members;
    double weight = cst_view_weight(d->view, d->chosen[s]);
    for (int64_t first = 0; first < d->taken[s]; first += CST_TILE) {
        int64_t count = d->taken[s] - first < CST_TILE ? d->taken[s] - first : CST_TILE;
        size_t to = (size_t)(s * d->capacity + first);
        for (int64_t i = 0; i < count; i++, to++) {
            int32_t c = b->taken[first + i];
            for (size_t j = 0; j < k; j++) {
                b->picked[j * CST_TILE + (size_t)i] = b->members[j][c];
                d->to->input[to * k + j] = (double)b->members[j][c];
            }
            d->to->target[to] = values ? values[c] : c == label;
            d->to->weight[to] = weight / b->probability[c];
        }
        double *aggregate = d->to->aggregate + (to - (size_t)count) * CST_AGGREGATORS;
        cst_aggregate_tile(b->tile, d->view->members, d->view->classes, 0, count, NULL, NULL,
                           b->columns, b->scratch);
        for (int64_t i = 0; i < count; i++, aggregate += CST_AGGREGATORS) {
            for (int32_t a = 0; a < CST_AGGREGATORS; a++)
                aggregate[a] = b->columns[a * CST_TILE + i];
            aggregate[CST_AGGREGATE_ENTROPY] = broadcast[0];
            aggregate[CST_AGGREGATE_DIVERGENCE] = broadcast[1];
        }
    }
}

static cst_status draw_task(cst_context *worker, void *user, int64_t task) {
    const draw *d = user;
    size_t classes = (size_t)d->view->classes;
    draw_buffers b;
    int64_t end = (task + 1) * TASK_SAMPLES < d->samples ? (task + 1) * TASK_SAMPLES : d->samples;
    CST_SCOPE(scope);
    CST_TRY(open_draw(worker, scope, d, &b));
    for (int64_t s = task * TASK_SAMPLES; s < end; s++) {
        for (int32_t j = 0; j < d->view->members; j++)
            CST_TRY(cst_view_rows(worker, d->view, j, d->chosen[s], 1,
                                  b.copied + (size_t)j * classes, &b.members[j]));
        double broadcast[2];
        cst_aggregate_samples(b.members, d->view->members, d->best, 1, d->view->classes,
                              &broadcast[0], &broadcast[1], b.scratch);
        cst_rng rng;
        cst_rng_init(&rng, d->seed, CST_STREAM_GATE_ROWS, (uint32_t)(s + 1));
        const double *values = d->view->targets ? cst_view_target(d->view, d->chosen[s]) : NULL;
        int32_t label = values ? 0 : cst_view_label(d->view, d->chosen[s]);
        d->taken[s] =
            draw_classes(d, b.members, label, cst_rng_uniform(&rng), b.probability, b.taken);
        add_sample(d, &b, s, values, label, broadcast);
    }
    return CST_OK;
}

/* Closes the gaps between samples that gave fewer rows than `capacity`. */
static int64_t compact(const draw *d, training *t, int64_t held) {
    size_t k = (size_t)d->view->members;
    int64_t rows = 0;
    for (int64_t s = 0; s < d->samples; s++) {
        size_t from = (size_t)(s * d->capacity);
        size_t to = (size_t)rows;
        size_t count = (size_t)d->taken[s];
        memmove(t->problem.input + to * k, t->problem.input + from * k, count * k * sizeof(double));
        memmove(t->problem.aggregate + to * CST_AGGREGATORS,
                t->problem.aggregate + from * CST_AGGREGATORS,
                count * CST_AGGREGATORS * sizeof(double));
        memmove(t->problem.target + to, t->problem.target + from, count * sizeof(double));
        memmove(t->problem.weight + to, t->problem.weight + from, count * sizeof(double));
        rows += d->taken[s];
        if (s < held)
            t->held_rows = rows;
    }
    return rows;
}

/* Weighted mean and standard deviation of column `column` of x [rows][stride] over the training
 * rows; standard deviation 1 where it is 0. */
static void centre_and_scale(const training *t, const double *x, size_t stride, size_t column,
                             double *mean, double *scale) {
    double total = 0;
    double sum = 0;
    double square = 0;
    for (int64_t i = t->held_rows; i < t->problem.rows; i++) {
        total += t->problem.weight[i];
        sum += t->problem.weight[i] * x[(size_t)i * stride + column];
    }
    *mean = sum / total;
    for (int64_t i = t->held_rows; i < t->problem.rows; i++) {
        double off = x[(size_t)i * stride + column] - *mean;
        square += t->problem.weight[i] * off * off;
    }
    *scale = sqrt(square / total);
    if (!(*scale > 1e-12 * fabs(*mean)) || *scale <= 0)
        *scale = 1;
}

/* Inputs and target standardised, aggregates scaled (not centred: g multiplies them), weights of
 * mean 1, all by the training rows. */
static void standardise(training *t) {
    size_t k = (size_t)t->problem.inputs;
    int64_t rows = t->problem.rows;
    for (size_t j = 0; j < k; j++) {
        centre_and_scale(t, t->problem.input, k, j, &t->mean[j], &t->scale[j]);
        for (int64_t i = 0; i < rows; i++) {
            double *x = &t->problem.input[(size_t)i * k + j];
            *x = (*x - t->mean[j]) / t->scale[j];
        }
    }
    double mean = 0;
    double scale = 1;
    for (size_t j = 0; j < CST_AGGREGATORS; j++) {
        centre_and_scale(t, t->problem.aggregate, CST_AGGREGATORS, j, &mean, &scale);
        for (int64_t i = 0; i < rows; i++)
            t->problem.aggregate[(size_t)i * CST_AGGREGATORS + j] /= scale;
    }
    centre_and_scale(t, t->problem.target, 1, 0, &mean, &scale);
    double total = 0;
    for (int64_t i = t->held_rows; i < rows; i++)
        total += t->problem.weight[i];
    double even = (double)(rows - t->held_rows) / total;
    for (int64_t i = 0; i < rows; i++) {
        t->problem.target[i] = (t->problem.target[i] - mean) / scale;
        t->problem.weight[i] *= even;
    }
}

/* Draws `samples` samples; rows of the first `held` of them come first. */
static cst_status draw_rows(cst_context *context, draw *d, int64_t held, training *t) {
    int64_t rows = d->view->rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, order, rows);
    CST_TAKE(context, scope, d->taken, d->samples);
    for (int64_t i = 0; i < rows; i++)
        order[i] = i;
    cst_rng rng;
    cst_rng_init(&rng, d->seed, CST_STREAM_GATE_ROWS, 0);
    cst_rng_shuffle(&rng, order, rows);
    d->chosen = order;
    d->to = &t->problem;
    int64_t tasks = d->samples / TASK_SAMPLES + (d->samples % TASK_SAMPLES != 0);
    CST_TRY(cst_parallel_for(context, tasks, draw_task, d));
    t->problem.rows = compact(d, t, held);
    return CST_OK;
}

/* Decides how much to draw, draws it, and prepares the training set. */
static cst_status make_training(cst_context *context, cst_scope *scope, const cst_view *view,
                                int32_t best, const cst_gate_options *options, training *t) {
    draw d = {.view = view, .best = best, .seed = options->seed};
    int64_t classes = view->classes;
    d.per_sample = classes;
    d.samples = view->rows;
    if (view->rows > options->max_rows / classes) {
        int64_t least = classes < CLASSES_PER_SAMPLE ? classes : CLASSES_PER_SAMPLE;
        int64_t even = options->max_rows / view->rows;
        d.per_sample = even > least ? even : least;
        d.samples = options->max_rows / d.per_sample;
        d.samples = d.samples < view->rows ? d.samples : view->rows;
    }
    if (d.samples < 2)
        return cst_fail(
            context, CST_ERROR_INPUT,
            "the gate trains on %lld samples (of %lld, at most %lld rows), but needs at least two",
            (long long)d.samples, (long long)view->rows, (long long)options->max_rows);
    d.capacity = d.per_sample + 1 < classes ? d.per_sample + 1 : classes;
    size_t rows = 0;
    if (!cst_size_mul((size_t)d.samples, (size_t)d.capacity, &rows))
        return cst_fail(context, CST_ERROR_LIMIT, "too many samples (%lld) or rows (%lld)",
                        (long long)d.samples, (long long)d.capacity);
    size_t k = (size_t)view->members;
    t->problem =
        (cst_gate_problem){.inputs = view->members, .hidden = options->hidden, .l2 = options->l2};
    CST_TAKE(context, scope, t->problem.input, rows * k);
    CST_TAKE(context, scope, t->problem.aggregate, rows * CST_AGGREGATORS);
    CST_TAKE(context, scope, t->problem.target, rows);
    CST_TAKE(context, scope, t->problem.weight, rows);
    CST_TAKE(context, scope, t->mean, k);
    CST_TAKE(context, scope, t->scale, k);
    int64_t held = (int64_t)(options->validation_fraction * (double)d.samples + 0.5);
    held = held < 1 ? 1 : held;
    held = held > d.samples - 1 ? d.samples - 1 : held;
    CST_TRY(draw_rows(context, &d, held, t));
    standardise(t);
    return CST_OK;
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
static void add_training_rows(const training *t, double *x, double *gram, double *cross) {
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
static cst_status start(cst_context *context, const training *t, uint64_t seed, double *theta) {
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
static cst_status held_out_loss(cst_context *context, const training *t, const double *theta,
                                double *loss) {
    cst_gate_problem p = t->problem;
    p.l2 = 0;
    return cst_gate_gradient(context, &p, NULL, t->held_rows, theta, NULL, loss);
}

/* Trains from `theta`, leaving the best of the epochs in `best`. */
static cst_status train(cst_context *context, const training *t, const cst_gate_options *options,
                        double *theta, double *best, cst_gate *out) {
    size_t count = cst_gate_layout_of(t->problem.inputs, t->problem.hidden).count;
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
static cst_status store(cst_context *context, const training *t, const double *theta,
                        cst_gate *out) {
    size_t k = (size_t)t->problem.inputs;
    size_t h = (size_t)t->problem.hidden;
    cst_gate_layout at = cst_gate_layout_of(t->problem.inputs, t->problem.hidden);
    out->hidden = t->problem.hidden;
    CST_TRY(cst_gate_alloc(context, out));
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
    return CST_OK;
}

/* Parameters times rows of a minibatch from which on threads share a step. */
static const double SHARED_FROM = 4e6;

static cst_status fit_perceptron(cst_context *context, const cst_view *view, int32_t best,
                                 const cst_gate_options *options, cst_gate *out) {
    training t = {0};
    size_t count = cst_gate_layout_of(view->members, options->hidden).count;
    CST_SCOPE(scope);
    CST_LA();
    CST_NEW(context, scope, double, theta, count);
    CST_NEW(context, scope, double, kept, count);
    CST_TRY(make_training(context, scope, view, best, options, &t));
    CST_TRY(start(context, &t, options->seed, theta));
    out->train_rows = t.problem.rows - t.held_rows;
    /* A step this small is over before threads have met, and on a busy machine long before. */
    int threads = cst_context_threads(context);
    if ((double)options->batch_rows * (double)count < SHARED_FROM)
        CST_TRY(cst_context_set_threads(context, 1));
    cst_status status = train(context, &t, options, theta, kept, out);
    (void)cst_context_set_threads(context, threads); /* was valid before */
    CST_TRY(status);
    CST_TRY(cst_gate_passed(context, &t.problem, kept, out->passed));
    return store(context, &t, kept, out);
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
