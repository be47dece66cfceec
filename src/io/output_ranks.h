/*
 * A file that all ranks write, each its own part. The last step of predictions on several ranks.
 * Paper: none.
 */
#ifndef CST_IO_OUTPUT_RANKS_H
#define CST_IO_OUTPUT_RANKS_H

#include "io/output.h"

/* Rank 0 opens `path` and reserves `bytes` bytes; the other ranks, whose path is ignored, open the
 * same file. *all: every rank has an output for cst_output_write_at, and the file has its full
 * length. Otherwise only rank 0 has an output, and must write everything: the file is a device or
 * pipe, or a rank cannot open it, which a notice names. status: of this rank's work so far. */
cst_status cst_output_open_ranks(cst_context *context, cst_status status, cst_output_file **out,
                                 const char *path, uint64_t bytes, bool *all);

/* Called by every rank: finishes and frees the file, or gives it up if `status` of any rank is a
 * failure. */
cst_status cst_output_end_ranks(cst_context *context, cst_status status, cst_output_file *output);

#endif
