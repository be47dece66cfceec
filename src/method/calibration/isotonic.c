/* Isotonic maps by pooling adjacent violators; sums are counts, so that means compare exactly. */
#include "method/calibration/calibration.h"

#include <math.h>

/* Rows of neighbouring probabilities that share one value: hits / rows. */
typedef struct pooled {
    double low;
    double high;
    double hits; /* rows of the class */
    double rows;
} pooled;

typedef struct isotonic_job {
    const float *probabilities;
    const int32_t *labels;
    int64_t rows;
    int32_t classes;
    cst_isotonic *steps;
} isotonic_job;

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
static cst_status store(cst_context *context, const pooled *blocks, int64_t count,
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

static cst_status fit_class(cst_context *worker, void *user, int64_t task) {
    const isotonic_job *job = user;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, pooled, points, job->rows);
    for (int64_t i = 0; i < job->rows; i++) {
        double p = (double)job->probabilities[(size_t)i * (size_t)job->classes + (size_t)task];
        points[i] = (pooled){p, p, job->labels[i] == task ? 1 : 0, 1};
    }
    CST_TRY(cst_sort(worker, points, (size_t)job->rows, sizeof *points, by_probability));
    return store(worker, points, pool_violators(points, pool_ties(points, job->rows)),
                 &job->steps[task]);
}

cst_status cst_isotonic_fit(cst_context *context, const float *probabilities, int64_t rows,
                            int32_t classes, const int32_t *labels, cst_isotonic *steps) {
    isotonic_job job = {probabilities, labels, rows, classes, steps};
    return cst_parallel_for(context, classes, fit_class, &job);
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

void cst_isotonic_rows(const cst_isotonic *steps, int64_t count, int32_t classes, double *values) {
    size_t cells = (size_t)count * (size_t)classes;
    for (size_t j = 0; j < cells; j++)
        values[j] =
            fmax(cst_isotonic_value(&steps[j % (size_t)classes], values[j]), CST_ISOTONIC_FLOOR);
    cst_normalise_rows(count, classes, values);
}
