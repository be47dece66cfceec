/*
 * The work folder of a soup: predictions kept by content, a log of the steps, the files of the
 * candidate that is being evaluated. One run at a time has it. Paper: none.
 */
#ifndef CST_WEIGHTS_SOUP_WORK_H
#define CST_WEIGHTS_SOUP_WORK_H

#include "base/base.h"

typedef struct cst_soup_work cst_soup_work;

/* Makes the folder where it is missing, locks it (a folder that
 * another process has is CST_ERROR_INPUT, as is one with files in it that no soup made), removes
 * what a stopped run left of its candidate, and starts the log anew. */
cst_status cst_soup_work_open(cst_context *context, cst_soup_work **out, const char *folder);
/* Removes the files of the candidate and unlocks the folder; NULL is accepted. */
void cst_soup_work_close(cst_context *context, cst_soup_work *work);

/* Where the candidate and what is predicted with it stand for the moment. Borrowed. */
const char *cst_soup_work_candidate(const cst_soup_work *work);
const char *cst_soup_work_predictions(const cst_soup_work *work);
/* Copies the candidate to where the soup belongs, which appears whole or not at all. */
cst_status cst_soup_work_serve(cst_context *context, const cst_soup_work *work, const char *out);
/* Removes both, if they are there, whatever they are. */
void cst_soup_work_clean(const cst_soup_work *work);

/* Where predictions of that hash are kept, for cst_free; NULL where there is no memory. */
char *cst_soup_work_kept(cst_context *context, const cst_soup_work *work, const uint64_t hash[2]);
/* Keeps the predictions of the moment there: all of them, also through a loss of power, and as a
 * file of its own where they are a link to one or have another name too. */
cst_status cst_soup_work_keep(cst_context *context, const cst_soup_work *work, const char *kept);

/* Adds a line to the log. */
cst_status cst_soup_work_log(cst_context *context, const cst_soup_work *work, const char *line);

#endif
