/* The list of files that one call keeps open, looked up by path. Part of the context. */
#include "core/context.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES_MAX ((size_t)64 << 20)
enum { OPEN_MAX = 16 };

typedef struct cst_call_file {
    struct cst_call_file *next;
    char *path;
    int fd;
    struct stat info;
    void *value;
    cst_call_file_free_fn release;
} cst_call_file;

const void *cst_call_file_find(cst_context *context, const char *path,
                               cst_call_file_free_fn release, int *fd, struct stat *info) {
    cst_context *root = cst_context_root(context);
    const void *found = NULL;
    *fd = -1;
    (void)pthread_mutex_lock(&root->files_lock);
    const cst_call_file *f = cst_context_told(context)->files.first;
    while (f && (f->release != release || strcmp(f->path, path) != 0))
        f = f->next;
    if (f && f->fd >= 0)
        *fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
    if (f && (f->fd < 0 || *fd >= 0)) { /* else the caller tries to open it, and says what fails */
        *info = f->info;
        found = f->value;
    }
    (void)pthread_mutex_unlock(&root->files_lock);
    return found;
}

bool cst_call_file_add(cst_context *context, const char *path, int fd, const struct stat *info,
                       void *value, size_t bytes, cst_call_file_free_fn release) {
    cst_context *root = cst_context_root(context);
    cst_call_files *files = &cst_context_told(context)->files;
    size_t most = root->memory / 4 < BYTES_MAX ? root->memory / 4 : BYTES_MAX;
    if (root->depth == 0) /* no call is active whose end would free it */
        return false;
    bool added = false;
    bytes += sizeof(cst_call_file);
    (void)pthread_mutex_lock(&root->files_lock);
    bool fits = bytes <= most && files->bytes <= most - bytes && (fd < 0 || files->open < OPEN_MAX);
    cst_call_file *made = fits ? cst_take(context, &files->scope, 1, sizeof *made) : NULL;
    char *name = made ? cst_take_text(context, &files->scope, path) : NULL;
    if (name) {
        *made = (cst_call_file){.next = files->first,
                                .path = name,
                                .fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0),
                                .info = *info,
                                .value = value,
                                .release = release};
        added = fd < 0 || made->fd >= 0;
    }
    if (added) {
        files->first = made;
        files->bytes += bytes;
        files->open += fd >= 0;
    }
    (void)pthread_mutex_unlock(&root->files_lock);
    return added;
}

void cst_call_files_clear(cst_context *context, cst_call_files *files) {
    while (files->first) {
        cst_call_file *f = files->first;
        files->first = f->next;
        f->release(context, f->value);
        if (f->fd >= 0)
            (void)close(f->fd);
    }
    cst_scope_free(&files->scope);
    *files = (cst_call_files){0};
}
