/* corestack report: a model on a split as one HTML page; --html of other commands. docs/report.md.
 */
#include "cli.h"

int cli_open_html(cli_call *call) {
    if (!cli_value(call, "html"))
        return CLI_OK;
    call->html = cli_new_outfile(call);
    return cli_open_outfile_of(call, "html", "the page", call->html);
}

/* What the model says of itself, with its name. pool: NULL, or that of the fit perhaps. */
static int add_show(cli_call *call, cst_pool *pool, const char *path) {
    cst_report **show = &call->more[call->more_count];
    cst_status status = cst_show(call->context, call->model, pool, NULL, show);
    if (status == CST_ERROR_MISMATCH) /* the pool has not the split of the fit */
        status = cst_show(call->context, call->model, NULL, NULL, show);
    CLI_DO(status);
    call->more_count++;
    return path ? cli_check(call, cst_report_set_string(call->context, *show, "model", path))
                : CLI_OK;
}

/* A part that not every pool and model has: a failure leaves it out, unless the user stopped it. */
static int add_if(cli_call *call, cst_status status) {
    if (status == CST_OK)
        call->more_count++;
    return status == CST_ERROR_CANCELLED || status == CST_ERROR_MEMORY ? cli_check(call, status)
                                                                       : CLI_OK;
}

int cli_write_html(cli_call *call) {
    const cst_report *all[1 + sizeof call->more / sizeof call->more[0]] = {call->report};
    if (!call->html)
        return CLI_OK;
    if (call->model && call->more_count == 0)
        CLI_TRY(call->monitor ? add_show(call, NULL, call->arguments[0])
                              : add_show(call, call->pool, cli_value(call, "output")));
    for (int i = 0; i < call->more_count; i++)
        all[i + 1] = call->more[i];
    return cli_check(call,
                     cst_write_html(call->context, all, 1 + call->more_count, call->html->final));
}

/* Whether the split looks like the rows of the fit. */
static int add_monitor(cli_call *call, const char *split) {
    cst_status status = cst_monitor_create(call->context, &call->monitor, call->model, NULL);
    if (status == CST_OK)
        status = cst_monitor_batch(call->context, call->monitor, call->pool, split, NULL, NULL);
    if (status == CST_OK)
        status = cst_monitor_report(call->context, call->monitor, &call->more[call->more_count]);
    return add_if(call, status);
}

static int run(cli_call *call) {
    cst_evaluate_options scores = {.resamples = 5000};
    cst_bound_options bounds = {0};
    call->html = cli_new_outfile(call);
    CLI_TRY(cli_open_outfile(call, "the page", call->html));
    CLI_TRY(cli_resamples(call, &scores.resamples));
    CLI_TRY(cli_seed(call, &scores.seed));
    CLI_TRY(cli_open_both(call));
    scores.split = bounds.split = cli_split(call, "test");
    scores.baselines = cst_pool_has_split(call->pool, "oof") != 0;
    bounds.seed = scores.seed;
    call->parts = scores.baselines ? 4 : 3;
    CLI_DO(cst_evaluate_stack(call->context, call->model, call->pool, &scores, &call->report));
    CLI_TRY(add_show(call, call->pool, call->arguments[0]));
    if (scores.baselines)
        CLI_TRY(add_if(call, cst_inspect(call->context, call->pool, "oof", NULL,
                                         &call->more[call->more_count])));
    CLI_TRY(add_if(call, cst_bound(call->context, call->model, call->pool, &bounds,
                                   &call->more[call->more_count])));
    return add_monitor(call, scores.split);
}

static const cli_option OPTIONS[] = {
    {"output", 'o', "FILE", "page to write (normally NAME.html)"},
    {"split", 0, "NAME", "split to score (test, or the only one)"},
    {"resamples", 'r', "N", "bootstrap resamples for the 95% intervals (5000); 0 = no intervals"},
    {"seed", 0, "S", "seed for the resamples (0)"},
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_REPORT = {
    .name = "report",
    .summary = "write a model's scores, members and faults on a split as one HTML page",
    .usage = "report MODEL POOL -o FILE [--split NAME] [options]",
    .details = "Scores the model beside the best single model, the average and greedy selection, "
               "fitted on split oof, and prints what `corestack evaluate --baselines` prints. The "
               "page answers whether the stack is better, which members it has, whether it can be "
               "trusted, what it costs and where it is wrong. It opens in a browser, loads "
               "nothing, and is identical for the same model, pool and options.",
    .example = "corestack report digits.cstack examples/digits/pool.json -o digits.html\n"
               "corestack fit examples/digits/pool.json -o digits.cstack --html fit.html",
    .options = OPTIONS,
    .needs = "model",
    .takes_pool = true,
    .reports_notices = true,
    .run = run,
};
