/* A fitted gate: its values for a tile of (sample, class) pairs, and its memory. */
#include "method/gate/gate.h"

#include "core/ranks.h"
#include "core/scope.h"

#include <string.h>

int64_t cst_gate_parameter_count(int32_t inputs, int32_t hidden) {
    int64_t k = inputs;
    int64_t h = hidden;
    return k * h + h + CST_AGGREGATORS * h + CST_AGGREGATORS;
}

/* The four arrays, and their lengths. */
typedef struct parts {
    float **of[4];
    size_t count[4];
} parts;

static parts parts_of(cst_gate *gate) {
    size_t hidden = (size_t)gate->hidden;
    return (parts){
        {&gate->w1, &gate->b1, &gate->w2, &gate->b2},
        {hidden * (size_t)gate->inputs, hidden, CST_AGGREGATORS * hidden, CST_AGGREGATORS}};
}

const char *cst_aggregator_name(int32_t aggregator) {
    static const char *const names[CST_AGGREGATORS] = {"mean",   "sd",       "median",  "range",
                                                       "q25",    "q75",      "entropy", "mean*sd",
                                                       "mean^2", "range*sd", "sd^2",    "kl"};
    return names[aggregator];
}

cst_status cst_gate_alloc(cst_context *context, cst_gate *gate) {
    parts p = parts_of(gate);
    bool all = true;
    for (int a = 0; a < 4; a++) {
        *p.of[a] = cst_alloc(context, p.count[a], sizeof(float));
        all = all && *p.of[a];
    }
    return all ? CST_OK : CST_ERROR_MEMORY;
}

void cst_gate_free(cst_context *context, cst_gate *gate) {
    if (!gate)
        return;
    parts p = parts_of(gate);
    for (int a = 0; a < 4; a++)
        cst_free(context, *p.of[a]);
    memset(gate, 0, sizeof *gate);
}

/* ---- as numbers: the struct, then the arrays ---- */

enum { HEAD_NUMBERS = (sizeof(cst_gate) + sizeof(double) - 1) / sizeof(double) };

static void gate_to_numbers(const cst_gate *gate, double *numbers) {
    cst_gate copy = *gate;
    parts p = parts_of(&copy);
    memcpy(numbers, gate, sizeof *gate);
    numbers += HEAD_NUMBERS;
    for (int a = 0; a < 4; a++)
        for (size_t i = 0; i < p.count[a]; i++)
            *numbers++ = (double)(*p.of[a])[i];
}

static cst_status gate_from_numbers(cst_context *context, const double *numbers, cst_gate *out) {
    memcpy(out, numbers, sizeof *out);
    numbers += HEAD_NUMBERS;
    cst_status status = cst_gate_alloc(context, out);
    parts p = parts_of(out);
    for (int a = 0; status == CST_OK && a < 4; a++)
        for (size_t i = 0; i < p.count[a]; i++)
            (*p.of[a])[i] = (float)*numbers++;
    if (status != CST_OK)
        cst_gate_free(context, out);
    return status;
}

typedef struct gates_job {
    cst_gate_fn fit;
    const void *user;
    cst_gate *const *gates;
    double *numbers; /* [gates][width]: those of every rank; NULL without ranks */
    size_t width;
} gates_job;

static cst_status gates_task(cst_context *worker, void *user, int64_t task) {
    const gates_job *job = user;
    CST_TRY(job->fit(worker, job->user, (int32_t)task, job->gates[task]));
    if (job->numbers)
        gate_to_numbers(job->gates[task], job->numbers + (size_t)task * job->width);
    return CST_OK;
}

cst_status cst_gates_fit(cst_context *context, int32_t inputs, const cst_gate_options *options,
                         cst_gate_fn fit, const void *user, int32_t count, cst_gate *const *gates) {
    gates_job job = {.fit = fit, .user = user, .gates = gates};
    bool too_large = options->hidden < 1 || cst_gate_parameter_count(inputs, options->hidden) >
                                                options->max_parameters; /* fit says so */
    if (options->mode != CST_GATE_LEARNED || too_large || !cst_ranks_share(context))
        return cst_parallel_for(context, count, gates_task, &job);
    job.width = HEAD_NUMBERS + (size_t)cst_gate_parameter_count(inputs, options->hidden);
    CST_SCOPE(scope);
    CST_TAKE(context, scope, job.numbers, (size_t)count * job.width);
    const cst_share filled = cst_share_tasks(job.numbers, count, job.width * sizeof *job.numbers);
    CST_TRY(cst_parallel_fill(context, count, gates_task, &job, &filled, 1));
    for (int32_t i = 0; i < count; i++)
        if (!gates[i]->w1) /* another rank's */
            CST_TRY(gate_from_numbers(context, job.numbers + (size_t)i * job.width, gates[i]));
    return CST_OK;
}

/* Floats: a tile of the inputs, of the hidden layer, and of the output. */
size_t cst_gate_scratch(const cst_gate *gate) {
    return ((size_t)gate->inputs + (size_t)gate->hidden + CST_AGGREGATORS) * CST_TILE / 2;
}

/* Pairs that a step of the perceptron handles in registers, and rows of weights beside them. Eight
 * floats of GCC's and clang's vector extension are one register of AVX2 or two of SSE2. */
enum { STEP = 16, ROWS = 4 };
typedef float lanes __attribute__((vector_size(32)));

/* out[r][e..e+15] = bias[r] + sum_k weights[r][k] in[k][e..e+15], added in the order of k, for
 * `rows` (constant, at most ROWS) rows r; in [count][CST_TILE], out [rows][CST_TILE]. */
static inline __attribute__((always_inline)) void step(const float *in, int32_t count,
                                                       const float *weights, const float *bias,
                                                       int32_t rows, float *out) {
    lanes sum[ROWS][2];
    for (int32_t r = 0; r < rows; r++) {
        sum[r][0] = (lanes){0} + bias[r];
        sum[r][1] = sum[r][0];
    }
    for (int32_t k = 0; k < count; k++) {
        lanes low;
        lanes high;
        memcpy(&low, in + (size_t)k * CST_TILE, sizeof low);
        memcpy(&high, in + (size_t)k * CST_TILE + STEP / 2, sizeof high);
        for (int32_t r = 0; r < rows; r++) {
            float w = weights[(size_t)r * (size_t)count + (size_t)k];
            sum[r][0] += w * low;
            sum[r][1] += w * high;
        }
    }
    for (int32_t r = 0; r < rows; r++) { /* one by one: as a pair they would go through memory */
        lanes low = sum[r][0];
        lanes high = sum[r][1];
        memcpy(out + (size_t)r * CST_TILE, &low, sizeof low);
        memcpy(out + (size_t)r * CST_TILE + STEP / 2, &high, sizeof high);
    }
}

/* All rows of a layer for `size` pairs, a multiple of STEP. */
static inline __attribute__((always_inline)) void layer(const float *in, int32_t count,
                                                        const float *weights, const float *bias,
                                                        int32_t rows, int64_t size, float *out) {
    for (int64_t e = 0; e < size; e += STEP) {
        int32_t r = 0;
        for (; r + ROWS <= rows; r += ROWS)
            step(in + e, count, weights + (size_t)r * (size_t)count, bias + r, ROWS,
                 out + (size_t)r * CST_TILE + e);
        for (; r < rows; r++)
            step(in + e, count, weights + (size_t)r * (size_t)count, bias + r, 1,
                 out + (size_t)r * CST_TILE + e);
    }
}

/* exp(x) within a few units in the last place of a float, |x| <= 30. exp(x) = 2^n exp(r), |r| <=
 * log(2)/2; the polynomial is Cephes's. */
static inline __attribute__((always_inline)) float exp_small(float x) {
    float shifted = x * 1.44269504F + 12582912.0F; /* rounds to the nearest integer */
    float n = shifted - 12582912.0F;
    float r = x - n * 0.693359375F;
    r = r - n * -2.12194440e-4F;
    float series = 1.9875691500e-4F;
    series = series * r + 1.3981999507e-3F;
    series = series * r + 8.3334519073e-3F;
    series = series * r + 4.1665795894e-2F;
    series = series * r + 1.6666665459e-1F;
    series = series * r + 5.0000001201e-1F;
    series = series * (r * r) + r + 1.0F;
    int32_t power_bits = ((int32_t)n + 127) << 23;
    float power = 0;
    memcpy(&power, &power_bits, sizeof power);
    return series * power;
}

/* z = 1 / (1 + exp(-z)), z cut at +-30, beyond which a sigmoid is 1e-13 from its limit; NaN
 * becomes 30, since exp_small needs a number. One loop per cut: both in one become a branch, and
 * the loop no longer vectorises. */
static inline __attribute__((always_inline)) void sigmoid(float *restrict z, int64_t size) {
    for (int64_t e = 0; e < size; e++)
        z[e] = z[e] < 30.0F ? z[e] : 30.0F;
    for (int64_t e = 0; e < size; e++)
        z[e] = z[e] < -30.0F ? -30.0F : z[e];
    for (int64_t e = 0; e < size; e++)
        z[e] = 1.0F / (1.0F + exp_small(-z[e]));
}

CST_KERNEL(perceptron,
           (const cst_gate *gate, const float *restrict in, int64_t size, float *restrict hidden,
            float *restrict out),
           (gate, in, size, hidden, out)) {
    layer(in, gate->inputs, gate->w1, gate->b1, gate->hidden, size, hidden);
    for (int32_t j = 0; j < gate->hidden; j++) {
        float *restrict h = hidden + (size_t)j * CST_TILE;
        for (int64_t e = 0; e < size; e++)
            h[e] = h[e] > 0.0F ? h[e] : 0.0F;
    }
    layer(hidden, gate->hidden, gate->w2, gate->b2, CST_AGGREGATORS, size, out);
    for (int32_t a = 0; a < CST_AGGREGATORS; a++)
        sigmoid(out + (size_t)a * CST_TILE, size);
}

void cst_gate_tile(const cst_gate *gate, const float *const *members, int64_t first, int64_t size,
                   float *out, double *scratch) {
    float *in = (float *)scratch;
    int64_t padded = (size + STEP - 1) / STEP * STEP;
    for (int32_t k = 0; k < gate->inputs; k++) {
        float *column = in + (size_t)k * CST_TILE;
        memcpy(column, members[k] + first, (size_t)size * sizeof *in);
        for (int64_t e = size; e < padded; e++)
            column[e] = 0;
    }
    float *hidden = in + (size_t)gate->inputs * CST_TILE;
    perceptron(gate, in, padded, hidden, out);
}

/* ---- the meta-design: members' probabilities beside the gated aggregators ---- */

/* The prototype's columns, in the order of the design. */
enum { PROTOTYPE_COLUMNS = 6 };
static const int32_t prototype_columns[PROTOTYPE_COLUMNS] = {
    CST_AGGREGATE_MEAN,  CST_AGGREGATE_SD,      CST_AGGREGATE_MEDIAN,
    CST_AGGREGATE_RANGE, CST_AGGREGATE_MEAN_SD, CST_AGGREGATE_RANGE_SD};

static int32_t gated_columns(cst_gate_mode mode) {
    if (mode == CST_GATE_LEARNED)
        return CST_AGGREGATORS;
    return mode == CST_GATE_PROTOTYPE ? PROTOTYPE_COLUMNS : 0;
}

int32_t cst_design_columns(const cst_gate *gate) {
    return gate->inputs + gated_columns(gate->mode);
}

int32_t cst_design_aggregate(cst_gate_mode mode, int32_t column) {
    return mode == CST_GATE_PROTOTYPE ? prototype_columns[column] : column;
}

/* Scratch of a tile: the aggregators' columns, and room for whichever of aggregators and gate needs
 * more, with the gate's output after it. */
static size_t tile_scratch(const cst_gate *gate) {
    if (gate->mode == CST_GATE_NONE)
        return 0;
    size_t aggregates = cst_aggregate_scratch(gate->inputs);
    size_t perceptron = cst_gate_scratch(gate);
    size_t work = aggregates > perceptron ? aggregates : perceptron;
    return (size_t)CST_AGGREGATORS * CST_TILE + work + CST_AGGREGATORS * CST_TILE / 2;
}

size_t cst_design_scratch(const cst_gate *gate, int64_t count) {
    size_t samples = gate->mode == CST_GATE_LEARNED ? 2 * (size_t)count : 0;
    return tile_scratch(gate) + (size_t)CST_AGGREGATORS * CST_TILE + samples;
}

void cst_design_tile(const cst_gate *gate, const float *const *members, int64_t count,
                     int32_t classes, int64_t first, int64_t size, const double *samples,
                     double *columns, double *scratch) {
    if (gate->mode == CST_GATE_NONE)
        return;
    if (gate->mode == CST_GATE_PROTOTYPE) {
        double *all = scratch;
        double *work = scratch + (size_t)CST_AGGREGATORS * CST_TILE;
        cst_aggregate_tile(members, gate->inputs, classes, first, size, NULL, NULL, all, work);
        for (int32_t j = 0; j < PROTOTYPE_COLUMNS; j++)
            memcpy(columns + (size_t)j * CST_TILE, all + (size_t)prototype_columns[j] * CST_TILE,
                   (size_t)size * sizeof *columns);
        return;
    }
    float *values = (float *)scratch;
    double *work = scratch + (size_t)CST_AGGREGATORS * CST_TILE / 2;
    cst_aggregate_tile(members, gate->inputs, classes, first, size, samples, samples + count,
                       columns, work);
    cst_gate_tile(gate, members, first, size, values, work);
    for (int32_t a = 0; a < CST_AGGREGATORS; a++) {
        double *restrict column = columns + (size_t)a * CST_TILE;
        const float *restrict g = values + (size_t)a * CST_TILE;
        for (int64_t e = 0; e < size; e++)
            column[e] *= (double)g[e];
    }
}

void cst_design_fill(const cst_gate *gate, const float *const *members, int64_t count,
                     int32_t classes, double *out, int64_t stride, double *scratch) {
    int32_t inputs = gate->inputs;
    int32_t gated = gated_columns(gate->mode);
    double *columns = scratch;
    double *work = columns + (size_t)CST_AGGREGATORS * CST_TILE;
    double *samples = work + tile_scratch(gate);
    if (gate->mode == CST_GATE_LEARNED)
        cst_aggregate_samples(members, inputs, gate->best, count, classes, samples, samples + count,
                              work);
    int64_t pairs = count * (int64_t)classes;
    for (int64_t first = 0; first < pairs; first += CST_TILE) {
        int64_t size = pairs - first < CST_TILE ? pairs - first : CST_TILE;
        cst_design_tile(gate, members, count, classes, first, size, samples, columns, work);
        double *place = out + first;
        for (int32_t k = 0; k < inputs; k++) {
            const float *x = members[k] + first;
            for (int64_t e = 0; e < size; e++)
                place[k * stride + e] = (double)x[e];
        }
        for (int32_t j = 0; j < gated; j++) {
            const double *x = columns + (size_t)j * CST_TILE;
            for (int64_t e = 0; e < size; e++)
                place[(inputs + j) * stride + e] = x[e];
        }
    }
}
