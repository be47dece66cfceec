/* The least value of a convex function of some hundreds or thousands of numbers: L-BFGS whose
 * first guess of the inverse Hessian is the caller's. docs/calibration.md#definitions. */
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

/* From theta [size] to the optimum, which is written there. */
cst_status cst_descend(cst_context *context, const cst_descent *descent, double *theta);

#endif
