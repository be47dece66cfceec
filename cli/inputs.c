/* Refuses outputs that are a file the command reads, lie in a folder of cases that it reads, or are
 * the place of another output. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* The options that name a file to write, and how messages name them. */
static const struct {
    const char *name;
    const char *shown;
} OUTPUTS[CLI_OUTFILES] = {
    {"output", "-o"},     {"variance", "--variance"}, {"intervals", "--intervals"},
    {"state", "--state"}, {"sets", "--sets"},         {"suspects", "--suspects"},
    {"html", "--html"}};

const char *cli_output_shown(const char *name) {
    for (int i = 0; i < CLI_OUTFILES; i++)
        if (strcmp(OUTPUTS[i].name, name) == 0)
            return OUTPUTS[i].shown;
    return "-o";
}

const char *cli_base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool cli_folder_of(const char *path, char folder[CLI_PATH_CHARS]) {
    size_t length = (size_t)(cli_base_name(path) - path);
    if (length >= CLI_PATH_CHARS)
        return false;
    (void)snprintf(folder, CLI_PATH_CHARS, "%.*s", length ? (int)length : 1, length ? path : ".");
    return true;
}

bool cli_same_inode(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool cli_same_place(const struct stat *a, const struct stat *b) {
    struct stat null;
    bool swallowed =
        S_ISCHR(a->st_mode) && stat("/dev/null", &null) == 0 && a->st_rdev == null.st_rdev;
    return cli_same_inode(a, b) && !swallowed;
}

bool cli_same_file(const char *a, const char *b) {
    char folders[2][CLI_PATH_CHARS];
    struct stat first;
    struct stat second;
    bool there = stat(a, &first) == 0;
    if (there != (stat(b, &second) == 0))
        return false;
    if (there)
        return S_ISREG(first.st_mode) && cli_same_inode(&first, &second);
    return strcmp(cli_base_name(a), cli_base_name(b)) == 0 && cli_folder_of(a, folders[0]) &&
           cli_folder_of(b, folders[1]) && stat(folders[0], &first) == 0 &&
           stat(folders[1], &second) == 0 && cli_same_inode(&first, &second);
}

/* Whether two outputs are one file, device or pipe. */
static bool same_output(const char *a, const char *b) {
    struct stat first;
    struct stat second;
    return cli_same_file(a, b) ||
           (stat(a, &first) == 0 && stat(b, &second) == 0 && cli_same_place(&first, &second));
}

/* Whether what stands before `end` is the name of delimited text. */
static bool ends_as_text(const char *path, const char *end) {
    static const char *const texts[] = {".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t length = strlen(texts[i]);
        if ((size_t)(end - path) > length && strncasecmp(end - length, texts[i], length) == 0)
            return true;
    }
    return false;
}

size_t cli_member(const char *path) {
    static const char *const containers[] = {".safetensors#", ".safetensors:", ".npz#", ".npz:"};
    for (size_t i = 0; i < sizeof containers / sizeof *containers; i++) {
        const char *found = strstr(path, containers[i]);
        if (found)
            return (size_t)(found - path) + strlen(containers[i]) - 1;
    }
    for (const char *mark = strchr(path, '#'); mark; mark = strchr(mark + 1, '#'))
        if (mark[1] && ends_as_text(path, mark))
            return (size_t)(mark - path);
    return 0;
}

/* Refuses an input that an output would overwrite. */
static int check_input(cli_call *call, const char *input) {
    char archive[CLI_PATH_CHARS];
    size_t member = cli_member(input);
    if (member && member < sizeof archive) { /* an array of an archive */
        (void)snprintf(archive, sizeof archive, "%.*s", (int)member, input);
        input = archive;
    }
    for (int i = 0; i < CLI_OUTFILES; i++) {
        const char *output = cli_value(call, OUTPUTS[i].name);
        if (output && cli_same_file(output, input))
            return cli_fail(call, "%s %s: this is %s, an input of the command; name another file",
                            OUTPUTS[i].shown, output, input);
    }
    return CLI_OK;
}

bool cli_lies_in(const char *path, const struct stat *folder) {
    char text[CLI_PATH_CHARS];
    struct stat info;
    return cli_folder_of(path, text) && stat(text, &info) == 0 && cli_same_inode(&info, folder);
}

int cli_check_pool_file(cli_call *call, const char *input) {
    struct stat info;
    int code = check_input(call, input);
    if (code != CLI_OK || stat(input, &info) != 0 || !S_ISDIR(info.st_mode))
        return code;
    for (int i = 0; code == CLI_OK && i < CLI_OUTFILES; i++) {
        const char *output = cli_value(call, OUTPUTS[i].name);
        char *real = output ? realpath(output, NULL) : NULL;
        if (output && (cli_lies_in(output, &info) || (real && cli_lies_in(real, &info))))
            code = cli_fail(call,
                            "%s %s: this file is in the folder %s, whose files are inputs; choose "
                            "another folder",
                            OUTPUTS[i].shown, output, input);
        free(real);
    }
    return code;
}

int cli_check_pool_folder(cli_call *call, const char *folder) {
    struct stat info;
    if (stat(folder, &info) != 0 || !S_ISDIR(info.st_mode))
        return CLI_OK;
    for (int i = 0; i < CLI_OUTFILES; i++) {
        const char *output = cli_value(call, OUTPUTS[i].name);
        if (output && cst_pool_takes_name(call->pool, cli_base_name(output)) &&
            cli_lies_in(output, &info))
            return cli_fail(call,
                            "%s %s: the next run would read a file of this name in the folder %s "
                            "as part of the pool; choose another folder",
                            OUTPUTS[i].shown, output, folder);
    }
    return CLI_OK;
}

/* Two options must not name one file to write. */
static int check_apart(cli_call *call) {
    for (int i = 0; i < CLI_OUTFILES; i++) {
        const char *first = cli_value(call, OUTPUTS[i].name);
        for (int j = i + 1; first && j < CLI_OUTFILES; j++) {
            const char *second = cli_value(call, OUTPUTS[j].name);
            if (second && same_output(first, second))
                return cli_fail(call, "%s %s and %s %s are the same file; name two different files",
                                OUTPUTS[i].shown, first, OUTPUTS[j].shown, second);
        }
    }
    return CLI_OK;
}

const char *cli_file_with(const char *text) {
    const char *equals = strchr(text, '=');
    const char *slash = strchr(text, '/');
    return equals && (!slash || equals < slash) ? equals + 1 : text;
}

const char *cli_option_file(const cli_call *call, size_t i) {
    static const char *const options[] = {"labels",  "ids",   "folds", "groups",   "weights",
                                          "domains", "order", "like",  "miss-cost"};
    for (size_t o = 0; o < sizeof options / sizeof *options; o++)
        if (cli_value(call, options[o]) && !(o == 2 && cli_in_time(call)) && i-- == 0)
            return cli_value(call, options[o]);
    for (int g = 0; g < call->given_count; g++)
        if (strcmp(call->given[g].option->name, "with") == 0 && i-- == 0)
            return cli_file_with(call->given[g].value);
    return NULL;
}

int cli_check_named_inputs(cli_call *call) {
    CLI_TRY(check_apart(call));
    for (int i = 0; i < call->argument_count; i++) {
        char manifest[CLI_PATH_CHARS];
        CLI_TRY(check_input(call, call->arguments[i]));
        (void)snprintf(manifest, sizeof manifest, "%s/pool.json", call->arguments[i]);
        CLI_TRY(check_input(call, manifest));
    }
    for (size_t i = 0; cli_option_file(call, i); i++)
        CLI_TRY(check_input(call, cli_option_file(call, i)));
    return CLI_OK;
}
