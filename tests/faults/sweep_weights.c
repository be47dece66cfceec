/*
 * Calls of a sweep that read and write weights of networks.
 */
#include "sweep.h"
#include "tensor_file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CHECKPOINTS = 3 };

/* Checkpoints of a small network, made without failures. */
typedef struct series {
    char paths[CHECKPOINTS][512];
    const char *list[CHECKPOINTS];
    char out[512];
} series;

static bool missing(const char *path) {
    return access(path, F_OK) != 0;
}

static void write_one(const world *w, const char *path, int number) {
    const int64_t shape[2] = {ROWS, CLASSES};
    const int64_t steps = number;
    tensor_file *file = tensor_file_new();
    tensor_file_metadata(file, "format", "pt");
    tensor_file_floats(file, tensor_file_add(file, "weight", CST_DTYPE_F32, shape, 2), w->p[number],
                       ROWS * CLASSES);
    tensor_file_floats(file, tensor_file_add(file, "bn.running_mean", CST_DTYPE_F16, shape, 1),
                       w->p[number], ROWS);
    tensor_file_bytes(file, tensor_file_add(file, "steps", CST_DTYPE_I64, NULL, 0), &steps,
                      sizeof steps);
    tensor_file_write(file, path);
}

static void begin(trial *t, series *s) {
    for (int k = 0; k < CHECKPOINTS; k++) {
        char name[32];
        (void)snprintf(name, sizeof name, "step%d.safetensors", k);
        (void)snprintf(s->paths[k], sizeof s->paths[k], "%s", in_folder(t->w, name));
        s->list[k] = s->paths[k];
        write_one(t->w, s->paths[k], k);
    }
    (void)snprintf(s->out, sizeof s->out, "%s", in_folder(t->w, "mixed.safetensors"));
}

static void end(trial *t, const series *s) {
    add_file(t, s->out);
    (void)unlink(s->out);
    for (int k = 0; k < CHECKPOINTS; k++)
        (void)unlink(s->paths[k]);
}

static void averaged(trial *t) {
    series s;
    begin(t, &s);
    must(t->w->quiet, cst_swa_average(t->w->quiet, s.list, 2, NULL, s.paths[0]), "average");
    TRY(t, cst_swa_average(t->c, s.list + 2, 1, s.paths[0], s.out), missing(s.out));
    end(t, &s);
}

static void made_of(trial *t) {
    series s;
    int64_t checkpoints = 0;
    int32_t rank = 0;
    begin(t, &s);
    must(t->w->quiet, cst_swag_fit(t->w->quiet, s.list, CHECKPOINTS, 2, s.out), "SWAG");
    TRY(t, cst_weights_made_of(t->c, s.out, &checkpoints, &rank), checkpoints == 0 && rank == 0);
    add_bytes(t, &checkpoints, sizeof checkpoints);
    add_bytes(t, &rank, sizeof rank);
    end(t, &s);
}

static void fitted(trial *t) {
    series s;
    begin(t, &s);
    TRY(t, cst_swag_fit(t->c, s.list, CHECKPOINTS, 2, s.out), missing(s.out));
    end(t, &s);
}

static void sampled(trial *t) {
    series s;
    char folder[512];
    begin(t, &s);
    must(t->w->quiet, cst_swag_fit(t->w->quiet, s.list, CHECKPOINTS, 2, s.out), "SWAG");
    (void)snprintf(folder, sizeof folder, "%s", in_folder(t->w, "samples"));
    TRY(t, cst_swag_sample(t->c, s.out, 2, 0.5, 1, -1, folder), missing(folder));
    for (int k = 0; k < 2; k++) {
        char path[600];
        (void)snprintf(path, sizeof path, "%s/sample_%02d.safetensors", folder, k);
        add_file(t, path);
        (void)unlink(path);
    }
    (void)rmdir(folder);
    end(t, &s);
}

const sweep_call SWEEP_WEIGHTS[] = {
    {"cst_swa_average", "continued", averaged},
    {"cst_swag_fit", "", fitted},
    {"cst_swag_sample", "", sampled},
    {"cst_weights_made_of", "", made_of},
};
const size_t SWEEP_WEIGHTS_COUNT = sizeof SWEEP_WEIGHTS / sizeof SWEEP_WEIGHTS[0];
