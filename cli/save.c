/* The folder of --save: each method's probabilities as METHOD.SPLIT.npy. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "comparison.h"

#include <corestack/files.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SPLITS_MAX = 128 }; /* the library takes 64 */

/* ---- the folder ---- */

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

/* The i-th of what the command reads; NULL past the end. */
static const char *input_at(const cli_call *call, const cst_pool *pool, int i) {
    static const char *const options[] = {"labels", "ids", "folds", "groups", "weights", "domains"};
    if (i < call->argument_count)
        return call->arguments[i];
    i -= call->argument_count;
    for (size_t o = 0; o < sizeof options / sizeof options[0]; o++)
        if (cli_value(call, options[o]) && i-- == 0)
            return cli_value(call, options[o]);
    return cst_pool_file(pool, (size_t)i);
}

/* The file of an input, which may be an array in it. */
static void cut_member(const char *input, char file[CLI_PATH_CHARS]) {
    (void)snprintf(file, CLI_PATH_CHARS, "%s", input);
    size_t member = cli_member(file);
    if (member)
        file[member] = '\0';
}

/* Refuses a folder with inputs, where saved files would be taken for members. */
static int check_input(cli_call *call, const cli_save *save, const char *input) {
    char archive[CLI_PATH_CHARS];
    struct stat folder;
    struct stat info;
    if (stat(save->folder, &folder) != 0)
        return CLI_OK;
    cut_member(input, archive);
    char *real = realpath(archive, NULL);
    bool inside = lies_in(archive, &folder) || (real && lies_in(real, &folder));
    bool is_folder = stat(archive, &info) == 0 && S_ISDIR(info.st_mode);
    if (is_folder)
        inside = info.st_dev == folder.st_dev && info.st_ino == folder.st_ino;
    free(real);
    if (inside)
        return cli_fail(
            call, "--save %s: this folder holds %s, an input of the command; choose another folder",
            save->folder, archive);
    return CLI_OK;
}

static int check_inputs(cli_call *call, const cli_save *save) {
    const char *input = input_at(call, save->pool, 0);
    for (int i = 0; input; input = input_at(call, save->pool, ++i)) {
        CLI_TRY(cli_go_on(call));
        CLI_TRY(check_input(call, save, input));
    }
    return CLI_OK;
}

/* Checks links in the folder. Reference errors may lie in it under their own name. */
static int check_not_read(cli_call *call, const cli_save *save, const char *path) {
    char archive[CLI_PATH_CHARS];
    struct stat info;
    const char *errors = cli_value(call, "reference-errors");
    if (lstat(path, &info) != 0)
        return CLI_OK;
    const char *read = errors && cli_same_file(path, errors) ? errors : NULL;
    const char *input = S_ISLNK(info.st_mode) ? input_at(call, save->pool, 0) : NULL;
    for (int i = 0; !read && input; input = input_at(call, save->pool, ++i)) {
        CLI_TRY(cli_go_on(call));
        cut_member(input, archive);
        if (cli_same_file(path, archive))
            read = archive;
    }
    if (read)
        return cli_fail(call, "--save: %s %s %s, an input of the command; choose another folder",
                        path, S_ISLNK(info.st_mode) ? "leads to" : "is", read);
    return CLI_OK;
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
            return cli_fail(call, "--save %s: cannot create the folder: %s", save->folder,
                            strerror(errno));
        save->made = true;
        cli_unfinished_folder(save->folder);
        return CLI_OK;
    }
    if (!S_ISDIR(info.st_mode))
        return cli_fail(call, "--save %s: not a folder", save->folder);
    if (access(save->folder, W_OK | X_OK) != 0)
        return cli_fail(call, "--save %s: cannot write to the folder: %s", save->folder,
                        strerror(errno));
    return CLI_OK;
}

/* ---- names ---- */

/* DIR/METHOD.SPLIT.npy, unfit characters as '_'; false where too long. */
static bool name_file(const cli_save *save, const char *method, const char *split,
                      char out[CLI_PATH_CHARS]) {
    int start = snprintf(out, CLI_PATH_CHARS, "%s/", save->folder);
    int length = snprintf(out, CLI_PATH_CHARS, "%s/%s.%s.npy", save->folder, method, split);
    if (length < 0 || length >= CLI_PATH_CHARS)
        return false;
    for (char *at = out + start; *at; at++) {
        bool letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z');
        bool digit = *at >= '0' && *at <= '9';
        if (!letter && !digit && !strchr("+-_.", *at))
            *at = '_';
    }
    return true;
}

/* The i-th method that may be compared; NULL past the end. `all`: all of the library. */
static const char *method_at(const cli_call *call, const cst_compare_options *options, int i) {
    static const char *const stages[] = {"prototype",   "+S1 CKA",   "+S2 gate", "+S3 lambda*",
                                         "+S4 Laplace", "+S5 refit", NULL};
    static const char *const calibrated[] = {"average+temperature", "average+vector",
                                             "average+isotonic", "average+platt"};
    if (strcmp(call->command->name, "ablate") == 0)
        return stages[i];
    int count = 0;
    bool all = options->method_count < 1;
    for (int m = 0; m < options->method_count; m++)
        all = all || strcmp(options->methods[m], "all") == 0;
    if (i < options->method_count)
        return options->methods[i];
    i -= (int)options->method_count;
    while (all && cst_method_name((size_t)count))
        count++;
    if (all && i < count)
        return cst_method_name((size_t)i);
    i -= count;
    return all && i < 4 ? calibrated[i] : NULL;
}

/* Looks at every file of a split before any work is done. */
static int check_files(cli_call *call, const cli_save *save, const cst_compare_options *options,
                       const char *split) {
    char path[CLI_PATH_CHARS];
    cli_outfile outfile;
    const char *method = method_at(call, options, 0);
    for (int i = 0; method; method = method_at(call, options, ++i)) {
        if (!name_file(save, method, split, path))
            return cli_fail(call, "--save: the path is too long");
        CLI_TRY(check_not_read(call, save, path));
        CLI_TRY(cli_place_outfile(call, "--save", path, false, &outfile));
    }
    return CLI_OK;
}

/* Fails where files of two splits would have one name. */
static int check_apart(cli_call *call, const cli_save *save, const char *first,
                       const char *second) {
    char names[2][CLI_PATH_CHARS];
    if (strcmp(first, second) != 0 && name_file(save, "", first, names[0]) &&
        name_file(save, "", second, names[1]) && strcmp(names[0], names[1]) == 0)
        return cli_fail(
            call,
            "--save: the files of splits '%s' and '%s' would have the same name (%s), because "
            "characters other than letters, digits and +-_. become '_': rename one of the splits",
            first, second, cli_base_name(names[0]) + 1);
    return CLI_OK;
}

/* Cuts a list of splits; a split with commas in its name is one. */
static int cut_splits(const cst_pool *pool, char *at, const char *splits[SPLITS_MAX], int count) {
    bool whole = cst_pool_has_split(pool, at) != 0;
    while (at && count < SPLITS_MAX) {
        char *comma = whole ? NULL : strchr(at, ',');
        if (comma)
            *comma = '\0';
        splits[count++] = at;
        at = comma ? comma + 1 : NULL;
    }
    return count;
}

/* Fails where the link `path` leads where a name of the split leads, too. */
static int check_leads_apart(cli_call *call, const cli_save *save,
                             const cst_compare_options *options, const char *split,
                             const char *path) {
    char other[CLI_PATH_CHARS];
    int code = CLI_OK;
    char *real = realpath(path, NULL);
    const char *method = method_at(call, options, 0);
    for (int i = 0; code == CLI_OK && real && method; method = method_at(call, options, ++i)) {
        char *found = name_file(save, method, split, other) ? realpath(other, NULL) : NULL;
        if (found && strcmp(path, other) != 0 && strcmp(real, found) == 0)
            code = cli_fail(call, "--save: %s and %s are the same file", path, other);
        free(found);
    }
    free(real);
    return code;
}

/* Checks all links among the files of one split. */
static int check_links(cli_call *call, const cli_save *save, const cst_compare_options *options,
                       const char *split, const char *const *splits, int count) {
    char path[CLI_PATH_CHARS];
    struct stat info;
    const char *method = method_at(call, options, 0);
    for (int i = 0; method; method = method_at(call, options, ++i)) {
        bool linked = name_file(save, method, split, path) && lstat(path, &info) == 0 &&
                      S_ISLNK(info.st_mode);
        for (int s = 0; linked && s < count; s++)
            CLI_TRY(check_leads_apart(call, save, options, splits[s], path));
    }
    return CLI_OK;
}

/* The split that the manifest has the first one compared with, where no other is named. */
static const char *named_clean(const cli_call *call, const cli_save *save,
                               const cst_compare_options *options, const char *first) {
    if (options->clean || strcmp(call->command->name, "compare") != 0)
        return NULL;
    return cst_pool_clean_split(save->pool, first);
}

/* Looks at the names of all files before any work is done. */
static int check_names(cli_call *call, const cli_save *save, const cst_compare_options *options) {
    const char *const lists[] = {options->split, options->clean, options->ood};
    const char *splits[SPLITS_MAX];
    char *copies[3] = {NULL};
    int count = 0;
    int code = CLI_OK;
    for (int i = 0; code == CLI_OK && i < 3; i++) {
        copies[i] = lists[i] ? strdup(lists[i]) : NULL;
        if (lists[i] && !copies[i])
            code = cli_check(call, CST_ERROR_MEMORY);
        else if (lists[i])
            count = cut_splits(save->pool, copies[i], splits, count);
    }
    const char *clean = count > 0 ? named_clean(call, save, options, splits[0]) : NULL;
    if (clean && count < SPLITS_MAX)
        splits[count++] = clean;
    for (int i = 0; code == CLI_OK && i < count; i++) {
        code = check_files(call, save, options, splits[i]);
        for (int j = 0; code == CLI_OK && j < i; j++)
            code = check_apart(call, save, splits[j], splits[i]);
    }
    for (int i = 0; code == CLI_OK && i < count; i++)
        code = check_links(call, save, options, splits[i], splits, count);
    for (int i = 0; i < 3; i++)
        free(copies[i]);
    return code;
}

int cli_open_save(cli_call *call, const cst_pool *pool, const cst_compare_options *options,
                  cli_save *save) {
    const char *folder = cli_value(call, "save");
    *save = (cli_save){.call = call, .pool = pool};
    if (!folder)
        return CLI_OK;
    if (!*folder)
        return cli_fail(call, "option --save: name a folder");
    save->folder = folder;
    int code = check_inputs(call, save);
    if (code == CLI_OK)
        code = make_folder(call, save);
    return code == CLI_OK ? check_names(call, save, options) : code;
}

/* ---- files ---- */

/* Checks again before writing, for changes since the start. */
static cst_status place(cli_save *save, const char *method, const char *split,
                        cli_outfile *outfile) {
    char path[CLI_PATH_CHARS];
    cli_call *call = save->call;
    save->said = true;
    if (!name_file(save, method, split, path)) {
        (void)cli_fail(call, "--save: the path is too long");
        return CST_ERROR_LIMIT;
    }
    if (check_not_read(call, save, path) != CLI_OK ||
        cli_place_outfile(call, "--save", path, true, outfile) != CLI_OK)
        return CST_ERROR_IO;
    save->said = false;
    return CST_OK;
}

cst_status cli_save_predictions(void *user, const char *method, const char *split,
                                const float *probabilities, int64_t rows, int32_t classes) {
    cli_save *save = user;
    cst_context *context = save->call->context;
    cli_outfile outfile;
    cst_status status = place(save, method, split, &outfile);
    if (status != CST_OK)
        return status;
    int32_t conditions = (int32_t)cst_pool_conditions(save->pool, split);
    return conditions > 0
               ? cst_write_predictions_conditions(context, outfile.final, probabilities, conditions,
                                                  rows, classes)
               : cst_write_predictions(context, outfile.final, probabilities, rows, classes);
}

void cli_drop_save(cli_save *save) {
    cst_drop_files(save->call->context);
    if (save->made)
        (void)rmdir(save->folder); /* only where nothing is in it */
}

int cli_close_save(cli_call *call, cli_save *save, int code) {
    if (!save->folder)
        return code;
    code = cli_close_outfiles(call, code);
    if (code != CLI_OK)
        cli_drop_save(save);
    return code;
}
