/*
 * A folder that soups may write to and remove from. A mark says that it is theirs, so that a folder
 * of something else is refused before anything in it changes. Under soup_work.c. Paper: none.
 */
#define _DEFAULT_SOURCE /* flock */
#include "weights/soup_folder.h"

#include "base/retry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char LOCK[] = "lock";
static const char MARK[] = "The work folder of a corestack soup.\n"; /* content of the lock */
static const char RUN[] = "run-";
static const char RUN_MARK[] = ".corestack-run"; /* in the folder of a run */
enum { RUN_LETTERS = 6, DEEPEST = 64 };

static cst_status failed(cst_context *context, const char *path, const char *what) {
    return cst_fail(context, CST_ERROR_IO, "work folder: %s: %s failed: %s", path, what,
                    strerror(errno));
}

static bool is_self(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* 0 where a folder holds nothing but the entry `name`, -1 where it does, else why it cannot be
 * read: then errno where there are no entries. */
static int look_beside(DIR *entries, const char *name) {
    const struct dirent *entry = NULL;
    if (!entries)
        return errno;
    while ((entry = cst_next_entry(entries)) != NULL)
        if (!is_self(entry->d_name) && strcmp(entry->d_name, name) != 0)
            return -1;
    return errno;
}

/* ---- whose folder it is ---- */

/* Whether the lock has the mark; *empty: it has nothing at all, or is not there. */
static bool has_mark(int at, bool *empty) {
    char text[sizeof MARK] = "";
    int fd = cst_open_at(at, LOCK, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    *empty = fd < 0 && errno == ENOENT;
    if (fd < 0)
        return false;
    size_t done = 0;
    ssize_t got = 1;
    while (done < sizeof text && got > 0) {
        got = cst_read(fd, text + done, sizeof text - done);
        done += got > 0 ? (size_t)got : 0;
    }
    (void)close(fd);
    *empty = got == 0 && done == 0;
    return got >= 0 && done == sizeof MARK - 1 && memcmp(text, MARK, sizeof MARK - 1) == 0;
}

/* Soups may use a folder that has their mark, or nothing but an empty lock, as a run leaves it that
 * is stopped before it wrote the mark. */
static cst_status check_use(cst_context *context, int at, const char *path) {
    bool empty = false;
    if (has_mark(at, &empty))
        return CST_OK;
    DIR *entries = empty ? cst_open_entries(at, ".", O_NOFOLLOW) : NULL;
    int beside = empty ? look_beside(entries, LOCK) : -1;
    if (entries)
        (void)closedir(entries);
    if (beside == 0)
        return CST_OK;
    errno = beside;
    if (beside > 0)
        return failed(context, path, "listing it");
    return cst_fail(context, CST_ERROR_INPUT,
                    "work folder: %s contains files, but was not created by a soup; name a new or "
                    "an empty folder",
                    path);
}

/* Writes the mark into the lock; it stands there before anything else does. */
static cst_status put_mark(cst_context *context, const cst_soup_folder *folder, const char *path) {
    bool empty = false;
    if (has_mark(folder->at, &empty))
        return CST_OK;
    cst_status status = check_use(context, folder->at, path);
    if (status != CST_OK)
        return status;
    size_t done = 0;
    for (ssize_t wrote = 0; wrote >= 0 && done < sizeof MARK - 1;) {
        wrote = write(folder->lock, MARK + done, sizeof MARK - 1 - done);
        if (wrote < 0 && errno == EINTR)
            wrote = 0;
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    if (done == sizeof MARK - 1 && cst_synced(folder->lock)) {
        (void)cst_fsync(folder->at); /* not every file system can */
        return CST_OK;
    }
    status = failed(context, path, "marking it");
    return ftruncate(folder->lock, 0) == 0 ? status : CST_ERROR_IO;
}

static cst_status take_lock(cst_context *context, cst_soup_folder *folder, const char *path) {
    struct stat info;
    folder->lock = cst_open_at(folder->at, LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (folder->lock < 0)
        return failed(context, path, "opening its lock");
    int locked = flock(folder->lock, LOCK_EX | LOCK_NB);
    if (locked != 0 && errno != EWOULDBLOCK)
        return failed(context, path, "locking it");
    if (locked == 0 && fstat(folder->lock, &info) == 0 && info.st_nlink > 0)
        return CST_OK; /* and nobody removed the lock in between */
    return cst_fail(context, CST_ERROR_INPUT,
                    "work folder: another run has %s; wait for it, or name another folder", path);
}

/* ---- opening and closing ---- */

static cst_status open_there(cst_context *context, cst_soup_folder *out, const char *path) {
    out->at = cst_open_file(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (out->at >= 0)
        return CST_OK;
    if (errno == ENOTDIR)
        return cst_fail(context, CST_ERROR_INPUT,
                        "work folder: %s exists and is not a folder; name another", path);
    return failed(context, path, "opening it");
}

cst_status cst_soup_folder_open(cst_context *context, cst_soup_folder *out, const char *path,
                                bool make) {
    *out = (cst_soup_folder){.at = -1, .lock = -1};
    out->made = make && cst_make_folder(path, 0777) == 0;
    if (make && !out->made && errno != EEXIST)
        return failed(context, path, "creating it");
    cst_status status = open_there(context, out, path);
    CST_TRY(check_use(context, out->at, path));
    CST_TRY(take_lock(context, out, path));
    bool locked = status == CST_OK;
    CST_TRY(put_mark(context, out, path));
    if (status == CST_OK)
        return CST_OK;
    if (out->made && locked)
        (void)cst_remove_at(out->at, LOCK, 0);
    if (out->made)
        (void)cst_remove_folder(path); /* if nothing else is in it by now */
    cst_soup_folder_close(out);
    return status;
}

void cst_soup_folder_close(cst_soup_folder *folder) {
    if (folder->lock >= 0)
        (void)close(folder->lock);
    if (folder->at >= 0)
        (void)close(folder->at);
    folder->at = -1;
    folder->lock = -1;
}

void cst_soup_folder_remove(const cst_soup_folder *folder, const char *path) {
    (void)cst_remove_at(folder->at, "steps.jsonl", 0);
    DIR *entries = cst_open_entries(folder->at, ".", O_NOFOLLOW);
    bool alone = look_beside(entries, LOCK) == 0;
    if (entries)
        (void)closedir(entries);
    if (!alone)
        return; /* something else is in it: the mark stays for the next run */
    (void)cst_remove_at(folder->at, LOCK, 0);
    (void)cst_remove_folder(path);
}

/* ---- removing ---- */

/* Removes what is in a folder but the entry `but`; deeper folders up to so many levels, and none
 * that is mounted there. Twice, as entries may be passed over while others go. */
static void empty_folder(DIR *entries, const char *but, int levels) {
    struct stat here;
    struct stat there;
    if (fstat(dirfd(entries), &here) != 0)
        return;
    for (int turn = 0; turn < 2; turn++) {
        rewinddir(entries);
        for (const struct dirent *entry; (entry = cst_next_entry(entries)) != NULL;) {
            const char *name = entry->d_name;
            if (is_self(name) || (but && strcmp(name, but) == 0) ||
                cst_remove_at(dirfd(entries), name, 0) == 0 || levels == 0)
                continue;
            DIR *deeper = cst_open_entries(dirfd(entries), name, O_NOFOLLOW);
            if (deeper && fstat(dirfd(deeper), &there) == 0 && there.st_dev == here.st_dev)
                empty_folder(deeper, NULL, levels - 1);
            if (deeper)
                (void)closedir(deeper);
            (void)cst_remove_at(dirfd(entries), name, AT_REMOVEDIR);
        }
    }
}

void cst_soup_remove_any(int at, const char *name) {
    if (cst_remove_at(at, name, 0) == 0)
        return;
    DIR *entries = cst_open_entries(at, name, O_NOFOLLOW);
    if (entries) {
        empty_folder(entries, NULL, DEEPEST);
        (void)closedir(entries);
    }
    (void)cst_remove_at(at, name, AT_REMOVEDIR);
}

/* ---- runs ---- */

static bool is_run(const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const size_t prefix = sizeof RUN - 1;
    return strncmp(name, RUN, prefix) == 0 && strspn(name + prefix, letters) == RUN_LETTERS &&
           name[prefix + RUN_LETTERS] == '\0';
}

cst_status cst_soup_run_make(cst_context *context, const char *path, char **run, int *at) {
    char *made = cst_format(context, "%s/%sXXXXXX", path, RUN);
    if (!made)
        return CST_ERROR_MEMORY;
    if (!cst_make_new_folder(made)) {
        cst_status status = failed(context, path, "creating a folder in it");
        cst_free(context, made);
        return status;
    }
    *run = made;
    *at = cst_open_file(made, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    int mark = *at >= 0 ? cst_open_at(*at, RUN_MARK, O_WRONLY | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (mark < 0)
        return failed(context, made, "opening it");
    (void)close(mark);
    return CST_OK;
}

/* The mark goes last: a removal that is stopped can go on. */
void cst_soup_run_remove(int at, const char *name, DIR *entries) {
    if (!entries)
        return;
    if (faccessat(dirfd(entries), RUN_MARK, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        empty_folder(entries, RUN_MARK, DEEPEST);
        rewinddir(entries);
        if (look_beside(entries, RUN_MARK) == 0)
            (void)cst_remove_at(dirfd(entries), RUN_MARK, 0);
    }
    (void)closedir(entries);
    (void)cst_remove_at(at, name, AT_REMOVEDIR); /* one with files in it stays */
}

void cst_soup_runs_remove(const cst_soup_folder *folder) {
    DIR *entries = cst_open_entries(folder->at, ".", O_NOFOLLOW);
    for (const struct dirent *entry; entries && (entry = cst_next_entry(entries)) != NULL;)
        if (is_run(entry->d_name))
            cst_soup_run_remove(folder->at, entry->d_name,
                                cst_open_entries(folder->at, entry->d_name, O_NOFOLLOW));
    if (entries)
        (void)closedir(entries);
}
