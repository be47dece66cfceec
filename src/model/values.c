/* Values of a regression in units of the targets, and their design. */
#include "model/values.h"

#include "model/transform.h"
#include "stats/statistics.h"

#include <math.h>

/* ---- scaling ---- */

typedef struct scaling_job {
    const cst_view *view;
    const double *center; /* [outputs]; NULL: sums of the targets themselves */
} scaling_job;

/* Sums of the targets, or of their squared distances from a center, by the rows' weights. */
static cst_status scaling_block(cst_context *context, void *user, int64_t block, double *sum) {
    (void)context;
    const scaling_job *job = user;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(job->view->rows, block);
    for (int64_t i = first; i < end; i++) {
        const double *y = cst_view_target(job->view, i);
        double weight = cst_view_weight(job->view, i);
        for (int32_t d = 0; d < job->view->classes; d++) {
            double off = job->center ? y[d] - job->center[d] : y[d];
            sum[d] += weight * (job->center ? off * off : off);
        }
    }
    return CST_OK;
}

/* The target that every row which counts has in one output; `mean` where they differ. */
static double equal_target(const cst_view *view, int32_t output, double mean) {
    int64_t first = 0;
    while (first < view->rows && !(cst_view_weight(view, first) > 0))
        first++;
    if (first == view->rows)
        return mean;
    double target = cst_view_target(view, first)[output];
    for (int64_t i = first + 1; i < view->rows; i++)
        if (cst_view_weight(view, i) > 0 && cst_view_target(view, i)[output] != target)
            return mean;
    return target;
}

cst_status cst_scaling_take(cst_context *context, cst_scope *scope, const cst_view *view,
                            cst_scaling *out) {
    size_t outputs = (size_t)view->classes;
    *out = (cst_scaling){.outputs = view->classes};
    if (!view->targets || view->rows < 1)
        return cst_fail(context, CST_ERROR_INPUT, "a regression is fitted on rows with targets");
    CST_TAKE(context, scope, out->location, outputs);
    CST_TAKE(context, scope, out->scale, outputs);
    scaling_job job = {.view = view};
    int64_t blocks = cst_block_count(view->rows);
    double total = cst_view_weight_sum(view);
    CST_TRY(cst_reduce_blocks(context, blocks, outputs, scaling_block, &job, out->location));
    for (size_t d = 0; d < outputs; d++)
        out->location[d] /= total;
    job.center = out->location;
    CST_TRY(cst_reduce_blocks(context, blocks, outputs, scaling_block, &job, out->scale));
    for (size_t d = 0; d < outputs; d++) {
        double deviation = sqrt(out->scale[d] / total);
        bool varies = deviation > 1e-12 * fabs(out->location[d]) && deviation > 0;
        out->scale[d] = varies ? deviation : 1;
        if (varies)
            continue;
        /* To the last bit, so that no fit is one to what rounding leaves of equal targets. */
        out->location[d] = equal_target(view, (int32_t)d, out->location[d]);
        cst_notice(context, "output %zu has the same target in every row", d);
    }
    return CST_OK;
}

/* ---- a block of rows ---- */

static cst_status block_read(cst_context *context, cst_value_block *block, int64_t first,
                             int64_t count) {
    const cst_view *view = block->view;
    size_t cells = (size_t)CST_BLOCK_ROWS * (size_t)view->classes;
    block->first = first;
    block->count = count;
    block->stride = count * view->classes;
    for (int32_t k = 0; k < view->members; k++) {
        float *copy = cst_view_copies(view) ? block->copies + (size_t)k * cells : NULL;
        CST_TRY(cst_view_rows(context, view, k, first, count, copy, &block->members[k]));
    }
    return CST_OK;
}

cst_status cst_value_block_open(cst_context *context, cst_scope *scope, const cst_view *view,
                                const cst_scaling *scaling, const cst_gate *gate, int64_t index,
                                cst_value_block *out) {
    size_t cells = (size_t)CST_BLOCK_ROWS * (size_t)view->classes;
    size_t members = (size_t)view->members;
    *out = (cst_value_block){.view = view, .scaling = scaling};
    CST_TAKE(context, scope, out->members, members);
    CST_TAKE(context, scope, out->inputs, members);
    CST_TAKE(context, scope, out->copies, cst_view_copies(view) ? members * cells : 0);
    CST_TAKE(context, scope, out->scaled, gate->mode == CST_GATE_NONE ? 0 : members * cells);
    CST_TAKE(context, scope, out->design, (size_t)cst_design_columns(gate) * cells);
    CST_TAKE(context, scope, out->scratch, cst_design_scratch(gate, (int64_t)cells));
    CST_TRY(block_read(context, out, cst_block_first(index), cst_block_size(view->rows, index)));
    cst_value_block_design(out, gate);
    return CST_OK;
}

void cst_value_block_design(cst_value_block *block, const cst_gate *gate) {
    const cst_view *view = block->view;
    const cst_scaling *scaling = block->scaling;
    int32_t outputs = view->classes;
    size_t cells = (size_t)CST_BLOCK_ROWS * (size_t)outputs;
    if (gate->mode != CST_GATE_NONE) {
        for (int32_t k = 0; k < view->members; k++) {
            float *to = block->scaled + (size_t)k * cells;
            for (int64_t e = 0; e < block->stride; e++)
                to[e] = (float)(((double)block->members[k][e] - scaling->location[e % outputs]) /
                                scaling->scale[e % outputs]);
            block->inputs[k] = to;
        }
        /* A value is no distribution: each is a sample of one class. */
        cst_design_fill(gate, block->inputs, block->stride, 1, block->design, block->stride,
                        block->scratch);
    }
    for (int32_t k = 0; k < view->members; k++) {
        double *to = block->design + (int64_t)k * block->stride;
        for (int32_t d = 0; d < outputs; d++) {
            double location = scaling->location[d];
            double scale = scaling->scale[d];
            for (int64_t i = 0; i < block->count; i++)
                to[i * outputs + d] =
                    ((double)block->members[k][i * outputs + d] - location) / scale;
        }
    }
}

double cst_value_block_spread(const cst_value_block *block, int64_t e) {
    int32_t members = block->view->members;
    int32_t output = (int32_t)(e % block->view->classes);
    double first = (double)block->members[0][e];
    double sum = 0;
    double square = 0;
    for (int32_t k = 1; k < members; k++) {
        double off = (double)block->members[k][e] - first;
        sum += off;
        square += off * off;
    }
    double mean = sum / (double)members;
    double variance = fmax(square / (double)members - mean * mean, 0);
    double scale = block->scaling->scale[output];
    return variance / (scale * scale);
}

/* ---- variance and intervals ---- */

double cst_value_level(int32_t index) {
    static const double tail[] = {0.995, 0.999};
    return index < 99 ? (double)(index + 1) / 100 : tail[index - 99];
}

double cst_values_unit(const cst_values *values, int32_t output, const double *x, double spread) {
    size_t columns = (size_t)values->columns;
    const double *center = values->center + (size_t)output * columns;
    const double *covariance = values->covariance + (size_t)output * columns * columns;
    double unit = 1 - values->share[output] + values->offset[output];
    if (values->share[output] > 0)
        unit += values->share[output] * spread / values->mean_spread[output];
    for (size_t i = 0; i < columns; i++) {
        double row = 0.5 * covariance[i * columns + i] * (x[i] - center[i]);
        for (size_t j = 0; j < i; j++)
            row += covariance[i * columns + j] * (x[j] - center[j]);
        unit += 2 * row * (x[i] - center[i]);
    }
    return unit < 1e-12 ? 1e-12 : unit; /* what is no number stays none */
}

double cst_values_needed(double level) {
    return ceil(level / (1 - level) * (1 - 1e-9)); /* `level` is a decimal that was rounded */
}

double cst_values_factor(const cst_values *values, int32_t output, double level) {
    double gaussian = cst_normal_quantile(0.5 + 0.5 * level);
    if (!values->conformal)
        return gaussian;
    if (cst_values_needed(level) * values->offset[output] > 1 + 1e-9) /* the offset is 1 / rows */
        return INFINITY;
    const double *quantile = values->quantile + (size_t)output * CST_VALUE_LEVELS;
    int32_t above = 0;
    while (above < CST_VALUE_LEVELS && cst_value_level(above) < level)
        above++;
    if (above == 0)
        return quantile[0] * level / cst_value_level(0);
    if (above == CST_VALUE_LEVELS) { /* beyond the table the tail is the normal one's */
        double last = cst_value_level(CST_VALUE_LEVELS - 1);
        return quantile[CST_VALUE_LEVELS - 1] * gaussian / cst_normal_quantile(0.5 + 0.5 * last);
    }
    double low = cst_value_level(above - 1);
    double part = (level - low) / (cst_value_level(above) - low);
    return quantile[above - 1] + part * (quantile[above] - quantile[above - 1]);
}

double cst_aim_of(const cst_model *model, const cst_aim *aim, int32_t output, double value,
                  double variance) {
    if (!aim)
        return value;
    const cst_scaling *scaling = &model->values->scaling;
    cst_transform_kind kind = model->transform ? model->transform->kind : CST_TRANSFORM_NONE;
    double location = scaling->location[output];
    double scale = scaling->scale[output];
    const double *numbers = aim->numbers + output * (CST_AIM_COLUMNS + aim->residuals);
    double t = (cst_transform_of(kind, cst_transform_within(kind, value)) - location) / scale;
    double deviation = sqrt(variance) / scale;
    double at = numbers[0] + numbers[1] * t + numbers[2] * deviation;
    double sum = 0;
    int32_t count = aim->residuals > 0 ? aim->residuals : 1;
    for (int32_t r = 0; r < count; r++) {
        double moved = aim->residuals > 0 ? numbers[CST_AIM_COLUMNS + r] * deviation : 0;
        sum += cst_transform_inverse(kind, location + scale * (at + moved));
    }
    return cst_range_keep(model->range ? model->range[output] : 0, sum / count);
}

cst_status cst_values_take(cst_context *context, cst_scope *scope, int32_t outputs, int32_t columns,
                           cst_values **out) {
    size_t count = (size_t)outputs;
    size_t width = (size_t)columns;
    size_t each = 0;
    size_t all = 0;
    CST_NEW(context, scope, cst_values, values, 1);
    values->columns = columns;
    values->scaling.outputs = outputs;
    if (!cst_size_mul(width, width, &each) ||
        !cst_size_add(each, width + 4 + CST_VALUE_LEVELS, &each) ||
        !cst_size_mul(each, count, &all))
        return cst_fail(context, CST_ERROR_LIMIT, "%d outputs of %d columns are too many",
                        (int)outputs, (int)columns);
    CST_TAKE(context, scope, values->scaling.location, count);
    CST_TAKE(context, scope, values->scaling.scale, count);
    CST_TAKE(context, scope, values->noise, all); /* and the rest */
    values->share = values->noise + count;
    values->mean_spread = values->share + count;
    values->offset = values->mean_spread + count;
    values->center = values->offset + count;
    values->covariance = values->center + count * width;
    values->quantile = values->covariance + count * width * width;
    *out = values;
    return CST_OK;
}
