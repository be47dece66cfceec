/* corestack compare: every method on the same rows, with intervals and tests. Paper: "Results".
 * corestack ablate: the stages of CoRe-Stack+ switched on in turn. Paper: "Component Ablation". */
#include "cli.h"

#include <stdio.h>
#include <string.h>

static const char *const CALIBRATIONS[] = {"temperature", "vector", "isotonic", "platt"};

enum { CALIBRATION_COUNT = sizeof CALIBRATIONS / sizeof CALIBRATIONS[0], NAMES_MAX = 256 };

/* Those that only a multilabel comparison has. */
static const struct {
    const char *name, *definition;
} OF_LABELS[] = {
    {"log-odds-average", "the sigmoid of the mean of the members' log-odds"},
    {"logistic", "ridge logistic regression on the members' log-odds, label by label"}};
enum { OF_LABELS_COUNT = sizeof OF_LABELS / sizeof OF_LABELS[0] };

/* The methods, then "all"; returns how many. */
static int method_names(const char *names[NAMES_MAX]) {
    int count = 0;
    while (count < NAMES_MAX - 1 && cst_method_name((size_t)count)) {
        names[count] = cst_method_name((size_t)count);
        count++;
    }
    for (size_t i = 0; count < NAMES_MAX - 1 && cst_detection_method_name(i); i++)
        names[count++] = cst_detection_method_name(i);
    for (size_t i = 0; i < OF_LABELS_COUNT; i++)
        names[count++] = OF_LABELS[i].name;
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
    for (size_t i = 0; !definition && i < OF_LABELS_COUNT; i++)
        definition = strcmp(name, OF_LABELS[i].name) == 0 ? OF_LABELS[i].definition : NULL;
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
    cli_out(json ? "\n  ],\n  \"multilabel\": [" : "\nFor multilabel only\n\n");
    for (size_t i = 0; i < OF_LABELS_COUNT; i++)
        list_one(OF_LABELS[i].name, json, i == 0);
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

/* Splits --methods at its commas. */
static int read_names(cli_call *call, bool none, cst_compare_options *o) {
    const char *text = cli_value(call, "methods");
    if (!text)
        return CLI_OK;
    const char **names = cli_cut(call, text, ',', &o->method_count);
    if (!names)
        return CLI_INTERNAL;
    o->methods = names;
    if (none && strcmp(text, "none") == 0)
        o->method_count = 0;
    for (int64_t i = 0; i < o->method_count; i++) {
        if (!*names[i])
            return cli_fail(call, "option --methods: '%s' contains an empty name", text);
        CLI_TRY(cli_check_method(call, "methods", names[i]));
    }
    return CLI_OK;
}

/* "key=value", where there is a value. */
static int add_setting(cli_call *call, const char *key, const char *value, const char **settings,
                       cst_compare_options *o) {
    char *pair = NULL;
    if (!value)
        return CLI_OK;
    size_t size = strlen(key) + strlen(value) + sizeof "=";
    CLI_TAKE(pair, size);
    (void)snprintf(pair, size, "%s=%s", key, value);
    settings[o->setting_count++] = pair;
    return CLI_OK;
}

int cli_read_methods(cli_call *call, bool none, cst_compare_options *o) {
    const char **settings = NULL;
    CLI_TRY(read_names(call, none, o));
    CLI_TAKE(settings, call->given_count + 4);
    CLI_TRY(cli_make_options(call)); /* so that a mistake shows before any work is done */
    for (int i = 0; i < call->given_count; i++) {
        const char *pair = call->given[i].value;
        if (strcmp(call->given[i].option->name, "set") != 0)
            continue;
        if (strncmp(pair, "seed=", 5) == 0)
            return cli_fail(
                call,
                "option --set: use --seed for the seed; it also sets the folds and the resamples");
        settings[o->setting_count++] = pair;
    }
    const char *metric = NULL;
    CLI_TRY(cli_metric(call, &metric));
    CLI_TRY(add_setting(call, "metric", metric, settings, o));
    CLI_TRY(
        add_setting(call, "target.transform", cli_value(call, "target-transform"), settings, o));
    if (cli_in_time(call))
        settings[o->setting_count++] = "folds.kind=time";
    o->settings = settings;
    return CLI_OK;
}

/* What a file is called without a folder and endings; an array of an archive by its own name. */
static char *stem_of(cli_call *call, const char *file) {
    size_t member = cli_member(file);
    char *name = cli_copy(call, member ? file + member + 1 : cli_base_name(file));
    for (int part = 0; name && !member && part < 2; part++) {
        char *dot = strrchr(name, '.');
        bool packed = dot && strcmp(dot, ".gz") == 0;
        if (dot && dot > name)
            *dot = '\0';
        if (!packed)
            break;
    }
    return name;
}

/* Every --with. */
static int read_own(cli_call *call, cst_compare_options *o) {
    cst_own_predictions *own = NULL;
    CLI_TAKE(own, call->given_count + 1);
    for (int i = 0; i < call->given_count; i++) {
        const char *text = call->given[i].value;
        if (strcmp(call->given[i].option->name, "with") != 0)
            continue;
        const char *file = cli_file_with(text);
        char *name = file == text ? stem_of(call, file) : cli_copy(call, text);
        if (!name)
            return CLI_INTERNAL;
        if (file > text)
            name[file - text - 1] = '\0';
        if (!*name || !*file)
            return cli_fail(
                call, "option --with: '%s' is not NAME=FILE, for example mine=predictions.npy",
                text);
        own[o->own_count++] = (cst_own_predictions){.name = name, .path = file};
    }
    o->own = own;
    return CLI_OK;
}

/* The name of a method, or of predictions of the user's own. */
static int check_reference(cli_call *call, const cst_compare_options *o) {
    for (int64_t i = 0; i < o->own_count; i++)
        if (strcmp(o->reference, o->own[i].name) == 0)
            return CLI_OK;
    return cli_check_method(call, "reference", o->reference);
}

static int read_options(cli_call *call, int64_t resamples, cst_compare_options *o) {
    *o = (cst_compare_options){.splits = 1,
                               .resamples = resamples,
                               .split = cli_fit_split(call),
                               .reference = cli_value(call, "reference"),
                               .ood = cli_value(call, "ood"),
                               .clean = cli_value(call, "clean"),
                               .reference_errors = cli_value(call, "reference-errors")};
    CLI_TRY(cli_check_form(call));
    CLI_TRY(cli_integer(call, "splits", 1, CST_SPLITS_MAX, &o->splits));
    CLI_TRY(cli_number(call, "holdout", 0, 1, &o->holdout));
    if (cli_value(call, "holdout") && !(o->holdout > 0 && o->holdout < 1))
        return cli_fail(call,
                        "option --holdout: '%s' is not above 0 and below 1; 0.2 holds out a fifth "
                        "of the rows",
                        cli_value(call, "holdout"));
    if (o->splits > 1) /* standard errors stand where intervals would */
        o->resamples = 0;
    CLI_TRY(cli_resamples(call, &o->resamples));
    CLI_TRY(cli_seed(call, &o->seed));
    CLI_TRY(cli_read_methods(call, false, o));
    CLI_TRY(cli_class_limits(call, &o->head_above, &o->tail_below));
    CLI_TRY(read_own(call, o));
    if (o->reference)
        CLI_TRY(check_reference(call, o));
    if (o->ood && strcmp(o->ood, o->split) == 0)
        return cli_fail(call, "option --ood: '%s' is the split that is scored; name another split",
                        o->ood);
    return CLI_OK;
}

int cli_run_comparison(cli_call *call, int64_t resamples, cli_compare_fn function,
                       const cst_sweep_options *over) {
    cst_compare_options o;
    CLI_TRY(read_options(call, resamples, &o));
    CLI_TRY(cli_open_pool(call, 0));
    CLI_TRY(cli_open_save(call, &o));
    cst_status status = over ? cst_sweep(call->context, call->pool, over, &o, &call->report)
                             : function(call->context, call->pool, &o, &call->report);
    if (status != CST_OK && call->save.folder) /* before the message, which may have to wait */
        cli_drop_save(call);
    return call->save.said ? CLI_BAD_INPUT : cli_check(call, status);
}

static int compare(cli_call *call) {
    return cli_run_comparison(call, 5000, cst_compare, NULL);
}

static int ablate(cli_call *call) {
    return cli_run_comparison(call, 5000, cst_ablate, NULL);
}

static const cli_option COMPARE[] = {
    {"split", 0, "NAME",
     "split to score: oof (default; nested scores), or another split, scored by fits on oof; "
     "several splits, separated by commas, are scored one by one and averaged"},
    {"methods", 'm', "A,B,...",
     "methods to compare, separated by commas (all but compact and best); see --list-methods"},
    {"list-methods", 0, NULL, "list the methods and what each one computes"},
    {"reference", 0, "METHOD", "method that the others are compared with (preset default)"},
    {"with", 0, "NAME=FILE",
     "also score, as row NAME, your own predictions for the rows of the split: probabilities, "
     "regression values, detections or maps (for split oof, out-of-fold ones; for several splits "
     "NAME=SPLIT:FILE,SPLIT:FILE); or a fitted model, on a split that its fit did not see; may be "
     "repeated"},
    CLI_SCORE_OPTIONS,
    {"splits", 0, "N",
     "repeat with seeds S, S+1, ... and give the mean and standard error of every score (1)"},
    {"holdout", 0, "SHARE",
     "draw this share of split oof at random, exclude it from the fits and score it, for example "
     "0.2; with --splits another one in each repetition"},
    {"resamples", 'r', "N",
     "bootstrap resamples for the 95% intervals (5000; 0 with --splits); 0 = no intervals"},
    {"seed", 0, "S", "seed for folds, fits and resamples (0)"},
    CLI_METRIC_OPTION,
    CLI_COST_OPTION,
    CLI_TRANSFORM_OPTION,
    {"set", 's', "KEY=VALUE",
     "change one option in every preset that is compared; may be repeated"},
    {"save", 0, "DIR", "write the probabilities of each method to DIR/METHOD.SPLIT.npy"},
    CLI_HTML_OPTION,
    CLI_TABLE_OPTIONS,
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_COMPARE = {
    .name = "compare",
    .summary = "compare methods on the same rows, with intervals and tests",
    .usage = "compare POOL [--split NAME] [--methods A,B,...] [options]\n"
             "compare --list-methods",
    .details = "Scores baselines and presets side by side. On split oof every score is nested: "
               "each row is scored by fits that did not see it. Any other split is scored by one "
               "fit on split oof. Differences from the reference are tested with paired tests over "
               "samples; p-values are adjusted for the number of methods.",
    .example =
        "corestack compare examples/digits/pool.json\n"
        "corestack compare pool.json --split test --methods average,ridge,paper,default\n"
        "corestack compare pool.json --split corrupted --clean test --reference-errors alexnet\n"
        "corestack compare pool.json --split clipart,painting,sketch\n"
        "corestack compare pool.json --splits 3 --holdout 0.2\n"
        "corestack compare pool.json --split test --with mine=predictions.npy\n"
        "corestack compare pool.json --split test --with mine=mine.cstack --reference mine\n"
        "corestack compare pool.json --markdown > table.md",
    .options = COMPARE,
    .takes_pool = true,
    .lists_options = true,
    .reports_notices = true,
    .run = compare,
};

static const cli_option ABLATE[] = {
    {"split", 0, "NAME",
     "split to score: oof (default; nested scores), or another split, scored by fits on oof"},
    {"resamples", 'r', "N", "bootstrap resamples for the 95% intervals (5000); 0 = no intervals"},
    {"seed", 0, "S", "seed for folds, fits and resamples (0)"},
    CLI_METRIC_OPTION,
    CLI_COST_OPTION,
    CLI_TRANSFORM_OPTION,
    {"set", 's', "KEY=VALUE", "change one option in every row; may be repeated"},
    {"save", 0, "DIR", "write the probabilities of each row to DIR/STAGE.SPLIT.npy"},
    CLI_TABLE_OPTIONS,
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_ABLATE = {
    .name = "ablate",
    .summary = "measure what each stage of CoRe-Stack+ adds to the prototype",
    .usage = "ablate POOL [--split NAME] [options]",
    .details = "Starts with preset prototype and switches on CKA (S1), the learned gate (S2), the "
               "penalty lambda* (S3) and the Laplace blend (S4), one after the other. Row S4 is "
               "preset paper. The last row (S5), drop and refit, is not in the paper. Each row is "
               "compared with the one before it.",
    .example = "corestack ablate examples/digits/pool.json\n"
               "corestack ablate pool.json --split test --csv > ablation.csv",
    .options = ABLATE,
    .takes_pool = true,
    .lists_options = true,
    .reports_notices = true,
    .run = ablate,
};
