/* The share of the machine that this process may use: cores by affinity and quota, memory by its
 * control groups. docs/architecture.md#memory. */
#pragma once

#include "core/base.h"

enum { CST_CPU_BYTES = 1024 }; /* of a set of 8192 cores */

typedef struct cst_machine {
    int online; /* cores of the machine */
    int bound;  /* of these, those that the process may run on */
    int cores;  /* the same, and no more than its quota of time keeps busy */
    size_t memory;
    unsigned char cpus[CST_CPU_BYTES]; /* a bit for each core that it may run on; none: unknown */
} cst_machine;

void cst_machine_look(cst_machine *machine);

/* Lowers cores and memory to the limits of the control groups (version 1 or 2, and those above
 * them) that the text of /proc/self/cgroup names; root: where they are mounted. */
void cst_machine_limit(cst_machine *machine, const char *groups, const char *root);

static inline bool cst_machine_has_cpu(const unsigned char *cpus, int cpu) {
    return (cpus[cpu / 8] >> (cpu % 8) & 1) != 0;
}
