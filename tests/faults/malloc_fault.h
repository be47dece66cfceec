/*
 * The C allocator with a fault: the program's own malloc, calloc and realloc stand before those of
 * libc (or of AddressSanitizer), for everything in the process, and the n-th allocation fails while
 * they are armed.
 */
#ifndef MALLOC_FAULT_H
#define MALLOC_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* From here on allocation number `after` (from 0) fails, and with `all` every one behind it. */
void malloc_fault_arm(int64_t after, bool all);

/* Ends that; returns how many allocations there were. *failed: how many of them failed. */
int64_t malloc_fault_disarm(int64_t *failed);

#endif
