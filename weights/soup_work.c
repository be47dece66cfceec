/*
 * The work folder of a soup: DIR/cache/HASH.npy, DIR/steps.jsonl, DIR/lock, and DIR/run-XXXXXX with
 * the candidate of the moment. Under every soup that is chosen by scores. Paper: none.
 */
#include "weights/soup_work.h"

#include "base/retry.h"
#include "io/output.h"
#include "weights/soup_folder.h"

#include <corestack/soup.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char CANDIDATE[] = "candidate.safetensors";
static const char PREDICTIONS[] = "predictions.npy";
enum { KEPT_DIGITS = 32, COPY_BYTES = 1 << 20 }; /* of a hash; at a time */

struct cst_soup_work {
    char *path;
    cst_soup_folder folder;
    char *run; /* folder of the candidate; NULL until it is there */
    int run_at;
    char *candidate;
    char *predictions;
    int log; /* descriptor; -1: not open */
};

static cst_status failed(cst_context *context, const char *path, const char *what) {
    return cst_fail(context, CST_ERROR_IO, "work folder: %s: %s failed: %s", path, what,
                    strerror(errno));
}

/* ---- the cache ---- */

static cst_status make_cache(cst_context *context, const cst_soup_work *work) {
    struct stat info;
    if (cst_make_folder_at(work->folder.at, "cache", 0777) == 0)
        return CST_OK;
    if (errno != EEXIST)
        return failed(context, work->path, "creating a folder in it");
    if (fstatat(work->folder.at, "cache", &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode))
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "work folder: %s/cache is not a folder; remove it, or name another work folder",
                    work->path);
}

static bool is_kept(const char *name) {
    return strspn(name, "0123456789abcdef") == KEPT_DIGITS &&
           strcmp(name + KEPT_DIGITS, ".npy") == 0;
}

/* Removes the predictions that are kept, and their folder if it is empty then. */
static void remove_cache(int at) {
    DIR *entries = cst_open_entries(at, "cache", O_NOFOLLOW);
    for (const struct dirent *entry; entries && (entry = cst_next_entry(entries)) != NULL;)
        if (is_kept(entry->d_name))
            (void)cst_remove_at(dirfd(entries), entry->d_name, 0);
    if (entries)
        (void)closedir(entries);
    (void)cst_remove_at(at, "cache", AT_REMOVEDIR);
}

/* ---- opening and closing ---- */

/* What stands inside the folder, which is locked. The folder of the candidate has a new name: what
 * a hook of a killed run still writes goes elsewhere. */
static cst_status furnish(cst_context *context, cst_soup_work *work) {
    cst_status status = make_cache(context, work);
    if (status == CST_OK) {
        cst_soup_runs_remove(&work->folder);
        status = cst_soup_run_make(context, work->path, &work->run, &work->run_at);
    }
    if (status != CST_OK)
        return status;
    work->candidate = cst_format(context, "%s/%s", work->run, CANDIDATE);
    work->predictions = cst_format(context, "%s/%s", work->run, PREDICTIONS);
    if (!work->candidate || !work->predictions)
        return CST_ERROR_MEMORY;
    work->log = cst_open_at(work->folder.at, "steps.jsonl",
                            O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
    return work->log < 0 ? failed(context, work->path, "opening its steps.jsonl") : CST_OK;
}

cst_status cst_soup_work_open(cst_context *context, cst_soup_work **out, const char *folder) {
    *out = NULL;
    cst_soup_work *work = cst_alloc(context, 1, sizeof *work);
    if (!work)
        return CST_ERROR_MEMORY;
    work->folder = (cst_soup_folder){.at = -1, .lock = -1};
    work->run_at = -1;
    work->log = -1;
    work->path = cst_strdup(context, folder);
    cst_status status =
        work->path ? cst_soup_folder_open(context, &work->folder, folder, true) : CST_ERROR_MEMORY;
    CST_TRY(furnish(context, work));
    if (status != CST_OK) {
        cst_soup_work_close(context, work);
        return status;
    }
    *out = work;
    return CST_OK;
}

/* Removes what the call made, if the folder is its own and nothing is kept. */
static void unfurnish(cst_soup_work *work) {
    if (work->run) { /* by the descriptor, which is there also where no other can be had */
        const char *name = strrchr(work->run, '/') + 1;
        cst_soup_run_remove(work->folder.at, name,
                            work->run_at >= 0
                                ? cst_entries_of(work->run_at)
                                : cst_open_entries(work->folder.at, name, O_NOFOLLOW));
    }
    work->run_at = -1;
    if (!work->folder.made || work->folder.at < 0)
        return;
    if (cst_remove_at(work->folder.at, "cache", AT_REMOVEDIR) == 0 || errno == ENOENT)
        cst_soup_folder_remove(&work->folder, work->path);
}

void cst_soup_work_close(cst_context *context, cst_soup_work *work) {
    if (!work)
        return;
    unfurnish(work);
    if (work->log >= 0)
        (void)close(work->log);
    cst_soup_folder_close(&work->folder);
    cst_free(context, work->predictions);
    cst_free(context, work->candidate);
    cst_free(context, work->run);
    cst_free(context, work->path);
    cst_free(context, work);
}

cst_status cst_soup_clear(cst_context *context, const char *work) {
    CST_ENTER(context);
    if (!work || !*work)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_soup_clear: a work folder is required");
    cst_soup_folder folder;
    cst_status status = cst_soup_folder_open(context, &folder, work, false);
    if (status != CST_OK)
        return cst_why(context, status);
    cst_soup_runs_remove(&folder);
    remove_cache(folder.at);
    cst_soup_folder_remove(&folder, work);
    cst_soup_folder_close(&folder);
    return CST_OK;
}

/* ---- files ---- */

const char *cst_soup_work_candidate(const cst_soup_work *work) {
    return work->candidate;
}

const char *cst_soup_work_predictions(const cst_soup_work *work) {
    return work->predictions;
}

void cst_soup_work_clean(const cst_soup_work *work) {
    cst_soup_remove_any(work->run_at, CANDIDATE);
    cst_soup_remove_any(work->run_at, PREDICTIONS);
}

char *cst_soup_work_kept(cst_context *context, const cst_soup_work *work, const uint64_t hash[2]) {
    return cst_format(context, "%s/cache/%016" PRIx64 "%016" PRIx64 ".npy", work->path, hash[0],
                      hash[1]);
}

static cst_status copy_file(cst_context *context, int from, const char *path, const char *to) {
    char *piece = cst_alloc(context, COPY_BYTES, 1);
    cst_output_file *output = NULL;
    cst_status status = piece ? cst_output_open(context, &output, to) : CST_ERROR_MEMORY;
    for (ssize_t got = 1; status == CST_OK && got != 0;) {
        got = cst_read(from, piece, COPY_BYTES);
        if (got > 0)
            status = cst_poll(context);
        if (got > 0 && status == CST_OK)
            status = cst_output_write(context, output, piece, (size_t)got);
        else if (got < 0)
            status = failed(context, path, "reading it");
    }
    if (status == CST_OK)
        status = cst_output_commit(context, output);
    else
        cst_output_abort(context, output);
    cst_free(context, piece);
    return status;
}

cst_status cst_soup_work_serve(cst_context *context, const cst_soup_work *work, const char *out) {
    int fd = cst_open_file(work->candidate, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return failed(context, work->candidate, "opening it");
    cst_status status = copy_file(context, fd, work->candidate, out);
    (void)close(fd);
    return status;
}

/* What is, or may be, somebody else's file too is copied: the next predictions may be written into
 * it. */
cst_status cst_soup_work_keep(cst_context *context, const cst_soup_work *work, const char *kept) {
    struct stat info;
    int fd = cst_open_file(work->predictions, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return failed(context, work->predictions, "opening it");
    bool own = fstatat(work->run_at, PREDICTIONS, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
               S_ISREG(info.st_mode) && info.st_nlink == 1;
    cst_status status = CST_OK;
    if (!own)
        status = copy_file(context, fd, work->predictions, kept);
    else if (!cst_synced(fd) || cst_rename(work->predictions, kept) != 0)
        status = failed(context, kept, "storing the predictions");
    (void)close(fd);
    return status;
}

cst_status cst_soup_work_log(cst_context *context, const cst_soup_work *work, const char *line) {
    size_t length = strlen(line);
    for (size_t done = 0; done < length;) {
        ssize_t wrote = write(work->log, line + done, length - done);
        if (wrote < 0 && errno != EINTR)
            return failed(context, work->path, "writing the log of steps");
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return CST_OK;
}
