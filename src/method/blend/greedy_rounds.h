/*
 * What greedy selection does round by round whatever the loss, as AutoGluon's EnsembleSelection
 * does it. Behind greedy.h, which the other stages use. docs/method.md#s4-blend.
 */
#ifndef CST_BLEND_GREEDY_ROUNDS_H
#define CST_BLEND_GREEDY_ROUNDS_H

#include "method/blend/greedy.h"

/* Losses that differ by less are equal; relative. */
#define CST_GREEDY_TIE 1e-12

/* To 6 decimals where `rounding`, half to even. */
double cst_greedy_rounded(double loss, bool rounding);

/* Mean loss [members] of an ensemble of `size` members with each member added to it, rounded if
 * `rounding`. Sizes come as 0, 1, ...; `last` is the member that joined since the call before (-1
 * for size 0). */
typedef cst_status (*cst_greedy_losses_fn)(cst_context *context, void *user, int32_t size,
                                           int32_t last, bool rounding, double *loss);

/* The error of arguments that cannot be selected on. */
cst_status cst_greedy_check(cst_context *context, const cst_view *view, int32_t rounds);

/* In greedy.c: on the log loss of a view without weights, fast. */
cst_status cst_greedy_select_alike(cst_context *context, const cst_view *view, int32_t rounds,
                                   uint32_t seed, cst_greedy *out);

/* `work`: cells read in a round, which decides whether threads share it. *out is zeroed first and
 * empty after an error. */
cst_status cst_greedy_run(cst_context *context, const cst_view *view, int32_t rounds, uint32_t seed,
                          double work, cst_greedy_losses_fn losses, void *user, cst_greedy *out);

#endif
