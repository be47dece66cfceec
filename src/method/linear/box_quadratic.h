/* A convex quadratic over weights that may not be negative, for Newton steps of the log-linear
 * pool. Paper: section "Laplace-Approximate Bayesian Blender", which leaves the sign of the weights
 * open. */
#pragma once

#include "core/base.h"

/* The largest absolute value; 0 of none. */
double cst_largest_absolute(const double *values, int32_t n);

/* The x >= 0 of least (x - free)' S (x - free) / 2. curvature: S [n][n], both triangles, positive
 * definite; unbounded: `free` [n]; x: [n], entries at the bound are exactly 0. */
cst_status cst_bounded_quadratic(cst_context *context, int32_t n, const double *curvature,
                                 const double *unbounded, double *x);

/* A Newton step of `weights` that stay at or above 0 and of unbounded parameters behind them.
 * hessian: [d][d], lower triangle; theta, gradient: [d]. step: [d], such that theta - t step keeps
 * the bound for t in [0, 1]. *decrement: how much the quadratic model falls by the whole step. */
cst_status cst_bounded_newton(cst_context *context, int32_t d, int32_t weights,
                              const double *hessian, const double *theta, const double *gradient,
                              double *step, double *decrement);
