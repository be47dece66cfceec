/* Atomic output: a file without a name (else a temporary one), fsync, rename, fsync of the
 * folder. */
#define _GNU_SOURCE /* O_TMPFILE, realpath */
#include "data/files/output.h"

#include "core/context.h"
#include "core/retry.h"
#include "core/scope.h"

#include <corestack/files.h>

#include <limits.h>
#include <poll.h>
#include <time.h>

enum { BUFFER_BYTES = 1 << 16, NAME_TRIES = 100, PROC_CHARS = 32, NAME_BYTES = 220 };

/* A file that cst_release_files names. */
typedef struct cst_held {
    struct cst_held *next;
    char *path;
    char *temporary; /* NULL: nothing is written yet */
    bool folder;
    bool fresh;  /* it has its name, which nothing had before */
    mode_t mode; /* of a folder, when it is finished */
} held;

struct cst_output_file {
    cst_scope scope;
    char *path;
    bool direct;     /* a device, pipe or descriptor, which has no temporary file */
    bool waits;      /* of these, what may have no room: not a file behind a descriptor */
    char *temporary; /* NULL as long as the temporary file has no name */
    int fd;
    size_t used;
    unsigned char *buffer;
    cst_status failure; /* of a write, after which the file can only be given up; atomic */
};

static cst_status failed(cst_context *context, const cst_output_file *output, const char *what,
                         int reason) {
    return cst_fail(context, CST_ERROR_IO, "%s: %s failed: %s%s", output->path, what,
                    strerror(reason), output->direct ? "" : "; nothing was changed");
}

/* The name under /proc by which an open file can be linked; false without /proc. */
static bool proc_name(int fd, char name[PROC_CHARS]) {
    (void)cst_snprintf(name, PROC_CHARS, "/proc/self/fd/%d", fd);
    return access(name, F_OK) == 0;
}

/* The folder of the path, for cst_free. */
static char *folder_of(cst_context *context, const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = cst_strdup(context, slash ? path : ".");
    if (folder && slash)
        folder[slash == path ? 1 : slash - path] = '\0';
    return folder;
}

/* PATH.tmp.<process>. for cst_free; a name that is too long is cut between characters. */
static char *temporary_prefix(cst_context *context, const char *path) {
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    size_t cut = strlen(base);
    if (cut > NAME_BYTES)
        for (cut = NAME_BYTES; cut > 0 && ((unsigned char)base[cut] & 0xC0) == 0x80;)
            cut--;
    return cst_format(context, "%.*s.tmp.%ld.", (int)((size_t)(base - path) + cut), path,
                      (long)getpid());
}

static char *temporary_name(cst_context *context, const char *path, int attempt) {
    char *prefix = temporary_prefix(context, path);
    char *name = prefix ? cst_format(context, "%s%d", prefix, attempt) : NULL;
    cst_free(context, prefix);
    return name;
}

static void sync_folder(cst_context *context, const char *path);

static void remove_folder(const char *path) {
    (void)chmod(path, S_IRWXU);
    DIR *open = cst_open_entries(AT_FDCWD, path, 0);
    for (const struct dirent *entry; open && (entry = cst_next_entry(open)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)cst_remove_at(dirfd(open), entry->d_name, 0);
    if (open)
        (void)closedir(open);
    (void)cst_remove_folder(path);
}

/* ---- what is held ---- */

/* Takes over what was finished where `path` is held. */
static bool hold(cst_context *context, const char *path, char *temporary, bool folder,
                 mode_t mode) {
    cst_context *root = cst_context_root(context);
    (void)pthread_mutex_lock(&root->files_lock);
    held *h = root->held;
    while (h && (h->temporary || strcmp(h->path, path) != 0))
        h = h->next;
    if (h && temporary) {
        h->temporary = temporary;
        h->folder = folder;
        h->mode = mode;
    }
    (void)pthread_mutex_unlock(&root->files_lock);
    return h != NULL;
}

cst_status cst_hold_file(cst_context *context, const char *path, char **prefix) {
    CST_CLEAR(prefix);
    CST_ENTER(context);
    CST_NEED(context, path, "path is required");
    held *made = cst_alloc(context, 1, sizeof *made);
    char *copy = cst_strdup(context, path);
    char *begin = prefix ? temporary_prefix(context, path) : NULL;
    if (!made || !copy || (prefix && !begin)) {
        cst_free(context, made);
        cst_free(context, copy);
        cst_free(context, begin);
        return cst_why(context, CST_ERROR_MEMORY);
    }
    held **last = &context->held;
    while (*last)
        last = &(*last)->next;
    made->path = copy;
    *last = made;
    context->drop_held = cst_drop_files;
    if (prefix)
        *prefix = begin;
    return CST_OK;
}

void cst_drop_files(cst_context *context) {
    while (context && context->held) {
        held *h = context->held;
        context->held = h->next;
        if (h->temporary && h->folder)
            remove_folder(h->temporary);
        else if (h->temporary)
            (void)cst_remove_file(h->temporary);
        cst_free(context, h->temporary);
        cst_free(context, h->path);
        cst_free(context, h);
    }
}

static cst_status give_name(cst_context *context, held *h) {
    h->fresh = !h->folder && access(h->path, F_OK) != 0;
    if (h->folder)
        (void)chmod(h->temporary, h->mode);
    if (cst_rename(h->temporary, h->path) != 0) {
        h->fresh = false;
        return cst_fail(context, CST_ERROR_IO,
                        "%s: renaming the finished %s failed: %s; nothing was changed", h->path,
                        h->folder ? "folder" : "file", strerror(errno));
    }
    cst_free(context, h->temporary);
    h->temporary = NULL;
    sync_folder(context, h->path);
    return CST_OK;
}

cst_status cst_release_files(cst_context *context) {
    CST_ENTER(context);
    cst_status status = CST_OK;
    for (int replaces = 0; replaces < 2; replaces++) /* new ones first: they can be taken back */
        for (held *h = context->held; status == CST_OK && h; h = h->next)
            if (h->temporary && (access(h->path, F_OK) == 0) == (replaces == 1))
                status = give_name(context, h);
    for (const held *h = context->held; status != CST_OK && h; h = h->next)
        if (h->fresh)
            (void)cst_remove_file(h->path);
    cst_drop_files(context);
    return cst_why(context, status);
}

/* ---- open descriptors ---- */

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

enum { MAX_LINKS = 40, MAX_DIGITS = 9 };

/* Whether a folder, without links in its path, holds open descriptors; *own: of this process. */
static bool holds_descriptors(const char *folder, bool *own) {
    char self[PATH_MAX];
    size_t length = strlen(folder);
    *own = strcmp(folder, "/dev/fd") == 0; /* a folder itself where there is no /proc */
    if (*own)
        return true;
    if (length < 9 || strncmp(folder, "/proc/", 6) != 0 || strcmp(folder + length - 3, "/fd") != 0)
        return false;
    *own = realpath("/proc/self", self) && strncmp(folder, self, strlen(self)) == 0 &&
           folder[strlen(self)] == '/';
    return true;
}

/* Whether `path` means an open descriptor, which keeps its offset. *fd: its number in this process,
 * or -1 for one of another process, which can only be opened by the path. */
static bool names_descriptor(const char *path, int *fd) {
    char at[PATH_MAX];
    char link[PATH_MAX];
    char folder[PATH_MAX];
    bool own = false;
    *fd = -1;
    if (strlen(path) >= sizeof at)
        return false;
    memcpy(at, path, strlen(path) + 1);
    for (int hop = 0; hop < MAX_LINKS; hop++) {
        char *slash = strrchr(at, '/');
        const char *base = slash ? slash + 1 : at;
        size_t above = (size_t)(base - at);
        size_t digits = strspn(base, "0123456789");
        char first = *base;
        at[above] = '\0';
        const char *found = realpath(above ? at : ".", folder);
        at[above] = first;
        if (!found)
            return false;
        if (digits > 0 && digits <= MAX_DIGITS && !base[digits] &&
            holds_descriptors(folder, &own)) {
            *fd = own ? (int)strtol(base, NULL, 10) : -1;
            return true;
        }
        ssize_t length = readlink(at, link, sizeof link - 1);
        if (length <= 0)
            return false;
        above = *link == '/' ? 0 : above; /* what it says stands beside the link, or alone */
        if (above + (size_t)length >= sizeof at)
            return false;
        memcpy(at + above, link, (size_t)length);
        at[above + (size_t)length] = '\0';
    }
    return false;
}

int cst_path_is_descriptor(const char *path) {
    int fd = -1;
    return path && names_descriptor(path, &fd);
}

/* ---- files ---- */

/* A file without a name, gone with the program; output->fd stays -1 where unsupported. */
static cst_status open_nameless(cst_context *context, cst_output_file *output, mode_t mode) {
#ifdef O_TMPFILE
    char name[PROC_CHARS];
    char *folder = folder_of(context, output->path);
    if (!folder)
        return CST_ERROR_MEMORY;
    output->fd = cst_open_file(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, mode);
    cst_free(context, folder);
    if (output->fd >= 0 && !proc_name(output->fd, name)) {
        (void)close(output->fd);
        output->fd = -1;
    }
#endif
    return CST_OK;
}

/* Names the temporary file PATH.tmp.<process>.<try>. fd: open and nameless, or -1: made here. */
static cst_status name_temporary(cst_context *context, cst_output_file *output, int fd,
                                 mode_t mode) {
    char proc[PROC_CHARS];
    (void)proc_name(fd, proc);
    int done = -1;
    for (int attempt = 0; attempt < NAME_TRIES && done < 0; attempt++) {
        cst_free(context, output->temporary);
        output->temporary = temporary_name(context, output->path, attempt);
        if (!output->temporary)
            return CST_ERROR_MEMORY;
        if (fd >= 0)
            done = cst_link_open(proc, output->temporary);
        else
            done = output->fd =
                cst_open_file(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (done < 0 && errno != EEXIST)
            break;
    }
    if (done >= 0)
        return CST_OK;
    int reason = errno;
    cst_free(context, output->temporary);
    output->temporary = NULL;
    return failed(context, output, "creating a temporary file next to it", reason);
}

/* Starts a temporary file with the permissions of the file it will replace. */
static cst_status open_temporary(cst_context *context, cst_output_file *output, mode_t mode,
                                 bool keep_mode) {
    CST_TRY(open_nameless(context, output, mode));
    if (output->fd < 0)
        CST_TRY(name_temporary(context, output, -1, mode));
    if (keep_mode)
        (void)fchmod(output->fd, mode);
    return CST_OK;
}

/* The target of links, beside which the temporary file is made. */
static cst_status follow(cst_context *context, cst_scope *scope, const char *path, char **out) {
    struct stat info;
    char *target = NULL;
    bool exists = stat(path, &info) == 0;
    bool regular = exists && S_ISREG(info.st_mode); /* /dev/stdout leads to what has no path */
    int reason = errno;
    bool linked = lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
    if (linked && regular) {
        target = realpath(path, NULL);
        reason = errno;
    }
    if (linked && (!exists || (regular && !target)))
        return cst_fail(context, CST_ERROR_IO, "%s: is a dangling link (%s); name the file itself",
                        path, strerror(reason));
    *out = cst_take_text(context, scope, target ? target : path);
    free(target);
    return *out ? CST_OK : CST_ERROR_MEMORY;
}

/* ---- what may have to be waited for ---- */

/* No call that would block (an unread pipe, a stopped terminal) is made before there is room. */

enum {
    WAIT_MS = 50,
    PIECE_BYTES = 4096
}; /* of a pipe with room so much is written without waiting */

/* Opens a pipe for writing as soon as somebody reads it. */
static cst_status open_pipe(cst_context *context, cst_output_file *output, const char *path) {
    const struct timespec pause = {.tv_nsec = WAIT_MS * 1000000L};
    for (int tries = 0;; tries++) {
        if (tries == CST_WAITS_SAID)
            cst_notice(context, "%s: is a pipe: waiting for a program that reads it", path);
        output->fd = cst_open_file(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK, 0);
        if (output->fd >= 0)
            break;
        if (errno != ENXIO)
            return failed(context, output, "opening", errno);
        CST_TRY(cst_poll_waiting(context, "writing"));
        (void)nanosleep(&pause, NULL);
    }
    if (fcntl(output->fd, F_SETFL, O_WRONLY) != 0)
        return failed(context, output, "opening", errno);
    return CST_OK;
}

static cst_status wait_for_room(cst_context *context, const cst_output_file *output) {
    struct pollfd room = {.fd = output->fd, .events = POLLOUT};
    for (int ready = 0; ready == 0;) {
        ready = poll(&room, 1, WAIT_MS);
        if (ready < 0 && errno == EINTR)
            ready = 0;
        if (ready == 0)
            CST_TRY(cst_poll_waiting(context, "writing"));
    }
    return CST_OK; /* what poll cannot tell, writing will */
}

/* Opens what has no temporary file. A descriptor of ours is used as it is, since a new one would
 * begin at the first byte; of another process it is appended to. */
static cst_status open_direct(cst_context *context, cst_output_file *output, const char *path,
                              bool descriptor, int fd, mode_t kind) {
    output->direct = true;
    output->waits = !S_ISREG(kind);
    if (fd < 0 && S_ISFIFO(kind))
        return open_pipe(context, output, path);
    if (fd >= 0)
        output->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    else
        output->fd = cst_open_file(path, O_WRONLY | O_CLOEXEC | (descriptor ? O_APPEND : 0), 0);
    return output->fd < 0 ? failed(context, output, "opening", errno) : CST_OK;
}

static cst_status open_file(cst_context *context, cst_output_file *output, const char *path) {
    struct stat info;
    int fd = -1;
    bool descriptor = names_descriptor(path, &fd);
    CST_TAKE(context, &output->scope, output->buffer, BUFFER_BYTES);
    if (!descriptor)
        CST_TRY(follow(context, &output->scope, path, &output->path));
    else if (!(output->path = cst_take_text(context, &output->scope, path)))
        return CST_ERROR_MEMORY;
    bool exists = stat(path, &info) == 0;
    if (exists && S_ISDIR(info.st_mode))
        return cst_fail(context, CST_ERROR_IO, "%s: is a folder; name a file", path);
    if (descriptor || (exists && !S_ISREG(info.st_mode)))
        return open_direct(context, output, path, descriptor, fd, exists ? info.st_mode : 0);
    return open_temporary(context, output, exists ? info.st_mode & 0777 : 0666, exists);
}

cst_status cst_output_open(cst_context *context, cst_output_file **out, const char *path) {
    *out = NULL;
    cst_output_file *output = cst_alloc(context, 1, sizeof *output);
    if (!output)
        return CST_ERROR_MEMORY;
    output->fd = -1;
    cst_status status = open_file(context, output, path);
    if (status == CST_OK)
        *out = output;
    else
        cst_output_abort(context, output);
    return status;
}

/* Notes what became of a write. */
static cst_status wrote(cst_output_file *output, cst_status status) {
    if (status != CST_OK)
        __atomic_store_n(&output->failure, status, __ATOMIC_RELAXED);
    return status;
}

/* Refuses to write after bytes that failed. */
static cst_status check_whole(cst_context *context, const cst_output_file *output) {
    cst_status failure = __atomic_load_n(&output->failure, __ATOMIC_RELAXED);
    if (failure == CST_OK)
        return CST_OK;
    return cst_fail(context, failure,
                    "%s: cannot be completed: an earlier part could not be written", output->path);
}

static cst_status write_all(cst_context *context, cst_output_file *output,
                            const unsigned char *data, size_t bytes) {
    const size_t most = output->waits ? PIECE_BYTES : (size_t)1 << 30;
    while (bytes > 0) {
        size_t chunk = bytes < most ? bytes : most;
        if (output->waits)
            CST_TRY(wait_for_room(context, output));
        ssize_t done = write(output->fd, data, chunk);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return failed(context, output, "writing", errno);
        data += done;
        bytes -= (size_t)done;
    }
    return CST_OK;
}

static cst_status flush(cst_context *context, cst_output_file *output) {
    cst_status status = write_all(context, output, output->buffer, output->used);
    output->used = 0;
    return wrote(output, status);
}

cst_status cst_output_write(cst_context *context, cst_output_file *output, const void *data,
                            size_t bytes) {
    CST_TRY(check_whole(context, output));
    if (bytes > BUFFER_BYTES - output->used)
        CST_TRY(flush(context, output));
    if (bytes >= BUFFER_BYTES)
        return wrote(output, write_all(context, output, data, bytes));
    memcpy(output->buffer + output->used, data, bytes);
    output->used += bytes;
    return CST_OK;
}

bool cst_output_is_file(const cst_output_file *output) {
    return !output->direct;
}

cst_status cst_output_write_at(cst_context *context, cst_output_file *output, uint64_t offset,
                               const void *data, size_t bytes) {
    const unsigned char *from = data;
    CST_TRY(check_whole(context, output));
    while (bytes > 0) {
        size_t chunk = bytes < ((size_t)1 << 30) ? bytes : (size_t)1 << 30;
        ssize_t done = pwrite(output->fd, from, chunk, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return wrote(output, failed(context, output, "writing", errno));
        from += done;
        offset += (uint64_t)done;
        bytes -= (size_t)done;
    }
    return CST_OK;
}

/* Makes the new name durable. Failure is not reported: some systems cannot sync a folder. */
static void sync_folder(cst_context *context, const char *path) {
    char *folder = folder_of(context, path);
    if (!folder)
        return;
    int fd = cst_open_file(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd >= 0) {
        (void)cst_fsync(fd);
        (void)close(fd);
    }
    cst_free(context, folder);
}

/* The data once more, into a file that has a name: where one without a name cannot be given one. */
static cst_status copy_to_named(cst_context *context, cst_output_file *output) {
    struct stat info;
    int from = output->fd;
    output->fd = -1;
    cst_status status =
        fstat(from, &info) == 0 ? CST_OK : failed(context, output, "copying", errno);
    mode_t mode = status == CST_OK ? info.st_mode & 0777 : 0;
    CST_THEN(name_temporary(context, output, -1, mode));
    if (status == CST_OK)
        (void)fchmod(output->fd, mode);
    for (off_t at = 0; status == CST_OK && at < info.st_size;) {
        ssize_t got = cst_pread(from, output->buffer, BUFFER_BYTES, at);
        if (got <= 0)
            status = failed(context, output, "copying", got < 0 ? errno : EIO);
        else
            status = write_all(context, output, output->buffer, (size_t)got);
        at += got;
    }
    if (status == CST_OK && !cst_synced(output->fd))
        status = failed(context, output, "syncing", errno);
    (void)close(from);
    return status;
}

/* Puts the finished file in its place; a nameless one at once where nothing is there. */
static cst_status put_in_place(cst_context *context, cst_output_file *output) {
    char proc[PROC_CHARS];
    bool waits = hold(context, output->path, NULL, false, 0);
    if (!output->temporary) {
        (void)proc_name(output->fd, proc);
        if (!waits && cst_link_open(proc, output->path) == 0)
            return CST_OK;
        cst_status status = CST_OK;
        if (waits || errno == EEXIST)
            status = name_temporary(context, output, output->fd, 0);
        if (status != CST_ERROR_MEMORY && !output->temporary)
            CST_TRY(copy_to_named(context, output));
        if (!output->temporary)
            return status;
    }
    if (!waits || !hold(context, output->path, output->temporary, false, 0)) {
        if (cst_rename(output->temporary, output->path) != 0)
            return failed(context, output, "renaming the finished file", errno);
        cst_free(context, output->temporary);
    }
    output->temporary = NULL;
    return CST_OK;
}

static cst_status finish(cst_context *context, cst_output_file *output) {
    CST_TRY(check_whole(context, output));
    CST_TRY(flush(context, output));
    if (output->direct) {
        int closed = close(output->fd);
        output->fd = -1;
        return closed != 0 && errno != EINTR /* after which it is closed as well */
                   ? failed(context, output, "closing", errno)
                   : CST_OK;
    }
    if (!cst_synced(output->fd))
        return failed(context, output, "syncing", errno);
    CST_TRY(put_in_place(context, output));
    sync_folder(context, output->path);
    return CST_OK;
}

cst_status cst_output_commit(cst_context *context, cst_output_file *output) {
    cst_status status = finish(context, output);
    cst_output_abort(context, output);
    return status;
}

void cst_output_abort(cst_context *context, cst_output_file *output) {
    if (!output)
        return;
    if (output->fd >= 0)
        (void)close(output->fd);
    if (output->temporary)
        (void)cst_remove_file(output->temporary);
    cst_free(context, output->temporary);
    cst_scope_free(&output->scope);
    cst_free(context, output);
}

cst_status cst_output_end(cst_context *context, cst_output_file *output, cst_status status) {
    if (status == CST_OK)
        return cst_output_commit(context, output);
    cst_output_abort(context, output);
    return status;
}

/* ---- folders ---- */

struct cst_output_folder {
    char *path, *temporary;
    mode_t mode; /* when it is finished; nobody else may enter it before */
};

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
        folder->temporary = temporary_name(context, folder->path, attempt);
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
    cst_status status = CST_OK;
    if (hold(context, folder->path, folder->temporary, true, folder->mode))
        folder->temporary = NULL;
    else if (cst_rename(folder->temporary, folder->path) != 0)
        status = cst_fail(context, CST_ERROR_IO, "%s: cannot rename the finished folder: %s",
                          folder->path, strerror(errno));
    if (status != CST_OK)
        remove_folder(folder->temporary);
    release(context, folder);
    return status;
}

void cst_output_folder_abort(cst_context *context, cst_output_folder *folder) {
    if (!folder)
        return;
    remove_folder(folder->temporary);
    release(context, folder);
}
