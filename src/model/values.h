/* Values of a regression in units of the targets, (value - location) / scale for each output, their
 * meta-design, and the variance that a model predicts. docs/regression.md;
 * docs/method.md#s2-and-s3-gate-and-penalties. */
#pragma once

#include "method/gate/gate.h"
#include "model/stack.h"

/* Location and scale of a view's targets, which it must have. */
cst_status cst_scaling_take(cst_context *context, cst_scope *scope, const cst_view *view,
                            cst_scaling *out);

/* Some rows of a view and their design. One thread. */
typedef struct cst_value_block {
    const cst_view *view;
    const cst_scaling *scaling;
    int64_t first;
    int64_t count;
    const float **members; /* [K] rows as they are in the view, [count][outputs] */
    float *copies;         /* [K][CST_BLOCK_ROWS * outputs] where the view copies */
    float *scaled;         /* [K][CST_BLOCK_ROWS * outputs]: what the aggregators see */
    const float **inputs;  /* [K], into scaled */
    double *design;        /* [columns][count * outputs] */
    double *scratch;
    int64_t stride; /* count * outputs */
} cst_value_block;

/* Block `index` of the rows of a view, read and with its design. gate: one with as many columns as
 * any that is used later. */
cst_status cst_value_block_open(cst_context *context, cst_scope *scope, const cst_view *view,
                                const cst_scaling *scaling, const cst_gate *gate, int64_t index,
                                cst_value_block *out);

/* Fills the design of the rows read: column j of output d of row i is design[j * stride + i *
 * outputs + d]. Members in double precision, aggregators from them in single. */
void cst_value_block_design(cst_value_block *block, const cst_gate *gate);

/* Target of row `i` of the block, in units of the scaling. */
static inline double cst_value_block_target(const cst_value_block *block, int64_t i, int32_t d) {
    double y = cst_view_target(block->view, block->first + i)[d];
    return (y - block->scaling->location[d]) / block->scaling->scale[d];
}

/* Variance of the kept members' predictions of pair e = i * outputs + d of the block, in units of
 * the scaling. */
double cst_value_block_spread(const cst_value_block *block, int64_t e);

/* Levels at which the quantiles of a model are stored: 0.01 to 0.99, 0.995, 0.999. */
enum { CST_VALUE_LEVELS = 101 };
double cst_value_level(int32_t index);

/* Variance over noise of one prediction of output `output`: 1 - share + share * spread /
 * mean_spread + offset + (x - center)' covariance (x - center). x: design [columns]; `spread` as
 * above. Positive. */
double cst_values_unit(const cst_values *values, int32_t output, const double *x, double spread);

/* The fewest residuals that have a quantile for intervals at `level`: n with (n + 1) level <= n. */
double cst_values_needed(double level);

/* Half-width of the interval at `level` over the standard deviation; INFINITY where the quantile
 * would be of more residuals than the fit had. */
double cst_values_factor(const cst_values *values, int32_t output, double level);

/* All zero. */
cst_status cst_values_take(cst_context *context, cst_scope *scope, int32_t outputs, int32_t columns,
                           cst_values **out);

/* A value by an aim (NULL: as it is); variance: as of cst_stack_variance. */
double cst_aim_of(const cst_model *model, const cst_aim *aim, int32_t output, double value,
                  double variance);

/* Variances [view->rows][outputs], of a model with a transform those of transformed values, of
 * a model that has values; members in the model's order. */
cst_status cst_stack_variance(cst_context *context, const cst_model *model, const cst_view *view,
                              float *out);
