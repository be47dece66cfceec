/*
 * Unfinished models as bytes. See the header.
 */
#include "model/pack.h"

#include "model/values.h"

void cst_gate_pack(cst_pack *pack, cst_gate *gate) {
    CST_PACK(pack, gate->mode);
    CST_PACK(pack, gate->inputs);
    CST_PACK(pack, gate->hidden);
    CST_PACK(pack, gate->best);
    CST_PACK(pack, gate->epochs);
    CST_PACK(pack, gate->best_epoch);
    CST_PACK(pack, gate->train_rows);
    CST_PACK(pack, gate->loss_start);
    CST_PACK(pack, gate->loss_best);
    size_t hidden = (size_t)gate->hidden;
    CST_PACK_ARRAY(pack, gate->w1, hidden * (size_t)gate->inputs);
    CST_PACK_ARRAY(pack, gate->b1, hidden);
    CST_PACK_ARRAY(pack, gate->w2, CST_AGGREGATORS * hidden);
    CST_PACK_ARRAY(pack, gate->b2, CST_AGGREGATORS);
}

static void pack_calibrator(cst_pack *pack, cst_calibrator *map) {
    CST_PACK(pack, map->kind);
    CST_PACK(pack, map->classes);
    CST_PACK(pack, map->temperature);
    CST_PACK(pack, map->detail);
    CST_PACK_ARRAY(pack, map->slopes, map->classes);
    CST_PACK_ARRAY(pack, map->intercepts, map->classes);
    bool steps = map->steps != NULL;
    CST_PACK(pack, steps);
    if (pack->status != CST_OK || !steps)
        return;
    if (pack->reading)
        map->steps = cst_alloc(pack->context, (size_t)map->classes, sizeof *map->steps);
    if (!map->steps)
        pack->status = CST_ERROR_MEMORY;
    for (int32_t c = 0; pack->status == CST_OK && c < map->classes; c++) {
        CST_PACK(pack, map->steps[c].count);
        CST_PACK_ARRAY(pack, map->steps[c].x, map->steps[c].count);
        CST_PACK_ARRAY(pack, map->steps[c].y, map->steps[c].count);
    }
}

static void pack_own(cst_pack *pack, cst_learner_own *own, int32_t members) {
    own->name = cst_pack_text(pack, own->name);
    CST_PACK(pack, own->map);
    CST_PACK(pack, own->linear);
    CST_PACK_ARRAY(pack, own->mix, members);
    pack_calibrator(pack, &own->calibrator);
    CST_PACK(pack, own->scaled);
    bool scaling = own->scaling != NULL;
    CST_PACK(pack, scaling);
    if (pack->status != CST_OK || !scaling)
        return;
    if (pack->reading)
        own->scaling = cst_alloc(pack->context, (size_t)own->scaled, sizeof *own->scaling);
    if (!own->scaling)
        pack->status = CST_ERROR_MEMORY;
    for (int32_t k = 0; pack->status == CST_OK && k < own->scaled; k++)
        pack_calibrator(pack, &own->scaling[k]);
}

static void pack_learner(cst_pack *pack, cst_learner *learner, int32_t members) {
    CST_PACK(pack, learner->kind);
    CST_PACK(pack, learner->blend);
    CST_PACK(pack, learner->coefficients);
    CST_PACK(pack, learner->biases);
    CST_PACK_ARRAY(pack, learner->weights, learner->coefficients);
    CST_PACK_ARRAY(pack, learner->bias, learner->biases);
    if (CST_PACK_ONE(pack, learner->own))
        pack_own(pack, learner->own, members);
}

static void pack_learners(cst_pack *pack, cst_model *model) {
    int32_t learners = model->learners;
    CST_PACK(pack, learners);
    if (pack->reading && pack->status == CST_OK) {
        model->learner = cst_alloc(pack->context, (size_t)learners, sizeof *model->learner);
        if (!model->learner)
            pack->status = CST_ERROR_MEMORY;
        model->learners = model->learner ? learners : 0;
    }
    for (int32_t l = 0; pack->status == CST_OK && l < learners; l++)
        pack_learner(pack, &model->learner[l], model->members);
}

static void pack_network(cst_pack *pack, cst_network *net) {
    CST_PACK(pack, net->members);
    CST_PACK(pack, net->classes);
    CST_PACK(pack, net->hidden);
    size_t inputs = (size_t)net->members * (size_t)net->classes;
    CST_PACK_ARRAY(pack, net->mean, inputs);
    CST_PACK_ARRAY(pack, net->scale, inputs);
    CST_PACK_ARRAY(pack, net->theta, cst_network_size(net->members, net->classes, net->hidden));
}

static void pack_values(cst_pack *pack, cst_values *v) {
    CST_PACK(pack, v->columns);
    CST_PACK(pack, v->conformal);
    CST_PACK(pack, v->scaling.outputs);
    size_t outputs = (size_t)v->scaling.outputs;
    size_t columns = (size_t)v->columns;
    CST_PACK_ARRAY(pack, v->scaling.location, outputs);
    CST_PACK_ARRAY(pack, v->scaling.scale, outputs);
    CST_PACK_ARRAY(pack, v->noise, outputs);
    CST_PACK_ARRAY(pack, v->share, outputs);
    CST_PACK_ARRAY(pack, v->mean_spread, outputs);
    CST_PACK_ARRAY(pack, v->offset, outputs);
    CST_PACK_ARRAY(pack, v->center, outputs * columns);
    CST_PACK_ARRAY(pack, v->covariance, outputs * columns * columns);
    CST_PACK_ARRAY(pack, v->quantile, outputs * CST_VALUE_LEVELS);
}

static void pack_refit(cst_pack *pack, cst_refit *refit, size_t k) {
    CST_PACK(pack, refit->learner);
    CST_PACK(pack, refit->output);
    CST_PACK(pack, refit->biases);
    CST_PACK(pack, refit->nonnegative);
    CST_PACK(pack, refit->share);
    CST_PACK(pack, refit->pair);
    CST_PACK(pack, refit->pull);
    CST_PACK(pack, refit->loss);
    CST_PACK(pack, refit->least);
    CST_PACK_ARRAY(pack, refit->curvature, k * k);
    CST_PACK_ARRAY(pack, refit->slope, k);
    CST_PACK_ARRAY(pack, refit->ridge, k);
    CST_PACK_ARRAY(pack, refit->l1, k);
    CST_PACK_ARRAY(pack, refit->center, k);
    CST_PACK_ARRAY(pack, refit->rest, refit->biases);
    CST_PACK_ARRAY(pack, refit->tilt, (size_t)refit->biases * k);
}

void cst_refits_pack(cst_pack *pack, cst_refits **refits, int32_t members) {
    cst_refits *r = CST_PACK_ONE(pack, *refits);
    if (!r)
        return;
    int32_t count = r->count;
    CST_PACK(pack, count);
    if (pack->reading && pack->status == CST_OK) {
        r->refit = cst_alloc(pack->context, (size_t)count, sizeof *r->refit);
        if (!r->refit)
            pack->status = CST_ERROR_MEMORY;
        r->count = r->refit ? count : 0;
    }
    for (int32_t i = 0; pack->status == CST_OK && i < count; i++)
        pack_refit(pack, &r->refit[i], (size_t)members);
}

void cst_model_pack(cst_pack *pack, cst_model **model) {
    if (pack->reading && pack->status == CST_OK)
        pack->status = cst_stack_create(pack->context, model);
    if (pack->status != CST_OK)
        return;
    cst_model *m = *model;
    CST_PACK(pack, m->task);
    CST_PACK(pack, m->classes);
    CST_PACK(pack, m->members);
    CST_PACK(pack, m->map);
    CST_PACK_ARRAY(pack, m->mix, m->members);
    cst_gate_pack(pack, &m->gate);
    pack_learners(pack, m);
    pack_calibrator(pack, &m->calibrator);
    if (CST_PACK_ONE(pack, m->values))
        pack_values(pack, m->values);
    if (CST_PACK_ONE(pack, m->network))
        pack_network(pack, m->network);
    cst_refits_pack(pack, &m->refits, m->members);
    m->blend = cst_pack_text(pack, m->blend);
}
