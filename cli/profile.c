/* corestack profile: costs of a stack when it predicts. Paper: "Deployment Efficiency: Latency and
 * Memory". */
#include "comparison.h"

#include <corestack/profile.h>
#include <corestack/report.h>

enum { MOST = 1000000 };

static int run(cli_call *call) {
    cli_comparison c = {0};
    cst_profile_options options = {0};
    long long batch = CST_PROFILE_BATCH;
    long long calls = 0;
    long long seed = 0;
    if (cli_wants_methods(call))
        return cli_list_methods(call);
    if (call->argument_count < 1)
        return cli_fail(call, "no model given; see `corestack profile --help`");
    CLI_TRY(cli_check_form(call));
    CLI_TRY(cli_integer(call, "batch", 1, MOST, &batch));
    CLI_TRY(cli_integer(call, "repeats", 1, MOST, &calls));
    CLI_TRY(cli_number(call, "seconds", 0.001, 3600, &options.seconds));
    CLI_TRY(cli_integer(call, "seed", 0, CLI_WHOLE_MAX, &seed));
    if (cli_value(call, "repeats") && cli_value(call, "seconds"))
        return cli_fail(call, "--repeats and --seconds both say how long to measure: remove one");
    int code = cli_read_methods(call, true, &c);
    if (code == CLI_OK)
        code = cli_open_both(call);
    if (code == CLI_OK) {
        options.split = cli_split(call, "test");
        options.methods = c.options.methods;
        options.method_count = c.options.method_count;
        options.settings = c.options.settings;
        options.setting_count = c.options.setting_count;
        options.batch = batch;
        options.calls = calls;
        options.parallel = cli_flag(call, "parallel");
        options.seed = (uint64_t)seed;
        code = cli_check(
            call, cst_profile(call->context, call->model, call->pool, &options, &call->report));
    }
    cli_free_methods(&c);
    return code == CLI_OK ? cli_put(call, "model", call->arguments[0]) : code;
}

static const cli_option OPTIONS[] = {
    {"split", 0, "NAME",
     "split whose predictions are used, and scored if it has labels (test, or the only one)"},
    {"batch", 0, "N", "samples of a call with many (256, as in the paper)"},
    {"seconds", 0, "S", "seconds for which calls of each size are timed (0.5)"},
    {"repeats", 0, "N", "time N calls of each size instead"},
    {"parallel", 0, NULL,
     "members run at the same time, each on its own device: latency and memory are those of "
     "the largest member instead of the sum"},
    {"methods", 'm', "A,B,...",
     "methods to measure next to the model, separated by commas (best-single, average, ridge, "
     "greedy, deep-ensemble, prototype and paper); none for the model alone"},
    {"list-methods", 0, NULL, "list the methods and what each one computes"},
    {"seed", 0, "S", "seed for folds and fits (0)"},
    {"set", 's', "KEY=VALUE", "change one option in every preset that is fitted; may be repeated"},
    CLI_TABLE_OPTIONS,
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_PROFILE = {
    .name = "profile",
    .summary = "measure what a stack costs when it predicts, next to other methods",
    .usage = "profile MODEL POOL [--split NAME] [--batch N] [--methods A,B,...] [options]",
    .details =
        "Measures the meta-layer of the model and of other methods, fitted on split oof: median "
        "and 99th percentile of the time of calls with one sample and with a batch, throughput, "
        "memory, size of the model file and parameters of the gate. With flops, latency_ms and "
        "memory_bytes of the members in the manifest it adds what the methods cost from end to "
        "end. The figures of the paper's table are printed next to it.\n"
        "A call with up to 512 rows runs on one thread; the members are not run.",
    .example = "corestack profile digits.cstack examples/digits/pool.json\n"
               "corestack profile digits.cstack examples/digits/pool.json --batch 1024 --json",
    .options = OPTIONS,
    .takes_pool = true,
    .lists_options = true,
    .reports_notices = true,
    .run = run,
};
