/* Opens pools and reads options as the command line gives them. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool cli_ends(const char *path, const char *end) {
    size_t length = strlen(path);
    size_t tail = strlen(end);
    return length >= tail && strcmp(path + length - tail, end) == 0;
}

/* A manifest or a folder; anything else is taken for a prediction file. */
static bool is_pool_path(const char *path) {
    struct stat info;
    if (strlen(path) > 5 && cli_ends(path, ".json"))
        return true;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool is_file_list(const cli_call *call, int first) {
    int count = call->argument_count - first;
    return count > 1 || (count == 1 && !is_pool_path(call->arguments[first]));
}

/* --ignore, cut at its commas. */
static int read_ignored(cli_call *call, cst_pool_config *config) {
    const char *text = cli_value(call, "ignore");
    int64_t count = 0;
    int32_t *labels;
    if (!text)
        return CLI_OK;
    const char **words = cli_cut(call, text, ',', &count);
    if (!words)
        return CLI_INTERNAL;
    CLI_TAKE(labels, count);
    for (int64_t i = 0; i < count; i++) {
        int64_t label = 0;
        if (count > 16 || !cli_whole(words[i], INT32_MIN, INT32_MAX, &label))
            return cli_fail(call,
                            "option --ignore: '%s' is not a whole number from %d to %d, nor a list "
                            "of at most 16 of them, separated by commas without spaces",
                            text, INT32_MIN, INT32_MAX);
        labels[i] = (int32_t)label;
    }
    config->ignore_given = 1;
    config->ignore = labels[0];
    config->ignore_also = labels + 1;
    config->ignored_also = count - 1;
    return CLI_OK;
}

/* --task, --ignore, --layout and --classes. */
static int read_task(cli_call *call, cst_pool_config *config) {
    int task = 0;
    int layout = 0;
    CLI_TRY(cli_choice(call, "task", "classification|regression|segmentation|detection|multilabel",
                       &task));
    CLI_TRY(cli_choice(call, "layout", "channels-last|channels-first", &layout));
    CLI_TRY(read_ignored(call, config));
    CLI_TRY(cli_integer(call, "classes", 1, 1 << 24, &config->classes));
    config->task_given = cli_flag(call, "task");
    config->task = (cst_task)task;
    if (cli_flag(call, "layout"))
        config->layout = layout == 0 ? CST_LAYOUT_CHANNELS_LAST : CST_LAYOUT_CHANNELS_FIRST;
    return CLI_OK;
}

/* --class-names, cut at its commas. */
static int read_class_names(cli_call *call) {
    const char *text = cli_value(call, "class-names");
    int64_t count = 0;
    if (!text || call->class_names)
        return CLI_OK;
    call->class_names = cli_cut(call, text, ',', &count);
    for (int64_t c = 0; call->class_names && c < count; c++)
        call->class_names[c] += strspn(call->class_names[c], " ");
    return call->class_names ? CLI_OK : CLI_INTERNAL;
}

bool cli_in_time(const cli_call *call) {
    const char *folds = cli_value(call, "folds");
    return folds && strcmp(folds, "time") == 0 && call->command->takes_pool;
}

int cli_read_config(cli_call *call, cst_pool_config *config) {
    CLI_TRY(read_class_names(call));
    *config = (cst_pool_config){
        .class_names = call->class_names,
        .outside = cli_flag(call, "allow-outside"),
        .labels = cli_value(call, "labels"),
        .ids = cli_value(call, "ids"),
        .folds = cli_in_time(call) ? NULL : cli_value(call, "folds"),
        .order = cli_value(call, "order"),
        .groups = cli_value(call, "groups"),
        .weights = cli_value(call, "weights"),
        .domains = cli_value(call, "domains"),
        .id_column = cli_value(call, "id-column"),
        .label_column = cli_value(call, "label-column"),
        .positive = cli_value(call, "positive"),
    };
    int values = 0;
    int missing = 1;
    CLI_TRY(cli_choice(call, "values", "probability|logit", &values));
    CLI_TRY(cli_choice(call, "missing", "allow|error", &missing));
    config->output_given = cli_flag(call, "values");
    config->output = values == 1 ? CST_OUTPUT_LOGIT : CST_OUTPUT_PROBABILITY;
    config->missing = missing == 0;
    config->unlabelled = call->command->unlabelled;
    return read_task(call, config);
}

/* Options that say what is in other tasks' files. */
static int check_task(cli_call *call) {
    cst_task task = cst_pool_task(call->pool);
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

/* Takes task and classes of files without a manifest from the model. */
static int take_from_model(cli_call *call, int first, cst_pool_config *config) {
    cst_task task = cst_model_task(call->model);
    if (config->task_given && config->task != task)
        return cli_fail(call,
                        "option --task %s: the model was fitted for %s; remove the option, since "
                        "the model knows its task",
                        cst_task_name(config->task), cst_task_name(task));
    if (has_manifest(call, first))
        return CLI_OK;
    config->task_given = 1;
    config->task = task;
    if (config->classes == 0 &&
        (task == CST_TASK_CLASSIFICATION || task == CST_TASK_SEGMENTATION || task == CST_TASK_TOPK))
        config->classes = (int32_t)cst_model_classes(call->model);
    return CLI_OK;
}

int cli_open_pool(cli_call *call, int first) {
    cst_context *context = call->context;
    int count = call->argument_count - first;
    const char *const *paths = call->arguments + first;
    cst_pool_config config;
    CLI_TRY(cli_read_config(call, &config));
    if (count <= 0)
        return cli_fail(call,
                        "no pool given: name a pool.json, a folder, or --labels y.npy a.npy "
                        "b.npy ...; see `corestack %s --help`",
                        call->command->name);
    if (call->model)
        CLI_TRY(take_from_model(call, first, &config));
    if (is_file_list(call, first))
        CLI_DO(cst_pool_open_files(context, &call->pool, paths, count, &config));
    else
        CLI_DO(cst_pool_open(context, &call->pool, *paths, &config));
    if (call->model && cst_model_task(call->model) != cst_pool_task(call->pool))
        return cli_fail(
            call,
            "the model was fitted for %s, but the task of the pool is %s; the tasks must match",
            cst_task_name(cst_model_task(call->model)), cst_task_name(cst_pool_task(call->pool)));
    CLI_TRY(check_task(call));
    for (size_t i = 0; cst_pool_file(call->pool, i); i++) {
        CLI_TRY(cli_go_on(call));
        CLI_TRY(cli_check_pool_file(call, cst_pool_file(call->pool, i)));
    }
    return cli_check_pool_folder(call, *paths);
}

int cli_open_model(cli_call *call) {
    return cli_check(call, cst_model_load(call->context, &call->model, call->arguments[0]));
}

int cli_open_both(cli_call *call) {
    CLI_TRY(cli_open_model(call));
    return cli_open_pool(call, 1);
}

cli_outfile *cli_new_outfile(cli_call *call) {
    return &call->outfiles[call->outfile_count++];
}

int cli_write_array(cli_call *call, const char *path, const float *values, int64_t conditions,
                    int64_t rows, int64_t classes) {
    return cli_check(call,
                     conditions > 0
                         ? cst_write_predictions_conditions(call->context, path, values, conditions,
                                                            rows / conditions, classes)
                         : cst_write_predictions(call->context, path, values, rows, classes));
}

int cli_check_table(cli_call *call, const cli_outfile *outfile, const char *split) {
    if (!cli_outfile_ends(outfile, ".csv") || cst_pool_conditions(call->pool, split) == 0)
        return CLI_OK;
    return cli_fail(call,
                    "-o %s: split '%s' has several conditions, which do not fit into a table; "
                    "write a .npy file",
                    outfile->path, split);
}

int cli_as_members(cli_call *call, const char *split, const float **values, int64_t rows,
                   int64_t *classes) {
    float *single = NULL;
    if (!cst_pool_single(call->pool, split) || *classes != 2)
        return CLI_OK;
    CLI_TAKE(single, rows);
    for (int64_t i = 0; i < rows; i++)
        single[i] = (*values)[2 * i + 1];
    *values = single;
    *classes = 1;
    return CLI_OK;
}

int cli_write_rows(cli_call *call, const cli_outfile *outfile, const char *split,
                   const float *values, int64_t rows) {
    int64_t classes = cst_model_classes(call->model);
    const char **ids = NULL;
    const char **names = NULL;
    const char *probability = "probability";
    bool table = cli_outfile_ends(outfile, ".csv");
    if (table)
        CLI_TRY(cli_table_names(call, split, rows, &ids, &names));
    CLI_TRY(cli_as_members(call, split, &values, rows, &classes));
    if (!table)
        return cli_write_array(call, outfile->final, values, cst_pool_conditions(call->pool, split),
                               rows, classes);
    bool single = cst_model_classes(call->model) != classes;
    const char *const *columns = !single ? names : names ? names + 1 : &probability;
    return cli_check(call, cst_write_predictions_csv(call->context, outfile->final, values, rows,
                                                     classes, ids, columns));
}

int cli_table_names(cli_call *call, const char *split, int64_t rows, const char ***ids,
                    const char ***names) {
    int64_t classes = cst_model_classes(call->model);
    if (cst_pool_id(call->pool, split, 0))
        CLI_TAKE(*ids, rows + 1);
    if (cst_model_class_name(call->model, 0) || cst_pool_class_name(call->pool, 0))
        CLI_TAKE(*names, classes + 1);
    for (int64_t i = 0; *ids && i < rows; i++)
        (*ids)[i] = cst_pool_id(call->pool, split, i);
    for (int64_t c = 0; *names && c < classes; c++) {
        const char *name = cst_model_class_name(call->model, (int32_t)c);
        (*names)[c] = name ? name : cst_pool_class_name(call->pool, (int32_t)c);
    }
    return CLI_OK;
}

const char *cli_fit_split(const cli_call *call) {
    const char *split = cli_value(call, "split");
    return split ? split : "oof";
}

const char *cli_split(const cli_call *call, const char *fallback) {
    const char *split = cli_value(call, "split");
    const char *only = cst_pool_splits(call->pool) == 1 ? cst_pool_split_name(call->pool, 0) : NULL;
    return split ? split : only ? only : fallback;
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

enum { KEY_CHARS = 64, KEYS = 256 };

static int set_pair(cli_call *call, const char *pair) {
    char key[KEY_CHARS];
    const char *equals = strchr(pair, '=');
    if (!equals || equals == pair || (size_t)(equals - pair) >= sizeof key)
        return cli_fail(call, "option --set: '%s' is not KEY=VALUE", pair);
    (void)snprintf(key, sizeof key, "%.*s", (int)(equals - pair), pair);
    if (strcmp(key, "seed") == 0 && cli_value(call, "seed"))
        return cli_fail(call, "the seed is given twice: --seed %s and --set %s",
                        cli_value(call, "seed"), pair);
    CLI_TRY(cli_check_key(call, "set", key, NULL));
    return cli_check(call, cst_options_set(call->context, call->options, key, equals + 1));
}

int cli_check_key(cli_call *call, const char *option, const char *key, const char *more) {
    const char *keys[KEYS];
    int count = 0;
    for (int64_t i = 0; cst_option_at(i) && count < KEYS - 1; i++)
        keys[count++] = cst_option_at(i)->key;
    if (more)
        keys[count++] = more;
    for (int i = 0; i < count; i++)
        if (strcmp(keys[i], key) == 0)
            return CLI_OK;
    const char *nearest = cli_nearest(key, keys, count);
    if (nearest)
        return cli_fail(call, "option --%s: unknown option '%s'; did you mean '%s'?", option, key,
                        nearest);
    return cli_fail(call, "option --%s: unknown option '%s'; `corestack options` lists them",
                    option, key);
}

/* --label-noise human|RATE */
static int set_label_noise(cli_call *call) {
    const char *value = cli_value(call, "label-noise");
    double rate = 0;
    if (!value)
        return CLI_OK;
    for (int i = 0; i < call->given_count; i++)
        if (strcmp(call->given[i].option->name, "set") == 0 &&
            strncmp(call->given[i].value, "noise", 5) == 0)
            return cli_fail(call,
                            "--label-noise and --set %s say the same thing twice: give one "
                            "of them",
                            call->given[i].value);
    CLI_DO(cst_options_set(call->context, call->options, "noise", "human"));
    if (strcmp(value, "human") == 0)
        return CLI_OK;
    CLI_TRY(cli_number(call, "label-noise", 0, 0.95, &rate));
    return rate > 0
               ? cli_check(call, cst_options_set(call->context, call->options, "noise.rate", value))
               : cli_fail(call, "option --label-noise: give `human` or a share above 0; without "
                                "errors, remove the option");
}

int cli_metric(cli_call *call, const char **metric) {
    const char *costs = cli_value(call, "cost-matrix");
    char *text = NULL;
    const char *program = cli_value(call, "metric-command");
    *metric = cli_value(call, "metric");
    if ((*metric != NULL) + (costs != NULL) + (program != NULL) > 1)
        return cli_fail(call, "options --metric, --cost-matrix and --metric-command: give one of "
                              "them");
    if (program) {
        *metric = "command";
        bool known = call->metric_known;
        call->metric_known = true;
        return known ? CLI_OK : cli_add_metric_command(call);
    }
    if (!costs)
        return CLI_OK;
    size_t size = strlen(costs) + sizeof "cost=";
    CLI_TAKE(text, size);
    (void)snprintf(text, size, "cost=%s", costs);
    *metric = text;
    return CLI_OK;
}

/* --metric NAME, as the option of the method. */
static int set_metric(cli_call *call) {
    const char *metric = NULL;
    CLI_TRY(cli_metric(call, &metric));
    for (int i = 0; metric && i < call->given_count; i++)
        if (strcmp(call->given[i].option->name, "set") == 0 &&
            strncmp(call->given[i].value, "metric=", 7) == 0)
            return cli_fail(call, "the metric is given twice: --metric %s and --set %s", metric,
                            call->given[i].value);
    return metric ? cli_check(call, cst_options_set(call->context, call->options, "metric", metric))
                  : CLI_OK;
}

/* --cascade and what belongs to it, as options of the method. */
static int set_cascade(cli_call *call) {
    static const char *const parts[][2] = {{"alpha", "cascade.alpha"},
                                           {"confidence", "cascade.confidence"},
                                           {"cascade-risk", "cascade.risk"}};
    if (cli_flag(call, "cascade"))
        CLI_DO(cst_options_set(call->context, call->options, "cascade", "true"));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *value = cli_value(call, parts[i][0]);
        if (value && !cli_flag(call, "cascade"))
            return cli_fail(call, "option --%s requires --cascade", parts[i][0]);
        if (value)
            CLI_DO(cst_options_set(call->context, call->options, parts[i][1], value));
    }
    return CLI_OK;
}

int cli_make_options(cli_call *call) {
    const char *preset = cli_value(call, "preset");
    const char *seed = cli_value(call, "seed");
    CLI_DO(cst_options_create(call->context, &call->options));
    if (preset)
        CLI_DO(cst_options_preset(call->context, call->options, preset));
    if (seed)
        CLI_DO(cst_options_set(call->context, call->options, "seed", seed));
    for (int i = 0; i < call->given_count; i++)
        if (strcmp(call->given[i].option->name, "set") == 0)
            CLI_TRY(set_pair(call, call->given[i].value));
    CLI_TRY(set_metric(call));
    CLI_TRY(set_cascade(call));
    if (cli_value(call, "target-transform"))
        CLI_DO(cst_options_set(call->context, call->options, "target.transform",
                               cli_value(call, "target-transform")));
    if (cli_in_time(call))
        CLI_DO(cst_options_set(call->context, call->options, "folds.kind", "time"));
    return set_label_noise(call);
}
