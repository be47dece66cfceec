/* What a model keeps of the loss of its meta-learners, so that their weights can be solved again
 * without some of the members. After stage S4. model/absent.h. */
#pragma once

#include "method/linear/linear.h"
#include "method/loglinear/loglinear.h"
#include "model/absent.h"

/* Adds the refit of a linear learner on the members' columns, which are the design's first, in the
 * columns' units. `biases` is 1. */
cst_status cst_refits_add_linear(cst_context *context, cst_refits *refits,
                                 const cst_standardised *standardised, const cst_linear *linear,
                                 int32_t members, int32_t learner);

/* The same of a log-linear pool. Overwrites its Hessian. */
cst_status cst_refits_add_loglinear(cst_context *context, cst_refits *refits, cst_loglinear *pool,
                                    const cst_loglinear_options *options, int32_t learner);

/* Takes learners out: learner l becomes place[l], or none where that is negative. */
void cst_refits_move(cst_refits *refits, const int32_t *place);

/* The loss that a refit gives weights [k] of all members. */
double cst_refit_loss(const cst_refit *refit, const double *weights, size_t k);

/* Drops the model's refits if a number of them is not finite or beyond what a file may hold. */
void cst_refits_check(cst_model *model);
