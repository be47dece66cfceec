/*
 * Fuzz target: files as checkpoints, averaged with themselves, and as SWAG files, which a network
 * is drawn from. weights/.
 */
#include "common/fuzz.h"

#include <corestack/safetensors.h>
#include <corestack/weights.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_CHARS = 512 };

/* Buffers of fixed size in which weights are summed and drawn. */
static const size_t BUFFERS = (size_t)40 << 20;

/* An average of a file with itself has its tensors. */
static void check_same(cst_context *context, const char *path, const char *mixed) {
    cst_safetensors *from = NULL;
    cst_safetensors *to = NULL;
    FUZZ_CHECK(cst_safetensors_open(context, &from, path) == CST_OK, "it was read before");
    FUZZ_CHECK(cst_safetensors_open(context, &to, mixed) == CST_OK, "what is written is read");
    int64_t count = cst_safetensors_count(from);
    FUZZ_CHECK(cst_safetensors_count(to) == count, "all tensors are written");
    for (int64_t t = 0; t < count; t++) {
        const void *ours = NULL;
        const void *theirs = NULL;
        int64_t same = cst_safetensors_find(to, cst_safetensors_name(from, t));
        FUZZ_CHECK(same >= 0 && cst_safetensors_bytes(to, same) == cst_safetensors_bytes(from, t),
                   "tensors keep names and sizes");
        FUZZ_CHECK(cst_safetensors_map(context, from, t, &ours) == CST_OK &&
                       cst_safetensors_map(context, to, same, &theirs) == CST_OK,
                   "tensors are mapped");
        FUZZ_CHECK(memcmp(ours, theirs, (size_t)cst_safetensors_bytes(from, t)) == 0,
                   "equal values stay to the last bit");
    }
    cst_safetensors_close(context, from);
    cst_safetensors_close(context, to);
}

static void mix(cst_context *context, const char *path) {
    const char *const paths[] = {path, path};
    char mixed[PATH_CHARS];
    (void)snprintf(mixed, sizeof mixed, "%s/mixed.safetensors", fuzz_folder());
    if (fuzz_good(context, cst_swa_average(context, paths, 2, NULL, mixed), false)) {
        check_same(context, path, mixed);
        (void)unlink(mixed);
    }
}

static void draw(cst_context *context, const char *path) {
    char folder[PATH_CHARS];
    char file[PATH_CHARS + 32];
    cst_safetensors *drawn = NULL;
    (void)snprintf(folder, sizeof folder, "%s/samples", fuzz_folder());
    (void)snprintf(file, sizeof file, "%s/sample_00.safetensors", folder);
    if (!fuzz_good(context, cst_swag_sample(context, path, 1, 0.5, 1, -1, folder), false)) {
        FUZZ_CHECK(access(folder, F_OK) != 0, "no folder is left behind");
        return;
    }
    FUZZ_CHECK(cst_safetensors_open(context, &drawn, file) == CST_OK, "a sample is read");
    cst_safetensors_close(context, drawn);
    (void)unlink(file);
    FUZZ_CHECK(rmdir(folder) == 0, "there is one sample");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[PATH_CHARS];
    (void)snprintf(path, sizeof path, "%s", fuzz_file("a.safetensors", data, size));
    cst_context *context = fuzz_begin(BUFFERS + 64 * size, 1);
    mix(context, path);
    draw(context, path);
    fuzz_end(context);
    return 0;
}
