/*
 * A folder of output files that appears whole or not at all: filled under a temporary name beside
 * its own, then renamed. For maps with a file for each case.
 */
#ifndef CST_IO_OUTPUT_FOLDER_H
#define CST_IO_OUTPUT_FOLDER_H

#include "core/base.h"

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
