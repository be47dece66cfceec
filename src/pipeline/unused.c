/*
 * Members that no meta-learner of a blend reads any more. See the header.
 */
#include "pipeline/unused.h"

#include "model/absent.h"

#include <math.h>

static bool reads(const cst_model *model, int32_t member) {
    for (int32_t l = 0; l < model->learners; l++)
        if (model->learner[l].weights[member] != 0)
            return true;
    return false;
}

/* Whether some learner reads a gated aggregator, and with it every member. */
static bool reads_gate(const cst_model *model) {
    for (int32_t l = 0; l < model->learners; l++) {
        const cst_learner *learner = &model->learner[l];
        for (int32_t j = model->members;
             cst_learner_is_linear(learner->kind) && j < learner->coefficients; j++)
            if (learner->weights[j] != 0)
                return true;
    }
    return false;
}

static void drop_gate(cst_context *context, cst_model *model) {
    cst_gate_free(context, &model->gate);
    model->gate.mode = CST_GATE_NONE;
    model->gate.inputs = model->members;
    for (int32_t l = 0; l < model->learners; l++)
        if (cst_learner_is_linear(model->learner[l].kind))
            model->learner[l].coefficients = model->members;
}

/* Entries of `values` [from] that stay, moved together. */
static void keep(double *values, const bool *used, int32_t from) {
    int32_t to = 0;
    for (int32_t k = 0; values && k < from; k++)
        if (used[k])
            values[to++] = values[k];
}

static void keep_scaling(cst_context *context, cst_learner_own *own, const bool *used) {
    int32_t to = 0;
    for (int32_t k = 0; k < own->scaled; k++) {
        cst_calibrator moved = own->scaling[k];
        own->scaling[k] = (cst_calibrator){0};
        if (used[k])
            own->scaling[to++] = moved;
        else
            cst_calibrator_free(context, &moved);
    }
    own->scaled = to;
}

static void keep_refit(cst_refit *refit, const bool *used, int32_t from, int32_t left) {
    int32_t to = 0;
    for (int32_t k = 0; k < from; k++) {
        if (!used[k])
            continue;
        double *row = refit->curvature + (size_t)k * (size_t)from;
        keep(row, used, from);
        for (int32_t j = 0; j < left; j++) /* rows move towards the start: none is overwritten */
            refit->curvature[(size_t)to * (size_t)left + (size_t)j] = row[j];
        to++;
    }
    double *each[] = {refit->slope, refit->ridge, refit->l1, refit->center};
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++)
        keep(each[i], used, from);
    for (int32_t b = 0; b < refit->biases; b++) {
        double *row = refit->tilt + (size_t)b * (size_t)from;
        keep(row, used, from);
        for (int32_t j = 0; j < left; j++)
            refit->tilt[(size_t)b * (size_t)left + (size_t)j] = row[j];
    }
}

void cst_model_drop_unused(cst_context *context, cst_model *model, bool *used) {
    int32_t from = model->members;
    int32_t left = 0;
    bool gated = model->gate.mode != CST_GATE_NONE && reads_gate(model);
    if (!gated && model->gate.mode != CST_GATE_NONE)
        drop_gate(context, model);
    for (int32_t k = 0; k < from; k++) {
        used[k] = gated || reads(model, k);
        left += used[k];
    }
    if (left == 0) {
        used[0] = true;
        left = 1;
    }
    if (left == from)
        return;
    keep(model->mix, used, from);
    for (int32_t l = 0; l < model->learners; l++) {
        cst_learner *learner = &model->learner[l];
        keep(learner->weights, used, from);
        learner->coefficients = left;
        if (learner->own) {
            keep(learner->own->mix, used, from);
            keep_scaling(context, learner->own, used);
        }
    }
    for (int32_t i = 0; model->refits && i < model->refits->count; i++)
        keep_refit(&model->refits->refit[i], used, from, left);
    model->members = left;
    model->gate.inputs = left;
}
