/* For measurements: a context that counts the bytes it holds, the name of the processor, and the
 * peak of resident memory. Paper: section "Deployment Efficiency: Latency and Memory". */
#pragma once

#include "core/base.h"

/* A context with its own threads, as many as another one has, whose allocations are counted. */
typedef struct cst_measured {
    cst_context *context;
    cst_realloc_fn realloc_fn; /* that of the other context */
    void *realloc_user;
    size_t live; /* read and written atomically, like `peak` */
    size_t peak;
} cst_measured;

/* With the threads, memory budget and allocator of `context`. *out must stay where it is. Free with
 * cst_measured_close, also after a failure. */
cst_status cst_measured_open(cst_context *context, cst_measured *out);
void cst_measured_close(cst_measured *measured);

/* Forgets the peak: what is held now is the most so far. */
void cst_measured_reset(cst_measured *measured);
/* Bytes held at most since the last reset. */
size_t cst_measured_peak(const cst_measured *measured);

/* The processor's name as the system gives it, else the machine's architecture. */
void cst_cpu_name(char *out, size_t size);

/* Most memory that the process has had resident, in bytes, as the kernel counts it, mapped files
 * included (VmHWM in proc(5)). Without that file it is what getrusage(2) says, which on Linux may
 * be the peak of the program that started this one. */
int64_t cst_peak_resident(void);
