/* A folder of output files, whole or not at all. For maps with a file for each case. */
#include "data/files/output_folder.h"

#include "core/retry.h"
#include "data/files/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_TRIES = 100 };

struct cst_output_folder {
    char *path;
    char *temporary;
    mode_t mode; /* when it is finished; nobody else may enter it before */
};

/* Whether a folder is known to hold nothing. */
static bool is_empty(const char *path) {
    DIR *folder = cst_open_entries(AT_FDCWD, path, 0);
    bool empty = folder != NULL;
    for (const struct dirent *entry; empty && (entry = cst_next_entry(folder)) != NULL;)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    empty = empty && errno == 0;
    if (folder)
        (void)closedir(folder);
    return empty;
}

/* A finished folder cannot get the name "." or "..", whatever stands before it. */
static bool can_be_named(const char *path, size_t length) {
    size_t dots = 0;
    while (dots < length && path[length - dots - 1] == '.')
        dots++;
    bool alone = dots == length || path[length - dots - 1] == '/';
    return dots == 0 || dots > 2 || !alone;
}

cst_status cst_output_folder_open(cst_context *context, cst_output_folder **out, const char *path) {
    struct stat info;
    *out = NULL;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    if (!can_be_named(path, length))
        return cst_fail(context, CST_ERROR_IO,
                        "%s: a folder cannot be renamed to this; choose a new name", path);
    bool exists = lstat(path, &info) == 0;
    if (exists && (!S_ISDIR(info.st_mode) || !is_empty(path)))
        return cst_fail(context, CST_ERROR_IO,
                        "%s: already exists and is not an empty folder; name a new one", path);
    cst_output_folder *folder = cst_alloc(context, 1, sizeof *folder);
    if (!folder)
        return CST_ERROR_MEMORY;
    folder->mode = exists ? info.st_mode & 07777 : 0777;
    folder->path = cst_format(context, "%.*s", (int)length, path);
    int made = -1;
    for (int attempt = 0; folder->path && made != 0 && attempt < NAME_TRIES; attempt++) {
        cst_free(context, folder->temporary);
        folder->temporary = cst_output_temporary(context, folder->path, attempt);
        made = folder->temporary ? cst_make_folder(folder->temporary, exists ? S_IRWXU : 0777) : -1;
        if (made != 0 && errno != EEXIST)
            break;
    }
    if (made == 0) {
        if (!exists && lstat(folder->temporary, &info) == 0)
            folder->mode = info.st_mode & 07777;
        (void)chmod(folder->temporary, (folder->mode & 07000) | S_IRWXU);
        *out = folder;
        return CST_OK;
    }
    cst_status status = folder->temporary
                            ? cst_fail(context, CST_ERROR_IO, "%s: cannot create the folder: %s",
                                       path, strerror(errno))
                            : CST_ERROR_MEMORY;
    cst_free(context, folder->temporary);
    cst_free(context, folder->path);
    cst_free(context, folder);
    return status;
}

cst_status cst_output_folder_file(cst_context *context, const cst_output_folder *folder,
                                  const char *name, const char *extension, char **out) {
    *out = NULL;
    if (!*name || strchr(name, '/') || name[0] == '.')
        return cst_fail(context, CST_ERROR_INPUT,
                        "'%.100s' cannot be used as a file name; rename the case", name);
    *out = cst_format(context, "%s/%s%s", folder->temporary, name, extension);
    return *out ? CST_OK : CST_ERROR_MEMORY;
}

static void release(cst_context *context, cst_output_folder *folder) {
    cst_free(context, folder->temporary);
    cst_free(context, folder->path);
    cst_free(context, folder);
}

cst_status cst_output_folder_commit(cst_context *context, cst_output_folder *folder) {
    int fd = cst_open_file(folder->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd >= 0) {
        (void)cst_fsync(fd); /* the files are synced; some file systems cannot sync a folder */
        (void)close(fd);
    }
    (void)chmod(folder->temporary, folder->mode);
    if (cst_rename(folder->temporary, folder->path) != 0) {
        cst_status status =
            cst_fail(context, CST_ERROR_IO, "%s: cannot rename the finished folder: %s",
                     folder->path, strerror(errno));
        cst_output_folder_abort(context, folder);
        return status;
    }
    release(context, folder);
    return CST_OK;
}

void cst_output_folder_abort(cst_context *context, cst_output_folder *folder) {
    if (!folder)
        return;
    (void)chmod(folder->temporary, S_IRWXU);
    DIR *open = cst_open_entries(AT_FDCWD, folder->temporary, 0);
    for (const struct dirent *entry; open && (entry = cst_next_entry(open)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)cst_remove_at(dirfd(open), entry->d_name, 0);
    if (open)
        (void)closedir(open);
    (void)cst_remove_folder(folder->temporary);
    release(context, folder);
}
