/* Loss of the gate and its head, and the gradient, over chunks of rows in a fixed order. */
#include "core/la.h"
#include "core/wide.h"
#include "method/gate/gate.h"

#include <string.h>

/* Rows of a mini-batch handled together: the unit of the fixed-order sum. */
enum { CHUNK_ROWS = 128 };

cst_gate_layout cst_gate_layout_of(int32_t inputs, int32_t hidden) {
    cst_gate_layout at;
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

typedef struct gradient_task {
    const cst_gate_problem *problem;
    const int64_t *rows;
    int64_t count;
    const double *theta;
    bool loss_only;
    cst_gate_layout at;
} gradient_task;

/* Storage of one chunk, all [rows][...], CHUNK_ROWS at most. */
typedef struct chunk {
    double *x;     /* [inputs] */
    double *a;     /* [12] */
    double *h;     /* [hidden] */
    double *g;     /* [12] */
    double *dz;    /* [12]: gradient before the sigmoid */
    double *dh;    /* [hidden] */
    double *slope; /* [1]: d loss / d f */
} chunk;

static cst_status open_chunk(cst_context *context, cst_scope *scope, size_t rows, int32_t inputs,
                             int32_t hidden, chunk *c) {
    size_t k = (size_t)inputs;
    size_t h = (size_t)hidden;
    CST_TAKE(context, scope, c->x, rows * (k + 3 * CST_AGGREGATORS + 2 * h + 1));
    c->a = c->x + rows * k;
    c->h = c->a + rows * CST_AGGREGATORS;
    c->g = c->h + rows * h;
    c->dz = c->g + rows * CST_AGGREGATORS;
    c->dh = c->dz + rows * CST_AGGREGATORS;
    c->slope = c->dh + rows * h;
    return CST_OK;
}

/* x = x where it is positive, else 0. */
CST_KERNEL(rectify, (int64_t count, double *restrict x), (count, x)) {
    for (int64_t i = 0; i < count; i++)
        x[i] = x[i] > 0 ? x[i] : 0;
}

/* z = 1 / (1 + e), e = exp(-z). */
CST_KERNEL(logistic, (int64_t count, double *restrict e), (count, e)) {
    for (int64_t i = 0; i < count; i++)
        e[i] = 1 / (1 + e[i]);
}

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
    CST_TRY(cst_gemm_f64(context, false, true, rows, h, k, 1, c->x, k, theta, k, 1, c->h, h));
    rectify(rows * h, c->h);
    CST_TRY(cst_gemm_f64(context, false, true, rows, CST_AGGREGATORS, h, -1, c->h, h,
                         theta + t->at.w2, h, 1, c->g, CST_AGGREGATORS));
    cst_exp_f64(rows * CST_AGGREGATORS, c->g, c->g);
    logistic(rows * CST_AGGREGATORS, c->g);
    return CST_OK;
}

/* Lanes of a dot product: sums that do not wait for one another. */
enum { LANES = 4 };

/* f[i] = members . x[i] + aggregates . (g[i] a[i]); a is replaced by g a. */
CST_KERNEL(head_values,
           (int64_t count, int32_t k, const double *restrict x, double *restrict a,
            const double *restrict g, const double *restrict members,
            const double *restrict aggregates, double *restrict f),
           (count, k, x, a, g, members, aggregates, f)) {
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

/* Adds slope . x and slope . ga to the head's gradient; dz = slope aggregates ga (1 - g). */
CST_KERNEL(head_slopes,
           (int64_t count, int32_t k, const double *restrict slope, const double *restrict x,
            const double *restrict ga, const double *restrict g, const double *restrict aggregates,
            double *restrict to_members, double *restrict to_aggregates, double *restrict dz),
           (count, k, slope, x, ga, g, aggregates, to_members, to_aggregates, dz)) {
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
CST_KERNEL(biases,
           (int64_t rows, int64_t hidden, const double *restrict h, const double *restrict dz,
            double *restrict dh, double *restrict b1, double *restrict b2),
           (rows, hidden, h, dz, dh, b1, b2)) {
    for (int64_t i = 0; i < rows * hidden; i++)
        dh[i] = h[i] > 0 ? dh[i] : 0;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < hidden; j++)
            b1[j] += dh[i * hidden + j];
        for (int32_t j = 0; j < CST_AGGREGATORS; j++)
            b2[j] += dz[i * CST_AGGREGATORS + j];
    }
}

/* Adds the rows' part of the perceptron's gradient. */
static cst_status backward(cst_context *context, const gradient_task *t, const chunk *c,
                           int64_t rows, double *sum) {
    int64_t k = t->problem->inputs;
    int64_t h = t->problem->hidden;
    CST_TRY(cst_gemm_f64(context, true, false, CST_AGGREGATORS, h, rows, 1, c->dz, CST_AGGREGATORS,
                         c->h, h, 1, sum + t->at.w2, h));
    CST_TRY(cst_gemm_f64(context, false, false, rows, h, CST_AGGREGATORS, 1, c->dz, CST_AGGREGATORS,
                         t->theta + t->at.w2, h, 0, c->dh, h));
    biases(rows, h, c->h, c->dz, c->dh, sum + t->at.b1, sum + t->at.b2);
    return cst_gemm_f64(context, true, false, h, k, rows, 1, c->dh, h, c->x, k, 1, sum, k);
}

/* Fills a chunk's rows: inputs, aggregators, h and g. *count: how many there are. */
static cst_status run_chunk(cst_context *worker, cst_scope *scope, const gradient_task *t,
                            int64_t first, int64_t *count, chunk *c) {
    const cst_gate_problem *p = t->problem;
    size_t k = (size_t)p->inputs;
    int64_t rows = t->count - first < CHUNK_ROWS ? t->count - first : CHUNK_ROWS;
    *count = rows;
    CST_TRY(open_chunk(worker, scope, (size_t)rows, p->inputs, p->hidden, c));
    for (int64_t i = 0; i < rows; i++) {
        size_t row = (size_t)(t->rows ? t->rows[first + i] : first + i);
        memcpy(c->x + (size_t)i * k, p->input + row * k, k * sizeof(double));
        memcpy(c->a + i * CST_AGGREGATORS, p->aggregate + row * CST_AGGREGATORS,
               CST_AGGREGATORS * sizeof(double));
    }
    return forward(worker, t, c, rows);
}

static cst_status gradient_chunk(cst_context *worker, void *user, int64_t block, double *sum) {
    const gradient_task *t = user;
    int64_t rows = 0;
    chunk c;
    CST_SCOPE(scope);
    CST_TRY(run_chunk(worker, scope, t, block * CHUNK_ROWS, &rows, &c));
    head(t, &c, t->rows, block * CHUNK_ROWS, rows, sum);
    return t->loss_only ? CST_OK : backward(worker, t, &c, rows, sum);
}

/* sum: of the aggregators, then of what comes through. */
static cst_status passed_chunk(cst_context *worker, void *user, int64_t block, double *sum) {
    const gradient_task *t = user;
    int64_t rows = 0;
    chunk c;
    CST_SCOPE(scope);
    CST_TRY(run_chunk(worker, scope, t, block * CHUNK_ROWS, &rows, &c));
    for (int64_t i = 0; i < rows * CST_AGGREGATORS; i++) {
        int64_t a = i % CST_AGGREGATORS;
        double value = t->problem->weight[block * CHUNK_ROWS + i / CST_AGGREGATORS] * c.a[i];
        sum[a] += value;
        sum[CST_AGGREGATORS + a] += value * c.g[i];
    }
    return CST_OK;
}

static int64_t chunks_of(int64_t rows) {
    return rows / CHUNK_ROWS + (rows % CHUNK_ROWS != 0);
}

cst_status cst_gate_passed(cst_context *context, const cst_gate_problem *problem,
                           const double *theta, double passed[CST_AGGREGATORS]) {
    double sum[2 * CST_AGGREGATORS] = {0};
    gradient_task t = {.problem = problem,
                       .count = problem->rows,
                       .theta = theta,
                       .at = cst_gate_layout_of(problem->inputs, problem->hidden)};
    CST_LA();
    CST_TRY(
        cst_reduce_blocks(context, chunks_of(t.count), 2 * CST_AGGREGATORS, passed_chunk, &t, sum));
    for (int32_t a = 0; a < CST_AGGREGATORS; a++)
        passed[a] = sum[a] > 0 ? sum[CST_AGGREGATORS + a] / sum[a] : 1;
    return CST_OK;
}

cst_status cst_gate_gradient(cst_context *context, const cst_gate_problem *problem,
                             const int64_t *rows, int64_t count, const double *theta,
                             double *gradient, double *loss) {
    gradient_task t = {.problem = problem,
                       .rows = rows,
                       .count = count,
                       .theta = theta,
                       .loss_only = gradient == NULL,
                       .at = cst_gate_layout_of(problem->inputs, problem->hidden)};
    size_t width = t.at.count + 1;
    CST_SCOPE(scope);
    CST_LA();
    CST_NEW(context, scope, double, total, width);
    CST_TRY(cst_reduce_blocks(context, chunks_of(count), width, gradient_chunk, &t, total));
    *loss = total[t.at.count];
    for (size_t j = t.at.head_members; j < t.at.intercept; j++) {
        *loss += problem->l2 * theta[j] * theta[j];
        total[j] += 2 * problem->l2 * theta[j];
    }
    if (gradient)
        memcpy(gradient, total, t.at.count * sizeof *gradient);
    return CST_OK;
}
