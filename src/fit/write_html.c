/* The file of a page. docs/report.md. */
#include "core/base.h"
#include "data/files/output.h"

#include <corestack/report.h>
#include <string.h>

cst_status cst_write_html(cst_context *context, const cst_report *const *reports, int64_t count,
                          const char *path) {
    CST_ENTER(context);
    cst_output_file *output = NULL;
    char *text = NULL;
    if (!path)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_write_html: a path is required");
    CST_TRY(cst_report_html(context, reports, count, &text));
    cst_status status = cst_output_open(context, &output, path);
    CST_THEN(cst_output_write(context, output, text, strlen(text)));
    cst_free(context, text);
    return cst_why(context, cst_output_end(context, output, status));
}
