/* Status codes. One X-macro is the only list: the enumeration, the names and the texts come from
 * it. Values are pinned; a new code takes a new number and no number is ever used again. */
#ifndef CORESTACK_STATUS_H
#define CORESTACK_STATUS_H

#include <corestack/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, what it means) */
#define CST_STATUS_LIST(X)                                                                         \
    X(CST_OK, 0, "success")                                                                        \
    X(CST_ERROR_ARGUMENT, 1, "an argument or option is not valid")                                 \
    X(CST_ERROR_INPUT, 2, "the data are not usable as given")                                      \
    X(CST_ERROR_FORMAT, 3, "a file is not in the format it claims")                                \
    X(CST_ERROR_IO, 4, "a file could not be read or written")                                      \
    X(CST_ERROR_MEMORY, 5, "out of memory")                                                        \
    X(CST_ERROR_MISMATCH, 6, "two inputs do not match")                                            \
    X(CST_ERROR_LIMIT, 7, "a size exceeds the supported limit")                                    \
    X(CST_ERROR_NUMERIC, 8, "a computation did not give a usable number")                          \
    X(CST_ERROR_CANCELLED, 9, "the progress callback asked to stop")                               \
    X(CST_ERROR_UNSUPPORTED, 10, "the request is understood but not supported")                    \
    X(CST_ERROR_INTERNAL, 11, "an internal check failed")

#define CST_STATUS_ENUM(name, value, text) name = (value),
typedef enum cst_status {
    CST_STATUS_LIST(CST_STATUS_ENUM) CST_STATUS_FORCE_INT = 0x7fffffff
} cst_status;
#undef CST_STATUS_ENUM

/* Returns the identifier of a status, e.g. "CST_ERROR_INPUT"; "unknown status" for a value that is
 * not in the list. Static. For programs that log errors. */
CST_API const char *cst_status_name(cst_status status);

/* Returns the meaning of a status in words; never NULL. Static. */
CST_API const char *cst_status_text(cst_status status);

#ifdef __cplusplus
}
#endif
#endif
