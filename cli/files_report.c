/* The report of a command that makes one file of those that the arguments name: swa, swag. */
#include "cli.h"

#include <corestack/report.h>

int cli_report_files(cli_call *call, const char *command, const char *kind,
                     const cli_outfile *outfile, cst_report **report) {
    cst_context *context = call->context;
    int code = cli_check(call, cst_report_new(context, command, report));
    if (code == CLI_OK)
        code = cli_check(call, cst_report_set_string(context, *report, "kind", kind));
    if (code == CLI_OK && call->argument_count > 0)
        code = cli_check(call, cst_report_set_strings(context, *report, "files", call->arguments,
                                                      call->argument_count));
    if (code == CLI_OK)
        code = cli_check(call, cst_report_set_string(context, *report, "out", outfile->path));
    return code;
}

int cli_end_files(cli_call *call, cst_report *report, int code) {
    if (code == CLI_OK)
        code = cli_report_notices(call, report);
    code = cli_end_report(call, report, code);
    return cli_close_outfiles(call, code);
}
