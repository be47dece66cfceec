/*
 * Kernels of rows with landmarks in single precision, where that is close enough. Stage S1, under
 * the Nystrom features of members with many classes. Paper: section "Scalability";
 * docs/redundancy.md.
 */
#ifndef CST_NARROW_H
#define CST_NARROW_H

#include "method/redundancy/kernel.h"

typedef struct cst_narrow {
    int32_t classes;
    int64_t width;    /* landmarks, rounded up to whole registers */
    bool sparse;      /* rows are taken by their entries of at least `least` */
    float least;      /* in absolute value */
    double scale;     /* -1 / (2 sigma^2) */
    float *columns;   /* [C][width], landmarks over sigma^2, transposed; NULL: not good enough */
    float *exponents; /* [width], -|l|^2 / (2 sigma^2) */
} cst_narrow;

/* kernel [count][count] is that of the landmarks (positions in the view) in double precision,
 * kernels times root [count][kept] are a row's features. Leaves columns NULL where
 * single precision does not do, or classes are few. */
cst_status cst_narrow_create(cst_context *context, const cst_kernels *kernels, int32_t member,
                             const int64_t *landmarks, int64_t count, const double *kernel,
                             const double *root, int64_t kept, cst_narrow *out);
void cst_narrow_free(cst_context *context, cst_narrow *narrow);

/* Kernels of rows first..first+count-1 of the member with the landmarks into out [count][width];
 * what is beyond the landmarks is of no use. */
cst_status cst_narrow_rows(cst_context *context, const cst_kernels *kernels, int32_t member,
                           const cst_narrow *narrow, int64_t first, int64_t count, float *out);

#endif
