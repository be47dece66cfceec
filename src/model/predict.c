/* Prediction: each meta-learner's probabilities, mixed with the blend weights, block by block.
 * Paper: the blended prediction of "Laplace-Approximate Bayesian Blender";
 * docs/method.md#s4-blend. */
#include "model/predict.h"

#include "method/gate/gate.h"
#include "model/kernels.h"
#include "model/transform.h"
#include "model/values.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    CHUNK_CELLS = 2048,     /* (sample, class) pairs worked on at a time: what stays in the cache */
    CHUNK_BYTES = 16 << 20, /* of scratch for them, unless one sample takes more */
    BATCH_CELLS = 64 * 1024 /* read at a time of a member that has to be copied or read */
};

/* How far the sum of a member's row may be from 1, and beyond which distance it is divided by it:
 * what the pool's reader does to files. */
static const double SUM_TOLERANCE = 1e-3;
static const double SUM_EXACT = 1e-6;

/* ---- what a caller hands over ---- */

static cst_status refuse_row(cst_context *worker, const cst_predict_job *job, int32_t member,
                             int64_t row, const float *values, double sum) {
    const cst_model *model = job->model;
    const char *name = cst_model_input_name(model, member);
    for (int32_t c = 0; c < model->classes; c++) {
        double value = (double)values[c];
        if (!isfinite(value))
            return cst_fail(worker, CST_ERROR_INPUT,
                            "member '%s', row %lld, class %d: the prediction is %g; remove or "
                            "correct the sample",
                            name, (long long)row, (int)c, value);
        if (model->task != CST_TASK_REGRESSION &&
            (value < -CST_ROW_MARGIN || value > 1 + CST_ROW_MARGIN))
            return cst_fail(worker, CST_ERROR_INPUT,
                            "member '%s', row %lld, class %d: %g is not a probability; if these "
                            "are logits, apply the %s first",
                            name, (long long)row, (int)c, value,
                            model->task == CST_TASK_MULTILABEL ? "sigmoid" : "softmax");
    }
    return cst_fail(worker, CST_ERROR_INPUT,
                    "member '%s', row %lld: the probabilities sum to %g instead of 1", name,
                    (long long)row, sum);
}

/* Clips a row to [0, 1] and divides it by its sum, in the chunk's own copy of the member. Only rows
 * of a caller's arrays, which nothing else copies, are repaired. */
static void repair_row(const cst_predict_job *job, const cst_predict_scratch *s, int32_t member,
                       int64_t row, int64_t count) {
    size_t classes = (size_t)job->model->classes;
    float *copy = s->gathered + (size_t)member * (size_t)job->chunk * classes;
    if (s->members[member] != copy) {
        memcpy(copy, s->members[member], (size_t)count * classes * sizeof *copy);
        s->members[member] = copy;
    }
    float *values = copy + (size_t)row * classes;
    double sum = 0;
    for (size_t c = 0; c < classes; c++) {
        values[c] = values[c] < 0.0F ? 0.0F : values[c] > 1.0F ? 1.0F : values[c];
        sum += (double)values[c];
    }
    for (size_t c = 0; job->model->task != CST_TASK_MULTILABEL && c < classes; c++)
        values[c] = (float)((double)values[c] / sum);
}

static cst_status check_rows(cst_context *worker, const cst_predict_job *job,
                             const cst_predict_scratch *s, int64_t first, int64_t count) {
    int32_t classes = job->model->classes;
    bool values = cst_task_has_outputs(job->model->task);
    bool labels = job->model->task == CST_TASK_MULTILABEL;
    for (int64_t i = 0; i < count; i++)
        for (int32_t k = 0; k < cst_model_inputs(job->model); k++) {
            const float *row = s->members[k] + i * classes;
            cst_row_check found = cst_check_row(row, classes);
            double off = fabs(found.sum - 1);
            if (values ? !isfinite(found.sum) || (labels && found.outside)
                       : found.outside || !(off <= SUM_TOLERANCE))
                return refuse_row(worker, job, k, first + i, row, found.sum);
            if (labels ? found.beyond : !values && (found.beyond || off > SUM_EXACT))
                repair_row(job, s, k, i, count);
        }
    return CST_OK;
}

/* ---- meta-learners ---- */

/* One tile of a linear learner that has a function for each output of the members' `inputs`, and of
 * the gated columns. */
static void value_scores(const cst_model *model, const cst_learner *learner,
                         const cst_predict_scratch *s, const float *const *inputs, int32_t gated,
                         int64_t first, int64_t size, double *scores) {
    size_t outputs = (size_t)model->classes;
    size_t members = (size_t)model->members;
    size_t width = (size_t)learner->coefficients / outputs;
    for (int64_t e = 0; e < size; e++) {
        size_t d = (size_t)(first + e) % outputs;
        const double *weights = learner->weights + d * width;
        double sum = learner->bias[d];
        for (size_t k = 0; k < members; k++)
            sum += weights[k] * (double)inputs[k][first + e];
        for (int32_t j = 0; j < gated; j++)
            sum += weights[members + (size_t)j] * s->columns[j * CST_TILE + e];
        scores[first + e] = sum;
    }
}

/* Log-odds of independent probabilities, each mixed with its share of 1/2. */
static void take_logits(const cst_model *model, const cst_predict_scratch *s, int64_t chunk,
                        int64_t cells) {
    for (int32_t k = 0; k < model->members; k++) {
        float *to = s->scaled + k * chunk * model->classes;
        for (int64_t e = 0; e < cells; e++)
            to[e] = (float)cst_mixed_logit(s->members[k][e], model->mix[k]);
        s->inputs[k] = to;
    }
}

/* Values in units of the targets, for the aggregators of a regression. */
static void scale_members(const cst_model *model, const cst_predict_scratch *s, int64_t chunk,
                          int64_t cells) {
    const cst_scaling *scaling = &model->values->scaling;
    for (int32_t k = 0; k < model->members; k++) {
        float *to = s->scaled + k * chunk * model->classes;
        for (int64_t e = 0; e < cells; e++)
            to[e] = (float)(((double)s->members[k][e] - scaling->location[e % model->classes]) /
                            scaling->scale[e % model->classes]);
        s->inputs[k] = to;
    }
}

/* Adds the members' part to one tile of a linear learner's scores, and sets the intercept. */
static void start_scores(const cst_learner *learner, const cst_predict_scratch *s, int32_t members,
                         int64_t first, int64_t size, double *scores) {
    for (int64_t e = 0; e < size; e++)
        scores[first + e] = learner->bias[0];
    for (int32_t k = 0; k < members; k++)
        if (learner->weights[k] != 0)
            cst_add_scaled_f32(s->members[k] + first, size, learner->weights[k], scores + first);
}

/* Scores of all linear learners that have a weight: the meta-design is made once for all of them.
 */
static void linear_scores(const cst_predict_job *job, const cst_predict_scratch *s, int64_t count) {
    const cst_model *model = job->model;
    const cst_gate *gate = &model->gate;
    int64_t cells = count * model->classes;
    int32_t gated = cst_design_columns(gate) - model->members;
    bool values = cst_task_has_outputs(model->task);
    const float *const *inputs = s->members;
    bool labels = model->task == CST_TASK_MULTILABEL;
    const float *const *plain = s->members; /* what value_scores weighs */
    if (s->scaled && labels) {
        take_logits(model, s, job->chunk, cells);
        plain = s->inputs;
    } else if (s->scaled) {
        scale_members(model, s, job->chunk, cells);
        inputs = s->inputs;
    }
    if (job->gated && gate->mode == CST_GATE_LEARNED && !values)
        cst_aggregate_samples(s->members, model->members, gate->best, count, model->classes,
                              s->samples, s->samples + count, s->design);
    for (int64_t first = 0; first < cells; first += CST_TILE) {
        int64_t size = cells - first < CST_TILE ? cells - first : CST_TILE;
        if (job->gated)
            cst_design_tile(gate, inputs, values ? cells : count, values ? 1 : model->classes,
                            first, size, s->samples, s->columns, s->design);
        double *scores = s->scores;
        for (int32_t l = 0; l < model->learners; l++) {
            const cst_learner *learner = &model->learner[l];
            if (job->blend[l] == 0 || !cst_learner_is_linear(learner->kind))
                continue;
            if (values)
                value_scores(model, learner, s, plain, job->gated ? gated : 0, first, size, scores);
            else
                start_scores(learner, s, model->members, first, size, scores);
            if (job->gated && !values)
                cst_add_columns(s->columns, CST_TILE, gated, size,
                                learner->weights + model->members, scores + first);
            scores += job->chunk * model->classes;
        }
    }
}

/* The linear learners' share of the mixture. */
static void add_linear(const cst_predict_job *job, const cst_predict_scratch *s, int64_t count) {
    const cst_model *model = job->model;
    int64_t cells = count * model->classes;
    linear_scores(job, s, count);
    double *scores = s->scores;
    for (int32_t l = 0; l < model->learners; l++) {
        if (job->blend[l] == 0 || !cst_learner_is_linear(model->learner[l].kind))
            continue;
        if (s->scaled && model->task == CST_TASK_MULTILABEL)
            for (int64_t e = 0; e < cells; e++)
                scores[e] = 1 / (1 + exp(-scores[e]));
        if (!cst_task_has_outputs(model->task))
            cst_probability_rows(cst_learner_map(model, &model->learner[l]), count, model->classes,
                                 scores);
        cst_learner_calibrate(&model->learner[l], count, scores);
        cst_add_scaled_f64(scores, cells, job->blend[l], s->mixture);
        scores += job->chunk * model->classes;
    }
}

static void add_loglinear(const cst_predict_job *job, const cst_predict_scratch *s,
                          const cst_learner *learner, double blend, int64_t count) {
    const cst_model *model = job->model;
    size_t classes = (size_t)model->classes;
    int64_t cells = count * model->classes;
    double *scores = s->scores;
    for (int64_t i = 0; i < count; i++) {
        double *row = scores + (size_t)i * classes;
        if (learner->biases > 0)
            memcpy(row, learner->bias, classes * sizeof *row);
        else
            memset(row, 0, classes * sizeof *row);
    }
    for (int32_t k = 0; k < model->members; k++)
        if (learner->weights[k] != 0)
            cst_learner_add(model, learner, k, s->members[k], count, s->work, s->rescaled, scores);
    for (int64_t i = 0; i < count; i++)
        cst_softmax(model->classes, scores + (size_t)i * classes);
    cst_learner_calibrate(learner, count, scores);
    cst_add_scaled_f64(scores, cells, blend, s->mixture);
}

static void add_network(const cst_predict_job *job, const cst_predict_scratch *s, double blend,
                        int64_t count) {
    const cst_model *model = job->model;
    int64_t cells = count * model->classes;
    for (int64_t i = 0; i < count; i++)
        cst_network_row(model->network, s->members, i, s->network, s->scores + i * model->classes);
    cst_add_scaled_f64(s->scores, cells, blend, s->mixture);
}

/* ---- blocks ---- */

/* Both maps are of the numbers that are returned without them. */
static void calibrate(const cst_predict_job *job, const cst_predict_scratch *s, int64_t count,
                      float *out) {
    int64_t cells = count * job->model->classes;
    for (int64_t e = 0; e < cells; e++)
        s->mixture[e] = (double)out[e];
    cst_calibrator_rows(&job->model->calibrator, count, s->mixture);
    for (int64_t e = 0; e < cells; e++)
        out[e] = (float)s->mixture[e];
}

/* Position in the model's layer of the domain of a row; -1: none. */
static int32_t place_of(const cst_predict_job *job, int64_t row) {
    if (!job->places)
        return job->domain;
    int32_t d = cst_view_domain(job->view, row);
    return d < 0 ? -1 : job->places[d];
}

static void apply_domains(const cst_predict_job *job, const cst_predict_scratch *s, int64_t first,
                          int64_t count, float *out) {
    int32_t classes = job->model->classes;
    for (int64_t i = 0; i < count; i++, out += classes) {
        int32_t d = place_of(job, first + i);
        if (d < 0)
            continue;
        for (int32_t c = 0; c < classes; c++)
            s->mixture[c] = (double)out[c];
        cst_domain_rows(job->model->domains, d, 1, s->mixture);
        for (int32_t c = 0; c < classes; c++)
            out[c] = (float)s->mixture[c];
    }
}

/* The mixture as it is returned; false where a number of it is not finite then. */
static bool round_mixture(const double *mixture, int64_t cells, float *out) {
    int beyond = 0;
    for (int64_t e = 0; e < cells; e++) {
        out[e] = (float)mixture[e];
        beyond |= !(fabsf(out[e]) <= FLT_MAX);
    }
    return beyond == 0;
}

/* Names the first cell of rows first.. of `out` that is not finite. Numbers near the end of
 * float32's range bring that about, and models that were not written by a fit. */
static cst_status refuse_result(cst_context *worker, const cst_predict_job *job, int64_t first,
                                const float *out, const double *mixture) {
    int32_t classes = job->model->classes;
    int64_t at = 0;
    while (isfinite(out[at]))
        at++;
    int64_t row = first + at / classes;
    return cst_fail(worker, CST_ERROR_INPUT,
                    "row %lld, %s %d: the prediction is %g, too large for float32; are the "
                    "members' predictions correct?",
                    (long long)(job->view->index ? job->view->index[row] : row),
                    cst_task_has_outputs(job->model->task) ? "output" : "class",
                    (int)(at % classes), mixture[at]);
}

/* Members of the chunk through the transform of the targets. */
static void transform_members(const cst_model *model, const cst_predict_scratch *s, int64_t chunk,
                              int64_t cells) {
    for (int32_t k = 0; k < model->members; k++) {
        float *to = s->transformed + k * chunk * model->classes;
        for (int64_t e = 0; e < cells; e++)
            to[e] = cst_transform_member(model->transform, (int32_t)(e % model->classes),
                                         s->members[k][e]);
        s->members[k] = to;
    }
}

/* Samples first..first+count-1, whose rows are in s->members. */
static cst_status predict_chunk(cst_context *worker, const cst_predict_job *job,
                                const cst_predict_scratch *s, int64_t first, int64_t count) {
    const cst_model *model = job->model;
    int64_t cells = count * model->classes;
    CST_TRY(job->check ? check_rows(worker, job, s, first, count) : CST_OK);
    if (model->transform)
        transform_members(model, s, job->chunk, cells);
    memset(s->mixture, 0, (size_t)cells * sizeof *s->mixture);
    if (job->linear > 0)
        add_linear(job, s, count);
    for (int32_t l = 0; l < model->learners; l++)
        if (job->blend[l] != 0 && model->learner[l].kind == CST_LEARNER_LOGLINEAR)
            add_loglinear(job, s, &model->learner[l], job->blend[l], count);
    for (int32_t l = 0; job->network && l < model->learners; l++)
        if (job->blend[l] != 0 && model->learner[l].kind == CST_LEARNER_NETWORK)
            add_network(job, s, job->blend[l], count);
    for (int64_t e = 0; model->transform && e < cells; e++)
        s->mixture[e] = cst_transform_inverse(model->transform->kind, s->mixture[e]);
    for (int64_t e = 0; model->range && e < cells; e++)
        s->mixture[e] = cst_range_keep(model->range[e % model->classes], s->mixture[e]);
    float *out = job->out + (size_t)first * (size_t)model->classes;
    if (!round_mixture(s->mixture, cells, out))
        return refuse_result(worker, job, first, out, s->mixture);
    if (job->places || job->domain >= 0)
        apply_domains(job, s, first, count, out);
    if (job->calibrate)
        calibrate(job, s, count, out);
    if (job->adapt)
        cst_adapted_rows(model->adapted, s->members, count, s->scores, out);
    return CST_OK;
}

/* Samples first..first+count-1, rows[k] being those of member k, chunk by chunk. */
cst_status cst_predict_chunks(cst_context *worker, const cst_predict_job *job,
                              const cst_predict_scratch *s, const float *const *rows, int64_t first,
                              int64_t count) {
    for (int64_t at = 0; at < count; at += job->chunk) {
        int64_t left = count - at;
        for (int32_t k = 0; k < cst_model_inputs(job->model); k++)
            s->members[k] = rows[k] + at * job->model->classes;
        CST_TRY(predict_chunk(worker, job, s, first + at, left < job->chunk ? left : job->chunk));
    }
    return CST_OK;
}

size_t cst_stack_sample_bytes(const cst_model *model) {
    if (model->task == CST_TASK_TOPK) /* only classes that are listed */
        return 1;
    /* No product overflows: 2^24 classes, 2^20 members, 2^31 learners. */
    size_t floats = (size_t)cst_model_inputs(model) * (cst_task_has_outputs(model->task) ? 2 : 1);
    if (model->transform)
        floats += (size_t)model->members;
    size_t doubles = (size_t)model->learners + 6; /* mixture, and twice two of samples */
    if (cst_model_scales(model))
        doubles += 2;
    size_t network = model->network ? cst_network_scratch(model->network) : 0;
    return (size_t)model->classes * (floats * sizeof(float) + doubles * sizeof(double)) +
           network * sizeof(double);
}

cst_status cst_predict_scratch_take(cst_context *worker, cst_scope *scope,
                                    const cst_predict_job *job, cst_predict_scratch *s) {
    const cst_model *model = job->model;
    size_t chunk = (size_t)job->chunk;
    size_t cells = chunk * (size_t)model->classes; /* at most the larger of CHUNK_CELLS and C */
    size_t lines = 1 + (size_t)(job->linear > 1 ? job->linear : 1);
    size_t tile = job->gated ? (size_t)CST_AGGREGATORS * CST_TILE : 0;
    bool values = cst_task_has_outputs(model->task);
    size_t pairs = values ? cells : chunk; /* each value is a sample of its own */
    size_t design = job->gated ? cst_design_scratch(&model->gate, (int64_t)pairs) : 0;
    size_t network = job->network ? cst_network_scratch(model->network) : 0;
    size_t place = (size_t)(cst_view_copies(job->view) ? job->batch : job->chunk);
    size_t gathered = 0;
    size_t total = 0;
    *s = (cst_predict_scratch){0};
    size_t scaled = cst_model_scales(model) ? cells : 0;
    size_t inputs = (size_t)cst_model_inputs(model);
    if (!cst_size_mul(place * (size_t)model->classes, inputs, &gathered) ||
        !cst_size_mul(cells, lines, &total) ||
        !cst_size_add(total, tile + 2 * pairs + design + network + scaled, &total))
        return cst_fail(worker, CST_ERROR_LIMIT, "a row of %d members and %d classes is too large",
                        (int)inputs, (int)model->classes);
    if (!cst_view_copies(job->view) && !job->check)
        gathered = 0;
    CST_TAKE(worker, scope, s->members, inputs);
    CST_TAKE(worker, scope, s->batch, inputs);
    CST_TAKE(worker, scope, s->memory, total);
    CST_TAKE(worker, scope, s->gathered, gathered);
    CST_TAKE(worker, scope, s->rescaled, scaled);
    bool labels = model->task == CST_TASK_MULTILABEL && model->map != CST_PROBABILITY_MIXTURE;
    if (labels || (values && job->gated && model->values)) {
        CST_TAKE(worker, scope, s->scaled, cells * (size_t)model->members);
        CST_TAKE(worker, scope, s->inputs, model->members);
    }
    if (model->transform)
        CST_TAKE(worker, scope, s->transformed, cells * (size_t)model->members);
    s->mixture = s->memory;
    s->scores = s->mixture + cells;
    s->columns = s->mixture + lines * cells;
    s->samples = s->columns + tile;
    s->design = s->samples + 2 * pairs;
    s->network = s->design + design;
    s->work = s->network + network;
    return CST_OK;
}

/* Rows of so many cells: at least one, at most a block and all of them. */
static int64_t block_part(int64_t cells, int32_t classes, int64_t rows) {
    int64_t part = cells / classes;
    part = part < 1 ? 1 : part > CST_BLOCK_ROWS ? CST_BLOCK_ROWS : part;
    return part < rows ? part : rows;
}

/* Which parts of the model the blend reaches, and how many rows are taken at a time. */
void cst_predict_plan(cst_predict_job *job) {
    const cst_model *model = job->model;
    for (int32_t l = 0; l < model->learners; l++) {
        const cst_learner *learner = &model->learner[l];
        job->network |= job->blend[l] != 0 && learner->kind == CST_LEARNER_NETWORK;
        if (job->blend[l] == 0 || !cst_learner_is_linear(learner->kind))
            continue;
        job->linear++;
        int32_t width = cst_task_has_outputs(model->task) ? learner->coefficients / model->classes
                                                          : learner->coefficients;
        for (int32_t j = 0; j < learner->coefficients; j++)
            job->gated = job->gated || (j % width >= model->members && learner->weights[j] != 0);
    }
    int64_t affordable = CHUNK_BYTES / (int64_t)cst_stack_sample_bytes(model);
    job->chunk = block_part(CHUNK_CELLS, model->classes, job->view->rows);
    if (job->chunk > affordable)
        job->chunk = affordable > 0 ? affordable : 1;
    job->batch = cst_view_copies(job->view)
                     ? block_part(BATCH_CELLS, model->classes, job->view->rows)
                     : CST_BLOCK_ROWS;
}

cst_status cst_predict_blend(cst_context *context, cst_scope *scope, const cst_model *model,
                             int32_t only, double **out) {
    CST_TAKE(context, scope, *out, model->learners);
    for (int32_t l = 0; l < model->learners; l++)
        (*out)[l] = only < 0 ? model->learner[l].blend : (double)(l == only);
    return CST_OK;
}
