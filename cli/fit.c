/* corestack fit: a pool in, a model file and a report out. Stages S0 to S4. */
#include "cli.h"

static int run(cli_call *call) {
    cst_context *context = call->context;
    cli_outfile *outfile = cli_new_outfile(call);
    cli_outfile *suspects = NULL;
    const char *method = cli_value(call, "method");
    const char *split = cli_fit_split(call);
    CLI_TRY(cli_open_outfile(call, "the model", outfile));
    CLI_TRY(cli_open_suspects(call, &suspects));
    if (method && cli_value(call, "preset"))
        return cli_fail(call, "options --preset and --method: give one of them");
    if (method)
        CLI_TRY(cli_check_method(call, "method", method));
    CLI_TRY(cli_make_options(call));
    CLI_TRY(cli_open_pool(call, 0));
    CLI_DO(method
               ? cst_fit_method(context, call->pool, split, method, call->options, &call->model,
                                &call->report)
               : cst_fit(context, call->pool, split, call->options, &call->model, &call->report));
    CLI_TRY(cli_write_suspects(call, suspects));
    CLI_DO(cst_model_save(context, call->model, outfile->final));
    return cli_put(call, "model", outfile->path);
}

static const cli_option OPTIONS[] = {
    {"output", 'o', "MODEL", "model file to write (normally NAME.cstack)"},
    {"preset", 'p', "NAME",
     "default, compact (fewer and cheaper members), best (every member that may lower the loss), "
     "paper (CoRe-Stack+, the paper's method) or prototype (CoRe-Stack)"},
    {"method", 'm', "NAME",
     "fit a method of `corestack compare` instead of a preset, for example hill-climbing or "
     "average+temperature; `corestack compare --list-methods` lists them"},
    CLI_METRIC_OPTION,
    CLI_COST_OPTION,
    CLI_TRANSFORM_OPTION,
    {"cascade", 0, NULL,
     "classification: also find where rows may stop before all members have run, with a guarantee "
     "(docs/cascades.md)"},
    {"alpha", 0, "A", "with --cascade: most rows, as a share, with the risk (0.005)"},
    {"confidence", 0, "P", "with --cascade: probability that this holds (0.95)"},
    {"cascade-risk", 0, "NAME",
     "with --cascade: disagreement (another class than the stack's; default) or error (that, where "
     "the stack is right)"},
    {"set", 's', "KEY=VALUE", "change one option of the method; may be repeated"},
    {"seed", 0, "S", "seed of all random choices (0)"},
    {"split", 0, "NAME", "split to fit on (oof)"},
    CLI_LABEL_OPTIONS,
    CLI_HTML_OPTION,
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_FIT = {
    .name = "fit",
    .summary = "fit a stack on out-of-fold predictions",
    .usage = "fit POOL -o MODEL [options]\n"
             "fit --labels y.npy a.npy b.npy ... -o MODEL [options]\n"
             "fit wide.csv -o MODEL [options]",
    .details = "Finds redundant members, selects a small set, fits the meta-learners and blends "
               "them. Reports which members were kept, which were dropped and why, with scores on "
               "rows that the fit did not see: what matters in at most 25 lines, every table with "
               "--verbose. The same pool, options and seed give the same model "
               "file for any number of threads.",
    .example = "corestack fit examples/digits/pool.json -o digits.cstack\n"
               "corestack fit oof/ --preset paper --set cka.threshold=0.9 -o oof.cstack --json\n"
               "corestack fit pool.json -o new.cstack --label-noise human --suspects suspects.csv\n"
               "corestack fit oof/ --method hill-climbing -o climb.cstack",
    .options = OPTIONS,
    .takes_pool = true,
    .lists_options = true,
    .reports_notices = true,
    .run = run,
};
