/*
 * Calls of functions that the caller of the library gave: what such a function calls of the library
 * has notices and progress of its own. Around hooks and callbacks.
 */
#ifndef CST_BASE_CALLING_H
#define CST_BASE_CALLING_H

#include "core/base.h"

/* The call that is at work. */
typedef struct cst_run cst_run;

/* Before such a function is called, and after it with what the first gave. */
cst_run *cst_calling_begin(cst_context *context);
void cst_calling_end(cst_context *context, cst_run *run);

#endif
