/* corestack swa: the running average of checkpoints. Izmailov et al. 2018; docs/weights.md. */
#include "cli.h"

#include <corestack/report.h>
#include <corestack/weights.h>

static int run(cli_call *call) {
    cli_outfile *outfile = cli_new_outfile(call);
    const char *from = cli_value(call, "from");
    int count = call->argument_count;
    int64_t before = 0; /* checkpoints in `from` */
    CLI_TRY(cli_open_outfile(call, "the average", outfile));
    if (count == 0)
        return cli_fail(call, "name the checkpoints to average; see `corestack swa --help`");
    CLI_TRY(cli_report_files(call, "swa", "average", outfile));
    CLI_TRY(cli_put(call, "from", from));
    if (from) /* now: it may be what is written */
        CLI_DO(cst_weights_made_of(call->context, from, &before, NULL));
    CLI_TRY(cli_put_integer(call, "checkpoints", before + count));
    CLI_TRY(cli_check(call, cst_swa_average(call->context, call->arguments, (int32_t)count, from,
                                            outfile->final)));
    return cli_put_notices(call);
}

static const cli_option OPTIONS[] = {
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
    .options = OPTIONS,
    .reports_notices = true,
    .run = run,
};
