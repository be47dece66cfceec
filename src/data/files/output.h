/* Files and folders that appear whole or not at all, under a temporary name until then. A held file
 * (cst_hold_file) is renamed later. */
#pragma once

#include "core/base.h"

typedef struct cst_output_file cst_output_file;

/* Starts writing `path`, replaced at commit; symbolic links are followed. Devices, pipes and open
 * descriptors are written directly, descriptors at their offset. */
cst_status cst_output_open(cst_context *context, cst_output_file **out, const char *path);
/* After a failure every further write fails, and the commit. */
cst_status cst_output_write(cst_context *context, cst_output_file *output, const void *data,
                            size_t bytes);
/* Whether any place can be written: no device, pipe or descriptor. */
bool cst_output_is_file(const cst_output_file *output);
/* Writes at an offset; cst_output_write appends from 0. Threads may share it, each with its own
 * context. */
cst_status cst_output_write_at(cst_context *context, cst_output_file *output, uint64_t offset,
                               const void *data, size_t bytes);
/* Finishes and frees the output. A failure leaves the final name as it was. */
cst_status cst_output_commit(cst_context *context, cst_output_file *output);
/* Commits where all went well (status), else gives up and returns `status`. */
cst_status cst_output_end(cst_context *context, cst_output_file *output, cst_status status);
/* Gives up and frees the output; NULL is accepted. */
void cst_output_abort(cst_context *context, cst_output_file *output);

typedef struct cst_output_folder cst_output_folder;

/* Starts a folder `path`, which must not exist yet or be empty. */
cst_status cst_output_folder_open(cst_context *context, cst_output_folder **out, const char *path);
/* Path of file NAME + extension until the commit (cst_free); CST_ERROR_INPUT for a slash. */
cst_status cst_output_folder_file(cst_context *context, const cst_output_folder *folder,
                                  const char *name, const char *extension, char **out);
/* Gives the folder its name and frees it; on failure all is removed. */
cst_status cst_output_folder_commit(cst_context *context, cst_output_folder *folder);
/* Removes what was written and frees it; NULL is accepted. */
void cst_output_folder_abort(cst_context *context, cst_output_folder *folder);
