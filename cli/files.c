/* Opens pools and reads options as the command line gives them. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A manifest or a folder; anything else is taken for a prediction file. */
static bool is_pool_path(const char *path) {
    struct stat info;
    size_t length = strlen(path);
    if (length > 5 && strcmp(path + length - 5, ".json") == 0)
        return true;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool is_file_list(const cli_call *call, int first) {
    int count = call->argument_count - first;
    return count > 1 || (count == 1 && !is_pool_path(call->arguments[first]));
}

/* --task, --ignore, --layout and --classes. */
static int read_task(cli_call *call, cst_pool_config *config) {
    const char *task = cli_value(call, "task");
    const char *layout = cli_value(call, "layout");
    long long ignore = 0;
    long long classes = 0;
    for (int t = 0; task && !config->task_given; t++) {
        const char *name = cst_task_name((cst_task)t);
        if (!name)
            return cli_fail(call,
                            "option --task: '%s' is not classification, regression, segmentation "
                            "or detection",
                            task);
        config->task_given = strcmp(task, name) == 0;
        config->task = (cst_task)t;
    }
    if (layout && strcmp(layout, "channels-last") != 0 && strcmp(layout, "channels-first") != 0)
        return cli_fail(call, "option --layout: '%s' is not channels-last or channels-first",
                        layout);
    if (layout)
        config->layout = strcmp(layout, "channels-last") == 0 ? CST_LAYOUT_CHANNELS_LAST
                                                              : CST_LAYOUT_CHANNELS_FIRST;
    int code = cli_integer(call, "ignore", INT32_MIN, INT32_MAX, &ignore);
    if (code == CLI_OK)
        code = cli_integer(call, "classes", 1, 1 << 24, &classes);
    config->ignore_given = cli_flag(call, "ignore");
    config->ignore = (int32_t)ignore;
    config->classes = (int32_t)classes;
    return code;
}

/* --class-names, cut at its commas. */
static int read_class_names(cli_call *call, cst_pool_config *config) {
    const char *text = cli_value(call, "class-names");
    size_t count = 1;
    for (const char *at = text; at && *at; at++)
        count += *at == ',';
    if (!text || call->class_names) {
        config->class_names = call->class_names;
        return CLI_OK;
    }
    call->class_text = malloc(strlen(text) + 1);
    call->class_names = calloc(count + 1, sizeof *call->class_names);
    if (!call->class_text || !call->class_names)
        return cli_check(call, CST_ERROR_MEMORY);
    memcpy(call->class_text, text, strlen(text) + 1);
    char *at = call->class_text;
    for (size_t c = 0; c < count; c++) {
        call->class_names[c] = at + strspn(at, " ");
        at += strcspn(at, ",");
        *at++ = '\0';
    }
    config->class_names = call->class_names;
    return CLI_OK;
}

int cli_read_config(cli_call *call, cst_pool_config *config) {
    *config = (cst_pool_config){
        .outside = cli_flag(call, "allow-outside"),
        .labels = cli_value(call, "labels"),
        .ids = cli_value(call, "ids"),
        .folds = cli_value(call, "folds"),
        .groups = cli_value(call, "groups"),
        .weights = cli_value(call, "weights"),
        .domains = cli_value(call, "domains"),
        .id_column = cli_value(call, "id-column"),
        .label_column = cli_value(call, "label-column"),
    };
    int code = read_class_names(call, config);
    if (code != CLI_OK)
        return code;
    const char *values = cli_value(call, "values");
    if (values) {
        bool logit = strcmp(values, "logit") == 0;
        if (!logit && strcmp(values, "probability") != 0)
            return cli_fail(call, "option --values: '%s' is not probability or logit", values);
        config->output_given = 1;
        config->output = logit ? CST_OUTPUT_LOGIT : CST_OUTPUT_PROBABILITY;
    }
    const char *missing = cli_value(call, "missing");
    if (missing && strcmp(missing, "allow") != 0 && strcmp(missing, "error") != 0)
        return cli_fail(call, "option --missing: '%s' is not allow or error", missing);
    config->missing = missing && strcmp(missing, "allow") == 0;
    config->unlabelled = call->command->unlabelled;
    return read_task(call, config);
}

/* Options that say what is in other tasks' files. */
static int check_task(cli_call *call, const cst_pool *pool) {
    cst_task task = cst_pool_task(pool);
    static const char *const of_maps[] = {"ignore", "layout"};
    for (size_t i = 0; task != CST_TASK_SEGMENTATION && i < sizeof of_maps / sizeof *of_maps; i++)
        if (cli_flag(call, of_maps[i]))
            return cli_fail(call, "option --%s is for segmentation, and the task is %s: remove it",
                            of_maps[i], cst_task_name(task));
    static const char *const of_classes[] = {"values", "classes"};
    for (size_t i = 0; task == CST_TASK_DETECTION && i < sizeof of_classes / sizeof *of_classes;
         i++)
        if (cli_flag(call, of_classes[i]))
            return cli_fail(call,
                            "option --%s is for classes of rows or pixels, and the task is "
                            "detection: remove it",
                            of_classes[i]);
    return CLI_OK;
}

/* Whether a manifest says what the files are. */
static bool has_manifest(const cli_call *call, int first) {
    char path[CLI_PATH_CHARS];
    struct stat info;
    if (is_file_list(call, first))
        return false;
    if (stat(call->arguments[first], &info) != 0 || !S_ISDIR(info.st_mode))
        return true;
    int length = snprintf(path, sizeof path, "%s/pool.json", call->arguments[first]);
    return length > 0 && (size_t)length < sizeof path && stat(path, &info) == 0;
}

/* What the model knows of files without a manifest. */
static int take_from_model(cli_call *call, int first, const cst_model *model,
                           cst_pool_config *config) {
    cst_task task = cst_model_task(model);
    if (config->task_given && config->task != task)
        return cli_fail(call,
                        "option --task %s: the model was fitted for %s; remove the option, since "
                        "the model knows its task",
                        cst_task_name(config->task), cst_task_name(task));
    if (has_manifest(call, first))
        return CLI_OK;
    config->task_given = 1;
    config->task = task;
    if (config->classes == 0 && (task == CST_TASK_CLASSIFICATION || task == CST_TASK_SEGMENTATION))
        config->classes = cst_model_classes(model);
    return CLI_OK;
}

static int check_model_task(cli_call *call, const cst_model *model, const cst_pool *pool) {
    if (cst_model_task(model) == cst_pool_task(pool))
        return CLI_OK;
    return cli_fail(
        call, "the model was fitted for %s, but the task of the pool is %s; the tasks must match",
        cst_task_name(cst_model_task(model)), cst_task_name(cst_pool_task(pool)));
}

int cli_open_pool(cli_call *call, int first, cst_pool **out) {
    return cli_open_pool_of(call, first, NULL, out);
}

int cli_open_pool_of(cli_call *call, int first, const cst_model *model, cst_pool **out) {
    *out = NULL;
    int count = call->argument_count - first;
    cst_pool_config config;
    int code = cli_read_config(call, &config);
    if (code != CLI_OK)
        return code;
    if (count <= 0)
        return cli_fail(call,
                        "no pool given: name a pool.json, a folder, or --labels y.npy a.npy "
                        "b.npy ...; see `corestack %s --help`",
                        call->command->name);
    if (model)
        code = take_from_model(call, first, model, &config);
    if (code != CLI_OK)
        return code;
    code =
        is_file_list(call, first)
            ? cli_check(call, cst_pool_open_files(call->context, out, call->arguments + first,
                                                  (size_t)count, &config))
            : cli_check(call, cst_pool_open(call->context, out, call->arguments[first], &config));
    if (code == CLI_OK && model)
        code = check_model_task(call, model, *out);
    if (code == CLI_OK)
        code = check_task(call, *out);
    for (size_t i = 0; code == CLI_OK && cst_pool_file(*out, i); i++) {
        code = cli_go_on(call);
        if (code == CLI_OK)
            code = cli_check_pool_file(call, cst_pool_file(*out, i));
    }
    return code == CLI_OK ? cli_check_pool_folder(call, *out, call->arguments[first]) : code;
}

const char *cli_fit_split(const cli_call *call) {
    const char *split = cli_value(call, "split");
    return split ? split : "oof";
}

const char *cli_split(const cli_call *call, const cst_pool *pool, const char *usual) {
    const char *split = cli_value(call, "split");
    const char *only = cst_pool_splits(pool) == 1 ? cst_pool_split_name(pool, 0) : NULL;
    return split ? split : only ? only : usual;
}

bool cli_is_stream(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

bool cli_is_npy(const char *path) {
    static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    unsigned char start[6] = {0};
    size_t done = 0;
    int file = -1;
    if (cli_is_stream(path))
        return false;
    do
        file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    while (file < 0 && errno == EINTR);
    if (file < 0)
        return false;
    for (ssize_t got = 1; done < sizeof start && got != 0;) {
        got = read(file, start + done, sizeof start - done);
        if (got < 0 && errno != EINTR)
            break;
        done += got > 0 ? (size_t)got : 0;
    }
    (void)close(file);
    return done == sizeof start && memcmp(start, magic, sizeof magic) == 0;
}

/* ---- options ---- */

enum { KEY_CHARS = 64, KEYS = 256 };

static int set_pair(cli_call *call, cst_options *options, const char *pair) {
    char key[KEY_CHARS];
    const char *equals = strchr(pair, '=');
    if (!equals || equals == pair || (size_t)(equals - pair) >= sizeof key)
        return cli_fail(call, "option --set: '%s' is not KEY=VALUE", pair);
    (void)snprintf(key, sizeof key, "%.*s", (int)(equals - pair), pair);
    if (strcmp(key, "seed") == 0 && cli_value(call, "seed"))
        return cli_fail(call, "the seed is given twice: --seed %s and --set %s",
                        cli_value(call, "seed"), pair);
    if (!cst_options_get(options, key)) {
        const char *keys[KEYS];
        int count = 0;
        for (size_t i = 0; cst_option_at(i) && count < KEYS; i++)
            keys[count++] = cst_option_at(i)->key;
        const char *nearest = cli_nearest(key, keys, count);
        if (nearest)
            return cli_fail(call, "option --set: unknown option '%s'; did you mean '%s'?", key,
                            nearest);
        return cli_fail(call, "option --set: unknown option '%s'; `corestack options` lists them",
                        key);
    }
    return cli_check(call, cst_options_set(call->context, options, key, equals + 1));
}

int cli_make_options(cli_call *call, cst_options **out) {
    const char *preset = cli_value(call, "preset");
    const char *seed = cli_value(call, "seed");
    int code = cli_check(call, cst_options_create(call->context, out));
    if (code == CLI_OK && preset)
        code = cli_check(call, cst_options_preset(call->context, *out, preset));
    if (code == CLI_OK && seed)
        code = cli_check(call, cst_options_set(call->context, *out, "seed", seed));
    for (int i = 0; code == CLI_OK && i < call->given_count; i++)
        if (strcmp(call->given[i].option->name, "set") == 0)
            code = set_pair(call, *out, call->given[i].value);
    return code;
}
