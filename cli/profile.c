/* corestack profile: costs of a stack when it predicts. Paper: "Deployment Efficiency: Latency and
 * Memory". */
#include "cli.h"

enum { MOST = 1000000 };

static int run(cli_call *call) {
    cst_compare_options compared = {0};
    cst_profile_options options = {.batch = CST_PROFILE_BATCH,
                                   .parallel = cli_flag(call, "parallel")};
    CLI_TRY(cli_check_form(call));
    CLI_TRY(cli_integer(call, "batch", 1, MOST, &options.batch));
    CLI_TRY(cli_integer(call, "repeats", 1, MOST, &options.calls));
    CLI_TRY(cli_number(call, "seconds", 0.001, 3600, &options.seconds));
    CLI_TRY(cli_seed(call, &options.seed));
    if (cli_value(call, "repeats") && cli_value(call, "seconds"))
        return cli_fail(call, "--repeats and --seconds both say how long to measure: remove one");
    CLI_TRY(cli_read_methods(call, true, &compared));
    CLI_TRY(cli_open_both(call));
    options.split = cli_split(call, "test");
    options.methods = compared.methods;
    options.method_count = compared.method_count;
    options.settings = compared.settings;
    options.setting_count = compared.setting_count;
    CLI_DO(cst_profile(call->context, call->model, call->pool, &options, &call->report));
    return cli_put(call, "model", call->arguments[0]);
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
    .needs = "model",
    .takes_pool = true,
    .lists_options = true,
    .reports_notices = true,
    .run = run,
};
