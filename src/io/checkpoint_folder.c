/*
 * The folder of checkpoints. See the header.
 */
#define _DEFAULT_SOURCE /* flock, realpath */
#include "io/checkpoint_folder.h"

#include "base/buffer.h"
#include "base/retry.h"
#include "io/output.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

static const char LOCK[] = "lock";
static const char RUN[] = "run";
static const char PART[] = ".part";
static const char TITLE[] = "corestack checkpoint 1\n";
static const char OWNER[] = "process ";                /* what a lock begins with */
static const char MADE[] = "folder made by the run\n"; /* the last line, where it was */
enum { RUN_BYTES_MAX = 16 << 20, HOST_CHARS = 256, SHOWN = 100 };

/* errno says why. */
static cst_status failed(cst_context *context, const char *path, const char *what) {
    return cst_fail(context, CST_ERROR_IO, "checkpoint folder %s: %s failed: %s", path, what,
                    strerror(errno));
}

/* The folder, or the one it is to be in, takes no files. */
static cst_status fail_unwritable(cst_context *context, const char *path, bool parent) {
    const char *advice = errno == ENOSPC || errno == EDQUOT ? "free some space"
                         : parent                           ? "make its parent folder writable"
                                                            : "make it writable";
    return cst_fail(context, CST_ERROR_IO,
                    "checkpoint folder %s: it cannot be %s: %s; %s, or give another folder", path,
                    parent ? "created" : "written", strerror(errno), advice);
}

static bool is_unwritable(int reason) {
    return reason == EACCES || reason == EPERM || reason == EROFS || reason == ENOSPC ||
           reason == EDQUOT;
}

/* ---- names ---- */

static bool ends_with(const char *name, const char *end) {
    size_t length = strlen(name);
    size_t tail = strlen(end);
    return length >= tail && strcmp(name + length - tail, end) == 0;
}

/* Whether the open file has the beginning of what runs write into such a file. A file that is
 * shorter has been cut off. */
static bool begins_with(int fd, const char *start, bool may_be_empty) {
    struct stat info;
    char bytes[32];
    size_t done = 0;
    size_t length = strlen(start);
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return false;
    ssize_t got = 1;
    while (got > 0 && done < length) {
        got = cst_pread(fd, bytes + done, length - done, (off_t)done);
        done += got > 0 ? (size_t)got : 0;
    }
    return (done > 0 || may_be_empty) && memcmp(bytes, start, done) == 0 &&
           (done == length || (off_t)done == info.st_size); /* else it cannot be read */
}

/* What runs begin a file of this name with; NULL for names that they do not use. Unfinished files
 * of a killed run are included. */
static const char *start_of(const char *name) {
    if (strcmp(name, LOCK) == 0)
        return OWNER;
    if (strcmp(name, RUN) == 0 || strncmp(name, "run.tmp.", 8) == 0)
        return TITLE;
    return ends_with(name, PART) || strstr(name, ".part.tmp.") ? CST_CHECKPOINT_MAGIC : NULL;
}

/* Whether a run has put it there: others may have files of such names too. */
static bool is_ours(const cst_checkpoint_folder *folder, const char *name) {
    const char *start = start_of(name);
    int fd = start
                 ? cst_open_at(folder->at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0)
                 : -1;
    bool may_be_empty = strcmp(name, LOCK) == 0 || strstr(name, ".tmp.");
    bool ours = fd >= 0 && begins_with(fd, start, may_be_empty);
    if (fd >= 0)
        (void)close(fd);
    return ours;
}

static cst_status fail_others(cst_context *context, const cst_checkpoint_folder *folder,
                              const char *name) {
    return cst_fail(context, CST_ERROR_INPUT,
                    "checkpoint folder %s: it holds other files, such as '%.100s'; give a new or "
                    "an empty folder",
                    folder->path, name);
}

static bool is_self(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Makes a file name: letters, digits and '-', and '.' for '/'. */
static void plain_name(char *name) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";
    for (; *name; name++)
        if (*name == '/')
            *name = '.';
        else if (!strchr(letters, *name))
            *name = '-';
}

char *cst_checkpoint_path(cst_context *context, const cst_checkpoint_folder *folder,
                          const char *name) {
    char *path = cst_format(context, "%s/%s%s", folder->path, name, PART);
    if (path)
        plain_name(path + strlen(folder->path) + 1);
    return path;
}

/* ---- the lock ---- */

/* Names the process that uses the folder, if it has written its name. */
static cst_status fail_busy(cst_context *context, const cst_checkpoint_folder *folder) {
    char text[HOST_CHARS + 32] = "";
    ssize_t got = cst_pread(folder->lock, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return cst_fail(context, CST_ERROR_INPUT,
                    "checkpoint folder %s: another run is using it%s%s; wait for it to end, or "
                    "give another folder",
                    folder->path, *text ? ": " : "", text);
}

/* A killed process releases the lock. Ranks whose launcher was killed take a moment to end, so the
 * lock is tried for a while. On file systems without locks, parts are still written whole, by
 * renaming. */
static cst_status take_lock(cst_context *context, cst_checkpoint_folder *folder) {
    enum { TRIES = 20, PAUSE_MS = 100 };
    for (int i = 0; i < TRIES; i++) {
        struct stat info;
        char host[HOST_CHARS] = "?";
        char text[HOST_CHARS + 32];
        folder->lock =
            cst_open_at(folder->at, LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (folder->lock < 0 && is_unwritable(errno))
            return fail_unwritable(context, folder->path, false);
        if (folder->lock < 0)
            return failed(context, folder->path, "opening its lock");
        bool busy = flock(folder->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (busy && i + 1 == TRIES)
            return fail_busy(context, folder);
        if (busy)
            (void)poll(NULL, 0, PAUSE_MS);
        if (!busy && fstat(folder->lock, &info) == 0 && info.st_nlink > 0) {
            if (!begins_with(folder->lock, OWNER, true))
                return fail_others(context, folder, LOCK);
            (void)gethostname(host, sizeof host - 1);
            (void)cst_snprintf(text, sizeof text, "%s%ld on %s\n", OWNER, (long)getpid(), host);
            if (ftruncate(folder->lock, 0) == 0)
                (void)!write(folder->lock, text, strlen(text)); /* only for a message */
            return CST_OK;
        }
        (void)close(folder->lock); /* busy, or a run that ended has removed it in between */
        folder->lock = -1;
    }
    return cst_fail(context, CST_ERROR_IO, "checkpoint folder %s: its lock file keeps disappearing",
                    folder->path);
}

/* ---- the description of the run ---- */

/* Counts the parts; fails if the folder has other files and no description of a run. */
static cst_status look_inside(cst_context *context, bool described, cst_checkpoint_folder *folder) {
    DIR *entries = cst_open_entries(folder->at, ".", O_NOFOLLOW);
    if (!entries)
        return failed(context, folder->path, "listing it");
    cst_status status = CST_OK;
    for (const struct dirent *entry; (entry = cst_next_entry(entries)) != NULL;) {
        if (is_self(entry->d_name))
            continue;
        folder->parts += ends_with(entry->d_name, PART);
        if (!described && status == CST_OK && strcmp(entry->d_name, LOCK) != 0 &&
            !is_ours(folder, entry->d_name))
            status = fail_others(context, folder, entry->d_name);
    }
    if (status == CST_OK && errno != 0)
        status = failed(context, folder->path, "listing it");
    (void)closedir(entries);
    return status;
}

/* Reads the file `run`, for cst_free; NULL if there is none. */
static cst_status read_run(cst_context *context, const cst_checkpoint_folder *folder, char **out) {
    struct stat info;
    *out = NULL;
    int fd = cst_open_at(folder->at, RUN, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0)
        return errno == ENOENT ? CST_OK : failed(context, folder->path, "opening its file run");
    cst_status status = CST_OK;
    size_t done = 0;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size < RUN_BYTES_MAX) {
        size_t size = (size_t)info.st_size;
        char *text = cst_alloc(context, size + 1, 1);
        ssize_t got = 1;
        while (text && got > 0 && done < size) {
            got = cst_pread(fd, text + done, size - done, (off_t)done);
            done += got > 0 ? (size_t)got : 0;
        }
        status = text ? CST_OK : CST_ERROR_MEMORY;
        *out = text;
    }
    (void)close(fd);
    return status;
}

/* The length of a line, and of what is before its '='. */
static int line_length(const char *line) {
    return (int)strcspn(line, "\n");
}
static int key_length(const char *line) {
    int key = (int)strcspn(line, "=\n");
    return key < SHOWN ? key : SHOWN;
}
static const char *value_of(const char *line) {
    line += strcspn(line, "=\n");
    return *line == '=' ? line + 1 : line;
}
static int value_length(const char *line) {
    int length = line_length(value_of(line));
    return length < SHOWN ? length : SHOWN;
}

static bool is_key(const char *line, const char *key) {
    return strncmp(line, key, strlen(key)) == 0;
}

/* What lines of the pool stand for, whose values say nothing to a reader. */
static const char *of_pool(const char *line) {
    if (is_key(line, "content of the pool="))
        return "the files of the pool (predictions, labels, folds, groups, weights or domains) had "
               "other contents";
    if (is_key(line, "cases="))
        return "the cases of the pool, their folds or their groups were others";
    if (is_key(line, "member "))
        return "the members of the pool, their order, their costs or their ensembles were others";
    return NULL;
}

/* Says in words in what the line differs, and what to do. */
static cst_status fail_line(cst_context *context, const char *path, const char *there,
                            const char *here) {
    const char *named = *here ? here : there;
    const char *pool = of_pool(named);
    bool version = is_key(named, "version=");
    bool processor = is_key(named, "processor=");
    char what[5 * SHOWN];
    if (pool)
        (void)cst_snprintf(what, sizeof what, "%s; continue it with the pool as it was", pool);
    else if (version || processor)
        (void)cst_snprintf(what, sizeof what, "it ran %s %.*s, this is %.*s; continue it %s",
                           version ? "with corestack" : "on a processor of type",
                           value_length(there), value_of(there), value_length(here), value_of(here),
                           version ? "with that version" : "on such a processor");
    else
        (void)cst_snprintf(what, sizeof what,
                           "its %.*s is '%.*s', here it is '%.*s'; repeat the command of that fit "
                           "to continue it",
                           key_length(named), named, value_length(there), value_of(there),
                           value_length(here), value_of(here));
    return cst_fail(context, CST_ERROR_INPUT,
                    "checkpoint folder %s: it holds parts of another fit: %s, give another folder, "
                    "or remove this one",
                    path, what);
}

/* Names the first line that differs from the description in the folder. */
static cst_status fail_other(cst_context *context, const cst_checkpoint_folder *folder,
                             const char *there, const char *here) {
    while (line_length(there) == line_length(here) && *there && *here &&
           strncmp(there, here, (size_t)line_length(there) + 1) == 0) {
        there += line_length(there) + 1;
        here += line_length(here) + 1;
    }
    return fail_line(context, folder->path, there, here);
}

/* Whether the text is a complete description. Sets `made` from its last line, and removes that
 * line. */
static bool understand(char *text, cst_checkpoint_folder *folder) {
    size_t title = sizeof TITLE - 1;
    if (!text || strncmp(text, TITLE, title) != 0)
        return false;
    folder->made = folder->made || ends_with(text, MADE);
    if (ends_with(text, MADE))
        text[strlen(text) - (sizeof MADE - 1)] = '\0';
    return ends_with(text, "\n");
}

static cst_status write_run(cst_context *context, const cst_checkpoint_folder *folder,
                            const char *run) {
    cst_output_file *output = NULL;
    char *path = cst_format(context, "%s/%s", folder->path, RUN);
    cst_status status = path ? cst_output_open(context, &output, path) : CST_ERROR_MEMORY;
    CST_TRY(cst_output_write(context, output, TITLE, sizeof TITLE - 1));
    CST_TRY(cst_output_write(context, output, run, strlen(run)));
    if (folder->made)
        CST_TRY(cst_output_write(context, output, MADE, sizeof MADE - 1));
    if (status == CST_OK)
        status = cst_output_commit(context, output);
    else
        cst_output_abort(context, output);
    cst_free(context, path);
    return status;
}

/* Compares `run` with the description in the folder, or writes it if there is none. */
static cst_status settle_run(cst_context *context, cst_checkpoint_folder *folder, const char *run) {
    char *text = NULL;
    cst_status status = read_run(context, folder, &text);
    bool described = status == CST_OK && understand(text, folder);
    CST_TRY(look_inside(context, described, folder));
    if (status == CST_OK && described && text && strcmp(text + sizeof TITLE - 1, run) != 0)
        status = fail_other(context, folder, text + sizeof TITLE - 1, run);
    if (status == CST_OK && !described)
        status = write_run(context, folder, run);
    cst_free(context, text);
    return status;
}

/* ---- opening and closing ---- */

static cst_status open_there(cst_context *context, const char *path, cst_checkpoint_folder *out) {
    char *real = realpath(path, NULL);
    if (!real)
        return failed(context, path, "opening it");
    out->path = cst_strdup(context, real);
    free(real);
    if (!out->path)
        return CST_ERROR_MEMORY;
    out->at = cst_open_file(out->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (out->at >= 0)
        return CST_OK;
    if (errno == ENOTDIR)
        return cst_fail(context, CST_ERROR_INPUT,
                        "checkpoint folder %s: it is not a folder; give another", path);
    return failed(context, path, "opening it");
}

/* Whether the folder that was opened, if it was, is no longer at the path. */
static bool is_gone(const char *path, const cst_checkpoint_folder *folder) {
    struct stat now;
    struct stat opened;
    return stat(path, &now) != 0 || (folder->at >= 0 && fstat(folder->at, &opened) == 0 &&
                                     (now.st_dev != opened.st_dev || now.st_ino != opened.st_ino));
}

/* Creates the folder if it is missing, opens it and takes its lock. *new_lock: there was no lock
 * file. *gone: a run that ended meanwhile removed the folder. */
static cst_status enter(cst_context *context, const char *path, cst_checkpoint_folder *out,
                        bool *new_lock, bool *gone) {
    *out = (cst_checkpoint_folder){.at = -1, .lock = -1};
    bool made = cst_make_folder(path, 0777) == 0;
    if (!made && errno == ENOENT)
        return cst_fail(context, CST_ERROR_INPUT,
                        "checkpoint folder %s: its parent folder does not exist; create it "
                        "first",
                        path);
    if (!made && is_unwritable(errno))
        return fail_unwritable(context, path, true);
    if (!made && errno != EEXIST)
        return failed(context, path, "creating it");
    cst_status status = open_there(context, path, out);
    out->made = made;
    *new_lock = status == CST_OK && faccessat(out->at, LOCK, F_OK, 0) != 0;
    CST_TRY(take_lock(context, out));
    *gone = status != CST_OK && is_gone(path, out);
    if (status != CST_OK && made)
        (void)cst_remove_folder(path);
    return status;
}

cst_status cst_checkpoint_folder_open(cst_context *context, const char *path, const char *run,
                                      cst_checkpoint_folder *out) {
    enum { TRIES = 20 };
    bool new_lock = false;
    bool gone = true;
    cst_status status = CST_ERROR_IO;
    for (int i = 0; i < TRIES && gone; i++) {
        gone = false;
        status = enter(context, path, out, &new_lock, &gone);
        if (status != CST_OK)
            cst_checkpoint_folder_close(context, out);
    }
    if (status != CST_OK)
        return status;
    status = settle_run(context, out, run);
    if (status == CST_OK)
        return CST_OK;
    if (new_lock) /* the folder may hold nothing else of a run */
        (void)cst_remove_at(out->at, LOCK, 0);
    if (out->made)
        (void)cst_remove_folder(path);
    cst_checkpoint_folder_close(context, out);
    return status;
}

void cst_checkpoint_folder_close(cst_context *context, cst_checkpoint_folder *folder) {
    if (!folder->path)
        return;
    if (folder->lock >= 0)
        (void)close(folder->lock);
    if (folder->at >= 0)
        (void)close(folder->at);
    cst_free(context, folder->path);
    *folder = (cst_checkpoint_folder){.at = -1, .lock = -1};
}

/* Twice, because readdir may skip entries while others are removed. */
void cst_checkpoint_folder_remove(const cst_checkpoint_folder *folder, const char *scope) {
    char start[256];
    (void)cst_snprintf(start, sizeof start, "%s", scope);
    plain_name(start);
    DIR *entries = cst_open_entries(folder->at, ".", O_NOFOLLOW);
    for (int turn = 0; entries && turn < 2; turn++) {
        rewinddir(entries);
        for (const struct dirent *entry; (entry = cst_next_entry(entries)) != NULL;)
            if (strncmp(entry->d_name, start, strlen(start)) == 0 &&
                strcmp(entry->d_name, RUN) != 0 && strcmp(entry->d_name, LOCK) != 0 &&
                is_ours(folder, entry->d_name))
                (void)cst_remove_at(folder->at, entry->d_name, 0);
    }
    if (entries)
        (void)closedir(entries);
}

void cst_checkpoint_folder_end(cst_context *context, cst_checkpoint_folder *folder) {
    if (!folder->path)
        return;
    cst_checkpoint_folder_remove(folder, "");
    if (is_ours(folder, LOCK)) /* the output of the fit may have taken its name */
        (void)cst_remove_at(folder->at, LOCK, 0);
    if (is_ours(folder, RUN)) /* last, as it records who created the folder */
        (void)cst_remove_at(folder->at, RUN, 0);
    if (folder->made)
        (void)cst_remove_folder(folder->path); /* where nothing else is in it */
    cst_checkpoint_folder_close(context, folder);
}
