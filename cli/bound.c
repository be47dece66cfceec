/*
 * corestack bound: what holds of a stack with a stated probability, beside what the paper says.
 * After a fit. Paper: appendix.
 */
#include "cli.h"

#include <corestack/bound.h>
#include <corestack/report.h>

#include <stdlib.h>
#include <string.h>

/* A probability between 0 and 1; *out is left alone when the option was not given. */
static int read_share(cli_call *call, const char *name, double *out) {
    const char *text = cli_value(call, name);
    char *end = NULL;
    if (!text)
        return CLI_OK;
    *out = strtod(text, &end);
    if (end == text || *end || !(*out > 0 && *out < 1))
        return cli_fail(call, "option --%s: '%s' is not a number between 0 and 1", name, text);
    return CLI_OK;
}

/* --shift and what it needs. */
static int read_shift(cli_call *call, cst_bound_batch *batch) {
    static const char *const names[] = {"none", "covariate", "label"};
    const char *given = cli_value(call, "shift");
    batch->split = cli_value(call, "batch-split");
    if (given && !batch->split)
        return cli_fail(call, "option --shift requires --batch-split: the split of the new rows");
    if (cli_value(call, "sets") && !batch->split)
        return cli_fail(call, "option --sets requires --batch-split: the split of the new rows");
    for (int s = 0; given && s < 3; s++)
        if (strcmp(given, names[s]) == 0) {
            batch->weights = (cst_bound_weights)s;
            given = NULL;
        }
    return given ? cli_fail(call, "option --shift: '%s' is not none, covariate or label", given)
                 : CLI_OK;
}

/* The file of --sets, looked at before any work. */
static int open_sets(cli_call *call, cli_outfile *sets) {
    if (!cli_value(call, "sets"))
        return CLI_OK;
    int code = cli_open_outfile_of(call, "sets", "the array of prediction sets", sets);
    if (code == CLI_OK && !cli_outfile_is_npy(sets))
        code =
            cli_fail(call, "--sets %s: sets are written as .npy; use that extension", sets->path);
    return code;
}

static int run(cli_call *call) {
    cst_model *model = NULL;
    cli_outfile sets = {0};
    cst_pool *pool = NULL;
    cst_report *report = NULL;
    cst_bound_options options = {0};
    cst_bound_batch batch = {0};
    long long seed = 0;
    if (call->argument_count < 1)
        return cli_fail(call, "no model given; see `corestack bound --help`");
    int code = cli_integer(call, "seed", 0, CLI_WHOLE_MAX, &seed);
    if (code == CLI_OK)
        code = read_share(call, "delta", &options.delta);
    if (code == CLI_OK)
        code = read_share(call, "alpha", &options.alpha);
    if (code == CLI_OK)
        code = read_shift(call, &batch);
    if (code == CLI_OK)
        code = open_sets(call, &sets);
    if (code == CLI_OK)
        code = cli_check(call, cst_model_load(call->context, &model, call->arguments[0]));
    if (code == CLI_OK)
        code = cli_open_pool_of(call, 1, model, &pool);
    options.split = cli_split(call, pool, "test");
    options.seed = (uint64_t)seed;
    options.leakage = cli_flag(call, "leakage");
    if (sets.path)
        batch.sets = sets.final;
    if (code == CLI_OK)
        code =
            cli_check(call, batch.split ? cst_bound_shifted(call->context, model, pool, &options,
                                                            &batch, &report)
                                        : cst_bound(call->context, model, pool, &options, &report));
    if (code == CLI_OK && sets.path)
        code = cli_check(call, cst_report_set_string(call->context, report, "sets", sets.path));
    code = cli_end_report(call, report, code);
    if (sets.path)
        code = cli_close_outfiles(call, code);
    cst_pool_free(call->context, pool);
    cst_model_free(call->context, model);
    return code;
}

static const cli_option OPTIONS[] = {
    {"split", 0, "NAME", "split whose rows are used (test, or the only one)"},
    {"delta", 0, "D", "each bound may fail with at most this probability (0.05)"},
    {"alpha", 0, "A", "allowed miss rate of the prediction sets (0.1)"},
    {"batch-split", 0, "NAME",
     "also make prediction sets for the rows of this split, which needs no labels"},
    {"shift", 0, "KIND",
     "how rows are weighted for them: none (default), covariate (the new rows look unlike those of "
     "the fit) or label (the class shares have changed)"},
    {"sets", 0, "FILE.npy", "write these sets: [rows, classes], 1 where a class is in the set"},
    {"seed", 0, "S", "seed for splitting the rows in half and for randomised sets (0)"},
    {"leakage", 0, NULL,
     "look for leaks between split oof and this one, and refit on permuted labels"},
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_BOUND = {
    .name = "bound",
    .summary = "compute high-probability bounds for a stack: error, prediction sets, calibration",
    .usage = "bound MODEL POOL [options]",
    .details = "Bounds the error of the stack, of a random member and of a weighted vote, bounds "
               "the calibration error, and calibrates prediction sets. The labelled rows must be "
               "independent draws that the model was not fitted on. Also reports clusters, "
               "spectrum, weights and a PAC-Bayes bound as the paper defines them. Each bound "
               "holds on its own, not jointly with the others. --leakage adds tests for scores "
               "that were trained on their own labels. --batch-split makes prediction sets for new "
               "rows, weighted as --shift says. Classification only.",
    .example = "corestack bound digits.cstack examples/digits/pool.json --delta 0.05",
    .options = OPTIONS,
    .takes_pool = true,
    .reports_notices = true,
    .run = run,
};
