/* Archives, safetensors and gzip files that one call reads several arrays from: opened and parsed
 * once. */
#ifndef CST_CALL_FILES_H
#define CST_CALL_FILES_H

#include "core/scope.h"

#include <sys/stat.h>

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

/* ---- for the context itself ---- */

typedef struct cst_call_files {
    cst_scope scope;
    struct cst_call_file *first;
    size_t bytes;
    int open; /* descriptors */
} cst_call_files;

void cst_call_files_clear(cst_context *context, cst_call_files *files);

#endif
