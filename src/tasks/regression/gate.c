/*
 * Training rows of the gate of a regression. Stage S2, on the kept members.
 * Paper: section "Differentiable Meta-Feature Gate"; docs/regression.md.
 */
#include "tasks/regression/gate.h"

#include <math.h>
#include <string.h>

typedef struct gate_job {
    const cst_view *view;
    const cst_scaling *scaling;
    const int32_t *folds;
    const cst_settings *settings;
} gate_job;

/* Every (row, output) of a sample of rows, in memory and in units of the targets. */
typedef struct gate_rows {
    float **values;     /* [members][pairs] */
    double *targets;    /* [pairs] */
    double *weights;    /* [pairs] */
    int64_t *positions; /* rows of the part, then those drawn */
    float *raw;
    int64_t pairs;
} gate_rows;

static void free_rows(cst_context *context, gate_rows *rows, int32_t members) {
    for (int32_t k = 0; rows->values && k < members; k++)
        cst_free(context, rows->values[k]);
    cst_free(context, rows->values);
    cst_free(context, rows->targets);
    cst_free(context, rows->weights);
    cst_free(context, rows->positions);
    cst_free(context, rows->raw);
    *rows = (gate_rows){0};
}

/* Rows of the part, evenly thinned to the most that the gate is trained on. Returns their number.
 */
static int64_t pick_rows(const gate_job *job, int32_t part, int64_t *positions) {
    int64_t count = 0;
    int64_t most = job->settings->gate.max_rows / job->view->classes;
    for (int64_t i = 0; i < job->view->rows; i++)
        if (part == 0 || job->folds[i] != part - 1)
            positions[count++] = i;
    most = most < 2 ? 2 : most;
    if (count <= most)
        return count;
    for (int64_t i = 0; i < most; i++) /* the spacing is above 1, so that no row comes twice */
        positions[i] = positions[(int64_t)((double)i * ((double)count / (double)most))];
    return most;
}

static cst_status make_rows(cst_context *context, const gate_job *job, int32_t part,
                            gate_rows *out) {
    const cst_view *view = job->view;
    const cst_scaling *scaling = job->scaling;
    size_t members = (size_t)view->members;
    int32_t outputs = view->classes;
    out->positions = cst_alloc(context, (size_t)view->rows, sizeof *out->positions);
    out->values = cst_alloc(context, members, sizeof *out->values);
    if (!out->positions || !out->values)
        return CST_ERROR_MEMORY;
    int64_t count = pick_rows(job, part, out->positions);
    size_t pairs = (size_t)count * (size_t)outputs;
    out->pairs = (int64_t)pairs;
    out->targets = cst_alloc(context, pairs, sizeof *out->targets);
    out->weights = cst_alloc(context, pairs, sizeof *out->weights);
    out->raw = cst_alloc(context, pairs, sizeof *out->raw);
    cst_status status = out->targets && out->weights && out->raw ? CST_OK : CST_ERROR_MEMORY;
    for (size_t k = 0; status == CST_OK && k < members; k++) {
        out->values[k] = cst_alloc(context, pairs, sizeof **out->values);
        status = out->values[k]
                     ? cst_view_gather(context, view, (int32_t)k, out->positions, count, out->raw)
                     : CST_ERROR_MEMORY;
        for (size_t e = 0; status == CST_OK && e < pairs; e++) {
            size_t d = e % (size_t)outputs;
            out->values[k][e] =
                (float)(((double)out->raw[e] - scaling->location[d]) / scaling->scale[d]);
        }
    }
    for (int64_t i = 0; status == CST_OK && i < count; i++) {
        const double *y = cst_view_target(view, out->positions[i]);
        for (int32_t d = 0; d < outputs; d++) {
            out->targets[i * outputs + d] = (y[d] - scaling->location[d]) / scaling->scale[d];
            out->weights[i * outputs + d] = cst_view_weight(view, out->positions[i]);
        }
    }
    return status;
}

/* The member of least squared error. */
static int32_t best_member(const gate_rows *rows, int32_t members) {
    int32_t best = 0;
    double least = INFINITY;
    for (int32_t k = 0; k < members; k++) {
        double sum = 0;
        for (int64_t e = 0; e < rows->pairs; e++) {
            double error = (double)rows->values[k][e] - rows->targets[e];
            sum += rows->weights[e] * (error * error);
        }
        if (sum < least) {
            least = sum;
            best = k;
        }
    }
    return best;
}

static cst_status fit_gate(cst_context *context, const void *user, int32_t index, cst_gate *out) {
    const gate_job *job = user;
    gate_rows rows = {0};
    cst_status status = make_rows(context, job, index, &rows);
    if (status == CST_OK) {
        cst_view view = {.rows = rows.pairs,
                         .classes = 1,
                         .members = job->view->members,
                         .data = (const float *const *)rows.values,
                         .targets = rows.targets,
                         .weights = job->view->weights ? rows.weights : NULL,
                         .weight_scale = 1};
        status = cst_gate_fit(context, &view, best_member(&rows, view.members),
                              &job->settings->gate, out);
    }
    free_rows(context, &rows, job->view->members);
    return status;
}

cst_status cst_value_gates_fit(cst_context *context, const cst_view *view,
                               const cst_scaling *scaling, const int32_t *folds,
                               const cst_settings *settings, int32_t count, cst_gate *gates) {
    gate_job job = {.view = view, .scaling = scaling, .folds = folds, .settings = settings};
    if (gates[0].mode != CST_GATE_LEARNED)
        return CST_OK;
    cst_gate **each = cst_alloc(context, (size_t)count, sizeof *each);
    if (!each)
        return CST_ERROR_MEMORY;
    for (int32_t i = 0; i < count; i++)
        each[i] = &gates[i];
    cst_status status =
        cst_gates_fit(context, view->members, &settings->gate, fit_gate, &job, count, each);
    cst_free(context, each);
    return status;
}
