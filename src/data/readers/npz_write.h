/* Writes lists of the likeliest classes as an npz, some rows at a time. docs/topk.md#prediction. */
#pragma once

#include "core/scope.h"

#include <corestack/topk.h>

typedef struct cst_topk_file cst_topk_file;

/* Starts the file for `rows` rows of `top` classes; cst_topk_file_end finishes it. Pipes and
 * devices are CST_ERROR_ARGUMENT. */
cst_status cst_topk_file_open(cst_context *context, cst_scope *scope, const char *path,
                              int64_t rows, int64_t top, cst_topk_file **out);
/* Rows `first` and on; all rows are put once, in order. */
cst_status cst_topk_file_put(cst_context *context, cst_topk_file *file, int64_t first,
                             const cst_topk *some);
/* Commits where all went well (status), else gives up and returns `status`. */
cst_status cst_topk_file_end(cst_context *context, cst_topk_file *file, cst_status status);
