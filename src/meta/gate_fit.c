/*
 * Training of the gate: rows to train on, loss and gradient, Adam with early stopping.
 * Stage S2, after the redundancy projection.
 * Paper: section "Differentiable Meta-Feature Gate"; method.md section 3.
 */
#include "la/la.h"
#include "la/wide.h"
#include "meta/gate.h"

#include <math.h>
#include <string.h>

/* Rows of a mini-batch handled together: the unit of the fixed-order sum. Classes drawn per sample
 * when not all rows are used. */
enum { CHUNK_ROWS = 128, CLASSES_PER_SAMPLE = 8 };
/* Share of a sample's drawing probability that is spread evenly over its classes. */
static const double even_share = 0.1;

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

/* ---- loss and gradient --------------------------------------------------------------------- */

/* Where the parts of the parameter vector begin. */
typedef struct layout {
    size_t b1;
    size_t w2;
    size_t b2;
    size_t head_members;
    size_t head_aggregates;
    size_t intercept;
    size_t count;
} layout;

static layout theta_layout(int32_t inputs, int32_t hidden) {
    layout at;
    size_t k = (size_t)inputs;
    size_t h = (size_t)hidden;
    at.b1 = k * h;
    at.w2 = at.b1 + h;
    at.b2 = at.w2 + CST_AGGREGATORS * h;
    at.head_members = at.b2 + CST_AGGREGATORS;
    at.head_aggregates = at.head_members + k;
    at.intercept = at.head_aggregates + CST_AGGREGATORS;
    at.count = at.intercept + 1;
    return at;
}

size_t cst_gate_theta_count(int32_t inputs, int32_t hidden) {
    return theta_layout(inputs, hidden).count;
}

typedef struct gradient_task {
    const cst_gate_problem *problem;
    const int64_t *rows;
    int64_t count;
    const double *theta;
    bool loss_only;
    layout at;
} gradient_task;

/* Storage of one chunk, all [CHUNK_ROWS][...]. */
typedef struct chunk {
    double *x;     /* [inputs] */
    double *a;     /* [12] */
    double *h;     /* [hidden] */
    double *g;     /* [12] */
    double *dz;    /* [12]: gradient before the sigmoid */
    double *dh;    /* [hidden] */
    double *slope; /* [1]: d loss / d f */
    double *all;
} chunk;

static cst_status make_chunk(cst_context *context, int32_t inputs, int32_t hidden, chunk *c) {
    size_t rows = CHUNK_ROWS;
    size_t k = (size_t)inputs;
    size_t h = (size_t)hidden;
    c->all = cst_alloc(context, rows * (k + 3 * CST_AGGREGATORS + 2 * h + 1), sizeof(double));
    if (!c->all)
        return CST_ERROR_MEMORY;
    c->x = c->all;
    c->a = c->x + rows * k;
    c->h = c->a + rows * CST_AGGREGATORS;
    c->g = c->h + rows * h;
    c->dz = c->g + rows * CST_AGGREGATORS;
    c->dh = c->dz + rows * CST_AGGREGATORS;
    c->slope = c->dh + rows * h;
    return CST_OK;
}

/* x = x where it is positive, else 0. */
CST_WIDE_BODY rectify_body(int64_t count, double *restrict x) {
    for (int64_t i = 0; i < count; i++)
        x[i] = x[i] > 0 ? x[i] : 0;
}
CST_WIDE(rectify, (int64_t count, double *restrict x), (count, x))

/* z = 1 / (1 + e), e = exp(-z). */
CST_WIDE_BODY logistic_body(int64_t count, double *restrict e) {
    for (int64_t i = 0; i < count; i++)
        e[i] = 1 / (1 + e[i]);
}
CST_WIDE(logistic, (int64_t count, double *restrict e), (count, e))

/* Fills h and g for the chunk's rows. */
static cst_status forward(cst_context *context, const gradient_task *t, const chunk *c,
                          int64_t rows) {
    int64_t k = t->problem->inputs;
    int64_t h = t->problem->hidden;
    const double *theta = t->theta;
    for (int64_t i = 0; i < rows; i++) {
        memcpy(c->h + i * h, theta + t->at.b1, (size_t)h * sizeof(double));
        for (int32_t j = 0; j < CST_AGGREGATORS; j++)
            c->g[i * CST_AGGREGATORS + j] = -theta[t->at.b2 + (size_t)j];
    }
    cst_status status =
        cst_gemm_f64(context, false, true, rows, h, k, 1, c->x, k, theta, k, 1, c->h, h);
    rectify(rows * h, c->h);
    if (status == CST_OK)
        status = cst_gemm_f64(context, false, true, rows, CST_AGGREGATORS, h, -1, c->h, h,
                              theta + t->at.w2, h, 1, c->g, CST_AGGREGATORS);
    cst_exp_f64(rows * CST_AGGREGATORS, c->g, c->g);
    logistic(rows * CST_AGGREGATORS, c->g);
    return status;
}

/* Lanes of a dot product: sums that do not wait for one another. */
enum { LANES = 4 };

/* f[i] = members . x[i] + aggregates . (g[i] a[i]); a is replaced by g a. */
CST_WIDE_BODY head_values_body(int64_t count, int32_t k, const double *restrict x,
                               double *restrict a, const double *restrict g,
                               const double *restrict members, const double *restrict aggregates,
                               double *restrict f) {
    int32_t whole = k - k % LANES;
    for (int64_t i = 0; i < count; i++) {
        double lane[LANES] = {0};
        for (int32_t j = 0; j < whole; j += LANES)
            for (int32_t l = 0; l < LANES; l++)
                lane[l] += members[j + l] * x[i * k + j + l];
        for (int32_t j = whole; j < k; j++)
            lane[j - whole] += members[j] * x[i * k + j];
        for (int32_t j = 0; j < CST_AGGREGATORS; j += LANES)
            for (int32_t l = 0; l < LANES; l++) {
                int64_t at = i * CST_AGGREGATORS + j + l;
                a[at] *= g[at];
                lane[l] += aggregates[j + l] * a[at];
            }
        f[i] = (lane[0] + lane[1]) + (lane[2] + lane[3]);
    }
}
CST_WIDE(head_values,
         (int64_t count, int32_t k, const double *restrict x, double *restrict a,
          const double *restrict g, const double *restrict members,
          const double *restrict aggregates, double *restrict f),
         (count, k, x, a, g, members, aggregates, f))

/* Adds slope . x and slope . ga to the head's gradient; dz = slope aggregates ga (1 - g). */
CST_WIDE_BODY head_slopes_body(int64_t count, int32_t k, const double *restrict slope,
                               const double *restrict x, const double *restrict ga,
                               const double *restrict g, const double *restrict aggregates,
                               double *restrict to_members, double *restrict to_aggregates,
                               double *restrict dz) {
    double sum[CST_AGGREGATORS] = {0};
    for (int64_t i = 0; i < count; i++) {
        for (int32_t j = 0; j < k; j++)
            to_members[j] += slope[i] * x[i * k + j];
        for (int32_t j = 0; j < CST_AGGREGATORS; j++) {
            double own = slope[i] * ga[i * CST_AGGREGATORS + j];
            sum[j] += own;
            dz[i * CST_AGGREGATORS + j] = own * aggregates[j] * (1 - g[i * CST_AGGREGATORS + j]);
        }
    }
    for (int32_t j = 0; j < CST_AGGREGATORS; j++)
        to_aggregates[j] += sum[j];
}
CST_WIDE(head_slopes,
         (int64_t count, int32_t k, const double *restrict slope, const double *restrict x,
          const double *restrict ga, const double *restrict g, const double *restrict aggregates,
          double *restrict to_members, double *restrict to_aggregates, double *restrict dz),
         (count, k, slope, x, ga, g, aggregates, to_members, to_aggregates, dz))

/* Adds the rows' part of the head's gradient and of the loss; fills slope and dz. */
static void head(const gradient_task *t, const chunk *c, const int64_t *rows, int64_t first,
                 int64_t count, double *sum) {
    const cst_gate_problem *p = t->problem;
    const double *aggregates = t->theta + t->at.head_aggregates;
    head_values(count, p->inputs, c->x, c->a, c->g, t->theta + t->at.head_members, aggregates,
                c->slope);
    for (int64_t i = 0; i < count; i++) {
        int64_t row = rows ? rows[first + i] : first + i;
        double error = c->slope[i] + t->theta[t->at.intercept] - p->target[row];
        double weight = p->weight[row] / (double)t->count;
        sum[t->at.count] += weight * error * error;
        c->slope[i] = 2 * weight * error;
    }
    if (t->loss_only)
        return;
    for (int64_t i = 0; i < count; i++)
        sum[t->at.intercept] += c->slope[i];
    head_slopes(count, p->inputs, c->slope, c->x, c->a, c->g, aggregates, sum + t->at.head_members,
                sum + t->at.head_aggregates, c->dz);
}

/* Gradient before the rectifier, and the biases'. */
CST_WIDE_BODY biases_body(int64_t rows, int64_t hidden, const double *restrict h,
                          const double *restrict dz, double *restrict dh, double *restrict b1,
                          double *restrict b2) {
    for (int64_t i = 0; i < rows * hidden; i++)
        dh[i] = h[i] > 0 ? dh[i] : 0;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < hidden; j++)
            b1[j] += dh[i * hidden + j];
        for (int32_t j = 0; j < CST_AGGREGATORS; j++)
            b2[j] += dz[i * CST_AGGREGATORS + j];
    }
}
CST_WIDE(biases,
         (int64_t rows, int64_t hidden, const double *restrict h, const double *restrict dz,
          double *restrict dh, double *restrict b1, double *restrict b2),
         (rows, hidden, h, dz, dh, b1, b2))

/* Adds the rows' part of the perceptron's gradient. */
static cst_status backward(cst_context *context, const gradient_task *t, const chunk *c,
                           int64_t rows, double *sum) {
    int64_t k = t->problem->inputs;
    int64_t h = t->problem->hidden;
    cst_status status = cst_gemm_f64(context, true, false, CST_AGGREGATORS, h, rows, 1, c->dz,
                                     CST_AGGREGATORS, c->h, h, 1, sum + t->at.w2, h);
    if (status == CST_OK)
        status = cst_gemm_f64(context, false, false, rows, h, CST_AGGREGATORS, 1, c->dz,
                              CST_AGGREGATORS, t->theta + t->at.w2, h, 0, c->dh, h);
    biases(rows, h, c->h, c->dz, c->dh, sum + t->at.b1, sum + t->at.b2);
    if (status == CST_OK)
        status = cst_gemm_f64(context, true, false, h, k, rows, 1, c->dh, h, c->x, k, 1, sum, k);
    return status;
}

static cst_status gradient_chunk(cst_context *worker, void *user, int64_t block, double *sum) {
    const gradient_task *t = user;
    const cst_gate_problem *p = t->problem;
    size_t k = (size_t)p->inputs;
    int64_t first = block * CHUNK_ROWS;
    int64_t rows = t->count - first < CHUNK_ROWS ? t->count - first : CHUNK_ROWS;
    chunk c;
    cst_status status = make_chunk(worker, p->inputs, p->hidden, &c);
    if (status != CST_OK)
        return status;
    for (int64_t i = 0; i < rows; i++) {
        size_t row = (size_t)(t->rows ? t->rows[first + i] : first + i);
        memcpy(c.x + (size_t)i * k, p->input + row * k, k * sizeof(double));
        memcpy(c.a + i * CST_AGGREGATORS, p->aggregate + row * CST_AGGREGATORS,
               CST_AGGREGATORS * sizeof(double));
    }
    status = forward(worker, t, &c, rows);
    if (status == CST_OK)
        head(t, &c, t->rows, first, rows, sum);
    if (status == CST_OK && !t->loss_only)
        status = backward(worker, t, &c, rows, sum);
    cst_free(worker, c.all);
    return status;
}

cst_status cst_gate_gradient(cst_context *context, const cst_gate_problem *problem,
                             const int64_t *rows, int64_t count, const double *theta,
                             double *gradient, double *loss) {
    gradient_task t = {.problem = problem,
                       .rows = rows,
                       .count = count,
                       .theta = theta,
                       .loss_only = gradient == NULL,
                       .at = theta_layout(problem->inputs, problem->hidden)};
    size_t width = t.at.count + 1;
    double *total = cst_alloc(context, width, sizeof *total);
    if (!total)
        return CST_ERROR_MEMORY;
    int64_t chunks = count / CHUNK_ROWS + (count % CHUNK_ROWS != 0);
    cst_la_enter();
    cst_status status = cst_reduce_blocks(context, chunks, width, gradient_chunk, &t, total);
    cst_la_leave();
    *loss = total[t.at.count];
    for (size_t j = t.at.head_members; j < t.at.intercept; j++) {
        *loss += problem->l2 * theta[j] * theta[j];
        total[j] += 2 * problem->l2 * theta[j];
    }
    if (gradient)
        memcpy(gradient, total, t.at.count * sizeof *gradient);
    cst_free(context, total);
    return status;
}

/* ---- rows to train on ---------------------------------------------------------------------- */

/* What is drawn: `samples` rows of the view, `per_sample` classes of each on average (all, when it
 * equals the number of classes). */
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
CST_WIDE_BODY largest_body(const float *const *members, int32_t count, int32_t classes,
                           double *restrict most) {
    for (int32_t c = 0; c < classes; c++)
        most[c] = 0;
    for (int32_t k = 0; k < count; k++) {
        const float *restrict x = members[k];
        for (int32_t c = 0; c < classes; c++)
            most[c] = (double)x[c] > most[c] ? (double)x[c] : most[c];
    }
}
CST_WIDE(largest,
         (const float *const *members, int32_t count, int32_t classes, double *restrict most),
         (members, count, classes, most))

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

static void free_draw_buffers(cst_context *context, draw_buffers *b) {
    cst_free(context, b->copied);
    cst_free(context, b->members);
    cst_free(context, b->picked);
    cst_free(context, b->tile);
    cst_free(context, b->columns);
    cst_free(context, b->scratch);
    cst_free(context, b->probability);
    cst_free(context, b->taken);
}

static cst_status make_draw_buffers(cst_context *context, const draw *d, draw_buffers *b) {
    size_t classes = (size_t)d->view->classes;
    size_t k = (size_t)d->view->members;
    *b = (draw_buffers){0};
    b->copied = cst_alloc(context, k * classes, sizeof *b->copied);
    b->members = cst_alloc(context, k, sizeof *b->members);
    b->picked = cst_alloc(context, k * CST_TILE, sizeof *b->picked);
    b->tile = cst_alloc(context, k, sizeof *b->tile);
    b->columns = cst_alloc(context, (size_t)CST_AGGREGATORS * CST_TILE, sizeof *b->columns);
    b->scratch = cst_alloc(context, cst_aggregate_scratch(d->view->members), sizeof *b->scratch);
    b->probability = cst_alloc(context, classes, sizeof *b->probability);
    b->taken = cst_alloc(context, classes, sizeof *b->taken);
    return b->copied && b->members && b->picked && b->tile && b->columns && b->scratch &&
                   b->probability && b->taken
               ? CST_OK
               : CST_ERROR_MEMORY;
}

/* Writes the training rows of `count` <= CST_TILE classes of sample `s`, from row `row` on. */
static void write_rows(const draw *d, draw_buffers *b, const int32_t *classes, int64_t count,
                       int32_t label, const double *broadcast, size_t row) {
    size_t k = (size_t)d->view->members;
    for (size_t j = 0; j < k; j++) {
        b->tile[j] = b->picked + j * CST_TILE;
        for (int64_t i = 0; i < count; i++)
            b->picked[j * CST_TILE + (size_t)i] = b->members[j][classes[i]];
    }
    cst_aggregate_tile(b->tile, d->view->members, d->view->classes, 0, count, NULL, NULL,
                       b->columns, b->scratch);
    for (int64_t i = 0; i < count; i++) {
        size_t to = row + (size_t)i;
        double *aggregate = d->aggregate + to * CST_AGGREGATORS;
        for (size_t j = 0; j < k; j++)
            d->input[to * k + j] = (double)b->tile[j][i];
        for (int32_t a = 0; a < CST_AGGREGATORS; a++)
            aggregate[a] = b->columns[a * CST_TILE + i];
        aggregate[CST_AGGREGATE_ENTROPY] = broadcast[0];
        aggregate[CST_AGGREGATE_DIVERGENCE] = broadcast[1];
        d->target[to] = classes[i] == label ? 1 : 0;
        d->weight[to] = 1 / b->probability[classes[i]];
    }
}

static cst_status draw_task(cst_context *worker, void *user, int64_t task) {
    const draw *d = user;
    size_t classes = (size_t)d->view->classes;
    draw_buffers b;
    int64_t end = (task + 1) * TASK_SAMPLES < d->samples ? (task + 1) * TASK_SAMPLES : d->samples;
    cst_status status = make_draw_buffers(worker, d, &b);
    for (int64_t s = task * TASK_SAMPLES; status == CST_OK && s < end; s++) {
        for (int32_t j = 0; status == CST_OK && j < d->view->members; j++)
            status = cst_view_rows(worker, d->view, j, d->chosen[s], 1,
                                   b.copied + (size_t)j * classes, &b.members[j]);
        if (status != CST_OK)
            break;
        double broadcast[2];
        cst_aggregate_samples(b.members, d->view->members, d->best, 1, d->view->classes,
                              &broadcast[0], &broadcast[1], b.scratch);
        cst_rng rng;
        cst_rng_init(&rng, d->seed, CST_STREAM_GATE_ROWS, (uint32_t)(s + 1));
        int32_t label = cst_view_label(d->view, d->chosen[s]);
        d->taken[s] =
            draw_classes(d, b.members, label, cst_rng_uniform(&rng), b.probability, b.taken);
        for (int64_t first = 0; first < d->taken[s]; first += CST_TILE) {
            int64_t left = d->taken[s] - first;
            write_rows(d, &b, b.taken + first, left < CST_TILE ? left : CST_TILE, label, broadcast,
                       (size_t)(s * d->capacity + first));
        }
    }
    free_draw_buffers(worker, &b);
    return status;
}

/* The training set: rows of the first `held` samples are for validation, the rest for training. */
typedef struct training {
    cst_gate_problem problem;
    int64_t held_rows; /* rows 0..held_rows-1 are held out */
    double *input;
    double *aggregate;
    double *target;
    double *weight;
    double *mean;  /* [inputs] */
    double *scale; /* [inputs] */
} training;

static void free_training(cst_context *context, training *t) {
    cst_free(context, t->input);
    cst_free(context, t->aggregate);
    cst_free(context, t->target);
    cst_free(context, t->weight);
    cst_free(context, t->mean);
    cst_free(context, t->scale);
}

/* Closes the gaps between samples that gave fewer rows than `capacity`. */
static int64_t compact(const draw *d, training *t, int64_t held) {
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
static void centre_and_scale(const training *t, const double *x, size_t stride, size_t column,
                             double *mean, double *scale) {
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
static void standardise(training *t) {
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

/* Decides how much to draw, draws it, and prepares the training set. */
static cst_status prepare(cst_context *context, const cst_view *view, int32_t best,
                          const cst_gate_options *options, training *t) {
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
            "the gate trains on %lld samples (of %lld, at most %lld rows): it needs two "
            "at least",
            (long long)d.samples, (long long)view->rows, (long long)options->max_rows);
    d.capacity = d.per_sample + 1 < classes ? d.per_sample + 1 : classes;
    size_t rows = 0;
    if (!cst_size_mul((size_t)d.samples, (size_t)d.capacity, &rows))
        return cst_fail(context, CST_ERROR_LIMIT, "%lld samples of %lld rows are too many",
                        (long long)d.samples, (long long)d.capacity);
    size_t k = (size_t)view->members;
    int64_t *order = cst_alloc(context, (size_t)view->rows, sizeof *order);
    d.taken = cst_alloc(context, (size_t)d.samples, sizeof *d.taken);
    d.input = t->input = cst_alloc(context, rows * k, sizeof(double));
    d.aggregate = t->aggregate = cst_alloc(context, rows * CST_AGGREGATORS, sizeof(double));
    d.target = t->target = cst_alloc(context, rows, sizeof(double));
    d.weight = t->weight = cst_alloc(context, rows, sizeof(double));
    t->mean = cst_alloc(context, k, sizeof(double));
    t->scale = cst_alloc(context, k, sizeof(double));
    cst_status status = CST_ERROR_MEMORY;
    if (order && d.taken && t->input && t->aggregate && t->target && t->weight && t->mean &&
        t->scale) {
        for (int64_t i = 0; i < view->rows; i++)
            order[i] = i;
        cst_rng rng;
        cst_rng_init(&rng, options->seed, CST_STREAM_GATE_ROWS, 0);
        cst_rng_shuffle(&rng, order, view->rows);
        d.chosen = order;
        int64_t tasks = d.samples / TASK_SAMPLES + (d.samples % TASK_SAMPLES != 0);
        status = cst_parallel_for(context, tasks, draw_task, &d);
    }
    if (status == CST_OK) {
        int64_t held = (int64_t)(options->validation_fraction * (double)d.samples + 0.5);
        held = held < 1 ? 1 : held;
        held = held > d.samples - 1 ? d.samples - 1 : held;
        t->problem.rows = compact(&d, t, held);
        t->problem.inputs = view->members;
        t->problem.hidden = options->hidden;
        t->problem.l2 = options->l2;
        t->problem.input = t->input;
        t->problem.aggregate = t->aggregate;
        t->problem.target = t->target;
        t->problem.weight = t->weight;
        standardise(t);
    }
    cst_free(context, order);
    cst_free(context, d.taken);
    return status;
}

/* ---- the start ----------------------------------------------------------------------------- */

/* Random first layer (He), small second layer, so that g is about 1/2 everywhere; the head is the
 * ridge solution for g = 1/2, so that training starts from the best linear stack. */
static cst_status start(cst_context *context, const training *t, uint64_t seed, double *theta) {
    const cst_gate_problem *p = &t->problem;
    layout at = theta_layout(p->inputs, p->hidden);
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_GATE_INIT, 0);
    memset(theta, 0, at.count * sizeof *theta);
    for (size_t j = 0; j < at.b1; j++)
        theta[j] = sqrt(2.0 / (double)p->inputs) * cst_rng_normal(&rng);
    for (size_t j = at.w2; j < at.b2; j++)
        theta[j] = 0.1 * sqrt(1.0 / (double)p->hidden) * cst_rng_normal(&rng);
    size_t k = (size_t)p->inputs;
    size_t d = k + CST_AGGREGATORS + 1; /* the intercept last */
    double *gram = cst_alloc(context, d * d, sizeof *gram);
    double *cross = cst_alloc(context, d, sizeof *cross);
    double *row = cst_alloc(context, d, sizeof *row);
    cst_status status = gram && cross && row ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        double count = (double)(p->rows - t->held_rows);
        for (int64_t i = t->held_rows; i < p->rows; i++) {
            memcpy(row, p->input + (size_t)i * k, k * sizeof *row);
            for (size_t j = 0; j < CST_AGGREGATORS; j++)
                row[k + j] = 0.5 * p->aggregate[(size_t)i * CST_AGGREGATORS + j];
            row[d - 1] = 1;
            double weight = p->weight[i] / count;
            for (size_t a = 0; a < d; a++) {
                double scaled = weight * row[a];
                cross[a] += scaled * p->target[i];
                for (size_t b = 0; b <= a; b++)
                    gram[a * d + b] += scaled * row[b];
            }
        }
        for (size_t j = 0; j < d; j++)
            gram[j * d + j] += j + 1 < d ? p->l2 + 1e-12 : 0;
        status = cst_cholesky(context, (int64_t)d, gram);
    }
    if (status == CST_OK) {
        cst_cholesky_solve((int64_t)d, gram, cross);
        memcpy(theta + at.head_members, cross, d * sizeof *theta);
    }
    cst_free(context, gram);
    cst_free(context, cross);
    cst_free(context, row);
    return status;
}

/* ---- Adam ---------------------------------------------------------------------------------- */

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
    size_t count = cst_gate_theta_count(t->problem.inputs, t->problem.hidden);
    int64_t rows = t->problem.rows - t->held_rows;
    adam a = {.count = count, .rate = options->learning_rate, .decay1 = 1, .decay2 = 1};
    a.first = cst_alloc(context, count, sizeof(double));
    a.second = cst_alloc(context, count, sizeof(double));
    double *gradient = cst_alloc(context, count, sizeof *gradient);
    int64_t *order = cst_alloc(context, (size_t)rows, sizeof *order);
    cst_status status = a.first && a.second && gradient && order ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK)
        status = held_out_loss(context, t, theta, &out->loss_start);
    memcpy(best, theta, count * sizeof *best);
    out->loss_best = out->loss_start;
    int32_t worse = 0;
    for (int64_t i = 0; status == CST_OK && i < rows; i++)
        order[i] = t->held_rows + i;
    while (status == CST_OK && out->epochs < options->epochs && worse < options->patience) {
        cst_rng rng;
        cst_rng_init(&rng, options->seed, CST_STREAM_GATE_SHUFFLE, (uint32_t)out->epochs);
        cst_rng_shuffle(&rng, order, rows);
        for (int64_t i = 0; status == CST_OK && i < rows; i += options->batch_rows) {
            int64_t size = rows - i < options->batch_rows ? rows - i : options->batch_rows;
            double loss = 0;
            status =
                cst_gate_gradient(context, &t->problem, order + i, size, theta, gradient, &loss);
            if (status == CST_OK)
                adam_step(&a, gradient, theta);
        }
        double loss = 0;
        if (status == CST_OK)
            status = held_out_loss(context, t, theta, &loss);
        out->epochs++;
        worse++;
        if (status == CST_OK && loss < out->loss_best) {
            out->loss_best = loss;
            out->best_epoch = out->epochs;
            worse = 0;
            memcpy(best, theta, count * sizeof *best);
        }
        if (status == CST_OK)
            status = cst_progress(context, "gate", out->epochs, options->epochs);
    }
    cst_free(context, a.first);
    cst_free(context, a.second);
    cst_free(context, gradient);
    cst_free(context, order);
    return status;
}

/* ---- the fit ------------------------------------------------------------------------------- */

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
    if (!view->labels || view->classes < 2)
        return cst_fail(context, CST_ERROR_INPUT,
                        "a learned gate needs labels and at least two classes (there are %d): use "
                        "gate mode none or prototype",
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
    layout at = theta_layout(t->problem.inputs, t->problem.hidden);
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

cst_status cst_gate_fit(cst_context *context, const cst_view *view, int32_t best,
                        const cst_gate_options *options, cst_gate *out) {
    memset(out, 0, sizeof *out);
    cst_gate_options defaults = cst_gate_options_default();
    if (!options)
        options = &defaults;
    cst_status status = check(context, view, best, options);
    if (status != CST_OK)
        return status;
    out->mode = options->mode;
    out->inputs = view->members;
    out->best = best;
    if (options->mode != CST_GATE_LEARNED)
        return CST_OK;
    training t = {0};
    size_t count = cst_gate_theta_count(view->members, options->hidden);
    double *theta = cst_alloc(context, count, sizeof *theta);
    double *kept = cst_alloc(context, count, sizeof *kept);
    cst_la_enter();
    status = theta && kept ? prepare(context, view, best, options, &t) : CST_ERROR_MEMORY;
    if (status == CST_OK)
        status = start(context, &t, options->seed, theta);
    if (status == CST_OK) {
        out->train_rows = t.problem.rows - t.held_rows;
        /* A step this small is over before threads have met, and on a busy machine long before. */
        int threads = cst_context_threads(context);
        if ((double)options->batch_rows * (double)count < SHARED_FROM)
            status = cst_context_set_threads(context, 1);
        if (status == CST_OK)
            status = train(context, &t, options, theta, kept, out);
        (void)cst_context_set_threads(context, threads); /* was valid before */
    }
    if (status == CST_OK)
        status = store(context, &t, kept, out);
    cst_la_leave();
    free_training(context, &t);
    cst_free(context, theta);
    cst_free(context, kept);
    if (status != CST_OK)
        cst_gate_free(context, out);
    return status;
}
