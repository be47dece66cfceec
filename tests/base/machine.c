/*
 * Cores and memory that control groups leave, in folders made for it.
 */
#include "core/machine.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = "/tmp/corestack-machine-XXXXXX";

static int setup(void **state) {
    (void)state;
    return mkdtemp(root) == NULL;
}

static int teardown(void **state) {
    char line[128];
    (void)state;
    (void)snprintf(line, sizeof line, "rm -rf %s", root);
    return system(line) != 0; /* NOLINT: a name of our own */
}

/* A file below the root; its folder is made. */
static void put(const char *folder, const char *file, const char *text) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s%s", root, folder);
    for (char *at = path + strlen(root); *at; at++)
        if (*at == '/' && at > path + strlen(root)) {
            *at = '\0';
            (void)mkdir(path, 0700);
            *at = '/';
        }
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof path, "%s%s/%s", root, folder, file);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    (void)fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

static void limits(const char *groups, int cores, size_t mebibytes) {
    cst_machine machine = {.cores = 16, .bound = 16, .memory = (size_t)1 << 34};
    cst_machine_limit(&machine, groups, root);
    assert_int_equal(machine.cores, cores);
    assert_int_equal(machine.memory >> 20, mebibytes);
}

static void limits_of_groups(void **state) {
    (void)state;
    put("", "cgroup.controllers", "cpu memory\n");
    put("/job", "memory.max", "4294967296\n");
    put("/job", "cpu.max", "max 100000\n");
    put("/job/step", "memory.max", "max\n");
    put("/job/step", "cpu.max", "250000 100000\n");
    put("/more", "cpu.max", "9000000 100000\n");
    put("/more", "memory.max", "99999999999999\n");
    limits("", 16, 16384);
    limits("no line of a group\n", 16, 16384);
    limits("0::/\n", 16, 16384);
    limits("0::/job/step\n", 3, 4096); /* also that above it; two cores and a half are three */
    limits("0::/more\n", 16, 16384);
    limits("0::/gone/step\n", 16, 16384);
    put("", "memory.max", "2147483648\n");
    put("", "cpu.max", "50000 100000");
    limits("0::/../outside/of/a/container\n", 1, 2048);
    put("/cpu/a", "cpu.cfs_quota_us", "400000\n");
    put("/cpu/a", "cpu.cfs_period_us", "100000\n");
    put("/cpu/b", "cpu.cfs_quota_us", "-1\n");
    put("/cpu/b", "cpu.cfs_period_us", "100000\n");
    put("/memory", "memory.limit_in_bytes", "9223372036854771712\n");
    put("/memory/a/b", "memory.limit_in_bytes", "1073741824\n");
    limits("5:cpuset:/a\n4:cpu,cpuacct:/a\n3:memory:/a/b/c\n", 4, 1024);
    limits("4:cpuacct,cpu:/b\n3:memory:/a\n", 16, 16384);
}

static void this_process(void **state) {
    cst_machine machine;
    int set = 0;
    (void)state;
    cst_machine_look(&machine);
    for (int cpu = 0; cpu < 8 * CST_CPU_BYTES; cpu++)
        set += cst_machine_has_cpu(machine.cpus, cpu);
    assert_in_range(machine.cores, 1, machine.bound);
    assert_in_range(machine.bound, 1, INT_MAX);
    assert_true(set == 0 || set == machine.bound);
    assert_true(machine.memory >= (size_t)16 << 20);
}

int suite_machine(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_of_groups),
        cmocka_unit_test(this_process),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
