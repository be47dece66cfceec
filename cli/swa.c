/*
 * corestack swa: the running average of checkpoints.
 * Beside a pool: what it writes predicts as a member. Izmailov et al. 2018; docs/weights.md.
 * Paper: Related Work (weight-space fusion).
 */
#include "cli.h"

#include <corestack/report.h>
#include <corestack/safetensors.h>
#include <corestack/weights.h>

#include <stdlib.h>

long long cli_count_entry(cli_call *call, const char *path, const char *key) {
    cst_safetensors *file = NULL;
    long long count = 0;
    if (cst_safetensors_open(call->context, &file, path) == CST_OK) {
        const char *text = cst_safetensors_metadata(file, key);
        count = text ? strtoll(text, NULL, 10) : 0;
    }
    cst_safetensors_close(call->context, file);
    return count;
}

int cli_report_files(cli_call *call, const char *command, const char *kind,
                     const cli_target *target, cst_report **report) {
    cst_context *context = call->context;
    int code = cli_check(call, cst_report_new(context, command, report));
    if (code == CLI_OK)
        code = cli_check(call, cst_report_set_string(context, *report, "kind", kind));
    if (code == CLI_OK && call->argument_count > 0)
        code = cli_check(call, cst_report_set_strings(context, *report, "files", call->arguments,
                                                      call->argument_count));
    if (code == CLI_OK)
        code = cli_check(call, cst_report_set_string(context, *report, "out", target->path));
    return code;
}

static int run(cli_call *call) {
    cst_report *report = NULL;
    cli_target target;
    const char *from = cli_value(call, "from");
    long long checkpoints = call->argument_count;
    int code = cli_open_target(call, "the average", &target);
    if (code == CLI_OK && call->argument_count == 0)
        code = cli_fail(call, "name the checkpoints to average; see `corestack swa --help`");
    if (code == CLI_OK)
        code = cli_report_files(call, "swa", "average", &target, &report);
    if (code == CLI_OK)
        code = cli_check(call, cst_report_set_string(call->context, report, "from", from));
    if (code == CLI_OK && from) /* now: it may be what is written */
        checkpoints += cli_count_entry(call, from, "corestack.swa.count");
    if (code == CLI_OK)
        code = cli_check(call,
                         cst_report_set_integer(call->context, report, "checkpoints", checkpoints));
    if (code == CLI_OK)
        code =
            cli_check(call, cst_swa_average(call->context, call->arguments,
                                            (int32_t)call->argument_count, from, target.write_to));
    if (code == CLI_OK)
        code = cli_report_notices(call, report);
    if (code == CLI_OK)
        code = cli_print_report(call, report);
    code = cli_close_target(call, &target, code);
    cst_report_free(call->context, report);
    return code;
}

static const cli_option OPTIONS[] = {
    {"output", 'o', "OUT", "the safetensors file to write"},
    {"from", 0, "AVERAGE", "an average made before, to go on with; OUT may be the same file"},
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_SWA = {
    .name = "swa",
    .summary = "the running average of checkpoints of one run",
    .usage = "swa A.safetensors B.safetensors ... -o OUT [--from AVERAGE] [options]",
    .details =
        "Stochastic weight averaging: the mean of checkpoints from the end of a training run\n"
        "whose learning rate is constant or cyclic. An average knows of how many it is, so\n"
        "that it can be continued. Statistics of batch normalisation have to be made anew,\n"
        "by passing training data through the average.",
    .example = "corestack swa epoch150.safetensors epoch151.safetensors -o swa.safetensors\n"
               "corestack swa epoch152.safetensors --from swa.safetensors -o swa.safetensors",
    .options = OPTIONS,
    .reports_notices = true,
    .run = run,
};
