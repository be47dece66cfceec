/* corestack adapt: a model adapted to a few labelled rows of a new distribution; rows to label. */
#include "cli.h"

static int suggest(cli_call *call, const char *split, int64_t count) {
    static const char *const others[] = {"output", "rows",        "row-labels",    "unlabeled",
                                         "metric", "cost-matrix", "metric-command"};
    int64_t *rows = NULL;
    const char **ids = NULL;
    int64_t named = 0;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (cli_value(call, others[i]))
            return cli_fail(call, "--suggest only lists rows: remove %s%s", i == 0 ? "-o" : "--",
                            i == 0 ? "" : others[i]);
    CLI_TAKE(rows, count);
    CLI_TAKE(ids, count);
    CLI_DO(cst_adapt_suggest(call->context, call->model, call->pool, split, count, rows));
    for (int64_t i = 0; i < count; i++) {
        ids[i] = cst_pool_id(call->pool, split, rows[i]);
        named += ids[i] != NULL;
    }
    CLI_TRY(cli_report(call, "suggest"));
    CLI_TRY(cli_put(call, "model", call->arguments[0]));
    CLI_TRY(cli_put(call, "split", split));
    CLI_DO(cst_report_set_integers(call->context, call->report, "rows", rows, count));
    return cli_check(call, cst_report_set_strings(call->context, call->report, "ids", ids,
                                                  named == count ? count : 0));
}

/* --rows and --row-labels. */
static int read_rows(cli_call *call, cst_adapt_options *options) {
    const char *from = cli_value(call, "rows");
    const char *classes = cli_value(call, "row-labels");
    int64_t *rows = NULL;
    int32_t *labels = NULL;
    int64_t count = 0;
    if (classes && !from)
        return cli_fail(call, "--row-labels needs --rows, the rows that they are of");
    if (!from)
        return CLI_OK;
    CLI_DO(cst_read_groups(call->context, from, &rows, &options->row_count));
    cli_keep(call, rows);
    if (classes)
        CLI_DO(cst_read_labels(call->context, classes, &labels, &count));
    cli_keep(call, labels);
    if (classes && count != options->row_count)
        return cli_fail(call, "%s has %lld rows, %s has %lld: both must describe the same rows",
                        from, (long long)options->row_count, classes, (long long)count);
    options->rows = rows;
    options->labels = labels;
    return CLI_OK;
}

static int adapt(cli_call *call, const char *split, const cli_outfile *outfile) {
    cst_context *context = call->context;
    cst_adapt_options options = {.split = split, .unlabeled = cli_value(call, "unlabeled")};
    cst_model *made = NULL;
    CLI_TRY(read_rows(call, &options));
    CLI_TRY(cli_metric(call, &options.metric));
    CLI_DO(cst_adapt(context, call->model, call->pool, &options, &made, &call->report));
    cst_status status = cst_model_save(context, made, outfile->final);
    cst_model_free(context, made);
    CLI_DO(status);
    CLI_TRY(cli_put(call, "model", call->arguments[0]));
    return cli_put(call, "out", outfile->path);
}

static int run(cli_call *call) {
    cli_outfile *outfile = NULL;
    int64_t count = 0;
    if (call->argument_count < 2)
        return cli_fail(call, "give a model and a pool; see `corestack adapt --help`");
    CLI_TRY(cli_integer(call, "suggest", 1, 1000000, &count));
    if (count == 0) {
        outfile = cli_new_outfile(call);
        CLI_TRY(cli_open_outfile(call, "the adapted model", outfile));
    }
    CLI_TRY(cli_open_both(call));
    const char *split = cli_split(call, "new");
    return count > 0 ? suggest(call, split, count) : adapt(call, split, outfile);
}

static const cli_option OPTIONS[] = {
    {"output", 'o', "MODEL2", "adapted model to write (normally NAME.cstack)"},
    {"split", 0, "NAME", "split with rows of the new distribution (new, or the only one)"},
    {"rows", 0, "ROWS.npy", "use only these rows of the split, numbered from 0"},
    {"row-labels", 0, "Y.npy",
     "classes of those rows, numbered from 0, where the split has no labels"},
    {"unlabeled", 0, "NAME",
     "split with more rows of the new distribution, without labels; it may be that of --split"},
    CLI_METRIC_OPTION,
    CLI_COST_OPTION,
    {"suggest", 0, "N", "list N rows of the split to label first, instead of adapting"},
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_ADAPT = {
    .name = "adapt",
    .summary = "adapt a stack to new data with a few labels",
    .usage = "adapt MODEL POOL --split NAME -o MODEL2 [options]\n"
             "adapt MODEL POOL --split NAME --suggest N [options]",
    .details =
        "Learns from 10 to 10,000 labelled rows of the new distribution, starting from the "
        "stack; cross-validation on these rows chooses how far to go. If they give no "
        "reason to change the stack, MODEL2 is the stack as it was, and a notice says so. "
        "Members that the stack left out may come back: the report lists the members that "
        "MODEL2 needs. Classification only.\n"
        "--unlabeled keeps the mean prediction of these rows near the class shares of the fit "
        "rows, if that lowers the cross-validated loss; leave it out if class shares may have "
        "changed.\n"
        "--suggest lists rows that are worth labelling: rows that the members are uncertain "
        "about and that differ from each other, the most useful first. Each line has the "
        "row, numbered from 0, and its id if there is one. Labels are not needed for it.",
    .example = "corestack adapt stack.cstack pool.json --split new --suggest 50\n"
               "corestack adapt stack.cstack pool.json --split new -o adapted.cstack\n"
               "corestack adapt stack.cstack pool.json --rows rows.npy --row-labels y.npy -o "
               "adapted.cstack",
    .options = OPTIONS,
    .takes_pool = true,
    .classification = true,
    .reports_notices = true,
    .run = run,
};
