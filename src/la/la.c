/*
 * Dense linear algebra over CBLAS and LAPACKE.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "la/la.h"

#include <cblas.h>
#include <lapacke.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* OpenBLAS keeps its thread count per process; this counter restores it when the last user leaves.
 */
static pthread_mutex_t blas_mutex = PTHREAD_MUTEX_INITIALIZER;
static int blas_users;
static int blas_threads_before;
static bool blas_limited; /* the address space has a limit (ulimit -v) that may be met; atomic */

/* Addresses for the buffers of 256 threads, and as many for all else. */
#define PLENTY ((size_t)64 << 30)

static bool has_room(size_t bytes, int protection) {
    void *room = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return room != MAP_FAILED && munmap(room, bytes) == 0;
}

static bool address_space_is_limited(void) {
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
           !has_room(PLENTY, PROT_NONE);
}

void cst_la_enter(void) {
    (void)pthread_mutex_lock(&blas_mutex);
    if (blas_users++ == 0) {
        __atomic_store_n(&blas_limited, address_space_is_limited(), __ATOMIC_RELAXED);
        blas_threads_before = openblas_get_num_threads();
        openblas_set_num_threads(1);
    }
    (void)pthread_mutex_unlock(&blas_mutex);
}

void cst_la_leave(void) {
    (void)pthread_mutex_lock(&blas_mutex);
    if (--blas_users == 0)
        openblas_set_num_threads(blas_threads_before);
    (void)pthread_mutex_unlock(&blas_mutex);
}

/* ---- room for OpenBLAS -------------------------------------------------------------------------
 * OpenBLAS keeps a buffer of 128 MiB for each thread that calls it, and where it finds no room for
 * one it asks again for ever. So in a limited address space one thread at a time calls it, and none
 * before there is room.
 */

#define BUFFER_ROOM ((size_t)160 << 20)

static pthread_mutex_t buffer_mutex = PTHREAD_MUTEX_INITIALIZER;
static bool buffer_is_there; /* once a call was made, under buffer_mutex */

/* Whether this call has to be alone, in which case it is from here on. */
static bool blas_alone(void) {
    bool alone = __atomic_load_n(&blas_limited, __ATOMIC_RELAXED);
    if (alone)
        (void)pthread_mutex_lock(&buffer_mutex);
    return alone;
}

static void blas_end(bool alone) {
    if (alone)
        (void)pthread_mutex_unlock(&buffer_mutex);
}

static cst_status blas_begin(cst_context *context, bool *alone) {
    *alone = blas_alone();
    if (!*alone)
        return CST_OK;
    if (!buffer_is_there)
        buffer_is_there = has_room(BUFFER_ROOM, PROT_READ | PROT_WRITE);
    if (buffer_is_there)
        return CST_OK;
    blas_end(true);
    return cst_fail(context, CST_ERROR_MEMORY,
                    "the address space is limited (ulimit -v) and has no %d MiB left for the "
                    "buffers of linear algebra: raise the limit, or start with "
                    "OPENBLAS_NUM_THREADS=1",
                    (int)(BUFFER_ROOM >> 20));
}

static cst_status check_dims(cst_context *context, int64_t m, int64_t n, int64_t k, int64_t ld) {
    if (m < 0 || n < 0 || k < 0 || ld < 0 || m > INT_MAX || n > INT_MAX || k > INT_MAX ||
        ld > INT_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "a matrix of %lld x %lld x %lld is beyond the BLAS interface", (long long)m,
                        (long long)n, (long long)k);
    return CST_OK;
}

static int64_t largest(int64_t a, int64_t b, int64_t c) {
    int64_t most = a > b ? a : b;
    return most > c ? most : c;
}

cst_status cst_gemm_f32(cst_context *context, bool transpose_a, bool transpose_b, int64_t m,
                        int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                        const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    bool alone = false;
    cst_status status = check_dims(context, m, n, k, largest(lda, ldb, ldc));
    if (status != CST_OK || m == 0 || n == 0 || (status = blas_begin(context, &alone)) != CST_OK)
        return status;
    cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
                transpose_b ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, alpha, a, (int)lda,
                b, (int)ldb, beta, c, (int)ldc);
    blas_end(alone);
    return CST_OK;
}

cst_status cst_gemm_f64(cst_context *context, bool transpose_a, bool transpose_b, int64_t m,
                        int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                        const double *b, int64_t ldb, double beta, double *c, int64_t ldc) {
    bool alone = false;
    cst_status status = check_dims(context, m, n, k, largest(lda, ldb, ldc));
    if (status != CST_OK || m == 0 || n == 0 || (status = blas_begin(context, &alone)) != CST_OK)
        return status;
    cblas_dgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
                transpose_b ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, alpha, a, (int)lda,
                b, (int)ldb, beta, c, (int)ldc);
    blas_end(alone);
    return CST_OK;
}

cst_status cst_syrk_f64(cst_context *context, int64_t n, int64_t k, double alpha, const double *a,
                        int64_t lda, double beta, double *c, int64_t ldc) {
    bool alone = false;
    cst_status status = check_dims(context, n, n, k, largest(lda, ldc, k));
    if (status != CST_OK || n == 0 || (status = blas_begin(context, &alone)) != CST_OK)
        return status;
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, (int)n, (int)k, alpha, a, (int)lda, beta, c,
                (int)ldc);
    blas_end(alone);
    return CST_OK;
}

cst_status cst_eigh(cst_context *context, int64_t n, double *a, double *values) {
    bool alone = false;
    cst_status status = check_dims(context, n, n, n, n);
    if (status != CST_OK || n == 0 || (status = blas_begin(context, &alone)) != CST_OK)
        return status;
    lapack_int info = LAPACKE_dsyevd(LAPACK_ROW_MAJOR, 'V', 'L', (int)n, a, (int)n, values);
    blas_end(alone);
    if (info != 0)
        return cst_fail(
            context, CST_ERROR_NUMERIC,
            "the eigenvalues of a %lld x %lld matrix were not found (LAPACK info %d); look "
            "for NaN or infinity in the predictions",
            (long long)n, (long long)n, (int)info);
    return CST_OK;
}

cst_status cst_cholesky(cst_context *context, int64_t n, double *a) {
    bool alone = false;
    cst_status status = check_dims(context, n, n, n, n);
    if (status != CST_OK || n == 0 || (status = blas_begin(context, &alone)) != CST_OK)
        return status;
    lapack_int info = LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', (int)n, a, (int)n);
    blas_end(alone);
    if (info != 0)
        return cst_fail(context, CST_ERROR_NUMERIC,
                        "a %lld x %lld matrix is not positive definite (leading minor %d)",
                        (long long)n, (long long)n, (int)info);
    return CST_OK;
}

void cst_cholesky_solve(int64_t n, const double *factor, double *b) {
    if (n <= 0)
        return;
    /* After cst_cholesky there is a buffer. */
    bool alone = blas_alone();
    cblas_dtrsv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, (int)n, factor, (int)n, b,
                1);
    cblas_dtrsv(CblasRowMajor, CblasLower, CblasTrans, CblasNonUnit, (int)n, factor, (int)n, b, 1);
    blas_end(alone);
}

cst_status cst_cholesky_inverse_diagonal(cst_context *context, int64_t n, const double *factor,
                                         double *diagonal) {
    bool alone = false;
    cst_status status = check_dims(context, n, n, n, n);
    if (status != CST_OK || n == 0)
        return status;
    size_t width = (size_t)n;
    double *inverse = cst_alloc(context, width * width, sizeof *inverse);
    if (!inverse)
        return CST_ERROR_MEMORY;
    memcpy(inverse, factor, width * width * sizeof *inverse);
    status = blas_begin(context, &alone);
    lapack_int info = 0;
    if (status == CST_OK) {
        info = LAPACKE_dtrtri(LAPACK_ROW_MAJOR, 'L', 'N', (int)n, inverse, (int)n);
        blas_end(alone);
    }
    if (info != 0)
        status = cst_fail(context, CST_ERROR_NUMERIC,
                          "a %lld x %lld triangular matrix is singular (row %d)", (long long)n,
                          (long long)n, (int)info);
    memset(diagonal, 0, width * sizeof *diagonal);
    for (size_t i = 0; status == CST_OK && i < width; i++)
        for (size_t j = 0; j <= i; j++)
            diagonal[j] += inverse[i * width + j] * inverse[i * width + j];
    cst_free(context, inverse);
    return status;
}

double cst_cholesky_logdet(int64_t n, const double *factor) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += log(factor[i * n + i]);
    return 2 * sum;
}
