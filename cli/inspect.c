/*
 * corestack inspect: a look at a pool without fitting.
 * Before a fit. Paper: the redundancy and the spectrum that the pipeline acts on.
 */
#include "cli.h"

static int run(cli_call *call) {
    cst_pool *pool = NULL;
    cst_options *options = NULL;
    cst_report *report = NULL;
    int code = cli_make_options(call, &options);
    if (code == CLI_OK)
        code = cli_open_pool(call, 0, &pool);
    if (code == CLI_OK)
        code = cli_check(call,
                         cst_inspect(call->context, pool, cli_fit_split(call), options, &report));
    code = cli_end_report(call, report, code);
    cst_options_free(call->context, options);
    cst_pool_free(call->context, pool);
    return code;
}

static const cli_option OPTIONS[] = {
    {"preset", 'p', "NAME", "default, compact, best, paper or prototype"},
    {"set", 's', "KEY=VALUE", "change one option of the method; may be repeated"},
    {"seed", 0, "S", "seed of all random choices (0)"},
    {"split", 0, "NAME", "split to inspect (oof)"},
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
    .options = OPTIONS,
    .takes_pool = true,
    .lists_options = true,
    .reports_notices = true,
    .run = run,
};
