/*
 * Exponentials and logarithms of arrays, in wide registers. Under every stage that takes logarithms
 * of predictions or exponentials of scores.
 * Section: rules the code keeps, "the same bytes on every machine" (docs/conventions.md).
 */
#include "la/wide.h"

/* Elements copied at a time, so that the result may take the argument's place. */
enum { PIECE = 256 };

/* cst_NAME of an array, from the function of one element. */
#define ARRAY(name, real, one)                                                                     \
    CST_WIDE_BODY name##_body(int64_t count, const real *restrict x, real *restrict out) {         \
        for (int64_t i = 0; i < count; i++)                                                        \
            out[i] = one(x[i]);                                                                    \
    }                                                                                              \
    CST_WIDE(name, (int64_t count, const real *restrict x, real *restrict out), (count, x, out))   \
    void cst_##name(int64_t count, const real *x, real *out) {                                     \
        real piece[PIECE];                                                                         \
        for (int64_t at = 0; at < count; at += PIECE) {                                            \
            int64_t size = count - at < PIECE ? count - at : PIECE;                                \
            memcpy(piece, x + at, (size_t)size * sizeof *x);                                       \
            name(size, piece, out + at);                                                           \
        }                                                                                          \
    }

ARRAY(exp_f64, double, cst_exp_one_f64)
ARRAY(exp_f32, float, cst_exp_one_f32)
ARRAY(log_f64, double, cst_log_one_f64)
ARRAY(log_f32, float, cst_log_one_f32)
