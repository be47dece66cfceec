/*
 * The file behind -o: checked before any work, never an input, and in its place only when the
 * report got out as well. First and last step of the commands that write a file.
 */
#define _GNU_SOURCE /* realpath, statx */
#include "cli.h"
#include <corestack/files.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Of a name, so that what is added here and in src/data/files/output.c still makes a legal one. */
enum { NAME_BYTES = 200, NAME_TRIES = 100 };

/* ---- permissions ---- */

static const mode_t OTHERS = S_IRWXG | S_IRWXO;

static mode_t usual_mask; /* of new files, as the tool was started with */
static bool narrowed;

void cli_narrow_permissions(const cli_outfile *outfile) {
    struct stat before;
    if (outfile->direct || outfile->folder || narrowed || stat(outfile->final, &before) != 0)
        return;
    mode_t allowed = before.st_mode & OTHERS;
    allowed |= (allowed & (S_IRGRP | S_IROTH)) >> 2; /* folders are entered by who reads */
    usual_mask = umask(OTHERS);
    narrowed = true;
    (void)umask(usual_mask | (~allowed & OTHERS));
}

void cli_usual_permissions(void) {
    if (narrowed)
        (void)umask(usual_mask);
    narrowed = false;
}

int cli_check_written(cli_call *call, cst_status status) {
    cli_usual_permissions();
    return cli_check(call, status);
}

/* Gives what is finished the permissions of what it replaces. A new file has its own already, which
 * are not the umask's where the folder has a default ACL. */
static void settle_permissions(const cli_outfile *outfile) {
    struct stat before;
    if (stat(outfile->final, &before) == 0)
        (void)chmod(outfile->write_to, before.st_mode & (outfile->folder ? 07777 : 0777));
}

/* ---- places ---- */

/* Whether something is mounted at this very path: it cannot be renamed away. */
static bool is_mount(const char *path) {
#ifdef STATX_ATTR_MOUNT_ROOT
    struct statx info;
    return statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, 0, &info) == 0 &&
           (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
#else
    (void)path;
    return false;
#endif
}

static int check_folder(cli_call *call, const char *option, const char *path) {
    char folder[CLI_PATH_CHARS];
    struct stat info;
    if (!cli_folder_of(path, folder))
        return cli_fail(call, "%s: the path is too long", option);
    if (stat(folder, &info) != 0)
        return cli_fail(call, "%s %s: cannot use the folder %s: %s", option, path, folder,
                        strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return cli_fail(call, "%s %s: %s is not a folder", option, path, folder);
    if (access(folder, W_OK) != 0)
        return cli_fail(call, "%s %s: cannot write to the folder %s: %s", option, path, folder,
                        strerror(errno));
    /* Such a name would be refused only when the finished file gets it. */
    long most = pathconf(folder, _PC_NAME_MAX);
    size_t length = strlen(cli_base_name(path));
    if (most > 0 && length > (size_t)most)
        return cli_fail(
            call,
            "%s: a name of %zu bytes is too long for this file system, whose limit is %ld: %s",
            option, length, most, path);
    if (lstat(path, &info) != 0 && errno == ENAMETOOLONG)
        return cli_fail(call, "%s: the file system does not accept this name: %s: %s", option,
                        strerror(errno), path);
    if (is_mount(path))
        return cli_fail(
            call, "%s %s: this file is a mount point, which cannot be replaced; name another file",
            option, path);
    return CLI_OK;
}

/* A number for a name beside an output, chosen anew for each run and known to nobody else, so that
 * what bears it is ours: the numbers of processes are used again, at once in containers. */
static uint64_t draw_name(void) {
    uint64_t drawn = 0;
    struct timespec now = {0};
    int random = -1;
    ssize_t got = 0;
    do
        random = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    while (random < 0 && errno == EINTR);
    if (random >= 0) {
        do
            got = read(random, &drawn, sizeof drawn);
        while (got < 0 && errno == EINTR);
        (void)close(random);
    }
    if (got == (ssize_t)sizeof drawn)
        return drawn;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)getpid() << 40) ^ ((uint64_t)now.tv_sec << 30) ^ (uint64_t)now.tv_nsec;
}

/* Names outfile->write_to FINAL.new.<16 digits>, where nothing is; of a long name only the first
 * bytes stand there, whole characters of UTF-8. */
static int choose_new_name(cli_call *call, cli_outfile *outfile) {
    const char *base = cli_base_name(outfile->final);
    struct stat info;
    size_t cut = strlen(base);
    if (cut > NAME_BYTES)
        for (cut = NAME_BYTES; cut > 0 && ((unsigned char)base[cut] & 0xC0) == 0x80;)
            cut--;
    for (int attempt = 0; attempt < NAME_TRIES; attempt++) {
        (void)snprintf(outfile->write_to, sizeof outfile->write_to, "%.*s.new.%016" PRIx64,
                       (int)((size_t)(base - outfile->final) + cut), outfile->final, draw_name());
        errno = EEXIST;
        if (lstat(outfile->write_to, &info) != 0) {
            if (errno != ENOENT)
                break;
            cli_unfinished_name(outfile->write_to);
            return CLI_OK;
        }
    }
    *outfile->write_to = '\0';
    return cli_fail(call, "%s %s: cannot create a file next to it: %s", outfile->option,
                    outfile->path, strerror(errno));
}

/* Where to write: beside the file that the path leads to, links followed. */
static int choose_place(cli_call *call, cli_outfile *outfile) {
    struct stat info;
    char *real = NULL;
    if (lstat(outfile->path, &info) == 0) {
        real = realpath(outfile->path, NULL);
        if (!real)
            return cli_fail(call, "%s %s: this is a dangling link: %s", outfile->option,
                            outfile->path, strerror(errno));
    }
    int length = snprintf(outfile->final, sizeof outfile->final, "%s", real ? real : outfile->path);
    free(real);
    if (length < 0 || (size_t)length >= sizeof outfile->final)
        return cli_fail(call, "%s: the path is too long", outfile->option);
    int code = check_folder(call, outfile->option, outfile->final);
    return code == CLI_OK ? choose_new_name(call, outfile) : code;
}

/* Whether the report would stand among what is written there: it is standard output, by whatever
 * name. */
static bool takes_report(const char *path) {
    struct stat outfile;
    struct stat out;
    return stat(path, &outfile) == 0 && fstat(STDOUT_FILENO, &out) == 0 &&
           cli_same_place(&outfile, &out);
}

/* The file is another rank's. */
static int write_nowhere(cli_outfile *outfile) {
    outfile->direct = true;
    (void)snprintf(outfile->write_to, sizeof outfile->write_to, "/dev/null");
    return CLI_OK;
}

int cli_open_outfile_of(cli_call *call, const char *name, const char *what, cli_outfile *outfile) {
    struct stat info;
    *outfile = (cli_outfile){.option = cli_output_shown(name), .path = cli_value(call, name)};
    if (!outfile->path || !*outfile->path)
        return cli_fail(call, "no file name for %s: give it with %s FILE", what, outfile->option);
    bool dash = strcmp(outfile->path, "-") == 0;
    if (dash || takes_report(outfile->path))
        return cli_fail(call,
                        "%s %s: %s is written to a file, because the report goes to standard "
                        "output; name %s file",
                        outfile->option, outfile->path, what, dash ? "a" : "another");
    int code = cli_check_named_inputs(call);
    if (code != CLI_OK)
        return code;
    bool exists = stat(outfile->path, &info) == 0;
    if (exists && S_ISDIR(info.st_mode))
        return cli_fail(call, "%s %s: this is a folder; name a file", outfile->option,
                        outfile->path);
    if (!cli_writes())
        return write_nowhere(outfile);
    bool descriptor = cst_path_is_descriptor(outfile->path);
    if (descriptor && !exists)
        return cli_fail(call, "%s %s: this descriptor is not open", outfile->option, outfile->path);
    if (descriptor || (exists && !S_ISREG(info.st_mode))) { /* or a device or pipe: directly */
        outfile->direct = true;
        if (strlen(outfile->path) >= sizeof outfile->write_to)
            return cli_fail(call, "%s: the path is too long", outfile->option);
        (void)snprintf(outfile->write_to, sizeof outfile->write_to, "%s", outfile->path);
        return CLI_OK;
    }
    return choose_place(call, outfile);
}

int cli_place_outfile(cli_call *call, const char *option, const char *path, cli_outfile *outfile) {
    struct stat info;
    *outfile = (cli_outfile){.option = option, .path = path};
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return cli_fail(call, "%s: %s exists and is not a regular file", option, path);
    if (takes_report(path))
        return cli_fail(call, "%s: %s already receives the report; send the report elsewhere",
                        option, path);
    return cli_writes() ? choose_place(call, outfile) : write_nowhere(outfile);
}

int cli_open_state(cli_call *call, cli_outfile *outfile) {
    int code = cli_open_outfile_of(call, "state", "the state", outfile);
    if (code == CLI_OK && cli_writes() && outfile->direct)
        return cli_fail(call, "--state %s: the state is read and replaced, so it must be a file",
                        outfile->path);
    return code;
}

int cli_lock_state(cli_call *call, const cli_outfile *outfile, struct cst_lock **lock,
                   bool *there) {
    struct stat info;
    int code = CLI_OK;
    if (cli_writes())
        code = cli_check(call, cst_lock_file(call->context, lock, outfile->final));
    code = cli_agree(call, code);
    *there = stat(outfile->path, &info) == 0;
    return code;
}

int cli_open_outfile(cli_call *call, const char *what, cli_outfile *outfile) {
    return cli_open_outfile_of(call, "output", what, outfile);
}

static DIR *open_folder(const char *path) {
    DIR *folder = NULL;
    do
        folder = opendir(path);
    while (!folder && errno == EINTR);
    return folder;
}

/* NULL at the end, where errno is 0, and where the folder cannot be read. */
static const struct dirent *next_entry(DIR *folder) {
    const struct dirent *entry = NULL;
    do {
        errno = 0;
        entry = readdir(folder);
    } while (!entry && errno == EINTR);
    return entry;
}

/* Whether a folder is known to hold nothing. */
static bool is_empty(const char *path) {
    DIR *folder = open_folder(path);
    bool empty = folder != NULL;
    for (const struct dirent *entry; empty && (entry = next_entry(folder)) != NULL;)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    empty = empty && errno == 0;
    if (folder)
        (void)closedir(folder);
    return empty;
}

/* Makes the folder to write to with the permissions of the one that it will replace, which the
 * library gives to what it puts there. */
static int make_alike(cli_call *call, cli_outfile *outfile, mode_t mode) {
    int made = 0;
    do
        made = mkdir(outfile->write_to, (mode & 0777) | S_IRWXU);
    while (made != 0 && errno == EINTR);
    if (made != 0) {
        *outfile->write_to = '\0'; /* not ours to remove */
        return cli_fail(call, "-o %s: cannot create a folder next to it: %s", outfile->path,
                        strerror(errno));
    }
    (void)chmod(outfile->write_to, mode & 07777);
    return CLI_OK;
}

int cli_open_out_folder(cli_call *call, const char *what, const char *instead,
                        cli_outfile *outfile) {
    char path[CLI_PATH_CHARS];
    struct stat info;
    *outfile = (cli_outfile){.option = "-o", .path = cli_value(call, "output"), .folder = true};
    if (!outfile->path || !*outfile->path)
        return cli_fail(call, "no folder name for %s: give it with -o FOLDER", what);
    size_t length = strlen(outfile->path);
    while (length > 1 && outfile->path[length - 1] == '/')
        length--;
    if (length >= sizeof path)
        return cli_fail(call, "-o: the path is too long");
    (void)snprintf(path, sizeof path, "%.*s", (int)length, outfile->path);
    const char *base = cli_base_name(path);
    if (strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
        return cli_fail(call, "-o %s: a folder cannot be renamed to '%s'; choose a new name",
                        outfile->path, base);
    bool exists = lstat(path, &info) == 0;
    if (exists && !S_ISDIR(info.st_mode))
        return cli_fail(call,
                        "-o %s: this is not a folder, but %s goes to a folder; name a new folder%s",
                        outfile->path, what, instead);
    if (exists && !is_empty(path))
        return cli_fail(call, "-o %s: the folder is not empty; name a new one", outfile->path);
    (void)snprintf(outfile->final, sizeof outfile->final, "%s", path);
    int code = check_folder(call, "-o", path);
    if (code == CLI_OK)
        code = choose_new_name(call, outfile);
    return code == CLI_OK && exists ? make_alike(call, outfile, info.st_mode) : code;
}

static void remove_at(int folder, const char *name, int flags) {
    while (unlinkat(folder, name, flags) != 0 && errno == EINTR) {
    }
}

void cli_remove_file(const char *path) {
    remove_at(AT_FDCWD, path, 0);
}

void cli_remove_folder(const char *path) {
    remove_at(AT_FDCWD, path, AT_REMOVEDIR);
}

/* Removes what a command wrote, if it got so far: a file, or a folder of files. */
static void remove_target(const cli_outfile *outfile) {
    if (outfile->folder)
        (void)chmod(outfile->write_to, S_IRWXU);
    DIR *folder = outfile->folder ? open_folder(outfile->write_to) : NULL;
    for (const struct dirent *entry; folder && (entry = next_entry(folder)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            remove_at(dirfd(folder), entry->d_name, 0);
    if (folder)
        (void)closedir(folder);
    (outfile->folder ? cli_remove_folder : cli_remove_file)(outfile->write_to);
}

bool cli_outfile_ends(const cli_outfile *outfile, const char *extension) {
    size_t length = strlen(outfile->path);
    size_t tail = strlen(extension);
    return length >= tail && strcasecmp(outfile->path + length - tail, extension) == 0;
}

void cli_sync_folder(const char *folder) {
    int descriptor = -1;
    do
        descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0)
        return;
    while (fsync(descriptor) != 0 && errno == EINTR) {
    }
    (void)close(descriptor);
}

bool cli_name_outfile(const cli_outfile *outfile) {
    int renamed = 0;
    settle_permissions(outfile);
    do
        renamed = rename(outfile->write_to, outfile->final);
    while (renamed != 0 && errno == EINTR);
    return renamed == 0;
}

bool cli_outfile_is_npy(const cli_outfile *outfile) {
    bool other = cli_outfile_ends(outfile, ".csv") || cli_outfile_ends(outfile, ".json");
    return cli_outfile_ends(outfile, ".npy") || (outfile->direct && !other);
}

/* Gives a finished file its name. */
static int name_target(cli_call *call, const cli_outfile *outfile) {
    if (cli_name_outfile(outfile))
        return CLI_OK;
    return cli_fail(call, "%s %s: the finished file could not be renamed: %s; nothing was changed",
                    outfile->option, outfile->path, strerror(errno));
}

int cli_close_outfiles(cli_call *call, const cli_outfile *outfiles, int count, int code) {
    char folder[CLI_PATH_CHARS];
    bool fresh[CLI_OUTFILES] = {false};
    int named = 0;
    code = cli_agree(call, code);
    if (code == CLI_OK)
        code = cli_finish_output(call->command->name, code);
    for (; code == CLI_OK && named < count; named += code == CLI_OK) {
        const cli_outfile *outfile = &outfiles[named];
        if (outfile->direct || !*outfile->write_to)
            continue;
        fresh[named] = access(outfile->final, F_OK) != 0;
        if (cli_writes())
            code = name_target(call, outfile);
    }
    for (int i = 0; i < count; i++) {
        const cli_outfile *outfile = &outfiles[i];
        if (outfile->direct || !*outfile->write_to)
            continue;
        if (code == CLI_OK && cli_writes() && cli_folder_of(outfile->final, folder))
            cli_sync_folder(folder);
        else if ((code != CLI_OK && i >= named) || !cli_writes())
            remove_target(outfile);
        else if (code != CLI_OK && fresh[i])
            cli_remove_file(outfile->final);
    }
    return code;
}

int cli_close_outfile(cli_call *call, const cli_outfile *outfile, int code) {
    return cli_close_outfiles(call, outfile, 1, code);
}
