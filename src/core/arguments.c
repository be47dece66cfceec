/* Checks the arguments of public calls. cst_context_enter is in context.c. */
#include <string.h>

#include "core/arguments.h"

#include "core/base.h"

bool cst_size_fits(int64_t rows, int64_t columns, size_t bytes) {
    uint64_t cells = 0;
    if (rows <= 0 || columns <= 0)
        return true;
    return !__builtin_mul_overflow((uint64_t)rows, (uint64_t)columns, &cells) &&
           cells < CST_ARRAY_BYTES / bytes;
}

cst_status cst_fail_size(cst_context *context, const char *call, int64_t rows, int64_t columns) {
    return cst_fail(context, CST_ERROR_LIMIT,
                    "%s: an array of %lld x %lld numbers does not fit into memory; check the sizes",
                    call, (long long)rows, (long long)columns);
}

cst_status cst_fail_count(cst_context *context, const char *call, const char *what, int64_t count) {
    return cst_fail(context, CST_ERROR_ARGUMENT, "%s: %s is %lld; at most %d are supported", call,
                    what, (long long)count, (int)INT32_MAX);
}

cst_status cst_fail_seed(cst_context *context, const char *call, uint64_t seed) {
    return cst_fail(context, CST_ERROR_ARGUMENT,
                    "%s: the seed must be 0 to %llu, the largest integer that JSON documents hold "
                    "exactly, got %llu",
                    call, (unsigned long long)CST_SEED_MAX, (unsigned long long)seed);
}

cst_status cst_fail_resamples(cst_context *context, const char *call, int64_t resamples) {
    return cst_fail(context, CST_ERROR_ARGUMENT, "%s: resamples must be 0 to %d, got %lld", call,
                    CST_RESAMPLES_MAX, (long long)resamples);
}

cst_status cst_struct_read(cst_context *context, const char *call, const void *given, size_t first,
                           void *own, size_t size) {
    size_t theirs = 0;
    if (!given)
        return CST_OK;
    memcpy(&theirs, given, sizeof theirs);
    theirs = theirs == 0 ? first : theirs;
    if (theirs < sizeof theirs)
        return cst_fail(context, CST_ERROR_ARGUMENT, "%s: struct_size is %zu; set it to sizeof",
                        call, theirs);
    for (size_t i = size; i < theirs; i++)
        if (((const char *)given)[i] != 0)
            return cst_fail(context, CST_ERROR_UNSUPPORTED,
                            "%s: the struct has settings of a later version of the library", call);
    memcpy(own, given, theirs < size ? theirs : size);
    return CST_OK;
}

cst_status cst_check_texts(cst_context *context, const char *call, const char *list,
                           const char *const *texts, int64_t count) {
    if (count > INT32_MAX)
        return cst_fail_count(context, call, list, count);
    for (int64_t i = 0; i < count; i++)
        if (!texts || !texts[i])
            return cst_fail(context, CST_ERROR_ARGUMENT, "%s: string %d of the %d of `%s` is NULL",
                            call, (int)i, (int)count, list);
    return CST_OK;
}
