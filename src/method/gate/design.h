/* The meta-design: a row for each (sample, class) pair, members' probabilities and gated
 * aggregators. Paper: equation for x_meta, section "Differentiable Meta-Feature Gate";
 * docs/method.md#s2-and-s3-gate-and-penalties. */
#ifndef CST_LEARNERS_DESIGN_H
#define CST_LEARNERS_DESIGN_H

#include "method/gate/gate.h"

/* Columns d of the design: inputs, + 12 (learned), + 6 (prototype: mean, sd, median, range,
 * mean*sd, range*sd, which is CoRe-Stack), + 0 (none). */
int32_t cst_design_columns(const cst_gate *gate);

/* The aggregator behind column `column`, counted from the first gated one. */
int32_t cst_design_aggregate(cst_gate_mode mode, int32_t column);

/* Doubles of scratch for the functions below on `count` samples (cst_design_tile: any count). */
size_t cst_design_scratch(const cst_gate *gate, int64_t count);

/* The design of `count` samples, members[k] [count][classes] float32, column by column: out[j *
 * stride + e] is column j of flattened pair e = sample * classes + class, stride >= count *
 * classes. */
void cst_design_fill(const cst_gate *gate, const float *const *members, int64_t count,
                     int32_t classes, double *out, int64_t stride, double *scratch);

/* The aggregator part of the columns of pairs first..first+size-1, size <= CST_TILE, [d -
 * inputs][CST_TILE]. `samples` is [2][count]: entropy and divergence from cst_aggregate_samples
 * (only a learned gate reads it). */
void cst_design_tile(const cst_gate *gate, const float *const *members, int64_t count,
                     int32_t classes, int64_t first, int64_t size, const double *samples,
                     double *columns, double *scratch);

#endif
