/* Calibration maps: their table, fits and application. Isotonic ones pool adjacent violators (sums
 * are counts, so that means compare exactly); Platt's have the damped Newton method of Lin, Lin and
 * Weng (2007). docs/baselines.md#calibration-maps. */
#include "method/calibration/calibration.h"
#include "core/wide.h"

#include "core/base.h"

#include <math.h>
#include <string.h>

/* Of vector scaling inside a blend: with a few hundred rows the map of each class is noise. */
static const double SHRINK = 10;
static const double SLOPE_PRIOR = 1;
static const double SHRUNK_TOLERANCE = 1e-3;
/* Of a temperature: Newton's next step would be about the square of this. */
static const double SHRUNK_STEP = 1e-4;

typedef struct calibrator_text {
    cst_calibrator_kind kind;
    const char *name;
    const char *definition;
} calibrator_text;

static const calibrator_text TEXTS[] = {
    {CST_CALIBRATOR_TEMPERATURE, "temperature",
     "softmax(log p / T) with the T that minimises "
     "the NLL"},
    {CST_CALIBRATOR_VECTOR, "vector",
     "softmax(a_c log p_c + b_c) with the a and b that minimise total NLL + |a - 1|^2/2 + "
     "|b|^2/2"},
    {CST_CALIBRATOR_ISOTONIC, "isotonic",
     "isotonic regression of [y = c] on p_c for each class, interpolated linearly between "
     "knots, at least 1e-6, rows normalised"},
    {CST_CALIBRATOR_PLATT, "platt",
     "sigmoid(a_c log(p_c / (1 - p_c)) + b_c) for each class, minimising the cross-entropy "
     "with Platt's smoothed targets, rows normalised"},
};

enum { TEXT_COUNT = sizeof TEXTS / sizeof TEXTS[0] };

const char *cst_calibrator_name(cst_calibrator_kind kind) {
    for (int i = 0; i < TEXT_COUNT; i++)
        if (TEXTS[i].kind == kind)
            return TEXTS[i].name;
    return NULL;
}

const char *cst_calibrator_definition(cst_calibrator_kind kind) {
    for (int i = 0; i < TEXT_COUNT; i++)
        if (TEXTS[i].kind == kind)
            return TEXTS[i].definition;
    return NULL;
}

cst_calibrator_kind cst_calibrator_find(const char *name) {
    for (int i = 0; i < TEXT_COUNT; i++)
        if (strcmp(TEXTS[i].name, name) == 0)
            return TEXTS[i].kind;
    return CST_CALIBRATOR_NONE;
}

/* "NAME L to H": the least and the largest of [count] values. */
static void range_text(const char *name, const double *values, int32_t count, char *out,
                       size_t size) {
    double low = values[0];
    double high = values[0];
    for (int32_t c = 1; c < count; c++) {
        low = fmin(low, values[c]);
        high = fmax(high, values[c]);
    }
    (void)cst_snprintf(out, size, "%s %.3g to %.3g", name, low, high);
}

void cst_calibrator_describe(cst_calibrator *fit) {
    char slopes[30] = "";
    char intercepts[30] = "";
    long long knots = 0;
    switch (fit->kind) {
    case CST_CALIBRATOR_NONE:
        break;
    case CST_CALIBRATOR_TEMPERATURE:
        (void)cst_snprintf(fit->detail, sizeof fit->detail, "T = %.4g", fit->temperature);
        break;
    case CST_CALIBRATOR_VECTOR:
    case CST_CALIBRATOR_PLATT:
        range_text("a", fit->slopes, fit->classes, slopes, sizeof slopes);
        range_text("b", fit->intercepts, fit->classes, intercepts, sizeof intercepts);
        (void)cst_snprintf(fit->detail, sizeof fit->detail, "%s, %s", slopes, intercepts);
        break;
    case CST_CALIBRATOR_ISOTONIC:
        for (int32_t c = 0; c < fit->classes; c++)
            knots += fit->steps[c].count;
        (void)cst_snprintf(fit->detail, sizeof fit->detail, "%lld knots", knots);
        break;
    }
}

/* The arrays that a map of this kind and number of classes has, zeroed; of an isotonic one without
 * its knots. Free with cst_calibrator_free, also after a failure. */
static cst_status calibrator_alloc(cst_context *context, cst_calibrator_kind kind, int32_t count,
                                   cst_calibrator *out) {
    size_t classes = (size_t)count;
    bool sloped = kind == CST_CALIBRATOR_VECTOR || kind == CST_CALIBRATOR_PLATT;
    *out = (cst_calibrator){.kind = kind, .classes = count, .temperature = 1};
    if (sloped) {
        out->slopes = cst_alloc(context, classes, sizeof *out->slopes);
        out->intercepts = cst_alloc(context, classes, sizeof *out->intercepts);
        return out->slopes && out->intercepts ? CST_OK : CST_ERROR_MEMORY;
    }
    if (kind == CST_CALIBRATOR_ISOTONIC)
        out->steps = cst_alloc(context, classes, sizeof *out->steps);
    return kind == CST_CALIBRATOR_ISOTONIC && !out->steps ? CST_ERROR_MEMORY : CST_OK;
}

/* ---- a map for each class ---- */

typedef struct class_job {
    const cst_labelled *data;
    cst_calibrator *out;
} class_job;

/* Rows [count][classes] divided by their sums; a row of sum 0 becomes uniform. */
static void normalise_rows(int64_t count, int32_t classes, double *values) {
    for (int64_t i = 0; i < count; i++) {
        double *row = values + (size_t)i * (size_t)classes;
        double sum = 0;
        for (int32_t c = 0; c < classes; c++)
            sum += row[c];
        for (int32_t c = 0; c < classes; c++)
            row[c] = sum > 0 ? row[c] / sum : 1.0 / classes;
    }
}

/* Rows of neighbouring probabilities that share one value: hits / rows. */
typedef struct pooled {
    double low;
    double high;
    double hits; /* rows of the class */
    double rows;
} pooled;

CST_BY(by_probability, pooled, CST_UP(low), 0, 0)

/* Joins rows of equal probability, in place; returns how many points there are. */
static int64_t pool_ties(pooled *points, int64_t count) {
    int64_t last = 0;
    for (int64_t i = 1; i < count; i++) {
        if (points[i].low == points[last].low) {
            points[last].hits += points[i].hits;
            points[last].rows += points[i].rows;
        } else {
            points[++last] = points[i];
        }
    }
    return last + 1;
}

/* Joins neighbours until means increase, in place; returns how many blocks there are. */
static int64_t pool_violators(pooled *points, int64_t count) {
    int64_t last = 0;
    for (int64_t i = 1; i < count; i++) {
        points[++last] = points[i];
        while (last > 0 && points[last - 1].hits * points[last].rows >=
                               points[last].hits * points[last - 1].rows) {
            points[last - 1].high = points[last].high;
            points[last - 1].hits += points[last].hits;
            points[last - 1].rows += points[last].rows;
            last--;
        }
    }
    return last + 1;
}

/* Both ends of every block become knots. */
static cst_status store_knots(cst_context *context, const pooled *blocks, int64_t count,
                              cst_isotonic *out) {
    int64_t knots = 0;
    for (int64_t b = 0; b < count; b++)
        knots += blocks[b].low < blocks[b].high ? 2 : 1;
    out->x = cst_alloc(context, (size_t)knots, sizeof *out->x);
    out->y = cst_alloc(context, (size_t)knots, sizeof *out->y);
    if (!out->x || !out->y)
        return CST_ERROR_MEMORY;
    for (int64_t b = 0; b < count; b++) {
        double value = blocks[b].hits / blocks[b].rows;
        out->x[out->count] = blocks[b].low;
        out->y[out->count++] = value;
        if (blocks[b].low < blocks[b].high) {
            out->x[out->count] = blocks[b].high;
            out->y[out->count++] = value;
        }
    }
    return CST_OK;
}

static cst_status fit_isotonic(cst_context *worker, void *user, int64_t task) {
    const class_job *job = user;
    const cst_labelled *data = job->data;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, pooled, points, data->rows);
    for (int64_t i = 0; i < data->rows; i++) {
        double p = (double)data->probabilities[(size_t)i * (size_t)data->classes + (size_t)task];
        points[i] = (pooled){p, p, data->labels[i] == task ? 1 : 0, 1};
    }
    CST_TRY(cst_sort(worker, points, (size_t)data->rows, sizeof *points, by_probability));
    return store_knots(worker, points, pool_violators(points, pool_ties(points, data->rows)),
                       &job->out->steps[task]);
}

double cst_isotonic_value(const cst_isotonic *step, double x) {
    int64_t low = 0;
    int64_t high = step->count - 1;
    if (x <= step->x[low])
        return step->y[low];
    if (x >= step->x[high])
        return step->y[high];
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (x < step->x[middle])
            high = middle;
        else
            low = middle;
    }
    double share = (x - step->x[low]) / (step->x[high] - step->x[low]);
    return step->y[low] + share * (step->y[high] - step->y[low]);
}

static void isotonic_rows(const cst_isotonic *steps, int64_t count, int32_t classes,
                          double *values) {
    size_t cells = (size_t)count * (size_t)classes;
    for (size_t j = 0; j < cells; j++)
        values[j] =
            fmax(cst_isotonic_value(&steps[j % (size_t)classes], values[j]), CST_ISOTONIC_FLOOR);
    normalise_rows(count, classes, values);
}

/* One class: standardised scores, so that the two parameters are nearly independent. */
typedef struct platt_problem {
    const double *scores; /* [rows] */
    const cst_labelled *data;
    int32_t class;
    double high; /* target of rows of the class */
    double low;  /* target of the others */
} platt_problem;

/* sum: [0] cross-entropy, [1..2] its derivatives in slope and intercept, [3..5] the second ones
 * (slope twice, mixed, intercept twice). */
static void platt_sums(const platt_problem *p, const double theta[2], double sum[6]) {
    for (int j = 0; j < 6; j++)
        sum[j] = 0;
    for (int64_t i = 0; i < p->data->rows; i++) {
        double x = p->scores[i];
        double z = theta[0] * x + theta[1];
        double target = p->data->labels[i] == p->class ? p->high : p->low;
        double small = exp(-fabs(z)); /* never overflows */
        double q = z >= 0 ? 1 / (1 + small) : small / (1 + small);
        double spread = small / ((1 + small) * (1 + small));
        sum[0] += log1p(small) + fmax(z, 0) - target * z;
        sum[1] += (q - target) * x;
        sum[2] += q - target;
        sum[3] += spread * x * x;
        sum[4] += spread * x;
        sum[5] += spread;
    }
}

/* Newton with step halving from theta; the loss is strictly convex where scores differ. */
static void newton(const platt_problem *p, double theta[2]) {
    enum { STEPS = 100 };
    double sum[6];
    double next[6];
    platt_sums(p, theta, sum);
    for (int i = 0; i < STEPS; i++) {
        /* A ridge far below rounding of a sum over rows: saturated sigmoids have no curvature. */
        double ridge = 1e-12;
        double determinant = (sum[3] + ridge) * (sum[5] + ridge) - sum[4] * sum[4];
        double step[2] = {((sum[5] + ridge) * sum[1] - sum[4] * sum[2]) / determinant,
                          ((sum[3] + ridge) * sum[2] - sum[4] * sum[1]) / determinant};
        double decrement = step[0] * sum[1] + step[1] * sum[2];
        if (!(decrement > 1e-20))
            return;
        bool moved = false;
        for (double t = 1; t > 1e-10 && !moved; t *= 0.5) {
            double trial[2] = {theta[0] - t * step[0], theta[1] - t * step[1]};
            platt_sums(p, trial, next);
            /* Close to the optimum the loss cannot tell points apart, but its slope can. */
            double slope = step[0] * next[1] + step[1] * next[2];
            moved = next[0] <= sum[0] - 1e-4 * t * decrement ||
                    (next[0] <= sum[0] + 1e-12 * fabs(sum[0]) && fabs(slope) < 0.9 * decrement);
            for (int j = 0; moved && j < 2; j++)
                theta[j] = trial[j];
            for (int j = 0; moved && j < 6; j++)
                sum[j] = next[j];
        }
        if (!moved)
            return;
    }
}

static double log_odds(double probability) {
    double p = fmin(fmax(probability, CST_PLATT_FLOOR), 1 - CST_PLATT_FLOOR);
    return log(p) - log1p(-p);
}

static cst_status fit_platt(cst_context *worker, void *user, int64_t task) {
    const class_job *job = user;
    const cst_labelled *data = job->data;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, double, scores, data->rows);
    double count = (double)data->rows;
    double mean = 0;
    double variance = 0;
    double positives = 0;
    for (int64_t i = 0; i < data->rows; i++) {
        size_t cell = (size_t)i * (size_t)data->classes + (size_t)task;
        scores[i] = log_odds((double)data->probabilities[cell]);
        mean += scores[i] / count;
        positives += data->labels[i] == task ? 1 : 0;
    }
    for (int64_t i = 0; i < data->rows; i++)
        variance += (scores[i] - mean) * (scores[i] - mean) / count;
    double scale = sqrt(variance);
    bool flat = scale <= 1e-12 * (1 + fabs(mean));
    for (int64_t i = 0; i < data->rows; i++)
        scores[i] = flat ? 0 : (scores[i] - mean) / scale;
    platt_problem problem = {.scores = scores,
                             .data = data,
                             .class = (int32_t)task,
                             .high = (positives + 1) / (positives + 2),
                             .low = 1 / (count - positives + 2)};
    double theta[2] = {0, log((positives + 1) / (count - positives + 1))};
    newton(&problem, theta);
    job->out->slopes[task] = flat ? 0 : theta[0] / scale;
    job->out->intercepts[task] = flat ? theta[1] : theta[1] - theta[0] * mean / scale;
    return CST_OK;
}

static void platt_rows(const double *slopes, const double *intercepts, int64_t count,
                       int32_t classes, double *values) {
    size_t cells = (size_t)count * (size_t)classes;
    for (size_t j = 0; j < cells; j++) {
        size_t c = j % (size_t)classes;
        double score = slopes[c] * log_odds(values[j]) + intercepts[c];
        values[j] = 1 / (1 + exp(-score));
    }
    normalise_rows(count, classes, values);
}

/* ---- fits ---- */

/* NULL options: those of the map of this name. */
static cst_status fit_map(cst_context *context, cst_calibrator_kind kind, const cst_labelled *data,
                          const cst_temperature_options *temperature,
                          const cst_vector_options *vector, cst_calibrator *out) {
    class_job job = {.data = data, .out = out};
    cst_status status = calibrator_alloc(context, kind, data->classes, out);
    if (kind == CST_CALIBRATOR_TEMPERATURE)
        CST_THEN(cst_temperature_fit(context, data, temperature, &out->temperature, NULL));
    else if (kind == CST_CALIBRATOR_VECTOR)
        CST_THEN(cst_vector_fit(context, data, vector, out->slopes, out->intercepts));
    else
        CST_THEN(cst_parallel_for(context, data->classes,
                                  kind == CST_CALIBRATOR_PLATT ? fit_platt : fit_isotonic, &job));
    if (status == CST_OK)
        cst_calibrator_describe(out);
    else
        cst_calibrator_free(context, out);
    return status;
}

cst_status cst_calibrator_fit(cst_context *context, cst_calibrator_kind kind,
                              const cst_labelled *data, cst_calibrator *out) {
    *out = (cst_calibrator){.kind = kind, .classes = data->classes, .temperature = 1};
    if (kind == CST_CALIBRATOR_NONE)
        return CST_OK;
    if (data->rows < 1 || data->classes < 1 || !data->labels)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s calibration needs labelled rows: there are %lld",
                        cst_calibrator_name(kind), data->labels ? (long long)data->rows : 0);
    if (data->weights && kind != CST_CALIBRATOR_TEMPERATURE)
        return cst_fail(
            context, CST_ERROR_INPUT,
            "%s calibration does not support row weights; use temperature, or remove the weights",
            cst_calibrator_name(kind));
    return fit_map(context, kind, data, NULL, NULL, out);
}

/* The view's rows: labels, and, of a view that has some, weights. */
static cst_status gather(cst_context *context, cst_scope *scope, const cst_view *view,
                         const float *probabilities, cst_labelled *out) {
    CST_NEW(context, scope, int32_t, labels, view->rows);
    CST_NEW(context, scope, double, weights, view->weights ? view->rows : 0);
    *out = (cst_labelled){probabilities, view->rows, view->classes, labels,
                          view->weights ? weights : NULL};
    for (int64_t i = 0; i < view->rows; i++) {
        labels[i] = cst_view_label(view, i);
        if (view->weights)
            weights[i] = cst_view_weight(view, i);
    }
    return CST_OK;
}

cst_status cst_calibrator_fit_shrunk(cst_context *context, cst_calibrator_kind kind,
                                     const cst_view *view, const float *probabilities,
                                     const cst_calibrator *start, cst_calibrator *out) {
    cst_labelled data;
    const cst_vector_options vector = {
        .shrink = SHRINK, .tolerance = SHRUNK_TOLERANCE, .start = start};
    const cst_temperature_options temperature = {
        .prior = SLOPE_PRIOR, .start = start ? start->temperature : 1, .tolerance = SHRUNK_STEP};
    CST_SCOPE(scope);
    *out = (cst_calibrator){0};
    CST_TRY(gather(context, scope, view, probabilities, &data));
    return fit_map(context, kind, &data, &temperature, &vector, out);
}

cst_status cst_calibrator_fit_view(cst_context *context, cst_calibrator_kind kind,
                                   const cst_view *view, const float *probabilities,
                                   cst_calibrator *out) {
    cst_labelled data;
    CST_SCOPE(scope);
    *out = (cst_calibrator){0};
    CST_TRY(gather(context, scope, view, probabilities, &data));
    return cst_calibrator_fit(context, kind, &data, out);
}

void cst_calibrator_rows(const cst_calibrator *map, int64_t count, double *values) {
    int32_t classes = map->classes;
    switch (map->kind) {
    case CST_CALIBRATOR_NONE:
        break;
    case CST_CALIBRATOR_TEMPERATURE:
        cst_temperature_rows(map->temperature, count, classes, values);
        break;
    case CST_CALIBRATOR_VECTOR:
        cst_vector_rows(map->slopes, map->intercepts, count, classes, values);
        break;
    case CST_CALIBRATOR_ISOTONIC:
        isotonic_rows(map->steps, count, classes, values);
        break;
    case CST_CALIBRATOR_PLATT:
        platt_rows(map->slopes, map->intercepts, count, classes, values);
        break;
    }
}

typedef struct apply_job {
    const cst_calibrator *calibrator;
    float *probabilities;
    int64_t rows;
} apply_job;

static cst_status apply_block(cst_context *context, void *user, int64_t block) {
    const apply_job *job = user;
    int32_t classes = job->calibrator->classes;
    int64_t count = cst_block_size(job->rows, block);
    size_t cells = (size_t)count * (size_t)classes;
    float *rows = job->probabilities + (size_t)cst_block_first(block) * (size_t)classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, wide, cells);
    for (size_t j = 0; j < cells; j++)
        wide[j] = (double)rows[j];
    cst_calibrator_rows(job->calibrator, count, wide);
    for (size_t j = 0; j < cells; j++)
        rows[j] = (float)wide[j];
    return CST_OK;
}

cst_status cst_calibrator_apply(cst_context *context, const cst_calibrator *calibrator,
                                float *probabilities, int64_t rows) {
    if (calibrator->kind == CST_CALIBRATOR_NONE)
        return CST_OK;
    apply_job job = {calibrator, probabilities, rows};
    const cst_share filled =
        cst_share_rows(probabilities, rows, (size_t)calibrator->classes * sizeof *probabilities);
    return cst_parallel_fill(context, cst_block_count(rows), apply_block, &job, &filled, 1);
}

void cst_calibrator_pack(const cst_calibrator *map, double *numbers) {
    size_t classes = (size_t)map->classes;
    numbers[0] = map->temperature;
    if (map->slopes)
        memcpy(numbers + 1, map->slopes, classes * sizeof *numbers);
    if (map->intercepts)
        memcpy(numbers + 1 + classes, map->intercepts, classes * sizeof *numbers);
}

cst_status cst_calibrator_unpack(cst_context *context, cst_calibrator_kind kind, int32_t classes,
                                 const double *numbers, cst_calibrator *out) {
    cst_status status = calibrator_alloc(context, kind, classes, out);
    if (status != CST_OK) {
        cst_calibrator_free(context, out);
        return status;
    }
    out->temperature = numbers[0];
    if (out->slopes)
        memcpy(out->slopes, numbers + 1, (size_t)classes * sizeof *numbers);
    if (out->intercepts)
        memcpy(out->intercepts, numbers + 1 + classes, (size_t)classes * sizeof *numbers);
    cst_calibrator_describe(out);
    return CST_OK;
}

void cst_calibrator_free(cst_context *context, cst_calibrator *calibrator) {
    if (!calibrator)
        return;
    for (int32_t c = 0; calibrator->steps && c < calibrator->classes; c++) {
        cst_free(context, calibrator->steps[c].x);
        cst_free(context, calibrator->steps[c].y);
    }
    cst_free(context, calibrator->steps);
    cst_free(context, calibrator->slopes);
    cst_free(context, calibrator->intercepts);
    *calibrator = (cst_calibrator){0};
}

/* ---- scores become probabilities: clipping, or projection on the simplex ---- */

#define MODERATE 1e6 /* of a threshold times the classes: then their sum is 1 to nine digits */

enum { ROUNDS_MAX = 1000 };

/* Michelot's algorithm: p_c = max(x_c - t, 0), t such that they sum to 1: drops the classes at or
 * below t until none is, or rounding brings one back. Rounds are bounded: rounding can be made to
 * drop classes one by one. Returns t. */
static double simplex_threshold(int32_t classes, const double *row) {
    double threshold = -HUGE_VAL;
    int32_t active = INT32_MAX;
    for (int32_t round = 0; round < ROUNDS_MAX; round++) {
        double sum = 0;
        int32_t above = 0;
        for (int32_t c = 0; c < classes; c++) {
            if (row[c] > threshold) {
                sum += row[c];
                above++;
            }
        }
        if (above >= active || above == 0)
            break;
        active = above;
        threshold = (sum - 1.0) / (double)above;
    }
    return threshold;
}

/* A constant added to the row changes nothing but the rounding: beside scores of 1e16, which a
 * model file may ask for, the 1 is lost. Then the largest score is moved to 0, and those below -1,
 * which get nothing, to -1. */
void cst_simplex_project(int32_t classes, double *row) {
    double threshold = simplex_threshold(classes, row);
    if (!(fabs(threshold) * (double)classes < MODERATE)) {
        double largest = -HUGE_VAL;
        for (int32_t c = 0; c < classes; c++)
            largest = row[c] > largest ? row[c] : largest;
        for (int32_t c = 0; c < classes; c++)
            row[c] = row[c] - largest > -1 ? row[c] - largest : -1;
        threshold = simplex_threshold(classes, row);
    }
    for (int32_t c = 0; c < classes; c++)
        row[c] = row[c] > threshold ? row[c] - threshold : 0;
}

/* The sum is taken in eight fixed lanes. Two loops: with both cuts in one, compilers keep a branch.
 */
CST_KERNEL(clip_row, (int32_t classes, double *restrict row), (classes, row)) {
    for (int32_t c = 0; c < classes; c++)
        row[c] = row[c] < CST_PROBABILITY_FLOOR ? CST_PROBABILITY_FLOOR : row[c];
    for (int32_t c = 0; c < classes; c++)
        row[c] = row[c] > 1 ? 1 : row[c];
    double sum = cst_lanes_sum(row, classes);
    for (int32_t c = 0; c < classes; c++)
        row[c] /= sum;
}

/* As competitors clip: a sum of the classes in their order. */
static void clip_row_fine(int32_t classes, double *row) {
    double sum = 0;
    for (int32_t c = 0; c < classes; c++) {
        row[c] = row[c] < CST_PROBABILITY_FINE_FLOOR ? CST_PROBABILITY_FINE_FLOOR : row[c];
        row[c] = row[c] > 1 - CST_PROBABILITY_FINE_FLOOR ? 1 - CST_PROBABILITY_FINE_FLOOR : row[c];
        sum += row[c];
    }
    for (int32_t c = 0; c < classes; c++)
        row[c] /= sum;
}

void cst_probability_rows(cst_probability_map map, int64_t count, int32_t classes, double *scores) {
    if (classes < 2 || map == CST_PROBABILITY_MIXTURE)
        return;
    for (int64_t i = 0; i < count; i++) {
        double *row = scores + i * classes;
        if (map == CST_PROBABILITY_FINE) {
            clip_row_fine(classes, row);
            continue;
        }
        if (map == CST_PROBABILITY_SIMPLEX)
            cst_simplex_project(classes, row);
        clip_row(classes, row);
    }
}
