/*
 * Whether the processor has registers of 256 bits. Under every loop of la/wide.h. A file of its
 * own, so that a test may answer in its place and compare the bytes that both answers give.
 * docs/architecture.md#sums-over-fixed-blocks.
 */
#include "la/wide.h"

bool cst_wide_registers(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    return __builtin_cpu_supports("avx2");
#else
    return false;
#endif
}
