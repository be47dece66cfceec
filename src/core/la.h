/* Dense linear algebra over CBLAS and LAPACKE, row-major, double or float. Sizes are checked before
 * they are narrowed to the int of the BLAS interface. */
#pragma once

#include "core/base.h"

/* Pins OpenBLAS to one thread between enter and leave, and puts back what was there. Calls nest and
 * may come from several threads. Every public entry point that computes holds one, so that our own
 * parallel loops are the only parallelism and results do not depend on BLAS's. */
void cst_la_enter(void);
void cst_la_leave(void);

/* Enters until the end of the block. */
static inline int cst_la_begin(void) {
    cst_la_enter();
    return 0;
}
static inline void cst_la_end(const int *unused) {
    (void)unused;
    cst_la_leave();
}
#define CST_LA() __attribute__((cleanup(cst_la_end), unused)) int cst_la_entered = cst_la_begin()

/* C (m x n) = alpha * op(A) op(B) + beta * C, row-major; op is transposition when the flag is set.
 * A is m x k (k x m when transposed), B is k x n (n x k when transposed); ld* are row strides. */
cst_status cst_gemm_f32(cst_context *context, bool transpose_a, bool transpose_b, int64_t m,
                        int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                        const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
cst_status cst_gemm_f64(cst_context *context, bool transpose_a, bool transpose_b, int64_t m,
                        int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                        const double *b, int64_t ldb, double beta, double *c, int64_t ldc);

/* C (k x k) = alpha * A A' + beta * C for few long rows, A k x n. Long ones are taken in parts, and
 * what is mapped may leave memory between two parts. */
cst_status cst_gram_long(cst_context *context, int64_t k, int64_t n, double alpha, const double *a,
                         double beta, double *c);

/* Lower triangle of C (n x n) = alpha * A' A + beta * C, A k x n; the upper triangle is not
 * touched. */
cst_status cst_syrk_f64(cst_context *context, int64_t n, int64_t k, double alpha, const double *a,
                        int64_t lda, double beta, double *c, int64_t ldc);

/* Lower triangle of C (n x n) += A A', A n x k. The one of float32 sums in float32 and adds its sum
 * to C; `room`: n * n floats. */
cst_status cst_outer_f64(cst_context *context, int64_t n, int64_t k, const double *a, int64_t lda,
                         double *c, int64_t ldc);
cst_status cst_outer_f32(cst_context *context, int64_t n, int64_t k, const float *a, int64_t lda,
                         float *room, double *c, int64_t ldc);

/* Eigendecomposition of a symmetric n x n matrix. `a` is overwritten with the eigenvectors as
 * columns (row-major: a[i*n + j] is entry i of eigenvector j); values ascending. */
cst_status cst_eigh(cst_context *context, int64_t n, double *a, double *values);

/* The eigenvalues alone, the same bytes as those of cst_eigh, in about half the time. `a`, whose
 * two triangles are the same, is overwritten. */
cst_status cst_eigh_values(cst_context *context, int64_t n, double *a, double *values);

/* In-place lower Cholesky factor of a symmetric positive definite n x n matrix (row-major; the
 * upper triangle is not touched). CST_ERROR_NUMERIC when it is not positive definite. */
cst_status cst_cholesky(cst_context *context, int64_t n, double *a);

/* Solves L L' x = b in place for one right-hand side, L from cst_cholesky. */
void cst_cholesky_solve(int64_t n, const double *factor, double *b);

/* Diagonal [n] of (L L')^-1, from one triangular inverse. */
cst_status cst_cholesky_inverse_diagonal(cst_context *context, int64_t n, const double *factor,
                                         double *diagonal);

/* The processor that OpenBLAS computes for ("Haswell"), on which the last bits of its results
 * depend. Static. */
const char *cst_la_core(void);

/* log det(L L') = 2 sum log L_ii. */
double cst_cholesky_logdet(int64_t n, const double *factor);
