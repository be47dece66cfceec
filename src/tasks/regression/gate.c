/* The gate of a regression: trained as that of a classification, on values in units of the targets.
 * Stage S2, on the kept members. Paper: section "Differentiable Meta-Feature Gate". */
#include "tasks/regression/regression.h"

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
    float **values;  /* [members][pairs] */
    double *targets; /* [pairs] */
    double *weights; /* [pairs] */
    int64_t pairs;
} gate_rows;

/* Rows of the part, evenly thinned to the most that the gate is trained on; how many. */
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

static cst_status make_rows(cst_context *context, cst_scope *scope, const gate_job *job,
                            int32_t part, gate_rows *out) {
    const cst_view *view = job->view;
    const cst_scaling *scaling = job->scaling;
    int32_t outputs = view->classes;
    CST_NEW(context, scope, int64_t, positions, view->rows);
    int64_t count = pick_rows(job, part, positions);
    out->pairs = count * outputs;
    CST_TAKE(context, scope, out->values, view->members);
    CST_TAKE(context, scope, out->targets, out->pairs);
    CST_TAKE(context, scope, out->weights, out->pairs);
    for (int32_t k = 0; k < view->members; k++) {
        CST_TAKE(context, scope, out->values[k], out->pairs);
        CST_TRY(cst_view_gather(context, view, k, positions, count, out->values[k]));
        for (int64_t e = 0; e < out->pairs; e++) {
            float *value = &out->values[k][e];
            *value = (float)(((double)*value - scaling->location[e % outputs]) /
                             scaling->scale[e % outputs]);
        }
    }
    for (int64_t i = 0; i < count; i++) {
        const double *y = cst_view_target(view, positions[i]);
        for (int32_t d = 0; d < outputs; d++) {
            out->targets[i * outputs + d] = (y[d] - scaling->location[d]) / scaling->scale[d];
            out->weights[i * outputs + d] = cst_view_weight(view, positions[i]);
        }
    }
    return CST_OK;
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
    gate_rows rows;
    CST_SCOPE(scope);
    CST_TRY(make_rows(context, scope, job, index, &rows));
    cst_view view = {.rows = rows.pairs,
                     .classes = 1,
                     .members = job->view->members,
                     .data = (const float *const *)rows.values,
                     .targets = rows.targets,
                     .weights = job->view->weights ? rows.weights : NULL,
                     .weight_scale = 1};
    return cst_gate_fit(context, &view, best_member(&rows, view.members), &job->settings->gate,
                        out);
}

cst_status cst_value_gates_fit(cst_context *context, const cst_view *view,
                               const cst_scaling *scaling, const int32_t *folds,
                               const cst_settings *settings, int32_t count, cst_gate *gates) {
    gate_job job = {.view = view, .scaling = scaling, .folds = folds, .settings = settings};
    if (gates[0].mode != CST_GATE_LEARNED)
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_gate *, each, count);
    for (int32_t i = 0; i < count; i++)
        each[i] = &gates[i];
    return cst_gates_fit(context, view->members, &settings->gate, fit_gate, &job, count, each);
}
