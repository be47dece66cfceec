/*
 * Output that appears whole or not at all: written to a temporary name in the same folder, synced,
 * renamed, and the folder synced. Used by every writer.
 */
#ifndef CST_IO_OUTPUT_H
#define CST_IO_OUTPUT_H

#include "core/base.h"

typedef struct cst_output_file cst_output_file;

/* PATH.tmp.<process>.<attempt>, for cst_free; NULL where there is no memory. Of a name that would
 * become too long only the first bytes stand there. */
char *cst_output_temporary(cst_context *context, const char *path, int attempt);

/* Starts writing `path`. What is there already stays until commit. A symbolic
 * link is followed and stays one. A device, a pipe and an open descriptor (/dev/stdout, /dev/fd/N,
 * whatever it leads to) are written directly, a descriptor at its own offset. */
cst_status cst_output_open(cst_context *context, cst_output_file **out, const char *path);
/* After a failure every further write fails, and the commit. */
cst_status cst_output_write(cst_context *context, cst_output_file *output, const void *data,
                            size_t bytes);
/* Whether the output is a file that can be written at any place, not a device, pipe or descriptor.
 */
bool cst_output_is_file(const cst_output_file *output);
/* Writes bytes at an offset of such a file. Bytes of cst_output_write go to its beginning, even if
 * they are written later. May be called by any number of threads, each with its own context. */
cst_status cst_output_write_at(cst_context *context, cst_output_file *output, uint64_t offset,
                               const void *data, size_t bytes);
/* Finishes and frees the output. On failure nothing at the final name has changed and the temporary
 * file is gone. */
cst_status cst_output_commit(cst_context *context, cst_output_file *output);
/* Commits where all went well (status), else gives up and returns `status`. */
cst_status cst_output_end(cst_context *context, cst_output_file *output, cst_status status);
/* Gives up and frees the output; NULL is accepted. */
void cst_output_abort(cst_context *context, cst_output_file *output);

#endif
