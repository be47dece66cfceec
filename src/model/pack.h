/*
 * Writing and reading an unfinished model, without names and other data that the end of a fit adds.
 * Under the parts of a checkpoint (io/checkpoint.h).
 */
#ifndef CST_MODEL_PACK_H
#define CST_MODEL_PACK_H

#include "base/pack.h"
#include "model/absent.h"

/* A stack as the stages leave it: learners, gate, refits, and the values of a regression. A model
 * that was read is freed with cst_model_free, also after a failure. */
void cst_model_pack(cst_pack *pack, cst_model **model);
void cst_gate_pack(cst_pack *pack, cst_gate *gate);
void cst_refits_pack(cst_pack *pack, cst_refits **refits, int32_t members);

#endif
