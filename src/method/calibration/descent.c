/* L-BFGS for smooth convex functions. See the header. */
#include "method/calibration/calibration.h"

#include <math.h>
#include <string.h>

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
