/* Non-negative quadratic programs of a few variables, by the active-set method of Lawson and
 * Hanson. docs/method.md#s4-blend. */
#include "method/blend/blend.h"

#include "core/la.h"

#include <math.h>
#include <string.h>

typedef struct solver {
    int32_t n;
    const double *hessian; /* [n][n] */
    const double *b;       /* [n] */
    double *u;             /* [n] */
    bool *passive;         /* [n]: free to be positive */
    int32_t *columns;      /* [n]: the passive ones */
    double *factor;        /* [n][n] */
    double *trial;         /* [n] */
} solver;

/* trial = the minimum over the passive variables alone; count of them in *count. */
static cst_status solve_passive(cst_context *context, solver *s, int32_t *count) {
    int32_t used = 0;
    for (int32_t j = 0; j < s->n; j++)
        if (s->passive[j])
            s->columns[used++] = j;
    for (int32_t i = 0; i < used; i++) {
        for (int32_t j = 0; j < used; j++)
            s->factor[i * used + j] =
                s->hessian[(size_t)s->columns[i] * (size_t)s->n + (size_t)s->columns[j]];
        s->trial[i] = s->b[s->columns[i]];
    }
    *count = used;
    CST_TRY(cst_cholesky(context, used, s->factor));
    cst_cholesky_solve(used, s->factor, s->trial);
    return CST_OK;
}

/* Goes from u towards the trial point as far as all stay non-negative; variables that reach 0 leave
 * the passive set. True when the trial point itself was reached. */
static bool step(solver *s, int32_t used) {
    double length = 1;
    for (int32_t i = 0; i < used; i++) {
        double from = s->u[s->columns[i]];
        if (s->trial[i] <= 0 && from - s->trial[i] > 0)
            length = fmin(length, from / (from - s->trial[i]));
        else if (s->trial[i] <= 0)
            length = 0;
    }
    bool whole = true;
    for (int32_t i = 0; i < used; i++) {
        double *to = &s->u[s->columns[i]];
        double blocked = s->trial[i] <= 0 ? *to / (*to - s->trial[i]) : INFINITY;
        if (s->trial[i] <= 0)
            whole = false;
        *to += length * (s->trial[i] - *to);
        if (!(blocked > length) || *to < 0) { /* also the 0/0 of a variable that never left 0 */
            *to = 0;
            s->passive[s->columns[i]] = false;
        }
    }
    return whole;
}

/* The variable at 0 along which the objective falls fastest; -1 when there is none: the optimum. */
static int32_t entering(const solver *s) {
    double scale = 0;
    for (int32_t j = 0; j < s->n; j++)
        scale = fmax(scale, fabs(s->b[j]));
    int32_t best = -1;
    double most = 1e-13 * scale;
    for (int32_t j = 0; j < s->n; j++) {
        if (s->passive[j])
            continue;
        double descent = s->b[j];
        for (int32_t i = 0; i < s->n; i++)
            descent -= s->hessian[(size_t)j * (size_t)s->n + (size_t)i] * s->u[i];
        if (descent > most) {
            most = descent;
            best = j;
        }
    }
    return best;
}

cst_status cst_nonnegative_quadratic(cst_context *context, int32_t n, const double *hessian,
                                     const double *b, double *u) {
    solver s = {.n = n, .hessian = hessian, .b = b, .u = u};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, s.passive, n);
    CST_TAKE(context, scope, s.columns, n);
    CST_TAKE(context, scope, s.factor, ((int64_t)n * n));
    CST_TAKE(context, scope, s.trial, n);
    memset(u, 0, (size_t)n * sizeof *u);
    /* Every outer round lowers the objective, so that no passive set comes twice; the bound on the
     * rounds, and the stop when the entering variable is sent back at once, are for rounding. */
    bool stuck = false;
    for (int64_t round = 0; !stuck && round < 20 * (int64_t)n; round++) {
        int32_t next = entering(&s);
        if (next < 0)
            break;
        s.passive[next] = true;
        bool whole = false;
        while (!whole && !stuck) {
            int32_t used = 0;
            CST_TRY(solve_passive(context, &s, &used));
            whole = step(&s, used);
            stuck = !whole && !s.passive[next] && u[next] == 0;
        }
    }
    return CST_OK;
}
