/* Members that no meta-learner of a blend reads any more. After stage S4. */
#include "fit/stages.h"

#include "method/gate/gate.h"
#include "model/absent.h"

#include <string.h>

/* Columns of the linear learners' weights, which a regression has for each output. */
static int32_t columns_of(const cst_model *model, const cst_learner *learner) {
    bool outputs = cst_task_has_outputs(model->task) && cst_learner_is_linear(learner->kind);
    return learner->coefficients / (outputs ? model->classes : 1);
}

/* Whether a learner, or the doubt about its coefficients, reads a column. */
static bool reads(const cst_model *model, int32_t column) {
    for (int32_t l = 0; l < model->learners; l++) {
        const cst_learner *learner = &model->learner[l];
        int32_t columns = columns_of(model, learner);
        for (int32_t j = column; column < columns && j < learner->coefficients; j += columns)
            if (learner->weights[j] != 0)
                return true;
    }
    const cst_values *values = model->values;
    for (int32_t d = 0; values && d < model->classes; d++) {
        size_t columns = (size_t)values->columns;
        if (values->covariance[((size_t)d * columns + (size_t)column) * columns + (size_t)column] !=
            0)
            return true;
    }
    return false;
}

/* Whether some learner reads a gated aggregator, and with it every member. */
static bool reads_gate(const cst_model *model) {
    for (int32_t l = 0; l < model->learners; l++) {
        if (!cst_learner_is_linear(model->learner[l].kind))
            continue;
        for (int32_t j = model->members; j < columns_of(model, &model->learner[l]); j++)
            if (reads(model, j))
                return true;
    }
    return false;
}

/* Whether the variance of a regression grows with the disagreement of all members. */
static bool disagreement_is_read(const cst_model *model) {
    for (int32_t d = 0; model->values && d < model->classes; d++)
        if (model->values->share[d] > 0)
            return true;
    return false;
}

/* Of arrays [outer][from][width] what stays of `from`, moved together. */
static void keep(double *values, const bool *used, int32_t outer, int32_t from, int32_t width) {
    double *to = values;
    for (int32_t o = 0; values && o < outer; o++)
        for (int32_t k = 0; k < from; k++, values += width)
            if (used[k]) { /* it moves towards the start: none is overwritten */
                memmove(to, values, (size_t)width * sizeof *to);
                to += width;
            }
}

/* The same of both sides of matrices [count][from][from]. */
static void keep_squares(double *values, const bool *used, int32_t count, int32_t from,
                         int32_t left) {
    keep(values, used, count * from, from, 1);
    keep(values, used, count, from, left);
}

/* Columns of the linear learners that stay. */
static void keep_columns(cst_model *model, const bool *used, int32_t from, int32_t left) {
    for (int32_t l = 0; l < model->learners; l++) {
        cst_learner *learner = &model->learner[l];
        if (!cst_learner_is_linear(learner->kind) || columns_of(model, learner) != from)
            continue;
        int32_t rows = learner->coefficients / from;
        keep(learner->weights, used, rows, from, 1);
        learner->coefficients = rows * left;
    }
    cst_values *values = model->values;
    if (values && values->columns == from) {
        keep(values->center, used, model->classes, from, 1);
        keep_squares(values->covariance, used, model->classes, from, left);
        values->columns = left;
    }
}

static cst_status drop_gate(cst_context *context, cst_model *model) {
    int32_t columns = cst_design_columns(&model->gate);
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, used, columns);
    for (int32_t k = 0; k < model->members; k++)
        used[k] = true;
    keep_columns(model, used, columns, model->members);
    cst_gate_free(context, &model->gate);
    model->gate.mode = CST_GATE_NONE;
    model->gate.inputs = model->members;
    return CST_OK;
}

/* Each place of the list is freed with the learner: scalings change places. */
static void keep_scaling(cst_learner_own *own, const bool *used) {
    int32_t to = 0;
    for (int32_t k = 0; k < own->scaled; k++)
        if (used[k]) {
            cst_calibrator moved = own->scaling[k];
            own->scaling[k] = own->scaling[to];
            own->scaling[to++] = moved;
        }
    own->scaled = to;
}

static void keep_refit(cst_refit *refit, const bool *used, int32_t from, int32_t left) {
    keep_squares(refit->curvature, used, 1, from, left);
    double *each[] = {refit->slope, refit->ridge, refit->l1, refit->center};
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++)
        keep(each[i], used, 1, from, 1);
    keep(refit->tilt, used, refit->biases, from, 1);
}

/* Takes members without a weight in any learner out of a model without names: mixing, weights,
 * scalings, refits and what a regression knows of their coefficients. Members whose disagreement
 * its variance grows with stay. used: [model->members as it was], out: who stays, at least one. A
 * gate whose aggregators have no weight leaves first; one that is read keeps every member. */
static cst_status model_drop_unused(cst_context *context, cst_model *model, bool *used) {
    int32_t from = model->members;
    int32_t left = 0;
    bool gated = model->gate.mode != CST_GATE_NONE && reads_gate(model);
    bool all = gated || disagreement_is_read(model);
    if (!gated && model->gate.mode != CST_GATE_NONE)
        CST_TRY(drop_gate(context, model));
    for (int32_t k = 0; k < from; k++) {
        used[k] = all || reads(model, k);
        left += used[k];
    }
    if (left == 0) {
        used[0] = true;
        left = 1;
    }
    if (left == from)
        return CST_OK;
    keep(model->mix, used, 1, from, 1);
    keep_columns(model, used, from, left);
    for (int32_t l = 0; l < model->learners; l++) {
        cst_learner *learner = &model->learner[l];
        if (learner->kind == CST_LEARNER_LOGLINEAR) {
            keep(learner->weights, used, 1, from, 1);
            learner->coefficients = left;
        }
        if (learner->own) {
            keep(learner->own->mix, used, 1, from, 1);
            keep_scaling(learner->own, used);
        }
    }
    for (int32_t i = 0; model->refits && i < model->refits->count; i++)
        keep_refit(&model->refits->refit[i], used, from, left);
    model->members = left;
    model->gate.inputs = left;
    return CST_OK;
}

cst_status cst_stages_drop_unused(cst_context *context, cst_stages *stages) {
    int32_t count = stages->kept_count;
    int32_t to = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, used, count);
    CST_TRY(model_drop_unused(context, stages->fit.model, used));
    for (int32_t j = 0; j < count; j++) {
        if (used[j])
            stages->kept[to++] = stages->kept[j];
        else
            stages->reason[stages->kept[j]] = CST_REASON_BLEND;
    }
    stages->kept_count = to;
    return CST_OK;
}
