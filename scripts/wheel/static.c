/* Linked into the library of a binary wheel beside the archives of its dependencies, which are made
 * for programs. scripts/wheel.sh; no part of any other build. */
#include <stdio.h>
#include <string.h>

/* Debian compiles libpng and Jansson for programs, which may name these where the C library has
 * them (-Wl,--wrap). Nothing of ours reads or writes them. */
FILE *__wrap_stdin;
FILE *__wrap_stderr;
extern FILE *__real_stdin;
extern FILE *__real_stderr;

__attribute__((constructor)) static void set_streams(void) {
    __wrap_stdin = __real_stdin;
    __wrap_stderr = __real_stderr;
}

/* The version that every glibc has: version 2.35 came with another one for the same function. */
#ifdef __x86_64__
__asm__(".symver old_hypot,hypot@GLIBC_2.2.5");
#else
__asm__(".symver old_hypot,hypot@GLIBC_2.17");
#endif
extern double old_hypot(double x, double y);
double __wrap_hypot(double x, double y) {
    return old_hypot(x, y);
}

/* What OpenBLAS reads from OPENBLAS_NUM_THREADS as it is loaded: it starts no threads. Its build
 * without threads would not do, as two of ours cannot call that at once. */
int __wrap_openblas_num_threads_env(void);
int __wrap_openblas_num_threads_env(void) {
    return 1;
}

/* All that LAPACK needs of the Fortran runtime: a // b, cut or filled with blanks to `size`. */
void _gfortran_concat_string(size_t size, char *to, size_t a_size, const char *a, size_t b_size,
                             const char *b) {
    memset(to, ' ', size);
    memcpy(to, a, a_size < size ? a_size : size);
    if (a_size < size)
        memcpy(to + a_size, b, b_size < size - a_size ? b_size : size - a_size);
}
