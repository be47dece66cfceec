/* Dense linear algebra over CBLAS and LAPACKE. */
#define _GNU_SOURCE /* PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP */
#include "core/la.h"
#include "core/scope.h"

#include <cblas.h>
#include <lapacke.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

/* A writer must not wait for good while calls of other threads overlap. */
#ifdef PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
#define FAIR_LOCK PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
#else
#define FAIR_LOCK PTHREAD_RWLOCK_INITIALIZER
#endif

/* OpenBLAS keeps its thread count per process; this counter restores it when the last user leaves.
 */
static pthread_mutex_t blas_mutex = PTHREAD_MUTEX_INITIALIZER;
static int blas_users;
static _Thread_local int blas_entered; /* how many of them are this thread's */
static int blas_threads_before;
static bool blas_restore_due; /* the last user was a thread of the process that forked this one */
static bool blas_limited;     /* memory has a limit that may be met; atomic */

/* Held by every call of OpenBLAS: for reading, or for writing where the call has to be alone. A
 * fork waits for all of them, since the child would find OpenBLAS's own locks taken for good. */
static pthread_rwlock_t blas_calls = FAIR_LOCK;

/* Buffers of 256 threads, and as much for all else. */
#define PLENTY ((size_t)64 << 30)

/* ---- forks ---- */

static void before_fork(void) {
    (void)pthread_mutex_lock(&blas_mutex);
    (void)pthread_rwlock_wrlock(&blas_calls);
}

static void after_fork(void) {
    (void)pthread_rwlock_unlock(&blas_calls);
    (void)pthread_mutex_unlock(&blas_mutex);
}

/* Of all users only those of the thread that forked are left. */
static void after_fork_in_child(void) {
    blas_calls = (pthread_rwlock_t)FAIR_LOCK;
    blas_mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    blas_restore_due = blas_restore_due || (blas_users > 0 && blas_entered == 0);
    blas_users = blas_entered;
}

static void watch_forks(void) {
    (void)pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

/* ---- the number of threads ---- */

/* Each change of the number makes OpenBLAS look after its threads and their buffers, so a number
 * that is right is left alone. */
static void set_blas_threads(int threads) {
    if (openblas_get_num_threads() != threads)
        openblas_set_num_threads(threads);
}

const char *cst_la_core(void) {
    return openblas_get_corename();
}

void cst_la_enter(void) {
    static pthread_once_t watch = PTHREAD_ONCE_INIT;
    (void)pthread_once(&watch, watch_forks);
    (void)pthread_mutex_lock(&blas_mutex);
    if (blas_users++ == 0) {
        __atomic_store_n(&blas_limited, !cst_has_room(PLENTY, false), __ATOMIC_RELAXED);
        if (!blas_restore_due)
            blas_threads_before = openblas_get_num_threads();
        blas_restore_due = false;
        set_blas_threads(1);
    }
    blas_entered++;
    (void)pthread_mutex_unlock(&blas_mutex);
}

void cst_la_leave(void) {
    (void)pthread_mutex_lock(&blas_mutex);
    blas_entered--;
    if (--blas_users == 0)
        set_blas_threads(blas_threads_before);
    (void)pthread_mutex_unlock(&blas_mutex);
}

/* ---- room for OpenBLAS ---- */

/* OpenBLAS keeps a buffer of 128 MiB for each thread that calls it, and where it finds no room for
 * one it asks again for ever. So where memory is limited one thread at a time calls it, and none
 * before there is room. */

#define BUFFER_ROOM ((size_t)160 << 20)

static bool buffer_is_there; /* once a call was made; atomic */

/* Whether this call is alone, as it has to be where memory is limited. */
static bool blas_enter(void) {
    bool alone = __atomic_load_n(&blas_limited, __ATOMIC_RELAXED);
    if (alone)
        (void)pthread_rwlock_wrlock(&blas_calls);
    else
        (void)pthread_rwlock_rdlock(&blas_calls);
    return alone;
}

static void blas_end(void) {
    __atomic_store_n(&buffer_is_there, true, __ATOMIC_RELAXED);
    (void)pthread_rwlock_unlock(&blas_calls);
}

static cst_status blas_begin(cst_context *context) {
    if (!blas_enter() || __atomic_load_n(&buffer_is_there, __ATOMIC_RELAXED) ||
        cst_has_room(BUFFER_ROOM, true))
        return CST_OK;
    (void)pthread_rwlock_unlock(&blas_calls);
    return cst_fail(context, CST_ERROR_MEMORY,
                    "memory is limited, and %d MiB are not available for the buffers of linear "
                    "algebra: raise the limit (ulimit -v, ulimit -d), or free memory",
                    (int)(BUFFER_ROOM >> 20));
}

static cst_status check_dims(cst_context *context, int64_t m, int64_t n, int64_t k, int64_t ld) {
    if (m < 0 || n < 0 || k < 0 || ld < 0 || m > INT_MAX || n > INT_MAX || k > INT_MAX ||
        ld > INT_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "a matrix of %lld x %lld x %lld exceeds the limits of the BLAS interface",
                        (long long)m, (long long)n, (long long)k);
    return CST_OK;
}

/* Checks the sizes and takes a call of BLAS, or returns from the function; also where there is
 * nothing to compute. */
#define BLAS_BEGIN(context, nothing, m, n, k, ld)                                                  \
    do {                                                                                           \
        CST_TRY(check_dims(context, m, n, k, ld));                                                 \
        if (nothing)                                                                               \
            return CST_OK;                                                                         \
        CST_TRY(blas_begin(context));                                                              \
    } while (0)

static int64_t largest(int64_t a, int64_t b, int64_t c) {
    int64_t most = a > b ? a : b;
    return most > c ? most : c;
}

cst_status cst_gemm_f32(cst_context *context, bool transpose_a, bool transpose_b, int64_t m,
                        int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                        const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    BLAS_BEGIN(context, m == 0 || n == 0, m, n, k, largest(lda, ldb, ldc));
    cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
                transpose_b ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, alpha, a, (int)lda,
                b, (int)ldb, beta, c, (int)ldc);
    blas_end();
    return CST_OK;
}

cst_status cst_gemm_f64(cst_context *context, bool transpose_a, bool transpose_b, int64_t m,
                        int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                        const double *b, int64_t ldb, double beta, double *c, int64_t ldc) {
    BLAS_BEGIN(context, m == 0 || n == 0, m, n, k, largest(lda, ldb, ldc));
    cblas_dgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
                transpose_b ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, alpha, a, (int)lda,
                b, (int)ldb, beta, c, (int)ldc);
    blas_end();
    return CST_OK;
}

cst_status cst_gram_long(cst_context *context, int64_t k, int64_t n, double alpha, const double *a,
                         double beta, double *c) {
    enum { WHOLE = 1 << 20, PART = 1 << 18 }; /* entries */
    int64_t part = k * n <= WHOLE ? n : PART / k + 1;
    for (int64_t at = 0; at < n; at += part) {
        int64_t count = n - at < part ? n - at : part;
        cst_trim(context);
        CST_TRY(cst_gemm_f64(context, false, true, k, k, count, alpha, a + at, n, a + at, n,
                             at > 0 ? 1 : beta, c, k));
    }
    return CST_OK;
}

cst_status cst_syrk_f64(cst_context *context, int64_t n, int64_t k, double alpha, const double *a,
                        int64_t lda, double beta, double *c, int64_t ldc) {
    BLAS_BEGIN(context, n == 0, n, n, k, largest(lda, ldc, k));
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, (int)n, (int)k, alpha, a, (int)lda, beta, c,
                (int)ldc);
    blas_end();
    return CST_OK;
}

cst_status cst_outer_f64(cst_context *context, int64_t n, int64_t k, const double *a, int64_t lda,
                         double *c, int64_t ldc) {
    BLAS_BEGIN(context, n == 0 || k == 0, n, n, k, largest(lda, ldc, k));
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, (int)n, (int)k, 1, a, (int)lda, 1, c,
                (int)ldc);
    blas_end();
    return CST_OK;
}

cst_status cst_outer_f32(cst_context *context, int64_t n, int64_t k, const float *a, int64_t lda,
                         float *room, double *c, int64_t ldc) {
    BLAS_BEGIN(context, n == 0 || k == 0, n, n, k, largest(lda, ldc, k));
    cblas_ssyrk(CblasRowMajor, CblasLower, CblasNoTrans, (int)n, (int)k, 1, a, (int)lda, 0, room,
                (int)n);
    blas_end();
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++)
            c[i * ldc + j] += (double)room[i * n + j];
    return CST_OK;
}

static cst_status eigenvalues_found(cst_context *context, int64_t n, lapack_int info) {
    if (info == 0)
        return CST_OK;
    return cst_fail(context, CST_ERROR_NUMERIC,
                    "the eigenvalues of a %lld x %lld matrix could not be computed (LAPACK info "
                    "%d); look for NaN or infinity in the predictions",
                    (long long)n, (long long)n, (int)info);
}

cst_status cst_eigh(cst_context *context, int64_t n, double *a, double *values) {
    BLAS_BEGIN(context, n == 0, n, n, n, n);
    lapack_int info = LAPACKE_dsyevd(LAPACK_ROW_MAJOR, 'V', 'L', (int)n, a, (int)n, values);
    blas_end();
    return eigenvalues_found(context, n, info);
}

/* LAPACK's dsyevd scales matrices of such numbers first. */
static bool would_be_scaled(int64_t n, const double *a) {
    double most = 0;
    for (int64_t i = 0; i < n * n; i++)
        most = fmax(most, fabs(a[i]));
    return !(most > 1e-100 && most < 1e100);
}

/* The steps of dsyevd without the last one, which turns the eigenvectors of the tridiagonal matrix
 * into those of `a`. Those of the former are made: without them other steps find the values. */
cst_status cst_eigh_values(cst_context *context, int64_t n, double *a, double *values) {
    CST_TRY(check_dims(context, n, n, n, n));
    if (n == 0)
        return CST_OK;
    if (would_be_scaled(n, a))
        return cst_eigh(context, n, a, values);
    size_t size = (size_t)n;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, beside, 2 * size); /* subdiagonal, reflections */
    CST_NEW(context, scope, double, vectors, (size * size));
    CST_TRY(blas_begin(context));
    lapack_int info =
        LAPACKE_dsytrd(LAPACK_COL_MAJOR, 'L', (int)n, a, (int)n, values, beside, beside + size);
    if (info == 0)
        info = LAPACKE_dstedc(LAPACK_COL_MAJOR, 'I', (int)n, values, beside, vectors, (int)n);
    blas_end();
    return eigenvalues_found(context, n, info);
}

cst_status cst_cholesky(cst_context *context, int64_t n, double *a) {
    BLAS_BEGIN(context, n == 0, n, n, n, n);
    lapack_int info = LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', (int)n, a, (int)n);
    blas_end();
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
    (void)blas_enter();
    cblas_dtrsv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, (int)n, factor, (int)n, b,
                1);
    cblas_dtrsv(CblasRowMajor, CblasLower, CblasTrans, CblasNonUnit, (int)n, factor, (int)n, b, 1);
    blas_end();
}

cst_status cst_cholesky_inverse_diagonal(cst_context *context, int64_t n, const double *factor,
                                         double *diagonal) {
    size_t width = (size_t)n;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, inverse, (width * width));
    memcpy(inverse, factor, width * width * sizeof *inverse);
    BLAS_BEGIN(context, n == 0, n, n, n, n);
    lapack_int info = LAPACKE_dtrtri(LAPACK_ROW_MAJOR, 'L', 'N', (int)n, inverse, (int)n);
    blas_end();
    if (info != 0)
        return cst_fail(context, CST_ERROR_NUMERIC,
                        "a %lld x %lld triangular matrix is singular (row %d)", (long long)n,
                        (long long)n, (int)info);
    memset(diagonal, 0, width * sizeof *diagonal);
    for (size_t i = 0; i < width; i++)
        for (size_t j = 0; j <= i; j++)
            diagonal[j] += inverse[i * width + j] * inverse[i * width + j];
    return CST_OK;
}

double cst_cholesky_logdet(int64_t n, const double *factor) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += log(factor[i * n + i]);
    return 2 * sum;
}
