/* Work shared by several processes (ranks): all make the same calls with the same arguments, each
 * computes its part of rows and members, and results do not depend on their number.
 * The library only knows these functions; <corestack/mpi.h> implements them with MPI. */
#ifndef CORESTACK_COLLECTIVES_H
#define CORESTACK_COLLECTIVES_H

#include <corestack/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Merges `right` [right_count bytes], a higher range of ranks, into `left`, the range of ranks
 * before it: [left_count] bytes in a buffer of `capacity`. Returns how many bytes `left` then has.
 */
typedef size_t (*cst_merge_fn)(void *user, void *left, size_t left_count, size_t capacity,
                               const void *right, size_t right_count);

/* What ranks do together. Every rank makes the same calls in the same order. The functions are
 * called with `self`, by one thread at a time, and return 0, or another number where communication
 * failed; then the call of the library fails with CST_ERROR_IO. */
typedef struct cst_collectives {
    size_t struct_size; /* sizeof(cst_collectives), or 0 for the fields of version 0.1 */
    void *self;
    int rank;         /* of this process, 0 to size - 1 */
    int size;         /* number of ranks, at least 1 */
    const char *host; /* name of this machine, for messages; NULL: unknown */
    /* Each rank gives `count` bytes at `part`; all of them get those of every rank, in the order of
     * ranks, into `all`. counts: [size], what each rank gives. `part` may lie in `all`, at its
     * place. */
    int (*allgather)(void *self, const void *part, size_t count, void *all, const size_t *counts);
    /* Each rank gives *count bytes; all of them get in the same buffer, and in *count, what the
     * merges of neighbouring ranges of ranks leave. A message is never longer than the capacity of
     * a rank that takes it, or `merge` cuts it. NULL: it is made of allgather. */
    int (*allreduce)(void *self, void *bytes, size_t *count, size_t capacity, cst_merge_fn merge,
                     void *user);
} cst_collectives;

/* Gives the context its ranks; NULL takes them away. The structure is copied; `self` and `host`
 * must stay valid. All ranks must call it before any other work. It compares the version of the
 * library and the machine's instruction set across ranks, takes the lowest memory limit of all
 * ranks, divides the cores and the memory of a machine among its ranks (by `host`) where threads
 * and memory are the default, and measures how long an exchange takes. CST_ERROR_ARGUMENT if they
 * differ, CST_ERROR_IO if communication fails. Predictions of pools stay on disk, and each rank
 * reads the rows that it needs: files must be readable by every rank under the same names. Arrays
 * must have all rows on every rank. */
CST_API cst_status cst_context_set_collectives(cst_context *context,
                                               const cst_collectives *collectives);

/* Returns the number of ranks; 1 without collectives. */
CST_API int cst_context_ranks(const cst_context *context);

/* Ends a step in which a rank may have failed by itself: `status` is what it came to here, with
 * `message` (NULL: the last error). Returns the failure of the lowest rank that failed, with its
 * message and host, on every rank; CST_OK if none did. A rank whose call of the library failed must
 * call it before anything else: the other ranks are then told, in whatever call they are. Without
 * collectives it returns `status`. */
CST_API cst_status cst_context_agree(cst_context *context, cst_status status, const char *message);

/* CST_ERROR_ARGUMENT, on every rank, if the texts that ranks give differ: options, names of files.
 * what: "the options", for the message. */
CST_API cst_status cst_context_same(cst_context *context, const char *what, const char *text);

#ifdef __cplusplus
}
#endif
#endif
