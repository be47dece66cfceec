/* corestack bound: statements about a stack that hold with a given probability. Paper: appendix. */
#include "cli.h"

/* --shift and what it needs. */
static int read_shift(cli_call *call, cst_bound_batch *batch, double **costs) {
    static const char *const needing[] = {"shift", "by", "miss-cost", "sets"};
    int weights = 0;
    int by = 0;
    int32_t columns = 0;
    batch->split = cli_value(call, "batch-split");
    for (size_t i = 0; i < sizeof needing / sizeof needing[0]; i++)
        if (cli_value(call, needing[i]) && !batch->split)
            return cli_fail(call, "option --%s requires --batch-split: the split of the new rows",
                            needing[i]);
    CLI_TRY(cli_choice(call, "shift", "none|covariate|label", &weights));
    batch->weights = (cst_bound_weights)weights;
    CLI_TRY(cli_choice(call, "by", "none|class|domain", &by));
    batch->by = (cst_bound_parts)by;
    if (!cli_value(call, "miss-cost") != !cli_value(call, "risk"))
        return cli_fail(call, "--miss-cost and --risk go together: the costs of a miss by class, "
                              "and the acceptable expected cost of a row");
    CLI_TRY(cli_number(call, "risk", 0, 1e300, &batch->risk));
    if (!cli_value(call, "miss-cost"))
        return CLI_OK;
    CLI_DO(cst_read_targets(call->context, cli_value(call, "miss-cost"), costs,
                            &batch->miss_cost_count, &columns));
    cli_keep(call, *costs);
    batch->miss_costs = *costs;
    if (batch->miss_cost_count == 0)
        return cli_fail(call,
                        "--miss-cost %s: has no numbers below its first line; write one cost "
                        "for each class, each on a line of its own",
                        cli_value(call, "miss-cost"));
    return columns == 1 ? CLI_OK
                        : cli_fail(call,
                                   "--miss-cost %s: has %d columns; give one cost for each "
                                   "class",
                                   cli_value(call, "miss-cost"), (int)columns);
}

static int run(cli_call *call) {
    cli_outfile *sets = cli_new_outfile(call);
    cst_bound_options options = {0};
    cst_bound_batch batch = {0};
    double *costs = NULL;
    CLI_TRY(cli_seed(call, &options.seed));
    CLI_TRY(cli_share_of(call, "delta", &options.delta));
    CLI_TRY(cli_share_of(call, "alpha", &options.alpha));
    CLI_TRY(read_shift(call, &batch, &costs));
    if (cli_value(call, "sets")) {
        CLI_TRY(cli_open_outfile_of(call, "sets", "the array of prediction sets", sets));
        if (!cli_outfile_is_npy(sets))
            return cli_fail(call, "--sets %s: sets are written as .npy; use that extension",
                            sets->path);
    }
    CLI_TRY(cli_open_both(call));
    options.split = cli_split(call, "test");
    options.leakage = cli_flag(call, "leakage");
    options.validation = cli_value(call, "validation");
    if (sets->path)
        batch.sets = sets->final;
    CLI_DO(batch.split
               ? cst_bound_shifted(call->context, call->model, call->pool, &options, &batch,
                                   &call->report)
               : cst_bound(call->context, call->model, call->pool, &options, &call->report));
    return sets->path ? cli_put(call, "sets", sets->path) : CLI_OK;
}

static const cli_option OPTIONS[] = {
    {"split", 0, "NAME", "split whose rows are used (test, or the only one)"},
    {"delta", 0, "D", "each bound may fail with at most this probability (0.05)"},
    {"alpha", 0, "A", "allowed miss rate of the prediction sets (0.1)"},
    {"batch-split", 0, "NAME",
     "also make prediction sets for the rows of this split, which needs no labels"},
    {"shift", 0, "KIND",
     "how rows are weighted for them: none (default), covariate (the new rows differ from the fit "
     "rows) or label (the class shares have changed)"},
    {"by", 0, "PARTS",
     "calibrate them for each class or domain on its own: none (default), class or domain"},
    {"miss-cost", 0, "FILE", "cost of a set without the true class, one number for each class"},
    {"risk", 0, "R", "with --miss-cost: acceptable expected cost of a row"},
    {"sets", 0, "FILE.npy", "write these sets: [rows, classes], 1 where a class is in the set"},
    {"seed", 0, "S", "seed for splitting the rows in half and for randomised sets (0)"},
    {"leakage", 0, NULL,
     "look for leaks between split oof and this one, and refit on permuted labels"},
    {"validation", 0, "NAME",
     "take lambda*, the prior of the paper's bound, from the rows of this split (oof itself)"},
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
    .needs = "model",
    .takes_pool = true,
    .reports_notices = true,
    .run = run,
};
