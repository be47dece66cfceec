/* corestack export: a model in a format of other programs. */
#include "cli.h"

#include <string.h>

/* Fails where --format names none. */
static int check_format(cli_call *call, const char *format) {
    const char *names[8];
    char list[128] = "";
    int count = 0;
    for (; count < 8 && cst_export_format((size_t)count); count++) {
        names[count] = cst_export_format((size_t)count);
        if (format && strcmp(format, names[count]) == 0)
            return CLI_OK;
        (void)strncat(list, count ? ", " : "", sizeof list - strlen(list) - 1);
        (void)strncat(list, names[count], sizeof list - strlen(list) - 1);
    }
    if (!format)
        return cli_fail(call, "--format is required: %s; see `corestack export --help`", list);
    const char *nearest = cli_nearest(format, names, count);
    return cli_fail(call, "there is no format '%s'%s%s%s; use %s", format,
                    nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "",
                    list);
}

static int run(cli_call *call) {
    cli_outfile *outfile = cli_new_outfile(call);
    cst_export how = {.struct_size = sizeof how,
                      .format = cli_value(call, "format"),
                      .name = cli_value(call, "name")};
    int values = 0;
    if (call->argument_count > 1)
        return cli_fail(call, "unexpected argument '%s'", call->arguments[1]);
    CLI_TRY(check_format(call, how.format));
    CLI_TRY(cli_choice(call, "values", "probability|logit", &values));
    how.output = values == 1 ? CST_OUTPUT_LOGIT : CST_OUTPUT_PROBABILITY;
    if (strcmp(how.format, "wasm") == 0)
        CLI_TRY(cli_open_out_folder(call, "the package", "", outfile));
    else
        CLI_TRY(cli_open_outfile(call, "the exported model", outfile));
    CLI_TRY(cli_open_model(call));
    CLI_DO(cst_model_export(call->context, call->model, &how, outfile->final));
    CLI_TRY(cli_report(call, "export"));
    CLI_TRY(cli_put(call, "model", call->arguments[0]));
    CLI_TRY(cli_put(call, "out", outfile->path));
    CLI_TRY(cli_put(call, "format", how.format));
    CLI_TRY(cli_put_integer(call, "members", cst_model_members(call->model)));
    CLI_TRY(cli_put_integer(call, "classes", cst_model_classes(call->model)));
    return cli_put_notices(call);
}

static const cli_option OPTIONS[] = {
    {"format", 'f', "NAME", "onnx, c or wasm"},
    {"output", 'o', "FILE", "file to write; wasm: folder, new or empty"},
    {"name", 0, "PREFIX", "c: what the names of its functions begin with (stack)"},
    {"values", 0, "KIND", "what members give: probability (default) or logit"},
    {NULL, 0, NULL, NULL},
};

const cli_command CLI_EXPORT = {
    .name = "export",
    .summary = "write a model in a format of other programs",
    .usage = "export MODEL --format NAME -o FILE [options]",
    .details =
        "onnx: a graph with one input of members' predictions [rows, classes] for each member and "
        "one output of the same shape, and a second one with the decisions where the model was "
        "fitted for a metric of decisions. It computes what `corestack predict` does.\n"
        "c: one file of C99 that needs libc and libm, with a function PREFIX_predict(members, "
        "rows, "
        "out) that gives the same bits as the library.\n"
        "wasm: a package of npm for Node and browsers, with types, MODEL and the library as "
        "WebAssembly, which `make wasm` builds.\n"
        "onnx and c leave the guard, the monitor and weights without absent members in MODEL.",
    .example = "corestack export digits.cstack --format onnx -o digits.onnx\n"
               "corestack export digits.cstack --format c --name digits -o digits.c\n"
               "corestack export digits.cstack --format wasm -o digits-stack",
    .options = OPTIONS,
    .needs = "model",
    .reports_notices = true,
    .run = run,
};
