/*
 * Files and folders that appear whole or not at all: written under a temporary name beside their
 * own, synced, renamed, and the folder synced. What is held (cst_hold_file) is renamed later. Used
 * by every writer.
 */
#ifndef CST_IO_OUTPUT_H
#define CST_IO_OUTPUT_H

#include "core/base.h"

typedef struct cst_output_file cst_output_file;

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

typedef struct cst_output_folder cst_output_folder;

/* Starts a folder `path`, which must not exist yet or be empty. */
cst_status cst_output_folder_open(cst_context *context, cst_output_folder **out, const char *path);
/* The path of file NAME + extension in the folder as long as it is not committed; *out is the
 * caller's (cst_free). A name with a slash is CST_ERROR_INPUT. */
cst_status cst_output_folder_file(cst_context *context, const cst_output_folder *folder,
                                  const char *name, const char *extension, char **out);
/* Gives the folder its name and frees it; on failure all is removed. */
cst_status cst_output_folder_commit(cst_context *context, cst_output_folder *folder);
/* Removes what was written and frees it; NULL is accepted. */
void cst_output_folder_abort(cst_context *context, cst_output_folder *folder);

#endif
