/* Temperature scaling by Newton's method on log(1/T) inside a bracket that only shrinks, and vector
 * scaling by L-BFGS from the inverse of the Hessian's 2 x 2 diagonal blocks. */
#include "core/wide.h"
#include "method/calibration/calibration.h"
#include "stats/samples.h"

#include <math.h>
#include <string.h>

/* ---- logs of probabilities with a floor ---- */

/* Rows side by side in a table of logs; a block has a whole number of these. */
enum { TILE = 32 };

/* What a scaling is fitted to: log(max(p, 1e-15)) as float32 [tiles][classes][TILE], 0 in the last
 * tile's places without a row. */
typedef struct log_table {
    const cst_labelled *data;
    float *logs;
} log_table;

static double weight_of(const cst_labelled *data, int64_t row) {
    return data->weights ? data->weights[row] : 1;
}

/* One tile: rows [count][classes] to [classes][TILE]. */
CST_KERNEL(log_tile, (const float *p, int64_t count, int32_t classes, float *restrict out),
           (p, count, classes, out)) {
    for (int32_t c = 0; c < classes; c++) {
        double x[TILE];
        for (int64_t r = 0; r < TILE; r++)
            x[r] = r < count ? (double)p[r * classes + c] : 1.0;
        for (int64_t r = 0; r < TILE; r++)
            x[r] = x[r] > CST_NLL_FLOOR ? x[r] : CST_NLL_FLOOR;
        for (int64_t r = 0; r < TILE; r++)
            out[(int64_t)c * TILE + r] = (float)cst_log_one_f64(x[r]);
    }
}

static cst_status log_block(cst_context *context, void *user, int64_t block) {
    (void)context;
    const log_table *table = user;
    int32_t classes = table->data->classes;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(table->data->rows, block);
    for (; first < end; first += TILE)
        log_tile(table->data->probabilities + first * classes,
                 end - first < TILE ? end - first : TILE, classes, table->logs + first * classes);
    return CST_OK;
}

static cst_status make_logs(cst_context *context, cst_scope *scope, const cst_labelled *data,
                            log_table *out) {
    size_t cells = 0;
    size_t padded = (size_t)((data->rows + TILE - 1) / TILE * TILE);
    *out = (log_table){.data = data};
    if (!cst_size_mul(padded, (size_t)data->classes, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "%lld rows of %d classes are too many",
                        (long long)data->rows, data->classes);
    CST_TAKE(context, scope, out->logs, cells);
    return cst_parallel_own(context, cst_block_count(data->rows), 1, log_block, out);
}

enum { LANES = 8 };

CST_KERNEL(floor_values, (int64_t count, double *restrict values), (count, values)) {
    for (int64_t j = 0; j < count; j++)
        values[j] = values[j] > CST_NLL_FLOOR ? values[j] : CST_NLL_FLOOR;
}

/* log(max(p, 1e-15)) of [count] values in place. */
static void floored_logs(int64_t count, double *values) {
    floor_values(count, values);
    cst_log_f64(count, values, values);
}

CST_KERNEL(below_top, (int64_t count, int32_t classes, double *restrict values),
           (count, classes, values)) {
    for (int64_t i = 0; i < count; i++) {
        double *row = values + i * classes;
        double top = cst_lanes_top(row, classes);
        for (int32_t c = 0; c < classes; c++)
            row[c] -= top;
    }
}

CST_KERNEL(to_shares, (int64_t count, int32_t classes, double *restrict values),
           (count, classes, values)) {
    for (int64_t i = 0; i < count; i++) {
        double *row = values + i * classes;
        double total = cst_lanes_sum(row, classes);
        for (int32_t c = 0; c < classes; c++)
            row[c] /= total;
    }
}

void cst_softmax_rows(int64_t count, int32_t classes, double *scores) {
    below_top(count, classes, scores);
    cst_exp_f64(count * classes, scores, scores);
    to_shares(count, classes, scores);
}

/* ---- temperature ---- */

typedef struct temperature_job {
    log_table table;
    double total;   /* sum of the rows' weights */
    double inverse; /* 1/T */
    double prior;   /* precision of the inverse temperature around 1, against the total NLL */
} temperature_job;

/* Sums over a tile's classes, with below = log p - top: exp(b below), times below, squared. */
typedef struct tile_sums {
    double top[TILE];
    double total[TILE];
    double mean[TILE];
    double square[TILE];
} tile_sums;

CST_KERNEL(run_tile,
           (const float *restrict logs, int32_t classes, double inverse, tile_sums *restrict out),
           (logs, classes, inverse, out)) {
    float top[TILE];
    memcpy(top, logs, sizeof top);
    for (int32_t c = 1; c < classes; c++)
        for (int r = 0; r < TILE; r++) {
            float x = logs[c * TILE + r];
            top[r] = x > top[r] ? x : top[r];
        }
    memset(out, 0, sizeof *out);
    for (int r = 0; r < TILE; r++)
        out->top[r] = (double)top[r];
    for (int32_t c = 0; c < classes; c++)
        for (int r = 0; r < TILE; r++) {
            double below = (double)logs[c * TILE + r] - out->top[r];
            double weight = cst_exp_one_f64(inverse * below);
            double moment = weight * below;
            out->total[r] += weight;
            out->mean[r] += moment;
            out->square[r] += moment * below;
        }
}

/* sum: [0] NLL at the job's inverse temperature b, [1] its derivative in b, [2] the second. */
static cst_status temperature_block(cst_context *context, void *user, int64_t block, double *sum) {
    (void)context;
    const temperature_job *job = user;
    const cst_labelled *data = job->table.data;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(data->rows, block);
    double log_total[TILE];
    tile_sums s;
    for (; first < end; first += TILE) {
        const float *logs = job->table.logs + first * data->classes;
        int64_t count = end - first < TILE ? end - first : TILE;
        run_tile(logs, data->classes, job->inverse, &s);
        cst_log_f64(count, s.total, log_total);
        for (int64_t r = 0; r < count; r++) {
            double mean = s.mean[r] / s.total[r];
            double own = (double)logs[data->labels[first + r] * TILE + r] - s.top[r];
            double counts = weight_of(data, first + r);
            sum[0] += counts * (log_total[r] - job->inverse * own);
            sum[1] += counts * (mean - own);
            sum[2] += counts * (s.square[r] / s.total[r] - mean * mean);
        }
    }
    return CST_OK;
}

static cst_status temperature_sums(cst_context *context, temperature_job *job, double log_inverse,
                                   double *sums) {
    job->inverse = exp(log_inverse);
    cst_status status = cst_reduce_blocks(context, cst_block_count(job->table.data->rows), 3,
                                          temperature_block, job, sums);
    double offset = job->inverse - 1;
    sums[0] += 0.5 * job->prior * offset * offset;
    sums[1] += job->prior * offset;
    sums[2] += job->prior;
    for (int j = 0; j < 3; j++)
        sums[j] /= job->total;
    return status;
}

/* Newton's point inside the bracket; the bound the first time it is left; else the middle. */
static double next_point(double at, const double *sums, double low, double high, bool *low_seen,
                         bool *high_seen) {
    double slope = sums[1];
    double curvature = sums[2] * exp(at);
    double next = curvature > 0 ? at - slope / curvature : (slope > 0 ? -INFINITY : INFINITY);
    if (next > low && next < high)
        return next;
    if (next >= high && !*high_seen) {
        *high_seen = true;
        return high;
    }
    if (next <= low && !*low_seen) {
        *low_seen = true;
        return low;
    }
    return 0.5 * (low + high);
}

static cst_status search(cst_context *context, temperature_job *job, double start, double tolerance,
                         double *temperature, double *sums) {
    const double least = log(1 / CST_TEMPERATURE_HIGH);
    const double most = log(1 / CST_TEMPERATURE_LOW);
    double low = least;
    double high = most;
    bool low_seen = false;
    bool high_seen = false;
    double at = fmin(fmax(-log(start), least), most);
    for (int i = 0; i < 200; i++) {
        CST_TRY(temperature_sums(context, job, at, sums));
        if (sums[1] == 0 || (sums[1] > 0 && at == least) || (sums[1] < 0 && at == most))
            break;
        if (sums[1] > 0)
            high = at;
        else
            low = at;
        double next = next_point(at, sums, low, high, &low_seen, &high_seen);
        bool near = fabs(next - at) < tolerance || high - low < tolerance;
        at = next;
        if (near)
            break;
    }
    *temperature = at == least ? CST_TEMPERATURE_HIGH : at == most ? CST_TEMPERATURE_LOW : exp(-at);
    return CST_OK;
}

cst_status cst_temperature_fit(cst_context *context, const cst_labelled *data,
                               const cst_temperature_options *options, double *temperature,
                               double *nll) {
    static const cst_temperature_options plain = {.start = 1, .tolerance = 1e-12};
    options = options ? options : &plain;
    if (data->rows < 1 || !data->labels)
        return cst_fail(context, CST_ERROR_INPUT, "temperature scaling needs labelled rows");
    temperature_job job = {.prior = options->prior};
    double sums[3];
    for (int64_t i = 0; i < data->rows; i++)
        job.total += weight_of(data, i);
    CST_SCOPE(scope);
    CST_TRY(make_logs(context, scope, data, &job.table));
    CST_TRY(search(context, &job, options->start, options->tolerance, temperature, sums));
    if (*temperature <= CST_TEMPERATURE_LOW || *temperature >= CST_TEMPERATURE_HIGH)
        cst_notice(context, "temperature scaling stopped at its limit, T = %g: the predictions %s",
                   *temperature,
                   *temperature <= CST_TEMPERATURE_LOW ? "are correct on every row"
                                                       : "say nothing of the class");
    if (nll)
        *nll = sums[0];
    return CST_OK;
}

void cst_temperature_rows(double temperature, int64_t count, int32_t classes,
                          double *probabilities) {
    int64_t cells = count * classes;
    double inverse = 1 / temperature;
    floored_logs(cells, probabilities);
    for (int64_t j = 0; j < cells; j++)
        probabilities[j] *= inverse;
    cst_softmax_rows(count, classes, probabilities);
}

/* ---- a slope and an intercept of each class ---- */

typedef struct vector_job {
    log_table table;
    double shrink;
    const double *theta; /* [2C]: slopes, then intercepts */
} vector_job;

/* exp of the scores minus the row's largest, [classes][TILE], with that and the sums. */
CST_KERNEL(exp_tile,
           (const float *restrict logs, int32_t classes, const double *restrict theta,
            double *restrict q, double *restrict top, double *restrict total),
           (logs, classes, theta, q, top, total)) {
    for (int r = 0; r < TILE; r++) {
        top[r] = -INFINITY;
        total[r] = 0;
    }
    for (int32_t c = 0; c < classes; c++) {
        double slope = theta[c];
        double intercept = theta[classes + c];
        for (int r = 0; r < TILE; r++) {
            double score = slope * (double)logs[c * TILE + r] + intercept;
            q[c * TILE + r] = score;
            top[r] = score > top[r] ? score : top[r];
        }
    }
    for (int32_t c = 0; c < classes; c++)
        for (int r = 0; r < TILE; r++) {
            double value = cst_exp_one_f64(q[c * TILE + r] - top[r]);
            q[c * TILE + r] = value;
            total[r] += value;
        }
}

/* A block's sums of a class, [5][classes]: the gradient, then the 2 x 2 block of the Hessian. */
enum { BY_SLOPE, BY_INTERCEPT, SLOPE_TWICE, MIXED, INTERCEPT_TWICE, SUMS };

/* The sum of a tile's values, of a fixed order; overwrites them. */
static inline __attribute__((always_inline)) double sum_tile(double *restrict v) {
    for (int r = 0; r < LANES; r++)
        v[r] = (v[r] + v[r + LANES]) + (v[r + 2 * LANES] + v[r + 3 * LANES]);
    return cst_lanes_total(v);
}

/* Adds the sums over a tile's rows. inverse: 1 over the rows' totals. */
CST_KERNEL(add_tile,
           (const float *restrict logs, int32_t classes, const double *restrict q,
            const double *restrict inverse, const double *restrict weight, double *restrict sums),
           (logs, classes, q, inverse, weight, sums)) {
    for (int32_t c = 0; c < classes; c++) {
        double terms[SUMS][TILE];
        for (int r = 0; r < TILE; r++) {
            double x = (double)logs[c * TILE + r];
            double p = q[c * TILE + r] * inverse[r];
            double share = weight[r] * p;
            double spread = share * (1 - p);
            terms[BY_SLOPE][r] = share * x;
            terms[BY_INTERCEPT][r] = share;
            terms[SLOPE_TWICE][r] = spread * x * x;
            terms[MIXED][r] = spread * x;
            terms[INTERCEPT_TWICE][r] = spread;
        }
        for (int j = 0; j < SUMS; j++)
            sums[j * classes + c] += sum_tile(terms[j]);
    }
}

static cst_status vector_block(cst_context *worker, void *user, int64_t block, double *sum) {
    const vector_job *job = user;
    const cst_labelled *data = job->table.data;
    int32_t classes = data->classes;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(data->rows, block);
    double top[TILE];
    double total[TILE];
    double inverse[TILE];
    double weight[TILE];
    double *sums = sum + 1;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, double, q, (size_t)classes *TILE);
    for (; first < end; first += TILE) {
        const float *logs = job->table.logs + first * classes;
        int64_t count = end - first < TILE ? end - first : TILE;
        exp_tile(logs, classes, job->theta, q, top, total);
        for (int64_t r = 0; r < TILE; r++) {
            inverse[r] = 1 / total[r];
            weight[r] = r < count ? weight_of(data, first + r) : 0;
        }
        add_tile(logs, classes, q, inverse, weight, sums);
        cst_log_f64(TILE, total, total);
        for (int64_t r = 0; r < count; r++) {
            int32_t label = data->labels[first + r];
            double x = (double)logs[label * TILE + r];
            sum[0] += weight[r] *
                      (top[r] + total[r] - job->theta[label] * x - job->theta[classes + label]);
            sums[BY_SLOPE * classes + label] -= weight[r] * x;
            sums[BY_INTERCEPT * classes + label] -= weight[r];
        }
    }
    return CST_OK;
}

/* Loss, gradient [2C] and blocks [3C] (slope twice, mixed, intercept twice) with the prior. */
static cst_status vector_sums(cst_context *context, void *user, const double *theta, double *sums) {
    vector_job *job = user;
    size_t classes = (size_t)job->table.data->classes;
    size_t size = 2 * classes;
    job->theta = theta;
    CST_TRY(cst_reduce_blocks(context, cst_block_count(job->table.data->rows), 1 + SUMS * classes,
                              vector_block, job, sums));
    double precision = job->shrink > 0 ? job->shrink : CST_VECTOR_PRIOR;
    double center = 1;
    if (job->shrink > 0) {
        /* their mean has the weaker prior around 1 */
        center = 0;
        for (size_t c = 0; c < classes; c++)
            center += theta[c] / (double)classes;
        sums[0] += 0.5 * CST_VECTOR_PRIOR * (center - 1) * (center - 1);
        for (size_t c = 0; c < classes; c++)
            sums[1 + c] += CST_VECTOR_PRIOR * (center - 1) / (double)classes;
    }
    for (size_t j = 0; j < size; j++) {
        double offset = theta[j] - (j < classes ? center : 0);
        sums[0] += 0.5 * precision * offset * offset;
        sums[1 + j] += precision * offset;
    }
    for (size_t c = 0; c < classes; c++) {
        sums[1 + size + c] += precision;
        sums[1 + size + 2 * classes + c] += precision;
    }
    return CST_OK;
}

/* Solves the 2 x 2 systems of the classes in place. */
static void solve_blocks(const void *user, const double *sums, double *v) {
    const vector_job *job = user;
    size_t classes = (size_t)job->table.data->classes;
    const double *blocks = sums + 1 + 2 * classes;
    for (size_t c = 0; c < classes; c++) {
        double aa = blocks[c];
        double ab = blocks[classes + c];
        double bb = blocks[2 * classes + c];
        double determinant = aa * bb - ab * ab; /* at least the prior's precision squared */
        double slope = (bb * v[c] - ab * v[classes + c]) / determinant;
        v[classes + c] = (aa * v[classes + c] - ab * v[c]) / determinant;
        v[c] = slope;
    }
}

cst_status cst_vector_fit(cst_context *context, const cst_labelled *data,
                          const cst_vector_options *options, double *slopes, double *intercepts) {
    static const cst_vector_options plain = {.tolerance = 1e-16};
    options = options ? options : &plain;
    size_t c = (size_t)data->classes;
    vector_job job = {.shrink = options->shrink};
    const cst_descent descent = {.size = 2 * c,
                                 .sums = 1 + SUMS * c,
                                 .tolerance = options->tolerance,
                                 .evaluate = vector_sums,
                                 .solve = solve_blocks,
                                 .user = &job,
                                 .name = "vector scaling"};
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, theta, 2 * c);
    CST_TRY(make_logs(context, scope, data, &job.table));
    for (size_t j = 0; j < c; j++) {
        theta[j] = options->start ? options->start->slopes[j] : 1;
        theta[c + j] = options->start ? options->start->intercepts[j] : 0;
    }
    CST_TRY(cst_descend(context, &descent, theta));
    memcpy(slopes, theta, c * sizeof *slopes);
    memcpy(intercepts, theta + c, c * sizeof *intercepts);
    return CST_OK;
}

void cst_vector_rows(const double *slopes, const double *intercepts, int64_t count, int32_t classes,
                     double *probabilities) {
    floored_logs(count * classes, probabilities);
    for (int64_t i = 0; i < count; i++) {
        double *row = probabilities + i * classes;
        for (int32_t c = 0; c < classes; c++)
            row[c] = slopes[c] * row[c] + intercepts[c];
    }
    cst_softmax_rows(count, classes, probabilities);
}

/* ---- L-BFGS for smooth convex functions ---- */

/* Pairs of steps and changes of the gradient that are kept; steps at most. */
enum { HISTORY = 20, STEPS = 500 };

/* A point and what is known there. */
typedef struct point {
    double *theta; /* [size] */
    double *sums;  /* [sums] */
} point;

typedef struct walk {
    const cst_descent *d;
    size_t size;
    point at;
    point trial;
    double *direction; /* [size] */
    double *steps;     /* [HISTORY][size] */
    double *changes;   /* [HISTORY][size] */
    double inner[HISTORY];
    int kept;
    int newest;
} walk;

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t j = 0; j < count; j++)
        sum += a[j] * b[j];
    return sum;
}

static cst_status evaluate(cst_context *context, const walk *w, const point *p) {
    return w->d->evaluate(context, w->d->user, p->theta, p->sums);
}

/* The two-loop recursion: direction = - (inverse Hessian) gradient. */
static void find_direction(walk *w) {
    double weight[HISTORY] = {0};
    double *v = w->direction;
    for (size_t j = 0; j < w->size; j++)
        v[j] = -w->at.sums[1 + j];
    for (int i = 0; i < w->kept; i++) {
        int h = (w->newest - i + HISTORY) % HISTORY;
        weight[h] = dot(w->steps + (size_t)h * w->size, v, w->size) / w->inner[h];
        for (size_t j = 0; j < w->size; j++)
            v[j] -= weight[h] * w->changes[(size_t)h * w->size + j];
    }
    w->d->solve(w->d->user, w->at.sums, v);
    for (int i = w->kept - 1; i >= 0; i--) {
        int h = (w->newest - i + HISTORY) % HISTORY;
        double back = dot(w->changes + (size_t)h * w->size, v, w->size) / w->inner[h];
        for (size_t j = 0; j < w->size; j++)
            v[j] += (weight[h] - back) * w->steps[(size_t)h * w->size + j];
    }
}

/* Halves the step until the loss falls enough or, where rounding hides that, its slope does. */
static cst_status line_search(cst_context *context, walk *w, double slope, bool *moved) {
    *moved = false;
    for (double t = 1; t > 1e-12 && !*moved; t *= 0.5) {
        for (size_t j = 0; j < w->size; j++)
            w->trial.theta[j] = w->at.theta[j] + t * w->direction[j];
        cst_status status = evaluate(context, w, &w->trial);
        if (status != CST_OK)
            return status;
        double value = w->trial.sums[0];
        double new_slope = dot(w->trial.sums + 1, w->direction, w->size);
        *moved = value <= w->at.sums[0] + 1e-4 * t * slope ||
                 (value <= w->at.sums[0] * (1 + 1e-11) && fabs(new_slope) <= -0.9 * slope);
    }
    return CST_OK;
}

/* Keeps the pair of the last step and moves there. */
static void advance(walk *w) {
    int next = (w->newest + 1) % HISTORY;
    double *step = w->steps + (size_t)next * w->size;
    double *change = w->changes + (size_t)next * w->size;
    for (size_t j = 0; j < w->size; j++) {
        step[j] = w->trial.theta[j] - w->at.theta[j];
        change[j] = w->trial.sums[1 + j] - w->at.sums[1 + j];
    }
    double inner = dot(step, change, w->size);
    if (inner > 0) { /* always, but for rounding: the loss is strictly convex */
        w->inner[next] = inner;
        w->newest = next;
        w->kept += w->kept < HISTORY ? 1 : 0;
    }
    point old = w->at;
    w->at = w->trial;
    w->trial = old;
}

/* Descends until the next step promises less than the tolerance. */
static cst_status go_down(cst_context *context, walk *w) {
    CST_TRY(evaluate(context, w, &w->at));
    bool moved = true;
    for (int i = 0; moved && i < STEPS; i++) {
        find_direction(w);
        double slope = dot(w->at.sums + 1, w->direction, w->size);
        if (!(slope < -w->d->tolerance))
            return CST_OK;
        CST_TRY(line_search(context, w, slope, &moved));
        if (moved)
            advance(w);
    }
    if (moved)
        cst_notice(context, "%s stopped after %d steps before it reached the optimum", w->d->name,
                   STEPS);
    return CST_OK;
}

cst_status cst_descend(cst_context *context, const cst_descent *descent, double *theta) {
    size_t size = descent->size;
    size_t total = (2 + 1 + 2 * HISTORY) * size + 2 * descent->sums;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, all, total);
    walk w = {.d = descent, .size = size, .newest = HISTORY - 1};
    w.at = (point){all, all + 2 * size};
    w.trial = (point){all + size, all + 2 * size + descent->sums};
    w.direction = all + 2 * size + 2 * descent->sums;
    w.steps = w.direction + size;
    w.changes = w.steps + HISTORY * size;
    memcpy(w.at.theta, theta, size * sizeof *theta);
    CST_TRY(go_down(context, &w));
    memcpy(theta, w.at.theta, size * sizeof *theta);
    return CST_OK;
}
