/* Rows that the gate is trained on: a sample of (sample, class) rows, drawn and standardised. */
#include "core/wide.h"
#include "method/gate/gate_training.h"

#include <math.h>
#include <string.h>

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
    int64_t capacity;      /* rows that a sample may give at most */
    const int64_t *chosen; /* [samples], positions in the view */
    double *input;         /* [samples * capacity][members] */
    double *aggregate;     /* [samples * capacity][12] */
    double *target;        /* [samples * capacity] */
    double *weight;        /* [samples * capacity] */
    int64_t *taken;        /* [samples]: rows of each */
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

/* A training row whose aggregates are still to be taken. */
typedef struct drawn {
    size_t to;           /* its place */
    double broadcast[2]; /* entropy and divergence of its sample */
} drawn;

/* Takes the aggregates of the rows that wait, which fill a tile, and writes what they are part of.
 */
static void write_waiting(const draw *d, draw_buffers *b, const drawn *waiting, int64_t count) {
    size_t k = (size_t)d->view->members;
    if (count == 0)
        return;
    cst_aggregate_tile(b->tile, d->view->members, d->view->classes, 0, count, NULL, NULL,
                       b->columns, b->scratch);
    for (int64_t i = 0; i < count; i++) {
        size_t to = waiting[i].to;
        double *aggregate = d->aggregate + to * CST_AGGREGATORS;
        for (size_t j = 0; j < k; j++)
            d->input[to * k + j] = (double)b->tile[j][i];
        for (int32_t a = 0; a < CST_AGGREGATORS; a++)
            aggregate[a] = b->columns[a * CST_TILE + i];
        aggregate[CST_AGGREGATE_ENTROPY] = waiting[i].broadcast[0];
        aggregate[CST_AGGREGATE_DIVERGENCE] = waiting[i].broadcast[1];
    }
}

/* The classes taken of sample `s` join the rows that wait; whenever those are a tile they are
 * written. Returns how many wait then. */
static int64_t add_sample(const draw *d, draw_buffers *b, int64_t s, const double *values,
                          int32_t label, const double broadcast[2], drawn *waiting, int64_t count) {
    size_t k = (size_t)d->view->members;
    for (int64_t i = 0; i < d->taken[s]; i++) {
        int32_t c = b->taken[i];
        size_t to = (size_t)(s * d->capacity + i);
        for (size_t j = 0; j < k; j++)
            b->picked[j * CST_TILE + (size_t)count] = b->members[j][c];
        d->target[to] = values ? values[c] : c == label;
        d->weight[to] = cst_view_weight(d->view, d->chosen[s]) / b->probability[c];
        waiting[count++] = (drawn){.to = to, .broadcast = {broadcast[0], broadcast[1]}};
        if (count == CST_TILE) {
            write_waiting(d, b, waiting, count);
            count = 0;
        }
    }
    return count;
}

static cst_status draw_task(cst_context *worker, void *user, int64_t task) {
    const draw *d = user;
    size_t classes = (size_t)d->view->classes;
    draw_buffers b;
    drawn waiting[CST_TILE];
    int64_t count = 0;
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
        count = add_sample(d, &b, s, values, label, broadcast, waiting, count);
    }
    write_waiting(d, &b, waiting, count);
    return CST_OK;
}

/* Closes the gaps between samples that gave fewer rows than `capacity`. */
static int64_t compact(const draw *d, cst_gate_training *t, int64_t held) {
    size_t k = (size_t)d->view->members;
    int64_t rows = 0;
    for (int64_t s = 0; s < d->samples; s++) {
        size_t from = (size_t)(s * d->capacity);
        size_t to = (size_t)rows;
        size_t count = (size_t)d->taken[s];
        memmove(t->input + to * k, t->input + from * k, count * k * sizeof(double));
        memmove(t->aggregate + to * CST_AGGREGATORS, t->aggregate + from * CST_AGGREGATORS,
                count * CST_AGGREGATORS * sizeof(double));
        memmove(t->target + to, t->target + from, count * sizeof(double));
        memmove(t->weight + to, t->weight + from, count * sizeof(double));
        rows += d->taken[s];
        if (s < held)
            t->held_rows = rows;
    }
    return rows;
}

/* Weighted mean and standard deviation of column `column` of x [rows][stride] over the training
 * rows; standard deviation 1 where it is 0. */
static void centre_and_scale(const cst_gate_training *t, const double *x, size_t stride,
                             size_t column, double *mean, double *scale) {
    double total = 0;
    double sum = 0;
    double square = 0;
    for (int64_t i = t->held_rows; i < t->problem.rows; i++) {
        total += t->weight[i];
        sum += t->weight[i] * x[(size_t)i * stride + column];
    }
    *mean = sum / total;
    for (int64_t i = t->held_rows; i < t->problem.rows; i++) {
        double off = x[(size_t)i * stride + column] - *mean;
        square += t->weight[i] * off * off;
    }
    *scale = sqrt(square / total);
    if (!(*scale > 1e-12 * fabs(*mean)) || *scale <= 0)
        *scale = 1;
}

/* Inputs and target standardised, aggregates scaled (not centred: g multiplies them), weights of
 * mean 1, all by the training rows. */
static void standardise(cst_gate_training *t) {
    size_t k = (size_t)t->problem.inputs;
    int64_t rows = t->problem.rows;
    for (size_t j = 0; j < k; j++) {
        centre_and_scale(t, t->input, k, j, &t->mean[j], &t->scale[j]);
        for (int64_t i = 0; i < rows; i++) {
            double *x = &t->input[(size_t)i * k + j];
            *x = (*x - t->mean[j]) / t->scale[j];
        }
    }
    double mean = 0;
    double scale = 1;
    for (size_t j = 0; j < CST_AGGREGATORS; j++) {
        centre_and_scale(t, t->aggregate, CST_AGGREGATORS, j, &mean, &scale);
        for (int64_t i = 0; i < rows; i++)
            t->aggregate[(size_t)i * CST_AGGREGATORS + j] /= scale;
    }
    centre_and_scale(t, t->target, 1, 0, &mean, &scale);
    double total = 0;
    for (int64_t i = t->held_rows; i < rows; i++)
        total += t->weight[i];
    double even = (double)(rows - t->held_rows) / total;
    for (int64_t i = 0; i < rows; i++) {
        t->target[i] = (t->target[i] - mean) / scale;
        t->weight[i] *= even;
    }
}

/* Draws `samples` samples; rows of the first `held` of them come first. */
static cst_status draw_rows(cst_context *context, draw *d, int64_t held, cst_gate_training *t) {
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
    d->input = t->input;
    d->aggregate = t->aggregate;
    d->target = t->target;
    d->weight = t->weight;
    int64_t tasks = d->samples / TASK_SAMPLES + (d->samples % TASK_SAMPLES != 0);
    CST_TRY(cst_parallel_for(context, tasks, draw_task, d));
    t->problem.rows = compact(d, t, held);
    return CST_OK;
}

cst_status cst_gate_training_make(cst_context *context, cst_scope *scope, const cst_view *view,
                                  int32_t best, const cst_gate_options *options,
                                  cst_gate_training *t) {
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
    CST_TAKE(context, scope, t->input, rows * k);
    CST_TAKE(context, scope, t->aggregate, rows * CST_AGGREGATORS);
    CST_TAKE(context, scope, t->target, rows);
    CST_TAKE(context, scope, t->weight, rows);
    CST_TAKE(context, scope, t->mean, k);
    CST_TAKE(context, scope, t->scale, k);
    int64_t held = (int64_t)(options->validation_fraction * (double)d.samples + 0.5);
    held = held < 1 ? 1 : held;
    held = held > d.samples - 1 ? d.samples - 1 : held;
    CST_TRY(draw_rows(context, &d, held, t));
    t->problem = (cst_gate_problem){.rows = t->problem.rows,
                                    .inputs = view->members,
                                    .hidden = options->hidden,
                                    .l2 = options->l2,
                                    .input = t->input,
                                    .aggregate = t->aggregate,
                                    .target = t->target,
                                    .weight = t->weight};
    standardise(t);
    return CST_OK;
}
