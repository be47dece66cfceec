/* corestack soup: one network with the mean weights of several, all or chosen greedily by a program
 * of the user. Paper: Related Work (weight-space fusion). */
#include "cli.h"

#include <string.h>

static int check_files(cli_call *call, int least) {
    if (call->argument_count >= least)
        return CLI_OK;
    return cli_fail(call, "name %s safetensors files to mix; see `corestack %s --help`",
                    least > 1 ? "two or more" : "the", call->command->name);
}

static int read_config(cli_call *call, cli_hook *hook, cst_soup_config *config) {
    const char *program = cli_value(call, "eval");
    const char *labels = cli_value(call, "labels");
    int task = 0;
    int values = 0;
    if (!program || !program[strspn(program, " \t\r\n")])
        return cli_fail(
            call,
            "--eval is required: --eval CMD is run as CMD CANDIDATE.safetensors PREDICTIONS.npy");
    if (!labels || !*labels)
        return cli_fail(
            call, "--labels is required: the labels Y.npy that predictions are scored against");
    CLI_TRY(cli_choice(call, "task", "classification|regression", &task));
    CLI_TRY(cli_choice(call, "values", "probability|logit", &values));
    if (cli_value(call, "values") && task == 1)
        return cli_fail(
            call, "option --values is for classification, and the task is regression: remove it");
    *hook = (cli_hook){.call = call, .program = program, .example = call->arguments[0]};
    *config = (cst_soup_config){.hook = cli_run_hook,
                                .user = hook,
                                .labels = labels,
                                .task = task == 1 ? CST_TASK_REGRESSION : CST_TASK_CLASSIFICATION,
                                .output = values == 1 ? CST_OUTPUT_LOGIT : CST_OUTPUT_PROBABILITY,
                                .metric = cli_value(call, "metric")};
    return CLI_OK;
}

static int run_soup(cli_call *call, bool greedy) {
    cst_soup_config config = {.hook = NULL};
    cli_hook hook;
    cli_outfile *outfile = cli_new_outfile(call);
    int count = call->argument_count;
    CLI_TRY(cli_open_outfile(call, "the soup", outfile));
    CLI_TRY(check_files(call, greedy ? 2 : 1));
    if (greedy)
        CLI_TRY(read_config(call, &hook, &config)); /* candidates are no more open than the soup */
    CLI_DO(greedy ? cst_soup_greedy(call->context, call->arguments, count, &config, outfile->final,
                                    &call->report)
                  : cst_soup_uniform(call->context, call->arguments, count, outfile->final,
                                     &call->report));
    return cli_put(call, "out", outfile->path);
}

static int run_uniform(cli_call *call) {
    return run_soup(call, false);
}

static int run_greedy(cli_call *call) {
    return run_soup(call, true);
}

static const cli_option UNIFORM_OPTIONS[] = {
    {"output", 'o', "OUT", "safetensors file to write"},
    {NULL, 0, NULL, NULL},
};

static const cli_option GREEDY_OPTIONS[] = {
    {"output", 'o', "OUT", "safetensors file to write"},
    {"eval", 'e', "CMD",
     "program that makes predictions, run as CMD CANDIDATE.safetensors PREDICTIONS.npy"},
    {"labels", 'l', "Y.npy", "labels of the rows that CMD predicts"},
    {"task", 0, "TASK", "classification (default) or regression"},
    {"values", 0, "KIND", "what CMD predicts: probability (default) or logit"},
    {"metric", 'm', "NAME",
     "top1 (default), nll, brier or ece; for regression rmse (default) or mae"},
    {NULL, 0, NULL, NULL},
};

static const cli_command UNIFORM = {
    .name = "soup uniform",
    .summary = "average all files",
    .usage = "soup uniform A.safetensors B.safetensors ... -o OUT [options]",
    .details = "Parameters are averaged in double precision and rounded to the type in the files. "
               "Integers and flags are copied from the first file. Batch normalisation statistics "
               "must be recomputed by passing training data through the soup.",
    .example = "corestack soup uniform seed1.safetensors seed2.safetensors -o soup.safetensors",
    .options = UNIFORM_OPTIONS,
    .reports_notices = true,
    .run = run_uniform,
};

static const cli_command GREEDY = {
    .name = "soup greedy",
    .summary = "average the files that improve the score, starting from the best",
    .usage =
        "soup greedy A.safetensors B.safetensors ... -o OUT --eval CMD --labels Y.npy [options]",
    .details =
        "Scores every file, then tries to add them from best to worst and keeps a file if the "
        "average does not get worse. The standard output of CMD goes to standard error; any exit "
        "status other than 0 stops the search.",
    .example = "corestack soup greedy ft1.safetensors ft2.safetensors ft3.safetensors \\\n"
               "    --eval 'python3 predict.py' --labels oof_labels.npy -o soup.safetensors",
    .options = GREEDY_OPTIONS,
    .reports_notices = true,
    .run = run_greedy,
};

static const cli_command *const PARTS[] = {&UNIFORM, &GREEDY, NULL};

const cli_command CLI_SOUP = {
    .name = "soup",
    .summary = "merge the weights of several networks into one network",
    .usage = "soup uniform|greedy A.safetensors B.safetensors ... -o OUT [options]",
    .details =
        "For networks that were fine-tuned from the same starting point. `corestack soup greedy "
        "--help` shows the options of a subcommand; docs/weights.md describes what each subcommand "
        "computes.",
    .example = "corestack soup uniform seed1.safetensors seed2.safetensors -o soup.safetensors",
    .parts = PARTS,
};
