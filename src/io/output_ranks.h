/*
 * A file that all ranks write, each at places of its own. The last step of predictions on several
 * ranks. Paper: none.
 */
#ifndef CST_IO_OUTPUT_RANKS_H
#define CST_IO_OUTPUT_RANKS_H

#include "io/output.h"

/* Rank 0 opens `path` and reserves `bytes` bytes; the other ranks, whose path is not read, open the
 * same file. Where *all, every rank has an output for cst_output_write_at, and the file is as long.
 * Else (a rank does not see the file, and a notice says which, or it is a device or pipe) rank 0
 * alone has one, and writes everything. status: what became of this rank's work so far. */
cst_status cst_output_open_ranks(cst_context *context, cst_status status, cst_output_file **out,
                                 const char *path, uint64_t bytes, bool *all);

/* Every rank: finishes and frees the file, or gives it up where `status`, of any rank, says so. */
cst_status cst_output_end_ranks(cst_context *context, cst_status status, cst_output_file *output);

#endif
