/*
 * Stages of a regression as bytes. See the header.
 */
#include "regression/parts.h"

#include "model/pack.h"

void cst_pack_value_fit(cst_pack *pack, void *object) {
    cst_value_stages *stages = object;
    cst_value_fit *fit = &stages->fit;
    cst_pack_removals(pack, &stages->base);
    CST_PACK(pack, fit->outputs);
    CST_PACK(pack, fit->columns);
    CST_PACK(pack, fit->folds);
    CST_PACK(pack, fit->learners);
    CST_PACK(pack, fit->kind);
    int32_t gates = fit->gate_count;
    CST_PACK(pack, gates);
    if (pack->reading && pack->status == CST_OK) {
        fit->gates = cst_alloc(pack->context, (size_t)gates, sizeof *fit->gates);
        if (!fit->gates)
            pack->status = CST_ERROR_MEMORY;
        fit->gate_count = fit->gates ? gates : 0;
    }
    for (int32_t g = 0; pack->status == CST_OK && g < gates; g++)
        cst_gate_pack(pack, &fit->gates[g]);
    size_t outputs = (size_t)fit->outputs;
    size_t columns = (size_t)fit->columns;
    size_t parts = (size_t)fit->folds + 1;
    size_t learners = (size_t)fit->learners;
    CST_PACK_ARRAY(pack, fit->weights, parts * outputs * columns);
    CST_PACK_ARRAY(pack, fit->intercept, parts * outputs);
    CST_PACK_ARRAY(pack, fit->blend, outputs * learners);
    CST_PACK_ARRAY(pack, fit->nll, outputs * learners);
    CST_PACK_ARRAY(pack, fit->logdet, outputs * learners);
    CST_PACK_ARRAY(pack, fit->mse, outputs);
    CST_PACK_ARRAY(pack, fit->center, outputs * columns);
    CST_PACK_ARRAY(pack, fit->covariance, outputs * columns * columns);
    CST_PACK_ARRAY(pack, fit->lambda, outputs);
    CST_PACK(pack, fit->sigma2);
    CST_PACK(pack, fit->mp_edge);
    CST_PACK(pack, fit->snr);
    cst_refits_pack(pack, &fit->refits, stages->base.kept_count);
    CST_PACK(pack, fit->seconds_gate);
    CST_PACK(pack, fit->seconds_ridge);
    CST_PACK(pack, fit->seconds_blend);
}
