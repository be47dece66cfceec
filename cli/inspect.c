/* corestack inspect: redundancy, spectrum and problems of a pool without a fit. */
#include "cli.h"

static int run(cli_call *call) {
    CLI_TRY(cli_make_options(call));
    CLI_TRY(cli_open_pool(call, 0));
    return cli_check(call, cst_inspect(call->context, call->pool, cli_fit_split(call),
                                       call->options, &call->report));
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
