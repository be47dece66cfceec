/* Calls of the system that a signal may interrupt, made again until none does. */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* As the functions of POSIX after which they are named: result, and errno on failure, which is
 * never EINTR. */

#define CST_AGAIN(type, name, parameters, call)                                                    \
    static inline type name parameters {                                                           \
        type result = 0;                                                                           \
        do                                                                                         \
            result = call;                                                                         \
        while (result < 0 && errno == EINTR);                                                      \
        return result;                                                                             \
    }

CST_AGAIN(int, cst_open_at, (int folder, const char *name, int flags, mode_t mode),
          openat(folder, name, flags, mode))
CST_AGAIN(ssize_t, cst_read, (int fd, void *out, size_t bytes), read(fd, out, bytes))
CST_AGAIN(ssize_t, cst_pread, (int fd, void *out, size_t bytes, off_t offset),
          pread(fd, out, bytes, offset))
CST_AGAIN(int, cst_make_folder_at, (int folder, const char *name, mode_t mode),
          mkdirat(folder, name, mode))
CST_AGAIN(int, cst_fsync, (int fd), fsync(fd))
/* flags: AT_REMOVEDIR for a folder, or 0. */
CST_AGAIN(int, cst_remove_at, (int folder, const char *name, int flags),
          unlinkat(folder, name, flags))
CST_AGAIN(int, cst_rename, (const char *from, const char *to), rename(from, to))
/* Another name for the open file that /proc names `from`. */
CST_AGAIN(int, cst_link_open, (const char *from, const char *to),
          linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW))

static inline int cst_open_file(const char *path, int flags, mode_t mode) {
    return cst_open_at(AT_FDCWD, path, flags, mode);
}

/* The beginning of a small file of the system as a text; false, and empty, where there is none. */
static inline bool cst_read_text(const char *path, char *text, size_t size) {
    int fd = cst_open_file(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    ssize_t got = fd >= 0 ? cst_read(fd, text, size - 1) : -1;
    if (fd >= 0)
        (void)close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* The entries of an open folder, to be read by cst_next_entry, whose descriptor is theirs from here
 * on; NULL where it is -1 or there is no memory. */
static inline DIR *cst_entries_of(int fd) {
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    if (!entries && fd >= 0) {
        int reason = errno;
        (void)close(fd);
        errno = reason;
    }
    return entries;
}

/* Opens a folder by its name; flags: O_NOFOLLOW, or 0. NULL where it is none. */
static inline DIR *cst_open_entries(int folder, const char *name, int flags) {
    return cst_entries_of(cst_open_at(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags, 0));
}

/* NULL at the end, where errno is 0, and where the folder cannot be read, where it is not. */
static inline const struct dirent *cst_next_entry(DIR *entries) {
    const struct dirent *entry = NULL;
    do {
        errno = 0;
        entry = readdir(entries);
    } while (!entry && errno == EINTR);
    return entry;
}

/* A new file, or folder, in the place of XXXXXX at the end of a path. A call that failed may have
 * put letters there, which the next one would refuse. */
static inline void cst_again_new(char *path) {
    memset(path + strlen(path) - 6, 'X', 6);
}

static inline int cst_make_new_file(char *path) {
    int fd = mkstemp(path);
    for (; fd < 0 && errno == EINTR; fd = mkstemp(path))
        cst_again_new(path);
    return fd;
}

static inline bool cst_make_new_folder(char *path) {
    bool made = mkdtemp(path) != NULL;
    for (; !made && errno == EINTR; made = mkdtemp(path) != NULL)
        cst_again_new(path);
    return made;
}

static inline int cst_make_folder(const char *path, mode_t mode) {
    return cst_make_folder_at(AT_FDCWD, path, mode);
}

/* The reason, which is never EINTR, and not errno. */
static inline int cst_reserve(int fd, off_t bytes) {
    int reason = 0;
    do
        reason = posix_fallocate(fd, 0, bytes);
    while (reason == EINTR);
    return reason;
}

/* Some file systems (FUSE, network shares) have no fsync, and say so: the data are then as durable
 * as they can be made, and the output is none the worse. Every other failure is one. */
static inline bool cst_synced(int fd) {
    return cst_fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP;
}

static inline int cst_remove_file(const char *path) {
    return cst_remove_at(AT_FDCWD, path, 0);
}

static inline int cst_remove_folder(const char *path) {
    return cst_remove_at(AT_FDCWD, path, AT_REMOVEDIR);
}
