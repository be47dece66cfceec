/* corestack show: what a model file says of itself. corestack inspect: redundancy, spectrum and
 * problems of a pool without a fit. */
#include "cli.h"

#include <sys/stat.h>
#include <time.h>

/* Adds the file's time, which models do not hold. */
static int put_time(cli_call *call, const char *path) {
    char text[32];
    struct stat info;
    struct tm parts;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) || !gmtime_r(&info.st_mtime, &parts) ||
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        return CLI_OK;
    return cli_put(call, "modified", text);
}

static int run(cli_call *call) {
    const char *path = call->arguments[0];
    CLI_TRY(call->argument_count > 1 ? cli_open_both(call) : cli_open_model(call));
    const char *split = call->pool ? cli_split(call, NULL) : NULL;
    CLI_DO(cst_show(call->context, call->model, call->pool, split, &call->report));
    CLI_TRY(cli_put(call, "model", path));
    return put_time(call, path);
}

static const cli_option OPTIONS[] = {
    {"split", 0, "NAME", "split of the pool to compare (the one that the model was fitted on)"},
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_SHOW = {
    .name = "show",
    .summary = "show what is in a model file",
    .usage = "show MODEL\n"
             "show MODEL POOL [--split NAME]",
    .details = "Lists members with their weights and costs, method or preset, classes, "
               "calibration, what the model was fitted on, and the settings that differ from the "
               "preset; with --verbose all settings. With a pool, tells whether the model was "
               "fitted on it, by a hash of names, predictions, labels, folds, groups and weights. "
               "A model file contains no time, so that the same fit gives an identical file; the "
               "time shown is when the file was last modified.",
    .example = "corestack show digits.cstack\n"
               "corestack show digits.cstack examples/digits/pool.json --json",
    .options = OPTIONS,
    .needs = "model",
    .takes_pool = true,
    .reports_notices = true,
    .run = run,
};

static int inspect(cli_call *call) {
    cli_outfile *suspects = NULL;
    CLI_TRY(cli_open_suspects(call, &suspects));
    CLI_TRY(cli_make_options(call));
    CLI_TRY(cli_open_pool(call, 0));
    CLI_DO(
        cst_inspect(call->context, call->pool, cli_fit_split(call), call->options, &call->report));
    return cli_write_suspects(call, suspects);
}

static const cli_option INSPECT_OPTIONS[] = {
    {"preset", 'p', "NAME", "default, compact, best, paper or prototype"},
    {"set", 's', "KEY=VALUE", "change one option of the method; may be repeated"},
    {"seed", 0, "S", "seed of all random choices (0)"},
    {"split", 0, "NAME", "split to inspect (oof)"},
    CLI_LABEL_OPTIONS,
    CLI_HTML_OPTION,
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_INSPECT = {
    .name = "inspect",
    .summary = "show redundancy, clusters, spectrum, penalties and problems of a pool",
    .usage = "inspect POOL [options]",
    .details =
        "Shows the scores of each member, how similar the members are (CKA and Pearson "
        "correlation), which of them form clusters, the spectrum of the meta-design with its "
        "Marchenko-Pastur edge, and the penalty under each of four rules. No stack is fitted.",
    .example = "corestack inspect examples/digits/pool.json",
    .options = INSPECT_OPTIONS,
    .takes_pool = true,
    .lists_options = true,
    .reports_notices = true,
    .run = inspect,
};
