/* How wide the registers of the processor are: a file of its own, so that a test may answer in its
 * place. docs/architecture.md#sums-over-fixed-blocks. */
#include "core/wide.h"

cst_registers cst_wide_registers(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return CST_REGISTERS_AVX512;
    if (__builtin_cpu_supports("avx2"))
        return CST_REGISTERS_AVX2;
#endif
    return CST_REGISTERS_BASE;
}
