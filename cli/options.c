/*
 * corestack options: the table of options, as text, Markdown (docs/options.md) or JSON.
 * Before a fit. Paper: the method's parameters, with the values of each preset.
 */
#include "cli.h"

#include <stdio.h>
#include <string.h>

enum { PRESETS = 3 };

typedef struct preset_values {
    cst_options *of[PRESETS];
} preset_values;

static const char *type_name(const cst_option_spec *spec) {
    switch (spec->type) {
    case CST_OPTION_INTEGER:
        return "whole number";
    case CST_OPTION_REAL:
        return "number";
    case CST_OPTION_BOOLEAN:
        return "true or false";
    case CST_OPTION_CHOICE:
        return "one of";
    case CST_OPTION_LIST:
        return "some of, with commas";
    }
    return "";
}

static bool is_number(const cst_option_spec *spec) {
    return spec->type == CST_OPTION_INTEGER || spec->type == CST_OPTION_REAL;
}

/* What may be given: bounds, or the choices with `separator` between them. */
static void print_allowed(const cst_option_spec *spec, const char *separator) {
    if (spec->type == CST_OPTION_INTEGER) {
        cli_out("%.0f to %.0f", spec->least, spec->most);
        return;
    }
    if (spec->type == CST_OPTION_REAL) {
        cli_out("%.15g to %.15g", spec->least, spec->most);
        return;
    }
    for (const char *at = spec->choices; *at; at++) {
        if (*at == '|')
            cli_out("%s", separator);
        else
            cli_out("%c", *at);
    }
}

static void print_text(const preset_values *presets) {
    cli_out("Options for --set KEY=VALUE, with the value under preset default\n\n");
    for (size_t i = 0; cst_option_at(i); i++) {
        const cst_option_spec *spec = cst_option_at(i);
        cli_out("  %s = %s", spec->key, cst_options_get(presets->of[0], spec->key));
        for (size_t p = 1; p < PRESETS; p++) {
            const char *value = cst_options_get(presets->of[p], spec->key);
            if (strcmp(value, cst_options_get(presets->of[0], spec->key)) != 0)
                cli_out("  [%s: %s]", cst_preset_at(p), value);
        }
        cli_out("\n      %s\n      %s", spec->help, type_name(spec));
        if (spec->type != CST_OPTION_BOOLEAN) {
            cli_out(is_number(spec) ? ", " : ": ");
            print_allowed(spec, ", ");
        }
        cli_out("\n");
    }
}

static void print_markdown(const preset_values *presets) {
    cli_out("# Options\n\n"
            "Made by `corestack options --markdown` from the one table that the C setters,\n"
            "`--set KEY=VALUE` and the report read. Do not edit.\n\n"
            "| key | `default` | `paper` | `prototype` | allowed | what it does |\n"
            "|---|---|---|---|---|---|\n");
    for (size_t i = 0; cst_option_at(i); i++) {
        const cst_option_spec *spec = cst_option_at(i);
        const char *usual = cst_options_get(presets->of[0], spec->key);
        cli_out("| `%s` | `%s` |", spec->key, usual);
        for (size_t p = 1; p < PRESETS; p++) {
            const char *value = cst_options_get(presets->of[p], spec->key);
            if (strcmp(value, usual) == 0)
                cli_out(" same |");
            else
                cli_out(" `%s` |", value);
        }
        cli_out(" %s", type_name(spec));
        if (spec->type != CST_OPTION_BOOLEAN) {
            cli_out(is_number(spec) ? ", " : ": ");
            print_allowed(spec, ", ");
        }
        cli_out(" | %s |\n", spec->help);
    }
}

static void print_json(const preset_values *presets) {
    static const char *const types[] = {"integer", "real", "boolean", "choice", "list"};
    cli_out("{\n  \"command\": \"options\",\n  \"options\": [");
    for (size_t i = 0; cst_option_at(i); i++) {
        const cst_option_spec *spec = cst_option_at(i);
        cli_out("%s\n    {\n      \"key\": ", i ? "," : "");
        cli_out_json_string(spec->key);
        cli_out(",\n      \"type\": \"%s\"", types[spec->type]);
        for (size_t p = 0; p < PRESETS; p++) {
            cli_out(",\n      \"%s\": ", cst_preset_at(p));
            cli_out_json_string(cst_options_get(presets->of[p], spec->key));
        }
        if (is_number(spec))
            cli_out(",\n      \"least\": %.17g,\n      \"most\": %.17g", spec->least, spec->most);
        if (*spec->choices) {
            cli_out(",\n      \"choices\": [\"");
            print_allowed(spec, "\", \"");
            cli_out("\"]");
        }
        cli_out(",\n      \"help\": ");
        cli_out_json_string(spec->help);
        cli_out("\n    }");
    }
    cli_out("\n  ]\n}\n");
}

static int run(cli_call *call) {
    preset_values presets = {{NULL}};
    int code = CLI_OK;
    if (call->argument_count > 0)
        return cli_fail(call, "unexpected argument '%s'", call->arguments[0]);
    for (size_t p = 0; code == CLI_OK && p < PRESETS; p++) {
        code = cli_check(call, cst_options_create(call->context, &presets.of[p]));
        if (code == CLI_OK)
            code =
                cli_check(call, cst_options_preset(call->context, presets.of[p], cst_preset_at(p)));
    }
    if (code == CLI_OK && cli_flag(call, "json"))
        print_json(&presets);
    else if (code == CLI_OK && cli_flag(call, "markdown"))
        print_markdown(&presets);
    else if (code == CLI_OK)
        print_text(&presets);
    for (size_t p = 0; p < PRESETS; p++)
        cst_options_free(call->context, presets.of[p]);
    return code;
}

static const cli_option OPTIONS[] = {
    {"markdown", 'm', NULL, "as the Markdown page docs/options.md"},
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_OPTIONS = {
    .name = "options",
    .summary = "list the options that --set changes",
    .usage = "options [--markdown] [--json]",
    .details = "Every option with its value under each preset, what may be given, and what it\n"
               "does.",
    .example = "corestack options",
    .options = OPTIONS,
    .run = run,
};
