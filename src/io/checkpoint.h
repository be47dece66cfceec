/*
 * Finished parts of a fit, kept in a folder so that the same fit goes on there after it was
 * stopped. Any result that takes long and depends on nothing but the fit may be a part; with parts
 * or without, the bytes of everything are the same. <corestack/context.h>;
 * docs/reliability.md#checkpoints.
 */
#ifndef CST_IO_CHECKPOINT_H
#define CST_IO_CHECKPOINT_H

#include "base/pack.h"

/* A fit begins, which `run` ("key=value" a line) describes: all that its parts depend on. Opens the
 * folder of the context; nothing where there is none, or where a fit around this one has begun.
 * With ranks, rank 0 alone reads and writes, and gives the others what it read. */
cst_status cst_checkpoint_start(cst_context *context, const char *run);
/* No more parts; what was kept stays. */
void cst_checkpoint_stop(cst_context *context);
/* Whether the context has a folder and no fit has begun. */
bool cst_checkpoint_wanted(const cst_context *context);
/* Whether parts are kept. */
bool cst_checkpoint_on(const cst_context *context);

/* Parts that take less are not written: writing would take longer. Seconds. */
void cst_checkpoint_least(cst_context *context, double seconds);

/* Until it is left, names of parts kept with this context and those of its tasks begin with what
 * they begin with now, then with this and '/'. Parts in two scopes may have the same name, in one
 * they must not. Returns what cst_checkpoint_leave takes. */
size_t cst_checkpoint_enter(cst_context *context, const char *format, ...) CST_PRINTF(2, 3);
void cst_checkpoint_leave(cst_context *context, size_t before);

/* A part: what `pack` says of `object`. */
typedef struct cst_checkpoint_part {
    const char *name; /* letters, digits, '-' and spaces */
    uint64_t of;      /* what it is a result of, as a hash: another one is not taken */
    cst_pack_fn pack;
    void *object;
    bool taken; /* `object` has been filled */
    double start;
    size_t notices;
} cst_checkpoint_part;

/* Fills the object of a part that is there, and gives the notices again that it gave. Every rank
 * that shares the work has to call it. */
cst_status cst_checkpoint_take(cst_context *context, cst_checkpoint_part *part);
/* Writes a part that was not taken, with the notices since cst_checkpoint_take. A failure ends
 * keeping, not the fit. */
void cst_checkpoint_keep(cst_context *context, const cst_checkpoint_part *part);
/* Removes the parts in this scope: one that has just been kept holds all of them. */
void cst_checkpoint_inside_done(cst_context *context);

/* A hash of numbers for cst_checkpoint_part, going on from `of`. */
uint64_t cst_checkpoint_of(uint64_t of, const void *bytes, size_t count);

#endif
