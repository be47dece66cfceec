/*
 * A model that a fit is still at work on as bytes and back: without names and without what is added
 * when it is done. Under the parts that a fit keeps (io/checkpoint.h).
 */
#ifndef CST_MODEL_PACK_H
#define CST_MODEL_PACK_H

#include "base/pack.h"
#include "model/absent.h"

/* Of a stack as the stages leave it: learners, gate, refits, of a regression its values. What is
 * read is freed with cst_model_free, also after a failure. */
void cst_model_pack(cst_pack *pack, cst_model **model);
void cst_gate_pack(cst_pack *pack, cst_gate *gate);
void cst_refits_pack(cst_pack *pack, cst_refits **refits, int32_t members);

#endif
