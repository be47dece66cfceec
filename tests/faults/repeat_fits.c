/*
 * The same bytes again: fits of every task are repeated on a machine that is kept busy, with other
 * numbers of threads, other memory budgets, blocks that come full of noise and lie elsewhere, and
 * pools opened anew, whose ids are looked up under another key. Model and report are those of the
 * first fit, byte by byte. Arguments: how often each (8), and how many threads keep the machine
 * busy (4).
 */
#include "sweep.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUSY_MAX = 64 };

static int stop;

static void *burn(void *user) {
    volatile double x = 1;
    (void)user;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        for (int i = 0; i < 100000; i++)
            x = x * 1.0000001 + 1e-9;
    return NULL;
}

/* ---- memory that is never the same ---- */

static uint32_t noise_state = 1;

static uint32_t noise(void) {
    uint32_t was = __atomic_fetch_add(&noise_state, 2654435769u, __ATOMIC_RELAXED);
    was = (was ^ was >> 16) * 0x7feb352du;
    return was ^ was >> 15;
}

enum { HEAD = 64 };

/* A head with the size, then the block; what it holds at first is noise. */
static void *noisy(void *user, void *pointer, size_t bytes) {
    (void)user;
    char *was = pointer ? (char *)pointer - HEAD : NULL;
    if (bytes == 0) {
        free(was);
        return NULL;
    }
    size_t old = 0;
    if (was)
        memcpy(&old, was, sizeof old);
    char *block = malloc(HEAD + bytes + noise() % 4096);
    if (!block)
        return NULL;
    memcpy(block, &bytes, sizeof bytes);
    memset(block + HEAD, (int)(noise() & 0xff), bytes);
    if (was)
        memcpy(block + HEAD, was + HEAD, old < bytes ? old : bytes);
    free(was);
    return block + HEAD;
}

/* ---- fits ---- */

typedef struct result {
    void *model;
    size_t size;
    char *report;
} result;

static void result_free(world *w, result *r) {
    cst_free(w->quiet, r->model);
    cst_free(w->quiet, r->report);
    *r = (result){0};
}

static result fit(world *w, cst_context *c, cst_pool *pool) {
    result out = {0};
    cst_model *model = NULL;
    cst_report *report = NULL;
    must(c, cst_fit(c, pool, "oof", w->options, &model, &report), "fit");
    must(w->quiet, cst_model_save_memory(w->quiet, model, &out.model, &out.size), "model");
    out.report = steady_report(w, report);
    cst_model_free(c, model);
    cst_report_free(c, report);
    return out;
}

/* The folder with ids in its files, opened anew. */
static result fit_folder(world *w, cst_context *c) {
    cst_pool *pool = NULL;
    must(c, cst_pool_open(c, &pool, in_folder(w, "plain"), NULL), "folder");
    result out = fit(w, c, pool);
    cst_pool_free(c, pool);
    return out;
}

static int differs(const char *name, const result *first, const result *now, const char *how) {
    int wrong = 0;
    if (first->size != now->size || memcmp(first->model, now->model, now->size) != 0) {
        const unsigned char *a = first->model;
        const unsigned char *b = now->model;
        size_t at = 0;
        while (at < first->size && at < now->size && a[at] == b[at])
            at++;
        (void)printf("%s, %s: the models differ from byte %zu on\n", name, how, at);
        wrong++;
    }
    if (strcmp(first->report, now->report) != 0) {
        size_t at = 0;
        while (first->report[at] && first->report[at] == now->report[at])
            at++;
        while (at > 0 && first->report[at - 1] != '\n')
            at--;
        (void)printf("%s, %s: the reports differ:\n%.*s\n%.*s\n", name, how,
                     (int)strcspn(first->report + at, "\n"), first->report + at,
                     (int)strcspn(now->report + at, "\n"), now->report + at);
        wrong++;
    }
    return wrong;
}

static int repeat(world *w, const char *name, cst_pool *pool, int64_t times) {
    static const int threads[] = {1, 2, 5, 3};
    static const size_t memory[] = {0, (size_t)64 << 20, (size_t)200 << 20};
    int wrong = 0;
    result first = pool ? fit(w, w->quiet, pool) : fit_folder(w, w->quiet);
    if (strstr(first.report, "\"seconds") || strstr(first.report, "\"peak_rss")) {
        (void)printf("%s: time or memory are among what is compared\n", name);
        wrong++;
    }
    for (int64_t i = 0; i < times; i++) {
        char how[96];
        cst_context *c = NULL;
        must(NULL, cst_context_create_with(&c, noisy, NULL), "context");
        must(c, cst_context_set_threads(c, threads[i % 4]), "threads");
        must(c, cst_context_set_memory(c, memory[i % 3]), "memory");
        (void)snprintf(how, sizeof how, "%d threads, %zu bytes of memory, fit %lld", threads[i % 4],
                       memory[i % 3], (long long)i);
        result now = pool ? fit(w, c, pool) : fit_folder(w, c);
        wrong += differs(name, &first, &now, how);
        result_free(w, &now);
        cst_context_free(c);
    }
    result_free(w, &first);
    return wrong;
}

int main(int argc, char **argv) {
    static world w;
    pthread_t busy[BUSY_MAX];
    int64_t times = argc > 1 ? strtoll(argv[1], NULL, 10) : 8;
    int burners = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 4;
    int wrong = 0;
    if (burners > BUSY_MAX)
        burners = BUSY_MAX;
    world_make(&w);
    for (int i = 0; i < burners; i++)
        if (pthread_create(&busy[i], NULL, burn, NULL) != 0)
            return 1;
    wrong += repeat(&w, "classification", w.pool, times);
    wrong += repeat(&w, "files with ids", NULL, times);
    wrong += repeat(&w, "regression", w.regression, times);
    wrong += repeat(&w, "segmentation", w.segmentation, times);
    wrong += repeat(&w, "detection", w.detection, times);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < burners; i++)
        (void)pthread_join(busy[i], NULL);
    world_free(&w);
    (void)printf("%d of %lld fits differ\n", wrong, (long long)(5 * times));
    return wrong ? 1 : 0;
}
