/* The folder of --save: each method's probabilities as METHOD.SPLIT.npy. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The files of --with NAME=SPLIT:FILE,SPLIT:FILE, where there are some; else the names of none. */
static int list_own(cli_call *call, const char **inputs) {
    for (int g = 0; g < call->given_count; g++) {
        int64_t count = 0;
        if (strcmp(call->given[g].option->name, "with") != 0)
            continue;
        const char **parts = cli_cut(call, cli_file_with(call->given[g].value), ',', &count);
        if (!parts)
            return CLI_INTERNAL;
        for (int64_t i = 0; i < count; i++)
            if (strchr(parts[i], ':'))
                *inputs++ = strchr(parts[i], ':') + 1;
    }
    return CLI_OK;
}

/* Lists what the command reads: of an array in a file, the file. */
static int list_inputs(cli_call *call) {
    const char **inputs = NULL;
    size_t arguments = (size_t)call->argument_count;
    size_t options = 0;
    size_t files = 0;
    while (cli_option_file(call, options))
        options++;
    while (cst_pool_file(call->pool, files))
        files++;
    size_t more = 0; /* at most so many */
    for (int g = 0; g < call->given_count; g++)
        more += strlen(call->given[g].value ? call->given[g].value : "");
    CLI_TAKE(inputs, arguments + options + files + more + 1);
    for (size_t i = 0; i < arguments + options + files; i++) {
        const char *input = i < arguments ? call->arguments[i]
                            : i < arguments + options
                                ? cli_option_file(call, i - arguments)
                                : cst_pool_file(call->pool, i - arguments - options);
        char *file = cli_copy(call, input);
        size_t member = cli_member(input);
        if (!file)
            return CLI_INTERNAL;
        if (member)
            file[member] = '\0';
        inputs[i] = file;
    }
    call->save.inputs = inputs;
    return list_own(call, inputs + arguments + options + files);
}

/* Refuses a folder with inputs, where saved files would be taken for members. */
static int check_inputs(cli_call *call) {
    struct stat folder;
    struct stat info;
    bool there = stat(call->save.folder, &folder) == 0;
    for (const char **input = call->save.inputs; there && *input; input++) {
        CLI_TRY(cli_go_on(call));
        char *real = realpath(*input, NULL);
        bool inside = stat(*input, &info) == 0 && S_ISDIR(info.st_mode)
                          ? cli_same_inode(&info, &folder)
                          : cli_lies_in(*input, &folder) || (real && cli_lies_in(real, &folder));
        free(real);
        if (inside)
            return cli_fail(
                call,
                "--save %s: this folder holds %s, an input of the command; choose another folder",
                call->save.folder, *input);
    }
    return CLI_OK;
}

static bool is_link(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

/* Checks links in the folder. Reference errors may lie in it under their own name. */
static int check_not_read(cli_call *call, const char *path) {
    struct stat info;
    const char *errors = cli_value(call, "reference-errors");
    if (lstat(path, &info) != 0)
        return CLI_OK;
    const char *read = errors && cli_same_file(path, errors) ? errors : NULL;
    for (const char **input = call->save.inputs; is_link(path) && !read && *input; input++) {
        CLI_TRY(cli_go_on(call));
        if (cli_same_file(path, *input))
            read = *input;
    }
    if (read)
        return cli_fail(call, "--save: %s %s %s, an input of the command; choose another folder",
                        path, is_link(path) ? "leads to" : "is", read);
    return CLI_OK;
}

static int make_folder(cli_call *call, cli_save *save) {
    struct stat info;
    if (stat(save->folder, &info) != 0) {
        int made = errno == ENOENT ? mkdir(save->folder, 0777) : -1;
        while (made != 0 && errno == EINTR)
            made = mkdir(save->folder, 0777);
        if (made != 0)
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

/* DIR/METHOD.SPLIT.npy, unfit characters as '_'; NULL after a message. */
static char *name_file(cli_call *call, const char *method, const char *split) {
    static const char fit[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-_.";
    const char *folder = call->save.folder;
    size_t size = strlen(folder) + strlen(method) + strlen(split) + sizeof "/..npy";
    char *path = cli_take(call, size, 1);
    int start = path ? snprintf(path, size, "%s/", folder) : 0;
    if (path)
        (void)snprintf(path + start, size - (size_t)start, "%s.%s.npy", method, split);
    for (char *at = path; at && at[start]; at++)
        if (!strchr(fit, at[start]))
            at[start] = '_';
    return path;
}

/* Methods or splits whose names the files have. */
enum { NAMES_MAX = 512 };
typedef struct names {
    const char *list[NAMES_MAX];
    int count;
} names;

static void add_name(names *all, const char *name) {
    if (all->count < NAMES_MAX)
        all->list[all->count++] = name;
}

/* The methods that may be compared; of `all`, all of the library. */
static void list_methods(const cli_call *call, const cst_compare_options *options, names *out) {
    static const char *const stages[] = {"prototype",   "+S1 CKA",     "+S2 gate",
                                         "+S3 lambda*", "+S4 Laplace", "+S5 refit"};
    static const char *const calibrated[] = {"average+temperature", "average+vector",
                                             "average+isotonic", "average+platt"};
    bool ablation = strcmp(call->command->name, "ablate") == 0;
    bool all = !ablation && options->method_count < 1;
    for (size_t i = 0; ablation && i < sizeof stages / sizeof *stages; i++)
        add_name(out, stages[i]);
    for (int64_t m = 0; m < options->method_count; m++) {
        all = all || strcmp(options->methods[m], "all") == 0;
        add_name(out, options->methods[m]);
    }
    for (size_t i = 0; all && cst_method_name(i); i++)
        add_name(out, cst_method_name(i));
    for (size_t i = 0; all && i < sizeof calibrated / sizeof *calibrated; i++)
        add_name(out, calibrated[i]);
}

/* The splits of lists, of which one with commas in its name is one, and the one that the manifest
 * has the first compared with, where no other is named. */
static int list_splits(cli_call *call, const cst_compare_options *options, names *out) {
    const char *const lists[] = {options->split, options->clean, options->ood};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        int64_t count = lists[i] != NULL;
        bool whole = lists[i] && cst_pool_has_split(call->pool, lists[i]) != 0;
        const char **parts =
            lists[i] && !whole ? cli_cut(call, lists[i], ',', &count) : (const char **)&lists[i];
        if (!parts)
            return CLI_INTERNAL;
        for (int64_t part = 0; part < count; part++)
            add_name(out, parts[part]);
    }
    if (!options->clean && strcmp(call->command->name, "compare") == 0 &&
        cst_pool_clean_split(call->pool, out->list[0]))
        add_name(out, cst_pool_clean_split(call->pool, out->list[0]));
    return CLI_OK;
}

/* Fails where files of two splits would have one name. */
static int check_apart(cli_call *call, const char *first, const char *second) {
    const char *a = name_file(call, "", first);
    const char *b = name_file(call, "", second);
    if (!a || !b)
        return CLI_INTERNAL;
    if (strcmp(first, second) != 0 && strcmp(a, b) == 0)
        return cli_fail(
            call,
            "--save: the files of splits '%s' and '%s' would have the same name (%s), because "
            "characters other than letters, digits and +-_. become '_': rename one of the splits",
            first, second, cli_base_name(a) + 1);
    return CLI_OK;
}

/* Looks at the names of all files before any work is done. */
static int check_names(cli_call *call, const names *methods, const names *splits) {
    int count = methods->count * splits->count;
    char **paths = NULL;
    cli_outfile outfile;
    CLI_TAKE(paths, count);
    for (int i = 0; i < count; i++) {
        int split = i / methods->count;
        int method = i % methods->count;
        paths[i] = name_file(call, methods->list[method], splits->list[split]);
        if (!paths[i])
            return CLI_INTERNAL;
        CLI_TRY(check_not_read(call, paths[i]));
        CLI_TRY(cli_place_outfile(call, "--save", paths[i], false, &outfile));
        for (int other = 0; method == methods->count - 1 && other < split; other++)
            CLI_TRY(check_apart(call, splits->list[other], splits->list[split]));
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; is_link(paths[i]) && j < count; j++)
            if (strcmp(paths[i], paths[j]) != 0 && cli_same_file(paths[i], paths[j]))
                return cli_fail(call, "--save: %s and %s are the same file", paths[i], paths[j]);
    return CLI_OK;
}

/* cst_compare_options.predicted. Checks again before writing, for changes since the start. */
static cst_status save_predictions(void *user, const char *method, const char *split,
                                   const float *probabilities, int64_t rows, int32_t classes) {
    cli_call *call = user;
    cli_outfile outfile;
    const char *path = name_file(call, method, split);
    call->save.said = true;
    if (!path || check_not_read(call, path) != CLI_OK ||
        cli_place_outfile(call, "--save", path, true, &outfile) != CLI_OK)
        return CST_ERROR_IO;
    call->save.said = false;
    int64_t conditions = cst_pool_conditions(call->pool, split);
    int64_t columns = classes;
    if (cli_as_members(call, split, &probabilities, rows * (conditions > 0 ? conditions : 1),
                       &columns) != CLI_OK)
        return CST_ERROR_MEMORY;
    return conditions > 0
               ? cst_write_predictions_conditions(call->context, outfile.final, probabilities,
                                                  conditions, rows, columns)
               : cst_write_predictions(call->context, outfile.final, probabilities, rows, columns);
}

int cli_open_save(cli_call *call, cst_compare_options *options) {
    names methods = {.count = 0};
    names splits = {.count = 0};
    const char *folder = cli_value(call, "save");
    if (!folder)
        return CLI_OK;
    if (!*folder)
        return cli_fail(call, "option --save: name a folder");
    call->save.folder = folder;
    options->predicted = save_predictions;
    options->user = call;
    CLI_TRY(list_inputs(call));
    CLI_TRY(check_inputs(call));
    CLI_TRY(make_folder(call, &call->save));
    list_methods(call, options, &methods);
    CLI_TRY(list_splits(call, options, &splits));
    return check_names(call, &methods, &splits);
}

void cli_drop_save(cli_call *call) {
    cst_drop_files(call->context);
    if (call->save.made)
        (void)rmdir(call->save.folder); /* only where nothing is in it */
}
