/* What compare, ablate and sweep share: reading their options, checking names, listing methods. */
#include "comparison.h"

#include <corestack/detection.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

static const char *const CALIBRATIONS[] = {"temperature", "vector", "isotonic", "platt"};

enum { CALIBRATION_COUNT = sizeof CALIBRATIONS / sizeof CALIBRATIONS[0], NAMES_MAX = 256 };

/* The methods, then "all"; returns how many. */
static int method_names(const char *names[NAMES_MAX]) {
    int count = 0;
    while (count < NAMES_MAX - 1 && cst_method_name((size_t)count)) {
        names[count] = cst_method_name((size_t)count);
        count++;
    }
    for (size_t i = 0; count < NAMES_MAX - 1 && cst_detection_method_name(i); i++)
        names[count++] = cst_detection_method_name(i);
    names[count++] = "all";
    return count;
}

static bool is_listed(const char *word, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], word) == 0)
            return true;
    return false;
}

int cli_check_method(cli_call *call, const char *option, const char *name) {
    const char *names[NAMES_MAX];
    int count = method_names(names);
    char base[128];
    const char *plus = strchr(name, '+');
    (void)snprintf(base, sizeof base, "%.*s", (int)strcspn(name, "+"), name);
    if (!is_listed(base, names, count)) {
        const char *nearest = cli_nearest(base, names, count);
        if (nearest)
            return cli_fail(call, "option --%s: unknown method '%s'; did you mean '%s%s'?", option,
                            name, nearest, plus ? plus : "");
        return cli_fail(
            call, "option --%s: unknown method '%s'; `corestack compare --list-methods` lists them",
            option, name);
    }
    if (plus && (strcmp(base, "all") == 0 || !is_listed(plus + 1, CALIBRATIONS, CALIBRATION_COUNT)))
        return cli_fail(call,
                        "option --%s: '%s': only +temperature, +vector, +isotonic or +platt may "
                        "follow the name of a method",
                        option, name);
    return CLI_OK;
}

int cli_check_key(cli_call *call, const char *option, const char *key, const char *more) {
    const char *keys[NAMES_MAX];
    int count = 0;
    for (size_t i = 0; cst_option_at(i) && count < NAMES_MAX - 1; i++)
        keys[count++] = cst_option_at(i)->key;
    if (more)
        keys[count++] = more;
    if (is_listed(key, keys, count))
        return CLI_OK;
    const char *nearest = cli_nearest(key, keys, count);
    if (nearest)
        return cli_fail(call, "option --%s: unknown option '%s'; did you mean '%s'?", option, key,
                        nearest);
    return cli_fail(call, "option --%s: unknown option '%s'; `corestack options` lists them",
                    option, key);
}

bool cli_wants_methods(const cli_call *call) {
    const char *methods = cli_value(call, "methods");
    return cli_flag(call, "list-methods") || (methods && strcmp(methods, "help") == 0);
}

static void list_one(const char *name, bool json, bool first) {
    const char *definition = cst_method_describe(name);
    if (!definition)
        definition = cst_detection_method_describe(name);
    definition = definition ? definition : "";
    if (!json) {
        cli_out_entry(2, name, 23, definition);
        return;
    }
    cli_out("%s\n    {\n      \"name\": ", first ? "" : ",");
    cli_out_json_string(name);
    cli_out(",\n      \"definition\": ");
    cli_out_json_string(definition);
    cli_out("\n    }");
}

int cli_list_methods(cli_call *call) {
    bool json = cli_flag(call, "json");
    cli_out(json ? "{\n  \"command\": \"compare\",\n  \"methods\": [" : "Methods\n\n");
    for (size_t i = 0; cst_method_name(i); i++)
        list_one(cst_method_name(i), json, i == 0);
    cli_out(json ? "\n  ],\n  \"detection\": [" : "\nFor detection only\n\n");
    for (size_t i = 0; cst_detection_method_name(i); i++)
        list_one(cst_detection_method_name(i), json, i == 0);
    cli_out(json ? "\n  ],\n  \"calibrations\": [" : "\n");
    if (!json)
        cli_out_wrapped(0, 0,
                        "Each may be followed by a calibration map, fitted on the same rows, for "
                        "example ridge+temperature\n");
    for (int i = 0; i < CALIBRATION_COUNT; i++)
        list_one(CALIBRATIONS[i], json, i == 0);
    cli_out(json ? "\n  ]\n}\n" : "\n");
    if (!json)
        cli_out_wrapped(0, 0,
                        "\"all\" selects every method that applies to the pool. Without --methods, "
                        "the presets compact and best are left out.\n");
    return CLI_OK;
}

/* ---- options ---- */

/* Splits --methods at its commas into c->methods. */
static int read_names(cli_call *call, bool none, cli_comparison *c) {
    const char *text = cli_value(call, "methods");
    if (!text)
        return CLI_OK;
    size_t length = strlen(text);
    c->list = malloc(length + 1);
    c->methods = calloc(length + 1, sizeof *c->methods);
    if (!c->list || !c->methods)
        return cli_check(call, CST_ERROR_MEMORY);
    memcpy(c->list, text, length + 1);
    c->options.methods = c->methods;
    if (none && strcmp(text, "none") == 0)
        return CLI_OK;
    int code = CLI_OK;
    for (char *at = c->list; code == CLI_OK && at;) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma = '\0';
        if (!*at)
            return cli_fail(call, "option --methods: '%s' contains an empty name", text);
        code = cli_check_method(call, "methods", at);
        c->methods[c->options.method_count++] = at;
        at = comma ? comma + 1 : NULL;
    }
    return code;
}

/* --set, each tried on a set of options so that a mistake shows before any work is done. */
static int read_settings(cli_call *call, cli_comparison *c) {
    cst_options *options = NULL;
    c->settings = calloc((size_t)call->given_count + 1, sizeof *c->settings);
    if (!c->settings)
        return cli_check(call, CST_ERROR_MEMORY);
    int code = cli_make_options(call, &options);
    for (int i = 0; code == CLI_OK && i < call->given_count; i++) {
        const char *pair = call->given[i].value;
        if (strcmp(call->given[i].option->name, "set") != 0)
            continue;
        if (strncmp(pair, "seed=", 5) == 0)
            code = cli_fail(
                call,
                "option --set: use --seed for the seed; it also sets the folds and the resamples");
        c->settings[c->options.setting_count++] = pair;
    }
    c->options.settings = c->settings;
    cst_options_free(call->context, options);
    return code;
}

int cli_read_methods(cli_call *call, bool none, cli_comparison *c) {
    int code = read_names(call, none, c);
    return code == CLI_OK ? read_settings(call, c) : code;
}

void cli_free_methods(cli_comparison *c) {
    free(c->methods);
    free(c->list);
    free(c->settings);
}

/* --splits and --holdout. */
static int read_repetitions(cli_call *call, cst_compare_options *options) {
    long long splits = 1;
    double holdout = 0;
    int code = cli_integer(call, "splits", 1, CST_SPLITS_MAX, &splits);
    if (code == CLI_OK)
        code = cli_number(call, "holdout", 0, 1, &holdout);
    if (code == CLI_OK && cli_value(call, "holdout") && !(holdout > 0 && holdout < 1))
        code = cli_fail(call,
                        "option --holdout: '%s' is not above 0 and below 1; 0.2 holds out a fifth "
                        "of the rows",
                        cli_value(call, "holdout"));
    options->splits = (int32_t)splits;
    options->holdout = holdout;
    return code;
}

static int read_options(cli_call *call, int32_t usual, cli_comparison *c) {
    long long resamples = usual;
    long long seed = 0;
    int code = cli_check_form(call);
    if (code == CLI_OK)
        code = read_repetitions(call, &c->options);
    if (c->options.splits > 1) /* standard errors stand where intervals would */
        resamples = 0;
    if (code == CLI_OK)
        code = cli_integer(call, "resamples", 0, 10000000, &resamples);
    if (code == CLI_OK)
        code = cli_integer(call, "seed", 0, CLI_WHOLE_MAX, &seed);
    if (code == CLI_OK)
        code = cli_read_methods(call, false, c);
    c->options.split = cli_fit_split(call);
    c->options.reference = cli_value(call, "reference");
    c->options.ood = cli_value(call, "ood");
    c->options.clean = cli_value(call, "clean");
    c->options.reference_errors = cli_value(call, "reference-errors");
    if (code == CLI_OK)
        code = cli_class_limits(call, &c->options.head_above, &c->options.tail_below);
    c->options.resamples = (int32_t)resamples;
    c->options.seed = (uint64_t)seed;
    if (code == CLI_OK && c->options.reference)
        code = cli_check_method(call, "reference", c->options.reference);
    if (code == CLI_OK && c->options.ood && strcmp(c->options.ood, c->options.split) == 0)
        code = cli_fail(call, "option --ood: '%s' is the split that is scored; name another split",
                        c->options.ood);
    return code;
}

int cli_open_comparison(cli_call *call, int32_t usual, cli_comparison *c) {
    *c = (cli_comparison){0};
    int code = read_options(call, usual, c);
    if (code == CLI_OK)
        code = cli_open_pool(call, 0, &c->pool);
    if (code == CLI_OK)
        code = cli_open_save(call, c->pool, &c->options, &c->save);
    if (code == CLI_OK && c->save.folder) {
        c->options.predicted = cli_save_predictions;
        c->options.user = &c->save;
    }
    return code;
}

int cli_check_comparison(cli_call *call, cli_comparison *c, cst_status status) {
    if (status != CST_OK)
        cli_drop_save(&c->save);
    return c->save.said ? CLI_BAD_INPUT : cli_check(call, status);
}

int cli_close_comparison(cli_call *call, cli_comparison *c, cst_report *report, int code) {
    code = cli_end_report(call, report, code);
    code = cli_close_save(call, &c->save, code);
    cst_pool_free(call->context, c->pool);
    cli_free_methods(c);
    return code;
}
