/* The header of .npy, apart from the data so that it can be tested and fuzzed alone. */
#ifndef CST_IO_NPY_HEADER_H
#define CST_IO_NPY_HEADER_H

#include "data/readers/npy.h"

/* Reads and checks the header at the beginning of npy->source and fills in the rest of `npy`. The
 * size that the header promises is compared with the file's before anything is allocated for it. */
cst_status cst_npy_read_header(cst_context *context, cst_npy *npy);

/* Parses the dict literal of a header ([length], as in the file) into `npy`; `base` is the byte of
 * the file where it starts, for messages. */
cst_status cst_npy_parse_dict(cst_context *context, cst_npy *npy, const char *text, size_t length,
                              size_t base, const char *where);

#endif
