/*
 * A sweep: every public call that allocates, again and again with another allocation failing each
 * time, until none fails. alloc_sweep.c drives it, the sweep_*.c hold the calls.
 */
#ifndef SWEEP_H
#define SWEEP_H

#include "malloc_fault.h"
#include "temporary.h"

#include <corestack/files.h>
#include <corestack/more.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ROWS = 48, CLASSES = 3, MEMBERS = 3, OUTPUTS = 2 };

/* What the calls work on, made once and without failures. */
typedef struct world {
    cst_context *quiet; /* allocations on it are never made while one fails */
    cst_context *tried; /* that of the calls */
    char folder[TEMPORARY_CHARS];
    char path[512]; /* of the last call of in_folder */
    float p[MEMBERS][ROWS * CLASSES];
    float v[MEMBERS][ROWS * OUTPUTS];
    double targets[ROWS * OUTPUTS];
    int32_t labels[ROWS];
    int64_t groups[ROWS];
    const float *data[MEMBERS];
    const float *values[MEMBERS];
    cst_options *options;
    cst_pool *pool; /* classification, splits in memory */
    cst_pool *regression;
    cst_pool *segmentation; /* of files, loaded */
    cst_pool *detection;
    cst_pool *files; /* classification of files, with "oof" and "test", loaded */
    cst_model *model;
    cst_model *values_model;
    cst_model *maps_model;
    cst_model *boxes_model;
    cst_report *report;
    cst_report *rows; /* of a comparison */
} world;

/* One go at a call. */
typedef struct trial {
    world *w;
    cst_context *c; /* w->tried */
    int64_t after;  /* which allocation fails; -1: none */
    bool all;       /* and every one behind it */
    size_t least;   /* arrays from so many bytes on find no room on disk; 0: none does */
    int64_t seen;   /* allocations of the call */
    int64_t failed; /* of these */
    cst_status status;
    cst_status again;  /* of the same call once nothing fails */
    bool untouched;    /* results were NULL or as before after a failure */
    char message[512]; /* after a failure */
    uint64_t digest;   /* of the results */
} trial;

void trial_begin(trial *t);
void trial_end(trial *t, cst_status status);

/* Makes the call with the failure; where it failed, notes whether `clean` holds then, and makes it
 * once more without. */
#define TRY(t, call, clean)                                                                        \
    do {                                                                                           \
        trial_begin(t);                                                                            \
        trial_end(t, call);                                                                        \
        (t)->again = (t)->status;                                                                  \
        (t)->untouched = true;                                                                     \
        if ((t)->status != CST_OK) {                                                               \
            (t)->untouched = (clean);                                                              \
            (t)->again = (call);                                                                   \
        }                                                                                          \
    } while (0)

typedef struct sweep_call {
    const char *name; /* the function */
    const char *what; /* of which task, from where; or "" */
    void (*run)(trial *t);
} sweep_call;

extern const sweep_call SWEEP_SMALL[], SWEEP_FILES[], SWEEP_TASKS[], SWEEP_WEIGHTS[], SWEEP_SOUPS[],
    SWEEP_SHIFT[];
extern const size_t SWEEP_SMALL_COUNT, SWEEP_FILES_COUNT, SWEEP_TASKS_COUNT, SWEEP_WEIGHTS_COUNT,
    SWEEP_SOUPS_COUNT, SWEEP_SHIFT_COUNT;

/* The path of a file in the world's folder, until the next call. */
const char *in_folder(world *w, const char *name);

/* Results go into the digest; reports without what they say of time and memory. */
void add_bytes(trial *t, const void *bytes, size_t count);
void add_text(trial *t, const char *text);
void add_report(trial *t, const cst_report *report);
void add_model(trial *t, const cst_model *model);
void add_file(trial *t, const char *path);

/* A report without what a run says of time and of memory, which are not the same twice: the peak of
 * a process only grows, and the kernel counts it by processor, so that it moves on a busy machine.
 * To be freed in w->quiet. */
char *steady_report(world *w, const cst_report *report);

void world_make(world *w);
void world_free(world *w);
/* What the calls of sweep_shift.c work on, before and after these. */
void shift_make(world *w);
void shift_free(world *w);
/* Ends the program with a message unless all is well. */
void must(cst_context *context, cst_status status, const char *what);

#endif
