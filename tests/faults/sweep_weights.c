/*
 * Calls of a sweep that read and write weights of networks.
 */
#include "sweep.h"

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

static cst_status write_one(cst_context *c, const world *w, const char *path, int number) {
    const int64_t shape[2] = {ROWS, CLASSES};
    const int64_t steps = number;
    cst_safetensors_writer *writer = NULL;
    cst_status status = cst_safetensors_writer_open(c, &writer, path, CST_TENSOR_ORDER_GIVEN);
    if (status == CST_OK)
        status = cst_safetensors_writer_metadata(c, writer, "format", "pt");
    if (status == CST_OK)
        status = cst_safetensors_writer_add(c, writer, "weight", CST_DTYPE_F32, shape, 2);
    if (status == CST_OK)
        status = cst_safetensors_writer_add(c, writer, "bn.running_mean", CST_DTYPE_F16, shape, 1);
    if (status == CST_OK)
        status = cst_safetensors_writer_add(c, writer, "steps", CST_DTYPE_I64, NULL, 0);
    if (status == CST_OK)
        status = cst_safetensors_writer_put_f32(c, writer, 0, w->p[number], ROWS * CLASSES);
    if (status == CST_OK)
        status = cst_safetensors_writer_put_f32(c, writer, 1, w->p[number], ROWS);
    if (status == CST_OK)
        status = cst_safetensors_writer_put(c, writer, 2, &steps, sizeof steps);
    if (status == CST_OK)
        return cst_safetensors_writer_finish(c, writer);
    cst_safetensors_writer_abandon(c, writer);
    return status;
}

static void begin(trial *t, series *s) {
    cst_context *quiet = t->w->quiet;
    for (int k = 0; k < CHECKPOINTS; k++) {
        char name[32];
        (void)snprintf(name, sizeof name, "step%d.safetensors", k);
        (void)snprintf(s->paths[k], sizeof s->paths[k], "%s", in_folder(t->w, name));
        s->list[k] = s->paths[k];
        must(quiet, write_one(quiet, t->w, s->paths[k], k), name);
    }
    (void)snprintf(s->out, sizeof s->out, "%s", in_folder(t->w, "mixed.safetensors"));
}

static void end(trial *t, const series *s) {
    add_file(t, s->out);
    (void)unlink(s->out);
    for (int k = 0; k < CHECKPOINTS; k++)
        (void)unlink(s->paths[k]);
}

static void opened(trial *t) {
    series s;
    cst_checkpoints *all = NULL;
    begin(t, &s);
    TRY(t, cst_checkpoints_open(t->c, &all, s.list, CHECKPOINTS), all == NULL);
    int64_t parameters = cst_checkpoints_parameters(all);
    add_bytes(t, &parameters, sizeof parameters);
    cst_checkpoints_close(t->c, all);
    end(t, &s);
}

static void mixed(trial *t) {
    series s;
    cst_checkpoints *all = NULL;
    uint64_t hash[2] = {0, 0};
    begin(t, &s);
    must(t->c, cst_checkpoints_open(t->c, &all, s.list, CHECKPOINTS), "checkpoints");
    TRY(t, cst_checkpoints_mix(t->c, all, NULL, CST_MIX_MODEL, s.out, hash),
        missing(s.out) && hash[0] == 0);
    add_bytes(t, hash, sizeof hash);
    cst_checkpoints_close(t->c, all);
    end(t, &s);
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
    {"cst_swa_average", "continued", averaged}, {"cst_swag_fit", "", fitted},
    {"cst_swag_sample", "", sampled},           {"cst_checkpoints_open", "", opened},
    {"cst_checkpoints_mix", "", mixed},         {"cst_weights_made_of", "", made_of},
};
const size_t SWEEP_WEIGHTS_COUNT = sizeof SWEEP_WEIGHTS / sizeof SWEEP_WEIGHTS[0];
