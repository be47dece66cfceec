/*
 * The context: allocator, logger, progress callback, thread count and last error. The library keeps
 * no other state. One context serves one thread at a time, and a call while another thread is
 * inside gives CST_ERROR_BUSY; any number of contexts may live side by side.
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

/* Creates a context with the C allocator, no logger, no progress and as many threads as the machine
 * has cores. *out is NULL on failure. */
CST_API cst_status cst_context_create(cst_context **out);

/* The same with the caller's allocator (NULL: the C allocator). */
CST_API cst_status cst_context_create_with(cst_context **out, cst_realloc_fn realloc_fn,
                                           void *user);

/* Frees a context; NULL is accepted. Objects made with it must be freed before. */
CST_API void cst_context_free(cst_context *context);

/* Number of threads, 1 to 1024; 0 means one per core. Results do not depend on it. */
CST_API cst_status cst_context_set_threads(cst_context *context, int threads);
CST_API int cst_context_threads(const cst_context *context);

/* Bytes that a call may keep resident, 0 for a quarter of the machine's memory (the default), else
 * at least 64 MiB (CST_ERROR_ARGUMENT below). Predictions beyond their share of it stay on disk and
 * are read in blocks, what else is large goes to unlinked files in $TMPDIR (or /tmp). Results do
 * not depend on it. Set before a pool is loaded. */
CST_API cst_status cst_context_set_memory(cst_context *context, size_t bytes);
CST_API size_t cst_context_memory(const cst_context *context);

/* A call that opens a file more than once fails (CST_ERROR_IO) where the file was replaced or
 * written to in between. 1: the calls of this context from here on are one run, in which this holds
 * over all of them; for a program that does one thing and ends. 0 (as a context is made): each call
 * is a run of its own, and files may change between two calls. */
CST_API cst_status cst_context_set_one_run(cst_context *context, int on);

CST_API void cst_context_set_log(cst_context *context, cst_log_fn log, void *user);
CST_API void cst_context_set_progress(cst_context *context, cst_progress_fn progress, void *user);

/* The message of the last failing call on this context ("" if none): what, where and what to do.
 * The pointer is valid until the next call on the context. */
CST_API const char *cst_last_error(const cst_context *context);

/* The library's version, "major.minor.patch". */
CST_API const char *cst_version(void);

/* Puts '?' in place, byte for byte, of control characters (C0 but `keep`, DEL, C1), of the marks
 * that break lines or turn their direction (U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to
 * U+206F), of U+FEFF, U+FFF9 to U+FFFB and tags (U+E0000 to U+E007F), and of bytes that are no
 * UTF-8, so that the text cannot steer a terminal. Messages of the
 * library are so already. keep: '\n', or ' ' for none. */
CST_API void cst_make_printable(char *text, char keep);

/* Frees a string or array that the library returned as the caller's; NULL is accepted. */
CST_API void cst_free(cst_context *context, void *pointer);

#ifdef __cplusplus
}
#endif
#endif
