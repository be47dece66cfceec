/*
 * Files that hold what was learned after a fit, so that the next call goes on from there: magic,
 * version, the hash of the model, values, and a checksum. Under the states of monitors and online
 * adapters. docs/model-format.md#adapter-states.
 */
#ifndef CST_STATE_FILE_H
#define CST_STATE_FILE_H

#include "core/buffer.h"
#include "data/files/bytes.h"
#include "model/reader.h"

enum { CST_STATE_MAGIC_BYTES = 8 };

typedef struct cst_state_kind {
    const char *magic; /* as that of a model file (model/format.h), with another name */
    uint32_t version;
    const char *refusal; /* what is said of a file that is none */
    int64_t most;        /* bytes of a file; 0: any */
} cst_state_kind;

/* ---- writing: begin, put, save ---- */

void cst_state_begin(cst_buffer *w, const cst_state_kind *kind, uint64_t model_hash);
/* The low `bytes` bytes, little-endian. */
void cst_state_put(cst_buffer *w, uint64_t value, int bytes);
void cst_state_put_numbers(cst_buffer *w, const double *values, size_t count);
/* Adds the checksum and writes the file: to a temporary name, synced, then renamed. Frees what the
 * buffer holds, also after a failure. */
cst_status cst_state_save(cst_buffer *w, const char *path);

/* ---- reading: open, take, close ---- */

typedef struct cst_state_source {
    cst_bytes *file;
    cst_reader reader;   /* of what follows the hash */
    uint64_t model_hash; /* of the model that the state was made with */
} cst_state_source;

/* Refuses a file that is damaged, of another kind or of another version. */
cst_status cst_state_open(cst_context *context, const cst_state_kind *kind, const char *path,
                          cst_state_source *out);
void cst_state_close(cst_context *context, cst_state_source *source);

/* CST_ERROR_MISMATCH unless the state was made with the model of this hash. */
cst_status cst_state_check_model(const cst_state_source *source, uint64_t model_hash);
/* A count of eight bytes, from 0 to `most`. */
int64_t cst_state_count(cst_reader *r, const char *what, int64_t most);
void cst_state_numbers(cst_reader *r, const char *what, double least, double most, size_t count,
                       double *out);
/* Refuses bytes that are left over. */
void cst_state_end(cst_reader *r);

#endif
