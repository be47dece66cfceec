/*
 * Calls of a sweep that choose soups of small networks, whose hook predicts the same whatever the
 * candidate.
 */
#include "sweep.h"
#include "tensor_file.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FILES = 2 };

typedef struct kitchen {
    char paths[FILES][512];
    const char *list[FILES];
    char labels[512];
    char out[512];
    cst_soup_config config;
} kitchen;

static cst_status predict(cst_context *context, void *user, const char *candidate,
                          const char *predictions) {
    const world *w = user;
    (void)candidate;
    return cst_write_predictions(context, predictions, w->p[0], ROWS, CLASSES);
}

static void write_one(const char *path, int number) {
    const int64_t shape[1] = {3};
    const float values[3] = {1, (float)number, -2};
    tensor_file *file = tensor_file_new();
    tensor_file_floats(file, tensor_file_add(file, "weight", CST_DTYPE_F32, shape, 1), values, 3);
    tensor_file_write(file, path);
}

static void place(char out[512], world *w, const char *name) {
    (void)snprintf(out, 512, "%s", in_folder(w, name));
}

static void begin(trial *t, kitchen *k) {
    cst_context *quiet = t->w->quiet;
    *k = (kitchen){.config = {.hook = predict, .user = t->w}};
    for (int i = 0; i < FILES; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "dish%d.safetensors", i);
        place(k->paths[i], t->w, name);
        k->list[i] = k->paths[i];
        write_one(k->paths[i], i);
    }
    place(k->labels, t->w, "dishes.npy");
    place(k->out, t->w, "soup.safetensors");
    must(quiet, cst_write_folds(quiet, k->labels, t->w->labels, ROWS), "labels of soups");
    k->config.labels = k->labels;
}

static bool missing(const char *path) {
    return access(path, F_OK) != 0;
}

/* Whether the folder of candidates is gone. */
static bool tidy(world *w) {
    DIR *entries = opendir(in_folder(w, ""));
    bool found = false;
    for (const struct dirent *entry; entries && (entry = readdir(entries)) != NULL;)
        found = found || strncmp(entry->d_name, "soup-", 5) == 0;
    if (entries)
        (void)closedir(entries);
    return entries && !found;
}

static void end(trial *t, const kitchen *k) {
    add_file(t, k->out);
    (void)unlink(k->out);
    (void)unlink(k->labels);
    for (int i = 0; i < FILES; i++)
        (void)unlink(k->paths[i]);
}

static void uniform(trial *t) {
    kitchen k;
    cst_report *report = NULL;
    begin(t, &k);
    TRY(t, cst_soup_uniform(t->c, k.list, FILES, k.out, &report), missing(k.out) && !report);
    cst_report_free(t->c, report);
    end(t, &k);
}

static void greedy(trial *t) {
    kitchen k;
    cst_report *report = NULL;
    begin(t, &k);
    TRY(t, cst_soup_greedy(t->c, k.list, FILES, &k.config, k.out, &report),
        missing(k.out) && tidy(t->w) && !report);
    cst_report_free(t->c, report);
    end(t, &k);
}

const sweep_call SWEEP_SOUPS[] = {
    {"cst_soup_uniform", "", uniform},
    {"cst_soup_greedy", "", greedy},
};
const size_t SWEEP_SOUPS_COUNT = sizeof SWEEP_SOUPS / sizeof SWEEP_SOUPS[0];
