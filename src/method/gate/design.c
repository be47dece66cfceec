/* The meta-design: members' probabilities beside the gated aggregators. */
#include "method/gate/design.h"

#include <string.h>

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
