/* Files of what was learned after a fit, by monitors and online adapters, so that the next call
 * goes on from there: magic, version, the hash of the model, values, and a checksum.
 * docs/model-format.md#adapter-states. */
#pragma once

#include "model/codec.h"

typedef struct cst_state_kind {
    const char *magic; /* 8 bytes, as those of a model file, with another name */
    uint32_t version;
    const char *refusal;                     /* what is said of a file that is none */
    int64_t most;                            /* bytes of a file; 0: any */
    void (*code)(cst_codec *c, void *state); /* writes a state; also used by its reader */
} cst_state_kind;

/* Writes to a temporary name, which is synced and renamed. */
cst_status cst_state_save(cst_context *context, const cst_state_kind *kind, uint64_t model_hash,
                          const void *state, const char *path);

/* Refuses a file that is damaged, of another kind or of another version. *c: at what follows the
 * hash, for as long as the scope. */
cst_status cst_state_open(cst_context *context, cst_scope *scope, const cst_state_kind *kind,
                          const char *path, cst_codec *c, uint64_t *model_hash);

/* CST_ERROR_MISMATCH if these hashes of models differ. */
cst_status cst_state_check_model(const cst_codec *c, uint64_t hash, uint64_t model_hash);

/* Refuses bytes that are left over. */
void cst_state_end(cst_codec *c);
