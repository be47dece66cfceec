/* Options, method names and the course of compare, ablate and sweep. */
#include "comparison.h"

#include <corestack/detection.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    for (char *at = c->list; at;) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma = '\0';
        if (!*at)
            return cli_fail(call, "option --methods: '%s' contains an empty name", text);
        CLI_TRY(cli_check_method(call, "methods", at));
        c->methods[c->options.method_count++] = at;
        at = comma ? comma + 1 : NULL;
    }
    return CLI_OK;
}

/* --set, each tried on a set of options so that a mistake shows before any work is done. */
static int read_settings(cli_call *call, cli_comparison *c) {
    c->settings = calloc((size_t)call->given_count + 1, sizeof *c->settings);
    if (!c->settings)
        return cli_check(call, CST_ERROR_MEMORY);
    CLI_TRY(cli_make_options(call));
    for (int i = 0; i < call->given_count; i++) {
        const char *pair = call->given[i].value;
        if (strcmp(call->given[i].option->name, "set") != 0)
            continue;
        if (strncmp(pair, "seed=", 5) == 0)
            return cli_fail(
                call,
                "option --set: use --seed for the seed; it also sets the folds and the resamples");
        c->settings[c->options.setting_count++] = pair;
    }
    c->options.settings = c->settings;
    return CLI_OK;
}

int cli_read_methods(cli_call *call, bool none, cli_comparison *c) {
    CLI_TRY(read_names(call, none, c));
    return read_settings(call, c);
}

void cli_free_methods(cli_comparison *c) {
    free(c->methods);
    free(c->list);
    free(c->settings);
}

static int read_options(cli_call *call, int32_t usual, cli_comparison *c) {
    cst_compare_options *o = &c->options;
    long long splits = 1;
    long long resamples = usual;
    long long seed = 0;
    CLI_TRY(cli_check_form(call));
    CLI_TRY(cli_integer(call, "splits", 1, CST_SPLITS_MAX, &splits));
    CLI_TRY(cli_number(call, "holdout", 0, 1, &o->holdout));
    if (cli_value(call, "holdout") && !(o->holdout > 0 && o->holdout < 1))
        return cli_fail(call,
                        "option --holdout: '%s' is not above 0 and below 1; 0.2 holds out a fifth "
                        "of the rows",
                        cli_value(call, "holdout"));
    if (splits > 1) /* standard errors stand where intervals would */
        resamples = 0;
    CLI_TRY(cli_integer(call, "resamples", 0, 10000000, &resamples));
    CLI_TRY(cli_integer(call, "seed", 0, CLI_WHOLE_MAX, &seed));
    CLI_TRY(cli_read_methods(call, false, c));
    o->splits = (int32_t)splits;
    o->resamples = (int32_t)resamples;
    o->seed = (uint64_t)seed;
    o->split = cli_fit_split(call);
    o->reference = cli_value(call, "reference");
    o->ood = cli_value(call, "ood");
    o->clean = cli_value(call, "clean");
    o->reference_errors = cli_value(call, "reference-errors");
    CLI_TRY(cli_class_limits(call, &o->head_above, &o->tail_below));
    if (o->reference)
        CLI_TRY(cli_check_method(call, "reference", o->reference));
    if (o->ood && strcmp(o->ood, o->split) == 0)
        return cli_fail(call, "option --ood: '%s' is the split that is scored; name another split",
                        o->ood);
    return CLI_OK;
}

static int run(cli_call *call, int32_t usual, cli_compare_fn compare, const cst_sweep_options *over,
               cli_comparison *c) {
    CLI_TRY(read_options(call, usual, c));
    CLI_TRY(cli_open_pool(call, 0));
    CLI_TRY(cli_open_save(call, call->pool, &c->options, &c->save));
    if (c->save.folder) {
        c->options.predicted = cli_save_predictions;
        c->options.user = &c->save;
    }
    cst_status status = over
                            ? cst_sweep(call->context, call->pool, over, &c->options, &call->report)
                            : compare(call->context, call->pool, &c->options, &call->report);
    if (status != CST_OK) /* before the message, since an interrupt ends the program there */
        cli_drop_save(&c->save);
    return c->save.said ? CLI_BAD_INPUT : cli_check(call, status);
}

int cli_run_comparison(cli_call *call, int32_t usual, cli_compare_fn compare,
                       const cst_sweep_options *over) {
    cli_comparison c = {0};
    if (cli_wants_methods(call))
        return cli_list_methods(call);
    int code = run(call, usual, compare, over, &c);
    code = cli_end_report(call, code);
    code = cli_close_save(call, &c.save, code);
    cli_free_methods(&c);
    return code;
}
