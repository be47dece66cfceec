/* corestack swa: the running average of checkpoints. Izmailov et al. 2018. corestack swag: a normal
 * distribution over weights, and networks drawn from it. Maddox et al. 2019; docs/weights.md. */
#include "cli.h"

enum { USUAL_RANK = 20, USUAL_SAMPLES = 30, MAX_SAMPLES = 100000 };

/* Begins the report of a command that makes one file of those that the arguments name. */
static int report_files(cli_call *call, const char *command, const char *kind,
                        const cli_outfile *outfile) {
    CLI_TRY(cli_report(call, command));
    CLI_TRY(cli_put(call, "kind", kind));
    if (call->argument_count > 0)
        CLI_DO(cst_report_set_strings(call->context, call->report, "files", call->arguments,
                                      call->argument_count));
    return cli_put(call, "out", outfile->path);
}

static int run_swa(cli_call *call) {
    cli_outfile *outfile = cli_new_outfile(call);
    const char *from = cli_value(call, "from");
    int count = call->argument_count;
    int64_t before = 0; /* checkpoints in `from` */
    CLI_TRY(cli_open_outfile(call, "the average", outfile));
    if (count == 0)
        return cli_fail(call, "name the checkpoints to average; see `corestack swa --help`");
    CLI_TRY(report_files(call, "swa", "average", outfile));
    CLI_TRY(cli_put(call, "from", from));
    if (from) /* now: it may be what is written */
        CLI_DO(cst_weights_made_of(call->context, from, &before, NULL));
    CLI_TRY(cli_put_integer(call, "checkpoints", before + count));
    CLI_DO(cst_swa_average(call->context, call->arguments, count, from, outfile->final));
    return cli_put_notices(call);
}

static int run_fit(cli_call *call) {
    cli_outfile *outfile = cli_new_outfile(call);
    int count = call->argument_count;
    int64_t rank = USUAL_RANK;
    CLI_TRY(cli_open_outfile(call, "the distribution", outfile));
    if (count < 2)
        return cli_fail(call, "name two or more checkpoints in the order of training; see "
                              "`corestack swag fit --help`");
    CLI_TRY(cli_integer(call, "rank", 0, INT32_MAX, &rank));
    /* Of fewer checkpoints than the rank all deviations are kept: with a notice where it was asked
     * for. */
    int64_t kept = rank < count ? rank : count;
    if (!cli_value(call, "rank"))
        rank = kept;
    CLI_TRY(report_files(call, "swag", "fit", outfile));
    CLI_TRY(cli_put_integer(call, "checkpoints", count));
    CLI_TRY(cli_put_integer(call, "rank", kept));
    CLI_DO(cst_swag_fit(call->context, call->arguments, count, (int32_t)rank, outfile->final));
    return cli_put_notices(call);
}

static int run_sample(cli_call *call) {
    cst_context *context = call->context;
    cli_outfile *outfile = cli_new_outfile(call);
    int64_t samples = USUAL_SAMPLES;
    uint64_t seed = 0;
    int64_t rank = -1; /* all columns */
    double scale = 0.5;
    int32_t used = 0;
    CLI_TRY(cli_open_out_folder(call, "the set of samples", "", outfile));
    if (call->argument_count != 1)
        return cli_fail(call, "name one file written by `corestack swag fit`");
    const char *model = call->arguments[0];
    CLI_TRY(cli_integer(call, "count", 1, MAX_SAMPLES, &samples));
    CLI_TRY(cli_seed(call, &seed));
    CLI_TRY(cli_integer(call, "rank", 0, INT32_MAX, &rank));
    CLI_TRY(cli_number(call, "scale", 0, 1e6, &scale));
    CLI_TRY(cli_report(call, "swag"));
    CLI_TRY(cli_put(call, "kind", "sample"));
    CLI_TRY(cli_put(call, "model", model));
    CLI_TRY(cli_put_integer(call, "samples", samples));
    CLI_DO(cst_report_set_number(context, call->report, "scale", scale));
    CLI_TRY(cli_put_integer(call, "seed", (int64_t)seed));
    CLI_TRY(cli_put(call, "out", outfile->path));
    CLI_DO(cst_swag_sample(context, model, (int32_t)samples, scale, seed, (int32_t)rank,
                           outfile->final));
    /* The columns that took part; after the draws, which judge the file. */
    CLI_DO(cst_weights_made_of(context, model, NULL, &used));
    CLI_TRY(cli_put_integer(call, "rank", rank >= 0 && rank < used ? rank : used));
    return cli_put_notices(call);
}

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

static const cli_option SWA_OPTIONS[] = {
    {"output", 'o', "OUT", "safetensors file to write"},
    {"from", 0, "AVERAGE", "earlier average to continue from; OUT may be the same file"},
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_SWA = {
    .name = "swa",
    .summary = "average the checkpoints of one run",
    .usage = "swa A.safetensors B.safetensors ... -o OUT [--from AVERAGE] [options]",
    .details = "Stochastic weight averaging: the mean of checkpoints from the end of a training "
               "run whose learning rate is constant or cyclic. The file records the number of "
               "checkpoints, so an average can be continued. Batch normalisation statistics must "
               "be recomputed by passing training data through the averaged network.",
    .example = "corestack swa epoch150.safetensors epoch151.safetensors -o swa.safetensors\n"
               "corestack swa epoch152.safetensors --from swa.safetensors -o swa.safetensors",
    .options = SWA_OPTIONS,
    .reports_notices = true,
    .run = run_swa,
};
