/*
 * The context: allocator, logger, progress callback, thread count and last error. The library keeps
 * no other state. One thread at a time may use a context; any number of contexts may exist.
 */
#ifndef CORESTACK_CONTEXT_H
#define CORESTACK_CONTEXT_H

#include <corestack/export.h>
#include <corestack/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CST_VERSION_MAJOR 0
#define CST_VERSION_MINOR 1
#define CST_VERSION_PATCH 0
#define CST_VERSION_STRING "0.1.0"

typedef struct cst_context cst_context;

typedef enum cst_log_level {
    CST_LOG_DEBUG = 0,
    CST_LOG_INFO = 1,
    CST_LOG_WARNING = 2
} cst_log_level;

/* Called for each message; `message` is valid during the call only. */
typedef void (*cst_log_fn)(void *user, cst_log_level level, const char *message);

/* Called with the stage's name and how much of it is done (0 <= done <= total, 1 <= total), and
 * again at most every 50 ms while the stage lasts; always on the thread that called the library.
 * Outside of any stage that is "reading", 0 of 1, while files are read or a pipe is waited for, and
 * "writing", 0 of 1, while a pipe is waited for. Non-zero asks to stop: the call returns
 * CST_ERROR_CANCELLED soon after. */
typedef int (*cst_progress_fn)(void *user, const char *stage, int64_t done, int64_t total);

/* realloc_fn(user, NULL, n) allocates, realloc_fn(user, p, 0) frees and returns NULL. Called from
 * several threads at once. */
typedef void *(*cst_realloc_fn)(void *user, void *pointer, size_t bytes);

/* Creates a context with the C allocator, no logger, no progress callback and one thread per core
 * that the process may use. *out belongs to the caller (cst_context_free) and is NULL on failure.
 * CST_ERROR_MEMORY if memory runs out. */
CST_API cst_status cst_context_create(cst_context **out);

/* Creates a context like cst_context_create that allocates with `realloc_fn` (NULL: the C
 * allocator), which is called with `user`. For programs with an allocator of their own. */
CST_API cst_status cst_context_create_with(cst_context **out, cst_realloc_fn realloc_fn,
                                           void *user);

/* Frees a context; NULL is accepted. Objects created with the context must be freed first. */
CST_API void cst_context_free(cst_context *context);

/* Sets the number of threads, 1 to 1024; 0 means one per core that the process may use (affinity,
 * quota of its container; with ranks its share). More than these are logged as a warning. Results
 * do not depend on it.
 * CST_ERROR_ARGUMENT for any other number. */
CST_API cst_status cst_context_set_threads(cst_context *context, int threads);

/* Sets the number of bytes that a call may keep resident: at least 64 MiB, or 0 for a quarter of
 * the memory of the machine, or of its container (the default); ranks on one machine divide it.
 * CST_ERROR_ARGUMENT for less. Predictions that do not fit stay on disk and are read in blocks;
 * other large arrays go to unlinked files in $TMPDIR (or /tmp). Results do not depend on the limit.
 * Set it before a pool is loaded. */
CST_API cst_status cst_context_set_memory(cst_context *context, size_t bytes);

/* Whether texts in csv files of predictions that a spreadsheet would take for a formula are written
 * as they are (keep: not 0), or with an apostrophe in front and a notice (0, the default). */
CST_API void cst_context_set_formulas(cst_context *context, int keep);

/* Sets the function that receives notices and log messages, called with `user`; NULL removes it. */
CST_API void cst_context_set_log(cst_context *context, cst_log_fn log, void *user);

/* Sets the function that receives progress and may cancel a call, called with `user`; NULL removes
 * it. */
CST_API void cst_context_set_progress(cst_context *context, cst_progress_fn progress, void *user);

/* Returns the message of the last call that failed on this context: what is wrong, where, and what
 * to do; "" if none failed. Borrowed: valid until the next call on the context. */
CST_API const char *cst_last_error(const cst_context *context);

/* Returns the version of the library, "major.minor.patch". Static. */
CST_API const char *cst_version(void);

/* Replaces bytes of `text` in place with '?' so that the text cannot control a terminal: control
 * characters (C0 except `keep`, DEL, C1), line separators and bidirectional formatting characters
 * (U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+206F), U+FEFF, U+FFF9 to U+FFFB, tags
 * (U+E0000 to U+E007F), and bytes that are not valid UTF-8. `keep` is '\n', or ' ' to replace all
 * control characters. Messages of the library are already printable. */
CST_API void cst_make_printable(char *text, char keep);

/* Frees a string or array that the library returned to the caller; NULL is accepted. */
CST_API void cst_free(cst_context *context, void *pointer);

#ifdef __cplusplus
}
#endif
#endif
