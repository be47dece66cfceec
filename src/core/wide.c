/* Exponentials and logarithms of arrays, in wide registers.
 * docs/architecture.md#sums-over-fixed-blocks. */
#include "core/wide.h"

/* Elements copied at a time, so that the result may take the argument's place. */
enum { PIECE = 256 };

typedef double real_f64;
typedef float real_f32;

/* cst_FUNCTION_WIDTH of an array, from the function of one element. */
#define ARRAY(function, width)                                                                     \
    CST_WIDE_BODY function##_##width##_body(int64_t count, const real_##width *restrict x,         \
                                            real_##width *restrict out) {                          \
        for (int64_t i = 0; i < count; i++)                                                        \
            out[i] = cst_##function##_one_##width(x[i]);                                           \
    }                                                                                              \
    CST_WIDE(function##_##width,                                                                   \
             (int64_t count, const real_##width *restrict x, real_##width *restrict out),          \
             (count, x, out))                                                                      \
    void cst_##function##_##width(int64_t count, const real_##width *x, real_##width *out) {       \
        real_##width piece[PIECE];                                                                 \
        for (int64_t at = 0; at < count; at += PIECE) {                                            \
            int64_t size = count - at < PIECE ? count - at : PIECE;                                \
            memcpy(piece, x + at, (size_t)size * sizeof *x);                                       \
            function##_##width(size, piece, out + at);                                             \
        }                                                                                          \
    }

ARRAY(exp, f64)
ARRAY(exp, f32)
ARRAY(log, f64)
ARRAY(log, f32)

CST_KERNEL(add_scaled, (const double *restrict x, int64_t count, double weight, double *restrict z),
           (x, count, weight, z)) {
    for (int64_t i = 0; i < count; i++)
        z[i] += weight * x[i];
}

void cst_add_scaled_f64(const double *x, int64_t count, double weight, double *z) {
    add_scaled(x, count, weight, z);
}
