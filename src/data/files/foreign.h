/*
 * Formats that cannot be read, known by name or first bytes, and what to do with each. Under the
 * readers of predictions.
 */
#ifndef CST_IO_FOREIGN_H
#define CST_IO_FOREIGN_H

#include "core/base.h"

/* The formats that can be read, for messages. */
#define CST_FORMATS "npy, npz, safetensors, csv, tsv and txt (also .csv.gz)"

/* CST_ERROR_FORMAT, and what to do, where a file called `path` that begins with `begin` is of a
 * known format that cannot be read; else CST_OK. */
cst_status cst_refuse_format(cst_context *context, const char *path, const unsigned char *begin,
                             size_t bytes);

#endif
