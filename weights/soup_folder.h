/*
 * A folder that soups may write to and remove from: locked, and marked as theirs. What nobody
 * marked stays as it is. Under the work folder of a soup. Paper: none.
 */
#ifndef CST_WEIGHTS_SOUP_FOLDER_H
#define CST_WEIGHTS_SOUP_FOLDER_H

#include "base/base.h"

#include <dirent.h>

typedef struct cst_soup_folder {
    int at;    /* descriptor of the folder; -1: not open */
    int lock;  /* of its lock, which goes with it: also a process that is killed gives it back */
    bool made; /* the folder was not there before */
} cst_soup_folder;

/* Opens, locks and marks a folder, which is made where `make` says so. CST_ERROR_INPUT for one
 * that another process has, and for one with files in it that no soup marked. */
cst_status cst_soup_folder_open(cst_context *context, cst_soup_folder *out, const char *path,
                                bool make);
void cst_soup_folder_close(cst_soup_folder *folder);

/* Removes log and lock, and the folder at `path` if nothing else is in it. */
void cst_soup_folder_remove(const cst_soup_folder *folder, const char *path);

/* Makes a folder in it for the candidates of this run, of a new name. *run: its path, for cst_free;
 * *at: its descriptor. */
cst_status cst_soup_run_make(cst_context *context, const char *path, char **run, int *at);
/* Removes the folder of a run with all that is in it, if it has the mark of one; links are not
 * followed. entries: its own, which are closed; NULL: nothing is removed. */
void cst_soup_run_remove(int at, const char *name, DIR *entries);
/* The same for every run; the folder must be locked. */
void cst_soup_runs_remove(const cst_soup_folder *folder);

/* Removes a file, or a folder with all that is in it, by its name in an open folder. */
void cst_soup_remove_any(int at, const char *name);

#endif
