/* First statements of a public function, after its results are cleared; each returns an error from
 * it. */
#pragma once

#include <corestack/context.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Clears a result that the caller may leave out. */
#define CST_CLEAR(out)                                                                             \
    do {                                                                                           \
        if (out)                                                                                   \
            *(out) = 0;                                                                            \
    } while (0)

/* Refuses a call without what it needs. */
#define CST_NEED(context, given, needs)                                                            \
    do {                                                                                           \
        if (!(given))                                                                              \
            return cst_fail(context, CST_ERROR_ARGUMENT, "%s: %s", __func__, needs);               \
    } while (0)

/* Begins a public call, which may be one from a callback of another. *entered is the context, or
 * NULL on failure: CST_ERROR_ARGUMENT for no context. */
cst_status cst_context_enter(cst_context *context, cst_context **entered);
/* Ends it. */
void cst_context_leave(cst_context **entered);

/* Enters `context` until the end of the block, or returns the error. */
#define CST_ENTER(context)                                                                         \
    __attribute__((cleanup(cst_context_leave))) cst_context *cst_entered = NULL;                   \
    do {                                                                                           \
        cst_status cst_refusal = cst_context_enter(context, &cst_entered);                         \
        if (cst_refusal != CST_OK)                                                                 \
            return cst_refusal;                                                                    \
    } while (0)

/* ---- sizes ---- */

/* An array that is said to be larger than any address space was not given: its size is a mistake,
 * and reading it would end the process. */

#define CST_ARRAY_BYTES ((uint64_t)1 << 56)

cst_status cst_fail_size(cst_context *context, const char *call, int64_t rows, int64_t columns);
/* Whether rows x columns elements of so many bytes fit; also where there are less than none, which
 * calls refuse in words of their own. */
bool cst_size_fits(int64_t rows, int64_t columns, size_t bytes);
#define CST_FITS(context, rows, columns, bytes)                                                    \
    do {                                                                                           \
        if (!cst_size_fits(rows, columns, bytes))                                                  \
            return cst_fail_size(context, __func__, rows, columns);                                \
    } while (0)

/* ---- counts ---- */

/* Counts of the interface are int64_t, those inside int32_t where they number members or classes.
 * Declares `name` as the count `given`, or returns the error that it is too large. */
cst_status cst_fail_count(cst_context *context, const char *call, const char *what, int64_t count);
#define CST_COUNT(context, name, given)                                                            \
    const int32_t name = (int32_t)(given);                                                         \
    if ((given) != (name))                                                                         \
    return cst_fail_count(context, __func__, #name, given)

/* ---- seeds ---- */

/* Documents hold a seed as a number, and readers of JSON hold whole numbers to 2^53 exactly. */

#define CST_SEED_MAX ((uint64_t)1 << 53)

cst_status cst_fail_seed(cst_context *context, const char *call, uint64_t seed);
#define CST_SEED(context, seed)                                                                    \
    do {                                                                                           \
        if ((seed) > CST_SEED_MAX)                                                                 \
            return cst_fail_seed(context, __func__, seed);                                         \
    } while (0)

/* ---- resamples ---- */

/* None (0), or as many as a bootstrap takes. */

enum { CST_RESAMPLES_MAX = 10000000 };

cst_status cst_fail_resamples(cst_context *context, const char *call, int64_t resamples);
#define CST_RESAMPLES(context, resamples)                                                          \
    do {                                                                                           \
        if ((resamples) < 0 || (resamples) > CST_RESAMPLES_MAX)                                    \
            return cst_fail_resamples(context, __func__, resamples);                               \
    } while (0)

/* ---- structs ---- */

/* A struct that the caller passes begins with its size, so that fields can be added to it. Copies
 * `given` (NULL: nothing) to the zeroed `own`; `first` is the size that a given size of 0 stands
 * for. CST_ERROR_UNSUPPORTED if fields that this version does not know are set. */
cst_status cst_struct_read(cst_context *context, const char *call, const void *given, size_t first,
                           void *own, size_t size);
/* `name` points to a copy of *given; NULL for NULL. */
#define CST_STRUCT(context, type, name, given)                                                     \
    type name##_own = {0};                                                                         \
    const type *const name = (given) ? &name##_own : NULL;                                         \
    do {                                                                                           \
        cst_status cst_read =                                                                      \
            cst_struct_read(context, __func__, given, sizeof(type), &name##_own, sizeof(type));    \
        if (cst_read != CST_OK)                                                                    \
            return cst_read;                                                                       \
    } while (0)

/* ---- texts ---- */

/* An argument error that names the place where a list lacks a text; CST_OK where it is whole. */

cst_status cst_check_texts(cst_context *context, const char *call, const char *list,
                           const char *const *texts, int64_t count);
