/*
 * A member's predictions as the entry of a store: converted from its npy file on every read, or,
 * where the file cannot be read that way, once into a temporary file. After the headers were
 * checked, before every statistic. docs/method.md#s0-rows-folds-ids.
 */
#ifndef CST_POOL_STREAM_H
#define CST_POOL_STREAM_H

#include "data/pool/state.h"

/* Takes `rows` (an npy that streams, whose rows are in the split's order) also on failure. Checks
 * rows first..first+count-1, and reports errors in them; `looked` has then counted them, for
 * cst_convert_finish. */
cst_status cst_stream_open(cst_context *context, cst_row_file *rows, const cst_convert *convert,
                           int64_t first, int64_t count, cst_convert *looked, cst_store_entry *out);

/* An entry to be filled by cst_stream_write, any rows in any order, each once. */
cst_status cst_stream_create(cst_context *context, const char *where, int64_t rows, int32_t classes,
                             cst_store_entry *out);
cst_status cst_stream_write(cst_context *context, const cst_store_entry *entry, int64_t first,
                            int64_t count, const float *values);

#endif
