/*
 * What the calls of a sweep work on: small pools of every task, in memory and in files.
 */
#define _XOPEN_SOURCE 700 /* mkdtemp, nftw */
#include "data/pool/pool.h"
#include "pool_from_values.h"
#include "sweep.h"

#include "data/segmentation.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *in_folder(world *w, const char *name) {
    (void)snprintf(w->path, sizeof w->path, "%s/%s", w->folder, name);
    return w->path;
}

void must(cst_context *context, cst_status status, const char *what) {
    if (status == CST_OK)
        return;
    (void)fprintf(stderr, "%s: %s: %s\n", what, cst_status_name(status), cst_last_error(context));
    exit(1);
}

char *steady_report(world *w, const cst_report *report) {
    char *text = NULL;
    bool inside = false;
    must(w->quiet, cst_report_json(w->quiet, report, &text), "report");
    char *to = text;
    for (char *line = text, *end = NULL; *line; line = end) {
        end = strchr(line, '\n');
        end = end ? end + 1 : line + strlen(line);
        const char *seconds = strstr(line, "\"seconds");
        const char *peak = strstr(line, "\"peak_rss");
        bool timed = (seconds && seconds < end) || (peak && peak < end);
        const char *opens = strchr(line, '{');
        const char *closes = strchr(line, '}');
        inside = inside || (timed && opens && opens < end);
        if (!timed && !inside) {
            memmove(to, line, (size_t)(end - line));
            to += end - line;
        }
        inside = inside && !(closes && closes < end);
    }
    *to = '\0';
    return text;
}

static void put_text(world *w, const char *name, const char *text) {
    FILE *file = fopen(in_folder(w, name), "wb");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        exit(1);
}

static void make_numbers(world *w) {
    uint32_t state = 12345;
    for (int i = 0; i < ROWS; i++) {
        w->labels[i] = i % CLASSES;
        w->groups[i] = i / 4;
        for (int d = 0; d < OUTPUTS; d++)
            w->targets[i * OUTPUTS + d] = (double)((i * 7 + d * 3) % 19) + (double)i / 97;
        for (int k = 0; k < MEMBERS; k++) {
            float sum = 0;
            for (int c = 0; c < CLASSES; c++) {
                state = state * 1664525u + 1013904223u;
                float p = 0.1f + (float)(state >> 16) / 65536 + (c == w->labels[i] ? 0.5f : 0);
                w->p[k][i * CLASSES + c] = p;
                sum += p;
            }
            for (int c = 0; c < CLASSES; c++)
                w->p[k][i * CLASSES + c] /= sum;
            for (int d = 0; d < OUTPUTS; d++) {
                state = state * 1664525u + 1013904223u;
                w->v[k][i * OUTPUTS + d] =
                    (float)w->targets[i * OUTPUTS + d] + (float)(state >> 16) / 32768 - 1;
            }
        }
    }
    for (int k = 0; k < MEMBERS; k++) {
        w->data[k] = w->p[k];
        w->values[k] = w->v[k];
    }
}

/* npy files with a manifest; a folder of CSV with ids. */
static void write_classes(world *w) {
    static const char *const names[] = {"a", "b", "c"};
    static char ids[ROWS][16];
    const char *list[ROWS];
    char name[32];
    cst_context *q = w->quiet;
    for (int i = 0; i < ROWS; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "r%d", i);
        list[i] = ids[i];
    }
    for (int k = 0; k < MEMBERS; k++) {
        (void)snprintf(name, sizeof name, "%s.oof.npy", names[k]);
        must(q, cst_write_predictions(q, in_folder(w, name), w->p[k], ROWS, CLASSES), name);
        /* Other predictions than those of the fit, whose rows no bound is for. */
        (void)snprintf(name, sizeof name, "%s.test.npy", names[k]);
        must(q,
             cst_write_predictions(q, in_folder(w, name), w->p[(k + 1) % MEMBERS], ROWS / 2,
                                   CLASSES),
             name);
        (void)snprintf(name, sizeof name, "plain/%s.csv", names[k]);
        must(q,
             cst_write_predictions_csv(q, in_folder(w, name), w->p[k], ROWS, CLASSES, list, NULL),
             name);
    }
    must(
        q,
        cst_write_predictions_csv(q, in_folder(w, "a.oof.csv"), w->p[0], ROWS, CLASSES, list, NULL),
        "a.oof.csv");
    must(q, cst_write_folds(q, in_folder(w, "oof_labels.npy"), w->labels, ROWS), "labels");
    must(q, cst_write_folds(q, in_folder(w, "test_labels.npy"), w->labels, ROWS / 2), "labels");
    for (int f = 0; f < 2; f++) {
        FILE *file = fopen(in_folder(w, f ? "plain/labels.csv" : "labels.csv"), "wb");
        if (!file || fprintf(file, "id,label\n") < 0)
            exit(1);
        for (int i = 0; i < ROWS; i++)
            (void)fprintf(file, "%s,%d\n", ids[i], (int)w->labels[i]);
        (void)fclose(file);
    }
    put_text(w, "wide.csv",
             "customer_id,label,fold,a:cat,a:dog,b:dog,b:cat\n"
             "u1,cat,0,.75,.25,.5,.5\nu2,dog,1,.25,.75,.75,.25\nu3,dog,0,.5,.5,.25,.75\n");
    put_text(w, "one.csv",
             "customer_id,y_true,p_dog,p_cat\nu3,dog,.5,.5\nu2,dog,.75,.25\nu1,cat,0,1\n");
    put_text(w, "two.csv", "customer_id,cat,dog\nu1,.75,.25\nu2,.25,.75\nu3,.5,.5\n");
    put_text(w, "pool.json",
             "{\"corestack_pool\": 1, \"task\": \"classification\", \"classes\": [\"x\", \"y\", "
             "\"z\"], \"splits\": {\"oof\": {\"labels\": \"oof_labels.npy\"}, \"test\": "
             "{\"labels\": \"test_labels.npy\"}}, \"models\": ["
             "{\"name\": \"a\", \"predictions\": {\"oof\": \"a.oof.npy\", \"test\": "
             "\"a.test.npy\"}},"
             "{\"name\": \"b\", \"predictions\": {\"oof\": \"b.oof.npy\", \"test\": "
             "\"b.test.npy\"}},"
             "{\"name\": \"c\", \"predictions\": {\"oof\": \"c.oof.npy\", \"test\": "
             "\"c.test.npy\"}}]}");
}

/* The fixture has three images; a nested fit needs more. */
enum { TWICE = 2 };

static void put_npy(world *w, const char *name, const char *type, int last, const void *data,
                    size_t bytes) {
    char head[128];
    FILE *file = fopen(in_folder(w, name), "wb");
    int length = snprintf(head, sizeof head,
                          last ? "{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d, %d, %d)"
                               : "{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d, %d)",
                          type, TWICE * map_images, map_height, map_width, last);
    length += snprintf(head + length, sizeof head - (size_t)length, ", }%*s\n",
                       (int)(118 - length - 4), "");
    const unsigned char start[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)length, 0};
    if (!file || fwrite(start, 1, sizeof start, file) != sizeof start ||
        fwrite(head, 1, (size_t)length, file) != (size_t)length ||
        fwrite(data, 1, bytes, file) != bytes || fwrite(data, 1, bytes, file) != bytes ||
        fclose(file) != 0)
        exit(1);
}

static void write_maps(world *w) {
    static float other[map_images * map_height * map_width * map_classes];
    size_t cells = sizeof other / sizeof other[0];
    memcpy(other, map_probabilities, sizeof other);
    for (size_t i = 0; i < cells; i += map_classes) {
        float first = other[i];
        other[i] = other[i + 1];
        other[i + 1] = first;
    }
    put_npy(w, "masks.npy", "<i4", 0, map_labels, sizeof map_labels);
    put_npy(w, "map_a.npy", "<f4", map_classes, map_probabilities, sizeof map_probabilities);
    put_npy(w, "map_b.npy", "<f4", map_classes, other, sizeof other);
    put_text(w, "maps.json",
             "{\"corestack_pool\": 1, \"task\": \"segmentation\", \"classes\": 5, \"splits\": "
             "{\"oof\": {\"labels\": \"masks.npy\"}}, \"models\": ["
             "{\"name\": \"a\", \"predictions\": {\"oof\": \"map_a.npy\"}},"
             "{\"name\": \"b\", \"predictions\": {\"oof\": \"map_b.npy\"}}]}");
}

static void write_boxes(world *w) {
    char text[4096];
    int used = snprintf(text, sizeof text,
                        "{\"corestack_pool\": 1, \"task\": \"detection\", \"splits\": {\"oof\": "
                        "{\"annotations\": \"%s/detection/fusion.gt.json\"}}, \"models\": [",
                        CST_TEST_DATA);
    for (int k = 0; k < 3; k++)
        used += snprintf(text + used, sizeof text - (size_t)used,
                         "%s{\"name\": \"%c\", \"predictions\": {\"oof\": "
                         "\"%s/detection/fusion.%d.json\"}}",
                         k ? "," : "", 'a' + k, CST_TEST_DATA, k);
    (void)snprintf(text + used, sizeof text - (size_t)used, "]}");
    put_text(w, "boxes.json", text);
}

static void open_pools(world *w) {
    static const char *const names[] = {"a", "b", "c"};
    const cst_pool_config outside = {.outside = 1};
    cst_context *q = w->quiet;
    must(q,
         cst_pool_from_memory(q, &w->pool, "oof", w->data, names, MEMBERS, ROWS, CLASSES, w->labels,
                              CST_OUTPUT_PROBABILITY),
         "pool");
    must(q,
         pool_from_values(q, &w->regression, "oof", w->values, names, MEMBERS, ROWS, OUTPUTS,
                          w->targets),
         "values");
    must(q, cst_pool_open(q, &w->files, in_folder(w, "pool.json"), NULL), "pool.json");
    must(q, cst_pool_load(q, w->files, "oof"), "oof");
    must(q, cst_pool_load(q, w->files, "test"), "test");
    must(q, cst_pool_open(q, &w->segmentation, in_folder(w, "maps.json"), NULL), "maps.json");
    must(q, cst_pool_load(q, w->segmentation, "oof"), "maps");
    must(q, cst_pool_open(q, &w->detection, in_folder(w, "boxes.json"), &outside), "boxes.json");
}

void world_make(world *w) {
    cst_context *q = NULL;
    temporary_path(w->folder, sizeof w->folder, "sweep");
    if (!mkdtemp(w->folder) || mkdir(in_folder(w, "plain"), 0777) != 0)
        exit(1);
    must(NULL, cst_context_create(&w->quiet), "context");
    q = w->quiet;
    must(q, cst_context_set_threads(q, 1), "threads");
    make_numbers(w);
    write_classes(w);
    write_maps(w);
    write_boxes(w);
    open_pools(w);
    must(q, cst_options_create(q, &w->options), "options");
    must(q, cst_options_set(q, w->options, "folds.count", "2"), "folds.count");
    must(q, cst_options_set(q, w->options, "segment.pixels", "200"), "segment.pixels");
    must(q, cst_options_set(q, w->options, "blend.rule", "uniform"), "blend.rule"); /* all stay */
    must(q, cst_fit(q, w->pool, "oof", w->options, &w->model, &w->report), "fit");
    must(q, cst_options_set(q, w->options, "blend.rule", "stacking"), "blend.rule");
    must(q, cst_fit(q, w->regression, "oof", w->options, &w->values_model, NULL), "fit of values");
    must(q, cst_fit(q, w->segmentation, "oof", w->options, &w->maps_model, NULL), "fit of maps");
    must(q, cst_fit(q, w->detection, "oof", w->options, &w->boxes_model, NULL), "fit of boxes");
    must(q, cst_model_save(q, w->model, in_folder(w, "model.cstack")), "save");
    static const char *const methods[] = {"average", "best-single"};
    const cst_compare_options options = {.methods = methods, .method_count = 2};
    must(q, cst_compare(q, w->pool, &options, &w->rows), "compare");
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk) {
    (void)info;
    (void)type;
    (void)walk;
    return remove(path);
}

void world_free(world *w) {
    cst_context *q = w->quiet;
    cst_report_free(q, w->rows);
    cst_report_free(q, w->report);
    cst_model_free(q, w->boxes_model);
    cst_model_free(q, w->maps_model);
    cst_model_free(q, w->values_model);
    cst_model_free(q, w->model);
    cst_pool_free(q, w->detection);
    cst_pool_free(q, w->segmentation);
    cst_pool_free(q, w->files);
    cst_pool_free(q, w->regression);
    cst_pool_free(q, w->pool);
    cst_options_free(q, w->options);
    cst_context_free(q);
    (void)nftw(w->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
