/*
 * Exponentials and logarithms of arrays, in wide registers. Under every stage that takes logarithms
 * of predictions or exponentials of scores.
 * Section: rules the code keeps, "the same bytes on every machine" (docs/conventions.md).
 */
#include "la/wide.h"

/* Elements copied at a time, so that the result may take the argument's place. */
enum { PIECE = 256 };

CST_WIDE_BODY exp_f64_body(int64_t count, const double *restrict x, double *restrict out) {
    for (int64_t i = 0; i < count; i++)
        out[i] = cst_exp_one_f64(x[i]);
}
CST_WIDE(exp_f64, (int64_t count, const double *restrict x, double *restrict out), (count, x, out))

void cst_exp_f64(int64_t count, const double *x, double *out) {
    double piece[PIECE];
    for (int64_t at = 0; at < count; at += PIECE) {
        int64_t size = count - at < PIECE ? count - at : PIECE;
        memcpy(piece, x + at, (size_t)size * sizeof *x);
        exp_f64(size, piece, out + at);
    }
}

CST_WIDE_BODY exp_f32_body(int64_t count, const float *restrict x, float *restrict out) {
    for (int64_t i = 0; i < count; i++)
        out[i] = cst_exp_one_f32(x[i]);
}
CST_WIDE(exp_f32, (int64_t count, const float *restrict x, float *restrict out), (count, x, out))

void cst_exp_f32(int64_t count, const float *x, float *out) {
    float piece[PIECE];
    for (int64_t at = 0; at < count; at += PIECE) {
        int64_t size = count - at < PIECE ? count - at : PIECE;
        memcpy(piece, x + at, (size_t)size * sizeof *x);
        exp_f32(size, piece, out + at);
    }
}

CST_WIDE_BODY log_f64_body(int64_t count, const double *restrict x, double *restrict out) {
    for (int64_t i = 0; i < count; i++)
        out[i] = cst_log_one_f64(x[i]);
}
CST_WIDE(log_f64, (int64_t count, const double *restrict x, double *restrict out), (count, x, out))

void cst_log_f64(int64_t count, const double *x, double *out) {
    double piece[PIECE];
    for (int64_t at = 0; at < count; at += PIECE) {
        int64_t size = count - at < PIECE ? count - at : PIECE;
        memcpy(piece, x + at, (size_t)size * sizeof *x);
        log_f64(size, piece, out + at);
    }
}

CST_WIDE_BODY log_f32_body(int64_t count, const float *restrict x, float *restrict out) {
    for (int64_t i = 0; i < count; i++)
        out[i] = cst_log_one_f32(x[i]);
}
CST_WIDE(log_f32, (int64_t count, const float *restrict x, float *restrict out), (count, x, out))

void cst_log_f32(int64_t count, const float *x, float *out) {
    float piece[PIECE];
    for (int64_t at = 0; at < count; at += PIECE) {
        int64_t size = count - at < PIECE ? count - at : PIECE;
        memcpy(piece, x + at, (size_t)size * sizeof *x);
        log_f32(size, piece, out + at);
    }
}
