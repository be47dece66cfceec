/*
 * corestack swag: a normal distribution over weights around the average of checkpoints, and
 * networks drawn from it. Beside a pool: the samples' predictions are members. Maddox et al. 2019;
 * docs/weights.md. Paper: Related Work (weight-space fusion).
 */
#include "cli.h"

#include <corestack/report.h>
#include <corestack/weights.h>

enum { USUAL_RANK = 20, USUAL_SAMPLES = 30, MAX_SAMPLES = 100000 };

/* ---- fit ---- */

static int run_fit(cli_call *call) {
    cst_report *report = NULL;
    cli_outfile outfile;
    long long rank = USUAL_RANK;
    int code = cli_open_outfile(call, "the distribution", &outfile);
    if (code == CLI_OK && call->argument_count < 2)
        code = cli_fail(call, "name two or more checkpoints in the order of training; see "
                              "`corestack swag fit --help`");
    if (code == CLI_OK)
        code = cli_integer(call, "rank", 0, INT32_MAX, &rank);
    /* Of fewer checkpoints than the rank all deviations are kept: with a notice where it was asked
     * for. */
    long long kept = rank < call->argument_count ? rank : call->argument_count;
    if (!cli_value(call, "rank"))
        rank = kept;
    if (code == CLI_OK)
        code = cli_report_files(call, "swag", "fit", &outfile, &report);
    if (code == CLI_OK)
        code = cli_check(call, cst_report_set_integer(call->context, report, "checkpoints",
                                                      call->argument_count));
    if (code == CLI_OK)
        code = cli_check(call, cst_report_set_integer(call->context, report, "rank", kept));
    if (code == CLI_OK) {
        code = cli_check(call,
                         cst_swag_fit(call->context, call->arguments, (int32_t)call->argument_count,
                                      (int32_t)rank, outfile.final));
    }
    return cli_end_files(call, report, code);
}

/* ---- sample ---- */

typedef struct sampling {
    long long samples;
    long long seed;
    long long rank; /* -1: all columns */
    double scale;
} sampling;

static int read_sampling(cli_call *call, sampling *out) {
    *out = (sampling){.samples = USUAL_SAMPLES, .rank = -1, .scale = 0.5};
    int code = cli_integer(call, "count", 1, MAX_SAMPLES, &out->samples);
    if (code == CLI_OK)
        code = cli_integer(call, "seed", 0, CLI_WHOLE_MAX, &out->seed);
    if (code == CLI_OK)
        code = cli_integer(call, "rank", 0, INT32_MAX, &out->rank);
    return code == CLI_OK ? cli_number(call, "scale", 0, 1e6, &out->scale) : code;
}

static int describe(cli_call *call, const sampling *s, const cli_outfile *outfile,
                    cst_report **report) {
    cst_context *context = call->context;
    int code = cli_check(call, cst_report_new(context, "swag", report));
    if (code == CLI_OK)
        code = cli_check(call, cst_report_set_string(context, *report, "kind", "sample"));
    if (code == CLI_OK)
        code =
            cli_check(call, cst_report_set_string(context, *report, "model", call->arguments[0]));
    if (code == CLI_OK)
        code = cli_check(call, cst_report_set_integer(context, *report, "samples", s->samples));
    if (code == CLI_OK)
        code = cli_check(call, cst_report_set_number(context, *report, "scale", s->scale));
    if (code == CLI_OK)
        code = cli_check(call, cst_report_set_integer(context, *report, "seed", s->seed));
    if (code == CLI_OK)
        code = cli_check(call, cst_report_set_string(context, *report, "out", outfile->path));
    return code;
}

/* The columns that took part; after the draws, which judge the file. */
static int report_rank(cli_call *call, const sampling *s, cst_report *report) {
    int32_t rank = 0;
    int code = cli_check(call, cst_weights_made_of(call->context, call->arguments[0], NULL, &rank));
    if (s->rank >= 0 && s->rank < rank)
        rank = (int32_t)s->rank;
    if (code == CLI_OK)
        code = cli_check(call, cst_report_set_integer(call->context, report, "rank", rank));
    return code;
}

static int run_sample(cli_call *call) {
    cst_report *report = NULL;
    cli_outfile outfile;
    sampling s;
    int code = cli_open_out_folder(call, "the set of samples", "", &outfile);
    if (code == CLI_OK && call->argument_count != 1)
        code = cli_fail(call, "name one file written by `corestack swag fit`");
    if (code == CLI_OK)
        code = read_sampling(call, &s);
    if (code == CLI_OK)
        code = describe(call, &s, &outfile, &report);
    if (code == CLI_OK)
        code = cli_check(call, cst_swag_sample(call->context, call->arguments[0],
                                               (int32_t)s.samples, s.scale, (uint64_t)s.seed,
                                               (int32_t)s.rank, outfile.final));
    if (code == CLI_OK)
        code = report_rank(call, &s, report);
    return cli_end_files(call, report, code);
}

/* ---- what they take ---- */

static const cli_option FIT_OPTIONS[] = {
    {"output", 'o', "MODEL", "safetensors file to write"},
    {"rank", 0, "K", "number of last checkpoints whose deviations are kept (20); 0 = none"},
    {NULL, 0, NULL, NULL},
};

static const cli_option SAMPLE_OPTIONS[] = {
    {"output", 'o', "DIR", "folder to write, new or empty"},
    {"count", 'n', "N", "networks to draw (30)"},
    {"scale", 0, "S",
     "factor of the covariance: 0.5 (default) as in the paper (1 with --rank 0); 0 gives the mean"},
    {"rank", 0, "K", "number of last deviations to use (all); 0 = diagonal only"},
    {"seed", 0, "S", "seed of the draws (0)"},
    {NULL, 0, NULL, NULL},
};

static const cli_command FIT = {
    .name = "swag fit",
    .summary = "mean, variance and deviations of checkpoints in one pass",
    .usage = "swag fit A.safetensors B.safetensors ... -o MODEL [options]",
    .details = "Takes checkpoints from the end of a run, in the order of training. Memory use does "
               "not grow with the size or number of checkpoints.",
    .example = "corestack swag fit epoch15*.safetensors -o swag.safetensors",
    .options = FIT_OPTIONS,
    .reports_notices = true,
    .run = run_fit,
};

static const cli_command SAMPLE = {
    .name = "swag sample",
    .summary = "draw networks around the mean",
    .usage = "swag sample MODEL -n N -o DIR [options]",
    .details = "Writes sample_00.safetensors, sample_01.safetensors, ... The same seed gives the "
               "same samples, whatever their number. Batch normalisation statistics must be "
               "recomputed for each sample by passing training data through it.",
    .example = "corestack swag sample swag.safetensors -n 30 --scale 0.5 -o samples",
    .options = SAMPLE_OPTIONS,
    .reports_notices = true,
    .run = run_sample,
};

static const cli_command *const PARTS[] = {&FIT, &SAMPLE, NULL};

const cli_command CLI_SWAG = {
    .name = "swag",
    .summary = "fit a distribution over weights to checkpoints, and draw networks from it",
    .usage = "swag fit A.safetensors B.safetensors ... -o MODEL [options]\n"
             "swag sample MODEL -n N -o DIR [options]",
    .details = "`corestack swag sample --help` shows the options of a subcommand; docs/weights.md "
               "describes what each subcommand computes.",
    .example = "corestack swag fit epoch15*.safetensors -o swag.safetensors\n"
               "corestack swag sample swag.safetensors -n 30 --scale 0.5 -o samples",
    .parts = PARTS,
};
