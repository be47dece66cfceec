/*
 * A spill: a temporary file for intermediate results that do not fit in memory. It has no name, so
 * that nothing is left behind however the process ends. Under cross-fitted predictions and tables
 * of large pools. Section: one idea, sums over fixed blocks (docs/architecture.md).
 */
#ifndef CST_IO_SPILL_H
#define CST_IO_SPILL_H

#include "base/base.h"

typedef struct cst_spill cst_spill;

/* Creates an unlinked file in $TMPDIR, else /tmp, readable by this user alone. `bytes`: what will
 * be written at least (0: not known); CST_ERROR_IO at once where the disk has less space than that.
 */
cst_status cst_spill_create(cst_context *context, cst_spill **out, uint64_t bytes);
/* Gives the space back; NULL is accepted. */
void cst_spill_close(cst_context *context, cst_spill *spill);

/* Writes and reads whole pieces at any offset, from any number of threads at once. Reading what was
 * never written is CST_ERROR_IO. */
cst_status cst_spill_write(cst_context *context, cst_spill *spill, uint64_t offset,
                           const void *data, size_t bytes);
cst_status cst_spill_read(cst_context *context, const cst_spill *spill, uint64_t offset, void *out,
                          size_t bytes);

#endif
