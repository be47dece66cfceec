/*
 * Calls of a sweep that choose soups of small networks, whose hook predicts the same whatever the
 * candidate.
 */
#include "sweep.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FILES = 2 };

typedef struct kitchen {
    char paths[FILES][512];
    const char *list[FILES];
    char labels[512];
    char work[512];
    char out[512];
    cst_soup_config config;
} kitchen;

static cst_status predict(cst_context *context, void *user, const char *candidate,
                          const char *predictions) {
    const world *w = user;
    (void)candidate;
    return cst_write_predictions(context, predictions, w->p[0], ROWS, CLASSES);
}

static cst_status write_one(cst_context *c, const char *path, int number) {
    const int64_t shape[1] = {3};
    const float values[3] = {1, (float)number, -2};
    cst_safetensors_writer *writer = NULL;
    cst_status status = cst_safetensors_writer_open(c, &writer, path, CST_TENSOR_ORDER_GIVEN);
    if (status == CST_OK)
        status = cst_safetensors_writer_add(c, writer, "weight", CST_DTYPE_F32, shape, 1);
    if (status == CST_OK)
        status = cst_safetensors_writer_put_f32(c, writer, 0, values, 3);
    if (status == CST_OK)
        return cst_safetensors_writer_finish(c, writer);
    cst_safetensors_writer_abandon(c, writer);
    return status;
}

static void place(char out[512], world *w, const char *name) {
    (void)snprintf(out, 512, "%s", in_folder(w, name));
}

static void begin(trial *t, kitchen *k) {
    cst_context *quiet = t->w->quiet;
    *k = (kitchen){.config = {.hook = predict, .user = t->w, .evaluations = 4}};
    for (int i = 0; i < FILES; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "dish%d.safetensors", i);
        place(k->paths[i], t->w, name);
        k->list[i] = k->paths[i];
        must(quiet, write_one(quiet, k->paths[i], i), name);
    }
    place(k->labels, t->w, "dishes.npy");
    place(k->work, t->w, "work");
    place(k->out, t->w, "soup.safetensors");
    must(quiet, cst_write_folds(quiet, k->labels, t->w->labels, ROWS), "labels of soups");
    k->config.work = k->work;
    k->config.labels = k->labels;
}

static bool missing(const char *path) {
    return access(path, F_OK) != 0;
}

/* Whether a folder has an entry that begins so; no dot stands at the beginning. */
static bool has(const char *path, const char *start) {
    DIR *entries = opendir(path);
    bool found = false;
    for (const struct dirent *entry; entries && (entry = readdir(entries)) != NULL;)
        found =
            found || (entry->d_name[0] != '.' && strncmp(entry->d_name, start, strlen(start)) == 0);
    if (entries)
        (void)closedir(entries);
    return found;
}

/* Whether the work folder is gone, or there for nothing but the predictions that it keeps. */
static bool tidy(const kitchen *k) {
    char cache[520];
    (void)snprintf(cache, sizeof cache, "%s/cache", k->work);
    return missing(k->work) || (has(cache, "") && !has(k->work, "run-"));
}

static void end(trial *t, const kitchen *k) {
    if (!missing(k->work))
        must(t->w->quiet, cst_soup_clear(t->w->quiet, k->work), "work folder");
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
        missing(k.out) && tidy(&k) && !report);
    cst_report_free(t->c, report);
    end(t, &k);
}

static void learned(trial *t) {
    kitchen k;
    cst_report *report = NULL;
    begin(t, &k);
    TRY(t, cst_soup_learned(t->c, k.list, FILES, &k.config, k.out, &report),
        missing(k.out) && tidy(&k) && !report);
    cst_report_free(t->c, report);
    end(t, &k);
}

static void clear(trial *t) {
    kitchen k;
    begin(t, &k);
    must(t->w->quiet, cst_soup_greedy(t->w->quiet, k.list, FILES, &k.config, k.out, NULL),
         "a soup");
    TRY(t, cst_soup_clear(t->c, k.work), true);
    end(t, &k);
}

const sweep_call SWEEP_SOUPS[] = {
    {"cst_soup_uniform", "", uniform},
    {"cst_soup_greedy", "", greedy},
    {"cst_soup_learned", "", learned},
    {"cst_soup_clear", "", clear},
};
const size_t SWEEP_SOUPS_COUNT = sizeof SWEEP_SOUPS / sizeof SWEEP_SOUPS[0];
