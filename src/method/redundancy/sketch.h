/*
 * Sketches of members' kernels: their centred kernels on some rows, folded with random signs, so
 * that the cosine of two sketches is close to the CKA of their members; and the bits of their
 * hashes. Stage S1, under the hashing of many members. docs/redundancy.md.
 */
#ifndef CST_SKETCH_H
#define CST_SKETCH_H

#include "method/redundancy/kernel.h"
#include "method/redundancy/redundancy.h"

/* Rows whose kernels are sketched at most, and numbers of a sketch (a power of two). */
enum { CST_SKETCH_ROWS = 512, CST_SKETCH_WIDTH = 2048 };

/* Sketches of length 1 of all members into sketches [K][CST_SKETCH_WIDTH]; 0 for constant ones. */
cst_status cst_sketches(cst_context *context, const cst_kernels *kernels,
                        cst_cka_statistic statistic, uint64_t seed, float *sketches);

/* For each table the sides of `bits` (at most 32) random hyperplanes that a sketch is on, into keys
 * [tables][K]. */
cst_status cst_sketch_keys(cst_context *context, const float *sketches, int32_t members,
                           int32_t bits, int32_t tables, uint64_t seed, uint32_t *keys);

/* Cosines of all pairs of sketches above the diagonal of cosines [K][K]. */
cst_status cst_sketch_cosines(cst_context *context, const float *sketches, int32_t members,
                              double *cosines);

#endif
