/*
 * What the benchmarks of weights run: a series of checkpoints of any size, the library's calls over
 * it, and the same bytes read and written without any computation. Not part of the product.
 *
 *   bench-weights make FOLDER FILES MIB          FOLDER/step_000.safetensors, ...
 *   bench-weights mean|swa|fit OUT THREADS FILES...
 *   bench-weights draw OUT THREADS MODEL         two samples in the folder OUT
 *   bench-weights floor OUT BYTES FILES...       reads the files and writes BYTES to OUT, synced
 *   bench-weights forget FILES...                takes files out of the page cache
 *
 * Each says its peak of resident bytes. fit keeps four columns of deviations. Files are of float32:
 * one tensor that has half of all parameters, some large ones, and two hundred small ones.
 */
#include <corestack/safetensors.h>
#include <corestack/weights.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 18, LARGE = 12, SMALL = 200, SMALL_ELEMENTS = 1000, RANK = 4 };

static cst_context *context;

static void need(int ok, const char *what) {
    if (ok)
        return;
    const char *why = cst_last_error(context);
    (void)fprintf(stderr, "bench-weights: %s: %s\n", what, why && *why ? why : strerror(errno));
    exit(1);
}

static void call(cst_status status, const char *what) {
    need(status == CST_OK, what);
}

static void put(cst_safetensors_writer *writer, int64_t tensor, int64_t elements,
                uint64_t *random) {
    static float values[PIECE];
    for (int64_t done = 0; done < elements; done += PIECE) {
        int64_t part = elements - done < PIECE ? elements - done : PIECE;
        for (int64_t i = 0; i < part; i++) {
            *random = *random * 6364136223846793005u + 1442695040888963407u;
            values[i] = (float)(int32_t)(*random >> 32) * 0x1p-31F;
        }
        call(cst_safetensors_writer_put_f32(context, writer, tensor, values, part), "writing");
    }
}

static void make(const char *folder, int number, int64_t bytes) {
    char path[512];
    char name[32];
    int64_t all = bytes / 4 - (int64_t)SMALL * SMALL_ELEMENTS;
    int64_t elements[1 + LARGE + SMALL];
    cst_safetensors_writer *writer = NULL;
    need(all > 0, "a size below 1 MiB");
    (void)snprintf(path, sizeof path, "%s/step_%03d.safetensors", folder, number);
    call(cst_safetensors_writer_open(context, &writer, path, CST_TENSOR_ORDER_SORTED), path);
    for (int t = 0; t < 1 + LARGE + SMALL; t++) {
        elements[t] = t == 0 ? all / 2 : t <= LARGE ? all / 2 / LARGE : SMALL_ELEMENTS;
        (void)snprintf(name, sizeof name, "layer%03d.weight", t);
        call(cst_safetensors_writer_add(context, writer, name, CST_DTYPE_F32, &elements[t], 1),
             name);
    }
    uint64_t random = (uint64_t)number + 1;
    call(cst_safetensors_writer_start(context, writer), path);
    for (int t = 0; t < 1 + LARGE + SMALL; t++) {
        int64_t tensor = cst_safetensors_writer_at(writer, t);
        put(writer, tensor, elements[tensor], &random);
    }
    call(cst_safetensors_writer_finish(context, writer), path);
}

static void read_all(const char *path, char *buffer) {
    int fd = open(path, O_RDONLY);
    need(fd >= 0, path);
    ssize_t got = 1;
    while (got > 0)
        got = read(fd, buffer, PIECE * sizeof(float));
    need(got == 0, path);
    (void)close(fd);
}

/* What no averaging can do without, on one thread as `cat` and `dd` do it. */
static void floor_of(const char *out, int64_t bytes, char **files, int count) {
    static char buffer[PIECE * sizeof(float)];
    for (int k = 0; k < count; k++)
        read_all(files[k], buffer);
    (void)unlink(out);
    int fd = open(out, O_WRONLY | O_CREAT | O_EXCL, 0600);
    need(fd >= 0, out);
    for (int64_t done = 0; done < bytes;) {
        size_t part =
            bytes - done < (int64_t)sizeof buffer ? (size_t)(bytes - done) : sizeof buffer;
        ssize_t wrote = write(fd, buffer, part);
        need(wrote > 0, out);
        done += wrote;
    }
    need(fsync(fd) == 0 && close(fd) == 0, out);
}

static void forget(const char *path) {
    int fd = open(path, O_RDONLY);
    need(fd >= 0 && fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, path);
    (void)close(fd);
}

static void compute(const char *what, const char *out, char **files, int count) {
    const char *const *paths = (const char *const *)files;
    cst_checkpoints *all = NULL;
    if (strcmp(what, "mean") == 0) {
        call(cst_checkpoints_open(context, &all, paths, count), "opening");
        call(cst_checkpoints_mix(context, all, NULL, CST_MIX_MODEL, out, NULL), "mixing");
        cst_checkpoints_close(context, all);
    } else if (strcmp(what, "swa") == 0) {
        call(cst_swa_average(context, paths, count, NULL, out), "averaging");
    } else if (strcmp(what, "fit") == 0) {
        call(cst_swag_fit(context, paths, count, RANK, out), "fitting");
    } else {
        need(strcmp(what, "draw") == 0, what);
        call(cst_swag_sample(context, files[0], 2, 0.5, 1, -1, out), "drawing");
    }
}

/* Most bytes that were in memory since the program began; that of wait4 begins before it does. */
static void say_peak(void) {
    char line[128];
    long long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    need(status != NULL, "/proc/self/status");
    while (fgets(line, sizeof line, status))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtoll(line + 6, NULL, 10);
    (void)fclose(status);
    (void)printf("%lld\n", kib * 1024);
}

int main(int argc, char **argv) {
    need(cst_context_create(&context) == CST_OK, "context");
    const char *what = argc > 2 ? argv[1] : "";
    if (strcmp(what, "make") == 0 && argc == 5) {
        need(mkdir(argv[2], 0777) == 0 || errno == EEXIST, argv[2]);
        for (int k = 0; k < atoi(argv[3]); k++)
            make(argv[2], k, strtoll(argv[4], NULL, 10) << 20);
    } else if (strcmp(what, "floor") == 0 && argc > 4) {
        floor_of(argv[2], strtoll(argv[3], NULL, 10), argv + 4, argc - 4);
    } else if (strcmp(what, "forget") == 0) {
        for (int k = 2; k < argc; k++)
            forget(argv[k]);
    } else {
        need(argc > 4, "make, mean, swa, fit, draw, floor or forget");
        call(cst_context_set_threads(context, atoi(argv[3])), "threads");
        compute(what, argv[2], argv + 4, argc - 4);
    }
    cst_context_free(context);
    say_peak();
    return 0;
}
