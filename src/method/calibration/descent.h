/* L-BFGS whose first guess of the inverse Hessian is the caller's. */
#ifndef CST_DESCENT_H
#define CST_DESCENT_H

#include "core/scope.h"

typedef struct cst_descent {
    size_t size;      /* numbers of a point */
    size_t sums;      /* numbers that evaluate gives: the value, the gradient [size], and what solve
                         needs */
    double tolerance; /* a step that promises less is not taken */
    cst_status (*evaluate)(cst_context *context, void *user, const double *theta, double *sums);
    /* v [size] becomes about (inverse Hessian) v at the point with these sums. */
    void (*solve)(const void *user, const double *sums, double *v);
    void *user;
    const char *name; /* for the notice that it stopped early */
} cst_descent;

cst_status cst_descend(cst_context *context, const cst_descent *descent, double *theta);

#endif
