/*
 * corestack ablate: the prototype with the stages of CoRe-Stack+ switched on one after the other.
 * Beside a fit. Paper: section "Component Ablation".
 */
#include "comparison.h"

static int run(cli_call *call) {
    cli_comparison c;
    cst_report *report = NULL;
    int code = cli_open_comparison(call, 5000, &c);
    if (code == CLI_OK)
        code =
            cli_check_comparison(call, &c, cst_ablate(call->context, c.pool, &c.options, &report));
    return cli_close_comparison(call, &c, report, code);
}

static const cli_option OPTIONS[] = {
    {"split", 0, "NAME", "the split to score: oof (default), nested; or another, with fits on oof"},
    {"resamples", 'r', "N", "bootstrap resamples for 95% intervals (5000; 0: none)"},
    {"seed", 0, "S", "seed of folds, fits and resamples (0)"},
    {"set", 's', "KEY=VALUE", "change one option in every row; may be repeated"},
    {"save", 0, "DIR", "write each row's probabilities to DIR/STAGE.SPLIT.npy"},
    {"csv", 0, NULL, "the table as comma-separated values, in full"},
    {"markdown", 0, NULL, "the table in Markdown"},
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_ABLATE = {
    .name = "ablate",
    .summary = "what each stage of CoRe-Stack+ adds to the prototype",
    .usage = "ablate POOL [--split NAME] [options]",
    .details =
        "Starts with preset prototype and switches on CKA (S1), the learned gate (S2), the\n"
        "penalty lambda* (S3) and the Laplace blend (S4), one after the other; the last row\n"
        "is preset paper. Each row is compared with the one before.",
    .example = "corestack ablate examples/digits/pool.json\n"
               "corestack ablate pool.json --split test --csv > ablation.csv",
    .options = OPTIONS,
    .takes_pool = true,
    .lists_options = true,
    .reports_notices = true,
    .run = run,
};
