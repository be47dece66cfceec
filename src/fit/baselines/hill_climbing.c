/* Hill climbing with negative weights. docs/baselines.md#definitions. */
#include "fit/baselines/baselines.h"

#include "method/calibration/calibration.h"
#include "stats/samples.h"

#include <math.h>
#include <string.h>

/* Steps w = -0.50 ... 0.50, MIDDLE being 0; CHAIN factors of 1e-15 / C do not underflow. */
enum { STEPS = 101, MIDDLE = 50, CHAIN = 12, MAX_ROUNDS = 1000 };
static const double GAIN = 1e-5; /* nats a row by which a round must improve the loss */
static const double FLOOR = CST_PROBABILITY_FINE_FLOOR;
static const double CEILING = 1 - CST_PROBABILITY_FINE_FLOOR;

static double step_at(int32_t j) {
    return (double)(j - MIDDLE) / 100;
}

static double clip(double p) {
    p = p < FLOOR ? FLOOR : p;
    return p > CEILING ? CEILING : p;
}

typedef struct climb {
    const cst_view *view;
    double *mixture; /* [rows][classes], not clipped */
    int32_t member;  /* joins with weight `step` */
    double step;
} climb;

/* Sum over classes of the clipped candidate for every step: pieces, linear in the step, are
 * entered where they begin and summed up along the steps. */
typedef struct pieces {
    double level[STEPS + 1];
    double slope[STEPS + 1];
} pieces;

/* The first step (0..STEPS) at or above `w`. */
static int32_t first_step(double w) {
    double j = ceil(w * 100) + MIDDLE;
    return (int32_t)fmin(fmax(j, 0), STEPS);
}

/* Enters clip(p + w d) where the clipping acts within the grid. */
static void add_clipped(pieces *s, double p, double d) {
    if (d == 0) {
        s->level[0] += clip(p);
        return;
    }
    double bottom = (FLOOR - p) / d;
    double top = (CEILING - p) / d;
    int32_t from = first_step(d > 0 ? bottom : top);
    int32_t to = first_step(d > 0 ? top : bottom);
    double before = d > 0 ? FLOOR : CEILING;
    double after = d > 0 ? CEILING : FLOOR;
    s->level[0] += before;
    s->level[from] += p - before;
    s->level[to] += after - p;
    s->slope[from] += d;
    s->slope[to] -= d;
}

/* Row sums at every step where no class is clipped. */
CST_WIDE_BODY straight_body(const double *restrict step, double level, double slope,
                            double *restrict sum) {
    for (int32_t j = 0; j < STEPS; j++)
        sum[j] = level + step[j] * slope;
}
CST_WIDE(straight, (const double *restrict step, double level, double slope, double *restrict sum),
         (step, level, slope, sum))

/* Multiplies the likelihoods of one row: of the true class, and the sums they are divided by. */
CST_WIDE_BODY multiply_body(const double *restrict step, const double *restrict sum, double p,
                            double d, double *restrict numerator, double *restrict denominator) {
    for (int32_t j = 0; j < STEPS; j++) {
        double q = p + step[j] * d;
        q = q < FLOOR ? FLOOR : q;
        q = q > CEILING ? CEILING : q;
        numerator[j] *= q;
        denominator[j] *= sum[j];
    }
}
CST_WIDE(multiply,
         (const double *restrict step, const double *restrict sum, double p, double d,
          double *restrict numerator, double *restrict denominator),
         (step, sum, p, d, numerator, denominator))

static void row_sums(const double *step, const double *mixture, const float *row, int32_t classes,
                     double *sum) {
    pieces s;
    bool clipped = false;
    double level = 0;
    double slope = 0;
    for (int32_t c = 0; c < classes; c++) {
        double p = mixture[c];
        double d = (double)row[c] - p;
        double reach = 0.5 * fabs(d);
        if (p - reach >= FLOOR && p + reach <= CEILING) {
            level += p;
            slope += d;
            continue;
        }
        if (!clipped)
            s = (pieces){0};
        clipped = true;
        add_clipped(&s, p, d);
    }
    if (!clipped) {
        straight(step, level, slope, sum);
        return;
    }
    for (int32_t j = 0; j < STEPS; j++) {
        level += s.level[j];
        slope += s.slope[j];
        sum[j] = level + step[j] * slope;
    }
}

static void take_logs(double *numerator, double *denominator, double *loss) {
    for (int32_t j = 0; j < STEPS; j++) {
        loss[j] -= log(numerator[j] / denominator[j]);
        numerator[j] = denominator[j] = 1;
    }
}

static cst_status loss_block(cst_context *context, void *user, int64_t block, double *total) {
    const climb *state = user;
    int32_t classes = state->view->classes;
    double step[STEPS];
    double sum[STEPS];
    double numerator[STEPS];
    double denominator[STEPS];
    for (int32_t j = 0; j < STEPS; j++) {
        step[j] = step_at(j);
        numerator[j] = denominator[j] = 1;
    }
    CST_SCOPE(scope);
    cst_rows rows;
    CST_TRY(cst_rows_open(context, scope, state->view, block, &rows));
    for (int32_t k = 0; k < state->view->members; k++) {
        CST_TRY(cst_rows_read(context, &rows, k));
        for (int64_t i = 0; i < rows.count; i++) {
            const float *row = cst_rows_at(&rows, i);
            const double *mixture = state->mixture + (rows.first + i) * classes;
            int32_t label = cst_view_label(state->view, rows.first + i);
            row_sums(step, mixture, row, classes, sum);
            multiply(step, sum, mixture[label], (double)row[label] - mixture[label], numerator,
                     denominator);
            if (i % CHAIN == CHAIN - 1 || i == rows.count - 1)
                take_logs(numerator, denominator, total + (int64_t)k * STEPS);
        }
    }
    return CST_OK;
}

/* mixture += step (p_member - mixture). */
static cst_status move_block(cst_context *context, void *user, int64_t block) {
    const climb *state = user;
    CST_SCOPE(scope);
    cst_rows rows;
    CST_TRY(cst_rows_open(context, scope, state->view, block, &rows));
    CST_TRY(cst_rows_read(context, &rows, state->member));
    double *mixture = state->mixture + rows.first * state->view->classes;
    for (int64_t j = 0; j < rows.count * state->view->classes; j++)
        mixture[j] += state->step * ((double)rows.data[j] - mixture[j]);
    return CST_OK;
}

static cst_status move(cst_context *context, climb *state, int32_t member, double step,
                       double *weights) {
    state->member = member;
    state->step = step;
    for (int32_t k = 0; k < state->view->members; k++)
        weights[k] -= step * weights[k];
    weights[member] += step;
    return cst_parallel_own(context, cst_block_count(state->view->rows), 1, move_block, state);
}

/* loss: [members][STEPS] of storage. */
static cst_status rounds(cst_context *context, climb *state, double *loss, cst_baseline_fit *out) {
    const cst_view *view = state->view;
    size_t width = (size_t)view->members * STEPS;
    for (int32_t round = 0;; round++) {
        cst_status status =
            cst_reduce_blocks(context, cst_block_count(view->rows), width, loss_block, state, loss);
        if (status != CST_OK)
            return status;
        double now = loss[MIDDLE] / (double)view->rows;
        size_t best = 0; /* the first of equals: the lowest member, then the lowest step */
        for (size_t j = 1; j < width; j++)
            if (loss[j] < loss[best])
                best = j;
        (void)cst_snprintf(out->detail, sizeof out->detail, "%d rounds, log loss %.6f", (int)round,
                           now);
        if (!(loss[best] / (double)view->rows < now - GAIN) || round == MAX_ROUNDS)
            return CST_OK;
        status = move(context, state, (int32_t)(best / STEPS), step_at((int32_t)(best % STEPS)),
                      out->weights);
        if (status != CST_OK)
            return status;
    }
}

cst_status cst_fit_hill_climbing(cst_context *context, const cst_baseline_data *data,
                                 cst_baseline_fit *out) {
    const cst_view *view = data->view;
    size_t cells = 0;
    if (!cst_size_mul((size_t)view->rows, (size_t)view->classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "the mixture of %lld rows overflows",
                        (long long)view->rows);
    climb state = {.view = view};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, state.mixture, cells);
    CST_NEW(context, scope, double, loss, (view->members * STEPS));
    CST_TRY(cst_risk_all(context, view, loss));
    int32_t best = 0;
    for (int32_t k = 1; k < view->members; k++)
        if (loss[k] < loss[best])
            best = k;
    CST_TRY(move(context, &state, best, 1, out->weights));
    return rounds(context, &state, loss, out);
}
