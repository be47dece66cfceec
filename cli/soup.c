/*
 * corestack soup: one network of the mixed weights of several, by equal parts, by a greedy choice
 * or by a search, the latter two scored by a program of the user's.
 * Beside a pool: what it writes predicts as a member. Paper: Related Work (weight-space fusion).
 */
#include "cli.h"

#include <corestack/report.h>
#include <corestack/soup.h>
#include <stdio.h>
#include <string.h>

static const char WORK_SUFFIX[] = ".work";

/* ---- what the options say ---- */

static int check_files(cli_call *call, int least) {
    if (call->argument_count >= least)
        return CLI_OK;
    return cli_fail(call, "name %s safetensors files to mix; see `corestack %s --help`",
                    least > 1 ? "two or more" : "the", call->command->name);
}

static int read_kind(cli_call *call, cst_soup_config *config) {
    const char *task = cli_value(call, "task");
    const char *values = cli_value(call, "values");
    bool regression = task && strcmp(task, cst_task_name(CST_TASK_REGRESSION)) == 0;
    if (task && !regression && strcmp(task, cst_task_name(CST_TASK_CLASSIFICATION)) != 0)
        return cli_fail(call, "option --task: '%s' is not classification or regression", task);
    config->task = regression ? CST_TASK_REGRESSION : CST_TASK_CLASSIFICATION;
    bool logit = values && strcmp(values, "logit") == 0;
    if (values && !logit && strcmp(values, "probability") != 0)
        return cli_fail(call, "option --values: '%s' is not probability or logit", values);
    if (values && regression)
        return cli_fail(
            call, "option --values is for classification, and the task is regression: remove it");
    config->output = logit ? CST_OUTPUT_LOGIT : CST_OUTPUT_PROBABILITY;
    config->metric = cli_value(call, "metric");
    return CLI_OK;
}

/* Of learned soups. */
static int read_search(cli_call *call, cst_soup_config *config) {
    const char *per = cli_value(call, "per");
    long long evaluations = CST_SOUP_EVALUATIONS;
    long long seed = 0;
    bool tensor = per && strcmp(per, "tensor") == 0;
    if (per && !tensor && strcmp(per, "model") != 0)
        return cli_fail(call, "option --per: '%s' is not model or tensor", per);
    config->scope = tensor ? CST_MIX_TENSOR : CST_MIX_MODEL;
    config->any_sign = cli_flag(call, "signed");
    int code = cli_integer(call, "evaluations", 1, 1000000000, &evaluations);
    if (code == CLI_OK)
        code = cli_integer(call, "seed", 0, CLI_WHOLE_MAX, &seed);
    config->evaluations = evaluations;
    config->seed = (uint64_t)seed;
    return code;
}

/* The work folder: --work, or OUT.work, which goes when the soup is written. */
static int read_work(cli_call *call, const cli_outfile *outfile, char work[CLI_PATH_CHARS],
                     cst_soup_config *config) {
    config->work = cli_value(call, "work");
    if (config->work && !*config->work)
        return cli_fail(call, "option --work: name a folder");
    if (config->work)
        return CLI_OK;
    if (outfile->direct)
        return cli_fail(call,
                        "-o %s is not a regular file, so there is no place for a work folder next "
                        "to it: name one with --work",
                        outfile->path);
    int length = snprintf(work, CLI_PATH_CHARS, "%s%s", outfile->final, WORK_SUFFIX);
    if (length < 0 || length >= CLI_PATH_CHARS)
        return cli_fail(call, "-o: the path is too long");
    config->work = work;
    return CLI_OK;
}

static int read_config(cli_call *call, const cli_outfile *outfile, cli_hook *hook,
                       char work[CLI_PATH_CHARS], cst_soup_config *config) {
    const char *program = cli_value(call, "eval");
    const char *labels = cli_value(call, "labels");
    if (!program || !program[strspn(program, " \t\r\n")])
        return cli_fail(
            call,
            "--eval is required: --eval CMD is run as CMD CANDIDATE.safetensors PREDICTIONS.npy");
    if (!labels || !*labels)
        return cli_fail(
            call, "--labels is required: the labels Y.npy that predictions are scored against");
    *hook = (cli_hook){.call = call, .program = program, .example = call->arguments[0]};
    *config = (cst_soup_config){
        .hook = cli_run_hook, .user = hook, .identity = program, .labels = labels};
    int code = read_kind(call, config);
    if (code == CLI_OK)
        code = read_search(call, config);
    return code == CLI_OK ? read_work(call, outfile, work, config) : code;
}

/* ---- the three soups ---- */

/* Shows the report, frees it and gives the file its name. */
static int finish(cli_call *call, const cli_outfile *outfile, cst_report *report, int code) {
    if (code == CLI_OK)
        code = cli_check(call, cst_report_set_string(call->context, report, "out", outfile->path));
    code = cli_end_report(call, report, code);
    return cli_close_outfile(call, outfile, code);
}

static int run_uniform(cli_call *call) {
    cst_report *report = NULL;
    cli_outfile outfile;
    int code = cli_open_outfile(call, "the soup", &outfile);
    if (code == CLI_OK)
        code = check_files(call, 1);
    if (code == CLI_OK) {
        cli_narrow_permissions(&outfile);
        code = cli_check_written(call, cst_soup_uniform(call->context, call->arguments,
                                                        (int32_t)call->argument_count,
                                                        outfile.write_to, &report));
    }
    return finish(call, &outfile, report, code);
}

typedef cst_status soup_function(cst_context *context, const char *const *paths, int32_t count,
                                 const cst_soup_config *config, const char *out,
                                 cst_report **report);

static int run_scored(cli_call *call, soup_function *cook) {
    char work[CLI_PATH_CHARS];
    cst_soup_config config = {.work = NULL};
    cst_report *report = NULL;
    cli_hook hook;
    cli_outfile outfile;
    int code = cli_open_outfile(call, "the soup", &outfile);
    if (code == CLI_OK)
        code = check_files(call, 2);
    if (code == CLI_OK)
        code = read_config(call, &outfile, &hook, work, &config);
    if (code == CLI_OK) { /* candidates and what is kept are no more open than the soup */
        cli_narrow_permissions(&outfile);
        code = cli_check_written(call,
                                 cook(call->context, call->arguments, (int32_t)call->argument_count,
                                      &config, outfile.write_to, &report));
    }
    if (code == CLI_OK && cli_flag(call, "work"))
        code = cli_check(call, cst_report_set_string(call->context, report, "work", config.work));
    code = finish(call, &outfile, report, code);
    if (code == CLI_OK && !cli_flag(call, "work"))
        code = cli_check(call, cst_soup_clear(call->context, config.work));
    return code;
}

static int run_greedy(cli_call *call) {
    return run_scored(call, cst_soup_greedy);
}

static int run_learned(cli_call *call) {
    return run_scored(call, cst_soup_learned);
}

/* ---- what they take ---- */

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
    {"work", 0, "DIR",
     "folder that stores predictions, so that a stopped run can continue (OUT.work, removed at the "
     "end)"},
    {"metric", 'm', "NAME",
     "top1 (default), nll, brier or ece; for regression rmse (default) or mae"},
    {NULL, 0, NULL, NULL},
};

static const cli_option LEARNED_OPTIONS[] = {
    {"output", 'o', "OUT", "safetensors file to write"},
    {"eval", 'e', "CMD",
     "program that makes predictions, run as CMD CANDIDATE.safetensors PREDICTIONS.npy"},
    {"labels", 'l', "Y.npy", "labels of the rows that CMD predicts"},
    {"task", 0, "TASK", "classification (default) or regression"},
    {"values", 0, "KIND", "what CMD predicts: probability (default) or logit"},
    {"work", 0, "DIR",
     "folder that stores predictions, so that a stopped run can continue (OUT.work, removed at the "
     "end)"},
    {"metric", 'm', "NAME",
     "nll (default), top1, brier or ece; for regression rmse (default) or mae"},
    {"per", 0, "WHAT", "one weight per model (default) or one per tensor of each model"},
    {"signed", 0, NULL, "allow negative weights (they still sum to 1)"},
    {"evaluations", 0, "N", "number of candidates to score, more than the number of files (200)"},
    {"seed", 0, "S", "seed of the search (0)"},
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
        "average does not get worse. Predictions are stored by the content of the candidate, so a "
        "stopped run continues when the same command is run again. The standard output of CMD goes "
        "to standard error; any exit status other than 0 stops the search.",
    .example = "corestack soup greedy ft1.safetensors ft2.safetensors ft3.safetensors \\\n"
               "    --eval 'python3 predict.py' --labels oof_labels.npy -o soup.safetensors",
    .options = GREEDY_OPTIONS,
    .reports_notices = true,
    .run = run_greedy,
};

static const cli_command LEARNED = {
    .name = "soup learned",
    .summary = "search for the mixing weights with the best score",
    .usage = "soup learned A.safetensors B.safetensors ... -o OUT --eval CMD --labels Y.npy "
             "[options]",
    .details = "Scores the average and every file, then searches mixing weights around the average "
               "with an evolution strategy that uses the scores only. The best candidate is "
               "written, so on these rows it is never worse than the average or any single file. "
               "The same files, labels and seed give the same bytes.",
    .example = "corestack soup learned ft1.safetensors ft2.safetensors ft3.safetensors \\\n"
               "    --eval 'python3 predict.py' --labels oof_labels.npy -o soup.safetensors",
    .options = LEARNED_OPTIONS,
    .reports_notices = true,
    .run = run_learned,
};

static const cli_command *const PARTS[] = {&UNIFORM, &GREEDY, &LEARNED, NULL};

const cli_command CLI_SOUP = {
    .name = "soup",
    .summary = "merge the weights of several networks into one network",
    .usage = "soup uniform|greedy|learned A.safetensors B.safetensors ... -o OUT [options]",
    .details =
        "For networks that were fine-tuned from the same starting point. `corestack soup greedy "
        "--help` shows the options of a subcommand; docs/weights.md describes what each subcommand "
        "computes.",
    .example = "corestack soup uniform seed1.safetensors seed2.safetensors -o soup.safetensors",
    .parts = PARTS,
};
