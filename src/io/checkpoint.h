/*
 * Finished parts of a fit, kept in a folder so that the same fit can continue after it was stopped.
 * Any result that takes long and depends only on the fit may be a part. All results have the same
 * bytes with and without parts. <corestack/context.h>; docs/reliability.md#checkpoints.
 */
#ifndef CST_IO_CHECKPOINT_H
#define CST_IO_CHECKPOINT_H

#include "base/pack.h"

/* Begins a fit and opens the folder of the context. run: everything that the parts depend on, one
 * "key=value" per line. Does nothing without a folder, or inside another fit that has begun. With
 * ranks, only rank 0 reads and writes; it sends what it reads to the others. */
cst_status cst_checkpoint_start(cst_context *context, const char *run);
/* Ends the fit. Parts stay in the folder. */
void cst_checkpoint_stop(cst_context *context);
/* Whether the context has a folder and no fit has begun. */
bool cst_checkpoint_wanted(const cst_context *context);
/* Whether parts are kept. */
bool cst_checkpoint_on(const cst_context *context);

/* Sets the least seconds that a part must have taken to be written. */
void cst_checkpoint_least(cst_context *context, double seconds);

/* Enters a scope inside the present one: names of parts of this context and of its tasks begin with
 * the scopes, each followed by '/'. Names must be unique within a scope. Returns the argument for
 * cst_checkpoint_leave. */
size_t cst_checkpoint_enter(cst_context *context, const char *format, ...) CST_PRINTF(2, 3);
void cst_checkpoint_leave(cst_context *context, size_t before);

/* A part: `object` as written and read by `pack`. */
typedef struct cst_checkpoint_part {
    const char *name; /* letters, digits, '-' and spaces */
    uint64_t of;      /* a hash of its inputs; a part with another one is not used */
    cst_pack_fn pack;
    void *object;
    bool taken; /* `object` has been filled */
    double start;
    size_t notices;
} cst_checkpoint_part;

/* Fills the object if the part exists, and repeats the notices that were given when it was
 * computed. Every rank that shares the work must call it. */
cst_status cst_checkpoint_take(cst_context *context, cst_checkpoint_part *part);
/* Writes a part that was not taken, with the notices since cst_checkpoint_take. After a failure no
 * more parts are written, but the fit continues. */
void cst_checkpoint_keep(cst_context *context, const cst_checkpoint_part *part);
/* Removes the parts in this scope, which another part replaces. */
void cst_checkpoint_inside_done(cst_context *context);

/* Extends the hash `of` by `bytes`, for cst_checkpoint_part. */
uint64_t cst_checkpoint_of(uint64_t of, const void *bytes, size_t count);

#endif
