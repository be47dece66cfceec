/* The file behind -o: checked before any work, and in place only when the report got out too. */
#define _GNU_SOURCE /* realpath, statx */
#include "cli.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Holds the output until the report is out. */
static int hold(cli_call *call, const cli_outfile *outfile) {
    char *prefix = NULL;
    if (outfile->direct)
        return CLI_OK;
    int code = cli_check(call, cst_hold_file(call->context, outfile->final, &prefix));
    if (code == CLI_OK)
        cli_unfinished_name(prefix);
    cst_free(call->context, prefix);
    return code;
}

/* Where to write: what the path leads to, links followed. */
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
    return check_folder(call, outfile->option, outfile->final);
}

/* Whether the output is standard output, by any name. */
static bool takes_report(const char *path) {
    struct stat outfile;
    struct stat out;
    return stat(path, &outfile) == 0 && fstat(STDOUT_FILENO, &out) == 0 &&
           cli_same_place(&outfile, &out);
}

/* The file is another rank's. */
static int write_nowhere(cli_outfile *outfile) {
    outfile->direct = true;
    (void)snprintf(outfile->final, sizeof outfile->final, "/dev/null");
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
        if (strlen(outfile->path) >= sizeof outfile->final)
            return cli_fail(call, "%s: the path is too long", outfile->option);
        (void)snprintf(outfile->final, sizeof outfile->final, "%s", outfile->path);
        return CLI_OK;
    }
    code = choose_place(call, outfile);
    return code == CLI_OK ? hold(call, outfile) : code;
}

int cli_place_outfile(cli_call *call, const char *option, const char *path, bool held,
                      cli_outfile *outfile) {
    struct stat info;
    *outfile = (cli_outfile){.option = option, .path = path};
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return cli_fail(call, "%s: %s exists and is not a regular file", option, path);
    if (takes_report(path))
        return cli_fail(call, "%s: %s already receives the report; send the report elsewhere",
                        option, path);
    int code = cli_writes() ? choose_place(call, outfile) : write_nowhere(outfile);
    return code == CLI_OK && held ? hold(call, outfile) : code;
}

int cli_open_state(cli_call *call, cli_outfile *outfile) {
    int code = cli_open_outfile_of(call, "state", "the state", outfile);
    if (code == CLI_OK && cli_writes() && outfile->direct)
        return cli_fail(call, "--state %s: the state is read and replaced, so it must be a file",
                        outfile->path);
    return code;
}

int cli_lock_state(cli_call *call, const cli_outfile *outfile, bool *there) {
    struct stat info;
    int code = CLI_OK;
    if (cli_writes())
        code = cli_check(call, cst_lock_file(call->context, &call->lock, outfile->final));
    code = cli_agree(call, code);
    *there = stat(outfile->path, &info) == 0;
    return code;
}

int cli_open_outfile(cli_call *call, const char *what, cli_outfile *outfile) {
    return cli_open_outfile_of(call, "output", what, outfile);
}

int cli_open_suspects(cli_call *call, cli_outfile **outfile) {
    *outfile = NULL;
    if (!cli_value(call, "suspects"))
        return CLI_OK;
    *outfile = cli_new_outfile(call);
    return cli_open_outfile_of(call, "suspects", "the list of suspects", *outfile);
}

int cli_write_suspects(cli_call *call, const cli_outfile *outfile) {
    return outfile
               ? cli_check(call, cst_write_suspects(call->context, call->report, outfile->final))
               : CLI_OK;
}

static bool is_empty(const char *path) {
    DIR *folder = NULL;
    do
        folder = opendir(path);
    while (!folder && errno == EINTR);
    bool empty = folder != NULL;
    errno = 0;
    for (const struct dirent *entry; empty && (entry = readdir(folder)) != NULL;)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    empty = empty && errno == 0;
    if (folder)
        (void)closedir(folder);
    return empty;
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
    return code == CLI_OK ? hold(call, outfile) : code;
}

bool cli_outfile_ends(const cli_outfile *outfile, const char *extension) {
    size_t length = strlen(outfile->path);
    size_t tail = strlen(extension);
    return length >= tail && strcasecmp(outfile->path + length - tail, extension) == 0;
}

bool cli_outfile_is_npy(const cli_outfile *outfile) {
    bool other = cli_outfile_ends(outfile, ".csv") || cli_outfile_ends(outfile, ".json");
    return cli_outfile_ends(outfile, ".npy") || (outfile->direct && !other);
}

int cli_close_outfiles(cli_call *call, int code) {
    code = cli_agree(call, code);
    if (code == CLI_OK)
        code = cli_finish_output(call->command->name, code);
    if (code == CLI_OK)
        return cli_check(call, cst_release_files(call->context));
    cst_drop_files(call->context);
    return code;
}
