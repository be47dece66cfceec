/*
 * corestack bound: what holds of a stack with a stated probability, beside what the paper says.
 * After a fit. Paper: appendix.
 */
#include "cli.h"

#include <corestack/bound.h>

#include <stdlib.h>

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

static int run(cli_call *call) {
    cst_model *model = NULL;
    cst_pool *pool = NULL;
    cst_report *report = NULL;
    cst_bound_options options = {0};
    long long seed = 0;
    if (call->argument_count < 1)
        return cli_fail(call, "no model given; see `corestack bound --help`");
    int code = cli_integer(call, "seed", 0, CLI_WHOLE_MAX, &seed);
    if (code == CLI_OK)
        code = read_share(call, "delta", &options.delta);
    if (code == CLI_OK)
        code = read_share(call, "alpha", &options.alpha);
    if (code == CLI_OK)
        code = cli_check(call, cst_model_load(call->context, &model, call->arguments[0]));
    if (code == CLI_OK)
        code = cli_open_pool_of(call, 1, model, &pool);
    options.split = cli_split(call, 1, "test");
    options.seed = (uint64_t)seed;
    options.leakage = cli_flag(call, "leakage");
    if (code == CLI_OK)
        code = cli_check(call, cst_bound(call->context, model, pool, &options, &report));
    code = cli_end_report(call, report, code);
    cst_pool_free(call->context, pool);
    cst_model_free(call->context, model);
    return code;
}

static const cli_option OPTIONS[] = {
    {"split", 0, "NAME", "split whose rows are used (test)"},
    {"delta", 0, "D", "each bound may fail with at most this probability (0.05)"},
    {"alpha", 0, "A", "allowed miss rate of the prediction sets (0.1)"},
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
               "that were trained on their own labels. Classification only.",
    .example = "corestack bound digits.cstack examples/digits/pool.json --delta 0.05",
    .options = OPTIONS,
    .takes_pool = true,
    .reports_notices = true,
    .run = run,
};
