/* A fitted stack: everything prediction needs and nothing more. Immutable once made; any number of
 * threads may predict with one model at the same time, each with its own context. File format:
 * docs/model-format.md. */
#ifndef CORESTACK_MODEL_H
#define CORESTACK_MODEL_H

#include <corestack/context.h>
#include <corestack/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the model to memory, for programs that do not store models in files: the same bytes as
 * cst_model_save. *bytes [*size] belongs to the caller (cst_free). */
CST_API cst_status cst_model_save_memory(cst_context *context, const cst_model *model, void **bytes,
                                         size_t *size);

/* ---- prediction without allocation, for a service ---- */

#ifdef __cplusplus
}
#endif
#endif
