/*
 * The folder behind --save: the probabilities of each method as METHOD.SPLIT.npy.
 * Beside a comparison. Paper: none.
 */
#define _XOPEN_SOURCE 700 /* realpath */
#include "comparison.h"

#include <corestack/files.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { METHOD_CHARS = 128 }; /* room for a method's name and what stands around it */

/* ---- the folder ------------------------------------------------------------------------------ */

/* Whether `path`, or what it leads to, lies in the folder. */
static bool lies_in(const char *path, const struct stat *folder) {
    char text[CLI_PATH_CHARS];
    struct stat info;
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    if (length >= sizeof text)
        return false;
    (void)snprintf(text, sizeof text, "%.*s", (int)length, path);
    return stat(length ? text : ".", &info) == 0 && info.st_dev == folder->st_dev &&
           info.st_ino == folder->st_ino;
}

/* Refuses a folder that holds something that is read: a pool found in a folder would take what is
 * saved there for members the next time. */
static int check_input(cli_call *call, const cli_save *save, const char *input) {
    char archive[CLI_PATH_CHARS];
    struct stat folder;
    struct stat info;
    if (!input || stat(save->folder, &folder) != 0)
        return CLI_OK;
    (void)snprintf(archive, sizeof archive, "%s", input);
    size_t member = cli_member(archive);
    if (member)
        archive[member] = '\0'; /* an array of an archive */
    char *real = realpath(archive, NULL);
    bool inside = lies_in(archive, &folder) || (real && lies_in(real, &folder));
    bool is_folder = stat(archive, &info) == 0 && S_ISDIR(info.st_mode);
    if (is_folder)
        inside = info.st_dev == folder.st_dev && info.st_ino == folder.st_ino;
    free(real);
    if (inside)
        return cli_fail(call, "--save %s: that folder holds %s, which is read here; name another",
                        save->folder, archive);
    return CLI_OK;
}

static int check_inputs(cli_call *call, const cli_save *save, const cst_pool *pool) {
    static const char *const options[] = {"labels", "ids", "folds", "groups", "weights"};
    int code = CLI_OK;
    for (int i = 0; code == CLI_OK && i < call->argument_count; i++)
        code = check_input(call, save, call->arguments[i]);
    for (size_t i = 0; code == CLI_OK && i < sizeof options / sizeof options[0]; i++)
        code = check_input(call, save, cli_value(call, options[i]));
    for (size_t i = 0; code == CLI_OK && cst_pool_file(pool, i); i++)
        code = check_input(call, save, cst_pool_file(pool, i));
    return code;
}

/* Also where a signal comes between. */
static bool make(const char *folder) {
    int made = 0;
    do
        made = mkdir(folder, 0777);
    while (made != 0 && errno == EINTR);
    return made == 0;
}

static int make_folder(cli_call *call, cli_save *save) {
    struct stat info;
    if (stat(save->folder, &info) != 0) {
        if (errno != ENOENT || !make(save->folder))
            return cli_fail(call, "--save %s: the folder cannot be made: %s", save->folder,
                            strerror(errno));
        save->made = true;
        return CLI_OK;
    }
    if (!S_ISDIR(info.st_mode))
        return cli_fail(call, "--save %s: it is not a folder", save->folder);
    if (access(save->folder, W_OK | X_OK) != 0)
        return cli_fail(call, "--save %s: the folder cannot be written: %s", save->folder,
                        strerror(errno));
    return CLI_OK;
}

int cli_open_save(cli_call *call, const cst_pool *pool, const char *split, const char *ood,
                  cli_save *save) {
    const char *folder = cli_value(call, "save");
    *save = (cli_save){.call = call, .pool = pool};
    if (!folder)
        return CLI_OK;
    if (!*folder)
        return cli_fail(call, "option --save: name a folder");
    (void)snprintf(save->suffix, sizeof save->suffix, ".new.%016" PRIx64, cli_draw_name());
    size_t chars = strlen(split) + strlen(ood ? ood : ""); /* of the longer one, and some */
    if (strlen(folder) + chars + METHOD_CHARS >= CLI_PATH_CHARS)
        return cli_fail(call, "--save: the path is too long");
    save->folder = folder;
    int code = check_inputs(call, save, pool);
    return code == CLI_OK ? make_folder(call, save) : code;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* DIR/METHOD.SPLIT.npy; what a file name should not hold becomes '_'. False where it is too long.
 */
static bool name_file(const cli_save *save, const char *method, const char *split,
                      char out[CLI_PATH_CHARS]) {
    int start = snprintf(out, CLI_PATH_CHARS, "%s/", save->folder);
    int length = snprintf(out, CLI_PATH_CHARS, "%s/%s.%s.npy", save->folder, method, split);
    if (length < 0 || (size_t)length + sizeof save->suffix >= CLI_PATH_CHARS)
        return false;
    for (char *at = out + start; *at; at++) {
        bool letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z');
        bool digit = *at >= '0' && *at <= '9';
        if (!letter && !digit && !strchr("+-_.", *at))
            *at = '_';
    }
    return true;
}

static bool reserve(cli_save *save) {
    if (save->count < save->size)
        return true;
    int size = save->size * 2 + 16;
    void *grown = realloc(save->names, (size_t)size * sizeof *save->names);
    if (!grown)
        return false;
    save->names = grown;
    save->size = size;
    return true;
}

cst_status cli_save_predictions(void *user, const char *method, const char *split,
                                const float *probabilities, int64_t rows, int32_t classes) {
    cli_save *save = user;
    cst_context *context = save->call->context;
    char path[CLI_PATH_CHARS + 32];
    if (!reserve(save))
        return CST_ERROR_MEMORY;
    if (!name_file(save, method, split, save->names[save->count]))
        return CST_ERROR_LIMIT;
    (void)snprintf(path, sizeof path, "%s%s", save->names[save->count], save->suffix);
    save->count++;
    int32_t conditions = cst_pool_conditions(save->pool, split);
    return conditions > 0 ? cst_write_predictions_conditions(context, path, probabilities,
                                                             conditions, rows, classes)
                          : cst_write_predictions(context, path, probabilities, rows, classes);
}

/* The i-th file under the name that it has until all are written. */
static const char *unnamed(const cli_save *save, int i, char path[CLI_PATH_CHARS + 32]) {
    (void)snprintf(path, CLI_PATH_CHARS + 32, "%s%s", save->names[i], save->suffix);
    return path;
}

void cli_drop_save(cli_save *save) {
    char path[CLI_PATH_CHARS + 32];
    for (int i = 0; i < save->count; i++)
        (void)unlink(unnamed(save, i, path));
    save->count = 0;
    if (save->made)
        (void)rmdir(save->folder); /* only where nothing is in it */
}

/* Gives every file its name, or takes back those that were not there before. */
static int name_files(cli_call *call, cli_save *save) {
    char path[CLI_PATH_CHARS + 32];
    int code = CLI_OK;
    int named = 0;
    bool *fresh = calloc((size_t)save->count + 1, sizeof *fresh);
    if (!fresh)
        return cli_check(call, CST_ERROR_MEMORY);
    for (; code == CLI_OK && named < save->count; named += code == CLI_OK) {
        fresh[named] = access(save->names[named], F_OK) != 0;
        if (!cli_rename(unnamed(save, named, path), save->names[named]))
            code = cli_fail(call, "--save: %s could not get its name: %s", save->names[named],
                            strerror(errno));
    }
    if (code == CLI_OK)
        cli_sync_folder(save->folder);
    for (int i = 0; code != CLI_OK && i < named; i++)
        if (fresh[i])
            (void)unlink(save->names[i]);
    free(fresh);
    return code;
}

int cli_close_save(cli_call *call, cli_save *save, int code) {
    if (!save->folder)
        return code;
    if (code == CLI_OK)
        code = cli_finish_output(call->command->name, code);
    if (code == CLI_OK)
        code = name_files(call, save);
    if (code != CLI_OK)
        cli_drop_save(save);
    free(save->names);
    save->names = NULL;
    return code;
}
