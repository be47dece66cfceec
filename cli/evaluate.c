/*
 * corestack evaluate: scores of a prediction file, or of a model on a split, beside baselines.
 * After a fit. Paper: section "Experiments".
 */
#include "cli.h"

#include <corestack/detection.h>

#include <corestack/segmentation.h>
#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text);
    size_t tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* A model is not an array, so the file says itself what it is; a name that ends as predictions do
 * decides for those that cannot be read as either, so that the message speaks of the right thing.
 * Of a pipe it is the name, or labels where a model would have a pool. */
static bool holds_predictions(const cli_call *call) {
    const char *path = call->arguments[0];
    if (call->argument_count == 1 && cli_value(call, "labels") && cli_is_stream(path))
        return true;
    return cli_is_npy(path) || ends_with(path, ".npy") || ends_with(path, ".npz") ||
           ends_with(path, ".csv") || ends_with(path, ".safetensors") || cli_member(path) > 0;
}

/* The first option given that is neither among [count] names nor for every form of the command;
 * NULL where there is none. */
static const char *other_option(const cli_call *call, const char *const *taken, size_t count) {
    static const char *const always[] = {"resamples", "seed", "csv", "markdown"};
    for (int i = 0; i < call->given_count; i++) {
        const char *name = call->given[i].option->name;
        bool known = false;
        for (size_t j = 0; j < count; j++)
            known = known || strcmp(name, taken[j]) == 0;
        for (size_t j = 0; j < sizeof always / sizeof always[0]; j++)
            known = known || strcmp(name, always[j]) == 0;
        for (const cli_option *common = CLI_COMMON_OPTIONS; common->name; common++)
            known = known || strcmp(name, common->name) == 0;
        if (!known)
            return name;
    }
    return NULL;
}

static int score_file(cli_call *call, int32_t resamples, uint64_t seed, cst_report **report) {
    static const char *const taken[] = {"labels", "ids",    "weights", "values",       "task",
                                        "ignore", "layout", "classes", "allow-outside"};
    cst_pool *pool = NULL;
    if (call->argument_count > 1)
        return cli_fail(call, "%s holds predictions: give it alone, with --labels",
                        call->arguments[0]);
    if (!cli_value(call, "labels"))
        return cli_fail(call, "%s holds predictions: give the labels with --labels L.npy",
                        call->arguments[0]);
    const char *other = other_option(call, taken, sizeof taken / sizeof taken[0]);
    if (other)
        return cli_fail(call,
                        "--%s applies to a model and a pool, and %s holds predictions: leave "
                        "it out",
                        other, call->arguments[0]);
    const char *split = "oof"; /* what the one split of a list of files is called */
    int code = cli_open_pool(call, 0, &pool);
    call->notices_held = false; /* the report holds those of the scoring, not of the reading */
    if (code == CLI_OK)
        code = cli_check(call, cst_pool_load(call->context, pool, split));
    call->notices_held = true;
    if (code == CLI_OK)
        code = cli_check(
            call, cst_evaluate_member(call->context, pool, split, 0, resamples, seed, report));
    cst_pool_free(call->context, pool);
    return code;
}

static int score_model(cli_call *call, int32_t resamples, uint64_t seed, cst_report **report) {
    cst_model *model = NULL;
    cst_pool *pool = NULL;
    int code = cli_check(call, cst_model_load(call->context, &model, call->arguments[0]));
    if (code == CLI_OK)
        code = cli_open_pool(call, 1, &pool);
    cst_evaluate_options options = {.split = cli_split(call, 1, "test"),
                                    .baselines = cli_flag(call, "baselines"),
                                    .resamples = resamples,
                                    .seed = seed,
                                    .ood = cli_value(call, "ood"),
                                    .clean = cli_value(call, "clean"),
                                    .reference_errors = cli_value(call, "reference-errors")};
    if (code == CLI_OK)
        code = cli_class_limits(call, &options.head_above, &options.tail_below);
    if (code == CLI_OK)
        code = cli_check(call, cst_evaluate_stack(call->context, model, pool, &options, report));
    cst_pool_free(call->context, pool);
    cst_model_free(call->context, model);
    return code;
}

/* Detections: a results file against an annotation file. */
static int score_detections(cli_call *call, int32_t resamples, uint64_t seed, cst_report **report) {
    static const char *const taken[] = {"annotations", "task"};
    const char *other = other_option(call, taken, sizeof taken / sizeof taken[0]);
    const char *task = cli_value(call, "task");
    if (task && strcmp(task, "detection") != 0)
        return cli_fail(call,
                        "--task %s does not go with --annotations, which score detections: leave "
                        "one of them out",
                        task);
    if (call->argument_count > 1)
        return cli_fail(call, "%s holds detections: give it alone, with --annotations",
                        call->arguments[0]);
    if (other)
        return cli_fail(call, "--%s does not go with --annotations: leave it out", other);
    return cli_check(call, cst_evaluate_detections(call->context, call->arguments[0],
                                                   cli_value(call, "annotations"), resamples, seed,
                                                   report));
}

/* --boundary, for maps in files: 0 where it is not given. A model knows its own. */
static int read_boundary(cli_call *call, double *out) {
    const char *text = cli_value(call, "boundary");
    char *end = NULL;
    *out = text ? strtod(text, &end) : 0;
    if (text && (end == text || *end || !(*out >= 1e-4 && *out <= 1e4)))
        return cli_fail(
            call,
            "option --boundary: '%s' is not a number from 0.0001 to 10000 (pixels from 1 "
            "on, else a share of the diagonal)",
            text);
    return CLI_OK;
}

/* Maps of a segmentation against masks: the kinds of both are in the files. */
static int score_maps(cli_call *call, int32_t resamples, uint64_t seed, cst_report **report) {
    static const char *const taken[] = {"labels", "task",   "boundary", "values",
                                        "ignore", "layout", "classes",  "allow-outside"};
    const char *other = other_option(call, taken, sizeof taken / sizeof taken[0]);
    cst_pool_config config;
    double boundary = 0;
    if (call->argument_count > 1)
        return cli_fail(call, "%s holds maps: give it alone, with --labels", call->arguments[0]);
    if (other)
        return cli_fail(call, "--%s does not go with a file of maps: leave it out", other);
    int code = cli_read_config(call, &config);
    if (code == CLI_OK)
        code = read_boundary(call, &boundary);
    if (code == CLI_OK && !config.labels)
        code = cli_fail(call, "%s holds maps: give the masks with --labels", call->arguments[0]);
    return code == CLI_OK
               ? cli_check(call, cst_segmentation_evaluate_file(call->context, call->arguments[0],
                                                                &config, boundary, resamples, seed,
                                                                report))
               : code;
}

/* Maps are named by their task, with masks; a model has no need of it. */
static bool are_maps(const cli_call *call) {
    const char *task = cli_value(call, "task");
    return task && strcmp(task, "segmentation") == 0 && call->argument_count == 1 &&
           cli_value(call, "labels");
}

static int run(cli_call *call) {
    cst_report *report = NULL;
    long long resamples = 0;
    long long seed = 0;
    if (call->argument_count < 1)
        return cli_fail(call, "no prediction file or model given; see `corestack evaluate --help`");
    int code = cli_check_form(call);
    if (code == CLI_OK)
        code = cli_integer(call, "resamples", 0, 10000000, &resamples);
    if (code == CLI_OK)
        code = cli_integer(call, "seed", 0, CLI_WHOLE_MAX, &seed);
    if (code == CLI_OK && cli_value(call, "annotations"))
        code = score_detections(call, (int32_t)resamples, (uint64_t)seed, &report);
    else if (code == CLI_OK && are_maps(call))
        code = score_maps(call, (int32_t)resamples, (uint64_t)seed, &report);
    else if (code == CLI_OK && cli_flag(call, "boundary"))
        code =
            cli_fail(call, "--boundary applies to maps in files (--task segmentation, --labels): "
                           "leave it out; a model is scored with its own segment.boundary");
    else if (code == CLI_OK && holds_predictions(call))
        code = score_file(call, (int32_t)resamples, (uint64_t)seed, &report);
    else if (code == CLI_OK && ends_with(call->arguments[0], ".json"))
        code =
            cli_fail(call, "%s holds detections: give the annotations with --annotations GT.json",
                     call->arguments[0]);
    else if (code == CLI_OK)
        code = score_model(call, (int32_t)resamples, (uint64_t)seed, &report);
    return cli_end_report(call, report, code);
}

static const cli_option OPTIONS[] = {
    {"split", 0, "NAME",
     "the split to score (test; oof where files are listed); several with commas between, each and "
     "their average"},
    {"annotations", 0, "GT.json", "COCO annotations that a file of detections is scored against"},
    {"boundary", 0, "D",
     "maps in files: width of the band at label boundaries, in pixels from 1 on, else as a share "
     "of the diagonal (0.0075)"},
    {"baselines", 'b', NULL,
     "beside the stack: best single model, average, greedy selection, fitted on split oof"},
    {"ood", 0, "NAME,...", "splits of out-of-distribution rows to tell from those scored"},
    {"clean", 0, "NAME",
     "the clean split beside one with conditions, for the difference (the manifest's)"},
    {"reference-errors", 0, "FILE",
     "errors by kind of corruption, as JSON, that mCE is divided by, or `alexnet` "
     "for those of ImageNet-C (the manifest's)"},
    {"head", 0, "N", "head classes have more training samples than this (100)"},
    {"tail", 0, "N", "tail classes have fewer training samples than this (20)"},
    {"resamples", 'r', "N", "bootstrap resamples for 95% intervals, for example 5000 (0: none)"},
    {"seed", 0, "S", "seed of the resamples (0)"},
    {"csv", 0, NULL, "the table as comma-separated values, in full"},
    {"markdown", 0, NULL, "the table in Markdown"},
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_EVALUATE = {
    .name = "evaluate",
    .summary = "score predictions against labels",
    .usage = "evaluate OUT.npy --labels L.npy [options]\n"
             "evaluate DETECTIONS.json --annotations GT.json [options]\n"
             "evaluate MAPS --labels MASKS --task segmentation --classes C [options]\n"
             "evaluate MODEL POOL [--split NAME,...] [--baselines] [--ood NAME,...] [options]",
    .details =
        "Top-1 accuracy, ECE, NLL and Brier score, each with its definition; of detections the\n"
        "twelve figures of COCO's evaluation; of segmentations mIoU, accuracies, Dice, errors "
        "near\n"
        "boundaries, ECE, NLL and Brier score. A split with conditions adds corruption errors,\n"
        "training counts in the manifest head, mid and tail, groups the worst one, --ood how well\n"
        "other rows are told apart.",
    .example = "corestack evaluate out.npy --labels examples/digits/test_labels.npy\n"
               "corestack evaluate digits.cstack examples/digits/pool.json --baselines -r 5000\n"
               "corestack evaluate stack.cstack pool.json --split corrupted --clean test\n"
               "corestack evaluate stack.cstack pool.json --split clipart,painting,sketch\n"
               "corestack evaluate stack.cstack pool.json --ood svhn,textures",
    .options = OPTIONS,
    .takes_pool = true,
    .reports_notices = true,
    .run = run,
};
