/*
 * corestack compare: every method on the same rows, with intervals and tests.
 * Beside a fit. Paper: sections "Experimental Setup" and "Results".
 */
#include "comparison.h"

static int run(cli_call *call) {
    cli_comparison c;
    cst_report *report = NULL;
    if (cli_wants_methods(call))
        return cli_list_methods(call);
    int code = cli_open_comparison(call, 5000, &c);
    if (code == CLI_OK)
        code =
            cli_check_comparison(call, &c, cst_compare(call->context, c.pool, &c.options, &report));
    return cli_close_comparison(call, &c, report, code);
}

static const cli_option OPTIONS[] = {
    {"split", 0, "NAME",
     "the split to score: oof (default), nested; or another, with fits on oof; several separated "
     "by "
     "commas give each split and the average"},
    {"methods", 'm', "A,B,...", "methods, with commas between them (all); help lists them"},
    {"list-methods", 0, NULL, "names of the methods and what each computes"},
    {"reference", 0, "METHOD", "what differences and tests are against (default)"},
    {"ood", 0, "NAME,...", "splits of out-of-distribution rows to tell from those scored"},
    {"clean", 0, "NAME",
     "the clean split beside one with conditions, for the difference (the manifest's)"},
    {"reference-errors", 0, "FILE",
     "errors by kind of corruption, as JSON, that mCE is divided by, or `alexnet` "
     "for those of ImageNet-C (the manifest's)"},
    {"head", 0, "N", "head classes have more training samples than this (100)"},
    {"tail", 0, "N", "tail classes have fewer training samples than this (20)"},
    {"resamples", 'r', "N", "bootstrap resamples for 95% intervals (5000; 0: none)"},
    {"seed", 0, "S", "seed of folds, fits and resamples (0)"},
    {"set", 's', "KEY=VALUE", "change one option of every preset compared; may be repeated"},
    {"save", 0, "DIR", "write each method's probabilities to DIR/METHOD.SPLIT.npy"},
    {"csv", 0, NULL, "the table as comma-separated values, in full"},
    {"markdown", 0, NULL, "the table in Markdown"},
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_COMPARE = {
    .name = "compare",
    .summary = "every method on the same rows, with intervals and tests",
    .usage = "compare POOL [--split NAME] [--methods A,B,...] [options]\n"
             "compare --list-methods",
    .details =
        "Scores baselines and presets beside one another. On split oof every score is nested:\n"
        "a row is scored by fits that did not see it. Another split is scored once, by fits on\n"
        "split oof. Differences to the reference are tested in pairs over samples, with p-values\n"
        "adjusted for the number of methods.",
    .example =
        "corestack compare examples/digits/pool.json\n"
        "corestack compare pool.json --split test --methods average,ridge,paper,default\n"
        "corestack compare pool.json --split corrupted --clean test --reference-errors alexnet\n"
        "corestack compare pool.json --split clipart,painting,sketch\n"
        "corestack compare pool.json --markdown > table.md",
    .options = OPTIONS,
    .takes_pool = true,
    .reports_notices = true,
    .run = run,
};
