/* corestack compare: every method on the same rows, with intervals and tests. Paper: "Results". */
#include "comparison.h"

static int run(cli_call *call) {
    return cli_run_comparison(call, 5000, cst_compare, NULL);
}

static const cli_option OPTIONS[] = {
    {"split", 0, "NAME",
     "split to score: oof (default; nested scores), or another split, scored by fits on oof; "
     "several splits, separated by commas, are scored one by one and averaged"},
    {"methods", 'm', "A,B,...",
     "methods to compare, separated by commas (all but compact and best); see --list-methods"},
    {"list-methods", 0, NULL, "list the methods and what each one computes"},
    {"reference", 0, "METHOD", "method that the others are compared with (preset default)"},
    {"ood", 0, "NAME,...", "splits with out-of-distribution rows, for scores of OOD detection"},
    {"clean", 0, "NAME",
     "clean split that a split with conditions is compared with (from the manifest)"},
    {"reference-errors", 0, "FILE",
     "JSON file with the errors per corruption that mCE is divided by, or `alexnet` for the "
     "ImageNet-C reference (from the manifest)"},
    {"head", 0, "N", "classes with more training samples than this are head classes (100)"},
    {"tail", 0, "N", "classes with fewer training samples than this are tail classes (20)"},
    {"splits", 0, "N",
     "repeat with seeds S, S+1, ... and give the mean and standard error of every score (1)"},
    {"holdout", 0, "SHARE",
     "draw this share of split oof at random, leave it out of the fits and score it, for example "
     "0.2; with --splits another one in each repetition"},
    {"resamples", 'r', "N",
     "bootstrap resamples for the 95% intervals (5000; 0 with --splits); 0 = no intervals"},
    {"seed", 0, "S", "seed for folds, fits and resamples (0)"},
    {"set", 's', "KEY=VALUE",
     "change one option in every preset that is compared; may be repeated"},
    {"save", 0, "DIR", "write the probabilities of each method to DIR/METHOD.SPLIT.npy"},
    CLI_TABLE_OPTIONS,
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_COMPARE = {
    .name = "compare",
    .summary = "compare methods on the same rows, with intervals and tests",
    .usage = "compare POOL [--split NAME] [--methods A,B,...] [options]\n"
             "compare --list-methods",
    .details = "Scores baselines and presets side by side. On split oof every score is nested: "
               "each row is scored by fits that did not see it. Any other split is scored by one "
               "fit on split oof. Differences from the reference are tested with paired tests over "
               "samples; p-values are adjusted for the number of methods.",
    .example =
        "corestack compare examples/digits/pool.json\n"
        "corestack compare pool.json --split test --methods average,ridge,paper,default\n"
        "corestack compare pool.json --split corrupted --clean test --reference-errors alexnet\n"
        "corestack compare pool.json --split clipart,painting,sketch\n"
        "corestack compare pool.json --splits 3 --holdout 0.2\n"
        "corestack compare pool.json --markdown > table.md",
    .options = OPTIONS,
    .takes_pool = true,
    .lists_options = true,
    .reports_notices = true,
    .run = run,
};
