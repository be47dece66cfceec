/* Cores and memory of this process: affinity, and what its control groups leave. See the header. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "core/machine.h"

#include "core/retry.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>

enum { CORES_MOST = 1024, TEXT_BYTES = 8192, PATH_BYTES = 4096 };

/* Assumed where the system does not say. */
static const size_t MEMORY_UNKNOWN = (size_t)4 << 30;

/* ---- control groups ---- */

/* A number that a file of the folder begins with, and the one after it; 0 where there is none. */
static void read_numbers(const char *folder, const char *file, long long *first,
                         long long *second) {
    char path[PATH_BYTES + 64];
    char text[TEXT_BYTES];
    char *end = text;
    *first = *second = 0;
    (void)cst_snprintf(path, sizeof path, "%s/%s", folder, file);
    if (!cst_read_text(path, text, sizeof text))
        return;
    *first = strtoll(text, &end, 10); /* "max" is none */
    if (end != text)
        *second = strtoll(end, NULL, 10);
}

static void lower_cores(cst_machine *machine, long long quota, long long period) {
    if (quota <= 0 || period <= 0 || quota / period >= machine->cores)
        return;
    machine->cores = (int)(quota / period + (quota % period > 0));
}

static void limit_by(cst_machine *machine, const char *folder) {
    static const char *const files[] = {"memory.max", "memory.limit_in_bytes"};
    long long quota = 0;
    long long period = 0;
    long long none = 0;
    read_numbers(folder, "cpu.max", &quota, &period);
    lower_cores(machine, quota, period);
    read_numbers(folder, "cpu.cfs_quota_us", &quota, &none);
    read_numbers(folder, "cpu.cfs_period_us", &period, &none);
    lower_cores(machine, quota, period);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        long long bytes = 0;
        read_numbers(folder, files[i], &bytes, &none);
        if (bytes > 0 && (unsigned long long)bytes < machine->memory)
            machine->memory = (size_t)bytes;
    }
}

/* The group and those above it. In a container the path may be that outside, of which only the
 * root is there. */
static void climb(cst_machine *machine, const char *root, const char *kind, const char *path) {
    char folder[PATH_BYTES];
    size_t least = strlen(root) + strlen(kind);
    if (least + strlen(path) >= sizeof folder)
        return;
    (void)cst_snprintf(folder, sizeof folder, "%s%s%s", root, kind, path);
    for (size_t length = strlen(folder);; length--)
        if (length == least || folder[length] == '/' || !folder[length]) {
            folder[length] = '\0';
            limit_by(machine, folder);
            if (length == least)
                return;
        }
}

/* Whether a list with commas has the word. */
static bool lists(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || !at[length]))
            return true;
    return false;
}

void cst_machine_limit(cst_machine *machine, const char *groups, const char *root) {
    char line[PATH_BYTES];
    for (const char *at = groups; *at;) {
        size_t length = strcspn(at, "\n");
        (void)cst_snprintf(line, sizeof line, "%.*s",
                           (int)(length < sizeof line ? length : sizeof line - 1), at);
        at += length + (at[length] == '\n');
        char *kinds = strchr(line, ':');
        char *path = kinds ? strchr(kinds + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        if (!*++kinds)
            climb(machine, root, "", path);
        if (lists(kinds, "cpu"))
            climb(machine, root, "/cpu", path);
        if (lists(kinds, "memory"))
            climb(machine, root, "/memory", path);
    }
}

/* ---- this process ---- */

static void look_at_cores(cst_machine *machine) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    machine->online = online < 1 ? 1 : online > INT_MAX ? INT_MAX : (int)online;
    machine->bound = machine->online;
#ifdef CPU_SETSIZE
    union {
        cpu_set_t set;
        unsigned long words[CST_CPU_BYTES / sizeof(unsigned long)];
    } mask = {.words = {0}};
    if (sched_getaffinity(0, sizeof mask, &mask.set) == 0) {
        int found = 0;
        for (int cpu = 0; cpu < 8 * CST_CPU_BYTES; cpu++)
            if (mask.words[cpu / (8 * (int)sizeof *mask.words)] >>
                    (cpu % (8 * (int)sizeof *mask.words)) &
                1) {
                machine->cpus[cpu / 8] |= (unsigned char)(1 << (cpu % 8));
                found++;
            }
        machine->bound = found > 0 ? found : machine->bound;
    }
#endif
    machine->cores = machine->bound;
}

/* Memory, and what the control groups leave, which is looked up once: files are slow. */
static cst_machine limits;

static void look_at_limits(void) {
    char groups[TEXT_BYTES];
    long pages = sysconf(_SC_PHYS_PAGES);
    long size = sysconf(_SC_PAGESIZE);
    limits.cores = CORES_MOST;
    limits.memory = pages > 0 && size > 0 ? (size_t)pages * (size_t)size : MEMORY_UNKNOWN;
    if (cst_read_text("/proc/self/cgroup", groups, sizeof groups))
        cst_machine_limit(&limits, groups, "/sys/fs/cgroup");
}

void cst_machine_look(cst_machine *machine) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, look_at_limits);
    *machine = (cst_machine){.memory = limits.memory};
    look_at_cores(machine);
    machine->cores = machine->cores < limits.cores ? machine->cores : limits.cores;
}
