/* The ground floor: errors, notices, checked allocation, parallel loops over fixed blocks, random
 * numbers. Every folder may include it. docs/architecture.md#sums-over-fixed-blocks. */
#pragma once

#include "core/arguments.h"
#include "core/number.h"

#include <corestack/context.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows per block. Every statistic is a sum over blocks of this many rows, reduced in block order,
 * so that the bytes of a result depend neither on the number of threads nor on that of ranks. */
#define CST_BLOCK_ROWS 512

/* Whether rows have numbers [outputs] of their own, with targets of that shape. */
static inline bool cst_task_has_outputs(cst_task task) {
    return task == CST_TASK_REGRESSION || task == CST_TASK_MULTILABEL;
}

/* Its name in messages, with what it is where the name does not say it. */
const char *cst_task_text(cst_task task);

/* ---- errors and notices ---- */

/* Records a message and returns `code`, so that `return cst_fail(...)` and `status = cst_fail(...)`
 * read well. Safe to call from a parallel loop only through cst_parallel_for, which keeps the
 * first. */
cst_status cst_fail(cst_context *context, cst_status code, const char *format, ...)
    CST_PRINTF(3, 4);

/* Runs a step, or returns its failure from the function. Memory comes from a scope (scope.h). */
#define CST_TRY(...)                                                                               \
    do {                                                                                           \
        cst_status cst_tried = (__VA_ARGS__);                                                      \
        if (cst_tried != CST_OK)                                                                   \
            return cst_tried;                                                                      \
    } while (0)

/* Runs a step if `status` is still CST_OK: for functions that clean up at their end. */
#define CST_THEN(...)                                                                              \
    do {                                                                                           \
        if (status == CST_OK)                                                                      \
            status = (__VA_ARGS__);                                                                \
    } while (0)

#ifdef __clang_analyzer__
/* The analyzer sees one file at a time: this tells it that what cst_fail returns is `code`. */
static inline cst_status cst_same_code(cst_status code, cst_status returned) {
    (void)returned;
    return code;
}
#define cst_fail(context, code, ...) cst_same_code(code, cst_fail(context, code, __VA_ARGS__))
#endif

/* A thing the user should know although the work goes on. Goes to the logger as a warning and is
 * kept in the context for the report, unless the context is muted (nested refits repeat what was
 * said). */
void cst_notice(cst_context *context, const char *format, ...) CST_PRINTF(2, 3);
void cst_log(cst_context *context, cst_log_level level, const char *format, ...) CST_PRINTF(3, 4);
/* Whether notices are dropped; calls nest. Tasks of a parallel loop leave none, whether a worker
 * or the caller runs them: what is said must not depend on the number of threads. */
void cst_mute(cst_context *context, bool on);

/* Puts a subject ("ridge") before each notice from here on. NULL: none. */
void cst_notice_about(cst_context *context, const char *what);

size_t cst_notice_count(const cst_context *context);
const char *cst_notice_at(const cst_context *context, size_t index);
/* Whether one is missing for want of memory. */
bool cst_notices_lost(const cst_context *context);
void cst_notices_clear(cst_context *context);

/* Reports progress; CST_ERROR_CANCELLED (with a message) when the callback asks to stop. */
cst_status cst_progress(cst_context *context, const char *stage, int64_t done, int64_t total);

/* Names what comes next, for progress: until the next stage, the progress told is how many tasks of
 * the outermost loop are done. What notices are about is put before the name. Only on the caller's
 * own context; workers' stages are not told. */
cst_status cst_stage(cst_context *context, const char *stage);

/* For cst_context_progress. The next stage is this share of what is left of its part; else a fifth.
 * What runs between `begin` and `end`, which takes what `begin` gave, is a part, of what was left
 * of the part around it. At the end of a call all of it is done: told as this stage. */
void cst_stage_share(cst_context *context, double share);
double cst_part_begin(cst_context *context, double share);
void cst_part_end(cst_context *context, double end);
cst_status cst_progress_end(cst_context *context, const char *stage);

/* For loops: a stage's count of tasks begins, one of them is done, it ends. Only the outermost loop
 * of a named stage counts: `begin` says whether this is it. */
bool cst_count_begin(cst_context *context, int64_t total);
void cst_count_one(cst_context *context);
void cst_count_end(cst_context *context);

/* Asks the progress callback again, with what it was last told and at most every 50 ms, whether to
 * stop: on the caller's thread, on others it tells what was answered there. CST_ERROR_CANCELLED as
 * cst_progress. The loops below do so before every task. */
cst_status cst_poll(cst_context *context);
/* For readers of files, also where there is no stage: after those 50 ms "reading", 0 of 1, is told.
 * cst_bytes_read does so. */
cst_status cst_poll_reading(cst_context *context);
/* For item i = 0, 1, ... of a loop over many small things that were read: at every 1,024th. */
static inline cst_status cst_poll_item(cst_context *context, int64_t i) {
    return i % 1024 == 0 ? cst_poll_reading(context) : CST_OK;
}
/* Keeps to the memory budget without asking anybody: for loops that cannot be stopped. */
void cst_trim(cst_context *context);
static inline void cst_trim_item(cst_context *context, int64_t i) {
    if (i % 1024 == 0)
        cst_trim(context);
}
/* At once, while a file or a pipe is waited for; where there is no stage, `what` is at 0 of 1. On
 * another thread than the caller's it asks nobody, and stops when the caller did. */
cst_status cst_poll_waiting(cst_context *context, const char *what);
/* After so many waits of 50 ms the caller should know what is waited for. */
enum { CST_WAITS_SAID = 40 };
/* At the end of a parallel loop: a stop that was asked for is over when the caller knows of it. */
void cst_poll_done(cst_context *context);

/* Whether formulas in csv files are kept (cst_context_set_formulas). */
bool cst_context_keeps_formulas(const cst_context *context);
/* Columns of reports as text (cst_context_set_width); 0: the default. */
int cst_context_width(const cst_context *context);

/* A child with the parent's allocator, one thread, no logger, no progress of its own and its own
 * error: for work that runs inside a parallel task. same_thread: it is used on the parent's thread.
 * Free with cst_context_free. */
cst_status cst_context_child(cst_context **out, cst_context *parent, bool same_thread);

/* Copies a child's error message into the parent and returns `code`. */
cst_status cst_adopt_error(cst_context *parent, const cst_context *child, cst_status code);

/* The result of a public call for `status`: cst_alloc gives NULL for want of memory and where there
 * is no temporary file for a large array, and the second is no CST_ERROR_MEMORY. */
cst_status cst_why(const cst_context *context, cst_status status);

/* Around a function that the caller of the library gave: what it calls of the library has notices
 * and progress of its own. `end` takes what `begin` gave. */
typedef struct cst_run cst_run;
cst_run *cst_calling_begin(cst_context *context);
void cst_calling_end(cst_context *context, cst_run *run);

/* ---- memory ---- */

/* count * size zeroed bytes, 64-byte aligned, or NULL with the error recorded (CST_ERROR_MEMORY). A
 * count of 0 gives a valid pointer. Thread-safe (but for the error message). */
void *cst_alloc(cst_context *context, size_t count, size_t size);

/* For memory read and written here and there, a hash table above all, which would be slow in a
 * file: it stays in memory where the budget has any room for it. */
void *cst_alloc_scattered(cst_context *context, size_t count, size_t size);

/* For one of many parts that are large together: counted from 64 KiB on. */
void *cst_alloc_counted(cst_context *context, size_t count, size_t size);

/* Grows an array got from cst_alloc to `count` elements, keeping what it holds (the new part is not
 * zeroed). NULL with the error recorded, and the old array still valid, on failure. */
void *cst_grow(cst_context *context, void *pointer, size_t old_count, size_t count, size_t size);

/* A list of `count` elements that only grew by this, or NULL, with room for one more: the room
 * doubles. */
void *cst_grow_list(cst_context *context, void *list, size_t count, size_t size);

/* Whether the process may have so many bytes more. promised: that the system has to promise. */
bool cst_has_room(size_t bytes, bool promised);

/* Opens an unlinked temporary file of `bytes` reserved bytes, for reading and writing. */
cst_status cst_temporary_file(cst_context *context, size_t bytes, int *fd);

/* memcpy of large arrays: what is copied leaves memory where the budget asks for it. */
void cst_copy(cst_context *context, void *to, const void *from, size_t bytes);

/* qsort of what may be large: an array of the same size is taken for a while, within the budget.
 * Items that compare equal keep their order where qsort keeps it. */
typedef int (*cst_compare_fn)(const void *a, const void *b);
cst_status cst_sort(cst_context *context, void *items, size_t count, size_t size,
                    cst_compare_fn compare);

/* Order of numbers, of text and of structs, for cst_sort, qsort and bsearch. */
int cst_by_f64(const void *a, const void *b);
int cst_by_i64(const void *a, const void *b);
int cst_by_u64(const void *a, const void *b);
int cst_by_u32(const void *a, const void *b);
int cst_by_text(const void *a, const void *b);

/* CST_BY(name, type, first, second, third) defines a comparator of structs by up to three fields,
 * each CST_UP(field), CST_DOWN(field) or 0. */
#define CST_UP(key) ((x->key > y->key) - (x->key < y->key))
#define CST_DOWN(key) ((x->key < y->key) - (x->key > y->key))
#define CST_BY(name, type, first, second, third)                                                   \
    static int name(const void *a, const void *b) {                                                \
        const type *x = a;                                                                         \
        const type *y = b;                                                                         \
        int order = (first);                                                                       \
        order = order ? order : (second);                                                          \
        return order ? order : (third);                                                            \
    }

/* A copy of a string; NULL with the error recorded on failure. */
char *cst_strdup(cst_context *context, const char *text);

/* printf into a new string; NULL with the error recorded on failure. */
char *cst_format(cst_context *context, const char *format, ...) CST_PRINTF(2, 3);

/* Checked arithmetic on sizes: false on overflow. */
bool cst_size_mul(size_t a, size_t b, size_t *out);
bool cst_size_add(size_t a, size_t b, size_t *out);

/* Wall-clock seconds from an arbitrary origin, monotonic. */
double cst_seconds(void);

/* ---- growing bytes, for model files, headers and the text of reports ---- */

/* Zero-initialise but for the context. After a failure every call does nothing. */
typedef struct cst_buffer {
    cst_context *context;
    char *bytes; /* [used] and a NUL behind them, freed with cst_free; NULL before the first call */
    size_t used;
    size_t room;
    cst_status status; /* of the first failure; others may set it too */
} cst_buffer;

void cst_buffer_add(cst_buffer *buffer, const void *bytes, size_t count);
void cst_buffer_add_text(cst_buffer *buffer, const char *text);

/* ---- archives, safetensors and gzip files that one call reads several arrays from: opened and
 * parsed once ---- */

struct stat;
typedef void (*cst_call_file_free_fn)(cst_context *context, void *value);

/* Returns the value that this call has added for `path` with the same `release`, or NULL. It stays
 * valid until the call ends. *fd is a duplicate for the caller to close, or -1 if the file was
 * added without a descriptor; *info is its status. Thread-safe. */
const void *cst_call_file_find(cst_context *context, const char *path,
                               cst_call_file_free_fn release, int *fd, struct stat *info);

/* Takes over `value`, which has `bytes` bytes and must not change any more. Duplicates fd (-1: the
 * value is all that is needed). Returns false, and takes nothing, beyond 64 MiB or a quarter of the
 * memory limit, beyond 16 open files, and outside of calls. Thread-safe. */
bool cst_call_file_add(cst_context *context, const char *path, int fd, const struct stat *info,
                       void *value, size_t bytes, cst_call_file_free_fn release);

/* ---- parallel loops ---- */

/* Task 0..count-1 of a loop. It records a failure by cst_fail on `worker`, which is private to the
 * thread, and returns it. The failure of the lowest task is reported, whatever the timing. */
typedef cst_status (*cst_task_fn)(cst_context *worker, void *user, int64_t task);
cst_status cst_parallel_for(cst_context *context, int64_t count, cst_task_fn task, void *user);

/* An array that the tasks of a loop fill: task i writes [bytes] at base + i * bytes, the last one
 * what is left of `total`. */
typedef struct cst_share {
    void *base;
    size_t bytes;
    size_t total;
    const int64_t *bounds; /* of cst_ranks_fill: rank r fills elements bounds[r] to bounds[r + 1] -
                              1; NULL: those of its tasks */
} cst_share;

/* The share of tasks that fill `rows` rows of `width` bytes, a block at a time. */
static inline cst_share cst_share_rows(void *base, int64_t rows, size_t width) {
    return (cst_share){base, CST_BLOCK_ROWS * width, (size_t)rows * width, NULL};
}
/* The share of `count` tasks that fill `width` bytes each. */
static inline cst_share cst_share_tasks(void *base, int64_t count, size_t width) {
    return (cst_share){base, width, (size_t)count * width, NULL};
}

/* cst_parallel_for whose tasks write nothing but these arrays: ranks divide the tasks among them
 * and give each other what they filled. */
cst_status cst_parallel_fill(cst_context *context, int64_t count, cst_task_fn task, void *user,
                             const cst_share *filled, int32_t arrays);

/* For arrays that only the rank itself will read, in loops that divide as many tasks: each rank
 * runs its own. Parts begin at a multiple of `grain`. */
cst_status cst_parallel_own(cst_context *context, int64_t count, int64_t grain, cst_task_fn task,
                            void *user);

/* cst_parallel_for whose tasks read what a rank keeps of its own rows only: where work is shared
 * they run one after another, all ranks in each of them. */
cst_status cst_parallel_turns(cst_context *context, int64_t count, cst_task_fn task, void *user);

/* For few long tasks with parallel loops of their own: as many as fill every thread run side by
 * side, those left over (the fifth of five on two threads) one at a time, with their loops in
 * parallel. */
cst_status cst_parallel_long(cst_context *context, int64_t count, cst_task_fn task, void *user);

/* Adds the terms of blocks 0..blocks-1 (`width` doubles, zeroed before `term` adds to `sum`) to
 * `total` (overwritten) in a fixed binary tree (core/ranks.h), whatever thread or rank computed
 * them. Memory: a fixed number of terms at a time. */
typedef cst_status (*cst_block_fn)(cst_context *worker, void *user, int64_t block, double *sum);
cst_status cst_reduce_blocks(cst_context *context, int64_t blocks, size_t width, cst_block_fn term,
                             void *user, double *total);
/* A sum whose terms also fill arrays, as in cst_parallel_fill. */
cst_status cst_reduce_fill(cst_context *context, int64_t blocks, size_t width, cst_block_fn term,
                           void *user, double *total, const cst_share *filled, int32_t arrays);
/* cst_reduce_blocks where parts of ranks begin at a multiple of `grain` blocks. square: the last
 * square x square of the numbers are a matrix of which only the lower triangle counts and is sent
 * to other ranks; 0: they are none. */
cst_status cst_reduce_grained(cst_context *context, int64_t blocks, int64_t grain, size_t width,
                              size_t square, cst_block_fn term, void *user, double *total);

/* Number of blocks of CST_BLOCK_ROWS rows that cover `rows`, and the rows of one block. */
static inline int64_t cst_block_count(int64_t rows) {
    return rows / CST_BLOCK_ROWS + (rows % CST_BLOCK_ROWS != 0);
}
static inline int64_t cst_block_first(int64_t block) {
    return block * CST_BLOCK_ROWS;
}
static inline int64_t cst_block_size(int64_t rows, int64_t block) {
    int64_t left = rows - block * CST_BLOCK_ROWS;
    return left < CST_BLOCK_ROWS ? left : CST_BLOCK_ROWS;
}

/* ---- random numbers ---- */

/* Purposes of random streams: a seed gives each an independent sequence. Values are pinned. */
typedef enum cst_stream {
    CST_STREAM_FOLDS = 1,
    CST_STREAM_BANDWIDTH = 2,
    CST_STREAM_LANDMARKS = 3,
    CST_STREAM_PROBES = 4,
    CST_STREAM_GATE_INIT = 5,
    CST_STREAM_GATE_ROWS = 6,
    CST_STREAM_GATE_SHUFFLE = 7,
    CST_STREAM_BOOTSTRAP = 8,
    CST_STREAM_GREEDY = 9,
    CST_STREAM_SUBSETS = 10,
    CST_STREAM_PIXELS = 14,
    CST_STREAM_SWAG = 15,      /* a number for each parameter */
    CST_STREAM_SWAG_RANK = 16, /* a number for each column of deviations */
    CST_STREAM_CONFORMAL = 20,
    CST_STREAM_HALVES = 21,
    CST_STREAM_PLANTED = 22,  /* perturbations and permutations that a check plants */
    CST_STREAM_DIVISION = 23, /* rows that are held out of repeated fits */
    CST_STREAM_NOVELTY = 26,  /* reference rows of a fit */
    CST_STREAM_MONITOR = 31,  /* the order in which rows of a batch are tested */
    CST_STREAM_TEST = 100
} cst_stream;

/* Counter-based generator (Philox 4x32-10 of Random123): the k-th number of (seed, stream,
 * substream) is the same on every machine and may be reached without drawing those before it. */
typedef struct cst_rng {
    uint32_t key[2];
    uint32_t counter[4];
    uint32_t buffer[4];
    int used;
} cst_rng;

void cst_rng_init(cst_rng *rng, uint64_t seed, cst_stream stream, uint32_t substream);
uint32_t cst_rng_u32(cst_rng *rng);
uint64_t cst_rng_u64(cst_rng *rng);
double cst_rng_uniform(cst_rng *rng);               /* [0, 1), 53 bits */
double cst_rng_normal(cst_rng *rng);                /* mean 0, variance 1 */
int64_t cst_rng_below(cst_rng *rng, int64_t bound); /* 0..bound-1 without bias; bound >= 1 */
void cst_rng_shuffle(cst_rng *rng, int64_t *items, int64_t count);

/* Returns the number of threads in use, at least 1. */
int cst_context_threads(const cst_context *context);

/* Returns the memory limit in bytes. */
size_t cst_context_memory(const cst_context *context);
