/* corestack ablate: the stages of CoRe-Stack+ switched on in turn. Paper: "Component Ablation". */
#include "comparison.h"

static int run(cli_call *call) {
    return cli_run_comparison(call, 5000, cst_ablate, NULL);
}

static const cli_option OPTIONS[] = {
    {"split", 0, "NAME",
     "split to score: oof (default; nested scores), or another split, scored by fits on oof"},
    {"resamples", 'r', "N", "bootstrap resamples for the 95% intervals (5000); 0 = no intervals"},
    {"seed", 0, "S", "seed for folds, fits and resamples (0)"},
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
    .options = OPTIONS,
    .takes_pool = true,
    .lists_options = true,
    .reports_notices = true,
    .run = run,
};
