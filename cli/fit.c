/* corestack fit: a pool in, a model file and a report out. Stages S0 to S4. */
#include "cli.h"
#include "comparison.h"

#include <corestack/report.h>

static int save(cli_call *call, const cst_model *model, const cli_outfile *outfile) {
    return cli_check(call, cst_model_save(call->context, model, outfile->final));
}

static int fit(cli_call *call, cst_pool *pool, const cst_options *options, cst_model **model,
               cst_report **out) {
    const char *split = cli_fit_split(call);
    const char *method = cli_value(call, "method");
    cst_status status =
        method ? cst_fit_method(call->context, pool, split, method, options, model, out)
               : cst_fit(call->context, pool, split, options, model, out);
    return cli_check(call, status);
}

static int run(cli_call *call) {
    cst_pool *pool = NULL;
    cst_options *options = NULL;
    cst_model *model = NULL;
    cst_report *report = NULL;
    cli_outfile outfile;
    const char *method = cli_value(call, "method");
    int code = cli_open_outfile(call, "the model", &outfile);
    if (code == CLI_OK && method && cli_value(call, "preset"))
        code = cli_fail(call, "options --preset and --method: give one of them");
    if (code == CLI_OK && method)
        code = cli_check_method(call, "method", method);
    if (code == CLI_OK)
        code = cli_make_options(call, &options);
    if (code == CLI_OK)
        code = cli_open_pool(call, 0, &pool);
    if (code == CLI_OK)
        code = fit(call, pool, options, &model, &report);
    if (code == CLI_OK)
        code = save(call, model, &outfile);
    if (code == CLI_OK)
        code = cli_check(call, cst_report_set_string(call->context, report, "model", outfile.path));
    code = cli_end_report(call, report, code);
    code = cli_close_outfiles(call, code);
    cst_model_free(call->context, model);
    cst_options_free(call->context, options);
    cst_pool_free(call->context, pool);
    return code;
}

static const cli_option OPTIONS[] = {
    {"output", 'o', "MODEL", "model file to write (normally NAME.cstack)"},
    {"preset", 'p', "NAME",
     "default, compact (at most 60% of the members), best (every member that may lower the loss), "
     "paper (CoRe-Stack+, the paper's method) or prototype (CoRe-Stack)"},
    {"method", 'm', "NAME",
     "fit a method of `corestack compare` instead of a preset, for example hill-climbing or "
     "average+temperature; `corestack compare --list-methods` lists them"},
    {"set", 's', "KEY=VALUE", "change one option of the method; may be repeated"},
    {"seed", 0, "S", "seed of all random choices (0)"},
    {"split", 0, "NAME", "split to fit on (oof)"},
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
               "rows that the fit did not see. The same pool, options and seed give the same model "
               "file for any number of threads.",
    .example = "corestack fit examples/digits/pool.json -o digits.cstack\n"
               "corestack fit oof/ --preset paper --set cka.threshold=0.9 -o oof.cstack --json\n"
               "corestack fit oof/ --method hill-climbing -o climb.cstack",
    .options = OPTIONS,
    .takes_pool = true,
    .lists_options = true,
    .reports_notices = true,
    .run = run,
};
