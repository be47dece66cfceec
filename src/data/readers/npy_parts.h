/* Arrays in several files, joined along the first axis. Called by npy.c. */
#ifndef CST_IO_NPY_PARTS_H
#define CST_IO_NPY_PARTS_H

#include "data/readers/file_parts.h"
#include "data/readers/npy.h"

/* Reads headers of parts with the same columns, all numbers or all text. Keeps `files`. */
cst_status cst_npy_open_parts(cst_context *context, cst_npy **out, const cst_file_parts *files,
                              uint64_t zip_limit);

/* Functions of an array in parts: pointers, since npy.c and they use each other. */
struct cst_npy_parts {
    cst_row_parts rows; /* where the parts begin */
    bool streams;       /* cst_npy_streams of all parts */
    double rounding;    /* the largest cst_npy_rounding */
    void (*close)(cst_context *context, cst_npy_parts *parts);
    cst_status (*fetch)(cst_context *context, const cst_npy *npy, int64_t first, int64_t count,
                        unsigned char *raw);
    /* Into `wide` if it is not NULL, else into `out`. */
    cst_status (*read)(cst_context *context, cst_npy *npy, int64_t first, int64_t count, float *out,
                       double *wide);
    cst_status (*integers)(cst_context *context, cst_npy *npy, int64_t **out, int64_t *count);
    cst_status (*strings)(cst_context *context, cst_npy *npy, cst_strings **out);
};

#endif
