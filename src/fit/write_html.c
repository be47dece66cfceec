/* The file of a page. docs/report.md. */
#include "data/files/output.h"
#include "report/report.h"

#include <string.h>

static cst_status write(cst_context *context, const cst_report *const *reports, int64_t count,
                        const char *path) {
    cst_output_file *output = NULL;
    char *text = NULL;
    CST_TRY(cst_report_html(context, reports, count, &text));
    cst_status status = cst_output_open(context, &output, path);
    CST_THEN(cst_output_write(context, output, text, strlen(text)));
    cst_free(context, text);
    return cst_output_end(context, output, status);
}

cst_status cst_write_html(cst_context *context, const cst_report *const *reports, int64_t count,
                          const char *path) {
    CST_ENTER(context);
    bool given = reports && path && count > 0 && count <= CST_HTML_REPORTS;
    for (int64_t i = 0; given && i < count; i++)
        given = reports[i] != NULL;
    if (!given)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_write_html: 1 to %d reports and a path are required",
                        CST_HTML_REPORTS);
    return cst_why(context, write(context, reports, count, path));
}
