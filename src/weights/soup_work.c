/*
 * The work folder of a soup: DIR/cache/HASH.npy, DIR/steps.jsonl, DIR/lock, and DIR/run-XXXXXX with
 * the candidate of the moment. Under every soup that is chosen by scores. Paper: none.
 */
#define _DEFAULT_SOURCE /* flock, mkdtemp */
#include "weights/soup_work.h"

#include <corestack/soup.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char RUN[] = "run-";
enum { KEPT_DIGITS = 32 }; /* of a hash */

struct cst_soup_work {
    char *folder;
    char *run; /* folder of the candidate; NULL until it is there */
    char *candidate;
    char *predictions;
    int lock; /* descriptors; -1: not open */
    int log;
    bool made; /* the folder was not there before */
};

static cst_status failed(cst_context *context, const char *path, const char *what) {
    return cst_fail(context, CST_ERROR_IO, "work folder: %s: %s failed: %s", path, what,
                    strerror(errno));
}

/* ---- the folder ------------------------------------------------------------------------------ */

static cst_status make_folder(cst_context *context, const char *path, bool *made) {
    struct stat info;
    *made = mkdir(path, 0777) == 0;
    if (*made)
        return CST_OK;
    if (errno != EEXIST)
        return failed(context, path, "making it");
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return cst_fail(context, CST_ERROR_INPUT,
                        "work folder: %s is there and no folder; name another", path);
    return CST_OK;
}

/* Takes the lock, which goes with the descriptor: also a process that is killed gives it back. */
static cst_status take_lock(cst_context *context, const char *folder, int *out) {
    char *path = cst_format(context, "%s/lock", folder);
    if (!path)
        return CST_ERROR_MEMORY;
    cst_status status = CST_OK;
    *out = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*out < 0)
        status = failed(context, path, "opening it");
    else if (flock(*out, LOCK_EX | LOCK_NB) != 0)
        status = errno == EWOULDBLOCK
                     ? cst_fail(context, CST_ERROR_INPUT,
                                "work folder: another run has %s; wait for it, or name another "
                                "folder",
                                folder)
                     : failed(context, path, "locking it");
    if (status != CST_OK && *out >= 0) {
        (void)close(*out);
        *out = -1;
    }
    cst_free(context, path);
    return status;
}

/* Removes the files in DIR/NAME that `ours` knows, and the folder if it is empty then. */
static void remove_folder(cst_context *context, const char *folder, const char *name,
                          bool (*ours)(const char *)) {
    char *path = cst_format(context, "%s/%s", folder, name);
    DIR *open_folder = path ? opendir(path) : NULL;
    for (const struct dirent *entry; open_folder && (entry = readdir(open_folder)) != NULL;)
        if (ours(entry->d_name))
            (void)unlinkat(dirfd(open_folder), entry->d_name, 0);
    if (open_folder)
        (void)closedir(open_folder);
    if (path)
        (void)rmdir(path);
    cst_free(context, path);
}

/* A folder of candidates is ours as a whole: also a writer's temporary file is in it. */
static bool any_file(const char *name) {
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static bool is_kept(const char *name) {
    return strspn(name, "0123456789abcdef") == KEPT_DIGITS &&
           strcmp(name + KEPT_DIGITS, ".npy") == 0;
}

/* Candidates of runs that were killed; the folder must be locked. */
static void remove_runs(cst_context *context, const char *folder) {
    DIR *open_folder = opendir(folder);
    for (const struct dirent *entry; open_folder && (entry = readdir(open_folder)) != NULL;)
        if (strncmp(entry->d_name, RUN, strlen(RUN)) == 0)
            remove_folder(context, folder, entry->d_name, any_file);
    if (open_folder)
        (void)closedir(open_folder);
}

/* Makes the folder of the candidate, of a new name: what a hook of a killed run still writes goes
 * elsewhere. */
static cst_status make_run(cst_context *context, cst_soup_work *work) {
    char *path = cst_format(context, "%s/%sXXXXXX", work->folder, RUN);
    if (!path)
        return CST_ERROR_MEMORY;
    if (!mkdtemp(path)) {
        cst_status status = failed(context, work->folder, "making a folder in it");
        cst_free(context, path);
        return status;
    }
    work->run = path;
    work->candidate = cst_format(context, "%s/candidate.safetensors", path);
    work->predictions = cst_format(context, "%s/predictions.npy", path);
    return work->candidate && work->predictions ? CST_OK : CST_ERROR_MEMORY;
}

/* Removes what stands in a locked folder beside the predictions that are kept, and the folder if it
 * is empty then. */
static cst_status remove_rest(cst_context *context, const char *folder) {
    static const char *const names[] = {"steps.jsonl", "lock"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = cst_format(context, "%s/%s", folder, names[i]);
        if (!path)
            return CST_ERROR_MEMORY;
        (void)unlink(path);
        cst_free(context, path);
    }
    (void)rmdir(folder); /* other files in it are not ours */
    return CST_OK;
}

/* Whether DIR/cache could be removed: nothing is kept. */
static bool remove_empty_cache(cst_context *context, const char *folder) {
    char *path = cst_format(context, "%s/cache", folder);
    bool removed = path && rmdir(path) == 0;
    cst_free(context, path);
    return removed;
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* What stands inside the folder, which is locked. */
static cst_status furnish(cst_context *context, cst_soup_work *work) {
    char *cache = cst_format(context, "%s/cache", work->folder);
    char *log = cst_format(context, "%s/steps.jsonl", work->folder);
    bool made = false;
    cst_status status = cache && log ? make_folder(context, cache, &made) : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        remove_runs(context, work->folder);
        status = make_run(context, work);
    }
    if (status == CST_OK) {
        work->log = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
        if (work->log < 0)
            status = failed(context, log, "opening it");
    }
    cst_free(context, log);
    cst_free(context, cache);
    return status;
}

cst_status cst_soup_work_open(cst_context *context, cst_soup_work **out, const char *folder) {
    *out = NULL;
    cst_soup_work *work = cst_alloc(context, 1, sizeof *work);
    if (!work)
        return CST_ERROR_MEMORY;
    work->lock = -1;
    work->log = -1;
    work->folder = cst_strdup(context, folder);
    cst_status status = work->folder ? make_folder(context, folder, &work->made) : CST_ERROR_MEMORY;
    if (status == CST_OK)
        status = take_lock(context, folder, &work->lock);
    if (status == CST_OK)
        status = furnish(context, work);
    if (status != CST_OK) {
        cst_soup_work_close(context, work);
        return status;
    }
    *out = work;
    return CST_OK;
}

void cst_soup_work_close(cst_context *context, cst_soup_work *work) {
    if (!work)
        return;
    if (work->run) {
        const char *slash = strrchr(work->run, '/');
        remove_folder(context, work->folder, slash + 1, any_file);
        if (work->made && remove_empty_cache(context, work->folder))
            (void)remove_rest(context, work->folder);
    }
    if (work->log >= 0)
        (void)close(work->log);
    if (work->lock >= 0)
        (void)close(work->lock);
    cst_free(context, work->predictions);
    cst_free(context, work->candidate);
    cst_free(context, work->run);
    cst_free(context, work->folder);
    cst_free(context, work);
}

cst_status cst_soup_clear(cst_context *context, const char *work) {
    CST_ENTER(context);
    if (!work || !*work)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_soup_clear: a work folder is needed");
    int lock = -1;
    cst_status status = take_lock(context, work, &lock);
    if (status != CST_OK)
        return status;
    remove_runs(context, work);
    remove_folder(context, work, "cache", is_kept);
    status = remove_rest(context, work);
    (void)close(lock);
    return status;
}

/* ---- files ----------------------------------------------------------------------------------- */

const char *cst_soup_work_candidate(const cst_soup_work *work) {
    return work->candidate;
}

const char *cst_soup_work_predictions(const cst_soup_work *work) {
    return work->predictions;
}

void cst_soup_work_clean(const cst_soup_work *work) {
    (void)unlink(work->candidate);
    (void)unlink(work->predictions);
}

char *cst_soup_work_kept(cst_context *context, const cst_soup_work *work, const uint64_t hash[2]) {
    return cst_format(context, "%s/cache/%016" PRIx64 "%016" PRIx64 ".npy", work->folder, hash[0],
                      hash[1]);
}

cst_status cst_soup_work_keep(cst_context *context, const cst_soup_work *work, const char *kept) {
    int fd = open(work->predictions, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return failed(context, work->predictions, "opening it");
    int synced = fsync(fd);
    (void)close(fd);
    if (synced != 0 || rename(work->predictions, kept) != 0)
        return failed(context, kept, "keeping the predictions");
    return CST_OK;
}

cst_status cst_soup_work_log(cst_context *context, const cst_soup_work *work, const char *line) {
    size_t length = strlen(line);
    for (size_t done = 0; done < length;) {
        ssize_t wrote = write(work->log, line + done, length - done);
        if (wrote < 0 && errno != EINTR)
            return failed(context, work->folder, "writing the log of steps");
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return CST_OK;
}
