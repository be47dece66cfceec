/* corestack evaluate: scores of a prediction file, or of a model on a split, beside baselines. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether a file holds predictions: by its content, else by its name; of a pipe by name or labels
 * in the place of a pool. */
static bool holds_predictions(const cli_call *call) {
    const char *path = call->arguments[0];
    if (call->argument_count == 1 && cli_value(call, "labels") && cli_is_stream(path))
        return true;
    static const char *const ends[] = {".npy", ".npz", ".csv", ".tsv", ".csv.gz", ".safetensors"};
    bool named = cli_member(path) > 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        named = named || cli_ends(path, ends[i]);
    return named || cli_is_npy(path);
}

/* The first option that is neither among the words "a|b" nor for every form; or NULL. */
static const char *other_option(const cli_call *call, const char *taken) {
    static const char always[] = "|resamples|seed|csv|markdown|latex|json|threads|memory|color|"
                                 "quiet|verbose|help|";
    for (int i = 0; i < call->given_count; i++) {
        char word[64];
        const char *name = call->given[i].option->name;
        (void)snprintf(word, sizeof word, "|%s|", name);
        if (!strstr(always, word) && !strstr(taken, word))
            return name;
    }
    return NULL;
}

static int score_file(cli_call *call, const cst_evaluate_options *o) {
    if (call->argument_count > 1)
        return cli_fail(call,
                        "%s holds predictions: give no other file, and the labels with --labels",
                        call->arguments[0]);
    if (!cli_value(call, "labels"))
        return cli_fail(call, "%s holds predictions: give the labels with --labels L.npy",
                        call->arguments[0]);
    const char *other =
        other_option(call, "|labels|metric|cost-matrix|metric-command|ids|weights|values|task|"
                           "ignore|layout|classes|allow-outside|class-names|positive|"
                           "id-column|label-column|");
    if (other)
        return cli_fail(
            call, "--%s needs a model and a pool, but %s holds predictions: remove the option",
            other, call->arguments[0]);
    const char *split = "oof"; /* what the one split of a list of files is called */
    CLI_TRY(cli_open_pool(call, 0));
    call->notices_held = false; /* the report holds those of the scoring, not of the reading */
    CLI_DO(cst_pool_load(call->context, call->pool, split));
    call->notices_held = true;
    return cli_check(call, cst_evaluate_member(call->context, call->pool, split, 0, o->metric,
                                               o->resamples, o->seed, &call->report));
}

static int score_model(cli_call *call, cst_evaluate_options *o) {
    CLI_TRY(cli_open_both(call));
    o->split = cli_split(call, "test");
    o->baselines = cli_flag(call, "baselines");
    o->ood = cli_value(call, "ood");
    o->clean = cli_value(call, "clean");
    o->reference_errors = cli_value(call, "reference-errors");
    CLI_TRY(cli_class_limits(call, &o->head_above, &o->tail_below));
    return cli_check(call,
                     cst_evaluate_stack(call->context, call->model, call->pool, o, &call->report));
}

/* Detections: a results file against an annotation file. */
static int score_detections(cli_call *call, const cst_evaluate_options *o) {
    const char *other = other_option(call, "|annotations|against|task|");
    const char *task = cli_value(call, "task");
    if (task && strcmp(task, "detection") != 0)
        return cli_fail(call,
                        "--task %s cannot be combined with --annotations, which scores detections: "
                        "remove one of them",
                        task);
    if (call->argument_count > 1)
        return cli_fail(
            call, "%s holds detections: give no other file, and the annotations with --annotations",
            call->arguments[0]);
    if (other)
        return cli_fail(call, "--%s cannot be combined with --annotations: remove it", other);
    const char *file = call->arguments[0];
    const char *truth = cli_value(call, "annotations");
    const char *against = cli_value(call, "against");
    return cli_check(call,
                     against ? cst_evaluate_detections_against(call->context, file, truth, against,
                                                               o->resamples, o->seed, &call->report)
                             : cst_evaluate_detections(call->context, file, truth, o->resamples,
                                                       o->seed, &call->report));
}

/* --boundary, for maps in files: 0 where it is not given. A model knows its own. */
static int read_boundary(cli_call *call, double *out) {
    const char *text = cli_value(call, "boundary");
    char *end = NULL;
    *out = text ? strtod(text, &end) : 0;
    if (text && (end == text || *end || !(*out >= 1e-4 && *out <= 1e4)))
        return cli_fail(call,
                        "option --boundary: '%s' is not a number from 0.0001 to 10000 (pixels if "
                        "at least 1, else a fraction of the image diagonal)",
                        text);
    return CLI_OK;
}

/* Maps of a segmentation against masks: the kinds of both are in the files. */
static int score_maps(cli_call *call, const cst_evaluate_options *o) {
    const char *other =
        other_option(call, "|labels|task|boundary|values|ignore|layout|classes|allow-outside|"
                           "against|");
    cst_pool_config config;
    double boundary = 0;
    if (other)
        return cli_fail(call, "--%s cannot be used with files of maps: remove it", other);
    CLI_TRY(cli_read_config(call, &config));
    CLI_TRY(read_boundary(call, &boundary));
    return cli_check(call,
                     cst_segmentation_evaluate_file(call->context, call->arguments[0], &config,
                                                    cli_value(call, "against"), boundary,
                                                    o->resamples, o->seed, &call->report));
}

/* Maps are named by their task, with masks; a model has no need of it. */
static bool are_maps(const cli_call *call) {
    const char *task = cli_value(call, "task");
    return task && strcmp(task, "segmentation") == 0 && call->argument_count == 1 &&
           cli_value(call, "labels");
}

static int run(cli_call *call) {
    cst_evaluate_options options = {0};
    CLI_TRY(cli_check_form(call));
    CLI_TRY(cli_resamples(call, &options.resamples));
    CLI_TRY(cli_seed(call, &options.seed));
    CLI_TRY(cli_metric(call, &options.metric));
    if (cli_value(call, "annotations"))
        return score_detections(call, &options);
    if (are_maps(call))
        return score_maps(call, &options);
    if (cli_value(call, "against"))
        return cli_fail(call,
                        "--against needs detections and --annotations GT.json, or maps with "
                        "--labels and --task segmentation; to score other predictions beside a "
                        "stack use compare --with NAME=FILE");
    if (cli_flag(call, "boundary"))
        return cli_fail(call,
                        "--boundary applies to files of maps (--task segmentation, --labels): "
                        "remove it; a model is scored with its own segment.boundary");
    if (holds_predictions(call))
        return score_file(call, &options);
    if (cli_ends(call->arguments[0], ".json"))
        return cli_fail(call,
                        "%s holds detections: give the annotations with --annotations GT.json",
                        call->arguments[0]);
    return score_model(call, &options);
}

static const cli_option OPTIONS[] = {
    {"split", 0, "NAME",
     "split to score (test, or the only one); several splits, separated by commas, are "
     "scored one by one and averaged"},
    {"annotations", 0, "GT.json", "COCO annotations to score a file of detections against"},
    {"against", 0, "OTHER",
     "a second file of detections or maps to compare the first one with, image by image"},
    {"boundary", 0, "D",
     "for files of maps: width of the band along label boundaries, in pixels if at least 1, else "
     "as a fraction of the image diagonal (0.0075)"},
    CLI_METRIC_OPTION,
    CLI_COST_OPTION,
    {"baselines", 'b', NULL,
     "also score the best single model, the average and greedy selection, fitted on split oof, and "
     "test whether the model is better"},
    CLI_SCORE_OPTIONS,
    {"resamples", 'r', "N", "bootstrap resamples for 95% intervals, e.g. 5000 (0 = no intervals)"},
    {"seed", 0, "S", "seed for the resamples (0)"},
    CLI_TABLE_OPTIONS,
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_EVALUATE = {
    .name = "evaluate",
    .summary = "score predictions against labels",
    .usage =
        "evaluate OUT.npy --labels L.npy [options]\n"
        "evaluate DETECTIONS.json --annotations GT.json [--against OTHER.json] [options]\n"
        "evaluate MAPS --labels MASKS --task segmentation --classes C [--against OTHER] [options]\n"
        "evaluate MODEL POOL [--split NAME,...] [--baselines] [--ood NAME,...] [options]",
    .details = "Reports top-1 accuracy, ECE, NLL and Brier score. For "
               "detection it reports the twelve COCO figures; for segmentation mIoU, pixel "
               "accuracy, Dice, boundary error, ECE, NLL and Brier score.\n"
               "A split with conditions adds corruption errors. Training counts in the manifest "
               "add head, mid and tail classes. Groups add the worst group. --ood adds how well "
               "out-of-distribution rows are detected.",
    .example = "corestack evaluate out.npy --labels examples/digits/test_labels.npy\n"
               "corestack evaluate digits.cstack examples/digits/pool.json --baselines -r 5000\n"
               "corestack evaluate stack.cstack pool.json --split corrupted --clean test\n"
               "corestack evaluate stack.cstack pool.json --split clipart,painting,sketch\n"
               "corestack evaluate stack.cstack pool.json --ood svhn,textures",
    .options = OPTIONS,
    .needs = "prediction file or model",
    .takes_pool = true,
    .reports_notices = true,
    .run = run,
};
