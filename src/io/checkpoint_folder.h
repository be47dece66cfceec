/*
 * The folder that a fit keeps finished parts in: one run at a time, and only of the run that its
 * file `run` describes. Under checkpoint.c. docs/reliability.md#checkpoints.
 */
#ifndef CST_IO_CHECKPOINT_FOLDER_H
#define CST_IO_CHECKPOINT_FOLDER_H

#include "base/base.h"

typedef struct cst_checkpoint_folder {
    char *path; /* absolute; NULL: not open */
    int at;     /* the folder */
    int lock;
    bool made;     /* by a run */
    int64_t parts; /* that were there */
} cst_checkpoint_folder;

/* Opens the folder for a run that `run` describes, "key=value" a line; it is made where it is
 * missing. CST_ERROR_INPUT where another run is at work in it, it holds parts of a run with another
 * description, or files of something else: nothing in it has changed then. */
cst_status cst_checkpoint_folder_open(cst_context *context, const char *path, const char *run,
                                      cst_checkpoint_folder *out);

/* The path of a part, for cst_free. name: any text. */
char *cst_checkpoint_path(cst_context *context, const cst_checkpoint_folder *folder,
                          const char *name);

/* Removes the parts whose names begin with `scope`. */
void cst_checkpoint_folder_remove(const cst_checkpoint_folder *folder, const char *scope);

/* Removes what runs have put there, and the folder where a run made it and it is empty then.
 * Closes it. */
void cst_checkpoint_folder_end(cst_context *context, cst_checkpoint_folder *folder);

/* Closes it and leaves what is there. */
void cst_checkpoint_folder_close(cst_context *context, cst_checkpoint_folder *folder);

#endif
