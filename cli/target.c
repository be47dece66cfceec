/*
 * The file behind -o: checked before any work, never an input, and in its place only when the
 * report got out as well.
 * First and last step of the commands that write a file. Paper: none.
 */
#define _XOPEN_SOURCE 700 /* realpath */
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

/* Of a name, so that what is added here and in src/io/output.c still makes a legal one. */
enum { NAME_BYTES = 200, NAME_TRIES = 100 };

/* ---- inputs ---------------------------------------------------------------------------------- */

/* What follows the last slash. */
static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The folder of a path, "." where none is named; false where it does not fit. */
static bool folder_of(const char *path, char folder[CLI_PATH_CHARS]) {
    size_t length = (size_t)(base_name(path) - path);
    if (length >= CLI_PATH_CHARS)
        return false;
    (void)snprintf(folder, CLI_PATH_CHARS, "%.*s", (int)length, length ? path : ".");
    if (length == 0)
        (void)snprintf(folder, CLI_PATH_CHARS, ".");
    return true;
}

/* Whether two paths lead to one file, by whatever names. Where neither is there yet, whether they
 * are the same name in the same folder. */
static bool same_file(const char *a, const char *b) {
    char folders[2][CLI_PATH_CHARS];
    struct stat first;
    struct stat second;
    bool there = stat(a, &first) == 0;
    if (there != (stat(b, &second) == 0))
        return false;
    if (there)
        return S_ISREG(first.st_mode) && first.st_dev == second.st_dev &&
               first.st_ino == second.st_ino;
    return strcmp(base_name(a), base_name(b)) == 0 && folder_of(a, folders[0]) &&
           folder_of(b, folders[1]) && stat(folders[0], &first) == 0 &&
           stat(folders[1], &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

size_t cli_member(const char *path) {
    static const char *const containers[] = {".safetensors#", ".safetensors:", ".npz#", ".npz:"};
    for (size_t i = 0; i < sizeof containers / sizeof *containers; i++) {
        const char *found = strstr(path, containers[i]);
        if (found)
            return (size_t)(found - path) + strlen(containers[i]) - 1;
    }
    return 0;
}

int cli_check_input(cli_call *call, const char *input) {
    char archive[CLI_PATH_CHARS];
    const char *output = cli_value(call, "output");
    if (!output || !input)
        return CLI_OK;
    size_t member = cli_member(input);
    if (member && member < sizeof archive) { /* an array of an archive */
        (void)snprintf(archive, sizeof archive, "%.*s", (int)member, input);
        input = archive;
    }
    if (same_file(output, input))
        return cli_fail(call, "-o %s: that is %s, which is read here; name another file", output,
                        input);
    return CLI_OK;
}

/* Arguments and options that name files, and the manifest in a folder. */
static int check_named_inputs(cli_call *call) {
    static const char *const options[] = {"labels", "ids", "folds", "groups", "weights"};
    int code = CLI_OK;
    for (int i = 0; code == CLI_OK && i < call->argument_count; i++) {
        char manifest[CLI_PATH_CHARS];
        code = cli_check_input(call, call->arguments[i]);
        (void)snprintf(manifest, sizeof manifest, "%s/pool.json", call->arguments[i]);
        if (code == CLI_OK)
            code = cli_check_input(call, manifest);
    }
    for (size_t i = 0; code == CLI_OK && i < sizeof options / sizeof options[0]; i++)
        code = cli_check_input(call, cli_value(call, options[i]));
    return code;
}

/* ---- the target ------------------------------------------------------------------------------ */

static int check_folder(cli_call *call, const char *path) {
    char folder[CLI_PATH_CHARS];
    struct stat info;
    if (!folder_of(path, folder))
        return cli_fail(call, "-o: the path is too long");
    if (stat(folder, &info) != 0)
        return cli_fail(call, "-o %s: the folder %s cannot be used: %s", path, folder,
                        strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return cli_fail(call, "-o %s: %s is not a folder", path, folder);
    if (access(folder, W_OK) != 0)
        return cli_fail(call, "-o %s: the folder %s cannot be written: %s", path, folder,
                        strerror(errno));
    return CLI_OK;
}

uint64_t cli_draw_name(void) {
    uint64_t drawn = 0;
    struct timespec now = {0};
    FILE *random = fopen("/dev/urandom", "rbe");
    size_t got = random ? fread(&drawn, sizeof drawn, 1, random) : 0;
    if (random)
        (void)fclose(random);
    if (got == 1)
        return drawn;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)getpid() << 40) ^ ((uint64_t)now.tv_sec << 30) ^ (uint64_t)now.tv_nsec;
}

/* Names target->write_to FINAL.new.<16 digits>, where nothing is; of a long name only the first
 * bytes stand there, whole characters of UTF-8. */
static int choose_new_name(cli_call *call, cli_target *target) {
    const char *base = base_name(target->final);
    struct stat info;
    size_t cut = strlen(base);
    if (cut > NAME_BYTES)
        for (cut = NAME_BYTES; cut > 0 && ((unsigned char)base[cut] & 0xC0) == 0x80;)
            cut--;
    for (int attempt = 0; attempt < NAME_TRIES; attempt++) {
        (void)snprintf(target->write_to, sizeof target->write_to, "%.*s.new.%016" PRIx64,
                       (int)((size_t)(base - target->final) + cut), target->final, cli_draw_name());
        errno = EEXIST;
        if (lstat(target->write_to, &info) != 0) {
            if (errno == ENOENT)
                return CLI_OK;
            break;
        }
    }
    *target->write_to = '\0';
    return cli_fail(call, "-o %s: no file can be made beside it: %s", target->path,
                    strerror(errno));
}

/* Where to write: beside the file that -o leads to, links followed. */
static int choose_place(cli_call *call, cli_target *target) {
    struct stat info;
    char *real = NULL;
    if (lstat(target->path, &info) == 0) {
        real = realpath(target->path, NULL);
        if (!real)
            return cli_fail(call, "-o %s: it is a link that leads to no file: %s", target->path,
                            strerror(errno));
    }
    int length = snprintf(target->final, sizeof target->final, "%s", real ? real : target->path);
    free(real);
    if (length < 0 || (size_t)length >= sizeof target->final)
        return cli_fail(call, "-o: the path is too long");
    int code = check_folder(call, target->final);
    return code == CLI_OK ? choose_new_name(call, target) : code;
}

int cli_open_target(cli_call *call, const char *what, cli_target *target) {
    struct stat info;
    *target = (cli_target){.path = cli_value(call, "output")};
    if (!target->path || !*target->path)
        return cli_fail(call, "say where %s goes: -o FILE", what);
    if (strcmp(target->path, "-") == 0)
        return cli_fail(call,
                        "-o -: %s goes to a file, and the report to standard output; name a "
                        "file",
                        what);
    int code = check_named_inputs(call);
    if (code != CLI_OK)
        return code;
    bool exists = stat(target->path, &info) == 0;
    if (exists && S_ISDIR(info.st_mode))
        return cli_fail(call, "-o %s: it is a folder; name a file", target->path);
    bool descriptor = cst_path_is_descriptor(target->path);
    if (descriptor && !exists)
        return cli_fail(call, "-o %s: no such descriptor is open", target->path);
    if (descriptor || (exists && !S_ISREG(info.st_mode))) { /* or a device or pipe: directly */
        target->direct = true;
        if (strlen(target->path) >= sizeof target->write_to)
            return cli_fail(call, "-o: the path is too long");
        (void)snprintf(target->write_to, sizeof target->write_to, "%s", target->path);
        return CLI_OK;
    }
    return choose_place(call, target);
}

/* Whether a folder holds nothing. */
static bool is_empty(const char *path) {
    DIR *folder = opendir(path);
    bool empty = folder != NULL;
    for (const struct dirent *entry; empty && (entry = readdir(folder)) != NULL;)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (folder)
        (void)closedir(folder);
    return empty;
}

int cli_open_folder_target(cli_call *call, const char *what, const char *instead,
                           cli_target *target) {
    char path[CLI_PATH_CHARS];
    struct stat info;
    *target = (cli_target){.path = cli_value(call, "output"), .folder = true};
    if (!target->path || !*target->path)
        return cli_fail(call, "say where %s goes: -o FOLDER", what);
    size_t length = strlen(target->path);
    while (length > 1 && target->path[length - 1] == '/')
        length--;
    if (length >= sizeof path)
        return cli_fail(call, "-o: the path is too long");
    (void)snprintf(path, sizeof path, "%.*s", (int)length, target->path);
    if (lstat(path, &info) == 0 && !S_ISDIR(info.st_mode))
        return cli_fail(call, "-o %s: it is not a folder, as %s goes to one; name a new folder%s",
                        target->path, what, instead);
    if (lstat(path, &info) == 0 && !is_empty(path))
        return cli_fail(call, "-o %s: the folder is not empty; name a new one", target->path);
    (void)snprintf(target->final, sizeof target->final, "%s", path);
    int code = check_folder(call, path);
    return code == CLI_OK ? choose_new_name(call, target) : code;
}

/* Removes what a command wrote, if it got so far: a file, or a folder of files. */
static void remove_target(const cli_target *target) {
    DIR *folder = target->folder ? opendir(target->write_to) : NULL;
    for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        (void)closedir(folder);
    (void)(target->folder ? rmdir(target->write_to) : unlink(target->write_to));
}

bool cli_target_ends(const cli_target *target, const char *extension) {
    size_t length = strlen(target->path);
    size_t tail = strlen(extension);
    return length >= tail && strcasecmp(target->path + length - tail, extension) == 0;
}

bool cli_rename(const char *from, const char *to) {
    int renamed = 0;
    do
        renamed = rename(from, to);
    while (renamed != 0 && errno == EINTR);
    return renamed == 0;
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

int cli_close_target(cli_call *call, const cli_target *target, int code) {
    struct stat before;
    char folder[CLI_PATH_CHARS];
    if (!target->path || !*target->write_to)
        return code;
    if (code == CLI_OK)
        code = cli_finish_output(call->command->name, code);
    if (target->direct)
        return code;
    if (code == CLI_OK && stat(target->final, &before) == 0)
        (void)chmod(target->write_to, before.st_mode & 0777);
    if (code == CLI_OK && !cli_rename(target->write_to, target->final))
        code = cli_fail(call,
                        "-o %s: renaming the finished file failed: %s; nothing was changed "
                        "there",
                        target->path, strerror(errno));
    if (code != CLI_OK)
        remove_target(target);
    else if (folder_of(target->final, folder))
        cli_sync_folder(folder);
    return code;
}
