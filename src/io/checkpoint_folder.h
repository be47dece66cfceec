/*
 * The folder that a fit keeps finished parts in. One run at a time uses it, and only runs that
 * match its file `run`. Under checkpoint.c. docs/reliability.md#checkpoints.
 */
#ifndef CST_IO_CHECKPOINT_FOLDER_H
#define CST_IO_CHECKPOINT_FOLDER_H

#include "base/base.h"

/* What every part begins with. */
#define CST_CHECKPOINT_MAGIC "cstpart1"

typedef struct cst_checkpoint_folder {
    char *path; /* absolute; NULL: not open */
    int at;     /* the folder */
    int lock;
    bool made;     /* a run created it */
    int64_t parts; /* number of parts when it was opened */
} cst_checkpoint_folder;

/* Opens the folder, or creates it, for the run described by `run`, one "key=value" per line.
 * CST_ERROR_INPUT if another run is using it, or if it contains parts of a run with another
 * description, or files that no run has written; it is unchanged then. */
cst_status cst_checkpoint_folder_open(cst_context *context, const char *path, const char *run,
                                      cst_checkpoint_folder *out);

/* The path of a part, for cst_free. name: any text. */
char *cst_checkpoint_path(cst_context *context, const cst_checkpoint_folder *folder,
                          const char *name);

/* Removes the parts whose names begin with `scope`. */
void cst_checkpoint_folder_remove(const cst_checkpoint_folder *folder, const char *scope);

/* Closes the folder and removes what runs have put there, and the folder itself if a run created it
 * and it is empty. */
void cst_checkpoint_folder_end(cst_context *context, cst_checkpoint_folder *folder);

/* Closes the folder and leaves its contents. */
void cst_checkpoint_folder_close(cst_context *context, cst_checkpoint_folder *folder);

#endif
