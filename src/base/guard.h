/*
 * Guards at the door of public calls: one thread at a time in a context, and handles that are
 * alive. The first statement after the results are cleared. Paper: none.
 */
#ifndef CST_BASE_GUARD_H
#define CST_BASE_GUARD_H

#include "base/private_api.h"

#include <corestack/context.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who is inside: the thread, as the address of something it alone has; 0: nobody. Calls nest, as
 * where a progress callback calls the library. */
typedef struct cst_owner {
    uintptr_t thread; /* read and written atomically */
    int depth;        /* the owner's business */
} cst_owner;

/* Whether this thread is inside now; false, and nothing changed, where another one is. */
bool cst_owner_take(cst_owner *owner);
void cst_owner_give(cst_owner *owner);

/* Enters a context; *entered is it, or NULL where that is refused: CST_ERROR_ARGUMENT for NULL and
 * (with checks of handles) a freed one, CST_ERROR_BUSY while another thread is inside. */
CST_PRIVATE_API cst_status cst_context_enter(cst_context *context, cst_context **entered);
CST_PRIVATE_API void cst_context_leave(cst_context **entered);

/* Enters `context` for the rest of the block, or returns why not. */
#if defined(__GNUC__)
#define CST_ENTER(context)                                                                         \
    __attribute__((cleanup(cst_context_leave))) cst_context *cst_entered = NULL;                   \
    do {                                                                                           \
        cst_status cst_refusal = cst_context_enter(context, &cst_entered);                         \
        if (cst_refusal != CST_OK)                                                                 \
            return cst_refusal;                                                                    \
    } while (0)
#else
#define CST_ENTER(context)                                                                         \
    do {                                                                                           \
        if (!(context))                                                                            \
            return CST_ERROR_ARGUMENT;                                                             \
    } while (0)
#endif

/* ---- sizes ---- */

/* An array that is said to be larger than any address space was not given: its size is a mistake,
 * and reading it would end the process.
 */

#define CST_ARRAY_BYTES ((uint64_t)1 << 56)

CST_PRIVATE_API cst_status cst_fail_size(cst_context *context, const char *call, int64_t rows,
                                         int64_t columns);
/* Whether rows x columns elements of so many bytes fit; also where there are less than none, which
 * calls refuse in words of their own. */
CST_PRIVATE_API bool cst_size_fits(int64_t rows, int64_t columns, size_t bytes);
#define CST_FITS(context, rows, columns, bytes)                                                    \
    do {                                                                                           \
        if (!cst_size_fits(rows, columns, bytes))                                                  \
            return cst_fail_size(context, __func__, rows, columns);                                \
    } while (0)

/* ---- seeds ---- */

/* Documents hold a seed as a number, and readers of JSON hold whole numbers to 2^53 exactly.
 */

#define CST_SEED_MAX ((uint64_t)1 << 53)

CST_PRIVATE_API cst_status cst_fail_seed(cst_context *context, const char *call, uint64_t seed);
#define CST_SEED(context, seed)                                                                    \
    do {                                                                                           \
        if ((seed) > CST_SEED_MAX)                                                                 \
            return cst_fail_seed(context, __func__, seed);                                         \
    } while (0)

/* ---- resamples ---- */

/* None (0), or as many as a bootstrap takes.
 */

enum { CST_RESAMPLES_MAX = 10000000 };

cst_status cst_fail_resamples(cst_context *context, const char *call, int32_t resamples);
#define CST_RESAMPLES(context, resamples)                                                          \
    do {                                                                                           \
        if ((resamples) < 0 || (resamples) > CST_RESAMPLES_MAX)                                    \
            return cst_fail_resamples(context, __func__, resamples);                               \
    } while (0)

/* ---- texts ---- */

/* An argument error that names the place where a list lacks a text; CST_OK where it is whole.
 */

cst_status cst_check_texts(cst_context *context, const char *call, const char *list,
                           const char *const *texts, int32_t count);

/* ---- handles ---- */

/* The first field of what a public handle points to says what it is, until it is freed. Only
 * programs that are wrong are stopped by looking at it, so it is looked at in debug builds
 * (CST_CHECK_HANDLES).
 */

typedef uint64_t cst_mark;
#define CST_MARK_CONTEXT 0x43535443544e5854u
#define CST_MARK_POOL 0x435354504f4f4c31u
#define CST_MARK_MODEL 0x4353544d4f444c31u
#define CST_MARK_REPORT 0x4353545245505431u
#define CST_MARK_OPTIONS 0x4353544f50544e31u
#define CST_MARK_PREDICTOR 0x4353545052445231u
#define CST_MARK_TENSORS 0x43535454454e5331u
#define CST_MARK_TENSOR_WRITER 0x4353545457524931u
#define CST_MARK_CHECKPOINTS 0x435354434b505431u
#define CST_MARK_ADAPTER 0x4353544144505431u
#define CST_MARK_GUARD 0x4353544752445231u
#define CST_MARK_LABELS 0x4353544c41424c31u
#define CST_MARK_MONITOR 0x4353544d4f4e4931u
#define CST_MARK_FREED 0xdeadc0dedeadc0deu

/* Writes FREED where the compiler may not leave it out. */
static inline void cst_mark_freed(cst_mark *mark) {
    *(volatile cst_mark *)mark = CST_MARK_FREED;
}

#ifdef CST_CHECK_HANDLES
bool cst_is_alive(const void *handle, cst_mark mark);
cst_status cst_fail_handle(cst_context *context, const char *call, const char *what);
/* The handle, or NULL if it was freed or is something else: for functions without a status. */
#define CST_ALIVE(handle, kind) (cst_is_alive(handle, CST_MARK_##kind) ? (handle) : NULL)
/* For functions with a status. `what`: "pool". */
#define CST_CHECK(context, handle, kind, what)                                                     \
    do {                                                                                           \
        if ((handle) && !cst_is_alive(handle, CST_MARK_##kind))                                    \
            return cst_fail_handle(context, __func__, what);                                       \
    } while (0)
#else
#define CST_ALIVE(handle, kind) (handle)
#define CST_CHECK(context, handle, kind, what) (void)0
#endif

#endif
